#include "executor/backend/cuda/cuda_internal.h"

static bool supports(const redcoi_cuda *cuda, const redco_launch *launch)
{
    (void)cuda;
    (void)launch;
    return false;
}

static uint64_t workspace_bytes(const redcoi_cuda *cuda, const redco_launch *launch)
{
    (void)cuda;
    (void)launch;
    return 0;
}

static redco_status run(redcoi_cuda *cuda, redco_queue *queue, const redco_launch *launch, redco_error *err)
{
    (void)cuda;
    (void)queue;
    return redco_fail(err, REDCO_EVALUE, launch->name, "no %s", redco_op_kind_name(launch->kind));
}

const redcoi_runner redcoi_dnn_runner = {supports, workspace_bytes, run};

redco_status redcoi_dnn_open(redcoi_cuda *cuda, redco_error *err)
{
    (void)cuda;
    (void)err;
    return REDCO_OK;
}

void redcoi_dnn_close(redcoi_cuda *cuda)
{
    (void)cuda;
}

uint32_t redcoi_dnn_version(const redcoi_cuda *cuda)
{
    (void)cuda;
    return 0;
}
