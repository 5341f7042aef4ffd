#include "planner/answer/priced.h"

#include "costmodel/evaluation/request.h"
#include "planner/answer/explain.h"
#include "planner/search/gaps.h"
#include "planner/search/search_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sums of the same numbers in another order differ by less. */
static const double rounding_ratio = 1e-9;
/* Steps that differ by less are equally fast: the closed form's order, which knows memory, decides. */
static const double tie_ratio = 1e-3;

enum {
    TRIES = 4, /* so often are answers asked for that leave so much more memory free as the simulator finds missing */
    ROOMIER_TRIED = 6, /* layouts simulated that need more memory than there is */
    BEST_FEW = 16,     /* ranked by the closed form where several answers are asked for, beyond these */
};
static const uint64_t least_margin_bytes = 64000000;
/* Limits of what is simulated: no further layout that would bring the operators laid out above these, at most or unless
 * it is likely to be faster (some 10 ms, and a second). Counts, so that answers do not depend on the clock. */
static const struct effort {
    uint32_t others;    /* listed beside one answer */
    uint32_t likely;    /* simulated whatever it takes of those that are likely to be faster */
    uint32_t simulated; /* at most */
    uint64_t few_operators, most_operators;
} efforts[] = {{192, 24, 96, 1 << 18, 1 << 22},
               {48, 4, 12, 1 << 15, 1 << 18}}; /* an answer; one of many: options.brief */

/* Layouts whose recurrence is no further above the best simulated step are likely to be faster; of several answers that
 * are asked for, those no further above the last, and in a brief search, where nothing else is simulated. */
static const double likely_ratio = 0.01, listed_ratio = 0.025;
static const double look_ratio = 0.04;
/* A layout that is expected to be no more than this above the memory may fit. */
static const double chance_ratio = 2e-3;
/* The share by which no other layout shall be faster: layouts that may be are simulated while there are operators left.
 */
static const double aim_ratio = 0.015;

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

/* A layout that is not simulated yet. */
struct waiting {
    redco_candidate candidate;
    double paced_s; /* its recurrence: it is likely to take that */
    double least_s; /* it takes no less, at its gap */
};

/* One question, its answers so far, and what was learnt of them. */
struct pricing {
    redco_costs *costs;
    const redco_inputs *inputs;
    const redco_search_options *options;
    redco_search_result *result; /**< its candidates are priced, in the order in which they were */
    struct waiting *waiting; /**< in the order of their recurrence; where nothing is simulated in that of the search */
    uint32_t waiting_count;
    const redco_assignment *own; /**< the search's first, or the leaner one that took its place */
    uint32_t asked;              /**< answers that the user wants, at least 1 */
    bool simulates;              /**< the simulator orders answers */
    double bound_s;              /**< no strategy has a smaller objective, by the closed form */
    double unlisted_s;           /**< no layout that was not listed is faster by the simulator */
    bool moved;                  /**< the first is not the search's own */
    redco_error refused;         /**< why a layout could not be laid out */
    uint64_t operators;          /**< that were simulated */
    double roomier_s;            /**< the fastest that is too large, but not by more than options->roomier_ratio */
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

/* Layouts whose buffers come and go alike: the closed form counts about the same too much of their memory. */
static bool same_buffers(const redco_candidate *a, const redco_candidate *b)
{
    const redco_parallelism *const x = &a->parallelism, *const y = &b->parallelism;
    const redco_shards *const s = &redco_main_assignment(a)->config.shards;
    const redco_shards *const t = &redco_main_assignment(b)->config.shards;
    return x->tp == y->tp && x->pp == y->pp && x->cp == y->cp && x->sequence_parallel == y->sequence_parallel &&
           x->micro_batch == y->micro_batch && x->schedule == y->schedule && x->chunks == y->chunks &&
           x->group == y->group && (x->secondary.gpus > 0) == (y->secondary.gpus > 0) &&
           (redco_mesh_ranks(s->parameters) > 1) == (redco_mesh_ranks(t->parameters) > 1) &&
           (redco_mesh_ranks(s->gradients) > 1) == (redco_mesh_ranks(t->gradients) > 1);
}

typedef enum odds { LIKELY, UNKNOWN, UNLIKELY } odds;

/* Tells from simulated layouts like it whether a layout will fit. */
static odds chance_to_fit(const struct pricing *p, const redco_candidate *candidate)
{
    const double closed = (double)candidate->closed_form.total_bytes;
    const double capacity = (double)candidate->closed_form.capacity_bytes;
    double nearest = (double)INFINITY, expected = closed;
    for (uint32_t i = 0; i < p->result->ranked_count; i++) {
        const redco_candidate *const seen = &p->result->ranked[i];
        const double distance = fabs((double)seen->closed_form.total_bytes - closed);
        if (distance >= nearest || !same_buffers(seen, candidate)) { continue; }
        nearest = distance;
        expected = closed - ((double)seen->closed_form.total_bytes - (double)seen->prediction.total_bytes);
    }
    if (isinf(nearest)) { return closed <= capacity ? LIKELY : UNKNOWN; }
    return expected <= capacity * (1.0 + chance_ratio) ? LIKELY : UNLIKELY;
}

/* The slowest of the answers that are wanted, among those priced; INFINITY: there are too few. */
static double last_wanted_s(const struct pricing *p)
{
    double best_s[BEST_FEW] = {0.0};
    uint32_t found = 0;
    const uint32_t wanted = p->asked < BEST_FEW ? p->asked : BEST_FEW;
    for (uint32_t i = 0; i < p->result->ranked_count; i++) {
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

static bool same_layout(const redco_candidate *a, const redco_candidate *b)
{
    const redco_parallelism *const x = &a->parallelism, *const y = &b->parallelism;
    if (x->tp != y->tp || x->pp != y->pp || x->cp != y->cp || x->cp_type != y->cp_type || x->chunks != y->chunks ||
        x->schedule != y->schedule || x->group != y->group || x->sequence_parallel != y->sequence_parallel ||
        x->micro_batch != y->micro_batch || x->scheme != y->scheme || !redco_mesh_equal(x->secondary, y->secondary) ||
        a->assignment_count != b->assignment_count) {
        return false;
    }
    if (!redco_split_same(x->split, y->split,
                          redco_pipeline_positions(x->schedule, x->pp, redco_parallelism_chunks(x)))) {
        return false;
    }
    for (uint32_t i = 0; i < a->assignment_count; i++) {
        const redco_assignment *const s = &a->assignments[i], *const t = &b->assignments[i];
        if (s->class_index != t->class_index || s->layers != t->layers || s->config.recompute != t->config.recompute ||
            !redco_shards_equal(s->config.shards, t->config.shards)) {
            return false;
        }
    }
    return true;
}

static bool is_known(const struct pricing *p, const redco_candidate *candidate)
{
    for (uint32_t i = 0; i < p->waiting_count; i++) {
        if (same_layout(&p->waiting[i].candidate, candidate)) { return true; }
    }
    for (uint32_t i = 0; i < p->result->ranked_count; i++) {
        if (same_layout(&p->result->ranked[i], candidate)) { return true; }
    }
    return false;
}

static redco_status expect(struct pricing *p, const redco_candidate *c, redco_paced *paced_out, redco_error *err)
{
    return redco_cost_paced(p->costs, &c->parallelism, c->assignments, c->assignment_count, &c->closed_form, paced_out,
                            err);
}

static redco_status expect_waiting(struct pricing *p, struct waiting *w, redco_error *err)
{
    redco_paced paced;
    const redco_status st = expect(p, &w->candidate, &paced, err);
    if (st != REDCO_OK) { return st; }
    const redco_gap gap = redco_gap_of(redco_gap_kind(&w->candidate.parallelism, paced.traffic_ratio));
    w->paced_s = paced.step_s;
    w->least_s = fmax(paced.least_s, paced.step_s / (1.0 + gap.paced_ratio));
    return REDCO_OK;
}

/* Takes over @p count candidates, and frees their array. */
static redco_status add_waiting(struct pricing *p, redco_candidate **candidates, uint32_t *count, redco_error *err)
{
    const uint32_t more = *count;
    struct waiting *const waiting = realloc(p->waiting, ((size_t)p->waiting_count + more + 1) * sizeof *waiting);
    redco_candidate *const list = *candidates;
    redco_status st = REDCO_OK;
    if (waiting == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    p->waiting = waiting;
    *candidates = NULL;
    *count = 0;
    for (uint32_t i = 0; i < more; i++) {
        struct waiting w = {.candidate = list[i]};
        if (st != REDCO_OK || is_known(p, &list[i]) ||
            (p->simulates && (st = expect_waiting(p, &w, err)) != REDCO_OK)) {
            free(list[i].assignments);
            continue;
        }
        uint32_t at = p->waiting_count++;
        while (at > 0 && (p->simulates ? w.paced_s < waiting[at - 1].paced_s : at > i)) {
            waiting[at] = waiting[at - 1];
            at--;
        }
        waiting[at] = w;
    }
    free(list);
    return st;
}

/* Takes over a candidate. */
static redco_status append(redco_search_result *result, const redco_candidate *candidate, redco_error *err)
{
    redco_candidate *const ranked = realloc(result->ranked, (result->ranked_count + 1U) * sizeof *ranked);
    if (ranked == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    result->ranked = ranked;
    ranked[result->ranked_count++] = *candidate;
    return REDCO_OK;
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

/* A layout that is too large may be no more than the memory that the caller thinks of. */
static void note_roomier(struct pricing *p, const redco_candidate *c)
{
    const double room = (1.0 + p->options->roomier_ratio) * (double)c->prediction.capacity_bytes;
    if ((double)c->prediction.total_bytes <= room) { p->roomier_s = fmin(p->roomier_s, c->prediction.step_s); }
}

/* The fastest layout with more memory: of those listed the few that are likely to be faster than the answer. */
static redco_status price_roomier(struct pricing *p, redco_error *err)
{
    redco_search_result *const result = p->result;
    const double answer_s = result->ranked[0].prediction.step_s;
    double paced_s[REDCO_ROOMIER_MAX];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < result->roomier_count && st == REDCO_OK; i++) {
        redco_paced paced;
        st = expect(p, &result->roomier[i], &paced, err);
        paced_s[i] = paced.step_s;
    }
    for (int tries = 0; tries < ROOMIER_TRIED && st == REDCO_OK; tries++) {
        redco_error why = {.status = REDCO_OK};
        uint32_t next = 0;
        for (uint32_t i = 1; i < result->roomier_count; i++) { next = paced_s[i] < paced_s[next] ? i : next; }
        const double best_s = fmin(answer_s, p->roomier_s);
        if (next == result->roomier_count || paced_s[next] > best_s * (1.0 + likely_ratio)) { break; }
        paced_s[next] = (double)INFINITY;
        if (price_candidate(p->costs, &result->roomier[next], &p->operators, &why) == REDCO_OK) {
            note_roomier(p, &result->roomier[next]); /* one that cannot be laid out is none */
        }
    }
    result->roomier_s = fmin(answer_s, p->roomier_s);
    return st;
}

/* The search's own answer is too large by the simulator: what it finds beyond the closed form, in gradients of a second
 * bucket say, is left free by the next. */
static redco_status add_leaner(struct pricing *p, redco_search_options *leaner, const redco_candidate *own,
                               redco_error *err)
{
    redco_search_result *again = NULL;
    leaner->margin_bytes += own->prediction.total_bytes - own->prediction.capacity_bytes + least_margin_bytes;
    redco_status st = search_again(p, leaner, &again, err);
    if (st != REDCO_OK) { return st; }
    add_counts(&p->result->counts, &again->counts);
    p->own = NULL;
    if (again->ranked_count > 0) { /* a layout that is given, say, cannot be leaner */
        p->own = again->ranked[0].assignments;
        for (uint32_t i = 0; i < p->waiting_count; i++) { /* it may have been listed */
            if (same_layout(&p->waiting[i].candidate, &again->ranked[0])) {
                p->own = p->waiting[i].candidate.assignments;
            }
        }
        p->moved = true;
        st = add_waiting(p, &again->ranked, &again->ranked_count, err);
    }
    redco_search_result_free(again);
    return st;
}

static bool too_much(const struct pricing *p, uint32_t count, uint64_t operators)
{
    return count > 0 && p->operators + p->operators / count > operators;
}

/* The first layout that may be faster than the answer by more than the aim, if there are operators for all such:
 * simulating some of them would not bring the answer nearer to the others. A brief search, which does not say how near
 * it is, tries some. @return waiting_count: none */
static uint32_t next_doubtful(const struct pricing *p, uint32_t count, double least_s)
{
    const struct effort *const effort = &efforts[p->options->brief ? 1 : 0];
    uint32_t next = p->waiting_count, doubtful = 0;
    for (uint32_t i = p->waiting_count; i-- > 0;) {
        if (!(p->waiting[i].least_s < least_s) || chance_to_fit(p, &p->waiting[i].candidate) != LIKELY) { continue; }
        next = i;
        doubtful++;
    }
    const uint64_t each = count > 0 ? p->operators / count : 0;
    if (p->options->brief) { return too_much(p, count, effort->few_operators) ? p->waiting_count : next; }
    const bool all =
        count + doubtful <= p->asked + effort->simulated && p->operators + doubtful * each <= effort->few_operators;
    return all ? next : p->waiting_count;
}

/* The first that is likely to be faster and to fit, else the first that is faster and may fit. @return waiting_count:
 * none */
static uint32_t next_likely(const struct pricing *p, double last_s, double near_ratio)
{
    uint32_t unknown = p->waiting_count;
    for (uint32_t i = 0; i < p->waiting_count && !(p->waiting[i].paced_s > last_s * (1.0 + near_ratio)); i++) {
        const odds odds_here = chance_to_fit(p, &p->waiting[i].candidate);
        if (odds_here == LIKELY) { return i; }
        const bool faster = !(p->waiting[i].paced_s > last_s);
        if (odds_here == UNKNOWN && faster && unknown == p->waiting_count) { unknown = i; }
    }
    return unknown;
}

/* Which layout to simulate next, the likeliest first: the search's own, then what is likely to be faster than the
 * answers at hand, then what may be. @return waiting_count: none */
static uint32_t next_of(const struct pricing *p, uint32_t count)
{
    const struct effort *const effort = &efforts[p->options->brief ? 1 : 0];
    const double limit_s = p->options->limit_s > 0.0 ? p->options->limit_s : (double)INFINITY;
    const double last_s = fmin(last_wanted_s(p), limit_s);
    if (!p->simulates || p->waiting_count == 0) { return 0; }
    for (uint32_t i = 0; i < p->waiting_count; i++) {
        if (p->waiting[i].candidate.assignments == p->own) { return i; }
    }
    if (count >= p->asked + effort->simulated || (isfinite(last_s) && too_much(p, count, effort->most_operators))) {
        return p->waiting_count;
    }
    const bool few = !too_much(p, count, effort->few_operators);
    const double near_ratio = p->asked > 1 || p->options->brief ? listed_ratio : likely_ratio;
    if (count < p->asked + effort->likely || few) {
        const uint32_t next = next_likely(p, last_s, near_ratio);
        if (next < p->waiting_count) { return next; }
    }
    return p->asked > 1 || isfinite(limit_s) ? p->waiting_count : next_doubtful(p, count, last_s * (1.0 - aim_ratio));
}

static redco_status price_waiting(struct pricing *p, const redco_search_options *searched, redco_error *err)
{
    redco_search_options leaner = *searched;
    redco_status st = REDCO_OK;
    int tries = 0;
    leaner.others = 0;
    if (p->asked < BEST_FEW) { leaner.top = BEST_FEW; }
    for (uint32_t count = 0; st == REDCO_OK; count++) {
        const uint32_t next = next_of(p, count);
        if (next >= p->waiting_count) { break; }
        redco_candidate c = p->waiting[next].candidate;
        const bool own = c.assignments == p->own;
        bool priced = false;
        memmove(&p->waiting[next], &p->waiting[next + 1], (--p->waiting_count - next) * sizeof *p->waiting);
        st = price_one(p, &c, &priced, err);
        const bool large = priced && !fits(&c);
        if (large) { note_roomier(p, &c); }
        if (priced && st == REDCO_OK) {
            st = append(p->result, &c, err);
        } else {
            free(c.assignments);
        }
        if (own && large && st == REDCO_OK && tries++ < TRIES) { st = add_leaner(p, &leaner, &c, err); }
    }
    for (uint32_t i = 0; i < p->waiting_count; i++) {
        if (chance_to_fit(p, &p->waiting[i].candidate) == UNLIKELY) { continue; }
        p->unlisted_s = fmin(p->unlisted_s, p->waiting[i].least_s);
    }
    return st;
}

static void lead(redco_search_result *result, uint32_t index)
{
    const redco_candidate first = result->ranked[index];
    memmove(&result->ranked[1], &result->ranked[0], index * sizeof first);
    result->ranked[0] = first;
}

/* The search's own answer first, which knows memory, or the fastest by the simulator; all in its order where several
 * are wanted. */
static void order(struct pricing *p)
{
    redco_search_result *const result = p->result;
    uint32_t best = 0;
    for (uint32_t i = 0; i < result->ranked_count && p->simulates; i++) {
        if (result->ranked[i].assignments == p->own) { lead(result, i); }
    }
    p->moved = p->moved || result->ranked[0].assignments != p->own;
    if (p->simulates && p->asked > 1) {
        sort(result->ranked, result->ranked_count);
    } else if (p->simulates) {
        for (uint32_t i = 1; i < result->ranked_count; i++) {
            const double best_s = result->ranked[best].prediction.step_s;
            if (result->ranked[i].prediction.step_s < best_s * (1.0 - rounding_ratio)) { best = i; }
        }
        const bool own = result->ranked[0].assignments == p->own;
        const double least_s = result->ranked[0].prediction.step_s * (1.0 - (own ? tie_ratio : 0.0));
        if (result->ranked[best].prediction.step_s < least_s) { lead(result, best); }
        result->by_simulation = result->ranked[0].assignments != p->own;
        p->moved = p->moved || result->by_simulation;
    }
    cut(result, p->asked);
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
    result->within_ratio = fmax(tie_ratio, 1.0 - p->unlisted_s / first->prediction.step_s);
    if (result->candidates == 1) { result->within_ratio = 0.0; }
}

/* Notes the distance of what was expected of a layout from its simulated step. */
static redco_status note_gap(struct pricing *p, const redco_candidate *c, redco_error *err)
{
    redco_search_result *const result = p->result;
    redco_paced paced;
    const redco_status st = expect(p, c, &paced, err);
    if (st != REDCO_OK) { return st; }
    redco_gap *const seen = &result->seen[redco_gap_kind(&c->parallelism, paced.traffic_ratio)];
    seen->closed_ratio = fmax(seen->closed_ratio, c->closed_form.step_s / c->prediction.step_s - 1.0);
    seen->paced_ratio = fmax(seen->paced_ratio, paced.step_s / c->prediction.step_s - 1.0);
    result->least_above_ratio = fmax(result->least_above_ratio, paced.least_s / c->prediction.step_s - 1.0);
    return REDCO_OK;
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
    for (uint32_t kind = 0; kind < REDCO_GAP_KINDS; kind++) { result->seen[kind] = (redco_gap){-1.0, -1.0}; }
    result->least_above_ratio = -1.0;
    redco_status st = search_again(p, &every, &all, err);
    for (uint32_t i = 0; st == REDCO_OK && i < all->ranked_count && all->ranked_count < REDCO_RANKED_MAX; i++) {
        redco_candidate *const c = &all->ranked[i];
        bool priced = false;
        if ((st = price_one(p, c, &priced, err)) != REDCO_OK || !priced) { continue; }
        count++;
        if (fits(c)) { best_s = fmin(best_s, c->prediction.step_s); }
        st = note_gap(p, c, err);
    }
    redco_search_result_free(all);
    result->verify_simulated = count;
    if (st != REDCO_OK || count == 0) { return st; }
    result->verify_simulated_s = best_s;
    const double allowed_s = result->ranked[0].prediction.step_s * (1.0 - fmax(0.0, result->within_ratio));
    if (best_s < allowed_s * (1.0 - rounding_ratio)) { result->verify_failed = true; }
    return REDCO_OK;
}

/* Prices what the search found. @return with no candidates where none of them fits */
static redco_status price_answers(struct pricing *p, const redco_search_options *searched, redco_error *err)
{
    redco_search_result *const result = p->result;
    p->own = result->ranked_count > 0 ? result->ranked[0].assignments : NULL;
    p->unlisted_s = result->unlisted_s;
    redco_status st = add_waiting(p, &result->ranked, &result->ranked_count, err);
    if (st == REDCO_OK) { st = add_waiting(p, &result->others, &result->other_count, err); }
    if (st == REDCO_OK) { st = price_waiting(p, searched, err); }
    if (st != REDCO_OK) { return st; }
    if (result->ranked_count == 0 && p->refused.status != REDCO_OK) {
        return redco_fail(err, p->refused.status, p->refused.place, "%s", p->refused.text);
    }
    if (result->ranked_count > 0 && !any_fits(result)) { give_up(result); }
    keep_fitting(result);
    return REDCO_OK;
}

/* Nothing fits by the closed form: why, and the strategy that is too large by least. */
static redco_status explain_shortfall(struct pricing *p, redco_error *err)
{
    redco_search_options plain = *p->options;
    redco_search_result *again = NULL;
    const redco_search_counts before = p->result->counts;
    redco_status st = search_again(p, &plain, &again, err);
    if (st != REDCO_OK) { return st; }
    redco_search_result_free(p->result);
    p->result = again;
    add_counts(&again->counts, &before);
    return price_leanest(p->costs, p->options->objective == REDCO_OBJECTIVE_COMM, again, err);
}

/* The options of the search that lists what is to be simulated. */
static redco_search_options listing(const struct pricing *p)
{
    redco_search_options o = *p->options;
    if (!p->simulates) { return o; }
    if (p->asked > 1) {
        o.top = p->asked < BEST_FEW ? BEST_FEW : p->asked;
    } else if (!o.layerwise) {
        o.others = efforts[o.brief ? 1 : 0].others;
        o.others_alone = o.limit_s > 0.0;
        o.look_ratio = look_ratio;
        o.aim_ratio = aim_ratio;
    }
    return o;
}

redco_status redco_search_priced(const redco_inputs *inputs, const redco_search_options *options,
                                 redco_search_result **result_out, redco_error *err)
{
    struct pricing p = {.inputs = inputs,
                        .options = options,
                        .asked = options->top > 0 ? options->top : 1,
                        .roomier_s = (double)INFINITY};
    redco_status st = redco_costs_of(inputs, options, &p.costs, err);
    if (st != REDCO_OK) { return st; }
    p.simulates = minimises_steps(options) && redco_price_simulates(p.costs);
    const redco_search_options searched = listing(&p);
    if ((st = search_again(&p, &searched, &p.result, err)) != REDCO_OK) { goto out; }
    const bool proven = p.result->ranked_count > 0;
    if (proven) { p.bound_s = value_of(&p, &p.result->ranked[0]) * (1.0 - p.result->gap_ratio); }
    if (!proven && p.result->other_count == 0) {
        if (!(options->limit_s > 0.0)) {
            st = price_leanest(p.costs, options->objective == REDCO_OBJECTIVE_COMM, p.result, err);
        }
        goto out;
    }
    if (!proven) { p.bound_s = p.result->others[0].closed_form.step_s; }
    st = price_answers(&p, &searched, err);
    if (st == REDCO_OK && p.result->ranked_count == 0 && !proven && !(options->limit_s > 0.0)) {
        st = explain_shortfall(&p, err);
        goto out;
    }
    if (st != REDCO_OK || p.result->ranked_count == 0) { goto out; }
    p.moved = p.moved || !proven;
    order(&p);
    set_proof(&p);
    if (searched.others > 0 && options->roomier_ratio > 0.0) { st = price_roomier(&p, err); }
    if (st == REDCO_OK && options->verify && p.simulates && !options->layerwise && p.asked == 1) {
        st = verify_by_simulation(&p, err);
    }
out:
    for (uint32_t i = 0; i < p.waiting_count; i++) { free(p.waiting[i].candidate.assignments); }
    free(p.waiting);
    redco_costs_free(p.costs);
    if (st != REDCO_OK) {
        redco_search_result_free(p.result);
        return st;
    }
    *result_out = p.result;
    return REDCO_OK;
}
