#include "costmodel/layouts/partition_internal.h"

#include "costmodel/graph/transform.h"

#include <stdlib.h>
#include <string.h>

/* Checks */

static redco_status check_group(const redco_partition_options *o, redco_error *err)
{
    if (o->group.ranks == 0 || o->rank >= o->group.ranks) {
        return redco_fail(err, REDCO_EVALUE, "partition", "rank %u of a group of %u", o->rank, o->group.ranks);
    }
    if (o->sequence_parallel && (o->batch == 0 || o->sequence_count == 0 || o->sequences == NULL)) {
        return redco_fail(err, REDCO_EVALUE, "partition",
                          "sequence parallelism needs the batch and the sequence lengths");
    }
    return REDCO_OK;
}

static redco_status check_input(const redco_graph *graph, const redco_tp_input *input, uint32_t ranks, redco_error *err)
{
    char type[REDCO_TYPE_TEXT_BYTES], layout[64];
    const redco_value value = redco_graph_find_input(graph, input->name);
    if (value == REDCO_NO_VALUE) {
        return redco_fail(err, REDCO_EVALUE, input->name, "a layout is given for it, but the graph has no such input");
    }
    if (input->layout.kind == REDCO_TP_PARTIAL) {
        return redco_fail(err, REDCO_EVALUE, input->name, "an input is replicated or split, not a partial sum");
    }
    if (!redco_tp_fits(input->layout, redco_value_type(graph, value), ranks)) {
        return redco_fail(err, REDCO_EVALUE, input->name, "%s of %s among %u ranks: it must divide the dimension",
                          redco_tp_text(input->layout, layout), redco_type_text(redco_value_type(graph, value), type),
                          ranks);
    }
    return REDCO_OK;
}

static redco_status take_inputs(redcoi_builder *b, redco_error *err)
{
    for (uint32_t i = 0; i < b->options->input_count; i++) {
        const redco_tp_input *const input = &b->options->inputs[i];
        const redco_status st = check_input(b->global, input, b->ranks, err);
        if (st != REDCO_OK) { return st; }
        const redco_tp_input **const given = &b->given[redco_graph_find_input(b->global, input->name)];
        if (*given != NULL) { return redco_fail(err, REDCO_EVALUE, input->name, "two layouts are given for it"); }
        *given = input;
    }
    return REDCO_OK;
}

/** Layouts of the outputs: those of the inputs that they are like. */
static redco_status find_output_layouts(const redcoi_builder *b, const redco_partition_output *outputs, uint32_t count,
                                        redco_tp_layout *layouts, redco_error *err)
{
    const redco_graph *const graph = b->global;
    for (uint32_t i = 0; i < count; i++) {
        char text[REDCO_TYPE_TEXT_BYTES];
        layouts[i] = redco_tp_replicated();
        if (outputs[i].value >= redco_graph_value_count(graph)) {
            return redco_fail(err, REDCO_EVALUE, "partition", "output %u is no value of this graph", i);
        }
        if (outputs[i].like == NULL) { continue; }
        const redco_value like = redco_graph_find_input(graph, outputs[i].like);
        if (like == REDCO_NO_VALUE) {
            return redco_fail(err, REDCO_EVALUE, outputs[i].like, "output %u is to be like it, but there is none", i);
        }
        if (!redco_type_same_dims(redco_value_type(graph, like), redco_value_type(graph, outputs[i].value))) {
            return redco_fail(err, REDCO_EVALUE, outputs[i].like, "output %u is to be split like it, but is %s", i,
                              redco_type_text(redco_value_type(graph, outputs[i].value), text));
        }
        if (b->given[like] != NULL) { layouts[i] = b->given[like]->layout; }
    }
    return REDCO_OK;
}

static redco_status check_graph(const redco_graph *graph, redco_error *err)
{
    const redco_status st = redco_graph_status(graph, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op *op = redco_graph_op(graph, i);
        if (redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE) {
            char name[200];
            return redco_fail(err, REDCO_EVALUE, redco_op_name(graph, op, name, sizeof name),
                              "the graph holds collectives: it was partitioned before");
        }
        if (redco_op_kind_class(op->kind) == REDCO_CLASS_MATMUL && op->kind != REDCO_OP_MATMUL) {
            char name[200];
            return redco_fail(err, REDCO_EVALUE, redco_op_name(graph, op, name, sizeof name),
                              "%s: products are fused behind the partition, not before", redco_op_kind_name(op->kind));
        }
    }
    return REDCO_OK;
}

/* The rank's graph */

static void count_uses(redcoi_builder *b, const redco_partition_output *outputs, uint32_t count)
{
    for (uint32_t i = 0; i < redco_graph_op_count(b->global); i++) {
        const redco_op *op = redco_graph_op(b->global, i);
        b->op_of[i] = REDCO_NO_OP;
        for (uint32_t k = 0; b->live[i] && k < op->input_count; k++) { b->uses[op->inputs[k]]++; }
    }
    for (uint32_t i = 0; i < count; i++) { b->uses[outputs[i].value]++; }
}

static redco_tp_layout input_layout(const redcoi_builder *b, redco_value value)
{
    return b->given[value] == NULL ? redco_tp_replicated() : b->given[value]->layout;
}

/** Split numbers that come from outside are weights, trained or not. */
static void note_inputs(redcoi_builder *b)
{
    for (uint32_t i = 0; i < redco_graph_op_count(b->global); i++) {
        const redco_op *op = redco_graph_op(b->global, i);
        if (op->kind != REDCO_OP_INPUT || !redco_dtype_is_float((redco_dtype)op->attributes.dtype)) { continue; }
        const redco_tp_layout layout = input_layout(b, op->first_output);
        if (layout.kind == REDCO_TP_SPLIT && !b->given[op->first_output]->activation) {
            b->weights[op->first_output] = (redcoi_demand){.any = true, .layout = layout};
        }
    }
}

static void add_input(redcoi_builder *b, const redco_op *op)
{
    const char *name = redco_value_name(b->global, op->first_output);
    const redco_tp_layout layout = input_layout(b, op->first_output);
    const redco_tensor_type type = redco_tp_local(layout, redco_value_type(b->global, op->first_output), b->ranks);
    redco_graph_set_like(b->local, op);
    const bool parameter = (op->attributes.flags & REDCO_FLAG_PARAMETER) != 0;
    const redco_value local = parameter ? redco_parameter(b->local, name, &type) : redco_input(b->local, name, &type);
    redcoi_hold(b, op->first_output, layout, local);
}

static redco_status build(redcoi_builder *b, const redco_partition_output *outputs, const redco_tp_layout *layouts,
                          uint32_t count, redco_value *outputs_out, redco_error *err)
{
    redcoi_choice choice;
    for (uint32_t i = 0; i < redco_graph_op_count(b->global); i++) {
        const redco_op *op = redco_graph_op(b->global, i);
        if (!b->live[i] || redcoi_is_source(op->kind)) { continue; }
        if (op->kind == REDCO_OP_INPUT) {
            add_input(b, op);
        } else if (op->kind == REDCO_OP_ADD) {
            redcoi_defer_sum(b, op);
        } else {
            redcoi_choose(b, op, &choice);
            redcoi_apply(b, op, &choice);
        }
        const redco_status st = redco_graph_status(b->local, err);
        if (st != REDCO_OK) { return st; }
    }
    for (uint32_t i = 0; i < count; i++) {
        outputs_out[i] = redcoi_obtain(b, outputs[i].value, layouts[i], redco_value_op(b->global, outputs[i].value));
    }
    redco_graph_set_layer(b->local, "");
    redco_graph_set_operator(b->local, "");
    return redco_graph_status(b->local, err);
}

static redco_status allocate(redcoi_builder *b, redco_error *err)
{
    const size_t ops = redco_graph_op_count(b->global), values = redco_graph_value_count(b->global);
    b->local = redco_graph_create();
    b->live = calloc(ops + 1, sizeof *b->live);
    b->op_of = calloc(ops + 1, sizeof *b->op_of);
    b->uses = calloc(values + 1, sizeof *b->uses);
    b->slots = calloc(values + 1, sizeof *b->slots);
    b->demands = calloc(values + 1, sizeof *b->demands);
    b->weights = calloc(values + 1, sizeof *b->weights);
    b->given = calloc(values + 1, sizeof(redco_tp_input *));
    if (b->local && b->live && b->op_of && b->uses && b->slots && b->demands && b->weights && b->given) {
        return REDCO_OK;
    }
    return redco_fail(err, REDCO_ENOMEM, "partition", "no memory for the layouts of %zu values", values);
}

static void release(redcoi_builder *b)
{
    redco_graph_free(b->local);
    free(b->live);
    free(b->op_of);
    free(b->uses);
    free(b->slots);
    free(b->demands);
    free(b->weights);
    free((void *)b->given);
}

/** One rank alone: the graph as it is. */
static redco_status copy_graph(const redco_graph *graph, const redco_value *wanted, uint32_t count,
                               redco_graph **local_out, redco_value *outputs_out, redco_error *err)
{
    redco_value *map = calloc((size_t)redco_graph_value_count(graph) + 1, sizeof *map);
    if (map == NULL) { return redco_fail(err, REDCO_ENOMEM, "partition", "no memory for a copy"); }
    const redco_status st = redco_graph_extract(graph, wanted, count, NULL, NULL, local_out, map, err);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) { outputs_out[i] = map[wanted[i]]; }
    free(map);
    return st;
}

redco_status redco_partition(const redco_graph *graph, const redco_partition_output *outputs, uint32_t output_count,
                             const redco_partition_options *options, redco_graph **local_out, redco_value *outputs_out,
                             redco_error *err)
{
    redcoi_builder b = {.global = graph, .options = options, .ranks = options->group.ranks, .rank = options->rank};
    redco_tp_layout *layouts = NULL;
    redco_value *wanted = NULL;
    redco_status st = check_group(options, err);
    if (st == REDCO_OK) { st = check_graph(graph, err); }
    if (st != REDCO_OK) { return st; }
    if ((st = allocate(&b, err)) != REDCO_OK || (st = take_inputs(&b, err)) != REDCO_OK) { goto out; }
    layouts = calloc((size_t)output_count + 1, sizeof *layouts);
    wanted = calloc((size_t)output_count + 1, sizeof *wanted);
    if (layouts == NULL || wanted == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "partition", "no memory for %u outputs", output_count);
        goto out;
    }
    if ((st = find_output_layouts(&b, outputs, output_count, layouts, err)) != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < output_count; i++) { wanted[i] = outputs[i].value; }
    if (b.ranks == 1) {
        st = copy_graph(graph, wanted, output_count, local_out, outputs_out, err);
        goto out;
    }
    redco_graph_live(graph, wanted, output_count, b.live);
    count_uses(&b, outputs, output_count);
    note_inputs(&b);
    redcoi_find_weights(&b);
    redcoi_find_demands(&b, outputs, layouts, output_count);
    if ((st = build(&b, outputs, layouts, output_count, outputs_out, err)) != REDCO_OK) { goto out; }
    *local_out = b.local;
    b.local = NULL;
out:
    release(&b);
    free(layouts);
    free(wanted);
    return st;
}
