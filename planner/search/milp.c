#include "planner/search/milp.h"

#include "planner/glpk/glpk_bounded.h"
#include "planner/glpk/glpk_run.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double gib = 1073741824.0;
static const double ms = 1e-3;

/* The number of times that the memory row is tightened when GLPK's tolerance let an answer exceed it by a few
 * kilobytes. */
enum { MEMORY_ATTEMPTS = 4 };

/** A sparse matrix that grows; GLPK counts from 1. */
struct matrix {
    int *rows, *columns;
    double *values;
    int count, capacity;
    bool failed;
};

/** Column numbers; 0 = absent. */
struct columns {
    int option;                 /**< first of the options' counts */
    int window[REDCOI_WINDOWS]; /**< exposed time */
    int group;                  /**< first of the groups' binaries */
    int level;                  /**< first of the transient levels' binaries */
    int total;
};

/** One transient buffer size: used when any layer needs as much. */
struct level {
    int kind;
    uint64_t bytes, step_bytes; /**< step_bytes over the next smaller one of its kind */
};

struct solve {
    const redcoi_problem *problem;
    const redcoi_milp_options *options;
    redcoi_milp_result *result;
    struct level *levels;
    int level_count;
    int *slots; /**< per group: its number among the groups that have options, -1 without */
    int slot_count;
    struct columns columns;
    struct matrix matrix;
    double *start; /**< start as column values, NULL without one */
    double bound_ms;
    uint32_t nodes;
};

static bool grow(struct matrix *m)
{
    const int capacity = m->capacity > 0 ? 2 * m->capacity : 1024;
    int *rows = realloc(m->rows, (size_t)capacity * sizeof *rows);
    if (rows != NULL) { m->rows = rows; }
    int *columns = realloc(m->columns, (size_t)capacity * sizeof *columns);
    if (columns != NULL) { m->columns = columns; }
    double *values = realloc(m->values, (size_t)capacity * sizeof *values);
    if (values != NULL) { m->values = values; }
    if (rows == NULL || columns == NULL || values == NULL) { return false; }
    m->capacity = capacity;
    return true;
}

static void put(struct matrix *m, int row, int column, double value)
{
    if (value == 0.0 || m->failed) { return; }
    if (m->count + 2 > m->capacity && !grow(m)) {
        m->failed = true;
        return;
    }
    m->count++;
    m->rows[m->count] = row;
    m->columns[m->count] = column;
    m->values[m->count] = value;
}

static int compare_levels(const void *left, const void *right)
{
    const struct level *a = left;
    const struct level *b = right;
    if (a->kind != b->kind) { return a->kind < b->kind ? -1 : 1; }
    return a->bytes == b->bytes ? 0 : (a->bytes < b->bytes ? -1 : 1);
}

static bool find_levels(struct solve *s)
{
    const redcoi_problem *problem = s->problem;
    s->levels = malloc((problem->option_count * REDCO_TRANSIENT_COUNT + 1) * sizeof *s->levels);
    if (s->levels == NULL) { return false; }
    int count = 0;
    for (size_t i = 0; i < problem->option_count; i++) {
        for (int k = 0; k < REDCO_TRANSIENT_COUNT; k++) {
            const uint64_t bytes = problem->options[i].transient_bytes[k];
            if (bytes > 0) { s->levels[count++] = (struct level){k, bytes, 0}; }
        }
    }
    qsort(s->levels, (size_t)count, sizeof *s->levels, compare_levels);
    s->level_count = 0;
    for (int i = 0; i < count; i++) {
        if (i > 0 && compare_levels(&s->levels[i - 1], &s->levels[i]) == 0) { continue; }
        s->levels[s->level_count++] = s->levels[i];
    }
    for (int i = 0; i < s->level_count; i++) {
        const bool above = i > 0 && s->levels[i - 1].kind == s->levels[i].kind;
        s->levels[i].step_bytes = s->levels[i].bytes - (above ? s->levels[i - 1].bytes : 0);
    }
    return true;
}

static bool find_slots(struct solve *s)
{
    const redcoi_problem *problem = s->problem;
    s->slots = malloc((problem->group_count > 0 ? problem->group_count : 1) * sizeof *s->slots);
    if (s->slots == NULL) { return false; }
    for (uint32_t g = 0; g < problem->group_count; g++) { s->slots[g] = -1; }
    for (size_t i = 0; i < problem->option_count; i++) {
        int *slot = &s->slots[problem->options[i].group];
        if (*slot < 0) { *slot = s->slot_count++; }
    }
    return true;
}

static void lay_out_columns(struct solve *s)
{
    int next = 1;
    s->columns.option = next;
    next += (int)s->problem->option_count;
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        bool exposes = false;
        for (size_t i = 0; i < s->problem->option_count; i++) {
            exposes = exposes || s->problem->options[i].kink_s[k] > 0.0;
        }
        s->columns.window[k] = exposes ? next++ : 0;
    }
    s->columns.group = s->options->uniform ? next : 0;
    if (s->options->uniform) { next += s->slot_count; }
    s->columns.level = next;
    next += s->level_count;
    s->columns.total = next - 1;
}

static void add_columns(const struct solve *s, glp_prob *lp)
{
    const redcoi_problem *problem = s->problem;
    glp_add_cols(lp, s->columns.total);
    glp_set_obj_dir(lp, GLP_MIN);
    glp_set_obj_coef(lp, 0, problem->constant_s / ms);
    for (size_t i = 0; i < problem->option_count; i++) {
        const int column = s->columns.option + (int)i;
        glp_set_col_kind(lp, column, GLP_IV);
        glp_set_col_bnds(lp, column, GLP_DB, 0.0, problem->class_layers[problem->options[i].class_index]);
        glp_set_obj_coef(lp, column, problem->options[i].base_s / ms);
    }
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        if (s->columns.window[k] == 0) { continue; }
        glp_set_col_bnds(lp, s->columns.window[k], GLP_LO, 0.0, 0.0);
        glp_set_obj_coef(lp, s->columns.window[k], 1.0);
    }
    for (int g = 0; s->columns.group != 0 && g < s->slot_count; g++) {
        glp_set_col_kind(lp, s->columns.group + g, GLP_BV);
    }
    for (int i = 0; i < s->level_count; i++) { glp_set_col_kind(lp, s->columns.level + i, GLP_BV); }
}

/* Every layer once: in uniform mode, all layers of the one group and none of the others. */
static void add_class_rows(struct solve *s, glp_prob *lp)
{
    const redcoi_problem *problem = s->problem;
    const int classes = (int)problem->class_count;
    const int groups = s->columns.group != 0 ? s->slot_count : 1;
    const int first = glp_add_rows(lp, classes * groups);
    for (int g = 0; g < groups; g++) {
        for (int c = 0; c < classes; c++) {
            const double layers = problem->class_layers[c];
            const double wanted = s->columns.group != 0 ? 0.0 : layers;
            const int row = first + g * classes + c;
            glp_set_row_bnds(lp, row, GLP_FX, wanted, wanted);
            if (s->columns.group != 0) { put(&s->matrix, row, s->columns.group + g, -layers); }
        }
    }
    for (size_t i = 0; i < problem->option_count; i++) {
        const redcoi_option *option = &problem->options[i];
        const int g = s->columns.group != 0 ? s->slots[option->group] : 0;
        put(&s->matrix, first + g * classes + (int)option->class_index, s->columns.option + (int)i, 1.0);
    }
    if (s->columns.group == 0) { return; }
    const int one = glp_add_rows(lp, 1);
    glp_set_row_bnds(lp, one, GLP_FX, 1.0, 1.0);
    for (int g = 0; g < groups; g++) { put(&s->matrix, one, s->columns.group + g, 1.0); }
}

static void add_window_rows(struct solve *s, glp_prob *lp)
{
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        if (s->columns.window[k] == 0) { continue; }
        const int row = glp_add_rows(lp, 1);
        glp_set_row_bnds(lp, row, GLP_UP, 0.0, 0.0);
        for (size_t i = 0; i < s->problem->option_count; i++) {
            put(&s->matrix, row, s->columns.option + (int)i, s->problem->options[i].kink_s[k] / ms);
        }
        put(&s->matrix, row, s->columns.window[k], -1.0);
    }
}

/* A level is paid when any layer needs as much or more: per class, because its counts add up to a known number. */
static void add_level_rows(struct solve *s, glp_prob *lp)
{
    const redcoi_problem *problem = s->problem;
    for (int l = 0; l < s->level_count; l++) {
        const struct level *level = &s->levels[l];
        int rows[REDCOI_MAX_CLASSES] = {0};
        for (size_t i = 0; i < problem->option_count; i++) {
            const redcoi_option *option = &problem->options[i];
            const uint32_t c = option->class_index;
            if (option->transient_bytes[level->kind] < level->bytes) { continue; }
            if (rows[c] == 0) {
                rows[c] = glp_add_rows(lp, 1);
                glp_set_row_bnds(lp, rows[c], GLP_UP, 0.0, 0.0);
                put(&s->matrix, rows[c], s->columns.level + l, -(double)problem->class_layers[c]);
            }
            put(&s->matrix, rows[c], s->columns.option + (int)i, 1.0);
        }
    }
}

static int add_memory_row(struct solve *s, glp_prob *lp)
{
    const int row = glp_add_rows(lp, 1);
    for (size_t i = 0; i < s->problem->option_count; i++) {
        put(&s->matrix, row, s->columns.option + (int)i, (double)s->problem->options[i].resident_bytes / gib);
    }
    for (int l = 0; l < s->level_count; l++) {
        put(&s->matrix, row, s->columns.level + l, (double)s->levels[l].step_bytes / gib);
    }
    return row;
}

/* Column values of an answer. */
static void fill_columns(const struct solve *s, const redcoi_answer *answer, double *values)
{
    double kink_ms[REDCOI_WINDOWS] = {0};
    for (uint32_t i = 0; i < answer->count; i++) {
        const redcoi_part part = answer->parts[i];
        const redcoi_option *option = &s->problem->options[part.option];
        if (part.layers == 0) { continue; }
        values[s->columns.option + (int)part.option] += part.layers;
        if (s->columns.group != 0) { values[s->columns.group + s->slots[option->group]] = 1.0; }
        for (int k = 0; k < REDCOI_WINDOWS; k++) { kink_ms[k] += part.layers * option->kink_s[k] / ms; }
        for (int l = 0; l < s->level_count; l++) {
            if (option->transient_bytes[s->levels[l].kind] >= s->levels[l].bytes) {
                values[s->columns.level + l] = 1.0;
            }
        }
    }
    for (int k = 0; k < REDCOI_WINDOWS; k++) {
        if (s->columns.window[k] != 0) { values[s->columns.window[k]] = fmax(0.0, kink_ms[k]); }
    }
}

/* GLPK takes the answer to start from as an incumbent. */
static bool make_start(struct solve *s)
{
    if (s->options->start == NULL) { return true; }
    s->start = calloc((size_t)s->columns.total + 1, sizeof *s->start);
    if (s->start == NULL) { return false; }
    fill_columns(s, s->options->start, s->start);
    return true;
}

/* The relaxed answer of a node with whole layers, what is left of each class on its leanest option. */
static void round_node(const struct solve *s, glp_tree *tree)
{
    const redcoi_problem *problem = s->problem;
    glp_prob *lp = glp_ios_get_prob(tree);
    uint32_t left[REDCOI_MAX_CLASSES];
    size_t leanest[REDCOI_MAX_CLASSES];
    redcoi_answer *answer = calloc(1, sizeof *answer);
    double *values = calloc((size_t)s->columns.total + 1, sizeof *values);
    for (uint32_t c = 0; c < problem->class_count; c++) {
        left[c] = problem->class_layers[c];
        leanest[c] = SIZE_MAX;
    }
    for (size_t i = 0; answer != NULL && i < problem->option_count; i++) {
        const uint32_t c = problem->options[i].class_index;
        const double relaxed = fmax(0.0, floor(glp_get_col_prim(lp, s->columns.option + (int)i) + 1e-6));
        const uint32_t layers = relaxed < left[c] ? (uint32_t)relaxed : left[c];
        left[c] -= layers;
        if (layers > 0 && answer->count < REDCOI_MAX_PARTS) {
            answer->parts[answer->count++] = (redcoi_part){(uint32_t)i, layers};
        }
        const bool leaner =
            leanest[c] == SIZE_MAX || problem->options[i].resident_bytes < problem->options[leanest[c]].resident_bytes;
        if (layers > 0 && leaner) { leanest[c] = i; }
    }
    bool whole = answer != NULL && values != NULL;
    for (uint32_t c = 0; c < problem->class_count && whole; c++) {
        if (left[c] == 0) { continue; }
        whole = leanest[c] != SIZE_MAX && answer->count < REDCOI_MAX_PARTS;
        if (whole) { answer->parts[answer->count++] = (redcoi_part){(uint32_t)leanest[c], left[c]}; }
    }
    if (whole && redcoi_answer_evaluate(problem, answer)) {
        fill_columns(s, answer, values);
        (void)glp_ios_heur_sol(tree, values);
    }
    free(answer);
    free(values);
}

static void watch(glp_tree *tree, void *info)
{
    struct solve *s = info;
    const int best = glp_ios_best_node(tree);
    switch (glp_ios_reason(tree)) {
    case GLP_ISELECT:
        if (best != 0) { s->bound_ms = fmax(s->bound_ms, glp_ios_node_bound(tree, best)); }
        s->nodes++;
        if (s->options->node_limit > 0 && s->nodes > s->options->node_limit) { glp_ios_terminate(tree); }
        break;
    case GLP_IHEUR:
        if (s->start != NULL) {
            (void)glp_ios_heur_sol(tree, s->start);
            free(s->start);
            s->start = NULL;
        } else if (s->options->round) {
            round_node(s, tree);
        }
        break;
    default: break;
    }
}

static bool read_answer(const struct solve *s, glp_prob *lp, redcoi_answer *answer)
{
    answer->count = 0;
    for (size_t i = 0; i < s->problem->option_count; i++) {
        const double layers = glp_mip_col_val(lp, s->columns.option + (int)i);
        if (layers < 0.5) { continue; }
        if (answer->count == REDCOI_MAX_PARTS) { return false; }
        answer->parts[answer->count++] = (redcoi_part){(uint32_t)i, (uint32_t)lround(layers)};
    }
    return redcoi_answer_evaluate(s->problem, answer);
}

/* Solves once. @return true when there is nothing to repeat */
static bool solve_once(struct solve *s, glp_prob *lp, redco_status *st, redco_error *err)
{
    redcoi_milp_result *result = s->result;
    if (redcoi_glpk_simplex(lp, GLP_PRIMAL) != 0) { return true; } /* open: neither an answer nor a bound */
    if (glp_get_status(lp) != GLP_OPT) {                           /* GLP_NOFEAS; the objective is bounded below by 0 */
        result->proven = true;
        result->bound_s = (double)INFINITY;
        return true;
    }
    s->bound_ms = fmax(s->bound_ms, glp_get_obj_val(lp));
    glp_iocp branching;
    glp_init_iocp(&branching);
    branching.msg_lev = GLP_MSG_OFF;
    branching.mip_gap = s->options->gap_ratio;
    branching.tol_int = 1e-6;
    branching.bt_tech = GLP_BT_BPH;
    branching.cb_func = watch;
    branching.cb_info = s;
    const int code = redcoi_glpk_branch(lp, &branching);
    if (code != 0 && code != GLP_EMIPGAP && code != GLP_ESTOP) {
        *st = redco_fail(err, REDCO_ESYSTEM, "GLPK", "branch and bound failed: code %d", code);
        return true;
    }
    const int status = glp_mip_status(lp);
    result->nodes = s->nodes;
    result->proven = code != GLP_ESTOP;
    if (status == GLP_NOFEAS) {
        result->bound_s = (double)INFINITY;
        return true;
    }
    if (status == GLP_OPT && code == 0) { s->bound_ms = fmax(s->bound_ms, glp_mip_obj_val(lp)); }
    if (code == GLP_EMIPGAP) { /* by GLPK's definition of that gap */
        s->bound_ms = fmax(s->bound_ms, glp_mip_obj_val(lp) * (1.0 - s->options->gap_ratio));
    }
    result->bound_s = s->bound_ms * ms;
    if (status == GLP_UNDEF) { return true; } /* stopped before any answer */
    redcoi_answer *answer = &result->answer;
    result->feasible = read_answer(s, lp, answer);
    return result->feasible;
}

static redco_status build_and_solve(void *context, redco_error *err)
{
    struct solve *s = context;
    redco_status st = REDCO_OK;
    glp_prob *lp = glp_create_prob();
    add_columns(s, lp);
    add_class_rows(s, lp);
    add_window_rows(s, lp);
    add_level_rows(s, lp);
    const int memory_row = add_memory_row(s, lp);
    if (s->matrix.failed) {
        glp_delete_prob(lp);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    glp_load_matrix(lp, s->matrix.count, s->matrix.rows, s->matrix.columns, s->matrix.values);
    double budget_gib = (double)s->problem->budget_bytes / gib;
    double tighten = 1e-6;
    for (int attempt = 0; attempt < MEMORY_ATTEMPTS; attempt++) {
        glp_set_row_bnds(lp, memory_row, GLP_UP, 0.0, budget_gib);
        /* The first bound holds for every attempt: later ones only tighten. */
        const double first_bound_s = s->result->bound_s;
        const bool done = solve_once(s, lp, &st, err);
        if (attempt > 0) { s->result->bound_s = first_bound_s; }
        if (done) { break; }
        s->result->proven = false;
        budget_gib -= tighten * (1.0 + budget_gib);
        tighten *= 10.0;
    }
    if (!s->result->feasible && isfinite(s->result->bound_s)) { s->result->proven = false; }
    glp_delete_prob(lp);
    return st;
}

redco_status redcoi_milp_solve(const redcoi_problem *problem, const redcoi_milp_options *options,
                               redcoi_milp_result *result_out, redco_error *err)
{
    *result_out = (redcoi_milp_result){.bound_s = -(double)INFINITY};
    redco_status st = redcoi_problem_check(problem, err);
    if (st != REDCO_OK) { return st; }
    struct solve s = {.problem = problem, .options = options, .result = result_out, .bound_ms = -(double)INFINITY};
    if (!find_levels(&s) || !find_slots(&s)) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    lay_out_columns(&s);
    if (!make_start(&s)) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    st = redcoi_glpk_run(build_and_solve, &s, err);
out:
    free(s.start);
    free(s.levels);
    free(s.slots);
    free(s.matrix.rows);
    free(s.matrix.columns);
    free(s.matrix.values);
    return st;
}
