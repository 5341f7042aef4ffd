/* Programs of elementwise operators. What the steps hand to each other stays in registers of the thread, 8 elements of
 * each value; the program lies in constant parameter space, so that all branches are uniform. */
#include "executor/backend/cuda/kernels/functions.cuh"
#include "executor/backend/cuda/kernels/pointwise.h"

using namespace redco;

template <int N> struct block {
    float at[N];
};

enum { REGISTERS = REDCOI_POINTWISE_REGISTERS };

/** Registers cannot be indexed: a uniform branch goes to the one that is meant. */
template <int N> __device__ __forceinline__ block<N> pick(const block<N> (&r)[REGISTERS], uint32_t i)
{
    switch (i) {
    case 0: return r[0];
    case 1: return r[1];
    case 2: return r[2];
    case 3: return r[3];
    default: return r[4];
    }
}

template <int N> __device__ __forceinline__ void put(block<N> (&r)[REGISTERS], uint32_t i, const block<N> &x)
{
    switch (i) {
    case 0: r[0] = x; break;
    case 1: r[1] = x; break;
    case 2: r[2] = x; break;
    case 3: r[3] = x; break;
    default: r[4] = x; break;
    }
}

/** A step's result is not contracted with the next step: it equals the result of an operator of its own. */
__device__ __forceinline__ float alone(float x)
{
#ifdef __CUDA_ARCH__
    asm("" : "+f"(x));
#endif
    return x;
}

#define EACH(expression)                                                                                               \
    _Pragma("unroll") for (int j = 0; j < N; j++)                                                                      \
    {                                                                                                                  \
        const float x = a.at[j];                                                                                       \
        a.at[j] = (expression);                                                                                        \
    }                                                                                                                  \
    break
#define PAIRS(expression)                                                                                              \
    {                                                                                                                  \
        const block<N> second = pick(r, step.b);                                                                       \
        _Pragma("unroll") for (int j = 0; j < N; j++)                                                                  \
        {                                                                                                              \
            const float x = a.at[j], y = second.at[j];                                                                 \
            a.at[j] = (expression);                                                                                    \
        }                                                                                                              \
    }                                                                                                                  \
    break

template <int N> __device__ __forceinline__ void run_step(block<N> (&r)[REGISTERS], const redcoi_pointwise_step &step)
{
    block<N> a = pick(r, step.a);
    switch (step.code) {
    case REDCOI_CODE_CONSTANT:
#pragma unroll
        for (int j = 0; j < N; j++) { a.at[j] = step.scalar; }
        break;
    case REDCOI_CODE_COPY: break;
    case REDCOI_CODE_TRUTH: EACH(x != 0 ? 1.0F : 0.0F);
    case REDCOI_CODE_NEG: EACH(-x);
    case REDCOI_CODE_EXP: EACH(exponential<float>(x));
    case REDCOI_CODE_EXP_FAST: EACH(exponential<bf16>(x));
    case REDCOI_CODE_LOG: EACH(real_log(x));
    case REDCOI_CODE_SQRT: EACH(real_sqrt(x));
    case REDCOI_CODE_RSQRT: EACH(1 / real_sqrt(x));
    case REDCOI_CODE_SQUARE: EACH(x * x);
    case REDCOI_CODE_CUBE: EACH(x * x * x);
    case REDCOI_CODE_RECIPROCAL: EACH(1 / x);
    case REDCOI_CODE_TANH: EACH(real_tanh(x));
    case REDCOI_CODE_SIGMOID: EACH(sigmoid<float>(x));
    case REDCOI_CODE_SIGMOID_FAST: EACH(sigmoid<bf16>(x));
    case REDCOI_CODE_RELU: EACH(x <= 0 ? 0 : x); /* not-a-number stays */
    case REDCOI_CODE_SILU: EACH(x * sigmoid<float>(x));
    case REDCOI_CODE_SILU_FAST: EACH(x * sigmoid<bf16>(x));
    case REDCOI_CODE_GELU_TANH: EACH(x * gelu_share<float>(x));
    case REDCOI_CODE_GELU_TANH_FAST: EACH(x * gelu_share<bf16>(x));
    case REDCOI_CODE_NOT: EACH(x == 0 ? 1.0F : 0.0F);
    case REDCOI_CODE_SILU_GRAD: PAIRS(y * silu_slope<float>(x));
    case REDCOI_CODE_SILU_GRAD_FAST: PAIRS(y * silu_slope<bf16>(x));
    case REDCOI_CODE_GELU_TANH_GRAD: PAIRS(y * gelu_tanh_slope<float>(x));
    case REDCOI_CODE_GELU_TANH_GRAD_FAST: PAIRS(y * gelu_tanh_slope<bf16>(x));
    case REDCOI_CODE_ADD: PAIRS(x + y);
    case REDCOI_CODE_SUB: PAIRS(x - y);
    case REDCOI_CODE_MUL: PAIRS(x * y);
    case REDCOI_CODE_DIV: PAIRS(x / y);
    case REDCOI_CODE_MAX: PAIRS(x >= y || isnan(x) ? x : y);
    case REDCOI_CODE_MIN: PAIRS(x <= y || isnan(x) ? x : y);
    case REDCOI_CODE_EQ: PAIRS(x == y ? 1.0F : 0.0F);
    case REDCOI_CODE_LT: PAIRS(x < y ? 1.0F : 0.0F);
    case REDCOI_CODE_LE: PAIRS(x <= y ? 1.0F : 0.0F);
    case REDCOI_CODE_AND: PAIRS(x != 0 && y != 0 ? 1.0F : 0.0F);
    case REDCOI_CODE_OR: PAIRS(x != 0 || y != 0 ? 1.0F : 0.0F);
    default: {
        const block<N> yes = pick(r, step.b), no = pick(r, step.c);
#pragma unroll
        for (int j = 0; j < N; j++) { a.at[j] = a.at[j] != 0 ? yes.at[j] : no.at[j]; }
        break;
    }
    }
#pragma unroll
    for (int j = 0; j < N; j++) { a.at[j] = alone(a.at[j]); }
    if (step.round == REDCOI_POINTWISE_BF16) {
#pragma unroll
        for (int j = 0; j < N; j++) { a.at[j] = widen(narrow<bf16>(a.at[j])); }
    } else if (step.round == REDCOI_POINTWISE_F16) {
#pragma unroll
        for (int j = 0; j < N; j++) { a.at[j] = widen(narrow<f16>(a.at[j])); }
    }
    put(r, step.to, a);
}

struct truth {
    uint8_t value;
};
static __device__ inline float real_number(float x) { return x; }
static __device__ inline float real_number(bf16 x) { return widen(x); }
static __device__ inline float real_number(f16 x) { return widen(x); }
static __device__ inline float real_number(truth x) { return x.value != 0 ? 1.0F : 0.0F; }
template <typename T> static __device__ inline T stored(float x) { return narrow<T>(x); }
template <> __device__ inline truth stored<truth>(float x) { return {static_cast<uint8_t>(x != 0 ? 1 : 0)}; }

/** A piece as it lies in memory, in the first bytes of @p x: all inputs are asked for before the first is looked at. */
template <int N, typename T>
__device__ __forceinline__ void ask_for(block<N> &x, const void *in, uint64_t at, bool dense)
{
    const T *const from = static_cast<const T *>(in) + at;
    if (dense) {
        const vec<T, N> all = load<N>(from);
        memcpy(&x, &all, sizeof all);
    } else {
        const T one = *from;
        memcpy(&x, &one, sizeof one);
    }
}

template <int N, typename T> __device__ __forceinline__ void take(block<N> &x, bool dense)
{
    vec<T, N> all;
    if (dense) {
        memcpy(&all, &x, sizeof all);
#pragma unroll
        for (int j = 0; j < N; j++) { x.at[j] = real_number(all.at[j]); }
    } else {
        memcpy(&all.at[0], &x, sizeof all.at[0]);
        const float one = real_number(all.at[0]);
#pragma unroll
        for (int j = 0; j < N; j++) { x.at[j] = one; }
    }
}

template <int N>
__device__ __forceinline__ void ask_for(block<N> &x, uint32_t type, const void *in, uint64_t at, bool dense)
{
    switch (type) {
    case REDCOI_POINTWISE_F32: ask_for<N, float>(x, in, at, dense); break;
    case REDCOI_POINTWISE_BOOL: ask_for<N, truth>(x, in, at, dense); break;
    default: ask_for<N, bf16>(x, in, at, dense); break; /* or f16 */
    }
}

template <int N> __device__ __forceinline__ void take(block<N> &x, uint32_t type, bool dense)
{
    switch (type) {
    case REDCOI_POINTWISE_F32: take<N, float>(x, dense); break;
    case REDCOI_POINTWISE_BF16: take<N, bf16>(x, dense); break;
    case REDCOI_POINTWISE_F16: take<N, f16>(x, dense); break;
    default: take<N, truth>(x, dense); break;
    }
}

template <int N, typename T> __device__ __forceinline__ void write_as(void *out, uint64_t at, const block<N> &x)
{
    vec<T, N> v;
#pragma unroll
    for (int j = 0; j < N; j++) { v.at[j] = stored<T>(x.at[j]); }
    store<N>(static_cast<T *>(out) + at, v);
}

template <int N> __device__ __forceinline__ void write(void *out, uint32_t type, uint64_t at, const block<N> &x)
{
    switch (type) {
    case REDCOI_POINTWISE_F32: write_as<N, float>(out, at, x); break;
    case REDCOI_POINTWISE_BF16: write_as<N, bf16>(out, at, x); break;
    case REDCOI_POINTWISE_F16: write_as<N, f16>(out, at, x); break;
    default: write_as<N, truth>(out, at, x); break;
    }
}

/** Where piece @p v of N elements lies in each input. */
template <int N, uint32_t INPUTS>
__device__ __forceinline__ void locate(const redcoi_pointwise_args &args, uint64_t v, uint64_t (&at)[INPUTS])
{
    uint64_t i = v;
#pragma unroll
    for (uint32_t k = 0; k < INPUTS; k++) { at[k] = 0; }
    if (args.rank > 0) {
        uint64_t row = split(i, args.inner);
        for (uint32_t d = args.rank; d > 0; d--) {
            uint64_t place = row;
            row = split(place, args.dim[d - 1]);
#pragma unroll
            for (uint32_t k = 0; k < INPUTS; k++) { at[k] += place * args.stride[k][d - 1]; }
        }
    }
#pragma unroll
    for (uint32_t k = 0; k < INPUTS; k++) { at[k] += i * N * args.step_of[k]; }
}

/** Inputs are read before anything is written: a result may lie over one. */
template <int N> __device__ __forceinline__ void run_piece(const redcoi_pointwise_args &args, uint64_t v)
{
    block<N> r[REGISTERS];
    uint64_t at[REGISTERS];
    locate<N>(args, v, at);
#pragma unroll
    for (uint32_t k = 0; k < REGISTERS; k++) {
        if (k < args.inputs) { ask_for(r[k], args.in_type[k], args.in[k], at[k], args.step_of[k] != 0); }
    }
#pragma unroll
    for (uint32_t k = 0; k < REGISTERS; k++) {
        if (k < args.inputs) { take(r[k], args.in_type[k], args.step_of[k] != 0); }
    }
#pragma unroll 1
    for (uint32_t s = 0; s < args.steps; s++) { run_step(r, args.step[s]); }
#pragma unroll
    for (uint32_t k = 0; k < REDCOI_POINTWISE_OUTPUTS; k++) {
        if (k < args.outputs) { write<N>(args.out[k], args.out_type[k], v * N, pick(r, args.out_register[k])); }
    }
}

REDCO_KERNEL(redco_k_pointwise, redcoi_pointwise_args, 2 * REDCOI_KERNEL_THREADS)
{
    const uint64_t step = threads_of_grid();
    for (uint64_t v = thread_of_grid(); v < args.count / REDCOI_POINTWISE_WIDTH; v += step) {
        run_piece<REDCOI_POINTWISE_WIDTH>(args, v);
    }
}

/** Rows that are not whole vectors, and what is behind the last vector. */
REDCO_KERNEL(redco_k_pointwise_narrow, redcoi_pointwise_args, REDCOI_KERNEL_THREADS)
{
    for (uint64_t i = args.first + thread_of_grid(); i < args.count; i += threads_of_grid()) { run_piece<1>(args, i); }
}

/** The code that a step has for values of type T. */
template <typename T> __device__ constexpr uint8_t code_of(uint8_t code)
{
    if (!traits<T>::fast) { return code; }
    switch (code) {
    case REDCOI_CODE_SILU: return REDCOI_CODE_SILU_FAST;
    case REDCOI_CODE_SILU_GRAD: return REDCOI_CODE_SILU_GRAD_FAST;
    default: return code;
    }
}
template <typename T> constexpr uint8_t round_to = REDCOI_POINTWISE_F32;
template <> constexpr uint8_t round_to<bf16> = REDCOI_POINTWISE_BF16;
template <> constexpr uint8_t round_to<f16> = REDCOI_POINTWISE_F16;

/** A program that the compiler knows. Where nothing is repeated, it has no branches. */
template <typename P, typename T, int N, bool DENSE>
__device__ __forceinline__ void run_fixed(const redcoi_pointwise_args &args, uint64_t v)
{
    block<N> r[REGISTERS];
    uint64_t at[P::INPUTS];
    if constexpr (!DENSE) { locate<N>(args, v, at); }
#pragma unroll
    for (uint32_t k = 0; k < P::INPUTS; k++) {
        ask_for<N, T>(r[k], args.in[k], DENSE ? v * N : at[k], DENSE || args.step_of[k] != 0);
    }
#pragma unroll
    for (uint32_t k = 0; k < P::INPUTS; k++) { take<N, T>(r[k], DENSE || args.step_of[k] != 0); }
    P::template run<T>(r);
    write_as<N, T>(args.out[0], v * N, r[P::FIRST]);
    if constexpr (P::OUTPUTS > 1) { write_as<N, T>(args.out[1], v * N, r[P::SECOND]); }
}

template <typename P, typename T> __device__ __forceinline__ void fixed(const redcoi_pointwise_args &args)
{
    constexpr int N = REDCOI_POINTWISE_WIDTH;
    const uint64_t count = args.count / N, step = threads_of_grid();
    if (args.dense != 0) {
        for (uint64_t v = thread_of_grid(); v < count; v += step) { run_fixed<P, T, N, true>(args, v); }
    } else {
        for (uint64_t v = thread_of_grid(); v < count; v += step) { run_fixed<P, T, N, false>(args, v); }
    }
}

#define STEP(code, to, a, b, c)                                                                                        \
    run_step(r, redcoi_pointwise_step{code_of<T>(REDCOI_CODE_##code), to, a, b, c, round_to<T>, 0.0F});
#define PROGRAM(name, inputs, outputs, first, second, steps)                                                           \
    struct name##_program {                                                                                            \
        static constexpr uint32_t INPUTS = inputs, OUTPUTS = outputs, FIRST = first, SECOND = second;                  \
        template <typename T, int N> static __device__ __forceinline__ void run(block<N> (&r)[REGISTERS])              \
        {                                                                                                              \
            steps(STEP)                                                                                                \
        }                                                                                                              \
    };                                                                                                                 \
    REDCO_KERNEL(redco_k_pointwise_##name##_f32, redcoi_pointwise_args, REDCOI_KERNEL_THREADS)                         \
    {                                                                                                                  \
        fixed<name##_program, float>(args);                                                                            \
    }                                                                                                                  \
    REDCO_KERNEL(redco_k_pointwise_##name##_bf16, redcoi_pointwise_args, REDCOI_KERNEL_THREADS)                        \
    {                                                                                                                  \
        fixed<name##_program, bf16>(args);                                                                             \
    }                                                                                                                  \
    REDCO_KERNEL(redco_k_pointwise_##name##_f16, redcoi_pointwise_args, REDCOI_KERNEL_THREADS)                         \
    {                                                                                                                  \
        fixed<name##_program, f16>(args);                                                                              \
    }
REDCOI_POINTWISE_PROGRAMS(PROGRAM)
