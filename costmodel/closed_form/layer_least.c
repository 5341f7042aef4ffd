/* Bounds of what a layer costs that hold for every configuration: a search need not price what they rule out. */
#include "costmodel/closed_form/closed_form_internal.h"

/* Each state is held by one rank of the grid at least, and the fullest rank holds no less than an even share: whole
 * tensors divide worse, fewer ranks and a second copy hold more. */
uint64_t redco_cost_least_bytes(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                redco_recompute recompute)
{
    redco_parallelism bare = *parallelism;
    bare.secondary = (redco_mesh){0, 0};
    const redco_mesh grid = redco_costs_grid(costs, parallelism);
    const redco_layer_config config = {{grid, grid, grid}, recompute};
    (void)redcoi_recompute_set(costs, recompute);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    redco_layer_cost cost = {.compute_s = 0.0};
    redcoi_layer_memory(costs, &bare, class_index, &config, redcoi_memo_of(costs, parallelism)->stages[class_index],
                        rank->logits_bytes, &cost);
    return cost.parameter_bytes + cost.gradient_bytes + cost.optimizer_bytes + cost.activation_bytes;
}
