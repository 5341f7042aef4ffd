/** @file cuda.h  The backend of NVIDIA GPUs: products by cuBLASLt, attention by cuDNN, everything else by own kernels.
 *
 *  Nothing of CUDA is linked: the driver, cuBLASLt and cuDNN are loaded when a device is opened, so that a program with
 * this backend starts anywhere. Work is queued and calls return at once. */
#ifndef REDCO_BACKEND_CUDA_H
#define REDCO_BACKEND_CUDA_H

#include "executor/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_CUDA_PATH_BYTES = 512 };

typedef struct redco_cuda_options {
    uint32_t device;             /**< as the driver numbers those that it shows */
    uint64_t memory_limit_bytes; /**< allocations beyond fail with REDCO_ENOMEM; 0 = none */
    bool tf32;                   /**< products of F32 in TF32, with 10 bits of significand */
    bool tune;                   /**< products are timed when they are met first, and the fastest algorithm kept: other
                                    roundings from run to run; the first step waits */
    bool own_attention;          /**< cuDNN is not used: for comparisons, or where it is not installed */
    /** Where CUDA's libraries may be beside where the loader looks, NULL-terminated; borrowed for redco_cuda_open().
     *  Of cuDNN the newest is taken, of the others the loader's, else the first. NULL: only the loader's */
    const char *const *library_folders;
} redco_cuda_options;

/** @param options NULL for all zero. @param backend_out to be freed with redco_backend_close()
 *  @return REDCO_ESYSTEM "no CUDA device: ..." where there is no driver, no device, a library is missing, or redco was
 * built without CUDA */
redco_status redco_cuda_open(const redco_cuda_options *options, redco_backend **backend_out, redco_error *err);

/** The device of a measurement: the one behind @p backend. */
typedef struct redco_cuda_device {
    char name[128]; /**< "NVIDIA H200" */
    char uuid[48];
    uint32_t major, minor; /**< its compute capability */
    uint32_t multiprocessors;
    uint64_t memory_bytes, free_bytes;
    double clock_hz, memory_clock_hz;
    uint32_t driver_version, blas_version, dnn_version; /**< as the libraries give them; 0 where not loaded */
    char dnn_path[REDCO_CUDA_PATH_BYTES];               /**< "" likewise */
    bool mps;                                           /**< work of several processes runs at once, by MPS */
} redco_cuda_device;
redco_status redco_cuda_describe(const redco_backend *backend, redco_cuda_device *device_out, redco_error *err);

/** The libraries that ran attention until now, for all handles of the device. */
typedef struct redco_cuda_attention {
    uint64_t dnn_launches, own_launches;
    /** 16-bit types by own kernels, which take several times as long. */
    uint64_t slow_launches;
    char why[600]; /**< the first reason: version and path that were found, version that is wanted; "" */
} redco_cuda_attention;
/** All zero for other backends. */
void redco_cuda_attention_used(const redco_backend *backend, redco_cuda_attention *used_out);

/** Calls by which the program gave the device work until now, of all handles: kernels, library calls, copies, events
 * that were set or waited for; a recording that was played is one. 0 for other backends. */
uint64_t redco_cuda_calls_made(const redco_backend *backend);

/** CUDA's libraries that are looked for in folders. */
typedef enum redco_cuda_library_kind {
    REDCO_CUDA_LIBRARY_BLAS,
    REDCO_CUDA_LIBRARY_DNN,
    REDCO_CUDA_LIBRARY_NCCL,
    REDCO_CUDA_LIBRARIES
} redco_cuda_library_kind;

typedef struct redco_cuda_library {
    char path[REDCO_CUDA_PATH_BYTES];
    uint32_t version; /**< as the library gives it: 91900 is 9.19.0 */
    bool loader;      /**< the one that the loader finds */
} redco_cuda_library;

enum { REDCO_CUDA_CANDIDATES = 16 };

/** Every one that can be loaded, the newest first, asked for its version in another process.
 *  @param folders  as in redco_cuda_options
 *  @return how many; 0 also where redco was built without CUDA */
uint32_t redco_cuda_find_libraries(redco_cuda_library_kind kind, const char *const *folders,
                                   redco_cuda_library out[REDCO_CUDA_CANDIDATES]);
/** "libcudnn.so.9" */
const char *redco_cuda_library_name(redco_cuda_library_kind kind);

/** @return the number of devices: 0 where there is no driver. Never fails. */
uint32_t redco_cuda_count(void);

#ifdef __cplusplus
}
#endif
#endif
