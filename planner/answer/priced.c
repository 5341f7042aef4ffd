#include "planner/answer/priced.h"

#include "costmodel/evaluation/request.h"
#include "planner/search/space.h"

#include <math.h>
#include <stdlib.h>

/* Sums of the same numbers in another order differ by less. */
static const double rounding_ratio = 1e-9;
/* Steps that differ by less are equally fast: the closed form's order, which knows memory, decides. */
static const double tie_ratio = 1e-3;

enum {
    TRIES = 4, /* so often are answers asked for that leave so much more memory free as the simulator finds missing */
    BEST_FEW = 16, /* simulated at most beyond those asked for */
    ROOMIER = 128  /* candidates too large by the search: looked at, most of them not simulated */
};
static const uint64_t least_margin_bytes = 64000000;
/* The search adds the most that each class takes at its own fullest moment, of pipelines as if one stage had embedding,
 * head and the most micro-batches in flight: more than any stage takes at once. Layouts that are too large so by up to
 * this share of a GPU's memory are looked at again; the closed form of a whole step, which counts stages one by one,
 * rules most of them out before they are simulated. */
static const double slack_ratio = 0.2;
/* Bytes of the closed form are within this of the simulated ones (tests/unit/test_step_pipelines.c). */
static const double memory_ratio = 0.02;
/* No further layout is simulated that would bring the operators laid out above this: a second or two. A count, so that
 * answers do not depend on the clock. */
static const uint64_t most_operators = 1 << 22;

const double redco_look_ratio = 0.02, redco_above_ratio[2] = {0.05, 0.16};
/* Layouts further above the first by the closed form are not simulated. */
static const double spread_ratio = 0.05;

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
    const redco_status st =
        redco_price_step(costs, &candidate->setting, candidate->assignments, candidate->assignment_count, &price, err);
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

/* Forgets candidates from that one on. */
static void cut(redco_search_result *result, uint32_t count)
{
    for (uint32_t i = count; i < result->ranked_count; i++) { free(result->ranked[i].assignments); }
    result->ranked_count = count < result->ranked_count ? count : result->ranked_count;
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
    cut(result, kept);
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

/* One question, its answers so far, and what was learnt of them. */
struct pricing {
    redco_costs *costs;
    const redco_inputs *inputs;
    const redco_search_options *options;
    redco_search_result *result;
    uint32_t asked;      /**< answers that the user wants, at least 1 */
    bool simulates;      /**< the simulator orders answers */
    double bound_s;      /**< no strategy has a smaller objective, by the closed form */
    double next_s[2];    /**< the least closed form of a layout that was not simulated, without stages and with them */
    bool moved;          /**< the first is not the search's own */
    redco_error refused; /**< why a layout could not be laid out */
    uint64_t operators;  /**< that were simulated */
};

/* Its price; a layout that cannot be laid out is none. */
static redco_status price_one(struct pricing *p, redco_candidate *candidate, bool *priced_out, redco_error *err)
{
    redco_error why = {.status = REDCO_OK};
    const redco_status st = price_candidate(p->costs, candidate, &p->operators, &why);
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

/* The slowest of the answers that are wanted, among those priced; INFINITY: there are too few. */
static double last_wanted_s(const struct pricing *p, uint32_t count)
{
    double best_s[BEST_FEW] = {0.0};
    uint32_t found = 0;
    const uint32_t wanted = p->asked < BEST_FEW ? p->asked : BEST_FEW;
    for (uint32_t i = 0; i < count; i++) {
        const redco_candidate *const c = &p->result->ranked[i];
        if (!fits(c)) { continue; }
        uint32_t at = found < wanted ? found++ : wanted;
        for (; at > 0 && c->prediction.step_s < best_s[at - 1]; at--) {
            if (at < wanted) { best_s[at] = best_s[at - 1]; }
        }
        if (at < wanted) { best_s[at] = c->prediction.step_s; }
    }
    return found < wanted ? (double)INFINITY : best_s[wanted - 1];
}

/* By the closed form: what the search's proof is about. */
static double value_of(const struct pricing *p, const redco_candidate *candidate)
{
    const bool comm = p->options->objective == REDCO_OBJECTIVE_COMM || p->options->strategy == REDCO_STRATEGY_AMSP;
    return comm ? candidate->closed_form.amsp_total_s : candidate->closed_form.step_s;
}

/* A bound by the closed form for all layouts that were not ranked. */
static double unranked_s(const struct pricing *p)
{
    const redco_candidate *const ranked = p->result->ranked;
    const uint32_t count = p->result->ranked_count;
    double least_s = (double)INFINITY, most_s = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        least_s = fmin(least_s, ranked[i].closed_form.step_s);
        most_s = fmax(most_s, ranked[i].closed_form.step_s);
    }
    const double far_s = least_s * (1.0 + spread_ratio);
    return count < BEST_FEW ? far_s : fmin(far_s, most_s);
}

/* Candidates come in the order of the closed form: they are simulated until it puts all others behind.
 * @param first  whether the first is priced */
static redco_status price_ranked(struct pricing *p, bool first, redco_error *err)
{
    redco_search_result *const result = p->result;
    const uint32_t listed = result->ranked_count;
    /* Where a limit is given, the answer is compared with it and no more. */
    const double look_ratio = p->options->limit_s > 0.0 ? 0.0 : redco_look_ratio;
    uint32_t kept = 0, at = 0;
    redco_status st = REDCO_OK;
    p->next_s[0] = unranked_s(p);
    p->next_s[1] = result->has_stages ? p->next_s[0] : (double)INFINITY;
    for (; at < listed && st == REDCO_OK; at++) {
        redco_candidate c = result->ranked[at];
        const double last_s = last_wanted_s(p, kept);
        const bool behind = c.closed_form.step_s > last_s * (1.0 + look_ratio);
        const bool large = isfinite(last_s) && p->operators + p->operators / (at > 0 ? at : 1) > most_operators;
        if (at > 0 && p->simulates && (behind || large)) { break; }
        bool priced = at == 0 && first;
        if (at > 0) { st = price_one(p, &c, &priced, err); }
        result->ranked[at].assignments = NULL; /* changed hands */
        if (priced) {
            result->ranked[kept++] = c;
        } else {
            free(c.assignments);
        }
    }
    for (uint32_t i = at; i < listed; i++) {
        double *const next_s = &p->next_s[result->ranked[i].setting.pp > 1 ? 1 : 0];
        *next_s = fmin(*next_s, result->ranked[i].closed_form.step_s);
    }
    cut(result, kept);
    if (st == REDCO_OK && kept == 0) {
        return redco_fail(err, p->refused.status, p->refused.place, "%s", p->refused.text);
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

static redco_status search_again(struct pricing *p, const redco_search_options *options,
                                 redco_search_result **again_out, redco_error *err)
{
    const redco_inputs *const in = p->inputs;
    return redco_search(&in->machine, in->model, &in->calibration, in->comm, options, again_out, err);
}

static void add_counts(redco_search_counts *to, const redco_search_counts *from)
{
    to->listed += from->listed;
    to->bounded += from->bounded;
    to->priced += from->priced;
    to->solved += from->solved;
    to->compositions += from->compositions;
    to->simulated += from->simulated;
}

/* All but the first of the answers before may fit and are still candidates, in the order of the closed form. */
static redco_status add_others(redco_search_result *to, redco_search_result *from, redco_error *err)
{
    redco_candidate *const ranked = realloc(to->ranked, (to->ranked_count + from->ranked_count) * sizeof *ranked);
    if (ranked == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    to->ranked = ranked;
    for (uint32_t i = 1; i < from->ranked_count; i++) {
        uint32_t at = to->ranked_count++;
        for (; at > 1 && from->ranked[i].closed_form.step_s < ranked[at - 1].closed_form.step_s; at--) {
            ranked[at] = ranked[at - 1];
        }
        ranked[at] = from->ranked[i];
        from->ranked[i].assignments = NULL; /* changed hands */
    }
    return REDCO_OK;
}

/* The next try leaves free the memory that the simulator finds beyond the closed form, in gradients of a second bucket
 * say.
 */
static redco_status price_answers(struct pricing *p, const redco_search_options *searched, redco_error *err)
{
    redco_search_options leaner = *searched;
    redco_status st = REDCO_OK;
    bool priced = false;
    for (int i = 0;; i++) {
        redco_candidate *const first = &p->result->ranked[0];
        if ((st = price_one(p, first, &priced, err)) != REDCO_OK) { return st; }
        if (!priced || fits(first) || i == TRIES) { break; }
        redco_search_result *again = NULL;
        leaner.margin_bytes += first->prediction.total_bytes - first->prediction.capacity_bytes + least_margin_bytes;
        if ((st = search_again(p, &leaner, &again, err)) != REDCO_OK) { return st; }
        if (again->ranked_count == 0) { /* a layout that is given, say, cannot be leaner */
            add_counts(&p->result->counts, &again->counts);
            redco_search_result_free(again);
            break;
        }
        add_counts(&again->counts, &p->result->counts);
        st = add_others(again, p->result, err);
        redco_search_result_free(p->result);
        p->result = again;
        p->moved = true;
        if (st != REDCO_OK) { return st; }
    }
    st = price_ranked(p, priced, err);
    if (st != REDCO_OK) { return st; }
    if (!any_fits(p->result)) { give_up(p->result); }
    keep_fitting(p->result);
    return REDCO_OK;
}

/* Takes over a candidate of another result. */
static redco_status append(redco_search_result *result, redco_candidate *candidate, redco_error *err)
{
    redco_candidate *const ranked = realloc(result->ranked, (result->ranked_count + 1U) * sizeof *ranked);
    if (ranked == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    result->ranked = ranked;
    ranked[result->ranked_count++] = *candidate;
    candidate->assignments = NULL;
    return REDCO_OK;
}

/* Layouts that only the simulator finds to fit join the answers if they are faster than what is known. */
static redco_status look_roomier(struct pricing *p, const redco_search_options *searched, redco_error *err)
{
    const redco_prediction *const first = &p->result->ranked[0].prediction;
    redco_search_options roomier = *searched;
    redco_search_result *more = NULL;
    redco_error why = {.status = REDCO_OK};
    double best_s = last_wanted_s(p, p->result->ranked_count);
    roomier.slack_bytes = (uint64_t)(slack_ratio * (double)first->capacity_bytes);
    roomier.verify = false;
    roomier.top = ROOMIER;
    roomier.spread_ratio = 0.0; /* the first may be far too large */
    if (isfinite(best_s)) { roomier.limit_s = best_s * (1.0 + redco_look_ratio); }
    redco_status st = search_again(p, &roomier, &more, &why);
    if (st == REDCO_EVALUE) { return REDCO_OK; } /* no stages divide layers, GPUs or batch */
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    add_counts(&p->result->counts, &more->counts);
    for (uint32_t i = 0, simulated = 0; i < more->ranked_count && simulated < BEST_FEW && st == REDCO_OK; i++) {
        redco_candidate *const c = &more->ranked[i];
        const uint64_t bytes = c->closed_form.total_bytes, capacity = c->closed_form.capacity_bytes;
        bool priced = false;
        if (bytes > capacity && bytes - capacity > (uint64_t)(memory_ratio * (double)capacity)) { continue; }
        if (c->closed_form.step_s > best_s * (1.0 + redco_look_ratio)) { break; }
        simulated++;
        st = price_one(p, c, &priced, err);
        if (st == REDCO_OK && priced && fits(c) && c->prediction.step_s < best_s) {
            st = append(p->result, c, err);
            best_s = last_wanted_s(p, p->result->ranked_count);
        }
    }
    redco_search_result_free(more);
    return st;
}

/* The fastest by the simulator first, or all in its order where several are wanted. */
static void order(struct pricing *p)
{
    redco_candidate *const ranked = p->result->ranked;
    if (p->asked > 1) {
        sort(ranked, p->result->ranked_count);
    } else {
        uint32_t best = 0;
        for (uint32_t i = 1; i < p->result->ranked_count; i++) {
            if (ranked[i].prediction.step_s < ranked[best].prediction.step_s * (1.0 - rounding_ratio)) { best = i; }
        }
        if (ranked[best].prediction.step_s < ranked[0].prediction.step_s * (1.0 - tie_ratio)) {
            const redco_candidate slower = ranked[0];
            ranked[0] = ranked[best];
            ranked[best] = slower;
            p->result->by_simulation = true;
            p->moved = true;
        }
    }
    cut(p->result, p->asked);
}

/* The known distance of the answer from the best by the closed form, and by the simulator. */
static void set_proof(struct pricing *p)
{
    redco_search_result *const result = p->result;
    const redco_candidate *const first = &result->ranked[0];
    const double value_s = value_of(p, first);
    if (p->moved) {
        result->gap_ratio = value_s > 0.0 && p->bound_s < value_s ? 1.0 - p->bound_s / value_s : 0.0;
        result->status = result->gap_ratio <= p->options->gap_ratio * (1.0 + 1e-9) ? "optimal" : "feasible";
    }
    if (!p->simulates || p->options->layerwise || p->options->limit_s > 0.0 || p->asked > 1) { return; }
    const double others_s =
        fmin(p->next_s[0] / (1.0 + redco_above_ratio[0]), p->next_s[1] / (1.0 + redco_above_ratio[1]));
    result->within_ratio = fmax(tie_ratio, 1.0 - others_s / first->prediction.step_s);
    if (result->candidates == 1) { result->within_ratio = 0.0; }
}

/* Every layout of a small space through the simulator, each at its best recomputation by the closed form: a layout that
 * is faster than within_ratio allows refutes the answer. */
static redco_status verify_by_simulation(struct pricing *p, redco_error *err)
{
    redco_search_options every = *p->options;
    redco_search_result *const result = p->result;
    redco_search_result *all = NULL;
    double best_s = (double)INFINITY;
    uint64_t count = 0;
    every.top = REDCO_RANKED_MAX;
    every.verify = false;
    redco_status st = search_again(p, &every, &all, err);
    for (uint32_t i = 0; st == REDCO_OK && i < all->ranked_count && all->ranked_count < REDCO_RANKED_MAX; i++) {
        redco_candidate *const c = &all->ranked[i];
        bool priced = false;
        if ((st = price_one(p, c, &priced, err)) != REDCO_OK || !priced) { continue; }
        count++;
        if (!fits(c)) { continue; }
        const int staged = c->setting.pp > 1 ? 1 : 0;
        best_s = fmin(best_s, c->prediction.step_s);
        if (c->closed_form.step_s >= p->next_s[staged]) {
            result->above_ratio[staged] =
                fmax(result->above_ratio[staged], p->next_s[staged] / c->prediction.step_s - 1.0);
        }
    }
    redco_search_result_free(all);
    result->verify_simulated = count;
    if (st != REDCO_OK || count == 0) { return st; }
    result->verify_simulated_s = best_s;
    const double allowed_s = result->ranked[0].prediction.step_s * (1.0 - fmax(0.0, result->within_ratio));
    if (best_s < allowed_s * (1.0 - rounding_ratio)) { result->verify_failed = true; }
    return REDCO_OK;
}

redco_status redco_search_priced(const redco_inputs *inputs, const redco_search_options *options,
                                 redco_search_result **result_out, redco_error *err)
{
    const bool comm = options->objective == REDCO_OBJECTIVE_COMM;
    struct pricing p = {.inputs = inputs, .options = options, .asked = options->top > 0 ? options->top : 1};
    redco_search_options searched = *options;
    redco_status st = redco_costs_of(inputs, options, &p.costs, err);
    if (st != REDCO_OK) { return st; }
    p.simulates = minimises_steps(options) && redco_price_simulates(p.costs);
    if (p.simulates && p.asked < BEST_FEW) {
        searched.top = BEST_FEW;
        searched.spread_ratio = p.asked == 1 ? spread_ratio : 0.0;
    }
    if ((st = search_again(&p, &searched, &p.result, err)) != REDCO_OK) { goto out; }
    if (p.result->ranked_count == 0) {
        st = price_leanest(p.costs, comm, p.result, err);
        goto out;
    }
    p.bound_s = value_of(&p, &p.result->ranked[0]) * (1.0 - p.result->gap_ratio);
    st = price_answers(&p, &searched, err);
    if (st != REDCO_OK || p.result->ranked_count == 0) { goto out; }
    if (p.simulates && p.asked == 1) { st = look_roomier(&p, &searched, err); }
    if (st != REDCO_OK) { goto out; }
    if (p.simulates) { order(&p); }
    set_proof(&p);
    if (options->verify && p.simulates && !options->layerwise && p.asked == 1) { st = verify_by_simulation(&p, err); }
out:
    redco_costs_free(p.costs);
    if (st != REDCO_OK) {
        redco_search_result_free(p.result);
        return st;
    }
    *result_out = p.result;
    return REDCO_OK;
}
