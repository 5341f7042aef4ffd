#include "planner/answer/priced.h"

#include "costmodel/evaluation/request.h"
#include "planner/answer/explain.h"
#include "planner/answer/pricing.h"
#include "planner/search/gaps.h"
#include "planner/search/search_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double redcoi_rounding_ratio = 1e-9;
const double redcoi_tie_ratio = 1e-3;
const double redco_limited_ratio = 0.02;

enum { COMM_OTHERS = 64 }; /* listed beside one answer of least communication */

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

/* @param operators_out  that the simulator laid out, added */
static redco_status price_candidate(redco_costs *costs, redco_candidate *candidate, uint64_t *operators_out,
                                    redco_error *err)
{
    redco_price price;
    const redco_status st = redco_price_step(costs, &candidate->parallelism, candidate->assignments,
                                             candidate->assignment_count, &price, err);
    if (st != REDCO_OK) { return st; }
    candidate->closed_form = price.closed_form;
    candidate->prediction = price.predicted;
    *operators_out += price.simulated ? price.simulation.operators : 0;
    return REDCO_OK;
}

redco_status redco_candidate_price(redco_costs *costs, redco_candidate *candidate, redco_error *err)
{
    uint64_t operators = 0;
    return price_candidate(costs, candidate, &operators, err);
}

bool redcoi_fits(const redco_candidate *candidate)
{
    return candidate->prediction.total_bytes <= candidate->prediction.capacity_bytes;
}

/* Insertion sort: stable, and the order is nearly right. */
static void sort(redco_candidate *ranked, uint32_t count)
{
    for (uint32_t i = 1; i < count; i++) {
        const redco_candidate moved = ranked[i];
        uint32_t at = i;
        while (at > 0 && moved.prediction.step_s < ranked[at - 1].prediction.step_s * (1.0 - redcoi_rounding_ratio)) {
            ranked[at] = ranked[at - 1];
            at--;
        }
        ranked[at] = moved;
    }
}

void redcoi_candidates_free(redco_candidate *candidates, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) { free(candidates[i].assignments); }
}

/* Forgets candidates from that one on. */
static void cut(redco_search_result *result, uint32_t count)
{
    if (count >= result->ranked_count) { return; }
    redcoi_candidates_free(&result->ranked[count], result->ranked_count - count);
    result->ranked_count = count;
}

/* Keeps those that fit, in their order. */
static void keep_fitting(redco_search_result *result)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < result->ranked_count; i++) {
        const redco_candidate moved = result->ranked[i];
        if (!redcoi_fits(&moved)) { continue; }
        result->ranked[i] = result->ranked[kept];
        result->ranked[kept++] = moved;
    }
    cut(result, kept);
}

static bool any_fits(const redco_search_result *result)
{
    for (uint32_t i = 0; i < result->ranked_count; i++) {
        if (redcoi_fits(&result->ranked[i])) { return true; }
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

redco_status redcoi_price_candidate(redcoi_pricing *p, redco_candidate *candidate, redco_error *err)
{
    uint64_t operators = 0;
    redco_status st = redco_costs_failure(p->costs, err); /* all layouts share it */
    if (st != REDCO_OK) { return st; }
    if (!redco_known_steps_find(p->known, candidate, &operators)) {
        st = price_candidate(p->costs, candidate, &operators, err);
        if (st == REDCO_OK) { redco_known_steps_keep(p->known, candidate, operators); }
    }
    p->operators += operators;
    redcoi_shortlist_note_operators(p, candidate, operators);
    return st;
}

/* Its price; a layout that cannot be laid out is none. */
redco_status redcoi_price_one(redcoi_pricing *p, redco_candidate *candidate, bool *priced_out, redco_error *err)
{
    redco_error why = {.status = REDCO_OK};
    const redco_status st = redcoi_price_candidate(p, candidate, &why);
    *priced_out = st == REDCO_OK;
    p->result->counts.simulated += p->simulates ? 1 : 0;
    if (p->options->objective != REDCO_OBJECTIVE_COMM) { /* layouts that GLPK places are placed anew */
        candidate->objective = candidate->closed_form.step_s;
    }
    if (st == REDCO_EVALUE && p->simulates) {
        if (p->refused.status == REDCO_OK) { p->refused = why; }
        return REDCO_OK;
    }
    return st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
}

static double value_of(const redco_search_options *options, const redco_candidate *candidate)
{
    return minimises_steps(options) ? candidate->closed_form.step_s : candidate->closed_form.amsp_total_s;
}

double redcoi_value_of(const redcoi_pricing *p, const redco_candidate *candidate)
{
    return value_of(p->options, candidate);
}

redco_status redcoi_expect(redcoi_pricing *p, const redco_candidate *c, redco_paced *paced_out, redco_error *err)
{
    return redco_cost_paced(p->costs, &c->parallelism, c->assignments, c->assignment_count, &c->closed_form, paced_out,
                            err);
}

/* Takes over a candidate. */
redco_status redcoi_result_append(redco_search_result *result, const redco_candidate *candidate, redco_error *err)
{
    redco_candidate *const ranked = realloc(result->ranked, (result->ranked_count + 1U) * sizeof *ranked);
    if (ranked == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    result->ranked = ranked;
    ranked[result->ranked_count++] = *candidate;
    return REDCO_OK;
}

/* The leanest strategy, where the closed form finds none that fits. */
static redco_status price_leanest(redcoi_pricing *p, redco_error *err)
{
    redco_search_result *const result = p->result;
    redco_shortfall *const s = &result->shortfall;
    if (s->leanest.assignments == NULL) { return REDCO_OK; }
    const redco_status st = redcoi_price_candidate(p, &s->leanest, err);
    if (st != REDCO_OK) { return st; }
    if (!redcoi_fits(&s->leanest)) {
        s->short_bytes = s->leanest.prediction.total_bytes - s->leanest.prediction.capacity_bytes;
        return REDCO_OK;
    }
    redco_candidate *const one = malloc(sizeof *one);
    if (one == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    *one = s->leanest;
    one->objective =
        p->options->objective == REDCO_OBJECTIVE_COMM ? one->closed_form.amsp_total_s : one->closed_form.step_s;
    free(result->ranked);
    result->ranked = one;
    result->ranked_count = 1;
    result->status = result->candidates == 1 ? "optimal" : "feasible";
    *s = (redco_shortfall){.short_bytes = 0};
    return REDCO_OK;
}

redco_status redcoi_search_again(redcoi_pricing *p, const redco_search_options *options,
                                 redco_search_result **again_out, redco_error *err)
{
    const redco_inputs *const in = p->inputs;
    redco_search_options with_costs = *options;
    with_costs.pass.costs = p->costs;
    return redco_search(&in->machine, in->model, &in->calibration, in->comm, &with_costs, again_out, err);
}

void redcoi_counts_add(redco_search_counts *to, const redco_search_counts *from)
{
    to->listed += from->listed;
    to->bounded += from->bounded;
    to->priced += from->priced;
    to->solved += from->solved;
    to->compositions += from->compositions;
    to->simulated += from->simulated;
}

static void lead(redco_search_result *result, uint32_t index)
{
    const redco_candidate first = result->ranked[index];
    memmove(&result->ranked[1], &result->ranked[0], index * sizeof first);
    result->ranked[0] = first;
}

/* The search's own answer, which knows memory, or the fastest by the simulator. */
static void choose_leader(redcoi_pricing *p)
{
    redco_search_result *const result = p->result;
    uint32_t best = 0;
    for (uint32_t i = 0; i < result->ranked_count && p->simulates; i++) {
        if (result->ranked[i].assignments == p->own) { lead(result, i); }
    }
    const bool own = result->ranked[0].assignments == p->own;
    p->moved = p->moved || !own;
    if (!p->simulates) { return; }
    for (uint32_t i = 1; i < result->ranked_count; i++) {
        const double best_s = result->ranked[best].prediction.step_s;
        if (result->ranked[i].prediction.step_s < best_s * (1.0 - redcoi_rounding_ratio)) { best = i; }
    }
    const double least_s = result->ranked[0].prediction.step_s * (1.0 - (own ? redcoi_tie_ratio : 0.0));
    if (result->ranked[best].prediction.step_s < least_s) { lead(result, best); }
    result->by_simulation = result->ranked[0].assignments != p->own;
    p->moved = p->moved || result->by_simulation;
}

/* The known distance of the answer from the best by the closed form, and by the simulator. */
static void set_proof(redcoi_pricing *p)
{
    redco_search_result *const result = p->result;
    const redco_candidate *const first = &result->ranked[0];
    const double value_s = redcoi_value_of(p, first);
    if (p->moved) {
        result->gap_ratio = value_s > 0.0 && p->bound_s < value_s ? 1.0 - p->bound_s / value_s : 0.0;
        result->status = result->gap_ratio <= p->options->pass.gap_ratio * (1.0 + 1e-9) ? "optimal" : "feasible";
    }
    if (!p->simulates || p->options->layerwise || p->options->pass.limit_s > 0.0) { return; }
    result->within_ratio = fmax(redcoi_tie_ratio, 1.0 - p->unlisted_s / first->prediction.step_s);
    if (result->candidates == 1) { result->within_ratio = 0.0; }
}

/* Notes the distance of what was expected of a layout from its simulated step. */
static redco_status note_gap(redcoi_pricing *p, const redco_candidate *c, redco_error *err)
{
    redco_search_result *const result = p->result;
    redco_paced paced;
    const redco_status st = redcoi_expect(p, c, &paced, err);
    if (st != REDCO_OK) { return st; }
    redco_gap *const seen =
        &result->seen[redco_gap_kind(&c->parallelism, redco_costs_experts(p->costs) > 0, paced.traffic_ratio)];
    seen->closed_ratio = fmax(seen->closed_ratio, c->closed_form.step_s / c->prediction.step_s - 1.0);
    seen->paced_ratio = fmax(seen->paced_ratio, paced.step_s / c->prediction.step_s - 1.0);
    result->least_above_ratio = fmax(result->least_above_ratio, paced.least_s / c->prediction.step_s - 1.0);
    if (!redcoi_fits(c)) { return REDCO_OK; }
    double *const above_ratio =
        &result->memory_above_ratio[redco_pipeline_splits_backward(c->parallelism.schedule) ? 1 : 0];
    const double of_capacity = (double)c->closed_form.total_bytes / (double)c->prediction.capacity_bytes;
    *above_ratio = fmax(*above_ratio, of_capacity - 1.0);
    return REDCO_OK;
}

/* Every layout of a small space through the simulator, each at its best recomputation by the closed form: a layout that
 * is faster than within_ratio allows refutes the answer. */
static redco_status verify_by_simulation(redcoi_pricing *p, redco_error *err)
{
    redco_search_options every = *p->options;
    redco_search_result *const result = p->result;
    redco_search_result *all = NULL;
    double best_s = (double)INFINITY;
    uint64_t count = 0;
    every.top = REDCO_RANKED_MAX;
    every.verify = false;
    for (uint32_t kind = 0; kind < REDCO_GAP_KINDS; kind++) { result->seen[kind] = (redco_gap){-1.0, -1.0}; }
    result->least_above_ratio = -1.0;
    redco_status st = redcoi_search_again(p, &every, &all, err);
    for (uint32_t i = 0; st == REDCO_OK && i < all->ranked_count && all->ranked_count < REDCO_RANKED_MAX; i++) {
        redco_candidate *const c = &all->ranked[i];
        bool priced = false;
        if ((st = redcoi_price_one(p, c, &priced, err)) != REDCO_OK || !priced) { continue; }
        count++;
        if (redcoi_fits(c)) { best_s = fmin(best_s, c->prediction.step_s); }
        st = note_gap(p, c, err);
    }
    redco_search_result_free(all);
    result->verify_simulated = count;
    if (st != REDCO_OK || count == 0) { return st; }
    result->verify_simulated_s = best_s;
    const double allowed_s = result->ranked[0].prediction.step_s * (1.0 - fmax(0.0, result->within_ratio));
    if (best_s < allowed_s * (1.0 - redcoi_rounding_ratio)) { result->verify_failed = true; }
    return REDCO_OK;
}

/* The answers behind the first, which is the answer to the question for one. */
static redco_status price_more(redcoi_pricing *p, const redco_search_options *searched, redco_candidate *more,
                               uint32_t count, uint32_t wanted, redco_error *err)
{
    redco_search_result *const result = p->result;
    const redco_assignment *const leader = result->ranked[0].assignments;
    p->asked = wanted;
    p->own = NULL;
    redco_status st = redcoi_shortlist_add(p, more, count, err);
    if (st == REDCO_OK) { st = redcoi_shortlist_price(p, searched, err); }
    if (st != REDCO_OK) { return st; }
    keep_fitting(result);
    for (uint32_t i = 0; i < result->ranked_count; i++) {
        if (result->ranked[i].assignments == leader) { lead(result, i); }
    }
    if (p->simulates) { sort(&result->ranked[1], result->ranked_count - 1); }
    return REDCO_OK;
}

/* Experts on other meshes than the rest of their layers. */
static redco_status try_experts(redcoi_pricing *p, const redco_search_options *searched, redco_error *err)
{
    const redco_assignment *const own = p->own;
    redco_candidate found[REDCOI_MOST_FOUND];
    uint32_t count = 0;
    redco_status st = redcoi_experts_again(p, found, &count, err);
    if (st != REDCO_OK || count == 0) { return st; }
    p->own = NULL;
    if ((st = redcoi_shortlist_add(p, found, count, err)) != REDCO_OK ||
        (st = redcoi_shortlist_price(p, searched, err)) != REDCO_OK) {
        return st;
    }
    p->own = own;
    keep_fitting(p->result);
    choose_leader(p);
    return REDCO_OK;
}

/* Prices what the search found. @return with no candidates where none of them fits */
static redco_status price_answers(redcoi_pricing *p, const redco_search_options *searched, redco_error *err)
{
    redco_search_result *const result = p->result;
    redco_candidate *const ranked = result->ranked, *const others = result->others;
    const uint32_t count = result->ranked_count, first = count > 0 ? 1 : 0, wanted = p->asked;
    const uint32_t other_count = result->other_count;
    p->own = count > 0 ? ranked[0].assignments : NULL;
    p->unlisted_s = result->unlisted_s;
    p->asked = 1;
    result->ranked = result->others = NULL;
    result->ranked_count = result->other_count = 0;
    bool left = true; /* ranked ones behind the first are not taken over yet */
    redco_status st = redcoi_shortlist_add(p, ranked, first, err);
    if (st == REDCO_OK) {
        st = redcoi_shortlist_add(p, others, other_count, err);
    } else {
        redcoi_candidates_free(others, other_count);
    }
    if (st == REDCO_OK) { st = redcoi_shortlist_price(p, searched, err); }
    if (st == REDCO_OK && result->ranked_count == 0 && p->refused.status != REDCO_OK) {
        st = redco_fail(err, p->refused.status, p->refused.place, "%s", p->refused.text);
    }
    if (st != REDCO_OK) { goto out; }
    p->unlisted_s = fmin(p->unlisted_s, redcoi_shortlist_least_s(p));
    if (result->ranked_count > 0 && !any_fits(result)) { give_up(result); }
    keep_fitting(result);
    if (result->ranked_count == 0) { goto out; }
    choose_leader(p);
    if (redcoi_experts_are_free(p) && (st = try_experts(p, searched, err)) != REDCO_OK) { goto out; }
    if (wanted > 1) {
        left = false;
        st = price_more(p, searched, &ranked[first], count - first, wanted, err);
    }
out:
    if (left) { redcoi_candidates_free(&ranked[first], count - first); }
    free(ranked);
    free(others);
    return st;
}

/* Nothing fits by the closed form: why, and the strategy that is too large by least. */
static redco_status explain_shortfall(redcoi_pricing *p, redco_error *err)
{
    redco_search_options plain = *p->options;
    redco_search_result *again = NULL;
    const redco_search_counts before = p->result->counts;
    redco_status st = redcoi_search_again(p, &plain, &again, err);
    if (st != REDCO_OK) { return st; }
    redco_search_result_free(p->result);
    p->result = again;
    redcoi_counts_add(&again->counts, &before);
    return price_leanest(p, err);
}

/* The options of the search that lists what is to be simulated. Where communication is minimised, others have less of
 * it and are too large by the closed form. */
static redco_search_options listing(const redcoi_pricing *p)
{
    redco_search_options o = *p->options;
    if (o.layerwise) { return o; }
    if (p->asked > 1) { o.top = p->asked < REDCOI_BEST_FEW ? REDCOI_BEST_FEW : p->asked; }
    if (p->simulates) {
        redcoi_shortlist_ask(&o);
        o.pass.roomier_ratio = o.pass.brief || o.pass.limit_s > 0.0 ? 0.0 : redco_help_ratio;
    } else if (!minimises_steps(&o)) {
        o.pass.others = COMM_OTHERS;
    }
    return o;
}

static redco_status search_priced(const redco_inputs *inputs, const redco_search_options *options,
                                  redco_search_result **result_out, redco_error *err)
{
    redcoi_pricing p = {.inputs = inputs,
                        .options = options,
                        .asked = options->top > 0 ? options->top : 1,
                        .roomier_s = (double)INFINITY};
    const uint32_t wanted = p.asked;
    p.known = redco_known_steps_of(inputs, options);
    p.costs = redco_known_steps_costs(p.known);
    redco_status st = p.costs != NULL ? REDCO_OK : redco_costs_of(inputs, options, &p.costs, err);
    if (st != REDCO_OK) { return st; }
    if (p.known != NULL) { redco_known_steps_use(p.known, p.costs); }
    p.simulates = minimises_steps(options) && redco_price_simulates(p.costs);
    const redco_search_options searched = listing(&p);
    if ((st = redcoi_search_again(&p, &searched, &p.result, err)) != REDCO_OK) { goto out; }
    const bool proven = p.result->ranked_count > 0;
    if (proven) { p.bound_s = redcoi_value_of(&p, &p.result->ranked[0]) * (1.0 - p.result->gap_ratio); }
    if (!proven && p.result->other_count == 0) {
        if (!(options->pass.limit_s > 0.0)) { st = price_leanest(&p, err); }
        goto out;
    }
    if (!proven) { p.bound_s = redcoi_value_of(&p, &p.result->others[0]); }
    p.moved = !proven;
    st = price_answers(&p, &searched, err);
    if (st == REDCO_OK && p.result->ranked_count == 0 && !proven && !(options->pass.limit_s > 0.0)) {
        st = explain_shortfall(&p, err);
        goto out;
    }
    if (st != REDCO_OK || p.result->ranked_count == 0) { goto out; }
    cut(p.result, wanted);
    set_proof(&p);
    if (p.simulates && searched.pass.others > 0 && searched.pass.roomier_ratio > 0.0) {
        st = redcoi_shortlist_roomier(&p, err);
    }
    if (st == REDCO_OK && options->verify && p.simulates && !options->layerwise && wanted == 1) {
        st = verify_by_simulation(&p, err);
    }
out:
    redcoi_shortlist_free(&p);
    if (p.known == NULL) { redco_costs_free(p.costs); }
    if (st != REDCO_OK) {
        redco_search_result_free(p.result);
        return st;
    }
    *result_out = p.result;
    return REDCO_OK;
}

static double objective_of(const redco_search_options *options, const redco_candidate *candidate)
{
    return minimises_steps(options) ? candidate->prediction.step_s : candidate->objective;
}

bool redco_answer_beaten(const redco_search_options *options, const redco_candidate *candidate,
                         const redco_search_result *result)
{
    return result->ranked_count == 0 ||
           objective_of(options, candidate) < objective_of(options, &result->ranked[0]) * (1.0 - redcoi_tie_ratio);
}

redco_status redco_answer_adopt(const redco_search_options *options, const redco_candidate *candidate,
                                redco_search_result *result, redco_error *err)
{
    const bool fits = result->ranked_count > 0;
    const double bound_s = fits ? value_of(options, &result->ranked[0]) * (1.0 - result->gap_ratio) : 0.0;
    const double value_s = value_of(options, candidate), before_s = fits ? result->ranked[0].prediction.step_s : 0.0;
    redco_candidate copy;
    redco_status st = redco_candidate_copy(candidate, &copy, err);
    if (st != REDCO_OK) { return st; }
    if ((st = redcoi_result_append(result, &copy, err)) != REDCO_OK) {
        free(copy.assignments);
        return st;
    }
    lead(result, result->ranked_count - 1);
    free(result->shortfall.leanest.assignments);
    result->shortfall = (redco_shortfall){.short_bytes = 0};
    result->by_simulation = true;
    result->gap_ratio = bound_s < value_s ? 1.0 - bound_s / value_s : 0.0;
    result->status = fits && result->gap_ratio <= options->pass.gap_ratio * (1.0 + 1e-9) ? "optimal" : "feasible";
    if (result->within_ratio > 0.0) { /* the same step is not undercut, whatever leads */
        const double least_s = before_s * (1.0 - result->within_ratio);
        result->within_ratio = fmax(redcoi_tie_ratio, 1.0 - least_s / result->ranked[0].prediction.step_s);
    }
    return REDCO_OK;
}

/* Layouts of the smaller space are layouts of the larger. */
static redco_status lead_with_uniform(const redco_search_options *options, redco_search_result *result,
                                      redco_search_result *uniform, redco_error *err)
{
    if (uniform->ranked_count == 0) { return REDCO_OK; }
    if (result->ranked_count > 0 && objective_of(options, &uniform->ranked[0]) >=
                                        objective_of(options, &result->ranked[0]) * (1.0 - redcoi_rounding_ratio)) {
        return REDCO_OK;
    }
    return redco_answer_adopt(options, &uniform->ranked[0], result, err);
}

redco_status redco_search_priced(const redco_inputs *inputs, const redco_search_options *options,
                                 redco_search_result **result_out, redco_error *err)
{
    redco_search_options alike = *options;
    redco_search_result *result = NULL, *uniform = NULL;
    redco_error why = {.status = REDCO_OK};
    redco_status st = search_priced(inputs, options, &result, err);
    if (st != REDCO_OK || !options->layerwise) {
        *result_out = result;
        return st;
    }
    alike.layerwise = alike.verify = false;
    st = search_priced(inputs, &alike, &uniform, &why);
    if (st == REDCO_OK) {
        redcoi_counts_add(&result->counts, &uniform->counts);
        st = lead_with_uniform(options, result, uniform, &why);
        redco_search_result_free(uniform);
    }
    if (st != REDCO_OK) {
        redco_search_result_free(result);
        return redco_fail(err, st, why.place, "%s", why.text);
    }
    *result_out = result;
    return REDCO_OK;
}
