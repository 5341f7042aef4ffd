/* The parts of a plan that rules and placement decide. */
#include "planner/assemble_internal.h"
#include "planner/placement.h"
#include "planner/rules.h"
#include "planner/rules_params.h"

#include <stdlib.h>
#include <string.h>

static bool copy_rules(redco_plan *plan, const redco_rules *rules)
{
    const redco_rule *list = NULL;
    const size_t count = redco_rules_list(rules, &list);
    plan->rules = calloc(count > 0 ? count : 1, sizeof *plan->rules);
    if (plan->rules == NULL) { return false; }
    for (size_t i = 0; i < count; i++) {
        plan->rules[i].dim = list[i].dim;
        plan->rules[i].match = strdup(list[i].key);
        plan->rules_count = (uint32_t)i + 1;
        if (plan->rules[i].match == NULL) { return false; }
    }
    return true;
}

redco_status redcoi_fill_rules(redco_plan *plan, const redco_model *model, redco_error *err)
{
    redco_rules_tree *tree = NULL;
    redco_rules *rules = NULL;
    const redco_rules_param *params = NULL;
    redco_status st = REDCO_OK;
    plan->tp_placement = strdup("rules");
    if (plan->tp_placement == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (plan->tp == 1) { return REDCO_OK; /* nothing is split */ }
    if ((st = redco_rules_tree_from_model(model, false, &tree, err)) != REDCO_OK) { goto out; }
    const size_t count = redco_rules_tree_params(tree, &params);
    if ((st = redco_rules_decide(params, count, plan->tp, &rules, err)) != REDCO_OK) { goto out; }
    if (!copy_rules(plan, rules)) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
out:
    redco_rules_free(rules);
    redco_rules_tree_free(tree);
    return st;
}

static const redco_layer_class *class_of(const redco_model *model, const char *name)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(classes[i].name, name) == 0) { return &classes[i]; }
    }
    return NULL;
}

/* Bytes a step inside one subgroup of each component, AMSP's equations for T_p, T_g and T_os1 without their times: two
 * gathers and a reduce-scatter in every micro-batch, a reduction in all but the last, one spreading of the update. */
static void add_levels(const redco_plan *plan, const redco_plan_layers *row, double params, double scale,
                       redco_placement_level levels[3])
{
    const double element_bytes = plan->precision == REDCO_FP32 ? 4.0 : 2.0;
    const double bytes = scale * element_bytes * params * (row->last_layer - row->first_layer + 1.0) / plan->tp;
    const double micro_batches = (double)plan->micro_batches;
    const redco_mesh p = row->shards.parameters;
    const redco_mesh g = row->shards.gradients;
    levels[0] = (redco_placement_level){.nodes = p.nodes, .bytes = (uint64_t)(3.0 * micro_batches * bytes)};
    levels[1] = (redco_placement_level){.nodes = g.nodes};
    if (redco_mesh_ranks(g) > redco_mesh_ranks(p)) {
        levels[1].bytes = (uint64_t)(2.0 * (micro_batches - 1.0) * bytes);
    }
    levels[2] = (redco_placement_level){.nodes = row->shards.optimizer.nodes, .bytes = (uint64_t)bytes};
}

/* 1, or what keeps the sum of the whole cluster's bytes exact in 64 bits: only their proportions place nodes. */
static double placement_scale(const redco_plan *plan)
{
    const double most_bytes = 0x1p60;
    const double bytes = 6.0 * (double)plan->micro_batches * 4.0 * (double)plan->params * plan->nodes;
    return bytes > most_bytes ? most_bytes / bytes : 1.0;
}

static redco_status solve_placement(const redco_plan *plan, const redco_inputs *inputs, redco_placement **placement_out,
                                    redco_error *err)
{
    redco_placement_level *levels = calloc(3 * (size_t)plan->layers_count, sizeof *levels);
    if (levels == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const double scale = placement_scale(plan);
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        const redco_layer_class *class = class_of(inputs->model, plan->layers[i].class_name);
        add_levels(plan, &plan->layers[i], class != NULL ? (double)class->params : 0.0, scale, &levels[3 * (size_t)i]);
    }
    const redco_status st =
        redco_placement_solve(inputs->cluster, &inputs->machine, levels, 3 * plan->layers_count, placement_out, err);
    free(levels);
    return st;
}

redco_status redcoi_fill_placement(redco_plan *plan, const redco_inputs *inputs, redco_error *err)
{
    redco_placement *placement = NULL;
    plan->rank_order = strdup("tp,dp-gpus,dp-nodes");
    if (plan->rank_order == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const redco_status st = solve_placement(plan, inputs, &placement, err);
    if (st != REDCO_OK) { return st; }
    plan->spanning_groups = placement->spanning_groups;
    if (placement->hosts != NULL) { /* taken over, not copied */
        plan->hosts = placement->hosts;
        plan->hosts_count = placement->host_count;
        placement->hosts = NULL;
        placement->host_count = 0;
    }
    redco_placement_free(placement);
    return REDCO_OK;
}
