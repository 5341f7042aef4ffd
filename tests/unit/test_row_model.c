/* The models and the stages that rows of mixtures have, as traces/data/moe/moe.csv says them. */
#include "costmodel/evaluation/row_model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TABLE REDCO_TEST_DATA "/../../traces/data/moe/moe.csv"

/* The first row of a model with so many stages and chunks, the layout of them as given. */
static redco_measured_run row_of(redco_measured *table, const char *model, uint32_t pp, uint32_t chunks,
                                 const char *layout)
{
    const redco_measured_run *runs = NULL;
    const size_t count = redco_measured_runs(table, &runs);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(runs[i].model, model) == 0 && runs[i].pp == pp && runs[i].virtual_pp == chunks &&
            strcmp(runs[i].pp_layout, layout) == 0) {
            return runs[i];
        }
    }
    fail_msg("no row of %s with pp = %u, %u chunks", model, pp, chunks);
    return runs[0];
}

static int open_table(void **state)
{
    redco_measured *table = NULL;
    const redco_status st = redco_measured_read(TABLE, &table, NULL);
    *state = table;
    return st == REDCO_OK ? 0 : -1;
}

static int close_table(void **state)
{
    redco_measured_free(*state);
    return 0;
}

static void latent_heads_are_those_of_the_preset(void **state)
{
    redco_model *model = NULL;
    redco_measured_run run = row_of(*state, "DeepSeek-V3", 4, 4, "");
    assert_int_equal(redco_row_model(&run, &model, NULL), REDCO_OK);
    const redco_model_dims *dims = redco_model_get_dims(model);
    assert_string_equal(redco_model_type(model), "deepseek_v3");
    assert_int_equal(dims->head_dim, 192);
    assert_int_equal(redco_value_dim(dims), 128);
    assert_int_equal(dims->dense_first, 3);
    assert_int_equal(dims->predictions, run.mtp_layers);
    redco_model_free(model);
    run.model = "DeepSeek-V3-proxy8L"; /* fewer layers, and the dense ones are the first */
    run.layers = 8;
    run.moe_layers = 7;
    assert_int_equal(redco_row_model(&run, &model, NULL), REDCO_OK);
    dims = redco_model_get_dims(model);
    assert_int_equal(dims->layers, 8);
    assert_int_equal(dims->dense_first, 1);
    redco_model_free(model);
}

static void a_model_of_another_name_is_its_dimensions(void **state)
{
    redco_model *model = NULL;
    redco_error err = {.status = REDCO_OK};
    redco_measured_run run = row_of(*state, "Mixtral-8x22B-G8T8", 8, 7, "");
    assert_int_equal(redco_row_model(&run, &model, NULL), REDCO_OK);
    assert_string_equal(redco_model_type(model), "generic"); /* 64 experts, not the preset's 8 */
    assert_int_equal(redco_model_get_dims(model)->experts, 64);
    redco_model_free(model);
    run = row_of(*state, "DeepSeek-V3", 4, 4, "");
    run.model = "DeepSeek-V30"; /* no hyphen behind the preset's name */
    assert_int_equal(redco_row_model(&run, &model, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "kv_heads");
    assert_string_equal(err.text, "is unknown, and no preset is called DeepSeek-V30 and has its widths");
    run.model = "DeepSeek-V3";
    run.hidden = 7000; /* nor one of these widths */
    redco_error_clear(&err);
    assert_int_equal(redco_row_model(&run, &model, &err), REDCO_EVALUE);
}

static void check_split(const redco_measured_run *run, const uint32_t *wanted, uint32_t positions)
{
    uint32_t *split = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_row_split(run, &split, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    assert_non_null(split);
    assert_memory_equal(split, wanted, positions * sizeof *wanted);
    free(split);
}

static void stages_are_full_first_or_as_the_row_says(void **state)
{
    const uint32_t full[16] = {4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 2}; /* a layer and the module */
    uint32_t guide[32] = {1};
    redco_measured_run run = row_of(*state, "DeepSeek-V3", 4, 4, "");
    run.mtp_layers = 1;
    check_split(&run, full, 16);
    run.pp_layout = "Et*4|(t*4|)*14tmL";
    check_split(&run, full, 16);
    run = row_of(*state, "DeepSeek-V3", 8, 4, "Et|(tt|)*30L");
    for (int i = 1; i < 31; i++) { guide[i] = 2; }
    check_split(&run, guide, 32);
    uint32_t *split = NULL;
    run = row_of(*state, "Qwen3-235B-A22B", 8, 4, ""); /* 94 layers, 96 with embedding and head: of 3 */
    assert_int_equal(redco_row_split(&run, &split, NULL), REDCO_OK);
    assert_null(split);
    run.layers = 28; /* full stages would leave two of 16 positions empty */
    run.virtual_pp = 2;
    const uint32_t near[16] = {2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1};
    check_split(&run, near, 16);
    run.pp_layout = "Et|L"; /* another number of positions */
    assert_int_equal(redco_row_split(&run, &split, NULL), REDCO_EVALUE);
    run.pp = 1;
    assert_int_equal(redco_row_split(&run, &split, NULL), REDCO_OK);
    assert_null(split);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(latent_heads_are_those_of_the_preset),
        cmocka_unit_test(a_model_of_another_name_is_its_dimensions),
        cmocka_unit_test(stages_are_full_first_or_as_the_row_says),
    };
    return cmocka_run_group_tests(tests, open_table, close_table);
}
