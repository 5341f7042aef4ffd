/* Tables of priced groups, derived from the graphs of the families. */
#include "costmodel/models/layer_probe.h"

#include <stdlib.h>

/* A table while it is being made. */
struct table {
    redco_layer_group *groups;
    uint32_t count;
};

static bool is_product(redco_op_kind kind)
{
    return kind == REDCO_OP_MATMUL || kind == REDCO_OP_GROUPED_MATMUL;
}

/* @return whether a product reads the result of another one of its role, bias and reshapes between */
static bool follows_product(const redcoi_probe *probe, const redco_op *op)
{
    const redco_op *from = redco_value_op(probe->g, op->inputs[0]);
    while (from->role == op->role && !is_product(from->kind) && from->input_count > 0) {
        from = redco_value_op(probe->g, from->inputs[0]);
    }
    return from->role == op->role && is_product(from->kind);
}

static void add_product(const redcoi_probe *probe, const redco_op *op, redco_layer_group *group)
{
    const redco_tensor_type *const input = redco_value_type(probe->g, op->inputs[0]);
    const uint64_t inner = input->dim[input->rank - 1];
    if (group->kind != REDCO_GROUP_PRODUCT) {
        group->kind = REDCO_GROUP_PRODUCT;
        group->part_count = 0;
        group->rows = redcoi_probe_extent(probe, redco_type_elements(input) / inner);
        group->inner = redcoi_probe_extent(probe, inner);
        group->experts = redcoi_probe_extent(
            probe, op->kind == REDCO_OP_GROUPED_MATMUL ? redco_value_type(probe->g, op->inputs[1])->dim[0] : 1);
    }
    const bool follows = group->part_count > 0 && follows_product(probe, op);
    if (!follows && group->part_count < REDCO_GROUP_PARTS) { group->part_count++; }
    group->parts[group->part_count - 1] = redcoi_probe_columns(probe, op->first_output);
}

static void add_attention(const redcoi_probe *probe, const redco_op *op, redco_layer_group *group)
{
    group->kind = REDCO_GROUP_ATTENTION;
    group->causal = (op->attributes.flags & REDCO_FLAG_CAUSAL) != 0;
    group->part_count = REDCO_GROUP_PARTS;
    for (uint32_t i = 0; i < 3; i++) { group->parts[i] = redcoi_probe_elements(probe, op->inputs[i]); }
    group->parts[3] = redcoi_probe_elements(probe, op->first_output);
}

static void set_elements(redco_layer_group *group, redco_extent elements)
{
    group->parts[0] = elements;
    group->part_count = 1;
}

/* The operator of a group that is no product, attention core, norm, loss or look-up does not decide its kind. */
static void add_to_group(const redcoi_probe *probe, const redco_op *op, redco_layer_group *group)
{
    uint32_t readers = 0;
    switch (op->kind) {
    case REDCO_OP_MATMUL:
    case REDCO_OP_GROUPED_MATMUL:
        if (group->kind == REDCO_GROUP_MEMORY || group->kind == REDCO_GROUP_PRODUCT) { add_product(probe, op, group); }
        break;
    case REDCO_OP_ATTENTION: add_attention(probe, op, group); break;
    case REDCO_OP_RMS_NORM:
    case REDCO_OP_LAYER_NORM:
        if (group->kind == REDCO_GROUP_PRODUCT || group->kind == REDCO_GROUP_TABLE) { break; }
        group->kind = REDCO_GROUP_NORM;
        group->reader = redcoi_norm_reader(probe, op->first_output, &readers);
        group->columns = redcoi_probe_columns(probe, op->first_output);
        set_elements(group, redcoi_probe_elements(probe, op->first_output));
        break;
    case REDCO_OP_SORT_ROWS: /* first weights, then rows */
        group->kind = REDCO_GROUP_ROWS;
        group->part_count = 2;
        group->parts[0] = redcoi_probe_elements(probe, op->inputs[0]);
        group->parts[1] = redcoi_probe_elements(probe, op->first_output);
        break;
    case REDCO_OP_CROSS_ENTROPY:
        group->kind = REDCO_GROUP_LOSS;
        set_elements(group, redcoi_probe_elements(probe, op->inputs[0]));
        break;
    case REDCO_OP_GATHER:
        if (group->kind == REDCO_GROUP_MEMORY) { group->columns = redcoi_probe_elements(probe, op->inputs[0]); }
        group->kind = REDCO_GROUP_TABLE;
        break;
    default: break;
    }
    if (group->kind == REDCO_GROUP_MEMORY) { set_elements(group, redcoi_probe_elements(probe, op->first_output)); }
    if (group->kind == REDCO_GROUP_TABLE) { set_elements(group, redcoi_probe_elements(probe, probe->values.result)); }
}

/* Graphs leave out biases of experts: nothing that they change depends on what they add. */
static bool has_bias(const redcoi_probe *probe, const redco_param *weight)
{
    for (uint32_t id = 0; id < probe->model.param_count; id++) {
        const redco_param *const param = &probe->model.params[id];
        if (param->role == REDCO_PARAM_BIAS && param->use == weight->use && param->class_index == weight->class_index) {
            return true;
        }
    }
    return false;
}

static void add_params(const redcoi_probe *probe, const redco_op *op, redco_layer_group *group)
{
    for (uint32_t i = 0; i < op->input_count; i++) {
        for (uint32_t id = 0; id < probe->model.param_count; id++) {
            if (probe->values.params[id] != op->inputs[i] || group->param_count == REDCO_GROUP_PARAMS) { continue; }
            uint32_t at = group->param_count++;
            for (; at > 0 && group->params[at - 1] > id; at--) { group->params[at] = group->params[at - 1]; }
            group->params[at] = id;
            group->biased = group->biased || has_bias(probe, &probe->model.params[id]);
        }
    }
}

/* A group that splits heads moves queries and keys: the elements that the attention core is given of them. */
static void set_heads(const struct table *table, const redco_layer_group *core)
{
    for (uint32_t i = 0; i < table->count; i++) {
        redco_layer_group *const group = &table->groups[i];
        if (group->role != REDCO_OP_ROLE_ROTARY && group->role != REDCO_OP_ROLE_SPLIT_HEADS) { continue; }
        group->parts[0] = core->parts[0];
        group->parts[1] = core->parts[1];
        group->part_count = 2;
    }
}

static void derive(const redcoi_probe *probe, struct table *table)
{
    for (uint32_t o = probe->values.first_op; o < probe->values.end_op; o++) {
        const redco_op *const op = redco_graph_op(probe->g, o);
        uint32_t at = 0;
        if (op->role == REDCO_OP_ROLE_NONE || redco_op_kind_class(op->kind) == REDCO_CLASS_SOURCE) { continue; }
        while (at < table->count && table->groups[at].role != op->role) { at++; }
        if (at == REDCO_GROUPS_MAX) { continue; }
        redco_layer_group *const group = &table->groups[at];
        if (at == table->count) {
            *group = (redco_layer_group){.role = op->role};
            table->count++;
        }
        add_to_group(probe, op, group);
        add_params(probe, op, group);
        if (op->role == REDCO_OP_ROLE_ATTENTION && op->kind == REDCO_OP_ATTENTION) { set_heads(table, group); }
    }
}

/* Where a value lies that has no memory of its own. */
static redco_value holder_of(const redco_graph *g, redco_value value)
{
    const redco_op *op = redco_value_op(g, value);
    for (; redco_op_is_view(op->kind); op = redco_value_op(g, value)) { value = op->inputs[0]; }
    return value;
}

/* Operators of the forward pass that made a value which backward reads, or what such an operator reads. */
static void mark_needed(const redcoi_probe *probe, const bool *read, bool *needed)
{
    for (uint32_t o = probe->values.end_op; o-- > probe->values.first_op;) {
        const redco_op *const op = redco_graph_op(probe->g, o);
        for (uint32_t i = 0; i < op->output_count; i++) { needed[o] = needed[o] || read[op->first_output + i]; }
        for (uint32_t i = 0; needed[o] && i < op->input_count; i++) {
            needed[redco_value_op(probe->g, op->inputs[i])->id] = true;
        }
    }
}

static void derive_unread(const redcoi_probe *probe, const struct table *table, const bool *needed)
{
    for (redco_layer_group *group = table->groups; group < table->groups + table->count; group++) {
        group->unread = true;
        for (uint32_t o = probe->values.first_op; o < probe->values.end_op; o++) {
            if (needed[o] && redco_graph_op(probe->g, o)->role == group->role) { group->unread = false; }
        }
    }
}

/* Finds the groups that made no value which gradients read. */
static redco_status derive_reads(const redcoi_probe *probe, struct table *table, redco_error *err)
{
    const redco_graph *const g = probe->g;
    bool *const seen = calloc((size_t)redco_graph_value_count(g) + 1, sizeof *seen);
    bool *const needed = calloc((size_t)redco_graph_op_count(g) + 1, sizeof *needed);
    for (uint32_t o = probe->values.end_op; seen != NULL && o < redco_graph_op_count(g); o++) {
        const redco_op *const op = redco_graph_op(g, o);
        const bool reads = op->order > 0 && !redco_op_is_view(op->kind);
        for (uint32_t i = 0; reads && i < op->input_count; i++) { seen[holder_of(g, op->inputs[i])] = true; }
    }
    const bool good = seen != NULL && needed != NULL;
    if (good) {
        mark_needed(probe, seen, needed);
        derive_unread(probe, table, needed);
    }
    free(seen);
    free(needed);
    return good ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, probe->model.name, "no memory for its layers");
}

static redco_status derive_class(redco_model *model, redcoi_probe *probe, uint32_t class_index, redco_error *err)
{
    redco_layer_work *const work = &model->works[class_index];
    struct table table = {.groups = work->groups};
    redco_status st = redcoi_probe_class(probe, class_index, err);
    if (st != REDCO_OK) { return st; }
    derive(probe, &table);
    work->group_count = table.count;
    /* Looking up reads no values. */
    if (model->classes[class_index].kind != REDCO_CLASS_EMBEDDING) { st = derive_reads(probe, &table, err); }
    if (st == REDCO_OK) { st = redcoi_layer_traffic_make(probe, table.groups, table.count, err); }
    if (st != REDCO_OK) { return st; }
    redcoi_layer_sites_make(probe, work);
    redcoi_adapters_add(model, class_index, work);
    return redcoi_layer_nodes_make(probe, work, err);
}

redco_status redcoi_layer_works_make(redco_model *model, redco_error *err)
{
    redcoi_probe probe = {.g = NULL};
    model->works = calloc(model->class_count, sizeof *model->works);
    model->moments = calloc(model->class_count, REDCOI_MOMENT_KINDS * sizeof *model->moments);
    if (model->works == NULL || model->moments == NULL) {
        return redco_fail(err, REDCO_ENOMEM, model->name, "no memory for its layers");
    }
    for (size_t c = 0; c < model->class_count; c++) { model->works[c].listed = &redco_nothing_listed; }
    if (model->family->price != NULL) {
        const redco_status st = model->family->price(model, err);
        redcoi_axis_sizes_make(model); /* after it: it sets sizes */
        return st;
    }
    redco_status st = redcoi_probe_create(model, &probe, err);
    model->rotary_size = probe.rotary_size;
    for (uint32_t c = 0; c < model->class_count && st == REDCO_OK; c++) { st = derive_class(model, &probe, c, err); }
    redcoi_probe_free(&probe);
    return st;
}
