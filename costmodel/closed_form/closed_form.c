/* The step and the memory of a whole configuration, from the costs of its layers. */
#include "costmodel/closed_form/arena_moments.h"
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/nccl_buffers.h"

#include <math.h>
#include <string.h>

static uint32_t count_groups(const redco_layer_work *work, redco_group_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < work->group_count; i++) { count += work->groups[i].kind == kind ? 1 : 0; }
    return count;
}

/* FLOPs of a token in all layers of a class. 6 N + 12 L a d s: attention in full, nothing recomputed (the convention of
 * AMSP and most others), 4 of frozen parameters, which have no gradient; causal counting halves attention where it is
 * causal; of a window only what is seen. Operators that a graph lists are counted one by one, of an example. */
static double class_flops(const redco_costs *costs, uint32_t class_index, uint32_t examples)
{
    const redco_layer_class *const class = &costs->classes[class_index];
    const redco_layer_work *const work = redco_model_work(costs->model, class_index);
    const redco_degree_work *const whole = redco_graph_work_near(work->listed, 1);
    const double listed =
        (redco_degree_flops(whole, false, examples) + redco_degree_flops(whole, true, examples)) / examples;
    const uint32_t cores = count_groups(work, REDCO_GROUP_ATTENTION);
    const double frozen =
        redco_model_get_dims(costs->model)->adapter_rank > 0 ? 2.0 * (double)class->frozen_params : 0.0;
    const double matrices = work->group_count > 0 ? (6.0 * (double)class->active_params - frozen) * class->layers : 0.0;
    if (cores == 0) { return listed + matrices; }
    const double seen =
        fmin(1.0, (double)class->window / costs->workload.seq_len); /* a window: twice its causal pairs */
    const double keys = class->window > 0 ? seen * (2.0 - seen) * costs->workload.seq_len : costs->workload.seq_len;
    const double width = (double)costs->dims->head_dim + redco_value_dim(costs->dims); /* scores, product with V */
    const double pair = 6.0 * costs->dims->heads * width * keys;
    const bool encoder = class->kind == REDCO_CLASS_BLOCK && costs->dims->encoder_layers > 0;
    const double self = costs->workload.mfu_causal && !encoder ? 0.5 : 1.0;
    return listed + matrices + class->layers * pair * (self + (cores - 1.0));
}

static double model_flops_per_token(const redco_costs *costs, uint32_t examples)
{
    double flops = 0.0;
    for (uint32_t i = 0; i < costs->class_count; i++) { flops += class_flops(costs, i, examples); }
    return flops;
}

redco_fixed_cost redco_cost_fixed_memory(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_calibration *const c = &costs->calibration;
    const double least_contention = redcoi_least_contention_ratio(costs);
    uint64_t bucket_bytes = 0;
    /* A bucket is never larger than all gradients; engines that plan their memory have them per configuration,
     * Megatron's are ranges of the gradients themselves, and DDP's count with these. */
    if (redco_mesh_ranks(parallelism->dp) * parallelism->cp > 1 && !costs->workload.engine.planned_memory &&
        costs->workload.engine.memory != REDCO_MEMORY_MEGATRON && costs->workload.engine.memory != REDCO_MEMORY_EAGER) {
        const uint64_t gradients =
            redco_share_up(redco_model_trained_params(costs->model), costs->state_bytes.gradient, parallelism->tp);
        bucket_bytes = gradients < costs->workload.bucket_bytes ? gradients : costs->workload.bucket_bytes;
    }
    const uint64_t nccl_bytes = redcoi_nccl_outer_bytes(costs, parallelism);
    const uint64_t logits_bytes = redcoi_rank_find(costs, parallelism)->logits_bytes;
    const double rescale = c->rescale_ratio > 0.0 ? c->rescale_ratio : 1.0;
    return (redco_fixed_cost){.overhead_s = rescale * c->step_overhead_s,
                              .scale = rescale * (1.0 + c->scale_ratio * log2((double)costs->machine.nodes)),
                              .fixed_bytes = logits_bytes + bucket_bytes + redco_reserve_bytes(&costs->machine.gpu, c) +
                                             nccl_bytes,
                              .logits_bytes = logits_bytes,
                              .nccl_bytes = nccl_bytes,
                              .capacity_bytes = redco_usable_memory_bytes(&costs->machine.gpu, c),
                              .window_hidden_factor = least_contention + redcoi_hidden_residue_ratio,
                              .window_use = (1.0 - least_contention) * c->overlap_window_ratio,
                              .model_flops_per_token = model_flops_per_token(costs, parallelism->micro_batch),
                              .peak_flops_per_s = costs->compute.peak_flops_per_s};
}

redco_fixed_cost redco_cost_fixed(redco_costs *costs, const redco_parallelism *parallelism)
{
    redco_fixed_cost fixed = redco_cost_fixed_memory(costs, parallelism);
    fixed.fixed_s = redcoi_pipeline_s(costs, parallelism);
    return fixed;
}

static double window_s(const redco_fixed_cost *fixed, bool overlapped, double comm_s, double compute_s)
{
    if (!overlapped) { return comm_s; }
    return fmax(fixed->window_hidden_factor * comm_s, comm_s - fixed->window_use * compute_s);
}

static void add_layers(redco_prediction *sum, redco_layer_cost *windows, const redco_layer_cost *cost, uint32_t layers)
{
    const double n = layers;
    sum->forward_s += n * cost->forward_s;
    sum->backward_s += n * cost->backward_s;
    sum->recompute_s += n * cost->recompute_s;
    sum->compute_s += n * cost->compute_s;
    sum->optimizer_s += n * cost->optimizer_s;
    sum->layer_exposed_s += n * cost->exposed_s;
    sum->gather_s += n * cost->gather_s;
    sum->reduce_scatter_s += n * cost->reduce_scatter_s;
    sum->grad_reduce_s += n * cost->grad_reduce_s;
    sum->grad_shard_s += n * cost->grad_shard_s;
    sum->broadcast_s += n * cost->broadcast_s;
    sum->tp_s += n * cost->tp_s;
    sum->dynamic_j += n * cost->dynamic_j;
    sum->parameter_bytes += layers * cost->parameter_bytes;
    sum->gradient_bytes += layers * cost->gradient_bytes;
    sum->optimizer_bytes += layers * cost->optimizer_bytes;
    sum->activation_bytes += layers * cost->activation_bytes;
    sum->later_bytes += layers * cost->later_bytes;
    sum->update_bytes += layers * cost->update_bytes;
    sum->host_bytes += layers * cost->host_bytes;
    windows->grad_comm_s += n * cost->grad_comm_s;
    windows->grad_window_s += n * cost->grad_window_s;
    windows->param_sync_comm_s += n * cost->param_sync_comm_s;
    windows->param_sync_window_s += n * cost->param_sync_window_s;
    for (int kind = 0; kind < REDCO_TRANSIENT_COUNT; kind++) {
        if (layers > 0 && cost->transient_bytes[kind] > windows->transient_bytes[kind]) {
            windows->transient_bytes[kind] = cost->transient_bytes[kind];
        }
    }
}

static void sum_memory(redco_prediction *p, const redco_layer_cost *most, const redco_fixed_cost *fixed)
{
    for (int kind = 0; kind < REDCO_TRANSIENT_COUNT; kind++) { p->transient_bytes += most->transient_bytes[kind]; }
    p->nccl_bytes = fixed->nccl_bytes + most->transient_bytes[REDCO_TRANSIENT_NCCL];
    p->transient_bytes -= p->nccl_bytes;
    p->total_bytes = p->parameter_bytes + p->gradient_bytes + p->optimizer_bytes + p->activation_bytes +
                     p->transient_bytes + p->nccl_bytes;
}

/* Stages name the same configurations again and again. @return the layers that have that of an assignment, all its
 * later ones included; 0: an earlier one counts it */
static uint32_t layers_alike(const redco_assignment *assignments, uint32_t count, uint32_t index)
{
    const redco_assignment *const a = &assignments[index];
    uint32_t layers = 0;
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *const b = &assignments[i];
        if (b->class_index != a->class_index || b->config.recompute != a->config.recompute ||
            !redco_shards_equal(b->config.shards, a->config.shards)) {
            continue;
        }
        if (i < index) { return 0; }
        layers += b->layers;
    }
    return layers;
}

/* The gradient of the embedding's table where this is the stage. @param place_bytes  activations of a micro-batch at
 * the first position */
static uint64_t table_bytes(redco_costs *costs, const redco_parallelism *parallelism, const redco_assignment *a,
                            uint32_t stage, uint64_t place_bytes)
{
    if (!costs->workload.engine.planned_memory || costs->classes[a->class_index].kind != REDCO_CLASS_EMBEDDING ||
        redcoi_memory_stage(costs, parallelism, a->class_index, stage).held == 0) {
        return 0;
    }
    const redcoi_job job = redcoi_job_of(costs, parallelism, a->class_index, 0, &a->config);
    return redcoi_arena_table_bytes(&job, place_bytes);
}

/* Memory of a stage of a pipeline into the memory fields of a prediction. */
static redco_prediction stage_memory(redco_costs *costs, const redco_parallelism *parallelism,
                                     const redco_fixed_cost *fixed, const redco_assignment *assignments, uint32_t count,
                                     uint32_t stage)
{
    const uint64_t one_bytes = redcoi_rank_find(costs, parallelism)->logits_bytes;
    const uint64_t kept = redcoi_stage_logits(costs, parallelism, stage);
    /* Plans of memory keep those of other micro-batches alone, without what the loss works with. */
    const uint64_t other_bytes =
        costs->workload.engine.planned_memory ? redcoi_arena_logits_bytes(costs, parallelism) : one_bytes;
    const uint64_t logits_bytes = kept > 0 ? one_bytes + (kept - 1) * other_bytes : 0;
    redco_prediction p = {.transient_bytes = fixed->fixed_bytes - one_bytes + logits_bytes};
    redco_layer_cost most = {.compute_s = 0.0};
    uint64_t place_bytes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *const a = &assignments[i];
        const uint32_t layers = layers_alike(assignments, count, i);
        if (layers == 0) { continue; }
        const redcoi_stage held = redcoi_memory_stage(costs, parallelism, a->class_index, stage);
        redco_layer_cost cost = {.compute_s = 0.0};
        redcoi_layer_memory(costs, parallelism, a->class_index, &a->config, held, logits_bytes > 0 ? one_bytes : 0,
                            &cost);
        add_layers(&p, &most, &cost, held.held > 0 ? layers : 0);
        const bool block = redco_class_is_block(costs->classes[a->class_index].kind);
        const uint64_t first = block ? redcoi_class_at_position(costs, parallelism, a->class_index, 0) : held.held;
        if (held.kept > 0) { place_bytes += redco_share_up(cost.activation_bytes * layers, first, held.kept); }
    }
    p.transient_bytes += redcoi_stage_buffer_bytes(costs, parallelism, stage);
    p.activation_bytes += (uint64_t)redcoi_stage_decoder_bytes(costs, parallelism, stage);
    /* Where the decoder is on other stages the gradient of its embedding comes first, and waits for the encoder's. */
    const bool waits = redcoi_stage_decoder_bytes(costs, parallelism, stage) < 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = table_bytes(costs, parallelism, &assignments[i], stage, waits ? 0 : place_bytes);
        uint64_t *const most_bytes = &most.transient_bytes[REDCO_TRANSIENT_GRADIENT];
        if (waits) { *most_bytes += bytes; }
        if (bytes > *most_bytes) { *most_bytes = bytes; }
    }
    sum_memory(&p, &most, fixed);
    return p;
}

redco_prediction redco_cost_stage_memory(redco_costs *costs, const redco_parallelism *parallelism,
                                         const redco_assignment *assignments, uint32_t count, uint32_t stage)
{
    const redco_fixed_cost fixed = redco_cost_fixed_memory(costs, parallelism);
    return stage_memory(costs, parallelism, &fixed, assignments, count, stage);
}

/* A pipeline needs what its fullest stage does: the first, which keeps the most activations, the last, which has the
 * logits, or, where stages are unequal, another. */
static void set_pipeline_memory(redco_costs *costs, const redco_parallelism *parallelism, const redco_fixed_cost *fixed,
                                const redco_assignment *assignments, uint32_t count, redco_prediction *prediction)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const bool equal = costs->blocks % redco_pipeline_positions(s.kind, s.stages, s.chunks) == 0;
    const uint32_t step = parallelism->split == NULL && equal ? parallelism->pp - 1 : 1;
    redco_prediction fullest = {.total_bytes = 0};
    for (uint32_t i = 0; i < parallelism->pp; i += step) {
        const redco_prediction stage = stage_memory(costs, parallelism, fixed, assignments, count, i);
        if (stage.total_bytes > fullest.total_bytes) { fullest = stage; }
    }
    const redco_prediction *const fuller = &fullest;
    prediction->parameter_bytes = fuller->parameter_bytes;
    prediction->gradient_bytes = fuller->gradient_bytes;
    prediction->optimizer_bytes = fuller->optimizer_bytes;
    prediction->activation_bytes = fuller->activation_bytes;
    prediction->transient_bytes = fuller->transient_bytes;
    prediction->nccl_bytes = fuller->nccl_bytes;
    prediction->total_bytes = fuller->total_bytes;
    prediction->later_bytes = fuller->later_bytes;
    prediction->update_bytes = fuller->update_bytes;
}

void redco_cost_update_moment(const redco_costs *costs, redco_prediction *p)
{
    const uint64_t reserve = redco_reserve_bytes(&costs->machine.gpu, &costs->calibration);
    const uint64_t held = p->parameter_bytes + p->gradient_bytes + p->optimizer_bytes + p->nccl_bytes;
    const uint64_t total = held + p->later_bytes + p->update_bytes + reserve;
    if (total <= p->total_bytes) { return; }
    p->gradient_bytes += p->later_bytes;
    p->activation_bytes = 0;
    p->transient_bytes = p->update_bytes + reserve;
    p->total_bytes = total;
    p->allocated_bytes = total - p->nccl_bytes - reserve;
}

redco_energy redco_costs_energy(const redco_costs *costs, double dynamic_j, double step_s)
{
    return redco_power_energy(&costs->compute.power, dynamic_j, step_s,
                              (double)costs->machine.nodes * costs->machine.gpus_per_node,
                              (double)costs->workload.global_batch * costs->workload.seq_len);
}

uint64_t redcoi_allocated_bytes(const redco_costs *costs, const redco_prediction *p)
{
    const uint64_t reserve = redco_reserve_bytes(&costs->machine.gpu, &costs->calibration);
    const double fragments = redcoi_fragmentation_ratio(costs);
    const uint64_t beside = p->activation_bytes + p->transient_bytes - reserve; /* memory that is no state */
    return p->total_bytes - p->nccl_bytes - reserve - (uint64_t)(fragments / (1.0 + fragments) * (double)beside);
}

redco_prediction redco_cost_step(redco_costs *costs, const redco_parallelism *parallelism,
                                 const redco_assignment *assignments, uint32_t count)
{
    const redco_fixed_cost fixed = redco_cost_fixed(costs, parallelism);
    const uint32_t overlap = costs->workload.overlap;
    redco_prediction p = {.model_flops_per_token = fixed.model_flops_per_token,
                          .capacity_bytes = fixed.capacity_bytes,
                          .uncertain_bytes =
                              fixed.capacity_bytes * redco_engine_peak_error(&costs->workload.engine) / 100,
                          .transient_bytes = fixed.fixed_bytes};
    redco_layer_cost sums = {.compute_s = 0.0};
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *const a = &assignments[i];
        const uint32_t layers = layers_alike(assignments, count, i);
        if (layers == 0) { continue; }
        const redco_layer_cost cost = redco_cost_layer(costs, parallelism, a->class_index, &a->config);
        add_layers(&p, &sums, &cost, layers);
    }
    p.grad_reduce_exposed_s = window_s(&fixed, (overlap & REDCO_OVERLAP_AR) != 0, sums.grad_comm_s, sums.grad_window_s);
    p.param_sync_exposed_s =
        window_s(&fixed, (overlap & REDCO_OVERLAP_BC) != 0, sums.param_sync_comm_s, sums.param_sync_window_s);
    p.exposed_comm_s = p.layer_exposed_s + p.grad_reduce_exposed_s + p.param_sync_exposed_s;
    p.amsp_total_s = p.gather_s + p.reduce_scatter_s + p.grad_reduce_s + p.grad_shard_s + p.broadcast_s;
    const double layers_s = p.compute_s + p.exposed_comm_s + p.optimizer_s;
    p.step_s = fixed.scale * (fixed.fixed_s + layers_s) + fixed.overhead_s;
    p.other_s = p.step_s - layers_s;
    const double gpus = (double)costs->machine.nodes * costs->machine.gpus_per_node;
    const double tokens = (double)costs->workload.global_batch * costs->workload.seq_len;
    p.tokens_per_s_per_gpu = tokens / (p.step_s * gpus);
    p.energy = redco_costs_energy(costs, p.dynamic_j, p.step_s);
    p.mfu = p.tokens_per_s_per_gpu * fixed.model_flops_per_token / fixed.peak_flops_per_s;
    sum_memory(&p, &sums, &fixed);
    if (parallelism->pp > 1) { set_pipeline_memory(costs, parallelism, &fixed, assignments, count, &p); }
    p.allocated_bytes = redcoi_allocated_bytes(costs, &p);
    return p;
}

uint64_t redco_cost_bytes(redco_costs *costs, const redco_parallelism *parallelism, const redco_assignment *assignments,
                          uint32_t count)
{
    const redco_fixed_cost fixed = redco_cost_fixed(costs, parallelism);
    const redcoi_memo *const memo = redcoi_memo_of(costs, parallelism);
    redco_prediction p = {.transient_bytes = fixed.fixed_bytes};
    redco_layer_cost most = {.compute_s = 0.0};
    if (parallelism->pp > 1) {
        set_pipeline_memory(costs, parallelism, &fixed, assignments, count, &p);
        return p.total_bytes;
    }
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *const a = &assignments[i];
        redco_layer_cost cost = {.compute_s = 0.0};
        redcoi_layer_memory(costs, parallelism, a->class_index, &a->config, memo->stages[a->class_index],
                            redcoi_rank_find(costs, parallelism)->logits_bytes, &cost);
        add_layers(&p, &most, &cost, a->layers);
    }
    sum_memory(&p, &most, &fixed);
    return p.total_bytes;
}

/* A bound of every simulated step: whatever the order of passes, stage i works m w_i, cannot begin before the stages
 * before it have passed the first micro-batch on, and they have to pass the last one's gradient back when it is
 * through: with F and B of the first position of each and t of a transfer T >= max over i of  sum over j < i (F_j + B_j
 * + 2t) + m w_i. Where backward is cut in two, or micro-batches come from both ends, only m w_i is said. */
static double pipeline_bound_s(redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism)
{
    const redco_pipeline p = redco_parallelism_pipeline(parallelism);
    const uint32_t positions = redco_pipeline_positions(p.kind, p.stages, p.chunks);
    const bool whole = !redco_pipeline_splits_backward(p.kind);
    const double send_s = redcoi_stage_transfer_s(costs, parallelism, NULL, NULL);
    double before_s = 0.0, most_s = 0.0;
    redco_position_times times[REDCO_SPLIT_POSITIONS_MAX]; /* for one micro-batch, nothing recomputed */
    if (positions > REDCO_SPLIT_POSITIONS_MAX) { return 0.0; }
    memset(times, 0, positions * sizeof *times);
    redcoi_deal(costs, parallelism, rank, positions, times, NULL);
    for (uint32_t stage = 0; stage < p.stages; stage++) {
        double work_s = 0.0;
        for (uint32_t chunk = 0; chunk < p.chunks; chunk++) {
            const double batches = redco_pipeline_last_batch(&p, chunk) - redco_pipeline_first_batch(&p, chunk) + 1.0;
            const uint32_t position = redco_pipeline_position(p.kind, p.stages, stage, chunk);
            work_s += batches * (times[position].forward_s + times[position].backward_s);
        }
        most_s = fmax(most_s, before_s + work_s);
        if (whole) { before_s += times[stage].forward_s + times[stage].backward_s + 2.0 * send_s; }
    }
    return most_s;
}

double redco_cost_bound(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_fixed_cost fixed = redco_cost_fixed_memory(costs, parallelism);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    if (redcoi_pace_needed(costs, parallelism)) { /* no recurrence for layouts that a bound rules out */
        return fixed.scale * pipeline_bound_s(costs, rank, parallelism) + fixed.overhead_s;
    }
    double step_s = redcoi_pipeline_s(costs, parallelism);
    const redcoi_memo *const memo = redcoi_memo_repeated(costs, parallelism);
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const redcoi_times *const times = &rank->classes[i];
        step_s += costs->classes[i].layers * memo->stages[i].repeat * (times->forward_s + times->backward_s);
    }
    if (parallelism->pp > 1) { step_s = fmin(step_s, pipeline_bound_s(costs, rank, parallelism)); }
    return fixed.scale * step_s + fixed.overhead_s;
}
