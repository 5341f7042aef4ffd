/* Which runner has an operator: the first that says so. */
#include "executor/backend/cuda/cuda_internal.h"

static const redcoi_runner *find_runner(const redcoi_cuda *cuda, const redco_launch *launch)
{
    const redcoi_runner *const dnn = cuda->dnn != NULL ? &redcoi_dnn_runner : NULL;
    const redcoi_runner *const runners[] = {&redcoi_matmul_runner, dnn, &redcoi_own_attention_runner,
                                            &redcoi_pointwise_runner, &redcoi_kernels_runner};
    if (launch->kind == REDCO_OP_INPUT || redco_op_kind_class(launch->kind) == REDCO_CLASS_COLLECTIVE) { return NULL; }
    for (size_t i = 0; i < sizeof runners / sizeof runners[0]; i++) {
        if (runners[i] != NULL && runners[i]->supports(cuda, launch)) { return runners[i]; }
    }
    return NULL;
}

bool redcoi_cuda_supports(const redco_backend *backend, const redco_launch *launch)
{
    return find_runner((const redcoi_cuda *)backend, launch) != NULL;
}

uint64_t redcoi_cuda_workspace_bytes(const redco_backend *backend, const redco_launch *launch)
{
    const redcoi_cuda *const cuda = (const redcoi_cuda *)backend;
    const redcoi_runner *const runner = find_runner(cuda, launch);
    return runner == NULL ? 0 : runner->workspace_bytes(cuda, launch);
}

redco_status redcoi_cuda_run(redco_backend *backend, redco_device_stream *stream, const redco_launch *launch,
                             redco_error *err)
{
    redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_runner *const runner = find_runner(cuda, launch);
    if (runner == NULL && redcoi_has_bias(launch)) {
        return redco_fail(err, REDCO_EVALUE, launch->name,
                          "attention adds a bias to its scores (ALiBi, relative positions), for which the CUDA backend "
                          "has no kernel: use --backend host");
    }
    if (runner == NULL) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "the CUDA backend has no %s for these types",
                          redco_op_kind_name(launch->kind));
    }
    const redco_status st = redcoi_cuda_enter(cuda, err);
    return st == REDCO_OK ? runner->run(cuda, stream, launch, err) : st;
}
