/* Classes whose layers do not all lie alike on the tensor-parallel ranks: how many layers have each layout, of all and
 * of the pipeline stage that decides, and the mean that the closed form takes a layer to be. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <stddef.h>
#include <stdlib.h>

uint32_t redcoi_layouts_of(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                           const uint32_t **of_out)
{
    *of_out = NULL;
    if (parallelism->tp <= 1 || costs->layouts.count == NULL || costs->layout_status != REDCO_OK) { return 1; }
    return costs->layouts.count(costs->layouts.context, parallelism, class_index, of_out);
}

void redcoi_rank_clear(redcoi_rank *rank)
{
    free(rank->layouts);
    free(rank->all_members);
    free(rank->members);
    free(rank->memory_members);
    rank->layouts = NULL;
    rank->all_members = rank->members = rank->memory_members = NULL;
    rank->key.tp = 0;
}

/* The mock library for a class with several layouts where layers are not distinguished. */
static void fill_mean(redcoi_rank *rank, uint32_t class_index)
{
    redcoi_times *const mean = &rank->classes[class_index];
    double forward_s = 0.0, backward_s = 0.0;
    uint64_t params = 0, trained = 0;
    for (uint32_t i = 0; i < rank->layout_count[class_index]; i++) {
        const redcoi_times *const times = redcoi_times_of(rank, class_index, i);
        const uint32_t members = rank->members[rank->first_layout[class_index] + i];
        forward_s += members * times->forward_s;
        backward_s += members * times->backward_s;
        params += rank->memory_members[rank->first_layout[class_index] + i] * times->params;
        trained += rank->memory_members[rank->first_layout[class_index] + i] * times->trained_params;
    }
    *mean = *redcoi_times_of(rank, class_index, 0);
    mean->forward_s = forward_s / rank->member_count[class_index];
    mean->backward_s = backward_s / rank->member_count[class_index];
    /* Layouts move tensors of the dense part alone. */
    redcoi_part_params *const dense = &mean->parts[REDCO_PART_DENSE];
    const uint64_t other = mean->params - dense->params, other_trained = mean->trained_params - dense->trained_params;
    mean->params = redco_share_up(params, 1, rank->memory_count[class_index]);
    mean->trained_params = redco_share_up(trained, 1, rank->memory_count[class_index]);
    dense->params = mean->params - other;
    dense->trained_params = mean->trained_params - other_trained;
}

/* Calls back for every block with its pipeline stage. */
struct stage_sums {
    double seconds[REDCO_PIPELINE_STAGES_MAX], params[REDCO_PIPELINE_STAGES_MAX];
    uint32_t slowest, fullest;
};

typedef void (*block_visitor)(redcoi_rank *rank, struct stage_sums *sums, uint32_t stage, uint32_t class_index,
                              uint32_t layout);

static void visit_blocks(redco_costs *costs, const redco_parallelism *parallelism, redcoi_rank *rank,
                         struct stage_sums *sums, block_visitor each)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const uint32_t positions = redco_pipeline_positions(s.kind, s.stages, s.chunks);
    uint32_t position = 0, chunk = 0, left = redcoi_position_blocks(costs, parallelism, 0);
    const redco_layer_run *runs = NULL;
    const size_t run_count = redco_model_order(costs->model, &runs);
    for (size_t r = 0; r < run_count; r++) {
        const uint32_t c = runs[r].class_index;
        const uint32_t *of = NULL;
        if (!redco_class_is_block(costs->classes[c].kind)) { continue; }
        if (rank->layout_count[c] > 1) { (void)redcoi_layouts_of(costs, parallelism, c, &of); }
        for (uint32_t l = runs[r].first; l < runs[r].first + runs[r].layers; l++) {
            while (left == 0 && position + 1 < positions) {
                left = redcoi_position_blocks(costs, parallelism, ++position);
            }
            left -= left > 0 ? 1 : 0;
            const uint32_t stage = redco_pipeline_stage_at(&s, position, 0, &chunk);
            each(rank, sums, stage, c, of != NULL ? of[l] : 0);
        }
    }
}

static void sum_block(redcoi_rank *rank, struct stage_sums *sums, uint32_t stage, uint32_t class_index, uint32_t layout)
{
    const redcoi_times *const times = redcoi_times_of(rank, class_index, layout);
    sums->seconds[stage] += times->forward_s + times->backward_s;
    sums->params[stage] += (double)times->params;
}

static void count_block(redcoi_rank *rank, struct stage_sums *sums, uint32_t stage, uint32_t class_index,
                        uint32_t layout)
{
    if (rank->layout_count[class_index] <= 1) { return; }
    if (stage == sums->slowest) {
        rank->members[rank->first_layout[class_index] + layout]++;
        rank->member_count[class_index]++;
    }
    if (stage == sums->fullest) {
        rank->memory_members[rank->first_layout[class_index] + layout]++;
        rank->memory_count[class_index]++;
    }
}

static void count_all(redco_costs *costs, redcoi_rank *rank, uint32_t class_index, uint32_t *members, uint32_t *count)
{
    for (uint32_t i = 0; i < rank->layout_count[class_index]; i++) {
        members[rank->first_layout[class_index] + i] = rank->all_members[rank->first_layout[class_index] + i];
    }
    *count = costs->classes[class_index].layers;
}

void redcoi_layouts_count(redco_costs *costs, const redco_parallelism *parallelism, redcoi_rank *rank)
{
    struct stage_sums sums = {.slowest = 0};
    if (parallelism->pp > 1 && parallelism->pp <= REDCO_PIPELINE_STAGES_MAX) {
        visit_blocks(costs, parallelism, rank, &sums, sum_block);
        for (uint32_t s = 1; s < parallelism->pp; s++) {
            if (sums.seconds[s] > sums.seconds[sums.slowest]) { sums.slowest = s; }
            if (sums.params[s] > sums.params[sums.fullest]) { sums.fullest = s; }
        }
        visit_blocks(costs, parallelism, rank, &sums, count_block);
    }
    for (uint32_t i = 0; i < costs->class_count; i++) {
        if (rank->layout_count[i] <= 1) { continue; }
        if (rank->member_count[i] == 0) { count_all(costs, rank, i, rank->members, &rank->member_count[i]); }
        if (rank->memory_count[i] == 0) { count_all(costs, rank, i, rank->memory_members, &rank->memory_count[i]); }
        fill_mean(rank, i);
    }
}

bool redcoi_layouts_list(redco_costs *costs, const redco_parallelism *parallelism, redcoi_rank *rank)
{
    uint32_t counts[REDCOI_CLASSES_MAX];
    uint32_t several = 0;
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const uint32_t *of = NULL;
        rank->layout_count[i] = 1;
        counts[i] = redcoi_layouts_of(costs, parallelism, i, &of);
        rank->first_layout[i] = several;
        several += counts[i] > 1 ? counts[i] : 0;
    }
    if (several == 0) { return true; }
    rank->layouts = calloc(several, sizeof *rank->layouts);
    rank->all_members = calloc(several, sizeof *rank->all_members);
    rank->members = calloc(several, sizeof *rank->members);
    rank->memory_members = calloc(several, sizeof *rank->memory_members);
    if (rank->layouts == NULL || rank->all_members == NULL || rank->members == NULL || rank->memory_members == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const uint32_t *of = NULL;
        if (counts[i] <= 1 || redcoi_layouts_of(costs, parallelism, i, &of) != counts[i]) { continue; }
        rank->layout_count[i] = counts[i];
        for (uint32_t l = 0; l < costs->classes[i].layers; l++) { rank->all_members[rank->first_layout[i] + of[l]]++; }
    }
    return true;
}

/* The doubles of a layer's cost, and its resident bytes. */
static const size_t amounts[] = {offsetof(redco_layer_cost, compute_s),
                                 offsetof(redco_layer_cost, exposed_s),
                                 offsetof(redco_layer_cost, grad_comm_s),
                                 offsetof(redco_layer_cost, grad_window_s),
                                 offsetof(redco_layer_cost, param_sync_comm_s),
                                 offsetof(redco_layer_cost, param_sync_window_s),
                                 offsetof(redco_layer_cost, optimizer_s),
                                 offsetof(redco_layer_cost, forward_s),
                                 offsetof(redco_layer_cost, backward_s),
                                 offsetof(redco_layer_cost, recompute_s),
                                 offsetof(redco_layer_cost, tp_s),
                                 offsetof(redco_layer_cost, dynamic_j),
                                 offsetof(redco_layer_cost, gather_s),
                                 offsetof(redco_layer_cost, reduce_scatter_s),
                                 offsetof(redco_layer_cost, grad_reduce_s),
                                 offsetof(redco_layer_cost, grad_shard_s),
                                 offsetof(redco_layer_cost, broadcast_s),
                                 offsetof(redco_layer_cost, amsp_s),
                                 offsetof(redco_layer_cost, pass_forward_s),
                                 offsetof(redco_layer_cost, pass_backward_s),
                                 offsetof(redco_layer_cost, once_s),
                                 offsetof(redco_layer_cost, stream_s),
                                 offsetof(redco_layer_cost, traffic_s),
                                 offsetof(redco_layer_cost, gather_forward_s),
                                 offsetof(redco_layer_cost, gather_backward_s),
                                 offsetof(redco_layer_cost, bare_forward_s),
                                 offsetof(redco_layer_cost, bare_backward_s)};
static const size_t sizes[] = {
    offsetof(redco_layer_cost, parameter_bytes), offsetof(redco_layer_cost, gradient_bytes),
    offsetof(redco_layer_cost, optimizer_bytes), offsetof(redco_layer_cost, activation_bytes),
    offsetof(redco_layer_cost, later_bytes),     offsetof(redco_layer_cost, update_bytes),
    offsetof(redco_layer_cost, host_bytes)};

static void *field(redco_layer_cost *cost, size_t offset)
{
    return (char *)cost + offset;
}

void redcoi_cost_add(redco_layer_cost *sum, redco_layer_cost *cost, uint32_t layers, uint32_t memory_layers)
{
    for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) {
        *(double *)field(sum, amounts[i]) += layers * *(double *)field(cost, amounts[i]);
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        *(uint64_t *)field(sum, sizes[i]) += memory_layers * *(uint64_t *)field(cost, sizes[i]);
    }
    for (int kind = 0; kind < REDCO_TRANSIENT_COUNT; kind++) {
        if (cost->transient_bytes[kind] > sum->transient_bytes[kind]) {
            sum->transient_bytes[kind] = cost->transient_bytes[kind];
        }
    }
}

void redcoi_cost_divide(redco_layer_cost *sum, uint32_t layers, uint32_t memory_layers)
{
    for (size_t i = 0; i < sizeof amounts / sizeof amounts[0]; i++) { *(double *)field(sum, amounts[i]) /= layers; }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        uint64_t *const bytes = field(sum, sizes[i]);
        *bytes = redco_share_up(*bytes, 1, memory_layers);
    }
}
