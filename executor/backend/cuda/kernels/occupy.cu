#include "executor/backend/cuda/kernels/occupy.h"

namespace
{
constexpr uint64_t unit_bytes = 4 * sizeof(uint4); /* read by a thread, in one go */

__device__ uint64_t now_ns()
{
#ifdef __CUDACC__
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return ns;
#else
    return mock_globaltimer();
#endif
}

/* Contiguous copies of what stands at from, where vectors do not fit: of small tensors. Where it is part of
 * memory, its values are written over themselves. */
__device__ void fill_small(const redcoi_occupy_args &args)
{
    const uint64_t threads = (uint64_t)gridDim.x * blockDim.x;
    const uint64_t count = args.fill_bytes / sizeof(uint16_t), period = args.from_bytes / sizeof(uint16_t);
    const uint16_t *const values = static_cast<const uint16_t *>(args.from);
    uint16_t *const memory = static_cast<uint16_t *>(args.memory);
    for (uint64_t i = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x; i < count; i += threads) {
        memory[i] = values[i % period];
    }
}

/* The same in vectors, four of a thread on the way at once. */
struct filling {
    const uint4 *values;
    uint4 *memory;
    uint64_t threads, count, period, stride; /* stride: in values, of as many vectors as there are threads */
    uint64_t at, from;

    __device__ bool left() const { return at < count; }

    __device__ void go_on()
    {
        uint4 held[4] = {};
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (at + i * threads < count) { held[i] = __ldcg(values + from); }
            from += stride;
            if (from >= period) { from -= period; }
        }
#pragma unroll
        for (int i = 0; i < 4; i++) {
            if (at + i * threads < count) { __stcg(memory + at + i * threads, held[i]); }
        }
        at += 4 * threads;
    }
};
} // namespace

/* Each thread moves its share at an even pace, so that memory is as busy as it would be all the time, and the kernel
 * ends with its time. What is to be filled is what is moved first. Values are written as they were read. */
extern "C" __global__ void __launch_bounds__(REDCOI_OCCUPY_THREADS) redco_k_occupy(const redcoi_occupy_args args)
{
    const uint64_t begin_ns = now_ns();
    const uint64_t threads = (uint64_t)gridDim.x * blockDim.x, thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;
    const uint64_t round_bytes = threads * unit_bytes;
    const bool wide =
        args.from != nullptr && args.from_bytes % sizeof(uint4) == 0 && args.fill_bytes % sizeof(uint4) == 0;
    const uint64_t period = wide ? args.from_bytes / sizeof(uint4) : 1;
    filling f = {static_cast<const uint4 *>(args.from),
                 static_cast<uint4 *>(args.memory),
                 threads,
                 wide ? args.fill_bytes / sizeof(uint4) : 0,
                 period,
                 threads % period,
                 thread,
                 thread % period};
    const uint64_t moves = args.size_bytes == 0 ? 0 : (args.moved_bytes + round_bytes) / (2 * round_bytes);
    const uint64_t fills = wide ? (args.fill_bytes + round_bytes - 1) / round_bytes : 0;
    const uint64_t rounds = moves > fills ? moves : fills;
    const double rounds_per_ns = args.nanoseconds == 0 ? 0.0 : (double)rounds / (double)args.nanoseconds;
    uint4 *const memory = static_cast<uint4 *>(args.memory);
    const uint64_t vectors = args.size_bytes / sizeof(uint4);
    uint64_t at = thread, done = 0;
    if (args.from != nullptr && !wide) { fill_small(args); }
    for (;;) {
        const uint64_t elapsed_ns = now_ns() - begin_ns;
        const bool over = elapsed_ns >= args.nanoseconds;
        if (over && !f.left()) { break; }
        const uint64_t due = (uint64_t)((double)elapsed_ns * rounds_per_ns) + 1;
        if (!over && (done >= due || done >= rounds)) {
            __nanosleep(200);
            continue;
        }
        done++;
        if (f.left()) {
            f.go_on();
            continue;
        }
        if (vectors == 0) { continue; }
        uint4 held[4];
#pragma unroll
        for (int i = 0; i < 4; i++) { held[i] = __ldcg(memory + at + i * threads); }
#pragma unroll
        for (int i = 0; i < 4; i++) { __stcg(memory + at + i * threads, held[i]); }
        at += 4 * threads;
        if (at >= vectors) { at -= vectors; }
    }
}
