/* The backend where redco was built without CUDA. */
#include "executor/backend/cuda/cuda.h"
#include "executor/backend/cuda/nvml.h"

#include <stdio.h>

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

void redco_cuda_attention_used(const redco_backend *backend, redco_cuda_attention *used_out)
{
    (void)backend;
    *used_out = (redco_cuda_attention){.dnn_launches = 0};
}

uint32_t redco_cuda_find_libraries(redco_cuda_library_kind kind, const char *const *folders,
                                   redco_cuda_library out[REDCO_CUDA_CANDIDATES])
{
    (void)kind;
    (void)folders;
    (void)out;
    return 0;
}

const char *redco_cuda_library_name(redco_cuda_library_kind kind)
{
    static const char *const names[REDCO_CUDA_LIBRARIES] = {"libcublasLt", "libcudnn", "libnccl"};
    return names[kind];
}

uint64_t redco_cuda_calls_made(const redco_backend *backend)
{
    (void)backend;
    return 0;
}

redco_nvml *redco_nvml_open(const redco_backend *backend, char why[REDCO_NVML_WHY_BYTES])
{
    (void)backend;
    (void)snprintf(why, REDCO_NVML_WHY_BYTES, "redco was built without CUDA");
    return NULL;
}

void redco_nvml_close(redco_nvml *nvml)
{
    (void)nvml;
}

redco_meter redco_nvml_meter(redco_nvml *nvml)
{
    return (redco_meter){.context = nvml};
}

double redco_nvml_limit_w(const redco_nvml *nvml)
{
    (void)nvml;
    return 0.0;
}
