/* Every shipped measured row that redco can express, laid out by the simulator: its errors of throughput and of memory
 * are those that README.md names, and it stays close to the closed form (test_evaluate). Tables: traces/data, whose
 * README names the sources. */
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/evaluation/measured_runs.h"
#include "tests/unit/readme_figures.h"
#include "traces/statistics.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLES REDCO_TEST_DATA "/../../traces/data/"

enum { MOST_TABLES = 32, MOST_ROWS = 3000 };

struct rows {
    redco_measured *tables[MOST_TABLES];
    const redco_measured_run *runs[MOST_ROWS];
    size_t table_count, count;
};

static struct rows *open_rows(void)
{
    struct rows *const rows = calloc(1, sizeof *rows);
    DIR *const folder = opendir(TABLES);
    redco_error err = {.status = REDCO_OK};
    assert_non_null(rows);
    assert_non_null(folder);
    for (struct dirent *entry = readdir(folder); entry != NULL; entry = readdir(folder)) {
        char path[512];
        const redco_measured_run *runs = NULL;
        if (strstr(entry->d_name, ".csv") == NULL) { continue; }
        (void)snprintf(path, sizeof path, "%s%.200s", TABLES, entry->d_name);
        assert_true(rows->table_count < MOST_TABLES);
        assert_int_equal(redco_measured_read(path, &rows->tables[rows->table_count], &err), REDCO_OK);
        const size_t count = redco_measured_runs(rows->tables[rows->table_count++], &runs);
        assert_true(rows->count + count <= MOST_ROWS);
        for (size_t i = 0; i < count; i++) { rows->runs[rows->count++] = &runs[i]; }
    }
    (void)closedir(folder);
    return rows;
}

static void close_rows(struct rows *rows)
{
    for (size_t i = 0; i < rows->table_count; i++) { redco_measured_free(rows->tables[i]); }
    free(rows);
}

/* README.md prints percentages with one digit: the one that is found here must round to it. */
static void check_percent(const char *what, double ratio, double percent)
{
    if (fabs(100.0 * ratio - percent) > 0.0500001) {
        fail_msg("%s: %.2f %%, README.md says %.1f %%", what, 100.0 * ratio, percent);
    }
}

static void rows_are_simulated(void **state)
{
    (void)state;
    static double measured[MOST_ROWS], predicted[MOST_ROWS];
    struct rows *const rows = open_rows();
    redco_evaluations *all = NULL;
    redco_error err = {.status = REDCO_OK};
    redco_error_summary errors;
    redco_memory_table memory = {0};
    size_t count = 0, laid_out = 0, within2 = 0;
    double worst = 0.0;
    assert_int_equal(redco_evaluations_create(rows->runs, rows->count, &all, &err), REDCO_OK);
    for (size_t i = 0; i < rows->count; i++) {
        redco_calibration set;
        redco_price price;
        const redco_measured_run *const run = rows->runs[i];
        if (redco_evaluations_skip(all, i) != NULL) { continue; }
        const char *const name = redco_evaluations_set(all, i);
        assert_int_equal(redco_calibration_read(name, NULL, &set, &err), REDCO_OK);
        if (redco_evaluations_price(all, i, &set, &price, &err) != REDCO_OK) {
            fail_msg("%s, %s: %s: %s", run->source, run->location, err.place, err.text);
        }
        const redco_prediction p = price.closed_form, s = price.predicted;
        const double apart = fabs(s.step_s / p.step_s - 1.0);
        laid_out++;
        within2 += apart < 0.02 ? 1 : 0;
        worst = fmax(worst, apart);
        if ((run->use & REDCO_USE_MEMORY) != 0 && run->outcome != REDCO_OUTCOME_UNKNOWN) {
            redco_memory_table_add(&memory, run->outcome == REDCO_OUTCOME_OK,
                                   (redco_said)redco_memory_judge(s.total_bytes, p.capacity_bytes, p.uncertain_bytes));
        }
        if ((run->use & REDCO_USE_SPEED) == 0 || !(run->tokens_per_s_per_gpu > 0.0)) { continue; }
        measured[count] = run->tokens_per_s_per_gpu;
        predicted[count++] = s.tokens_per_s_per_gpu;
    }
    assert_int_equal(redco_error_summarise(measured, predicted, count, &errors, NULL), REDCO_OK);
    print_message("%zu rows, %.1f %% within 2 %% of the closed form, worst %.1f %%; %zu timed: MAPE %.2f %%, median "
                  "%.2f %%; memory %.1f %% right, %.1f %% of those told to fit fail\n",
                  laid_out, 100.0 * (double)within2 / (double)laid_out, 100.0 * worst, count, 100.0 * errors.mape_ratio,
                  100.0 * errors.median_ape_ratio, 100.0 * redco_memory_table_right_ratio(&memory),
                  100.0 * redco_memory_table_failed_ratio(&memory));
    double runs = 0.0, mean = 0.0, median = 0.0, expressed = 0.0, right = 0.0, unclear = 0.0;
    const char *const text = readme_behind("The mean error of tokens/s over");
    assert_int_equal(sscanf(text, " %lf runs is %lf %%, the median %lf %%", &runs, &mean, &median), 3);
    assert_int_equal(sscanf(readme_behind("| all of `traces/data` |"), " %lf |", &expressed), 1);
    assert_int_equal(sscanf(readme_behind("arXiv 2311.05610)"), " %lf %% are classified correctly", &right), 1);
    assert_int_equal(sscanf(readme_behind("as fitting or out of memory ("), "%lf %%", &unclear), 1);
    assert_int_equal(count, (size_t)runs);
    assert_int_equal(laid_out, (size_t)expressed);
    check_percent("mean error", errors.mape_ratio, mean);
    check_percent("median error", errors.median_ape_ratio, median);
    check_percent("classified correctly", redco_memory_table_right_ratio(&memory), right);
    check_percent("may not fit", redco_memory_table_unclear_ratio(&memory), unclear);
    assert_true(redco_memory_table_failed_ratio(&memory) <= 0.04);
    assert_true((double)within2 >= 0.95 * (double)laid_out);
    assert_true(worst < 0.07);
    redco_evaluations_free(all);
    close_rows(rows);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_simulated)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
