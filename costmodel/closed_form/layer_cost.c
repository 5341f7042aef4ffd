#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/operators/compute_profile.h"

#include <math.h>
#include <string.h>

/* Bytes the optimizer moves per owned parameter: 32-bit master weight and two moments read and written, gradient read,
 * 16-bit weight written, and its share of norm and casts. Since 1; source: count (FORMULAS.md, AdamW). */
static const double optimizer_traffic_bytes = 30.0;

static const redco_mesh one = {1, 1};

static double raw_s(const redcoi_job *job, redco_collective op, double size_bytes, redco_group group)
{
    const redco_comm_time time = redcoi_price_find(job->costs, op, size_bytes, group);
    return time.latency_s + time.wire_s;
}

/* AMSP, arXiv 2311.00257, section IV-C: each component's share of a part of this layer. Bucket counts are ratios, as
 * there. */
static void add_paper_terms(const redcoi_job *job, redco_layer_cost *cost)
{
    const redco_shards *const shards = &job->shards;
    const double params = (double)job->own->params, modules = fmax(1.0, job->own->module_count);
    const double shard_count = (double)redco_mesh_ranks(shards->parameters);
    const double module_bytes = params * job->element_bytes / modules;
    const double micro_batches = (double)job->parallelism->micro_batches;
    const redco_group gather = redcoi_group_of(job, shards->parameters, one);
    const redco_group again = redcoi_group_of(job, redcoi_backward_mesh(job), one);
    const double gathers_s =
        raw_s(job, REDCO_ALL_GATHER, module_bytes, gather) + raw_s(job, REDCO_ALL_GATHER, module_bytes, again);
    cost->gather_s += micro_batches * modules * gathers_s;
    const double trained_ratio = params > 0.0 ? (double)job->own->trained_params / params : 1.0;
    cost->reduce_scatter_s +=
        micro_batches * modules * raw_s(job, REDCO_REDUCE_SCATTER, module_bytes * trained_ratio, gather);
    const double bucket_bytes = (double)job->costs->workload.bucket_bytes;
    const double trained = (double)job->own->trained_params;
    const double buckets = trained * job->element_bytes / (bucket_bytes * shard_count);
    const redco_group reduce = redcoi_group_of(job, job->grid, shards->parameters);
    cost->grad_reduce_s += buckets * raw_s(job, REDCO_ALL_REDUCE, bucket_bytes, reduce);
    if (!redco_mesh_equal(shards->gradients, shards->parameters)) {
        const redco_group part = redcoi_group_of(job, shards->gradients, shards->parameters);
        cost->grad_shard_s += (micro_batches - 1.0) * buckets * raw_s(job, REDCO_ALL_REDUCE, bucket_bytes, part);
    }
    const redco_group sync = redcoi_group_of(job, shards->optimizer, shards->parameters);
    const double owners = (double)redco_mesh_ranks(sync.mesh);
    const double rank_bytes = job->state_params * job->element_bytes / shard_count;
    const double share = trained / job->state_params;
    cost->broadcast_s += job->parallelism->scheme == REDCO_INTER_TENSOR
                             ? share * owners * raw_s(job, REDCO_BROADCAST, rank_bytes / owners, sync)
                             : share * raw_s(job, REDCO_ALL_GATHER, rank_bytes, sync);
    cost->amsp_s =
        cost->gather_s + cost->reduce_scatter_s + cost->grad_reduce_s + cost->grad_shard_s + cost->broadcast_s;
}

/* Parameters that the processors of a host update a second: DeepSpeed's CPU-Adam, and torch.optim, a sixth. Since 2;
 * source: DeepSpeed issue 6834, Qwen-72B under ZeRO-3 on 4 hosts of 8 A100: some 10 s an update; "5x to 7x" in
 * deepspeed/ops/adam/cpu_adam.py@edaa7221:31. */
static const double cpu_adam_params_per_s = 1.8e9, cpu_torch_params_per_s = 0.3e9;

/* Gradients to the host, the update by its processors, which its GPUs share, and weights back, one after the other. */
static double offloaded_s(const redco_costs *costs, double owned_params)
{
    const redco_memory_kind memory = costs->workload.engine.memory;
    const bool zero = memory == REDCO_MEMORY_ZERO || memory == REDCO_MEMORY_FORMULAS;
    const uint32_t hosts = costs->machine.hosts_per_node > 0 ? costs->machine.hosts_per_node : 1;
    const double gpus = fmax(1.0, (double)costs->machine.gpus_per_node / hosts);
    const double bytes = owned_params * (costs->state_bytes.gradient + costs->state_bytes.parameter);
    return redcoi_host_copy_s(costs, bytes) +
           owned_params * gpus / (zero ? cpu_adam_params_per_s : cpu_torch_params_per_s);
}

double redcoi_optimizer_s(const redco_costs *costs, uint64_t owned_params)
{
    double measured_s = 0.0;
    if (costs->workload.engine.offload != REDCO_OFFLOAD_NONE) { return offloaded_s(costs, (double)owned_params); }
    if (redco_compute_profile_optimizer_s(costs->compute.measured, (double)owned_params, costs->compute.precision,
                                          &measured_s)) {
        return measured_s;
    }
    const redco_state_bytes bytes = costs->state_bytes;
    const double less = 12.0 - (bytes.parameter == 2 ? 0.0 : 4.0) - bytes.optimizer; /* each is read and written */
    const double weights = bytes.parameter == 2 && bytes.master == 0 ? 2.0 : 0.0;    /* read, too, without a copy */
    return (optimizer_traffic_bytes - 2.0 * less + weights) * costs->calibration.optimizer_factor *
           (double)owned_params / costs->compute.memory_bandwidth_bytes_per_s;
}

double redco_costs_param_s(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redcoi_job job = {.costs = costs,
                            .parallelism = parallelism,
                            .grid = redco_shard_grid(&costs->machine, &costs->workload.engine, parallelism)};
    const redco_group group = redcoi_replicas_of(&job, one);
    const uint64_t params = redco_share_up(redco_model_trained_params(costs->model), 1, parallelism->tp);
    double seconds = redcoi_optimizer_s(costs, params) / (double)params;
    if (redco_mesh_ranks(group.mesh) > 1) {
        const double all = (double)params * costs->state_bytes.gradient;
        const double bytes = fmin(all, (double)costs->workload.bucket_bytes);
        bool network = false;
        seconds += redcoi_comm_s(costs, REDCO_ALL_REDUCE, bytes, group, &network) * costs->state_bytes.gradient / bytes;
    }
    return seconds /
           ((double)parallelism->micro_batches + (parallelism->pp - 1.0) / redco_parallelism_chunks(job.parallelism));
}

double redcoi_keep_gradients_s(const redcoi_job *job)
{
    const redco_compute *const compute = &job->costs->compute;
    const double params = (double)job->times->trained_params, micro_batches = (double)job->parallelism->micro_batches;
    double copy_s = 0.0, add_s = 0.0;
    /* Shards of sharded parameters are kept by the stream that scatters. */
    if (!job->costs->workload.engine.planned_memory || redco_mesh_ranks(job->shards.parameters) > 1 ||
        !redco_compute_profile_keep_s(compute->measured, params, false, compute->precision, &copy_s) ||
        !redco_compute_profile_keep_s(compute->measured, params, true, compute->precision, &add_s)) {
        return 0.0;
    }
    /* Whole gradients of shards go into a bucket each time. */
    if (redco_mesh_ranks(job->shards.gradients) > 1) { return copy_s; }
    return (copy_s + (micro_batches - 1.0) * add_s) / micro_batches;
}

/* With how often the layer is repeated, for times. */
static redcoi_job timed_job_of(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                               uint32_t layout, const redco_layer_config *config)
{
    redcoi_job job = redcoi_job_of(costs, parallelism, class_index, layout, config);
    job.stage = redcoi_memo_repeated(costs, parallelism)->stages[class_index];
    return job;
}

/* The energy of a step's micro-batches; repeated parts of forward take their share of forward's joules.
 * @param recompute_s  of one micro-batch: none of tables and heads, whatever the policy */
static double dynamic_j(const redcoi_job *job, double recompute_s)
{
    const redcoi_times *const times = job->times;
    const double again = times->forward_s > 0.0 ? recompute_s / times->forward_s : 0.0;
    const double passes_j = (1.0 + again) * times->forward_j + times->backward_j;
    return job->stage.share * (double)job->parallelism->micro_batches * passes_j;
}

static redco_layer_cost layout_cost(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                    uint32_t layout, const redco_layer_config *config, bool paper)
{
    const redcoi_job job = timed_job_of(costs, parallelism, class_index, layout, config);
    const redcoi_times *const times = job.times;
    redco_layer_cost cost = {.forward_s = times->forward_s,
                             .backward_s = times->backward_s + redcoi_keep_gradients_s(&job)};
    const bool block = redco_class_is_block(job.class->kind);
    double tp_s = times->tp_forward_s + times->tp_backward_s + times->listed_tp_s;
    if (block) {
        cost.recompute_s = times->recompute_s[job.set];
        tp_s += times->recompute_tp_s[job.set];
    }
    const double again_s = cost.recompute_s;
    redcoi_add_traffic(&job, &cost);
    const uint32_t parts = redcoi_job_parts(&job);
    for (redco_param_part p = REDCO_PART_DENSE; paper && p < parts; p++) {
        const redcoi_job part = redcoi_job_part(&job, p);
        add_paper_terms(&part, &cost);
    }
    const redcoi_states states = redcoi_layer_states(&job);
    redcoi_add_memory(&job, &states, &cost);
    cost.forward_s *= job.stage.repeat;
    cost.backward_s *= job.stage.repeat;
    cost.recompute_s *= job.stage.again;
    cost.compute_s = cost.forward_s + cost.backward_s + cost.recompute_s;
    cost.tp_s = job.stage.repeat * tp_s;
    cost.optimizer_s = job.stage.once * redcoi_optimizer_s(costs, states.owned_params);
    cost.dynamic_j = dynamic_j(&job, again_s) + costs->compute.power.memory_w * cost.optimizer_s;
    return cost;
}

/* The set of a list whose recomputation takes longest: traffic hides behind it. */
static redco_recompute longest_of(redco_costs *costs, const redcoi_times *times, const redco_recompute_list *sets)
{
    uint32_t longest = 0;
    for (uint32_t i = 1; i < sets->count; i++) {
        const double s = times->recompute_s[redcoi_recompute_set(costs, sets->sets[i])];
        if (s > times->recompute_s[redcoi_recompute_set(costs, sets->sets[longest])]) { longest = i; }
    }
    return sets->sets[longest];
}

/* Those terms of layout_cost() that gradients and optimizer states on other meshes add (their reduction in every
 * micro-batch, an all-reduce for a scatter, updated parameters) are left out, and shards are even. Once a step a window
 * is max(k X, X - u C): no less traffic X makes it longer, nor does a longer pass before it, u being below 1. Passes
 * are as long as the longest recomputation makes them. */
static redco_layer_cost least_cost(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                   uint32_t layout, redco_mesh parameters, const redco_recompute_list *sets)
{
    redco_parallelism even = *parallelism;
    even.scheme = REDCO_INTRA_TENSOR;
    const redco_mesh grid = redco_costs_grid(costs, parallelism);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const redco_layer_config config = {{parameters, grid, grid},
                                       longest_of(costs, redcoi_times_of(rank, class_index, layout), sets)};
    redcoi_job job = timed_job_of(costs, &even, class_index, layout, &config);
    const redcoi_times *const times = job.times;
    job.least = true;
    const redcoi_states states = redcoi_layer_states(&job);
    const double copied_s = redcoi_keep_gradients_s(&job);
    job.shards.gradients = parameters;
    redco_layer_cost cost = {.forward_s = times->forward_s,
                             .backward_s = times->backward_s + fmin(copied_s, redcoi_keep_gradients_s(&job))};
    const bool block = redco_class_is_block(job.class->kind);
    cost.recompute_s = block ? times->recompute_s[job.set] : 0.0;
    redcoi_add_traffic(&job, &cost);
    redcoi_add_memory(&job, &states, &cost);
    cost.compute_s = job.stage.repeat * (cost.forward_s + cost.backward_s);
    cost.bare_backward_s -= cost.recompute_s;
    cost.activation_bytes = 0;
    return cost;
}

redco_layer_cost redco_cost_layer_least(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                        redco_mesh parameters, const redco_recompute_list *sets)
{
    for (uint32_t i = 0; i < sets->count; i++) { (void)redcoi_recompute_set(costs, sets->sets[i]); }
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const uint32_t layouts = rank->layout_count[class_index];
    redco_layer_cost sum = {.compute_s = 0.0};
    for (uint32_t i = 0; i < layouts; i++) {
        redco_layer_cost cost = least_cost(costs, parallelism, class_index, i, parameters, sets);
        const uint32_t at = rank->first_layout[class_index] + i;
        if (layouts > 1) {
            redcoi_cost_add(&sum, &cost, rank->members[at], rank->memory_members[at]);
        } else {
            sum = cost;
        }
    }
    if (layouts > 1) { redcoi_cost_divide(&sum, rank->member_count[class_index], rank->memory_count[class_index]); }
    memset(sum.transient_bytes, 0, sizeof sum.transient_bytes);
    return sum;
}

static redco_layer_cost layer_cost(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                   const redco_layer_config *config, bool paper)
{
    (void)redcoi_recompute_set(costs, config->recompute);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    redco_layer_cost sum = {.compute_s = 0.0};
    if (rank->layout_count[class_index] <= 1) { return layout_cost(costs, parallelism, class_index, 0, config, paper); }
    for (uint32_t i = 0; i < rank->layout_count[class_index]; i++) {
        redco_layer_cost cost = layout_cost(costs, parallelism, class_index, i, config, paper);
        const uint32_t at = rank->first_layout[class_index] + i;
        redcoi_cost_add(&sum, &cost, rank->members[at], rank->memory_members[at]);
    }
    redcoi_cost_divide(&sum, rank->member_count[class_index], rank->memory_count[class_index]);
    return sum;
}

redco_layer_cost redco_cost_layer(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                  const redco_layer_config *config)
{
    return layer_cost(costs, parallelism, class_index, config, true);
}

redco_layer_cost redco_cost_layer_step(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                       const redco_layer_config *config)
{
    return layer_cost(costs, parallelism, class_index, config, false);
}
