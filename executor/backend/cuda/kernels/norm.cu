/* RMS norm, layer norm and their gradients. Rows are read again from the cache, not kept in registers: a
 * multiprocessor's first cache holds those of all its blocks up to 16384 elements of 16 bits. */
#include "executor/backend/cuda/kernels/functions.cuh"

using namespace redco;

template <typename T, typename Who, int N> __device__ inline void norm(const redcoi_norm_args &args)
{
    using R = real_of<T>;
    const uint64_t n = args.length, first = static_cast<uint64_t>(Who::rank()) * N,
                   step = static_cast<uint64_t>(Who::size()) * N;
    const bool layer = args.layer != 0;
    const T *const scale = static_cast<const T *>(args.scale), *const shift = static_cast<const T *>(args.shift);
    for (uint64_t r = Who::first(); r < args.rows; r += Who::step()) {
        const T *const x = static_cast<const T *>(args.x) + r * n;
        T *const y = static_cast<T *>(args.out) + r * n;
        R mean = 0, squares = 0;
        if (layer) {
            for (uint64_t i = first; i < n; i += step) {
                const vec<T, N> v = load<N>(x + i);
#pragma unroll
                for (int j = 0; j < N; j++) { mean += static_cast<R>(widen(v.at[j])); }
            }
            mean = Who::template over<add_up>(mean) / static_cast<R>(n);
        }
        for (uint64_t i = first; i < n; i += step) {
            const vec<T, N> v = load<N>(x + i);
#pragma unroll
            for (int j = 0; j < N; j++) {
                const R away = static_cast<R>(widen(v.at[j])) - mean;
                squares += away * away;
            }
        }
        squares = Who::template over<add_up>(squares);
        const R inverse = 1 / real_sqrt(squares / static_cast<R>(n) + static_cast<R>(args.epsilon));
        for (uint64_t i = first; i < n; i += step) {
            vec<T, N> v = load<N>(x + i);
            const vec<T, N> a = load<N>(scale + i);
            vec<T, N> b = {};
            if (layer) { b = load<N>(shift + i); }
#pragma unroll
            for (int j = 0; j < N; j++) {
                const R normal = (static_cast<R>(widen(v.at[j])) - mean) * inverse;
                R value = normal * static_cast<R>(widen(a.at[j]));
                if (layer) { value += static_cast<R>(widen(b.at[j])); }
                v.at[j] = narrow<T>(value);
            }
            store<N>(y + i, v);
        }
        if (Who::rank() == 0) {
            if (layer) { static_cast<R *>(args.mean_out)[r] = mean; }
            static_cast<R *>(args.inverse_out)[r] = inverse;
        }
    }
}

/** Sums of columns of the rows that a block has: each thread alone adds to those of its own columns. In shared memory
 *  columns lie in pieces of 16 bytes, neighbouring threads' side by side, so that no bank is asked twice. */
template <typename R, int N, bool SHARED> struct columns {
    static constexpr int GROUP = N < width_of<R> ? N : width_of<R>;
    R *sums;

    __device__ static uint64_t place(uint64_t chunk, int group, uint64_t column)
    {
        if (!SHARED) { return column + static_cast<uint64_t>(group * GROUP); }
        return ((chunk * (N / GROUP) + static_cast<uint64_t>(group)) * blockDim.x + threadIdx.x) * GROUP;
    }
    __device__ void add(uint64_t chunk, uint64_t column, const R *more) const
    {
#pragma unroll
        for (int g = 0; g < N / GROUP; g++) {
            R *const at = sums + place(chunk, g, column);
            vec<R, GROUP> v = load<GROUP>(at);
#pragma unroll
            for (int j = 0; j < GROUP; j++) { v.at[j] += more[g * GROUP + j]; }
            store<GROUP>(at, v);
        }
    }
    __device__ void clear(uint64_t chunk, uint64_t column) const
    {
#pragma unroll
        for (int g = 0; g < N / GROUP; g++) { store<GROUP>(sums + place(chunk, g, column), vec<R, GROUP>{}); }
    }
    __device__ void write(uint64_t chunk, uint64_t column, R *to) const
    {
#pragma unroll
        for (int g = 0; g < N / GROUP; g++) {
            store<GROUP>(to + column + g * GROUP, load<GROUP>(sums + place(chunk, g, column)));
        }
    }
};

/** (e - mean e - x' mean(e x')) / deviation, e = dy scale; RMS norm has no mean e. A block has every so manieth row. */
template <typename T, int N, bool SHARED, bool LAYER>
__device__ inline void norm_grad(const redcoi_norm_grad_args &args, real_of<T> *shared)
{
    using R = real_of<T>;
    using who = team<false>;
    using sums = columns<R, N, SHARED>;
    const uint64_t n = args.length, first = static_cast<uint64_t>(threadIdx.x) * N,
                   step = static_cast<uint64_t>(blockDim.x) * N, chunks = (n + step - 1) / step;
    R *const scale_part = static_cast<R *>(args.scale_parts) + blockIdx.x * n;
    R *const shift_part = LAYER ? static_cast<R *>(args.shift_parts) + blockIdx.x * n : nullptr;
    const sums scales = {SHARED ? shared : scale_part}, shifts = {SHARED ? shared + chunks * step : shift_part};
    const T *const scale = static_cast<const T *>(args.scale);
    for (uint64_t c = 0, i = first; i < n; c++, i += step) {
        scales.clear(c, i);
        if (LAYER) { shifts.clear(c, i); }
    }
    for (uint64_t r = blockIdx.x; r < args.rows; r += gridDim.x) {
        const T *const x = static_cast<const T *>(args.x) + r * n, *const dy = static_cast<const T *>(args.dy) + r * n;
        T *const dx = static_cast<T *>(args.dx) + r * n;
        const R mean = LAYER ? static_cast<const R *>(args.mean)[r] : 0;
        const R inverse = static_cast<const R *>(args.inverse)[r];
        R sum = 0, product = 0;
        for (uint64_t c = 0, i = first; i < n; c++, i += step) {
            const vec<T, N> vx = load<N>(x + i), vd = load<N>(dy + i), vs = load<N>(scale + i);
            R dscale[N], dshift[N];
#pragma unroll
            for (int j = 0; j < N; j++) {
                const R normal = (static_cast<R>(widen(vx.at[j])) - mean) * inverse, d = widen(vd.at[j]);
                const R e = d * static_cast<R>(widen(vs.at[j]));
                sum += e;
                product += e * normal;
                dscale[j] = d * normal;
                dshift[j] = d;
            }
            scales.add(c, i, dscale);
            if (LAYER) { shifts.add(c, i, dshift); }
        }
        const R centre = LAYER ? who::template over<add_up>(sum) / static_cast<R>(n) : 0;
        const R along = who::template over<add_up>(product) / static_cast<R>(n);
        for (uint64_t i = first; i < n; i += step) {
            vec<T, N> vx = load<N>(x + i);
            const vec<T, N> vd = load<N>(dy + i), vs = load<N>(scale + i);
#pragma unroll
            for (int j = 0; j < N; j++) {
                const R normal = (static_cast<R>(widen(vx.at[j])) - mean) * inverse;
                const R e = static_cast<R>(widen(vd.at[j])) * static_cast<R>(widen(vs.at[j]));
                vx.at[j] = narrow<T>(inverse * (e - centre - normal * along));
            }
            store<N>(dx + i, vx);
        }
    }
    if (SHARED) {
        for (uint64_t c = 0, i = first; i < n; c++, i += step) {
            scales.write(c, i, scale_part);
            if (LAYER) { shifts.write(c, i, shift_part); }
        }
    }
}

template <typename T, int N> __device__ inline void norm_by(const redcoi_norm_args &args)
{
    if (args.warps != 0) {
        norm<T, team<true>, N>(args);
    } else {
        norm<T, team<false>, N>(args);
    }
}

template <typename T, int N, bool LAYER>
__device__ inline void norm_grad_by(const redcoi_norm_grad_args &args, real_of<T> *shared)
{
    if (args.in_shared != 0) {
        norm_grad<T, N, true, LAYER>(args, shared);
    } else {
        norm_grad<T, N, false, LAYER>(args, shared);
    }
}

#define NORM_GRAD(name, suffix, T, LAYER)                                                                              \
    REDCO_KERNEL(redco_k_##name##_##suffix, redcoi_norm_grad_args, REDCOI_KERNEL_THREADS)                              \
    {                                                                                                                  \
        REDCO_SHARED(real_of<T>, shared);                                                                              \
        if (args.wide != 0) {                                                                                          \
            norm_grad_by<T, width_of<T>, LAYER>(args, shared);                                                         \
        } else {                                                                                                       \
            norm_grad_by<T, 1, LAYER>(args, shared);                                                                   \
        }                                                                                                              \
    }
#define NORM(suffix, T)                                                                                                \
    REDCO_KERNEL(redco_k_norm_##suffix, redcoi_norm_args, REDCOI_ROW_THREADS_MAX)                                      \
    {                                                                                                                  \
        if (args.wide != 0) {                                                                                          \
            norm_by<T, width_of<T>>(args);                                                                             \
        } else {                                                                                                       \
            norm_by<T, 1>(args);                                                                                       \
        }                                                                                                              \
    }                                                                                                                  \
    NORM_GRAD(rms_norm_grad, suffix, T, false)                                                                         \
    NORM_GRAD(layer_norm_grad, suffix, T, true)
NORM(f32, float)
NORM(f64, double)
NORM(bf16, bf16)
NORM(f16, f16)
