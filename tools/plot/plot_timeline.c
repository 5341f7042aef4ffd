/* A trace as a Gantt chart: threads as rows, spans as boxes coloured by category, memory below. */
#include "tools/plot/plot_trace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Pixels of the SVG; what the boxes have of the width is set again in timeline.gp. A letter of a label is at most so
 * wide. */
enum {
    WIDTH = 1100,
    DRAWN = 920,
    LETTER = 6,
    FINEST = 3, /* boxes and steps that are smaller are drawn together */
    TOP = 44,
    ROW = 34,
    MEMORY = 150,
    AXIS = 70,
    KEY_ROW = 22,
    KEY_COLUMNS = 5
};

struct window {
    double from_s, to_s;
};

static struct window window_of(const struct trace_layout *trace, const struct plot_options *options)
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

struct box {
    size_t row, category;
    double from_s, to_s;
    int depth;
};

/* Neighbouring spans that are too small to be told apart are one box, of the category that lasts longest in it.
 * @return the first span behind it */
static size_t next_box(const struct trace_layout *trace, size_t first, double finest_s, struct box *box_out)
{
    const struct trace_span *span = &trace->spans[first];
    double lasted_s[TRACE_CATEGORIES] = {0.0};
    size_t i = first;
    *box_out = (struct box){span->row, span->category, span->start_s, span->end_s, span->depth};
    if (span->end_s - span->start_s >= finest_s) { return first + 1; }
    for (; i < trace->span_count; i++) {
        const struct trace_span *next = &trace->spans[i];
        if (next->row != span->row || next->depth != span->depth || next->end_s > span->start_s + finest_s) { break; }
        lasted_s[next->category] += next->end_s - next->start_s;
        if (lasted_s[next->category] > lasted_s[box_out->category]) { box_out->category = next->category; }
        box_out->to_s = fmax(box_out->to_s, next->end_s);
    }
    return i > first ? i : first + 1;
}

/* Collects the boxes in the window. Boxes of small spans that touch and are alike become one. @param boxes  room for
 * all spans */
static size_t find_boxes(const struct trace_layout *trace, struct window window, struct box *boxes)
{
    const double pixel_s = (window.to_s - window.from_s) / DRAWN;
    size_t count = 0;
    for (size_t i = 0; i < trace->span_count;) {
        const size_t first = i;
        struct box box;
        if (!inside(&trace->spans[i], window)) {
            i++;
            continue;
        }
        i = next_box(trace, i, FINEST * pixel_s, &box);
        struct box *last = count > 0 ? &boxes[count - 1] : NULL;
        const bool small = i > first + 1 || box.to_s - box.from_s < FINEST * pixel_s;
        box.from_s = fmax(box.from_s - window.from_s, 0.0);
        box.to_s = fmin(box.to_s, window.to_s) - window.from_s;
        if (small && last != NULL && last->row == box.row && last->category == box.category &&
            last->depth == box.depth && box.from_s < last->to_s + 0.5 * pixel_s) {
            last->to_s = fmax(last->to_s, box.to_s);
        } else {
            boxes[count++] = box;
        }
    }
    return count;
}

/* Boxes of one category: row, from, to, depth, in milliseconds from the left edge. @return their number */
static size_t write_boxes(FILE *out, const struct box *boxes, size_t count, size_t category)
{
    size_t written = 0;
    for (size_t i = 0; i < count; i++) {
        if (boxes[i].category != category) { continue; }
        (void)fprintf(out, "%zu\t%.7g\t%.7g\t%d\n", boxes[i].row, 1e3 * boxes[i].from_s, 1e3 * boxes[i].to_s,
                      boxes[i].depth);
        written++;
    }
    if (written > 0) { (void)fprintf(out, "\n\n"); }
    return written;
}

/* The whole name, or as much of its end, from a '/' on, as fits. NULL: nothing fits. */
static const char *label_of(const struct trace_span *span, double width_s, double pixel_s)
{
    const char *label = span->name;
    while (label[0] != '\0' && pixel_s * (double)(LETTER * strlen(label) + 6) > width_s) {
        label += strcspn(label, "/");
        label += strspn(label, "/");
    }
    return label[0] != '\0' ? label : NULL;
}

/* Names that fit into their boxes. @return their number */
static size_t write_labels(FILE *out, const struct trace_layout *trace, struct window window)
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

/* A step of a curve from the value that was drawn last, if any. */
static void write_corner(FILE *out, double at_s, double before, double bytes)
{
    if (before >= 0.0) { (void)fprintf(out, "%.6g\t%.5g\n", 1e3 * at_s, before * 1e-9); }
    (void)fprintf(out, "%.6g\t%.5g\n", 1e3 * at_s, bytes * 1e-9);
}

/* Corners of the sum of the first @p parts of a process, thinned to what can be seen: the highest value of a few
 * pixels. */
static void write_steps(FILE *out, const struct trace_layout *trace, uint32_t process, size_t parts,
                        struct window window)
{
    const double column_s = FINEST * (window.to_s - window.from_s) / DRAWN;
    double column = -1.0;
    double highest = 0.0;
    double last = 0.0;
    double drawn = -1.0;
    for (size_t i = 0; i < trace->memory_count; i++) {
        const struct trace_memory *memory = &trace->memory[i];
        if (memory->process != process || memory->at_s > window.to_s) { continue; }
        const double now = fmax(0.0, floor((memory->at_s - window.from_s) / column_s));
        const double bytes = sum_of(memory, parts);
        if (now > column && column >= 0.0) {
            if (fabs(highest - drawn) > 0.0) { write_corner(out, column * column_s, drawn, highest); }
            drawn = highest;
            highest = now > column + 1.0 ? bytes : fmax(last, bytes);
        } else {
            highest = memory->at_s < window.from_s ? bytes : fmax(highest, bytes);
        }
        last = bytes;
        column = now;
    }
    if (column >= 0.0) {
        const double end_s = window.to_s - window.from_s;
        write_corner(out, column * column_s, drawn, highest);
        write_corner(out, fmin((column + 1.0) * column_s, end_s), highest, last);
        write_corner(out, end_s, last, last);
    }
    (void)fprintf(out, "\n\n");
}

static const char *process_name(const struct trace_layout *trace, uint32_t process)
{
    for (size_t i = 0; i < trace->row_count; i++) {
        if (trace->rows[i].process == process && trace->rows[i].process_name != NULL) {
            return trace->rows[i].process_name;
        }
    }
    return "process";
}

/* Stacks the parts of one process, or draws the sums of several. @return number of curves */
static size_t write_memory(FILE *out, const struct trace_layout *trace, struct window window)
{
    const char *names[TRACE_ROWS];
    size_t curves = 0;
    size_t processes = 0;
    for (size_t i = 0; i < trace->memory_count; i++) {
        processes += i == 0 || trace->memory[i].process != trace->memory[i - 1].process;
    }
    (void)fprintf(out, "$memory << EOD\n");
    if (processes == 1) {
        for (size_t part = 0; part < trace->part_count; part++) {
            double most = 0.0;
            for (size_t i = 0; i < trace->memory_count; i++) { most = fmax(most, trace->memory[i].bytes[part]); }
            if (most <= 0.0) { continue; }
            write_steps(out, trace, trace->memory[0].process, part + 1, window);
            names[curves++] = trace->parts[part];
        }
    } else {
        for (size_t i = 0; i < trace->memory_count && curves < TRACE_PARTS; i++) {
            if (i > 0 && trace->memory[i].process == trace->memory[i - 1].process) { continue; }
            write_steps(out, trace, trace->memory[i].process, trace->part_count, window);
            names[curves++] = process_name(trace, trace->memory[i].process);
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

/* Up to two lines, from the first space on, left of a pair of rows. */
static void write_stream(FILE *out, const char *name, size_t row, double below)
{
    const size_t length = strcspn(name, " ");
    const bool two = name[length] != '\0';
    char line[40];
    (void)snprintf(line, sizeof line, "%.*s", (int)(length < 16 ? length : 16), name);
    for (int i = 0; i < (two ? 2 : 1); i++) {
        (void)fprintf(out, "set label %zu ", 10 + 2 * row + (size_t)i);
        plot_quote(out, line);
        (void)fprintf(out, " at screen 0.008, first %.3f left\n", (double)row + below + (two ? 0.48 * i - 0.24 : 0.0));
        (void)snprintf(line, sizeof line, "%.16s", two ? name + length + 1 : "");
    }
}

/* A row of a stream as predicted, one as measured: either may be absent. */
static void write_pairs(FILE *out, const struct trace_layout *trace)
{
    (void)fprintf(out, "rows = %zu\nset ytics (", trace->row_count);
    for (size_t i = 0; i < trace->row_count; i++) {
        (void)fprintf(out, "%s'%s' %zu", i > 0 ? ", " : "", trace->rows[i].process == 0 ? "predicted" : "measured", i);
    }
    (void)fprintf(out, ")\n");
    for (size_t i = 0; i < trace->row_count; i++) {
        const struct trace_row *const row = &trace->rows[i];
        const bool again = i > 0 && row[-1].thread == row->thread;
        const bool pair = i + 1 < trace->row_count && row[1].thread == row->thread;
        if (again) { continue; }
        if (i > 0) {
            (void)fprintf(out,
                          "set arrow from screen 0.005, first %.1f to graph 1, first %.1f nohead lc rgb '#999999'\n",
                          (double)i - 0.5, (double)i - 0.5);
        }
        write_stream(out, row->name != NULL ? row->name : "", i, pair ? 0.5 : 0.0);
    }
}

static void write_rows(FILE *out, const struct trace_layout *trace)
{
    bool several = false;
    for (size_t i = 1; i < trace->row_count; i++) {
        several = several || trace->rows[i].process != trace->rows[0].process;
    }
    (void)fprintf(out, "rows = %zu\nset ytics (", trace->row_count);
    for (size_t i = 0; i < trace->row_count; i++) {
        const struct trace_row *row = &trace->rows[i];
        char label[80];
        char thread[40];
        (void)snprintf(thread, sizeof thread, "thread %u", row->thread);
        const char *name = row->name != NULL && row->name[0] != '\0' ? row->name : thread;
        if (several && row->process_name != NULL) {
            (void)snprintf(label, sizeof label, "%.8s: %.14s", row->process_name, name);
        } else {
            (void)snprintf(label, sizeof label, "%.22s", name);
        }
        (void)fprintf(out, "%s", i > 0 ? ", " : "");
        plot_tic(out, label);
        (void)fprintf(out, " %zu", i);
    }
    (void)fprintf(out, ")\n");
}

/* The tone of timeline.gp that a category always has; others take the rest in turn. */
static unsigned tone_of(const char *category, unsigned *other)
{
    enum { FIRST_OTHER = 12, OTHERS = 5 };
    static const struct {
        const char *name;
        unsigned tone;
    } known[] = {{"forward", 1},   {"fwd", 1},     {"backward", 2},    {"bwd", 2},         {"recompute", 3},
                 {"optimizer", 4}, {"opt", 4},     {"gather", 5},      {"scatter", 6},     {"launch", 7},
                 {"idle", 8},      {"update", 11}, {"grad_reduce", 9}, {"grad_shard", 10}, {"comm", 9}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (strcmp(known[i].name, category) == 0) { return known[i].tone; }
    }
    return FIRST_OTHER + (*other)++ % OTHERS;
}

/* Categories that the window shows, each a data set. */
static redco_status write_categories(FILE *out, const struct trace_layout *trace, struct window window,
                                     size_t *count_out, redco_error *err)
{
    struct box *boxes = calloc(trace->span_count, sizeof *boxes);
    bool shown[TRACE_CATEGORIES] = {false};
    unsigned other = 0;
    size_t count = 0;
    if (boxes == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const size_t box_count = find_boxes(trace, window, boxes);
    (void)fprintf(out, "$boxes << EOD\n");
    for (size_t i = 0; i < trace->category_count; i++) {
        shown[i] = write_boxes(out, boxes, box_count, i) > 0;
        count += shown[i];
    }
    free(boxes);
    (void)fprintf(out, "EOD\ncategories = %zu\narray category[categories + 1]\narray tone_of[categories + 1]\n", count);
    *count_out = count;
    count = 0;
    for (size_t i = 0; i < trace->category_count; i++) {
        if (!shown[i]) { continue; }
        count++;
        (void)fprintf(out, "tone_of[%zu] = %u; category[%zu] = ", count, tone_of(trace->categories[i], &other), count);
        plot_quote(out, trace->categories[i]);
        (void)fprintf(out, "\n");
    }
    return REDCO_OK;
}

static void write_sizes(struct plot_sheet *sheet, const struct trace_layout *trace, size_t categories, size_t curves)
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

static redco_status write_trace(const struct trace_layout *trace, struct window window, const char *title,
                                struct plot_sheet *sheet, redco_error *err)
{
    FILE *out = sheet->text;
    size_t categories = 0;
    const redco_status st = write_categories(out, trace, window, &categories, err);
    if (st != REDCO_OK) { return st; }
    if (categories == 0) {
        return redco_fail(err, REDCO_EVALUE, "--window", "shows nothing: the trace has no span from %.4g s to %.4g s",
                          window.from_s, window.to_s);
    }
    if (title != NULL) {
        plot_title(sheet, "%s", title);
    } else {
        plot_title(sheet, "Timeline of %.4g ms%s%.60s", 1e3 * (window.to_s - window.from_s),
                   trace->emulated != NULL ? ", " : "", trace->emulated != NULL ? trace->emulated : "");
    }
    (void)fprintf(out, "labels = %zu\n", write_labels(out, trace, window));
    (void)fprintf(out, "span = %.9g\nstart = %.9g\n", 1e3 * (window.to_s - window.from_s), 1e3 * window.from_s);
    if (trace->paired) {
        write_pairs(out, trace);
    } else {
        write_rows(out, trace);
    }
    const size_t curves = write_memory(out, trace, window);
    write_sizes(sheet, trace, categories, curves);
    return REDCO_OK;
}

redco_status trace_layout_write(const struct trace_layout *layout, const char *title, struct plot_sheet *sheet,
                                redco_error *err)
{
    const struct window window = window_of(layout, sheet->options);
    if (window.to_s > window.from_s) { return write_trace(layout, window, title, sheet, err); }
    return redco_fail(err, REDCO_EVALUE, "", "all spans are empty: nothing to draw");
}

redco_status plot_timeline(const char *path, struct plot_sheet *sheet, redco_error *err)
{
    redco_trace *trace = NULL;
    struct trace_layout layout = {0};
    redco_status st = redco_trace_read(path, true, &trace, err);
    if (st == REDCO_OK) { st = trace_layout_make(trace, &layout, err); }
    if (st == REDCO_OK && layout.span_count == 0) {
        st = redco_fail(err, REDCO_EVALUE, strcmp(path, "-") == 0 ? "standard input" : path,
                        "holds no span (an event whose \"ph\" is \"X\"): nothing to draw");
    }
    const char *const source = trace != NULL ? redco_trace_note(trace, "source") : NULL;
    layout.emulated = source != NULL && strstr(source, "emulated") != NULL ? source : NULL;
    if (st == REDCO_OK) { st = trace_layout_write(&layout, NULL, sheet, err); }
    trace_layout_clear(&layout);
    redco_trace_free(trace);
    return st;
}
