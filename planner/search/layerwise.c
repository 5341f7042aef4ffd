/* Branch and bound over transient buffers. Each kind's buffer is as large as the largest in use; fixing a range
   [low, high] of sizes per kind admits the options that need at most high and charges low, which bounds all answers
   whose largest lies in the range; halving ranges ends at fixed sizes, where only counts and bytes remain. */
#include "planner/search/exact.h"

#include <math.h>
#include <stdlib.h>

struct branching {
    const redcoi_problem *problem;
    redcoi_leaf leaf;
    void *context;
    double gap_ratio;
    redcoi_exact_result *result;
    double best_s;                          /**< cut-off, or the best found */
    uint64_t *sizes[REDCO_TRANSIENT_COUNT]; /**< distinct sizes, ascending */
    size_t size_count[REDCO_TRANSIENT_COUNT];
};

struct range {
    size_t low[REDCO_TRANSIENT_COUNT], high[REDCO_TRANSIENT_COUNT];
};

static int compare_u64(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left;
    const uint64_t b = *(const uint64_t *)right;
    return a == b ? 0 : (a < b ? -1 : 1);
}

static bool find_sizes(struct branching *b, int kind)
{
    const redcoi_problem *problem = b->problem;
    uint64_t *sizes = malloc(problem->option_count * sizeof *sizes);
    if (sizes == NULL) { return false; }
    for (size_t i = 0; i < problem->option_count; i++) { sizes[i] = problem->options[i].transient_bytes[kind]; }
    qsort(sizes, problem->option_count, sizeof *sizes, compare_u64);
    size_t count = 0;
    for (size_t i = 0; i < problem->option_count; i++) {
        if (count == 0 || sizes[count - 1] != sizes[i]) { sizes[count++] = sizes[i]; }
    }
    b->sizes[kind] = sizes;
    b->size_count[kind] = count;
    return true;
}

/* The options of a range, their buffers charged once at the low end. NULL: out of memory */
static redcoi_problem *restrict_to(const struct branching *b, const struct range *range, bool *empty_out)
{
    redcoi_problem *part = redcoi_problem_copy(b->problem, NULL);
    if (part == NULL) { return NULL; }
    uint64_t charged = 0;
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) { charged += b->sizes[k][range->low[k]]; }
    size_t kept = 0;
    bool seen[REDCOI_MAX_CLASSES] = {false};
    for (size_t i = 0; i < part->option_count; i++) {
        redcoi_option option = part->options[i];
        bool admitted = true;
        for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
            admitted = admitted && option.transient_bytes[k] <= b->sizes[k][range->high[k]];
            option.transient_bytes[k] = 0;
        }
        if (!admitted) { continue; }
        seen[option.class_index] = true;
        part->options[kept++] = option;
    }
    part->option_count = kept;
    *empty_out = charged > part->budget_bytes;
    part->budget_bytes -= *empty_out ? 0 : charged;
    for (uint32_t c = 0; c < part->class_count; c++) { *empty_out = *empty_out || !seen[c]; }
    return part;
}

static redco_status solve_leaf(struct branching *b, redcoi_problem *part, redco_error *err)
{
    redcoi_exact_result *whole = b->result;
    redcoi_problem_pareto(part, false);
    redcoi_exact_result *leaf = malloc(sizeof *leaf);
    if (leaf == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const redco_status st = b->leaf(part, b->best_s, b->gap_ratio, b->context, leaf, err);
    if (st == REDCO_OK) {
        whole->states += leaf->states;
        whole->proven = whole->proven && leaf->proven;
        whole->bound_s = fmin(whole->bound_s, leaf->bound_s);
        if (leaf->feasible && leaf->answer.objective_s < b->best_s) {
            redcoi_answer_to_origin(part, b->problem, &leaf->answer);
            whole->answer = leaf->answer;
            whole->feasible = true;
            b->best_s = whole->answer.objective_s;
        }
    }
    free(leaf);
    return st;
}

static int widest(const struct branching *b, const struct range *range)
{
    int kind = -1;
    uint64_t most = 0;
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
        const uint64_t width = b->sizes[k][range->high[k]] - b->sizes[k][range->low[k]];
        if (width > most) {
            most = width;
            kind = k;
        }
    }
    return kind;
}

static redco_status branch(struct branching *b, const struct range *range, redco_error *err)
{
    bool empty = false;
    redco_status st = REDCO_OK;
    redcoi_problem *part = restrict_to(b, range, &empty);
    if (part == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    if (empty) { goto out; }
    const redcoi_bound bound = redcoi_bound_best(part, 0, part->option_count);
    if (bound.value_s >= b->best_s * (1.0 - b->gap_ratio)) {
        b->result->bound_s = fmin(b->result->bound_s, bound.value_s);
        goto out;
    }
    const int kind = widest(b, range);
    if (kind < 0) {
        st = solve_leaf(b, part, err);
        goto out;
    }
    redcoi_problem_free(part);
    part = NULL;
    const size_t middle = range->low[kind] + (range->high[kind] - range->low[kind]) / 2;
    struct range upper = *range;
    upper.low[kind] = middle + 1;
    if ((st = branch(b, &upper, err)) != REDCO_OK) { goto out; }
    struct range lower = *range;
    lower.high[kind] = middle;
    st = branch(b, &lower, err);
out:
    redcoi_problem_free(part);
    return st;
}

redco_status redcoi_layerwise_solve(const redcoi_problem *problem, double cutoff_s, double gap_ratio, redcoi_leaf leaf,
                                    void *context, redcoi_exact_result *result_out, redco_error *err)
{
    *result_out = (redcoi_exact_result){.proven = true, .bound_s = (double)INFINITY};
    redcoi_problem *pareto = NULL;
    struct branching b = {.leaf = leaf, .context = context, .gap_ratio = gap_ratio, .result = result_out};
    b.best_s = cutoff_s;
    redco_status st = redcoi_problem_check(problem, err);
    if (st != REDCO_OK) { return st; }
    pareto = redcoi_problem_copy(problem, NULL);
    if (pareto == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redcoi_problem_pareto(pareto, false);
    b.problem = pareto;
    struct range all = {.low = {0}};
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
        if (!find_sizes(&b, k)) {
            st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
            goto out;
        }
        all.high[k] = b.size_count[k] - 1;
    }
    st = branch(&b, &all, err);
    if (st == REDCO_OK && result_out->feasible) {
        redcoi_answer_to_origin(pareto, problem, &result_out->answer);
        result_out->bound_s = fmin(result_out->bound_s, result_out->answer.objective_s);
    }
out:
    for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) { free(b.sizes[k]); }
    redcoi_problem_free(pareto);
    return st;
}
