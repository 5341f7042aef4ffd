#include "costmodel/kept/recompute.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/transform.h"

#include <stdlib.h>
#include <string.h>

/* The way in which a value reaches backward. */
typedef enum source { KEPT, AGAIN_ALONE, AGAIN_WITH_LAYER } source;

typedef struct rewrite {
    const redco_graph *from;
    redco_graph *to;
    const redco_recompute_options *options;
    bool *live;              /**< by operator */
    redco_recompute *policy; /**< by operator: of its layer */
    bool *repeated;          /**< by operator: backward needs it again */
    redco_value *map;        /**< by value: in the new graph */
    redco_value *again;      /**< by value: its second copy, or REDCO_NO_VALUE */
    uint32_t entered;        /**< layer that backward is in */
    uint32_t *op_of;         /**< by operator: in the new graph */
} rewrite;

static const redco_op *viewed(const rewrite *r, const redco_op *op)
{
    while (redco_op_is_view(op->kind)) { op = redco_value_op(r->from, op->inputs[0]); }
    return op;
}

/* Operators whose values a policy drops. A view goes the way of what it is a view of. */
static bool is_alone(const rewrite *r, const redco_op *maker)
{
    maker = viewed(r, maker);
    if (maker->order > 0 || maker->copy > 0) { return false; }
    /* Attention gathers heads, not parts of sequences. */
    if (maker->kind == REDCO_OP_ALL_GATHER) {
        return r->options->gather_again && !redco_op_role_is_attention(maker->role);
    }
    return (r->policy[maker->id] & REDCO_RECOMPUTE_CORE_ATTN) != 0 && redco_op_role_is_attention(maker->role) &&
           redco_op_kind_class(maker->kind) != REDCO_CLASS_COLLECTIVE;
}

static source source_of(const rewrite *r, const redco_op *maker)
{
    if (maker->order > 0 || maker->copy > 0 || maker->kind == REDCO_OP_INPUT) { return KEPT; }
    if (r->policy[maker->id] == REDCO_RECOMPUTE_FULL) { return AGAIN_WITH_LAYER; }
    return is_alone(r, maker) ? AGAIN_ALONE : KEPT;
}

/* @return whether @p reader, of backward or computed again, reads the second copy of @p value. A value that a
 * recomputed layer hands to others is kept as their input. */
static bool reads_again(const rewrite *r, const redco_op *reader, redco_value value)
{
    const redco_op *const maker = redco_value_op(r->from, value);
    switch (source_of(r, maker)) {
    case KEPT: return false;
    case AGAIN_ALONE: return true;
    case AGAIN_WITH_LAYER: return reader->layer_id == maker->layer_id;
    }
    return false;
}

static void find_policies(rewrite *r)
{
    uint32_t layer = REDCO_LAYER_NONE;
    redco_recompute policy = REDCO_RECOMPUTE_NONE;
    for (uint32_t i = 0; i < redco_graph_op_count(r->from); i++) {
        const redco_op *const op = redco_graph_op(r->from, i);
        if (i == 0 || op->layer_id != layer) {
            layer = op->layer_id;
            policy =
                r->options->policy == NULL ? REDCO_RECOMPUTE_NONE : r->options->policy(r->options->context, op->layer);
        }
        r->policy[i] = policy;
    }
}

/* From the end back: a repeated operator stands before those that read it, so one sweep finds all. */
static void find_repeated(const rewrite *r)
{
    for (uint32_t i = redco_graph_op_count(r->from); i > 0; i--) {
        const redco_op *const op = redco_graph_op(r->from, i - 1);
        if (!r->live[op->id] || (op->order == 0 && !r->repeated[op->id])) { continue; }
        for (uint32_t k = 0; k < op->input_count; k++) {
            if (reads_again(r, op, op->inputs[k])) { r->repeated[redco_value_op(r->from, op->inputs[k])->id] = true; }
        }
    }
}

static void repeat_op(const rewrite *r, const redco_op *op)
{
    redco_value inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    if (r->again[op->first_output] != REDCO_NO_VALUE) { return; }
    for (uint32_t k = 0; k < op->input_count; k++) {
        const redco_value value = op->inputs[k];
        const bool again = reads_again(r, op, value);
        if (again && r->again[value] == REDCO_NO_VALUE) { repeat_op(r, redco_value_op(r->from, value)); }
        inputs[k] = again ? r->again[value] : r->map[value];
    }
    redco_op copy = *op;
    copy.copy = 1;
    /* Gathering again is no recomputation: it is backward's, "bwd/block.3/qkv/tp_gather". */
    if (source_of(r, op) == AGAIN_ALONE && viewed(r, op)->kind == REDCO_OP_ALL_GATHER) { copy.order = 1; }
    redco_graph_insert(r->to, &copy, inputs, outputs);
    for (uint32_t k = 0; k < op->output_count; k++) { r->again[op->first_output + k] = outputs[k]; }
}

/* In forward's order. Layers are not next to each other in the list, but few operators are of another one. */
static void repeat_layer(const rewrite *r, uint32_t layer)
{
    for (uint32_t i = 0; i < redco_graph_op_count(r->from); i++) {
        const redco_op *const op = redco_graph_op(r->from, i);
        if (r->repeated[i] && op->layer_id == layer && source_of(r, op) == AGAIN_WITH_LAYER) { repeat_op(r, op); }
    }
}

static redco_value again(const rewrite *r, redco_value value)
{
    if (r->again[value] == REDCO_NO_VALUE) { repeat_op(r, redco_value_op(r->from, value)); }
    return r->again[value];
}

static void copy_input(const rewrite *r, const redco_op *op)
{
    const redco_tensor_type *const type = redco_value_type(r->from, op->first_output);
    const char *const name = redco_value_name(r->from, op->first_output);
    redco_graph_set_like(r->to, op);
    r->map[op->first_output] = (op->attributes.flags & REDCO_FLAG_PARAMETER) != 0 ? redco_parameter(r->to, name, type)
                                                                                  : redco_input(r->to, name, type);
}

static void copy_op(rewrite *r, const redco_op *op)
{
    redco_value inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    const bool backward = op->order > 0;
    if (backward && r->policy[op->id] == REDCO_RECOMPUTE_FULL && r->entered != op->layer_id) {
        repeat_layer(r, op->layer_id);
        r->entered = op->layer_id;
    }
    for (uint32_t k = 0; k < op->input_count; k++) {
        const redco_value value = op->inputs[k];
        inputs[k] = backward && reads_again(r, op, value) ? again(r, value) : r->map[value];
    }
    redco_op copy = *op;
    copy.origin = op->origin == REDCO_NO_OP ? REDCO_NO_OP : r->op_of[op->origin];
    redco_graph_insert(r->to, &copy, inputs, outputs);
    for (uint32_t k = 0; k < op->output_count; k++) { r->map[op->first_output + k] = outputs[k]; }
}

static redco_status copy_all(rewrite *r, redco_error *err)
{
    for (uint32_t i = 0; i < redco_graph_op_count(r->from); i++) {
        const redco_op *const op = redco_graph_op(r->from, i);
        if (!r->live[i]) { continue; }
        if (op->kind == REDCO_OP_INPUT) {
            copy_input(r, op);
        } else {
            copy_op(r, op);
        }
        const redco_status st = redco_graph_status(r->to, err);
        if (st != REDCO_OK) { return st; }
        r->op_of[i] = redco_value_op(r->to, r->map[op->first_output])->id;
    }
    return REDCO_OK;
}

static redco_status take_memory(rewrite *r, redco_error *err)
{
    const size_t ops = (size_t)redco_graph_op_count(r->from) + 1, values = (size_t)redco_graph_value_count(r->from) + 1;
    r->to = redco_graph_create();
    r->live = calloc(ops, sizeof *r->live);
    r->policy = calloc(ops, sizeof *r->policy);
    r->repeated = calloc(ops, sizeof *r->repeated);
    r->op_of = malloc(ops * sizeof *r->op_of);
    r->map = malloc(values * sizeof *r->map);
    r->again = malloc(values * sizeof *r->again);
    if (r->to == NULL || !r->live || !r->policy || !r->repeated || !r->op_of || !r->map || !r->again) {
        return redco_fail(err, REDCO_ENOMEM, "graph", "no memory to recompute");
    }
    memset(r->op_of, 0xff, ops * sizeof *r->op_of);
    memset(r->map, 0xff, values * sizeof *r->map);
    memset(r->again, 0xff, values * sizeof *r->again);
    return REDCO_OK;
}

redco_status redco_recompute_graph(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                   const redco_recompute_options *options, redco_graph **graph_out,
                                   redco_value *outputs_out, redco_error *err)
{
    rewrite r = {.from = graph, .options = options, .entered = UINT32_MAX};
    redco_status st = redco_graph_status(graph, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < output_count; i++) {
        if (outputs[i] >= redco_graph_value_count(graph)) {
            return redco_fail(err, REDCO_EVALUE, "graph", "output %u is no value of this graph", i);
        }
    }
    if ((st = take_memory(&r, err)) != REDCO_OK) { goto out; }
    redco_graph_live(graph, outputs, output_count, r.live);
    find_policies(&r);
    find_repeated(&r);
    if ((st = copy_all(&r, err)) != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < output_count; i++) { outputs_out[i] = r.map[outputs[i]]; }
    *graph_out = r.to;
    r.to = NULL;
out:
    redco_graph_free(r.to);
    free(r.live);
    free(r.policy);
    free(r.repeated);
    free(r.op_of);
    free(r.map);
    free(r.again);
    return st;
}
