/** @file cuda_internal.h  What the files of executor/backend/cuda share: the device, how libraries are loaded, how
 *  kernels are launched, and who runs which operator. */
#ifndef REDCO_CUDA_INTERNAL_H
#define REDCO_CUDA_INTERNAL_H

#include "executor/backend/cuda/cuda.h"

#include <cuda.h>

/* library.c: shared libraries by soname */

typedef struct redcoi_symbol {
    const char *name;
    void (**address)(void); /**< where the function's address goes */
} redcoi_symbol;

/** All symbols, or an error that names the library and what it lacks. */
redco_status redcoi_library_open(const char *soname, const redcoi_symbol *symbols, size_t count, void **library_out,
                                 redco_error *err);
void redcoi_library_close(void *library); /**< NULL is accepted */

/* driver.c: the driver's calls that are used, by their own names */

typedef struct redcoi_driver redcoi_driver;

/* kernels.c: own kernels */

typedef struct redcoi_kernels redcoi_kernels;
/* matmul.c: cuBLASLt. attention.c: cuDNN */
typedef struct redcoi_blas redcoi_blas;
typedef struct redcoi_dnn redcoi_dnn;

/** A device, shared by all handles to it. */
typedef struct redcoi_device {
    const redcoi_driver *driver;
    CUdevice id;
    CUcontext context;
    uint32_t major, minor, multiprocessors;
    uint64_t shared_bytes_max; /**< of a block that asks for it */
    redco_cuda_options options;
    uint32_t handles; /**< that are open; under the lock of device.c */
    redcoi_kernels *kernels;
} redcoi_device;

/** A handle: of one thread. Library handles are not shared between threads. */
typedef struct redcoi_cuda {
    redco_backend base;
    redcoi_device *device;
    uint64_t live_bytes, peak_bytes;
    redcoi_blas *blas;
    redcoi_dnn *dnn; /**< NULL: own attention */
} redcoi_cuda;

struct redco_queue {
    CUstream stream;
};

struct redco_mark {
    CUevent event;
};

/** Makes an error of what the driver returned; REDCO_OK for success. Every call into the driver goes through it. */
redco_status redcoi_cuda_check(const redcoi_device *device, CUresult result, const char *place, const char *what,
                               redco_error *err);
/** The device's context becomes that of the calling thread: before anything that a handle does. */
redco_status redcoi_cuda_enter(const redcoi_cuda *cuda, redco_error *err);

/** Who runs an operator: asked in this order by run.c. The first that supports a launch plans its workspace and runs
 *  it. run() only queues; it never waits. */
typedef struct redcoi_runner {
    bool (*supports)(const redcoi_cuda *cuda, const redco_launch *launch);
    uint64_t (*workspace_bytes)(const redcoi_cuda *cuda, const redco_launch *launch);
    redco_status (*run)(redcoi_cuda *cuda, redco_queue *queue, const redco_launch *launch, redco_error *err);
} redcoi_runner;

extern const redcoi_runner redcoi_matmul_runner;        /* matmul.c: cuBLASLt */
extern const redcoi_runner redcoi_dnn_runner;           /* attention.c: cuDNN */
extern const redcoi_runner redcoi_own_attention_runner; /* own_attention.c */
extern const redcoi_runner redcoi_kernels_runner;       /* kernels.c: everything else */

/** @return REDCO_ESYSTEM if the library is missing */
redco_status redcoi_blas_open(redcoi_cuda *cuda, redco_error *err);
void redcoi_blas_close(redcoi_cuda *cuda);
uint32_t redcoi_blas_version(const redcoi_cuda *cuda);
/** A missing library is no error: cuda->dnn stays NULL. */
redco_status redcoi_dnn_open(redcoi_cuda *cuda, redco_error *err);
void redcoi_dnn_close(redcoi_cuda *cuda);
uint32_t redcoi_dnn_version(const redcoi_cuda *cuda);

/* launch.c: own kernels, which are all in one fat binary. A kernel has one parameter, a structure by value, which host
 * and device share (kernels/NAME.h). */

typedef struct redcoi_grid {
    uint32_t blocks[3]; /**< 0 is taken for 1 */
    uint32_t threads;   /**< of a block, a multiple of 32 */
    uint32_t shared_bytes;
} redcoi_grid;

/** @param kernel  its name in the fat binary: an extern "C" __global__ function
 *  @param parameters  copied */
redco_status redcoi_kernel_launch(redcoi_cuda *cuda, redco_queue *queue, const char *kernel, const redcoi_grid *grid,
                                  const void *parameters, const char *place, redco_error *err);
redco_status redcoi_kernels_open(redcoi_device *device, redco_error *err); /**< loads the fat binary */
void redcoi_kernels_close(redcoi_device *device);

#endif
