/* From an answer of the search to a plan and back, and what is said about it. */
#include "planner/answer/explain.h"
#include "planner/answer/priced.h"
#include "planner/assemble/assemble.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static redco_search_options defaults(void)
{
    return (redco_search_options){.workload = {.seq_len = 4096,
                                               .global_batch = 1024,
                                               .precision = REDCO_BF16,
                                               .overlap = REDCO_OVERLAP_ALL,
                                               .bucket_bytes = (uint64_t)1 << 30},
                                  .recompute = REDCO_RECOMPUTE_FREE,
                                  .top = 1,
                                  .pass.gap_ratio = 0.0005};
}

static void read_inputs(const char *model, uint64_t gpus, redco_inputs *out)
{
    redco_error err = {0};
    const redco_input_names names = {.model = model};
    if (redco_inputs_read(&names, gpus, out, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
}

static redco_search_result *search(const redco_inputs *inputs, const redco_search_options *options)
{
    redco_error err = {0};
    redco_search_result *result = NULL;
    if (redco_search_priced(inputs, options, &result, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return result;
}

static void assert_layers(const redco_plan_layers *row, const char *class_name, uint32_t first, uint32_t last,
                          redco_recompute recompute)
{
    assert_string_equal(row->class_name, class_name);
    assert_int_equal(row->first_layer, first);
    assert_int_equal(row->last_layer, last);
    assert_int_equal(row->recompute, recompute);
}

/* An answer in no particular order: the plan has the classes in order, and within the blocks most recomputation first,
 * so 5 full are layers 0-4, then 7 selective 5-11, then 20 none 12-31; equal configurations are one range. */
static void plan_orders_layers_and_comes_back(void **state)
{
    const redco_mesh one = {1, 1};
    const redco_mesh node = {8, 1};
    const redco_layer_config none = {{one, one, node}, REDCO_RECOMPUTE_NONE};
    const redco_layer_config selective = {{one, one, node}, REDCO_RECOMPUTE_CORE_ATTN};
    const redco_layer_config full = {{one, one, node}, REDCO_RECOMPUTE_FULL};
    redco_assignment parts[] = {{2, 1, none}, {1, 12, none},     {1, 5, full},
                                {0, 1, none}, {1, 7, selective}, {1, 8, none}};
    const redco_search_options options = defaults();
    redco_inputs inputs;
    redco_costs *costs = NULL;
    redco_assembler *assembler = NULL;
    redco_plan *plan = NULL;
    redco_plan *again = NULL;
    redco_error err = {0};
    (void)state;
    read_inputs("llama-7b", 16, &inputs);
    assert_int_equal(redco_costs_create(&inputs.machine, inputs.model, &options.workload, &inputs.calibration,
                                        inputs.comm, &costs, &err),
                     REDCO_OK);
    redco_candidate candidate = {.parallelism = {.tp = 1,
                                                 .pp = 1,
                                                 .cp = 1,
                                                 .micro_batch = 1,
                                                 .micro_batches = 64,
                                                 .dp = {8, 2},
                                                 .scheme = REDCO_INTER_TENSOR},
                                 .assignments = parts,
                                 .assignment_count = 6};
    candidate.prediction = redco_cost_step(costs, &candidate.parallelism, parts, 6);
    candidate.objective = candidate.prediction.step_s;
    const redco_search_result result = {.solver = "none", .status = "optimal"};
    assert_int_equal(redco_assembler_create(&inputs, &options, "0.1.0", &assembler, &err), REDCO_OK);
    if (redco_plan_assemble(assembler, &result, &candidate, "fixed", &plan, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    assert_int_equal(plan->layers_count, 5);
    assert_layers(&plan->layers[0], "embedding", 0, 0, REDCO_RECOMPUTE_NONE);
    assert_layers(&plan->layers[1], "block", 0, 4, REDCO_RECOMPUTE_FULL);
    assert_layers(&plan->layers[2], "block", 5, 11, REDCO_RECOMPUTE_CORE_ATTN);
    assert_layers(&plan->layers[3], "block", 12, 31, REDCO_RECOMPUTE_NONE);
    assert_layers(&plan->layers[4], "head", 0, 0, REDCO_RECOMPUTE_NONE);

    double refined = 0.0;
    json_t *json = redco_plan_to_json(plan);
    const redco_json_value root = redco_json_wrap(json, "plan");
    if (redco_plan_from_json(&root, &again, &err) != REDCO_OK ||
        redco_plan_verify(again, "plan", NULL, 0, &refined, &err) != REDCO_OK || refined != 0.0) {
        fail_msg("%s: %s", err.place, err.text);
    }
    /* One layer less recomputed is another step time: the plan no longer follows from itself. */
    again->layers[1].last_layer = 3;
    again->layers[2].first_layer = 4;
    assert_int_equal(redco_plan_verify(again, "plan", NULL, 0, &refined, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.place, "plan:/predicted/"));
    json_decref(json);
    redco_plan_free(again);
    redco_plan_free(plan);
    redco_assembler_free(assembler);
    redco_costs_free(costs);
    redco_inputs_free(&inputs);
}

struct question {
    const char *model;
    uint64_t gpus;
    uint32_t tp;
};

static const struct question questions[] = {
    {"llama-7b", 8, 0}, {"llama-13b", 64, 0}, {"amsp-30b", 128, 0}, {"llama-13b", 32, 4}, {"gpt2", 8, 0}};

/* A choice that is moved away from the optimum costs something, up to the gap that the solver may leave (twice: both
 * sides). */
static void no_neighbour_beats_the_optimum(void **state)
{
    (void)state;
    for (size_t q = 0; q < sizeof questions / sizeof questions[0]; q++) {
        redco_search_options options = defaults();
        options.given.pp = REDCO_DEGREE_AUTO; /* the neighbours have other degrees, too */
        options.given.cp = REDCO_DEGREE_AUTO;
        redco_inputs inputs;
        redco_neighbour neighbours[REDCO_MOST_NEIGHBOURS];
        redco_question question = redco_question_default();
        question.names.model = questions[q].model;
        question.names.engine = "amsp";
        question.options = options;
        size_t count = 0;
        redco_error err = {0};
        if (strcmp(questions[q].model, "gpt2") == 0) { options.workload.seq_len = 1024; }
        read_inputs(questions[q].model, questions[q].gpus, &inputs);
        redco_search_result *result = search(&inputs, &options);
        assert_true(result->ranked_count > 0);
        assert_int_equal(redco_neighbours(&question, &inputs, &options, result, neighbours, &count, &err), REDCO_OK);
        assert_true(count >= 4);
        for (size_t i = 0; i < count; i++) {
            if (!neighbours[i].feasible) {
                assert_true(neighbours[i].short_bytes > 0 || neighbours[i].reason[0] != '\0');
            } else if (neighbours[i].cost_ratio < -0.001) {
                fail_msg("%s at %llu: %s is %g better", questions[q].model, (unsigned long long)questions[q].gpus,
                         neighbours[i].what, -neighbours[i].cost_ratio);
            }
        }
        redco_search_result_free(result);
        redco_inputs_free(&inputs);
    }
}

/* The machine that has 10 % more of a rate, priced as any other. */
static double step_there(const redco_inputs *inputs, const redco_search_options *options, const redco_candidate *best,
                         double nic, double links)
{
    redco_inputs there = *inputs;
    redco_candidate same = *best;
    redco_costs *costs = NULL;
    redco_error err = {0};
    there.machine.nic_bytes_per_s *= nic;
    there.machine.node_network_bytes_per_s *= nic;
    there.machine.scale_up_bytes_per_s *= links;
    there.machine.gpu.scale_up_bytes_per_s *= links;
    assert_int_equal(redco_comm_create(&there.machine, NULL, 0, &there.comm, &err), REDCO_OK);
    assert_int_equal(redco_costs_of(&there, options, &costs, &err), REDCO_OK);
    assert_int_equal(redco_candidate_price(costs, &same, &err), REDCO_OK);
    redco_costs_free(costs);
    redco_comm_free(there.comm);
    return same.prediction.step_s;
}

/* 10 % more of one thing gives nothing or something, and of all time at most what is spent on it: hardly above 10 %
 * (memory aside, which may save a whole recomputation; NCCL's speeds have steps). Of everything at once it gives at
 * most as much, and no less than of one. More of a rate gives what a machine that has it gives. */
static void help_is_bounded(void **state)
{
    (void)state;
    for (size_t q = 0; q < sizeof questions / sizeof questions[0]; q++) {
        redco_search_options options = defaults();
        redco_inputs inputs;
        redco_help help[REDCO_HELP_COUNT];
        redco_error err = {0};
        options.given.tp = questions[q].tp;
        if (strcmp(questions[q].model, "gpt2") == 0) { options.workload.seq_len = 1024; }
        read_inputs(questions[q].model, questions[q].gpus, &inputs);
        redco_search_result *result = search(&inputs, &options);
        assert_int_equal(redco_would_help(&inputs, &options, result, help, &err), REDCO_OK);
        for (int i = 0; i < REDCO_HELP_COUNT; i++) {
            assert_true(help[i].gain_ratio >= 0.0);
            if (strcmp(help[i].what, "memory") == 0) { continue; }
            assert_true(help[i].gain_ratio < 0.1 + 0.001);
            assert_true(help[REDCO_HELP_ALL].gain_ratio >= help[i].gain_ratio - 1e-9);
        }
        const redco_candidate *const best = &result->ranked[0];
        const double step_s = best->prediction.step_s;
        const double nic_s = step_there(&inputs, &options, best, 1.1, 1.0);
        const double links_s = step_there(&inputs, &options, best, 1.0, 1.1);
        assert_true(fabs(help[REDCO_HELP_NIC].gain_ratio - (step_s / nic_s - 1.0)) < 1e-9);
        assert_true(fabs(help[REDCO_HELP_LINK].gain_ratio - (step_s / links_s - 1.0)) < 1e-9);
        assert_string_equal(help[REDCO_HELP_COMPUTE].what, "compute");
        assert_true(help[REDCO_HELP_COMPUTE].gain_ratio > 0.01);
        assert_true(help[REDCO_HELP_ALL].gain_ratio > 0.05);
        if (questions[q].gpus == 8 && questions[q].tp == 0) { assert_true(help[0].gain_ratio < 0.001); } /* one node */
        redco_search_result_free(result);
        redco_inputs_free(&inputs);
    }
}

static void freeing_leaves_the_workload(void **state)
{
    redco_search_options options = defaults();
    (void)state;
    assert_false(redco_options_fixed(&options));
    options.fix.optimizer = (redco_mesh){8, 1};
    assert_true(redco_options_fixed(&options));
    options = defaults();
    options.given.ep = 8; /* --ep 8; --dims without ep has 1 */
    assert_true(redco_options_fixed(&options));
    const redco_search_options shared = redco_options_freed(&options);
    assert_int_equal(shared.given.ep, 0);
    options.given.ep = 1;
    options.excluded = REDCO_HAS_EP;
    assert_false(redco_options_fixed(&options));
    options = defaults();
    options.given.tp = 4;
    options.given.pp = 2;
    options.recompute = REDCO_RECOMPUTE_NONE;
    options.workload.global_batch = 77;
    const redco_search_options freed = redco_options_freed(&options);
    assert_false(redco_options_fixed(&freed));
    assert_int_equal(freed.workload.global_batch, 77);
    assert_int_equal(freed.given.pp, REDCO_DEGREE_MEASURED); /* as by default */
    assert_int_equal(freed.given.cp, 0);                     /* was not given: 1 as by default */
}

static void unknown_names_are_refused(void **state)
{
    static const struct {
        redco_input_names names;
        uint64_t gpus;
        const char *text;
    } rows[] = {{{.model = "nothing"}, 8, "redco knows"},
                {{.cluster = "nothing"}, 8, "redco knows"},
                {{.cluster = REDCO_TEST_DATA "/plans/truncated.json"}, 8, "not valid JSON"},
                {{.calibration = "nothing"}, 8, "redco knows"},
                {{0}, 13, "do not fill nodes"},
                {{0}, 0, "no fixed size"}};
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_inputs inputs = {0};
        redco_error err = {0};
        assert_int_equal(redco_inputs_read(&rows[i].names, rows[i].gpus, &inputs, &err), REDCO_EVALUE);
        if (strstr(err.text, rows[i].text) == NULL) { fail_msg("row %zu: %s: %s", i, err.place, err.text); }
        assert_null(inputs.model);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plan_orders_layers_and_comes_back),
        cmocka_unit_test(no_neighbour_beats_the_optimum),
        cmocka_unit_test(help_is_bounded),
        cmocka_unit_test(freeing_leaves_the_workload),
        cmocka_unit_test(unknown_names_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
