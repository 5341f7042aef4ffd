#include "planner/answer/priced.h"

#include "costmodel/evaluation/request.h"
#include "planner/search/space.h"

#include <math.h>
#include <stdlib.h>

/* Sums of the same numbers in another order differ by less. */
static const double rounding_ratio = 1e-9;

/* So many times answers that are too large by the simulator are asked for again, with so much more memory left free. */
enum { TRIES = 4, BEST_FEW = 24, BEST_PIPELINES = 8 };
static const double far_ratio = 0.03;
/* Simulated steps of pipelines are up to so much faster than their closed form, where interleaved stages hide
 * gradients between chunks. */
static const double pipeline_ratio = 0.05;
/* What is faster by less is not worth an answer that is not proven. */
static const double gain_ratio = 0.0005;
/* The search counts the fullest stage as one that has embedding, head and the most micro-batches in flight: more than
 * any stage has, by up to so much of a GPU's memory. */
static const double slack_ratio = 0.2;
static const uint64_t least_margin_bytes = 64000000;

redco_status redco_costs_of(const redco_inputs *inputs, const redco_search_options *options, redco_costs **costs_out,
                            redco_error *err)
{
    redco_costs *costs = NULL;
    redco_status st = redco_costs_create(&inputs->machine, inputs->model, &options->workload, &inputs->calibration,
                                         inputs->comm, &costs, err);
    if (st == REDCO_OK) { st = redco_tp_attach(costs, inputs->model, options->tp_placement, options->tp_rules, err); }
    if (st != REDCO_OK) {
        redco_costs_free(costs);
        return st;
    }
    *costs_out = costs;
    return REDCO_OK;
}

redco_status redco_candidate_price(redco_costs *costs, redco_candidate *candidate, redco_error *err)
{
    redco_price price;
    const redco_status st =
        redco_price_step(costs, &candidate->setting, candidate->assignments, candidate->assignment_count, &price, err);
    if (st != REDCO_OK) { return st; }
    candidate->closed_form = price.closed_form;
    candidate->prediction = price.predicted;
    return REDCO_OK;
}

static bool fits(const redco_candidate *candidate)
{
    return candidate->prediction.total_bytes <= candidate->prediction.capacity_bytes;
}

/* Insertion sort: stable, and the order is nearly right. */
static void sort(redco_candidate *ranked, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const redco_candidate moved = ranked[i];
        uint32_t at = i;
        while (at > 0 && moved.prediction.step_s < ranked[at - 1].prediction.step_s * (1.0 - rounding_ratio)) {
            ranked[at] = ranked[at - 1];
            at--;
        }
        ranked[at] = moved;
    }
}

/* Keeps those that fit, in their order. */
static void keep_fitting(redco_search_result *result)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < result->ranked_count; i++) {
        const redco_candidate moved = result->ranked[i];
        if (!fits(&moved)) { continue; }
        result->ranked[i] = result->ranked[kept];
        result->ranked[kept++] = moved;
    }
    for (uint32_t i = kept; i < result->ranked_count; i++) { free(result->ranked[i].assignments); }
    result->ranked_count = kept;
}

static bool any_fits(const redco_search_result *result)
{
    for (uint32_t i = 0; i < result->ranked_count; i++) {
        if (fits(&result->ranked[i])) { return true; }
    }
    return false;
}

/* AMSP's strategy is found by its own objective, whatever the user's. */
static bool minimises_steps(const redco_search_options *options)
{
    return options->objective == REDCO_OBJECTIVE_STEP_TIME && options->strategy != REDCO_STRATEGY_AMSP;
}

/* Nothing fits by the simulator: the first answer becomes the strategy that is too large. */
static void give_up(redco_search_result *result)
{
    const redco_candidate *const first = &result->ranked[0];
    result->shortfall.leanest = *first;
    result->shortfall.short_bytes = first->prediction.total_bytes - first->prediction.capacity_bytes;
    result->shortfall.largest = redcoi_largest_component(&first->prediction);
    result->status = "infeasible";
    result->ranked[0].assignments = NULL; /* changed hands */
}

/* @param most_s  candidates whose closed form is longer are no better: they are dropped */
static redco_status price_ranked(redco_costs *costs, bool comm, double most_s, redco_search_result *result,
                                 redco_error *err)
{
    redco_status st = REDCO_OK;
    while (result->ranked_count > 1 && result->ranked[result->ranked_count - 1].closed_form.step_s > most_s) {
        free(result->ranked[--result->ranked_count].assignments);
    }
    for (uint32_t i = 0; i < result->ranked_count && st == REDCO_OK; i++) {
        redco_candidate *const c = &result->ranked[i];
        st = redco_candidate_price(costs, c, err);
        if (!comm) { c->objective = c->closed_form.step_s; } /* layouts that GLPK places are placed anew */
    }
    return st;
}

/* The leanest strategy, where the closed form finds none that fits. */
static redco_status price_leanest(redco_costs *costs, bool comm, redco_search_result *result, redco_error *err)
{
    redco_shortfall *const s = &result->shortfall;
    if (s->leanest.assignments == NULL) { return REDCO_OK; }
    const redco_status st = redco_candidate_price(costs, &s->leanest, err);
    if (st != REDCO_OK) { return st; }
    if (!fits(&s->leanest)) {
        s->short_bytes = s->leanest.prediction.total_bytes - s->leanest.prediction.capacity_bytes;
        return REDCO_OK;
    }
    redco_candidate *const one = malloc(sizeof *one);
    if (one == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    *one = s->leanest;
    one->objective = comm ? one->closed_form.amsp_total_s : one->closed_form.step_s;
    free(result->ranked);
    result->ranked = one;
    result->ranked_count = 1;
    result->status = result->candidates == 1 ? "optimal" : "feasible";
    *s = (redco_shortfall){.short_bytes = 0};
    return REDCO_OK;
}

/* What the simulator finds beyond the closed form, in gradients of a second bucket say, is left free by the next try.
 */
static redco_status price_answers(redco_costs *costs, const redco_inputs *inputs, const redco_search_options *options,
                                  redco_search_result **result, redco_error *err)
{
    const bool comm = options->objective == REDCO_OBJECTIVE_COMM;
    redco_search_options leaner = *options;
    redco_status st = price_ranked(costs, comm, (double)INFINITY, *result, err);
    for (int i = 0; i < TRIES && st == REDCO_OK && !fits(&(*result)->ranked[0]); i++) {
        const redco_prediction *const p = &(*result)->ranked[0].prediction;
        const uint64_t beyond = p->total_bytes - p->capacity_bytes;
        redco_search_result *again = NULL;
        leaner.margin_bytes += beyond + least_margin_bytes;
        st = redco_search(&inputs->machine, inputs->model, &inputs->calibration, inputs->comm, &leaner, &again, err);
        if (st != REDCO_OK) { return st; }
        if (again->ranked_count == 0) { /* a layout that is given, say, cannot be leaner */
            redco_search_result_free(again);
            break;
        }
        redco_search_result_free(*result);
        *result = again;
        st = price_ranked(costs, comm, (double)INFINITY, again, err);
    }
    if (st != REDCO_OK) { return st; }
    if (!any_fits(*result)) { give_up(*result); }
    keep_fitting(*result);
    if (options->top > 1 && minimises_steps(options)) { sort((*result)->ranked, (*result)->ranked_count); }
    return REDCO_OK;
}

/* The fastest of the best few by the closed form takes the place of the first where it is faster. */
static redco_status try_few(redco_costs *costs, const redco_inputs *inputs, const redco_search_options *options,
                            double most_s, redco_search_result *result, redco_error *err)
{
    redco_candidate *const first = &result->ranked[0];
    redco_search_result *few = NULL;
    redco_error why = {.status = REDCO_OK};
    redco_status st =
        redco_search(&inputs->machine, inputs->model, &inputs->calibration, inputs->comm, options, &few, &why);
    if (st == REDCO_EVALUE) { return REDCO_OK; } /* no stages divide layers, GPUs or batch */
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    if (few->ranked_count > 0) { st = price_ranked(costs, false, most_s, few, err); }
    if (st != REDCO_OK) {
        redco_search_result_free(few);
        return st;
    }
    keep_fitting(few);
    sort(few->ranked, few->ranked_count);
    if (few->ranked_count > 0 && few->ranked[0].prediction.step_s < first->prediction.step_s * (1.0 - gain_ratio)) {
        const redco_candidate slower = *first;
        *first = few->ranked[0];
        few->ranked[0] = slower;
        result->status = "feasible";
    }
    redco_search_result_free(few);
    return REDCO_OK;
}

/* Pipelines, and whatever else the simulator finds far slower than the closed form: the best few by the closed form are
 * simulated, and the fastest of them is the answer: no longer proven, but better. */
static redco_status look_further(redco_costs *costs, const redco_inputs *inputs, const redco_search_options *options,
                                 redco_search_result **result, redco_error *err)
{
    const redco_candidate *const first = &(*result)->ranked[0];
    redco_search_options wider = *options;
    const bool pipeline = first->setting.pp > 1;
    const bool far = first->prediction.step_s > first->closed_form.step_s * (1.0 + far_ratio);
    if (options->top > 1 || !minimises_steps(options) || (*result)->candidates <= 1 || !(pipeline || far)) {
        return REDCO_OK;
    }
    const double most_s = first->prediction.step_s * (1.0 + pipeline_ratio);
    wider.top = far ? BEST_FEW : BEST_PIPELINES;
    wider.verify = false;
    redco_status st = REDCO_OK;
    for (int roomier = 0; roomier <= (pipeline ? 1 : 0) && st == REDCO_OK; roomier++) {
        wider.slack_bytes = roomier > 0 ? (uint64_t)(slack_ratio * (double)first->prediction.capacity_bytes) : 0;
        st = try_few(costs, inputs, &wider, most_s, *result, err);
    }
    return st;
}

redco_status redco_search_priced(const redco_inputs *inputs, const redco_search_options *options,
                                 redco_search_result **result_out, redco_error *err)
{
    redco_search_result *result = NULL;
    redco_costs *costs = NULL;
    redco_status st =
        redco_search(&inputs->machine, inputs->model, &inputs->calibration, inputs->comm, options, &result, err);
    if (st != REDCO_OK || (st = redco_costs_of(inputs, options, &costs, err)) != REDCO_OK) { goto out; }
    st = result->ranked_count > 0 ? price_answers(costs, inputs, options, &result, err)
                                  : price_leanest(costs, options->objective == REDCO_OBJECTIVE_COMM, result, err);
    if (st == REDCO_OK && result->ranked_count > 0) { st = look_further(costs, inputs, options, &result, err); }
out:
    redco_costs_free(costs);
    if (st != REDCO_OK) {
        redco_search_result_free(result);
        return st;
    }
    *result_out = result;
    return REDCO_OK;
}
