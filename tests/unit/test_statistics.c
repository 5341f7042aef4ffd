/* Statistics of predictions against figures of numpy, scipy and plain enumeration (tests/data/statistics/make.py), and
 * against what a person can work out. */
#include "topology/base/file.h"
#include "traces/csv.h"
#include "traces/statistics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 64 };

struct values {
    size_t count;
    size_t groups[MOST_VALUES];
    double measured[MOST_VALUES], predicted[MOST_VALUES];
};

static void assert_close(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-12)) { fail_msg("got %.17g, wanted %.17g", got, wanted); }
}

static char *open_table(const char *path, redcoi_csv *csv)
{
    char *text = NULL;
    char *header[16];
    size_t size = 0;
    size_t count = 0;
    uint32_t line = 0;
    assert_int_equal(redco_file_read(path, 1 << 20, &text, &size, NULL), REDCO_OK);
    assert_int_equal(redcoi_csv_start(text, size, path, csv, NULL), REDCO_OK);
    assert_int_equal(redcoi_csv_next(csv, header, 16, &count, &line, NULL), REDCO_OK);
    return text;
}

static struct values values_of(const char *name)
{
    struct values v = {.count = 0};
    redcoi_csv csv;
    char *cells[4];
    size_t count = 0;
    uint32_t line = 0;
    char *const text = open_table(REDCO_TEST_DATA "/statistics/vectors.csv", &csv);
    while (redcoi_csv_next(&csv, cells, 4, &count, &line, NULL) == REDCO_OK && count == 4) {
        if (strcmp(cells[0], name) != 0) { continue; }
        assert_true(v.count < MOST_VALUES);
        v.groups[v.count] = strtoul(cells[1], NULL, 10);
        v.measured[v.count] = strtod(cells[2], NULL);
        v.predicted[v.count++] = strtod(cells[3], NULL);
    }
    free(text);
    return v;
}

static void check_case(char *const *wanted)
{
    const struct values v = values_of(wanted[0]);
    redco_error_summary errors;
    redco_rank_correlation ranks;
    redco_choice_loss loss;
    assert_int_equal(v.count, strtoul(wanted[1], NULL, 10));
    assert_int_equal(redco_error_summarise(v.measured, v.predicted, v.count, &errors, NULL), REDCO_OK);
    assert_int_equal(errors.count, v.count);
    assert_close(errors.mape_ratio, strtod(wanted[2], NULL));
    assert_close(errors.median_ape_ratio, strtod(wanted[3], NULL));
    assert_close(errors.p90_ape_ratio, strtod(wanted[4], NULL));
    assert_close(errors.bias_ratio, strtod(wanted[5], NULL));
    assert_int_equal(redco_rank_correlate(v.measured, v.predicted, v.groups, v.count, &ranks, NULL), REDCO_OK);
    assert_int_equal(ranks.groups, strtoul(wanted[6], NULL, 10));
    assert_int_equal(ranks.pairs, strtoul(wanted[7], NULL, 10));
    assert_int_equal(ranks.defined, wanted[8][0] != '\0');
    assert_close(ranks.tau_b, strtod(wanted[8], NULL));
    assert_int_equal(redco_choice_assess(v.measured, v.predicted, v.groups, v.count, &loss, NULL), REDCO_OK);
    assert_int_equal(loss.groups, strtoul(wanted[9], NULL, 10));
    assert_int_equal(loss.right, strtoul(wanted[10], NULL, 10));
    assert_close(loss.mean_loss_ratio, strtod(wanted[11], NULL));
    assert_close(loss.worst_loss_ratio, strtod(wanted[12], NULL));
}

static void figures_of_other_programs_are_met(void **state)
{
    redcoi_csv csv;
    char *cells[13];
    size_t count = 0;
    size_t cases = 0;
    uint32_t line = 0;
    char *const text = open_table(REDCO_TEST_DATA "/statistics/expected.csv", &csv);
    (void)state;
    while (redcoi_csv_next(&csv, cells, 13, &count, &line, NULL) == REDCO_OK && count == 13) {
        check_case(cells);
        cases++;
    }
    assert_int_equal(cases, 10);
    free(text);
}

/* Errors +10 %, -10 %, 0, +30 %: mean of sizes 12.5 %, median (10 + 10) / 2, bias 7.5 %; sorted sizes 0, 10, 10, 30:
 * rank 0.9 x 3 = 2.7 lies 0.7 of the way from 10 to 30. */
static void errors_are_worked_by_hand(void **state)
{
    const double measured[] = {100, 200, 400, 500};
    const double predicted[] = {110, 180, 400, 650};
    redco_error_summary s;
    (void)state;
    assert_int_equal(redco_error_summarise(measured, predicted, 4, &s, NULL), REDCO_OK);
    assert_close(s.mape_ratio, 0.125);
    assert_close(s.median_ape_ratio, 0.10);
    assert_close(s.p90_ape_ratio, 0.24);
    assert_close(s.bias_ratio, 0.075);
    assert_int_equal(redco_error_summarise(NULL, NULL, 0, &s, NULL), REDCO_OK);
    assert_int_equal(s.count, 0);
    assert_close(s.mape_ratio, 0.0);
}

/* Four pairs share a group. In @p predicted three agree and (20,30) ties: C = 3, Tm = 1 (tie in the prediction only),
 * so tau = 3 / sqrt(4 x 3). In @p lower (10,30) and (20,30) disagree and two agree. */
static void only_pairs_within_groups_count(void **state)
{
    const size_t groups[] = {9, 4, 9, 4, 9, 1};
    const double measured[] = {10, 1, 20, 2, 30, 5};
    const double predicted[] = {5, 7, 6, 8, 6, 1};
    const double lower[] = {5, 7, 6, 8, 4, 1};
    redco_rank_correlation r;
    (void)state;
    assert_int_equal(redco_rank_correlate(measured, predicted, groups, 6, &r, NULL), REDCO_OK);
    assert_int_equal(r.groups, 2);
    assert_int_equal(r.pairs, 4);
    assert_true(r.defined);
    assert_close(r.tau_b, 3.0 / sqrt(3.0 * 4.0));
    assert_int_equal(redco_rank_correlate(measured, lower, groups, 6, &r, NULL), REDCO_OK);
    assert_close(r.tau_b, 0.0);
    assert_int_equal(redco_rank_correlate(measured, predicted, NULL, 0, &r, NULL), REDCO_OK);
    assert_false(r.defined);
}

/* Group 0: the fastest of three is 120, the best-predicted 90, so a quarter is lost. Group 1: two rows tie in
 * prediction, the slower counts: 1 - 40/50. Group 2 has one row: no choice. */
static void choices_lose_what_the_best_had_more(void **state)
{
    const size_t groups[] = {0, 0, 0, 1, 1, 2};
    const double measured[] = {100, 120, 90, 50, 40, 7};
    const double predicted[] = {100, 110, 130, 60, 60, 1};
    redco_choice_loss loss;
    (void)state;
    assert_int_equal(redco_choice_assess(measured, predicted, groups, 6, &loss, NULL), REDCO_OK);
    assert_int_equal(loss.groups, 2);
    assert_int_equal(loss.right, 0);
    assert_close(loss.mean_loss_ratio, (0.25 + 0.20) / 2);
    assert_close(loss.worst_loss_ratio, 0.25);
    assert_int_equal(loss.worst_row, 2);
}

static void memory_is_a_table_of_four(void **state)
{
    redco_memory_table table = {0};
    (void)state;
    assert_close(redco_memory_table_right_ratio(&table), 0.0);
    assert_close(redco_memory_table_failed_ratio(&table), 0.0);
    for (int i = 0; i < 6; i++) { redco_memory_table_add(&table, true, REDCO_SAID_FITS); }
    for (int i = 0; i < 2; i++) { redco_memory_table_add(&table, true, REDCO_SAID_OOM); }
    for (int i = 0; i < 3; i++) { redco_memory_table_add(&table, false, REDCO_SAID_FITS); }
    for (int i = 0; i < 9; i++) { redco_memory_table_add(&table, false, REDCO_SAID_OOM); }
    assert_int_equal(table.fits_said_fits, 6);
    assert_int_equal(table.fits_said_oom, 2);
    assert_int_equal(table.oom_said_fits, 3);
    assert_int_equal(table.oom_said_oom, 9);
    assert_close(redco_memory_table_right_ratio(&table), 15.0 / 20.0);
    assert_close(redco_memory_table_failed_ratio(&table), 3.0 / 9.0);
    for (int i = 0; i < 5; i++) { redco_memory_table_add(&table, i < 4, REDCO_SAID_UNCLEAR); }
    assert_close(redco_memory_table_right_ratio(&table), 15.0 / 25.0);
    assert_close(redco_memory_table_kind_ratio(&table, true), 6.0 / 12.0);
    assert_close(redco_memory_table_kind_ratio(&table, false), 9.0 / 13.0);
    assert_close(redco_memory_table_unclear_ratio(&table), 5.0 / 25.0);
}

static void values_that_are_no_throughputs_are_refused(void **state)
{
    const double good[] = {1, 2};
    const double bad[][2] = {{1, 0}, {1, -2}, {1, (double)NAN}, {1, (double)INFINITY}};
    redco_error_summary s;
    redco_rank_correlation r;
    redco_choice_loss loss;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_error err = {0};
        assert_int_equal(redco_error_summarise(good, bad[i], 2, &s, &err), REDCO_EVALUE);
        assert_non_null(strstr(err.text, "row 2: predicted value"));
        assert_int_equal(redco_error_summarise(bad[i], good, 2, &s, NULL), REDCO_EVALUE);
        assert_int_equal(redco_rank_correlate(good, bad[i], NULL, 2, &r, NULL), REDCO_EVALUE);
        assert_int_equal(redco_choice_assess(good, bad[i], NULL, 2, &loss, NULL), REDCO_EVALUE);
    }
    const double tiny = 1e-300;
    const double huge = 1e300;
    assert_int_equal(redco_error_summarise(&tiny, &huge, 1, &s, NULL), REDCO_EVALUE);
}

/* A second method for a size that enumeration still manages: every pair looked at. */
static void merging_counts_what_enumeration_counts(void **state)
{
    enum { COUNT = 300 };
    double measured[COUNT], predicted[COUNT];
    size_t groups[COUNT];
    uint32_t seed = 1;
    double agreement = 0.0, differ_m = 0.0, differ_p = 0.0;
    redco_rank_correlation r;
    (void)state;
    for (size_t i = 0; i < COUNT; i++) {
        uint32_t draws[3];
        for (size_t k = 0; k < 3; k++) {
            seed = seed * 1664525U + 1013904223U;
            draws[k] = seed >> 16;
        }
        groups[i] = draws[0] % 3;
        measured[i] = 1 + draws[1] % 50;
        predicted[i] = measured[i] + draws[2] % 30;
    }
    for (size_t i = 0; i < COUNT; i++) {
        for (size_t k = 0; k < i; k++) {
            if (groups[i] != groups[k]) { continue; }
            const int m = (measured[i] > measured[k]) - (measured[i] < measured[k]);
            const int p = (predicted[i] > predicted[k]) - (predicted[i] < predicted[k]);
            agreement += m * p;
            differ_m += m * m;
            differ_p += p * p;
        }
    }
    assert_int_equal(redco_rank_correlate(measured, predicted, groups, COUNT, &r, NULL), REDCO_OK);
    assert_close(r.tau_b, agreement / sqrt(differ_m * differ_p));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(figures_of_other_programs_are_met),
        cmocka_unit_test(errors_are_worked_by_hand),
        cmocka_unit_test(only_pairs_within_groups_count),
        cmocka_unit_test(choices_lose_what_the_best_had_more),
        cmocka_unit_test(memory_is_a_table_of_four),
        cmocka_unit_test(values_that_are_no_throughputs_are_refused),
        cmocka_unit_test(merging_counts_what_enumeration_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
