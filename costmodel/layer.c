#include "costmodel/costs_internal.h"
#include "costmodel/memory.h"

#include <math.h>

/* Bytes the optimizer moves per owned parameter: 32-bit master weight and two moments read and written, gradient read,
 * 16-bit weight written, and its share of norm and casts (costmodel/README.md, section 4). */
static const double optimizer_traffic_bytes = 30.0;
/* How much sooner the last of some ranks is ready when they share a node. */
static const double node_sync_ratio = 0.35;

/* What all parts of one call need. */
struct job {
    redco_costs *costs;
    const redco_setting *setting;
    const redco_layer_class *class;
    const redcoi_rank *rank;
    const redcoi_times *times;
    redcoi_stage stage;
    redco_shards shards;
    redco_recompute recompute;
    double element_bytes, gradient_bytes;
    uint64_t logits_bytes; /* counted elsewhere, and free again when layers are recomputed */
    double state_params;   /* all parameters of the fullest rank before sharding: the paper's Phi */
};

/* Traffic of one link kind against one compute window. */
struct traffic {
    double nvlink_s, network_s;
};

static void add_traffic(struct traffic *traffic, bool network, double seconds)
{
    *(network ? &traffic->network_s : &traffic->nvlink_s) += seconds;
}

/* Whether an engine that shards over data- and context-parallel ranks alike spreads this mesh over the latter too. */
static bool over_cp(const struct job *job, redco_mesh mesh)
{
    return job->costs->workload.engine.shard_over_cp && job->setting->cp > 1 && redco_mesh_ranks(mesh) > 1 &&
           redco_mesh_equal(mesh, job->setting->dp);
}

/* Ranks that are @p outer over @p inner: those that hold equal (or consecutive) shards of inner; @p with_cp: those of
 * one context-parallel group belong to it. */
static redco_group group_of(const struct job *job, redco_mesh outer, redco_mesh inner, bool with_cp)
{
    const redco_setting *const s = job->setting;
    const uint32_t per_node = job->costs->machine.gpus_per_node;
    redco_group group = {.mesh = {outer.gpus / inner.gpus, outer.nodes / inner.nodes},
                         .stride = s->tp * s->cp * inner.gpus};
    if (with_cp && s->cp > 1) {
        const uint32_t room = per_node / (s->tp * group.mesh.gpus);
        const uint32_t local = s->cp < room ? s->cp : room > 0 ? room : 1;
        group.mesh.gpus *= local;
        group.mesh.nodes *= (s->cp + local - 1) / local;
        group.stride = s->tp;
    }
    group.groups_per_node = per_node / group.mesh.gpus > 0 ? per_node / group.mesh.gpus : 1;
    return group;
}

static const redco_mesh one = {1, 1};

/* ZeRO++ keeps a secondary copy of the parameters, sharded over fewer ranks, for the gathers of backward. */
static bool has_secondary(const struct job *job)
{
    const uint64_t ranks = redco_mesh_ranks(job->setting->secondary);
    return ranks > 0 && ranks < redco_mesh_ranks(job->shards.parameters);
}

static redco_mesh backward_mesh(const struct job *job)
{
    return has_secondary(job) ? job->setting->secondary : job->shards.parameters;
}

/* What a window of compute does not hide of the traffic beside it, the slow-down of hidden traffic included:
 * max(kappa X, X - (1 - kappa) y C), convex in X and C. NVLink and NICs work at the same time, so the longer decides
 * and the other only contends. */
static double unhidden_s(const redco_calibration *c, struct traffic x, double compute_s)
{
    const double kappa = c->contention_ratio, usable_s = c->overlap_window_ratio * compute_s;
    const double nvlink_s = fmax(kappa * x.nvlink_s, x.nvlink_s - (1.0 - kappa) * usable_s);
    const double network_s = fmax(kappa * x.network_s, x.network_s - (1.0 - kappa) * usable_s);
    return fmax(nvlink_s + kappa * fmin(x.network_s, usable_s), network_s + kappa * fmin(x.nvlink_s, usable_s));
}

/* The wait until the last rank has arrived, which grows with their number; inside a node ranks start closer together.
 */
static double sync_s(const struct job *job, redco_group group)
{
    const double ranks = (double)redco_mesh_ranks(group.mesh);
    return (group.mesh.nodes > 1 ? 1.0 : node_sync_ratio) * job->costs->calibration.sync_s * ranks;
}

static bool by_layer(const struct job *job)
{
    return job->costs->workload.engine.layer_units || job->class->modules == 0;
}

/* What a call costs that nothing hides: its launch, and the wait for the last rank where only the next module is
 * fetched ahead: the multiprocessors of a collective that waits are lost to the product beside it. Fetching a layer
 * ahead leaves ranks a layer's compute to arrive. */
static double call_s(const struct job *job, redco_group group)
{
    return job->costs->calibration.launch_s + (by_layer(job) ? 0.0 : sync_s(job, group));
}

/* Gathering (scattering) a layer unit by unit: K modules of a K-th each, or the whole. */
static double units_of(const struct job *job)
{
    return by_layer(job) ? 1.0 : job->class->modules;
}

static double modules_s(const struct job *job, redco_collective op, redco_group group, double size_bytes, bool *network)
{
    const double units = units_of(job);
    return units * redcoi_comm_s(job->costs, op, size_bytes / units, group, network) +
           (by_layer(job) ? sync_s(job, group) : 0.0);
}

static double raw_s(const struct job *job, redco_collective op, double size_bytes, redco_group group)
{
    const redco_comm_time time = redcoi_price_find(job->costs, op, size_bytes, group);
    return time.latency_s + time.wire_s;
}

/* Gradients of a rank, in buckets of U: how large a bucket is, and this layer's share of them as a count. */
struct buckets {
    double bytes, count, tail_ratio;
};

static struct buckets buckets_of(const struct job *job)
{
    const double shards = (double)redco_mesh_ranks(job->shards.parameters);
    const double rank_bytes = job->state_params * job->gradient_bytes / shards;
    const double layer_bytes = (double)job->times->params * job->gradient_bytes / shards;
    const double bytes = fmin((double)job->costs->workload.bucket_bytes, rank_bytes);
    if (!(bytes > 0.0)) { return (struct buckets){0.0, 0.0, 0.0}; }
    return (struct buckets){bytes, layer_bytes / bytes, bytes / rank_bytes};
}

/* Traffic of parameters and gradients in every micro-batch, and what of it the layer's own compute does not hide. */
static void add_micro_batches(const struct job *job, redco_layer_cost *cost, struct traffic *forward,
                              struct traffic *backward)
{
    redco_costs *const costs = job->costs;
    const redco_calibration *const c = &costs->calibration;
    const redco_shards *const shards = &job->shards;
    const bool overlap = (costs->workload.overlap & REDCO_OVERLAP_AG_RS) != 0;
    const redco_group group = group_of(job, shards->parameters, one, over_cp(job, shards->parameters));
    const redco_group again = group_of(job, backward_mesh(job), one, over_cp(job, backward_mesh(job)));
    const double bytes = (double)job->times->gather_params * job->element_bytes;
    bool network = false;
    double calls_s = 0.0;
    if (redco_mesh_ranks(shards->parameters) > 1) {
        double s = modules_s(job, REDCO_ALL_GATHER, group, bytes, &network);
        add_traffic(forward, network, s);
        s = modules_s(job, REDCO_REDUCE_SCATTER, group, (double)job->times->params * job->gradient_bytes, &network);
        add_traffic(backward, network, s);
        calls_s = 2.0 * units_of(job) * call_s(job, group);
        if (job->class->kind != REDCO_CLASS_EMBEDDING) { /* looking up has no use of the table in backward */
            s = modules_s(job, REDCO_ALL_GATHER, again, bytes, &network);
            add_traffic(backward, network, s);
            calls_s += units_of(job) * call_s(job, again);
        }
    }
    const double window_s = cost->backward_s + cost->recompute_s; /* of one micro-batch so far */
    const double last_s = overlap ? unhidden_s(c, *forward, cost->forward_s) + unhidden_s(c, *backward, window_s)
                                  : forward->nvlink_s + forward->network_s + backward->nvlink_s + backward->network_s;
    double other_s = last_s;
    if (!redco_mesh_equal(shards->gradients, shards->parameters)) { /* T_g: reduced in every micro-batch but the last */
        const struct buckets buckets = buckets_of(job);
        const redco_group reduce = group_of(job, shards->gradients, shards->parameters,
                                            over_cp(job, shards->gradients) && !over_cp(job, shards->parameters));
        const redco_collective op =
            job->setting->scheme == REDCO_INTRA_TENSOR ? REDCO_REDUCE_SCATTER : REDCO_ALL_REDUCE;
        const double s = buckets.count * redcoi_comm_s(costs, op, buckets.bytes, reduce, &network);
        struct traffic both = overlap ? *backward : (struct traffic){0.0, 0.0};
        other_s += buckets.count * c->launch_s;
        if ((costs->workload.overlap & REDCO_OVERLAP_AR) != 0) {
            const double alone_s = overlap ? unhidden_s(c, both, window_s) : 0.0;
            add_traffic(&both, network, (1.0 - buckets.tail_ratio) * s);
            other_s += unhidden_s(c, both, window_s) - alone_s + buckets.tail_ratio * s;
        } else {
            other_s += s;
        }
    }
    cost->exposed_s +=
        (job->stage.repeat - job->stage.once) * other_s + job->stage.once * last_s + job->stage.repeat * calls_s;
}

static double chunks_of(const struct job *job)
{
    const uint32_t chunks = job->costs->workload.engine.virtual_stages;
    return chunks > 1 && job->setting->pp > 1 ? chunks : 1.0;
}

/* What is left of a window for once-a-step traffic on a link that gathers already use. */
static double window_left_s(const struct job *job, double compute_s, struct traffic used, bool network)
{
    const redco_calibration *const c = &job->costs->calibration;
    if ((job->costs->workload.overlap & REDCO_OVERLAP_AG_RS) == 0) { return compute_s; }
    if (!(c->overlap_window_ratio > 0.0)) { return 0.0; }
    return fmax(0.0, compute_s - (network ? used.network_s : used.nvlink_s) / c->overlap_window_ratio);
}

/* Once a step: gradients over all ranks that hold the same parameters, in buckets. Ranks that own a shard each need
 * only that shard of the sum. The last bucket is full only when backward ends, so nothing hides it. With several model
 * chunks only the last one's backward is left to hide behind. */
static void add_gradients(const struct job *job, redco_layer_cost *cost, double window_s, struct traffic used)
{
    redco_costs *const costs = job->costs;
    const redco_group group =
        group_of(job, job->setting->dp, job->shards.parameters, !over_cp(job, job->shards.parameters));
    if (redco_mesh_ranks(group.mesh) <= 1) { return; }
    const bool whole = redco_mesh_equal(job->shards.optimizer, job->setting->dp);
    const redco_collective op = whole ? REDCO_REDUCE_SCATTER : REDCO_ALL_REDUCE;
    const struct buckets buckets = buckets_of(job);
    bool network = false;
    const double s = job->stage.once * buckets.count * redcoi_comm_s(costs, op, buckets.bytes, group, &network);
    const bool overlap = (costs->workload.overlap & REDCO_OVERLAP_AR) != 0;
    const double tail_s = overlap ? buckets.tail_ratio * s : 0.0;
    cost->grad_comm_s = s - tail_s;
    cost->exposed_s += tail_s + job->stage.once * buckets.count * costs->calibration.launch_s;
    cost->grad_window_s = job->stage.once * window_left_s(job, window_s, used, network) / chunks_of(job);
}

/* Once a step: updated parameters to the ranks that share them. */
static void add_spread(const struct job *job, redco_layer_cost *cost, double window_s, struct traffic used)
{
    redco_costs *const costs = job->costs;
    const redco_group group = group_of(job, job->shards.optimizer, job->shards.parameters,
                                       over_cp(job, job->shards.optimizer) && !over_cp(job, job->shards.parameters));
    const double owners = (double)redco_mesh_ranks(group.mesh);
    if (owners <= 1.0) { return; }
    const double shards = (double)redco_mesh_ranks(job->shards.parameters);
    const double rank_bytes = job->state_params * job->element_bytes / shards;
    const double share = job->stage.once * (double)job->times->params / job->state_params;
    const bool inter = job->setting->scheme == REDCO_INTER_TENSOR;
    const double calls = inter ? owners : 1.0;
    bool network = false;
    const double s =
        calls * redcoi_comm_s(costs, inter ? REDCO_BROADCAST : REDCO_ALL_GATHER, rank_bytes / calls, group, &network);
    cost->spread_comm_s = share * s;
    cost->exposed_s += share * calls * costs->calibration.launch_s;
    cost->spread_window_s = job->stage.once * window_left_s(job, window_s, used, network) / chunks_of(job);
}

/* AMSP, arXiv 2311.00257, section IV-C: each component's share of this layer. Bucket counts are ratios, as there. */
static void add_paper_terms(const struct job *job, redco_layer_cost *cost)
{
    const redco_shards *const shards = &job->shards;
    const redco_mesh dp = job->setting->dp;
    const double params = (double)job->times->params, modules = job->class->modules > 0 ? job->class->modules : 1.0;
    const double shard_count = (double)redco_mesh_ranks(shards->parameters);
    const double module_bytes = params * job->element_bytes / modules;
    const double micro_batches = (double)job->setting->micro_batches;
    const redco_group gather = group_of(job, shards->parameters, one, false);
    const redco_group again = group_of(job, backward_mesh(job), one, false);
    const double gathers_s =
        raw_s(job, REDCO_ALL_GATHER, module_bytes, gather) + raw_s(job, REDCO_ALL_GATHER, module_bytes, again);
    cost->gather_s = micro_batches * modules * gathers_s;
    cost->reduce_scatter_s = micro_batches * modules * raw_s(job, REDCO_REDUCE_SCATTER, module_bytes, gather);
    const double bucket_bytes = (double)job->costs->workload.bucket_bytes;
    const double buckets = params * job->element_bytes / (bucket_bytes * shard_count);
    const redco_group reduce = group_of(job, dp, shards->parameters, false);
    cost->grad_reduce_s = buckets * raw_s(job, REDCO_ALL_REDUCE, bucket_bytes, reduce);
    if (!redco_mesh_equal(shards->gradients, shards->parameters)) {
        const redco_group part = group_of(job, shards->gradients, shards->parameters, false);
        cost->grad_shard_s = (micro_batches - 1.0) * buckets * raw_s(job, REDCO_ALL_REDUCE, bucket_bytes, part);
    }
    const redco_group spread = group_of(job, shards->optimizer, shards->parameters, false);
    const double owners = (double)redco_mesh_ranks(spread.mesh);
    const double rank_bytes = job->state_params * job->element_bytes / shard_count;
    const double share = params / job->state_params;
    cost->broadcast_s = job->setting->scheme == REDCO_INTER_TENSOR
                            ? share * owners * raw_s(job, REDCO_BROADCAST, rank_bytes / owners, spread)
                            : share * raw_s(job, REDCO_ALL_GATHER, rank_bytes, spread);
    cost->amsp_s =
        cost->gather_s + cost->reduce_scatter_s + cost->grad_reduce_s + cost->grad_shard_s + cost->broadcast_s;
}

/* A stage that holds the head of a tied model without its embedding has a copy of the table. */
static uint64_t held_params(const struct job *job)
{
    return job->setting->pp > 1 ? job->times->gather_params : job->times->params;
}

static uint64_t ranks_with_cp(const struct job *job, redco_mesh mesh)
{
    return redco_mesh_ranks(mesh) * (over_cp(job, mesh) ? job->setting->cp : 1);
}

/* The fullest rank's share of one layer's states. Whole tensors (inter-tensor sharding) do not divide evenly, so each
 * layer carries the imbalance of the whole model's deal in proportion. */
static uint64_t sharded_params(const struct job *job, redco_mesh mesh)
{
    const uint64_t parameter_shards = ranks_with_cp(job, job->shards.parameters);
    const uint64_t owners = ranks_with_cp(job, mesh) / parameter_shards;
    const uint64_t params = redco_share_up(held_params(job), 1, parameter_shards);
    if (owners <= 1) { return params; }
    if (job->setting->scheme == REDCO_INTRA_TENSOR) { return redco_share_up(params, 1, owners); }
    const uint64_t fullest = redcoi_fullest_owner(job->costs, job->setting->tp, owners);
    return redco_share_up(params, fullest, job->rank->params);
}

/* @return parameters whose optimizer states the fullest rank owns */
static uint64_t add_memory(const struct job *job, redco_layer_cost *cost)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    const redco_shards *const shards = &job->shards;
    const uint64_t held = job->stage.held, of = job->stage.of;
    const uint64_t owned = sharded_params(job, shards->optimizer);
    uint64_t params = sharded_params(job, shards->parameters);
    if (has_secondary(job)) {
        params += redco_share_up(job->times->params, 1, redco_mesh_ranks(job->setting->secondary));
    }
    cost->parameter_bytes = redco_share_up(params * bytes.parameter, held, of);
    cost->gradient_bytes = redco_share_up(sharded_params(job, shards->gradients) * bytes.gradient, held, of);
    const uint64_t kept = redco_share_up(job->times->activation_bytes[job->recompute], job->stage.in_flight, 1);
    cost->optimizer_bytes = redco_share_up(owned * bytes.optimizer, held, of);
    cost->activation_bytes = redco_share_up(kept, held, of);
    if (redco_mesh_ranks(shards->parameters) > 1) { /* this layer's weights and those of the block fetched ahead */
        cost->transient_bytes[REDCO_TRANSIENT_GATHER] =
            (job->times->gather_params + job->rank->block_params) * bytes.parameter;
    }
    if (redco_mesh_ranks(shards->gradients) > 1) {
        cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = job->times->params * bytes.gradient;
    }
    const int kind = job->recompute == REDCO_RECOMPUTE_FULL ? REDCO_TRANSIENT_RECOMPUTE : REDCO_TRANSIENT_SELECTIVE;
    const uint64_t again = job->times->recompute_bytes[job->recompute];
    cost->transient_bytes[kind] = again > job->logits_bytes ? again - job->logits_bytes : 0;
    return owned;
}

void redcoi_layer_memory(redco_costs *costs, const redco_setting *setting, uint32_t class_index,
                         const redco_layer_config *config, redcoi_stage stage, uint64_t logits_bytes,
                         redco_layer_cost *cost_out)
{
    const redcoi_rank *const rank = redcoi_rank_find(costs, setting);
    const struct job job = {.costs = costs,
                            .setting = setting,
                            .class = &costs->classes[class_index],
                            .rank = rank,
                            .times = &rank->classes[class_index],
                            .stage = stage,
                            .shards = config->shards,
                            .recompute = config->recompute,
                            .logits_bytes = logits_bytes};
    (void)add_memory(&job, cost_out);
}

redco_layer_cost redco_cost_layer(redco_costs *costs, const redco_setting *setting, uint32_t class_index,
                                  const redco_layer_config *config)
{
    const redcoi_rank *const rank = redcoi_rank_find(costs, setting);
    struct job job = {.costs = costs,
                      .setting = setting,
                      .class = &costs->classes[class_index],
                      .rank = rank,
                      .times = &rank->classes[class_index],
                      .stage = redcoi_stage_of(costs, rank, setting, class_index),
                      .shards = config->shards,
                      .recompute = config->recompute,
                      .element_bytes = costs->compute.element_bytes,
                      .gradient_bytes = costs->state_bytes.gradient,
                      .logits_bytes = rank->logits_bytes,
                      .state_params = redcoi_stage_params(costs, rank, setting)};
    const redcoi_times *const times = job.times;
    redco_layer_cost cost = {.forward_s = times->forward_s, .backward_s = times->backward_s};
    const bool block = job.class->kind == REDCO_CLASS_BLOCK || job.class->kind == REDCO_CLASS_CROSS;
    double tp_s = times->tp_forward_s + times->tp_backward_s;
    if (block) {
        cost.recompute_s = times->recompute_s[config->recompute];
        const bool whole = config->recompute == REDCO_RECOMPUTE_FULL && !costs->workload.engine.partial_recompute;
        tp_s += whole ? times->tp_forward_s : 0.0;
    }
    const double forward_window_s = cost.forward_s, backward_window_s = cost.backward_s + cost.recompute_s;
    struct traffic forward = {0.0, 0.0}, backward = {0.0, 0.0};
    add_micro_batches(&job, &cost, &forward, &backward);
    add_gradients(&job, &cost, backward_window_s, backward);
    add_spread(&job, &cost, forward_window_s, forward);
    add_paper_terms(&job, &cost);
    const uint64_t owned = add_memory(&job, &cost);
    cost.forward_s *= job.stage.repeat;
    cost.backward_s *= job.stage.repeat;
    cost.recompute_s *= job.stage.repeat;
    cost.compute_s = cost.forward_s + cost.backward_s + cost.recompute_s;
    cost.tp_s = job.stage.repeat * tp_s;
    cost.optimizer_s = job.stage.once * optimizer_traffic_bytes * costs->calibration.optimizer_factor * (double)owned /
                       costs->compute.memory_bandwidth_bytes_per_s;
    return cost;
}
