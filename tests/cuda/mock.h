/** @file mock.h  Shared by the mock libraries for CUDA's libraries: how kernels are run, and how the others (cuBLASLt,
 *  cuDNN, NCCL) put work into streams of the driver's. They are linked with libcuda.so.1 of this folder. */
#ifndef REDCO_TESTS_MOCK_H
#define REDCO_TESTS_MOCK_H

#include <cuda.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mock_grid {
    uint32_t blocks[3], threads[3]; /**< x, y, z; none is 0 */
    uint32_t shared_bytes;          /**< dynamic */
};

/** A kernel as the host's compiler made it. */
struct mock_kernel {
    const char *name; /**< "redco_k_occupy" */
    size_t parameter_bytes;
    void (*run)(const struct mock_grid *grid, const void *parameters);
};

/** kernels_host.cpp. @return NULL if there is none of that name */
const struct mock_kernel *mock_kernel_of(const char *name);
/** All of them, by number. */
size_t mock_kernel_count(void);
const struct mock_kernel *mock_kernel_at(size_t number);

/** Queues work as a library's kernel would be: it runs in the stream's thread after what was queued before. The stream
 *  must be one of the current context's.
 *  @param name     static, for messages
 *  @param work     may wait for other work, of other streams and processes
 *  @param context  the work frees it */
CUresult mock_stream_do(CUstream stream, const char *name, void (*work)(void *context), void *context);

/** The same for work that may be done several times, in graphs: the context is released when it is not needed any more,
 *  also after a failure. */
CUresult mock_stream_work(CUstream stream, const char *name, void (*work)(void *context), void *context,
                          void (*release)(void *context));

/** @return whether all of it lies in one live allocation of device memory of the current context. To be asked again in
 * the work: memory may be freed meanwhile. */
bool mock_is_device(const void *memory, size_t bytes);
/** As above, or page-locked host memory. */
bool mock_is_known(const void *memory, size_t bytes);

/** In work: an asynchronous error. All later calls of the context return @p code. Says why on standard error. */
__attribute__((format(printf, 2, 3))) void mock_fault(CUresult code, const char *format, ...);
/** Says on standard error what a call did wrong. */
__attribute__((format(printf, 1, 2))) void mock_complain(const char *format, ...);

/** A number that depends on MOCK_CUDA_SEED and on how often it was called. */
uint64_t mock_random(void);

/** A switch of tests, found by dlsym() in libcuda.so.1.
 *  @param call   "cuMemAlloc_v2", NULL for any; calls that explain errors are not counted
 *  @param at     the how many-th call from now on fails, from 1; 0: none */
void mock_fail_at(const char *call, uint64_t at, CUresult code);
/** Calls since the library was loaded. */
uint64_t mock_calls(void);

#ifdef __cplusplus
}
#endif
#endif
