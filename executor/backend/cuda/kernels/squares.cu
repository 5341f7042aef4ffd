/* Sums of squares: a block has a piece, 16 bytes a load; the pieces are added up by the kernels of reduce.cu. Reads 2
 * bytes an element of a bf16 gradient once and does two operations on it: memory bounds it, as it bounds reduce.cu. */
#include "executor/backend/cuda/kernels/device.cuh"

using namespace redco;

template <typename In> __device__ inline void squares(const redcoi_squares_args &args)
{
    using R = real_of<In>;
    const In *const in = static_cast<const In *>(args.in);
    for (uint64_t piece = blockIdx.x; piece < args.pieces; piece += gridDim.x) {
        const uint64_t first = piece * args.chunk, rest = args.count - first;
        R sum = 0;
        visit<width_of<In>>(first, rest < args.chunk ? rest : args.chunk, threadIdx.x, blockDim.x,
                            [&](uint64_t i, auto n) {
                                constexpr int N = decltype(n)::value;
                                const vec<In, N> x = load<N>(in + first + i);
                                R part = 0;
#pragma unroll
                                for (int j = 0; j < N; j++) {
                                    const R wide = static_cast<R>(widen(x.at[j]));
                                    part += wide * wide;
                                }
                                sum += part;
                            });
        sum = over_block<add_up>(sum);
        if (threadIdx.x == 0) { static_cast<R *>(args.out)[piece] = sum; }
    }
}

#define SQUARES(name, In)                                                                                              \
    REDCO_KERNEL(redco_k_sum_squares_##name, redcoi_squares_args, REDCOI_KERNEL_THREADS) { squares<In>(args); }
SQUARES(f32, float)
SQUARES(f64, double)
SQUARES(bf16, bf16)
SQUARES(f16, f16)
