#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_graph.h"
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/memory_planned.h"
#include "costmodel/closed_form/nccl_buffers.h"
#include "costmodel/operators/compute_profile.h"

#include <math.h>
#include <string.h>

/* Bytes the optimizer moves per owned parameter: 32-bit master weight and two moments read and written, gradient read,
 * 16-bit weight written, and its share of norm and casts (costmodel/README.md, section 4). */
static const double optimizer_traffic_bytes = 30.0;
/* Traffic of one link kind against one compute window. */
struct traffic {
    double nvlink_s, network_s;
    double network_slow_s; /* that computation loses beside it on NICs */
    double exposed_s;      /* the part that the window does not hide */
};

/* A pass through a layer that traffic may run beside. */
struct window {
    double compute_s;
    double nvlink_idle_s, network_idle_s; /* in which it waits for tensor- or context-parallel traffic on the other
                                             link: what runs on this one has it to itself, and slows nothing down */
};

struct windows {
    struct window forward, backward; /* backward: recomputation included */
};

static double idle_s(struct window w, bool network)
{
    return network ? w.network_idle_s : w.nvlink_idle_s;
}

/* Seconds of computation that hide as much traffic of one link. @param use  the share of them that it takes */
static double usable_s(struct window w, bool network, double use)
{
    return w.compute_s + (use > 0.0 ? idle_s(w, network) / use : 0.0);
}

/* Computation of one micro-batch so far, and its waits for other ranks of the layer. */
static struct windows windows_of(const redcoi_job *job, const redco_layer_cost *cost)
{
    const redcoi_times *const times = job->times;
    const double exposed = job->costs->calibration.tp_exposed_ratio;
    const bool full = job->recompute == REDCO_RECOMPUTE_FULL;
    const bool over_nodes = job->parallelism->cp > 1 &&
                            redcoi_cp_group(job->costs, job->parallelism->tp, job->parallelism->cp).mesh.nodes > 1;
    const double again_tp_s = cost->recompute_s > 0.0 ? times->recompute_tp_s[job->recompute] : 0.0;
    const double again_cp_s = cost->recompute_s > 0.0 && full && again_tp_s > 0.0
                                  ? times->cp.forward_before_s + times->cp.forward_after_s
                                  : 0.0;
    const double tp_s[2] = {exposed * times->tp_forward_s, exposed * (times->tp_backward_s + again_tp_s)};
    const double cp_s[2] = {times->cp.forward_before_s + times->cp.forward_after_s,
                            times->cp.backward_before_s + times->cp.backward_after_s + again_cp_s};
    const double all_s[2] = {cost->forward_s, cost->backward_s + cost->recompute_s};
    struct window w[2];
    for (int i = 0; i < 2; i++) {
        w[i] = (struct window){fmax(0.0, all_s[i] - tp_s[i] - cp_s[i]), over_nodes ? cp_s[i] : 0.0,
                               tp_s[i] + (over_nodes ? 0.0 : cp_s[i])};
    }
    return (struct windows){w[0], w[1]};
}

static void add_traffic(struct traffic *traffic, double contention_ratio, bool network, double seconds)
{
    *(network ? &traffic->network_s : &traffic->nvlink_s) += seconds;
    if (network) { traffic->network_slow_s += contention_ratio * seconds; }
}

redco_parallel redco_parallelism_parallel(const redco_machine *machine, const redco_engine *engine,
                                          const redco_parallelism *parallelism)
{
    return (redco_parallel){.nodes = machine->nodes,
                            .gpus_per_node = machine->gpus_per_node,
                            .tp = parallelism->tp,
                            .cp = parallelism->cp,
                            .pp = parallelism->pp,
                            .dp = parallelism->dp,
                            .states_over_cp = engine->shard_over_cp,
                            .cp_type = parallelism->cp_type};
}

redco_mesh redco_shard_grid(const redco_machine *machine, const redco_engine *engine,
                            const redco_parallelism *parallelism)
{
    const redco_parallel p = redco_parallelism_parallel(machine, engine, parallelism);
    return redco_parallel_state_grid(&p);
}

redco_parallel redcoi_parallel_of(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return redco_parallelism_parallel(&costs->machine, &costs->workload.engine, parallelism);
}

redco_group redcoi_group_of(const redcoi_job *job, redco_mesh outer, redco_mesh inner)
{
    const redco_parallel p = redcoi_parallel_of(job->costs, job->parallelism);
    return redco_parallel_state_group(&p, (redco_between){inner, outer});
}

redco_group redcoi_replicas_of(const redcoi_job *job, redco_mesh parameters)
{
    const redco_parallel p = redcoi_parallel_of(job->costs, job->parallelism);
    return redco_parallel_replicas(&p, parameters);
}

static const redco_mesh one = {1, 1};

/* ZeRO++ keeps a secondary copy of the parameters, sharded over fewer ranks, for the gathers of backward. */
bool redcoi_has_secondary(const redcoi_job *job)
{
    const uint64_t ranks = redco_mesh_ranks(job->parallelism->secondary);
    return ranks > 0 && ranks < redco_mesh_ranks(job->shards.parameters);
}

redco_mesh redcoi_backward_mesh(const redcoi_job *job)
{
    return redcoi_has_secondary(job) ? job->parallelism->secondary : job->shards.parameters;
}

/* The share of a window that traffic of that contention can use. */
static double use_ratio(const redco_calibration *c, double kappa)
{
    return (1.0 - kappa) * c->overlap_window_ratio;
}

/* The part of the traffic beside a window that the window does not hide, the slow-down of hidden traffic included:
 * max(kappa X, X - (1 - kappa) y C), convex in X and C. NVLink and NICs work at the same time, so the longer decides
 * and the other only contends. */
static double unhidden_s(const redco_calibration *c, struct traffic x, struct window w)
{
    const double kappa = c->contention_ratio, nic_kappa = x.network_s > 0.0 ? x.network_slow_s / x.network_s : 0.0;
    const double usable_s = c->overlap_window_ratio * w.compute_s;
    x.nvlink_s = fmax(0.0, x.nvlink_s - w.nvlink_idle_s);
    x.network_s = fmax(0.0, x.network_s - w.network_idle_s);
    const double nvlink_s = fmax(kappa * x.nvlink_s, x.nvlink_s - (1.0 - kappa) * usable_s);
    const double network_s = fmax(nic_kappa * x.network_s, x.network_s - (1.0 - nic_kappa) * usable_s);
    return fmax(nvlink_s + nic_kappa * fmin(x.network_s, usable_s), network_s + kappa * fmin(x.nvlink_s, usable_s));
}

/* The wait until the last rank has arrived, which grows with their number. Inside a node nothing beyond the launch is
 * seen: runs with parameters over one node are fitted better without (costmodel/README.md, section 3). */
static double sync_s(const redcoi_job *job, redco_group group)
{
    return group.mesh.nodes > 1 ? job->costs->calibration.sync_s * (double)redco_mesh_ranks(group.mesh) : 0.0;
}

bool redcoi_by_layer(const redcoi_job *job)
{
    return job->costs->workload.engine.layer_units || job->class->modules == 0;
}

double redcoi_call_s(const redcoi_job *job, redco_group group)
{
    return job->costs->calibration.launch_s + (redcoi_by_layer(job) ? 0.0 : sync_s(job, group));
}

/* Gathering (scattering) a layer unit by unit: K modules of a K-th each, or the whole. */
static double units_of(const redcoi_job *job)
{
    return redcoi_by_layer(job) ? 1.0 : job->class->modules;
}

double redcoi_unit_s(const redcoi_job *job, redco_collective op, redco_group group, double size_bytes,
                     bool *network_out)
{
    return redcoi_comm_s(job->costs, op, size_bytes, group, network_out) +
           (redcoi_by_layer(job) ? sync_s(job, group) : 0.0);
}

static double modules_s(const redcoi_job *job, redco_collective op, redco_group group, double size_bytes, bool *network)
{
    const redcoi_times *const times = job->times;
    if (redcoi_by_layer(job) || times->module_params == 0) {
        return units_of(job) * redcoi_unit_s(job, op, group, size_bytes / units_of(job), network);
    }
    double seconds = 0.0;
    for (uint32_t i = 0; i < times->module_size_count; i++) {
        const double share = (double)times->modules[i].params / (double)times->module_params;
        seconds += times->modules[i].count * redcoi_unit_s(job, op, group, share * size_bytes, network);
    }
    return seconds;
}

redcoi_gathers redcoi_price_gathers(const redcoi_job *job, redco_group group, redco_group again)
{
    const double bytes = (double)job->times->gather_params * job->element_bytes;
    const double gradient_bytes = (double)job->times->trained_params * job->gradient_bytes;
    redcoi_gathers g = {.gather_s = 0.0};
    g.gather_s = modules_s(job, REDCO_ALL_GATHER, group, bytes, &g.gather_network);
    g.scatter_s = modules_s(job, REDCO_REDUCE_SCATTER, group, gradient_bytes, &g.scatter_network);
    g.again_s = modules_s(job, REDCO_ALL_GATHER, again, bytes, &g.again_network);
    return g;
}

static double raw_s(const redcoi_job *job, redco_collective op, double size_bytes, redco_group group)
{
    const redco_comm_time time = redcoi_price_find(job->costs, op, size_bytes, group);
    return time.latency_s + time.wire_s;
}

/* Gradients of a rank, in buckets of U: those that fill during a pass, and those at its end, which are reduced when the
 * pass is through: the last one, and what the embedding adds, whose gradient takes no time. Counts are this layer's
 * share. */
struct buckets {
    double bytes, count;           /* full ones before the end */
    double end_count;              /* full ones at the end */
    double last_bytes, last_count; /* between 0 and U */
    double full;                   /* in all layers before the end */
    double first_left_ratio;       /* left of backward when the first is full */
    double last_left_ratio;        /* left of backward when the last before the end is */
};

/* @param passes  through all layers of the rank, each of as many: a pass for each model chunk
 * @param end     the pass ends with the embedding: in a pipeline those of one stage alone do */
static struct buckets buckets_of(const redcoi_job *job, double passes, bool end)
{
    const double shards = (double)redco_mesh_ranks(job->shards.parameters);
    const double rank_bytes = job->state_params * job->gradient_bytes / shards / passes;
    const double first_bytes = end ? job->first_params * job->gradient_bytes / shards : 0.0;
    const double bucket_bytes = (double)job->costs->workload.bucket_bytes;
    if (!(rank_bytes > 0.0)) { return (struct buckets){.full = 0.0}; }
    const double params = passes * (double)job->times->trained_params, share = params / job->state_params;
    const bool first = first_bytes > 0.0 && job->class->kind == REDCO_CLASS_EMBEDDING;
    const double before = first_bytes > 0.0 ? job->state_params - job->first_params : job->state_params;
    const double pass_bytes = fmax(bucket_bytes, rank_bytes - first_bytes);
    const double all = ceil(rank_bytes / bucket_bytes) - 1.0;
    const double full = fmin(all, floor((rank_bytes - first_bytes) / bucket_bytes));
    return (struct buckets){.bytes = bucket_bytes,
                            .count = first || !(before > 0.0) ? 0.0 : params / before * full,
                            .end_count = share * (all - full),
                            .last_bytes = rank_bytes - all * bucket_bytes,
                            .last_count = share,
                            .full = full,
                            .first_left_ratio = 1.0 - bucket_bytes / pass_bytes,
                            .last_left_ratio = fmax(0.0, 1.0 - full * bucket_bytes / pass_bytes)};
}

static double calls_of(const struct buckets *buckets)
{
    return buckets->count + buckets->end_count + buckets->last_count;
}

/* The share of a window that buckets can use. Bucket i of n is full when i U of R bytes are; what is not hidden is what
 * is left after backward of the worst queue:  max over i of  (n - i + 1) x - use (1 - i U/R) C,  linear in i, so that
 * the first or the last decides. Written as  n x - use C'  it is a window again. */
static double bucket_window_s(const struct buckets *buckets, double kappa, double use, double comm_s, double window_s)
{
    const double first_s = buckets->first_left_ratio * window_s;
    if (!(buckets->full > 0.0) || !(use > 0.0)) { return first_s; }
    const double last_s =
        (1.0 - 1.0 / buckets->full) * (1.0 - kappa) * comm_s / use + buckets->last_left_ratio * window_s;
    return fmin(first_s, last_s);
}

/* Layers like this that a model chunk has. */
static uint32_t layers_of_pass(const redcoi_job *job)
{
    const double chunks = redco_parallelism_chunks(job->parallelism);
    const double layers = (double)job->class->layers * (double)job->stage.held / (double)job->stage.of / chunks;
    return (uint32_t)fmax(1.0, round(layers));
}

/* Gathers and scatters of a block between others like it, launches included. */
static void expose_block(const redcoi_job *job, redco_group group, redco_group again, const redcoi_gathers *gathers,
                         struct traffic *forward, struct traffic *backward)
{
    const redcoi_shard_traffic traffic = {.gather_s = gathers->gather_s,
                                          .again_s = gathers->again_s,
                                          .scatter_s = gathers->scatter_s,
                                          .calls_s = units_of(job) * redcoi_call_s(job, group),
                                          .again_calls_s = units_of(job) * redcoi_call_s(job, again),
                                          .network = gathers->gather_network,
                                          .again_network = gathers->again_network,
                                          .by_layer = redcoi_by_layer(job),
                                          .secondary = redcoi_has_secondary(job),
                                          .layers = layers_of_pass(job)};
    const redcoi_exposed *const exposed = redcoi_exposed_of(job, &traffic);
    forward->exposed_s = exposed->forward_s;
    backward->exposed_s = exposed->backward_s;
}

/* Traffic of parameters and gradients in every micro-batch, and what of it the layer's own compute does not hide. */
static void add_micro_batches(const redcoi_job *job, redco_layer_cost *cost, struct windows windows,
                              struct traffic *forward, struct traffic *backward)
{
    redco_costs *const costs = job->costs;
    const redco_calibration *const c = &costs->calibration;
    const redco_shards *const shards = &job->shards;
    const bool overlap = (costs->workload.overlap & REDCO_OVERLAP_AG_RS) != 0;
    const redco_mesh again_mesh = redcoi_backward_mesh(job);
    const redco_group group = redcoi_group_of(job, shards->parameters, one);
    const redco_group again = redcoi_group_of(job, again_mesh, one);
    bool network = false;
    const bool sharded = redco_mesh_ranks(shards->parameters) > 1;
    const redcoi_gathers *const gathers = sharded ? redcoi_gathers_of(job, group, again) : NULL;
    double calls_s = 0.0, forward_calls_s = 0.0, again_s = 0.0, reduced_s = 0.0;
    if (sharded) {
        add_traffic(forward, c->contention_ratio, gathers->gather_network, gathers->gather_s);
        add_traffic(backward, c->contention_ratio, gathers->scatter_network, gathers->scatter_s);
        forward_calls_s = units_of(job) * redcoi_call_s(job, group);
        calls_s = 2.0 * forward_calls_s;
        if (job->class->kind != REDCO_CLASS_EMBEDDING) { /* looking up has no use of the table in backward */
            again_s = gathers->again_s;
            add_traffic(backward, c->contention_ratio, gathers->again_network, again_s);
            calls_s += units_of(job) * redcoi_call_s(job, again);
        }
    }
    const double window_s = cost->backward_s + cost->recompute_s; /* one micro-batch's so far */
    const double first_s = forward->nvlink_s + forward->network_s + backward->nvlink_s + backward->network_s;
    const bool secondary = redcoi_has_secondary(job); /* its gathers have a stream of their own */
    const bool block = job->class->kind == REDCO_CLASS_BLOCK || job->class->kind == REDCO_CLASS_CROSS;
    forward->exposed_s = forward->nvlink_s + forward->network_s;
    backward->exposed_s = backward->nvlink_s + backward->network_s;
    if (overlap && block && sharded) {
        expose_block(job, group, again, gathers, forward, backward);
        calls_s = forward_calls_s = 0.0; /* it counts them */
    } else if (overlap) {
        forward->exposed_s = unhidden_s(c, *forward, windows.forward);
        backward->exposed_s = unhidden_s(c, *backward, windows.backward);
    }
    const double last_s = forward->exposed_s + backward->exposed_s;
    double other_s = last_s;
    if (!redco_mesh_equal(shards->gradients, shards->parameters)) { /* T_g: reduced in every micro-batch but the last */
        const struct buckets buckets =
            buckets_of(job, redco_parallelism_chunks(job->parallelism), job->parallelism->pp <= 1);
        const redco_group reduce = redcoi_group_of(job, shards->gradients, shards->parameters);
        const redco_collective op =
            job->parallelism->scheme == REDCO_INTRA_TENSOR ? REDCO_REDUCE_SCATTER : REDCO_ALL_REDUCE;
        const double bucket_s = redcoi_comm_s(costs, op, buckets.bytes, reduce, &network);
        const double last_reduce_s =
            buckets.last_count * redcoi_comm_s(costs, op, buckets.last_bytes, reduce, &network) +
            buckets.end_count * bucket_s;
        const double s = buckets.count * bucket_s;
        reduced_s = s + last_reduce_s;
        struct traffic both = overlap ? *backward : (struct traffic){.exposed_s = 0.0};
        other_s += calls_of(&buckets) * c->launch_s + last_reduce_s;
        if ((costs->workload.overlap & REDCO_OVERLAP_AR) != 0) {
            const double kappa = redcoi_contention_ratio(costs, network);
            const double use = use_ratio(c, kappa);
            const double left_s = bucket_window_s(&buckets, kappa, use, s, usable_s(windows.backward, network, use));
            const double alone_s = overlap ? unhidden_s(c, both, windows.backward) : 0.0;
            add_traffic(&both, kappa, network, s);
            other_s += fmax(unhidden_s(c, both, windows.backward) - alone_s, s - use * left_s);
        } else {
            other_s += s;
        }
    }
    /* Embedding or head on a stage that waits for others: nothing of it is exposed. Passes of other stages that this
     * one waits for hand their gradient on before they reduce: what a pipeline's filling and draining take has no T_g.
     */
    const double own = fmin((double)job->parallelism->micro_batches * job->stage.share, job->stage.repeat);
    const double reduced = own - fmin(job->stage.share, own);
    cost->exposed_s += reduced * other_s + (job->stage.repeat - reduced) * last_s + job->stage.repeat * calls_s;
    cost->bare_forward_s = cost->forward_s;
    cost->bare_backward_s = window_s;
    cost->traffic_s = first_s + reduced_s;
    cost->gather_forward_s = forward->nvlink_s + forward->network_s;
    cost->gather_backward_s = again_s;
    cost->stream_s = secondary ? fmax(first_s - again_s, again_s) : first_s;
    cost->pass_forward_s = cost->forward_s + forward->exposed_s + forward_calls_s;
    cost->pass_backward_s = window_s + other_s - forward->exposed_s + calls_s - forward_calls_s;
    cost->once_s = fmin(job->stage.share, own) * (last_s - other_s); /* the last one is not reduced by itself */
}

/* The part of a window that is left for once-a-step traffic: with what computation waits for gathers and launches,
 * undisturbed, less what gathers use of the same link. The slow-down that hidden gathers cause is no wait. */
static double window_left_s(const redcoi_job *job, struct window window, struct traffic used, bool network,
                            double kappa)
{
    const redco_calibration *const c = &job->costs->calibration;
    const double use = use_ratio(c, kappa), y = c->overlap_window_ratio;
    const double same_s = network ? used.network_s : used.nvlink_s;
    if (!(use > 0.0)) { return 0.0; }
    if ((job->costs->workload.overlap & REDCO_OVERLAP_AG_RS) == 0) {
        return usable_s(window, network, use) + (same_s > 0.0 ? 0.0 : used.exposed_s / use);
    }
    const double slowed_s = c->contention_ratio * fmin(used.nvlink_s + used.network_s, y * window.compute_s);
    const double waits_s = fmax(0.0, used.exposed_s - slowed_s) + idle_s(window, network);
    return fmax(0.0, window.compute_s + (same_s > 0.0 ? (waits_s - same_s) / y : waits_s / use));
}

/* A step's windows are written for the traffic that contends least (closed_form.h). What contends more, with factors k,
 * u for their k0, u0, is put in their form: max(k X, X - u C) = (k - k0) X + max(k0 X, X - u0 C'),  u0 C' = u C + (k -
 * k0) X. */
static double as_least_contending(const redcoi_job *job, redco_layer_cost *cost, double kappa, double comm_s,
                                  double window_s)
{
    const redco_calibration *const c = &job->costs->calibration;
    const double least = redcoi_least_contention_ratio(job->costs), least_use = use_ratio(c, least);
    const double more_s = (kappa - least) * comm_s;
    if (!(least_use > 0.0)) { return window_s; }
    cost->exposed_s += more_s;
    return (use_ratio(c, kappa) * window_s + more_s) / least_use;
}

/* Ranks that own a shard each need only that shard of the sum. */
static double reduce_s(const redcoi_job *job, double size_bytes, redco_group group, bool *network_out)
{
    const bool whole = redco_mesh_equal(job->shards.optimizer, job->grid);
    const redco_collective op = whole ? REDCO_REDUCE_SCATTER : REDCO_ALL_REDUCE;
    const double s = redcoi_comm_s(job->costs, op, size_bytes, group, network_out);
    if (!job->least) { return s; }
    return fmin(s, redcoi_comm_s(job->costs, REDCO_ALL_REDUCE, size_bytes, group, network_out));
}

/* Once a step: gradients over all ranks that hold the same parameters, in buckets. The last bucket is full only when
 * backward ends, so nothing hides it. Of several model chunks the first one's have its own last
 * backward to hide behind, those of the others the passes of a group of micro-batches through the chunks before. */
static void add_gradients(const redcoi_job *job, redco_layer_cost *cost, struct window window, struct traffic used)
{
    redco_costs *const costs = job->costs;
    const redco_group group = redcoi_replicas_of(job, job->shards.parameters);
    if (redco_mesh_ranks(group.mesh) <= 1) { return; }
    const struct buckets buckets = buckets_of(job, 1.0, true);
    const double once = job->stage.once;
    bool network = false;
    const double bucket_s = reduce_s(job, buckets.bytes, group, &network);
    const double last_s =
        once * (buckets.last_count * reduce_s(job, buckets.last_bytes, group, &network) + buckets.end_count * bucket_s);
    const double full_s = once * buckets.count * bucket_s;
    const bool overlap = (costs->workload.overlap & REDCO_OVERLAP_AR) != 0;
    cost->grad_comm_s = overlap ? full_s : full_s + last_s;
    cost->exposed_s += (overlap ? last_s : 0.0) + once * calls_of(&buckets) * costs->calibration.launch_s;
    const double kappa = redcoi_contention_ratio(costs, network);
    const redco_pipeline pipeline = redco_parallelism_pipeline(job->parallelism);
    const double own_s = once * window_left_s(job, window, used, network, kappa) / pipeline.chunks;
    const double use = use_ratio(&costs->calibration, kappa), earlier = 1.0 - 1.0 / pipeline.chunks;
    double left_s = own_s;
    if (use > 0.0) {
        left_s += fmin(earlier * (1.0 - kappa - redcoi_hidden_residue_ratio) * full_s / use,
                       (pipeline.chunks - 1.0) * redcoi_last_group(&pipeline) * own_s);
    }
    cost->grad_window_s = bucket_window_s(&buckets, kappa + redcoi_hidden_residue_ratio,
                                          use_ratio(&costs->calibration, kappa), full_s, left_s);
    if (overlap) { cost->grad_window_s = as_least_contending(job, cost, kappa, full_s, cost->grad_window_s); }
}

/* Once a step: updated parameters to the ranks that share them. With several model chunks the first one's have its own
 * first pass to hide behind, those of the others the passes of a group of micro-batches through the chunks before. */
static void add_param_sync(const redcoi_job *job, redco_layer_cost *cost, struct window window, struct traffic used)
{
    redco_costs *const costs = job->costs;
    const redco_group group = redcoi_group_of(job, job->shards.optimizer, job->shards.parameters);
    const double owners = (double)redco_mesh_ranks(group.mesh);
    if (owners <= 1.0) { return; }
    const double shards = (double)redco_mesh_ranks(job->shards.parameters);
    const double rank_bytes = job->state_params * job->element_bytes / shards;
    const double share = job->stage.once * (double)job->times->trained_params / job->state_params;
    const bool inter = job->parallelism->scheme == REDCO_INTER_TENSOR;
    const double calls = inter ? owners : 1.0;
    bool network = false;
    const double s =
        calls * redcoi_comm_s(costs, inter ? REDCO_BROADCAST : REDCO_ALL_GATHER, rank_bytes / calls, group, &network);
    const bool overlap = (costs->workload.overlap & REDCO_OVERLAP_BC) != 0;
    const bool first = overlap && job->class->kind == REDCO_CLASS_EMBEDDING; /* the step begins with it */
    cost->param_sync_comm_s = first ? 0.0 : share * s;
    cost->exposed_s += share * calls * costs->calibration.launch_s + (first ? share * s : 0.0);
    const double kappa = redcoi_contention_ratio(costs, network);
    const redco_pipeline pipeline = redco_parallelism_pipeline(job->parallelism);
    /* Nothing is left to fetch beside a chunk's last layer: the head, or a block. */
    const bool head = job->class->kind == REDCO_CLASS_HEAD;
    const double before = head ? 0.0 : job->parallelism->pp > 1 ? 1.0 - 1.0 / layers_of_pass(job) : 1.0;
    const double left_s = job->stage.once * window_left_s(job, window, used, network, kappa);
    const double use = use_ratio(&costs->calibration, kappa), later = 1.0 - 1.0 / pipeline.chunks;
    cost->param_sync_window_s = before * left_s / pipeline.chunks;
    if (use > 0.0) {
        cost->param_sync_window_s +=
            later *
            fmin((1.0 - kappa - redcoi_hidden_residue_ratio) * cost->param_sync_comm_s / use, pipeline.group * left_s);
    }
    if (overlap) {
        cost->param_sync_window_s =
            as_least_contending(job, cost, kappa, cost->param_sync_comm_s, cost->param_sync_window_s);
    }
}

/* AMSP, arXiv 2311.00257, section IV-C: each component's share of this layer. Bucket counts are ratios, as there. */
static void add_paper_terms(const redcoi_job *job, redco_layer_cost *cost)
{
    const redco_shards *const shards = &job->shards;
    const double params = (double)job->times->params, modules = job->class->modules > 0 ? job->class->modules : 1.0;
    const double shard_count = (double)redco_mesh_ranks(shards->parameters);
    const double module_bytes = params * job->element_bytes / modules;
    const double micro_batches = (double)job->parallelism->micro_batches;
    const redco_group gather = redcoi_group_of(job, shards->parameters, one);
    const redco_group again = redcoi_group_of(job, redcoi_backward_mesh(job), one);
    const double gathers_s =
        raw_s(job, REDCO_ALL_GATHER, module_bytes, gather) + raw_s(job, REDCO_ALL_GATHER, module_bytes, again);
    cost->gather_s = micro_batches * modules * gathers_s;
    const double trained_ratio = params > 0.0 ? (double)job->times->trained_params / params : 1.0;
    cost->reduce_scatter_s =
        micro_batches * modules * raw_s(job, REDCO_REDUCE_SCATTER, module_bytes * trained_ratio, gather);
    const double bucket_bytes = (double)job->costs->workload.bucket_bytes;
    const double trained = (double)job->times->trained_params;
    const double buckets = trained * job->element_bytes / (bucket_bytes * shard_count);
    const redco_group reduce = redcoi_group_of(job, job->grid, shards->parameters);
    cost->grad_reduce_s = buckets * raw_s(job, REDCO_ALL_REDUCE, bucket_bytes, reduce);
    if (!redco_mesh_equal(shards->gradients, shards->parameters)) {
        const redco_group part = redcoi_group_of(job, shards->gradients, shards->parameters);
        cost->grad_shard_s = (micro_batches - 1.0) * buckets * raw_s(job, REDCO_ALL_REDUCE, bucket_bytes, part);
    }
    const redco_group sync = redcoi_group_of(job, shards->optimizer, shards->parameters);
    const double owners = (double)redco_mesh_ranks(sync.mesh);
    const double rank_bytes = job->state_params * job->element_bytes / shard_count;
    const double share = trained / job->state_params;
    cost->broadcast_s = job->parallelism->scheme == REDCO_INTER_TENSOR
                            ? share * owners * raw_s(job, REDCO_BROADCAST, rank_bytes / owners, sync)
                            : share * raw_s(job, REDCO_ALL_GATHER, rank_bytes, sync);
    cost->amsp_s =
        cost->gather_s + cost->reduce_scatter_s + cost->grad_reduce_s + cost->grad_shard_s + cost->broadcast_s;
}

/* The fullest rank's share of one layer's states. Whole tensors (inter-tensor sharding) do not divide evenly, so each
 * layer carries the imbalance of the whole model's assignment in proportion. */
static uint64_t sharded_params(const redcoi_job *job, redco_mesh mesh, bool trained)
{
    const uint64_t parameter_shards = redco_mesh_ranks(job->shards.parameters);
    const uint64_t owners = redco_mesh_ranks(mesh) / parameter_shards;
    /* A stage that holds the head of a tied model without its embedding has a copy of the table. */
    const uint64_t all = job->parallelism->pp > 1 ? job->times->gather_params : job->times->params;
    const uint64_t held = trained ? all - (job->times->params - job->times->trained_params) : all;
    const uint64_t params = redco_share_up(held, 1, parameter_shards);
    if (owners <= 1) { return params; }
    if (job->parallelism->scheme == REDCO_INTRA_TENSOR) { return redco_share_up(params, 1, owners); }
    const uint64_t fullest = redcoi_fullest_owner(job->costs, job->parallelism->tp, owners);
    return redco_share_up(params, fullest, trained ? job->rank->trained_params : job->rank->params);
}

redcoi_states redcoi_layer_states(const redcoi_job *job)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    if (redco_model_graph_work(job->costs->model) != NULL) { return redcoi_graph_states(job); }
    uint64_t params = sharded_params(job, job->shards.parameters, false);
    if (redcoi_has_secondary(job)) {
        params += redco_share_up(job->times->params, 1, redco_mesh_ranks(job->parallelism->secondary));
    }
    const uint64_t owned = sharded_params(job, job->shards.optimizer, true);
    /* FSDP's shards are the 32-bit parameters that the optimizer updates; 16-bit ones are there while gathered. */
    const redco_memory_kind memory = job->costs->workload.engine.memory;
    const bool masters = (memory == REDCO_MEMORY_PYTORCH || memory == REDCO_MEMORY_XLA) &&
                         redco_mesh_ranks(job->shards.parameters) > 1 && bytes.parameter == 2;
    const uint32_t master_bytes = masters ? 4 : 0;
    return (redcoi_states){.owned_params = owned,
                           .parameter_bytes = params * (masters ? master_bytes : bytes.parameter),
                           .gradient_bytes = sharded_params(job, job->shards.gradients, true) * bytes.gradient,
                           .optimizer_bytes = owned * (bytes.optimizer - master_bytes)};
}

/* Values recomputed for the gradients of inputs stay until those of weights are made. Under DualPipe many of these
 * come last, when little else is kept. */
static void add_late(const redcoi_job *job, redco_layer_cost *cost)
{
    const uint64_t late = job->stage.late, of = job->stage.of;
    const uint64_t again = redco_share_up(job->times->recompute_bytes[job->recompute], late, of);
    if (job->parallelism->schedule == REDCO_PIPELINE_ZB_H1) {
        cost->activation_bytes += again;
        return;
    }
    const uint64_t last = again + redco_share_up(job->times->activation_bytes[job->recompute], late, of);
    if (last > cost->activation_bytes) { cost->activation_bytes = last; }
}

static void add_memory(const redcoi_job *job, const redcoi_states *states, redco_layer_cost *cost)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    const uint64_t held = job->stage.held, of = job->stage.of;
    cost->parameter_bytes = redco_share_up(states->parameter_bytes, held, of);
    cost->gradient_bytes = redco_share_up(states->gradient_bytes, held, of);
    cost->optimizer_bytes = redco_share_up(states->optimizer_bytes, held, of);
    cost->activation_bytes = redco_share_up(job->times->activation_bytes[job->recompute], job->stage.kept, of);
    if (job->stage.late > 0 && job->recompute == REDCO_RECOMPUTE_FULL) { add_late(job, cost); }
    cost->transient_bytes[REDCO_TRANSIENT_NCCL] = redcoi_sharded_bytes(job);
    if (job->costs->workload.engine.planned_memory || redco_model_graph_work(job->costs->model) != NULL) {
        redcoi_planned_transients(job, cost);
        return;
    }
    if (redco_mesh_ranks(job->shards.parameters) > 1) { /* this layer's weights and those of the block fetched ahead */
        cost->transient_bytes[REDCO_TRANSIENT_GATHER] =
            (job->times->gather_params + job->rank->block_params) * bytes.parameter;
    }
    if (redco_mesh_ranks(job->shards.gradients) > 1) {
        cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = redcoi_whole_gradient_bytes(job);
    }
    const uint64_t slot_bytes = redcoi_slot_bytes(job);
    if (slot_bytes > cost->transient_bytes[REDCO_TRANSIENT_GRADIENT]) {
        cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = slot_bytes;
    }
    /* Where backward's own buffers are known, those of one layer are there at a time, whatever its policy. */
    const bool one_kind = job->costs->workload.engine.memory != REDCO_MEMORY_FORMULAS;
    const int kind =
        one_kind || job->recompute == REDCO_RECOMPUTE_FULL ? REDCO_TRANSIENT_RECOMPUTE : REDCO_TRANSIENT_SELECTIVE;
    const uint64_t again = job->times->recompute_bytes[job->recompute];
    cost->transient_bytes[kind] = again > job->logits_bytes ? again - job->logits_bytes : 0;
}

double redcoi_optimizer_s(const redco_costs *costs, uint64_t owned_params)
{
    double measured_s = 0.0;
    if (redco_compute_profile_optimizer_s(costs->compute.measured, (double)owned_params, costs->compute.precision,
                                          &measured_s)) {
        return measured_s;
    }
    const double moments = costs->state_bytes.optimizer == 8 && costs->state_bytes.parameter == 2 ? 8.0 : 0.0;
    return (optimizer_traffic_bytes - moments) * costs->calibration.optimizer_factor * (double)owned_params /
           costs->compute.memory_bandwidth_bytes_per_s;
}

double redco_costs_param_s(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redcoi_job job = {.costs = costs,
                            .parallelism = parallelism,
                            .grid = redco_shard_grid(&costs->machine, &costs->workload.engine, parallelism)};
    const redco_group group = redcoi_replicas_of(&job, one);
    const uint64_t params = redco_share_up(redco_model_params(costs->model), 1, parallelism->tp);
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

redcoi_job redcoi_job_of(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                         uint32_t layout, const redco_layer_config *config)
{
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const redcoi_memo *const memo = redcoi_memo_of(costs, parallelism);
    return (redcoi_job){.costs = costs,
                        .parallelism = parallelism,
                        .class = &costs->classes[class_index],
                        .rank = rank,
                        .times = redcoi_times_of(rank, class_index, layout),
                        .stage = memo->stages[class_index],
                        .shards = config->shards,
                        .recompute = config->recompute,
                        .element_bytes = costs->compute.element_bytes,
                        .gradient_bytes = costs->state_bytes.gradient,
                        .logits_bytes = rank->logits_bytes,
                        .state_params = memo->stage_params,
                        .first_params = memo->first_params,
                        .grid = redco_shard_grid(&costs->machine, &costs->workload.engine, parallelism)};
}

static void layout_memory(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                          uint32_t layout, const redco_layer_config *config, redcoi_stage stage, uint64_t logits_bytes,
                          redco_layer_cost *cost_out)
{
    redcoi_job job = redcoi_job_of(costs, parallelism, class_index, layout, config);
    job.stage = stage;
    job.logits_bytes = logits_bytes;
    const redcoi_states states = redcoi_layer_states(&job);
    add_memory(&job, &states, cost_out);
}

void redcoi_layer_memory(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                         const redco_layer_config *config, redcoi_stage stage, uint64_t logits_bytes,
                         redco_layer_cost *cost_out)
{
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    redco_layer_cost sum = {.compute_s = 0.0};
    if (rank->layout_count[class_index] <= 1) {
        layout_memory(costs, parallelism, class_index, 0, config, stage, logits_bytes, cost_out);
        return;
    }
    for (uint32_t i = 0; i < rank->layout_count[class_index]; i++) {
        redco_layer_cost cost = {.compute_s = 0.0};
        layout_memory(costs, parallelism, class_index, i, config, stage, logits_bytes, &cost);
        const uint32_t at = rank->first_layout[class_index] + i;
        redcoi_cost_add(&sum, &cost, rank->members[at], rank->memory_members[at]);
    }
    redcoi_cost_divide(&sum, rank->member_count[class_index], rank->memory_count[class_index]);
    *cost_out = sum;
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
    const redcoi_job job = redcoi_job_of(costs, parallelism, class_index, layout, config);
    const redcoi_times *const times = job.times;
    redco_layer_cost cost = {.forward_s = times->forward_s,
                             .backward_s = times->backward_s + redcoi_keep_gradients_s(&job)};
    const bool block = job.class->kind == REDCO_CLASS_BLOCK || job.class->kind == REDCO_CLASS_CROSS;
    double tp_s = times->tp_forward_s + times->tp_backward_s + times->graph_tp_s;
    if (block) {
        cost.recompute_s = times->recompute_s[config->recompute];
        tp_s += times->recompute_tp_s[config->recompute];
    }
    const double again_s = cost.recompute_s;
    const struct windows windows = windows_of(&job, &cost);
    struct traffic forward = {.exposed_s = 0.0}, backward = {.exposed_s = 0.0};
    add_micro_batches(&job, &cost, windows, &forward, &backward);
    const double passes_exposed_s = cost.exposed_s;
    add_gradients(&job, &cost, windows.backward, backward);
    add_param_sync(&job, &cost, windows.forward, forward);
    cost.once_s += cost.exposed_s - passes_exposed_s;
    if (paper) { add_paper_terms(&job, &cost); }
    const redcoi_states states = redcoi_layer_states(&job);
    add_memory(&job, &states, &cost);
    cost.forward_s *= job.stage.repeat;
    cost.backward_s *= job.stage.repeat;
    cost.recompute_s *= job.stage.again;
    cost.compute_s = cost.forward_s + cost.backward_s + cost.recompute_s;
    cost.tp_s = job.stage.repeat * tp_s;
    cost.optimizer_s = job.stage.once * redcoi_optimizer_s(costs, states.owned_params);
    cost.dynamic_j = dynamic_j(&job, again_s) + costs->compute.power.memory_w * cost.optimizer_s;
    return cost;
}

/* Those terms of layout_cost() that gradients and optimizer states on other meshes add (their reduction in every
 * micro-batch, an all-reduce for a scatter, updated parameters) are left out, and shards are even. Once a step a window
 * is max(k X, X - u C): no less traffic X makes it longer, nor does a longer pass before it, u being below 1. */
static redco_layer_cost least_cost(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                   uint32_t layout, redco_mesh parameters, redco_recompute recompute)
{
    redco_parallelism even = *parallelism;
    even.scheme = REDCO_INTRA_TENSOR;
    const redco_mesh grid = redco_costs_grid(costs, parallelism);
    const redco_layer_config config = {{parameters, grid, grid}, recompute};
    redcoi_job job = redcoi_job_of(costs, &even, class_index, layout, &config);
    const redcoi_times *const times = job.times;
    const redcoi_states states = redcoi_layer_states(&job);
    const double copied_s = redcoi_keep_gradients_s(&job);
    job.least = true;
    job.shards.gradients = parameters;
    redco_layer_cost cost = {.forward_s = times->forward_s,
                             .backward_s = times->backward_s + fmin(copied_s, redcoi_keep_gradients_s(&job))};
    const bool block = job.class->kind == REDCO_CLASS_BLOCK || job.class->kind == REDCO_CLASS_CROSS;
    cost.recompute_s = block ? times->recompute_s[recompute] : 0.0;
    struct traffic forward = {.exposed_s = 0.0}, backward = {.exposed_s = 0.0};
    const struct windows windows = windows_of(&job, &cost);
    add_micro_batches(&job, &cost, windows, &forward, &backward);
    add_gradients(&job, &cost, windows.backward, backward);
    add_memory(&job, &states, &cost);
    cost.compute_s = job.stage.repeat * (cost.forward_s + cost.backward_s + cost.recompute_s);
    return cost;
}

redco_layer_cost redco_cost_layer_least(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                        redco_mesh parameters, redco_recompute recompute)
{
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const uint32_t layouts = rank->layout_count[class_index];
    redco_layer_cost sum = {.compute_s = 0.0};
    for (uint32_t i = 0; i < layouts; i++) {
        redco_layer_cost cost = least_cost(costs, parallelism, class_index, i, parameters, recompute);
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
