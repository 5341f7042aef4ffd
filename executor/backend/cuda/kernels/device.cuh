/* Shared by own kernels: element types and their rounding, vectors of 16 bytes, division, sums over warps and blocks.
 * The same sources are compiled by a host compiler for tests, which brings its own REDCO_KERNEL. */
#ifndef REDCO_CUDA_KERNELS_DEVICE_CUH
#define REDCO_CUDA_KERNELS_DEVICE_CUH

#include "executor/backend/cuda/kernels/arguments.h"

#include <math.h>
#include <string.h>

#ifndef REDCO_KERNEL
/** A kernel: one structure by value, and the most threads of a block. */
#define REDCO_KERNEL(name, arguments, threads)                                                                         \
    extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ struct arguments args)
/** The block's dynamic shared memory. */
#define REDCO_SHARED(type, name)                                                                                       \
    extern __shared__ __align__(16) unsigned char redco_shared_bytes[];                                                \
    type *const name = reinterpret_cast<type *>(redco_shared_bytes)
#endif

namespace redco
{

struct bf16 {
    uint16_t bits;
};
struct f16 {
    uint16_t bits;
};

/** The type to compute in, and whether its results keep so few digits that fast functions do. */
template <typename T> struct traits {
    using real = float;
    static constexpr bool fast = true;
};
template <> struct traits<float> {
    using real = float;
    static constexpr bool fast = false;
};
template <> struct traits<double> {
    using real = double;
    static constexpr bool fast = false;
};
template <typename T> using real_of = typename traits<T>::real;

/** Elements of T in 16 bytes. */
template <typename T> constexpr int width_of = 16 / static_cast<int>(sizeof(T));

__device__ inline uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

__device__ inline float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Rounding to nearest even: by one instruction on the device; elsewhere by the bits, as the host backend does. */
__device__ inline uint16_t bf16_bits(float x)
{
#ifdef __CUDA_ARCH__
    uint16_t bits;
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const uint32_t bits = bits_of(x);
    if (isnan(x)) { return static_cast<uint16_t>((bits >> 16) | 0x40); }
    return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
#endif
}

__device__ inline uint16_t f16_bits(float x)
{
#ifdef __CUDA_ARCH__
    uint16_t bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
#else
    const uint32_t bits = bits_of(x), sign = (bits >> 16) & 0x8000, magnitude = bits & 0x7fffffff;
    if (magnitude > 0x7f800000) { return static_cast<uint16_t>(sign | 0x7e00); }
    if (magnitude >= 0x47800000) { return static_cast<uint16_t>(sign | 0x7c00); }
    if (magnitude < 0x38800000) { /* multiples of 2^-24, which addition to 0.5 rounds to */
        return static_cast<uint16_t>(sign | (bits_of(float_of(magnitude) + 0.5F) - bits_of(0.5F)));
    }
    const uint32_t rounded = magnitude + 0xfff + ((magnitude >> 13) & 1);
    return static_cast<uint16_t>(sign | ((rounded - 0x38000000) >> 13));
#endif
}

__device__ inline float widen(float x) { return x; }
__device__ inline double widen(double x) { return x; }
__device__ inline float widen(bf16 x) { return float_of(static_cast<uint32_t>(x.bits) << 16); }
__device__ inline float widen(f16 x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#else
    const uint32_t sign = static_cast<uint32_t>(x.bits & 0x8000) << 16, exponent = (x.bits >> 10) & 31,
                   fraction = x.bits & 0x3ff;
    if (exponent == 31) { return float_of(sign | 0x7f800000 | (fraction << 13)); }
    if (exponent == 0) {
        const float small = static_cast<float>(fraction) * 0x1p-24F;
        return sign != 0 ? -small : small;
    }
    return float_of(sign | ((exponent + 112) << 23) | (fraction << 13));
#endif
}

template <typename T> __device__ inline T narrow(real_of<T> x) { return x; }
template <> __device__ inline bf16 narrow<bf16>(float x) { return {bf16_bits(x)}; }
template <> __device__ inline f16 narrow<f16>(float x) { return {f16_bits(x)}; }

/* Functions: exact to a unit or two in the last place, or, for types of 16 bits, as fast as the device has them. */

constexpr float LOG2_E = 1.44269504088896340736F;

/** 2^x by the one instruction that there is, with a relative error of 2^-22; 0 for results below 2^-126. */
__device__ inline float fast_exp2(float x)
{
#ifdef __CUDA_ARCH__
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
#else
    return exp2f(x);
#endif
}

template <typename T> __device__ inline real_of<T> exponential(real_of<T> x)
{
    if constexpr (traits<T>::fast) { return fast_exp2(x * LOG2_E); }
    if constexpr (sizeof(T) == 8) { return exp(x); }
    return expf(static_cast<float>(x));
}

template <typename T> __device__ inline real_of<T> quotient(real_of<T> x, real_of<T> y)
{
    if constexpr (traits<T>::fast) { return __fdividef(x, y); } /* 0 for y beyond 2^126 */
    return x / y;
}

/** Reads or writes @p N elements, as one access where they are 16 bytes or fewer. */
template <typename T, int N> struct alignas(sizeof(T) * N < 16 ? sizeof(T) * N : 16) vec {
    T at[N];
};

template <int N, typename T> __device__ inline vec<T, N> load(const T *from)
{
    return *reinterpret_cast<const vec<T, N> *>(from);
}

template <int N, typename T> __device__ inline void store(T *to, const vec<T, N> &v)
{
    *reinterpret_cast<vec<T, N> *>(to) = v;
}

__device__ inline uint64_t divide(uint64_t n, const redcoi_divisor &d)
{
    return d.factor == 0 ? n : __umul64hi(n, d.factor) >> d.shift;
}

/** @p n becomes the rest. */
__device__ inline uint64_t split(uint64_t &n, const redcoi_divisor &d)
{
    const uint64_t q = divide(n, d);
    n -= q * d.divisor;
    return q;
}

__device__ inline uint64_t thread_of_grid() { return static_cast<uint64_t>(blockIdx.x) * blockDim.x + threadIdx.x; }
__device__ inline uint64_t threads_of_grid() { return static_cast<uint64_t>(gridDim.x) * blockDim.x; }

/** An index that this table has not. One that the host would have refused is reported once, or the launch ends. */
__device__ inline void skip(redcoi_fault *fault, uint32_t kind, int32_t index, int64_t first, int64_t end)
{
    if (index >= first && index < end) { return; }
    if (fault == nullptr) {
        __trap();
    } else if (atomicCAS(&fault->claimed, 0U, 1U) == 0U) {
        fault->index = index;
        fault->first = first;
        fault->end = end;
        __threadfence_system();
        *static_cast<volatile uint32_t *>(&fault->kind) = kind + 1;
    }
}

/* Sums and maxima over a team: a warp or the whole block. All threads get the result, added in one order. */

struct add_up {
    template <typename R> static __device__ R run(R a, R b) { return a + b; }
    template <typename R> static __device__ R zero() { return 0; }
};
struct take_max { /* not-a-number stays */
    template <typename R> static __device__ R run(R a, R b) { return a > b || isnan(a) ? a : b; }
    template <typename R> static __device__ R zero() { return -static_cast<R>(INFINITY); }
};
struct take_min {
    template <typename R> static __device__ R run(R a, R b) { return a < b || isnan(a) ? a : b; }
    template <typename R> static __device__ R zero() { return static_cast<R>(INFINITY); }
};

template <typename Op, typename R> __device__ inline R over_warp(R x)
{
#pragma unroll
    for (int step = 16; step > 0; step /= 2) { x = Op::run(x, __shfl_xor_sync(0xffffffffU, x, step)); }
    return x;
}

template <typename Op, typename R> __device__ inline R over_block(R x)
{
    __shared__ R parts[32];
    const uint32_t lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
    x = over_warp<Op>(x);
    if (warps == 1) { return x; }
    __syncthreads(); /* whoever still reads the parts of the call before */
    if (lane == 0) { parts[warp] = x; }
    __syncthreads();
    return over_warp<Op>(lane < warps ? parts[lane] : Op::template zero<R>());
}

/** The threads that share a row: a warp, or the block. */
template <bool WARP> struct team {
    static __device__ uint32_t rank() { return WARP ? threadIdx.x % 32 : threadIdx.x; }
    static __device__ uint32_t size() { return WARP ? 32 : blockDim.x; }
    static __device__ uint64_t first()
    {
        return WARP ? static_cast<uint64_t>(blockIdx.x) * (blockDim.x / 32) + threadIdx.x / 32 : blockIdx.x;
    }
    static __device__ uint64_t step()
    {
        return WARP ? static_cast<uint64_t>(gridDim.x) * (blockDim.x / 32) : gridDim.x;
    }
    template <typename Op, typename R> static __device__ R over(R x)
    {
        if constexpr (WARP) { return over_warp<Op>(x); }
        return over_block<Op>(x);
    }
};

template <int N> struct width {
    static constexpr int value = N;
};

/** f(i, width) for the elements i of a row that begins at element @p start of a tensor which is aligned: one by one up
 *  to the first 16 bytes and behind the last, in vectors between. */
template <int N, typename F>
__device__ inline void visit(uint64_t start, uint64_t length, uint32_t rank, uint32_t size, F f)
{
    const uint64_t odd = start % N, gap = odd == 0 ? 0 : N - odd, head = gap < length ? gap : length;
    const uint64_t vectors = (length - head) / N, done = head + vectors * N;
    for (uint64_t v = rank; v < vectors; v += size) { f(head + v * N, width<N>{}); }
    if constexpr (N > 1) {
        const uint64_t rest = length - vectors * N;
        for (uint64_t i = rank; i < rest; i += size) { f(i < head ? i : i - head + done, width<1>{}); }
    }
}

} // namespace redco

#endif
