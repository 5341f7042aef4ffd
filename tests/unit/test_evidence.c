/* Hulls of measured layouts, by hand, and what lies beyond them. */
#include "planner/answer/evidence.h"
#include "topology/base/preset.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const redco_machine machine = {.nodes = 64, .gpus_per_node = 8};

/* 64 nodes of 8: tp 4 x cp 4 are 16 ranks on 2 nodes; dp 4 x 4 of them 256 ranks on 32 nodes; 2 x 8192 / 4 tokens. */
static void reach_counts_nodes_and_tokens(void **state)
{
    const redco_parallelism parallelism = {.tp = 4, .cp = 4, .pp = 2, .chunks = 1, .micro_batch = 2, .dp = {1, 16}};
    const redco_reach reach = redco_reach_of(&machine, 8192, &parallelism);
    (void)state;
    assert_int_equal(reach.tokens, 4096);
    assert_int_equal(reach.cp_nodes, 2);
    assert_int_equal(reach.dp_nodes, 32);
}

/* Degrees end where measurements end; tokens and nodes may be twice as far. */
static void hull_ends_where_measurements_end(void **state)
{
    const redco_hull hull = {.tp = 8,
                             .cp = 2,
                             .pp = 8,
                             .chunks = 6,
                             .cp_nodes = 2,
                             .dp_nodes = 16,
                             .least_tokens = 2048,
                             .most_tokens = 8192,
                             .least_context_tokens = 4096};
    const redco_parallelism inside = {.tp = 8, .cp = 2, .pp = 8, .chunks = 6, .micro_batch = 1, .dp = {1, 1}};
    const struct {
        redco_parallelism parallelism;
        redco_reach reach;
        uint32_t beyond;
    } cases[] = {
        {inside, {8192, 2, 16}, 0},
        {inside, {16384, 4, 32}, 0},
        {inside, {16385, 2, 16}, REDCO_BEYOND_TOKENS},
        {inside, {2048, 2, 16}, 0},
        {inside, {1024, 2, 16}, REDCO_BEYOND_CONTEXT_TOKENS},
        {inside, {1023, 2, 16}, REDCO_BEYOND_TOKENS},
        {inside, {8192, 5, 33}, REDCO_BEYOND_CP_NODES | REDCO_BEYOND_DP_NODES},
        {{.tp = 16, .cp = 4, .pp = 9, .chunks = 7},
         {8192, 2, 16},
         REDCO_BEYOND_TP | REDCO_BEYOND_CP | REDCO_BEYOND_PP | REDCO_BEYOND_CHUNKS},
        {{.tp = 1, .cp = 1, .pp = 1, .chunks = 1}, {1024, 1, 1}, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        assert_int_equal(redco_hull_beyond(&hull, &cases[i].parallelism, &cases[i].reach), cases[i].beyond);
    }
}

static void shipped_runs_are_inside_and_nearest_to_themselves(void **state)
{
    (void)state;
    for (size_t set = 0; redco_preset_at("evidence", set) != NULL; set++) {
        redco_evidence *evidence = NULL;
        assert_int_equal(redco_evidence_read(redco_preset_at("evidence", set)->name, &evidence, NULL), REDCO_OK);
        assert_non_null(evidence);
        for (size_t i = 0; i < evidence->count; i++) {
            const redco_evidence_run *const run = &evidence->runs[i];
            const redco_parallelism parallelism = {.tp = run->tp, .cp = run->cp, .pp = run->pp, .chunks = run->chunks};
            char text[REDCO_EVIDENCE_TEXT];
            size_t nearest[REDCO_EVIDENCE_NEAREST];
            assert_string_equal(redco_evidence_beyond(evidence, &parallelism, &run->reach, text, sizeof text), "");
            assert_true(redco_evidence_nearest(evidence, run->gpus, &parallelism, &run->reach, nearest) > 0);
            const redco_evidence_run *const first = &evidence->runs[nearest[0]];
            assert_true(first->gpus == run->gpus && first->tp == run->tp && first->cp == run->cp &&
                        first->pp == run->pp && first->reach.tokens == run->reach.tokens);
        }
        redco_evidence_free(evidence);
    }
}

static void beyond_names_value_and_range(void **state)
{
    redco_evidence evidence = {.hull = {.tp = 8,
                                        .cp = 2,
                                        .pp = 9,
                                        .chunks = 12,
                                        .cp_nodes = 2,
                                        .dp_nodes = 64,
                                        .least_tokens = 4096,
                                        .most_tokens = 32768,
                                        .least_context_tokens = 4096}};
    const redco_parallelism parallelism = {.tp = 8, .cp = 1, .pp = 16, .chunks = 1};
    const redco_reach reach = {.tokens = 512, .cp_nodes = 1, .dp_nodes = 4};
    char text[REDCO_EVIDENCE_TEXT];
    (void)state;
    assert_string_equal(redco_evidence_beyond(&evidence, &parallelism, &reach, text, sizeof text),
                        "pp 16 (measured up to 9), 512 tokens a rank and micro-batch (measured from 4096)");
}

static void sets_without_runs_have_no_evidence(void **state)
{
    redco_evidence *evidence = NULL;
    (void)state;
    assert_int_equal(redco_evidence_read("h200-te", &evidence, NULL), REDCO_OK);
    assert_null(evidence);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reach_counts_nodes_and_tokens),
        cmocka_unit_test(hull_ends_where_measurements_end),
        cmocka_unit_test(shipped_runs_are_inside_and_nearest_to_themselves),
        cmocka_unit_test(beyond_names_value_and_range),
        cmocka_unit_test(sets_without_runs_have_no_evidence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
