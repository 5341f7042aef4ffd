/* The operators of a rank. */
#include "costmodel/layouts/partition_internal.h"

#include <string.h>

static bool is_split(redco_tp_layout layout)
{
    return layout.kind == REDCO_TP_SPLIT;
}

static redco_tensor_type local_type(const redcoi_builder *b, redco_value value, redco_tp_layout layout)
{
    return redco_tp_local(layout, redco_value_type(b->global, value), b->ranks);
}

static void apply_plain(redcoi_builder *b, const redco_op *op, const redcoi_choice *c, const redco_value *in,
                        redco_value *out)
{
    redco_attributes a = op->attributes;
    const redco_tensor_type made = local_type(b, op->first_output, c->out[0]);
    if (redco_op_kind_class(op->kind) == REDCO_CLASS_MOVE && a.rank > 0) {
        memcpy(a.size, made.dim, sizeof a.size);
        /* A window of a split dimension begins at a block's border, which moves in like all else. */
        const bool window = op->kind == REDCO_OP_SLICE || op->kind == REDCO_OP_PAD;
        if (window && is_split(c->in[0])) { a.begin[c->in[0].dim] /= b->ranks; }
    }
    redcoi_insert_all(b, op, op->kind, &a, in, op->input_count, out);
}

/** Rows of other ranks are skipped. Those that no rank has are the error that they are on one rank. */
static void skip_others(redco_attributes *a, uint64_t rows)
{
    if ((a->flags & REDCO_FLAG_MASKED) == 0) {
        a->first = a->offset;
        a->end = a->offset + (int64_t)rows;
    }
    a->flags |= REDCO_FLAG_MASKED;
}

/** Indices count from the first row of this rank. */
static void apply_rows(redcoi_builder *b, const redco_op *op, const redcoi_choice *c, const redco_value *in,
                       redco_value *out)
{
    redco_attributes a = op->attributes;
    const bool reads = is_split(c->in[0]);
    const redco_value table = reads ? op->inputs[0] : op->first_output;
    const redco_tp_layout layout = reads ? c->in[0] : c->out[0];
    const uint64_t rows = local_type(b, table, layout).dim[layout.dim];
    skip_others(&a, redco_value_type(b->global, table)->dim[layout.dim]);
    a.offset += (int64_t)(b->rank * rows);
    if (!reads) { a.size[0] = rows; }
    redcoi_mark_group(b, &a);
    redcoi_insert_all(b, op, op->kind, &a, in, op->input_count, out);
}

static redco_value scalar_like(redcoi_builder *b, const redco_op *op, redco_value like, double number)
{
    redco_tensor_type type = *redco_value_type(b->local, like);
    for (uint32_t d = 0; d < type.rank; d++) { type.dim[d] = 1; }
    redco_attributes a = redcoi_sized(&type);
    a.dtype = (uint32_t)type.dtype;
    a.scalar = number;
    return redcoi_insert(b, op, REDCO_OP_CONSTANT, &a, NULL, 0);
}

static redco_value binary(redcoi_builder *b, const redco_op *op, redco_op_kind kind, redco_value x, redco_value y)
{
    return redcoi_insert(b, op, kind, NULL, (redco_value[]){x, y}, 2);
}

/** Rows whose target lies in the vocabulary. */
static redco_value inside(redcoi_builder *b, const redco_op *op, redco_value targets, uint64_t words)
{
    const double first = (double)op->attributes.offset;
    const redco_value low = scalar_like(b, op, targets, first),
                      high = scalar_like(b, op, targets, first + (double)words);
    return binary(b, op, REDCO_OP_AND, binary(b, op, REDCO_OP_LE, low, targets),
                  binary(b, op, REDCO_OP_LT, targets, high));
}

/** Each rank's log-sum-exp is by the fused kernel on its words; then
 *      lse = max + log sum exp(lse_r - max),   loss = lse - logit of the target, which one rank has.
 *  Shoeybi et al., arXiv 1909.08053, section 3: three all-reduces of a number per row. */
static void apply_vocabulary(redcoi_builder *b, const redco_op *op, const redcoi_choice *c, const redco_value *in,
                             redco_value *out)
{
    redco_value local[REDCO_OUTPUTS_MAX];
    redco_attributes a = op->attributes;
    const redco_tensor_type *type = redco_value_type(b->global, op->inputs[0]);
    const uint64_t words = type->dim[type->rank - 1];
    skip_others(&a, words);
    a.offset += (int64_t)(b->rank * (words / b->ranks));
    redcoi_mark_group(b, &a);
    (void)c;
    redcoi_insert_all(b, op, REDCO_OP_CROSS_ENTROPY, &a, in, 2, local);
    if (local[1] == REDCO_NO_VALUE) { return; }
    const redco_value max = redcoi_all_reduce(b, local[1], true, op);
    const redco_value share =
        redcoi_insert(b, op, REDCO_OP_EXP, NULL, (redco_value[]){binary(b, op, REDCO_OP_SUB, local[1], max)}, 1);
    const redco_value sum = redcoi_all_reduce(b, share, false, op);
    out[1] = binary(b, op, REDCO_OP_ADD, max, redcoi_insert(b, op, REDCO_OP_LOG, NULL, &sum, 1));
    redco_value logit = redcoi_insert(b, op, REDCO_OP_PICK, &a, in, 2);
    redco_attributes cast = redcoi_no_attributes();
    cast.dtype = (uint32_t)redco_value_type(b->global, op->first_output)->dtype;
    logit = redcoi_all_reduce(b, redcoi_insert(b, op, REDCO_OP_CAST, &cast, &logit, 1), false, op);
    out[0] = binary(b, op, REDCO_OP_SUB, out[1], logit);
    if ((op->attributes.flags & REDCO_FLAG_MASKED) == 0 || out[0] == REDCO_NO_VALUE) { return; }
    const redco_value select[3] = {inside(b, op, in[1], words), out[0], scalar_like(b, op, out[0], 0)};
    out[0] = redcoi_insert(b, op, REDCO_OP_SELECT, NULL, select, 3);
}

/** [batch, keys, groups, size] seen as [batch, keys, groups, repeats, size]. */
static redco_tensor_type grouped_type(const redco_tensor_type *type, uint64_t repeats)
{
    return redco_type(type->dtype, 5, (uint64_t[]){type->dim[0], type->dim[1], type->dim[2], repeats, type->dim[3]});
}

static redco_value resized(redcoi_builder *b, const redco_op *op, redco_op_kind kind, redco_value value,
                           const redco_tensor_type *type)
{
    const redco_attributes a = redcoi_sized(type);
    return redcoi_insert(b, op, kind, &a, &value, 1);
}

/** Key heads for this rank's query heads: the one that all of them share, or one for each. */
static redco_value own_keys(redcoi_builder *b, const redco_op *op, redco_value keys, uint64_t heads)
{
    redco_tensor_type type = *redco_value_type(b->local, keys);
    const uint64_t repeats = heads / type.dim[2], own = heads / b->ranks;
    if (repeats % own == 0) { return redcoi_own_slice(b, op, keys, 2, b->rank * own / repeats, 1); }
    const redco_tensor_type single = grouped_type(&type, 1), repeated = grouped_type(&type, repeats);
    keys = resized(b, op, REDCO_OP_RESHAPE, keys, &single);
    keys = resized(b, op, REDCO_OP_BROADCAST, keys, &repeated);
    type.dim[2] = heads;
    return redcoi_own_slice(b, op, resized(b, op, REDCO_OP_RESHAPE, keys, &type), 2, b->rank * own, own);
}

/** Gradients of own_keys(): this rank's part of the sum over ranks. */
static redco_value own_keys_gradient(redcoi_builder *b, const redco_op *op, redco_value gradient,
                                     const redco_tensor_type *keys, uint64_t heads)
{
    const uint64_t repeats = heads / keys->dim[2], own = heads / b->ranks;
    const bool shared = repeats % own == 0;
    redco_tensor_type whole = *keys;
    if (!shared) { whole.dim[2] = heads; }
    redco_attributes a = redcoi_sized(&whole);
    a.begin[2] = shared ? b->rank * own / repeats : b->rank * own;
    redcoi_mark_group(b, &a);
    gradient = redcoi_insert(b, op, REDCO_OP_PAD, &a, &gradient, 1);
    if (shared) { return gradient; }
    const redco_tensor_type repeated = grouped_type(keys, repeats);
    redco_attributes sum = redcoi_no_attributes();
    sum.axis[0] = 3;
    sum.axis_count = 1;
    gradient = resized(b, op, REDCO_OP_RESHAPE, gradient, &repeated);
    gradient = redcoi_insert(b, op, REDCO_OP_REDUCE_SUM, &sum, &gradient, 1);
    return resized(b, op, REDCO_OP_RESHAPE, gradient, keys);
}

static void apply_own_keys(redcoi_builder *b, const redco_op *op, const redco_value *in, redco_value *out)
{
    redco_value own[REDCO_INPUTS_MAX] = {0};
    const uint64_t heads = redco_value_type(b->global, op->inputs[0])->dim[2];
    memcpy(own, in, op->input_count * sizeof *own);
    for (uint32_t i = 1; i < 3; i++) { own[i] = own_keys(b, op, in[i], heads); }
    redcoi_insert_all(b, op, op->kind, &op->attributes, own, op->input_count, out);
    for (uint32_t i = 1; i < 3 && op->kind == REDCO_OP_ATTENTION_GRAD; i++) {
        if (out[i] == REDCO_NO_VALUE) { return; }
        out[i] = own_keys_gradient(b, op, out[i], redco_value_type(b->global, op->inputs[i]), heads);
    }
}

void redcoi_apply(redcoi_builder *b, const redco_op *op, const redcoi_choice *c)
{
    redco_value in[REDCO_INPUTS_MAX] = {0}, out[REDCO_OUTPUTS_MAX];
    for (uint32_t i = 0; i < op->input_count; i++) {
        in[i] = redcoi_obtain(b, op->inputs[i], c->in[i], op);
        if (in[i] == REDCO_NO_VALUE) { return; } /* the graph holds the error */
    }
    for (uint32_t i = 0; i < REDCO_OUTPUTS_MAX; i++) { out[i] = REDCO_NO_VALUE; }
    switch (c->manner) {
    case REDCOI_ROWS: apply_rows(b, op, c, in, out); break;
    case REDCOI_VOCABULARY: apply_vocabulary(b, op, c, in, out); break;
    case REDCOI_OWN_KEYS: apply_own_keys(b, op, in, out); break;
    default: apply_plain(b, op, c, in, out); break;
    }
    if (c->manner == REDCOI_EXTREME && out[0] != REDCO_NO_VALUE) { out[0] = redcoi_all_reduce(b, out[0], true, op); }
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (out[i] == REDCO_NO_VALUE) { return; }
        redcoi_hold(b, op->first_output + i, c->out[i], out[i]);
    }
    b->op_of[op->id] = redco_value_op(b->local, out[0])->id;
}
