#include "planner/tensor_parallel/placed.h"

#include "costmodel/closed_form/memory_model.h"
#include "planner/rules/rules.h"
#include "planner/rules/rules_params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static redcoi_tp_split split_of(redco_param_role role, int32_t dim)
{
    if (dim < 0) { return REDCOI_TP_REPLICATE; }
    /* Flax order: a linear is [in, out], GPT-2's Conv1D (out, in), a table (rows, width). */
    const bool outputs_first = role != REDCO_PARAM_LINEAR;
    return (dim == 0) == outputs_first ? REDCOI_TP_COLUMN : REDCOI_TP_ROW;
}

/* Of several layers the first counts. */
static void copy_splits(const redco_model *model, const redco_rules_tree *tree, const redco_rules *rules,
                        redcoi_tp_split *splits)
{
    const redco_param *params = NULL;
    const redco_rules_param *paths = NULL;
    (void)redco_model_tensors(model, &params);
    for (size_t i = redco_rules_tree_params(tree, &paths); i-- > 0;) {
        const size_t tensor = redco_rules_tree_tensor(tree, i);
        if (tensor == REDCO_RULES_NO_TENSOR) { continue; }
        splits[tensor] = split_of(params[tensor].role, redco_rules_dim(rules, i));
    }
}

redco_status redcoi_tp_rules_splits(const redco_model *model, uint32_t shards, const redco_user_rules *user,
                                    redcoi_tp_ruled_splits *splits_out, redco_error *err)
{
    redco_rules_tree *tree = NULL;
    redco_rules *rules = NULL;
    const redco_rules_param *paths = NULL;
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    redcoi_tp_split *splits = calloc(count + 1, sizeof *splits);
    redco_status st = splits != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    if (st != REDCO_OK || (st = redco_rules_tree_from_model(model, user != NULL, &tree, err)) != REDCO_OK) { goto out; }
    const size_t path_count = redco_rules_tree_params(tree, &paths);
    if ((st = redco_rules_decide_user(paths, path_count, shards, user, &rules, err)) != REDCO_OK) { goto out; }
    copy_splits(model, tree, rules, splits);
    *splits_out = (redcoi_tp_ruled_splits){(uint32_t)count, splits};
    splits = NULL;
out:
    redco_rules_free(rules);
    redco_rules_tree_free(tree);
    free(splits);
    return st;
}

void redcoi_tp_rules_splits_free(redcoi_tp_ruled_splits *splits)
{
    free(splits->splits);
    *splits = (redcoi_tp_ruled_splits){.count = 0};
}

static double collective_s(void *context, redco_collective op, double bytes)
{
    const redcoi_tp_pricing *const pricing = context;
    return redco_costs_tp_s(pricing->costs, pricing->tp, op, bytes);
}

redcoi_tp_base redcoi_tp_base_of(redcoi_tp_pricing *pricing, const redco_model *model, const redcoi_tp_roles *roles,
                                 const redco_setting *setting)
{
    const redco_compute *const compute = redco_costs_compute(pricing->costs);
    const redco_shape shape = redco_costs_shape(pricing->costs, setting);
    redco_state_bytes bytes = redco_state_bytes_of(shape.precision);
    if (shape.engine.gradient_bytes > 0) { bytes.gradient = shape.engine.gradient_bytes; }
    pricing->tp = shape.tp;
    return (redcoi_tp_base){.model = model,
                            .roles = roles,
                            .compute = compute,
                            .shape = shape,
                            .prices = {pricing, collective_s},
                            .exposed_ratio = compute->calibration.tp_exposed_ratio,
                            .param_s = redco_costs_param_s(pricing->costs, setting),
                            .param_bytes = (uint64_t)bytes.parameter + bytes.gradient + bytes.optimizer};
}

/* Embedding and head are the first graph, then every class of blocks. */
static redco_status build(const redcoi_tp_base *base, uint32_t index, redcoi_tp_layer *layer, bool *more_out,
                          redco_error *err)
{
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(base->model, &classes);
    uint32_t edges[2] = {UINT32_MAX, UINT32_MAX};
    uint32_t blocks = 0;
    *more_out = true;
    for (uint32_t c = 0; c < count; c++) {
        const redco_class_kind kind = classes[c].kind;
        if (kind == REDCO_CLASS_EMBEDDING || kind == REDCO_CLASS_HEAD) {
            edges[kind == REDCO_CLASS_HEAD ? 1 : 0] = c;
        } else if (++blocks == index) {
            return redcoi_tp_build_block(base, c, layer, err);
        }
    }
    if (index == 0) { return redcoi_tp_build_edges(base, edges[0], edges[1], layer, err); }
    *more_out = false;
    return REDCO_OK;
}

static redco_status price_rules(const redcoi_tp_base *base, const redcoi_tp_ruled_splits *ruled,
                                redcoi_tp_placed *placed, redco_error *err)
{
    const redcoi_tp_layer *const layer = &placed->layer;
    redcoi_tp_split splits[REDCOI_TP_NODES];
    uint32_t allowed[REDCOI_TP_NODES];
    for (uint32_t n = 0; n < REDCOI_TP_NODES; n++) { splits[n] = REDCOI_TP_REPLICATE; }
    for (int slot = 0; slot < REDCOI_TP_CLASSES; slot++) {
        for (int role = 0; role < REDCOI_TP_ROLES; role++) {
            const uint32_t node = layer->node[slot][role];
            if (node != REDCOI_TP_NONE) { splits[node] = ruled->splits[layer->weights[slot].index[role]]; }
        }
    }
    for (uint32_t n = 0; n < layer->graph.node_count; n++) {
        if (layer->graph.nodes[n].tied != REDCOI_TP_NONE) { splits[n] = splits[layer->graph.nodes[n].tied]; }
    }
    redcoi_tp_ruled(&layer->graph, splits, allowed);
    if (!redcoi_tp_enumerate(&layer->graph, allowed, false, &placed->rules_choice, &placed->rules, NULL)) {
        return redco_fail(err, REDCO_EVALUE, redco_model_name(base->model),
                          "RedCoast's rules for %u shards give a layout that cannot be priced", base->shape.tp);
    }
    return REDCO_OK;
}

static uint64_t params_of(const redcoi_tp_total *total)
{
    uint64_t params = 0;
    for (int c = 0; c < REDCOI_TP_CLASSES; c++) { params += total->classes[c].params; }
    return params;
}

redco_status redcoi_tp_place(const redcoi_tp_base *base, const redcoi_tp_ruled_splits *ruled, redcoi_tp_solver solve,
                             uint32_t index, redcoi_tp_placed *placed_out, bool *more_out, redco_error *err)
{
    redcoi_tp_placed *const placed = placed_out;
    redco_status st = build(base, index, &placed->layer, more_out, err);
    if (st != REDCO_OK || !*more_out) { return st; }
    placed->layer.graph.limit_bytes = 0;
    if ((st = price_rules(base, ruled, placed, err)) != REDCO_OK) { return st; }
    redcoi_tp_graph *const graph = &placed->layer.graph;
    placed->reference = redcoi_tp_limit(graph, params_of(&placed->rules));
    placed->milp = (redcoi_tp_answer){.feasible = false};
    if (solve == NULL || (st = solve(graph, &placed->milp, err)) != REDCO_OK) { return st; }
    if (placed->milp.total.value_s > placed->rules.value_s && placed->rules.memory_bytes > graph->limit_bytes) {
        graph->limit_bytes = placed->rules.memory_bytes; /* what rules may use */
        if ((st = solve(graph, &placed->milp, err)) != REDCO_OK) { return st; }
    }
    if (!placed->milp.feasible) { /* the reference fits, so this is a failure of the solver */
        return redco_fail(err, REDCO_ESYSTEM, redco_model_name(base->model),
                          "GLPK found no tensor-parallel layout for tp = %u", base->shape.tp);
    }
    return REDCO_OK;
}

const redcoi_tp_option *redcoi_tp_chosen(const redcoi_tp_layer *layer, const redcoi_tp_choice *choice, uint32_t node)
{
    return &layer->graph.nodes[node].options[choice->option[node]];
}
