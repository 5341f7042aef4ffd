#include "planner/rerank.h"

#include "costmodel/simulate.h"

#include <math.h>

/* Sums of the same numbers in another order differ by less. */
static const double rounding_ratio = 1e-9;

/* Insertion sort: stable, and the order is nearly right. */
static void sort(redco_candidate *ranked, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const redco_candidate moved = ranked[i];
        uint32_t at = i;
        while (at > 0 && moved.simulated_step_s < ranked[at - 1].simulated_step_s * (1.0 - rounding_ratio)) {
            ranked[at] = ranked[at - 1];
            at--;
        }
        ranked[at] = moved;
    }
}

redco_status redco_rerank(const redco_inputs *inputs, const redco_search_options *options, redco_search_result *result,
                          redco_error *err)
{
    redco_costs *costs = NULL;
    redco_simulation simulation;
    redco_status st = redco_costs_create(&inputs->machine, inputs->model, &options->workload, &inputs->calibration,
                                         inputs->comm, &costs, err);
    if (st == REDCO_OK) { st = redco_tp_attach(costs, inputs->model, options->tp_placement, options->tp_rules, err); }
    for (uint32_t i = 0; st == REDCO_OK && i < result->ranked_count; i++) {
        redco_candidate *const c = &result->ranked[i];
        st = redco_simulate(costs, &c->setting, c->assignments, c->assignment_count, NULL, &simulation, err);
        if (st == REDCO_OK) { c->simulated_step_s = simulation.step_s; }
    }
    redco_costs_free(costs);
    if (st == REDCO_OK && options->top > 1 && options->objective == REDCO_OBJECTIVE_STEP_TIME) {
        sort(result->ranked, result->ranked_count);
    }
    return st;
}
