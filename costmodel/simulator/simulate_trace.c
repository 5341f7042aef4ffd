/* A timeline as a trace, and memory over time. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/simulator/simulate_internal.h"
#include "costmodel/simulator/step_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An operator that changes memory when it starts or ends. */
struct change {
    double time_s;
    uint32_t op;
    bool start;
};

/* Ends before starts: what an operator gives back, the next one may take. */
static int compare_changes(const void *a, const void *b)
{
    const struct change *const x = a, *const y = b;
    if (x->time_s < y->time_s || x->time_s > y->time_s) { return x->time_s < y->time_s ? -1 : 1; }
    if (x->start != y->start) { return x->start ? 1 : -1; }
    return (x->op > y->op) - (x->op < y->op);
}

static uint32_t list_changes(const redco_timeline *t, uint32_t rank, struct change *changes)
{
    const redco_step *const step = t->step;
    uint32_t count = 0;
    for (uint32_t op = 0; op < step->op_count; op++) {
        bool takes = false, gives = false;
        for (uint32_t i = step->first_memory[op]; i < step->first_memory[op + 1]; i++) {
            takes = takes || step->memories[i].bytes > 0;
            gives = gives || step->memories[i].bytes < 0;
        }
        if (step->ops[op].rank != rank) { continue; }
        if (takes) { changes[count++] = (struct change){t->start_s[op], op, true}; }
        if (gives) { changes[count++] = (struct change){t->end_s[op], op, false}; }
    }
    qsort(changes, count, sizeof *changes, compare_changes);
    return count;
}

redco_status redco_timeline_memory(const redco_timeline *timeline, uint32_t rank, redco_memory_point **points_out,
                                   uint32_t *count_out, redco_error *err)
{
    const redco_step *const step = timeline->step;
    struct change *const changes = malloc((2 * (size_t)step->op_count + 1) * sizeof *changes);
    redco_memory_point *points = NULL;
    redco_status st = REDCO_OK;
    uint32_t used = 0;
    if (changes == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const uint32_t count = list_changes(timeline, rank, changes);
    points = calloc((size_t)count + 1, sizeof *points);
    if (points == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    memcpy(points[0].held_bytes, redco_step_resident_bytes(step, rank), sizeof points[0].held_bytes);
    for (uint32_t c = 0; c < count; c++) {
        if (changes[c].time_s > points[used].time_s) {
            points[used + 1] = points[used];
            points[++used].time_s = changes[c].time_s;
        }
        for (uint32_t i = step->first_memory[changes[c].op]; i < step->first_memory[changes[c].op + 1]; i++) {
            const redco_step_memory *const m = &step->memories[i];
            if ((m->bytes > 0) == changes[c].start) { points[used].held_bytes[m->category] += (uint64_t)m->bytes; }
        }
    }
    *points_out = points;
    *count_out = used + 1;
out:
    free(changes);
    return st;
}

static void add_names(redco_trace *trace, const redco_step *step)
{
    char name[64];
    for (uint32_t r = 0; r < step->ranks; r++) {
        (void)snprintf(name, sizeof name, step->ranks > 1 ? "stage %u" : "rank", r);
        redco_trace_add_process(trace, r, name);
        for (uint32_t s = 0; s < REDCO_STREAM_COUNT; s++) {
            if (step->stream_ends[r * REDCO_STREAM_COUNT + s].first == REDCO_STEP_NONE) { continue; }
            redco_trace_add_thread(trace, r, s, redco_stream_name((redco_stream)s));
        }
    }
}

static void add_args(redco_trace *trace, const redco_step *step, uint32_t op)
{
    const redco_step_op *const o = &step->ops[op];
    const redco_step_traffic *const traffic = redco_step_traffic_of(step, op);
    char text[64];
    if (o->layer != REDCO_STEP_NONE) {
        (void)snprintf(text, sizeof text, "%s.%u", step->layers[o->layer].class_name, step->layers[o->layer].index);
        redco_trace_add_arg(trace, "layer", text, 0.0);
    }
    if (o->micro_batch != REDCO_STEP_NONE) { redco_trace_add_arg(trace, "micro_batch", NULL, o->micro_batch); }
    if (o->link != REDCO_LINK_NONE) { redco_trace_add_arg(trace, "link", redco_link_name((redco_link)o->link), 0.0); }
    if (o->contends || o->stream != REDCO_STREAM_COMPUTE) {
        redco_trace_add_arg(trace, "alone_us", NULL, 1e-3 * round(1e9 * o->seconds));
    }
    if (traffic == NULL) { return; }
    (void)snprintf(text, sizeof text, "%ux%u", traffic->group.mesh.gpus, traffic->group.mesh.nodes);
    redco_trace_add_arg(trace, "collective", redco_collective_name(traffic->op), 0.0);
    redco_trace_add_arg(trace, "group", text, 0.0);
    redco_trace_add_arg(trace, "bytes", NULL, (double)(uint64_t)(traffic->size_bytes + 0.5));
    if (traffic->calls > 1) { redco_trace_add_arg(trace, "calls", NULL, traffic->calls); }
}

/* @return the span of the first operator: the others follow it */
static uint32_t add_spans(redco_trace *trace, const redco_timeline *t, double from_s, uint64_t number)
{
    const redco_step *const step = t->step;
    uint32_t first = 0;
    char name[128];
    (void)redco_trace_spans(trace, &first);
    for (uint32_t op = 0; op < step->op_count; op++) {
        const redco_step_op *const o = &step->ops[op];
        const redco_trace_span span = {.name = redco_step_name(step, op, name, sizeof name),
                                       .category = redco_work_name((redco_work)o->work),
                                       .process = o->rank,
                                       .thread = o->stream,
                                       .start_s = from_s + t->start_s[op],
                                       .duration_s = t->end_s[op] - t->start_s[op]};
        (void)redco_trace_add_span(trace, &span);
        add_args(trace, step, op);
        if (number > 0) { redco_trace_add_arg(trace, "step", NULL, (double)number); }
    }
    return first;
}

static void add_flows(redco_trace *trace, const redco_step *step, uint32_t first)
{
    for (uint32_t op = 0; op < step->op_count; op++) {
        if (step->ops[op].stream != REDCO_STREAM_COMPUTE) { continue; }
        for (uint32_t i = step->first_input[op]; i < step->first_input[op + 1]; i++) {
            const uint32_t input = step->inputs[i];
            const uint8_t work = step->ops[input].work;
            if (work == REDCO_WORK_GATHER || work == REDCO_WORK_UPDATE || work == REDCO_WORK_PIPELINE) {
                redco_trace_add_flow(trace, redco_work_name((redco_work)work), first + input, first + op);
            }
        }
    }
}

static redco_status add_memory(redco_trace *trace, const redco_timeline *t, double from_s, uint32_t rank,
                               redco_error *err)
{
    redco_memory_point *points = NULL;
    uint32_t count = 0;
    const redco_status st = redco_timeline_memory(t, rank, &points, &count, err);
    for (uint32_t i = 0; st == REDCO_OK && i < count; i++) {
        redco_trace_add_counter(trace, "memory", rank, from_s + points[i].time_s);
        for (uint32_t h = 0; h < REDCO_CATEGORY_COUNT; h++) {
            redco_trace_add_arg(trace, redco_memory_category_name((redco_memory_category)h), NULL,
                                (double)points[i].held_bytes[h]);
        }
    }
    free(points);
    return st;
}

redco_status redco_timeline_add(const redco_timeline *timeline, double from_s, uint64_t number, redco_trace *trace,
                                redco_error *err)
{
    uint32_t processes = 0;
    redco_status st = REDCO_OK;
    (void)redco_trace_processes(trace, &processes);
    if (processes == 0) { add_names(trace, timeline->step); }
    add_flows(trace, timeline->step, add_spans(trace, timeline, from_s, number));
    for (uint32_t r = 0; r < timeline->step->ranks && st == REDCO_OK; r++) {
        st = add_memory(trace, timeline, from_s, r, err);
    }
    return st;
}

redco_status redco_timeline_trace(const redco_timeline *timeline, redco_trace **trace_out, redco_error *err)
{
    redco_trace *const trace = redco_trace_new();
    if (trace == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    const redco_status st = redco_timeline_add(timeline, 0.0, 0, trace, err);
    if (st == REDCO_OK) {
        *trace_out = trace;
    } else {
        redco_trace_free(trace);
    }
    return st;
}

/* Perfetto draws some 10^5 spans with ease. */
enum { MOST_SPANS = 200000 };

/* Micro-batches of a trace: all, or as few as tell all, in the multiples that interleaved stages need. */
static uint64_t shown(const redco_simulation *s, const redco_parallelism *parallelism)
{
    const double each = (double)s->represented_operators / (double)s->simulated_micro_batches;
    const uint64_t unit = redcoi_repeated_batches(parallelism);
    uint64_t few = s->simulated_micro_batches;
    if (each * (double)parallelism->micro_batches <= MOST_SPANS) { return parallelism->micro_batches; }
    while (unit > 0 && few > 2 * unit && each * (double)few > MOST_SPANS) { few -= unit; }
    return few;
}

redco_status redco_simulate_trace(redco_costs *costs, const redco_parallelism *parallelism,
                                  const redco_assignment *assignments, uint32_t count,
                                  const redco_step_options *options, redco_trace **trace_out, redco_error *err)
{
    redco_step_options o = options != NULL ? *options : (redco_step_options){.steps = 0};
    redco_simulation simulation;
    redco_step *step = NULL;
    redco_timeline *timeline = NULL;
    char text[64];
    redco_status st = redco_simulate(costs, parallelism, assignments, count, &o, &simulation, err);
    if (st != REDCO_OK) { return st; }
    o.micro_batches = shown(&simulation, parallelism);
    if ((st = redco_step_build(costs, parallelism, assignments, count, &o, &step, err)) != REDCO_OK ||
        (st = redco_timeline_create(step, &timeline, err)) != REDCO_OK ||
        (st = redco_timeline_check(timeline, err)) != REDCO_OK ||
        (st = redco_timeline_trace(timeline, trace_out, err)) != REDCO_OK) {
        goto out;
    }
    redco_trace_add_note(*trace_out, "format", "redco-timeline");
    (void)snprintf(text, sizeof text, "%llu of %llu", (unsigned long long)o.micro_batches,
                   (unsigned long long)parallelism->micro_batches);
    redco_trace_add_note(*trace_out, "micro_batches", text);
    (void)snprintf(text, sizeof text, "%.9g", simulation.step_s);
    redco_trace_add_note(*trace_out, "step_s", text);
    (void)snprintf(text, sizeof text, "simulated, %llu of %llu micro-batches", (unsigned long long)o.micro_batches,
                   (unsigned long long)parallelism->micro_batches);
    redco_trace_add_note(*trace_out, "source", o.micro_batches < parallelism->micro_batches ? text : "simulated");
out:
    redco_timeline_free(timeline);
    redco_step_free(step);
    return st;
}
