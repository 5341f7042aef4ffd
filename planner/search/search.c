/* Uniform: every group of every configuration that its bound does not rule out is enumerated (exact.c), which ranks
   points; GLPK then proves the first over all groups left, and near ties are broken. Layer-wise: from the uniform
   optimum on, GLPK works on what the Lagrangian bound leaves, with a limit on nodes; where it does not reach the gap,
   the dynamic program (label_dp.c) does. */
#include "planner/glpk/glpk_run.h"
#include "planner/search/exact.h"
#include "planner/search/milp.h"
#include "planner/search/ranking.h"
#include "planner/search/search_space.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Among points (configuration and meshes) within this share of the optimum, and within the gap asked for, the leanest
   is chosen. */
static const double tie_ratio = 1e-3;
/* T_comm: brute force must find the same value, so only rounding makes a tie. */
static const double exact_tie_ratio = 1e-9;

enum { UNIFORM_NODES = 20000, LAYERWISE_NODES = 300, LAYERWISE_NODES_AGAIN = 3000 };
/* So many compositions of a group are looked at for one whose fullest stage fits. */
enum { STAGE_TRIES = 8 };

const double redco_memory_ratio = 0.02;

struct search {
    redcoi_space *space;
    redcoi_ranking ranking;
    redcoi_ranking others;   /**< other points near the best */
    redcoi_ranking doubtful; /**< those that may be faster; by the least that they take by the simulator */
    double best_s;           /**< the best of all these by the closed form */
    double dropped_s;        /**< no point that was pushed off these is faster by the simulator */
    double bound_s;          /**< no answer is better */
    bool explain;            /**< says what would fit, when nothing does */
};

static double seconds_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static double tie_limit(const struct search *s, double best_s)
{
    return best_s * (1.0 + (s->space->comm ? exact_tie_ratio : tie_ratio));
}

/* The limit that a point must not exceed to be ranked: the last rank and its near ties. */
static double limit_of(const struct search *s)
{
    const redco_search_options *const o = &s->space->options;
    const redcoi_ranking *const ranking = &s->ranking;
    double limit_s = o->limit_s > 0.0 ? o->limit_s : (double)INFINITY;
    if (o->others_alone) { return 0.0; }
    if (ranking->count == ranking->capacity) {
        limit_s = fmin(limit_s, tie_limit(s, ranking->points[ranking->count - 1].value_s));
    }
    return limit_s;
}

static redcoi_limits limits_of(const struct search *s)
{
    return (redcoi_limits){.ranked_s = limit_of(s), .best_s = s->others.capacity > 0 ? s->best_s : 0.0};
}

static void rank(struct search *s, const redcoi_point *point)
{
    redcoi_ranking_add(&s->ranking, point);
    s->best_s = fmin(s->best_s, point->value_s);
}

struct indexed_bound {
    double bound_s;
    uint32_t group;
};

/* The closed form up to which other points are near the best. */
static double near_s(const struct search *s)
{
    return (1.0 + s->space->options.look_ratio) * s->best_s;
}

/* Adds to a ranking that may be full. @return the point that is not in it, or NULL */
static const redcoi_point *add_or_drop(redcoi_ranking *ranking, const redcoi_point *point, redcoi_point *dropped)
{
    const bool full = ranking->count == ranking->capacity;
    const redcoi_point *const last = full ? &ranking->points[ranking->count - 1] : NULL;
    if (full) { *dropped = redcoi_point_compare(point, last) < 0 ? *last : *point; }
    redcoi_ranking_add(ranking, point);
    return full ? dropped : NULL;
}

static void list_doubtful(struct search *s, const redcoi_point *point, redcoi_point *dropped)
{
    redcoi_point by_least = *point;
    by_least.value_s = redcoi_least_simulated_s(point->configuration, point->group, point->value_s);
    if (add_or_drop(&s->doubtful, &by_least, dropped) != NULL) { s->dropped_s = fmin(s->dropped_s, dropped->value_s); }
}

static void list_other(struct search *s, const redcoi_point *point, bool fits)
{
    redcoi_point dropped[2];
    if (fits) { s->best_s = fmin(s->best_s, point->value_s); }
    if (point->value_s > near_s(s)) {
        list_doubtful(s, point, &dropped[1]);
    } else if (add_or_drop(&s->others, point, &dropped[0]) != NULL) {
        list_doubtful(s, &dropped[0], &dropped[1]);
    }
}

/* @return whether no composition of a group would be kept: it is not near, and more doubtful ones fill the list */
static bool is_crowded_out(struct search *s, const redcoi_configuration *configuration, struct indexed_bound group)
{
    const redcoi_ranking *const doubtful = &s->doubtful;
    const double least_s = redcoi_least_simulated_s(configuration, group.group, group.bound_s);
    if (group.bound_s <= near_s(s) || doubtful->count < doubtful->capacity ||
        least_s < doubtful->points[doubtful->count - 1].value_s) {
        return false;
    }
    s->dropped_s = fmin(s->dropped_s, least_s);
    return true;
}

/* GLPK with few nodes, its answer polished; if the gap is open, with more of them and that answer to prune with. */
static redco_status solve_by_glpk(const redcoi_problem *few, double cutoff_s, double gap_ratio, bool round,
                                  redcoi_milp_result *result, redco_error *err)
{
    redcoi_milp_options options = {.gap_ratio = gap_ratio, .node_limit = LAYERWISE_NODES, .round = round};
    redco_status st = redcoi_milp_solve(few, &options, result, err);
    if (st != REDCO_OK || !result->feasible) { return st; }
    redcoi_answer_polish(few, &result->answer);
    if (result->bound_s >= fmin(cutoff_s, result->answer.objective_s) * (1.0 - gap_ratio)) { return REDCO_OK; }
    redcoi_milp_result *const first = malloc(sizeof *first);
    if (first == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    *first = *result;
    options.start = &first->answer;
    options.node_limit = LAYERWISE_NODES_AGAIN;
    st = redcoi_milp_solve(few, &options, result, err);
    if (st == REDCO_OK) {
        if (result->feasible) { redcoi_answer_polish(few, &result->answer); }
        if (!result->feasible || first->answer.objective_s < result->answer.objective_s) {
            result->answer = first->answer;
        }
        result->feasible = true;
        result->bound_s = isfinite(result->bound_s) ? fmax(result->bound_s, first->bound_s) : first->bound_s;
    }
    free(first);
    return st;
}

/* A redcoi_leaf. */
static redco_status solve_long_leaf(const redcoi_problem *problem, double cutoff_s, double gap_ratio, void *context,
                                    redcoi_exact_result *result_out, redco_error *err)
{
    (void)context;
    redcoi_milp_result *glpk = malloc(sizeof *glpk);
    if (glpk == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const redco_status st = solve_by_glpk(problem, cutoff_s, gap_ratio, true, glpk, err);
    *result_out = (redcoi_exact_result){.proven = true, .bound_s = fmin(glpk->bound_s, cutoff_s)};
    if (st == REDCO_OK && glpk->feasible && glpk->answer.objective_s < cutoff_s) {
        result_out->feasible = true;
        result_out->answer = glpk->answer;
    }
    free(glpk);
    return st;
}

/* GLPK mixes options of many layers in several classes within a share of the gap asked for: layers are small beside it.
 * Its nodes are spent on counts alone, for transient buffers are branched on before.
 * @param limit_s  of the objective of @p problem
 * @param bound_s  NULL, or raised to what was proven */
static redco_status solve_long_group(const struct search *s, const redcoi_problem *problem, uint32_t group,
                                     double limit_s, double *bound_s, redcoi_answer *answer, bool *found_out,
                                     redco_error *err)
{
    const double gap_ratio = s->space->options.gap_ratio / 8.0;
    redcoi_exact_result *result = malloc(sizeof *result);
    bool *keep = calloc(problem->group_count, sizeof *keep);
    redcoi_problem *alone = NULL;
    redco_status st = REDCO_ENOMEM;
    if (keep != NULL) { keep[group] = true; }
    if (result != NULL && keep != NULL) { alone = redcoi_problem_copy(problem, keep); }
    if (alone != NULL) {
        st = redcoi_layerwise_solve(alone, limit_s, gap_ratio, solve_long_leaf, NULL, result, err);
    } else {
        (void)redco_fail(err, st, "", "out of memory");
    }
    if (st == REDCO_OK && bound_s != NULL) {
        *bound_s = fmax(*bound_s, fmin(result->bound_s, limit_s * (1.0 - gap_ratio)));
    }
    if (st == REDCO_OK && result->feasible) {
        *answer = result->answer;
        redcoi_answer_to_origin(alone, problem, answer);
        *found_out = true;
    }
    redcoi_problem_free(alone);
    free(keep);
    free(result);
    return st;
}

static redco_status solve_problem(const struct search *s, const redcoi_problem *problem, uint32_t group, double limit_s,
                                  double *bound_s, redcoi_answer *answer, bool *found_out, redco_error *err)
{
    *found_out = false;
    s->space->counts->solved++;
    if (redcoi_exact_is_long(problem, group)) {
        return solve_long_group(s, problem, group, limit_s, bound_s, answer, found_out, err);
    }
    *found_out =
        redcoi_exact_group(problem, group, REDCOI_LEAST_TIME, limit_s, answer, &s->space->counts->compositions);
    return REDCO_OK;
}

/* The best composition of one group. For T_comm, the fastest of those that attain its least. */
static redco_status solve_group(const struct search *s, const redcoi_configuration *configuration, uint32_t group,
                                double limit_s, redcoi_point *point, bool *found_out, redco_error *err)
{
    point->configuration = configuration;
    redco_status st = solve_problem(s, configuration->pareto, group, limit_s, &configuration->bounds_s[group],
                                    &point->answer, found_out, err);
    if (st != REDCO_OK || !*found_out) { return st; }
    redcoi_answer_to_origin(configuration->pareto, configuration->objective, &point->answer);
    redcoi_point_measure(point);
    if (!s->space->comm) { return REDCO_OK; }
    redcoi_point fastest = {.configuration = configuration};
    bool any = false;
    st = solve_problem(s, configuration->steps, group, (double)INFINITY, NULL, &fastest.answer, &any, err);
    if (st != REDCO_OK || !any) { return st; }
    redcoi_point_measure(&fastest);
    if (fastest.value_s <= point->value_s * (1.0 + exact_tie_ratio)) { *point = fastest; }
    return REDCO_OK;
}

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
           space->options.margin_bytes <= configuration->capacity_bytes - configuration->least_bytes;
}

/* The same for points that are listed beside the ranked ones. */
static bool may_fit_by_stages(const redcoi_space *space, const redcoi_configuration *configuration)
{
    const uint64_t room = configuration->capacity_bytes + space->options.slack_bytes;
    return space->options.others > 0 && configuration->least_bytes <= room &&
           space->options.margin_bytes <= room - configuration->least_bytes;
}

/* Lists the best compositions of a group whose fullest stage holds no more than the capacity, with the tolerance and
 * without. The problem counts more than that: what a composition is too large by is what the next one must do without.
 * @param ranked_out  set where the first composition may be ranked as well */
static redco_status list_by_stages(struct search *s, const redcoi_configuration *configuration, uint32_t group,
                                   double limit_s, redcoi_point *point, bool *ranked_out, redco_error *err)
{
    redcoi_problem *const problem = configuration->pareto;
    const uint64_t above_bytes = s->space->options.above_bytes;
    const uint64_t ceilings[2] = {configuration->capacity_bytes +
                                      (uint64_t)(redco_memory_ratio * (double)configuration->capacity_bytes),
                                  configuration->capacity_bytes};
    redco_status st = REDCO_OK;
    bool found = true;
    *ranked_out = false;
    problem->budget_bytes = configuration->roomy_bytes;
    for (int i = 0, k = 0; i < STAGE_TRIES && k < 2 && found; i++) {
        st = solve_group(s, configuration, group, limit_s, point, &found, err);
        if (st != REDCO_OK || !found) { break; }
        const bool roomy = point->answer.bytes > configuration->budget_bytes;
        if (i == 0 && !roomy && above_bytes == 0) { /* no stage is fuller than the problem counts */
            list_other(s, point, true);
            *ranked_out = true;
            break;
        }
        const uint64_t bytes = redcoi_space_bytes(s->space, configuration, &point->answer);
        if (bytes <= above_bytes) { break; }
        if (bytes <= ceilings[k]) { list_other(s, point, bytes <= configuration->capacity_bytes); }
        while (k < 2 && bytes <= ceilings[k]) { k++; }
        if (k == 2 || bytes - ceilings[k] >= point->answer.bytes) { break; }
        problem->budget_bytes = point->answer.bytes - (bytes - ceilings[k]);
    }
    problem->budget_bytes = configuration->budget_bytes;
    return st;
}

/* The points of one group. */
static redco_status rank_group(struct search *s, const redcoi_configuration *configuration, struct indexed_bound group,
                               redcoi_point *point, redco_error *err)
{
    const redcoi_limits limits = limits_of(s);
    const double others_s = redcoi_limit_of_others(s->space, configuration, group.group, limits.best_s);
    redco_status st = REDCO_OK;
    bool found = false, both = false;
    if (limits.best_s > 0.0 && group.bound_s <= others_s && !is_crowded_out(s, configuration, group)) {
        st = list_by_stages(s, configuration, group.group, others_s, point, &both, err);
        if (st != REDCO_OK) { return st; }
        if (both && point->value_s <= limits.ranked_s) { rank(s, point); }
    }
    if (both || group.bound_s > limit_of(s) || configuration->budget_bytes == 0) { return REDCO_OK; }
    st = solve_group(s, configuration, group.group, limit_of(s), point, &found, err);
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
        if (configuration->least_s > fmax(limits.ranked_s, (1.0 + s->space->options.look_ratio) * limits.best_s)) {
            break;
        }
        if (!may_fit(s->space, configuration) && !may_fit_by_stages(s->space, configuration)) { continue; }
        st = redcoi_space_price(s->space, configuration, &limits, err);
        if (st == REDCO_OK && configuration->pareto != NULL) { st = rank_groups(s, configuration, err); }
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
    for (uint32_t g = 0; g < configuration->group_count; g++) {
        keep[g] =
            configuration->bounds_s[g] < best->value_s || (best->configuration == configuration && best->group == g);
        any = any || keep[g];
    }
    if (!any) { goto out; }
    problem = redcoi_problem_copy(configuration->pareto, keep);
    if (problem == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    const redcoi_milp_options options = {
        .uniform = true, .gap_ratio = s->space->options.gap_ratio / 4.0, .node_limit = UNIFORM_NODES};
    if ((st = redcoi_milp_solve(problem, &options, result, err)) != REDCO_OK) { goto out; }
    s->bound_s = fmin(s->bound_s, result->bound_s);
    if (result->feasible && result->answer.objective_s < best->value_s * (1.0 - exact_tie_ratio)) {
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
    const double gap_limit_s = s->bound_s / (1.0 - s->space->options.gap_ratio);
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
            st = solve_group(s, configuration, g, ceiling_s, point, &found, err);
            if (found && leaner_tie(s, point, chosen)) { *chosen = *point; }
        }
    }
    if (st == REDCO_OK) { redcoi_ranking_lead(&s->ranking, chosen); }
    free(points);
    return st;
}

/* Options whose price alone lifts the bound to the cut-off are in no better answer. */
static void drop_dominated(redcoi_problem *problem, double cutoff_s)
{
    const redcoi_bound bound = redcoi_bound_best(problem, 0, problem->option_count);
    if (!(cutoff_s - bound.value_s < (double)INFINITY)) { return; }
    double least[REDCOI_MAX_CLASSES];
    for (uint32_t c = 0; c < problem->class_count; c++) { least[c] = (double)INFINITY; }
    for (size_t i = 0; i < problem->option_count; i++) {
        const redcoi_option *option = &problem->options[i];
        least[option->class_index] = fmin(least[option->class_index], redcoi_bound_price(option, &bound));
    }
    const double slack_s = fmax(0.0, cutoff_s - bound.value_s) + 1e-9 * fabs(cutoff_s);
    size_t kept = 0;
    for (size_t i = 0; i < problem->option_count; i++) {
        const redcoi_option option = problem->options[i];
        if (redcoi_bound_price(&option, &bound) - least[option.class_index] > slack_s) { continue; }
        problem->options[kept++] = option;
    }
    problem->option_count = kept;
}

/* GLPK first; what it leaves open the dynamic program closes. */
static redco_status solve_leaf(const redcoi_problem *problem, double cutoff_s, double gap_ratio, void *context,
                               redcoi_exact_result *result_out, redco_error *err)
{
    redcoi_milp_result *glpk = malloc(sizeof *glpk);
    redcoi_exact_result *labels = malloc(sizeof *labels);
    redcoi_problem *few = redcoi_problem_copy(problem, NULL);
    redco_status st = REDCO_OK;
    *result_out = (redcoi_exact_result){.proven = true};
    if (glpk == NULL || labels == NULL || few == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    drop_dominated(few, cutoff_s);
    if ((st = solve_by_glpk(few, cutoff_s, gap_ratio, false, glpk, err)) != REDCO_OK) { goto out; }
    result_out->bound_s = fmin(glpk->bound_s, cutoff_s);
    double best_s = cutoff_s;
    if (glpk->feasible && glpk->answer.objective_s < best_s) {
        result_out->feasible = true;
        result_out->answer = glpk->answer;
        redcoi_answer_to_origin(few, problem, &result_out->answer);
        best_s = glpk->answer.objective_s;
    }
    if (result_out->bound_s >= best_s * (1.0 - gap_ratio)) { goto out; }
    if ((st = redcoi_labels_solve(problem, best_s, gap_ratio, context, labels, err)) != REDCO_OK) { goto out; }
    result_out->states = labels->states;
    result_out->proven = labels->proven;
    result_out->bound_s = fmax(result_out->bound_s, labels->bound_s);
    if (labels->feasible) {
        result_out->feasible = true;
        result_out->answer = labels->answer;
    }
out:
    redcoi_problem_free(few);
    free(glpk);
    free(labels);
    return st;
}

static redco_status search_layerwise(struct search *s, redco_error *err)
{
    const double gap_ratio = s->space->options.gap_ratio;
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
        st = redcoi_layerwise_solve(configuration->objective, best_s, gap_ratio, solve_leaf, &effort, result, err);
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
    redcoi_ranking all = {.capacity = s->others.count + s->doubtful.count};
    all.points = calloc(all.capacity > 0 ? all.capacity : 1, sizeof *all.points);
    if (all.points == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (uint32_t i = 0; i < s->others.count; i++) { all.points[all.count++] = s->others.points[i]; }
    for (uint32_t i = 0; i < s->doubtful.count; i++) { all.points[all.count++] = s->doubtful.points[i]; }
    result->unlisted_s = fmin(s->dropped_s, (1.0 - s->space->options.aim_ratio) * s->best_s);
    const redco_status st = fill_candidates(s, &all, &result->others, &result->other_count, err);
    free(all.points);
    return st;
}

static redco_status run(struct search *s, const redcoi_inputs *inputs, redco_search_result *result, redco_error *err)
{
    const redco_search_options *o = &s->space->options;
    redco_status st = rank_all(s, err);
    if (st != REDCO_OK) { return st; }
    result->status = "infeasible";
    if (o->others > 0 && (st = fill_others(s, result, err)) != REDCO_OK) { return st; }
    if (o->others_alone) { return REDCO_OK; }
    if (o->layerwise) {
        st = search_layerwise(s, err);
    } else if (s->ranking.count > 0) {
        st = prove_all(s, err);
    }
    if (st == REDCO_OK && s->ranking.count > 0) { st = break_ties(s, err); }
    if (st != REDCO_OK) { return st; }
    if (s->ranking.count == 0) {
        const bool explain = s->explain && !(o->limit_s > 0.0) && s->others.count == 0;
        return explain ? redcoi_shortfall_find(s->space, inputs, &result->shortfall, err) : REDCO_OK;
    }
    const double value_s = s->ranking.points[0].value_s;
    result->gap_ratio = proven_gap(value_s, s->bound_s);
    result->status = result->gap_ratio <= o->gap_ratio * (1.0 + 1e-9) ? "optimal" : "feasible";
    if ((st = fill_candidates(s, &s->ranking, &result->ranked, &result->ranked_count, err)) != REDCO_OK) { return st; }
    return o->verify ? redcoi_space_verify(s->space, value_s, result, err) : REDCO_OK;
}

static redco_status check_options(const redco_search_options *options, redco_error *err)
{
    if (!(options->gap_ratio >= 0.0) || options->gap_ratio > 0.5) {
        return redco_fail(err, REDCO_EVALUE, "gap", "%g must be from 0 to 0.5", options->gap_ratio);
    }
    if (!(options->limit_s >= 0.0)) {
        return redco_fail(err, REDCO_EVALUE, "limit", "%g s must not be negative", options->limit_s);
    }
    if (options->top > REDCO_RANKED_MAX || options->others > REDCO_RANKED_MAX) {
        return redco_fail(err, REDCO_EVALUE, "top", "%u answers: at most %d are ranked",
                          options->top > options->others ? options->top : options->others, REDCO_RANKED_MAX);
    }
    return REDCO_OK;
}

static redco_status search_space(const redcoi_inputs *inputs, const redco_search_options *options, bool explain,
                                 redco_search_result *result, redco_error *err)
{
    struct search s = {.explain = explain, .best_s = (double)INFINITY, .dropped_s = (double)INFINITY};
    redco_status st = redcoi_space_create(inputs, options, &s.space, err);
    if (st != REDCO_OK) { return st; }
    s.ranking.capacity = s.space->options.top;
    s.ranking.points = calloc(s.ranking.capacity, sizeof *s.ranking.points);
    s.others.capacity = s.space->options.others;
    s.doubtful.capacity = (s.others.capacity + 2) / 3;
    s.others.points = calloc(s.others.capacity + 1, sizeof *s.others.points);
    s.doubtful.points = calloc(s.doubtful.capacity + 1, sizeof *s.doubtful.points);
    if (s.ranking.points == NULL || s.others.points == NULL || s.doubtful.points == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    if (options->limit_s > 0.0) { s.best_s = options->limit_s; }
    result->candidates += s.space->candidates;
    result->configurations = s.space->configuration_count;
    st = run(&s, inputs, result, err);
out:
    free(s.ranking.points);
    free(s.others.points);
    free(s.doubtful.points);
    redcoi_space_free(s.space);
    return st;
}

/* T_comm knows nothing of recomputation and would always buy less traffic with more of it. AMSP takes the policy as
   given: here, the first with which anything fits. */
static redco_status search_policies(const redcoi_inputs *inputs, const redco_search_options *options,
                                    redco_search_result *result, redco_error *err)
{
    redco_search_options fixed = *options;
    redco_status st = REDCO_OK;
    for (int r = 0; r < REDCO_RECOMPUTE_COUNT && st == REDCO_OK && result->ranked_count == 0; r++) {
        if (!redco_search_offers(options, (redco_recompute)r)) { continue; }
        fixed.recompute = (redco_recompute)r;
        st = search_space(inputs, &fixed, r == REDCO_RECOMPUTE_FULL, result, err);
    }
    return st;
}

redco_status redco_search(const redco_machine *machine, const redco_model *model, const redco_calibration *calibration,
                          const redco_comm *comm, const redco_search_options *options, redco_search_result **result_out,
                          redco_error *err)
{
    const double start_s = seconds_now();
    redco_status st = check_options(options, err);
    if (st != REDCO_OK) { return st; }
    redco_search_result *result = calloc(1, sizeof *result);
    if (result == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const redcoi_inputs inputs = {machine, model, calibration, comm, &result->counts};
    result->solver = redcoi_glpk_name();
    result->within_ratio = -1.0;
    result->unlisted_s = (double)INFINITY;
    const bool policies = options->strategy == REDCO_STRATEGY_AMSP && options->recompute == REDCO_RECOMPUTE_COUNT;
    st = policies ? search_policies(&inputs, options, result, err) : search_space(&inputs, options, true, result, err);
    if (st != REDCO_OK) {
        redco_search_result_free(result);
        return st;
    }
    result->counts.bounded = result->counts.listed - result->counts.priced;
    result->seconds = seconds_now() - start_s;
    *result_out = result;
    return REDCO_OK;
}

void redco_search_result_free(redco_search_result *result)
{
    if (result == NULL) { return; }
    for (uint32_t i = 0; i < result->ranked_count; i++) { free(result->ranked[i].assignments); }
    for (uint32_t i = 0; i < result->other_count; i++) { free(result->others[i].assignments); }
    free(result->ranked);
    free(result->others);
    free(result->shortfall.leanest.assignments);
    free(result);
}
