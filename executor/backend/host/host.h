/** @file host.h  The backend of this processor: products by OpenBLAS, everything else in plain C, one thread by
 * default. */
#ifndef REDCO_BACKEND_HOST_H
#define REDCO_BACKEND_HOST_H

#include "executor/backend/backend.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_host_options {
    uint32_t threads;            /**< OpenBLAS's threads in this process; 0 means 1 */
    uint64_t memory_limit_bytes; /**< allocations beyond fail with REDCO_ENOMEM; 0 = none */
} redco_host_options;

/** @param options NULL for all zero. @param backend_out to be freed with redco_backend_close() */
redco_status redco_host_open(const redco_host_options *options, redco_backend **backend_out, redco_error *err);
/** Bytes of live allocations, and the most there ever were. */
void redco_host_memory(const redco_backend *backend, uint64_t *live_bytes_out, uint64_t *peak_bytes_out);
/** The kernels that OpenBLAS chose, "Haswell": a measured time depends on it. Static. */
const char *redco_host_core_name(void);

#ifdef __cplusplus
}
#endif
#endif
