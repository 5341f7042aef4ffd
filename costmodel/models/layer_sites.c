/* Tensors that backward may read, derived from the graphs of the families. */
#include "costmodel/models/layer_probe.h"

enum { VALUES_MAX = 48 };

/* A list while it is being made. */
struct list {
    const redcoi_probe *probe;
    redco_layer_site *sites;
    uint32_t count;
    struct {
        redco_site site;
        redco_value value;
    } listed[VALUES_MAX]; /* tensors that count once, whoever reads them */
    uint32_t listed_count;
};

/* Tensors of one kind and size are one entry. */
static void add(struct list *list, redco_layer_site added)
{
    for (uint32_t i = 0; i < list->count; i++) {
        redco_layer_site *const old = &list->sites[i];
        redco_extent one = old->elements;
        one.factor = added.elements.factor;
        if (old->site != added.site || old->role != added.role || old->ffn != added.ffn ||
            !redco_extent_equal(&one, &added.elements)) {
            continue;
        }
        old->elements.factor += added.elements.factor;
        return;
    }
    if (list->count < REDCO_SITES_MAX) { list->sites[list->count++] = added; }
}

/* Where a value lies that has no memory of its own. */
static redco_value holder_of(const struct list *list, redco_value value)
{
    const redco_op *op = redco_value_op(list->probe->g, value);
    for (; redco_op_is_view(op->kind); op = redco_value_op(list->probe->g, value)) { value = op->inputs[0]; }
    return value;
}

static void add_value(struct list *list, redco_site site, redco_value value, bool ffn)
{
    const redco_value holder = holder_of(list, value);
    for (uint32_t i = 0; i < list->listed_count; i++) {
        if (list->listed[i].value == holder && list->listed[i].site == site) { return; }
    }
    if (list->listed_count == VALUES_MAX) { return; }
    list->listed[list->listed_count].site = site;
    list->listed[list->listed_count++].value = holder;
    add(list, (redco_layer_site){site, redcoi_probe_elements(list->probe, value),
                                 redco_value_op(list->probe->g, holder)->role, ffn});
}

/* A tensor as often as it is read. */
static void add_each(struct list *list, redco_site site, redco_value value)
{
    const redco_op *const maker = redco_value_op(list->probe->g, holder_of(list, value));
    add(list, (redco_layer_site){site, redcoi_probe_elements(list->probe, value), maker->role, false});
}

/* A tensor that an operator makes beside its result. */
static void add_beside(struct list *list, redco_site site, redco_extent elements, const redco_op *op)
{
    add(list, (redco_layer_site){site, elements, op->role, false});
}

/* The elements of a tensor without its last dimension: those of a statistic of its rows. */
static redco_extent rows_of(const struct list *list, redco_value value)
{
    const redco_tensor_type *const type = redco_value_type(list->probe->g, value);
    return redcoi_probe_extent(list->probe, redco_type_elements(type) / type->dim[type->rank - 1]);
}

/* The readers of a tensor that are products. */
struct readers {
    uint32_t products, ffn;
};

static struct readers readers_of(const struct list *list, redco_value value)
{
    struct readers readers = {0, 0};
    for (uint32_t o = list->probe->values.first_op; o < list->probe->values.end_op; o++) {
        const redco_op *const op = redco_graph_op(list->probe->g, o);
        const bool sorted = op->kind == REDCO_OP_SORT_ROWS; /* for products of experts */
        if ((op->kind != REDCO_OP_MATMUL && !sorted) || holder_of(list, op->inputs[0]) != value) { continue; }
        readers.products++;
        const bool ffn = op->role == REDCO_OP_ROLE_FFN_IN || op->role == REDCO_OP_ROLE_SHARED_IN ||
                         op->role == REDCO_OP_ROLE_ROUTER || sorted;
        readers.ffn += ffn ? 1 : 0;
    }
    return readers;
}

static void add_norm(struct list *list, const redco_op *op)
{
    const redco_value output = op->first_output;
    const redco_extent elements = redcoi_probe_elements(list->probe, output), rows = rows_of(list, output);
    const struct readers readers = readers_of(list, output);
    add_value(list, REDCO_SITE_NORM_INPUT, op->inputs[0], false);
    add_beside(list, REDCO_SITE_NORM_CONVERTED, elements, op);
    add_beside(list, REDCO_SITE_NORM_NORMED, elements, op);
    add_beside(list, REDCO_SITE_NORM_STATISTIC, rows, op);
    if (op->kind == REDCO_OP_LAYER_NORM) { add_beside(list, REDCO_SITE_NORM_MEAN, rows, op); }
    if (readers.products > 0) { add_value(list, REDCO_SITE_NORM_OUTPUT, output, readers.ffn == readers.products); }
}

static void add_attention(struct list *list, const redco_op *op)
{
    const redco_extent queries = redcoi_probe_elements(list->probe, op->inputs[0]);
    const redco_extent rows = rows_of(list, op->inputs[0]);
    redco_extent repeated = queries;
    repeated.factor *= 2;
    for (uint32_t i = 0; i < 3; i++) { add_each(list, (redco_site)(REDCO_SITE_ATTENTION_QUERIES + i), op->inputs[i]); }
    add_beside(list, REDCO_SITE_ATTENTION_REPEATED, repeated, op);
    add_value(list, REDCO_SITE_ATTENTION_OUTPUT, op->first_output, false);
    add_beside(list, REDCO_SITE_ATTENTION_STATISTIC, rows, op);
    add_beside(list, REDCO_SITE_ATTENTION_SCORES, rows, op);
}

/* The operator that multiplies an activated gate by its other factor; NULL: it is none. */
static const redco_op *gating(const struct list *list, const redco_op *op)
{
    for (uint32_t o = op->id + 1; o < list->probe->values.end_op; o++) {
        const redco_op *const reader = redco_graph_op(list->probe->g, o);
        if (reader->kind != REDCO_OP_MUL || !redco_op_role_is_activation(reader->role)) { continue; }
        if (reader->inputs[0] == op->first_output || reader->inputs[1] == op->first_output) { return reader; }
    }
    return NULL;
}

static void add_activation(struct list *list, const redco_op *op)
{
    const redco_op *const product = gating(list, op);
    if (product == NULL) {
        add_each(list, op->kind == REDCO_OP_RELU ? REDCO_SITE_ACTIVATION_RECTIFIED : REDCO_SITE_ACTIVATION_INPUT,
                 op->inputs[0]);
        add_value(list, REDCO_SITE_ACTIVATION_OUTPUT, op->first_output, false);
        return;
    }
    const uint32_t other = product->inputs[0] == op->first_output ? 1 : 0;
    if (op->role == REDCO_OP_ROLE_EXPERT_ACTIVATION) {
        add_each(list, REDCO_SITE_EXPERTS_GATE, op->inputs[0]);
        add_each(list, REDCO_SITE_EXPERTS_FACTOR, product->inputs[other]);
        return;
    }
    add_each(list, REDCO_SITE_ACTIVATION_GATE, op->inputs[0]);
    add_each(list, REDCO_SITE_ACTIVATION_FACTOR, product->inputs[other]);
    add_each(list, REDCO_SITE_ACTIVATION_GATED, op->first_output);
    add_value(list, REDCO_SITE_ACTIVATION_OUTPUT, product->first_output, false);
}

static bool is_listed(const struct list *list, redco_value holder)
{
    for (uint32_t i = 0; i < list->listed_count; i++) {
        if (list->listed[i].value == holder && list->listed[i].site >= REDCO_SITE_NORM_OUTPUT) { return true; }
    }
    return false;
}

static void add_product(struct list *list, const redco_op *op)
{
    const redco_value operand = holder_of(list, op->inputs[0]);
    const redco_op *const maker = redco_value_op(list->probe->g, operand);
    if (operand == list->probe->values.input) { /* norms stand behind their parts: that of the layer before made it */
        add_value(list, REDCO_SITE_NORM_OUTPUT, operand, false);
    } else if (redcoi_probe_forward(list->probe, maker) && !is_listed(list, operand)) {
        add_value(list, REDCO_SITE_PRODUCT_OPERAND, operand, false);
    }
    const bool last = op->role == REDCO_OP_ROLE_FFN_OUT;
    if (last) { add_value(list, REDCO_SITE_PRODUCT_OUTPUT, op->first_output, false); }
    if (last || op->role == REDCO_OP_ROLE_OUT || op->role == REDCO_OP_ROLE_CROSS_OUT) {
        add_each(list, REDCO_SITE_DROPOUT_MASK, op->first_output);
    }
}

/* The operand of the experts' first products once, however many read it; that of their last one. */
static void add_grouped(struct list *list, const redco_op *op)
{
    const bool in = op->role == REDCO_OP_ROLE_EXPERT_IN;
    add_value(list, in ? REDCO_SITE_EXPERTS_INPUT : REDCO_SITE_EXPERTS_ACTIVATED, op->inputs[0], false);
    if (!in) { add_value(list, REDCO_SITE_EXPERTS_OUTPUT, op->first_output, false); }
}

void redcoi_layer_sites_make(const redcoi_probe *probe, redco_layer_work *work)
{
    struct list list = {.probe = probe, .sites = work->sites};
    add_value(&list, REDCO_SITE_LAYER_INPUT, probe->values.input, false);
    for (uint32_t o = probe->values.first_op; o < probe->values.end_op; o++) {
        const redco_op *const op = redco_graph_op(probe->g, o);
        switch (op->kind) {
        case REDCO_OP_RMS_NORM:
        case REDCO_OP_LAYER_NORM: add_norm(&list, op); break;
        case REDCO_OP_ATTENTION: add_attention(&list, op); break;
        case REDCO_OP_MATMUL: add_product(&list, op); break;
        case REDCO_OP_GROUPED_MATMUL: add_grouped(&list, op); break;
        case REDCO_OP_TOP_K: add_value(&list, REDCO_SITE_ROUTER_SCORES, op->inputs[0], false); break;
        case REDCO_OP_SILU:
        case REDCO_OP_GELU:
        case REDCO_OP_GELU_TANH:
        case REDCO_OP_RELU: add_activation(&list, op); break;
        default: break;
        }
    }
    work->site_count = list.count;
}
