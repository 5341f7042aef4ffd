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
        if (old->site != added.site || old->role != added.role || old->reader != added.reader ||
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

static void add_value(struct list *list, redco_site site, redco_value value, redco_op_role reader)
{
    const redco_value holder = holder_of(list, value);
    for (uint32_t i = 0; i < list->listed_count; i++) {
        if (list->listed[i].value == holder && list->listed[i].site == site) { return; }
    }
    if (list->listed_count == VALUES_MAX) { return; }
    list->listed[list->listed_count].site = site;
    list->listed[list->listed_count++].value = holder;
    add(list, (redco_layer_site){site, redcoi_probe_elements(list->probe, value),
                                 redco_value_op(list->probe->g, holder)->role, reader});
}

/* A tensor as often as it is read. */
static void add_each(struct list *list, redco_site site, redco_value value)
{
    const redco_op *const maker = redco_value_op(list->probe->g, holder_of(list, value));
    add(list, (redco_layer_site){site, redcoi_probe_elements(list->probe, value), maker->role, REDCO_OP_ROLE_NONE});
}

/* A tensor that an operator makes beside its result. */
static void add_beside(struct list *list, redco_site site, redco_extent elements, const redco_op *op,
                       redco_op_role reader)
{
    add(list, (redco_layer_site){site, elements, op->role, reader});
}

/* The elements of a tensor without its last dimension: those of a statistic of its rows. */
static redco_extent rows_of(const struct list *list, redco_value value)
{
    const redco_tensor_type *const type = redco_value_type(list->probe->g, value);
    return redcoi_probe_extent(list->probe, redco_type_elements(type) / type->dim[type->rank - 1]);
}

redco_op_role redcoi_norm_reader(const redcoi_probe *probe, redco_value value, uint32_t *count_out)
{
    redco_op_role role = REDCO_OP_ROLE_NONE;
    *count_out = 0;
    for (uint32_t o = probe->values.first_op; o < probe->values.end_op; o++) {
        const redco_op *const op = redco_graph_op(probe->g, o);
        const bool product = op->kind == REDCO_OP_MATMUL || op->kind == REDCO_OP_SORT_ROWS; /* for those of experts */
        redco_value read = product ? op->inputs[0] : REDCO_NO_VALUE;
        while (product && redco_op_is_view(redco_value_op(probe->g, read)->kind)) {
            read = redco_value_op(probe->g, read)->inputs[0];
        }
        if (read != value) { continue; }
        role = *count_out == 0 || role == op->role ? op->role : REDCO_OP_ROLE_NONE;
        (*count_out)++;
    }
    return role;
}

/* @return whether backward reads a tensor as the operand of a product. */
static bool is_operand(const struct list *list, redco_value value, const redco_op *op)
{
    const uint32_t weight =
        op->kind == REDCO_OP_MATMUL ? redcoi_probe_param(list->probe, op->inputs[1]) : REDCO_NO_PARAM;
    if (op->kind != REDCO_OP_MATMUL || holder_of(list, op->inputs[0]) != value) { return false; }
    return weight == REDCO_NO_PARAM || redcoi_operand_is_read(&list->probe->model, &list->probe->model.params[weight]);
}

/* Operands of frozen products alone are not kept for them. */
static bool keeps_operand(const struct list *list, redco_value value)
{
    const redco_value holder = holder_of(list, value);
    bool keeps = list->probe->model.dims.adapter_rank == 0;
    for (uint32_t o = list->probe->values.first_op; !keeps && o < list->probe->values.end_op; o++) {
        keeps = is_operand(list, holder, redco_graph_op(list->probe->g, o));
    }
    return keeps;
}

static void add_norm(struct list *list, const redco_op *op)
{
    const uint32_t gain = redcoi_probe_param(list->probe, op->inputs[1]);
    const bool trained = gain == REDCO_NO_PARAM || !list->probe->model.params[gain].frozen;
    const redco_value output = op->first_output;
    const redco_extent elements = redcoi_probe_elements(list->probe, output), rows = rows_of(list, output);
    uint32_t readers = 0;
    const redco_op_role reader = redcoi_norm_reader(list->probe, output, &readers);
    add_value(list, REDCO_SITE_NORM_INPUT, op->inputs[0], REDCO_OP_ROLE_NONE);
    add_beside(list, REDCO_SITE_NORM_CONVERTED, elements, op, reader);
    if (trained) { add_beside(list, REDCO_SITE_NORM_NORMED, elements, op, reader); }
    add_beside(list, REDCO_SITE_NORM_STATISTIC, rows, op, reader);
    if (op->kind == REDCO_OP_LAYER_NORM) { add_beside(list, REDCO_SITE_NORM_MEAN, rows, op, reader); }
    if (readers > 0 && keeps_operand(list, output)) { add_value(list, REDCO_SITE_NORM_OUTPUT, output, reader); }
}

/* The product that a value comes from, rotated, split and joined on the way. */
static const redco_op *product_of(const struct list *list, redco_value value)
{
    const redco_op *op = redco_value_op(list->probe->g, value);
    while (op->kind != REDCO_OP_MATMUL && op->input_count > 0) { op = redco_value_op(list->probe->g, op->inputs[0]); }
    return op;
}

static void add_attention(struct list *list, const redco_op *op)
{
    const redco_extent queries = redcoi_probe_elements(list->probe, op->inputs[0]);
    const redco_extent rows = rows_of(list, op->inputs[0]);
    redco_extent repeated = queries;
    repeated.factor *= 2;
    for (uint32_t i = 0; i < 3; i++) {
        const redco_value value = op->inputs[i];
        add(list, (redco_layer_site){(redco_site)(REDCO_SITE_ATTENTION_QUERIES + i),
                                     redcoi_probe_elements(list->probe, value), product_of(list, value)->role,
                                     REDCO_OP_ROLE_NONE});
    }
    add_beside(list, REDCO_SITE_ATTENTION_REPEATED, repeated, op, REDCO_OP_ROLE_NONE);
    add_value(list, REDCO_SITE_ATTENTION_OUTPUT, op->first_output, REDCO_OP_ROLE_NONE);
    add_beside(list, REDCO_SITE_ATTENTION_STATISTIC, rows, op, REDCO_OP_ROLE_NONE);
    add_beside(list, REDCO_SITE_ATTENTION_SCORES, rows, op, REDCO_OP_ROLE_NONE);
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
        if (keeps_operand(list, op->first_output)) {
            add_value(list, REDCO_SITE_ACTIVATION_OUTPUT, op->first_output, REDCO_OP_ROLE_NONE);
        }
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
    if (keeps_operand(list, product->first_output)) {
        add_value(list, REDCO_SITE_ACTIVATION_OUTPUT, product->first_output, REDCO_OP_ROLE_NONE);
    }
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
    if (!keeps_operand(list, operand)) {
        ; /* nor listed */
    } else if (operand ==
               list->probe->values.input) { /* norms stand behind their parts: that of the layer before made it */
        add_value(list, REDCO_SITE_NORM_OUTPUT, operand, REDCO_OP_ROLE_NONE);
    } else if (redcoi_probe_forward(list->probe, maker) && !is_listed(list, operand)) {
        add_value(list, REDCO_SITE_PRODUCT_OPERAND, operand, REDCO_OP_ROLE_NONE);
    }
    const bool last = op->role == REDCO_OP_ROLE_FFN_OUT;
    if (last) { add_value(list, REDCO_SITE_PRODUCT_OUTPUT, op->first_output, REDCO_OP_ROLE_NONE); }
    if (last || op->role == REDCO_OP_ROLE_OUT || op->role == REDCO_OP_ROLE_CROSS_OUT) {
        add_each(list, REDCO_SITE_DROPOUT_MASK, op->first_output);
    }
}

/* The operand of the experts' first products once, however many read it; that of their last one. */
static void add_grouped(struct list *list, const redco_op *op)
{
    const bool in = op->role == REDCO_OP_ROLE_EXPERT_IN;
    add_value(list, in ? REDCO_SITE_EXPERTS_INPUT : REDCO_SITE_EXPERTS_ACTIVATED, op->inputs[0], REDCO_OP_ROLE_NONE);
    if (!in) { add_value(list, REDCO_SITE_EXPERTS_OUTPUT, op->first_output, REDCO_OP_ROLE_NONE); }
}

void redcoi_layer_sites_make(const redcoi_probe *probe, redco_layer_work *work)
{
    struct list list = {.probe = probe, .sites = work->sites};
    add_value(&list, REDCO_SITE_LAYER_INPUT, probe->values.input, REDCO_OP_ROLE_NONE);
    for (uint32_t o = probe->values.first_op; o < probe->values.end_op; o++) {
        const redco_op *const op = redco_graph_op(probe->g, o);
        switch (op->kind) {
        case REDCO_OP_RMS_NORM:
        case REDCO_OP_LAYER_NORM: add_norm(&list, op); break;
        case REDCO_OP_ATTENTION: add_attention(&list, op); break;
        case REDCO_OP_MATMUL: add_product(&list, op); break;
        case REDCO_OP_GROUPED_MATMUL: add_grouped(&list, op); break;
        case REDCO_OP_TOP_K: add_value(&list, REDCO_SITE_ROUTER_SCORES, op->inputs[0], REDCO_OP_ROLE_NONE); break;
        case REDCO_OP_SILU:
        case REDCO_OP_GELU:
        case REDCO_OP_GELU_TANH:
        case REDCO_OP_RELU: add_activation(&list, op); break;
        default: break;
        }
    }
    work->site_count = list.count;
}
