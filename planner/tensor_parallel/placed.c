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

/* The splits of every layer while they are compared. */
struct layer_splits {
    const redco_param *params;
    size_t tensors;
    uint32_t layers;         /* layers of the class with the most */
    redcoi_tp_split *splits; /* [layer][tensor] */
};

static redcoi_tp_split *of_layer(const struct layer_splits *all, uint32_t layer)
{
    return &all->splits[(size_t)layer * all->tensors];
}

/* A tree lists the layers of a class one after the other, so that a tensor's n-th path is layer n's. A tree of one
 * layer of each class speaks for all. */
static bool read_splits(const redco_rules_tree *tree, const redco_rules *rules, struct layer_splits *all)
{
    const redco_rules_param *paths = NULL;
    const size_t count = redco_rules_tree_params(tree, &paths);
    uint32_t *seen = calloc(all->tensors + 1, sizeof *seen);
    for (size_t i = 0; i < count && seen != NULL; i++) {
        const size_t tensor = redco_rules_tree_tensor(tree, i);
        if (tensor == REDCO_RULES_NO_TENSOR) { continue; }
        of_layer(all, seen[tensor]++)[tensor] = split_of(all->params[tensor].role, redco_rules_dim(rules, i));
    }
    free(seen);
    return seen != NULL;
}

/* Only matrices are priced by how they lie. */
static bool alike(const struct layer_splits *all, uint32_t class_index, const redcoi_tp_split *a,
                  const redcoi_tp_split *b)
{
    for (size_t t = 0; t < all->tensors; t++) {
        if (all->params[t].class_index == class_index && all->params[t].rank >= 2 && a[t] != b[t]) { return false; }
    }
    return true;
}

/* Splits of a class's layouts move to the front; what was compared before them is not needed any more.
 * @return false when out of memory */
static bool find_layouts(const struct layer_splits *all, uint32_t class_index, uint32_t layers,
                         redcoi_tp_class_layouts *layouts)
{
    uint32_t *of = calloc((size_t)layers + 1, sizeof *of);
    layouts->count = 0;
    for (uint32_t layer = 0; layer < layers && of != NULL; layer++) {
        const redcoi_tp_split *const own = of_layer(all, layer);
        uint32_t known = 0;
        while (known < layouts->count && !alike(all, class_index, of_layer(all, known), own)) { known++; }
        of[layer] = known;
        if (known < layouts->count) { continue; }
        for (size_t t = 0; t < all->tensors; t++) {
            if (all->params[t].class_index == class_index) { of_layer(all, known)[t] = own[t]; }
        }
        layouts->count++;
    }
    const bool good = of != NULL;
    if (good && layouts->count > 1) {
        layouts->of = of;
    } else {
        free(of);
    }
    return good;
}

static redco_status out_of_memory(const redco_model *model, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, redco_model_name(model), "out of memory");
}

/* Where a model has more classes than layouts are distinguished for, the first layers count. */
static redco_status copy_splits(const redco_model *model, const redco_rules_tree *tree, const redco_rules *rules,
                                bool every_layer, redcoi_tp_ruled_splits *out, redco_error *err)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    struct layer_splits all = {.layers = 1};
    all.tensors = redco_model_tensors(model, &all.params);
    for (size_t c = 0; c < class_count && every_layer; c++) {
        all.layers = classes[c].layers > all.layers ? classes[c].layers : all.layers;
    }
    all.splits = calloc((size_t)all.layers * all.tensors + 1, sizeof *all.splits);
    if (all.splits == NULL) { return out_of_memory(model, err); }
    out->count = (uint32_t)all.tensors;
    out->splits = all.splits;
    bool good = read_splits(tree, rules, &all);
    for (uint32_t c = 0; c < REDCOI_TP_LAYERS; c++) {
        out->classes[c].count = 1;
        if (c >= class_count || !every_layer || class_count > REDCOI_TP_LAYERS) { continue; }
        good = good && find_layouts(&all, c, classes[c].layers, &out->classes[c]);
    }
    return good ? REDCO_OK : out_of_memory(model, err);
}

redco_status redcoi_tp_rules_splits(const redco_model *model, uint32_t shards, const redco_user_rules *user,
                                    redcoi_tp_ruled_splits *splits_out, redco_error *err)
{
    redco_rules_tree *tree = NULL;
    redco_rules *rules = NULL;
    const redco_rules_param *paths = NULL;
    redcoi_tp_ruled_splits made = {.count = 0};
    redco_status st = redco_rules_tree_from_model(model, user != NULL, &tree, err);
    if (st != REDCO_OK) { goto out; }
    const size_t path_count = redco_rules_tree_params(tree, &paths);
    if ((st = redco_rules_decide_user(paths, path_count, shards, user, &rules, err)) != REDCO_OK) { goto out; }
    if ((st = copy_splits(model, tree, rules, user != NULL, &made, err)) != REDCO_OK) { goto out; }
    *splits_out = made;
    made = (redcoi_tp_ruled_splits){.count = 0};
out:
    redco_rules_free(rules);
    redco_rules_tree_free(tree);
    redcoi_tp_rules_splits_free(&made);
    return st;
}

void redcoi_tp_rules_splits_free(redcoi_tp_ruled_splits *splits)
{
    for (uint32_t c = 0; c < REDCOI_TP_LAYERS; c++) { free(splits->classes[c].of); }
    free(splits->splits);
    *splits = (redcoi_tp_ruled_splits){.count = 0};
}

static double collective_s(void *context, redco_collective op, double bytes)
{
    const redcoi_tp_pricing *const pricing = context;
    return redco_costs_tp_s(pricing->costs, pricing->tp, op, bytes);
}

redcoi_tp_base redcoi_tp_base_of(redcoi_tp_pricing *pricing, const redco_model *model,
                                 const redco_parallelism *parallelism)
{
    const redco_compute *const compute = redco_costs_compute(pricing->costs);
    const redco_shape shape = redco_costs_shape(pricing->costs, parallelism);
    const redco_state_bytes bytes = redco_state_bytes_of(shape.precision, &shape.engine, redco_model_moments(model));
    pricing->tp = shape.tp;
    return (redcoi_tp_base){.model = model,
                            .compute = compute,
                            .shape = shape,
                            .prices = {pricing, collective_s},
                            .exposed_ratio = compute->calibration.tp_exposed_ratio,
                            .param_s = redco_costs_param_s(pricing->costs, parallelism),
                            .param_bytes = (uint64_t)bytes.parameter + bytes.gradient + bytes.optimizer};
}

static void find_members(const redcoi_tp_class_layouts *layouts, uint32_t layers, redcoi_tp_placed *placed)
{
    placed->layouts = layouts->count;
    placed->members = layouts->of == NULL ? layers : 0;
    for (uint32_t i = layers; i-- > 0 && layouts->of != NULL;) {
        if (layouts->of[i] != placed->layout) { continue; }
        placed->first = i;
        placed->members++;
    }
}

/* Embedding and head are the first graph, then every layout of every class of blocks. */
static redco_status build(const redcoi_tp_base *base, const redcoi_tp_ruled_splits *ruled, uint32_t index,
                          redcoi_tp_placed *placed, bool *more_out, redco_error *err)
{
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(base->model, &classes);
    uint32_t edges[2] = {UINT32_MAX, UINT32_MAX};
    uint32_t graphs = 1;
    *more_out = true;
    placed->layout = placed->first = 0;
    placed->layouts = placed->members = 1;
    for (uint32_t c = 0; c < count; c++) {
        const redco_class_kind kind = classes[c].kind;
        if (kind == REDCO_CLASS_EMBEDDING || kind == REDCO_CLASS_HEAD) {
            edges[kind == REDCO_CLASS_HEAD ? 1 : 0] = c;
            continue;
        }
        const redcoi_tp_class_layouts one = {.count = 1};
        const redcoi_tp_class_layouts *const layouts = c < REDCOI_TP_LAYERS ? &ruled->classes[c] : &one;
        if (index >= graphs && index < graphs + layouts->count) {
            placed->layout = index - graphs;
            find_members(layouts, classes[c].layers, placed);
            return redcoi_tp_build(base, (const uint32_t[]){c, UINT32_MAX}, &placed->layer, err);
        }
        graphs += layouts->count;
    }
    if (index == 0) { return redcoi_tp_build(base, edges, &placed->layer, err); }
    *more_out = false;
    return REDCO_OK;
}

static redco_status price_rules(const redcoi_tp_base *base, const redcoi_tp_ruled_splits *ruled,
                                redcoi_tp_placed *placed, redco_error *err)
{
    const redcoi_tp_layer *const layer = &placed->layer;
    const redcoi_tp_split *const own = &ruled->splits[(size_t)placed->layout * ruled->count];
    redcoi_tp_split splits[REDCOI_TP_NODES] = {REDCOI_TP_NO_WEIGHT};
    uint32_t allowed[REDCOI_TP_NODES];
    for (uint32_t n = 0; n < layer->graph.node_count; n++) {
        const redco_layer_node *const node = layer->nodes[n];
        if (node->param_count > 0) { splits[n] = own[node->params[0]]; }
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
    redco_status st = build(base, ruled, index, placed, more_out, err);
    if (st != REDCO_OK || !*more_out) { return st; }
    placed->layer.graph.limit_bytes = 0;
    if ((st = price_rules(base, ruled, placed, err)) != REDCO_OK) { return st; }
    redcoi_tp_graph *const graph = &placed->layer.graph;
    placed->reference = redcoi_tp_limit(graph, params_of(&placed->rules));
    placed->milp = (redcoi_tp_answer){.feasible = false};
    if (solve == NULL || (st = solve(graph, &placed->milp, err)) != REDCO_OK) { return st; }
    if (placed->milp.total.value_s > placed->rules.value_s && placed->rules.memory_bytes > graph->limit_bytes) {
        graph->limit_bytes = placed->rules.memory_bytes; /* the limit for rules */
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
