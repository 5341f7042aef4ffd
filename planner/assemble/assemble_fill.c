/* The parts of a plan that rules and placement decide. */
#include "planner/assemble/assemble_internal.h"
#include "planner/hosts/placement.h"
#include "planner/rules/rules.h"
#include "planner/rules/rules_params.h"
#include "topology/discovery/gpu_order.h"

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
        plan->rules[i].unit = plan->rules[i].parts = 1;
        plan->rules[i].match = strdup(list[i].key);
        plan->rules_count = (uint32_t)i + 1;
        if (plan->rules[i].match == NULL) { return false; }
    }
    return true;
}

static redco_status fill_redcoast(redco_plan *plan, const redco_model *model, redco_error *err)
{
    redco_rules_tree *tree = NULL;
    redco_rules *rules = NULL;
    const redco_rules_param *params = NULL;
    redco_status st = REDCO_OK;
    if ((st = redco_rules_tree_from_model(model, false, &tree, err)) != REDCO_OK) { goto out; }
    const size_t count = redco_rules_tree_params(tree, &params);
    if ((st = redco_rules_decide(params, count, plan->parallelism.tp, &rules, err)) != REDCO_OK) { goto out; }
    if (!copy_rules(plan, rules)) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
out:
    redco_rules_free(rules);
    redco_rules_tree_free(tree);
    return st;
}

static redco_status fill_program(redco_plan *plan, const redco_inputs *inputs, redco_error *err)
{
    const redco_workload workload = redcoi_plan_workload(plan);
    const redco_parallelism parallelism = redcoi_plan_setting(plan);
    redco_costs *costs = NULL;
    redco_tp_rule *rules = NULL;
    uint32_t count = 0;
    redco_status st =
        redco_costs_create(&inputs->machine, inputs->model, &workload, &inputs->calibration, inputs->comm, &costs, err);
    if (st == REDCO_OK) { st = redco_tp_rules(costs, inputs->model, &parallelism, &rules, &count, err); }
    redco_costs_free(costs);
    if (st != REDCO_OK) { return st; }
    plan->rules = calloc(count + 1, sizeof *plan->rules);
    if (plan->rules == NULL) {
        redco_tp_rules_free(rules, count);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    for (uint32_t i = 0; i < count; i++) { /* the names change hands */
        plan->rules[i] = (redco_plan_rule){rules[i].match, rules[i].dim, rules[i].unit, rules[i].parts};
        rules[i].match = NULL;
    }
    plan->rules_count = count;
    redco_tp_rules_free(rules, count);
    return REDCO_OK;
}

redco_status redcoi_fill_rules(redco_plan *plan, const redco_inputs *inputs, redco_tp_placement placement,
                               redco_error *err)
{
    plan->tp_placement = strdup(redco_tp_placement_words[placement]);
    if (plan->tp_placement == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (plan->parallelism.tp == 1) { return REDCO_OK; /* nothing is split */ }
    return placement == REDCO_TP_MILP ? fill_program(plan, inputs, err) : fill_redcoast(plan, inputs->model, err);
}

/* Bytes a step inside one subgroup of each component, AMSP's equations for T_p, T_g and T_os1 without their times: two
 * gathers and a reduce-scatter in every micro-batch, a reduction in all but the last, one synchronisation of updated
 * parameters. */
static void add_levels(const redco_plan *plan, const redco_plan_layers *row, double params, double scale,
                       redco_placement_level levels[3])
{
    const double element_bytes = plan->precision == REDCO_FP32 ? 4.0 : 2.0;
    const double bytes = scale * element_bytes * params * (row->last_layer - row->first_layer + 1.0) /
                         ((double)plan->parallelism.tp * plan->parallelism.pp);
    const double micro_batches = (double)plan->parallelism.micro_batches;
    const redco_mesh p = row->shards.parameters;
    const redco_mesh g = row->shards.gradients;
    const redco_parallel parallel = redco_plan_parallel(plan);
    const uint32_t each = redco_parallel_nodes_each(&parallel, plan->engine.shard_over_cp);
    levels[0] = (redco_placement_level){.nodes = each * p.nodes, .bytes = (uint64_t)(3.0 * micro_batches * bytes)};
    levels[1] = (redco_placement_level){.nodes = each * g.nodes};
    if (redco_mesh_ranks(g) > redco_mesh_ranks(p)) {
        levels[1].bytes = (uint64_t)(2.0 * (micro_batches - 1.0) * bytes);
    }
    levels[2] = (redco_placement_level){.nodes = each * row->shards.optimizer.nodes, .bytes = (uint64_t)bytes};
}

/* Traffic inside a stage: its gradients' reduction over all its data-parallel ranks; and keys and values of
   context-parallel groups larger than a node, gathered forward and twice that backward. One stage alone is the whole
   job, which no placement changes. */
static uint32_t add_stage_levels(const redco_plan *plan, const redco_model *model, double scale,
                                 redco_placement_level levels[2])
{
    const redco_model_dims *dims = redco_model_get_dims(model);
    const double element_bytes = plan->precision == REDCO_FP32 ? 4.0 : 2.0;
    const redco_parallel parallel = redco_plan_parallel(plan);
    const uint32_t each = redco_parallel_nodes_each(&parallel, false);
    uint32_t count = 0;
    if (plan->parallelism.pp > 1) {
        const double bytes =
            scale * element_bytes * (double)plan->params / ((double)plan->parallelism.tp * plan->parallelism.pp);
        levels[count++] =
            (redco_placement_level){.nodes = each * plan->parallelism.dp.nodes, .bytes = (uint64_t)(2.0 * bytes)};
    }
    if (each > 1) {
        const double tokens = (double)plan->parallelism.micro_batches * plan->parallelism.micro_batch * plan->seq_len;
        const double layers = (double)plan->model_layers / plan->parallelism.pp;
        const double bytes =
            scale * element_bytes * 6.0 * tokens * layers * dims->kv_heads * dims->head_dim / plan->parallelism.tp;
        levels[count++] = (redco_placement_level){.nodes = each, .bytes = (uint64_t)bytes};
    }
    return count;
}

/* 1, or what keeps the sum of the whole cluster's bytes exact in 64 bits: only their proportions place nodes. */
static double placement_scale(const redco_plan *plan)
{
    const double most_bytes = 0x1p60;
    const double tokens = (double)plan->parallelism.micro_batches * plan->parallelism.micro_batch * plan->seq_len;
    const double states = 6.0 * (double)plan->parallelism.micro_batches * 4.0 * (double)plan->params * plan->nodes;
    const double bytes =
        plan->parallelism.cp > 1 ? states * (1.0 + tokens) : states; /* keys and values are narrower than weights */
    return bytes > most_bytes ? most_bytes / bytes : 1.0;
}

static redco_status solve_placement(const redco_plan *plan, const redco_inputs *inputs, redco_placement **placement_out,
                                    redco_error *err)
{
    redco_placement_level *levels = calloc(3 * (size_t)plan->layers_count + 2, sizeof *levels);
    if (levels == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const double scale = placement_scale(plan);
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        const redco_layer_class *class = NULL;
        (void)redcoi_plan_class(inputs->model, plan->layers[i].class_name, &class);
        add_levels(plan, &plan->layers[i], class != NULL ? (double)class->params : 0.0, scale, &levels[3 * (size_t)i]);
    }
    uint32_t count = 3 * plan->layers_count;
    count += add_stage_levels(plan, inputs->model, scale, &levels[count]);
    const redco_status st = redco_placement_solve(inputs->cluster, &inputs->machine, levels, count, placement_out, err);
    free(levels);
    return st;
}

/* The order that the search priced; none where every rank takes the GPU of its own number. */
static redco_status fill_gpu_order(redco_plan *plan, const redco_machine *machine, redco_error *err)
{
    const redco_gpu_order *order = redco_machine_order(machine, plan->parallelism.tp);
    bool own = true;
    for (uint32_t i = 0; order != NULL && i < machine->gpus_per_node; i++) { own = own && order->gpus[i] == i; }
    if (own) { return REDCO_OK; }
    plan->gpu_order = malloc(machine->gpus_per_node * sizeof *plan->gpu_order);
    if (plan->gpu_order == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    memcpy(plan->gpu_order, order->gpus, machine->gpus_per_node * sizeof *plan->gpu_order);
    return REDCO_OK;
}

redco_status redcoi_fill_placement(redco_plan *plan, const redco_inputs *inputs, redco_error *err)
{
    redco_placement *placement = NULL;
    const redco_parallel parallel = redco_plan_parallel(plan);
    plan->rank_order = strdup(redco_parallel_order_text(&parallel));
    if (plan->rank_order == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = fill_gpu_order(plan, &inputs->machine, err);
    if (st == REDCO_OK) { st = solve_placement(plan, inputs, &placement, err); }
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
