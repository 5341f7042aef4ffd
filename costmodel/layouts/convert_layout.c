/* Values in the layouts that their readers need: collectives, own parts, and sums that are added up as late as they
 * are read. */
#include "costmodel/layouts/partition_internal.h"

#include <math.h>

static bool is_partial(redco_tp_layout layout)
{
    return layout.kind == REDCO_TP_PARTIAL;
}

static bool is_split(redco_tp_layout layout)
{
    return layout.kind == REDCO_TP_SPLIT;
}

void redcoi_hold(redcoi_builder *b, redco_value value, redco_tp_layout layout, redco_value local)
{
    redcoi_slot *slot = &b->slots[value];
    if (is_partial(layout)) {
        slot->parts[slot->part_count++] = (redcoi_form){layout, local};
    } else if (slot->copy_count < REDCOI_COPIES_MAX) {
        slot->copies[slot->copy_count++] = (redcoi_form){layout, local};
    }
}

static redco_value find_copy(const redcoi_slot *slot, redco_tp_layout layout)
{
    for (uint32_t i = 0; i < slot->copy_count; i++) {
        if (redco_tp_equal(slot->copies[i].layout, layout)) { return slot->copies[i].value; }
    }
    return REDCO_NO_VALUE;
}

/* Collectives */

/** A collective on what @p like reads or makes. */
static redco_value collective(redcoi_builder *b, redco_op_kind kind, redco_value value, uint32_t axis, uint32_t flags,
                              const redco_op *like)
{
    redco_op op = {.kind = kind,
                   .input_count = 1,
                   .layer = like->layer,
                   .order = like->order,
                   .copy = like->copy,
                   .origin = REDCO_NO_OP,
                   .toward = REDCO_NO_VALUE,
                   .operator_name = like->operator_name[0] != 0 ? like->operator_name : redco_op_kind_name(like->kind),
                   .carries = true};
    redco_value out[REDCO_OUTPUTS_MAX];
    op.attributes = redcoi_no_attributes();
    op.attributes.group = b->options->group.id;
    op.attributes.ranks = b->ranks;
    op.attributes.flags = flags;
    op.attributes.axis[0] = axis;
    op.attributes.axis_count = kind == REDCO_OP_ALL_REDUCE ? 0 : 1;
    redco_graph_insert(b->local, &op, &value, out);
    return out[0];
}

redco_value redcoi_all_reduce(redcoi_builder *b, redco_value local, bool maximum, const redco_op *like)
{
    return collective(b, REDCO_OP_ALL_REDUCE, local, 0, maximum ? REDCO_FLAG_MAXIMUM : 0, like);
}

/** Three dimensions of which the middle one is split in one block. */
static redco_tensor_type folded_type(const redco_tensor_type *type, redco_tp_layout layout)
{
    uint64_t dim[3] = {layout.blocks, type->dim[layout.dim] / layout.blocks, 1};
    for (uint32_t d = 0; d < layout.dim; d++) { dim[0] *= type->dim[d]; }
    for (uint32_t d = layout.dim + 1; d < type->rank; d++) { dim[2] *= type->dim[d]; }
    return redco_type(type->dtype, 3, dim);
}

static redco_value along(redcoi_builder *b, redco_op_kind kind, redco_value value, redco_tp_layout layout,
                         const redco_op *like)
{
    if (value == REDCO_NO_VALUE) { return value; }
    redco_tensor_type type = *redco_value_type(b->local, value);
    if (layout.blocks == 1) { return collective(b, kind, value, layout.dim, 0, like); }
    const redco_tensor_type folded = folded_type(&type, layout);
    const redco_value in = redcoi_reshape(b, like, value, &folded);
    const redco_value out = collective(b, kind, in, 1, 0, like);
    type.dim[layout.dim] =
        kind == REDCO_OP_ALL_GATHER ? type.dim[layout.dim] * b->ranks : type.dim[layout.dim] / b->ranks;
    return redcoi_reshape(b, like, out, &type);
}

/** The reduction is called after what made the partial result. */
static const redco_op *maker(const redcoi_builder *b, redco_value local)
{
    const redco_op *op = redco_value_op(b->local, local);
    while (op->kind == REDCO_OP_RESHAPE) { op = redco_value_op(b->local, op->inputs[0]); }
    return op;
}

static redco_value own_part(redcoi_builder *b, redco_value value, redco_tp_layout layout, const redco_op *reader)
{
    if (value == REDCO_NO_VALUE) { return value; }
    redco_tensor_type type = *redco_value_type(b->local, value);
    const uint64_t size = type.dim[layout.dim] / layout.blocks / b->ranks;
    if (type.dim[layout.dim] == 1) { return value; } /* a repeated dimension of a summand */
    if (layout.blocks == 1) { return redcoi_own_slice(b, reader, value, layout.dim, b->rank * size, size); }
    const redco_tensor_type folded = folded_type(&type, layout);
    const redco_value in = redcoi_reshape(b, reader, value, &folded);
    const redco_value part = redcoi_own_slice(b, reader, in, 1, b->rank * size, size);
    type.dim[layout.dim] /= b->ranks;
    return redcoi_reshape(b, reader, part, &type);
}

/** One summand in another layout, which is not partial. */
static redco_value convert(redcoi_builder *b, redcoi_form part, redco_tp_layout to, const redco_op *reader)
{
    redco_value whole = part.value;
    if (whole == REDCO_NO_VALUE || redco_tp_equal(part.layout, to)) { return whole; }
    if (is_partial(part.layout)) {
        const redco_op *like = maker(b, whole);
        if (is_split(to) && redco_tp_fits(to, redco_value_type(b->local, whole), b->ranks)) {
            return along(b, REDCO_OP_REDUCE_SCATTER, whole, to, like);
        }
        whole = redcoi_all_reduce(b, whole, false, like);
    } else if (is_split(part.layout)) {
        whole = along(b, REDCO_OP_ALL_GATHER, whole, part.layout, reader);
    }
    return is_split(to) ? own_part(b, whole, to, reader) : whole;
}

/* Sums */

static redco_value add_local(redcoi_builder *b, const redco_op *like, redco_value a, redco_value c)
{
    if (a == REDCO_NO_VALUE) { return c; }
    return redcoi_insert(b, like, REDCO_OP_ADD, NULL, (redco_value[]){a, c}, 2);
}

static bool has_part(const redcoi_slot *slot, redco_tp_kind kind, redco_tp_layout *layout_out)
{
    for (uint32_t i = 0; i < slot->part_count; i++) {
        if (slot->parts[i].layout.kind != kind) { continue; }
        *layout_out = slot->parts[i].layout;
        return true;
    }
    return false;
}

/** The layout in which a sum is added up for a reader who wants @p wanted: a partial summand is reduced once, toward
 * what all readers want, and into the part that another summand is split by, since both are gathered together then. */
static redco_tp_layout meeting_layout(const redcoi_builder *b, redco_value value, redco_tp_layout wanted)
{
    const redcoi_slot *slot = &b->slots[value];
    const redcoi_demand *demand = &b->demands[value];
    redco_tp_layout partial, split;
    if (!has_part(slot, REDCO_TP_PARTIAL, &partial)) { return wanted; }
    if (has_part(slot, REDCO_TP_SPLIT, &split)) { return is_split(wanted) ? wanted : split; }
    const bool whole = demand->any && demand->layout.kind == REDCO_TP_REPLICATED;
    if (whole && is_split(wanted)) {
        const redco_tp_layout usual = redcoi_default_layout(b, value);
        return is_split(usual) && redco_tp_equal(usual, wanted) ? wanted : redco_tp_replicated();
    }
    return wanted;
}

static bool parts_fit(const redcoi_builder *b, redco_value value, redco_tp_layout layout)
{
    return redco_tp_fits(layout, redco_value_type(b->global, value), b->ranks);
}

static void add_up(redcoi_builder *b, redco_value value, redco_tp_layout layout, const redco_op *reader)
{
    redcoi_slot *slot = &b->slots[value];
    const redco_op *sum = redco_value_op(b->global, value);
    redco_value total = REDCO_NO_VALUE;
    for (uint32_t i = 0; i < slot->part_count; i++) {
        /* A part of what is whole (a bias, whose module may be gone when the sum is read) is taken where the sum is. */
        const bool whole = slot->parts[i].layout.kind == REDCO_TP_REPLICATED;
        const redco_value part = convert(b, slot->parts[i], layout, whole ? sum : reader);
        if (part == REDCO_NO_VALUE) { return; }
        total = add_local(b, sum, total, part);
    }
    slot->part_count = 0;
    redcoi_hold(b, value, layout, total);
}

/** Constants and random numbers are made in the layout that is read. */
static redco_value make_source(redcoi_builder *b, redco_value value, redco_tp_layout layout, const redco_op *reader)
{
    const redco_op *op = redco_value_op(b->global, value);
    const redco_tensor_type local = redco_tp_local(layout, redco_value_type(b->global, value), b->ranks);
    redco_attributes attributes = op->attributes;
    redco_value in[1] = {REDCO_NO_VALUE};
    const bool random = op->kind == REDCO_OP_UNIFORM || op->kind == REDCO_OP_NORMAL;
    const bool in_place = op->kind == REDCO_OP_CONSTANT || (random && layout.blocks == 1);
    if (is_split(layout) && !in_place) {
        return own_part(b, redcoi_obtain(b, value, redco_tp_replicated(), reader), layout, reader);
    }
    if (random) { in[0] = redcoi_obtain(b, op->inputs[0], redco_tp_replicated(), op); }
    if (is_split(layout)) {
        attributes.size[layout.dim] = local.dim[layout.dim];
        if (random) {
            attributes.begin[layout.dim] += b->rank * local.dim[layout.dim];
            attributes.group = b->options->group.id;
            attributes.ranks = b->ranks;
        }
    }
    return redcoi_insert(b, op, op->kind, &attributes, in, op->input_count);
}

/** Zero on every rank is a partial sum of zero. */
static bool is_zero(const redcoi_builder *b, redco_value value)
{
    const redco_op *op = redco_value_op(b->global, value);
    return op->kind == REDCO_OP_CONSTANT && fpclassify(op->attributes.scalar) == FP_ZERO;
}

redco_value redcoi_obtain(redcoi_builder *b, redco_value value, redco_tp_layout layout, const redco_op *reader)
{
    redcoi_slot *slot = &b->slots[value];
    const redco_tp_layout whole = redco_tp_replicated();
    redco_value found = find_copy(slot, layout);
    if (found != REDCO_NO_VALUE) { return found; }
    if (redcoi_is_source(redco_value_op(b->global, value)->kind)) {
        found = make_source(b, value, is_partial(layout) ? whole : layout, reader); /* only zero is asked for partial */
        redcoi_hold(b, value, is_partial(layout) ? whole : layout, found);
        return found;
    }
    if (is_partial(layout)) { return slot->part_count == 1 ? slot->parts[0].value : REDCO_NO_VALUE; }
    if (slot->copy_count == 0 && slot->part_count == 0) { return REDCO_NO_VALUE; } /* after an error */
    if (slot->copy_count == 0) {
        add_up(b, value, meeting_layout(b, value, layout), reader);
        if (slot->copy_count == 0) { return REDCO_NO_VALUE; }
        return redcoi_obtain(b, value, layout, reader);
    }
    found = find_copy(slot, whole);
    if (found == REDCO_NO_VALUE) {
        found = convert(b, slot->copies[0], whole, reader);
        redcoi_hold(b, value, whole, found);
    }
    if (is_split(layout)) {
        found = own_part(b, found, layout, reader);
        redcoi_hold(b, value, layout, found);
    }
    return found;
}

/** Bytes for one summand; a partial one costs twice if all of it is wanted. */
static uint64_t convert_bytes(const redcoi_builder *b, redcoi_form part, redco_tp_layout to)
{
    const uint64_t bytes = redco_type_bytes(redco_value_type(b->local, part.value));
    if (redco_tp_equal(part.layout, to) || part.layout.kind == REDCO_TP_REPLICATED) { return 0; }
    if (is_split(part.layout)) { return bytes * b->ranks; }
    return is_split(to) && redco_tp_fits(to, redco_value_type(b->local, part.value), b->ranks) ? bytes : 2 * bytes;
}

uint64_t redcoi_obtain_bytes(const redcoi_builder *b, redco_value value, redco_tp_layout layout)
{
    const redcoi_slot *slot = &b->slots[value];
    const uint64_t bytes = redco_type_bytes(redco_value_type(b->global, value));
    uint64_t total = 0;
    if (redcoi_is_source(redco_value_op(b->global, value)->kind)) {
        return is_partial(layout) && !is_zero(b, value) ? REDCOI_FORBIDDEN : 0;
    }
    if (is_partial(layout)) {
        return slot->copy_count == 0 && slot->part_count == 1 && is_partial(slot->parts[0].layout) ? 0
                                                                                                   : REDCOI_FORBIDDEN;
    }
    if (!parts_fit(b, value, layout)) { return REDCOI_FORBIDDEN; }
    if (find_copy(slot, layout) != REDCO_NO_VALUE) { return 0; }
    if (slot->copy_count > 0) { return find_copy(slot, redco_tp_replicated()) != REDCO_NO_VALUE ? 0 : bytes; }
    const redco_tp_layout meeting = meeting_layout(b, value, layout);
    for (uint32_t i = 0; i < slot->part_count; i++) { total += convert_bytes(b, slot->parts[i], meeting); }
    if (!redco_tp_equal(meeting, layout) && is_split(meeting)) { total += bytes; }
    return total;
}

/** Adds a summand to that of its layout, if there is one. */
static void add_part(redcoi_builder *b, const redco_op *op, redcoi_slot *slot, redcoi_form part)
{
    for (uint32_t i = 0; i < slot->part_count && part.value != REDCO_NO_VALUE; i++) {
        if (!redco_tp_equal(slot->parts[i].layout, part.layout)) { continue; }
        slot->parts[i].value = add_local(b, op, slot->parts[i].value, part.value);
        return;
    }
    slot->parts[slot->part_count++] = part;
}

/** Constants and random numbers are made in any layout without a word. */
static bool is_at_hand(const redcoi_builder *b, redco_value value, redco_tp_layout layout)
{
    const bool made = redcoi_is_source(redco_value_op(b->global, value)->kind);
    return find_copy(&b->slots[value], layout) != REDCO_NO_VALUE ||
           (made && is_split(layout) && parts_fit(b, value, layout));
}

/** The summands of a sum, or what is held: in the layout of which another summand already is, if it is held so. If
 * several sums read one partial value, equal reductions of it are one operator of the graph, and others are of sums.
 * Where @p other is held in parts only, this one's part is taken: gathering the sum moves as many bytes as gathering a
 * summand, and only the part is kept. */
static void take_summand(redcoi_builder *b, const redco_op *op, redco_value value, redco_value other, redcoi_slot *into)
{
    redcoi_slot *slot = &b->slots[value];
    const redcoi_slot *const rest = &b->slots[other];
    if (slot->copy_count == 0 && slot->part_count > 0) {
        for (uint32_t i = 0; i < slot->part_count; i++) { add_part(b, op, into, slot->parts[i]); }
        return;
    }
    const redco_tp_layout target = redcoi_target_layout(b, op->first_output);
    redco_tp_layout layout = slot->copy_count > 0 ? slot->copies[0].layout : redco_tp_replicated();
    if (find_copy(slot, target) != REDCO_NO_VALUE) { layout = target; }
    const bool parts = rest->copy_count == 1 && is_split(rest->copies[0].layout);
    if (parts && is_at_hand(b, value, rest->copies[0].layout)) { layout = rest->copies[0].layout; }
    for (uint32_t i = 0; i < into->part_count; i++) {
        if (is_at_hand(b, value, into->parts[i].layout)) { layout = into->parts[i].layout; }
    }
    add_part(b, op, into, (redcoi_form){layout, redcoi_obtain(b, value, layout, op)});
}

/** So many different layouts of summands are not kept apart. */
static void limit_parts(redcoi_builder *b, const redco_op *op, redco_value value)
{
    redco_tp_layout split[REDCOI_PARTS_MAX];
    const redcoi_slot *slot = &b->slots[value];
    uint32_t splits = 0;
    for (uint32_t i = 0; i < slot->part_count; i++) {
        if (is_split(slot->parts[i].layout)) { split[splits++] = slot->parts[i].layout; }
    }
    if (splits > 1 && slot->copy_count == 0) { (void)redcoi_obtain(b, value, split[0], op); }
}

void redcoi_defer_sum(redcoi_builder *b, const redco_op *op)
{
    const redco_value out = op->first_output;
    redcoi_slot *slot = &b->slots[out];
    redcoi_slot sum = {.copy_count = 0};
    for (uint32_t i = 0; i < 2; i++) { limit_parts(b, op, op->inputs[i]); }
    for (uint32_t i = 0; i < 2; i++) { take_summand(b, op, op->inputs[i], op->inputs[1 - i], &sum); }
    for (uint32_t i = 0; i < sum.part_count; i++) {
        if (sum.parts[i].value == REDCO_NO_VALUE) { return; }
    }
    *slot = sum;
    if (sum.part_count == 1 && !is_partial(sum.parts[0].layout)) {
        slot->part_count = 0;
        redcoi_hold(b, out, sum.parts[0].layout, sum.parts[0].value);
    }
}
