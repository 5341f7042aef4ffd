/* Published runs: prediction over measurement, and the gain of redco's advice. */
#include "tools/plot/plot.h"

#include <math.h>

enum { MOST_RUNS = 400, RUN_PIXELS = 15, MARGIN_PIXELS = 90 };
/* Advice in place of a layout that redco finds far too slow leaves the picture. */
static const double most_gain = 1.0;

struct run {
    const char *model;
    uint64_t gpus;
    double ratio, gain; /* NaN: not known */
    bool fits;
};

/* @param run_out  model NULL: the row was skipped */
static redco_status read_run(const redco_json_value *row, struct run *run_out, redco_error *err)
{
    struct run run = {.ratio = (double)NAN, .gain = (double)NAN};
    *run_out = run;
    if (redco_json_has(row, "skipped")) { return REDCO_OK; }
    redco_status st = redco_json_string(row, "model", &run.model, err);
    if (st == REDCO_OK) { st = redco_json_u64(row, "gpus", 1, UINT32_MAX, &run.gpus, err); }
    if (st == REDCO_OK) { st = redco_json_bool(row, "fits", &run.fits, err); }
    if (st == REDCO_OK && redco_json_has(row, "error")) {
        if ((st = redco_json_number(row, "error", -1.0, 1e6, &run.ratio, err)) == REDCO_OK) { run.ratio += 1.0; }
    }
    if (st == REDCO_OK && redco_json_has(row, "gain")) {
        st = redco_json_number(row, "gain", -1.0, 1e6, &run.gain, err);
    }
    if (st == REDCO_OK) { *run_out = run; }
    return st;
}

static void write_number(FILE *out, double value)
{
    if (isnan(value)) {
        (void)fputs("\tNaN", out);
    } else {
        (void)fprintf(out, "\t%.6g", value);
    }
}

static void write_runs(FILE *out, const struct run *runs, size_t count)
{
    (void)fputs("$runs << EOD\n", out);
    for (size_t i = 0; i < count; i++) {
        (void)fprintf(out, "%zu", i + 1);
        write_number(out, runs[i].ratio);
        write_number(out, 100.0 * (runs[i].gain > most_gain ? most_gain : runs[i].gain));
        (void)fprintf(out, "\t%d\n", runs[i].fits ? 1 : 0);
    }
    (void)fprintf(out, "EOD\nrows = %zu\narray label[%zu]\n", count, count);
    for (size_t i = 0; i < count; i++) {
        char text[120];
        (void)snprintf(text, sizeof text, "%.60s, %llu GPUs", runs[i].model, (unsigned long long)runs[i].gpus);
        (void)fprintf(out, "label[%zu] = ", i + 1);
        plot_tic(out, text);
        (void)fputc('\n', out);
    }
}

/* The range that both axes must show. */
static void write_ranges(FILE *out, const struct run *runs, size_t count)
{
    double least = 0.8, most = 1.2, least_gain = 0.0, most_seen = 0.1;
    for (size_t i = 0; i < count; i++) {
        least = fmin(least, runs[i].ratio); /* NaN is never the smaller */
        most = fmax(most, runs[i].ratio);
        least_gain = fmin(least_gain, runs[i].gain);
        most_seen = fmax(most_seen, runs[i].gain);
    }
    (void)fprintf(out, "least = %.6g\nmost = %.6g\nleast_gain = %.6g\nmost_gain = %.6g\n", least - 0.05, most + 0.05,
                  100.0 * least_gain - 2.0, 100.0 * fmin(most_seen, most_gain) + 3.0);
}

redco_status plot_famous(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err)
{
    struct run runs[MOST_RUNS];
    redco_json_value rows;
    size_t row_count = 0, count = 0;
    redco_status st = redco_json_array(root, "rows", &rows, &row_count, err);
    for (size_t i = 0; i < row_count && st == REDCO_OK; i++) {
        redco_json_value row;
        struct run run;
        if ((st = redco_json_element(&rows, i, &row, err)) != REDCO_OK ||
            (st = read_run(&row, &run, err)) != REDCO_OK || run.model == NULL) {
            continue;
        }
        if (count == MOST_RUNS) {
            return redco_json_fail(root, "rows", err, "holds more than %d runs to draw", MOST_RUNS);
        }
        runs[count++] = run;
    }
    if (st != REDCO_OK) { return st; }
    if (count == 0) { return redco_json_fail(root, "rows", err, "holds no run, so there is nothing to draw"); }
    plot_title(sheet, "Published training runs: prediction, and redco's advice");
    sheet->script = "famous";
    sheet->width = 1000;
    sheet->height = MARGIN_PIXELS + RUN_PIXELS * (unsigned)count;
    (void)fprintf(sheet->text, "width = %u\nheight = %u\n", sheet->width, sheet->height);
    write_ranges(sheet->text, runs, count);
    write_runs(sheet->text, runs, count);
    return REDCO_OK;
}
