/** @file device_shim.h  What of CUDA C++ kernels need, for the host's compiler. Threads of a block run one after the
 *  other: kernels that wait for each other need more than this. */
#ifndef REDCO_TESTS_DEVICE_SHIM_H
#define REDCO_TESTS_DEVICE_SHIM_H

#include "tests/cuda/standin.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <thread>

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)

struct standin_dim {
    uint32_t x, y, z;
};
inline thread_local standin_dim threadIdx, blockIdx, blockDim, gridDim;

struct alignas(16) uint4 {
    uint32_t x, y, z, w;
};

template <class T> T __ldcg(const T *from)
{
    return *from;
}

template <class T> void __stcg(T *to, T value)
{
    *to = value;
}

/* A thread's own clock: it begins with the kernel, and goes faster the longer the thread looks at it, so that one that
 * waits is soon done. The stream is busy for as long as the slowest thread's clock says (standin_run()). */
inline thread_local uint64_t standin_clock_ns, standin_latest_ns;

inline uint64_t standin_globaltimer()
{
    standin_clock_ns += 100 + standin_clock_ns / 8;
    standin_latest_ns = std::max(standin_latest_ns, standin_clock_ns);
    return standin_clock_ns;
}

inline void __nanosleep(unsigned) {}

template <class Arguments> void standin_run(void (*kernel)(Arguments), const standin_grid *grid, const void *parameters)
{
    const auto begin = std::chrono::steady_clock::now();
    Arguments arguments;
    memcpy(&arguments, parameters, sizeof arguments);
    standin_latest_ns = 0;
    gridDim = {grid->blocks[0], grid->blocks[1], grid->blocks[2]};
    blockDim = {grid->threads[0], grid->threads[1], grid->threads[2]};
    for (blockIdx.z = 0; blockIdx.z < gridDim.z; blockIdx.z++) {
        for (blockIdx.y = 0; blockIdx.y < gridDim.y; blockIdx.y++) {
            for (blockIdx.x = 0; blockIdx.x < gridDim.x; blockIdx.x++) {
                for (threadIdx.z = 0; threadIdx.z < blockDim.z; threadIdx.z++) {
                    for (threadIdx.y = 0; threadIdx.y < blockDim.y; threadIdx.y++) {
                        for (threadIdx.x = 0; threadIdx.x < blockDim.x; threadIdx.x++) {
                            standin_clock_ns = 0;
                            kernel(arguments);
                        }
                    }
                }
            }
        }
    }
    std::this_thread::sleep_until(begin + std::chrono::nanoseconds(standin_latest_ns));
}

#endif
