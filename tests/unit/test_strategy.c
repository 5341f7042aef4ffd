#include "planner/search/strategy.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const redco_shards nothing_fixed = {{0, 0}, {0, 0}, {0, 0}};

static bool paper_option(redco_mesh m, redco_mesh dp)
{
    return dp.gpus % m.gpus == 0 && dp.nodes % m.nodes == 0 && (m.nodes == 1 || m.gpus == dp.gpus);
}

/* All integer triples with 1 <= factor <= dp, filtered by AMSP section V-B as written there, and by what shards of
   shards need: inner factors divide outer ones. */
static size_t brute_force(redco_mesh dp, size_t *without_nesting)
{
    redco_mesh all[4096];
    size_t meshes = 0;
    for (uint32_t a = 1; a <= dp.gpus; a++) {
        for (uint32_t c = 1; c <= dp.nodes; c++) {
            if (paper_option((redco_mesh){a, c}, dp)) { all[meshes++] = (redco_mesh){a, c}; }
        }
    }
    size_t count = 0;
    *without_nesting = 0;
    for (size_t p = 0; p < meshes; p++) {
        for (size_t g = 0; g < meshes; g++) {
            for (size_t o = 0; o < meshes; o++) {
                const redco_mesh P = all[p], G = all[g], O = all[o];
                const bool ordered = P.gpus <= G.gpus && G.gpus <= O.gpus && P.nodes <= G.nodes && G.nodes <= O.nodes;
                if (!ordered || (g != p && g != o)) { continue; }
                (*without_nesting)++;
                if (O.gpus % P.gpus == 0 && O.nodes % P.nodes == 0) { count++; }
            }
        }
    }
    return count;
}

static size_t count_triples(redco_mesh dp, redco_strategy strategy, redco_shards fix)
{
    redco_shards *list = NULL;
    size_t count = 0;
    if (redco_strategy_triples(dp, strategy, &fix, &list, &count, NULL) != REDCO_OK) { return 0; }
    free(list);
    return count;
}

static void space_equals_brute_force(void **state)
{
    (void)state;
    const redco_mesh meshes[] = {{1, 1}, {8, 1}, {1, 8}, {8, 128}, {4, 16}, {6, 12}, {3, 5}, {8, 36}, {16, 30}};
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        size_t without_nesting = 0;
        const size_t wanted = brute_force(meshes[i], &without_nesting);
        assert_int_equal(count_triples(meshes[i], REDCO_STRATEGY_ANY, nothing_fixed), wanted);
        /* With powers of two the two readings of the dependency rule are one. */
        if (meshes[i].gpus != 6 && meshes[i].nodes <= 16 && meshes[i].gpus <= 8) {
            assert_int_equal(wanted, without_nesting);
        }
    }
    /* 8 x 128: O is a chain of 4 + 7 = 11 meshes; 11 equal triples and C(11, 2) pairs with two choices of G. */
    assert_int_equal(count_triples((redco_mesh){8, 128}, REDCO_STRATEGY_ANY, nothing_fixed), 11 + 2 * 55);
}

static void triples_are_distinct_and_ordered(void **state)
{
    (void)state;
    redco_shards *list = NULL;
    size_t count = 0;
    const redco_mesh dp = {8, 12};
    assert_int_equal(redco_strategy_triples(dp, REDCO_STRATEGY_ANY, &nothing_fixed, &list, &count, NULL), REDCO_OK);
    for (size_t i = 0; i < count; i++) {
        for (size_t j = 0; j < i; j++) { assert_false(redco_shards_equal(list[i], list[j])); }
        if (i > 0) { assert_true(redco_mesh_ranks(list[i - 1].parameters) <= redco_mesh_ranks(list[i].parameters)); }
    }
    free(list);
}

static redco_shards only(redco_mesh dp, redco_strategy strategy)
{
    redco_shards *list = NULL;
    size_t count = 0;
    assert_int_equal(redco_strategy_triples(dp, strategy, &nothing_fixed, &list, &count, NULL), REDCO_OK);
    assert_int_equal(count, 1);
    const redco_shards first = list[0];
    free(list);
    return first;
}

/* reference: AMSP, "Named baselines as points of the same space" */
static void names_are_points(void **state)
{
    (void)state;
    const redco_mesh dp = {8, 16}, one = {1, 1}, node = {8, 1};
    const struct {
        redco_strategy strategy;
        redco_shards shards;
    } wanted[] = {{REDCO_STRATEGY_DDP, {one, one, one}}, {REDCO_STRATEGY_ZERO1, {one, one, dp}},
                  {REDCO_STRATEGY_ZERO2, {one, dp, dp}}, {REDCO_STRATEGY_ZERO3, {dp, dp, dp}},
                  {REDCO_STRATEGY_ZEROPP, {dp, dp, dp}}, {REDCO_STRATEGY_HSDP, {node, node, node}}};
    for (size_t i = 0; i < sizeof wanted / sizeof wanted[0]; i++) {
        const redco_shards got = only(dp, wanted[i].strategy);
        assert_true(redco_shards_equal(got, wanted[i].shards));
        const redco_mesh secondary = redco_strategy_secondary(wanted[i].strategy, dp);
        assert_int_equal(redco_strategy_of(dp, secondary, &got), wanted[i].strategy);
    }
    /* MiCS: O of 8 x 16 has 4 + 4 meshes; without 1x1 and 8x16 six are left. */
    assert_int_equal(count_triples(dp, REDCO_STRATEGY_MICS, nothing_fixed), 6);
    const redco_shards mics = {{4, 1}, {4, 1}, {4, 1}};
    assert_int_equal(redco_strategy_of(dp, (redco_mesh){0, 0}, &mics), REDCO_STRATEGY_MICS);
    const redco_shards amsp_13b = {{4, 1}, {4, 1}, {8, 1}};
    assert_int_equal(redco_strategy_of(dp, (redco_mesh){0, 0}, &amsp_13b), REDCO_STRATEGY_ANY);
    assert_int_equal(redco_strategy_secondary(REDCO_STRATEGY_ZEROPP, (redco_mesh){8, 1}).gpus, 0);
    for (int i = 0; i < REDCO_STRATEGY_COUNT; i++) {
        redco_strategy parsed = REDCO_STRATEGY_COUNT;
        assert_true(redco_strategy_parse(redco_strategy_name((redco_strategy)i), &parsed));
        assert_int_equal(parsed, i);
    }
    redco_strategy parsed;
    assert_false(redco_strategy_parse("zero4", &parsed));
}

static void fixed_meshes_are_kept(void **state)
{
    (void)state;
    const redco_mesh dp = {8, 16};
    redco_shards fix = nothing_fixed;
    fix.optimizer = (redco_mesh){8, 4};
    /* P in the 6 meshes of O that divide 8x4 (1, 2, 4, 8 | 8x2, 8x4); G = P or OS: 5 * 2 + 1. */
    assert_int_equal(count_triples(dp, REDCO_STRATEGY_ANY, fix), 11);
    /* Outside O (4x2 spans nodes without filling one), yet it divides: OS in {4x2, 8x2, 8x4, 8x8, 8x16}. */
    fix = nothing_fixed;
    fix.parameters = (redco_mesh){4, 2};
    assert_int_equal(count_triples(dp, REDCO_STRATEGY_ANY, fix), 1 + 4 * 2);
    assert_int_equal(count_triples(dp, REDCO_STRATEGY_MICS, fix), 1);
    /* All three fixed, G neither P nor OS: the paper's filter is waived. */
    fix = (redco_shards){{1, 1}, {4, 1}, {8, 1}};
    assert_int_equal(count_triples(dp, REDCO_STRATEGY_ANY, fix), 1);
}

static void broken_rules_are_named(void **state)
{
    (void)state;
    const struct {
        redco_strategy strategy;
        redco_shards fix;
        const char *text;
    } cases[] = {
        {REDCO_STRATEGY_ANY, {{3, 1}, {0, 0}, {0, 0}}, "p=3x1 does not divide"},
        {REDCO_STRATEGY_ANY, {{0, 0}, {16, 1}, {0, 0}}, "g=16x1 does not divide"},
        {REDCO_STRATEGY_ANY, {{8, 0}, {0, 0}, {0, 0}}, "p=8x0 does not divide"},
        {REDCO_STRATEGY_ANY, {{4, 1}, {0, 0}, {2, 1}}, "p=4x1 must divide os=2x1"},
        {REDCO_STRATEGY_ANY, {{0, 0}, {8, 2}, {8, 1}}, "g=8x2 must divide os=8x1"},
        {REDCO_STRATEGY_DDP, {{8, 1}, {0, 0}, {0, 0}}, "no ddp strategy exists"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redco_error err = {0};
        redco_shards *list = NULL;
        size_t count = 0;
        assert_int_equal(
            redco_strategy_triples((redco_mesh){8, 16}, cases[i].strategy, &cases[i].fix, &list, &count, &err),
            REDCO_EVALUE);
        assert_non_null(strstr(err.text, cases[i].text));
        assert_null(list);
    }
    redco_error err = {0};
    redco_shards *list = NULL;
    size_t count = 0;
    assert_int_equal(
        redco_strategy_triples((redco_mesh){2, 1}, REDCO_STRATEGY_MICS, &nothing_fixed, &list, &count, &err),
        REDCO_EVALUE);
    assert_non_null(strstr(err.text, "no mics strategy exists"));
}

static void engines_have_strategies(void **state)
{
    const redco_mesh dp = {8, 4}, none = {0, 0};
    const redco_shards zero1 = {{1, 1}, {1, 1}, {8, 4}}, zero3 = {{8, 4}, {8, 4}, {8, 4}},
                       hsdp = {{8, 1}, {8, 1}, {8, 1}};
    const uint32_t states = REDCO_RUNS(REDCO_STRATEGY_ZERO1) | REDCO_RUNS(REDCO_STRATEGY_ZEROPP);
    (void)state;
    assert_true(redco_strategy_offered(states, REDCO_STRATEGY_ZERO1));
    assert_true(redco_strategy_offered(states, REDCO_STRATEGY_ZEROPP));
    assert_false(redco_strategy_offered(states, REDCO_STRATEGY_ZERO3));
    assert_false(redco_strategy_offered(states, REDCO_STRATEGY_AMSP));
    assert_true(redco_strategy_offered(REDCO_RUNS(REDCO_STRATEGY_ANY), REDCO_STRATEGY_AMSP));
    assert_true(redco_strategy_runs(states, dp, none, &zero1));
    assert_false(redco_strategy_runs(states, dp, none, &zero3)); /* ZeRO++ only */
    assert_true(redco_strategy_runs(states, dp, (redco_mesh){8, 1}, &zero3));
    assert_false(redco_strategy_runs(states, dp, (redco_mesh){8, 1}, &zero1));
    assert_false(redco_strategy_runs(states, dp, none, &hsdp));
    assert_true(redco_strategy_runs(REDCO_RUNS(REDCO_STRATEGY_MICS), dp, none, &hsdp)); /* groups of any size */
    assert_true(redco_strategy_runs(REDCO_RUNS(REDCO_STRATEGY_ANY), dp, none, &hsdp));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(space_equals_brute_force), cmocka_unit_test(triples_are_distinct_and_ordered),
        cmocka_unit_test(names_are_points),         cmocka_unit_test(fixed_meshes_are_kept),
        cmocka_unit_test(broken_rules_are_named),   cmocka_unit_test(engines_have_strategies),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
