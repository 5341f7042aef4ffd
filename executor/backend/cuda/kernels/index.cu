/* Gather, pick, unpick, and scatter_add. The sums of scatter_add come in the order of the indices, whatever runs first:
 * stage 1 orders the indices by row (a block owns as many rows as it has threads, and reads all indices), stage 2 adds
 * up each row's updates in that order and writes it once, zeros where there are none. */
#include "executor/backend/cuda/kernels/device.cuh"

using namespace redco;

struct alignas(16) u128 {
    uint32_t word[4];
};

template <typename Args> __device__ inline bool row_of(const Args &args, uint64_t i, uint64_t *row)
{
    const int32_t index = args.index[i];
    *row = static_cast<uint64_t>(static_cast<int64_t>(index) - args.offset);
    return *row < args.rows;
}

template <typename Args> __device__ inline void skip(const Args &args, uint64_t i)
{
    redco::skip(args.fault, args.kind, args.index[i], args.first, args.end);
}

template <typename T> __device__ inline void gather(const redcoi_index_args &args)
{
    const uint64_t width = args.width.divisor, count = args.count * width;
    for (uint64_t i = thread_of_grid(); i < count; i += threads_of_grid()) {
        uint64_t column = i, row = 0;
        const uint64_t at = split(column, args.width);
        T value = {};
        if (row_of(args, at, &row)) {
            value = static_cast<const T *>(args.in)[row * width + column];
        } else if (column == 0) {
            skip(args, at);
        }
        static_cast<T *>(args.out)[i] = value;
    }
}

template <typename T> __device__ inline void pick(const redcoi_index_args &args)
{
    for (uint64_t i = thread_of_grid(); i < args.count; i += threads_of_grid()) {
        uint64_t column = 0;
        T value = {};
        if (row_of(args, i, &column)) {
            value = static_cast<const T *>(args.in)[i * args.rows + column];
        } else {
            skip(args, i);
        }
        static_cast<T *>(args.out)[i] = value;
    }
}

template <typename T> __device__ inline void unpick(const redcoi_index_args &args)
{
    const uint64_t count = args.count * args.width.divisor;
    for (uint64_t i = thread_of_grid(); i < count; i += threads_of_grid()) {
        uint64_t column = i, wanted = 0;
        const uint64_t at = split(column, args.width);
        T value = {};
        if (!row_of(args, at, &wanted)) {
            if (column == 0) { skip(args, at); }
        } else if (column == wanted) {
            value = static_cast<const T *>(args.in)[at];
        }
        static_cast<T *>(args.out)[i] = value;
    }
}

/** Numbers before a thread's in the block. @param sums of 32 warps. @return and all of them */
__device__ static inline uint32_t before_in_block(uint32_t mine, uint32_t *sums, uint32_t *all)
{
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    uint32_t upto = mine;
#pragma unroll
    for (int step = 1; step < 32; step *= 2) {
        const uint32_t other = __shfl_up_sync(0xffffffffU, upto, step);
        if (lane >= static_cast<uint32_t>(step)) { upto += other; }
    }
    __syncthreads();
    if (lane == 31) { sums[warp] = upto; }
    __syncthreads();
    uint32_t before = 0, total = 0;
    for (uint32_t w = 0; w < warps; w++) {
        before += w < warp ? sums[w] : 0;
        total += sums[w];
    }
    *all = total;
    return before + upto - mine;
}

/** A block's shared memory in stage 1. */
struct order_shared {
    uint32_t counts[REDCOI_KERNEL_THREADS], found_index[REDCOI_KERNEL_THREADS], sums[32];
    uint16_t found_row[REDCOI_KERNEL_THREADS];
};

/** Counts the indices of the group's rows. @return those of lower rows that this thread met */
__device__ static inline uint32_t count_rows(const redcoi_scatter_args &args, uint64_t first, uint32_t *counts)
{
    const uint32_t size = blockDim.x;
    uint32_t lower = 0;
    counts[threadIdx.x] = 0;
    __syncthreads();
    for (uint64_t i = threadIdx.x; i < args.count; i += size) { /* whole numbers: the order does not matter */
        uint64_t row = 0;
        if (!row_of(args, i, &row)) {
            if (first == 0) { skip(args, i); }
        } else if (row < first) {
            lower++;
        } else if (row - first < size) {
            atomicAdd(&counts[row - first], 1U);
        }
    }
    __syncthreads();
    return lower;
}

/** The indices of rows [first, first + threads of a block). */
__device__ static inline void order_group(const redcoi_scatter_args &args, uint64_t first, order_shared &s)
{
    const uint32_t t = threadIdx.x, size = blockDim.x, lower = count_rows(args, first, s.counts);
    uint32_t lowers = 0, all = 0;
    (void)before_in_block(lower, s.sums, &lowers);
    uint32_t next = lowers + before_in_block(s.counts[t], s.sums, &all); /* where this thread's row goes on */
    if (first + t < args.rows) { args.start[first + t] = next; }
    if (first + t == args.rows - 1) { args.start[args.rows] = next + s.counts[t]; }
    for (uint64_t begin = 0; all > 0 && begin < args.count; begin += size) {
        uint64_t row = 0;
        const uint64_t i = begin + t;
        const bool mine = i < args.count && row_of(args, i, &row) && row >= first && row - first < size;
        uint32_t found = 0;
        const uint32_t at = before_in_block(mine ? 1U : 0U, s.sums, &found);
        if (mine) {
            s.found_index[at] = static_cast<uint32_t>(i);
            s.found_row[at] = static_cast<uint16_t>(row - first);
        }
        __syncthreads();
        for (uint32_t k = 0; k < found; k++) {
            if (s.found_row[k] == t) { args.order[next++] = s.found_index[k]; }
        }
    }
    __syncthreads(); /* before the next group counts */
}

REDCO_KERNEL(redco_k_scatter_order, redcoi_scatter_args, REDCOI_KERNEL_THREADS)
{
    __shared__ order_shared shared;
    const uint64_t size = blockDim.x;
    for (uint64_t first = blockIdx.x * size; first < args.rows; first += gridDim.x * size) {
        order_group(args, first, shared);
    }
}

template <typename T, int N> __device__ inline void scatter_sum(const redcoi_scatter_args &args)
{
    using R = real_of<T>;
    const uint64_t pieces = args.rows * args.tiles.divisor;
    for (uint64_t p = blockIdx.x; p < pieces; p += gridDim.x) {
        uint64_t tile = p;
        const uint64_t row = split(tile, args.tiles), column = (tile * blockDim.x + threadIdx.x) * N;
        if (column >= args.width) { continue; }
        const uint32_t end = args.start[row + 1];
        R sum[N] = {};
        for (uint32_t k = args.start[row]; k < end; k++) {
            const vec<T, N> v = load<N>(static_cast<const T *>(args.update) + args.order[k] * args.width + column);
#pragma unroll
            for (int j = 0; j < N; j++) { sum[j] += static_cast<R>(widen(v.at[j])); }
        }
        vec<T, N> out;
#pragma unroll
        for (int j = 0; j < N; j++) { out.at[j] = narrow<T>(sum[j]); }
        store<N>(static_cast<T *>(args.out) + row * args.width + column, out);
    }
}

#define MOVES(bytes, T)                                                                                                \
    REDCO_KERNEL(redco_k_gather_##bytes, redcoi_index_args, REDCOI_KERNEL_THREADS) { gather<T>(args); }
#define ELEMENTS(bytes, T)                                                                                             \
    MOVES(bytes, T)                                                                                                    \
    REDCO_KERNEL(redco_k_pick_##bytes, redcoi_index_args, REDCOI_KERNEL_THREADS) { pick<T>(args); }                    \
    REDCO_KERNEL(redco_k_unpick_##bytes, redcoi_index_args, REDCOI_KERNEL_THREADS) { unpick<T>(args); }
#define SUMS(suffix, T)                                                                                                \
    REDCO_KERNEL(redco_k_scatter_sum_##suffix, redcoi_scatter_args, REDCOI_KERNEL_THREADS)                             \
    {                                                                                                                  \
        if (args.wide != 0) {                                                                                          \
            scatter_sum<T, width_of<T>>(args);                                                                         \
        } else {                                                                                                       \
            scatter_sum<T, 1>(args);                                                                                   \
        }                                                                                                              \
    }
ELEMENTS(1, uint8_t)
ELEMENTS(2, uint16_t)
ELEMENTS(4, uint32_t)
ELEMENTS(8, uint64_t)
MOVES(16, u128)
SUMS(f32, float)
SUMS(f64, double)
SUMS(bf16, bf16)
SUMS(f16, f16)
