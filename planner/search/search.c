/* Uniform: every group of every configuration that its bound does not rule out is enumerated (exact.c), which ranks
   points; GLPK then proves the first over all groups left, and near ties are broken. Layer-wise: from the uniform
   optimum on, GLPK works on what the Lagrangian bound leaves, with a limit on nodes; where it does not reach the gap,
   the dynamic program (label_dp.c) does. */
#include "planner/glpk/glpk_run.h"
#include "planner/search/milp.h"
#include "planner/search/others.h"
#include "planner/search/solve_group.h"
#include "topology/base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Among points (configuration and meshes) within this share of the optimum, and within the gap asked for, the leanest
   is chosen. */
static const double tie_ratio = 1e-3;

enum { UNIFORM_NODES = 20000 };

struct search {
    redcoi_space *space;
    redcoi_ranking ranking;
    redcoi_others others;
    double bound_s; /**< no answer is better */
    bool explain;   /**< says what would fit, when nothing does */
};

static double tie_limit(const struct search *s, double best_s)
{
    return best_s * (1.0 + (s->space->comm ? redcoi_exact_tie_ratio : tie_ratio));
}

/* The limit that a point must not exceed to be ranked: the last rank and its near ties. */
static double limit_of(const struct search *s)
{
    const redco_search_options *const o = &s->space->options;
    const redcoi_ranking *const ranking = &s->ranking;
    double limit_s = o->pass.limit_s > 0.0 ? o->pass.limit_s : (double)INFINITY;
    if (o->pass.others_alone) { return 0.0; }
    if (ranking->count == ranking->capacity) {
        limit_s = fmin(limit_s, tie_limit(s, ranking->points[ranking->count - 1].value_s));
    }
    return limit_s;
}

static redcoi_limits limits_of(const struct search *s)
{
    return (redcoi_limits){.ranked_s = limit_of(s),
                           .best_s = s->others.near.capacity > 0 ? s->others.best_s : 0.0,
                           .crowded_s = redcoi_others_crowded_s(&s->others)};
}

static void rank(struct search *s, const redcoi_point *point)
{
    redcoi_ranking_add(&s->ranking, point);
    s->others.best_s = fmin(s->others.best_s, point->value_s);
}

struct indexed_bound {
    double bound_s;
    uint32_t group;
};

static int compare_bounds(const void *left, const void *right)
{
    const struct indexed_bound *a = left;
    const struct indexed_bound *b = right;
    if (a->bound_s < b->bound_s || a->bound_s > b->bound_s) { return a->bound_s < b->bound_s ? -1 : 1; }
    return a->group == b->group ? 0 : (a->group < b->group ? -1 : 1);
}

/* By a bound of its memory: what cannot fit need not be priced. */
static bool may_fit(redcoi_space *space, redcoi_configuration *configuration)
{
    redcoi_space_bound_memory(space, configuration);
    return configuration->least_bytes <= configuration->capacity_bytes &&
           space->options.pass.margin_bytes <= configuration->capacity_bytes - configuration->least_bytes;
}

/* The points of one group. */
static redco_status rank_group(struct search *s, const redcoi_configuration *configuration, struct indexed_bound group,
                               redcoi_point *point, redco_error *err)
{
    const redcoi_limits limits = limits_of(s);
    bool found = false, both = false;
    redco_status st = redcoi_others_list(&s->others, configuration, group.group, group.bound_s, point, &both, err);
    if (st != REDCO_OK) { return st; }
    if (both && point->value_s <= limits.ranked_s) { rank(s, point); }
    if (both || group.bound_s > limit_of(s) || configuration->budget_bytes == 0) { return REDCO_OK; }
    st = redcoi_solve_group(s->space, configuration, group.group, limit_of(s), point, &found, err);
    if (st == REDCO_OK && found) { rank(s, point); }
    return st;
}

static redco_status rank_groups(struct search *s, const redcoi_configuration *configuration, redco_error *err)
{
    struct indexed_bound *order = malloc(configuration->group_count * sizeof *order);
    redcoi_point *point = malloc(sizeof *point);
    redco_status st = REDCO_OK;
    if (order == NULL || point == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        order[g] = (struct indexed_bound){configuration->bounds_s[g], g};
    }
    qsort(order, configuration->group_count, sizeof *order, compare_bounds);
    for (uint32_t i = 0; i < configuration->group_count && st == REDCO_OK && !isinf(order[i].bound_s); i++) {
        st = rank_group(s, configuration, order[i], point, err);
    }
out:
    free(order);
    free(point);
    return st;
}

/* All configurations that their bound does not rule out, by that bound. */
static redco_status rank_all(struct search *s, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < s->space->configuration_count && st == REDCO_OK; i++) {
        redcoi_configuration *configuration = &s->space->configurations[i];
        const redcoi_limits limits = limits_of(s);
        if (configuration->least_s > fmax(limits.ranked_s, (1.0 + s->space->options.pass.look_ratio) * limits.best_s)) {
            break;
        }
        if (!may_fit(s->space, configuration) && !redcoi_others_may_fit(&s->others, configuration)) { continue; }
        st = redcoi_space_price(s->space, configuration, &limits, err);
        if (st == REDCO_OK && configuration->pareto != NULL) {
            st = rank_groups(s, configuration, err);
        } else {
            s->others.dropped_s = fmin(s->others.dropped_s, configuration->crowded_s);
        }
    }
    return st;
}

/* Groups that GLPK solved one by one carry its bounds; those that it did not are no better than the first rank.
 * @return false where the groups are not like this */
static bool proven_by_group(struct search *s, const redcoi_configuration *configuration)
{
    bool any = false;
    for (uint32_t g = 0; g < configuration->group_count && !any; g++) {
        any = redcoi_exact_is_long(configuration->pareto, g);
    }
    for (uint32_t g = 0; g < configuration->group_count && any; g++) {
        s->bound_s = fmin(s->bound_s, configuration->bounds_s[g]);
    }
    return any;
}

/* GLPK over the groups of one configuration that may hold something better than the first rank. */
static redco_status prove_configuration(struct search *s, const redcoi_configuration *configuration, redco_error *err)
{
    const redcoi_point *best = &s->ranking.points[0];
    redcoi_milp_result *result = malloc(sizeof *result);
    redcoi_point *better = malloc(sizeof *better);
    bool *keep = malloc(configuration->group_count * sizeof *keep);
    redcoi_problem *problem = NULL;
    redco_status st = REDCO_OK;
    if (result == NULL || better == NULL || keep == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    bool any = false;
    double least_s = (double)INFINITY; /* the bound that stays where GLPK proves none */
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        keep[g] =
            configuration->bounds_s[g] < best->value_s || (best->configuration == configuration && best->group == g);
        any = any || keep[g];
        if (keep[g]) { least_s = fmin(least_s, configuration->bounds_s[g]); }
    }
    if (!any) { goto out; }
    problem = redcoi_problem_copy(configuration->pareto, keep);
    if (problem == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    const redcoi_milp_options options = {
        .uniform = true, .gap_ratio = s->space->options.pass.gap_ratio / 4.0, .node_limit = UNIFORM_NODES};
    if ((st = redcoi_milp_solve(problem, &options, result, err)) != REDCO_OK) { goto out; }
    s->bound_s = fmin(s->bound_s, fmax(result->bound_s, least_s));
    if (result->feasible && result->answer.objective_s < best->value_s * (1.0 - redcoi_exact_tie_ratio)) {
        redcoi_answer_to_origin(problem, configuration->pareto, &result->answer);
        redcoi_answer_to_origin(configuration->pareto, configuration->objective, &result->answer);
        *better = (redcoi_point){.configuration = configuration, .answer = result->answer};
        redcoi_point_measure(better);
        redcoi_ranking_lead(&s->ranking, better);
    }
out:
    redcoi_problem_free(problem);
    free(keep);
    free(better);
    free(result);
    return st;
}

static redco_status prove_all(struct search *s, redco_error *err)
{
    redco_status st = REDCO_OK;
    s->bound_s = s->ranking.points[0].value_s;
    for (uint32_t i = 0; i < s->space->configuration_count && st == REDCO_OK; i++) {
        const redcoi_configuration *configuration = &s->space->configurations[i];
        if (configuration->pareto == NULL || configuration->least_s > s->ranking.points[0].value_s ||
            proven_by_group(s, configuration)) {
            continue;
        }
        st = prove_configuration(s, configuration, err);
    }
    return st;
}

/* The distance from the optimum at which a near tie is still within the gap of the proven bound. */
static double tie_ceiling(const struct search *s, double best_s)
{
    const double gap_limit_s = s->bound_s / (1.0 - s->space->options.pass.gap_ratio);
    return fmax(best_s, fmin(tie_limit(s, best_s), gap_limit_s));
}

static bool leaner_tie(const struct search *s, const redcoi_point *point, const redcoi_point *chosen)
{
    return s->space->comm ? redcoi_point_compare(point, chosen) < 0 : redcoi_point_compare_memory(point, chosen) < 0;
}

/* The leanest of all points up to the ceiling leads; for T_comm the fastest, then the leanest. Points compare at their
   best compositions: nothing is recomputed just because a tie would allow it. */
static redco_status break_ties(struct search *s, redco_error *err)
{
    const double ceiling_s = tie_ceiling(s, s->ranking.points[0].value_s);
    redcoi_point *points = malloc(2 * sizeof *points);
    if (points == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redcoi_point *chosen = &points[0];
    redcoi_point *point = &points[1];
    *chosen = s->ranking.points[0];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < s->space->configuration_count; i++) {
        const redcoi_configuration *configuration = &s->space->configurations[i];
        for (uint32_t g = 0; configuration->pareto != NULL && g < configuration->group_count && st == REDCO_OK; g++) {
            bool found = false;
            if (configuration->bounds_s[g] > ceiling_s) { continue; }
            st = redcoi_solve_group(s->space, configuration, g, ceiling_s, point, &found, err);
            if (found && leaner_tie(s, point, chosen)) { *chosen = *point; }
        }
    }
    if (st == REDCO_OK) { redcoi_ranking_lead(&s->ranking, chosen); }
    free(points);
    return st;
}

static redco_status search_layerwise(struct search *s, redco_error *err)
{
    const double gap_ratio = s->space->options.pass.gap_ratio;
    redcoi_exact_result *result = malloc(sizeof *result);
    redcoi_point *point = malloc(sizeof *point);
    redco_status st = REDCO_OK;
    if (result == NULL || point == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    uint64_t effort = redcoi_effort_default;
    s->bound_s = (double)INFINITY;
    for (uint32_t i = 0; i < s->space->configuration_count; i++) {
        redcoi_configuration *configuration = &s->space->configurations[i];
        const double best_s = s->ranking.count > 0 ? s->ranking.points[0].value_s : (double)INFINITY;
        if (configuration->least_s >= best_s * (1.0 - gap_ratio)) {
            s->bound_s = fmin(s->bound_s, configuration->least_s);
            break;
        }
        if (!may_fit(s->space, configuration)) { continue; }
        if ((st = redcoi_space_price(s->space, configuration, NULL, err)) != REDCO_OK) { goto out; }
        st = redcoi_layerwise_solve(configuration->objective, best_s, gap_ratio, redcoi_solve_leaf, &effort, result,
                                    err);
        if (st != REDCO_OK) { goto out; }
        s->bound_s = fmin(s->bound_s, result->bound_s);
        if (!result->feasible) { continue; }
        *point = (redcoi_point){.configuration = configuration, .answer = result->answer};
        redcoi_point_measure(point);
        redcoi_ranking_add(&s->ranking, point);
    }
    if (s->ranking.count > 0) { s->bound_s = fmin(s->bound_s, s->ranking.points[0].value_s); }
out:
    free(result);
    free(point);
    return st;
}

static double proven_gap(double value_s, double bound_s)
{
    return value_s > 0.0 && bound_s < value_s ? (value_s - bound_s) / value_s : 0.0;
}

static redco_status fill_candidates(const struct search *s, const redcoi_ranking *ranking,
                                    redco_candidate **candidates_out, uint32_t *count_out, redco_error *err)
{
    redco_candidate *const candidates = calloc(ranking->count > 0 ? ranking->count : 1, sizeof *candidates);
    if (candidates == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    *candidates_out = candidates;
    for (uint32_t i = 0; i < ranking->count; i++) {
        const redcoi_point *point = &ranking->points[i];
        const redco_status st =
            redcoi_space_candidate(s->space, point->configuration, &point->answer, &candidates[i], err);
        if (st != REDCO_OK) { return st; }
        *count_out = i + 1;
    }
    return REDCO_OK;
}

/* The closed form of points that are not listed is so far above the best that at their gap none is faster by more than
 * the aim, or they were pushed off. */
static redco_status fill_others(const struct search *s, redco_search_result *result, redco_error *err)
{
    redcoi_ranking all = {.capacity = s->others.near.count + s->others.doubtful.count};
    all.points = calloc(all.capacity > 0 ? all.capacity : 1, sizeof *all.points);
    if (all.points == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (uint32_t i = 0; i < s->others.near.count; i++) { all.points[all.count++] = s->others.near.points[i]; }
    for (uint32_t i = 0; i < s->others.doubtful.count; i++) { all.points[all.count++] = s->others.doubtful.points[i]; }
    result->unlisted_s = fmin(s->others.dropped_s, (1.0 - s->space->options.pass.aim_ratio) * s->others.best_s);
    redco_status st = fill_candidates(s, &all, &result->others, &result->other_count, err);
    free(all.points);
    if (st == REDCO_OK && s->others.roomier.capacity > 0) {
        st = fill_candidates(s, &s->others.roomier, &result->roomier, &result->roomier_count, err);
    }
    return st;
}

static redco_status run(struct search *s, const redcoi_inputs *inputs, redco_search_result *result, redco_error *err)
{
    const redco_search_options *o = &s->space->options;
    redco_status st = rank_all(s, err);
    if (st != REDCO_OK) { return st; }
    result->status = "infeasible";
    if (o->pass.others > 0 && (st = fill_others(s, result, err)) != REDCO_OK) { return st; }
    if (o->pass.others_alone) { return REDCO_OK; }
    if (o->layerwise) {
        st = search_layerwise(s, err);
    } else if (s->ranking.count > 0) {
        st = prove_all(s, err);
    }
    if (st == REDCO_OK && s->ranking.count > 0) { st = break_ties(s, err); }
    if (st != REDCO_OK) { return st; }
    if (s->ranking.count == 0) {
        const bool explain = s->explain && !(o->pass.limit_s > 0.0) && s->others.near.count == 0;
        return explain ? redcoi_shortfall_find(s->space, inputs, &result->shortfall, err) : REDCO_OK;
    }
    const double value_s = s->ranking.points[0].value_s;
    result->gap_ratio = proven_gap(value_s, s->bound_s);
    result->status = result->gap_ratio <= o->pass.gap_ratio * (1.0 + 1e-9) ? "optimal" : "feasible";
    if ((st = fill_candidates(s, &s->ranking, &result->ranked, &result->ranked_count, err)) != REDCO_OK) { return st; }
    return o->verify ? redcoi_space_verify(s->space, value_s, result, err) : REDCO_OK;
}

static redco_status check_options(const redco_search_options *options, redco_error *err)
{
    if (!(options->pass.gap_ratio >= 0.0) || options->pass.gap_ratio > 0.5) {
        return redco_fail(err, REDCO_EVALUE, "gap", "%g must be from 0 to 0.5", options->pass.gap_ratio);
    }
    if (!(options->pass.limit_s >= 0.0)) {
        return redco_fail(err, REDCO_EVALUE, "limit", "%g s must not be negative", options->pass.limit_s);
    }
    if (options->top > REDCO_RANKED_MAX || options->pass.others > REDCO_RANKED_MAX) {
        return redco_fail(err, REDCO_EVALUE, "top", "%u answers: at most %d are ranked",
                          options->top > options->pass.others ? options->top : options->pass.others, REDCO_RANKED_MAX);
    }
    return REDCO_OK;
}

static redco_status search_space(const redcoi_inputs *inputs, const redco_search_options *options, bool explain,
                                 redco_search_result *result, redco_error *err)
{
    struct search s = {.explain = explain};
    redco_status st = redcoi_space_create(inputs, options, &s.space, err);
    if (st != REDCO_OK) { return st; }
    s.ranking.capacity = s.space->options.top;
    s.ranking.points = calloc(s.ranking.capacity, sizeof *s.ranking.points);
    if (s.ranking.points == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    if ((st = redcoi_others_create(s.space, &s.others, err)) != REDCO_OK) { goto out; }
    result->candidates += s.space->candidates;
    result->configurations = s.space->configuration_count;
    st = run(&s, inputs, result, err);
out:
    free(s.ranking.points);
    redcoi_others_free(&s.others);
    redcoi_space_free(s.space);
    return st;
}

static void forget(redco_candidate **candidates, uint32_t *count)
{
    for (uint32_t i = 0; i < *count; i++) { free((*candidates)[i].assignments); }
    free(*candidates);
    *candidates = NULL;
    *count = 0;
}

/* T_comm knows nothing of recomputation and would always buy less traffic with more of it. AMSP takes the policy as
   given: here, the first with which anything fits. */
static redco_status search_policies(const redcoi_inputs *inputs, const redco_search_options *options,
                                    redco_search_result *result, redco_error *err)
{
    redco_search_options fixed = *options;
    redco_status st = REDCO_OK;
    const redco_recompute_list sets = redco_search_recompute(inputs->model, options);
    for (uint32_t i = 0; i < sets.count && st == REDCO_OK && result->ranked_count == 0; i++) {
        fixed.recompute = sets.sets[i];
        forget(&result->others, &result->other_count); /* the policy before listed them */
        forget(&result->roomier, &result->roomier_count);
        st = search_space(inputs, &fixed, fixed.recompute == REDCO_RECOMPUTE_FULL, result, err);
    }
    return st;
}

redco_status redco_search(const redco_machine *machine, const redco_model *model, const redco_calibration *calibration,
                          const redco_comm *comm, const redco_search_options *options, redco_search_result **result_out,
                          redco_error *err)
{
    const double start_s = redco_now_s();
    redco_status st = check_options(options, err);
    if (st != REDCO_OK) { return st; }
    redco_search_result *result = calloc(1, sizeof *result);
    if (result == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const redcoi_inputs inputs = {machine, model, calibration, comm, &result->counts};
    result->solver = redcoi_glpk_name();
    result->within_ratio = -1.0;
    result->unlisted_s = (double)INFINITY;
    const bool policies = options->strategy == REDCO_STRATEGY_AMSP && options->recompute == REDCO_RECOMPUTE_FREE;
    st = policies ? search_policies(&inputs, options, result, err) : search_space(&inputs, options, true, result, err);
    if (st != REDCO_OK) {
        redco_search_result_free(result);
        return st;
    }
    result->counts.bounded = result->counts.listed - result->counts.priced;
    result->seconds = redco_now_s() - start_s;
    *result_out = result;
    return REDCO_OK;
}

void redco_search_result_free(redco_search_result *result)
{
    if (result == NULL) { return; }
    forget(&result->ranked, &result->ranked_count);
    forget(&result->others, &result->other_count);
    forget(&result->roomier, &result->roomier_count);
    free(result->shortfall.leanest.assignments);
    free(result);
}
