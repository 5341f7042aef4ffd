/* Fits against runs whose constants are known, because the model itself made them. */
#include "costmodel/evaluation/fit.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TABLE REDCO_TEST_DATA "/../../traces/data/llm_foundry.csv"

enum { MOST = 128 };

struct bench {
    redco_measured *table;
    redco_evaluations *all;
    redco_calibration prior, truth;
    size_t rows[MOST], count;
    double made[MOST]; /* by the true constants */
};

/* The rows of A100s; true constants lie about a width from the prior's. */
static int open_bench(void **state)
{
    struct bench *const b = calloc(1, sizeof *b);
    const redco_measured_run *runs = NULL, *list[256];
    redco_error err = {.status = REDCO_OK};
    assert_non_null(b);
    assert_int_equal(redco_measured_read(TABLE, &b->table, &err), REDCO_OK);
    const size_t count = redco_measured_runs(b->table, &runs);
    assert_true(count <= 256);
    for (size_t i = 0; i < count; i++) { list[i] = &runs[i]; }
    assert_int_equal(redco_evaluations_create(list, count, &b->all, &err), REDCO_OK);
    assert_int_equal(redco_calibration_read("prior-a100-eager", NULL, &b->prior, &err), REDCO_OK);
    b->truth = b->prior;
    b->truth.gemm_efficiency = 0.72;
    b->truth.memory_traffic_factor = 2.8;
    b->truth.nvlink_efficiency = 0.5;
    b->truth.step_overhead_s = 0.03;
    for (size_t i = 0; i < count && b->count < MOST; i++) {
        if (redco_evaluations_skip(b->all, i) != NULL || strncmp(runs[i].gpu, "A100", 4) != 0) { continue; }
        b->rows[b->count] = i;
        b->made[b->count++] = redco_evaluations_predict(b->all, i, &b->truth).tokens_per_s_per_gpu;
    }
    assert_true(b->count == 70);
    *state = b;
    return 0;
}

static int close_bench(void **state)
{
    struct bench *const b = *state;
    redco_evaluations_free(b->all);
    redco_measured_free(b->table);
    free(b);
    return 0;
}

static double error_of(struct bench *b, const redco_calibration *set)
{
    double sum = 0.0;
    for (size_t i = 0; i < b->count; i++) {
        sum += fabs(redco_evaluations_predict(b->all, b->rows[i], set).tokens_per_s_per_gpu / b->made[i] - 1.0);
    }
    return sum / (double)b->count;
}

static void known_constants_are_found(void **state)
{
    struct bench *const b = *state;
    const redco_fit_options options = {.iterations = 0};
    redco_calibration fitted;
    assert_int_equal(redco_fit(b->all, b->rows, b->made, b->count, &b->prior, &options, &fitted, NULL), REDCO_OK);
    print_message("prior %.2f %%, fitted %.3f %%, e_g %.3f\n", 100.0 * error_of(b, &b->prior),
                  100.0 * error_of(b, &fitted), fitted.gemm_efficiency);
    assert_true(error_of(b, &b->prior) > 0.08);
    assert_true(error_of(b, &fitted) < 0.006);
    assert_true(fabs(fitted.mape_ratio - error_of(b, &fitted)) < 1e-12);
    assert_int_equal(fitted.fitted_rows, 70);
    assert_true(fitted.host_forward_s == 0.0); /* zero stays: not seen in this class */
    assert_true(fitted.reserve_bytes == b->prior.reserve_bytes);
}

/* Three rows a factor of two off move the others' predictions by little. */
static void odd_rows_pull_little(void **state)
{
    struct bench *const b = *state;
    const redco_fit_options options = {.iterations = 0};
    redco_calibration fitted;
    double measured[MOST];
    memcpy(measured, b->made, sizeof measured);
    for (size_t i = 0; i < 3; i++) { measured[20 * i] *= 0.5; }
    assert_int_equal(redco_fit(b->all, b->rows, measured, b->count, &b->prior, &options, &fitted, NULL), REDCO_OK);
    assert_true(error_of(b, &fitted) < 0.015);
}

/* A group's measurement must not reach its own prediction. */
static void a_group_left_out_is_not_seen(void **state)
{
    struct bench *const b = *state;
    const redco_fit_options options = {.iterations = 8};
    size_t groups[MOST];
    double measured[MOST], honest[MOST], forged[MOST];
    redco_fit_folds(b->count, 2, 7, groups);
    memcpy(measured, b->made, sizeof measured);
    assert_int_equal(redco_fit_validate(b->all, b->rows, measured, b->count, groups, &b->prior, &options, honest, NULL),
                     REDCO_OK);
    for (size_t i = 0; i < b->count; i++) { measured[i] *= groups[i] == 0 ? 3.0 : 1.0; }
    assert_int_equal(redco_fit_validate(b->all, b->rows, measured, b->count, groups, &b->prior, &options, forged, NULL),
                     REDCO_OK);
    bool moved = false;
    for (size_t i = 0; i < b->count; i++) {
        if (groups[i] == 0) { assert_true(honest[i] == forged[i]); }
        moved = moved || (groups[i] == 1 && honest[i] != forged[i]);
    }
    assert_true(moved);
}

static void folds_are_even_and_seeded(void **state)
{
    (void)state;
    size_t a[101], b[101], c[101], counts[2] = {0, 0};
    bool differs = false;
    redco_fit_folds(101, 2, 1, a);
    redco_fit_folds(101, 2, 1, b);
    redco_fit_folds(101, 2, 2, c);
    for (size_t i = 0; i < 101; i++) {
        assert_true(a[i] < 2);
        counts[a[i]]++;
        assert_int_equal(a[i], b[i]);
        differs = differs || a[i] != c[i];
    }
    assert_int_equal(counts[0], 51);
    assert_int_equal(counts[1], 50);
    assert_true(differs);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(known_constants_are_found), cmocka_unit_test(odd_rows_pull_little),
        cmocka_unit_test(a_group_left_out_is_not_seen), cmocka_unit_test(folds_are_even_and_seeded)};
    return cmocka_run_group_tests(tests, open_bench, close_bench);
}
