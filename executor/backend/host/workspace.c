/* Workspaces of the host. Who plans memory for processors links this file, and no kernel. */
#include "executor/backend/host/attention.h"
#include "executor/backend/host/host_internal.h"

uint64_t redcoi_kernel_workspace_bytes(const redco_launch *launch, uint64_t element_bytes)
{
    const redco_tensor_type *in = &launch->inputs[0].type;
    switch (launch->kind) {
    case REDCO_OP_REDUCE_SUM: /* sums in double */
    case REDCO_OP_REDUCE_MAX:
    case REDCO_OP_REDUCE_MIN: return redco_type_elements(&launch->outputs[0].type) * sizeof(double);
    case REDCO_OP_MATMUL_BIAS_GRAD: return redco_type_elements(&launch->outputs[1].type) * sizeof(double);
    case REDCO_OP_RMS_NORM_GRAD: /* gradients of scale and shift in double */
    case REDCO_OP_LAYER_NORM_GRAD: return 2 * in->dim[in->rank - 1] * sizeof(double);
    case REDCO_OP_ATTENTION: /* scores of a block of queries */
    case REDCO_OP_ATTENTION_GRAD:
    case REDCO_OP_ATTENTION_BIAS_GRAD: {
        uint64_t queries = in->dim[1] < REDCOI_ATTENTION_ROWS ? in->dim[1] : REDCOI_ATTENTION_ROWS;
        if (launch->kind == REDCO_OP_ATTENTION && queries == 1) { queries = in->dim[2]; } /* all heads at once */
        const uint64_t scores = queries * launch->inputs[1].type.dim[1] * element_bytes;
        return launch->kind == REDCO_OP_ATTENTION ? scores : 2 * scores;
    }
    default: return 0;
    }
}

bool redcoi_is_half(redco_dtype dtype)
{
    return dtype == REDCO_BFLOAT16 || dtype == REDCO_F16;
}

bool redcoi_host_any_type(redco_op_kind kind)
{
    switch (kind) {
    case REDCO_OP_CONSTANT:
    case REDCO_OP_IOTA:
    case REDCO_OP_STOP_GRADIENT:
    case REDCO_OP_RESHAPE:
    case REDCO_OP_CAST:
    case REDCO_OP_NOT:
    case REDCO_OP_AND:
    case REDCO_OP_OR:
    case REDCO_OP_TRANSPOSE:
    case REDCO_OP_BROADCAST:
    case REDCO_OP_SLICE:
    case REDCO_OP_PAD:
    case REDCO_OP_CONCAT:
    case REDCO_OP_GATHER:
    case REDCO_OP_SELECT:
    case REDCO_OP_POINTWISE: return true;
    default: return false;
    }
}

static uint64_t aligned(uint64_t size_bytes)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    return (size_bytes + unit - 1) / unit * unit;
}

uint64_t redcoi_host_copy_bytes(const redco_tensor *t)
{
    return redcoi_is_half(t->type.dtype) ? aligned(redco_type_elements(&t->type) * sizeof(float)) : 0;
}

bool redcoi_host_is_shared(const redco_launch *launch, uint32_t tensor)
{
    return tensor == 4 && (launch->kind == REDCO_OP_ADAMW || launch->kind == REDCO_OP_ADAMW_ROUNDED);
}

bool redcoi_host_in_blocks(const redco_launch *launch)
{
    const uint32_t count = launch->input_count + launch->output_count;
    uint32_t halves = 0;
    if (launch->kind == REDCO_OP_SUM_SQUARES) { return redcoi_is_half(launch->inputs[0].type.dtype); }
    if (redco_op_kind_class(launch->kind) != REDCO_CLASS_ELEMENTWISE || count > REDCOI_BLOCKS_TENSORS) { return false; }
    for (uint32_t i = 0; i < count; i++) {
        const redco_tensor *const t =
            i < launch->input_count ? &launch->inputs[i] : &launch->outputs[i - launch->input_count];
        halves += redcoi_is_half(t->type.dtype) ? 1 : 0;
        if (!redcoi_host_is_shared(launch, i) && !redco_type_same_dims(&t->type, &launch->outputs[0].type)) {
            return false;
        }
    }
    return halves > 0 && halves <= REDCOI_BLOCKS_HALVES;
}

uint64_t redcoi_host_workspace_bytes(const redco_backend *backend, const redco_launch *launch)
{
    uint64_t bytes = 0;
    bool wide = false;
    (void)backend;
    if (redcoi_host_any_type(launch->kind) || redcoi_host_in_blocks(launch)) { return 0; }
    for (uint32_t i = 0; i < launch->input_count; i++) {
        bytes += redcoi_host_copy_bytes(&launch->inputs[i]);
        wide = wide || launch->inputs[i].type.dtype == REDCO_F64;
    }
    for (uint32_t i = 0; i < launch->output_count; i++) { bytes += redcoi_host_copy_bytes(&launch->outputs[i]); }
    return bytes + redcoi_kernel_workspace_bytes(launch, wide ? sizeof(double) : sizeof(float));
}
