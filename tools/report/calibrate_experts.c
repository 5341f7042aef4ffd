/* Constants of mixtures of experts: one set for each class of GPU, around the sets of dense models. */
#include "costmodel/evaluation/fit.h"
#include "costmodel/evaluation/fit_bands.h"
#include "tools/cli/text_table.h"
#include "tools/report/calibrate.h"
#include "topology/base/file.h"
#include "traces/statistics.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 6, CLASSES = 4, KINDS = 3 };

/* Errors of these rows hold several points of what no column says: releases, hosts, who measured. */
static const double noise_ratio = 0.07;

/* One class of GPU. */
struct class
{
    const char *name;
    size_t *rows; /* by their number in the files, */
    double *measured, *predicted;
    size_t *groups;
    size_t count;
};

struct work {
    const struct calibrate_arguments *arguments;
    const struct measured_files *files;
    redco_calibration *bases; /* for each row of the files */
    struct class classes[CLASSES];
    size_t class_count;
    redco_error *err;
};

static redco_status out_of_memory(struct work *work)
{
    return redco_fail(work->err, REDCO_ENOMEM, "", "out of memory");
}

static void work_free(struct work *work)
{
    free(work->bases);
    for (size_t i = 0; i < CLASSES; i++) {
        free(work->classes[i].rows);
        free(work->classes[i].measured);
        free(work->classes[i].predicted);
        free(work->classes[i].groups);
    }
}

static redco_status class_new(struct work *work, const char *name, struct class *class)
{
    const size_t n = work->files->count;
    *class = (struct class){.name = name,
                            .rows = calloc(n, sizeof *class->rows),
                            .measured = calloc(n, sizeof *class->measured),
                            .predicted = calloc(n, sizeof *class->predicted),
                            .groups = calloc(n, sizeof *class->groups)};
    return class->rows != NULL && class->measured != NULL && class->predicted != NULL && class->groups != NULL
               ? REDCO_OK
               : out_of_memory(work);
}

static redco_status class_of(struct work *work, const char *name, struct class **class_out)
{
    size_t at = 0;
    while (at < work->class_count && strcmp(work->classes[at].name, name) != 0) { at++; }
    *class_out = &work->classes[at];
    if (at < work->class_count) { return REDCO_OK; }
    if (at == CLASSES) { return redco_fail(work->err, REDCO_EVALUE, name, "is one class of GPU too many"); }
    work->class_count++;
    return class_new(work, name, *class_out);
}

static redco_status choose(struct work *work)
{
    const struct measured_files *const files = work->files;
    redco_status st = REDCO_OK;
    work->bases = calloc(files->count > 0 ? files->count : 1, sizeof *work->bases);
    if (work->bases == NULL) { return out_of_memory(work); }
    for (size_t i = 0; i < files->count && st == REDCO_OK; i++) {
        const redco_measured_run *const run = files->runs[i];
        struct class *class = NULL;
        if (!measured_has_speed(files, i) || run->experts == 0 || (run->use & REDCO_USE_HELD_OUT) != 0) { continue; }
        const redco_gpu *const gpu = &redco_evaluations_request(files->evaluations, i)->machine.gpu;
        st = redco_calibration_read(redco_evaluations_set(files->evaluations, i), NULL, &work->bases[i], work->err);
        if (st == REDCO_OK) { st = class_of(work, redco_expert_constants_set(gpu), &class); }
        if (st != REDCO_OK) { break; }
        class->rows[class->count] = i;
        class->measured[class->count++] = run->tokens_per_s_per_gpu;
    }
    if (st == REDCO_OK && work->class_count == 0) {
        st = redco_fail(work->err, REDCO_EVALUE, work->arguments->files[0],
                        "has no row of a mixture of experts with a throughput that could be fitted");
    }
    return st;
}

static redco_fit_options options_of(const struct work *work, const char *fixed)
{
    return (redco_fit_options){.noise_ratio = noise_ratio, .bases = work->bases, .fixed = fixed};
}

static redco_status prior_of(struct work *work, const struct class *class, redco_calibration *prior_out)
{
    char name[64];
    (void)snprintf(name, sizeof name, "prior-%s", class->name);
    *prior_out = work->bases[class->rows[0]];
    return redco_expert_constants_read(name, &prior_out->experts, work->err);
}

/* The value of a constant that does nothing. */
static double neutral(const redco_calibration *set, const char *key)
{
    static const char *const nothing[] = {"bias_traffic_ratio", "exchange_call_s", "overlap_hidden_ratio", "launch_s"};
    for (size_t i = 0; i < sizeof nothing / sizeof nothing[0]; i++) {
        if (strcmp(key, nothing[i]) == 0) { return 0.0; }
    }
    return strcmp(key, "grouped_k0") == 0 ? set->gemm_k0 : 1.0;
}

/* Groups of rows that are left out together. */
static void group(const struct work *work, struct class *class, enum calibrate_each each)
{
    for (size_t i = 0; i < class->count; i++) {
        const redco_measured_run *const a = work->files->runs[class->rows[i]];
        class->groups[i] = each == CALIBRATE_HALF ? class->rows[i] % 2 : i;
        for (size_t j = 0; j < i && each != CALIBRATE_HALF; j++) {
            const redco_measured_run *const b = work->files->runs[class->rows[j]];
            const bool same = each == CALIBRATE_UNSEEN ? strcmp(a->source, b->source) == 0
                                                       : a->hidden == b->hidden && a->experts == b->experts;
            if (!same) { continue; }
            class->groups[i] = class->groups[j];
            break;
        }
    }
}

/* Predictions of all classes by a fit, or by fits that did not see the group of a row. */
static redco_status predict_all(struct work *work, const enum calibrate_each *each, const char *without,
                                redco_calibration sets_out[CLASSES], redco_error_summary *summary_out)
{
    double *const measured = calloc(work->files->count, sizeof *measured);
    double *const predicted = calloc(work->files->count, sizeof *predicted);
    size_t count = 0;
    redco_status st = measured != NULL && predicted != NULL ? REDCO_OK : out_of_memory(work);
    for (size_t c = 0; c < work->class_count && st == REDCO_OK; c++) {
        struct class *const class = &work->classes[c];
        const redco_fit_options options = options_of(work, without);
        redco_calibration prior, set;
        if ((st = prior_of(work, class, &prior)) != REDCO_OK) { break; }
        if (without != NULL) { *redco_expert_constant(&prior.experts, without) = neutral(&prior, without); }
        set = prior;
        if (each == NULL) {
            st = redco_fit(work->files->evaluations, class->rows, class->measured, class->count, &prior, &options, &set,
                           work->err);
            for (size_t i = 0; i < class->count && st == REDCO_OK; i++) {
                redco_calibration whole = work->bases[class->rows[i]];
                whole.experts = set.experts;
                class->predicted[i] =
                    redco_evaluations_predict(work->files->evaluations, class->rows[i], &whole).tokens_per_s_per_gpu;
            }
        } else {
            group(work, class, *each);
            st = redco_fit_validate(work->files->evaluations, class->rows, class->measured, class->count, class->groups,
                                    &prior, &options, class->predicted, work->err);
        }
        sets_out[c] = set;
        for (size_t i = 0; i < class->count; i++) {
            if (!(class->predicted[i] > 0.0)) { continue; } /* its group is all there is */
            measured[count] = class->measured[i];
            predicted[count++] = class->predicted[i];
        }
    }
    if (st == REDCO_OK) { st = redco_error_summarise(measured, predicted, count, summary_out, work->err); }
    free(measured);
    free(predicted);
    return st;
}

static void add_line(struct table *table, json_t *lines, const char *name, const redco_error_summary *summary)
{
    table_row(table);
    table_cell(table, "%s", name);
    table_cell(table, "%zu", summary->count);
    table_cell(table, "%.2f %%", 100.0 * summary->mape_ratio);
    table_cell(table, "%.2f %%", 100.0 * summary->median_ape_ratio);
    (void)json_array_append_new(lines, json_pack("{s:s,s:I,s:f,s:f}", "name", name, "rows", (json_int_t)summary->count,
                                                 "mape", summary->mape_ratio, "median_ape", summary->median_ape_ratio));
}

static double mape_of(const struct class *class, struct work *work, double *out)
{
    redco_error_summary summary = {.count = 0};
    double *const measured = calloc(class->count, sizeof *measured), *const predicted =
                                                                         calloc(class->count, sizeof *predicted);
    size_t count = 0;
    for (size_t i = 0; i < class->count && measured != NULL && predicted != NULL; i++) {
        if (!(class->predicted[i] > 0.0)) { continue; }
        measured[count] = class->measured[i];
        predicted[count++] = class->predicted[i];
    }
    if (measured != NULL && predicted != NULL) {
        (void)redco_error_summarise(measured, predicted, count, &summary, work->err);
    }
    free(measured);
    free(predicted);
    *out = summary.mape_ratio;
    return *out;
}

static const char *name_of(const struct work *work, size_t row)
{
    const redco_measured_run *const run = work->files->runs[row];
    return work->arguments->each == CALIBRATE_UNSEEN ? run->source : run->model;
}

/* Errors of rows of one source, or of one model, in all classes. */
static redco_status add_groups(struct work *work, struct table *table, json_t *lines)
{
    double *const measured = calloc(work->files->count, sizeof *measured);
    double *const predicted = calloc(work->files->count, sizeof *predicted);
    redco_status st = measured != NULL && predicted != NULL ? REDCO_OK : out_of_memory(work);
    for (size_t row = 0; row < work->files->count && st == REDCO_OK; row++) {
        const char *const name = name_of(work, row);
        redco_error_summary summary = {.count = 0};
        size_t count = 0;
        bool seen = false;
        for (size_t i = 0; i < row && !seen; i++) { seen = strcmp(name_of(work, i), name) == 0; }
        for (size_t c = 0; c < work->class_count && !seen; c++) {
            const struct class *const class = &work->classes[c];
            for (size_t i = 0; i < class->count; i++) {
                if (!(class->predicted[i] > 0.0) || strcmp(name_of(work, class->rows[i]), name) != 0) { continue; }
                measured[count] = class->measured[i];
                predicted[count++] = class->predicted[i];
            }
        }
        if (count == 0) { continue; }
        st = redco_error_summarise(measured, predicted, count, &summary, work->err);
        if (st == REDCO_OK) { add_line(table, lines, name, &summary); }
    }
    free(measured);
    free(predicted);
    return st;
}

static redco_status write_sets(struct work *work, const redco_calibration *sets)
{
    redco_status st = REDCO_OK;
    for (size_t c = 0; c < work->class_count && st == REDCO_OK; c++) {
        char path[4096];
        size_t size = 0;
        const int length = snprintf(path, sizeof path, "%s/%s.json", work->arguments->output, work->classes[c].name);
        json_t *const json = redco_expert_constants_describe(&sets[c].experts);
        char *const text = json != NULL ? redco_json_text(json, DIGITS, &size) : NULL;
        if (length < 0 || (size_t)length >= sizeof path) {
            st = redco_fail(work->err, REDCO_EVALUE, work->arguments->output, "is too long a path");
        } else {
            st = text != NULL ? redco_file_write(path, text, size, work->err) : out_of_memory(work);
        }
        json_decref(json);
        free(text);
    }
    return st;
}

/* Distinct sources, for people. */
static void basis_of(const struct work *work, const struct class *class, char *text, size_t size)
{
    size_t used = (size_t)snprintf(text, size, "runs of");
    bool any = false;
    for (size_t i = 0; i < class->count && used + 1 < size; i++) {
        bool seen = false;
        const char *const source = work->files->runs[class->rows[i]]->source;
        for (size_t j = 0; j < i && !seen; j++) {
            seen = strcmp(source, work->files->runs[class->rows[j]]->source) == 0;
        }
        if (!seen) { used += (size_t)snprintf(text + used, size - used, "%s %s", any ? "," : "", source); }
        any = true;
    }
}

/* All judgements of the sets that are shipped. */
static redco_status fit_sets(struct work *work, struct table *table, json_t *lines)
{
    static const struct {
        enum calibrate_each each;
        const char *name;
    } kinds[KINDS] = {{CALIBRATE_HALF, "other half of the rows"},
                      {CALIBRATE_UNSEEN, "source left out"},
                      {CALIBRATE_MODELS, "model left out"}};
    redco_calibration sets[CLASSES], unused[CLASSES];
    redco_error_summary summary = {.count = 0};
    redco_status st = predict_all(work, NULL, NULL, sets, &summary);
    if (st != REDCO_OK) { return st; }
    add_line(table, lines, "in sample", &summary);
    for (size_t k = 0; k < KINDS; k++) {
        if ((st = predict_all(work, &kinds[k].each, NULL, unused, &summary)) != REDCO_OK) { return st; }
        add_line(table, lines, kinds[k].name, &summary);
        for (size_t c = 0; c < work->class_count; c++) {
            double mape = 0.0;
            (void)mape_of(&work->classes[c], work, &mape);
            if (k == 0) { sets[c].experts.cross_validated_ratio = mape; }
            if (k == 1) { sets[c].experts.left_out_ratio = mape; }
        }
    }
    for (size_t c = 0; c < work->class_count; c++) {
        redco_expert_constants *const experts = &sets[c].experts;
        (void)snprintf(experts->name, sizeof experts->name, "%s", work->classes[c].name);
        basis_of(work, &work->classes[c], experts->basis, sizeof experts->basis);
        (void)json_array_append_new(lines, redco_expert_constants_describe(experts));
    }
    return work->arguments->output != NULL ? write_sets(work, sets) : REDCO_OK;
}

static redco_status without(struct work *work, struct table *table, json_t *lines)
{
    const char *const wanted = work->arguments->without;
    redco_calibration unused[CLASSES];
    redco_error_summary summary = {.count = 0};
    const bool all = strcmp(wanted, "all") == 0;
    redco_expert_constants probe;
    if (!all && redco_expert_constant(&probe, wanted) == NULL) {
        return redco_fail(work->err, REDCO_EVALUE, "--without", "\"%.40s\" is no constant of mixtures", wanted);
    }
    redco_status st = predict_all(work, NULL, NULL, unused, &summary);
    if (st == REDCO_OK) { add_line(table, lines, "with all", &summary); }
    for (size_t i = 0; redco_expert_constant_key(i) != NULL && st == REDCO_OK; i++) {
        const char *const key = redco_expert_constant_key(i);
        if (!all && strcmp(key, wanted) != 0) { continue; }
        if ((st = predict_all(work, NULL, key, unused, &summary)) == REDCO_OK) {
            add_line(table, lines, key, &summary);
        }
    }
    return st;
}

/* The band of mixtures: each source predicted by the others. Dense sets stay, so other parts are the dense models'. */
static redco_status fit_bands(struct work *work, struct table *table, json_t **document_out)
{
    static const enum calibrate_each each = CALIBRATE_UNSEEN;
    static const redco_bands none;
    const struct measured_files *const files = work->files;
    redco_bands bands = none;
    redco_calibration unused[CLASSES];
    redco_error_summary summary;
    redco_left_groups groups = {.count = 0};
    double *const log_ratio = calloc(files->count + 1, sizeof *log_ratio);
    bool *const usable = calloc(files->count + 1, sizeof *usable), *const out = calloc(files->count + 1, sizeof *out);
    const redco_band_rows rows = {
        .evaluations = files->evaluations, .runs = files->runs, .count = files->count, .usable = usable};
    redco_status st = log_ratio != NULL && usable != NULL && out != NULL ? REDCO_OK : out_of_memory(work);
    if (st == REDCO_OK) { st = redco_bands_read("dense", &bands, work->err); }
    if (st == REDCO_OK) { st = predict_all(work, &each, NULL, unused, &summary); }
    for (size_t c = 0; c < work->class_count && st == REDCO_OK; c++) {
        const struct class *const class = &work->classes[c];
        for (size_t i = 0; i < class->count; i++) {
            const redco_band_question run = redco_band_row(&rows, class->rows[i]);
            redco_bands_note(&bands, &run, redco_band_mfu(&rows, class->rows[i]));
            usable[class->rows[i]] = class->predicted[i] > 0.0;
            if (usable[class->rows[i]]) { log_ratio[class->rows[i]] = log(class->measured[i] / class->predicted[i]); }
        }
    }
    if (st == REDCO_OK) {
        st = redco_left_groups_create(files->evaluations, files->runs, files->count, usable, REDCO_LEAVE_SOURCE,
                                      &groups, work->err);
    }
    if (st == REDCO_OK) {
        redco_band *const band = &bands.parts[REDCO_BAND_SOURCE].band;
        bands.parts[REDCO_BAND_SOURCE].groups =
            (uint32_t)redco_band_of_errors(&groups, out, log_ratio, band, work->err);
        bands.parts[REDCO_BAND_SOURCE].rows = (uint32_t)summary.count;
        table_row(table);
        table_cell(table, "bands: 68 %% %+.1f to %+.1f %%, 90 %% %+.1f to %+.1f %%", 100.0 * (band->low_68 - 1.0),
                   100.0 * (band->high_68 - 1.0), 100.0 * (band->low_90 - 1.0), 100.0 * (band->high_90 - 1.0));
        *document_out = redco_bands_describe(&bands, "runs of mixtures, each source predicted by the others; what is "
                                                     "never seen besides widens it as it does those of dense models");
        if (*document_out == NULL) { st = out_of_memory(work); }
    }
    redco_left_groups_free(&groups);
    free(log_ratio);
    free(usable);
    free(out);
    return st;
}

redco_status calibrate_experts(const struct calibrate_arguments *arguments, const struct measured_files *files,
                               struct table *table, json_t *lines, json_t **document_out, redco_error *err)
{
    struct work work = {.arguments = arguments, .files = files, .err = err};
    redco_error_summary summary = {.count = 0};
    redco_calibration unused[CLASSES];
    static const char *const titles[] = {"", "rows", "MAPE", "median"};
    redco_status st = choose(&work);
    table_row(table);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) { table_cell(table, "%s", titles[i]); }
    if (st == REDCO_OK && arguments->bands) {
        st = fit_bands(&work, table, document_out);
    } else if (st == REDCO_OK && arguments->without != NULL) {
        st = without(&work, table, lines);
    } else if (st == REDCO_OK && arguments->each != CALIBRATE_ONE) {
        st = predict_all(&work, &arguments->each, NULL, unused, &summary);
        if (st == REDCO_OK) {
            add_line(table, lines,
                     arguments->each == CALIBRATE_HALF     ? "other half of the rows"
                     : arguments->each == CALIBRATE_UNSEEN ? "source left out"
                                                           : "model left out",
                     &summary);
        }
        if (st == REDCO_OK && arguments->each != CALIBRATE_HALF) { st = add_groups(&work, table, lines); }
    } else if (st == REDCO_OK) {
        st = fit_sets(&work, table, lines);
    }
    work_free(&work);
    return st;
}
