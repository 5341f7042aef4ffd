/* Elementwise kernels: how they walk. Each thread has vectors of 16 bytes of the widest operand, two at once, so that
 * 2 x 16 bytes of each input are under way per thread. */
#ifndef REDCO_CUDA_KERNELS_ELEMENTWISE_CUH
#define REDCO_CUDA_KERNELS_ELEMENTWISE_CUH

#include "executor/backend/cuda/kernels/device.cuh"

namespace redco
{

/** Where the row of piece @p v begins in each input, and the piece's place in it. */
template <int INPUTS>
__device__ inline void locate(const redcoi_elementwise_args &args, uint64_t v, uint64_t width, uint64_t *at)
{
    uint64_t i = v, outer[INPUTS] = {};
    if (args.rank > 0) {
        uint64_t row = split(i, args.inner);
        for (uint32_t d = args.rank; d > 0; d--) {
            uint64_t place = row;
            row = split(place, args.dim[d - 1]);
#pragma unroll
            for (int k = 0; k < INPUTS; k++) { outer[k] += place * args.stride[k][d - 1]; }
        }
    }
#pragma unroll
    for (int k = 0; k < INPUTS; k++) { at[k] = outer[k] + i * width * args.step[k]; }
}

/** A dense piece, or one number repeated. */
template <int N, typename T> __device__ inline vec<T, N> piece(const void *in, uint64_t at, uint32_t step)
{
    const T *from = static_cast<const T *>(in) + at;
    if (step != 0) { return load<N>(from); }
    vec<T, N> all;
#pragma unroll
    for (int j = 0; j < N; j++) { all.at[j] = *from; }
    return all;
}

/** Op has the types A, B, C of its inputs and Out, how many INPUTS are read, and run(a, b, c, scalar). */
template <typename Op, int N> struct pieces {
    vec<typename Op::A, N> a;
    vec<typename Op::B, N> b;
    vec<typename Op::C, N> c;

    __device__ void read(const redcoi_elementwise_args &args, uint64_t v)
    {
        uint64_t at[Op::INPUTS];
        locate<Op::INPUTS>(args, v, N, at);
        a = piece<N, typename Op::A>(args.in[0], at[0], args.step[0]);
        if constexpr (Op::INPUTS > 1) { b = piece<N, typename Op::B>(args.in[1], at[1], args.step[1]); }
        if constexpr (Op::INPUTS > 2) { c = piece<N, typename Op::C>(args.in[2], at[2], args.step[2]); }
    }
    __device__ void write(const redcoi_elementwise_args &args, uint64_t v) const
    {
        vec<typename Op::Out, N> out;
#pragma unroll
        for (int j = 0; j < N; j++) {
            if constexpr (Op::INPUTS == 1) {
                out.at[j] = Op::run(a.at[j], args.scalar);
            } else if constexpr (Op::INPUTS == 2) {
                out.at[j] = Op::run(a.at[j], b.at[j]);
            } else {
                out.at[j] = Op::run(a.at[j], b.at[j], c.at[j]);
            }
        }
        store<N>(static_cast<typename Op::Out *>(args.out) + v * N, out);
    }
};

/** Pieces of N elements, two at once. */
template <typename Op, int N> __device__ inline void elementwise_wide(const redcoi_elementwise_args &args)
{
    const uint64_t count = args.count / N, step = threads_of_grid();
    for (uint64_t v = thread_of_grid(); v < count; v += 2 * step) {
        const bool more = v + step < count;
        pieces<Op, N> first, second;
        first.read(args, v);
        if (more) { second.read(args, v + step); }
        first.write(args, v);
        if (more) { second.write(args, v + step); }
    }
}

/** Elements in 16 bytes of the widest operand. */
template <typename A, typename B, typename Out>
constexpr int elementwise_width = 16 / static_cast<int>(sizeof(A) > sizeof(B)
                                                            ? (sizeof(A) > sizeof(Out) ? sizeof(A) : sizeof(Out))
                                                            : (sizeof(B) > sizeof(Out) ? sizeof(B) : sizeof(Out)));

/** Operators whose code is so long that it is not repeated for each element of a vector: never called with args.wide.
 */
template <typename Op> constexpr bool is_large = false;

template <typename Op> __device__ inline void elementwise(const redcoi_elementwise_args &args)
{
    constexpr int N = elementwise_width<typename Op::A, typename Op::B, typename Op::Out>;
    uint64_t i = thread_of_grid();
    if constexpr (!is_large<Op> && N > 1) {
        if (args.wide != 0) {
            elementwise_wide<Op, N>(args);
            i += args.count / N * N; /* behind the last piece: of one row only */
        }
    }
    for (; i < args.count; i += threads_of_grid()) {
        pieces<Op, 1> one;
        one.read(args, i);
        one.write(args, i);
    }
}

} // namespace redco

#endif
