/* Reductions over any axes. The last dimension of the input either goes (by rows: a warp or a block adds up a run) or
 * stays (by columns: neighbouring threads have neighbouring columns). Where there are few results, each is made in
 * pieces (workspace), and the pieces are reduced by a second launch of the same kernels. The order in which numbers are
 * added follows from the sizes alone. */
#include "executor/backend/cuda/kernels/device.cuh"

using namespace redco;

__device__ static inline uint64_t offset_of(uint64_t i, uint32_t rank, const redcoi_divisor *dim,
                                            const uint64_t *stride)
{
    uint64_t offset = 0;
    for (uint32_t d = rank; d > 1; d--) {
        uint64_t place = i;
        i = split(place, dim[d - 1]);
        offset += place * stride[d - 1];
    }
    return rank > 0 ? offset + i * stride[0] : 0;
}

template <typename Op, typename In, typename Out> __device__ inline void by_rows(const redcoi_reduce_args &args)
{
    using R = real_of<In>;
    const bool warps = args.warps != 0;
    const uint32_t rank = warps ? team<true>::rank() : team<false>::rank();
    const uint32_t size = warps ? team<true>::size() : team<false>::size();
    const uint64_t step = warps ? team<true>::step() : team<false>::step();
    const In *const in = static_cast<const In *>(args.in);
    const uint64_t items = args.outputs * args.splits.divisor;
    for (uint64_t item = warps ? team<true>::first() : team<false>::first(); item < items; item += step) {
        uint64_t piece = item;
        const uint64_t output = split(piece, args.splits);
        const uint64_t base = offset_of(output, args.kept_rank, args.kept, args.kept_stride);
        const uint64_t first = piece * args.chunk;
        const uint64_t rest = args.length - first, length = rest < args.chunk ? rest : args.chunk;
        R sum = Op::template zero<R>();
        if (args.reduced_rank <= 1) {
            visit<width_of<In>>(base + first, length, rank, size, [&](uint64_t i, auto n) {
                constexpr int N = decltype(n)::value;
                const vec<In, N> x = load<N>(in + base + first + i);
                R part = widen(x.at[0]);
#pragma unroll
                for (int j = 1; j < N; j++) { part = Op::run(part, static_cast<R>(widen(x.at[j]))); }
                sum = Op::run(sum, part);
            });
        } else {
            for (uint64_t i = rank; i < length; i += size) {
                const uint64_t at = offset_of(first + i, args.reduced_rank, args.reduced, args.reduced_stride);
                sum = Op::run(sum, static_cast<R>(widen(in[base + at])));
            }
        }
        sum = warps ? over_warp<Op>(sum) : over_block<Op>(sum);
        if (rank == 0) { static_cast<Out *>(args.out)[item] = narrow<Out>(static_cast<real_of<Out>>(sum)); }
    }
}

/** A block has 32 x N columns; 8 rows of threads share what is added up. */
template <typename Op, typename In, typename Out, int N>
__device__ inline void by_columns(const redcoi_reduce_args &args)
{
    using R = real_of<In>;
    __shared__ R parts[8][32 * N];
    const uint32_t x = threadIdx.x % 32, y = threadIdx.x / 32;
    const uint64_t columns = args.kept[args.kept_rank - 1].divisor, outer = args.outputs / columns;
    const uint64_t items = outer * args.tiles.divisor * args.splits.divisor;
    for (uint64_t item = blockIdx.x; item < items; item += gridDim.x) {
        uint64_t piece = item;
        uint64_t tile = split(piece, args.splits);
        const uint64_t row = split(tile, args.tiles), column = (tile * 32 + x) * N;
        const uint64_t end_wanted = (piece + 1) * args.chunk, end = end_wanted < args.length ? end_wanted : args.length;
        const bool mine = column < columns;
        R sum[N];
#pragma unroll
        for (int j = 0; j < N; j++) { sum[j] = Op::template zero<R>(); }
        if (mine) {
            const In *const in = static_cast<const In *>(args.in) +
                                 offset_of(row, args.kept_rank - 1, args.kept, args.kept_stride) + column;
            const auto take = [&](uint64_t at) {
                const vec<In, N> v = load<N>(in + at);
#pragma unroll
                for (int j = 0; j < N; j++) { sum[j] = Op::run(sum[j], static_cast<R>(widen(v.at[j]))); }
            };
            if (args.reduced_rank <= 1) {
                const uint64_t stride = args.reduced_stride[0];
#pragma unroll 4
                for (uint64_t i = piece * args.chunk + y; i < end; i += 8) { take(i * stride); }
            } else {
#pragma unroll 1
                for (uint64_t i = piece * args.chunk + y; i < end; i += 8) {
                    take(offset_of(i, args.reduced_rank, args.reduced, args.reduced_stride));
                }
            }
        }
#pragma unroll
        for (int j = 0; j < N; j++) { parts[y][j * 32 + x] = sum[j]; }
        __syncthreads();
        if (y == 0 && mine) {
            vec<Out, N> out;
#pragma unroll
            for (int j = 0; j < N; j++) {
                R total = parts[0][j * 32 + x];
                for (int k = 1; k < 8; k++) { total = Op::run(total, parts[k][j * 32 + x]); }
                out.at[j] = narrow<Out>(static_cast<real_of<Out>>(total));
            }
            store<N>(static_cast<Out *>(args.out) + piece * args.outputs + row * columns + column, out);
        }
        __syncthreads();
    }
}

#define REDUCTION(name, Op, from, In, to, Out)                                                                         \
    REDCO_KERNEL(redco_k_##name##_rows_##from##_##to, redcoi_reduce_args, REDCOI_ROW_THREADS_MAX)                      \
    {                                                                                                                  \
        by_rows<Op, In, Out>(args);                                                                                    \
    }                                                                                                                  \
    REDCO_KERNEL(redco_k_##name##_columns_##from##_##to, redcoi_reduce_args, REDCOI_KERNEL_THREADS)                    \
    {                                                                                                                  \
        if (args.wide != 0) {                                                                                          \
            by_columns<Op, In, Out, width_of<In>>(args);                                                               \
        } else {                                                                                                       \
            by_columns<Op, In, Out, 1>(args);                                                                          \
        }                                                                                                              \
    }
/* The first of two stages leaves sums, the second reads them. The largest of several is one of them: no other type. */
REDUCTION(sum, add_up, bf16, bf16, f32, float)
REDUCTION(sum, add_up, f16, f16, f32, float)
REDUCTION(sum, add_up, f32, float, bf16, bf16)
REDUCTION(sum, add_up, f32, float, f16, f16)
#define REDUCTIONS(name, Op)                                                                                           \
    REDUCTION(name, Op, f32, float, f32, float)                                                                        \
    REDUCTION(name, Op, f64, double, f64, double)                                                                      \
    REDUCTION(name, Op, bf16, bf16, bf16, bf16)                                                                        \
    REDUCTION(name, Op, f16, f16, f16, f16)
REDUCTIONS(sum, add_up)
REDUCTIONS(reduce_max, take_max)
REDUCTIONS(reduce_min, take_min)
