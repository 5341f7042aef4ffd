/* Predictions against measurements: training runs as a scatter, collectives as bandwidth over size. */
#include "tools/plot/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_SOURCES = 16, MOST_ROWS = 1000000, MOST_CURVES = 8, MOST_SIZES = 4096, MANY_ROWS = 200 };
static const double most_rate = 1e15;

struct figures {
    const char *name;
    uint64_t rows;
    double ratios[3]; /* below 0: not known */
};

static redco_status read_figures(const redco_json_value *entry, struct figures *out, redco_error *err)
{
    static const char *const keys[3] = {"mape", "median_ape", "p90_ape"};
    redco_status st = redco_json_u64(entry, "rows", 0, MOST_ROWS, &out->rows, err);
    for (size_t i = 0; i < 3 && st == REDCO_OK; i++) {
        out->ratios[i] = -1.0;
        if (redco_json_has(entry, keys[i])) { st = redco_json_number(entry, keys[i], 0.0, 1e6, &out->ratios[i], err); }
    }
    return st;
}

/* "amsp (19): 4.4 / 3.1 / 8.8 %": what these are stands above the first. */
static void write_figures(FILE *out, const struct figures *figures)
{
    char text[200];
    int used = snprintf(text, sizeof text, "%.32s (%llu):", figures->name, (unsigned long long)figures->rows);
    for (size_t i = 0; i < 3; i++) {
        const char *slash = i > 0 ? " /" : "";
        if (figures->ratios[i] < 0.0) {
            used += snprintf(text + used, sizeof text - (size_t)used, "%s -", slash);
        } else {
            used += snprintf(text + used, sizeof text - (size_t)used, "%s %.1f", slash, 100.0 * figures->ratios[i]);
        }
    }
    (void)snprintf(text + used, sizeof text - (size_t)used, " %%");
    plot_quote(out, text);
    (void)fprintf(out, "\n");
}

struct dot {
    double measured, predicted;
};

/* One mark of the picture: 2 % along, 1 % across. */
static int by_place(const void *left, const void *right)
{
    const struct dot *a = left;
    const struct dot *b = right;
    const double along[2] = {floor(log(a->measured) / 0.02), floor(log(b->measured) / 0.02)};
    const double across[2] = {floor(100.0 * a->predicted / a->measured), floor(100.0 * b->predicted / b->measured)};
    if (along[0] < along[1] || along[0] > along[1]) { return along[0] < along[1] ? -1 : 1; }
    return across[0] < across[1] ? -1 : across[0] > across[1];
}

/* Points of one source, those that would hide one another once. */
static void write_dots(FILE *out, struct dot *dots, size_t count)
{
    qsort(dots, count, sizeof *dots, by_place);
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && by_place(&dots[i - 1], &dots[i]) == 0) { continue; }
        (void)fprintf(out, "%.6g\t%.6g\n", dots[i].measured, dots[i].predicted);
    }
}

/* Rows of one source that were compared. @param dots  room for @p row_count */
static redco_status read_rows(const redco_json_value *rows, size_t row_count, const char *source, struct dot *dots,
                              size_t *count_out, redco_error *err)
{
    redco_status st = REDCO_OK;
    *count_out = 0;
    for (size_t i = 0; i < row_count && st == REDCO_OK; i++) {
        redco_json_value row;
        const char *own = NULL;
        double measured = 0.0;
        double predicted = 0.0;
        if ((st = redco_json_element(rows, i, &row, err)) != REDCO_OK ||
            (st = redco_json_string(&row, "source", &own, err)) != REDCO_OK) {
            break;
        }
        if (strcmp(own, source) != 0 || redco_json_has(&row, "skipped") || !redco_json_has(&row, "predicted_tgs") ||
            !redco_json_has(&row, "measured_tgs") || !redco_json_has(&row, "error")) {
            continue;
        }
        if ((st = redco_json_number(&row, "measured_tgs", 0.0, most_rate, &measured, err)) != REDCO_OK ||
            (st = redco_json_number(&row, "predicted_tgs", 0.0, most_rate, &predicted, err)) != REDCO_OK) {
            break;
        }
        if (measured <= 0.0 || predicted <= 0.0) { continue; }
        dots[(*count_out)++] = (struct dot){measured, predicted};
    }
    return st;
}

/* Sources of many runs first, so that they do not hide the others. */
static int by_rows(const void *left, const void *right)
{
    const struct figures *a = left;
    const struct figures *b = right;
    if (a->rows != b->rows) { return a->rows > b->rows ? -1 : 1; }
    return strcmp(a->name, b->name);
}

/* @param list_out  room for MOST_SOURCES */
static redco_status read_sources(const redco_json_value *root, struct figures *list_out, size_t *count_out,
                                 redco_error *err)
{
    redco_json_value sources;
    size_t count = 0;
    redco_status st = redco_json_array(root, "sources", &sources, &count, err);
    *count_out = 0;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value entry;
        struct figures figures = {0};
        if ((st = redco_json_element(&sources, i, &entry, err)) != REDCO_OK ||
            (st = redco_json_string(&entry, "source", &figures.name, err)) != REDCO_OK ||
            (st = read_figures(&entry, &figures, err)) != REDCO_OK || figures.rows == 0) {
            continue;
        }
        if (*count_out == MOST_SOURCES) {
            return redco_json_fail(root, "sources", err, "holds more than %d sources with runs to draw", MOST_SOURCES);
        }
        list_out[(*count_out)++] = figures;
    }
    qsort(list_out, *count_out, sizeof *list_out, by_rows);
    return st;
}

/* The points of all sources as data sets, and their lines of the legend. */
static redco_status write_sources(const redco_json_value *root, struct plot_sheet *sheet, size_t *shown_out,
                                  redco_error *err)
{
    FILE *out = sheet->text;
    struct figures list[MOST_SOURCES];
    redco_json_value rows;
    size_t row_count = 0;
    size_t source_count = 0;
    redco_status st = redco_json_array(root, "rows", &rows, &row_count, err);
    if (st == REDCO_OK) { st = read_sources(root, list, &source_count, err); }
    if (st != REDCO_OK) { return st; }
    if (row_count > MOST_ROWS) {
        return redco_json_fail(root, "rows", err, "holds %zu rows: at most %d can be drawn", row_count, MOST_ROWS);
    }
    struct dot *dots = calloc(row_count + 1, sizeof *dots);
    if (dots == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    (void)fprintf(out, "$points << EOD\n");
    *shown_out = 0;
    for (size_t i = 0; i < source_count && st == REDCO_OK; i++) {
        size_t count = 0;
        st = read_rows(&rows, row_count, list[i].name, dots, &count, err);
        if (st != REDCO_OK || count == 0) { continue; }
        write_dots(out, dots, count);
        (void)fprintf(out, "\n\n");
        list[(*shown_out)++] = list[i];
    }
    free(dots);
    (void)fprintf(out, "EOD\nsources = %zu\narray source[sources + 1]\narray many[sources + 1]\n", *shown_out);
    for (size_t i = 0; i < *shown_out; i++) {
        (void)fprintf(out, "many[%zu] = %d; source[%zu] = ", i + 1, list[i].rows > MANY_ROWS, i + 1);
        write_figures(out, &list[i]);
    }
    return st;
}

redco_status plot_scatter(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err)
{
    size_t shown = 0;
    struct figures figures = {.name = "all"};
    redco_json_value all;
    redco_status st = write_sources(root, sheet, &shown, err);
    if (st != REDCO_OK) { return st; }
    if (shown == 0) {
        return redco_json_fail(root, "rows", err, "holds no run that was compared, so there is nothing to draw");
    }
    if (redco_json_has(root, "all")) {
        st = redco_json_object(root, "all", &all, err);
        if (st == REDCO_OK) { st = read_figures(&all, &figures, err); }
    }
    plot_title(sheet, "Predicted against measured throughput");
    (void)fprintf(sheet->text, "overall = ");
    if (figures.rows > 0) {
        write_figures(sheet->text, &figures);
    } else {
        (void)fprintf(sheet->text, "''\n");
    }
    sheet->script = "predicted-vs-measured";
    sheet->width = 1100;
    sheet->height = 640 + (shown > 10 ? 22 * (unsigned)(shown - 10) : 0); /* lines of the legend */
    (void)fprintf(sheet->text, "width = %u\nheight = %u\n", sheet->width, sheet->height);
    return st;
}

/* "all_reduce, 8 x 2 H100-SXM": GPUs of a node times nodes. */
static redco_status curve_name(const redco_json_value *run, char *buffer, size_t size, redco_error *err)
{
    const char *collective = NULL;
    const char *gpu = NULL;
    uint64_t gpus = 0;
    uint64_t nodes = 0;
    redco_status st = redco_json_string(run, "collective", &collective, err);
    if (st == REDCO_OK) { st = redco_json_string(run, "gpu", &gpu, err); }
    if (st == REDCO_OK) { st = redco_json_u64(run, "gpus_per_node", 1, 1U << 24, &gpus, err); }
    if (st == REDCO_OK) { st = redco_json_u64(run, "nodes", 1, 1U << 24, &nodes, err); }
    if (st == REDCO_OK) {
        (void)snprintf(buffer, size, "%.40s, %llu\xc3\x97%llu %.40s", collective, (unsigned long long)gpus,
                       (unsigned long long)nodes, gpu);
    }
    return st;
}

static redco_status write_curve(FILE *out, const redco_json_value *run, size_t *count_out, redco_error *err)
{
    redco_json_value points;
    size_t count = 0;
    double factor = 1.0;
    redco_status st = redco_json_array(run, "points", &points, &count, err);
    if (st == REDCO_OK) { st = redco_json_number(run, "bus_factor", 0.0, 1e9, &factor, err); }
    if (st == REDCO_OK && count > MOST_SIZES) {
        st = redco_json_fail(run, "points", err, "holds %zu sizes: at most %d can be drawn", count, MOST_SIZES);
    }
    *count_out = 0;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value point;
        double size = 0.0;
        double measured_s = 0.0;
        double model_s = 0.0;
        if ((st = redco_json_element(&points, i, &point, err)) != REDCO_OK ||
            (st = redco_json_number(&point, "size_bytes", 0.0, 1e18, &size, err)) != REDCO_OK ||
            (st = redco_json_number(&point, "measured_s", 0.0, 1e9, &measured_s, err)) != REDCO_OK ||
            (st = redco_json_number(&point, "model_s", 0.0, 1e9, &model_s, err)) != REDCO_OK) {
            break;
        }
        if (size <= 0.0 || measured_s <= 0.0 || model_s <= 0.0 || factor <= 0.0) { continue; }
        (void)fprintf(out, "%.6g\t%.5g\t%.5g\n", size, factor * size / measured_s * 1e-9,
                      factor * size / model_s * 1e-9);
        (*count_out)++;
    }
    return st;
}

/* All curves of one document that are not repeated numbers. */
static redco_status write_curves(FILE *out, const redco_json_value *root, char names[MOST_CURVES][160], size_t *shown,
                                 redco_error *err)
{
    redco_json_value runs;
    size_t count = 0;
    uint32_t version = 0;
    redco_status st = redco_json_format(root, "redco-validate-profiles", 1, &version, err);
    if (st == REDCO_OK) { st = redco_json_array(root, "runs", &runs, &count, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value run;
        size_t points = 0;
        char name[160] = "";
        bool repeated = false;
        st = redco_json_element(&runs, i, &run, err);
        if (st == REDCO_OK && redco_json_has(&run, "repeated")) {
            st = redco_json_bool(&run, "repeated", &repeated, err);
        }
        if (st != REDCO_OK || repeated) { continue; }
        if ((st = curve_name(&run, name, sizeof name, err)) != REDCO_OK ||
            (st = write_curve(out, &run, &points, err)) != REDCO_OK || points == 0) {
            continue;
        }
        if (*shown == MOST_CURVES) {
            return redco_json_fail(root, "runs", err, "holds more than %d measured groups: name fewer profiles",
                                   MOST_CURVES);
        }
        (void)fprintf(out, "\n\n");
        memcpy(names[(*shown)++], name, sizeof name);
    }
    return st;
}

redco_status plot_collectives(const redco_json_value *roots, size_t count, struct plot_sheet *sheet, redco_error *err)
{
    FILE *out = sheet->text;
    char names[MOST_CURVES][160];
    size_t shown = 0;
    redco_status st = REDCO_OK;
    plot_title(sheet, "Collectives: NCCL's model against measurements");
    (void)fprintf(out, "$curves << EOD\n");
    for (size_t i = 0; i < count && st == REDCO_OK; i++) { st = write_curves(out, &roots[i], names, &shown, err); }
    if (st != REDCO_OK) { return st; }
    if (shown == 0) {
        return redco_fail(err, REDCO_EVALUE, plot_kind_words[PLOT_COLLECTIVES],
                          "the input holds no measured collective");
    }
    (void)fprintf(out, "EOD\ncurves = %zu\narray curve[curves]\n", shown);
    for (size_t i = 0; i < shown; i++) {
        (void)fprintf(out, "curve[%zu] = ", i + 1);
        plot_quote(out, names[i]);
        (void)fprintf(out, "\n");
    }
    sheet->script = "collectives";
    sheet->width = 800;
    sheet->height = 540 + 18 * (unsigned)(shown / 2);
    return REDCO_OK;
}
