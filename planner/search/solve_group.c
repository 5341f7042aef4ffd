/* The problem of one group, and that of one configuration whose layers may differ: the exact methods, GLPK, local
 * search and the dynamic program, each where it is the fastest. */
#include "planner/search/solve_group.h"

#include "planner/search/milp.h"

#include <math.h>
#include <stdlib.h>

enum { LAYERWISE_NODES = 300, LAYERWISE_NODES_AGAIN = 3000 };

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
static redco_status solve_long_group(const redcoi_space *space, const redcoi_problem *problem, uint32_t group,
                                     double limit_s, double *bound_s, redcoi_answer *answer, bool *found_out,
                                     redco_error *err)
{
    const double gap_ratio = space->options.pass.gap_ratio / 8.0;
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

static redco_status solve_problem(const redcoi_space *space, const redcoi_problem *problem, uint32_t group,
                                  double limit_s, double *bound_s, redcoi_answer *answer, bool *found_out,
                                  redco_error *err)
{
    *found_out = false;
    space->counts->solved++;
    if (redcoi_exact_is_long(problem, group)) {
        return solve_long_group(space, problem, group, limit_s, bound_s, answer, found_out, err);
    }
    *found_out = redcoi_exact_group(problem, group, REDCOI_LEAST_TIME, limit_s, answer, &space->counts->compositions);
    return REDCO_OK;
}

/* The best composition of one group. For T_comm, the fastest of those that attain its least. */
redco_status redcoi_solve_group(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t group,
                                double limit_s, redcoi_point *point, bool *found_out, redco_error *err)
{
    point->configuration = configuration;
    redco_status st = solve_problem(space, configuration->pareto, group, limit_s, &configuration->bounds_s[group],
                                    &point->answer, found_out, err);
    if (st != REDCO_OK || !*found_out) { return st; }
    redcoi_answer_to_origin(configuration->pareto, configuration->objective, &point->answer);
    redcoi_point_measure(point);
    if (!space->comm) { return REDCO_OK; }
    redcoi_point fastest = {.configuration = configuration};
    bool any = false;
    st = solve_problem(space, configuration->steps, group, (double)INFINITY, NULL, &fastest.answer, &any, err);
    if (st != REDCO_OK || !any) { return st; }
    redcoi_point_measure(&fastest);
    if (fastest.value_s <= point->value_s * (1.0 + redcoi_exact_tie_ratio)) { *point = fastest; }
    return REDCO_OK;
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

/* Runs GLPK, then closes the gap by dynamic programming. */
redco_status redcoi_solve_leaf(const redcoi_problem *problem, double cutoff_s, double gap_ratio, void *context,
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
