/** @file nvml.h  NVML's counters of the GPU that a CUDA backend is. NVML is loaded when it is asked for; a machine
 *  without it, or a GPU that does not count, is no error. */
#ifndef REDCO_BACKEND_NVML_H
#define REDCO_BACKEND_NVML_H

#include "executor/backend/cuda/cuda.h"
#include "executor/backend/meter.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_nvml redco_nvml;

enum { REDCO_NVML_WHY_BYTES = 256 };

/** The GPU is found by its UUID, whatever CUDA_VISIBLE_DEVICES shows.
 *  @return NULL, and one line in @p why: no NVML, a GPU that it does not know, or a slice of one (MIG), whose joules
 *          it does not tell; to be closed with redco_nvml_close() */
redco_nvml *redco_nvml_open(const redco_backend *backend, char why[REDCO_NVML_WHY_BYTES]);
void redco_nvml_close(redco_nvml *nvml); /**< NULL is accepted */

/** Joules where the GPU counts them (Volta and later), watts, clocks. As long as @p nvml is open. */
redco_meter redco_nvml_meter(redco_nvml *nvml);
/** That the driver enforces now; 0: not known. */
double redco_nvml_limit_w(const redco_nvml *nvml);

#ifdef __cplusplus
}
#endif
#endif
