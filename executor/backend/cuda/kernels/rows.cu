/* Softmax, cross-entropy and their gradients over rows of the last dimension: a warp has a short row, a block a long
 * one. The largest number and the sum of exponentials come from one reading (Milakov and Gimelshein, "Online normalizer
 * calculation for softmax", arXiv 1805.02867). Rows may begin anywhere: see visit(). */
#include "executor/backend/cuda/kernels/functions.cuh"

using namespace redco;

/** max and sum of e^(x - max) of what a thread has seen. */
template <typename T> struct online {
    using R = real_of<T>;
    R max = -static_cast<R>(INFINITY), sum = 0;

    /** From which exponents are counted: without numbers seen, or only infinities, from 0. */
    static __device__ R base(R max) { return max == -static_cast<R>(INFINITY) ? 0 : max; }
    template <int N> __device__ void take(const vec<T, N> &v)
    {
        R largest = widen(v.at[0]);
#pragma unroll
        for (int j = 1; j < N; j++) { largest = real_max(largest, static_cast<R>(widen(v.at[j]))); }
        if (largest > max) {
            sum *= exponential<T>(base(max) - largest);
            max = largest;
        }
        const R from = base(max);
#pragma unroll
        for (int j = 0; j < N; j++) { sum += exponential<T>(static_cast<R>(widen(v.at[j])) - from); }
    }
    template <typename Who> __device__ void join()
    {
        const R all = Who::template over<take_max>(max);
        sum = Who::template over<add_up>(sum * exponential<T>(base(max) - base(all)));
        if (all == -static_cast<R>(INFINITY)) { sum = static_cast<R>(NAN); } /* nothing to choose from */
        max = all;
    }
};

template <typename T, typename Who> __device__ inline online<T> normalise(const T *row, uint64_t start, uint64_t length)
{
    online<T> seen;
    visit<width_of<T>>(start, length, Who::rank(), Who::size(), [&](uint64_t i, auto n) {
        constexpr int N = decltype(n)::value;
        seen.template take<N>(load<N>(row + i));
    });
    seen.template join<Who>();
    return seen;
}

template <typename T, typename Who> __device__ inline void softmax(const redcoi_rows_args &args)
{
    using R = real_of<T>;
    for (uint64_t r = Who::first(); r < args.rows; r += Who::step()) {
        const uint64_t start = r * args.length;
        const T *const x = static_cast<const T *>(args.a) + start;
        T *const y = static_cast<T *>(args.out) + start;
        const online<T> all = normalise<T, Who>(x, start, args.length);
        const R shift = all.max + real_log(all.sum), scale = 1 / all.sum;
        visit<width_of<T>>(start, args.length, Who::rank(), Who::size(), [&](uint64_t i, auto n) {
            constexpr int N = decltype(n)::value;
            vec<T, N> v = load<N>(x + i);
#pragma unroll
            for (int j = 0; j < N; j++) {
                const R value = widen(v.at[j]);
                v.at[j] = narrow<T>(args.logarithm != 0 ? value - shift : exponential<T>(value - all.max) * scale);
            }
            store<N>(y + i, v);
        });
    }
}

template <typename T, typename Who> __device__ inline void softmax_grad(const redcoi_rows_args &args)
{
    using R = real_of<T>;
    const bool logarithm = args.logarithm != 0;
    for (uint64_t r = Who::first(); r < args.rows; r += Who::step()) {
        const uint64_t start = r * args.length;
        const T *const y = static_cast<const T *>(args.a) + start, *const d = static_cast<const T *>(args.b) + start;
        T *const out = static_cast<T *>(args.out) + start;
        R sum = 0;
        visit<width_of<T>>(start, args.length, Who::rank(), Who::size(), [&](uint64_t i, auto n) {
            constexpr int N = decltype(n)::value;
            const vec<T, N> vd = load<N>(d + i), vy = load<N>(y + i);
#pragma unroll
            for (int j = 0; j < N; j++) {
                sum += static_cast<R>(widen(vd.at[j])) * (logarithm ? 1 : static_cast<R>(widen(vy.at[j])));
            }
        });
        sum = Who::template over<add_up>(sum);
        visit<width_of<T>>(start, args.length, Who::rank(), Who::size(), [&](uint64_t i, auto n) {
            constexpr int N = decltype(n)::value;
            const vec<T, N> vd = load<N>(d + i);
            vec<T, N> vy = load<N>(y + i);
#pragma unroll
            for (int j = 0; j < N; j++) {
                const R value = widen(vy.at[j]), slope = widen(vd.at[j]);
                vy.at[j] = narrow<T>(logarithm ? slope - exponential<T>(value) * sum : value * (slope - sum));
            }
            store<N>(out + i, vy);
        });
    }
}

/** Where the row's target is; @return whether it is among the logits. */
__device__ static inline bool target_of(const redcoi_cross_entropy_args &args, uint64_t row, uint64_t *at)
{
    const int32_t index = args.target[row];
    *at = static_cast<uint64_t>(static_cast<int64_t>(index) - args.offset);
    return *at < args.length;
}

__device__ static inline void skip(const redcoi_cross_entropy_args &args, uint64_t row)
{
    redco::skip(args.fault, args.kind, args.target[row], args.first, args.end);
}

template <typename T, typename Who> __device__ inline void cross_entropy(const redcoi_cross_entropy_args &args)
{
    using R = real_of<T>;
    for (uint64_t r = Who::first(); r < args.rows; r += Who::step()) {
        const uint64_t start = r * args.length;
        const T *const x = static_cast<const T *>(args.logits) + start;
        const online<T> all = normalise<T, Who>(x, start, args.length);
        if (Who::rank() != 0) { continue; }
        uint64_t at = 0;
        const bool inside = target_of(args, r, &at);
        const R rest = real_log(all.sum);
        if (!inside) { skip(args, r); }
        static_cast<R *>(args.lse_out)[r] = all.max + rest;
        static_cast<R *>(args.out)[r] = inside ? all.max - static_cast<R>(widen(x[at])) + rest : 0;
    }
}

/** The logits' memory may be the gradient's: each thread writes where it has read. */
template <typename T, typename Who> __device__ inline void cross_entropy_grad(const redcoi_cross_entropy_args &args)
{
    using R = real_of<T>;
    for (uint64_t r = Who::first(); r < args.rows; r += Who::step()) {
        const uint64_t start = r * args.length;
        const T *const x = static_cast<const T *>(args.logits) + start;
        T *const out = static_cast<T *>(args.out) + start;
        const R lse = static_cast<const R *>(args.lse)[r], d = static_cast<const R *>(args.dloss)[r];
        uint64_t at = 0;
        if (!target_of(args, r, &at)) {
            at = UINT64_MAX; /* no element has it */
            if (Who::rank() == 0) { skip(args, r); }
        }
        visit<width_of<T>>(start, args.length, Who::rank(), Who::size(), [&](uint64_t i, auto n) {
            constexpr int N = decltype(n)::value;
            vec<T, N> v = load<N>(x + i);
#pragma unroll
            for (int j = 0; j < N; j++) {
                const R share = d * exponential<T>(static_cast<R>(widen(v.at[j])) - lse);
                v.at[j] = narrow<T>(share - (i + static_cast<uint64_t>(j) == at ? d : 0));
            }
            store<N>(out + i, v);
        });
    }
}

#define ROWS(name, arguments, suffix, T)                                                                               \
    REDCO_KERNEL(redco_k_##name##_##suffix, arguments, REDCOI_ROW_THREADS_MAX)                                         \
    {                                                                                                                  \
        if (args.warps != 0) {                                                                                         \
            name<T, team<true>>(args);                                                                                 \
        } else {                                                                                                       \
            name<T, team<false>>(args);                                                                                \
        }                                                                                                              \
    }
#define OF_TYPE(suffix, T)                                                                                             \
    ROWS(softmax, redcoi_rows_args, suffix, T)                                                                         \
    ROWS(softmax_grad, redcoi_rows_args, suffix, T)                                                                    \
    ROWS(cross_entropy, redcoi_cross_entropy_args, suffix, T)                                                          \
    ROWS(cross_entropy_grad, redcoi_cross_entropy_args, suffix, T)
OF_TYPE(f32, float)
OF_TYPE(f64, double)
OF_TYPE(bf16, bf16)
OF_TYPE(f16, f16)
