/* Functions of real numbers as the host backend has them (host/elementwise.c), for float and double. */
#ifndef REDCO_CUDA_KERNELS_FUNCTIONS_CUH
#define REDCO_CUDA_KERNELS_FUNCTIONS_CUH

#include "executor/backend/cuda/kernels/device.cuh"

namespace redco
{

constexpr double SQRT_HALF = 0.70710678118654752440;
constexpr double INVERSE_SQRT_TWO_PI = 0.39894228040143267794;
constexpr double SQRT_TWO_OVER_PI = 0.79788456080286535588;
constexpr double CUBE_FACTOR = 0.044715;

__device__ inline float real_log(float x) { return logf(x); }
__device__ inline double real_log(double x) { return log(x); }
__device__ inline float real_sqrt(float x) { return sqrtf(x); }
__device__ inline double real_sqrt(double x) { return sqrt(x); }
__device__ inline float real_tanh(float x) { return tanhf(x); }
__device__ inline double real_tanh(double x) { return tanh(x); }
__device__ inline float real_erf(float x) { return erff(x); }
__device__ inline double real_erf(double x) { return erf(x); }
__device__ inline float real_sin(float x) { return sinf(x); }
__device__ inline double real_sin(double x) { return sin(x); }
__device__ inline float real_cos(float x) { return cosf(x); }
__device__ inline double real_cos(double x) { return cos(x); }
__device__ inline float real_abs(float x) { return fabsf(x); }
__device__ inline double real_abs(double x) { return fabs(x); }
__device__ inline float real_max(float x, float y) { return fmaxf(x, y); } /* the other of not-a-number */
__device__ inline double real_max(double x, double y) { return fmax(x, y); }
__device__ inline float real_pow(float x, float y) { return powf(x, y); }
__device__ inline double real_pow(double x, double y) { return pow(x, y); }

template <typename R> __device__ inline R power(R x, R exponent)
{
    if (exponent == 2) { return x * x; }
    if (exponent == 3) { return x * x * x; }
    if (exponent == -1) { return 1 / x; }
    return real_pow(x, exponent);
}

/** Without overflow: e^-|x| over 1 + e^-|x| of negative numbers, 1 over it of others. */
template <typename T> __device__ inline real_of<T> sigmoid(real_of<T> x)
{
    const real_of<T> e = exponential<T>(-real_abs(x));
    return quotient<T>(x < 0 ? e : 1, 1 + e);
}

/** (1 + tanh u) / 2 = sigmoid(2 u). */
template <typename T> __device__ inline real_of<T> gelu_share(real_of<T> x)
{
    using real = real_of<T>;
    return sigmoid<T>(2 * static_cast<real>(SQRT_TWO_OVER_PI) * (x + static_cast<real>(CUBE_FACTOR) * x * x * x));
}

template <typename T> __device__ inline real_of<T> silu_slope(real_of<T> x)
{
    const real_of<T> s = sigmoid<T>(x);
    return s * (1 + x * (1 - s));
}

template <typename T> __device__ inline real_of<T> gelu_slope(real_of<T> x)
{
    using real = real_of<T>;
    const real half = static_cast<real>(0.5);
    return half * (1 + real_erf(x * static_cast<real>(SQRT_HALF))) +
           x * static_cast<real>(INVERSE_SQRT_TWO_PI) * exponential<T>(-half * x * x);
}

template <typename T> __device__ inline real_of<T> gelu_tanh_slope(real_of<T> x)
{
    using real = real_of<T>;
    const real s = gelu_share<T>(x);
    const real slope = static_cast<real>(SQRT_TWO_OVER_PI) * (1 + 3 * static_cast<real>(CUBE_FACTOR) * x * x);
    return s + 2 * x * s * (1 - s) * slope;
}

} // namespace redco

#endif
