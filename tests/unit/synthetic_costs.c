#include "synthetic_costs.h"
#include "costmodel/closed_form/memory_saved.h"
#include "planner/tensor_parallel/tp_placement.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct redco_model {
    redco_layer_class classes[4];
    size_t class_count;
    uint32_t heads;
};

struct redco_costs {
    redco_machine machine;
    const redco_model *model;
    redco_workload workload;
    redco_calibration calibration;
};

uint32_t redco_costs_experts(const redco_costs *costs)
{
    (void)costs;
    return 0;
}

redco_status redco_costs_expert_shards(const redco_costs *costs, const redco_parallelism *parallelism,
                                       const redco_shards *dense, redco_shards *shards_out, redco_error *err)
{
    (void)costs;
    (void)parallelism;
    (void)err;
    *shards_out = *dense;
    return REDCO_OK;
}

redco_mesh redco_costs_grid(const redco_costs *costs, const redco_parallelism *parallelism)
{
    (void)costs;
    return parallelism->dp;
}

synthetic synthetic_create(uint32_t nodes, uint32_t gpus_per_node, uint32_t layers, uint32_t encoder_layers,
                           uint64_t block_params, uint64_t global_batch, uint32_t seed)
{
    synthetic s = {.model = calloc(1, sizeof(redco_model))};
    redco_machine *m = &s.machine;
    m->nodes = nodes;
    m->gpus_per_node = gpus_per_node;
    m->node_gpus_physical = gpus_per_node;
    m->fabric = REDCO_FABRIC_SWITCH;
    m->link_group_gpus = gpus_per_node;
    m->scale_up_bytes_per_s = 200e9;
    m->node_network_bytes_per_s = 100e9;
    m->gpu.memory_bytes = UINT64_C(80) << 30;
    m->gpu.bf16_flops_per_s = 312e12;
    s.workload = (redco_workload){
        .seq_len = 4096, .global_batch = global_batch, .overlap = REDCO_OVERLAP_ALL, .bucket_bytes = 1 << 30};
    s.calibration = (redco_calibration){.fitted_rows = seed,
                                        .gemm_efficiency = 0.7,
                                        .memory_traffic_factor = 1.0,
                                        .contention_ratio = 0.15,
                                        .overlap_window_ratio = 0.9,
                                        .step_overhead_s = 0.015,
                                        .scale_ratio = 0.006,
                                        .reserve_bytes = 6e9,
                                        .usable_memory_ratio = 0.94};
    redco_layer_class *c = s.model->classes;
    const redco_layer_class edge = {.layers = 1, .params = block_params * 2 / 3, .modules = 1};
    c[0] = edge;
    c[0].kind = REDCO_CLASS_EMBEDDING;
    size_t count = 1;
    if (encoder_layers > 0) {
        c[count++] = (redco_layer_class){
            .kind = REDCO_CLASS_BLOCK, .layers = encoder_layers, .params = block_params * 3 / 4, .modules = 6};
    }
    c[count++] = (redco_layer_class){.kind = encoder_layers > 0 ? REDCO_CLASS_CROSS : REDCO_CLASS_BLOCK,
                                     .layers = layers,
                                     .params = block_params,
                                     .modules = 9};
    c[count] = edge;
    c[count++].kind = REDCO_CLASS_HEAD;
    s.model->class_count = count;
    s.model->heads = 32;
    return s;
}

void synthetic_free(synthetic *s)
{
    free(s->model);
}

size_t redco_model_classes(const redco_model *model, const redco_layer_class **classes_out)
{
    *classes_out = model->classes;
    return model->class_count;
}

redco_recompute redco_model_modules(const redco_model *model, const redco_engine *engine)
{
    (void)model;
    (void)engine;
    return REDCO_RECOMPUTE_CORE_ATTN | REDCO_RECOMPUTE_MLP;
}

void redco_costs_prepare(redco_costs *costs, const redco_recompute_list *sets)
{
    (void)costs;
    (void)sets;
}

uint32_t redco_costs_recompute_tried(redco_costs *costs, const redco_parallelism *parallelism,
                                     const redco_recompute_list *sets)
{
    (void)costs;
    (void)parallelism;
    return (1U << sets->count) - 1;
}

redco_status redco_costs_create(const redco_machine *machine, const redco_model *model, const redco_workload *workload,
                                const redco_calibration *calibration, const redco_comm *comm, redco_costs **costs_out,
                                redco_error *err)
{
    (void)comm;
    redco_costs *costs = malloc(sizeof *costs);
    if (costs == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    *costs = (redco_costs){*machine, model, *workload, *calibration};
    *costs_out = costs;
    return REDCO_OK;
}

void redco_costs_free(redco_costs *costs)
{
    free(costs);
}

/* Layouts are part of what is made up here. */
redco_status redco_tp_attach(redco_costs *costs, const redco_model *model, redco_tp_placement placement,
                             const redco_user_rules *user, redco_error *err)
{
    (void)user;
    (void)costs;
    (void)model;
    (void)placement;
    (void)err;
    return REDCO_OK;
}

redco_status redco_costs_failure(const redco_costs *costs, redco_error *err)
{
    (void)costs;
    (void)err;
    return REDCO_OK;
}

redco_status redco_parallelism_check(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err)
{
    if (parallelism->tp > costs->machine.link_group_gpus || costs->model->heads % parallelism->tp != 0) {
        return redco_fail(err, REDCO_EVALUE, "--tp", "%u does not divide %u heads", parallelism->tp,
                          costs->model->heads);
    }
    return REDCO_OK;
}

redco_fixed_cost redco_cost_fixed(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_calibration *c = &costs->calibration;
    const double tokens = (double)parallelism->micro_batch * costs->workload.seq_len;
    return (redco_fixed_cost){
        .fixed_s = 0.001,
        .overhead_s = c->step_overhead_s,
        .scale = 1.0 + c->scale_ratio * log2(costs->machine.nodes),
        .fixed_bytes = (uint64_t)(c->reserve_bytes + 12.0 * tokens * 32000.0 / parallelism->tp),
        .capacity_bytes = (uint64_t)(c->usable_memory_ratio * (double)costs->machine.gpu.memory_bytes),
        .window_hidden_factor = c->contention_ratio + 0.03,
        .window_use = (1.0 - c->contention_ratio) * c->overlap_window_ratio,
        .model_flops_per_token = 1.0,
        .peak_flops_per_s = costs->machine.gpu.bf16_flops_per_s,
    };
}

redco_fixed_cost redco_cost_fixed_memory(redco_costs *costs, const redco_parallelism *parallelism)
{
    return redco_cost_fixed(costs, parallelism);
}

/* 0.9 to 1.1, the same for the same seed and key (splitmix64). */
static double noise(const redco_costs *costs, uint64_t key)
{
    uint64_t x = key + UINT64_C(0x9e3779b97f4a7c15) * (costs->calibration.fitted_rows + UINT64_C(1));
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    x ^= x >> 31;
    return 0.9 + 0.2 * ((double)(x >> 11) / 9007199254740992.0);
}

static double ring_s(const redco_costs *costs, double bytes, redco_mesh group)
{
    const double n = (double)redco_mesh_ranks(group);
    if (n <= 1.0) { return 0.0; }
    const bool network = group.nodes > 1;
    const double share = (double)group.gpus / costs->machine.gpus_per_node;
    const double rate = network ? fmin(costs->machine.node_network_bytes_per_s * share, 120e9) : 120e9;
    const uint64_t key = ((uint64_t)group.gpus << 32 | group.nodes) * 31;
    return noise(costs, key) * (bytes * (n - 1.0) / n / rate + (network ? 7e-6 : 2e-6) * n);
}

static redco_mesh ratio(redco_mesh outer, redco_mesh inner)
{
    return (redco_mesh){outer.gpus / inner.gpus, outer.nodes / inner.nodes};
}

static uint64_t shard(double bytes, redco_mesh mesh)
{
    return (uint64_t)ceil(bytes / (double)redco_mesh_ranks(mesh));
}

static void add_memory(const redco_costs *costs, const redco_parallelism *s, const redco_layer_class *class,
                       const redco_layer_config *config, redco_layer_cost *cost)
{
    const double params = (double)class->params / s->tp;
    const double hidden = sqrt((double)class->params / 12.0);
    const double tokens = (double)s->micro_batch * costs->workload.seq_len;
    const double kept[] = {[REDCO_RECOMPUTE_NONE] = 34.0,
                           [REDCO_RECOMPUTE_CORE_ATTN] = 24.0,
                           [REDCO_RECOMPUTE_MLP] = 14.0,
                           [REDCO_RECOMPUTE_FULL] = 2.0};
    const bool block = class->kind == REDCO_CLASS_BLOCK || class->kind == REDCO_CLASS_CROSS;
    cost->parameter_bytes = shard(2.0 * params, config->shards.parameters);
    cost->gradient_bytes = shard(2.0 * params, config->shards.gradients);
    cost->optimizer_bytes = shard(12.0 * params, config->shards.optimizer);
    cost->activation_bytes = block ? (uint64_t)(tokens * hidden * kept[config->recompute] / s->tp) : 0;
    if (redco_mesh_ranks(config->shards.parameters) > 1) {
        cost->transient_bytes[REDCO_TRANSIENT_GATHER] = (uint64_t)(4.0 * params);
    }
    if (redco_mesh_ranks(config->shards.gradients) > 1) {
        cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = (uint64_t)(2.0 * params);
    }
    if (block && config->recompute == REDCO_RECOMPUTE_FULL) {
        cost->transient_bytes[REDCO_TRANSIENT_RECOMPUTE] = (uint64_t)(tokens * hidden * 34.0 / s->tp);
    }
    if (block && config->recompute == REDCO_RECOMPUTE_CORE_ATTN) {
        cost->transient_bytes[REDCO_TRANSIENT_SELECTIVE] = (uint64_t)(tokens * hidden * 10.0 / s->tp);
    }
}

redco_layer_cost redco_cost_layer(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                  const redco_layer_config *config)
{
    const redco_layer_class *class = &costs->model->classes[class_index];
    const redco_shards *m = &config->shards;
    const double params = (double)class->params / parallelism->tp;
    const double tokens = (double)parallelism->micro_batch * costs->workload.seq_len;
    const double steps = (double)parallelism->micro_batches;
    const double rate = costs->machine.gpu.bf16_flops_per_s * costs->calibration.gemm_efficiency;
    const double forward =
        2.0 * params * tokens / rate * (1.0 + 0.05 / parallelism->micro_batch) * (1.0 + 0.04 * log2(parallelism->tp));
    const double again = config->recompute == REDCO_RECOMPUTE_FULL        ? forward
                         : config->recompute == REDCO_RECOMPUTE_CORE_ATTN ? 0.12 * forward
                                                                          : 0.0;
    redco_layer_cost cost = {.forward_s = steps * forward, .backward_s = 2.0 * steps * forward};
    cost.recompute_s = steps * again;
    cost.compute_s = cost.forward_s + cost.backward_s + cost.recompute_s;
    cost.compute_s *= costs->calibration.memory_traffic_factor;
    const double gather = ring_s(costs, 2.0 * params, m->parameters);
    const double hidden = costs->calibration.contention_ratio;
    const double exposed = fmax(hidden * gather, gather - 0.76 * forward) +
                           fmax(hidden * 2.0 * gather, 2.0 * gather - 0.76 * (2.0 * forward + again));
    cost.exposed_s = steps * exposed;
    const double shards = (double)redco_mesh_ranks(m->parameters);
    if (!redco_mesh_equal(m->gradients, m->parameters)) {
        cost.grad_shard_s =
            (steps - 1.0) * 2.0 * ring_s(costs, 2.0 * params / shards, ratio(m->gradients, m->parameters));
        cost.exposed_s += cost.grad_shard_s;
    }
    cost.grad_comm_s = 2.0 * ring_s(costs, 2.0 * params / shards, ratio(parallelism->dp, m->parameters));
    cost.grad_window_s = 2.0 * forward + again;
    const double latency = parallelism->scheme == REDCO_INTER_TENSOR ? 1.15 : 1.0;
    cost.param_sync_comm_s = latency * ring_s(costs, 2.0 * params / shards, ratio(m->optimizer, m->parameters));
    cost.param_sync_window_s = forward;
    cost.optimizer_s = 30.0 * params / (double)redco_mesh_ranks(m->optimizer) / 2e12;
    cost.amsp_s = steps * 3.0 * gather + cost.grad_shard_s + cost.grad_comm_s + cost.param_sync_comm_s;
    add_memory(costs, parallelism, class, config, &cost);
    return cost;
}

static double window_s(bool overlapped, const redco_fixed_cost *fixed, double comm_s, double compute_s)
{
    if (!overlapped) { return comm_s; }
    return fmax(fixed->window_hidden_factor * comm_s, comm_s - fixed->window_use * compute_s);
}

/* Written from the formula of closed_form.h, apart from how the search sums it. */
redco_layer_cost redco_cost_layer_step(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                       const redco_layer_config *config)
{
    return redco_cost_layer(costs, parallelism, class_index, config);
}

uint64_t redco_cost_bytes(redco_costs *costs, const redco_parallelism *parallelism, const redco_assignment *assignments,
                          uint32_t count)
{
    return redco_cost_step(costs, parallelism, assignments, count).total_bytes;
}

redco_prediction redco_cost_step(redco_costs *costs, const redco_parallelism *parallelism,
                                 const redco_assignment *assignments, uint32_t count)
{
    const redco_fixed_cost fixed = redco_cost_fixed(costs, parallelism);
    redco_prediction p = {.capacity_bytes = fixed.capacity_bytes};
    double grad[2] = {0.0, 0.0};
    double sync[2] = {0.0, 0.0};
    double layers_s = fixed.fixed_s;
    uint64_t transient[REDCO_TRANSIENT_COUNT] = {0};
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *a = &assignments[i];
        const redco_layer_cost c = redco_cost_layer(costs, parallelism, a->class_index, &a->config);
        layers_s += a->layers * (c.compute_s + c.exposed_s + c.optimizer_s);
        grad[0] += a->layers * c.grad_comm_s;
        grad[1] += a->layers * c.grad_window_s;
        sync[0] += a->layers * c.param_sync_comm_s;
        sync[1] += a->layers * c.param_sync_window_s;
        p.amsp_total_s += a->layers * c.amsp_s;
        p.parameter_bytes += a->layers * c.parameter_bytes;
        p.gradient_bytes += a->layers * c.gradient_bytes;
        p.optimizer_bytes += a->layers * c.optimizer_bytes;
        p.activation_bytes += a->layers * c.activation_bytes;
        for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
            if (c.transient_bytes[k] > transient[k]) { transient[k] = c.transient_bytes[k]; }
        }
    }
    p.transient_bytes = fixed.fixed_bytes;
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) { p.transient_bytes += transient[k]; }
    p.total_bytes = p.parameter_bytes + p.gradient_bytes + p.optimizer_bytes + p.activation_bytes + p.transient_bytes;
    const uint32_t overlap = costs->workload.overlap;
    const double windows_s = window_s((overlap & REDCO_OVERLAP_AR) != 0, &fixed, grad[0], grad[1]) +
                             window_s((overlap & REDCO_OVERLAP_BC) != 0, &fixed, sync[0], sync[1]);
    p.step_s = fixed.scale * (layers_s + windows_s) + fixed.overhead_s;
    return p;
}

double redco_layer_traffic_ratio(const redco_layer_cost *cost)
{
    (void)cost;
    return 0.0;
}

/* No stages here. */
double redco_cost_balance_bound(redco_costs *costs, const redco_parallelism *parallelism)
{
    (void)costs;
    (void)parallelism;
    return 0.0;
}

bool redco_cost_balance(redco_costs *costs, const redco_parallelism *parallelism, double least_ratio,
                        uint32_t *split_out)
{
    (void)costs, (void)parallelism, (void)least_ratio;
    split_out[0] = 0;
    return false;
}

uint32_t redco_cost_hiding_group(redco_costs *costs, const redco_parallelism *parallelism, double *saved_s_out)
{
    (void)costs;
    *saved_s_out = 0.0;
    return parallelism->pp;
}

uint32_t redco_costs_cp_types(redco_costs *costs, const redco_parallelism *parallelism, uint32_t types)
{
    (void)costs;
    (void)parallelism;
    return types & (~types + 1);
}

double redco_cost_bound(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_fixed_cost fixed = redco_cost_fixed(costs, parallelism);
    const redco_mesh one = {1, 1};
    double compute_s = fixed.fixed_s;
    for (uint32_t c = 0; c < costs->model->class_count; c++) {
        const redco_layer_config bare = {{one, one, one}, REDCO_RECOMPUTE_NONE};
        const redco_layer_cost cost = redco_cost_layer(costs, parallelism, c, &bare);
        compute_s += costs->model->classes[c].layers * cost.compute_s;
    }
    return fixed.scale * compute_s + fixed.overhead_s;
}

uint64_t redco_cost_least_bytes(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index)
{
    const redco_layer_config all = {{parallelism->dp, parallelism->dp, parallelism->dp}, REDCO_RECOMPUTE_NONE};
    const redco_layer_cost cost = redco_cost_layer(costs, parallelism, class_index, &all);
    return cost.parameter_bytes + cost.gradient_bytes + cost.optimizer_bytes;
}

redco_layer_cost redco_cost_layer_least(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                        redco_mesh parameters, const redco_recompute_list *sets)
{
    const redco_mesh all = parallelism->dp;
    const redco_recompute longest = sets->sets[sets->count - 1];
    const redco_layer_cost sharded =
        redco_cost_layer(costs, parallelism, class_index, &(redco_layer_config){{parameters, all, all}, longest});
    redco_layer_cost cost = redco_cost_layer(costs, parallelism, class_index,
                                             &(redco_layer_config){{parameters, parameters, parameters}, longest});
    cost.compute_s -= redco_cost_recomputed(costs, parallelism, class_index, longest).recompute_s;
    cost.optimizer_s = 0.0;
    cost.activation_bytes = 0;
    cost.gradient_bytes = sharded.gradient_bytes;
    cost.optimizer_bytes = sharded.optimizer_bytes;
    memset(cost.transient_bytes, 0, sizeof cost.transient_bytes);
    return cost;
}

redco_recomputed redco_cost_recomputed(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                       redco_recompute recompute)
{
    const redco_mesh one = {1, 1};
    redco_layer_config config = {{one, one, one}, REDCO_RECOMPUTE_NONE};
    const redco_layer_cost none = redco_cost_layer(costs, parallelism, class_index, &config);
    config.recompute = recompute;
    const redco_layer_cost cost = redco_cost_layer(costs, parallelism, class_index, &config);
    return (redco_recomputed){none.compute_s, cost.compute_s - none.compute_s, cost.activation_bytes};
}

uint64_t redco_cost_kept_bytes(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                               redco_recompute recompute)
{
    return redco_cost_recomputed(costs, parallelism, class_index, recompute).activation_bytes;
}
