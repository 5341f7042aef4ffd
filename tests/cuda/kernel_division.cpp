// Division as kernels/device.cuh has it, for test_cuda_kernels_graph.
#include "tests/cuda/device_shim.h"

#include "executor/backend/cuda/kernels/device.cuh"

extern "C" uint64_t kernel_divide(uint64_t n, const redcoi_divisor *d)
{
    return redco::divide(n, *d);
}
