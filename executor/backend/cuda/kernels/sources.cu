/* Sources: constants, indices, random numbers (Philox4x32-10: Salmon, Moraes, Dror, Shaw, SC 2011). */
#include "executor/backend/cuda/kernels/functions.cuh"

using namespace redco;

struct alignas(16) pattern {
    uint32_t word[4];
};

REDCO_KERNEL(redco_k_fill, redcoi_fill_args, REDCOI_KERNEL_THREADS)
{
    const pattern p = {{args.pattern[0], args.pattern[1], args.pattern[2], args.pattern[3]}};
    const uint64_t whole = args.bytes / 16, rest = args.bytes % 16;
    for (uint64_t i = thread_of_grid(); i < whole; i += threads_of_grid()) { static_cast<pattern *>(args.out)[i] = p; }
    const uint64_t byte = thread_of_grid();
    if (byte < rest) {
        static_cast<uint8_t *>(args.out)[whole * 16 + byte] =
            static_cast<uint8_t>(args.pattern[byte / 4] >> (8 * (byte % 4)));
    }
}

REDCO_KERNEL(redco_k_iota, redcoi_iota_args, REDCOI_KERNEL_THREADS)
{
    for (uint64_t i = thread_of_grid(); i < args.count; i += threads_of_grid()) {
        uint64_t rest = divide(i, args.inner);
        (void)split(rest, args.size);
        args.out[i] = static_cast<int32_t>(rest);
    }
}

struct words {
    uint32_t at[4];
};

static __device__ inline words philox(uint64_t block, uint64_t stream, uint32_t k0, uint32_t k1)
{
    uint32_t c0 = static_cast<uint32_t>(block), c1 = static_cast<uint32_t>(block >> 32),
             c2 = static_cast<uint32_t>(stream), c3 = static_cast<uint32_t>(stream >> 32);
#pragma unroll
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = static_cast<uint64_t>(0xD2511F53U) * c0, p1 = static_cast<uint64_t>(0xCD9E8D57U) * c2;
        c0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0;
        c1 = static_cast<uint32_t>(p1);
        c2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
        c3 = static_cast<uint32_t>(p0);
        k0 += 0x9E3779B9U;
        k1 += 0xBB67AE85U;
    }
    return {{c0, c1, c2, c3}};
}

/** Multiples of 2^-24. */
struct uniform {
    static __device__ double of(const words &w, uint32_t lane)
    {
        return static_cast<double>(w.at[lane] >> 8) * 0x1p-24;
    }
};

/** Box and Muller's cosine or sine of a pair of words. The logarithm's argument is in (0, 1]. */
struct normal {
    static __device__ double of(const words &w, uint32_t lane)
    {
        const uint32_t first = w.at[lane & 2], second = w.at[(lane & 2) + 1];
        const double radius = sqrt(-2 * log((static_cast<double>(first) + 1) * 0x1p-32));
        const double angle = 6.28318530717958647693 * (static_cast<double>(second) * 0x1p-32);
        return radius * ((lane & 1) != 0 ? sin(angle) : cos(angle));
    }
};

/** Elements of the whole that share a block of words are made by one thread. */
template <typename D, typename R> __device__ inline void random_run(const redcoi_random_args &args)
{
    const uint32_t k0 = static_cast<uint32_t>(args.key[0]), k1 = static_cast<uint32_t>(args.key[1]);
    const uint64_t end = args.begin + args.count, first = args.begin / 4, blocks = (end + 3) / 4 - first;
    R *const out = static_cast<R *>(args.out);
    for (uint64_t b = thread_of_grid(); b < blocks; b += threads_of_grid()) {
        const words w = philox(first + b, args.stream, k0, k1);
#pragma unroll
        for (uint32_t lane = 0; lane < 4; lane++) {
            const uint64_t e = (first + b) * 4 + lane;
            if (e >= args.begin && e < end) { out[e - args.begin] = static_cast<R>(D::of(w, lane)); }
        }
    }
}

template <typename D, typename R> __device__ inline void random_part(const redcoi_random_args &args)
{
    const uint32_t k0 = static_cast<uint32_t>(args.key[0]), k1 = static_cast<uint32_t>(args.key[1]);
    for (uint64_t i = thread_of_grid(); i < args.count; i += threads_of_grid()) {
        uint64_t rest = i, e = args.begin;
        for (uint32_t d = args.rank; d > 0; d--) {
            uint64_t place = rest;
            rest = split(place, args.dim[d - 1]);
            e += place * args.stride[d - 1];
        }
        const words w = philox(e / 4, args.stream, k0, k1);
        const uint32_t lane = static_cast<uint32_t>(e % 4);
        words turned = w; /* the wanted word, or its pair, at a place that the compiler knows */
        if ((lane & 2) != 0) {
            turned.at[0] = w.at[2];
            turned.at[1] = w.at[3];
        }
        static_cast<R *>(args.out)[i] = static_cast<R>((lane & 1) != 0 ? D::of(turned, 1) : D::of(turned, 0));
    }
}

#define RANDOM(name, suffix, R)                                                                                        \
    REDCO_KERNEL(redco_k_##name##_##suffix, redcoi_random_args, REDCOI_KERNEL_THREADS)                                 \
    {                                                                                                                  \
        if (args.rank == 0) {                                                                                          \
            random_run<name, R>(args);                                                                                 \
        } else {                                                                                                       \
            random_part<name, R>(args);                                                                                \
        }                                                                                                              \
    }
RANDOM(uniform, f32, float)
RANDOM(uniform, f64, double)
RANDOM(normal, f32, float)
RANDOM(normal, f64, double)
