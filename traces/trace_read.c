/* Chrome trace-event JSON to a trace. Flows are matched by category, name and id, and bound to the spans they lie in.
 */
#include "traces/trace_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Microseconds in files. */
static const double longest_us = 3e14;

/* One end of a flow as it stands in the file. */
struct flow_end {
    const char *category, *name, *id; /* kept texts: equal pointers are equal texts */
    uint32_t process, thread;
    double time_s;
    uint32_t order; /* in the file */
    bool start;
};

struct reader {
    redco_trace *trace;
    struct flow_end *ends;
    size_t end_count, end_capacity;
    bool bare; /* spans without what they say about themselves */
};

static redco_status read_ids(const redco_json_value *event, uint32_t *process, uint32_t *thread, redco_error *err)
{
    redco_status st = redco_json_u32(event, "pid", 0, INT32_MAX, process, err);
    if (st == REDCO_OK && thread != NULL) { st = redco_json_u32(event, "tid", 0, INT32_MAX, thread, err); }
    return st;
}

static redco_status read_time(const redco_json_value *event, const char *key, double *seconds, redco_error *err)
{
    double us = 0.0;
    const redco_status st = redco_json_number(event, key, 0.0, longest_us, &us, err);
    *seconds = 1e-6 * us;
    return st;
}

static redco_status out_of_memory(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}

/* Numbers and texts; what is nested deeper is not ours. */
static void read_args(struct reader *reader, const redco_json_value *event)
{
    const json_t *const args = json_object_get(event->json, "args");
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)args, key, value)
    {
        if (json_is_string(value)) { redco_trace_add_arg(reader->trace, key, json_string_value(value), 0.0); }
        if (json_is_number(value)) { redco_trace_add_arg(reader->trace, key, NULL, json_number_value(value)); }
    }
}

static redco_status read_span(struct reader *reader, const redco_json_value *event, redco_error *err)
{
    redco_trace_span span = {.category = ""};
    redco_status st = redco_json_string(event, "name", &span.name, err);
    if (st != REDCO_OK || (st = read_ids(event, &span.process, &span.thread, err)) != REDCO_OK ||
        (st = read_time(event, "ts", &span.start_s, err)) != REDCO_OK ||
        (st = read_time(event, "dur", &span.duration_s, err)) != REDCO_OK ||
        (redco_json_has(event, "cat") && (st = redco_json_string(event, "cat", &span.category, err)) != REDCO_OK)) {
        return st;
    }
    (void)redco_trace_add_span(reader->trace, &span);
    if (!reader->bare) { read_args(reader, event); }
    return REDCO_OK;
}

static redco_status read_counter(struct reader *reader, const redco_json_value *event, redco_error *err)
{
    const char *name = NULL;
    uint32_t process = 0;
    double time_s = 0.0;
    redco_status st = redco_json_string(event, "name", &name, err);
    if (st != REDCO_OK || (st = read_ids(event, &process, NULL, err)) != REDCO_OK ||
        (st = read_time(event, "ts", &time_s, err)) != REDCO_OK) {
        return st;
    }
    redco_trace_add_counter(reader->trace, name, process, time_s);
    read_args(reader, event);
    return REDCO_OK;
}

static redco_status read_names(struct reader *reader, const redco_json_value *event, redco_error *err)
{
    const char *kind = NULL, *name = NULL;
    uint32_t process = 0, thread = 0;
    redco_json_value args;
    redco_status st = redco_json_string(event, "name", &kind, err);
    const bool of_thread = st == REDCO_OK && strcmp(kind, "thread_name") == 0;
    if (st != REDCO_OK || (!of_thread && strcmp(kind, "process_name") != 0)) { return st; }
    if ((st = read_ids(event, &process, of_thread ? &thread : NULL, err)) != REDCO_OK ||
        (st = redco_json_object(event, "args", &args, err)) != REDCO_OK ||
        (st = redco_json_string(&args, "name", &name, err)) != REDCO_OK) {
        return st;
    }
    if (of_thread) {
        redco_trace_add_thread(reader->trace, process, thread, name);
    } else {
        redco_trace_add_process(reader->trace, process, name);
    }
    return REDCO_OK;
}

/* Ids are numbers or texts. */
static redco_status read_flow_id(struct reader *reader, const redco_json_value *event, const char **id_out,
                                 redco_error *err)
{
    char digits[32];
    const json_t *const id = json_object_get(event->json, "id");
    if (json_is_string(id)) {
        *id_out = redcoi_trace_keep(reader->trace, json_string_value(id), json_string_length(id));
        return REDCO_OK;
    }
    if (!json_is_integer(id)) { return redco_json_fail(event, "id", err, "a number or a text is needed"); }
    const int size = snprintf(digits, sizeof digits, "%lld", (long long)json_integer_value(id));
    *id_out = redcoi_trace_keep(reader->trace, digits, (size_t)size);
    return REDCO_OK;
}

static redco_status read_flow(struct reader *reader, const redco_json_value *event, bool start, uint32_t order,
                              redco_error *err)
{
    struct flow_end end = {.start = start, .order = order};
    const char *name = NULL, *category = "";
    redco_status st = redco_json_string(event, "name", &name, err);
    if (st != REDCO_OK || (st = read_ids(event, &end.process, &end.thread, err)) != REDCO_OK ||
        (st = read_time(event, "ts", &end.time_s, err)) != REDCO_OK ||
        (redco_json_has(event, "cat") && (st = redco_json_string(event, "cat", &category, err)) != REDCO_OK) ||
        (st = read_flow_id(reader, event, &end.id, err)) != REDCO_OK) {
        return st;
    }
    end.name = redcoi_trace_keep(reader->trace, name, strlen(name));
    end.category = redcoi_trace_keep(reader->trace, category, strlen(category));
    if (reader->end_count == reader->end_capacity) {
        const size_t capacity = 2 * reader->end_capacity + 64;
        struct flow_end *const larger = realloc(reader->ends, capacity * sizeof *larger);
        if (larger == NULL) { return out_of_memory(err); }
        reader->ends = larger;
        reader->end_capacity = capacity;
    }
    reader->ends[reader->end_count++] = end;
    return REDCO_OK;
}

static redco_status read_event(struct reader *reader, const redco_json_value *event, uint32_t order, redco_error *err)
{
    const char *phase = NULL;
    const redco_status st = redco_json_string(event, "ph", &phase, err);
    if (st != REDCO_OK || phase[0] == '\0' || phase[1] != '\0') { return st; }
    switch (phase[0]) {
    case 'X': return read_span(reader, event, err);
    case 'C': return read_counter(reader, event, err);
    case 'M': return read_names(reader, event, err);
    case 's': return read_flow(reader, event, true, order, err);
    case 'f': return read_flow(reader, event, false, order, err);
    default: return REDCO_OK;
    }
}

static int compare_texts(const char *a, const char *b)
{
    return a == b ? 0 : strcmp(a, b);
}

/* Ends of the same flow side by side, the start first. */
static int compare_ends(const void *a, const void *b)
{
    const struct flow_end *const x = a, *const y = b;
    int order = compare_texts(x->category, y->category);
    if (order == 0) { order = compare_texts(x->name, y->name); }
    if (order == 0) { order = compare_texts(x->id, y->id); }
    if (order == 0) { order = (int)y->start - (int)x->start; }
    return order != 0 ? order : (x->order > y->order) - (x->order < y->order);
}

/* Spans of all threads, sorted for look-ups. */
struct index {
    const redco_trace_span *spans;
    uint32_t *sorted; /* by process, thread, start; the longer first */
    uint32_t *parent; /* per place in sorted: the place of the span around it, or UINT32_MAX */
    uint32_t count;
};

struct keyed {
    const redco_trace_span *span;
    uint32_t index;
};

static int compare_keyed(const void *a, const void *b)
{
    const struct keyed *const x = a, *const y = b;
    if (x->span->process != y->span->process) { return x->span->process < y->span->process ? -1 : 1; }
    if (x->span->thread != y->span->thread) { return x->span->thread < y->span->thread ? -1 : 1; }
    const int64_t start = redcoi_trace_ns(x->span->start_s), other = redcoi_trace_ns(y->span->start_s);
    if (start != other) { return start < other ? -1 : 1; }
    const double ours = x->span->duration_s, theirs = y->span->duration_s;
    if (ours > theirs || ours < theirs) { return ours > theirs ? -1 : 1; }
    return (x->index > y->index) - (x->index < y->index);
}

static int64_t end_ns(const redco_trace_span *span)
{
    return redcoi_trace_ns(span->start_s + span->duration_s);
}

static bool index_spans(const redco_trace *trace, struct index *index)
{
    index->spans = trace->spans.items;
    index->count = trace->spans.count;
    const size_t room = index->count > 0 ? index->count : 1;
    struct keyed *const keyed = malloc(room * sizeof *keyed);
    index->sorted = malloc(room * sizeof *index->sorted);
    index->parent = malloc(room * sizeof *index->parent);
    if (keyed == NULL || index->sorted == NULL || index->parent == NULL) {
        free(keyed);
        return false;
    }
    for (uint32_t i = 0; i < index->count; i++) { keyed[i] = (struct keyed){&index->spans[i], i}; }
    qsort(keyed, index->count, sizeof *keyed, compare_keyed);
    uint32_t open = UINT32_MAX;
    for (uint32_t i = 0; i < index->count; i++) {
        const redco_trace_span *const s = keyed[i].span;
        index->sorted[i] = keyed[i].index;
        while (open != UINT32_MAX) {
            const redco_trace_span *const top = keyed[open].span;
            if (top->process == s->process && top->thread == s->thread && end_ns(top) >= end_ns(s)) { break; }
            open = index->parent[open];
        }
        index->parent[i] = open;
        open = i;
    }
    free(keyed);
    return true;
}

/* The innermost span that holds a point of time: of those that start before, the last, or one around it. */
static uint32_t span_at(const struct index *index, const struct flow_end *end)
{
    const redco_trace_span probe = {
        .process = end->process, .thread = end->thread, .start_s = end->time_s, .duration_s = -1.0};
    const struct keyed key = {&probe, 0};
    uint32_t low = 0, high = index->count; /* first one behind the point */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const struct keyed here = {&index->spans[index->sorted[middle]], index->sorted[middle]};
        if (compare_keyed(&here, &key) <= 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    uint32_t at = low > 0 ? low - 1 : UINT32_MAX;
    while (at != UINT32_MAX) {
        const redco_trace_span *const s = &index->spans[index->sorted[at]];
        const bool same = s->process == end->process && s->thread == end->thread;
        if (same && end_ns(s) >= redcoi_trace_ns(end->time_s)) { return index->sorted[at]; }
        at = index->parent[at];
    }
    return UINT32_MAX;
}

/* The list of events that ends of flows stand in. */
struct list {
    const char *file, *pointer;
};

static redco_status flow_fail(const struct flow_end *end, const struct list *list, redco_error *err, const char *what)
{
    char place[256];
    (void)snprintf(place, sizeof place, "%.160s:%s/%u", list->file, list->pointer, end->order);
    return redco_fail(err, REDCO_EVALUE, place, "flow \"%.80s\" with id %.40s %s", end->name, end->id, what);
}

/* Pairs in order: the n-th start of an id goes to its n-th end. */
static redco_status pair_flows(struct reader *reader, const struct list *list, redco_error *err)
{
    struct index index = {NULL, NULL, NULL, 0};
    redco_status st = REDCO_OK;
    size_t first = 0;
    if (reader->end_count == 0) { return REDCO_OK; }
    qsort(reader->ends, reader->end_count, sizeof *reader->ends, compare_ends);
    if (!index_spans(reader->trace, &index)) { st = out_of_memory(err); }
    while (st == REDCO_OK && first < reader->end_count) {
        size_t starts = 0, last = first;
        const struct flow_end *const head = &reader->ends[first];
        while (last < reader->end_count && reader->ends[last].category == head->category &&
               reader->ends[last].name == head->name && reader->ends[last].id == head->id) {
            starts += reader->ends[last++].start ? 1 : 0;
        }
        if (2 * starts != last - first) { st = flow_fail(head, list, err, "starts and ends not equally often"); }
        for (size_t i = 0; st == REDCO_OK && i < starts; i++) {
            const struct flow_end *const from = &reader->ends[first + i], *const to = &reader->ends[first + starts + i];
            const uint32_t source = span_at(&index, from), sink = span_at(&index, to);
            if (source == UINT32_MAX || sink == UINT32_MAX) {
                st = flow_fail(source == UINT32_MAX ? from : to, list, err, "lies in no span of its thread");
            } else {
                redco_trace_add_flow(reader->trace, from->name, source, sink);
            }
        }
        first = last;
    }
    free(index.sorted);
    free(index.parent);
    return st;
}

static void read_notes(void *context, const json_t *notes)
{
    struct reader *const reader = context;
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)notes, key, value)
    {
        if (json_is_string(value)) { redco_trace_add_note(reader->trace, key, json_string_value(value)); }
    }
}

static redco_status conclude(struct reader *reader, redco_status st, redco_trace **trace_out, redco_error *err)
{
    if (st == REDCO_OK && reader->trace->failed) { st = out_of_memory(err); }
    free(reader->ends);
    if (st == REDCO_OK) {
        *trace_out = reader->trace;
    } else {
        redco_trace_free(reader->trace);
    }
    return st;
}

static redco_status take_event(void *context, const redco_json_value *event, uint32_t index, redco_error *err)
{
    struct reader *const reader = context;
    const redco_status st = read_event(reader, event, index, err);
    return st == REDCO_OK && reader->trace->failed ? out_of_memory(err) : st;
}

redco_status redco_trace_read(const char *path, bool bare, redco_trace **trace_out, redco_error *err)
{
    struct reader reader = {.trace = redco_trace_new(), .bare = bare};
    const redcoi_trace_sink sink = {&reader, take_event, read_notes};
    struct list list = {strcmp(path, "-") == 0 ? "standard input" : path, ""};
    if (reader.trace == NULL) { return out_of_memory(err); }
    redco_status st = redcoi_trace_each(path, &sink, &list.pointer, err);
    if (st == REDCO_OK) { st = pair_flows(&reader, &list, err); }
    return conclude(&reader, st, trace_out, err);
}
