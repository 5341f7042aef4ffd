/* The layouts that a search lists, and which of them are simulated: those that are likely to fit and to be faster than
 * the answers at hand. */
#include "costmodel/evaluation/request.h"
#include "planner/answer/explain.h"
#include "planner/answer/priced.h"
#include "planner/answer/pricing.h"
#include "planner/search/gaps.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    TRIES = 4, /* so often are answers asked for that leave so much more memory free as the simulator finds missing */
    LIMITED_TRIED = 6, /* layouts simulated for one that is within a limit: what is expected of these may be above the
                          simulator (gaps.h) */
    ROOMIER_TRIED = 6, /* layouts simulated that need more memory than there is, */
    ROOMIER_OPERATORS = 1 << 20 /* while they have no more operators, nor one of them alone */
};
static const uint64_t least_margin_bytes = 64000000;
/* Limits of what is simulated: no further layout that would bring the operators laid out above these, at most or unless
 * it is likely to be faster (some 10 ms, and half a second). Counts, so that answers do not depend on the clock. */
static const struct effort {
    uint32_t others;    /* listed beside one answer */
    uint32_t likely;    /* simulated whatever it takes of those that are likely to be faster */
    uint32_t simulated; /* at most */
    uint64_t few_operators, most_operators;
} efforts[] = {{192, 40, 96, 1 << 18, 1 << 21},
               {48, 4, 12, 1 << 15, 1 << 18}}; /* an answer; one of many: options.brief */

/* Layouts whose recurrence is no further above the best simulated step are likely to be faster; of several answers that
 * are asked for, those no further above the last, and in a brief search, where nothing else is simulated. */
static const double likely_ratio = 0.01, listed_ratio = 0.025;
/* A layout that is expected to be no more than this above the memory may fit. */
static const double chance_ratio = 2e-3;
/* Layouts are listed whose closed form is no further above the best than the first, and others that may be faster by
 * more than the second: the share by which no other layout shall be faster, as far as there are operators for that. */
static const double look_ratio = 0.04, aim_ratio = 0.015;

void redcoi_shortlist_ask(redco_search_options *options)
{
    options->pass.others = efforts[options->pass.brief ? 1 : 0].others;
    options->pass.others_alone = options->pass.limit_s > 0.0;
    options->pass.look_ratio = look_ratio;
    options->pass.aim_ratio = aim_ratio;
}

/* Layouts whose buffers come and go alike: the closed form counts about the same too much of their memory. */
static bool same_buffers(const redco_candidate *a, const redco_candidate *b)
{
    const redco_parallelism *const x = &a->parallelism, *const y = &b->parallelism;
    if (x->tp != y->tp || x->pp != y->pp || x->cp != y->cp || x->sequence_parallel != y->sequence_parallel ||
        x->micro_batch != y->micro_batch || x->schedule != y->schedule || x->chunks != y->chunks ||
        x->group != y->group || redco_parallelism_ep(x) != redco_parallelism_ep(y) ||
        redco_parallelism_etp(x) != redco_parallelism_etp(y) || (x->secondary.gpus > 0) != (y->secondary.gpus > 0)) {
        return false;
    }
    const redco_shards *const s = &redco_main_assignment(a)->config.shards;
    const redco_shards *const t = &redco_main_assignment(b)->config.shards;
    return (redco_mesh_ranks(s->parameters) > 1) == (redco_mesh_ranks(t->parameters) > 1) &&
           (redco_mesh_ranks(s->gradients) > 1) == (redco_mesh_ranks(t->gradients) > 1);
}

typedef enum odds { LIKELY, UNKNOWN, UNLIKELY } odds;

/* Tells from simulated layouts like it whether a layout will fit. */
static odds chance_to_fit(const redcoi_pricing *p, const redco_candidate *candidate)
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
    if (expected <= capacity * (1.0 + chance_ratio)) { return LIKELY; }
    return closed <= capacity ? UNKNOWN : UNLIKELY; /* layouts that the closed form lets in are tried, though late */
}

/* The slowest of the answers that are wanted, among those priced; INFINITY: there are too few. */
static double last_wanted_s(const redcoi_pricing *p)
{
    double best_s[REDCOI_BEST_FEW] = {0.0};
    uint32_t found = 0;
    const uint32_t wanted = p->asked < REDCOI_BEST_FEW ? p->asked : REDCOI_BEST_FEW;
    for (uint32_t i = 0; i < p->result->ranked_count; i++) {
        const redco_candidate *const c = &p->result->ranked[i];
        if (!redcoi_fits(c)) { continue; }
        uint32_t at = found < wanted ? found++ : wanted;
        for (; at > 0 && c->prediction.step_s < best_s[at - 1]; at--) {
            if (at < wanted) { best_s[at] = best_s[at - 1]; }
        }
        if (at < wanted) { best_s[at] = c->prediction.step_s; }
    }
    return found < wanted ? (double)INFINITY : best_s[wanted - 1];
}

static bool is_known(const redcoi_pricing *p, const redco_candidate *candidate)
{
    for (uint32_t i = 0; i < p->waiting_count; i++) {
        if (redco_candidate_same(&p->waiting[i].candidate, candidate)) { return true; }
    }
    for (uint32_t i = 0; i < p->result->ranked_count; i++) {
        if (redco_candidate_same(&p->result->ranked[i], candidate)) { return true; }
    }
    return false;
}

static redco_status expect_waiting(redcoi_pricing *p, redcoi_waiting *w, redco_error *err)
{
    redco_paced paced;
    const redco_status st = redcoi_expect(p, &w->candidate, &paced, err);
    if (st != REDCO_OK) { return st; }
    const bool mixture = redco_costs_experts(p->costs) > 0;
    const redco_gap gap = redco_gap_of(redco_gap_kind(&w->candidate.parallelism, mixture, paced.traffic_ratio));
    w->paced_s = paced.step_s;
    w->least_s = fmax(paced.least_s, paced.step_s / (1.0 + gap.paced_ratio));
    return REDCO_OK;
}

redco_status redcoi_shortlist_add(redcoi_pricing *p, const redco_candidate *candidates, uint32_t count,
                                  redco_error *err)
{
    redcoi_waiting *const waiting = realloc(p->waiting, ((size_t)p->waiting_count + count + 1) * sizeof *waiting);
    redco_status st = REDCO_OK;
    if (waiting == NULL) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (waiting != NULL) { p->waiting = waiting; }
    for (uint32_t i = 0; i < count; i++) {
        redcoi_waiting w = {.candidate = candidates[i], .paced_s = redcoi_value_of(p, &candidates[i])};
        if (st != REDCO_OK || is_known(p, &candidates[i]) ||
            (p->simulates && (st = expect_waiting(p, &w, err)) != REDCO_OK)) {
            free(candidates[i].assignments);
            continue;
        }
        uint32_t at = p->waiting_count++;
        while (at > 0 && w.paced_s < waiting[at - 1].paced_s * (1.0 - redcoi_rounding_ratio)) {
            waiting[at] = waiting[at - 1];
            at--;
        }
        waiting[at] = w;
    }
    return st;
}

/* A layout that is too large may be no more than the memory that the caller thinks of. */
static void note_roomier(redcoi_pricing *p, const redco_candidate *c)
{
    const double room = (1.0 + redco_help_ratio) * (double)c->prediction.capacity_bytes;
    if ((double)c->prediction.total_bytes <= room) { p->roomier_s = fmin(p->roomier_s, c->prediction.step_s); }
}

/* The search's own answer is too large by the simulator: what it finds beyond the closed form, in gradients of a second
 * bucket say, is left free by the next. */
static redco_status add_leaner(redcoi_pricing *p, redco_search_options *leaner, const redco_candidate *own,
                               redco_error *err)
{
    redco_search_result *again = NULL;
    const uint64_t bytes = own->prediction.total_bytes, closed_bytes = own->closed_form.total_bytes;
    const uint64_t beyond = bytes > closed_bytes ? bytes - closed_bytes : 0;
    leaner->pass.margin_bytes += least_margin_bytes;
    if (beyond > leaner->pass.margin_bytes) { leaner->pass.margin_bytes = beyond; }
    redco_status st = redcoi_search_again(p, leaner, &again, err);
    if (st != REDCO_OK) { return st; }
    redcoi_counts_add(&p->result->counts, &again->counts);
    p->own = NULL;
    if (again->ranked_count > 0) { /* a layout that is given, say, cannot be leaner */
        p->own = again->ranked[0].assignments;
        for (uint32_t i = 0; i < p->waiting_count; i++) { /* it may have been listed */
            if (redco_candidate_same(&p->waiting[i].candidate, &again->ranked[0])) {
                p->own = p->waiting[i].candidate.assignments;
            }
        }
        p->moved = true;
        st = redcoi_shortlist_add(p, again->ranked, again->ranked_count, err);
        again->ranked_count = 0; /* changed hands */
    }
    redco_search_result_free(again);
    return st;
}

/* Where the simulator finds no micro-batch that repeats the one before: two passes of each, and what they send on. */
static uint64_t operators_of(const redco_candidate *candidate)
{
    const redco_parallelism *const p = &candidate->parallelism;
    return 5 * p->micro_batches * p->pp * redco_parallelism_chunks(p);
}

void redcoi_shortlist_note_operators(redcoi_pricing *p, const redco_candidate *candidate, uint64_t operators)
{
    uint64_t *const most = &p->layer_operators[candidate->parallelism.pp > 1 ? 1 : 0];
    const uint64_t passes = operators_of(candidate), layers = operators > passes ? operators - passes : 1;
    if (layers > *most) { *most = layers; }
}

/* Operators that the simulation of a layout takes, by those before; without stages layers are laid out for fewer
 * micro-batches than with. */
static uint64_t expected_operators(const redcoi_pricing *p, const redco_candidate *candidate)
{
    const int staged = candidate->parallelism.pp > 1 ? 1 : 0;
    const uint64_t other = staged != 0 ? 2 * p->layer_operators[0] : p->layer_operators[1] / 2;
    return operators_of(candidate) + (p->layer_operators[staged] > 0 ? p->layer_operators[staged] : other);
}

static bool too_much(const redcoi_pricing *p, uint32_t count, uint64_t operators)
{
    return count > 0 && p->operators + p->operators / count > operators;
}

/* The first layout that may be faster than the answer by more than the aim, if there are operators for all such:
 * simulating some of them would not bring the answer nearer to the others. A brief search, which does not say how near
 * it is, tries some. @return waiting_count: none */
static uint32_t next_doubtful(redcoi_pricing *p, uint32_t count, double least_s)
{
    const struct effort *const effort = &efforts[p->options->pass.brief ? 1 : 0];
    uint32_t next = p->waiting_count, doubtful = 0;
    if (p->likely_operators == 0) { p->likely_operators = p->operators; }
    uint64_t all = p->operators - p->likely_operators;
    for (uint32_t i = p->waiting_count; i-- > 0;) {
        if (!(p->waiting[i].least_s < least_s) || chance_to_fit(p, &p->waiting[i].candidate) == UNLIKELY) { continue; }
        next = i;
        doubtful++;
        all += expected_operators(p, &p->waiting[i].candidate);
    }
    if (p->options->pass.brief) { return too_much(p, count, effort->few_operators) ? p->waiting_count : next; }
    return count + doubtful <= p->asked + effort->simulated && all <= effort->few_operators ? next : p->waiting_count;
}

/* The first that is likely to be faster and to fit, else the first that is faster and may fit. @return waiting_count:
 * none */
static uint32_t next_likely(const redcoi_pricing *p, double last_s, double near_ratio)
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

/* The first that may be faster than a limit and is likely to fit, else the first that may fit. @return waiting_count:
 * none */
static uint32_t next_below(const redcoi_pricing *p, double limit_s)
{
    uint32_t unknown = p->waiting_count;
    for (uint32_t i = 0; i < p->waiting_count; i++) {
        if (!(p->waiting[i].least_s < limit_s)) { continue; }
        const odds odds_here = chance_to_fit(p, &p->waiting[i].candidate);
        if (odds_here == LIKELY) { return i; }
        if (odds_here == UNKNOWN && unknown == p->waiting_count) { unknown = i; }
    }
    return unknown;
}

/* Which layout to simulate next, the likeliest first: the search's own, then what is likely to be faster than the
 * answers at hand, then what may be. @return waiting_count: none */
static uint32_t next_of(redcoi_pricing *p, uint32_t count)
{
    const struct effort *const effort = &efforts[p->options->pass.brief ? 1 : 0];
    const double limit_s = p->options->pass.limit_s > 0.0 ? p->options->pass.limit_s : (double)INFINITY;
    const double last_s = fmin(last_wanted_s(p), limit_s);
    if (!p->simulates) { return isfinite(last_s) ? p->waiting_count : 0; }
    if (p->waiting_count == 0) { return 0; }
    for (uint32_t i = 0; i < p->waiting_count; i++) {
        if (p->waiting[i].candidate.assignments == p->own) { return i; }
    }
    if (count >= p->asked + effort->simulated || (isfinite(last_s) && too_much(p, count, effort->most_operators))) {
        return p->waiting_count;
    }
    const bool few = !too_much(p, count, effort->few_operators);
    const double near_ratio = p->asked > 1 || p->options->pass.brief ? listed_ratio : likely_ratio;
    if (count < p->asked + effort->likely || few) {
        const uint32_t next = next_likely(p, last_s, near_ratio);
        if (next < p->waiting_count) { return next; }
    }
    if (isfinite(limit_s) && p->below_tried < LIMITED_TRIED && !(last_wanted_s(p) <= limit_s)) {
        p->below_tried++;
        return next_below(p, limit_s);
    }
    return p->asked > 1 || isfinite(limit_s) ? p->waiting_count : next_doubtful(p, count, last_s * (1.0 - aim_ratio));
}

/* @return whether a layout is what a search with a limit asks for but for memory that the closed form does not know of.
 */
static bool misses_by_memory(const redcoi_pricing *p, const redco_candidate *c)
{
    const double limit_s = p->options->pass.limit_s;
    return limit_s > 0.0 && !redcoi_fits(c) && c->prediction.step_s <= limit_s &&
           c->closed_form.total_bytes <= c->closed_form.capacity_bytes;
}

redco_status redcoi_shortlist_price(redcoi_pricing *p, const redco_search_options *searched, redco_error *err)
{
    redco_search_options leaner = *searched;
    redco_candidate missed = {.assignments = NULL}; /* its bytes; no search with a limit has an answer of its own */
    bool any_missed = false;
    redco_status st = REDCO_OK;
    int tries = 0;
    leaner.pass.others = 0;
    leaner.pass.others_alone = false;
    if (p->asked < REDCOI_BEST_FEW) { leaner.top = REDCOI_BEST_FEW; }
    for (uint32_t count = 0; st == REDCO_OK; count++) {
        uint32_t next = next_of(p, count);
        if (next >= p->waiting_count && any_missed && !(last_wanted_s(p) <= leaner.pass.limit_s) && tries++ < TRIES) {
            any_missed = false;
            if ((st = add_leaner(p, &leaner, &missed, err)) != REDCO_OK) { break; }
            next = next_of(p, count);
        }
        if (next >= p->waiting_count) { break; }
        redco_candidate c = p->waiting[next].candidate;
        const bool own = c.assignments == p->own;
        bool priced = false;
        memmove(&p->waiting[next], &p->waiting[next + 1], (--p->waiting_count - next) * sizeof *p->waiting);
        st = redcoi_price_one(p, &c, &priced, err);
        const bool large = priced && !redcoi_fits(&c);
        if (large) { note_roomier(p, &c); }
        if (priced && misses_by_memory(p, &c)) {
            missed = c;
            any_missed = true;
        }
        if (priced && st == REDCO_OK) {
            st = redcoi_result_append(p->result, &c, err);
        } else {
            free(c.assignments);
        }
        if (own && large && st == REDCO_OK && tries++ < TRIES) { st = add_leaner(p, &leaner, &c, err); }
    }
    return st;
}

double redcoi_shortlist_least_s(const redcoi_pricing *p)
{
    double least_s = (double)INFINITY;
    for (uint32_t i = 0; i < p->waiting_count; i++) {
        if (chance_to_fit(p, &p->waiting[i].candidate) == UNLIKELY) { continue; }
        least_s = fmin(least_s, p->waiting[i].least_s);
    }
    return least_s;
}

void redcoi_shortlist_free(redcoi_pricing *p)
{
    for (uint32_t i = 0; i < p->waiting_count; i++) { free(p->waiting[i].candidate.assignments); }
    free(p->waiting);
}

/* The fastest layout with more memory: of those listed the few that are likely to be faster than the answer. */
redco_status redcoi_shortlist_roomier(redcoi_pricing *p, redco_error *err)
{
    redco_search_result *const result = p->result;
    const double answer_s = result->ranked[0].prediction.step_s;
    const uint64_t most = p->operators + ROOMIER_OPERATORS;
    double paced_s[REDCO_ROOMIER_MAX];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < result->roomier_count && st == REDCO_OK; i++) {
        redco_paced paced;
        st = redcoi_expect(p, &result->roomier[i], &paced, err);
        paced_s[i] = operators_of(&result->roomier[i]) > ROOMIER_OPERATORS ? (double)INFINITY : paced.step_s;
    }
    for (int tries = 0; tries < ROOMIER_TRIED && p->operators < most && st == REDCO_OK; tries++) {
        redco_error why = {.status = REDCO_OK};
        uint32_t next = 0;
        for (uint32_t i = 1; i < result->roomier_count; i++) { next = paced_s[i] < paced_s[next] ? i : next; }
        const double best_s = fmin(answer_s, p->roomier_s);
        if (next == result->roomier_count || paced_s[next] > best_s * (1.0 + likely_ratio)) { break; }
        paced_s[next] = (double)INFINITY;
        if (redcoi_price_candidate(p, &result->roomier[next], &why) == REDCO_OK) {
            note_roomier(p, &result->roomier[next]); /* one that cannot be laid out is none */
        }
    }
    result->roomier_s = fmin(answer_s, p->roomier_s);
    return st;
}
