/* Elementwise operators of one tensor, in every floating-point type. */
#include "executor/backend/cuda/kernels/elementwise.cuh"
#include "executor/backend/cuda/kernels/functions.cuh"

using namespace redco;

template <typename T, template <typename> class F> struct unary {
    using A = T;
    using B = T;
    using C = T;
    using Out = T;
    static constexpr int INPUTS = 1;
    static __device__ T run(T x, double scalar)
    {
        return narrow<T>(F<T>::run(widen(x), static_cast<real_of<T>>(scalar)));
    }
};

#define FUNCTION(name, expression)                                                                                     \
    template <typename T> struct name##_of {                                                                           \
        using real = real_of<T>;                                                                                       \
        static __device__ real run(real x, [[maybe_unused]] real scalar) { return expression; }                        \
    };                                                                                                                 \
    REDCO_KERNEL(redco_k_##name##_f32, redcoi_elementwise_args, REDCOI_KERNEL_THREADS)                                 \
    {                                                                                                                  \
        elementwise<unary<float, name##_of>>(args);                                                                    \
    }                                                                                                                  \
    REDCO_KERNEL(redco_k_##name##_f64, redcoi_elementwise_args, REDCOI_KERNEL_THREADS)                                 \
    {                                                                                                                  \
        elementwise<unary<double, name##_of>>(args);                                                                   \
    }                                                                                                                  \
    REDCO_KERNEL(redco_k_##name##_bf16, redcoi_elementwise_args, REDCOI_KERNEL_THREADS)                                \
    {                                                                                                                  \
        elementwise<unary<bf16, name##_of>>(args);                                                                     \
    }                                                                                                                  \
    REDCO_KERNEL(redco_k_##name##_f16, redcoi_elementwise_args, REDCOI_KERNEL_THREADS)                                 \
    {                                                                                                                  \
        elementwise<unary<f16, name##_of>>(args);                                                                      \
    }

template <typename T> struct sin_of;
template <typename T> struct cos_of;
template <typename T> constexpr bool redco::is_large<unary<T, sin_of>> = true;
template <typename T> constexpr bool redco::is_large<unary<T, cos_of>> = true;

FUNCTION(neg, -x)
FUNCTION(exp, exponential<T>(x))
FUNCTION(log, real_log(x))
FUNCTION(sqrt, real_sqrt(x))
FUNCTION(rsqrt, 1 / real_sqrt(x))
FUNCTION(pow, power(x, scalar))
FUNCTION(tanh, real_tanh(x))
FUNCTION(erf, real_erf(x))
FUNCTION(sin, real_sin(x))
FUNCTION(cos, real_cos(x))
FUNCTION(sigmoid, sigmoid<T>(x))
FUNCTION(relu, x <= 0 ? 0 : x) /* not-a-number stays */
FUNCTION(silu, x *sigmoid<T>(x))
FUNCTION(gelu, static_cast<real>(0.5) * x * (1 + real_erf(x * static_cast<real>(SQRT_HALF))))
FUNCTION(gelu_tanh, x *gelu_share<T>(x))
