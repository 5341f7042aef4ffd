/* Which dimensions of an operator's tensors can be split together. */
#include "costmodel/layouts/partition_internal.h"

#include <string.h>

static const redco_tensor_type *in_type(const redco_graph *g, const redco_op *op, uint32_t i)
{
    return redco_value_type(g, op->inputs[i]);
}

static const redco_tensor_type *out_type(const redco_graph *g, const redco_op *op, uint32_t i)
{
    return redco_value_type(g, op->first_output + i);
}

/** Dimension @p d of the outputs, and of each input that has it whole. The last input of AdamW is numbers for all. */
static void label_elementwise(const redco_graph *g, const redco_op *op, redcoi_axes *axes)
{
    const redco_tensor_type *out = out_type(g, op, 0);
    const bool adamw = op->kind == REDCO_OP_ADAMW || op->kind == REDCO_OP_ADAMW_ROUNDED;
    const uint32_t inputs = adamw ? 4 : op->input_count;
    for (uint32_t d = 0; d < out->rank; d++) {
        if (out->dim[d] == 1) { continue; }
        const uint8_t label = (uint8_t)++axes->count;
        for (uint32_t i = 0; i < op->output_count; i++) { axes->out[i][d] = label; }
        for (uint32_t i = 0; i < inputs; i++) {
            if (in_type(g, op, i)->dim[d] == out->dim[d]) { axes->in[i][d] = label; }
        }
    }
}

static void label_reduction(const redco_graph *g, const redco_op *op, redcoi_axes *axes)
{
    const redco_tensor_type *in = in_type(g, op, 0);
    const bool squares = op->kind == REDCO_OP_SUM_SQUARES, sum = squares || op->kind == REDCO_OP_REDUCE_SUM;
    for (uint32_t d = 0; d < in->rank; d++) {
        bool reduced = squares;
        for (uint32_t k = 0; k < op->attributes.axis_count; k++) { reduced |= op->attributes.axis[k] == d; }
        if (in->dim[d] == 1 || (reduced && !sum)) { continue; }
        axes->in[0][d] = (uint8_t)++axes->count;
        if (!reduced) { axes->out[0][d] = axes->in[0][d]; }
    }
}

/** Reshapes have no labels: redcoi_move_layout(). */
static void label_move(const redco_graph *g, const redco_op *op, redcoi_axes *axes)
{
    const redco_tensor_type *out = out_type(g, op, 0);
    if (op->kind == REDCO_OP_RESHAPE) { return; }
    for (uint32_t d = 0; d < out->rank; d++) {
        const uint32_t from = op->kind == REDCO_OP_TRANSPOSE ? op->attributes.axis[d] : d;
        const uint64_t before = in_type(g, op, 0)->dim[from];
        const bool repeated = op->kind == REDCO_OP_BROADCAST && before != out->dim[d];
        if (out->dim[d] == 1 || (before != out->dim[d] && !repeated)) { continue; }
        const uint8_t label = (uint8_t)++axes->count;
        axes->out[0][d] = label;
        for (uint32_t i = 0; i < op->input_count && !repeated; i++) { axes->in[i][from] = label; }
    }
    if (op->kind == REDCO_OP_CONCAT) { /* a single input has the whole dimension; others are along it */
        const uint32_t axis = op->attributes.axis[0];
        axes->out[0][axis] = 0;
        for (uint32_t i = 0; i < op->input_count; i++) { axes->in[i][axis] = 0; }
    }
}

/** Dimensions [0, count) of input @p i from @p in_first on and of output 0 from @p out_first on. */
static void label_run(redcoi_axes *axes, uint32_t i, uint32_t in_first, uint32_t out_first, uint32_t count)
{
    for (uint32_t d = 0; d < count; d++) {
        axes->in[i][in_first + d] = (uint8_t)++axes->count;
        axes->out[0][out_first + d] = axes->in[i][in_first + d];
    }
}

static void label_index(const redco_graph *g, const redco_op *op, redcoi_axes *axes)
{
    const uint32_t index = op->kind == REDCO_OP_GATHER || op->kind == REDCO_OP_PICK ? 1 : 0;
    const uint32_t other = 1 - index, rank = in_type(g, op, index)->rank;
    switch (op->kind) {
    case REDCO_OP_GATHER:
        label_run(axes, index, 0, 0, rank);
        label_run(axes, other, 1, rank, in_type(g, op, other)->rank - 1);
        return;
    case REDCO_OP_SCATTER_ADD: /* rows of updates with different indices are summed */
        for (uint32_t d = 0; d < rank; d++) { axes->in[index][d] = axes->in[other][d] = (uint8_t)++axes->count; }
        label_run(axes, other, rank, 1, in_type(g, op, other)->rank - rank);
        return;
    default: /* rows of pick and unpick */
        label_run(axes, index, 0, 0, rank);
        memcpy(axes->in[other], axes->in[index], rank * sizeof axes->in[0][0]);
        return;
    }
}

static void label_matmul(const redco_graph *g, const redco_op *op, redcoi_axes *axes)
{
    const redco_tensor_type *a = in_type(g, op, 0), *b = in_type(g, op, 1);
    const uint32_t batch = a->rank - 2;
    const bool ta = (op->attributes.flags & REDCO_FLAG_TRANSPOSE_A) != 0;
    const bool tb = (op->attributes.flags & REDCO_FLAG_TRANSPOSE_B) != 0;
    for (uint32_t d = 0; d < batch; d++) {
        const uint8_t label = (uint8_t)++axes->count;
        axes->out[0][d] = label;
        if (a->dim[d] >= b->dim[d]) { axes->in[0][d] = label; }
        if (b->dim[d] >= a->dim[d]) { axes->in[1][d] = label; }
    }
    axes->out[0][batch] = axes->in[0][batch + (ta ? 1 : 0)] = (uint8_t)++axes->count;
    axes->out[0][batch + 1] = axes->in[1][batch + (tb ? 0 : 1)] = (uint8_t)++axes->count;
    axes->in[0][batch + (ta ? 0 : 1)] = axes->in[1][batch + (tb ? 1 : 0)] = (uint8_t)++axes->count;
}

/** Columns, of which products sum some, and rows. Those by expert are sorted in each part by itself. */
static void label_experts(const redco_op *op, redcoi_axes *axes)
{
    const bool turned = (op->attributes.flags & REDCO_FLAG_TRANSPOSE_B) != 0;
    const uint32_t index = op->kind == REDCO_OP_SORT_ROWS ? 1 : 2;
    enum { ROWS = 1, LEFT, RIGHT };
    axes->count = index == 1 ? LEFT : RIGHT;
    axes->in[0][0] = axes->in[index][0] = ROWS;
    axes->in[0][1] = LEFT;
    switch (op->kind) {
    case REDCO_OP_SORT_ROWS:
        axes->out[0][0] = ROWS;
        axes->out[0][1] = LEFT;
        return;
    case REDCO_OP_GROUPED_MATMUL:
        axes->out[0][0] = ROWS;
        axes->in[1][turned ? 2 : 1] = LEFT;
        axes->in[1][turned ? 1 : 2] = axes->out[0][1] = RIGHT;
        return;
    default: /* the gradient of matrices */
        axes->in[1][0] = ROWS;
        axes->in[1][1] = axes->out[0][2] = RIGHT;
        axes->out[0][1] = LEFT;
        return;
    }
}

/** Scale and shift of a norm, and their gradients, have no rows. */
static bool is_vector(const redco_op *op, bool output, uint32_t i)
{
    switch (op->kind) {
    case REDCO_OP_RMS_NORM:
    case REDCO_OP_LAYER_NORM: return !output && i >= 1;
    case REDCO_OP_RMS_NORM_GRAD:
    case REDCO_OP_LAYER_NORM_GRAD: return output ? i >= 1 : i == 1;
    default: return false;
    }
}

/** All dimensions but the last are rows. */
static void label_rows(const redco_graph *g, const redco_op *op, redcoi_axes *axes)
{
    const uint32_t rows = in_type(g, op, 0)->rank - 1;
    for (uint32_t d = 0; d < rows; d++) {
        const uint8_t label = (uint8_t)++axes->count;
        for (uint32_t i = 0; i < op->input_count; i++) {
            if (!is_vector(op, false, i)) { axes->in[i][d] = label; }
        }
        for (uint32_t i = 0; i < op->output_count; i++) {
            if (!is_vector(op, true, i)) { axes->out[i][d] = label; }
        }
    }
}

/** Batch and heads; log-sum-exps are [batch, heads, sequence], masks, biases and their gradients
 *  [batch or 1, heads or 1, ...]. */
static void label_attention(const redco_graph *g, const redco_op *op, redcoi_axes *axes)
{
    const bool of_bias = op->kind == REDCO_OP_ATTENTION_BIAS_GRAD,
               grad = of_bias || op->kind == REDCO_OP_ATTENTION_GRAD;
    const uint32_t masked = op->input_count == (grad ? 7U : 4U) ? 1 : 0;
    axes->count = 2;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const redco_tensor_type *type = in_type(g, op, i);
        const bool mask = masked == 1 && i == 3, lse = grad && i == 4 + masked;
        const uint32_t heads = mask || lse ? 1 : 2;
        if (!mask || type->dim[0] > 1) { axes->in[i][0] = 1; }
        if (!mask || type->dim[1] > 1) { axes->in[i][heads] = 2; }
    }
    if (of_bias) {
        memcpy(axes->out[0], axes->in[3], sizeof axes->out[0]);
        return;
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        axes->out[i][0] = 1;
        axes->out[i][!grad && i == 1 ? 1 : 2] = 2;
    }
}

/** x [batch, sequence, heads, size], tables [sequence, n] or [batch, sequence, n]. */
static void label_rotary(const redco_graph *g, const redco_op *op, redcoi_axes *axes)
{
    label_run(axes, 0, 0, 0, 3);
    for (uint32_t i = 1; i < 3; i++) {
        const uint32_t first = in_type(g, op, i)->rank == 3 ? 0 : 1;
        for (uint32_t d = first; d < 2; d++) { axes->in[i][d - first] = axes->in[0][d]; }
    }
}

void redcoi_axes_of(const redco_graph *graph, const redco_op *op, redcoi_axes *axes)
{
    memset(axes, 0, sizeof *axes);
    switch (redco_op_kind_class(op->kind)) {
    case REDCO_CLASS_ELEMENTWISE: label_elementwise(graph, op, axes); break;
    case REDCO_CLASS_REDUCTION: label_reduction(graph, op, axes); break;
    case REDCO_CLASS_MOVE: label_move(graph, op, axes); break;
    case REDCO_CLASS_INDEX: label_index(graph, op, axes); break;
    case REDCO_CLASS_MATMUL: label_matmul(graph, op, axes); break;
    case REDCO_CLASS_EXPERTS: label_experts(op, axes); break;
    case REDCO_CLASS_ROWS: label_rows(graph, op, axes); break;
    case REDCO_CLASS_ATTENTION:
        if (op->kind == REDCO_OP_ROTARY) {
            label_rotary(graph, op, axes);
        } else {
            label_attention(graph, op, axes);
        }
        break;
    case REDCO_CLASS_SOURCE:
    case REDCO_CLASS_COLLECTIVE: break;
    }
}

/** The layout of a tensor whose labels are given. @return false if the split does not divide */
static bool split_tensor(const uint8_t *labels, const redco_tensor_type *type, uint8_t label, uint64_t blocks,
                         uint32_t ranks, redco_tp_layout *layout_out)
{
    for (uint32_t d = 0; d < type->rank; d++) {
        if (labels[d] != label) { continue; }
        *layout_out = (redco_tp_layout){REDCO_TP_SPLIT, d, blocks};
        return redco_tp_fits(*layout_out, type, ranks);
    }
    *layout_out = redco_tp_replicated();
    return true;
}

bool redcoi_split_label(const redco_graph *graph, const redco_op *op, const redcoi_axes *axes, uint8_t label,
                        uint64_t blocks, uint32_t ranks, redcoi_choice *choice_out)
{
    choice_out->manner = REDCOI_PLAIN;
    choice_out->extra_bytes = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        if (!split_tensor(axes->in[i], in_type(graph, op, i), label, blocks, ranks, &choice_out->in[i])) {
            return false;
        }
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        if (!split_tensor(axes->out[i], out_type(graph, op, i), label, blocks, ranks, &choice_out->out[i])) {
            return false;
        }
        if (choice_out->out[i].kind == REDCO_TP_REPLICATED) { choice_out->out[i] = redco_tp_partial(); }
    }
    return true;
}

/** A split by its place among all elements, which a reshape keeps: [before, ranks, after]. */
static bool reshape_layout(redco_tp_layout layout, const redco_tensor_type *from, const redco_tensor_type *to,
                           uint32_t ranks, redco_tp_layout *layout_out)
{
    const uint64_t elements = redco_type_elements(from);
    uint64_t before = layout.blocks, ahead = 1;
    for (uint32_t d = 0; d < layout.dim; d++) { before *= from->dim[d]; }
    const uint64_t after = elements / before / ranks;
    for (uint32_t d = 0; d < to->rank; ahead *= to->dim[d++]) {
        const uint64_t behind = elements / ahead / to->dim[d];
        if (before % ahead != 0 || after % behind != 0) { continue; }
        if (to->dim[d] != before / ahead * ranks * (after / behind)) { continue; }
        *layout_out = (redco_tp_layout){REDCO_TP_SPLIT, d, before / ahead};
        return true;
    }
    return false;
}

/** Blocks of the larger and the smaller tensor are of one size, and the smaller one begins at one. */
static bool window_layout(redco_tp_layout layout, uint64_t from, uint64_t to, uint64_t begin,
                          redco_tp_layout *layout_out)
{
    const uint64_t block = from / layout.blocks;
    *layout_out = layout;
    if (from == to) { return true; }
    layout_out->blocks = to / block;
    return to % block == 0 && begin % block == 0;
}

bool redcoi_move_layout(const redco_graph *graph, const redco_op *op, redco_tp_layout layout, bool forward,
                        uint32_t ranks, redco_tp_layout *layout_out)
{
    const redco_tensor_type *from = in_type(graph, op, 0), *to = out_type(graph, op, 0);
    if (!forward) {
        from = to;
        to = in_type(graph, op, 0);
    }
    if (layout.kind != REDCO_TP_SPLIT) { return false; }
    switch (op->kind) {
    case REDCO_OP_RESHAPE: return reshape_layout(layout, from, to, ranks, layout_out);
    case REDCO_OP_SLICE:
    case REDCO_OP_PAD:
        return window_layout(layout, from->dim[layout.dim], to->dim[layout.dim], op->attributes.begin[layout.dim],
                             layout_out) &&
               redco_tp_fits(*layout_out, to, ranks);
    default: return false;
    }
}

bool redcoi_concat_layouts(const redco_graph *graph, const redco_op *op, uint64_t block, uint32_t ranks,
                           redcoi_choice *choice_out)
{
    const uint32_t axis = op->attributes.axis[0];
    if (block == 0 || block % ranks != 0) { return false; }
    choice_out->manner = REDCOI_PLAIN;
    choice_out->extra_bytes = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const uint64_t size = in_type(graph, op, i)->dim[axis];
        if (size % block != 0) { return false; }
        choice_out->in[i] = (redco_tp_layout){REDCO_TP_SPLIT, axis, size / block};
    }
    choice_out->out[0] = (redco_tp_layout){REDCO_TP_SPLIT, axis, out_type(graph, op, 0)->dim[axis] / block};
    return true;
}
