/* See attention.h: stored in 16 bits, computed in float. */
#include "executor/backend/cuda/kernels/attention.cuh"

REDCO_ATTENTION(bf16, redco::bf16)
REDCO_ATTENTION(f16, redco::f16)
