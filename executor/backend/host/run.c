/* Which kernel runs an operator. Half-precision tensors are computed as float: converted, block by block (halves.c) or
 * into the workspace, and results rounded where they are stored, as on a device that computes in float and stores in
 * half. */
#include "executor/backend/host/host_internal.h"

#include <assert.h>

/* redcoi_host_any_type() of their kinds. */
static const redcoi_kernel any_type[REDCO_OP_COUNT] = {
    [REDCO_OP_CONSTANT] = redcoi_host_constant,  [REDCO_OP_IOTA] = redcoi_host_iota,
    [REDCO_OP_STOP_GRADIENT] = redcoi_host_copy, [REDCO_OP_RESHAPE] = redcoi_host_copy,
    [REDCO_OP_CAST] = redcoi_host_cast,          [REDCO_OP_NOT] = redcoi_host_logic,
    [REDCO_OP_AND] = redcoi_host_logic,          [REDCO_OP_OR] = redcoi_host_logic,
    [REDCO_OP_TRANSPOSE] = redcoi_host_strided,  [REDCO_OP_BROADCAST] = redcoi_host_strided,
    [REDCO_OP_SLICE] = redcoi_host_strided,      [REDCO_OP_PAD] = redcoi_host_pad,
    [REDCO_OP_CONCAT] = redcoi_host_concat,      [REDCO_OP_GATHER] = redcoi_host_gather,
    [REDCO_OP_SELECT] = redcoi_host_select,      [REDCO_OP_POINTWISE] = redcoi_host_pointwise,
};

static redcoi_kernel find_kernel(const redco_launch *launch)
{
    if (any_type[launch->kind] != NULL) { return any_type[launch->kind]; }
    bool real = false, wide = false;
    for (uint32_t i = 0; i < launch->input_count + launch->output_count; i++) {
        const redco_tensor *t =
            i < launch->input_count ? &launch->inputs[i] : &launch->outputs[i - launch->input_count];
        real = real || redco_dtype_is_float(t->type.dtype);
        wide = wide || t->type.dtype == REDCO_F64;
    }
    if (redco_op_kind_class(launch->kind) == REDCO_CLASS_COLLECTIVE) { return NULL; }
    if (launch->kind == REDCO_OP_ADAMW || launch->kind == REDCO_OP_ADAMW_ROUNDED) { /* as its parameters are */
        wide = launch->inputs[0].type.dtype == REDCO_F64;
    }
    if (!real) { return redco_op_kind_class(launch->kind) == REDCO_CLASS_ELEMENTWISE ? redcoi_host_integer : NULL; }
    return wide ? redcoi_kernels_f64[launch->kind] : redcoi_kernels_f32[launch->kind];
}

bool redcoi_host_supports(const redco_backend *backend, const redco_launch *launch)
{
    (void)backend;
    assert((any_type[launch->kind] != NULL) == redcoi_host_any_type(launch->kind));
    return launch->kind != REDCO_OP_INPUT && find_kernel(launch) != NULL;
}

/** The tensor itself, or a float copy of it in the workspace. */
static redco_tensor as_float(const redco_tensor *t, unsigned char **workspace)
{
    redco_tensor copy = *t;
    if (redcoi_is_half(t->type.dtype)) {
        copy.type.dtype = REDCO_F32;
        copy.data = *workspace;
        *workspace += redcoi_host_copy_bytes(t);
    }
    return copy;
}

redco_status redcoi_host_run(redco_backend *backend, redco_device_stream *stream, const redco_launch *launch,
                             redco_error *err)
{
    const redcoi_kernel kernel = find_kernel(launch);
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    (void)backend;
    (void)stream;
    if (launch->kind == REDCO_OP_INPUT || kernel == NULL) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "the host has no %s", redco_op_kind_name(launch->kind));
    }
    if (any_type[launch->kind] != NULL) { return kernel(launch, err); }
    if (redcoi_host_in_blocks(launch)) { return redcoi_host_run_blocks(kernel, launch, err); }
    unsigned char *workspace = launch->workspace;
    redco_launch floats = *launch;
    floats.inputs = inputs;
    floats.outputs = outputs;
    for (uint32_t i = 0; i < launch->input_count; i++) {
        const redco_tensor *t = &launch->inputs[i];
        inputs[i] = as_float(t, &workspace);
        if (redcoi_is_half(t->type.dtype)) {
            redcoi_widen(t->type.dtype, t->data, redco_type_elements(&t->type), inputs[i].data);
        }
    }
    for (uint32_t i = 0; i < launch->output_count; i++) { outputs[i] = as_float(&launch->outputs[i], &workspace); }
    floats.workspace = workspace;
    const redco_status st = kernel(&floats, err);
    for (uint32_t i = 0; i < launch->output_count && st == REDCO_OK; i++) {
        const redco_tensor *t = &launch->outputs[i];
        if (redcoi_is_half(t->type.dtype)) {
            redcoi_narrow(t->type.dtype, outputs[i].data, redco_type_elements(&t->type), t->data);
        }
    }
    return st;
}
