/** @file exec_device.h  The words of redco-exec about the GPU that a rank trains on. Nothing here ends a run. */
#ifndef REDCO_TOOLS_EXEC_DEVICE_H
#define REDCO_TOOLS_EXEC_DEVICE_H

#include "executor/backend/backend.h"
#include "executor/backend/cuda/nvml.h"
#include "tools/cli/cli.h"
#include "tools/exec/exec_report.h"

/** Warns where ranks that share a GPU take turns on it. */
void exec_device_shared(const struct cli *cli, const redco_backend *backend);
/** The memory that driver, context and libraries hold on a GPU, when all of them were used: what is in use of it less
 * what redco asked for. Of other backends nothing. */
void exec_device_reserve(const struct cli *cli, redco_backend *backend, redco_trainer *trainer, struct exec_run *run);
/** Before the first step: warns where the plan was priced for launches of the other kind. @param graphs  of this run */
void exec_device_mode(const struct cli *cli, const redco_plan *plan, const char *backend, bool graphs);
/** After the first step: who runs attention. @param leads  warns where that is slow */
void exec_device_attention(const struct cli *cli, bool leads, const redco_backend *backend, struct exec_run *run);
/** Joules that rank 0's GPU counts, from the end of the first step, which warms up, to that of the last one. */
struct exec_joules {
    redco_nvml *nvml; /**< NULL: nobody tells */
    redco_meter_sample first;
};
void exec_device_joules_begin(const redco_backend *backend, struct exec_joules *joules);
void exec_device_joules_end(struct exec_joules *joules, struct exec_run *run);
/** After the second step: what is launched as graphs. @param leads  warns of what cannot be */
void exec_device_graphs(const struct cli *cli, bool leads, const redco_trainer *trainer, struct exec_run *run);

#endif
