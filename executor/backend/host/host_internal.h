/** @file host_internal.h  Calls of the table that host.c takes from run.c, and how that runs 16 bits (halves.c,
 *  workspace.c). */
#ifndef REDCO_HOST_INTERNAL_H
#define REDCO_HOST_INTERNAL_H

#include "executor/backend/host/kernels.h"

bool redcoi_host_supports(const redco_backend *backend, const redco_launch *launch);
uint64_t redcoi_host_workspace_bytes(const redco_backend *backend, const redco_launch *launch);
redco_status redcoi_host_run(redco_backend *backend, redco_device_stream *stream, const redco_launch *launch,
                             redco_error *err);

/** @return whether the operator's kernel takes tensors of any type as they are (run.c): it needs no workspace */
bool redcoi_host_any_type(redco_op_kind kind);
/** Most tensors of an operator that runs in blocks, and 16-bit ones among them. */
enum { REDCOI_BLOCKS_TENSORS = 9, REDCOI_BLOCKS_HALVES = 4 };

/** BF16 or F16. */
bool redcoi_is_half(redco_dtype dtype);
/** Bytes of the float copy of a tensor; 0 if it needs none. */
uint64_t redcoi_host_copy_bytes(const redco_tensor *tensor);
/** @return whether the operator has 16-bit tensors, all of the shape of its result: it needs no copies of them */
bool redcoi_host_in_blocks(const redco_launch *launch);
/** AdamW's numbers, which all elements read. @param tensor  number among inputs, then outputs */
bool redcoi_host_is_shared(const redco_launch *launch, uint32_t tensor);
/** Runs one of those in blocks. @param kernel  for floats */
redco_status redcoi_host_run_blocks(redcoi_kernel kernel, const redco_launch *launch, redco_error *err);

#endif
