/* The calls that are left where redco is built without CUDA. */
#include "executor/comm/nccl/nccl.h"

static redco_status missing(redco_error *err)
{
    return redco_fail(err, REDCO_ESYSTEM, "nccl", "redco was built without CUDA");
}

redco_status redco_nccl_open(redco_world *world, redco_backend *backend, const redco_nccl_options *options,
                             redco_device_comm **device_comm_out, redco_error *err)
{
    (void)world;
    (void)backend;
    (void)options;
    (void)device_comm_out;
    return missing(err);
}

uint32_t redco_nccl_version(void)
{
    return 0;
}
