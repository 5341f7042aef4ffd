/* The choice of how an operator is split: among all ways that its dimensions and special rules allow, the one whose
 * inputs and outputs move the fewest bytes, given the layouts in which the inputs are held by now and those that are
 * demanded of the outputs. Operators are visited once, in order. Ties: partial sums passed on; then a way that an input
 * is already split; then one that is demanded; then the first in the order in which ways are listed. */
#include "costmodel/layouts/partition_internal.h"

#include <string.h>

typedef struct search {
    const redcoi_builder *b;
    const redco_op *op;
    redcoi_axes axes;
    redcoi_choice *best;
    uint64_t bytes;
    uint32_t merit;
    bool any;
} search;

static const redco_tensor_type *in_type(const search *s, uint32_t i)
{
    return redco_value_type(s->b->global, s->op->inputs[i]);
}

static const redco_tensor_type *out_type(const search *s, uint32_t i)
{
    return redco_value_type(s->b->global, s->op->first_output + i);
}

static bool is_split(redco_tp_layout layout)
{
    return layout.kind == REDCO_TP_SPLIT;
}

/** Bytes that bring an output into the wanted layout; without one, only partial sums must be reduced. */
static uint64_t output_bytes(const search *s, uint32_t i, redco_tp_layout layout)
{
    const redco_value value = s->op->first_output + i;
    const redcoi_demand *demand = &s->b->demands[value];
    const uint64_t bytes = redco_type_bytes(out_type(s, i));
    const redco_tp_layout target = redcoi_target_layout(s->b, value);
    if (s->b->uses[value] == 0) { return 0; }
    if (layout.kind == REDCO_TP_PARTIAL) { return is_split(target) ? bytes : 2 * bytes; }
    if (!demand->any || layout.kind == REDCO_TP_REPLICATED || redco_tp_equal(target, layout)) { return 0; }
    return bytes;
}

/** Weights are not gathered for products, nor tables for lookups, unless that is how a rank gets its own columns. */
static bool gathers_weight(const search *s, const redcoi_choice *c)
{
    const bool lookup = s->op->kind == REDCO_OP_GATHER;
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        const redcoi_demand *w = &s->b->weights[s->op->inputs[i]];
        if (!w->any || redco_tp_equal(w->layout, c->in[i])) { continue; }
        if (s->op->kind == REDCO_OP_MATMUL || s->op->kind == REDCO_OP_GROUPED_MATMUL) { return true; }
        if (lookup && i == 0 && !(is_split(c->in[0]) && c->in[0].dim > 0)) { return true; }
    }
    return false;
}

/** Held in that layout, or a partial sum that is usually scattered so. */
static bool held_so(const search *s, uint32_t i, redco_tp_layout layout)
{
    const redcoi_slot *slot = &s->b->slots[s->op->inputs[i]];
    const bool usual = redco_tp_equal(redcoi_default_layout(s->b, s->op->inputs[i]), layout);
    for (uint32_t k = 0; k < slot->copy_count; k++) {
        if (redco_tp_equal(slot->copies[k].layout, layout)) { return true; }
    }
    for (uint32_t k = 0; k < slot->part_count; k++) {
        if (redco_tp_equal(slot->parts[k].layout, layout)) { return true; }
        if (usual && slot->parts[k].layout.kind == REDCO_TP_PARTIAL) { return true; }
    }
    return false;
}

static uint32_t merit_of(const search *s, const redcoi_choice *c)
{
    const redco_value out = s->op->first_output;
    const redcoi_demand *demand = &s->b->demands[out];
    bool native = false;
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        if (c->in[i].kind == REDCO_TP_PARTIAL) { return 5; } /* it may meet others before it is reduced */
        native = native || (is_split(c->in[i]) && held_so(s, i, c->in[i]));
    }
    if (is_split(c->out[0]) && native) { return 4; }
    /* Dividing the work of a product is worth it even if somebody may need all of the result. */
    const bool heavy = redco_op_kind_class(s->op->kind) == REDCO_CLASS_MATMUL ||
                       redco_op_kind_class(s->op->kind) == REDCO_CLASS_ATTENTION;
    const bool wanted = demand->any && (heavy || demand->voices >= s->b->uses[out]);
    if (wanted && redco_tp_equal(demand->layout, c->out[0])) { return 3; }
    if (c->out[0].kind == REDCO_TP_PARTIAL) { return 2; }
    return c->out[0].kind == REDCO_TP_REPLICATED ? 1 : 0;
}

static void consider(search *s, const redcoi_choice *c)
{
    uint64_t bytes = c->extra_bytes;
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        bool again = false;
        for (uint32_t k = 0; k < i; k++) {
            again = again || (s->op->inputs[k] == s->op->inputs[i] && redco_tp_equal(c->in[k], c->in[i]));
        }
        const bool free_of_cost = c->in[i].kind == REDCO_TP_REPLICATED && s->b->demands[s->op->inputs[i]].gathered;
        if (!again && !free_of_cost) { bytes += redcoi_obtain_bytes(s->b, s->op->inputs[i], c->in[i]); }
    }
    for (uint32_t i = 0; i < s->op->output_count; i++) { bytes += output_bytes(s, i, c->out[i]); }
    if (gathers_weight(s, c)) { bytes += REDCOI_FORBIDDEN; }
    const uint32_t merit = merit_of(s, c);
    if (s->any && (bytes > s->bytes || (bytes == s->bytes && merit <= s->merit))) { return; }
    s->any = true;
    s->bytes = bytes;
    s->merit = merit;
    *s->best = *c;
}

static redcoi_choice whole_choice(void)
{
    redcoi_choice c;
    memset(&c, 0, sizeof c); /* replicated is 0 */
    return c;
}

/* Ways of splitting one label */

typedef struct blocks {
    uint64_t count[REDCOI_BLOCKS_MAX];
    uint32_t used;
} blocks;

static void add_blocks(blocks *list, uint64_t count)
{
    for (uint32_t i = 0; i < list->used; i++) {
        if (list->count[i] == count) { return; }
    }
    if (list->used < REDCOI_BLOCKS_MAX) { list->count[list->used++] = count; }
}

static void add_layout(blocks *list, redco_tp_layout layout, const uint8_t *labels, uint8_t label)
{
    if (is_split(layout) && labels[layout.dim] == label) { add_blocks(list, layout.blocks); }
}

static void find_blocks(const search *s, uint8_t label, blocks *list)
{
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        const redco_value value = s->op->inputs[i];
        const redcoi_slot *slot = &s->b->slots[value];
        for (uint32_t k = 0; k < slot->copy_count; k++) {
            add_layout(list, slot->copies[k].layout, s->axes.in[i], label);
        }
        for (uint32_t k = 0; k < slot->part_count; k++) {
            add_layout(list, slot->parts[k].layout, s->axes.in[i], label);
        }
        if (s->b->demands[value].any) { add_layout(list, s->b->demands[value].layout, s->axes.in[i], label); }
    }
    for (uint32_t i = 0; i < s->op->output_count; i++) {
        add_layout(list, redcoi_target_layout(s->b, s->op->first_output + i), s->axes.out[i], label);
    }
}

static void consider_labels(search *s)
{
    for (uint32_t label = 1; label <= s->axes.count; label++) {
        blocks list = {.used = 0};
        find_blocks(s, (uint8_t)label, &list);
        for (uint32_t i = 0; i < list.used; i++) {
            redcoi_choice c = whole_choice();
            if (redcoi_split_label(s->b->global, s->op, &s->axes, (uint8_t)label, list.count[i], s->b->ranks, &c)) {
                consider(s, &c);
            }
        }
    }
}

/* Moves of a split dimension */

static void consider_move(search *s, redco_tp_layout layout)
{
    redcoi_choice c = whole_choice();
    c.in[0] = layout;
    if (redcoi_move_layout(s->b->global, s->op, layout, true, s->b->ranks, &c.out[0])) { consider(s, &c); }
}

static void consider_moves(search *s)
{
    const redcoi_slot *slot = &s->b->slots[s->op->inputs[0]];
    const redcoi_demand *demand = &s->b->demands[s->op->inputs[0]];
    redco_tp_layout back;
    for (uint32_t k = 0; k < slot->copy_count; k++) { consider_move(s, slot->copies[k].layout); }
    for (uint32_t k = 0; k < slot->part_count; k++) { consider_move(s, slot->parts[k].layout); }
    if (demand->any) { consider_move(s, demand->layout); }
    const redco_tp_layout target = redcoi_target_layout(s->b, s->op->first_output);
    if (redcoi_move_layout(s->b->global, s->op, target, false, s->b->ranks, &back)) { consider_move(s, back); }
}

static void consider_joint(search *s, uint64_t dim, uint64_t block_count)
{
    redcoi_choice c = whole_choice();
    if (block_count == 0 || dim % block_count != 0) { return; }
    if (redcoi_concat_layouts(s->b->global, s->op, dim / block_count, s->b->ranks, &c)) { consider(s, &c); }
}

static void consider_concat(search *s)
{
    const uint32_t axis = s->op->attributes.axis[0];
    const redco_tp_layout target = redcoi_target_layout(s->b, s->op->first_output);
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        const redcoi_slot *slot = &s->b->slots[s->op->inputs[i]];
        for (uint32_t k = 0; k < slot->copy_count; k++) {
            const redco_tp_layout l = slot->copies[k].layout;
            if (is_split(l) && l.dim == axis) { consider_joint(s, in_type(s, i)->dim[axis], l.blocks); }
        }
    }
    if (is_split(target) && target.dim == axis) { consider_joint(s, out_type(s, 0)->dim[axis], target.blocks); }
}

/* Special rules */

/** Partial inputs that may stay so: the operator is linear in them together. */
static uint64_t linear_inputs(const search *s)
{
    const redco_tensor_type *in = in_type(s, 0), *out = out_type(s, 0);
    switch (s->op->kind) {
    case REDCO_OP_NEG:
    case REDCO_OP_STOP_GRADIENT:
    case REDCO_OP_REDUCE_SUM:
    case REDCO_OP_RESHAPE:
    case REDCO_OP_TRANSPOSE:
    case REDCO_OP_BROADCAST:
    case REDCO_OP_SLICE:
    case REDCO_OP_PAD:
    case REDCO_OP_PICK:
    case REDCO_OP_SORT_ROWS:
    case REDCO_OP_ROTARY:
    case REDCO_OP_DIV: return 1;
    case REDCO_OP_SCATTER_ADD:
    case REDCO_OP_UNPICK: return 2;
    case REDCO_OP_SUB: return 3;
    case REDCO_OP_SELECT: return 6;
    case REDCO_OP_CONCAT: return UINT64_MAX; /* all there are */
    case REDCO_OP_CAST:                      /* rounding a sum's parts saves bytes; widening them would cost */
        return redco_dtype_is_float(out->dtype) && redco_dtype_bytes(out->dtype) <= redco_dtype_bytes(in->dtype) ? 1
                                                                                                                 : 0;
    default: return 0;
    }
}

static void consider_linear(search *s, uint64_t inputs)
{
    redcoi_choice c = whole_choice();
    bool shared = false;
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        if ((inputs >> i & 1) == 0) { continue; }
        c.in[i] = redco_tp_partial();
        /* Others read the sum too: reduced once for all. */
        shared = shared || (s->b->uses[s->op->inputs[i]] > 1 &&
                            !redcoi_is_source(redco_value_op(s->b->global, s->op->inputs[i])->kind));
    }
    c.out[0] = redco_tp_partial();
    if (inputs != 0 && !shared) { consider(s, &c); }
}

static bool is_summed(redco_dtype dtype)
{
    return redco_dtype_is_float(dtype) || dtype == REDCO_I32;
}

/** Index operators where this rank has a contiguous part of the rows. */
static void consider_rows(search *s)
{
    const uint32_t last = in_type(s, 0)->rank - (in_type(s, 0)->rank > 0 ? 1 : 0);
    redcoi_choice c = whole_choice();
    c.manner = REDCOI_ROWS;
    switch (s->op->kind) {
    case REDCO_OP_GATHER: c.in[0] = redco_tp_split(0); break;
    case REDCO_OP_PICK: c.in[0] = redco_tp_split(last); break;
    case REDCO_OP_SCATTER_ADD: c.out[0] = redco_tp_split(0); break;
    case REDCO_OP_UNPICK: c.out[0] = redco_tp_split(out_type(s, 0)->rank - 1); break;
    case REDCO_OP_CROSS_ENTROPY_GRAD: c.in[0] = c.out[0] = redco_tp_split(last); break;
    default: return;
    }
    if (is_split(c.out[0]) && !redco_tp_fits(c.out[0], out_type(s, 0), s->b->ranks)) { return; }
    if (s->op->kind == REDCO_OP_GATHER || s->op->kind == REDCO_OP_PICK) {
        if (!is_summed(out_type(s, 0)->dtype)) { return; }
        c.out[0] = redco_tp_partial();
    }
    consider(s, &c);
}

/** Cross-entropy of split logits: three all-reduces of a number per row. */
static void consider_vocabulary(search *s)
{
    redcoi_choice c = whole_choice();
    c.manner = REDCOI_VOCABULARY;
    c.in[0] = redco_tp_split(in_type(s, 0)->rank - 1);
    c.extra_bytes = 3 * 2 * redco_type_bytes(out_type(s, 0));
    consider(s, &c);
}

static void consider_extreme(search *s)
{
    for (uint32_t i = 0; i < s->op->attributes.axis_count; i++) {
        const uint32_t axis = s->op->attributes.axis[i];
        redcoi_choice c = whole_choice();
        c.manner = REDCOI_EXTREME;
        c.in[0] = redco_tp_split(axis);
        c.extra_bytes = 2 * redco_type_bytes(out_type(s, 0));
        for (uint32_t k = 0; k < 2; k++) { /* blocks do not matter: as it is held */
            const redcoi_slot *slot = &s->b->slots[s->op->inputs[0]];
            if (k < slot->copy_count && is_split(slot->copies[k].layout) && slot->copies[k].layout.dim == axis) {
                c.in[0] = slot->copies[k].layout;
            }
        }
        consider(s, &c);
    }
}

/** Key heads that are fewer than ranks, or cut inside: keys are whole, and a rank uses those of its query heads. */
static void consider_own_keys(search *s)
{
    const bool grad = s->op->kind == REDCO_OP_ATTENTION_GRAD;
    const uint64_t heads = in_type(s, 0)->dim[2], groups = in_type(s, 1)->dim[2];
    redcoi_choice c = whole_choice();
    if (heads % s->b->ranks != 0 || groups % s->b->ranks == 0) { return; }
    c.manner = REDCOI_OWN_KEYS;
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        for (uint32_t d = 0; d < in_type(s, i)->rank && i != 1 && i != 2; d++) {
            if (s->axes.in[i][d] == 2) { c.in[i] = redco_tp_split(d); }
        }
    }
    c.out[0] = redco_tp_split(2);
    c.out[1] = redco_tp_split(1);
    if (grad) { c.out[1] = c.out[2] = redco_tp_partial(); }
    consider(s, &c);
}

static void consider_special(search *s)
{
    const redco_op_class class = redco_op_kind_class(s->op->kind);
    if (class == REDCO_CLASS_INDEX || s->op->kind == REDCO_OP_CROSS_ENTROPY_GRAD) { consider_rows(s); }
    if (s->op->kind == REDCO_OP_CROSS_ENTROPY) { consider_vocabulary(s); }
    if (s->op->kind == REDCO_OP_REDUCE_MAX) { consider_extreme(s); }
    if (s->op->kind == REDCO_OP_ATTENTION || s->op->kind == REDCO_OP_ATTENTION_GRAD) { consider_own_keys(s); }
    if (class == REDCO_CLASS_MOVE) { consider_moves(s); }
    if (s->op->kind == REDCO_OP_CONCAT) { consider_concat(s); }
    if (s->op->kind == REDCO_OP_MUL) {
        consider_linear(s, 1);
        consider_linear(s, 2);
    } else {
        consider_linear(s, linear_inputs(s));
    }
}

void redcoi_choose(const redcoi_builder *b, const redco_op *op, redcoi_choice *choice_out)
{
    search s = {.b = b, .op = op, .best = choice_out};
    redcoi_axes_of(b->global, op, &s.axes);
    const redcoi_choice whole = whole_choice();
    consider(&s, &whole);
    consider_labels(&s);
    consider_special(&s);
}
