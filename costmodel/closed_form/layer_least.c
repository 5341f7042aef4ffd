/* Bounds of what a layer costs that hold for every configuration: a search need not price what they rule out. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>

/* Each state is held by one rank of the grid at least, and the fullest rank holds no less than an even share: whole
 * tensors divide worse, fewer ranks and a second copy hold more. */
static redco_layer_cost least_states(redco_costs *costs, const redco_parallelism *bare, uint32_t class_index,
                                     uint32_t layout, redco_mesh grid)
{
    redco_layer_cost cost = {.compute_s = 0.0};
    redcoi_job job = redcoi_job_of(costs, bare, class_index, layout,
                                   &(redco_layer_config){{grid, grid, grid}, REDCO_RECOMPUTE_NONE});
    job.least = true;
    const redcoi_states states = redcoi_layer_states(&job);
    redcoi_add_memory(&job, &states, &cost);
    return cost;
}

uint64_t redco_cost_least_bytes(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index)
{
    redco_parallelism bare = *parallelism;
    bare.secondary = (redco_mesh){0, 0};
    const redco_mesh grid = redco_costs_grid(costs, parallelism);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const uint32_t layouts = rank->layout_count[class_index];
    redco_layer_cost sum = {.compute_s = 0.0};
    for (uint32_t i = 0; i < layouts; i++) {
        redco_layer_cost cost = least_states(costs, &bare, class_index, i, grid);
        const uint32_t at = rank->first_layout[class_index] + i;
        redcoi_cost_add(&sum, &cost, layouts > 1 ? rank->members[at] : 1, layouts > 1 ? rank->memory_members[at] : 1);
    }
    if (layouts > 1) { redcoi_cost_divide(&sum, rank->member_count[class_index], rank->memory_count[class_index]); }
    return sum.parameter_bytes + sum.gradient_bytes + sum.optimizer_bytes;
}

/* One layer of a stage that is given. */
static redco_recomputed recomputed_of(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                      redco_recompute recompute, redcoi_stage stage)
{
    const redco_layer_config config = {{{1, 1}, {1, 1}, {1, 1}}, recompute};
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const bool block = redco_class_is_block(costs->classes[class_index].kind);
    const uint32_t layouts = rank->layout_count[class_index];
    redco_layer_cost sum = {.compute_s = 0.0};
    for (uint32_t i = 0; i < layouts; i++) {
        redcoi_job job = redcoi_job_of(costs, parallelism, class_index, i, &config);
        job.stage = stage;
        redco_layer_cost cost = {.compute_s = job.times->forward_s + job.times->backward_s,
                                 .recompute_s = block ? job.times->recompute_s[job.set] : 0.0,
                                 .activation_bytes = redcoi_activation_bytes(&job)};
        const uint32_t at = rank->first_layout[class_index] + i;
        if (layouts > 1) {
            redcoi_cost_add(&sum, &cost, rank->members[at], rank->memory_members[at]);
        } else {
            sum = cost;
        }
    }
    if (layouts > 1) { redcoi_cost_divide(&sum, rank->member_count[class_index], rank->memory_count[class_index]); }
    return (redco_recomputed){stage.repeat * sum.compute_s, fmin(stage.repeat, stage.again) * sum.recompute_s,
                              sum.activation_bytes};
}

redco_recomputed redco_cost_recomputed(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                       redco_recompute recompute)
{
    (void)redcoi_recompute_set(costs, recompute);
    return recomputed_of(costs, parallelism, class_index, recompute,
                         redcoi_memo_repeated(costs, parallelism)->stages[class_index]);
}

uint64_t redco_cost_kept_bytes(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                               redco_recompute recompute)
{
    (void)redcoi_recompute_set(costs, recompute);
    return recomputed_of(costs, parallelism, class_index, recompute,
                         redcoi_memo_of(costs, parallelism)->stages[class_index])
        .activation_bytes;
}
