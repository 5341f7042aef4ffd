#include "tools/report/calibrate.h"

#include "costmodel/evaluation/fit.h"
#include "tools/cli/text_table.h"
#include "topology/base/file.h"
#include "topology/base/json.h"
#include "traces/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The band that redco-plan shows is what two thirds of unseen runs stay within: a standard deviation, if errors were
 * normal. */
static const double band_share = 0.68;
enum { DRAWS = 20, FOLDS = 2, DIGITS = 6 };
/* Rows that go into one set. */
struct pool {
    size_t *rows;
    double *measured, *predicted;
    size_t *groups;
    size_t count;
};

struct work {
    const struct calibrate_arguments *arguments;
    struct measured_files files;
    struct pool chosen; /* rows that may be fitted */
    redco_error *err;
};

/* Errors of one line of a table. */
struct line {
    char name[96];
    redco_error_summary in_sample, folds, models;
    double *errors; /* one array for all lines, kept by the caller */
};

static redco_status out_of_memory(struct work *work)
{
    return redco_fail(work->err, REDCO_ENOMEM, "", "out of memory");
}

static void pool_free(struct pool *pool)
{
    free(pool->rows);
    free(pool->measured);
    free(pool->predicted);
    free(pool->groups);
    *pool = (struct pool){.count = 0};
}

static redco_status pool_new(struct work *work, size_t capacity, struct pool *pool)
{
    const size_t n = capacity > 0 ? capacity : 1;
    *pool = (struct pool){.rows = calloc(n, sizeof *pool->rows),
                          .measured = calloc(n, sizeof *pool->measured),
                          .predicted = calloc(n, sizeof *pool->predicted),
                          .groups = calloc(n, sizeof *pool->groups)};
    if (pool->rows == NULL || pool->measured == NULL || pool->predicted == NULL || pool->groups == NULL) {
        pool_free(pool);
        return out_of_memory(work);
    }
    return REDCO_OK;
}

static const redco_measured_run *run_of(const struct work *work, const struct pool *pool, size_t i)
{
    return work->files.runs[pool->rows[i]];
}

static void pool_add(const struct work *work, struct pool *pool, size_t row)
{
    pool->rows[pool->count] = row;
    pool->measured[pool->count++] = work->files.runs[row]->tokens_per_s_per_gpu;
}

/* Class of GPU and software alone: per-framework sets belong to it. */
static const char *class_of(const struct work *work, size_t row)
{
    const redco_gpu *const gpu = &redco_evaluations_request(work->files.evaluations, row)->machine.gpu;
    return redco_calibration_set(gpu, work->files.runs[row]->software);
}

static bool gpu_wanted(const struct calibrate_arguments *arguments, const char *gpu)
{
    for (size_t i = 0; i < arguments->gpu_count; i++) {
        if (strncasecmp(gpu, arguments->gpus[i], strlen(arguments->gpus[i])) == 0) { return true; }
    }
    return arguments->gpu_count == 0;
}

static redco_status choose(struct work *work)
{
    const struct calibrate_arguments *const a = work->arguments;
    const redco_status st = pool_new(work, work->files.count, &work->chosen);
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; i < work->files.count; i++) {
        const redco_measured_run *const run = work->files.runs[i];
        if (!measured_has_speed(&work->files, i) || run->experts > 0 || (run->use & REDCO_USE_HELD_OUT) != 0 ||
            (a->source != NULL && strcmp(run->source, a->source) != 0) ||
            (a->framework != NULL && strcmp(run->framework, a->framework) != 0) ||
            (a->software != REDCO_SOFTWARE_UNKNOWN && run->software != a->software) || !gpu_wanted(a, run->gpu)) {
            continue;
        }
        pool_add(work, &work->chosen, i);
    }
    if (work->chosen.count == 0) {
        return redco_fail(work->err, REDCO_EVALUE, a->files[0], "has no row with a throughput that could be fitted");
    }
    return REDCO_OK;
}

static redco_status read_prior(const struct work *work, size_t row, bool shipped, redco_calibration *prior_out)
{
    char name[128];
    if (work->arguments->prior != NULL) {
        return redco_calibration_read(work->arguments->prior, NULL, prior_out, work->err);
    }
    const char *class = class_of(work, row);
    if (!shipped && strncmp(class, "h200", 4) == 0) {
        class = strcmp(class, "h200-te") == 0 ? "h100-te" : "h100-eager";
    }
    (void)snprintf(name, sizeof name, "%s%s", shipped ? "" : "prior-", class);
    return redco_calibration_read(name, NULL, prior_out, work->err);
}

static redco_status summarise(struct work *work, const struct pool *pool, redco_error_summary *summary)
{
    return redco_error_summarise(pool->measured, pool->predicted, pool->count, summary, work->err);
}

static void predict(struct work *work, struct pool *pool, const redco_calibration *set)
{
    for (size_t i = 0; i < pool->count; i++) {
        pool->predicted[i] =
            redco_evaluations_predict(work->files.evaluations, pool->rows[i], set).tokens_per_s_per_gpu;
    }
}

/* Rows that no fit left out saw (a pool of one group) are predicted by the prior. */
static redco_status validate(struct work *work, struct pool *pool, const redco_calibration *prior)
{
    const redco_fit_options options = redco_fit_options_for(pool->count);
    const redco_status st = redco_fit_validate(work->files.evaluations, pool->rows, pool->measured, pool->count,
                                               pool->groups, prior, &options, pool->predicted, work->err);
    for (size_t i = 0; i < pool->count && st == REDCO_OK; i++) {
        if (pool->predicted[i] > 0.0) { continue; }
        pool->predicted[i] =
            redco_evaluations_predict(work->files.evaluations, pool->rows[i], prior).tokens_per_s_per_gpu;
    }
    return st;
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y ? 1 : 0;
}

static redco_status band_of(struct work *work, const struct pool *pool, double *band_out)
{
    double *const errors = calloc(pool->count, sizeof *errors);
    if (errors == NULL) { return out_of_memory(work); }
    for (size_t i = 0; i < pool->count; i++) { errors[i] = fabs(pool->predicted[i] / pool->measured[i] - 1.0); }
    qsort(errors, pool->count, sizeof *errors, ascending);
    *band_out = fmin(1.0, errors[(size_t)(band_share * (double)(pool->count - 1) + 0.5)]);
    free(errors);
    return REDCO_OK;
}

/* Models are told apart by what they compute, not by what a table calls them. */
static void group_by_model(const struct work *work, struct pool *pool)
{
    for (size_t i = 0; i < pool->count; i++) {
        const redco_measured_run *const a = run_of(work, pool, i);
        pool->groups[i] = i;
        for (size_t j = 0; j < i; j++) {
            const redco_measured_run *const b = run_of(work, pool, j);
            if (a->layers == b->layers && a->hidden == b->hidden && a->ffn_hidden == b->ffn_hidden) {
                pool->groups[i] = pool->groups[j];
                break;
            }
        }
    }
}

/* Fits a pool and judges the fit. pool->predicted is by the other half of the rows afterwards. */
static redco_status fit_line(struct work *work, struct pool *pool, redco_calibration *set_out, struct line *line)
{
    const redco_fit_options options = redco_fit_options_for(pool->count);
    redco_calibration prior, set;
    redco_status st = read_prior(work, pool->rows[0], false, &prior);
    if (st != REDCO_OK || (st = redco_fit(work->files.evaluations, pool->rows, pool->measured, pool->count, &prior,
                                          &options, &set, work->err)) != REDCO_OK) {
        return st;
    }
    predict(work, pool, &set);
    if ((st = summarise(work, pool, &line->in_sample)) != REDCO_OK) { return st; }
    group_by_model(work, pool);
    if ((st = validate(work, pool, &prior)) != REDCO_OK || (st = summarise(work, pool, &line->models)) != REDCO_OK) {
        return st;
    }
    redco_fit_folds(pool->count, FOLDS, work->arguments->seed, pool->groups);
    if ((st = validate(work, pool, &prior)) != REDCO_OK || (st = summarise(work, pool, &line->folds)) != REDCO_OK ||
        (st = band_of(work, pool, &set.band_ratio)) != REDCO_OK) {
        return st;
    }
    set.cross_validated_ratio = line->folds.mape_ratio;
    set.left_out_ratio = line->models.mape_ratio;
    *set_out = set;
    return REDCO_OK;
}

static void head(struct table *table)
{
    table_row(table);
    static const char *const titles[] = {"",       "rows", "in-sample MAPE", "median", "2-fold MAPE",
                                         "median", "p90",  "model left out"};
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) { table_cell(table, "%s", titles[i]); }
}

static void percent(struct table *table, double ratio)
{
    table_cell(table, "%.2f %%", 100.0 * ratio);
}

static void print_line(struct table *table, const struct line *line)
{
    table_row(table);
    table_cell(table, "%s", line->name);
    table_cell(table, "%zu", line->in_sample.count);
    percent(table, line->in_sample.mape_ratio);
    percent(table, line->in_sample.median_ape_ratio);
    percent(table, line->folds.mape_ratio);
    percent(table, line->folds.median_ape_ratio);
    percent(table, line->folds.p90_ape_ratio);
    percent(table, line->models.mape_ratio);
}

static json_t *line_json(const struct line *line)
{
    return json_pack("{s:s,s:I,s:f,s:f,s:f,s:f,s:f,s:f}", "name", line->name, "rows", (json_int_t)line->in_sample.count,
                     "mape", line->in_sample.mape_ratio, "median_ape", line->in_sample.median_ape_ratio,
                     "cross_validated_mape", line->folds.mape_ratio, "cross_validated_median_ape",
                     line->folds.median_ape_ratio, "cross_validated_p90_ape", line->folds.p90_ape_ratio,
                     "left_out_model_mape", line->models.mape_ratio);
}

static bool same_group(const struct work *work, size_t a, size_t b, enum calibrate_each each)
{
    const redco_measured_run *const x = work->files.runs[a], *const y = work->files.runs[b];
    if (strcmp(class_of(work, a), class_of(work, b)) != 0) { return false; }
    return each == CALIBRATE_CLASSES || (strcmp(x->source, y->source) == 0 && strcmp(x->gpu, y->gpu) == 0);
}

/* In-sample and cross-validated predictions of all groups together. */
struct totals {
    struct pool in_sample, folds;
};

static redco_status fit_group(struct work *work, size_t first, struct table *table, json_t *lines,
                              struct totals *totals)
{
    const enum calibrate_each each = work->arguments->each;
    const struct pool *const all = &work->chosen;
    struct pool pool;
    struct line line = {.errors = NULL};
    redco_calibration set;
    redco_status st = pool_new(work, all->count, &pool);
    if (st != REDCO_OK) { return st; }
    for (size_t i = first; i < all->count; i++) {
        if (same_group(work, all->rows[first], all->rows[i], each)) { pool_add(work, &pool, all->rows[i]); }
    }
    const redco_measured_run *const run = run_of(work, &pool, 0);
    const char *const class = class_of(work, pool.rows[0]);
    (void)snprintf(line.name, sizeof line.name, "%s%s%s%s%s", each == CALIBRATE_CLASSES ? "" : run->source,
                   each == CALIBRATE_CLASSES ? "" : " ", each == CALIBRATE_CLASSES ? "" : run->gpu,
                   each == CALIBRATE_CLASSES ? "" : " ", class);
    if ((st = fit_line(work, &pool, &set, &line)) != REDCO_OK) { goto out; }
    print_line(table, &line);
    (void)json_array_append_new(lines, line_json(&line));
    for (size_t i = 0; i < pool.count; i++) {
        totals->folds.predicted[totals->folds.count] = pool.predicted[i];
        totals->folds.measured[totals->folds.count++] = pool.measured[i];
    }
    predict(work, &pool, &set);
    for (size_t i = 0; i < pool.count; i++) {
        totals->in_sample.predicted[totals->in_sample.count] = pool.predicted[i];
        totals->in_sample.measured[totals->in_sample.count++] = pool.measured[i];
    }
out:
    pool_free(&pool);
    return st;
}

static redco_status print_total(struct work *work, struct table *table, json_t *lines, const struct totals *totals)
{
    struct line line = {.name = "all"};
    redco_status st = summarise(work, &totals->in_sample, &line.in_sample);
    if (st == REDCO_OK) { st = summarise(work, &totals->folds, &line.folds); }
    if (st != REDCO_OK) { return st; }
    table_row(table);
    table_cell(table, "all");
    table_cell(table, "%zu", line.in_sample.count);
    percent(table, line.in_sample.mape_ratio);
    percent(table, line.in_sample.median_ape_ratio);
    percent(table, line.folds.mape_ratio);
    percent(table, line.folds.median_ape_ratio);
    percent(table, line.folds.p90_ape_ratio);
    json_t *const json = line_json(&line);
    (void)json_object_del(json, "left_out_model_mape");
    (void)json_array_append_new(lines, json);
    return REDCO_OK;
}

static redco_status each_group(struct work *work, struct table *table, json_t *lines)
{
    const struct pool *const all = &work->chosen;
    struct totals totals = {.folds = {.count = 0}};
    redco_status st = pool_new(work, all->count, &totals.folds);
    if (st == REDCO_OK) { st = pool_new(work, all->count, &totals.in_sample); }
    head(table);
    for (size_t i = 0; i < all->count && st == REDCO_OK; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++) {
            seen = same_group(work, all->rows[i], all->rows[j], work->arguments->each);
        }
        if (!seen) { st = fit_group(work, i, table, lines, &totals); }
    }
    if (st == REDCO_OK) { st = print_total(work, table, lines, &totals); }
    pool_free(&totals.in_sample);
    pool_free(&totals.folds);
    return st;
}

/* Mean error on the rows not drawn, over several draws of @p anchors rows, starting from @p prior. */
static redco_status anchored(struct work *work, const struct pool *pool, const redco_calibration *prior, size_t anchors,
                             double *error_out, double *without_out)
{
    const redco_fit_options options = redco_fit_options_for(anchors);
    struct pool few, rest;
    double sum = 0.0, before = 0.0;
    size_t rows = 0;
    if (anchors >= pool->count) {
        return redco_fail(work->err, REDCO_EVALUE, "--anchor", "%zu rows of %zu leave none to predict", anchors,
                          pool->count);
    }
    redco_status st = pool_new(work, pool->count, &few);
    if (st != REDCO_OK) { return st; }
    if ((st = pool_new(work, pool->count, &rest)) != REDCO_OK) {
        pool_free(&few);
        return st;
    }
    for (uint64_t draw = 0; draw < DRAWS && st == REDCO_OK; draw++) {
        redco_calibration set;
        redco_fit_folds(pool->count, (uint32_t)pool->count, work->arguments->seed * DRAWS + draw, few.groups);
        few.count = rest.count = 0;
        for (size_t i = 0; i < pool->count; i++) {
            pool_add(work, few.groups[i] < anchors ? &few : &rest, pool->rows[i]);
        }
        st = redco_fit(work->files.evaluations, few.rows, few.measured, few.count, prior, &options, &set, work->err);
        if (st != REDCO_OK) { break; }
        for (int with = 0; with < 2; with++) {
            predict(work, &rest, with ? &set : prior);
            double *const into = with ? &sum : &before;
            for (size_t i = 0; i < rest.count; i++) { *into += fabs(rest.predicted[i] / rest.measured[i] - 1.0); }
        }
        rows += rest.count;
    }
    if (st == REDCO_OK) {
        *error_out = sum / (double)rows;
        *without_out = before / (double)rows;
    }
    pool_free(&few);
    pool_free(&rest);
    return st;
}

static redco_status anchor(struct work *work, struct table *table, json_t *lines)
{
    redco_calibration prior;
    double after = 0.0, before = 0.0;
    redco_status st = read_prior(work, work->chosen.rows[0], true, &prior);
    if (st == REDCO_OK) { st = anchored(work, &work->chosen, &prior, work->arguments->anchor, &after, &before); }
    if (st != REDCO_OK) { return st; }
    table_row(table);
    table_cell(table, "%zu rows, MAPE by %s alone", work->chosen.count, prior.name);
    percent(table, before);
    table_row(table);
    table_cell(table, "fitted on %zu of them, mean of %d draws, on the rest", work->arguments->anchor, DRAWS);
    percent(table, after);
    (void)json_array_append_new(
        lines, json_pack("{s:s,s:I,s:I,s:f,s:f}", "prior", prior.name, "rows", (json_int_t)work->chosen.count,
                         "anchors", (json_int_t)work->arguments->anchor, "mape_without", before, "mape", after));
    return REDCO_OK;
}

/* One source by the others of its class: their fit, and that fit moved by one run of the source. */
static redco_status unseen_source(struct work *work, size_t first, struct table *table, json_t *lines,
                                  double errors_out[2])
{
    const struct pool *const all = &work->chosen;
    const redco_fit_options options = {.iterations = 0};
    const redco_measured_run *const run = run_of(work, all, first);
    const char *const class = class_of(work, all->rows[first]);
    struct pool own, others;
    redco_calibration prior, set;
    redco_status st = pool_new(work, all->count, &own);
    if (st != REDCO_OK) { return st; }
    if ((st = pool_new(work, all->count, &others)) != REDCO_OK) {
        pool_free(&own);
        return st;
    }
    for (size_t i = 0; i < all->count; i++) {
        if (strcmp(class_of(work, all->rows[i]), class) != 0) { continue; }
        pool_add(work, strcmp(run_of(work, all, i)->source, run->source) == 0 ? &own : &others, all->rows[i]);
    }
    if ((st = read_prior(work, all->rows[first], false, &prior)) != REDCO_OK) { goto out; }
    set = prior;
    if (others.count > 0) {
        st = redco_fit(work->files.evaluations, others.rows, others.measured, others.count, &prior, &options, &set,
                       work->err);
    }
    if (st == REDCO_OK) { st = anchored(work, &own, &set, 1, &errors_out[1], &errors_out[0]); }
    if (st != REDCO_OK) { goto out; }
    table_row(table);
    table_cell(table, "%s %s", run->source, class);
    table_cell(table, "%zu", own.count);
    table_cell(table, "%zu", others.count);
    percent(table, errors_out[0]);
    percent(table, errors_out[1]);
    (void)json_array_append_new(lines, json_pack("{s:s,s:s,s:I,s:I,s:f,s:f}", "source", run->source, "class", class,
                                                 "rows", (json_int_t)own.count, "fitted_rows", (json_int_t)others.count,
                                                 "mape", errors_out[0], "anchored_mape", errors_out[1]));
out:
    pool_free(&own);
    pool_free(&others);
    return st;
}

static redco_status unseen(struct work *work, struct table *table, json_t *lines)
{
    const struct pool *const all = &work->chosen;
    static const char *const titles[] = {"", "rows", "rows of others", "MAPE unseen", "with one anchor run"};
    double *const errors[2] = {calloc(all->count, sizeof(double)), calloc(all->count, sizeof(double))};
    redco_status st = errors[0] != NULL && errors[1] != NULL ? REDCO_OK : out_of_memory(work);
    size_t count = 0;
    table_row(table);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) { table_cell(table, "%s", titles[i]); }
    for (size_t i = 0; i < all->count && st == REDCO_OK; i++) {
        bool seen = false;
        for (size_t j = 0; j < i && !seen; j++) {
            seen = strcmp(run_of(work, all, i)->source, run_of(work, all, j)->source) == 0 &&
                   strcmp(class_of(work, all->rows[i]), class_of(work, all->rows[j])) == 0;
        }
        if (seen) { continue; }
        double pair[2] = {0.0, 0.0};
        st = unseen_source(work, i, table, lines, pair);
        errors[0][count] = pair[0];
        errors[1][count++] = pair[1];
    }
    if (st == REDCO_OK) {
        double medians[2];
        for (int k = 0; k < 2; k++) {
            qsort(errors[k], count, sizeof(double), ascending);
            medians[k] = 0.5 * (errors[k][(count - 1) / 2] + errors[k][count / 2]);
        }
        table_row(table);
        table_cell(table, "median over sources");
        table_cell(table, "%zu", all->count);
        table_cell(table, " ");
        percent(table, medians[0]);
        percent(table, medians[1]);
        (void)json_array_append_new(
            lines, json_pack("{s:s,s:f,s:f}", "source", "median", "mape", medians[0], "anchored_mape", medians[1]));
    }
    free(errors[0]);
    free(errors[1]);
    return st;
}

/* Takes @p json. */
static redco_status write_json(struct work *work, json_t *json)
{
    size_t size = 0;
    char *const text = json != NULL ? redco_json_text(json, DIGITS, &size) : NULL;
    const redco_status st =
        text != NULL ? redco_file_write(work->arguments->output, text, size, work->err) : out_of_memory(work);
    json_decref(json);
    free(text);
    return st;
}

/* Distinct sources, for people: "llm_foundry, hagemann_2311.05610". */
static void basis_of(const struct work *work, const struct pool *pool, const redco_calibration *prior, char *text,
                     size_t size)
{
    size_t used = (size_t)snprintf(text, size, "fitted around %s to runs of", prior->name);
    bool any = false;
    for (size_t i = 0; i < pool->count && used + 1 < size; i++) {
        bool seen = false;
        const char *const source = run_of(work, pool, i)->source;
        for (size_t j = 0; j < i && !seen; j++) { seen = strcmp(source, run_of(work, pool, j)->source) == 0; }
        if (!seen) { used += (size_t)snprintf(text + used, size - used, "%s %s", any ? "," : "", source); }
        any = true;
    }
}

static redco_status one_set(struct work *work, struct table *table, json_t *lines)
{
    const struct pool *const all = &work->chosen;
    redco_calibration set;
    const char *const class = class_of(work, all->rows[0]);
    struct line line = {.errors = NULL};
    for (size_t i = 1; i < all->count; i++) {
        const char *const other = class_of(work, all->rows[i]);
        if (strcmp(class, other) != 0 && work->arguments->prior == NULL) {
            return redco_fail(work->err, REDCO_EVALUE, work->arguments->files[0],
                              "has rows of more than one class (%s, %s): choose by --gpu, --source or --framework, or "
                              "name a --prior for all of them",
                              class, other);
        }
    }
    const char *const name = work->arguments->name != NULL ? work->arguments->name : class;
    redco_status st = fit_line(work, &work->chosen, &set, &line);
    if (st != REDCO_OK) { return st; }
    const redco_calibration prior = set; /* its name is still the prior's */
    basis_of(work, all, &prior, set.basis, sizeof set.basis);
    (void)snprintf(set.name, sizeof set.name, "%s", name);
    (void)snprintf(line.name, sizeof line.name, "%s", set.name);
    head(table);
    print_line(table, &line);
    json_t *const json = line_json(&line);
    (void)json_object_set_new(json, "calibration", redco_calibration_describe(&set));
    (void)json_array_append_new(lines, json);
    return work->arguments->output != NULL ? write_json(work, redco_calibration_describe(&set)) : REDCO_OK;
}

static redco_status run(struct work *work, struct table *table, json_t *lines)
{
    const struct calibrate_arguments *const a = work->arguments;
    redco_status st = REDCO_OK;
    if (a->mean != NULL || a->product != NULL) {
        json_t *document = NULL;
        if ((st = calibrate_combine(a, table, &document, work->err)) != REDCO_OK) { return st; }
        (void)json_array_append(lines, document);
        if (a->output != NULL) { return write_json(work, document); }
        json_decref(document);
        return REDCO_OK;
    }
    st = measured_files_read(a->files, a->file_count, &work->files, work->err);
    if (st == REDCO_OK && (a->experts || a->bands)) {
        json_t *document = NULL;
        st = a->experts ? calibrate_experts(a, &work->files, table, lines, &document, work->err)
                        : calibrate_bands(a, &work->files, table, lines, &document, work->err);
        if (st == REDCO_OK && a->bands && a->output != NULL) { return write_json(work, document); }
        json_decref(document);
        return st;
    }
    if (st == REDCO_OK && a->constants) { return calibrate_constants(&work->files, work->err); }
    if (st == REDCO_OK) { st = choose(work); }
    if (st != REDCO_OK) { return st; }
    if (a->anchor > 0) { return anchor(work, table, lines); }
    switch (a->each) {
    case CALIBRATE_SOURCES:
    case CALIBRATE_CLASSES: return each_group(work, table, lines);
    case CALIBRATE_UNSEEN: return unseen(work, table, lines);
    case CALIBRATE_HALF:
    case CALIBRATE_MODELS:
    case CALIBRATE_ONE: break;
    }
    return one_set(work, table, lines);
}

int calibrate(const struct calibrate_arguments *arguments)
{
    redco_error err = {.status = REDCO_OK};
    struct work work = {.arguments = arguments, .err = &err};
    struct table *const table = table_new("lrrrrrrr");
    json_t *const lines = json_array();
    int code = CLI_DONE;
    redco_status st = table != NULL && lines != NULL ? REDCO_OK : out_of_memory(&work);
    if (st == REDCO_OK) { st = run(&work, table, lines); }
    if (st != REDCO_OK) {
        code = cli_fail(&arguments->cli, &err);
    } else if (arguments->cli.json) {
        json_t *const json = json_pack("{s:s,s:i,s:O}", "format", "redco-calibrate", "version", 1, "sets", lines);
        code = cli_print_json(&arguments->cli, json);
        json_decref(json);
    } else {
        (void)table_print(table, "", stdout);
        code = cli_finish(&arguments->cli, CLI_DONE);
    }
    pool_free(&work.chosen);
    measured_files_free(&work.files);
    table_free(table);
    json_decref(lines);
    return code;
}
