/* Moves of elements of 1 to 16 bytes, whatever they mean: the host makes several elements one where strides allow. */
#include "executor/backend/cuda/kernels/device.cuh"

using namespace redco;

struct alignas(16) u128 {
    uint32_t word[4];
};

template <typename T> __device__ inline void move(const redcoi_move_args &args)
{
    for (uint64_t i = thread_of_grid(); i < args.count; i += threads_of_grid()) {
        uint64_t rest = i, from = 0, to = 0;
        for (uint32_t d = args.rank; d > 0; d--) {
            uint64_t place = rest;
            rest = split(place, args.dim[d - 1]);
            from += place * args.in_stride[d - 1];
            to += place * args.out_stride[d - 1];
        }
        static_cast<T *>(args.out)[to] = static_cast<const T *>(args.in)[from];
    }
}

template <typename T> __device__ inline void pad(const redcoi_pad_args &args)
{
    for (uint64_t i = thread_of_grid(); i < args.count; i += threads_of_grid()) {
        uint64_t rest = i, from = 0;
        bool inside = true;
        for (uint32_t d = args.rank; d > 0; d--) {
            uint64_t place = rest;
            rest = split(place, args.dim[d - 1]);
            const uint64_t at = place - args.begin[d - 1]; /* huge in front of begin */
            inside = inside && at < args.size[d - 1];
            from += at * args.in_stride[d - 1];
        }
        T value = {};
        if (inside) { value = static_cast<const T *>(args.in)[from]; }
        static_cast<T *>(args.out)[i] = value;
    }
}

template <typename T> __device__ inline void concat(const redcoi_concat_args &args)
{
    for (uint64_t i = thread_of_grid(); i < args.count; i += threads_of_grid()) {
        uint64_t column = i;
        const uint64_t row = split(column, args.total);
        uint32_t low = 0, high = args.parts; /* the part that holds the column is in [low, high) */
        while (high - low > 1) {
            const uint32_t middle = (low + high) / 2;
            if (column < args.begin[middle]) {
                high = middle;
            } else {
                low = middle;
            }
        }
        const uint64_t first = args.begin[low], size = args.begin[low + 1] - first;
        static_cast<T *>(args.out)[i] = static_cast<const T *>(args.in[low])[row * size + (column - first)];
    }
}

/** Tiles of 32 x 32 through shared memory: both sides in runs of 32 elements. 8 rows at a time. */
template <typename T> __device__ inline void transpose(const redcoi_transpose_args &args)
{
    __shared__ T tile[32][33]; /* the odd length spreads columns over banks */
    const uint32_t x = threadIdx.x % 32, y = threadIdx.x / 32;
    for (uint64_t t = blockIdx.x; t < args.tiles; t += gridDim.x) {
        uint64_t column = t, from = 0, to = 0;
        uint64_t row = split(column, args.column_tiles);
        uint64_t rest = split(row, args.row_tiles);
        for (uint32_t d = args.rank; d > 0; d--) {
            uint64_t place = rest;
            rest = split(place, args.dim[d - 1]);
            from += place * args.in_stride[d - 1];
            to += place * args.out_stride[d - 1];
        }
        row *= 32;
        column *= 32;
        const T *const in = static_cast<const T *>(args.in) + from;
        T *const out = static_cast<T *>(args.out) + to;
#pragma unroll
        for (uint32_t k = 0; k < 32; k += 8) {
            if (row + y + k < args.rows && column + x < args.columns) {
                tile[y + k][x] = in[(row + y + k) * args.in_row + column + x];
            }
        }
        __syncthreads();
#pragma unroll
        for (uint32_t k = 0; k < 32; k += 8) {
            if (column + y + k < args.columns && row + x < args.rows) {
                out[(column + y + k) * args.out_row + row + x] = tile[x][y + k];
            }
        }
        __syncthreads();
    }
}

#define MOVES(bytes, T)                                                                                                \
    REDCO_KERNEL(redco_k_move_##bytes, redcoi_move_args, REDCOI_KERNEL_THREADS) { move<T>(args); }                     \
    REDCO_KERNEL(redco_k_pad_##bytes, redcoi_pad_args, REDCOI_KERNEL_THREADS) { pad<T>(args); }                        \
    REDCO_KERNEL(redco_k_concat_##bytes, redcoi_concat_args, REDCOI_KERNEL_THREADS) { concat<T>(args); }               \
    REDCO_KERNEL(redco_k_transpose_##bytes, redcoi_transpose_args, REDCOI_KERNEL_THREADS) { transpose<T>(args); }
MOVES(1, uint8_t)
MOVES(2, uint16_t)
MOVES(4, uint32_t)
MOVES(8, uint64_t)
MOVES(16, u128)
