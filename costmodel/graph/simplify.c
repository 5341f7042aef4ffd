/* Identities and constants: what needs no operator. Nothing here changes a result but for the sign of a zero. */
#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/graph_internal.h"

#include <math.h>

bool redcoi_is_constant(const redco_graph *graph, redco_value value, double *scalar_out)
{
    const redco_op *op = redco_value_op(graph, value);
    *scalar_out = op->attributes.scalar;
    return op->kind == REDCO_OP_CONSTANT;
}

static bool is_input_type(const redcoi_signature *s, uint32_t i)
{
    return redco_type_equal(&s->out[0], &s->in[i]);
}

/** x + 0, x - 0, x 1, x / 1, where nothing is repeated. */
static bool neutral_operand(const redco_graph *graph, const redcoi_signature *s, const redco_value *in,
                            redco_value *value_out)
{
    const bool commutes = s->kind == REDCO_OP_ADD || s->kind == REDCO_OP_MUL;
    const double neutral = s->kind == REDCO_OP_ADD || s->kind == REDCO_OP_SUB ? 0 : 1;
    double scalar;
    if (redcoi_is_constant(graph, in[1], &scalar) && scalar == neutral && is_input_type(s, 0)) {
        *value_out = in[0];
        return true;
    }
    if (commutes && redcoi_is_constant(graph, in[0], &scalar) && scalar == neutral && is_input_type(s, 1)) {
        *value_out = in[1];
        return true;
    }
    return false;
}

/** As the element type stores it: folding must not give other digits than running does. Only exact types fold. */
static bool fold(redco_graph *graph, const redcoi_signature *s, double result, redco_value *value_out)
{
    const redco_dtype dtype = s->out[0].dtype;
    if (dtype == REDCO_F32) { result = (double)(float)result; }
    if ((dtype != REDCO_F32 && dtype != REDCO_F64) || !isfinite(result)) { return false; }
    *value_out = redco_constant(graph, &s->out[0], result);
    return true;
}

static bool fold_binary(redco_graph *graph, const redcoi_signature *s, const redco_value *in, redco_value *value_out)
{
    double a, b;
    if (!redcoi_is_constant(graph, in[0], &a) || !redcoi_is_constant(graph, in[1], &b)) { return false; }
    switch (s->kind) {
    case REDCO_OP_ADD: return fold(graph, s, a + b, value_out);
    case REDCO_OP_SUB: return fold(graph, s, a - b, value_out);
    case REDCO_OP_MUL: return fold(graph, s, a * b, value_out);
    case REDCO_OP_DIV: return fold(graph, s, a / b, value_out);
    default: return false;
    }
}

static bool same_dims(const redcoi_signature *s)
{
    return redco_type_same_dims(&s->out[0], &s->in[0]);
}

static bool identity_order(const redco_attributes *a)
{
    for (uint32_t i = 0; i < a->axis_count; i++) {
        if (a->axis[i] != i) { return false; }
    }
    return true;
}

static bool simplify_reshape(redco_graph *graph, const redcoi_signature *s, redco_value in, redco_value *value_out)
{
    const redco_op *before = redco_value_op(graph, in);
    if (same_dims(s)) {
        *value_out = in;
        return true;
    }
    if (before->kind != REDCO_OP_RESHAPE || graph->label.opaque) { return false; }
    *value_out = redco_reshape(graph, before->inputs[0], s->out[0].rank, s->out[0].dim);
    return true;
}

static bool simplify_transpose(redco_graph *graph, const redcoi_signature *s, redco_value in, redco_value *value_out)
{
    const redco_op *before = redco_value_op(graph, in);
    uint32_t axes[REDCO_RANK_MAX];
    if (identity_order(s->attributes)) {
        *value_out = in;
        return true;
    }
    if (before->kind != REDCO_OP_TRANSPOSE || graph->label.opaque) { return false; }
    for (uint32_t i = 0; i < s->attributes->axis_count; i++) {
        axes[i] = before->attributes.axis[s->attributes->axis[i]];
    }
    *value_out = redco_transpose(graph, before->inputs[0], axes);
    return true;
}

/** Moves of a constant are a constant. */
static bool moved_constant(redco_graph *graph, const redcoi_signature *s, redco_value in, redco_value *value_out)
{
    double scalar;
    if (!redcoi_is_constant(graph, in, &scalar)) { return false; }
    *value_out = redco_constant(graph, &s->out[0], scalar);
    return true;
}

static bool simplify_cast(redco_graph *graph, const redcoi_signature *s, redco_value in, redco_value *value_out)
{
    double scalar;
    if (s->in[0].dtype == s->out[0].dtype) {
        *value_out = in;
        return true;
    }
    const bool exact = s->in[0].dtype == REDCO_F32 && s->out[0].dtype == REDCO_F64;
    if (exact && redcoi_is_constant(graph, in, &scalar)) { return fold(graph, s, (double)(float)scalar, value_out); }
    return false;
}

/** The one axis along which @p pad pads, or its rank if there is none or more than one. */
static uint32_t padded_axis(const redco_graph *graph, const redco_op *pad)
{
    const redco_tensor_type *in = redco_value_type(graph, pad->inputs[0]);
    uint32_t axis = in->rank;
    for (uint32_t i = 0; i < in->rank; i++) {
        if (in->dim[i] == pad->attributes.size[i]) { continue; }
        if (axis != in->rank) { return in->rank; }
        axis = i;
    }
    return axis;
}

/** Two neighbours inside zeros, added: one piece. So the gradients of a tensor's slices become a concatenation. */
static bool add_pads(redco_graph *graph, const redcoi_signature *s, const redco_value *in, redco_value *value_out)
{
    const redco_op *a = redco_value_op(graph, in[0]), *b = redco_value_op(graph, in[1]);
    if (a->kind != REDCO_OP_PAD || b->kind != REDCO_OP_PAD || graph->label.opaque || !is_input_type(s, 0) ||
        !is_input_type(s, 1)) {
        return false;
    }
    const uint32_t axis = padded_axis(graph, a);
    if (axis == s->out[0].rank || axis != padded_axis(graph, b)) { return false; }
    if (b->attributes.begin[axis] < a->attributes.begin[axis]) {
        const redco_op *kept = a;
        a = b;
        b = kept;
    }
    const uint64_t size = redco_value_type(graph, a->inputs[0])->dim[axis];
    if (a->attributes.begin[axis] + size != b->attributes.begin[axis]) { return false; }
    const redco_value pieces[2] = {a->inputs[0], b->inputs[0]};
    *value_out = redco_pad(graph, redco_concat(graph, pieces, 2, axis), a->attributes.begin, s->out[0].dim);
    return true;
}

/** A concatenation of concatenations along one axis is one. */
static bool simplify_concat(redco_graph *graph, const redcoi_signature *s, const redco_value *in,
                            redco_value *value_out)
{
    redco_value pieces[REDCO_INPUTS_MAX];
    const uint32_t axis = s->attributes->axis[0];
    uint32_t count = 0;
    if (s->input_count == 1) {
        *value_out = in[0];
        return true;
    }
    for (uint32_t i = 0; i < s->input_count; i++) {
        const redco_op *op = redco_value_op(graph, in[i]);
        const bool inner = op->kind == REDCO_OP_CONCAT && op->attributes.axis[0] == axis && !graph->label.opaque;
        const uint32_t more = inner ? op->input_count : 1;
        if (more > REDCO_INPUTS_MAX - count) { return false; }
        for (uint32_t k = 0; k < more; k++) { pieces[count++] = inner ? op->inputs[k] : in[i]; }
    }
    if (count == s->input_count) { return false; }
    *value_out = redco_concat(graph, pieces, count, axis);
    return true;
}

bool redcoi_simplify(redco_graph *graph, const redcoi_signature *s, const redco_value *in, redco_value *value_out)
{
    const redco_attributes *a = s->attributes;
    switch (s->kind) {
    case REDCO_OP_ADD:
        if (add_pads(graph, s, in, value_out)) { return true; }
        return fold_binary(graph, s, in, value_out) || neutral_operand(graph, s, in, value_out);
    case REDCO_OP_SUB:
    case REDCO_OP_MUL:
    case REDCO_OP_DIV: return fold_binary(graph, s, in, value_out) || neutral_operand(graph, s, in, value_out);
    case REDCO_OP_NEG:
        if (redco_value_op(graph, in[0])->kind == REDCO_OP_NEG && !graph->label.opaque) {
            *value_out = redco_value_op(graph, in[0])->inputs[0];
            return true;
        }
        return false;
    case REDCO_OP_POW:
        if (a->scalar == 1) { *value_out = in[0]; }
        if (a->scalar == 0) { *value_out = redco_constant(graph, &s->out[0], 1); }
        return a->scalar == 1 || a->scalar == 0;
    case REDCO_OP_CAST: return simplify_cast(graph, s, in[0], value_out);
    case REDCO_OP_REDUCE_SUM:
    case REDCO_OP_REDUCE_MAX:
    case REDCO_OP_REDUCE_MIN:
        if (same_dims(s)) { *value_out = in[0]; } /* only dimensions of 1 are reduced */
        return same_dims(s);
    case REDCO_OP_RESHAPE:
        return moved_constant(graph, s, in[0], value_out) || simplify_reshape(graph, s, in[0], value_out);
    case REDCO_OP_TRANSPOSE:
        return moved_constant(graph, s, in[0], value_out) || simplify_transpose(graph, s, in[0], value_out);
    case REDCO_OP_BROADCAST:
    case REDCO_OP_SLICE:
        if (same_dims(s)) { *value_out = in[0]; }
        return same_dims(s) || moved_constant(graph, s, in[0], value_out);
    case REDCO_OP_PAD:
        if (same_dims(s)) { *value_out = in[0]; }
        return same_dims(s);
    case REDCO_OP_ALL_REDUCE:
    case REDCO_OP_ALL_GATHER:
    case REDCO_OP_REDUCE_SCATTER:
        if (a->ranks == 1) { *value_out = in[0]; }
        return a->ranks == 1;
    case REDCO_OP_CONCAT: return simplify_concat(graph, s, in, value_out);
    default: return false;
    }
}
