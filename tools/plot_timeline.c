/* A trace as a Gantt chart: threads as rows, spans as boxes coloured by category, memory below. */
#include "tools/plot_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pixels of the SVG; what the boxes have of the width is set again in timeline.gp. A letter of a label is at most so
 * wide. */
enum {
    WIDTH = 1100,
    DRAWN = 920,
    LETTER = 6,
    TOP = 44,
    ROW = 34,
    MEMORY = 150,
    AXIS = 70,
    KEY_ROW = 22,
    KEY_COLUMNS = 7
};

struct window {
    double from_s, to_s;
};

static struct window window_of(const struct trace *trace, const struct plot_options *options)
{
    struct window all = {.from_s = INFINITY, .to_s = -INFINITY};
    for (size_t i = 0; i < trace->span_count; i++) {
        all.from_s = fmin(all.from_s, trace->spans[i].start_s);
        all.to_s = fmax(all.to_s, trace->spans[i].end_s);
    }
    if (options->to_s > 0.0) { all = (struct window){options->from_s, options->to_s}; }
    return all;
}

static bool inside(const struct trace_span *span, struct window window)
{
    return span->end_s > window.from_s && span->start_s < window.to_s;
}

/* Spans of one category: row, from, to, depth, in milliseconds from the left edge. Those that are narrower than a pixel
 * and touch become one box. @return number of boxes */
static size_t write_boxes(FILE *out, const struct trace *trace, size_t category, struct window window)
{
    const double pixel_s = (window.to_s - window.from_s) / DRAWN;
    size_t boxes = 0;
    for (size_t i = 0; i < trace->span_count; i++) {
        const struct trace_span *span = &trace->spans[i];
        double end_s = span->end_s;
        if (span->category != category || !inside(span, window)) { continue; }
        for (const struct trace_span *next = span + 1; end_s - span->start_s < pixel_s; next++, i++) {
            if (i + 1 == trace->span_count || next->row != span->row || next->category != category ||
                next->depth != span->depth || next->start_s > end_s + 0.2 * pixel_s) {
                break;
            }
            end_s = fmax(end_s, next->end_s);
        }
        (void)fprintf(out, "%zu\t%.7g\t%.7g\t%d\n", span->row, 1e3 * fmax(span->start_s - window.from_s, 0.0),
                      1e3 * (fmin(end_s, window.to_s) - window.from_s), span->depth);
        boxes++;
    }
    (void)fprintf(out, "\n\n");
    return boxes;
}

/* The whole name, or as much of its end as fits: what lies behind its first '/', or its last. NULL: nothing fits. */
static const char *label_of(const struct trace_span *span, double width_s, double pixel_s)
{
    const char *first = strchr(span->name, '/');
    const char *last = strrchr(span->name, '/');
    const char *const names[] = {span->name, first != NULL ? first + 1 : "", last != NULL ? last + 1 : ""};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        const double needed_s = pixel_s * (double)(LETTER * strlen(names[i]) + 6);
        if (names[i][0] != '\0' && needed_s <= width_s) { return names[i]; }
    }
    return NULL;
}

/* Names that fit into their boxes. @return their number */
static size_t write_labels(FILE *out, const struct trace *trace, struct window window)
{
    const double pixel_s = (window.to_s - window.from_s) / DRAWN;
    size_t labels = 0;
    (void)fprintf(out, "$labels << EOD\n");
    for (size_t i = 0; i < trace->span_count; i++) {
        const struct trace_span *span = &trace->spans[i];
        const bool encloses = i + 1 < trace->span_count && span[1].row == span->row && span[1].depth > span->depth;
        const double from_s = fmax(span->start_s, window.from_s);
        const double to_s = fmin(span->end_s, window.to_s);
        const char *label = !encloses && inside(span, window) ? label_of(span, to_s - from_s, pixel_s) : NULL;
        if (label == NULL) { continue; }
        (void)fprintf(out, "%zu\t%.7g\t", span->row, 1e3 * (0.5 * (from_s + to_s) - window.from_s));
        plot_cell(out, label);
        (void)fprintf(out, "\n");
        labels++;
    }
    (void)fprintf(out, "EOD\n");
    return labels;
}

static double sum_of(const struct trace_memory *memory, size_t parts)
{
    double sum = 0.0;
    for (size_t part = 0; part < parts; part++) { sum += memory->bytes[part]; }
    return sum;
}

/* Steps of the sum of the first @p parts of process @p pid, thinned to what a pixel can show: the highest value. */
static void write_steps(FILE *out, const struct trace *trace, json_int_t pid, size_t parts, struct window window)
{
    const double pixel_s = (window.to_s - window.from_s) / DRAWN;
    double column = -1.0;
    double highest = 0.0;
    double last = 0.0;
    for (size_t i = 0; i < trace->memory_count; i++) {
        const struct trace_memory *memory = &trace->memory[i];
        if (memory->pid != pid || memory->at_s > window.to_s) { continue; }
        const double now = fmax(0.0, floor((memory->at_s - window.from_s) / pixel_s));
        const double bytes = sum_of(memory, parts);
        const bool before = memory->at_s < window.from_s;
        if (now > column && column >= 0.0) {
            (void)fprintf(out, "%.7g\t%.5g\n", 1e3 * column * pixel_s, highest * 1e-9);
            highest = bytes;
        } else {
            highest = before ? bytes : fmax(highest, bytes);
        }
        last = bytes;
        column = now;
    }
    (void)fprintf(out, "%.7g\t%.5g\n", 1e3 * fmax(column, 0.0) * pixel_s, highest * 1e-9);
    (void)fprintf(out, "%.7g\t%.5g\n\n\n", 1e3 * (window.to_s - window.from_s), last * 1e-9);
}

static const char *process_name(const struct trace *trace, json_int_t pid)
{
    for (size_t i = 0; i < trace->row_count; i++) {
        if (trace->rows[i].pid == pid && trace->rows[i].process != NULL) { return trace->rows[i].process; }
    }
    return "process";
}

/* Of one process its parts, one above the other; of several their sums. @return number of curves */
static size_t write_memory(FILE *out, const struct trace *trace, struct window window)
{
    const char *names[TRACE_ROWS];
    size_t curves = 0;
    size_t processes = 0;
    for (size_t i = 0; i < trace->memory_count; i++) {
        processes += i == 0 || trace->memory[i].pid != trace->memory[i - 1].pid;
    }
    (void)fprintf(out, "$memory << EOD\n");
    if (processes == 1) {
        for (size_t part = 0; part < trace->part_count; part++) {
            double most = 0.0;
            for (size_t i = 0; i < trace->memory_count; i++) { most = fmax(most, trace->memory[i].bytes[part]); }
            if (most <= 0.0) { continue; }
            write_steps(out, trace, trace->memory[0].pid, part + 1, window);
            names[curves++] = trace->parts[part];
        }
    } else {
        for (size_t i = 0; i < trace->memory_count && curves < TRACE_PARTS; i++) {
            if (i > 0 && trace->memory[i].pid == trace->memory[i - 1].pid) { continue; }
            write_steps(out, trace, trace->memory[i].pid, trace->part_count, window);
            names[curves++] = process_name(trace, trace->memory[i].pid);
        }
    }
    (void)fprintf(out, "EOD\nstacked = %d\ncurves = %zu\narray curve[curves + 1]\n", processes == 1, curves);
    for (size_t i = 0; i < curves; i++) {
        (void)fprintf(out, "curve[%zu] = ", i + 1);
        plot_quote(out, names[i]);
        (void)fprintf(out, "\n");
    }
    return curves;
}

static void write_rows(FILE *out, const struct trace *trace)
{
    bool several = false;
    for (size_t i = 1; i < trace->row_count; i++) { several = several || trace->rows[i].pid != trace->rows[0].pid; }
    (void)fprintf(out, "rows = %zu\nset ytics (", trace->row_count);
    for (size_t i = 0; i < trace->row_count; i++) {
        const struct trace_row *row = &trace->rows[i];
        char label[80];
        char thread[40];
        (void)snprintf(thread, sizeof thread, "thread %lld", (long long)row->tid);
        const char *name = row->name != NULL && row->name[0] != '\0' ? row->name : thread;
        if (several && row->process != NULL) {
            (void)snprintf(label, sizeof label, "%.8s: %.14s", row->process, name);
        } else {
            (void)snprintf(label, sizeof label, "%.22s", name);
        }
        (void)fprintf(out, "%s", i > 0 ? ", " : "");
        plot_tic(out, label);
        (void)fprintf(out, " %zu", i);
    }
    (void)fprintf(out, ")\n");
}

/* Categories that the window shows, each a data set. @return their number */
static size_t write_categories(FILE *out, const struct trace *trace, struct window window)
{
    bool shown[TRACE_CATEGORIES] = {false};
    size_t count = 0;
    for (size_t i = 0; i < trace->span_count; i++) {
        if (inside(&trace->spans[i], window)) { shown[trace->spans[i].category] = true; }
    }
    (void)fprintf(out, "$boxes << EOD\n");
    for (size_t i = 0; i < trace->category_count; i++) {
        if (shown[i]) { count += write_boxes(out, trace, i, window) > 0; }
    }
    (void)fprintf(out, "EOD\ncategories = %zu\narray category[categories + 1]\n", count);
    count = 0;
    for (size_t i = 0; i < trace->category_count; i++) {
        if (!shown[i]) { continue; }
        (void)fprintf(out, "category[%zu] = ", ++count);
        plot_quote(out, trace->categories[i]);
        (void)fprintf(out, "\n");
    }
    return count;
}

static void write_sizes(struct plot_sheet *sheet, const struct trace *trace, size_t categories, size_t curves)
{
    const unsigned memory = curves > 0 ? MEMORY : 0;
    const unsigned lines = (unsigned)((categories + KEY_COLUMNS - 1) / KEY_COLUMNS);
    const unsigned more = (unsigned)((curves + KEY_COLUMNS - 1) / KEY_COLUMNS);
    const unsigned rows = ROW * (unsigned)trace->row_count;
    sheet->script = "timeline";
    sheet->width = WIDTH;
    sheet->height = TOP + rows + memory + AXIS + KEY_ROW * (lines + more) + 8;
    (void)fprintf(sheet->text,
                  "height = %u.0\nrows_top = %d.0\nrows_bottom = %u.0\nmemory_top = %u.0\nmemory_bottom = %u.0\n"
                  "key_at = %u.0\nkey_lines = %u\nmemory_key_at = %u.0\nmemory_key_lines = %u\n",
                  sheet->height, TOP, TOP + rows, TOP + rows + 16, TOP + rows + memory,
                  TOP + rows + memory + AXIS + KEY_ROW * lines / 2, lines,
                  TOP + rows + memory + AXIS + KEY_ROW * lines + KEY_ROW * more / 2, more);
}

static redco_status write_trace(const struct trace *trace, struct window window, struct plot_sheet *sheet,
                                redco_error *err)
{
    FILE *out = sheet->text;
    const size_t categories = write_categories(out, trace, window);
    if (categories == 0) {
        return redco_fail(err, REDCO_EVALUE, "--window", "shows nothing: the trace has no span from %.4g s to %.4g s",
                          window.from_s, window.to_s);
    }
    plot_title(sheet, "Timeline of %.4g ms", 1e3 * (window.to_s - window.from_s));
    (void)fprintf(out, "labels = %zu\n", write_labels(out, trace, window));
    (void)fprintf(out, "span = %.9g\nstart = %.9g\n", 1e3 * (window.to_s - window.from_s), 1e3 * window.from_s);
    write_rows(out, trace);
    const size_t curves = write_memory(out, trace, window);
    write_sizes(sheet, trace, categories, curves);
    return REDCO_OK;
}

redco_status plot_timeline(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err)
{
    struct trace trace = {0};
    redco_status st = trace_load(root, &trace, err);
    if (st == REDCO_OK) {
        const struct window window = window_of(&trace, sheet->options);
        st = window.to_s > window.from_s ? write_trace(&trace, window, sheet, err)
                                         : redco_json_fail(root, NULL, err, "all spans are empty: nothing to draw");
    }
    trace_clear(&trace);
    return st;
}
