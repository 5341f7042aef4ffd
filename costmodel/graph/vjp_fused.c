/* Gradient rules of fused operators: their fused gradients. Where statistics that they return are themselves used, or
 * tables need a gradient, the rule declines and the decomposition is differentiated. */
#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/vjp.h"

#include <string.h>

static bool only_first_output(const redcoi_vjp *v)
{
    for (uint32_t i = 1; i < v->op->output_count; i++) {
        if (v->cotangent[i] != REDCO_NO_VALUE) { return false; }
    }
    return v->cotangent[0] != REDCO_NO_VALUE;
}

bool redcoi_vjp_softmax(redcoi_vjp *v)
{
    const redco_op_kind kind = v->op->kind == REDCO_OP_SOFTMAX ? REDCO_OP_SOFTMAX_GRAD : REDCO_OP_LOG_SOFTMAX_GRAD;
    v->gradient[0] = redcoi_binary(v->graph, kind, v->out[0], v->cotangent[0]);
    return true;
}

bool redcoi_vjp_rms_norm(redcoi_vjp *v)
{
    if (!only_first_output(v)) { return false; }
    const redco_value in[4] = {v->in[0], v->in[1], v->out[1], v->cotangent[0]};
    redco_graph_apply(v->graph, REDCO_OP_RMS_NORM_GRAD, in, 4, NULL, v->gradient);
    return true;
}

bool redcoi_vjp_layer_norm(redcoi_vjp *v)
{
    if (!only_first_output(v)) { return false; }
    const redco_value in[5] = {v->in[0], v->in[1], v->out[1], v->out[2], v->cotangent[0]};
    redco_graph_apply(v->graph, REDCO_OP_LAYER_NORM_GRAD, in, 5, NULL, v->gradient);
    return true;
}

bool redcoi_vjp_rotary(redcoi_vjp *v)
{
    if (v->needed[1] || v->needed[2]) { return false; }
    redco_attributes attributes = v->op->attributes;
    attributes.flags ^= REDCO_FLAG_INVERSE; /* a rotation's transpose is the rotation back */
    const redco_value in[3] = {v->cotangent[0], v->in[1], v->in[2]};
    redco_graph_apply(v->graph, REDCO_OP_ROTARY, in, 3, &attributes, v->gradient);
    return true;
}

bool redcoi_vjp_attention(redcoi_vjp *v)
{
    redco_value in[7];
    const uint32_t n = v->op->input_count;
    if (!only_first_output(v)) { return false; }
    memcpy(in, v->in, n * sizeof *in);
    in[n] = v->out[0];
    in[n + 1] = v->out[1];
    in[n + 2] = v->cotangent[0];
    redco_graph_apply(v->graph, REDCO_OP_ATTENTION_GRAD, in, n + 3, &v->op->attributes, v->gradient);
    if (n == 4 && v->needed[3]) {
        redco_graph_apply(v->graph, REDCO_OP_ATTENTION_BIAS_GRAD, in, n + 3, &v->op->attributes, &v->gradient[3]);
    }
    return true;
}

bool redcoi_vjp_cross_entropy(redcoi_vjp *v)
{
    redco_graph *g = v->graph;
    if (!only_first_output(v)) { return false; }
    redco_value d = v->cotangent[0];
    if ((v->op->attributes.flags & REDCO_FLAG_MASKED) != 0) { /* rows without a target have no loss */
        const redco_tensor_type *logits = redco_value_type(g, v->in[0]);
        const redco_value zero = redcoi_constant_like(g, v->in[1], 0);
        const redco_value n = redcoi_constant_like(g, v->in[1], (double)logits->dim[logits->rank - 1]);
        const redco_value inside = redco_and(g, redco_less_equal(g, zero, v->in[1]), redco_less(g, v->in[1], n));
        d = redco_select(g, inside, d, redcoi_constant_like(g, d, 0));
    }
    const redco_value in[4] = {v->in[0], v->in[1], v->out[1], d};
    redco_graph_apply(g, REDCO_OP_CROSS_ENTROPY_GRAD, in, 4, &v->op->attributes, v->gradient);
    return true;
}
