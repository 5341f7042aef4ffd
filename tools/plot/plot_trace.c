/* Where the spans and counters of a trace are drawn. */
#include "tools/plot/plot_trace.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 3 };

static struct trace_row *find_row(const struct trace_layout *layout, uint32_t process, uint32_t thread)
{
    for (size_t i = 0; i < layout->row_count; i++) {
        struct trace_row *const row = &layout->rows[i];
        if (row->process == process && row->thread == thread) { return row; }
    }
    return NULL;
}

static int by_thread(const void *left, const void *right)
{
    const struct trace_row *const a = left, *const b = right;
    if (a->thread != b->thread) { return a->thread < b->thread ? -1 : 1; }
    return (a->process > b->process) - (a->process < b->process);
}

static int by_ids(const void *left, const void *right)
{
    const struct trace_row *const a = left, *const b = right;
    if (a->process != b->process) { return a->process < b->process ? -1 : 1; }
    return (a->thread > b->thread) - (a->thread < b->thread);
}

static redco_status make_rows(const redco_trace *trace, struct trace_layout *layout, redco_error *err)
{
    uint32_t span_count = 0, thread_count = 0, process_count = 0;
    const redco_trace_span *const spans = redco_trace_spans(trace, &span_count);
    const redco_trace_thread *const threads = redco_trace_threads(trace, &thread_count);
    const redco_trace_thread *const processes = redco_trace_processes(trace, &process_count);
    for (uint32_t i = 0; i < span_count; i++) {
        if (find_row(layout, spans[i].process, spans[i].thread) != NULL) { continue; }
        if (layout->row_count == TRACE_ROWS) {
            return redco_fail(err, REDCO_EVALUE, plot_kind_words[PLOT_TIMELINE],
                              "the trace has spans on more than %d threads, the most that can be drawn", TRACE_ROWS);
        }
        layout->rows[layout->row_count++] = (struct trace_row){.process = spans[i].process, .thread = spans[i].thread};
    }
    for (uint32_t i = 0; i < thread_count; i++) {
        struct trace_row *const row = find_row(layout, threads[i].process, threads[i].thread);
        if (row != NULL) { row->name = threads[i].name; }
    }
    for (size_t row = 0; row < layout->row_count; row++) {
        for (uint32_t i = 0; i < process_count; i++) {
            if (processes[i].process != layout->rows[row].process) { continue; }
            layout->rows[row].process_name = processes[i].name;
        }
    }
    qsort(layout->rows, layout->row_count, sizeof *layout->rows, layout->paired ? by_thread : by_ids);
    return REDCO_OK;
}

static int sign(double value)
{
    return value < 0.0 ? -1 : value > 0.0;
}

static int by_start(const void *left, const void *right)
{
    const struct trace_span *const a = left, *const b = right;
    if (a->row != b->row) { return a->row < b->row ? -1 : 1; }
    const int start = sign(a->start_s - b->start_s);
    return start != 0 ? start : sign(b->end_s - a->end_s);
}

static size_t category_of(struct trace_layout *layout, const char *name)
{
    const char *const word = name[0] != '\0' ? name : "other";
    size_t i = 0;
    while (i < layout->category_count && strcmp(layout->categories[i], word) != 0) { i++; }
    if (i == layout->category_count && i < TRACE_CATEGORIES) { layout->categories[layout->category_count++] = word; }
    return i < TRACE_CATEGORIES ? i : TRACE_CATEGORIES - 1;
}

/* Spans that lie in others are drawn lower. Times of a trace are rounded: what overlaps by less than a nanosecond does
 * not. */
static void nest(struct trace_layout *layout)
{
    double ends_s[MOST_DEPTH] = {0.0};
    for (size_t i = 0; i < layout->span_count; i++) {
        struct trace_span *const span = &layout->spans[i];
        const bool first = i == 0 || span[-1].row != span->row;
        int depth = first ? 0 : span[-1].depth + 1;
        if (depth >= MOST_DEPTH) { depth = MOST_DEPTH - 1; }
        while (depth > 0 && span->start_s >= ends_s[depth - 1] - 1e-9) { depth--; }
        span->depth = depth;
        ends_s[depth] = span->end_s;
    }
}

static void make_spans(const redco_trace *trace, struct trace_layout *layout, const char **names)
{
    uint32_t count = 0;
    const redco_trace_span *const spans = redco_trace_spans(trace, &count);
    for (uint32_t i = 0; i < count; i++) {
        const redco_trace_span *const from = &spans[i];
        layout->spans[i] =
            (struct trace_span){.start_s = from->start_s,
                                .end_s = from->start_s + from->duration_s,
                                .name = from->name,
                                .category = i, /* until sorted: of names */
                                .row = (size_t)(find_row(layout, from->process, from->thread) - layout->rows)};
        names[i] = from->category;
    }
    layout->span_count = count;
    qsort(layout->spans, count, sizeof *layout->spans, by_start);
    nest(layout);
    for (uint32_t i = 0; i < count; i++) {
        layout->spans[i].category = category_of(layout, names[layout->spans[i].category]);
    }
}

static int by_time(const void *left, const void *right)
{
    const struct trace_memory *const a = left, *const b = right;
    if (a->process != b->process) { return a->process < b->process ? -1 : 1; }
    const int time = sign(a->at_s - b->at_s);
    return time != 0 ? time : (a->serial < b->serial ? -1 : 1);
}

/* The last part takes what has no place of its own. */
static size_t part_of(struct trace_layout *layout, const char *name)
{
    size_t i = 0;
    while (i < layout->part_count && strcmp(layout->parts[i], name) != 0) { i++; }
    if (i == layout->part_count && i < TRACE_PARTS) { layout->parts[layout->part_count++] = name; }
    return i < TRACE_PARTS ? i : TRACE_PARTS - 1;
}

static void make_memory(const redco_trace *trace, struct trace_layout *layout)
{
    uint32_t count = 0, arg_count = 0;
    const redco_trace_counter *const counters = redco_trace_counters(trace, &count);
    const redco_trace_arg *const args = redco_trace_args(trace, &arg_count);
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(counters[i].name, "memory") != 0) { continue; }
        struct trace_memory *const memory = &layout->memory[layout->memory_count++];
        *memory = (struct trace_memory){.process = counters[i].process, .at_s = counters[i].time_s, .serial = i};
        for (uint32_t a = 0; a < counters[i].arg_count; a++) {
            const redco_trace_arg *const arg = &args[counters[i].first_arg + a];
            if (arg->text == NULL) { memory->bytes[part_of(layout, arg->key)] += arg->number; }
        }
    }
    if (layout->memory_count > 0) { qsort(layout->memory, layout->memory_count, sizeof *layout->memory, by_time); }
}

redco_status trace_layout_make(const redco_trace *trace, struct trace_layout *layout_out, redco_error *err)
{
    struct trace_layout *const layout = layout_out;
    uint32_t span_count = 0, counter_count = 0;
    (void)redco_trace_spans(trace, &span_count);
    (void)redco_trace_counters(trace, &counter_count);
    const char **const names = calloc((size_t)span_count + 1, sizeof *names);
    layout->rows = calloc(TRACE_ROWS, sizeof *layout->rows);
    layout->spans = calloc((size_t)span_count + 1, sizeof *layout->spans);
    layout->memory = calloc((size_t)counter_count + 1, sizeof *layout->memory);
    redco_status st = REDCO_OK;
    if (names == NULL || layout->rows == NULL || layout->spans == NULL || layout->memory == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    if (st == REDCO_OK) { st = make_rows(trace, layout, err); }
    if (st == REDCO_OK) {
        make_spans(trace, layout, names);
        make_memory(trace, layout);
    }
    free(names);
    return st;
}

void trace_layout_clear(struct trace_layout *layout)
{
    free(layout->rows);
    free(layout->spans);
    free(layout->memory);
    *layout = (struct trace_layout){0};
}
