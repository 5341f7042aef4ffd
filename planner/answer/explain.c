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
    double *const waits[] = {&c->kernel_s,
                             &c->launch_s,
                             &c->sync_s,
                             &c->tp_launch_s,
                             &c->host_forward_s,
                             &c->host_backward_s,
                             &c->host_collective_s,
                             &c->step_overhead_s,
                             &c->latency_factor,
                             &c->experts.launch_s,
                             &c->experts.exchange_call_s};
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
                                 const redco_candidate *best, double *step_s_out, redco_error *err)
{
    redco_search_options quick = *options;
    redco_search_result *result = NULL;
    if (options->strategy != REDCO_STRATEGY_AMSP) { quick.pass.limit_s = *step_s_out; }
    const double below = 1.0 - redco_memory_ratio(best->parallelism.schedule);
    quick.pass.above_bytes = (uint64_t)((double)best->prediction.capacity_bytes * below);
    quick.verify = false;
    quick.pass.brief = true;
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
            st = search_there(&there, options, best, &step_s, err);
        }
        if (st != REDCO_OK) { return st; }
        help_out[i].gain_ratio = fmax(0.0, best->prediction.step_s / step_s - 1.0);
    }
    return REDCO_OK;
}
