/* redco-validate --measured: the simulator's predictions, and those of the closed form beside them, against measured
 * training runs. */
#include "costmodel/closed_form/memory_model.h"
#include "tools/cli/text_table.h"
#include "tools/validate/validate_rows.h"
#include "topology/base/preset.h"
#include "traces/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct score {
    redco_error_summary errors;
    redco_rank_correlation ranks;
    redco_choice_loss choice;
    struct validate_layouts layouts;
    redco_memory_table memory;
    size_t rows, skipped;
};

/* Errors of peaks that rows state. */
struct peaks {
    size_t rows;
    double median_ratio, worst_ratio, bias_ratio;
};

struct report {
    const struct validate_arguments *arguments;
    redco_error *err;
    struct validate_rows rows;
    size_t *groups;
    json_t *json;
    struct table *table;
    struct score all;
    struct peaks peaks[REDCO_MEM_KINDS]; /* by redco_mem_kind */
};

static redco_status out_of_memory(struct report *report)
{
    return redco_fail(report->err, REDCO_ENOMEM, "", "out of memory");
}

static redco_memory_verdict verdict_of(const struct validate_row *row, bool closed)
{
    const redco_prediction *const p = closed ? &row->price.closed_form : &row->price.predicted;
    return redco_memory_judge(p->total_bytes, p->capacity_bytes, p->uncertain_bytes);
}

static bool fits(const struct validate_row *row)
{
    return row->price.predicted.total_bytes <= row->price.predicted.capacity_bytes;
}

static const char *const peak_kinds[] = {"allocated", "reserved", "device"};

/* Like with like: tensors; these and what the allocator holds beside, which the reserve stands for less CUDA's context;
 * or all. */
static double predicted_peak(const struct validate_row *row)
{
    const redco_prediction *const p = &row->price.predicted;
    const double allocator = (double)(p->total_bytes - p->nccl_bytes) - redco_context_bytes;
    switch (row->run->mem_kind) {
    case REDCO_MEM_RESERVED: return fmax((double)p->allocated_bytes, allocator);
    case REDCO_MEM_DEVICE: return (double)p->total_bytes;
    default: return (double)p->allocated_bytes;
    }
}

static bool states_peak(const struct validate_row *row)
{
    return row->skip == NULL && (row->run->use & REDCO_USE_MEMORY) != 0 && row->run->mem_bytes > 0;
}

static double peak_error(const struct validate_row *row)
{
    return predicted_peak(row) / (double)row->run->mem_bytes - 1.0;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static redco_status assess_peaks(struct report *report, redco_mem_kind kind)
{
    struct peaks *const peaks = &report->peaks[kind];
    double *const errors = calloc(report->rows.files.count > 0 ? report->rows.files.count : 1, sizeof *errors);
    if (errors == NULL) { return out_of_memory(report); }
    for (size_t i = 0; i < report->rows.files.count; i++) {
        const struct validate_row *const row = &report->rows.rows[i];
        if (!states_peak(row) || row->run->mem_kind != kind) { continue; }
        peaks->bias_ratio += peak_error(row);
        errors[peaks->rows++] = fabs(peak_error(row));
    }
    if (peaks->rows > 0) {
        const size_t n = peaks->rows;
        qsort(errors, n, sizeof *errors, ascending);
        peaks->bias_ratio /= (double)n;
        peaks->median_ratio = 0.5 * (errors[(n - 1) / 2] + errors[n / 2]);
        peaks->worst_ratio = errors[n - 1];
    }
    free(errors);
    return REDCO_OK;
}

static json_t *peaks_json(const struct peaks *peaks)
{
    return json_pack("{s:I,s:f,s:f,s:f}", "rows", (json_int_t)peaks->rows, "median_ape", peaks->median_ratio,
                     "worst_ape", peaks->worst_ratio, "bias", peaks->bias_ratio);
}

static double predicted_tgs(const struct validate_row *row, bool closed)
{
    return (closed ? &row->price.closed_form : &row->price.predicted)->tokens_per_s_per_gpu;
}

/* Rows of @p source, or of all where it is NULL; @p closed: predictions of the closed form. */
static redco_status assess(struct report *report, const char *source, bool closed, struct score *score)
{
    const size_t most = report->rows.files.count > 0 ? report->rows.files.count : 1;
    double *const measured = calloc(most, sizeof *measured), *const predicted = calloc(most, sizeof *predicted);
    size_t *const groups = calloc(most, sizeof *groups);
    size_t count = 0;
    redco_status st = measured != NULL && predicted != NULL && groups != NULL ? REDCO_OK : out_of_memory(report);
    for (size_t i = 0; i < report->rows.files.count && st == REDCO_OK; i++) {
        const struct validate_row *const row = &report->rows.rows[i];
        if (source != NULL && strcmp(row->run->source, source) != 0) { continue; }
        if (row->skip != NULL) { score->skipped++; }
        if (row->memory) {
            redco_memory_table_add(&score->memory, row->run->outcome == REDCO_OUTCOME_OK,
                                   (redco_said)verdict_of(row, closed));
        }
        if (!row->speed) { continue; }
        measured[count] = row->run->tokens_per_s_per_gpu;
        predicted[count] = predicted_tgs(row, closed);
        groups[count++] = report->groups[i];
    }
    score->rows = count;
    if (!closed) { score->layouts = validate_layouts_of(&report->rows, source); }
    if (st == REDCO_OK) { st = redco_error_summarise(measured, predicted, count, &score->errors, report->err); }
    if (st == REDCO_OK) { st = redco_rank_correlate(measured, predicted, groups, count, &score->ranks, report->err); }
    if (st == REDCO_OK) { st = redco_choice_assess(measured, predicted, groups, count, &score->choice, report->err); }
    free(measured);
    free(predicted);
    free(groups);
    return st;
}

/* MFU under one convention, whatever the source's: 6 N + 12 L h s FLOP per token over the 16-bit peak. */
static double mfu_of(const struct validate_row *row, double tokens_per_s_per_gpu)
{
    const redco_prediction *const p = &row->price.predicted;
    return p->tokens_per_s_per_gpu > 0.0 ? p->mfu * tokens_per_s_per_gpu / p->tokens_per_s_per_gpu : 0.0;
}

static json_t *number_or_null(bool known, double value)
{
    return known ? json_real(value) : json_null();
}

static json_t *row_json(const struct validate_row *row)
{
    const double measured = row->run->tokens_per_s_per_gpu, predicted = predicted_tgs(row, false);
    const bool known = measured > 0.0;
    json_t *const json = json_pack("{s:s,s:s,s:o,s:o,s:o,s:s?,s:o,s:o}", "source", row->run->source, "location",
                                   row->run->location, "measured_tgs", number_or_null(known, measured), "predicted_tgs",
                                   number_or_null(row->skip == NULL, predicted), "error",
                                   number_or_null(row->speed, row->speed ? predicted / measured - 1.0 : 0.0), "skipped",
                                   row->skip, "measured_mfu", number_or_null(row->speed, mfu_of(row, measured)),
                                   "predicted_mfu", number_or_null(row->skip == NULL, row->price.predicted.mfu));
    if (json == NULL || row->skip != NULL) { return json; }
    (void)json_object_set_new(json, "closed_form_tgs", json_real(predicted_tgs(row, true)));
    (void)json_object_set_new(json, "predicted_memory_bytes",
                              json_integer((json_int_t)row->price.predicted.total_bytes));
    (void)json_object_set_new(json, "closed_form_memory_bytes",
                              json_integer((json_int_t)row->price.closed_form.total_bytes));
    (void)json_object_set_new(json, "capacity_bytes", json_integer((json_int_t)row->price.predicted.capacity_bytes));
    (void)json_object_set_new(json, "predicted_fits", json_boolean(fits(row)));
    (void)json_object_set_new(json, "memory_verdict", json_string(redco_memory_word(verdict_of(row, false))));
    (void)json_object_set_new(json, "fits",
                              row->memory ? json_boolean(row->run->outcome == REDCO_OUTCOME_OK) : json_null());
    if (row->run->mem_bytes > 0) {
        const char *const kind = peak_kinds[row->run->mem_kind];
        (void)json_object_set_new(json, "measured_memory_bytes", json_integer((json_int_t)row->run->mem_bytes));
        (void)json_object_set_new(json, "measured_memory", json_string(kind));
        (void)json_object_set_new(json, "comparable_memory_bytes", json_real(predicted_peak(row)));
        (void)json_object_set_new(json, "memory_error", json_real(peak_error(row)));
    }
    return json;
}

static json_t *score_json(const char *source, const struct score *score)
{
    json_t *const json = json_pack(
        "{s:I,s:I,s:f,s:f,s:f,s:f,s:o,s:f}", "rows", (json_int_t)score->rows, "skipped", (json_int_t)score->skipped,
        "mape", score->errors.mape_ratio, "median_ape", score->errors.median_ape_ratio, "p90_ape",
        score->errors.p90_ape_ratio, "bias", score->errors.bias_ratio, "kendall_tau",
        number_or_null(score->ranks.defined, score->ranks.tau_b), "choice_loss", score->choice.mean_loss_ratio);
    (void)json_object_set_new(json, "kendall_tau_layouts",
                              number_or_null(score->layouts.pairs > 0, score->layouts.tau));
    (void)json_object_set_new(json, "layout_pairs", json_integer((json_int_t)score->layouts.pairs));
    if (source != NULL) { (void)json_object_set_new(json, "source", json_string(source)); }
    return json;
}

static json_t *memory_json(const redco_memory_table *t)
{
    return json_pack("{s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f,s:f,s:f,s:f}", "fits_said_fits", (json_int_t)t->fits_said_fits,
                     "fits_said_oom", (json_int_t)t->fits_said_oom, "oom_said_fits", (json_int_t)t->oom_said_fits,
                     "oom_said_oom", (json_int_t)t->oom_said_oom, "fits_unclear", (json_int_t)t->fits_unclear,
                     "oom_unclear", (json_int_t)t->oom_unclear, "right", redco_memory_table_right_ratio(t),
                     "fits_right", redco_memory_table_kind_ratio(t, true), "oom_right",
                     redco_memory_table_kind_ratio(t, false), "unclear", redco_memory_table_unclear_ratio(t), "failed",
                     redco_memory_table_failed_ratio(t));
}

static void print_score(struct table *table, const char *name, const struct score *score)
{
    const redco_error_summary *const e = &score->errors;
    table_row(table);
    table_cell(table, "%s", name);
    table_cell(table, "%zu", score->rows);
    table_cell(table, "%zu", score->skipped);
    if (score->rows == 0) { return; }
    table_cell(table, "%.2f %%", 100.0 * e->mape_ratio);
    table_cell(table, "%.2f %%", 100.0 * e->median_ape_ratio);
    table_cell(table, "%.1f %%", 100.0 * e->p90_ape_ratio);
    table_cell(table, "%+.1f %%", 100.0 * e->bias_ratio);
    table_cell(table, score->ranks.defined ? "%.2f" : "-", score->ranks.tau_b);
    table_cell(table, score->choice.groups > 0 ? "%.2f %%" : "-", 100.0 * score->choice.mean_loss_ratio);
}

static void print_head(struct table *table)
{
    static const char *const titles[] = {"source", "rows", "skipped", "MAPE", "median", "p90", "bias", "tau", "choice"};
    table_row(table);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) { table_cell(table, "%s", titles[i]); }
}

static void print_memory(const redco_memory_table *t)
{
    const unsigned long long fit = t->fits_said_fits + t->fits_said_oom + t->fits_unclear;
    const unsigned long long oom = t->oom_said_fits + t->oom_said_oom + t->oom_unclear;
    if (fit + oom == 0) { return; }
    printf("\nmemory    %llu runs: %.1f %% classified correctly, %.1f %% \"may not fit\", which counts as wrong; "
           "%.1f %% of those predicted to fit fail\n",
           fit + oom, 100.0 * redco_memory_table_right_ratio(t), 100.0 * redco_memory_table_unclear_ratio(t),
           100.0 * redco_memory_table_failed_ratio(t));
    printf("          %llu fit: %.1f %% correct: %llu predicted to fit, %llu not, %llu unclear\n", fit,
           100.0 * redco_memory_table_kind_ratio(t, true), (unsigned long long)t->fits_said_fits,
           (unsigned long long)t->fits_said_oom, (unsigned long long)t->fits_unclear);
    printf("          %llu out of memory: %.1f %% correct: %llu predicted not to fit, %llu to fit, %llu unclear\n", oom,
           100.0 * redco_memory_table_kind_ratio(t, false), (unsigned long long)t->oom_said_oom,
           (unsigned long long)t->oom_said_fits, (unsigned long long)t->oom_unclear);
}

static void print_peaks(const struct report *report)
{
    bool any = false;
    for (int kind = 0; kind < REDCO_MEM_KINDS; kind++) {
        const struct peaks *const p = &report->peaks[kind];
        if (p->rows == 0) { continue; }
        printf("%s%-9s peaks of %zu runs: median error %.2f %%, worst %.2f %%, bias %+.2f %%\n", any ? "" : "\n",
               peak_kinds[kind], p->rows, 100.0 * p->median_ratio, 100.0 * p->worst_ratio, 100.0 * p->bias_ratio);
        any = true;
    }
}

/* Reasons in the order of their first row, each with how many rows it skips. */
static void print_skipped(const struct report *report)
{
    bool any = false;
    for (size_t i = 0; i < report->rows.files.count; i++) {
        const char *const reason = report->rows.rows[i].skip;
        size_t rows = 0;
        bool seen = reason == NULL;
        for (size_t j = 0; j < i && !seen; j++) {
            seen = report->rows.rows[j].skip != NULL && strcmp(report->rows.rows[j].skip, reason) == 0;
        }
        if (seen) { continue; }
        for (size_t j = i; j < report->rows.files.count; j++) {
            rows += report->rows.rows[j].skip != NULL && strcmp(report->rows.rows[j].skip, reason) == 0 ? 1 : 0;
        }
        if (!any) { (void)printf("\n"); }
        table_line("%s %4zu %s", any ? "         " : "skipped  ", rows, reason);
        any = true;
    }
}

static double closed_change(const struct validate_row *row)
{
    return row->price.closed_form.step_s / row->price.predicted.step_s - 1.0;
}

/* The row on which simulator and closed form differ most. */
static const struct validate_row *farthest_row(const struct report *report)
{
    const struct validate_row *worst = NULL;
    for (size_t i = 0; i < report->rows.files.count; i++) {
        const struct validate_row *const row = &report->rows.rows[i];
        if (row->skip != NULL) { continue; }
        if (worst == NULL || fabs(closed_change(row)) > fabs(closed_change(worst))) { worst = row; }
    }
    return worst;
}

static void print_farthest(const struct report *report)
{
    const struct validate_row *const worst = farthest_row(report);
    if (worst == NULL) { return; }
    (void)printf("\n");
    table_line("closed form and simulator differ most, by %+.1f %% of the step, on %s: %s",
               100.0 * closed_change(worst), worst->run->source, worst->run->location);
}

static redco_status add_source(struct report *report, const char *source, json_t *sources)
{
    struct score score = {.rows = 0};
    const redco_status st = assess(report, source, false, &score);
    if (st != REDCO_OK) { return st; }
    if (score.rows + score.skipped > 0) { print_score(report->table, source, &score); }
    (void)json_array_append_new(sources, score_json(source, &score));
    return REDCO_OK;
}

static redco_status add_sources(struct report *report, json_t *sources)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < report->rows.files.count && st == REDCO_OK; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++) {
            seen = strcmp(report->rows.rows[i].run->source, report->rows.rows[j].run->source) == 0;
        }
        if (!seen) { st = add_source(report, report->rows.rows[i].run->source, sources); }
    }
    return st;
}

/* Compares the closed form, which plans, with the simulator on the same rows. */
static json_t *closed_json(const struct report *report, const struct score *closed)
{
    json_t *const json = score_json(NULL, closed);
    const struct validate_row *const worst = farthest_row(report);
    (void)json_object_set_new(json, "memory", memory_json(&closed->memory));
    (void)json_object_set_new(json, "farthest_from_simulator",
                              json_real(worst != NULL ? fabs(closed_change(worst)) : 0.0));
    return json;
}

static redco_status fill(struct report *report)
{
    struct score *const all = &report->all;
    json_t *const rows = json_array(), *const sources = json_array();
    struct score closed = {.rows = 0};
    redco_status st = rows != NULL && sources != NULL ? REDCO_OK : out_of_memory(report);
    print_head(report->table);
    if (st == REDCO_OK) { st = add_sources(report, sources); }
    if (st == REDCO_OK) { st = assess(report, NULL, false, all); }
    if (st == REDCO_OK) { st = assess(report, NULL, true, &closed); }
    for (int kind = 0; kind < REDCO_MEM_KINDS && st == REDCO_OK; kind++) {
        st = assess_peaks(report, (redco_mem_kind)kind);
    }
    for (size_t i = 0; i < report->rows.files.count && st == REDCO_OK; i++) {
        (void)json_array_append_new(rows, row_json(&report->rows.rows[i]));
    }
    if (st == REDCO_OK) {
        print_score(report->table, "all", all);
        print_score(report->table, "by the closed form", &closed);
        report->json = json_pack("{s:s,s:i,s:O,s:O,s:o,s:o,s:o}", "format", "redco-validate", "version", 1, "rows",
                                 rows, "sources", sources, "all", score_json(NULL, all), "memory",
                                 memory_json(&all->memory), "closed_form", closed_json(report, &closed));
        json_t *const peaks = json_object();
        for (int kind = 0; kind < REDCO_MEM_KINDS; kind++) {
            (void)json_object_set_new(peaks, peak_kinds[kind], peaks_json(&report->peaks[kind]));
        }
        if (report->json == NULL || json_object_set_new(report->json, "peaks", peaks) != 0) {
            st = out_of_memory(report);
        }
    }
    json_decref(rows);
    json_decref(sources);
    return st;
}

static redco_status run(struct report *report)
{
    const struct validate_arguments *const a = report->arguments;
    redco_status st = validate_rows_read(a, &report->rows, report->err);
    if (st != REDCO_OK) { return st; }
    const size_t most = report->rows.files.count > 0 ? report->rows.files.count : 1;
    report->groups = calloc(most, sizeof *report->groups);
    report->table = table_new("lrrrrrrrr");
    if (report->groups == NULL || report->table == NULL) { return out_of_memory(report); }
    st = redco_measured_groups(report->rows.files.runs, report->rows.files.count, report->groups, report->err);
    return st == REDCO_OK ? fill(report) : st;
}

/* Frameworks without an engine of their own, each with how many rows it has. */
static void print_unknown(const struct report *report)
{
    for (size_t i = 0; i < report->rows.files.count; i++) {
        const char *const name = report->rows.rows[i].run->framework;
        size_t rows = 0;
        bool seen = report->rows.rows[i].skip != NULL || redco_preset_find("engines", name) != NULL;
        for (size_t j = 0; j < i && !seen; j++) {
            seen = report->rows.rows[j].skip == NULL && strcmp(report->rows.rows[j].run->framework, name) == 0;
        }
        if (seen) { continue; }
        for (size_t j = i; j < report->rows.files.count; j++) {
            rows += report->rows.rows[j].skip == NULL && strcmp(report->rows.rows[j].run->framework, name) == 0 ? 1 : 0;
        }
        (void)printf("\n");
        table_line("%zu %s of framework \"%.60s\", which has no engine: priced as fsdp", rows,
                   rows == 1 ? "row" : "rows", name);
    }
}

static void print_report(const void *shown)
{
    const struct report *const report = shown;
    (void)table_print(report->table, "", stdout);
    print_memory(&report->all.memory);
    print_peaks(report);
    print_farthest(report);
    print_unknown(report);
    print_skipped(report);
}

int validate_measured(const struct validate_arguments *arguments)
{
    redco_error err = {.status = REDCO_OK};
    struct report report = {.arguments = arguments, .err = &err};
    const redco_status st = run(&report);
    const struct validate_outcome outcome = {
        .json = report.json, .kind = PLOT_PREDICTED_VS_MEASURED, .print = print_report, .report = &report};
    const int code = st == REDCO_OK ? validate_finish(arguments, &outcome) : cli_fail(&arguments->cli, &err);
    json_decref(report.json);
    table_free(report.table);
    free(report.groups);
    validate_rows_free(&report.rows);
    return code;
}
