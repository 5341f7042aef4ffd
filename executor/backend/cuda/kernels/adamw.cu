/* AdamW: one pass over parameters, moments and gradient, 4 elements a thread. */
#include "costmodel/graph/build_calls.h"
#include "executor/backend/cuda/kernels/functions.cuh"

using namespace redco;

/** The step's numbers, as the kernel uses them. */
template <typename R> struct step {
    R beta1, beta2, rest1, rest2, scale, rate, kept, epsilon, correction1, correction2;

    explicit __device__ step(const R *n)
        : beta1(n[REDCO_ADAMW_BETA1]), beta2(n[REDCO_ADAMW_BETA2]), rest1(n[REDCO_ADAMW_REST1]),
          rest2(n[REDCO_ADAMW_REST2]), scale(n[REDCO_ADAMW_GRADIENT_SCALE]), rate(n[REDCO_ADAMW_RATE]),
          kept(1 - n[REDCO_ADAMW_RATE] * n[REDCO_ADAMW_DECAY]), epsilon(n[REDCO_ADAMW_EPSILON]),
          correction1(n[REDCO_ADAMW_CORRECTION1]), correction2(n[REDCO_ADAMW_CORRECTION2])
    {
    }
    __device__ void run(R &p, R &m, R &v, R gradient) const
    {
        const R g = gradient * scale;
        m = beta1 * m + rest1 * g;
        v = beta2 * v + rest2 * (g * g);
        p = p * kept - rate * (m / correction1 / (real_sqrt(v / correction2) + epsilon));
    }
};

template <typename R, typename G, int N>
__device__ inline void update(const redcoi_adamw_args &args, const step<R> &numbers, uint64_t i)
{
    vec<R, N> p = load<N>(static_cast<const R *>(args.p) + i), m = load<N>(static_cast<const R *>(args.m) + i),
              v = load<N>(static_cast<const R *>(args.v) + i);
    const vec<G, N> g = load<N>(static_cast<const G *>(args.gradient) + i);
#pragma unroll
    for (int j = 0; j < N; j++) { numbers.run(p.at[j], m.at[j], v.at[j], static_cast<R>(widen(g.at[j]))); }
    store<N>(static_cast<R *>(args.next_p) + i, p);
    store<N>(static_cast<R *>(args.next_m) + i, m);
    store<N>(static_cast<R *>(args.next_v) + i, v);
    if (args.rounded == nullptr) { return; }
    vec<G, N> rounded;
#pragma unroll
    for (int j = 0; j < N; j++) { rounded.at[j] = narrow<G>(static_cast<real_of<G>>(p.at[j])); }
    store<N>(static_cast<G *>(args.rounded) + i, rounded);
}

template <typename R, typename G> __device__ inline void adamw(const redcoi_adamw_args &args)
{
    constexpr int N = width_of<R>;
    const step<R> numbers(static_cast<const R *>(args.numbers));
    const uint64_t vectors = args.count / N;
    for (uint64_t v = thread_of_grid(); v < vectors; v += threads_of_grid()) { update<R, G, N>(args, numbers, v * N); }
    const uint64_t i = vectors * N + thread_of_grid();
    if (i < args.count) { update<R, G, 1>(args, numbers, i); }
}

#define ADAMW(name, R, G)                                                                                              \
    REDCO_KERNEL(redco_k_adamw_##name, redcoi_adamw_args, REDCOI_KERNEL_THREADS) { adamw<R, G>(args); }
ADAMW(f32_f32, float, float)
ADAMW(f32_f64, float, double)
ADAMW(f32_bf16, float, bf16)
ADAMW(f32_f16, float, f16)
ADAMW(f64_f32, double, float)
ADAMW(f64_f64, double, double)
ADAMW(f64_bf16, double, bf16)
ADAMW(f64_f16, double, f16)
