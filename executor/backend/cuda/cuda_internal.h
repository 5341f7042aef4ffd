/** @file cuda_internal.h  Shared by the files of executor/backend/cuda: the device, how libraries are loaded, how
 *  kernels are launched, and who runs which operator. */
#ifndef REDCO_CUDA_INTERNAL_H
#define REDCO_CUDA_INTERNAL_H

#include "executor/backend/cuda/cuda.h"

#include <cuda.h>
#include <pthread.h>

/* library.c: shared libraries by soname */

typedef struct redcoi_symbol {
    const char *name;
    void (**address)(void); /**< where the function's address goes */
} redcoi_symbol;

/** All symbols, or an error that names the library and what it lacks. */
redco_status redcoi_library_open(const char *soname, const redcoi_symbol *symbols, size_t count, void **library_out,
                                 redco_error *err);
void redcoi_library_close(void *library); /**< NULL is accepted */

/** Where it was loaded from; "" if that is not known. */
void redcoi_library_path(void *library, char path[REDCO_CUDA_PATH_BYTES]);

/* driver.c: the driver's calls that are used, by their own names */

typedef struct redcoi_driver redcoi_driver;

/* kernels.c: own kernels */

typedef struct redcoi_kernels redcoi_kernels;
/* matmul.c: cuBLASLt. attention.c: cuDNN */
typedef struct redcoi_blas redcoi_blas;
typedef struct redcoi_dnn redcoi_dnn;

/** A device, shared by the handles that redco_backend_calls.share made of one. */
typedef struct redcoi_device {
    const redcoi_driver *driver;
    CUdevice id;
    CUcontext context; /**< the primary one, which the libraries use, too */
    uint32_t major, minor, multiprocessors;
    uint64_t shared_bytes_max; /**< limit for a block that asks for it */
    redco_cuda_options options;
    char libraries[REDCO_CUDA_LIBRARIES][REDCO_CUDA_PATH_BYTES]; /**< libraries.c; "": where the loader looks */
    redcoi_kernels *kernels;
    struct redcoi_fault *fault; /**< kernels.c: page-locked memory of the program, which kernels write to */
    pthread_mutex_t lock;       /**< guards the members below */
    uint32_t handles;           /**< that are open */
    struct redcoi_allocation *allocations;
    size_t allocation_count, allocation_room;
    uint64_t live_bytes; /**< by all handles */
    redco_cuda_attention attention;
    uint64_t calls_made; /**< atomic */
} redcoi_device;

/* libraries.c: where libraries are */

/** Chooses of those in the folders what redcoi_library_open_kind() opens. */
void redcoi_libraries_choose(redcoi_device *device, const char *const *folders);
/** As redcoi_library_open(). @param device  NULL: where the loader looks */
redco_status redcoi_library_open_kind(const redcoi_device *device, redco_cuda_library_kind kind,
                                      const redcoi_symbol *symbols, size_t count, void **library_out, redco_error *err);

/** A handle: of one thread. Library handles are not shared between threads. */
typedef struct redcoi_cuda {
    redco_backend base;
    redcoi_device *device;
    uint64_t live_bytes, peak_bytes; /**< under the device's lock: another handle may release what this one allocated */
    redcoi_blas *blas;
    redcoi_dnn *dnn;   /**< NULL: own attention */
    char dnn_why[400]; /**< why it is NULL */
} redcoi_cuda;

struct redco_device_stream {
    CUstream handle;
    bool recording; /**< it is captured */
};

struct redco_event {
    CUevent event;
};

/** Makes an error of what the driver returned; REDCO_OK for success. Every call into the driver goes through it. */
redco_status redcoi_cuda_check(const redcoi_device *device, CUresult result, const char *place, const char *what,
                               redco_error *err);
/** The device's context becomes that of the calling thread: before anything that a handle does. */
redco_status redcoi_cuda_enter(const redcoi_cuda *cuda, redco_error *err);

/** The parts that can run an operator: asked in this order by run.c. The first that supports a launch plans its
 * workspace and runs it. run() only queues; it never waits (products that are tuned do when they are met first). */
typedef struct redcoi_runner {
    bool (*supports)(const redcoi_cuda *cuda, const redco_launch *launch);
    uint64_t (*workspace_bytes)(const redcoi_cuda *cuda, const redco_launch *launch);
    redco_status (*run)(redcoi_cuda *cuda, redco_device_stream *stream, const redco_launch *launch, redco_error *err);
} redcoi_runner;

extern const redcoi_runner redcoi_matmul_runner;        /* matmul.c: cuBLASLt */
extern const redcoi_runner redcoi_dnn_runner;           /* attention.c: cuDNN */
extern const redcoi_runner redcoi_own_attention_runner; /* own_attention.c */
/** Attention, or its gradient, whose scores have a bias: no kernel adds it. */
bool redcoi_has_bias(const redco_launch *launch);
extern const redcoi_runner redcoi_pointwise_runner; /* pointwise.c: programs of elementwise operators */
extern const redcoi_runner redcoi_kernels_runner;   /* kernels.c: everything else */

/** @return REDCO_ESYSTEM if the library is missing */
redco_status redcoi_blas_open(redcoi_cuda *cuda, redco_error *err);
void redcoi_blas_close(redcoi_cuda *cuda);
uint32_t redcoi_blas_version(const redcoi_cuda *cuda);
/** A missing library is no error: cuda->dnn stays NULL, and cuda->dnn_why says why. */
redco_status redcoi_dnn_open(redcoi_cuda *cuda, redco_error *err);
/** Counts an attention that own kernels run, and why, if it is the first of 16 bits. */
void redcoi_dnn_missed(redcoi_cuda *cuda, const redco_launch *launch);
/** Where the library is; "" without one. */
void redcoi_dnn_path(const redcoi_cuda *cuda, char path[REDCO_CUDA_PATH_BYTES]);
void redcoi_dnn_close(redcoi_cuda *cuda);
uint32_t redcoi_dnn_version(const redcoi_cuda *cuda);

/* kernels.c: what a host kernel would have returned an error for (an index out of range) is an error of whoever next
 * waits for the device. */

redco_status redcoi_fault_open(redcoi_device *device, redco_error *err);
void redcoi_fault_close(redcoi_device *device); /**< one that was not opened is accepted */
/** After waiting: REDCO_EVALUE, once, if a kernel found a fault. */
redco_status redcoi_fault_check(const redcoi_device *device, redco_error *err);

/* memory.c */

redco_status redcoi_cuda_allocate(redco_backend *backend, redco_memory where, uint64_t size_bytes, void **memory_out,
                                  redco_error *err);
void redcoi_cuda_release(redco_backend *backend, redco_memory where, void *memory);
void redcoi_cuda_memory_use(const redco_backend *backend, uint64_t *live_bytes_out, uint64_t *peak_bytes_out);
redco_status redcoi_cuda_copy(redco_backend *backend, redco_device_stream *stream, void *to, const void *from,
                              uint64_t size_bytes, redco_error *err);
redco_status redcoi_cuda_fill_zero(redco_backend *backend, redco_device_stream *stream, void *to, uint64_t size_bytes,
                                   redco_error *err);

/* streams.c */

redco_status redcoi_cuda_stream_create(redco_backend *backend, redco_device_stream_kind kind,
                                       redco_device_stream **stream_out, redco_error *err);
void redcoi_cuda_stream_free(redco_backend *backend, redco_device_stream *stream);
redco_status redcoi_cuda_stream_finish(redco_backend *backend, redco_device_stream *stream, redco_error *err);
redco_status redcoi_cuda_event_create(redco_backend *backend, redco_event **event_out, redco_error *err);
void redcoi_cuda_event_free(redco_backend *backend, redco_event *event);
redco_status redcoi_cuda_event_set(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                                   redco_error *err);
redco_status redcoi_cuda_event_wait(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                                    redco_error *err);
redco_status redcoi_cuda_event_finish(redco_backend *backend, redco_event *event, redco_error *err);
redco_status redcoi_cuda_event_between(redco_backend *backend, redco_event *from, redco_event *to, double *seconds_out,
                                       redco_error *err);
redco_status redcoi_cuda_occupy(redco_backend *backend, redco_device_stream *stream, const redco_occupation *occupation,
                                redco_error *err);

/** Counts a call that gives the device work: see redco_cuda_calls_made(). */
void redcoi_cuda_count_call(const redcoi_cuda *cuda);

/* record.c */

redco_status redcoi_cuda_record_begin(redco_backend *backend, redco_device_stream *stream, redco_error *err);
redco_status redcoi_cuda_record_end(redco_backend *backend, redco_device_stream *stream,
                                    redco_recording **recording_out, redco_error *err);
redco_status redcoi_cuda_record_play(redco_backend *backend, redco_device_stream *stream,
                                     const redco_recording *recording, redco_error *err);
void redcoi_cuda_record_free(redco_backend *backend, redco_recording *recording);

/* run.c */

bool redcoi_cuda_supports(const redco_backend *backend, const redco_launch *launch);
uint64_t redcoi_cuda_workspace_bytes(const redco_backend *backend, const redco_launch *launch);
redco_status redcoi_cuda_run(redco_backend *backend, redco_device_stream *stream, const redco_launch *launch,
                             redco_error *err);

/* launch.c: own kernels. Each kernels/NAME.cu is a fat binary; a kernel has one parameter, a structure by value, which
 * host and device share (kernels/NAME.h). */

typedef struct redcoi_grid {
    uint32_t blocks[3]; /**< 0 is taken for 1 */
    uint32_t threads;   /**< threads a block, a multiple of 32 */
    uint32_t shared_bytes;
} redcoi_grid;

/** Threads of several handles may launch at once.
 *  @param kernel  its name, of any of the fat binaries: an extern "C" __global__ function
 *  @param parameters  copied */
redco_status redcoi_kernel_launch(redcoi_cuda *cuda, redco_device_stream *stream, const char *kernel,
                                  const redcoi_grid *grid, const void *parameters, const char *place, redco_error *err);
redco_status redcoi_kernels_open(redcoi_device *device, redco_error *err); /**< begins to load the fat binaries */
/** Waits until they are loaded: before anything is launched. */
redco_status redcoi_kernels_await(redcoi_device *device, redco_error *err);
void redcoi_kernels_close(redcoi_device *device);

#endif
