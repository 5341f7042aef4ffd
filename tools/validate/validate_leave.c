/* redco-validate --leave: measured runs by constants, and bands, that were fitted without them. */
#include "costmodel/evaluation/fit_bands.h"
#include "tools/cli/measured_files.h"
#include "tools/cli/text_table.h"
#include "tools/validate/validate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Groups of fewer rows stand in the table, and not in its means. */
enum { LEAST_ROWS = 8 };

/* One row that was left out. */
struct row {
    bool counts;
    double predicted, ratio; /* tokens/s; measured over predicted */
    redco_band band;
};

/* One group, or the mean over groups, whose equal configurations count once. */
struct score {
    size_t rows, groups;
    double mape, inside_68, inside_90, half_68, half_90, score_68, score_90;
    double median_inside; /* share of groups whose median error lies inside the 68 % band */
};

struct report {
    const struct validate_arguments *arguments;
    redco_error *err;
    struct measured_files files;
    bool *usable, *out;
    redco_band_rows rows;
    redco_left_groups groups;
    struct row *row;
    struct score *score; /* one for each group */
    struct score mean;
    double median_mape, median_half_68, best_half_68, best_score_68, best_half_90, best_score_90;
    struct table *table;
    json_t *json;
};

static redco_status out_of_memory(struct report *report)
{
    return redco_fail(report->err, REDCO_ENOMEM, "", "out of memory");
}

/* Constants and bands without the group. */
static redco_status predict_group(struct report *report, size_t group)
{
    const size_t count = report->files.count;
    unsigned parts = 0;
    redco_bands bands, *const seen = calloc(1, sizeof *seen);
    redco_status st = REDCO_OK;
    if (seen == NULL) { return out_of_memory(report); }
    memset(report->out, 0, count * sizeof *report->out);
    redco_left_groups_mark(&report->groups, group, report->out);
    redco_band_note_rows(&report->rows, report->out, seen);
    for (size_t i = 0; i < count; i++) {
        report->row[i].counts =
            report->row[i].counts || (report->groups.group[i] == group && report->groups.weight[i] > 0.0);
        if (report->groups.group[i] == group && report->row[i].counts) {
            const redco_band_question asked = redco_band_row(&report->rows, i);
            parts |= redco_bands_unseen(seen, &asked);
        }
    }
    free(seen);
    st = redco_bands_fit(&report->rows, report->out, parts, &bands, report->err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        struct row *const row = &report->row[i];
        if (report->groups.group[i] != group || !row->counts) { continue; }
        st = redco_leave_out_predict(report->rows.leave, i, report->out, &row->predicted, report->err);
        row->ratio = report->files.runs[i]->tokens_per_s_per_gpu / row->predicted;
        const redco_band_question asked = redco_band_row(&report->rows, i);
        row->band = redco_bands_at(&bands, redco_bands_unseen(&bands, &asked));
    }
    return st;
}

/* Gneiting and Raftery, J. Am. Stat. Assoc. 102(477), 2007, equation 43: the width, and what lies outside, dear. */
static double interval_score(double low, double high, double share, double value)
{
    const double dear = 2.0 / (1.0 - share);
    return high - low + dear * fmax(0.0, low - value) + dear * fmax(0.0, value - high);
}

static int ascending(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(double *values, size_t count)
{
    if (count == 0) { return 0.0; }
    qsort(values, count, sizeof *values, ascending);
    return 0.5 * (values[(count - 1) / 2] + values[count / 2]);
}

static redco_status score_group(struct report *report, size_t group)
{
    struct score *const s = &report->score[group];
    double weight = 0.0, low = 0.0, high = 0.0;
    double *const ratios = calloc(report->files.count + 1, sizeof *ratios);
    if (ratios == NULL) { return out_of_memory(report); }
    for (size_t i = 0; i < report->files.count; i++) {
        const struct row *const row = &report->row[i];
        const redco_band *const band = &row->band;
        const double w = report->groups.weight[i], ratio = row->ratio;
        if (report->groups.group[i] != group || !row->counts) { continue; }
        ratios[s->rows++] = ratio;
        weight += w;
        s->mape += w * fabs(1.0 / ratio - 1.0);
        s->inside_68 += ratio >= band->low_68 && ratio <= band->high_68 ? w : 0.0;
        s->inside_90 += ratio >= band->low_90 && ratio <= band->high_90 ? w : 0.0;
        s->half_68 += w * redco_band_half_ratio(band);
        s->half_90 += w * 0.5 * (band->high_90 - band->low_90);
        s->score_68 += w * interval_score(band->low_68, band->high_68, 0.68, ratio);
        s->score_90 += w * interval_score(band->low_90, band->high_90, 0.90, ratio);
        low += w * band->low_68;
        high += w * band->high_68;
    }
    if (s->rows > 0) {
        const double median = median_of(ratios, s->rows);
        double *const sums[] = {&s->mape,    &s->inside_68, &s->inside_90, &s->half_68,
                                &s->half_90, &s->score_68,  &s->score_90};
        for (size_t i = 0; i < sizeof sums / sizeof sums[0]; i++) { *sums[i] /= weight; }
        s->groups = 1;
        s->median_inside = median >= low / weight && median <= high / weight ? 1.0 : 0.0;
    }
    free(ratios);
    return REDCO_OK;
}

/* The mean interval score, each group as heavy as another, of one relative half-width for all. */
static double single_score(const struct report *report, double half, double share)
{
    double sum = 0.0;
    size_t groups = 0;
    for (size_t g = 0; g < report->groups.groups; g++) {
        double score = 0.0, weight = 0.0;
        if (report->score[g].rows < LEAST_ROWS) { continue; }
        for (size_t i = 0; i < report->files.count; i++) {
            if (report->groups.group[i] != g || !report->row[i].counts) { continue; }
            weight += report->groups.weight[i];
            score += report->groups.weight[i] * interval_score(1.0 - half, 1.0 + half, share, report->row[i].ratio);
        }
        sum += score / weight;
        groups++;
    }
    return groups > 0 ? sum / (double)groups : 0.0;
}

static double best_single(const struct report *report, double share, double *score_out)
{
    static const double step = 0.001, most = 0.99;
    double best = step;
    *score_out = single_score(report, best, share);
    for (double half = step; half <= most; half += step) {
        const double score = single_score(report, half, share);
        if (score < *score_out) {
            *score_out = score;
            best = half;
        }
    }
    return best;
}

/* Means over groups of eight rows and more. */
static redco_status score_all(struct report *report)
{
    struct score *const m = &report->mean;
    double *const mapes = calloc(2 * report->groups.groups + 1, sizeof *mapes);
    if (mapes == NULL) { return out_of_memory(report); }
    double *const halves = mapes + report->groups.groups;
    for (size_t g = 0; g < report->groups.groups; g++) {
        const struct score *const s = &report->score[g];
        if (s->rows < LEAST_ROWS) { continue; }
        mapes[m->groups] = s->mape;
        halves[m->groups++] = s->half_68;
        m->rows += s->rows;
        m->mape += s->mape;
        m->inside_68 += s->inside_68;
        m->inside_90 += s->inside_90;
        m->half_68 += s->half_68;
        m->half_90 += s->half_90;
        m->score_68 += s->score_68;
        m->score_90 += s->score_90;
        m->median_inside += s->median_inside;
    }
    double *const sums[] = {&m->mape,    &m->inside_68, &m->inside_90, &m->half_68,
                            &m->half_90, &m->score_68,  &m->score_90,  &m->median_inside};
    for (size_t i = 0; i < sizeof sums / sizeof sums[0] && m->groups > 0; i++) { *sums[i] /= (double)m->groups; }
    report->median_mape = median_of(mapes, m->groups);
    report->median_half_68 = median_of(halves, m->groups);
    report->best_half_68 = best_single(report, 0.68, &report->best_score_68);
    report->best_half_90 = best_single(report, 0.90, &report->best_score_90);
    free(mapes);
    return REDCO_OK;
}

static void print_line(struct table *table, const char *name, const struct score *s)
{
    table_row(table);
    table_cell(table, "%s", name);
    table_cell(table, "%zu", s->rows);
    table_cell(table, "%.1f %%", 100.0 * s->mape);
    table_cell(table, "%.0f %%", 100.0 * s->inside_68);
    table_cell(table, "%.0f %%", 100.0 * s->inside_90);
    table_cell(table, "%.1f %%", 100.0 * s->half_68);
    table_cell(table, "%.1f %%", 100.0 * s->half_90);
}

static json_t *score_json(const char *name, const struct score *s)
{
    return json_pack("{s:s,s:I,s:f,s:f,s:f,s:f,s:f,s:f,s:f}", "group", name, "rows", (json_int_t)s->rows, "mape",
                     s->mape, "inside_68", s->inside_68, "inside_90", s->inside_90, "half_width_68", s->half_68,
                     "half_width_90", s->half_90, "interval_score_68", s->score_68, "interval_score_90", s->score_90);
}

static json_t *row_json(const struct report *report, size_t i)
{
    const redco_measured_run *const run = report->files.runs[i];
    const struct row *const row = &report->row[i];
    const double p = row->predicted;
    return json_pack("{s:s,s:s,s:s,s:f,s:f,s:f,s:f,s:[f,f],s:[f,f]}", "source", run->source, "location", run->location,
                     "group", report->groups.names[report->groups.group[i]], "weight", report->groups.weight[i],
                     "measured_tgs", run->tokens_per_s_per_gpu, "predicted_tgs", p, "error", 1.0 / row->ratio - 1.0,
                     "band_68", p * row->band.low_68, p * row->band.high_68, "band_90", p * row->band.low_90,
                     p * row->band.high_90);
}

static redco_status fill(struct report *report)
{
    static const char *const titles[] = {"left out",        "rows", "MAPE", "in 68 % band", "in 90 %",
                                         "half-width 68 %", "90 %"};
    json_t *const rows = json_array(), *const groups = json_array();
    table_row(report->table);
    for (size_t i = 0; i < sizeof titles / sizeof titles[0]; i++) { table_cell(report->table, "%s", titles[i]); }
    for (size_t g = 0; g < report->groups.groups; g++) {
        if (report->score[g].rows == 0) { continue; }
        print_line(report->table, report->groups.names[g], &report->score[g]);
        (void)json_array_append_new(groups, score_json(report->groups.names[g], &report->score[g]));
    }
    for (size_t i = 0; i < report->files.count; i++) {
        if (report->row[i].counts) { (void)json_array_append_new(rows, row_json(report, i)); }
    }
    print_line(report->table, "mean of those with 8 rows and more", &report->mean);
    json_t *const all = score_json("mean", &report->mean);
    (void)json_object_set_new(all, "groups", json_integer((json_int_t)report->mean.groups));
    (void)json_object_set_new(all, "median_mape", json_real(report->median_mape));
    (void)json_object_set_new(all, "median_half_width_68", json_real(report->median_half_68));
    (void)json_object_set_new(all, "medians_inside_68", json_real(report->mean.median_inside));
    (void)json_object_set_new(all, "best_single_score_68", json_real(report->best_score_68));
    (void)json_object_set_new(all, "best_single_score_90", json_real(report->best_score_90));
    report->json = json_pack("{s:s,s:i,s:s,s:o,s:o,s:o}", "format", "redco-validate-leave", "version", 1, "left",
                             redco_leave_words[report->arguments->leave], "rows", rows, "groups", groups, "all", all);
    return report->json != NULL ? REDCO_OK : out_of_memory(report);
}

static redco_status run(struct report *report)
{
    const struct validate_arguments *const a = report->arguments;
    redco_status st = measured_files_read(a->files, a->file_count, &report->files, report->err);
    const size_t count = report->files.count;
    if (st != REDCO_OK) { return st; }
    report->usable = calloc(count + 1, sizeof *report->usable);
    report->out = calloc(count + 1, sizeof *report->out);
    report->row = calloc(count + 1, sizeof *report->row);
    report->table = table_new("lrrrrrr");
    if (report->usable == NULL || report->out == NULL || report->row == NULL || report->table == NULL) {
        return out_of_memory(report);
    }
    for (size_t i = 0; i < count; i++) { report->usable[i] = measured_may_fit(&report->files, i); }
    report->rows = (redco_band_rows){
        .evaluations = report->files.evaluations, .runs = report->files.runs, .count = count, .usable = report->usable};
    redco_leave_out *leave = NULL;
    redco_left_groups groups = {.names = NULL};
    st = redco_leave_out_create(report->files.evaluations, report->files.runs, count, report->usable, &leave,
                                report->err);
    report->rows.leave = leave;
    if (st == REDCO_OK) {
        st = redco_left_groups_create(report->files.evaluations, report->files.runs, count, report->usable,
                                      (redco_leave)a->leave, &groups, report->err);
        report->groups = groups;
    }
    if (st != REDCO_OK) { return st; }
    report->score = calloc(report->groups.groups + 1, sizeof *report->score);
    if (report->score == NULL) { return out_of_memory(report); }
    for (size_t g = 0; g < report->groups.groups && st == REDCO_OK; g++) {
        st = predict_group(report, g);
        if (st == REDCO_OK) { st = score_group(report, g); }
    }
    if (st == REDCO_OK) { st = score_all(report); }
    return st == REDCO_OK ? fill(report) : st;
}

static void print_report(const void *shown)
{
    const struct report *const r = shown;
    (void)table_print(r->table, "", stdout);
    (void)printf("\n%zu groups of %d rows and more: median MAPE %.1f %%, median half-width of the 68 %% band %.1f %%; "
                 "%.0f %% of their median errors lie in it\n",
                 r->mean.groups, LEAST_ROWS, 100.0 * r->median_mape, 100.0 * r->median_half_68,
                 100.0 * r->mean.median_inside);
    (void)printf(
        "interval score of the 68 %% band %.3f, of the best single half-width (%.1f %%) %.3f; of the 90 %% band "
        "%.3f, %.3f (%.1f %%)\n",
        r->mean.score_68, 100.0 * r->best_half_68, r->best_score_68, r->mean.score_90, r->best_score_90,
        100.0 * r->best_half_90);
}

int validate_leave(const struct validate_arguments *arguments)
{
    redco_error err = {.status = REDCO_OK};
    struct report report = {.arguments = arguments, .err = &err};
    const redco_status st = run(&report);
    const struct validate_outcome outcome = {.json = report.json, .print = print_report, .report = &report};
    const int code = st == REDCO_OK ? validate_finish(arguments, &outcome) : cli_fail(&arguments->cli, &err);
    json_decref(report.json);
    table_free(report.table);
    redco_left_groups_free(&report.groups);
    redco_leave_out_free(report.rows.leave);
    free(report.score);
    free(report.row);
    free(report.out);
    free(report.usable);
    measured_files_free(&report.files);
    return code;
}
