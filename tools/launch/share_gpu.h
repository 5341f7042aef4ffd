/** @file share_gpu.h  Several ranks on one GPU by real NCCL, for tests (executor/GPU.md). */
#ifndef REDCO_TOOLS_SHARE_GPU_H
#define REDCO_TOOLS_SHARE_GPU_H

#include <stdbool.h>

/** Sets what NCCL reads when a process loads it, for this process and those that it starts: several ranks on a GPU are
 *  allowed; a communicator takes one multiprocessor, so that the kernels of all ranks, which wait for each other, run
 *  at once; no multicast memory, which ranks on one GPU cannot share. @return false if there is no memory */
bool share_gpu(void);

#endif
