/* A trace as Chrome trace-event JSON, one event a line, one json_t at a time: a step has some 10^4 events. */
#include "traces/trace_internal.h"

#include "topology/base/file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 15 };

/* Flows bind to the span around them: leave and enter a little inside. */
static const double flow_inset_ratio = 1e-3;

struct text {
    char *bytes;
    size_t size, capacity;
    bool failed;
};

static int append(const char *bytes, size_t size, void *context)
{
    struct text *const text = context;
    if (text->size + size + 1 > text->capacity) {
        const size_t capacity = 2 * (text->capacity + size) + 4096;
        char *const larger = realloc(text->bytes, capacity);
        if (larger == NULL) {
            text->failed = true;
            return -1;
        }
        text->bytes = larger;
        text->capacity = capacity;
    }
    memcpy(text->bytes + text->size, bytes, size);
    text->size += size;
    text->bytes[text->size] = '\0';
    return 0;
}

static void append_text(struct text *text, const char *string)
{
    if (!text->failed) { (void)append(string, strlen(string), text); }
}

/* Takes over @p event. */
static void append_event(struct text *text, json_t *event, bool *first)
{
    if (event == NULL) { text->failed = true; }
    append_text(text, *first ? "\n" : ",\n");
    *first = false;
    if (!text->failed && json_dump_callback(event, append, text, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS)) != 0) {
        text->failed = true;
    }
    json_decref(event);
}

/* Microseconds; a whole number of nanoseconds. */
static json_t *time_json(int64_t ns)
{
    return ns % 1000 == 0 ? json_integer(ns / 1000) : json_real((double)ns / 1000.0);
}

static json_t *number_json(double number)
{
    const bool whole = number >= -9e15 && number <= 9e15 && (double)(json_int_t)number >= number &&
                       (double)(json_int_t)number <= number;
    return whole ? json_integer((json_int_t)number) : json_real(number);
}

static json_t *args_json(const redco_trace *trace, uint32_t first, uint32_t count)
{
    const redco_trace_arg *const args = trace->args.items;
    json_t *const object = json_object();
    for (uint32_t i = first; i < first + count && object != NULL; i++) {
        json_t *const value = args[i].text != NULL ? json_string(args[i].text) : number_json(args[i].number);
        if (json_object_set_new(object, args[i].key, value) != 0) {
            json_decref(object);
            return NULL;
        }
    }
    return object;
}

/* One event to come. */
struct event {
    int64_t ns, end_ns;
    enum { SPAN, FLOW_OUT, FLOW_IN, COUNTER } kind;
    uint32_t index;
};

/* By time; spans before what binds to them, the longer first, but for those that are over at once. */
static int compare_events(const void *a, const void *b)
{
    const struct event *const x = a, *const y = b;
    if (x->ns != y->ns) { return x->ns < y->ns ? -1 : 1; }
    if (x->kind != y->kind) { return (int)x->kind < (int)y->kind ? -1 : 1; }
    const bool x_empty = x->end_ns == x->ns, y_empty = y->end_ns == y->ns;
    if (x_empty != y_empty) { return x_empty ? -1 : 1; }
    if (x->end_ns != y->end_ns) { return x->end_ns > y->end_ns ? -1 : 1; }
    return (x->index > y->index) - (x->index < y->index);
}

static uint32_t list_events(const redco_trace *trace, struct event *events)
{
    const redco_trace_span *const spans = trace->spans.items;
    uint32_t flow_count = 0, count = 0;
    const redco_trace_flow *const flows = redco_trace_flows(trace, &flow_count);
    const redco_trace_counter *const counters = trace->counters.items;
    for (uint32_t i = 0; i < trace->spans.count; i++) {
        events[count++] = (struct event){redcoi_trace_ns(spans[i].start_s),
                                         redcoi_trace_ns(spans[i].start_s + spans[i].duration_s), SPAN, i};
    }
    for (uint32_t i = 0; i < flow_count; i++) {
        const redco_trace_span *const from = &spans[flows[i].from], *const to = &spans[flows[i].to];
        const int64_t start = redcoi_trace_ns(from->start_s), end = redcoi_trace_ns(from->start_s + from->duration_s);
        const int64_t entry = redcoi_trace_ns(to->start_s), exit = redcoi_trace_ns(to->start_s + to->duration_s);
        if (end <= start || exit <= entry) { continue; }
        int64_t leave = end - 1 - (int64_t)(flow_inset_ratio * (double)(end - start));
        if (leave < start) { leave = start; }
        if (leave > entry) { leave = entry; } /* it starts while the other still runs */
        events[count++] = (struct event){leave, leave, FLOW_OUT, i};
        events[count++] = (struct event){entry, entry, FLOW_IN, i};
    }
    for (uint32_t i = 0; i < trace->counters.count; i++) {
        const int64_t ns = redcoi_trace_ns(counters[i].time_s);
        events[count++] = (struct event){ns, ns, COUNTER, i};
    }
    qsort(events, count, sizeof *events, compare_events);
    return count;
}

static json_t *event_json(const redco_trace *trace, const struct event *e)
{
    const redco_trace_span *const spans = trace->spans.items;
    const redco_trace_flow *const flows = trace->flows.items;
    const redco_trace_counter *const counters = trace->counters.items;
    switch (e->kind) {
    case SPAN: {
        const redco_trace_span *const s = &spans[e->index];
        return json_pack("{s:s,s:I,s:I,s:o,s:o,s:s,s:s,s:o}", "ph", "X", "pid", (json_int_t)s->process, "tid",
                         (json_int_t)s->thread, "ts", time_json(e->ns), "dur", time_json(e->end_ns - e->ns), "name",
                         s->name, "cat", s->category, "args", args_json(trace, s->first_arg, s->arg_count));
    }
    case FLOW_OUT:
    case FLOW_IN: {
        const redco_trace_flow *const f = &flows[e->index];
        const redco_trace_span *const s = &spans[e->kind == FLOW_OUT ? f->from : f->to];
        json_t *const json = json_pack("{s:s,s:I,s:I,s:o,s:I,s:s,s:s}", "ph", e->kind == FLOW_OUT ? "s" : "f", "pid",
                                       (json_int_t)s->process, "tid", (json_int_t)s->thread, "ts", time_json(e->ns),
                                       "id", (json_int_t)e->index + 1, "name", f->name, "cat", "flow");
        if (e->kind == FLOW_IN && json_object_set_new(json, "bp", json_string("e")) != 0) {
            json_decref(json);
            return NULL;
        }
        return json;
    }
    case COUNTER: {
        const redco_trace_counter *const c = &counters[e->index];
        return json_pack("{s:s,s:I,s:o,s:s,s:o}", "ph", "C", "pid", (json_int_t)c->process, "ts", time_json(e->ns),
                         "name", c->name, "args", args_json(trace, c->first_arg, c->arg_count));
    }
    }
    return NULL;
}

static void append_names(struct text *text, const redco_trace *trace, bool *first)
{
    const redco_trace_thread *const processes = trace->processes.items, *const threads = trace->threads.items;
    for (uint32_t i = 0; i < trace->processes.count; i++) {
        append_event(text,
                     json_pack("{s:s,s:I,s:s,s:{s:s}}", "ph", "M", "pid", (json_int_t)processes[i].process, "name",
                               "process_name", "args", "name", processes[i].name),
                     first);
        append_event(text,
                     json_pack("{s:s,s:I,s:s,s:{s:I}}", "ph", "M", "pid", (json_int_t)processes[i].process, "name",
                               "process_sort_index", "args", "sort_index", (json_int_t)processes[i].process),
                     first);
    }
    for (uint32_t i = 0; i < trace->threads.count; i++) {
        const redco_trace_thread *const t = &threads[i];
        append_event(text,
                     json_pack("{s:s,s:I,s:I,s:s,s:{s:s}}", "ph", "M", "pid", (json_int_t)t->process, "tid",
                               (json_int_t)t->thread, "name", "thread_name", "args", "name", t->name),
                     first);
        append_event(text,
                     json_pack("{s:s,s:I,s:I,s:s,s:{s:I}}", "ph", "M", "pid", (json_int_t)t->process, "tid",
                               (json_int_t)t->thread, "name", "thread_sort_index", "args", "sort_index",
                               (json_int_t)t->thread),
                     first);
    }
}

static void append_notes(struct text *text, const redco_trace *trace)
{
    const redcoi_trace_note *const notes = trace->notes.items;
    json_t *const object = json_object();
    for (uint32_t i = 0; i < trace->notes.count && object != NULL; i++) {
        if (json_object_set_new(object, notes[i].key, json_string(notes[i].text)) != 0) { text->failed = true; }
    }
    bool first = true;
    append_text(text, "\n],\n\"displayTimeUnit\":\"ms\",\n\"otherData\":");
    if (object != NULL) {
        append_event(text, object, &first);
    } else {
        text->failed = true;
    }
    append_text(text, "}\n");
}

redco_status redco_trace_text(const redco_trace *trace, char **text_out, size_t *size_out, redco_error *err)
{
    struct text text = {NULL, 0, 0, false};
    bool first = true;
    const size_t most = (size_t)trace->spans.count + 2 * (size_t)trace->flows.count + trace->counters.count;
    struct event *events = NULL;
    redco_status st = redco_trace_check(trace, err);
    if (st != REDCO_OK) { return st; }
    events = malloc((most > 0 ? most : 1) * sizeof *events);
    if (events == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const uint32_t count = list_events(trace, events);
    append_text(&text, "{\"traceEvents\":[");
    append_names(&text, trace, &first);
    for (uint32_t i = 0; i < count && !text.failed; i++) { append_event(&text, event_json(trace, &events[i]), &first); }
    append_notes(&text, trace);
    free(events);
    if (text.failed) {
        free(text.bytes);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    *text_out = text.bytes;
    *size_out = text.size;
    return REDCO_OK;
}

redco_status redco_trace_write(const redco_trace *trace, const char *path, redco_error *err)
{
    char *text = NULL;
    size_t size = 0;
    redco_status st = redco_trace_text(trace, &text, &size, err);
    if (st == REDCO_OK) { st = redco_file_write(path, text, size, err); }
    free(text);
    return st;
}
