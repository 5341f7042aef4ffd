/** @file devices.h  A GPU for each rank of a world. */
#ifndef REDCO_DEVICES_H
#define REDCO_DEVICES_H

#include "executor/backend/cuda/cuda.h"
#include "executor/comm/communicator.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Opens for each rank the GPU of its number among the ranks of its machine, or the only ones that the rank is shown:
 *  launchers that deal out GPUs show each rank its own. Every rank calls it, with the same options; those that fail
 * leave the world.
 *  @param options      its device is not looked at
 *  @param share        ranks may have the same GPU: for tests (redco_nccl_options.share)
 *  @param backend_out  to be freed with redco_backend_close()
 *  @return REDCO_ESYSTEM "no CUDA device: ...", or if two ranks have the same GPU, whose times would mean nothing, and
 *          they do not @p share it */
redco_status redco_devices_open(redco_world *world, const redco_cuda_options *options, bool share,
                                redco_backend **backend_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
