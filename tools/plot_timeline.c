/* A trace as a Gantt chart: threads as rows, spans as boxes coloured by category, memory counters below. The format is
 * Chrome's trace-event JSON ("Trace Event Format", 2016), as Perfetto reads it: times in microseconds. */
#include "tools/plot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 5000000, MOST_ROWS = 64, MOST_CATEGORIES = 12, MOST_DEPTH = 3, MOST_COUNTERS = 6, WIDTH = 1100 };
/* Of the picture's width, in pixels of SVG: what timeline.gp leaves for the boxes. */
enum { DRAWN = 920, LETTER = 6 };
static const double most_us = 1e15;

struct row {
    json_int_t pid, tid, order, process_order;
    const char *name, *process;
    size_t spans;
};

struct span {
    json_int_t pid, tid;
    double start_s, end_s;
    const char *name;
    size_t category, row;
    int depth;
};

struct sample {
    size_t counter;
    double at_s, bytes;
    size_t serial; /* order in the file: of equal times the last counts */
};

struct chart {
    struct row *rows;
    size_t row_count;
    struct span *spans;
    size_t span_count;
    struct sample *samples;
    size_t sample_count;
    const char *categories[MOST_CATEGORIES];
    size_t category_count;
    const char *counters[MOST_COUNTERS];
    json_int_t counter_pids[MOST_COUNTERS];
    size_t counter_count;
};

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static json_int_t id_of(const json_t *event, const char *key)
{
    return json_integer_value(json_object_get(event, key));
}

static struct row *row_of(struct chart *chart, json_int_t pid, json_int_t tid)
{
    for (size_t i = 0; i < chart->row_count; i++) {
        if (chart->rows[i].pid == pid && chart->rows[i].tid == tid) { return &chart->rows[i]; }
    }
    if (chart->row_count == MOST_ROWS) { return NULL; }
    chart->rows[chart->row_count] = (struct row){.pid = pid, .tid = tid, .order = tid, .process_order = pid};
    return &chart->rows[chart->row_count++];
}

static redco_status too_many_rows(const redco_json_value *event, redco_error *err)
{
    return redco_json_fail(event, NULL, err, "is in thread %d: at most %d can be drawn", MOST_ROWS + 1, MOST_ROWS);
}

/* The first word of "cat"; what has none is "other". */
static size_t category_of(struct chart *chart, const json_t *event)
{
    const char *text = text_of(event, "cat");
    const char *name = text[0] != '\0' ? text : "other";
    size_t i = 0;
    while (i < chart->category_count && strcmp(chart->categories[i], name) != 0) { i++; }
    if (i < chart->category_count) { return i; }
    if (i == MOST_CATEGORIES) { return MOST_CATEGORIES - 1; }
    chart->categories[chart->category_count++] = name;
    return i;
}

static redco_status add_span(struct chart *chart, const redco_json_value *event, redco_error *err)
{
    double start = 0.0;
    double duration = 0.0;
    redco_status st = redco_json_number(event, "ts", -most_us, most_us, &start, err);
    if (st == REDCO_OK) { st = redco_json_number(event, "dur", 0.0, most_us, &duration, err); }
    if (st != REDCO_OK) { return st; }
    struct row *row = row_of(chart, id_of(event->json, "pid"), id_of(event->json, "tid"));
    if (row == NULL) { return too_many_rows(event, err); }
    row->spans++;
    chart->spans[chart->span_count++] = (struct span){.pid = row->pid,
                                                      .tid = row->tid,
                                                      .start_s = start * 1e-6,
                                                      .end_s = (start + duration) * 1e-6,
                                                      .name = text_of(event->json, "name"),
                                                      .category = category_of(chart, event->json)};
    return REDCO_OK;
}

/* Memory in bytes is drawn, other counters are not. */
static redco_status add_sample(struct chart *chart, const redco_json_value *event, redco_error *err)
{
    const json_t *args = json_object_get(event->json, "args");
    const json_t *bytes = json_object_get(args, "bytes");
    const json_int_t pid = id_of(event->json, "pid");
    const char *name = text_of(event->json, "name");
    double at = 0.0;
    size_t counter = 0;
    if (!json_is_number(bytes)) { return REDCO_OK; }
    const redco_status st = redco_json_number(event, "ts", -most_us, most_us, &at, err);
    if (st != REDCO_OK) { return st; }
    while (counter < chart->counter_count &&
           (chart->counter_pids[counter] != pid || strcmp(chart->counters[counter], name) != 0)) {
        counter++;
    }
    if (counter == MOST_COUNTERS) { return REDCO_OK; }
    if (counter == chart->counter_count) {
        chart->counter_pids[counter] = pid;
        chart->counters[chart->counter_count++] = name;
    }
    chart->samples[chart->sample_count] = (struct sample){
        .counter = counter, .at_s = at * 1e-6, .bytes = json_number_value(bytes), .serial = chart->sample_count};
    chart->sample_count++;
    return REDCO_OK;
}

static redco_status add_name(struct chart *chart, const redco_json_value *event, redco_error *err)
{
    const json_t *args = json_object_get(event->json, "args");
    const char *what = text_of(event->json, "name");
    const json_int_t pid = id_of(event->json, "pid");
    const bool order = strcmp(what, "thread_sort_index") == 0;
    if (!order && strcmp(what, "thread_name") != 0) { return REDCO_OK; }
    struct row *row = row_of(chart, pid, id_of(event->json, "tid"));
    if (row == NULL) { return too_many_rows(event, err); }
    if (order) {
        row->order = json_integer_value(json_object_get(args, "sort_index"));
    } else {
        row->name = text_of(args, "name");
    }
    return REDCO_OK;
}

static void name_processes(struct chart *chart, const json_t *events)
{
    size_t index;
    const json_t *event;
    json_array_foreach((json_t *)events, index, event)
    {
        const json_t *args = json_object_get(event, "args");
        const char *what = text_of(event, "name");
        if (strcmp(text_of(event, "ph"), "M") != 0) { continue; }
        for (size_t i = 0; i < chart->row_count; i++) {
            struct row *row = &chart->rows[i];
            if (row->pid != id_of(event, "pid")) { continue; }
            if (strcmp(what, "process_name") == 0) { row->process = text_of(args, "name"); }
            if (strcmp(what, "process_sort_index") == 0) {
                row->process_order = json_integer_value(json_object_get(args, "sort_index"));
            }
        }
    }
}

static redco_status read_events(const redco_json_value *list, size_t count, struct chart *chart, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value event;
        if ((st = redco_json_element(list, i, &event, err)) != REDCO_OK) { break; }
        if (!json_is_object(event.json)) { return redco_json_fail(&event, NULL, err, "is not an event: an object"); }
        const char *phase = text_of(event.json, "ph");
        if (strcmp(phase, "X") == 0) {
            st = add_span(chart, &event, err);
        } else if (strcmp(phase, "C") == 0) {
            st = add_sample(chart, &event, err);
        } else if (strcmp(phase, "M") == 0) {
            st = add_name(chart, &event, err);
        }
    }
    if (st == REDCO_OK) { name_processes(chart, list->json); }
    return st;
}

static redco_status read_chart(const redco_json_value *root, struct chart *chart, redco_error *err)
{
    redco_json_value list = *root;
    size_t count = json_array_size(root->json);
    redco_status st = REDCO_OK;
    if (!json_is_array(root->json)) { st = redco_json_array(root, "traceEvents", &list, &count, err); }
    if (st != REDCO_OK) { return st; }
    if (count > MOST_EVENTS) {
        return redco_json_fail(&list, NULL, err, "holds %zu events: at most %d can be drawn", count, MOST_EVENTS);
    }
    chart->rows = calloc(MOST_ROWS, sizeof *chart->rows);
    chart->spans = calloc(count + 1, sizeof *chart->spans);
    chart->samples = calloc(count + 1, sizeof *chart->samples);
    if (chart->rows == NULL || chart->spans == NULL || chart->samples == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    st = read_events(&list, count, chart, err);
    if (st == REDCO_OK && chart->span_count == 0) {
        st = redco_json_fail(&list, NULL, err,
                             "holds no span (an event with \"ph\": \"X\"), so there is nothing to draw");
    }
    return st;
}

static int sign(double value)
{
    return value < 0.0 ? -1 : value > 0.0;
}

static int by_order(const void *left, const void *right)
{
    const struct row *a = left;
    const struct row *b = right;
    if (a->process_order != b->process_order) { return a->process_order < b->process_order ? -1 : 1; }
    if (a->pid != b->pid) { return a->pid < b->pid ? -1 : 1; }
    if (a->order != b->order) { return a->order < b->order ? -1 : 1; }
    return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* Along a row, what encloses before what is enclosed. */
static int by_start(const void *left, const void *right)
{
    const struct span *a = left;
    const struct span *b = right;
    if (a->row != b->row) { return a->row < b->row ? -1 : 1; }
    const int start = sign(a->start_s - b->start_s);
    return start != 0 ? start : sign(b->end_s - a->end_s);
}

static int by_time(const void *left, const void *right)
{
    const struct sample *a = left;
    const struct sample *b = right;
    if (a->counter != b->counter) { return a->counter < b->counter ? -1 : 1; }
    const int time = sign(a->at_s - b->at_s);
    return time != 0 ? time : (a->serial < b->serial ? -1 : 1);
}

/* Rows from the top, spans along them, how deep each is nested. Rows without a span are left out. */
static void arrange(struct chart *chart)
{
    double ends_s[MOST_DEPTH] = {0.0};
    size_t rows = 0;
    qsort(chart->rows, chart->row_count, sizeof *chart->rows, by_order);
    for (size_t i = 0; i < chart->row_count; i++) {
        if (chart->rows[i].spans > 0) { chart->rows[rows++] = chart->rows[i]; }
    }
    chart->row_count = rows;
    for (size_t i = 0; i < chart->span_count; i++) {
        struct span *span = &chart->spans[i];
        while (chart->rows[span->row].pid != span->pid || chart->rows[span->row].tid != span->tid) { span->row++; }
    }
    qsort(chart->spans, chart->span_count, sizeof *chart->spans, by_start);
    for (size_t i = 0; i < chart->span_count; i++) {
        struct span *span = &chart->spans[i];
        const bool first = i == 0 || span[-1].row != span->row;
        int depth = first ? 0 : span[-1].depth + 1;
        /* Times of a trace are rounded: what overlaps by less than a nanosecond does not. */
        while (depth > 0 && span->start_s >= ends_s[depth - 1] - 1e-9) { depth--; }
        span->depth = depth < MOST_DEPTH ? depth : MOST_DEPTH - 1;
        ends_s[span->depth] = span->end_s;
    }
    if (chart->sample_count > 0) { qsort(chart->samples, chart->sample_count, sizeof *chart->samples, by_time); }
}

struct window {
    double from_s, to_s;
};

static struct window window_of(const struct chart *chart, const struct plot_options *options)
{
    struct window all = {.from_s = INFINITY, .to_s = -INFINITY};
    for (size_t i = 0; i < chart->span_count; i++) {
        all.from_s = fmin(all.from_s, chart->spans[i].start_s);
        all.to_s = fmax(all.to_s, chart->spans[i].end_s);
    }
    if (options->to_s > 0.0) { all = (struct window){options->from_s, options->to_s}; }
    return all;
}

static bool inside(const struct span *span, struct window window)
{
    return span->end_s > window.from_s && span->start_s < window.to_s;
}

/* A box: row, from, to, depth; milliseconds from the left edge. */
static void write_box(FILE *out, const struct span *span, double end_s, struct window window)
{
    const double from_s = fmax(span->start_s, window.from_s) - window.from_s;
    const double to_s = fmin(end_s, window.to_s) - window.from_s;
    (void)fprintf(out, "%zu\t%.7g\t%.7g\t%d\n", span->row, 1e3 * from_s, 1e3 * to_s, span->depth);
}

/* Spans of one category; those that touch within a fraction of a pixel become one box. @return number of boxes */
static size_t write_boxes(FILE *out, const struct chart *chart, size_t category, struct window window)
{
    const double pixel_s = (window.to_s - window.from_s) / DRAWN;
    size_t boxes = 0;
    for (size_t i = 0; i < chart->span_count; i++) {
        const struct span *span = &chart->spans[i];
        double end_s = span->end_s;
        if (span->category != category || !inside(span, window)) { continue; }
        while (i + 1 < chart->span_count && end_s - span->start_s < pixel_s) {
            const struct span *next = &chart->spans[i + 1];
            if (next->row != span->row || next->category != category || next->depth != span->depth ||
                next->start_s > end_s + 0.2 * pixel_s) {
                break;
            }
            end_s = fmax(end_s, next->end_s);
            i++;
        }
        write_box(out, span, end_s, window);
        boxes++;
    }
    (void)fprintf(out, "\n\n");
    return boxes;
}

/* The whole name, or as much of its end as fits: what lies behind its first '/', or its last. NULL: nothing fits. */
static const char *label_of(const struct span *span, double width_s, double pixel_s)
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
static size_t write_labels(FILE *out, const struct chart *chart, struct window window)
{
    const double pixel_s = (window.to_s - window.from_s) / DRAWN;
    size_t labels = 0;
    (void)fprintf(out, "$labels << EOD\n");
    for (size_t i = 0; i < chart->span_count; i++) {
        const struct span *span = &chart->spans[i];
        const bool encloses = i + 1 < chart->span_count && span[1].row == span->row && span[1].depth > span->depth;
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

/* The steps of each counter, thinned to what a pixel can show: its highest and its last value. */
static void write_counters(FILE *out, const struct chart *chart, struct window window)
{
    const double pixel_s = (window.to_s - window.from_s) / DRAWN;
    (void)fprintf(out, "$counters << EOD\n");
    for (size_t c = 0; c < chart->counter_count; c++) {
        double column = -1.0;
        double highest = 0.0;
        double last = 0.0;
        for (size_t i = 0; i < chart->sample_count; i++) {
            const struct sample *sample = &chart->samples[i];
            if (sample->counter != c || sample->at_s > window.to_s) { continue; }
            const double now = fmax(0.0, floor((sample->at_s - window.from_s) / pixel_s));
            if (now > column && column >= 0.0) {
                (void)fprintf(out, "%.7g\t%.6g\n%.7g\t%.6g\n", 1e3 * column * pixel_s, highest * 1e-9,
                              1e3 * (column + 0.5) * pixel_s, last * 1e-9);
            }
            highest = now > column ? sample->bytes : fmax(highest, sample->bytes);
            last = sample->bytes;
            column = now;
        }
        (void)fprintf(out, "%.7g\t%.6g\n%.7g\t%.6g\n", 1e3 * fmax(column, 0.0) * pixel_s, highest * 1e-9,
                      1e3 * (window.to_s - window.from_s), last * 1e-9);
        (void)fprintf(out, "\n\n");
    }
    (void)fprintf(out, "EOD\n");
}

static void write_rows(FILE *out, const struct chart *chart)
{
    bool several = false;
    for (size_t i = 1; i < chart->row_count; i++) { several = several || chart->rows[i].pid != chart->rows[0].pid; }
    (void)fprintf(out, "rows = %zu\nset ytics (", chart->row_count);
    for (size_t i = 0; i < chart->row_count; i++) {
        const struct row *row = &chart->rows[i];
        char label[80];
        char thread[40];
        (void)snprintf(thread, sizeof thread, "thread %lld", (long long)row->tid);
        const char *name = row->name != NULL && row->name[0] != '\0' ? row->name : thread;
        if (several && row->process != NULL) {
            (void)snprintf(label, sizeof label, "%.20s: %.24s", row->process, name);
        } else {
            (void)snprintf(label, sizeof label, "%.26s", name);
        }
        (void)fprintf(out, "%s", i > 0 ? ", " : "");
        plot_tic(out, label);
        (void)fprintf(out, " %zu", i);
    }
    (void)fprintf(out, ")\n");
}

static redco_status write_chart(const struct chart *chart, struct window window, struct plot_sheet *sheet,
                                redco_error *err)
{
    FILE *out = sheet->text;
    size_t boxes[MOST_CATEGORIES];
    size_t all = 0;
    (void)fprintf(out, "$boxes << EOD\n");
    for (size_t i = 0; i < chart->category_count; i++) { all += boxes[i] = write_boxes(out, chart, i, window); }
    (void)fprintf(out, "EOD\n");
    if (all == 0) {
        return redco_fail(err, REDCO_EVALUE, "--window", "shows nothing: the trace has no span from %.4g s to %.4g s",
                          window.from_s, window.to_s);
    }
    const size_t labels = write_labels(out, chart, window);
    (void)fprintf(out, "labels = %zu\nspan = %.9g\nstart = %.9g\ncategories = %zu\narray category[categories + 1]\n",
                  labels, 1e3 * (window.to_s - window.from_s), 1e3 * window.from_s, chart->category_count);
    (void)fprintf(out, "array boxes[categories + 1]\n");
    for (size_t i = 0; i < chart->category_count; i++) {
        (void)fprintf(out, "boxes[%zu] = %zu; category[%zu] = ", i + 1, boxes[i], i + 1);
        plot_quote(out, chart->categories[i]);
        (void)fprintf(out, "\n");
    }
    write_rows(out, chart);
    write_counters(out, chart, window);
    (void)fprintf(out, "counters = %zu\narray counter[counters + 1]\n", chart->counter_count);
    for (size_t i = 0; i < chart->counter_count; i++) {
        (void)fprintf(out, "counter[%zu] = ", i + 1);
        plot_quote(out, chart->counters[i]);
        (void)fprintf(out, "\n");
    }
    return REDCO_OK;
}

redco_status plot_timeline(const redco_json_value *root, struct plot_sheet *sheet, redco_error *err)
{
    struct chart chart = {0};
    redco_status st = read_chart(root, &chart, err);
    if (st == REDCO_OK) {
        arrange(&chart);
        const struct window window = window_of(&chart, sheet->options);
        if (window.to_s > window.from_s) {
            plot_title(sheet, "Timeline of %.4g ms", 1e3 * (window.to_s - window.from_s));
            st = write_chart(&chart, window, sheet, err);
        } else {
            st = redco_json_fail(root, NULL, err, "all spans are empty: nothing to draw");
        }
    }
    const bool counters = chart.counter_count > 0;
    sheet->script = "timeline";
    sheet->width = WIDTH;
    sheet->height = 150 + 34 * (unsigned)chart.row_count + (counters ? 150 : 0);
    if (st == REDCO_OK) { (void)fprintf(sheet->text, "height = %u.0\n", sheet->height); }
    free(chart.rows);
    free(chart.spans);
    free(chart.samples);
    return st;
}
