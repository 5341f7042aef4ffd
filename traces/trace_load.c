/* Traces of any origin: what cannot be used is counted instead of refused. */
#include "traces/trace_internal.h"
#include "traces/trace_source.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t most_events = UINT64_C(20000000);
/* Microseconds since 1970 are some 2e15; ten years are 3e14. */
static const double farthest_us = 1e17, longest_us = 3e14;

/* One end of a span that two events make. */
struct mark {
    uint32_t process, thread, span, order; /* span: of a begin */
    double time_s;
    bool begins;
};

struct loader {
    redco_trace *trace;
    const char *const *args;
    redco_trace_load_report report;
    struct mark *marks;
    size_t mark_count, mark_capacity;
    const redcoi_trace_sink *sink; /* takes events and notes where trace is NULL */
    const char *list;              /* its pointer, as redcoi_trace_each() has it */
};

static const double unfinished_s = -1.0;

static void ignore(struct loader *loader, const char *what)
{
    if (loader->report.ignored++ > 0) { return; }
    (void)snprintf(loader->report.first, sizeof loader->report.first, "event %llu, which %s",
                   (unsigned long long)loader->report.events, what);
}

static bool number_of(const json_t *event, const char *key, double least, double most, double *out)
{
    const json_t *const value = json_object_get(event, key);
    *out = json_is_number(value) ? json_number_value(value) : (double)NAN;
    return *out >= least && *out <= most;
}

static bool id_of(const json_t *event, const char *key, uint32_t *out)
{
    const json_t *const value = json_object_get(event, key);
    const json_int_t id = json_is_integer(value) ? json_integer_value(value) : -1;
    if (id < 0 || id > INT32_MAX) { return false; }
    *out = (uint32_t)id;
    return true;
}

static bool wanted(const struct loader *loader, const char *key)
{
    if (loader->args == NULL) { return true; }
    for (size_t i = 0; loader->args[i] != NULL; i++) {
        if (strcmp(loader->args[i], key) == 0) { return true; }
    }
    return false;
}

static void read_args(struct loader *loader, const json_t *event, bool all)
{
    const json_t *const args = json_object_get(event, "args");
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)args, key, value)
    {
        if (!all && !wanted(loader, key)) { continue; }
        if (json_is_string(value)) { redco_trace_add_arg(loader->trace, key, json_string_value(value), 0.0); }
        if (json_is_number(value) && isfinite(json_number_value(value))) {
            redco_trace_add_arg(loader->trace, key, NULL, json_number_value(value));
        }
    }
}

static const char *text_of(const json_t *event, const char *key)
{
    const json_t *const value = json_object_get(event, key);
    return json_is_string(value) ? json_string_value(value) : "";
}

static void add_mark(struct loader *loader, struct mark mark)
{
    if (loader->mark_count == loader->mark_capacity) {
        const size_t capacity = 2 * loader->mark_capacity + 256;
        struct mark *const larger = realloc(loader->marks, capacity * sizeof *larger);
        if (larger == NULL) {
            loader->trace->failed = true;
            return;
        }
        loader->marks = larger;
        loader->mark_capacity = capacity;
    }
    mark.order = (uint32_t)loader->mark_count;
    loader->marks[loader->mark_count++] = mark;
}

/* "X", "B" and "E". */
static void read_span(struct loader *loader, const json_t *event, char phase)
{
    redco_trace_span span = {.name = text_of(event, "name"), .category = text_of(event, "cat")};
    double start_us = 0.0, duration_us = 1e6 * unfinished_s;
    if (!id_of(event, "pid", &span.process) || !id_of(event, "tid", &span.thread)) {
        ignore(loader, "has no \"pid\" and \"tid\" that are numbers from 0 on");
        return;
    }
    if (!number_of(event, "ts", -farthest_us, farthest_us, &start_us)) {
        ignore(loader, "has no usable \"ts\"");
        return;
    }
    if (phase == 'X' && !number_of(event, "dur", 0.0, longest_us, &duration_us)) {
        ignore(loader, "has no usable \"dur\"");
        return;
    }
    span.start_s = 1e-6 * start_us;
    span.duration_s = phase == 'X' ? 1e-6 * duration_us : unfinished_s;
    struct mark mark = {.process = span.process, .thread = span.thread, .time_s = span.start_s, .begins = phase == 'B'};
    if (phase != 'E') {
        mark.span = redco_trace_add_span(loader->trace, &span);
        read_args(loader, event, false);
    }
    if (phase != 'X') { add_mark(loader, mark); }
}

static void read_counter(struct loader *loader, const json_t *event)
{
    uint32_t process = 0;
    double time_us = 0.0;
    if (!id_of(event, "pid", &process) || !number_of(event, "ts", -farthest_us, farthest_us, &time_us)) {
        ignore(loader, "is a counter without usable \"pid\" and \"ts\"");
        return;
    }
    redco_trace_add_counter(loader->trace, text_of(event, "name"), process, 1e-6 * time_us);
    read_args(loader, event, true);
}

static void read_name(struct loader *loader, const json_t *event)
{
    const char *const kind = text_of(event, "name"), *const name = text_of(json_object_get(event, "args"), "name");
    uint32_t process = 0, thread = 0;
    if (name[0] == '\0' || !id_of(event, "pid", &process)) { return; }
    if (strcmp(kind, "process_name") == 0) { redco_trace_add_process(loader->trace, process, name); }
    if (strcmp(kind, "thread_name") == 0 && id_of(event, "tid", &thread)) {
        redco_trace_add_thread(loader->trace, process, thread, name);
    }
}

static void read_event(struct loader *loader, const json_t *event)
{
    const char *const phase = text_of(event, "ph");
    if (!json_is_object(event) || phase[0] == '\0' || phase[1] != '\0') {
        ignore(loader, "has no \"ph\"");
    } else if (phase[0] == 'X' || phase[0] == 'B' || phase[0] == 'E') {
        read_span(loader, event, phase[0]);
    } else if (phase[0] == 'C') {
        read_counter(loader, event);
    } else if (phase[0] == 'M') {
        read_name(loader, event);
    }
    loader->report.events++;
}

static void read_notes(struct loader *loader, const json_t *notes)
{
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)notes, key, value)
    {
        if (json_is_string(value)) { redco_trace_add_note(loader->trace, key, json_string_value(value)); }
    }
}

static redco_status out_of_memory(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

static int compare_marks(const void *a, const void *b)
{
    const struct mark *const x = a, *const y = b;
    if (x->process != y->process) { return x->process < y->process ? -1 : 1; }
    if (x->thread != y->thread) { return x->thread < y->thread ? -1 : 1; }
    if (x->time_s < y->time_s || x->time_s > y->time_s) { return x->time_s < y->time_s ? -1 : 1; }
    return x->order < y->order ? -1 : 1;
}

/* Each end closes what was opened last on its thread. Places of open ones are kept where closed ones were. */
static void pair_marks(struct loader *loader)
{
    redco_trace_span *const spans = loader->trace->spans.items;
    struct mark *const marks = loader->marks;
    size_t open = 0;
    if (loader->mark_count == 0) { return; }
    qsort(marks, loader->mark_count, sizeof *marks, compare_marks);
    for (size_t i = 0; i < loader->mark_count; i++) {
        const struct mark mark = marks[i];
        const bool mate = open > 0 && marks[open - 1].process == mark.process && marks[open - 1].thread == mark.thread;
        if (mark.begins) {
            marks[open++] = mark;
        } else if (mate) {
            const struct mark *const begin = &marks[--open];
            spans[begin->span].duration_s = mark.time_s - begin->time_s;
        } else {
            loader->report.unpaired++;
        }
    }
    loader->report.unpaired += open;
}

static int compare_spans(const void *a, const void *b)
{
    const redco_trace_span *const x = *(redco_trace_span *const *)a, *const y = *(redco_trace_span *const *)b;
    if (x->process != y->process) { return x->process < y->process ? -1 : 1; }
    if (x->thread != y->thread) { return x->thread < y->thread ? -1 : 1; }
    if (x->start_s < y->start_s || x->start_s > y->start_s) { return x->start_s < y->start_s ? -1 : 1; }
    if (x->duration_s < y->duration_s || x->duration_s > y->duration_s) {
        return x->duration_s < y->duration_s ? -1 : 1;
    }
    if (x->name != y->name) { return strcmp(x->name, y->name); }
    return x < y ? -1 : x > y;
}

/* A thread does not do the same twice at the same time. */
static redco_status find_duplicates(struct loader *loader, redco_error *err)
{
    redco_trace_span *const spans = loader->trace->spans.items;
    const uint32_t count = loader->trace->spans.count;
    redco_trace_span **const sorted = malloc(((size_t)count + 1) * sizeof *sorted);
    if (sorted == NULL) { return out_of_memory(err); }
    for (uint32_t i = 0; i < count; i++) { sorted[i] = &spans[i]; }
    qsort(sorted, count, sizeof *sorted, compare_spans);
    for (uint32_t i = count; i > 1; i--) { /* the first of each stays */
        const redco_trace_span *const before = sorted[i - 2];
        redco_trace_span *const span = sorted[i - 1];
        if (span->process != before->process || span->thread != before->thread || span->name != before->name ||
            span->start_s > before->start_s || !(span->duration_s > 0.0) || span->duration_s > before->duration_s) {
            continue;
        }
        span->duration_s = unfinished_s;
        loader->report.duplicates++;
    }
    free(sorted);
    return REDCO_OK;
}

static void drop_unfinished(redco_trace *trace)
{
    redco_trace_span *const spans = trace->spans.items;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < trace->spans.count; i++) {
        if (spans[i].duration_s >= 0.0) { spans[kept++] = spans[i]; }
    }
    trace->spans.count = kept;
}

static redco_status conclude(struct loader *loader, redco_status st, redco_trace **trace_out,
                             redco_trace_load_report *report_out, redco_error *err)
{
    if (st == REDCO_OK && !loader->trace->failed) {
        pair_marks(loader);
        st = find_duplicates(loader, err);
    }
    if (st == REDCO_OK && loader->trace->failed) { st = out_of_memory(err); }
    free(loader->marks);
    if (st != REDCO_OK) {
        redco_trace_free(loader->trace);
        return st;
    }
    drop_unfinished(loader->trace);
    *trace_out = loader->trace;
    *report_out = loader->report;
    return REDCO_OK;
}

/* Hands an event to the one who wants it, or to the trace. */
static redco_status take_event(struct loader *loader, const redcoi_source *source, const json_t *event,
                               redco_error *err)
{
    redco_json_value value = {.name = source->name, .json = event};
    if (loader->trace != NULL) {
        read_event(loader, event);
        return loader->trace->failed ? out_of_memory(err) : REDCO_OK;
    }
    (void)snprintf(value.pointer, sizeof value.pointer, "%s/%llu", loader->list,
                   (unsigned long long)loader->report.events);
    return loader->sink->event(loader->sink->context, &value, (uint32_t)loader->report.events++, err);
}

/* The list that stands at the source. A bare one may lack its end, as Chrome writes it. */
static redco_status read_list(struct loader *loader, redcoi_source *source, bool bare, redco_error *err)
{
    char next = '\0';
    redco_status st = REDCO_OK;
    loader->list = bare ? "" : "/traceEvents";
    redcoi_source_step(source);
    for (;;) {
        json_t *event = NULL;
        if ((st = redcoi_source_peek(source, &next, err)) != REDCO_OK) { return st; }
        if (next == ']' || (next == '\0' && bare)) { break; }
        if (next == '\0') { return redcoi_source_fail(source, err, "the list of events is cut off"); }
        if (next == ',' && loader->report.events > 0) {
            redcoi_source_step(source);
            continue;
        }
        if (loader->report.events == most_events) {
            return redcoi_source_fail(source, err, "more than %llu events; trace fewer steps or ranks",
                                      (unsigned long long)most_events);
        }
        if ((st = redcoi_source_value(source, &event, err)) != REDCO_OK) { return st; }
        st = take_event(loader, source, event, err);
        json_decref(event);
        if (st != REDCO_OK) { return st; }
    }
    if (next == ']') { redcoi_source_step(source); }
    return REDCO_OK;
}

static redco_status read_member(struct loader *loader, redcoi_source *source, bool *found, redco_error *err)
{
    char next = '\0';
    json_t *key = NULL, *notes = NULL;
    redco_status st = redcoi_source_value(source, &key, err);
    if (st != REDCO_OK || (st = redcoi_source_peek(source, &next, err)) != REDCO_OK) { goto out; }
    if (!json_is_string(key) || next != ':') {
        st = redcoi_source_fail(source, err, "not valid JSON: a text and ':' are needed");
        goto out;
    }
    redcoi_source_step(source);
    if ((st = redcoi_source_peek(source, &next, err)) != REDCO_OK) { goto out; }
    if (strcmp(json_string_value(key), "traceEvents") == 0 && *found) {
        st = redcoi_source_fail(source, err, "\"traceEvents\" is there twice");
    } else if (strcmp(json_string_value(key), "traceEvents") == 0 && next == '[') {
        *found = true;
        st = read_list(loader, source, false, err);
    } else if (strcmp(json_string_value(key), "otherData") == 0) {
        st = redcoi_source_value(source, &notes, err);
        if (st == REDCO_OK && loader->trace != NULL) {
            read_notes(loader, notes);
        } else if (st == REDCO_OK) {
            loader->sink->notes(loader->sink->context, notes);
        }
    } else {
        st = redcoi_source_skip(source, err);
    }
out:
    json_decref(key);
    json_decref(notes);
    return st;
}

/* The rest would not be read: two traces in one file, or a run that was written over a longer one. */
static redco_status check_end(redcoi_source *source, redco_error *err)
{
    char next = '\0';
    const redco_status st = redcoi_source_peek(source, &next, err);
    if (st != REDCO_OK || (next == '\0' && source->at == source->size)) { return st; }
    return redcoi_source_fail(source, err, "text behind the end of the trace; a file holds one");
}

static redco_status read_root(struct loader *loader, redcoi_source *source, redco_error *err)
{
    static const char gzip[] = "\x1f\x8b";
    char next = '\0';
    bool found = false;
    redco_status st = redcoi_source_peek(source, &next, err);
    if (st != REDCO_OK) { return st; }
    if (next == gzip[0]) { return redco_fail(err, REDCO_EVALUE, source->name, "is compressed; gunzip it first"); }
    if (next == '[') {
        st = read_list(loader, source, true, err);
        return st == REDCO_OK ? check_end(source, err) : st;
    }
    if (next == '{') { redcoi_source_step(source); }
    while (next == '{' || next == ',') {
        if ((st = redcoi_source_peek(source, &next, err)) != REDCO_OK) { return st; }
        if (next == '}') { break; }
        if ((st = read_member(loader, source, &found, err)) != REDCO_OK ||
            (st = redcoi_source_peek(source, &next, err)) != REDCO_OK) {
            return st;
        }
        if (next != ',' && next != '}') {
            return redcoi_source_fail(source, err, "not valid JSON: ',' or '}' is needed");
        }
        if (next == ',') { redcoi_source_step(source); }
    }
    if (next == '}') { redcoi_source_step(source); }
    if (found) { return check_end(source, err); }
    return redco_fail(err, REDCO_EVALUE, source->name,
                      "is no trace: a list of Chrome's trace events, or an object with such a list as \"traceEvents\", "
                      "is needed");
}

static redco_status load(redcoi_source *source, const char *const *args, redco_trace **trace_out,
                         redco_trace_load_report *report_out, redco_error *err)
{
    struct loader loader = {.trace = redco_trace_new(), .args = args};
    if (loader.trace == NULL) { return out_of_memory(err); }
    return conclude(&loader, read_root(&loader, source, err), trace_out, report_out, err);
}

redco_status redco_trace_load(const char *path, const char *const *args, redco_trace **trace_out,
                              redco_trace_load_report *report_out, redco_error *err)
{
    redcoi_source source;
    redco_status st = redcoi_source_open(&source, path, err);
    if (st == REDCO_OK) { st = load(&source, args, trace_out, report_out, err); }
    redcoi_source_close(&source);
    return st;
}

redco_status redco_trace_import(const redco_json_value *root, const char *const *args, redco_trace **trace_out,
                                redco_trace_load_report *report_out, redco_error *err)
{
    struct loader loader = {.trace = redco_trace_new(), .args = args};
    const json_t *const events = json_is_array(root->json) ? root->json : json_object_get(root->json, "traceEvents");
    redco_status st = REDCO_OK;
    if (loader.trace == NULL) { return out_of_memory(err); }
    if (!json_is_array(events)) { st = redco_json_fail(root, NULL, err, "is no trace: it has no \"traceEvents\""); }
    for (size_t i = 0; st == REDCO_OK && i < json_array_size(events); i++) {
        read_event(&loader, json_array_get(events, i));
    }
    if (st == REDCO_OK) { read_notes(&loader, json_object_get(root->json, "otherData")); }
    return conclude(&loader, st, trace_out, report_out, err);
}

redco_status redcoi_trace_each(const char *path, const redcoi_trace_sink *sink, const char **list_out, redco_error *err)
{
    struct loader loader = {.sink = sink, .list = ""};
    redcoi_source source;
    redco_status st = redcoi_source_open(&source, path, err);
    if (st == REDCO_OK) { st = read_root(&loader, &source, err); }
    redcoi_source_close(&source);
    *list_out = loader.list;
    return st;
}
