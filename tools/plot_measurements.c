/* Predictions against measurements: training runs as a scatter, collectives as bandwidth over size. */
#include "tools/plot.h"

#include <string.h>

enum { MOST_SOURCES = 16, MOST_ROWS = 1000000, MOST_CURVES = 8, MOST_SIZES = 4096 };
static const double most_rate = 1e15;

/* Figures of one source or of all; NAN-free: a figure that the document leaves out is shown as a dash. */
static redco_status figures_text(const redco_json_value *entry, char *buffer, size_t size, redco_error *err)
{
    static const struct {
        const char *key, *name;
    } figures[] = {{"mape", "MAPE"}, {"median_ape", "median"}, {"p90_ape", "p90"}};
    uint64_t rows = 0;
    redco_status st = redco_json_u64(entry, "rows", 0, MOST_ROWS, &rows, err);
    int used = snprintf(buffer, size, "%llu runs", (unsigned long long)rows);
    for (size_t i = 0; i < 3 && st == REDCO_OK; i++) {
        double ratio = 0.0;
        if (!redco_json_has(entry, figures[i].key)) { continue; }
        st = redco_json_number(entry, figures[i].key, 0.0, 1e6, &ratio, err);
        used += snprintf(buffer + used, size - (size_t)used, ", %s %.1f %%", figures[i].name, 100.0 * ratio);
    }
    return st;
}

/* Points of one source. @return through count_out how many rows were compared */
static redco_status write_rows(FILE *out, const redco_json_value *rows, size_t row_count, const char *source,
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
        (void)fprintf(out, "%.6g\t%.6g\n", measured, predicted);
        (*count_out)++;
    }
    return st;
}

/* The points of all sources as data sets, and their lines of the legend. */
static redco_status write_sources(const redco_json_value *root, struct plot_sheet *sheet, size_t *shown_out,
                                  redco_error *err)
{
    FILE *out = sheet->text;
    redco_json_value rows;
    redco_json_value sources;
    size_t row_count = 0;
    size_t source_count = 0;
    redco_json_value entries[MOST_SOURCES];
    redco_status st = redco_json_array(root, "rows", &rows, &row_count, err);
    if (st == REDCO_OK) { st = redco_json_array(root, "sources", &sources, &source_count, err); }
    if (st != REDCO_OK) { return st; }
    if (row_count > MOST_ROWS) {
        return redco_json_fail(root, "rows", err, "holds %zu rows: at most %d can be drawn", row_count, MOST_ROWS);
    }
    (void)fprintf(out, "$points << EOD\n");
    *shown_out = 0;
    for (size_t i = 0; i < source_count && st == REDCO_OK; i++) {
        redco_json_value entry;
        const char *name = NULL;
        size_t count = 0;
        if ((st = redco_json_element(&sources, i, &entry, err)) != REDCO_OK ||
            (st = redco_json_string(&entry, "source", &name, err)) != REDCO_OK ||
            (st = write_rows(out, &rows, row_count, name, &count, err)) != REDCO_OK) {
            break;
        }
        if (count == 0) { continue; }
        (void)fprintf(out, "\n\n");
        if (*shown_out == MOST_SOURCES) {
            return redco_json_fail(root, "sources", err, "holds more than %d sources with runs to draw", MOST_SOURCES);
        }
        entries[(*shown_out)++] = entry;
    }
    (void)fprintf(out, "EOD\nsources = %zu\narray source[sources + 1]\n", *shown_out);
    for (size_t i = 0; i < *shown_out && st == REDCO_OK; i++) {
        char figures[160];
        char text[240];
        const char *name = NULL;
        (void)redco_json_string(&entries[i], "source", &name, err);
        st = figures_text(&entries[i], figures, sizeof figures, err);
        (void)snprintf(text, sizeof text, "%.60s: %s", name, figures);
        (void)fprintf(out, "source[%zu] = ", i + 1);
        plot_quote(out, text);
        (void)fprintf(out, "\n");
    }
    return st;
}

redco_status plot_scatter(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err)
{
    size_t shown = 0;
    char figures[160] = "";
    redco_json_value all;
    redco_status st = write_sources(root, sheet, &shown, err);
    if (st != REDCO_OK) { return st; }
    if (shown == 0) {
        return redco_json_fail(root, "rows", err, "holds no run that was compared, so there is nothing to draw");
    }
    if (redco_json_has(root, "all")) {
        st = redco_json_object(root, "all", &all, err);
        if (st == REDCO_OK) { st = figures_text(&all, figures, sizeof figures, err); }
    }
    char overall[200] = "";
    if (figures[0] != '\0') { (void)snprintf(overall, sizeof overall, "all: %s", figures); }
    plot_title(sheet, "Predicted against measured throughput");
    (void)fprintf(sheet->text, "overall = ");
    plot_quote(sheet->text, overall);
    sheet->script = "predicted-vs-measured";
    sheet->width = 1080;
    sheet->height = 620;
    (void)fprintf(sheet->text, "\nwidth = %u\nheight = %u\n", sheet->width, sheet->height);
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

redco_status plot_collectives(const struct plot_input *inputs, size_t count, struct plot_sheet *sheet, redco_error *err)
{
    FILE *out = sheet->text;
    char names[MOST_CURVES][160];
    size_t shown = 0;
    redco_status st = REDCO_OK;
    plot_title(sheet, "Collectives: NCCL's model against measurements");
    (void)fprintf(out, "$curves << EOD\n");
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        if (inputs[i].json == NULL) {
            return redco_fail(err, REDCO_EVALUE, plot_kind_words[PLOT_COLLECTIVES],
                              "takes JSON documents of redco-validate --profiles, no tables");
        }
        const redco_json_value root = redco_json_root(inputs[i].json);
        st = write_curves(out, &root, names, &shown, err);
    }
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
