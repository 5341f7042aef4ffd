/* The layouts that readers of a value demand, from the outputs back to the inputs. A demand decides how a partial sum
 * is reduced, and between choices that cost the same. */
#include "costmodel/layouts/partition_internal.h"

static const redco_tensor_type *type_of(const redcoi_builder *b, redco_value value)
{
    return redco_value_type(b->global, value);
}

static bool is_split(const redcoi_demand *demand)
{
    return demand->any && demand->layout.kind == REDCO_TP_SPLIT;
}

/** Whole suits everyone, since the own part of it costs nothing; so do two who want different parts. */
static void add_demand(redcoi_builder *b, redco_value value, redco_tp_layout layout)
{
    redcoi_demand *d = &b->demands[value];
    if (!redco_tp_fits(layout, type_of(b, value), b->ranks)) { return; }
    d->gathered = d->gathered || layout.kind == REDCO_TP_REPLICATED;
    if (d->any && !redco_tp_equal(d->layout, layout)) { layout = redco_tp_replicated(); }
    d->any = true;
    d->voices++;
    d->layout = layout;
}

static void add_demands(redcoi_builder *b, const redco_op *op, const redcoi_choice *choice, bool whole)
{
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (whole || choice->in[i].kind == REDCO_TP_SPLIT) { add_demand(b, op->inputs[i], choice->in[i]); }
    }
}

/** The first label that a demand for an output splits. @return false if there is none */
static bool demanded_split(const redcoi_builder *b, const redco_op *op, const redcoi_axes *axes, redcoi_choice *choice)
{
    for (uint32_t k = 0; k < op->output_count; k++) {
        const redcoi_demand *d = &b->demands[op->first_output + k];
        if (!is_split(d) || axes->out[k][d->layout.dim] == 0) { continue; }
        if (redcoi_split_label(b->global, op, axes, axes->out[k][d->layout.dim], d->layout.blocks, b->ranks, choice)) {
            return true;
        }
    }
    return false;
}

/** A product with a split weight is done by that split; without one, as its result is wanted. */
static void demand_of_matmul(redcoi_builder *b, const redco_op *op, const redcoi_axes *axes)
{
    redcoi_choice choice;
    for (uint32_t i = 0; i < 2; i++) {
        const redcoi_demand *weight = &b->weights[op->inputs[i]];
        if (!is_split(weight)) { continue; }
        if (redcoi_split_label(b->global, op, axes, axes->in[i][weight->layout.dim], weight->layout.blocks, b->ranks,
                               &choice)) {
            add_demand(b, op->inputs[1 - i], choice.in[1 - i]);
            return;
        }
    }
    if (demanded_split(b, op, axes, &choice)) { add_demands(b, op, &choice, true); }
}

/** Split query heads need whole keys if these cannot be split alike. */
static void demand_of_attention(redcoi_builder *b, const redco_op *op, const redcoi_axes *axes)
{
    redcoi_choice choice;
    if (demanded_split(b, op, axes, &choice)) {
        add_demands(b, op, &choice, false);
        return;
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        const redcoi_demand *d = &b->demands[op->first_output + k];
        if (!is_split(d)) { continue; }
        for (uint32_t i = 1; i < 3; i++) { add_demand(b, op->inputs[i], redco_tp_replicated()); }
        if (k == 0) { add_demand(b, op->inputs[0], redco_tp_split(2)); }
        return;
    }
}

static void demand_of_concat(redcoi_builder *b, const redco_op *op)
{
    const redcoi_demand *d = &b->demands[op->first_output];
    const uint32_t axis = op->attributes.axis[0];
    redcoi_choice choice;
    if (!is_split(d) || d->layout.dim != axis) { return; }
    if (redcoi_concat_layouts(b->global, op, type_of(b, op->first_output)->dim[axis] / d->layout.blocks, b->ranks,
                              &choice)) {
        add_demands(b, op, &choice, false);
    }
}

/** The other summand is repeated: a bias, which takes no part in how the result is made. */
static bool adds_bias(const redcoi_builder *b, const redco_op *op, uint32_t i)
{
    return op->kind == REDCO_OP_ADD && redco_type_same_dims(type_of(b, op->inputs[i]), type_of(b, op->first_output)) &&
           !redco_type_same_dims(type_of(b, op->inputs[1 - i]), type_of(b, op->first_output));
}

/** A result that is wanted whole needs its input whole: of moves, rotations and biases, and of the gradient of logits,
 * whose bytes are those of the logits and which would need three more reductions. */
static void demand_whole(redcoi_builder *b, const redco_op *op)
{
    const redcoi_demand *d = &b->demands[op->first_output];
    if (!d->any || d->layout.kind != REDCO_TP_REPLICATED) { return; }
    switch (op->kind) {
    case REDCO_OP_CROSS_ENTROPY_GRAD:
    case REDCO_OP_RESHAPE:
    case REDCO_OP_TRANSPOSE:
    case REDCO_OP_ROTARY: add_demand(b, op->inputs[0], redco_tp_replicated()); return;
    default: break;
    }
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (adds_bias(b, op, i)) { add_demand(b, op->inputs[i], redco_tp_replicated()); }
    }
}

static bool is_drawn(const redcoi_builder *b, redco_value value)
{
    const redco_op *op = redco_value_op(b->global, value);
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!redcoi_is_source(redco_value_op(b->global, op->inputs[i])->kind)) { return false; }
    }
    return true;
}

/** Dropout between split products: only the own part of the random numbers is drawn. */
static void demand_of_select(redcoi_builder *b, const redco_op *op, const redcoi_axes *axes)
{
    redcoi_choice choice;
    const redco_tp_layout usual = redcoi_default_layout(b, op->first_output);
    if (b->demands[op->first_output].any || usual.kind != REDCO_TP_SPLIT || axes->out[0][usual.dim] == 0 ||
        !is_drawn(b, op->inputs[0])) {
        return;
    }
    if (redcoi_split_label(b->global, op, axes, axes->out[0][usual.dim], usual.blocks, b->ranks, &choice) &&
        choice.in[0].kind == REDCO_TP_SPLIT) {
        add_demand(b, op->inputs[0], choice.in[0]);
    }
}

static void demand_of(redcoi_builder *b, const redco_op *op)
{
    redcoi_axes axes;
    redcoi_choice choice;
    redco_tp_layout layout;
    const redcoi_demand *d = &b->demands[op->first_output];
    redcoi_axes_of(b->global, op, &axes);
    switch (op->kind) {
    case REDCO_OP_GROUPED_MATMUL:
    case REDCO_OP_MATMUL: demand_of_matmul(b, op, &axes); return;
    case REDCO_OP_ATTENTION:
    case REDCO_OP_ATTENTION_GRAD: demand_of_attention(b, op, &axes); return;
    default: break;
    }
    if (is_split(d) && redco_op_kind_class(op->kind) == REDCO_CLASS_MOVE &&
        redcoi_move_layout(b->global, op, d->layout, false, b->ranks, &layout)) {
        add_demand(b, op->inputs[0], layout);
        return;
    }
    if (op->kind == REDCO_OP_CONCAT) { demand_of_concat(b, op); }
    if (op->kind == REDCO_OP_SELECT) { demand_of_select(b, op, &axes); }
    if (demanded_split(b, op, &axes, &choice)) { add_demands(b, op, &choice, false); }
    demand_whole(b, op);
}

bool redcoi_is_source(redco_op_kind kind)
{
    return kind == REDCO_OP_CONSTANT || kind == REDCO_OP_IOTA || kind == REDCO_OP_UNIFORM || kind == REDCO_OP_NORMAL;
}

void redcoi_find_demands(redcoi_builder *b, const redco_partition_output *outputs, const redco_tp_layout *layouts,
                         uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) { add_demand(b, outputs[i].value, layouts[i]); }
    for (uint32_t i = redco_graph_op_count(b->global); i > 0; i--) {
        const redco_op *op = redco_graph_op(b->global, i - 1);
        if (b->live[i - 1] && op->kind != REDCO_OP_INPUT) { demand_of(b, op); }
    }
}

/** Values that are a parameter under another shape or type, or made of parameters element by element. */
static void weight_of(redcoi_builder *b, const redco_op *op)
{
    redcoi_axes axes;
    redcoi_choice choice;
    redco_tp_layout layout;
    const redco_op_class class = redco_op_kind_class(op->kind);
    if (class != REDCO_CLASS_MOVE && class != REDCO_CLASS_ELEMENTWISE) { return; }
    redcoi_axes_of(b->global, op, &axes);
    for (uint32_t i = 0; i < op->input_count; i++) {
        const redcoi_demand *w = &b->weights[op->inputs[i]];
        if (!is_split(w) ||
            redco_type_elements(type_of(b, op->inputs[i])) != redco_type_elements(type_of(b, op->first_output))) {
            continue;
        }
        const uint8_t label = axes.in[i][w->layout.dim];
        if (redcoi_move_layout(b->global, op, w->layout, true, b->ranks, &layout)) {
            b->weights[op->first_output] = (redcoi_demand){.any = true, .layout = layout};
        } else if (label != 0 && redcoi_split_label(b->global, op, &axes, label, w->layout.blocks, b->ranks, &choice)) {
            b->weights[op->first_output] = (redcoi_demand){.any = true, .layout = choice.out[0]};
        }
        return;
    }
}

void redcoi_find_weights(redcoi_builder *b)
{
    for (uint32_t i = 0; i < redco_graph_op_count(b->global); i++) {
        const redco_op *op = redco_graph_op(b->global, i);
        if (b->live[i] && op->kind != REDCO_OP_INPUT) { weight_of(b, op); }
    }
}

redco_tp_layout redcoi_default_layout(const redcoi_builder *b, redco_value value)
{
    const redco_partition_options *o = b->options;
    const redco_tensor_type *type = type_of(b, value);
    for (uint32_t i = 0; o->sequence_parallel && i < o->sequence_count; i++) {
        redco_tp_layout layout = {REDCO_TP_SPLIT, 1, 1};
        const bool whole = type->rank >= 3 && type->dim[0] == o->batch && type->dim[1] == o->sequences[i];
        const bool folded = type->rank == 2 && type->dim[0] == o->batch * o->sequences[i];
        if (folded) { layout = (redco_tp_layout){REDCO_TP_SPLIT, 0, o->batch}; }
        if ((whole || folded) && redco_tp_fits(layout, type, b->ranks)) { return layout; }
    }
    return redco_tp_replicated();
}

redco_tp_layout redcoi_target_layout(const redcoi_builder *b, redco_value value)
{
    return b->demands[value].any ? b->demands[value].layout : redcoi_default_layout(b, value);
}
