/** @file cuda.h  The backend of NVIDIA GPUs: products by cuBLASLt, attention by cuDNN, everything else by own kernels.
 *
 *  Nothing of CUDA is linked: the driver, cuBLASLt and cuDNN are loaded when a device is opened, so that a program with
 * this backend starts anywhere. Work is queued and calls return at once; a queue is a stream, a mark an event. */
#ifndef REDCO_BACKEND_CUDA_H
#define REDCO_BACKEND_CUDA_H

#include "executor/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_cuda_options {
    uint32_t device;             /**< as the driver numbers those that it shows */
    uint64_t memory_limit_bytes; /**< allocations beyond fail with REDCO_ENOMEM; 0 = none */
    bool tf32;                   /**< products of F32 in TF32, with 10 bits of significand */
    bool tune;                   /**< products are timed when they are met first, and the fastest algorithm kept: other
                                    roundings from run to run; the first step waits */
    bool own_attention;          /**< cuDNN is not used: for comparisons, or where it is not installed */
} redco_cuda_options;

/** @param options NULL for all zero. @param backend_out to be freed with redco_backend_close()
 *  @return REDCO_ESYSTEM "no CUDA device: ..." where there is no driver, no device, a library is missing, or redco was
 * built without CUDA */
redco_status redco_cuda_open(const redco_cuda_options *options, redco_backend **backend_out, redco_error *err);

/** What was measured on: all of it of the device that @p backend is. */
typedef struct redco_cuda_device {
    char name[128]; /**< "NVIDIA H200" */
    char uuid[48];
    uint32_t major, minor; /**< of its compute capability */
    uint32_t multiprocessors;
    uint64_t memory_bytes, free_bytes;
    double clock_hz, memory_clock_hz;
    uint32_t driver_version, blas_version, dnn_version; /**< as the libraries give them; 0 where not loaded */
} redco_cuda_device;
redco_status redco_cuda_describe(const redco_backend *backend, redco_cuda_device *device_out, redco_error *err);

/** How many devices there are: 0 where there is no driver. Never fails. */
uint32_t redco_cuda_count(void);

#ifdef __cplusplus
}
#endif
#endif
