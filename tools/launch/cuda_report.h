/** @file cuda_report.h  Describes a GPU's libraries for people. */
#ifndef REDCO_TOOLS_CUDA_REPORT_H
#define REDCO_TOOLS_CUDA_REPORT_H

#include "executor/backend/cuda/cuda.h"

#include <stddef.h>

/** The library that ran attention until now: "cuDNN 9.19.0 (PATH)", "own kernels: why", both, or "" if there was none.
 *  @param backend  NULL, or of any kind */
void cuda_attention_text(const redco_backend *backend, char *text, size_t size);
/** The warning that is due where own kernels ran attention of 16 bits. @return false: none is */
bool cuda_attention_warning(const redco_backend *backend, char *text, size_t size);

#endif
