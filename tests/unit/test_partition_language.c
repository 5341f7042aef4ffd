/* The executor's own language models, of HuggingFace configs, among ranks: column and row pairs by the names of their
 * modules where sizes divide, the rest whole. */
#include "language_fixture.h"
#include "partition_fixture.h"

#include <stdio.h>
#include <string.h>

#define BOUND 1e-12

enum { SEQUENCES = 2, LENGTH = 12 };

static void check_model(fixture *r, const char *config)
{
    const redco_task_options options = {.parameter = REDCO_F64, .compute = REDCO_F64, .training = true};
    redco_model *model = NULL;
    redco_language_model *lm = NULL;
    redco_task_graph built = {0};
    redco_error err = {0};
    char path[512];
    (void)snprintf(path, sizeof path, "%s/models/oracle/%s.json", REDCO_TEST_DATA, config);
    if (redco_model_read(path, &model, &err) != REDCO_OK ||
        redco_language_model_create(model, SEQUENCES, LENGTH, &lm, &err) != REDCO_OK ||
        redco_task_build(redco_language_model_task(lm), &options, &built, &err) != REDCO_OK) {
        fail_msg("%s: %s: %s", config, err.place, err.text);
    }
    assert_non_null(built.graph);
    const redco_value loss = built.loss;
    fixture_adopt(r, built.graph, 16);
    built.graph = NULL;
    redco_task_graph_free(&built);
    fixture_finish(r, loss);
    r->batch = SEQUENCES;
    r->sequences[0] = LENGTH;
    for (uint32_t ranks = 2; ranks <= 4; ranks++) {
        uint32_t split = 0;
        for (uint32_t i = 0; i < r->inputs; i++) {
            const redco_task_parameter *parameter = redco_task_find(redco_language_model_task(lm), r->input[i].name);
            if (parameter == NULL) { continue; }
            r->input[i].layout = language_layout(parameter, &r->input[i].type, ranks);
            split += r->input[i].layout.kind == REDCO_TP_SPLIT ? 1 : 0;
        }
        for (uint32_t sp = 0; sp < 2; sp++) {
            r->sequence_parallel = sp == 1;
            fixture_check(r, ranks, BOUND, config);
            printf(
                "%-20s n=%u %s: %2u parameters split, %2u collectives, all-reduce %6llu gather %6llu scatter %6llu\n",
                config, ranks, sp == 1 ? "sp" : "  ", split, r->traffic_count,
                (unsigned long long)fixture_bytes(r, REDCO_OP_ALL_REDUCE, ""),
                (unsigned long long)fixture_bytes(r, REDCO_OP_ALL_GATHER, ""),
                (unsigned long long)fixture_bytes(r, REDCO_OP_REDUCE_SCATTER, ""));
        }
        assert_true(split > 0 || ranks == 3);
    }
    redco_language_model_free(lm);
    redco_model_free(model);
}

static void test_models(void **state)
{
    static const char *const configs[] = {"llama",        "llama-scaled",
                                          "mistral",      "qwen2",
                                          "qwen3",        "gpt2",
                                          "gpt2-variant", "gptj",
                                          "gpt_neox",     "gpt_neox-sequential",
                                          "opt",          "opt-post-norm",
                                          "gemma",        "internlm2",
                                          "bloom",        "mpt",
                                          "t5",           "mt5",
                                          "bart",         "phi3",
                                          "phi3-grouped"};
    for (size_t i = 0; i < sizeof configs / sizeof configs[0]; i++) { check_model(*state, configs[i]); }
}

static int open_fixture(void **state)
{
    static fixture r;
    fixture_open(&r, 17);
    *state = &r;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_models)};
    return cmocka_run_group_tests_name("partitioned language models", tests, open_fixture, fixture_end);
}
