#include "planner/answer/explain.h"

#include "planner/answer/priced.h"
#include "planner/search/strategy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const double redco_help_ratio = 0.1;

/* Layers of a class that share a configuration: stages name it again and again. */
static uint64_t layers_alike(const redco_candidate *candidate, const redco_assignment *like)
{
    uint64_t layers = 0;
    for (uint32_t i = 0; i < candidate->assignment_count; i++) {
        const redco_assignment *other = &candidate->assignments[i];
        const bool alike = other->class_index == like->class_index &&
                           other->config.recompute == like->config.recompute &&
                           redco_shards_equal(other->config.shards, like->config.shards);
        layers += alike ? other->layers : 0;
    }
    return layers;
}

const redco_assignment *redco_main_assignment(const redco_candidate *candidate)
{
    const redco_assignment *most = &candidate->assignments[0];
    uint64_t most_layers = layers_alike(candidate, most);
    for (uint32_t i = 1; i < candidate->assignment_count; i++) {
        const uint64_t layers = layers_alike(candidate, &candidate->assignments[i]);
        if (layers <= most_layers) { continue; }
        most = &candidate->assignments[i];
        most_layers = layers;
    }
    return most;
}

double redco_cost_ratio(double objective, double best)
{
    if (best > 0.0) { return objective / best - 1.0; }
    return objective > 0.0 ? (double)INFINITY : 0.0;
}

double redco_candidate_ratio(const redco_search_options *options, const redco_candidate *candidate,
                             const redco_candidate *best)
{
    const bool comm = options->objective == REDCO_OBJECTIVE_COMM;
    return comm ? redco_cost_ratio(candidate->objective, best->objective)
                : redco_cost_ratio(candidate->prediction.step_s, best->prediction.step_s);
}

/* Stages, context parallelism or chunks: 1 is a choice, too, where the search would try more. */
static bool is_given(uint32_t degree)
{
    return degree != 0 && !redco_degree_is_free(degree);
}

static bool is_switched(redco_switch given)
{
    return given == REDCO_OFF || given == REDCO_ON;
}

bool redco_options_fixed(const redco_search_options *options)
{
    return options->tp != 0 || is_given(options->pp) || is_given(options->cp) || is_given(options->chunks) ||
           is_switched(options->sequence_parallel) || options->micro_batch != 0 || options->schedule_given ||
           options->group != 0 || options->equal_stages || options->recompute != REDCO_RECOMPUTE_COUNT ||
           options->modules || options->scheme_fixed || (options->cp_type_fixed && options->cp != 1) ||
           options->strategy != REDCO_STRATEGY_ANY || options->fix.parameters.gpus != 0 ||
           options->fix.gradients.gpus != 0 || options->fix.optimizer.gpus != 0 || options->fix_secondary.gpus != 0;
}

redco_search_options redco_options_freed(const redco_search_options *options)
{
    redco_search_options freed = *options;
    freed.tp = 0;
    if (is_given(freed.pp)) { freed.pp = REDCO_DEGREE_MEASURED; }
    if (is_given(freed.cp)) { freed.cp = REDCO_DEGREE_MEASURED; }
    if (is_given(freed.chunks)) { freed.chunks = REDCO_DEGREE_AUTO; }
    freed.schedule = REDCO_PIPELINE_1F1B;
    freed.schedule_given = false;
    freed.group = 0;
    freed.split = NULL;
    freed.equal_stages = false;
    if (is_switched(freed.sequence_parallel)) { freed.sequence_parallel = REDCO_EITHER; }
    freed.cp_type_fixed = false;
    freed.micro_batch = 0;
    freed.recompute = REDCO_RECOMPUTE_COUNT;
    if ((freed.offers & REDCO_OFFERS_FULL) != 0) { freed.workload.engine.partial_recompute = false; } /* tried, too */
    freed.modules = false;
    freed.scheme_fixed = false;
    freed.strategy = REDCO_STRATEGY_ANY;
    freed.fix = (redco_shards){0};
    freed.fix_secondary = (redco_mesh){0, 0};
    freed.verify = false;
    freed.top = 1;
    return freed;
}

/* More rate of a GPU's links; of its slot, where there are none. */
static const char *improve_links(redco_machine *machine)
{
    const double more = 1.0 + redco_help_ratio;
    if (machine->link_group_gpus <= 1) {
        machine->peer_bytes_per_s *= more;
        machine->gpu.pcie_bytes_per_s *= more;
        return "node link";
    }
    machine->scale_up_bytes_per_s *= more;
    machine->gpu.scale_up_bytes_per_s *= more;
    for (size_t i = 0; i < sizeof machine->links_bytes_per_s / sizeof machine->links_bytes_per_s[0][0]; i++) {
        machine->links_bytes_per_s[i / REDCO_ORDER_GPUS][i % REDCO_ORDER_GPUS] *= more;
    }
    return machine->gpu.nvlink ? "NVLink" : "node link";
}

/* 10 % more of one thing, and what it is called. Rates are those of the data sheet: a machine that has them is priced
 * alike. What no rate explains is the time of host and launches, latencies and waits. */
static const char *improve(int index, redco_machine *machine, redco_calibration *c)
{
    const double more = 1.0 + redco_help_ratio;
    double *const waits[] = {&c->kernel_s,          &c->launch_s,        &c->sync_s,
                             &c->tp_launch_s,       &c->host_forward_s,  &c->host_backward_s,
                             &c->host_collective_s, &c->step_overhead_s, &c->latency_factor};
    switch (index) {
    case REDCO_HELP_NIC:
        machine->nic_bytes_per_s *= more;
        machine->node_network_bytes_per_s *= more;
        return "NIC";
    case REDCO_HELP_LINK: return improve_links(machine);
    case REDCO_HELP_MEMORY:
        machine->gpu.memory_bytes = (uint64_t)((double)machine->gpu.memory_bytes * more);
        return "memory";
    case REDCO_HELP_MEMORY_RATE: machine->gpu.memory_bandwidth_bytes_per_s *= more; return "memory rate";
    case REDCO_HELP_COMPUTE:
        machine->gpu.fp16_flops_per_s *= more;
        machine->gpu.bf16_flops_per_s *= more;
        machine->gpu.fp8_flops_per_s *= more;
        machine->gpu.fp4_flops_per_s *= more;
        machine->gpu.tf32_flops_per_s *= more;
        machine->gpu.fp32_flops_per_s *= more;
        return "compute";
    default:
        for (size_t i = 0; i < sizeof waits / sizeof waits[0]; i++) { *waits[i] /= more; }
        return "host and latency";
    }
}

/* The same plan there. @param rates  whether collectives have other rates, too */
static redco_status price_there(redco_inputs inputs, bool rates, const redco_search_options *options,
                                const redco_candidate *best, double *step_s_out, redco_error *err)
{
    redco_costs *costs = NULL;
    redco_comm *comm = NULL;
    redco_candidate there = *best;
    redco_status st = rates ? redco_comm_at_rates(inputs.comm, &inputs.machine, &comm, err) : REDCO_OK;
    if (rates) { inputs.comm = comm; }
    if (st == REDCO_OK) { st = redco_costs_of(&inputs, options, &costs, err); }
    if (st == REDCO_OK) { st = redco_candidate_price(costs, &there, err); }
    redco_costs_free(costs);
    redco_comm_free(comm);
    *step_s_out = there.prediction.step_s;
    return st;
}

/* More memory gives nothing to the same plan, nor to those that fit as it is: the best of all others there. */
static redco_status search_there(const redco_inputs *inputs, const redco_search_options *options,
                                 uint64_t capacity_bytes, double *step_s_out, redco_error *err)
{
    redco_search_options quick = *options;
    redco_search_result *result = NULL;
    if (options->strategy != REDCO_STRATEGY_AMSP) { quick.limit_s = *step_s_out; }
    quick.above_bytes = (uint64_t)((double)capacity_bytes * (1.0 - redco_memory_ratio));
    quick.verify = false;
    quick.brief = true;
    quick.top = 1;
    const redco_status st = redco_search_priced(inputs, &quick, &result, err);
    if (st != REDCO_OK) { return st; }
    if (result->ranked_count > 0) { *step_s_out = fmin(*step_s_out, result->ranked[0].prediction.step_s); }
    redco_search_result_free(result);
    return REDCO_OK;
}

redco_status redco_would_help(const redco_inputs *inputs, const redco_search_options *options,
                              const redco_search_result *found, redco_help help_out[REDCO_HELP_COUNT], redco_error *err)
{
    const redco_candidate *const best = &found->ranked[0];
    redco_inputs all = *inputs;
    for (int i = 0; i < REDCO_HELP_COUNT; i++) {
        redco_inputs there = *inputs;
        double step_s = best->prediction.step_s;
        const bool joint = i == REDCO_HELP_ALL;
        help_out[i] = (redco_help){.what = joint ? "all of them" : improve(i, &there.machine, &there.calibration)};
        if (!joint && i != REDCO_HELP_MEMORY) { (void)improve(i, &all.machine, &all.calibration); }
        redco_status st = REDCO_OK;
        if (i != REDCO_HELP_MEMORY) {
            const bool rates = joint || i == REDCO_HELP_NIC || i == REDCO_HELP_LINK;
            st = price_there(joint ? all : there, rates, options, best, &step_s, err);
        } else if (found->roomier_s > 0.0) {
            step_s = found->roomier_s;
        } else {
            st = search_there(&there, options, best->prediction.capacity_bytes, &step_s, err);
        }
        if (st != REDCO_OK) { return st; }
        help_out[i].gain_ratio = fmax(0.0, best->prediction.step_s / step_s - 1.0);
    }
    return REDCO_OK;
}

struct explorer {
    const redco_inputs *inputs;
    const redco_search_options *options;
    const redco_candidate *best;
    redco_neighbour *out;
    size_t count;
    redco_error *err;
};

static redco_status try_one(struct explorer *explorer, const redco_search_options *options, const char *what)
{
    redco_search_result *result = NULL;
    redco_error why = {0};
    const redco_inputs *inputs = explorer->inputs;
    if (explorer->count == REDCO_MOST_NEIGHBOURS) { return REDCO_OK; }
    redco_neighbour *neighbour = &explorer->out[explorer->count++];
    *neighbour = (redco_neighbour){0};
    (void)snprintf(neighbour->what, sizeof neighbour->what, "%s", what);
    const redco_status st = redco_search_priced(inputs, options, &result, &why);
    if (st == REDCO_EVALUE) {
        (void)snprintf(neighbour->reason, sizeof neighbour->reason, "%.150s", why.text);
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(explorer->err, st, why.place, "%s", why.text); }
    if (result->ranked_count == 0) {
        neighbour->short_bytes = result->shortfall.short_bytes;
    } else {
        const redco_candidate *found = &result->ranked[0];
        neighbour->feasible = true;
        neighbour->cost_ratio = redco_candidate_ratio(explorer->options, found, explorer->best);
        neighbour->parallelism = found->parallelism;
        neighbour->shards = redco_main_assignment(found)->config.shards;
        neighbour->step_s = found->prediction.step_s;
    }
    redco_search_result_free(result);
    return REDCO_OK;
}

/* The result stays, but for the one thing that a caller moves next. */
static redco_search_options around(const struct explorer *explorer)
{
    redco_search_options options = *explorer->options;
    options.tp = explorer->best->parallelism.tp;
    options.pp = explorer->best->parallelism.pp;
    options.cp = explorer->best->parallelism.cp;
    options.micro_batch = explorer->best->parallelism.micro_batch;
    options.strategy = REDCO_STRATEGY_ANY;
    options.layerwise = false;
    options.verify = false;
    options.top = 1;
    return options;
}

static redco_status try_meshes(struct explorer *explorer, size_t offset, const char *name)
{
    redco_mesh *chain = NULL;
    size_t length = 0;
    redco_mesh now;
    memcpy(&now, (const char *)&redco_main_assignment(explorer->best)->config.shards + offset, sizeof now);
    redco_status st = redco_mesh_options(
        redco_shard_grid(&explorer->inputs->machine, &explorer->options->workload.engine, &explorer->best->parallelism),
        &chain, &length, explorer->err);
    if (st != REDCO_OK) { return st; }
    size_t at = 0;
    while (at < length && !redco_mesh_equal(chain[at], now)) { at++; }
    for (int step = -1; step <= 1 && st == REDCO_OK && at < length; step += 2) {
        char what[48];
        if ((step < 0 && at == 0) || (step > 0 && at + 1 == length)) { continue; }
        const redco_mesh moved = chain[step < 0 ? at - 1 : at + 1];
        redco_search_options options = around(explorer);
        options.fix = (redco_shards){0};
        memcpy((char *)&options.fix + offset, &moved, sizeof moved);
        (void)snprintf(what, sizeof what, "%s %u\xc3\x97%u", name, moved.gpus, moved.nodes);
        st = try_one(explorer, &options, what);
    }
    free(chain);
    return st;
}

/* The next divisor of @p whole below or above @p now, 0 if there is none within a factor of 64. */
static uint64_t next_divisor(uint64_t whole, uint64_t now, int step)
{
    const uint64_t least = step < 0 ? 1 : now;
    const uint64_t most = step < 0 ? now : now * 64;
    for (uint64_t d = step < 0 ? now - 1 : now + 1; d >= least && d <= most && d <= whole;
         d = step < 0 ? d - 1 : d + 1) {
        if (whole % d == 0) { return d; }
    }
    return 0;
}

/* One of the degrees moved to the next divisor of @p whole. @param offset  of the degree in redco_search_options */
static redco_status try_degree(struct explorer *explorer, const char *name, size_t offset, uint64_t whole, uint32_t now,
                               int step)
{
    char what[48];
    const uint64_t moved = next_divisor(whole, now, step);
    if (moved == 0 || moved > UINT32_MAX) { return REDCO_OK; }
    const uint32_t degree = (uint32_t)moved;
    redco_search_options options = around(explorer);
    memcpy((char *)&options + offset, &degree, sizeof degree);
    options.micro_batch = explorer->options->micro_batch;
    options.fix = (redco_shards){0};
    (void)snprintf(what, sizeof what, "%s %u", name, degree);
    return try_one(explorer, &options, what);
}

/* T_comm leaves the traffic of all three out. */
static redco_status try_degrees(struct explorer *explorer)
{
    const redco_machine *machine = &explorer->inputs->machine;
    const redco_parallelism *now = &explorer->best->parallelism;
    const uint64_t ranks = (uint64_t)machine->nodes * machine->gpus_per_node / now->tp;
    const bool comm = explorer->options->objective == REDCO_OBJECTIVE_COMM;
    redco_status st = REDCO_OK;
    for (int step = -1; step <= 1 && st == REDCO_OK; step += 2) {
        st = try_degree(explorer, "tp", offsetof(redco_search_options, tp), machine->gpus_per_node, now->tp, step);
    }
    for (int step = -1; step <= 1 && st == REDCO_OK && !comm; step += 2) {
        st = try_degree(explorer, "pp", offsetof(redco_search_options, pp), ranks / now->cp, now->pp, step);
    }
    for (int step = -1; step <= 1 && st == REDCO_OK && !comm; step += 2) {
        st = try_degree(explorer, "cp", offsetof(redco_search_options, cp), ranks / now->pp, now->cp, step);
    }
    return st;
}

static redco_status try_micro_batch(struct explorer *explorer, int step)
{
    char what[48];
    const redco_parallelism *parallelism = &explorer->best->parallelism;
    const uint64_t replica = parallelism->micro_batches * parallelism->micro_batch;
    const uint64_t moved = next_divisor(replica, parallelism->micro_batch, step);
    if (moved == 0 || moved > UINT32_MAX) { return REDCO_OK; }
    redco_search_options options = around(explorer);
    options.micro_batch = (uint32_t)moved;
    (void)snprintf(what, sizeof what, "micro-batch %u", options.micro_batch);
    return try_one(explorer, &options, what);
}

static bool is_policy_of_all(const redco_candidate *candidate, redco_recompute policy)
{
    for (uint32_t i = 0; i < candidate->assignment_count; i++) {
        if (candidate->assignments[i].layers > 0 && candidate->assignments[i].config.recompute != policy) {
            return false;
        }
    }
    return true;
}

static redco_status try_recompute(struct explorer *explorer, redco_recompute policy, const char *word)
{
    char what[48];
    if (is_policy_of_all(explorer->best, policy) || !redco_search_offers(explorer->options, policy)) {
        return REDCO_OK;
    }
    redco_search_options options = around(explorer);
    options.recompute = policy;
    (void)snprintf(what, sizeof what, "recompute %s", word);
    return try_one(explorer, &options, what);
}

redco_status redco_neighbours(const redco_inputs *inputs, const redco_search_options *options,
                              const redco_candidate *best, redco_neighbour *neighbours_out, size_t *count_out,
                              redco_error *err)
{
    struct explorer explorer = {.inputs = inputs, .options = options, .best = best, .out = neighbours_out, .err = err};
    redco_status st = REDCO_OK;
    if ((st = try_meshes(&explorer, offsetof(redco_shards, parameters), "parameters")) != REDCO_OK ||
        (st = try_meshes(&explorer, offsetof(redco_shards, gradients), "gradients")) != REDCO_OK ||
        (st = try_meshes(&explorer, offsetof(redco_shards, optimizer), "optimizer")) != REDCO_OK ||
        (st = try_degrees(&explorer)) != REDCO_OK || (st = try_micro_batch(&explorer, -1)) != REDCO_OK ||
        (st = try_micro_batch(&explorer, 1)) != REDCO_OK ||
        (st = try_recompute(&explorer, REDCO_RECOMPUTE_NONE, "none")) != REDCO_OK ||
        (st = try_recompute(&explorer, REDCO_RECOMPUTE_SELECTIVE, "selective")) != REDCO_OK ||
        (st = try_recompute(&explorer, REDCO_RECOMPUTE_MLP, "mlp")) != REDCO_OK ||
        (st = try_recompute(&explorer, REDCO_RECOMPUTE_FULL, "full")) != REDCO_OK) {
        return st;
    }
    *count_out = explorer.count;
    return REDCO_OK;
}
