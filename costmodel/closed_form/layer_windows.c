/* Traffic of one layer's parameters and gradients, and what of it the layer's own computation hides. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>

static const redco_mesh one = {1, 1};

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
    const bool block = redco_class_is_block(job->class->kind);
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

void redcoi_add_traffic(const redcoi_job *job, redco_layer_cost *cost)
{
    const struct windows windows = windows_of(job, cost);
    struct traffic forward = {.exposed_s = 0.0}, backward = {.exposed_s = 0.0};
    add_micro_batches(job, cost, windows, &forward, &backward);
    const double passes_exposed_s = cost->exposed_s;
    add_gradients(job, cost, windows.backward, backward);
    if (job->least) { return; }
    add_param_sync(job, cost, windows.forward, forward);
    cost->once_s += cost->exposed_s - passes_exposed_s;
}
