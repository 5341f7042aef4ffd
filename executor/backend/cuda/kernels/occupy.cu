#include "executor/backend/cuda/kernels/occupy.h"

namespace
{
constexpr uint64_t unit_bytes = 4 * sizeof(uint4); /* of a thread, in one go */

__device__ uint64_t now_ns()
{
#ifdef __CUDACC__
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
#else
    return standin_globaltimer();
#endif
}
/* Copies of what stands at from, one behind the other; where it is part of memory, its values are written over
 * themselves. Some 1 TB/s: less than a tenth of the time of a gather over NVLink. */
template <typename V> __device__ void fill(void *to, const void *from, uint64_t from_bytes, uint64_t fill_bytes)
{
    const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t count = fill_bytes / sizeof(V), period = from_bytes / sizeof(V);
    const V *const values = static_cast<const V *>(from);
    V *const memory = static_cast<V *>(to);
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        memory[i] = values[i % period];
    }
}
} // namespace

/* Each thread moves its share at an even pace, so that memory is as busy as it would be all the time. Values are
 * written as they were read. */
extern "C" __global__ void __launch_bounds__(REDCOI_OCCUPY_THREADS) redco_k_occupy(const redcoi_occupy_args args)
{
    const uint64_t begin_ns = now_ns();
    const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t round_bytes = threads * unit_bytes;
    const uint64_t rounds = args.size_bytes == 0 ? 0 : (args.moved_bytes + round_bytes) / (2 * round_bytes);
    const double rounds_per_ns = args.nanoseconds == 0 ? 0.0 : (double)rounds / (double)args.nanoseconds;
    uint4 *const memory = static_cast<uint4 *>(args.memory);
    const uint64_t vectors = args.size_bytes / sizeof(uint4);
    uint64_t at = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x, done = 0;
    if (args.from != nullptr && args.from_bytes % sizeof(uint4) == 0 && args.fill_bytes % sizeof(uint4) == 0) {
        fill<uint4>(args.memory, args.from, args.from_bytes, args.fill_bytes);
    } else if (args.from != nullptr) {
        fill<uint16_t>(args.memory, args.from, args.from_bytes, args.fill_bytes);
    }
    for (;;) {
        const uint64_t elapsed_ns = now_ns() - begin_ns;
        if (elapsed_ns >= args.nanoseconds) { break; }
        const uint64_t due = (uint64_t)((double)elapsed_ns * rounds_per_ns) + 1;
        if (done >= due || done >= rounds) {
            __nanosleep(200);
            continue;
        }
        uint4 held[4];
#pragma unroll
        for (int i = 0; i < 4; i++) { held[i] = __ldcg(memory + at + i * threads); }
#pragma unroll
        for (int i = 0; i < 4; i++) { __stcg(memory + at + i * threads, held[i]); }
        at += 4 * threads;
        if (at >= vectors) { at -= vectors; }
        done++;
    }
}
