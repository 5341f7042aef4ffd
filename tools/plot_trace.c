/* Chrome's trace-event JSON ("Trace Event Format", 2016), as Perfetto reads it: times in microseconds. */
#include "tools/plot_trace.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 5000000, MOST_DEPTH = 3 };
static const double most_us = 1e15;

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));
    return text != NULL ? text : "";
}

static json_int_t id_of(const json_t *event, const char *key)
{
    return json_integer_value(json_object_get(event, key));
}

static struct trace_row *row_of(struct trace *trace, json_int_t pid, json_int_t tid)
{
    for (size_t i = 0; i < trace->row_count; i++) {
        if (trace->rows[i].pid == pid && trace->rows[i].tid == tid) { return &trace->rows[i]; }
    }
    if (trace->row_count == TRACE_ROWS) { return NULL; }
    trace->rows[trace->row_count] = (struct trace_row){.pid = pid, .tid = tid, .order = tid, .process_order = pid};
    return &trace->rows[trace->row_count++];
}

static redco_status too_many_rows(const redco_json_value *event, redco_error *err)
{
    return redco_json_fail(event, NULL, err, "is in thread %d: at most %d can be drawn", TRACE_ROWS + 1, TRACE_ROWS);
}

static redco_status add_span(struct trace *trace, const redco_json_value *event, redco_error *err)
{
    double start = 0.0;
    double duration = 0.0;
    redco_status st = redco_json_number(event, "ts", -most_us, most_us, &start, err);
    if (st == REDCO_OK) { st = redco_json_number(event, "dur", 0.0, most_us, &duration, err); }
    if (st != REDCO_OK) { return st; }
    struct trace_row *row = row_of(trace, id_of(event->json, "pid"), id_of(event->json, "tid"));
    if (row == NULL) { return too_many_rows(event, err); }
    row->spans++;
    trace->spans[trace->span_count++] = (struct trace_span){.pid = row->pid,
                                                            .tid = row->tid,
                                                            .start_s = start * 1e-6,
                                                            .end_s = (start + duration) * 1e-6,
                                                            .name = text_of(event->json, "name"),
                                                            .category_name = text_of(event->json, "cat")};
    return REDCO_OK;
}

/* The last part takes what has no place of its own. */
static size_t part_of(struct trace *trace, const char *name)
{
    size_t i = 0;
    while (i < trace->part_count && strcmp(trace->parts[i], name) != 0) { i++; }
    if (i == trace->part_count && i < TRACE_PARTS) { trace->parts[trace->part_count++] = name; }
    return i < TRACE_PARTS ? i : TRACE_PARTS - 1;
}

/* Counters named "memory" are drawn, others are not. */
static redco_status add_memory(struct trace *trace, const redco_json_value *event, redco_error *err)
{
    struct trace_memory *memory = &trace->memory[trace->memory_count];
    double at = 0.0;
    const char *part;
    json_t *bytes;
    if (strcmp(text_of(event->json, "name"), "memory") != 0) { return REDCO_OK; }
    const redco_status st = redco_json_number(event, "ts", -most_us, most_us, &at, err);
    if (st != REDCO_OK) { return st; }
    *memory = (struct trace_memory){.pid = id_of(event->json, "pid"), .at_s = at * 1e-6, .serial = trace->memory_count};
    json_object_foreach(json_object_get(event->json, "args"), part, bytes)
    {
        if (!json_is_number(bytes)) { continue; }
        memory->bytes[part_of(trace, part)] += json_number_value(bytes);
    }
    trace->memory_count++;
    return REDCO_OK;
}

static redco_status add_name(struct trace *trace, const redco_json_value *event, redco_error *err)
{
    const json_t *args = json_object_get(event->json, "args");
    const char *what = text_of(event->json, "name");
    const bool order = strcmp(what, "thread_sort_index") == 0;
    if (!order && strcmp(what, "thread_name") != 0) { return REDCO_OK; }
    struct trace_row *row = row_of(trace, id_of(event->json, "pid"), id_of(event->json, "tid"));
    if (row == NULL) { return too_many_rows(event, err); }
    if (order) {
        row->order = json_integer_value(json_object_get(args, "sort_index"));
    } else {
        row->name = text_of(args, "name");
    }
    return REDCO_OK;
}

static void name_processes(struct trace *trace, const json_t *events, size_t count)
{
    for (size_t index = 0; index < count; index++) {
        const json_t *event = json_array_get(events, index);
        const json_t *args = json_object_get(event, "args");
        const char *what = text_of(event, "name");
        if (strcmp(text_of(event, "ph"), "M") != 0) { continue; }
        for (size_t i = 0; i < trace->row_count; i++) {
            struct trace_row *row = &trace->rows[i];
            if (row->pid != id_of(event, "pid")) { continue; }
            if (strcmp(what, "process_name") == 0) { row->process = text_of(args, "name"); }
            if (strcmp(what, "process_sort_index") == 0) {
                row->process_order = json_integer_value(json_object_get(args, "sort_index"));
            }
        }
    }
}

static redco_status read_events(const redco_json_value *list, size_t count, struct trace *trace, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_json_value event;
        if ((st = redco_json_element(list, i, &event, err)) != REDCO_OK) { break; }
        if (!json_is_object(event.json)) { return redco_json_fail(&event, NULL, err, "is not an event: an object"); }
        const char *phase = text_of(event.json, "ph");
        if (strcmp(phase, "X") == 0) {
            st = add_span(trace, &event, err);
        } else if (strcmp(phase, "C") == 0) {
            st = add_memory(trace, &event, err);
        } else if (strcmp(phase, "M") == 0) {
            st = add_name(trace, &event, err);
        }
    }
    if (st == REDCO_OK) { name_processes(trace, list->json, count); }
    return st;
}

static int sign(double value)
{
    return value < 0.0 ? -1 : value > 0.0;
}

static int by_order(const void *left, const void *right)
{
    const struct trace_row *a = left;
    const struct trace_row *b = right;
    if (a->process_order != b->process_order) { return a->process_order < b->process_order ? -1 : 1; }
    if (a->pid != b->pid) { return a->pid < b->pid ? -1 : 1; }
    if (a->order != b->order) { return a->order < b->order ? -1 : 1; }
    return a->tid < b->tid ? -1 : a->tid > b->tid;
}

/* Along a row, what encloses before what is enclosed. */
static int by_start(const void *left, const void *right)
{
    const struct trace_span *a = left;
    const struct trace_span *b = right;
    if (a->row != b->row) { return a->row < b->row ? -1 : 1; }
    const int start = sign(a->start_s - b->start_s);
    return start != 0 ? start : sign(b->end_s - a->end_s);
}

static int by_time(const void *left, const void *right)
{
    const struct trace_memory *a = left;
    const struct trace_memory *b = right;
    if (a->pid != b->pid) { return a->pid < b->pid ? -1 : 1; }
    const int time = sign(a->at_s - b->at_s);
    return time != 0 ? time : (a->serial < b->serial ? -1 : 1);
}

static size_t category_of(struct trace *trace, const char *name)
{
    const char *word = name[0] != '\0' ? name : "other";
    size_t i = 0;
    while (i < trace->category_count && strcmp(trace->categories[i], word) != 0) { i++; }
    if (i == trace->category_count && i < TRACE_CATEGORIES) { trace->categories[trace->category_count++] = word; }
    return i < TRACE_CATEGORIES ? i : TRACE_CATEGORIES - 1;
}

static void arrange(struct trace *trace)
{
    double ends_s[MOST_DEPTH] = {0.0};
    size_t rows = 0;
    qsort(trace->rows, trace->row_count, sizeof *trace->rows, by_order);
    for (size_t i = 0; i < trace->row_count; i++) {
        if (trace->rows[i].spans > 0) { trace->rows[rows++] = trace->rows[i]; }
    }
    trace->row_count = rows;
    for (size_t i = 0; i < trace->span_count; i++) {
        struct trace_span *span = &trace->spans[i];
        while (trace->rows[span->row].pid != span->pid || trace->rows[span->row].tid != span->tid) { span->row++; }
    }
    qsort(trace->spans, trace->span_count, sizeof *trace->spans, by_start);
    for (size_t i = 0; i < trace->span_count; i++) {
        struct trace_span *span = &trace->spans[i];
        const bool first = i == 0 || span[-1].row != span->row;
        int depth = first ? 0 : span[-1].depth + 1;
        if (depth >= MOST_DEPTH) { depth = MOST_DEPTH - 1; }
        /* Times of a trace are rounded: what overlaps by less than a nanosecond does not. */
        while (depth > 0 && span->start_s >= ends_s[depth - 1] - 1e-9) { depth--; }
        span->depth = depth;
        ends_s[depth] = span->end_s;
        span->category = category_of(trace, span->category_name);
    }
    if (trace->memory_count > 0) { qsort(trace->memory, trace->memory_count, sizeof *trace->memory, by_time); }
}

redco_status trace_load(const redco_json_value *root, struct trace *trace_out, redco_error *err)
{
    redco_json_value list = *root;
    size_t count = json_array_size(root->json);
    redco_status st = REDCO_OK;
    if (!json_is_array(root->json)) { st = redco_json_array(root, "traceEvents", &list, &count, err); }
    if (st != REDCO_OK) { return st; }
    if (count > MOST_EVENTS) {
        return redco_json_fail(&list, NULL, err, "holds %zu events: at most %d can be drawn", count, MOST_EVENTS);
    }
    trace_out->rows = calloc(TRACE_ROWS, sizeof *trace_out->rows);
    trace_out->spans = calloc(count + 1, sizeof *trace_out->spans);
    trace_out->memory = calloc(count + 1, sizeof *trace_out->memory);
    if (trace_out->rows == NULL || trace_out->spans == NULL || trace_out->memory == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    st = read_events(&list, count, trace_out, err);
    if (st == REDCO_OK && trace_out->span_count == 0) {
        st = redco_json_fail(&list, NULL, err, "holds no span (an event whose \"ph\" is \"X\"): nothing to draw");
    }
    if (st == REDCO_OK) { arrange(trace_out); }
    return st;
}

void trace_clear(struct trace *trace)
{
    free(trace->rows);
    free(trace->spans);
    free(trace->memory);
    *trace = (struct trace){0};
}
