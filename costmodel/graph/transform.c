#include "costmodel/graph/transform.h"

#include "costmodel/graph/graph_internal.h"

#include <stdlib.h>
#include <string.h>

void redco_graph_live(const redco_graph *graph, const redco_value *outputs, uint32_t output_count, bool *live_out)
{
    memset(live_out, 0, graph->op_count * sizeof *live_out);
    for (uint32_t i = 0; i < output_count; i++) { live_out[graph->values[outputs[i]]->op] = true; }
    for (uint32_t i = graph->op_count; i > 0; i--) {
        const redco_op *op = graph->ops[i - 1];
        for (uint32_t k = 0; live_out[i - 1] && k < op->input_count; k++) {
            live_out[graph->values[op->inputs[k]]->op] = true;
        }
    }
}

/** Adds @p op to @p to, its inputs mapped, under its old names. */
static void copy_op(redco_graph *to, const redco_graph *from, const redco_op *op, bool decompose, redco_value *map)
{
    redco_value inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    if (op->kind == REDCO_OP_INPUT) {
        map[op->first_output] = redcoi_graph_input(to, redco_value_name(from, op->first_output),
                                                   redco_value_type(from, op->first_output), op->attributes.flags);
        return;
    }
    for (uint32_t i = 0; i < op->input_count; i++) { inputs[i] = map[op->inputs[i]]; }
    redco_graph_set_like(to, op);
    to->label.order = op->order;
    to->label.copy = op->copy;
    to->label.toward = op->toward;
    to->label.origin = REDCO_NO_OP;
    if (op->origin != REDCO_NO_OP) {
        const redco_value origin = map[from->ops[op->origin]->first_output];
        if (origin != REDCO_NO_VALUE) { to->label.origin = to->values[origin]->op; }
    }
    for (uint32_t i = 0; i < REDCO_OUTPUTS_MAX; i++) { outputs[i] = REDCO_NO_VALUE; }
    if (decompose) {
        redcoi_gradient_rules[op->kind].decompose(to, &op->attributes, inputs, op->input_count, outputs);
    } else {
        redco_graph_apply(to, op->kind, inputs, op->input_count, &op->attributes, outputs);
    }
    for (uint32_t i = 0; i < op->output_count; i++) { map[op->first_output + i] = outputs[i]; }
}

redco_status redco_graph_extract(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                 redco_decompose_choice choose, void *context, redco_graph **graph_out,
                                 redco_value *map_out, redco_error *err)
{
    redco_status st = redco_graph_status(graph, err);
    bool *live = NULL;
    redco_graph *made = NULL;
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < output_count; i++) {
        if (outputs[i] >= graph->value_count) {
            return redco_fail(err, REDCO_EVALUE, "graph", "output %u is no value of this graph", i);
        }
    }
    live = calloc((size_t)graph->op_count + 1, sizeof *live);
    made = redco_graph_create();
    if (live == NULL || made == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "graph", "no memory for a copy");
        goto out;
    }
    redco_graph_live(graph, outputs, output_count, live);
    for (uint32_t i = 0; i < graph->value_count; i++) { map_out[i] = REDCO_NO_VALUE; }
    for (uint32_t i = 0; i < graph->op_count && !redcoi_graph_failed(made); i++) {
        const redco_op *op = graph->ops[i];
        const bool decompose = live[i] && choose != NULL && redco_op_is_fused(op->kind) && choose(op, context);
        if (live[i]) { copy_op(made, graph, op, decompose, map_out); }
    }
    made->label = (redcoi_graph_label){.origin = REDCO_NO_OP, .toward = REDCO_NO_VALUE};
    if ((st = redco_graph_status(made, err)) != REDCO_OK) { goto out; }
    *graph_out = made;
    made = NULL;
out:
    free(live);
    redco_graph_free(made);
    return st;
}

/* Operators that outputs depend on without passing a cut. */
static void live_part(const redco_graph *graph, const redco_value *outputs, uint32_t output_count, const bool *is_cut,
                      bool *live)
{
    for (uint32_t i = 0; i < output_count; i++) {
        live[graph->values[outputs[i]]->op] = live[graph->values[outputs[i]]->op] || !is_cut[outputs[i]];
    }
    for (uint32_t i = graph->op_count; i > 0; i--) {
        const redco_op *const op = graph->ops[i - 1];
        for (uint32_t k = 0; live[i - 1] && k < op->input_count; k++) {
            if (!is_cut[op->inputs[k]]) { live[graph->values[op->inputs[k]]->op] = true; }
        }
    }
}

redco_status redco_graph_extract_part(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                      const redco_graph_cut *cuts, uint32_t cut_count, redco_graph **graph_out,
                                      redco_value *map_out, redco_error *err)
{
    bool *const live = calloc((size_t)graph->op_count + 1, sizeof *live);
    bool *const is_cut = calloc((size_t)graph->value_count + 1, sizeof *is_cut);
    redco_graph *made = redco_graph_create();
    redco_status st = redco_graph_status(graph, err);
    if (live == NULL || is_cut == NULL || made == NULL) { st = redco_fail(err, REDCO_ENOMEM, "graph", "a part of it"); }
    if (st != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < graph->value_count; i++) { map_out[i] = REDCO_NO_VALUE; }
    for (uint32_t i = 0; i < cut_count; i++) {
        const redco_value input = redcoi_graph_input(made, cuts[i].name, redco_value_type(graph, cuts[i].value), 0);
        if (cuts[i].unread) { continue; }
        is_cut[cuts[i].value] = true;
        map_out[cuts[i].value] = input;
    }
    live_part(graph, outputs, output_count, is_cut, live);
    for (uint32_t i = 0; i < graph->op_count && !redcoi_graph_failed(made); i++) {
        redco_value kept[REDCO_OUTPUTS_MAX];
        const redco_op *const op = graph->ops[i];
        if (!live[i]) { continue; }
        for (uint32_t k = 0; k < op->output_count; k++) { kept[k] = map_out[op->first_output + k]; }
        copy_op(made, graph, op, false, map_out);
        for (uint32_t k = 0; k < op->output_count; k++) {
            if (is_cut[op->first_output + k]) { map_out[op->first_output + k] = kept[k]; }
        }
    }
    made->label = (redcoi_graph_label){.origin = REDCO_NO_OP, .toward = REDCO_NO_VALUE};
    if ((st = redco_graph_status(made, err)) != REDCO_OK) { goto out; }
    *graph_out = made;
    made = NULL;
out:
    free(live);
    free(is_cut);
    redco_graph_free(made);
    return st;
}

static uint64_t fold(uint64_t hash, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) { hash = (hash ^ ((const unsigned char *)data)[i]) * 0x100000001b3; }
    return hash;
}

uint64_t redco_graph_digest(const redco_graph *g)
{
    uint64_t hash = 0xcbf29ce484222325; /* FNV-1a */
    for (uint32_t i = 0; i < redco_graph_op_count(g); i++) {
        const redco_op *const op = redco_graph_op(g, i);
        const uint32_t kind = op->kind;
        hash = fold(hash, &kind, sizeof kind);
        hash = fold(hash, &op->attributes, sizeof op->attributes);
        hash = fold(hash, op->inputs, op->input_count * sizeof *op->inputs);
        for (uint32_t o = 0; o < op->output_count; o++) {
            const redco_tensor_type *const type = redco_value_type(g, op->first_output + o);
            const uint32_t dtype = type->dtype;
            hash = fold(hash, &dtype, sizeof dtype);
            hash = fold(hash, type->dim, type->rank * sizeof *type->dim);
        }
    }
    return hash;
}
