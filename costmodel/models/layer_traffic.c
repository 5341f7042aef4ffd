/* Collectives of paired tensor parallelism and of sequence parallelism, from the layouts that flow through a layer's
 * graph and its derivative when each tensor is split along the axis that tensor parallelism cuts. */
#include "costmodel/models/layer_probe.h"

/* Layouts of the graph's inputs while they are listed. */
struct inputs {
    redco_tp_input list[REDCOI_CLASS_PARAMS + 2];
    uint32_t count;
};

static void add_input(struct inputs *inputs, const char *name, redco_tp_layout layout, bool activation)
{
    if (inputs->count < sizeof inputs->list / sizeof inputs->list[0]) {
        inputs->list[inputs->count++] = (redco_tp_input){name, layout, activation};
    }
}

/* The dimension of a tensor that is cut, as the graph has it, in one block or several. */
static void add_param(const redcoi_probe *probe, uint32_t id, struct inputs *inputs)
{
    const redco_value value = probe->values.params[id];
    const redco_param *const param = &probe->model.params[id];
    const redco_tensor_type *const type = redco_value_type(probe->g, value);
    const uint32_t blocks = redcoi_use_blocks(&probe->model, param->use);
    for (uint32_t d = 0; d < type->rank; d++) {
        const redco_extent extent = redcoi_probe_extent(probe, type->dim[d]);
        if (redco_extent_split(&extent) == REDCO_AXIS_COUNT) { continue; }
        add_input(inputs, redco_value_name(probe->g, value), (redco_tp_layout){REDCO_TP_SPLIT, d, blocks}, false);
        return;
    }
}

/* A reduction stands behind the operator that made its operand, a gather before the one that reads it. */
static redco_op_role neighbour_of(const redco_graph *g, const redco_op *op)
{
    if (op->kind != REDCO_OP_ALL_GATHER) {
        for (; op->role == REDCO_OP_ROLE_NONE && op->input_count > 0;) { op = redco_value_op(g, op->inputs[0]); }
        return op->role;
    }
    redco_value made = op->first_output;
    for (uint32_t o = op->id + 1; o < redco_graph_op_count(g); o++) {
        const redco_op *const reader = redco_graph_op(g, o);
        for (uint32_t i = 0; i < reader->input_count; i++) {
            if (reader->inputs[i] != made) { continue; }
            if (!redco_op_is_view(reader->kind)) { return reader->role; }
            made = reader->first_output;
        }
    }
    return REDCO_OP_ROLE_NONE;
}

/* Numbers of rows, of which a split loss has three, and gradients of vectors, once a step, are left out. */
static void add_traffic(const redcoi_probe *probe, const redco_graph *local, const redco_op *op, redcoi_probe_cut cut,
                        redco_layer_group *groups, uint32_t count)
{
    const bool gather = op->kind == REDCO_OP_ALL_GATHER;
    const redco_value whole = gather ? op->first_output : op->inputs[0];
    redco_group_traffic traffic = {.op = gather                            ? REDCO_ALL_GATHER
                                         : op->kind == REDCO_OP_ALL_REDUCE ? REDCO_ALL_REDUCE
                                                                           : REDCO_REDUCE_SCATTER,
                                   .elements =
                                       redcoi_probe_extent(probe, redco_type_elements(redco_value_type(local, whole))),
                                   .backward = op->order > 0,
                                   .sequence_parallel = cut.rows,
                                   .whole_experts = cut.whole_experts};
    redco_extent row = traffic.elements;
    if (row.power[REDCO_AXIS_BATCH] == 0) { return; }
    row.power[REDCO_AXIS_BATCH] = row.power[REDCO_AXIS_SEQUENCE] = 0;
    if (redco_extent_count(&row, probe->sizes) == 1) { return; }
    const redco_op_role role = neighbour_of(local, op);
    for (uint32_t g = 0; g < count; g++) {
        if (groups[g].role != role || groups[g].traffic_count == REDCO_GROUP_TRAFFIC) { continue; }
        groups[g].traffic[groups[g].traffic_count++] = traffic;
    }
}

redco_status redcoi_probe_partition(const redcoi_probe *probe, redcoi_probe_cut cut,
                                    const redco_partition_output *outputs, uint32_t output_count,
                                    redco_graph **local_out, redco_value *values_out, redco_error *err)
{
    const uint64_t length = REDCOI_PROBE_LENGTH;
    struct inputs inputs = {.count = 0};
    for (uint32_t id = 0; id < probe->model.param_count; id++) {
        const bool experts = probe->model.params[id].part == REDCO_PART_EXPERTS;
        if (probe->model.params[id].adapter != REDCO_ADAPTER_NONE) { continue; }
        if (!experts || !cut.whole_experts) { add_param(probe, id, &inputs); }
    }
    if (redco_graph_find_input(probe->g, "bias") != REDCO_NO_VALUE) {
        add_input(&inputs, "bias", redco_tp_split(1), true);
    }
    if (cut.rows) { add_input(&inputs, "x", redco_tp_split(1), true); }
    if (cut.rows && probe->model.classes[probe->class_index].kind != REDCO_CLASS_HEAD) {
        add_input(&inputs, "gradient", redco_tp_split(1), true);
    }
    const redco_partition_options options = {.group = {.ranks = REDCOI_PROBE_RANKS},
                                             .inputs = inputs.list,
                                             .input_count = inputs.count,
                                             .sequence_parallel = cut.rows,
                                             .batch = REDCOI_PROBE_BATCH,
                                             .sequences = &length,
                                             .sequence_count = 1};
    return redco_partition(probe->g, outputs, output_count, &options, local_out, values_out, err);
}

static redco_status add_collectives(const redcoi_probe *probe, redcoi_probe_cut cut, redco_layer_group *groups,
                                    uint32_t count, redco_error *err)
{
    const redcoi_class_values *const values = &probe->values;
    const redco_class_kind kind = probe->model.classes[probe->class_index].kind;
    /* Gradients of weights are made where the weights are; a table's reads that of all rows. */
    const uint32_t gradients = kind == REDCO_CLASS_EMBEDDING ? values->wanted_count : 1;
    redco_partition_output outputs[REDCOI_CLASS_PARAMS + 1];
    redco_value local_values[REDCOI_CLASS_PARAMS + 1];
    redco_graph *local = NULL;
    outputs[0] = (redco_partition_output){values->result, kind == REDCO_CLASS_HEAD ? NULL : "x"};
    for (uint32_t i = 0; i < gradients; i++) {
        outputs[i + 1] = (redco_partition_output){values->gradients[i], redco_value_name(probe->g, values->wanted[i])};
    }
    const redco_status st = redcoi_probe_partition(probe, cut, outputs, gradients + 1, &local, local_values, err);
    for (uint32_t o = 0; st == REDCO_OK && o < redco_graph_op_count(local); o++) {
        const redco_op *const op = redco_graph_op(local, o);
        if (redco_op_kind_class(op->kind) != REDCO_CLASS_COLLECTIVE) { continue; }
        add_traffic(probe, local, op, cut, groups, count);
    }
    redco_graph_free(local);
    return st;
}

redco_status redcoi_layer_traffic_make(const redcoi_probe *probe, redco_layer_group *groups, uint32_t count,
                                       redco_error *err)
{
    const bool experts = redco_model_find(&probe->model, probe->class_index, REDCO_USE_ROUTER, false) != REDCO_NO_PARAM;
    redco_status st = REDCO_OK;
    for (int whole = 0; whole < (experts ? 2 : 1) && st == REDCO_OK; whole++) {
        for (int rows = 0; rows < 2 && st == REDCO_OK; rows++) {
            st = add_collectives(probe, (redcoi_probe_cut){rows != 0, whole != 0}, groups, count, err);
        }
    }
    return st;
}
