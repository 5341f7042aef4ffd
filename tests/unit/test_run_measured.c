/* Reported reliability of runs (data/run/measured.json) against the band that redco predicts for the stated inputs; and
 * the table of planner/run/README.md, which is this one. "test_run_measured --table" prints it. */
#include "planner/run/run_terms.h"
#include "topology/base/file.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *text_of(const json_t *row, const char *key)
{
    const char *const text = json_string_value(json_object_get(row, key));
    return text != NULL ? text : "";
}

static redco_run_estimate estimate_with(const json_t *row, const char *failures)
{
    static const char *const keys[] = {"recovery", "storage", "fault-tolerant"};
    redco_run_words words = redco_run_words_default();
    redco_run_terms terms;
    redco_run_estimate e = {.steps = 0.0};
    redco_error err = {0};
    const double gpus = json_number_value(json_object_get(row, "at"));
    const double params = json_number_value(json_object_get(row, "params"));
    const redco_run_step step = {.step_s = 10.0,
                                 .band_ratio = 0.03,
                                 .evidence = REDCO_CALIBRATED,
                                 .compute_s = 8.0,
                                 .gpus = (uint64_t)gpus,
                                 .nodes = (uint32_t)ceil(gpus / 8.0),
                                 .hosts_per_node = 1,
                                 .batch_tokens = 16e6,
                                 .micro_batches = 8.0,
                                 .checkpoint_bytes = fmax(params, 1e9) * 14.0,
                                 .writers = gpus,
                                 .replicas = 64};
    redco_status st = redco_run_words_take(&words, "failures", failures, "failures", &err);
    for (size_t i = 0; i < 3 && st == REDCO_OK; i++) {
        if (text_of(row, keys[i])[0] != '\0') {
            st = redco_run_words_take(&words, keys[i], text_of(row, keys[i]), keys[i], &err);
        }
    }
    words.terms.tokens = 16e6 * 6 * 3600 * 24; /* 60 days of steps */
    if (st == REDCO_OK) { st = redco_run_words_finish(&words, "", &terms, NULL, &err); }
    if (st == REDCO_OK) { st = redco_run_estimate_of(&terms, &step, &e, &err); }
    if (st != REDCO_OK) { fail_msg("%s: %s", text_of(row, "system"), err.text); }
    return e;
}

static redco_run_figure predict(const json_t *row)
{
    const char *const failures = text_of(row, "failures"), *const dots = strstr(failures, "..");
    char first[64];
    (void)snprintf(first, sizeof first, "%.*s", dots != NULL ? (int)(dots - failures) : 63, failures);
    const redco_run_estimate e = estimate_with(row, first);
    redco_run_figure f = {.known = true};
    if (strcmp(text_of(row, "what"), "ettr") == 0) { return e.ettr; }
    if (strcmp(text_of(row, "what"), "checkpoint_tb") == 0) {
        f.value = f.high = e.checkpoint_bytes / 1e12;
        f.low = f.value * 12.0 / 14.0;
        return f;
    }
    f = (redco_run_figure){
        .known = true, .value = e.mttf_s.value / 3600.0, .low = e.mttf_s.low / 3600.0, .high = e.mttf_s.high / 3600.0};
    if (dots != NULL) { /* between two machines */
        const redco_run_estimate other = estimate_with(row, dots + 2);
        f.low = fmin(f.value, other.mttf_s.value / 3600.0);
        f.high = fmax(f.value, other.mttf_s.value / 3600.0);
        f.value = sqrt(f.low * f.high);
    }
    return f;
}

static json_t *rows_of(json_t **document_out)
{
    json_error_t why;
    *document_out = json_load_file(REDCO_TEST_DATA "/run/measured.json", 0, &why);
    if (*document_out == NULL) { fail_msg("%s", why.text); }
    return json_object_get(*document_out, "rows");
}

static bool meets(const json_t *row, const redco_run_figure *f)
{
    const json_t *const reported = json_object_get(row, "reported");
    const double low = json_number_value(json_array_get(reported, 0)),
                 high = json_number_value(json_array_get(reported, 1));
    return low <= f->high && high >= f->low;
}

static void number(double value, char text[32])
{
    (void)snprintf(text, 32, value < 1000.0 ? "%.3g" : "%.0f", value);
}

static void write_table(FILE *out)
{
    json_t *document = NULL;
    json_t *const rows = rows_of(&document);
    size_t index;
    json_t *row;
    (void)fprintf(out, "| system | GPUs | inputs | | reported | predicted | inside |\n|---|---|---|---|---|---|---|\n");
    json_array_foreach(rows, index, row)
    {
        const char *const what = text_of(row, "what");
        const char *const unit = strcmp(what, "ettr") == 0     ? "ETTR"
                                 : strcmp(what, "mttf_h") == 0 ? "MTTF, h"
                                                               : "checkpoint, TB";
        const char *const why_not = text_of(row, "why_not");
        char gpus[32] = "", value[32], low[32], high[32];
        if (json_object_get(row, "at") != NULL) {
            (void)snprintf(gpus, sizeof gpus, "%.0f", json_number_value(json_object_get(row, "at")));
        }
        (void)fprintf(out, "| %s (%s) | %s | %s | %s | %s | ", text_of(row, "system"), text_of(row, "source"), gpus,
                      text_of(row, "inputs"), unit, text_of(row, "said"));
        if (json_object_get(row, "reported") == NULL) {
            (void)fprintf(out, "- | not judged: %s |\n", why_not);
            continue;
        }
        const redco_run_figure f = predict(row);
        number(f.value, value);
        number(f.low, low);
        number(f.high, high);
        (void)fprintf(out, "%s (%s to %s) | %s%s |\n", value, low, high,
                      why_not[0] != '\0' ? "not judged: "
                      : meets(row, &f)   ? "yes"
                                         : "no",
                      why_not);
    }
    json_decref(document);
}

static void reported_values_are_inside(void **state)
{
    json_t *document = NULL;
    json_t *const rows = rows_of(&document);
    size_t index, judged = 0;
    json_t *row;
    (void)state;
    json_array_foreach(rows, index, row)
    {
        if (text_of(row, "why_not")[0] != '\0') { continue; }
        const redco_run_figure f = predict(row);
        if (!meets(row, &f)) {
            fail_msg("%s: %s, not within %g to %g", text_of(row, "system"), text_of(row, "said"), f.low, f.high);
        }
        assert_true(f.high / f.low < 4.0); /* a band that holds everything would say nothing */
        judged++;
    }
    assert_int_equal(judged, 12);
    json_decref(document);
}

static void the_page_has_this_table(void **state)
{
    char *table = NULL, *page = NULL;
    size_t table_size = 0, page_size = 0;
    FILE *const out = open_memstream(&table, &table_size);
    (void)state;
    assert_non_null(out);
    write_table(out);
    assert_int_equal(fclose(out), 0);
    assert_int_equal(redco_file_read(REDCO_TEST_DATA "/../../planner/run/README.md", 1 << 20, &page, &page_size, NULL),
                     REDCO_OK);
    if (strstr(page, table) == NULL) { fail_msg("planner/run/README.md has another table: test_run_measured --table"); }
    free(page);
    free(table);
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reported_values_are_inside),
        cmocka_unit_test(the_page_has_this_table),
    };
    if (argc > 1 && strcmp(argv[1], "--table") == 0) {
        write_table(stdout);
        return 0;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
