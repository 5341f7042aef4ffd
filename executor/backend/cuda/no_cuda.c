/* The backend where redco was built without CUDA. */
#include "executor/backend/cuda/cuda.h"

static redco_status not_built(redco_error *err)
{
    return redco_fail(
        err, REDCO_ESYSTEM, "cuda",
        "no CUDA device: redco was built without CUDA; install the toolkit, cuDNN's and NCCL's headers and "
        "configure with -DREDCO_CUDA=ON");
}

redco_status redco_cuda_open(const redco_cuda_options *options, redco_backend **backend_out, redco_error *err)
{
    (void)options;
    (void)backend_out;
    return not_built(err);
}

redco_status redco_cuda_describe(const redco_backend *backend, redco_cuda_device *device_out, redco_error *err)
{
    (void)backend;
    (void)device_out;
    return not_built(err);
}

uint32_t redco_cuda_count(void)
{
    return 0;
}
