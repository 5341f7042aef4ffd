/** @file device_shim.h  The part of CUDA C++ that kernels need, for the host's compiler: the same .cu files run on the
 * processor.
 *
 *  Threads of a block run one after the other; one that waits for others (__syncthreads, shuffles) is left and gone on
 * with later, on a stack of its own (fibers.cpp). Kernels that never wait are plain loops. Blocks run one after the
 * other, every second one with its last thread first, so that what is not ordered by a barrier shows. Found and
 * reported as failed launches: a barrier that not all threads of the block reach, shuffles whose threads differ or do
 * not come, __trap(). Dynamic shared memory is filled with not-a-number for each block and ends at a page that is not
 * there. What it cannot show: races inside a warp between waits, caches, memory order, rounding of the device's own
 * functions. */
#ifndef REDCO_TESTS_DEVICE_SHIM_H
#define REDCO_TESTS_DEVICE_SHIM_H

#include "tests/cuda/mock.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <math.h>
#include <thread>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __restrict__
#define __align__(bytes) alignas(bytes)
#define __shared__ static thread_local /* one block at a time runs in a thread */

struct mock_dim {
    uint32_t x, y, z;
};
inline thread_local mock_dim threadIdx, blockIdx, blockDim, gridDim;
enum { warpSize = 32 };

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

/* fibers.cpp: what a thread of a block may wait for */

enum mock_wait { MOCK_SYNC, MOCK_SHUFFLE, MOCK_VOTE };
void mock_block_wait();
/** Gives @p value to the threads of @p mask in this warp and waits for theirs. @return by lane; until the next wait */
const uint64_t *mock_warp_wait(uint32_t mask, mock_wait kind, uint64_t value);
[[noreturn]] void mock_give_up(const char *why);
void *mock_shared_memory();
/** @param thread  a thread of a block. @return false after what mock_fault() was told */
bool mock_run_blocks(const char *name, const mock_grid *grid, void (*thread)(const void *), const void *arguments);

inline uint32_t mock_lane()
{
    return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;
}

inline void __syncthreads()
{
    mock_block_wait();
}

inline void __syncwarp(uint32_t mask = 0xffffffffU)
{
    (void)mock_warp_wait(mask, MOCK_SYNC, 0);
}

template <typename T> T mock_shuffle(uint32_t mask, T value, int lane)
{
    static_assert(sizeof(T) <= 8, "shuffles are of 4 or 8 bytes");
    uint64_t bits = 0;
    memcpy(&bits, &value, sizeof value);
    const uint64_t *const all = mock_warp_wait(mask, MOCK_SHUFFLE, bits);
    if (((mask >> lane) & 1) == 0) { mock_give_up("a shuffle reads a thread that is not in its mask"); }
    memcpy(&value, &all[lane], sizeof value);
    return value;
}

template <typename T> T __shfl_sync(uint32_t mask, T value, int from, int width = 32)
{
    const int lane = int(mock_lane()), base = lane / width * width;
    return mock_shuffle(mask, value, base + (from & (width - 1)));
}

template <typename T> T __shfl_xor_sync(uint32_t mask, T value, int other, int width = 32)
{
    const int lane = int(mock_lane()), from = lane ^ other;
    return mock_shuffle(mask, value, from / width > lane / width ? lane : from);
}

template <typename T> T __shfl_up_sync(uint32_t mask, T value, unsigned by, int width = 32)
{
    const int lane = int(mock_lane()), from = lane - int(by);
    return mock_shuffle(mask, value, from < lane / width * width ? lane : from);
}

template <typename T> T __shfl_down_sync(uint32_t mask, T value, unsigned by, int width = 32)
{
    const int lane = int(mock_lane()), from = lane + int(by);
    return mock_shuffle(mask, value, from >= (lane / width + 1) * width ? lane : from);
}

inline uint32_t __ballot_sync(uint32_t mask, int predicate)
{
    const uint64_t *const all = mock_warp_wait(mask, MOCK_VOTE, predicate != 0 ? 1 : 0);
    uint32_t votes = 0;
    for (uint32_t i = 0; i < 32; i++) {
        if (((mask >> i) & 1) != 0 && all[i] != 0) { votes |= 1U << i; }
    }
    return votes;
}

inline int __any_sync(uint32_t mask, int predicate)
{
    return __ballot_sync(mask, predicate) != 0 ? 1 : 0;
}

inline int __all_sync(uint32_t mask, int predicate)
{
    return __ballot_sync(mask, predicate) == mask ? 1 : 0;
}

/* Memory. Streams are threads, so atomics are what they say. */

template <class T> T __ldcg(const T *from)
{
    return *from;
}

template <class T> T __ldg(const T *from)
{
    return *from;
}

template <class T> void __stcg(T *to, T value)
{
    *to = value;
}

template <typename T> T atomicCAS(T *at, T expected, T wanted)
{
    (void)__atomic_compare_exchange_n(at, &expected, wanted, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
    return expected;
}

template <typename T> T atomicAdd(T *at, T more)
{
    return __atomic_fetch_add(at, more, __ATOMIC_SEQ_CST);
}

inline void __threadfence()
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

inline void __threadfence_system()
{
    __threadfence();
}

[[noreturn]] inline void __trap()
{
    mock_give_up("a kernel trapped");
}

/* Arithmetic */

inline uint64_t __umul64hi(uint64_t a, uint64_t b)
{
    return uint64_t((unsigned __int128)a * b >> 64);
}

inline uint32_t __umulhi(uint32_t a, uint32_t b)
{
    return uint32_t(uint64_t(a) * b >> 32);
}

inline float __expf(float x)
{
    return expf(x);
}

inline float __fdividef(float x, float y)
{
    return x / y;
}

inline int __popc(uint32_t x)
{
    return __builtin_popcount(x);
}

/* A thread's own clock: it begins with the kernel, and goes faster the longer the thread looks at it, so that one that
 * waits is soon done. The stream is busy for as long as the slowest thread's clock says (mock_run()). */
inline thread_local uint64_t mock_clock_ns, mock_latest_ns;

inline uint64_t mock_globaltimer()
{
    mock_clock_ns += 100 + mock_clock_ns / 8;
    mock_latest_ns = std::max(mock_latest_ns, mock_clock_ns);
    return mock_clock_ns;
}

inline void __nanosleep(unsigned) {}

template <class Arguments, void (*kernel)(Arguments)>
void mock_run(const char *name, const mock_grid *grid, const void *parameters)
{
    const auto begin = std::chrono::steady_clock::now();
    alignas(16) std::remove_const_t<Arguments> arguments;
    memcpy(&arguments, parameters, sizeof arguments);
    mock_latest_ns = 0;
    (void)mock_run_blocks(
        name, grid,
        [](const void *given) {
            mock_clock_ns = 0;
            kernel(*static_cast<const Arguments *>(given));
        },
        &arguments);
    std::this_thread::sleep_until(begin + std::chrono::nanoseconds(mock_latest_ns));
}

/** Makes a kernel known before main() begins. */
struct mock_registration {
    explicit mock_registration(const mock_kernel &kernel);
};

#define MOCK_KERNEL(name, arguments)                                                                                   \
    static const mock_registration registration_##name(                                                                \
        {#name, sizeof(arguments), [](const mock_grid *grid, const void *parameters) {                                 \
             mock_run<const arguments, name>(#name, grid, parameters);                                                 \
         }});

/* The same calls as kernels/device.cuh has for the device. */
#define REDCO_KERNEL(name, arguments, threads)                                                                         \
    extern "C" void name(const struct arguments args);                                                                 \
    MOCK_KERNEL(name, struct arguments)                                                                                \
    extern "C" void name(const struct arguments args)
#define REDCO_SHARED(type, name) type *const name = static_cast<type *>(mock_shared_memory())

#endif
