/* A trace in memory. */
#include "traces/trace_internal.h"

#include "topology/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

redco_trace *redco_trace_new(void)
{
    return calloc(1, sizeof(redco_trace));
}

void redco_trace_free(redco_trace *trace)
{
    if (trace == NULL) { return; }
    char **const texts = trace->texts.items;
    for (uint32_t i = 0; i < trace->texts.count; i++) { free(texts[i]); }
    free(trace->spans.items);
    free(trace->args.items);
    free(trace->counters.items);
    free(trace->flows.items);
    free(trace->threads.items);
    free(trace->processes.items);
    free(trace->notes.items);
    free(trace->texts.items);
    free(trace->buckets.items);
    free(trace);
}

/* @return room for one more, or NULL */
static void *push(redco_trace *trace, redcoi_trace_list *list, size_t item_bytes)
{
    if (trace->failed) { return NULL; }
    if (list->count == list->capacity) {
        const uint32_t capacity = list->capacity < 16 ? 64 : 2 * list->capacity;
        void *const larger = list->capacity > UINT32_MAX / 4 ? NULL : realloc(list->items, capacity * item_bytes);
        if (larger == NULL) {
            trace->failed = true;
            return NULL;
        }
        list->items = larger;
        list->capacity = capacity;
    }
    return (char *)list->items + item_bytes * list->count++;
}

/* FNV-1a. */
static uint32_t hash_of(const char *text, size_t size)
{
    uint32_t hash = UINT32_C(2166136261);
    for (size_t i = 0; i < size; i++) { hash = (hash ^ (unsigned char)text[i]) * UINT32_C(16777619); }
    return hash;
}

/* The slot of a text, or the empty one where it belongs. */
static uint32_t *slot_of(const redco_trace *trace, const char *text, size_t size)
{
    uint32_t *const slots = trace->buckets.items;
    char *const *const texts = trace->texts.items;
    uint32_t at = hash_of(text, size) & (trace->buckets.capacity - 1);
    while (slots[at] != 0) {
        const char *const known = texts[slots[at] - 1];
        if (strlen(known) == size && memcmp(known, text, size) == 0) { break; }
        at = (at + 1) & (trace->buckets.capacity - 1);
    }
    return &slots[at];
}

static bool grow_table(redco_trace *trace)
{
    const uint32_t capacity = trace->buckets.capacity == 0 ? 256 : 2 * trace->buckets.capacity;
    uint32_t *const slots = calloc(capacity, sizeof *slots);
    if (slots == NULL) { return false; }
    free(trace->buckets.items);
    trace->buckets.items = slots;
    trace->buckets.capacity = capacity;
    char *const *const texts = trace->texts.items;
    for (uint32_t i = 0; i < trace->texts.count; i++) { *slot_of(trace, texts[i], strlen(texts[i])) = i + 1; }
    return true;
}

/* Names of spans and threads come from anywhere and go to terminals and plots. */
static bool is_plain(const char *text, size_t size)
{
    size_t ascii = 0;
    while (ascii < size && text[ascii] >= 0x20 && text[ascii] < 0x7f) { ascii++; }
    return ascii == size;
}

static const char *keep_text(redco_trace *trace, const char *text, size_t size)
{
    if (trace->failed) { return ""; }
    if (2 * trace->texts.count >= trace->buckets.capacity && !grow_table(trace)) {
        trace->failed = true;
        return "";
    }
    uint32_t *const slot = slot_of(trace, text, size);
    if (*slot != 0) { return ((char *const *)trace->texts.items)[*slot - 1]; }
    char *const copy = malloc(size + 1);
    char **const place = copy != NULL ? push(trace, &trace->texts, sizeof *place) : NULL;
    if (place == NULL) {
        trace->failed = true;
        free(copy);
        return "";
    }
    if (size > 0) { memcpy(copy, text, size); }
    copy[size] = '\0';
    *place = copy;
    *slot = trace->texts.count;
    return copy;
}

const char *redcoi_trace_keep(redco_trace *trace, const char *text, size_t size)
{
    if (is_plain(text, size)) { return keep_text(trace, text, size); }
    char *clean = strndup(text, size);
    if (clean == NULL) {
        trace->failed = true;
        return "";
    }
    redco_text_clean(clean);
    const char *kept = keep_text(trace, clean, strlen(clean));
    free(clean);
    return kept;
}

static const char *keep(redco_trace *trace, const char *text)
{
    return redcoi_trace_keep(trace, text != NULL ? text : "", text != NULL ? strlen(text) : 0);
}

void redco_trace_add_process(redco_trace *trace, uint32_t process, const char *name)
{
    redco_trace_thread *const item = push(trace, &trace->processes, sizeof *item);
    if (item != NULL) { *item = (redco_trace_thread){.name = keep(trace, name), .process = process}; }
}

void redco_trace_add_thread(redco_trace *trace, uint32_t process, uint32_t thread, const char *name)
{
    redco_trace_thread *const item = push(trace, &trace->threads, sizeof *item);
    if (item != NULL) { *item = (redco_trace_thread){keep(trace, name), process, thread}; }
}

uint32_t redco_trace_add_span(redco_trace *trace, const redco_trace_span *span)
{
    redco_trace_span *const item = push(trace, &trace->spans, sizeof *item);
    if (item == NULL) { return 0; }
    *item = *span;
    item->name = keep(trace, span->name);
    item->category = keep(trace, span->category);
    item->first_arg = trace->args.count;
    item->arg_count = 0;
    trace->last_args = &item->arg_count;
    return trace->spans.count - 1;
}

void redco_trace_add_counter(redco_trace *trace, const char *name, uint32_t process, double time_s)
{
    redco_trace_counter *const item = push(trace, &trace->counters, sizeof *item);
    if (item == NULL) { return; }
    *item = (redco_trace_counter){keep(trace, name), process, time_s, trace->args.count, 0};
    trace->last_args = &item->arg_count;
}

void redco_trace_add_arg(redco_trace *trace, const char *key, const char *text, double number)
{
    redco_trace_arg *const item = trace->last_args != NULL ? push(trace, &trace->args, sizeof *item) : NULL;
    if (item == NULL) { return; }
    *item = (redco_trace_arg){keep(trace, key), text != NULL ? keep(trace, text) : NULL, number};
    ++*trace->last_args;
}

void redco_trace_add_flow(redco_trace *trace, const char *name, uint32_t from, uint32_t to)
{
    redco_trace_flow *const item = push(trace, &trace->flows, sizeof *item);
    if (item != NULL) { *item = (redco_trace_flow){keep(trace, name), from, to}; }
}

void redco_trace_add_note(redco_trace *trace, const char *key, const char *text)
{
    redcoi_trace_note *const item = push(trace, &trace->notes, sizeof *item);
    if (item != NULL) { *item = (redcoi_trace_note){keep(trace, key), keep(trace, text)}; }
}

int64_t redcoi_trace_ns(double seconds)
{
    return (int64_t)llround(1e9 * seconds);
}

/* By process, thread, start; the longer first, but for those that are over at once. */
static int compare_nesting(const void *a, const void *b)
{
    const redco_trace_span *const x = *(const redco_trace_span *const *)a, *const y =
                                                                               *(const redco_trace_span *const *)b;
    if (x->process != y->process) { return x->process < y->process ? -1 : 1; }
    if (x->thread != y->thread) { return x->thread < y->thread ? -1 : 1; }
    const int64_t start = redcoi_trace_ns(x->start_s), other = redcoi_trace_ns(y->start_s);
    if (start != other) { return start < other ? -1 : 1; }
    const int64_t end = redcoi_trace_ns(x->start_s + x->duration_s),
                  its_end = redcoi_trace_ns(y->start_s + y->duration_s);
    const bool empty = end == start, its_empty = its_end == start;
    if (empty != its_empty) { return empty ? -1 : 1; }
    if (end != its_end) { return end > its_end ? -1 : 1; }
    return x < y ? -1 : x > y;
}

/* Ten years of nanoseconds are still exact in a double's products, and nothing runs longer. */
static const double longest_s = 3e8;

static redco_status check_times(const redco_trace *trace, redco_error *err)
{
    const redco_trace_span *const spans = trace->spans.items;
    const redco_trace_counter *const counters = trace->counters.items;
    for (uint32_t i = 0; i < trace->spans.count; i++) {
        const redco_trace_span *const s = &spans[i];
        if (!(s->start_s >= 0.0 && s->duration_s >= 0.0 && s->start_s + s->duration_s <= longest_s)) {
            return redco_fail(err, REDCO_EVALUE, s->name, "starts at %g s and takes %g s; 0 to %g s are possible",
                              s->start_s, s->duration_s, longest_s);
        }
    }
    for (uint32_t i = 0; i < trace->counters.count; i++) {
        if (!(counters[i].time_s >= 0.0 && counters[i].time_s <= longest_s)) {
            return redco_fail(err, REDCO_EVALUE, counters[i].name, "counts at %g s; 0 to %g s are possible",
                              counters[i].time_s, longest_s);
        }
    }
    return REDCO_OK;
}

/* A stack of open spans per thread: the next one starts behind the top's end or lies inside it. */
static redco_status check_nesting(const redco_trace *trace, redco_error *err)
{
    const uint32_t count = trace->spans.count;
    const redco_trace_span *const spans = trace->spans.items;
    const redco_trace_span **const sorted = malloc((count > 0 ? count : 1) * sizeof *sorted);
    uint32_t *const open = malloc((count > 0 ? count : 1) * sizeof *open);
    redco_status st = REDCO_OK;
    uint32_t depth = 0;
    if (sorted == NULL || open == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) { sorted[i] = &spans[i]; }
    qsort(sorted, count, sizeof *sorted, compare_nesting);
    for (uint32_t i = 0; i < count; i++) {
        const redco_trace_span *const s = sorted[i];
        const int64_t start = redcoi_trace_ns(s->start_s), end = redcoi_trace_ns(s->start_s + s->duration_s);
        while (depth > 0) {
            const redco_trace_span *const top = sorted[open[depth - 1]];
            const bool same = top->process == s->process && top->thread == s->thread;
            const int64_t top_end = redcoi_trace_ns(top->start_s + top->duration_s);
            if (same && start < top_end) {
                if (end <= top_end) { break; }
                st = redco_fail(err, REDCO_EVALUE, s->name, "overlaps %s on the same thread at %.9g s", top->name,
                                s->start_s);
                goto out;
            }
            depth--;
        }
        open[depth++] = i;
    }
out:
    free(sorted);
    free(open);
    return st;
}

static redco_status check_flows(const redco_trace *trace, redco_error *err)
{
    const redco_trace_span *const spans = trace->spans.items;
    const redco_trace_flow *const flows = trace->flows.items;
    for (uint32_t i = 0; i < trace->flows.count; i++) {
        const redco_trace_flow *const f = &flows[i];
        if (f->from >= trace->spans.count || f->to >= trace->spans.count) {
            return redco_fail(err, REDCO_EVALUE, f->name, "is a flow between spans that do not exist");
        }
        const redco_trace_span *const from = &spans[f->from], *const to = &spans[f->to];
        if (redcoi_trace_ns(from->start_s) > redcoi_trace_ns(to->start_s)) {
            return redco_fail(err, REDCO_EVALUE, f->name, "goes back in time, from %s to %s", from->name, to->name);
        }
    }
    return REDCO_OK;
}

redco_status redco_trace_check(const redco_trace *trace, redco_error *err)
{
    if (trace->failed) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = check_times(trace, err);
    if (st == REDCO_OK) { st = check_nesting(trace, err); }
    return st == REDCO_OK ? check_flows(trace, err) : st;
}

const redco_trace_span *redco_trace_spans(const redco_trace *trace, uint32_t *count_out)
{
    *count_out = trace->spans.count;
    return trace->spans.items;
}

const redco_trace_counter *redco_trace_counters(const redco_trace *trace, uint32_t *count_out)
{
    *count_out = trace->counters.count;
    return trace->counters.items;
}

const redco_trace_flow *redco_trace_flows(const redco_trace *trace, uint32_t *count_out)
{
    *count_out = trace->flows.count;
    return trace->flows.items;
}

const redco_trace_thread *redco_trace_threads(const redco_trace *trace, uint32_t *count_out)
{
    *count_out = trace->threads.count;
    return trace->threads.items;
}

const redco_trace_thread *redco_trace_processes(const redco_trace *trace, uint32_t *count_out)
{
    *count_out = trace->processes.count;
    return trace->processes.items;
}

const redco_trace_arg *redco_trace_args(const redco_trace *trace, uint32_t *count_out)
{
    *count_out = trace->args.count;
    return trace->args.items;
}

const char *redco_trace_note(const redco_trace *trace, const char *key)
{
    const redcoi_trace_note *const notes = trace->notes.items;
    for (uint32_t i = 0; i < trace->notes.count; i++) {
        if (strcmp(notes[i].key, key) == 0) { return notes[i].text; }
    }
    return NULL;
}
