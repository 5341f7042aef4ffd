// All kernels, compiled for the host: what cuLaunchKernel() of the stand-in runs.
#include "tests/cuda/device_shim.h"

#include "executor/backend/cuda/kernels/occupy.cu"

#define KERNEL(name, arguments)                                                                                        \
    {                                                                                                                  \
#name, sizeof(arguments),                                                                                      \
            [](const standin_grid *grid, const void *parameters) { standin_run<arguments>(name, grid, parameters); }   \
    }

extern "C" const standin_kernel standin_kernels[] = {
    KERNEL(redco_k_occupy, redcoi_occupy_args),
};
extern "C" const size_t standin_kernel_count = sizeof standin_kernels / sizeof standin_kernels[0];
