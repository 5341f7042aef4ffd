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
    const double again_tp_s = cost->recompute_s > 0.0 ? times->recompute_tp_s[job->set] : 0.0;
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
 * seen: runs with parameters over one node are fitted better without (STEP.md). */
static double sync_s(const redcoi_job *job, redco_group group)
{
    return group.mesh.nodes > 1 ? job->costs->calibration.sync_s * (double)redco_mesh_ranks(group.mesh) : 0.0;
}

bool redcoi_by_layer(const redcoi_job *job)
{
    return job->costs->workload.engine.layer_units || job->own->module_count == 0;
}

double redcoi_call_s(const redcoi_job *job, redco_group group)
{
    return job->costs->calibration.launch_s + (redcoi_by_layer(job) ? 0.0 : sync_s(job, group));
}

/* Gathering (scattering) a layer unit by unit: K modules of a K-th each, or the whole. */
static double units_of(const redcoi_job *job)
{
    return redcoi_by_layer(job) ? 1.0 : job->own->module_count;
}

double redcoi_unit_s(const redcoi_job *job, redco_collective op, redco_group group, double size_bytes,
                     bool *network_out)
{
    /* Shards in the memory of the host are fetched before they are gathered. */
    const bool fetched = op == REDCO_ALL_GATHER && job->costs->workload.engine.offload == REDCO_OFFLOAD_PARAMETERS;
    const double shard_bytes = fetched ? size_bytes / (double)redco_mesh_ranks(group.mesh) : 0.0;
    return redcoi_comm_s(job->costs, op, size_bytes, group, network_out) +
           (redcoi_by_layer(job) ? sync_s(job, group) : 0.0) + redcoi_host_copy_s(job->costs, shard_bytes);
}

static double modules_s(const redcoi_job *job, redco_collective op, redco_group group, double size_bytes, bool *network)
{
    const redcoi_part_params *const own = job->own;
    if (redcoi_by_layer(job) || own->module_params == 0) {
        return units_of(job) * redcoi_unit_s(job, op, group, size_bytes / units_of(job), network);
    }
    double seconds = 0.0;
    for (uint32_t i = 0; i < own->module_size_count; i++) {
        const double share = (double)own->modules[i].params / (double)own->module_params;
        seconds += own->modules[i].count * redcoi_unit_s(job, op, group, share * size_bytes, network);
    }
    return seconds;
}

redcoi_gathers redcoi_price_gathers(const redcoi_job *job, redco_group group, redco_group again)
{
    const double bytes = (double)job->own->gather_params * job->element_bytes;
    const double gradient_bytes = (double)job->own->trained_params * job->gradient_bytes;
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
    const double own = (double)job->own->trained_params;
    /* An edge beside which the fullest stage is small (redcoi_stages_once()) fills a pass of its own stage. */
    const double pass_params = fmax(job->state_params / passes, own);
    const double rank_bytes = pass_params * job->gradient_bytes / shards;
    const double first_bytes = end ? job->first_params * job->gradient_bytes / shards : 0.0;
    const double bucket_bytes = (double)job->costs->workload.bucket_bytes;
    if (!(rank_bytes > 0.0)) { return (struct buckets){.full = 0.0}; }
    const double share = own / pass_params;
    const bool first = first_bytes > 0.0 && job->class->kind == REDCO_CLASS_EMBEDDING;
    const double before = first_bytes > 0.0 ? pass_params - job->first_params : pass_params;
    const double pass_bytes = fmax(bucket_bytes, rank_bytes - first_bytes);
    const double all = ceil(rank_bytes / bucket_bytes) - 1.0;
    const double full = fmin(all, floor((rank_bytes - first_bytes) / bucket_bytes));
    return (struct buckets){.bytes = bucket_bytes,
                            .count = first || !(before > 0.0) ? 0.0 : own / before * full,
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

/* Layers that a pass through a model chunk goes through one after the other: blocks of all kinds. */
static uint32_t layers_of_pass(const redcoi_job *job)
{
    const double chunks = redco_parallelism_chunks(job->parallelism);
    const uint32_t alike = redco_class_is_block(job->class->kind) ? job->costs->blocks : job->class->layers;
    const double layers = (double)alike * (double)job->stage.held / (double)job->stage.of / chunks;
    return (uint32_t)fmax(1.0, round(layers));
}

/* Gathers and scatters of one micro-batch, of all parts that are sharded. */
struct gathered {
    redcoi_shard_traffic traffic;
    bool any, scatter_network;
};

static struct gathered gathers_of(const redcoi_job *job, struct traffic *forward, struct traffic *backward)
{
    const double kappa = job->costs->calibration.contention_ratio;
    const uint32_t parts = redcoi_job_parts(job);
    struct gathered all = {.traffic = {.by_layer = redcoi_by_layer(job),
                                       .secondary = redcoi_has_secondary(job), /* its gathers have their own stream */
                                       .layers = layers_of_pass(job)}};
    for (redco_param_part p = REDCO_PART_DENSE; p < parts; p++) {
        redcoi_job part = redcoi_job_part(job, p);
        redcoi_part_params unit = *part.own;
        if (redco_mesh_ranks(part.shards.parameters) <= 1) { continue; }
        if (redcoi_by_layer(job) && parts > 1) { /* experts on the same grid are of the layer's unit */
            const redcoi_job experts = redcoi_job_part(job, REDCO_PART_EXPERTS);
            const bool one_unit = !redcoi_has_expert_grid(&experts);
            if (one_unit && p == REDCO_PART_EXPERTS) { continue; }
            unit.gather_params += one_unit ? experts.own->gather_params : 0;
            unit.trained_params += one_unit ? experts.own->trained_params : 0;
            part.own = &unit;
        }
        const redco_group group = redcoi_group_of(&part, part.shards.parameters, one);
        const redco_group again = redcoi_group_of(&part, redcoi_backward_mesh(&part), one);
        const redcoi_gathers *const gathers = redcoi_gathers_of(&part, group, again);
        redcoi_shard_traffic *const traffic = &all.traffic;
        all.any = true;
        add_traffic(forward, kappa, gathers->gather_network, gathers->gather_s);
        add_traffic(backward, kappa, gathers->scatter_network, gathers->scatter_s);
        traffic->gather_s += gathers->gather_s;
        traffic->scatter_s += gathers->scatter_s;
        traffic->again_s += gathers->again_s;
        traffic->calls_s += units_of(&part) * redcoi_call_s(&part, group);
        traffic->again_calls_s += units_of(&part) * redcoi_call_s(&part, again);
        traffic->network = traffic->network || gathers->gather_network;
        traffic->again_network = traffic->again_network || gathers->again_network;
        if (job->class->kind != REDCO_CLASS_EMBEDDING) { /* looking up has no use of the table in backward */
            add_traffic(backward, kappa, gathers->again_network, gathers->again_s);
        }
    }
    return all;
}

/* Gradients that are reduced in every micro-batch but the last, of one part: AMSP's T_g. */
struct reduced {
    double seconds;  /* all of them */
    double window_s; /* those that fill while the pass goes on */
    double alone_s;  /* launches, and what comes at its end */
    double left_s;   /* seconds of the window that they can use */
    bool network, any;
};

static struct reduced reduced_of(const redcoi_job *job, struct window window)
{
    redco_costs *const costs = job->costs;
    const redco_calibration *const c = &costs->calibration;
    struct reduced r = {.any = !redco_mesh_equal(job->shards.gradients, job->shards.parameters)};
    if (!r.any) { return r; }
    const struct buckets buckets =
        buckets_of(job, redco_parallelism_chunks(job->parallelism), job->parallelism->pp <= 1);
    const redco_group group = redcoi_group_of(job, job->shards.gradients, job->shards.parameters);
    const redco_collective op =
        job->parallelism->scheme == REDCO_INTRA_TENSOR ? REDCO_REDUCE_SCATTER : REDCO_ALL_REDUCE;
    const double bucket_s = redcoi_comm_s(costs, op, buckets.bytes, group, &r.network);
    const double last_s = buckets.last_count * redcoi_comm_s(costs, op, buckets.last_bytes, group, &r.network) +
                          buckets.end_count * bucket_s;
    const double kappa = redcoi_contention_ratio(costs, r.network), use = use_ratio(c, kappa);
    r.window_s = buckets.count * bucket_s;
    r.seconds = r.window_s + last_s;
    r.alone_s = calls_of(&buckets) * c->launch_s + last_s;
    r.left_s = bucket_window_s(&buckets, kappa, use, r.window_s, usable_s(window, r.network, use));
    return r;
}

/* Passes of the layer on the longest way through a pipeline after which nothing is reduced: that of the last
 * micro-batch, and those of the bubble, whose stages hand their gradient on before they reduce.
 * @param own  passes of the layer on its own stage */
static double unreduced_passes(const redcoi_job *job, double own)
{
    const double pp = job->parallelism->pp, chunks = redco_parallelism_chunks(job->parallelism);
    if (pp <= 1.0 || !redco_class_is_block(job->class->kind)) { return fmin(job->stage.share, own); }
    if ((double)job->parallelism->micro_batches < pp) { return 1.0; }
    return fmin(1.0, job->stage.share * (1.0 + (pp - 1.0) / chunks));
}

/* Traffic of parameters and gradients in every micro-batch, and what of it the layer's own compute does not hide. */
static void add_micro_batches(const redcoi_job *job, redco_layer_cost *cost, struct windows windows,
                              struct traffic *forward, struct traffic *backward)
{
    redco_costs *const costs = job->costs;
    const redco_calibration *const c = &costs->calibration;
    const bool overlap = (costs->workload.overlap & REDCO_OVERLAP_AG_RS) != 0;
    const struct gathered gathered = gathers_of(job, forward, backward);
    const redcoi_shard_traffic *const traffic = &gathered.traffic;
    const bool table = job->class->kind == REDCO_CLASS_EMBEDDING;
    const double again_s = table ? 0.0 : traffic->again_s;
    double forward_calls_s = traffic->calls_s;
    double calls_s = 2.0 * forward_calls_s + (table ? 0.0 : traffic->again_calls_s), reduced_s = 0.0;
    const double window_s = cost->backward_s + cost->recompute_s; /* one micro-batch's so far */
    const double first_s = forward->nvlink_s + forward->network_s + backward->nvlink_s + backward->network_s;
    forward->exposed_s = forward->nvlink_s + forward->network_s;
    backward->exposed_s = backward->nvlink_s + backward->network_s;
    if (overlap && redco_class_is_block(job->class->kind) && gathered.any) {
        const redcoi_exposed *const exposed =
            redcoi_exposed_of(job, traffic); /* between others like it, with launches */
        forward->exposed_s = exposed->forward_s;
        backward->exposed_s = exposed->backward_s;
        calls_s = forward_calls_s = 0.0;
    } else if (overlap) {
        forward->exposed_s = unhidden_s(c, *forward, windows.forward);
        backward->exposed_s = unhidden_s(c, *backward, windows.backward);
    }
    const double last_s = forward->exposed_s + backward->exposed_s;
    double other_s = last_s;
    struct traffic both = overlap ? *backward : (struct traffic){.exposed_s = 0.0};
    const uint32_t parts = redcoi_job_parts(job);
    for (redco_param_part p = REDCO_PART_DENSE; p < parts; p++) {
        const redcoi_job part = redcoi_job_part(job, p);
        const struct reduced r = reduced_of(&part, windows.backward);
        if (!r.any) { continue; }
        reduced_s += r.seconds;
        other_s += r.alone_s;
        if ((costs->workload.overlap & REDCO_OVERLAP_AR) != 0) {
            const double kappa = redcoi_contention_ratio(costs, r.network), use = use_ratio(c, kappa);
            const double alone_s = overlap || p > REDCO_PART_DENSE ? unhidden_s(c, both, windows.backward) : 0.0;
            add_traffic(&both, kappa, r.network, r.window_s);
            other_s += fmax(unhidden_s(c, both, windows.backward) - alone_s, r.window_s - use * r.left_s);
        } else {
            other_s += r.window_s;
        }
    }
    /* Embedding or head on a stage that waits for others: nothing of it is exposed. Passes of other stages that this
     * one waits for hand their gradient on before they reduce: the pipeline's bubble has no T_g. */
    const double own = fmin((double)job->parallelism->micro_batches * job->stage.share, job->stage.repeat);
    const double reduced = own - fmin(job->stage.share, own);
    cost->exposed_s += reduced * other_s + (job->stage.repeat - reduced) * last_s + job->stage.repeat * calls_s;
    cost->bare_forward_s = cost->forward_s;
    cost->bare_backward_s = window_s;
    cost->traffic_s = first_s + reduced_s;
    cost->gather_forward_s = forward->nvlink_s + forward->network_s;
    cost->gather_backward_s = again_s;
    cost->stream_s = traffic->secondary ? fmax(first_s - again_s, again_s) : first_s;
    cost->pass_forward_s = cost->forward_s + forward->exposed_s + forward_calls_s;
    cost->pass_backward_s = window_s + other_s - forward->exposed_s + calls_s - forward_calls_s;
    cost->once_s = unreduced_passes(job, own) * (last_s - other_s);
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

/* Transfers between stages that once-a-step traffic delays: the two share a NIC. Interleaved stages wait for each
 * transfer of the last group of micro-batches (redcoi_interleaved_s()). Its last micro-batch leaves a chunk as the
 * chunk's gradients set out, on every rank; on its way down the first one meets parameters that are fetched without a
 * pause, of every hop that they last.
 * @param comm_s     of one layer
 * @param compute_s  of one layer, between whose chunks the first micro-batch is sent; 0 = each transfer is met
 * @return this layer's share of its chunk's */
static double delayed_transfers_s(const redcoi_job *job, double comm_s, bool network, double compute_s)
{
    const redco_pipeline pipeline = redco_parallelism_pipeline(job->parallelism);
    if (!network || pipeline.kind != REDCO_PIPELINE_INTERLEAVED || !redco_class_is_block(job->class->kind)) {
        return 0.0;
    }
    bool over_nodes = false;
    const double send_s = redcoi_stage_transfer_s(job->costs, job->parallelism, NULL, &over_nodes);
    const double pp = job->parallelism->pp, layers = fmax(1.0, job->costs->blocks / (pp * pipeline.chunks));
    if (!over_nodes) { return 0.0; }
    const double met = compute_s > 0.0 ? fmin(pp, layers * comm_s / (layers * compute_s + send_s)) : pp;
    return met * fmin(send_s, layers * comm_s) / layers;
}

/* Once a step: gradients of a part over all ranks that hold the same parameters, in buckets. The last bucket is full
 * only when backward ends, so nothing hides it. Of several model chunks the first one's have its own last backward to
 * hide behind, those of the others the passes of a group of micro-batches through the chunks before. */
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
    cost->grad_comm_s += overlap ? full_s : full_s + last_s;
    cost->exposed_s += (overlap ? last_s : 0.0) + once * calls_of(&buckets) * costs->calibration.launch_s;
    const double kappa = redcoi_contention_ratio(costs, network);
    const redco_pipeline pipeline = redco_parallelism_pipeline(job->parallelism);
    const double own_s = once * window_left_s(job, window, used, network, kappa) / pipeline.chunks;
    if (overlap && !job->least) {
        cost->exposed_s += once * delayed_transfers_s(job, buckets.count * bucket_s, network, 0.0);
    }
    const double use = use_ratio(&costs->calibration, kappa), earlier = 1.0 - 1.0 / pipeline.chunks;
    double left_s = own_s;
    if (use > 0.0) {
        left_s += fmin(earlier * (1.0 - kappa - redcoi_hidden_residue_ratio) * full_s / use,
                       (pipeline.chunks - 1.0) * redcoi_last_group(&pipeline) * own_s);
    }
    double window_s = bucket_window_s(&buckets, kappa + redcoi_hidden_residue_ratio, use, full_s, left_s);
    if (overlap) { window_s = as_least_contending(job, cost, kappa, full_s, window_s); }
    cost->grad_window_s = fmax(cost->grad_window_s, window_s); /* all parts have the same one */
}

/* Once a step: updated parameters of a part to the ranks that share them. With several model chunks the first one's
 * have its own first pass to hide behind, those of the others the passes of a group of micro-batches through the chunks
 * before. */
static void add_param_sync(const redcoi_job *job, redco_layer_cost *cost, struct window window, struct traffic used)
{
    redco_costs *const costs = job->costs;
    const redco_group group = redcoi_group_of(job, job->shards.optimizer, job->shards.parameters);
    const double owners = (double)redco_mesh_ranks(group.mesh);
    if (owners <= 1.0) { return; }
    const double shards = (double)redco_mesh_ranks(job->shards.parameters);
    const double rank_bytes = job->state_params * job->element_bytes / shards;
    const double share = job->stage.once * (double)job->own->trained_params / job->state_params;
    const bool inter = job->parallelism->scheme == REDCO_INTER_TENSOR;
    const double calls = inter ? owners : 1.0;
    bool network = false;
    const double s =
        calls * redcoi_comm_s(costs, inter ? REDCO_BROADCAST : REDCO_ALL_GATHER, rank_bytes / calls, group, &network);
    const bool overlap = (costs->workload.overlap & REDCO_OVERLAP_BC) != 0;
    const bool first = overlap && job->class->kind == REDCO_CLASS_EMBEDDING; /* the step begins with it */
    const double comm_s = first ? 0.0 : share * s;
    cost->param_sync_comm_s += comm_s;
    cost->exposed_s += share * calls * costs->calibration.launch_s + (first ? share * s : 0.0);
    const double kappa = redcoi_contention_ratio(costs, network);
    const redco_pipeline pipeline = redco_parallelism_pipeline(job->parallelism);
    /* Nothing is left to fetch beside a chunk's last layer: the head, or a block. */
    const bool head = job->class->kind == REDCO_CLASS_HEAD;
    const double before = head ? 0.0 : job->parallelism->pp > 1 ? 1.0 - 1.0 / layers_of_pass(job) : 1.0;
    const double left_s = job->stage.once * window_left_s(job, window, used, network, kappa);
    const double use = use_ratio(&costs->calibration, kappa), later = 1.0 - 1.0 / pipeline.chunks;
    double window_s = before * left_s / pipeline.chunks;
    if (overlap) {
        const double fetch_s = s * (double)job->own->trained_params / job->state_params;
        cost->exposed_s += job->stage.once * delayed_transfers_s(job, fetch_s, network, window.compute_s);
    }
    if (use > 0.0) {
        window_s += later * fmin((1.0 - kappa - redcoi_hidden_residue_ratio) * comm_s / use, pipeline.group * left_s);
    }
    if (overlap) { window_s = as_least_contending(job, cost, kappa, comm_s, window_s); }
    cost->param_sync_window_s = fmax(cost->param_sync_window_s, window_s);
}

void redcoi_add_traffic(const redcoi_job *job, redco_layer_cost *cost)
{
    const struct windows windows = windows_of(job, cost);
    struct traffic forward = {.exposed_s = 0.0}, backward = {.exposed_s = 0.0};
    add_micro_batches(job, cost, windows, &forward, &backward);
    const double passes_exposed_s = cost->exposed_s;
    const uint32_t parts = redcoi_job_parts(job);
    for (redco_param_part p = REDCO_PART_DENSE; p < parts; p++) {
        const redcoi_job part = redcoi_job_part(job, p);
        add_gradients(&part, cost, windows.backward, backward);
        if (!job->least) { add_param_sync(&part, cost, windows.forward, forward); }
    }
    if (job->least) { return; }
    cost->once_s += cost->exposed_s - passes_exposed_s;
}
