#include "executor/backend/host/attention.h"
#include "executor/backend/host/kernels.h"

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
