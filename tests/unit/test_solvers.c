/* GLPK, enumeration and dynamic programming against one another and, on tiny problems, against assigning every layer on
   its own. */
#include "planner/glpk/glpk_run.h"
#include "planner/search/exact.h"
#include "planner/search/milp.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <glpk.h>

#define assert_near(got, wanted) assert_true(fabs((got) - (wanted)) <= 1e-12)

enum { MOST_OPTIONS = 2048 };

static const uint64_t gib = UINT64_C(1) << 30;

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static double uniform(uint64_t *seed, double low, double high)
{
    return low + (high - low) * ((double)(next(seed) >> 11) / 9007199254740992.0);
}

static uint32_t below(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(next(seed) % n);
}

struct shape {
    uint32_t classes, layers, groups, policies;
    bool windows, transients;
    double tightness; /**< budget between the leanest (0) and the fattest (1) answer */
};

static void make_option(const struct shape *shape, uint64_t *seed, uint32_t group, uint32_t c, uint32_t policy,
                        redcoi_option *option)
{
    /* Time falls with memory, convexly, plus noise: as measured trade-offs do. */
    const double pareto = (double)group / shape->groups + 0.3 * policy;
    *option = (redcoi_option){.class_index = c, .group = group, .recompute = (redco_recompute)policy};
    option->base_s = 0.004 * (1.0 + pareto * pareto * uniform(seed, 0.7, 1.3));
    option->resident_bytes = (uint64_t)(4e9 * exp(-1.5 * pareto) * uniform(seed, 0.8, 1.2)) & ~UINT64_C(65535);
    if (shape->windows) {
        option->kink_s[0] = uniform(seed, -0.002, 0.002);
        option->kink_s[1] = uniform(seed, -0.001, 0.001);
    }
    if (shape->transients) {
        option->transient_bytes[0] = group > 0 ? gib / 4 : 0;
        option->transient_bytes[1] = group > 1 ? (1 + c) * gib / 8 : 0;
        option->transient_bytes[2] = policy > 0 ? policy * gib / 2 : 0;
    }
}

static redcoi_problem *make_problem(const struct shape *shape, uint64_t *seed)
{
    redcoi_problem *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->options = malloc(MOST_OPTIONS * sizeof *p->options);
    assert_non_null(p->options);
    p->class_count = shape->classes;
    p->group_count = shape->groups;
    p->constant_s = 0.02;
    for (uint32_t c = 0; c < shape->classes; c++) { p->class_layers[c] = c == 0 ? shape->layers : 1 + below(seed, 3); }
    for (uint32_t g = 0; g < shape->groups; g++) {
        for (uint32_t c = 0; c < shape->classes; c++) {
            for (uint32_t r = 0; r < shape->policies; r++) {
                assert_true(p->option_count < MOST_OPTIONS);
                make_option(shape, seed, g, c, r, &p->options[p->option_count++]);
            }
        }
    }
    uint64_t least = 0;
    uint64_t most = 0;
    for (uint32_t c = 0; c < shape->classes; c++) {
        uint64_t low = UINT64_MAX;
        uint64_t high = 0;
        for (size_t i = 0; i < p->option_count; i++) {
            if (p->options[i].class_index != c) { continue; }
            const uint64_t bytes = p->options[i].resident_bytes;
            low = bytes < low ? bytes : low;
            high = bytes > high ? bytes : high;
        }
        least += low * p->class_layers[c];
        most += high * p->class_layers[c];
    }
    p->budget_bytes = least + (uint64_t)(shape->tightness * (double)(most - least));
    return p;
}

/* Tries every option for every single layer. */
struct every {
    const redcoi_problem *p;
    bool uniform;
    redcoi_answer now;
    double best_s;
};

static void try_layer(struct every *e, uint32_t c, uint32_t done, uint32_t group)
{
    if (c == e->p->class_count) {
        redcoi_answer answer = e->now;
        if (redcoi_answer_evaluate(e->p, &answer)) { e->best_s = fmin(e->best_s, answer.objective_s); }
        return;
    }
    if (done == e->p->class_layers[c]) {
        try_layer(e, c + 1, 0, group);
        return;
    }
    for (uint32_t i = 0; i < e->p->option_count; i++) {
        const redcoi_option *o = &e->p->options[i];
        if (o->class_index != c || (e->uniform && group != UINT32_MAX && o->group != group)) { continue; }
        e->now.parts[e->now.count++] = (redcoi_part){i, 1};
        try_layer(e, c, done + 1, o->group);
        e->now.count--;
    }
}

static double best_of_every(const redcoi_problem *p, bool uniform_mode)
{
    struct every e = {.p = p, .uniform = uniform_mode, .best_s = (double)INFINITY};
    try_layer(&e, 0, 0, UINT32_MAX);
    return e.best_s;
}

static double best_of_groups(const redcoi_problem *p)
{
    double best_s = (double)INFINITY;
    for (uint32_t g = 0; g < p->group_count; g++) {
        redcoi_answer answer;
        if (redcoi_exact_group(p, g, REDCOI_LEAST_TIME, (double)INFINITY, &answer, NULL)) {
            best_s = fmin(best_s, answer.objective_s);
        }
    }
    return best_s;
}

static redcoi_milp_result glpk(const redcoi_problem *p, bool uniform_mode, double gap_ratio)
{
    const redcoi_milp_options options = {.uniform = uniform_mode, .gap_ratio = gap_ratio, .node_limit = 20000};
    redcoi_milp_result result;
    assert_int_equal(redcoi_milp_solve(p, &options, &result, NULL), REDCO_OK);
    return result;
}

static redcoi_exact_result exact(const redcoi_problem *p, double gap_ratio)
{
    redcoi_exact_result result;
    assert_int_equal(redcoi_layerwise_solve(p, (double)INFINITY, gap_ratio, redcoi_labels_solve, NULL, &result, NULL),
                     REDCO_OK);
    return result;
}

static void check_near(double got_s, double wanted_s, double ratio)
{
    if (isinf(wanted_s)) {
        assert_true(isinf(got_s));
    } else {
        assert_true(got_s >= wanted_s * (1.0 - 1e-9));
        assert_true(got_s <= wanted_s * (1.0 + ratio + 1e-9));
    }
}

/* Many layers: what is passed over by convexity against looking at every composition. Beyond 65,536 of them. */
static void check_many_layers(const struct shape *shape, uint64_t *seed)
{
    redcoi_problem *p = make_problem(shape, seed);
    for (uint32_t c = 1; c < p->class_count && shape->policies == 2; c++) { p->class_layers[c] = shape->layers; }
    if (shape->windows) { p->constant_s = 0.0; }
    for (uint32_t g = 0; g < p->group_count; g++) {
        redcoi_answer all;
        redcoi_answer fast;
        redcoi_answer pareto;
        const uint64_t budget_bytes = p->budget_bytes;
        assert_true(redcoi_exact_count(p, g) > 65536.0);
        const bool fits = redcoi_exact_group(p, g, REDCOI_EVERY_TIME, (double)INFINITY, &all, NULL);
        assert_int_equal(redcoi_exact_group(p, g, REDCOI_LEAST_TIME, (double)INFINITY, &fast, NULL), fits);
        assert_int_equal(redcoi_exact_group(p, g, REDCOI_LEAST_MEMORY, (double)INFINITY, &pareto, NULL), fits);
        if (!fits) { continue; }
        assert_true(fast.objective_s == all.objective_s);
        assert_true(fast.bytes == all.bytes);
        assert_int_equal(fast.count, all.count);
        for (uint32_t i = 0; i < all.count; i++) {
            assert_int_equal(fast.parts[i].option, all.parts[i].option);
            assert_int_equal(fast.parts[i].layers, all.parts[i].layers);
        }
        assert_true(redcoi_exact_group(p, g, REDCOI_LEAST_TIME, all.objective_s * (1.0 + 1e-9), &fast, NULL));
        assert_true(fast.objective_s == all.objective_s);
        p->budget_bytes = pareto.bytes - 1; /* nothing is leaner */
        assert_false(redcoi_exact_group(p, g, REDCOI_EVERY_TIME, (double)INFINITY, &all, NULL));
        p->budget_bytes = budget_bytes;
    }
    redcoi_problem_free(p);
}

static void many_layers_equal_enumeration(void **state)
{
    static const struct shape shapes[] = {
        {1, 400, 3, 3, true, true, 0.0},  {2, 500, 3, 3, true, true, 0.0}, {1, 400, 3, 3, false, true, 0.0},
        {1, 90, 2, 4, true, true, 0.0},   {2, 300, 2, 2, true, true, 0.0}, {1, 80000, 2, 2, true, true, 0.0},
        {2, 300, 1, 3, true, false, 0.0},
    };
    uint64_t seed = 20261123;
    (void)state;
    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        for (uint32_t k = 0; k < 8; k++) {
            struct shape shape = shapes[i];
            shape.tightness = k == 7 ? 1.5 : uniform(&seed, 0.0, 1.0);
            check_many_layers(&shape, &seed);
        }
    }
}

/* 5 x 10^9 compositions a group; the work is counted, not timed. */
static void work_does_not_grow_with_layers(void **state)
{
    static const redcoi_objective goals[] = {REDCOI_LEAST_TIME, REDCOI_LEAST_MEMORY};
    const struct shape shape = {2, 100000, 4, 3, true, true, 0.4};
    uint64_t seed = 15;
    (void)state;
    for (uint32_t k = 0; k < 5; k++) {
        redcoi_problem *p = make_problem(&shape, &seed);
        for (uint32_t g = 0; g < 2 * p->group_count; g++) {
            redcoi_answer answer;
            uint64_t looked_at = 0;
            (void)redcoi_exact_group(p, g / 2, goals[g % 2], (double)INFINITY, &answer, &looked_at);
            assert_true(looked_at < 2000);
        }
        redcoi_problem_free(p);
    }
}

static void tiny_problems_equal_trying_everything(void **state)
{
    (void)state;
    uint64_t seed = 1;
    int infeasible = 0;
    for (int i = 0; i < 150; i++) {
        const struct shape shape = {.classes = 1 + below(&seed, 2),
                                    .layers = 1 + below(&seed, 3),
                                    .groups = 2,
                                    .policies = 1 + below(&seed, 2),
                                    .windows = i % 2 == 0,
                                    .transients = i % 3 != 0,
                                    .tightness = uniform(&seed, -0.02, 0.7)};
        redcoi_problem *p = make_problem(&shape, &seed);
        const double uniform_s = best_of_every(p, true);
        const double layerwise_s = best_of_every(p, false);
        infeasible += isinf(uniform_s) ? 1 : 0;
        check_near(best_of_groups(p), uniform_s, 0.0);
        const redcoi_milp_result u = glpk(p, true, 0.0);
        assert_int_equal(u.feasible, !isinf(uniform_s));
        check_near(u.feasible ? u.answer.objective_s : (double)INFINITY, uniform_s, 0.0);
        const redcoi_milp_result l = glpk(p, false, 0.0);
        check_near(l.feasible ? l.answer.objective_s : (double)INFINITY, layerwise_s, 0.0);
        const redcoi_exact_result e = exact(p, 1e-6);
        assert_true(e.proven);
        check_near(e.feasible ? e.answer.objective_s : (double)INFINITY, layerwise_s, 1e-6);
        if (e.feasible) { assert_true(e.bound_s <= layerwise_s * (1.0 + 1e-9)); }
        redcoi_problem_free(p);
    }
    assert_in_range(infeasible, 3, 100);
}

static void uniform_glpk_equals_enumeration(void **state)
{
    (void)state;
    uint64_t seed = 2;
    int infeasible = 0;
    for (int i = 0; i < 200; i++) {
        const struct shape shape = {.classes = 1 + below(&seed, 4),
                                    .layers = 2 + below(&seed, 79),
                                    .groups = 1 + below(&seed, 60),
                                    .policies = 1 + below(&seed, 3),
                                    .windows = i % 2 == 0,
                                    .transients = i % 3 != 0,
                                    .tightness = uniform(&seed, 0.0, 0.6)};
        redcoi_problem *p = make_problem(&shape, &seed);
        const double wanted_s = best_of_groups(p);
        const redcoi_milp_result got = glpk(p, true, 1e-7);
        assert_true(got.proven);
        infeasible += isinf(wanted_s) ? 1 : 0;
        check_near(got.feasible ? got.answer.objective_s : (double)INFINITY, wanted_s, 2e-7);
        if (got.feasible) { assert_true(got.bound_s <= wanted_s * (1.0 + 1e-9)); }
        /* Neither filter nor bound may lose the optimum. */
        redcoi_problem *pareto = redcoi_problem_copy(p, NULL);
        assert_non_null(pareto);
        redcoi_problem_pareto(pareto, true);
        check_near(best_of_groups(pareto), wanted_s, 0.0);
        double bound_s = (double)INFINITY;
        for (uint32_t g = 0; g < p->group_count; g++) {
            size_t first = 0;
            size_t last = 0;
            redcoi_problem_group(p, g, &first, &last);
            bound_s = fmin(bound_s, redcoi_bound_best(p, first, last).value_s);
        }
        if (!isinf(wanted_s)) { assert_true(bound_s <= wanted_s * (1.0 + 1e-9)); }
        redcoi_problem_free(pareto);
        redcoi_problem_free(p);
    }
    assert_in_range(infeasible, 1, 100);
}

static void layerwise_glpk_equals_dynamic_program(void **state)
{
    (void)state;
    static const double gap_ratio = 5e-4;
    uint64_t seed = 3;
    int proven = 0;
    for (int i = 0; i < 200; i++) {
        const struct shape shape = {.classes = 1 + below(&seed, 3),
                                    .layers = 1 + below(&seed, 64),
                                    .groups = 2 + below(&seed, 20),
                                    .policies = 1 + below(&seed, 3),
                                    .windows = i % 2 == 0,
                                    .transients = i % 4 == 0,
                                    .tightness = uniform(&seed, 0.0, 0.6)};
        redcoi_problem *p = make_problem(&shape, &seed);
        redcoi_problem *pareto = redcoi_problem_copy(p, NULL);
        assert_non_null(pareto);
        redcoi_problem_pareto(pareto, false);
        const redcoi_milp_options options = {.gap_ratio = gap_ratio, .node_limit = 400};
        redcoi_milp_result g;
        assert_int_equal(redcoi_milp_solve(pareto, &options, &g, NULL), REDCO_OK);
        const redcoi_exact_result e = exact(p, gap_ratio);
        assert_true(e.proven);
        proven += g.proven ? 1 : 0;
        assert_int_equal(!isinf(e.bound_s), e.feasible);
        if (g.feasible && e.feasible) {
            /* Each one's answer respects the other's bound. */
            assert_true(e.answer.objective_s >= g.bound_s * (1.0 - 1e-9));
            assert_true(g.answer.objective_s >= e.bound_s * (1.0 - 1e-9));
            assert_true(e.answer.objective_s <= e.bound_s / (1.0 - gap_ratio) * (1.0 + 1e-9));
            if (g.proven) { check_near(e.answer.objective_s, g.bound_s, 2.0 * gap_ratio); }
            /* Never worse than one mesh for all. */
            assert_true(e.bound_s <= best_of_groups(p) * (1.0 + 1e-9));
        }
        redcoi_problem_free(pareto);
        redcoi_problem_free(p);
    }
    assert_in_range(proven, 150, 200); /* within 400 nodes */
}

static void same_problem_same_answer(void **state)
{
    (void)state;
    uint64_t seed = 4;
    const struct shape shape = {
        .classes = 3, .layers = 40, .groups = 20, .policies = 3, .windows = true, .transients = true, .tightness = 0.2};
    redcoi_problem *p = make_problem(&shape, &seed);
    const redcoi_milp_result first = glpk(p, true, 5e-4);
    const redcoi_milp_result second = glpk(p, true, 5e-4);
    assert_int_equal(first.answer.count, second.answer.count);
    assert_memory_equal(first.answer.parts, second.answer.parts, first.answer.count * sizeof first.answer.parts[0]);
    const redcoi_exact_result a = exact(p, 5e-4);
    const redcoi_exact_result b = exact(p, 5e-4);
    assert_int_equal(a.answer.count, b.answer.count);
    assert_memory_equal(a.answer.parts, b.answer.parts, a.answer.count * sizeof a.answer.parts[0]);
    assert_int_equal(a.states, b.states);
    redcoi_problem_free(p);
}

/* By hand: 4 layers, fast 10 ms and 3 GiB, pareto 12 ms and 1 GiB, 8 GiB in all: n fast layers need 3n + (4 - n) <= 8,
   n = 2, 44 ms and 1 ms of constant. */
static void counts_fill_memory(void **state)
{
    (void)state;
    redcoi_option options[2] = {{.base_s = 0.010, .resident_bytes = 3 * gib},
                                {.base_s = 0.012, .resident_bytes = gib, .recompute = REDCO_RECOMPUTE_FULL}};
    redcoi_problem p = {.class_count = 1,
                        .class_layers = {4},
                        .group_count = 1,
                        .options = options,
                        .option_count = 2,
                        .constant_s = 0.001,
                        .budget_bytes = 8 * gib};
    const redcoi_milp_result exactly = glpk(&p, true, 0.0);
    assert_true(exactly.feasible);
    assert_near(exactly.answer.objective_s, 0.045);
    assert_int_equal(exactly.answer.bytes, 8 * gib);
    /* One byte less is below GLPK's tolerance: the answer must still fit, exactly. */
    p.budget_bytes -= 1;
    const redcoi_milp_result less = glpk(&p, true, 0.0);
    assert_true(less.feasible);
    assert_near(less.answer.objective_s, 0.047);
    assert_true(less.answer.bytes <= p.budget_bytes);
    p.budget_bytes = 4 * gib - 1;
    const redcoi_milp_result none = glpk(&p, true, 0.0);
    assert_false(none.feasible);
}

/* The pareto option's buffer of 2 GiB is paid once: with 8 GiB, 4 layers of 3 GiB and 1 GiB: one fast layer and three
   pareto ones need 3 + 3 + 2 = 8; two fast ones 6 + 2 + 2 = 10. */
static void transient_buffers_are_paid_once(void **state)
{
    (void)state;
    redcoi_option options[2] = {{.base_s = 0.010, .resident_bytes = 3 * gib},
                                {.base_s = 0.012, .resident_bytes = gib, .transient_bytes = {0, 0, 2 * gib, 0}}};
    redcoi_problem p = {.class_count = 1,
                        .class_layers = {4},
                        .group_count = 1,
                        .options = options,
                        .option_count = 2,
                        .budget_bytes = 8 * gib};
    assert_near(glpk(&p, true, 0.0).answer.objective_s, 0.046);
    assert_near(best_of_groups(&p), 0.046);
    assert_near(exact(&p, 1e-6).answer.objective_s, 0.046);
    p.budget_bytes = 12 * gib;
    assert_near(glpk(&p, true, 0.0).answer.objective_s, 0.040);
}

static void unsound_coefficients_are_refused(void **state)
{
    (void)state;
    for (int i = 0; i < 6; i++) {
        redcoi_option option = {.base_s = 0.010, .resident_bytes = gib};
        redcoi_problem p = {.class_count = 1,
                            .class_layers = {4},
                            .group_count = 1,
                            .options = &option,
                            .option_count = 1,
                            .budget_bytes = 8 * gib};
        if (i == 0) { option.base_s = (double)NAN; }
        if (i == 1) { option.kink_s[1] = (double)INFINITY; }
        if (i == 2) { option.base_s = -1.0; }
        if (i == 3) { p.constant_s = (double)NAN; }
        if (i == 4) { option.resident_bytes = UINT64_MAX / 2; }
        if (i == 5) { p.class_count = 2; }
        redco_error err = {0};
        redcoi_milp_result result;
        const redcoi_milp_options options = {.uniform = true};
        assert_int_equal(redcoi_milp_solve(&p, &options, &result, &err), REDCO_EVALUE);
        assert_true(strlen(err.text) > 10);
        assert_false(result.feasible);
        redcoi_exact_result second;
        assert_int_equal(redcoi_layerwise_solve(&p, (double)INFINITY, 1e-3, redcoi_labels_solve, NULL, &second, NULL),
                         REDCO_EVALUE);
    }
}

static redco_status misuse_glpk(void *context, redco_error *err)
{
    (void)context;
    (void)err;
    glp_prob *lp = glp_create_prob();
    glp_add_cols(lp, 1);
    glp_set_obj_coef(lp, 7, 1.0); /* no such column: GLPK would abort the process */
    return REDCO_OK;
}

static void glpk_errors_do_not_abort(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        redco_error err = {0};
        assert_int_equal(redcoi_glpk_run(misuse_glpk, NULL, &err), REDCO_ESYSTEM);
        assert_string_equal(err.place, "GLPK 5.0");
        assert_non_null(strstr(err.text, "column number out of range"));
        counts_fill_memory(state); /* and GLPK still works */
    }
}

static void answers_are_checked(void **state)
{
    (void)state;
    redcoi_option options[2] = {{.base_s = 0.010, .resident_bytes = 3 * gib}, {.base_s = 0.012, .resident_bytes = gib}};
    const redcoi_problem p = {.class_count = 1,
                              .class_layers = {4},
                              .group_count = 1,
                              .options = options,
                              .option_count = 2,
                              .budget_bytes = 8 * gib};
    redcoi_answer good = {.parts = {{0, 2}, {1, 2}}, .count = 2};
    assert_true(redcoi_answer_evaluate(&p, &good));
    redcoi_answer missing = {.parts = {{0, 2}, {1, 1}}, .count = 2};
    assert_false(redcoi_answer_evaluate(&p, &missing));
    redcoi_answer twice = {.parts = {{0, 2}, {1, 3}}, .count = 2};
    assert_false(redcoi_answer_evaluate(&p, &twice));
    redcoi_answer fat = {.parts = {{0, 3}, {1, 1}}, .count = 2};
    assert_false(redcoi_answer_evaluate(&p, &fat));
    redcoi_answer unknown = {.parts = {{2, 4}}, .count = 1};
    assert_false(redcoi_answer_evaluate(&p, &unknown));
}

/* Two layers of 10 ms and 2 GiB fill the budget. One for 6 ms takes 3 GiB and does not fit alone, one of 1 GiB takes
   11 ms and is no gain alone: both together are 17 ms in 4 GiB, and nothing else beats 20. */
static void polishing_pays_back_memory(void **state)
{
    (void)state;
    redcoi_option options[] = {{.base_s = 0.010, .resident_bytes = 2 * gib},
                               {.base_s = 0.006, .resident_bytes = 3 * gib},
                               {.base_s = 0.011, .resident_bytes = gib}};
    const redcoi_problem problem = {.class_count = 1,
                                    .class_layers = {2},
                                    .group_count = 1,
                                    .options = options,
                                    .option_count = 3,
                                    .budget_bytes = 4 * gib};
    redcoi_answer answer = {.parts = {{0, 2}}, .count = 1};
    assert_true(redcoi_answer_evaluate(&problem, &answer));
    redcoi_answer_polish(&problem, &answer);
    assert_near(answer.objective_s, 0.017);
    assert_int_equal(answer.bytes, 4 * gib);
    assert_int_equal(answer.count, 2);
}

/* From the leanest answer on: one that fits, between the dynamic program's bound and 0.2 % above its optimum. */
static void polishing_comes_near_the_optimum(void **state)
{
    (void)state;
    uint64_t seed = 77;
    for (int round = 0; round < 20; round++) {
        const struct shape shape = {3, 60, 12, 3, true, false, uniform(&seed, 0.1, 0.9)};
        redcoi_problem *p = make_problem(&shape, &seed);
        redcoi_answer answer = {.count = 0};
        for (uint32_t c = 0; c < p->class_count; c++) {
            uint32_t leanest = UINT32_MAX;
            for (uint32_t i = 0; i < p->option_count; i++) {
                const bool leaner =
                    leanest == UINT32_MAX || p->options[i].resident_bytes < p->options[leanest].resident_bytes;
                if (p->options[i].class_index == c && leaner) { leanest = i; }
            }
            answer.parts[answer.count++] = (redcoi_part){leanest, p->class_layers[c]};
        }
        assert_true(redcoi_answer_evaluate(p, &answer));
        redcoi_answer_polish(p, &answer);
        redcoi_answer again = answer;
        assert_true(redcoi_answer_evaluate(p, &again));
        assert_near(again.objective_s, answer.objective_s);
        redcoi_exact_result *best = malloc(sizeof *best);
        assert_non_null(best);
        assert_int_equal(redcoi_labels_solve(p, (double)INFINITY, 1e-5, NULL, best, NULL), REDCO_OK);
        assert_true(best->feasible);
        assert_true(answer.objective_s >= best->bound_s * (1.0 - 1e-12));
        assert_true(answer.objective_s <= 1.002 * best->answer.objective_s);
        free(best);
        redcoi_problem_free(p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counts_fill_memory),
        cmocka_unit_test(transient_buffers_are_paid_once),
        cmocka_unit_test(answers_are_checked),
        cmocka_unit_test(unsound_coefficients_are_refused),
        cmocka_unit_test(glpk_errors_do_not_abort),
        cmocka_unit_test(same_problem_same_answer),
        cmocka_unit_test(tiny_problems_equal_trying_everything),
        cmocka_unit_test(uniform_glpk_equals_enumeration),
        cmocka_unit_test(layerwise_glpk_equals_dynamic_program),
        cmocka_unit_test(many_layers_equal_enumeration),
        cmocka_unit_test(work_does_not_grow_with_layers),
        cmocka_unit_test(polishing_pays_back_memory),
        cmocka_unit_test(polishing_comes_near_the_optimum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
