/* Rotary embedding (Su et al., arXiv 2104.09864): pairs of [batch, sequence, heads, size] are turned by the angles of
 * their position; what lies behind the pairs stays. Cosines and sines are shared by the heads: from the cache. */
#include "executor/backend/cuda/kernels/functions.cuh"

using namespace redco;

/** Piece @p i of a head: N pairs with halves, N / 2 with neighbours, or N elements that stay. */
template <typename T, int N>
__device__ inline void turn(const redcoi_rotary_args &args, uint64_t head, uint64_t piece, uint64_t row)
{
    using R = real_of<T>;
    const R sign = args.sign;
    const uint64_t n = args.n, halves = n / N, at = head * args.size;
    const T *const x = static_cast<const T *>(args.x) + at;
    T *const y = static_cast<T *>(args.out) + at;
    const R *const c = static_cast<const R *>(args.cosines) + row * n, *const s =
                                                                           static_cast<const R *>(args.sines) + row * n;
    if (args.interleaved == 0 && piece < halves) {
        const uint64_t i = piece * N;
        vec<T, N> a = load<N>(x + i), b = load<N>(x + n + i);
        const vec<R, N> cosines = load<N>(c + i), sines = load<N>(s + i);
#pragma unroll
        for (int j = 0; j < N; j++) {
            const R u = widen(a.at[j]), v = widen(b.at[j]), cosine = cosines.at[j], sine = sign * sines.at[j];
            a.at[j] = narrow<T>(u * cosine - v * sine);
            b.at[j] = narrow<T>(v * cosine + u * sine);
        }
        store<N>(y + i, a);
        store<N>(y + n + i, b);
    } else if (args.interleaved != 0 && N > 1 && piece < 2 * halves) {
        const uint64_t i = piece * N;
        constexpr int PAIRS = N > 1 ? N / 2 : 1;
        vec<T, N> a = load<N>(x + i);
        const vec<R, PAIRS> cosines = load<PAIRS>(c + i / 2), sines = load<PAIRS>(s + i / 2);
#pragma unroll
        for (int j = 0; j + 1 < N; j += 2) {
            const R u = widen(a.at[j]), v = widen(a.at[j + 1]), cosine = cosines.at[j / 2],
                    sine = sign * sines.at[j / 2];
            a.at[j] = narrow<T>(u * cosine - v * sine);
            a.at[j + 1] = narrow<T>(v * cosine + u * sine);
        }
        store<N>(y + i, a);
    } else if (args.interleaved != 0 && N == 1 && piece < n) {
        const R u = widen(x[2 * piece]), v = widen(x[2 * piece + 1]), cosine = c[piece], sine = sign * s[piece];
        y[2 * piece] = narrow<T>(u * cosine - v * sine);
        y[2 * piece + 1] = narrow<T>(v * cosine + u * sine);
    } else {
        const uint64_t i = (args.interleaved != 0 && N > 1 ? piece : piece + halves) * N;
        store<N>(y + i, load<N>(x + i));
    }
}

template <typename T, int N> __device__ inline void rotary(const redcoi_rotary_args &args)
{
    for (uint64_t i = thread_of_grid(); i < args.count; i += threads_of_grid()) {
        uint64_t piece = i;
        const uint64_t head = split(piece, args.pieces);
        uint64_t row = divide(head, args.heads);
        (void)split(row, args.table_rows);
        turn<T, N>(args, head, piece, row);
    }
}

#define ROTARY(suffix, T)                                                                                              \
    REDCO_KERNEL(redco_k_rotary_##suffix, redcoi_rotary_args, REDCOI_KERNEL_THREADS)                                   \
    {                                                                                                                  \
        if (args.wide != 0) {                                                                                          \
            rotary<T, width_of<T>>(args);                                                                              \
        } else {                                                                                                       \
            rotary<T, 1>(args);                                                                                        \
        }                                                                                                              \
    }
ROTARY(f32, float)
ROTARY(f64, double)
ROTARY(bf16, bf16)
ROTARY(f16, f16)
