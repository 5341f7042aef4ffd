/* Casts between all types: integers saturate, not-a-number becomes 0, what is not 0 is true, and doubles are rounded
 * once, as the host does (host/convert.c). */
#include "executor/backend/cuda/kernels/elementwise.cuh"

using namespace redco;

struct truth {
    uint8_t value;
};

/** A float that rounds to any shorter format as @p value does: cut towards zero, last bit set if inexact. */
static __device__ inline float round_to_odd(double value)
{
    const float nearest = static_cast<float>(value);
    if (isnan(value) || static_cast<double>(nearest) == value) { return nearest; }
    uint32_t bits = bits_of(nearest);
    if (fabs(static_cast<double>(nearest)) > fabs(value)) { bits--; }
    return float_of(bits | 1);
}

static __device__ inline float number(float x) { return x; }
static __device__ inline double number(double x) { return x; }
static __device__ inline float number(bf16 x) { return widen(x); }
static __device__ inline float number(f16 x) { return widen(x); }
static __device__ inline int32_t number(int32_t x) { return x; }
static __device__ inline int32_t number(truth x) { return x.value != 0 ? 1 : 0; }

template <typename To> struct convert;
template <> struct convert<float> {
    template <typename X> static __device__ float run(X x) { return static_cast<float>(x); }
};
template <> struct convert<double> {
    template <typename X> static __device__ double run(X x) { return static_cast<double>(x); }
};
template <typename To> struct convert {
    static __device__ To run(float x) { return narrow<To>(x); }
    static __device__ To run(double x) { return narrow<To>(round_to_odd(x)); }
    static __device__ To run(int32_t x) { return run(static_cast<double>(x)); }
};
template <> struct convert<int32_t> {
    template <typename X> static __device__ int32_t run(X x)
    {
        if (isnan(x)) { return 0; }
        if (x >= static_cast<X>(2147483648.0)) { return INT32_MAX; }
        return x <= static_cast<X>(-2147483648.0) ? INT32_MIN : static_cast<int32_t>(x);
    }
    static __device__ int32_t run(int32_t x) { return x; }
};
template <> struct convert<truth> {
    template <typename X> static __device__ truth run(X x) { return {static_cast<uint8_t>(x != 0 ? 1 : 0)}; }
};

template <typename From, typename To> struct cast {
    using A = From;
    using B = From;
    using C = From;
    using Out = To;
    static constexpr int INPUTS = 1;
    static __device__ To run(From x, double) { return convert<To>::run(number(x)); }
};

#define CAST(from, From, to, To)                                                                                       \
    REDCO_KERNEL(redco_k_cast_##from##_##to, redcoi_elementwise_args, REDCOI_KERNEL_THREADS)                           \
    {                                                                                                                  \
        elementwise<cast<From, To>>(args);                                                                             \
    }
#define CASTS(from, From)                                                                                              \
    CAST(from, From, f32, float)                                                                                       \
    CAST(from, From, f64, double)                                                                                      \
    CAST(from, From, bf16, bf16)                                                                                       \
    CAST(from, From, f16, f16)                                                                                         \
    CAST(from, From, i32, int32_t)                                                                                     \
    CAST(from, From, bool, truth)
CASTS(f32, float)
CASTS(f64, double)
CASTS(bf16, bf16)
CASTS(f16, f16)
CASTS(i32, int32_t)
CASTS(bool, truth)
