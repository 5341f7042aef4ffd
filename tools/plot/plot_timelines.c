/* A step as predicted and the same step as measured, stream by stream. */
#include "tools/plot/plot_trace.h"

#include "costmodel/simulator/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PREDICTED, MEASURED };

/* Streams of both sides share a thread of the picture by their name. */
struct streams {
    const char *names[TRACE_ROWS];
    uint32_t count;
};

static const char *thread_name(const redco_trace *trace, const redco_trace_span *span)
{
    uint32_t count = 0;
    const redco_trace_thread *const threads = redco_trace_threads(trace, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (threads[i].process == span->process && threads[i].thread == span->thread) { return threads[i].name; }
    }
    return "";
}

static redco_status stream_of(struct streams *streams, const char *name, uint32_t *stream_out, redco_error *err)
{
    uint32_t i = 0;
    while (i < streams->count && strcmp(streams->names[i], name) != 0) { i++; }
    if (i == TRACE_ROWS) {
        return redco_fail(err, REDCO_EVALUE, plot_kind_words[PLOT_TIMELINES], "more than %d streams", TRACE_ROWS);
    }
    if (i == streams->count) { streams->names[streams->count++] = name; }
    *stream_out = i;
    return REDCO_OK;
}

/* The drawn part of one side. */
struct part {
    const redco_trace *trace;
    uint32_t process;
    double from_s, to_s;
};

/* Streams are known by their thread once each: spans of a thread follow one another in files. */
static redco_status add_spans(redco_trace *sum, const struct part *part, uint32_t side, struct streams *streams,
                              redco_error *err)
{
    uint32_t count = 0, stream = 0, known = UINT32_MAX;
    const redco_trace_span *const spans = redco_trace_spans(part->trace, &count);
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        redco_trace_span span = spans[i];
        if (span.process != part->process || span.start_s + span.duration_s <= part->from_s ||
            span.start_s >= part->to_s) {
            continue;
        }
        if (span.thread != known) { st = stream_of(streams, thread_name(part->trace, &span), &stream, err); }
        known = span.thread;
        const double end_s = fmin(span.start_s + span.duration_s, part->to_s);
        span.start_s = fmax(span.start_s, part->from_s);
        span.duration_s = end_s - span.start_s;
        span.start_s -= part->from_s;
        span.process = side;
        span.thread = stream;
        (void)redco_trace_add_span(sum, &span);
    }
    return st;
}

/* Memory that was held before the part begins is held at its beginning. */
static void add_memory(redco_trace *sum, const struct part *part, uint32_t side)
{
    uint32_t count = 0, arg_count = 0;
    const redco_trace_counter *const counters = redco_trace_counters(part->trace, &count);
    const redco_trace_arg *const args = redco_trace_args(part->trace, &arg_count);
    for (uint32_t i = 0; i < count; i++) {
        const redco_trace_counter *const c = &counters[i];
        if (c->process != part->process || strcmp(c->name, "memory") != 0 || c->time_s > part->to_s) { continue; }
        redco_trace_add_counter(sum, "memory", side, fmax(0.0, c->time_s - part->from_s));
        for (uint32_t a = c->first_arg; a < c->first_arg + c->arg_count; a++) {
            redco_trace_add_arg(sum, args[a].key, args[a].text, args[a].number);
        }
    }
}

static redco_status merge(const struct part parts[2], redco_trace *sum, redco_error *err)
{
    static const char *const names[] = {"predicted", "measured"};
    struct streams streams = {.count = 0};
    uint32_t count = 0, stream = 0;
    const redco_trace_thread *const threads = redco_trace_threads(parts[PREDICTED].trace, &count);
    for (uint32_t i = 0; i < count; i++) { /* the order of the prediction */
        const redco_status st = stream_of(&streams, threads[i].name, &stream, err);
        if (st != REDCO_OK) { return st; }
    }
    for (uint32_t side = PREDICTED; side <= MEASURED; side++) {
        const redco_status st = add_spans(sum, &parts[side], side, &streams, err);
        if (st != REDCO_OK) { return st; }
        redco_trace_add_process(sum, side, names[side]);
        add_memory(sum, &parts[side], side);
    }
    for (uint32_t side = PREDICTED; side <= MEASURED; side++) {
        for (uint32_t s = 0; s < streams.count; s++) { redco_trace_add_thread(sum, side, s, streams.names[s]); }
    }
    return REDCO_OK;
}

/* The process that has @p index lower ones before it, in the time of all. */
static struct part predicted_part(const redco_trace *trace, uint32_t index)
{
    uint32_t count = 0;
    const redco_trace_span *const spans = redco_trace_spans(trace, &count);
    struct part part = {trace, 0, INFINITY, -INFINITY};
    for (uint32_t i = 0; i < count; i++) {
        part.from_s = fmin(part.from_s, spans[i].start_s);
        part.to_s = fmax(part.to_s, spans[i].start_s + spans[i].duration_s);
    }
    for (uint32_t lower = 0, least = 0; lower <= index; lower++, least = part.process + 1) {
        part.process = UINT32_MAX;
        for (uint32_t i = 0; i < count; i++) {
            if (spans[i].process >= least && spans[i].process < part.process) { part.process = spans[i].process; }
        }
    }
    return part;
}

static void write_heading(const struct plot_comparison *timelines, char *buffer, size_t size)
{
    const redco_comparison *const c = timelines->comparison;
    const char *const source = redco_trace_note(timelines->measured, "source");
    (void)snprintf(buffer, size, "A step as predicted, %.4g ms, and as %.60s, %.4g ms: off by %+.1f %%",
                   1e3 * c->predicted.step_s, source != NULL ? source : "measured", 1e3 * c->measured.step_s,
                   100.0 * redco_compare_error(c->predicted.step_s, c->measured.step_s));
}

redco_status plot_timelines(const struct plot_comparison *timelines, struct plot_sheet *sheet, redco_error *err)
{
    const redco_comparison *const c = timelines->comparison;
    const struct part parts[2] = {predicted_part(timelines->predicted, c->shown_stage),
                                  {timelines->measured, c->shown_process, c->shown_from_s, c->shown_to_s}};
    struct trace_layout layout = {.paired = true};
    redco_trace *const sum = redco_trace_new();
    char title[192];
    redco_status st = sum != NULL ? merge(parts, sum, err) : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    write_heading(timelines, title, sizeof title);
    if (st == REDCO_OK && redco_trace_check(sum, NULL) == REDCO_ENOMEM) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    if (st == REDCO_OK) { st = trace_layout_make(sum, &layout, err); }
    if (st == REDCO_OK) { st = trace_layout_write(&layout, title, sheet, err); }
    trace_layout_clear(&layout);
    redco_trace_free(sum);
    return st;
}

redco_status plot_timelines_documents(const redco_json_value *roots, size_t count, struct plot_sheet *sheet,
                                      redco_error *err)
{
    const char *kinds[REDCO_WORK_COUNT + 1] = {NULL};
    redco_trace **const traces = calloc(count + 1, sizeof(redco_trace *));
    redco_compare_source *const sources = calloc(count + 1, sizeof *sources);
    redco_comparison *comparison = NULL;
    redco_trace_load_report ignored;
    redco_status st = REDCO_OK;
    if (traces == NULL || sources == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    if (count < 2) {
        st = redco_fail(
            err, REDCO_EVALUE, plot_kind_words[PLOT_TIMELINES],
            "is drawn from two traces or more: the predicted one of redco-sim --timeline, then measured ones");
        goto out;
    }
    for (int w = 0; w < REDCO_WORK_COUNT; w++) { kinds[w] = redco_work_name((redco_work)w); }
    for (size_t i = 0; i < count; i++) {
        if ((st = redco_trace_import(&roots[i], NULL, &traces[i], &ignored, err)) != REDCO_OK) { goto out; }
        sources[i] = (redco_compare_source){traces[i], roots[i].name};
    }
    st = redco_trace_compare(&sources[0], &sources[1], (uint32_t)count - 1, kinds, NULL, &comparison, err);
    if (st != REDCO_OK) { goto out; }
    const struct plot_comparison timelines = {traces[0], traces[1 + comparison->shown_file], comparison};
    st = plot_timelines(&timelines, sheet, err);
out:
    for (size_t i = 0; traces != NULL && i < count; i++) { redco_trace_free(traces[i]); }
    free(traces);
    free(sources);
    redco_comparison_free(comparison);
    return st;
}
