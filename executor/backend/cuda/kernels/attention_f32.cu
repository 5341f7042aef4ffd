/* See attention.h. */
#include "executor/backend/cuda/kernels/attention.cuh"

REDCO_ATTENTION(f32, float)
