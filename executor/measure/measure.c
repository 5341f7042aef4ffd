#include "executor/measure/measure_internal.h"

#include "costmodel/graph/transform.h"
#include "topology/base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_RUNS = 200, MOST_REPEATS = 100000, MOST_COPIES = 32 };

static const double default_sample_s = 50e-6;
static const double default_case_s = 5e-3;
enum { DEFAULT_RUNS = 3 };

redco_status redco_measurer_create(redco_backend *backend, const redco_measure_options *options,
                                   redco_measurer **measurer_out, redco_error *err)
{
    const redco_backend_calls *calls = backend->calls;
    redco_measurer *m = calloc(1, sizeof *m);
    if (m == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    m->backend = backend;
    m->options = *options;
    m->pattern_dtype = REDCO_DTYPE_COUNT;
    if (!(m->options.sample_s > 0.0)) { m->options.sample_s = default_sample_s; }
    if (!(m->options.case_s > 0.0)) { m->options.case_s = default_case_s; }
    if (m->options.runs == 0) { m->options.runs = DEFAULT_RUNS; }
    redco_status st = calls->stream_create(backend, REDCO_DEVICE_STREAM_COMPUTATION, &m->stream, err);
    if (st == REDCO_OK) { st = redcoi_measure_events(m, 2, err); }
    if (st == REDCO_OK) { st = calls->allocate(backend, REDCO_MEMORY_HOST, REDCOI_PATTERN_BYTES, &m->staging, err); }
    if (st == REDCO_OK && options->queued) { st = redcoi_measure_heat_create(m, err); }
    if (st != REDCO_OK) {
        redco_measurer_free(m);
        return st;
    }
    *measurer_out = m;
    return REDCO_OK;
}

void redco_measurer_free(redco_measurer *measurer)
{
    if (measurer == NULL) { return; }
    const redco_backend_calls *calls = measurer->backend->calls;
    /* Where something failed, work may still be queued on what is freed now. */
    if (measurer->stream != NULL) { (void)calls->stream_finish(measurer->backend, measurer->stream, NULL); }
    redcoi_measure_heat_free(measurer);
    calls->release(measurer->backend, REDCO_MEMORY_DEVICE, measurer->arena);
    calls->release(measurer->backend, REDCO_MEMORY_HOST, measurer->staging);
    for (uint32_t i = 0; i < measurer->event_count; i++) { calls->event_free(measurer->backend, measurer->events[i]); }
    free(measurer->events);
    if (measurer->stream != NULL) { calls->stream_free(measurer->backend, measurer->stream); }
    free(measurer);
}

void redco_measurer_hurry(redco_measurer *measurer)
{
    measurer->options.runs = 1;
    measurer->options.case_s = 0.0;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double redcoi_measure_undisturbed_s(double *samples_s, uint32_t count)
{
    qsort(samples_s, count, sizeof *samples_s, by_size);
    return samples_s[count / 8];
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + REDCO_ALIGNMENT_BYTES - 1) / REDCO_ALIGNMENT_BYTES * REDCO_ALIGNMENT_BYTES;
}

static redco_status place_values(redcoi_layout *l)
{
    const redco_backend_calls *calls = l->m->backend->calls;
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    uint64_t bytes = 0, workspace = 0;
    for (uint32_t i = 0; i < redco_graph_op_count(l->graph); i++) {
        const redco_op *op = redco_graph_op(l->graph, i);
        if (!l->live[i]) { continue; }
        if (op->kind == REDCO_OP_RESHAPE) {
            l->offset[op->first_output] = l->offset[op->inputs[0]];
            continue;
        }
        for (uint32_t k = 0; k < op->output_count; k++) {
            l->offset[op->first_output + k] = bytes;
            bytes += aligned(redco_type_bytes(redco_value_type(l->graph, op->first_output + k)));
        }
        if (op->kind == REDCO_OP_INPUT) { continue; }
        const redco_launch launch = redcoi_measure_launch(l, op, 0, inputs, outputs);
        if (!calls->supports(l->m->backend, &launch)) {
            return redco_fail(l->err, REDCO_EVALUE, calls->name, "has no operator %s of %s", launch.name,
                              redco_dtype_name(outputs[0].type.dtype));
        }
        const uint64_t needed = calls->workspace_bytes(l->m->backend, &launch);
        workspace = needed > workspace ? needed : workspace;
    }
    l->m->workspace_bytes = workspace;
    l->copy_bytes = bytes;
    l->workspace = aligned(workspace); /* for now its length */
    return REDCO_OK;
}

/* As many copies as make what one of them leaves in the caches useless to the next turn; one if there is no room. */
static redco_status choose_copies(redcoi_layout *l)
{
    const redco_measure_options *const o = &l->m->options;
    const uint64_t workspace = l->workspace, most = o->most_bytes > 0 ? o->most_bytes : UINT64_MAX;
    uint64_t copies = o->queued && l->copy_bytes > 0 ? (o->cold_bytes + l->copy_bytes - 1) / l->copy_bytes : 1;
    copies = copies < 1 ? 1 : copies > MOST_COPIES ? MOST_COPIES : copies;
    while (copies > 1 && copies * l->copy_bytes + workspace > most) { copies--; }
    l->copies = (uint32_t)copies;
    l->workspace = copies * l->copy_bytes;
    l->bytes = l->workspace + workspace;
    if (l->bytes <= most) { return REDCO_OK; }
    return redco_fail(l->err, REDCO_ENOMEM, "measure", "%llu MB of %llu MB are needed",
                      (unsigned long long)(l->bytes / 1000000), (unsigned long long)(most / 1000000));
}

redco_status redcoi_measure_arena(redco_measurer *m, uint64_t bytes, redco_error *err)
{
    const redco_backend_calls *calls = m->backend->calls;
    if (bytes <= m->arena_bytes) { return REDCO_OK; }
    calls->release(m->backend, REDCO_MEMORY_DEVICE, m->arena);
    m->arena = NULL;
    m->arena_bytes = 0;
    redco_status st = calls->allocate(m->backend, REDCO_MEMORY_DEVICE, bytes, &m->arena, err);
    if (st != REDCO_OK) { return st; }
    m->arena_bytes = bytes;
    return calls->fill_zero(m->backend, m->stream, m->arena, m->arena_bytes, err);
}

/* Inputs of the first copy again in the others. */
static redco_status fill_copies(const redcoi_layout *l)
{
    redco_measurer *const m = l->m;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < redco_graph_op_count(l->graph); i++) {
        const redco_op *op = redco_graph_op(l->graph, i);
        if (!l->live[i] || op->kind != REDCO_OP_INPUT) { continue; }
        unsigned char *const first = (unsigned char *)m->arena + l->offset[op->first_output];
        const uint64_t bytes = redco_type_bytes(redco_value_type(l->graph, op->first_output));
        for (uint64_t c = 1; c < l->copies && st == REDCO_OK; c++) {
            st = m->backend->calls->copy(m->backend, m->stream, first + c * l->copy_bytes, first, bytes, l->err);
        }
    }
    return st;
}

static redco_status fill_inputs(const redcoi_layout *l, uint64_t index_bound)
{
    redco_measurer *const m = l->m;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < redco_graph_op_count(l->graph) && st == REDCO_OK; i++) {
        const redco_op *op = redco_graph_op(l->graph, i);
        if (!l->live[i] || op->kind != REDCO_OP_INPUT) { continue; }
        const redco_tensor_type *type = redco_value_type(l->graph, op->first_output);
        st = redcoi_measure_fill(m, (unsigned char *)m->arena + l->offset[op->first_output], redco_type_bytes(type),
                                 type->dtype, index_bound, l->err);
    }
    if (st == REDCO_OK) { st = fill_copies(l); }
    return st == REDCO_OK ? m->backend->calls->stream_finish(m->backend, m->stream, l->err) : st;
}

/* One sample: @p repeats runs of an operator. */
static redco_status sample(const redcoi_layout *l, const redco_launch *launch, uint32_t repeats, double *seconds_out)
{
    redco_measurer *const m = l->m;
    const redco_backend_calls *calls = m->backend->calls;
    redco_status st = REDCO_OK;
    const double processor_s = redco_thread_s();
    st = calls->event_set(m->backend, m->stream, m->events[0], l->err);
    for (uint32_t r = 0; r < repeats && st == REDCO_OK; r++) { st = calls->run(m->backend, m->stream, launch, l->err); }
    if (st == REDCO_OK) { st = calls->event_set(m->backend, m->stream, m->events[1], l->err); }
    if (st == REDCO_OK) { st = calls->event_finish(m->backend, m->events[1], l->err); }
    const double used_s = redco_thread_s() - processor_s;
    double wall_s = 0.0;
    if (st == REDCO_OK) { st = calls->event_between(m->backend, m->events[0], m->events[1], &wall_s, l->err); }
    m->all_wall_s += wall_s;
    m->all_processor_s += m->options.processor_time ? used_s : wall_s;
    m->wall_s += wall_s / repeats;
    *seconds_out = (m->options.processor_time ? used_s : wall_s) / repeats;
    return st;
}

/* All operators once. @return their seconds together in @p total_out */
static redco_status run_once(const redcoi_layout *l, double *op_s, double *total_out)
{
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    redco_status st = REDCO_OK;
    *total_out = 0.0;
    l->m->wall_s = 0.0;
    for (uint32_t i = 0; i < redco_graph_op_count(l->graph) && st == REDCO_OK; i++) {
        const redco_op *op = redco_graph_op(l->graph, i);
        double seconds = 0.0;
        if (!redcoi_measure_is_run(l, op)) { continue; }
        const redco_launch launch = redcoi_measure_launch(l, op, 0, inputs, outputs);
        st = sample(l, &launch, l->repeats[i], &seconds);
        if (op_s != NULL) { op_s[i] = fmin(op_s[i], seconds); }
        const double wanted = l->m->options.sample_s / fmax(seconds, 1e-9);
        const uint32_t repeats = wanted > MOST_REPEATS ? MOST_REPEATS : (uint32_t)ceil(wanted);
        if (repeats > l->repeats[i]) { l->repeats[i] = repeats; }
        *total_out += seconds;
    }
    return st;
}

static redco_status run_often(const redcoi_layout *l, double *op_s)
{
    const redco_measure_options *o = &l->m->options;
    double seconds = 0.0, least_s = INFINITY, sum_s = 0.0, least_wall_s = INFINITY;
    redco_status st = run_once(l, NULL, &seconds); /* warms caches and sets the repeats */
    const double began_s = redco_now_s();
    uint32_t runs = 0;
    while (st == REDCO_OK && runs < MOST_RUNS && (runs < o->runs || redco_now_s() - began_s < o->case_s)) {
        st = run_once(l, op_s, &seconds);
        least_s = fmin(least_s, seconds);
        least_wall_s = fmin(least_wall_s, l->m->wall_s);
        sum_s += seconds;
        runs++;
    }
    l->m->spread = least_s > 0.0 && runs > 0 ? sum_s / runs / least_s - 1.0 : 0.0;
    l->m->wall_s = least_wall_s;
    return st;
}

redco_status redco_measure_graph(redco_measurer *measurer, const redco_graph *graph, const redco_value *results,
                                 uint32_t result_count, uint64_t index_bound, double *op_s, redco_error *err)
{
    const size_t ops = redco_graph_op_count(graph), values = redco_graph_value_count(graph);
    redcoi_layout l = {.m = measurer, .graph = graph, .err = err};
    redco_status st = redco_graph_status(graph, err);
    if (st != REDCO_OK) { return st; }
    l.live = calloc(ops + 1, sizeof *l.live);
    l.offset = calloc(values + 1, sizeof *l.offset);
    l.repeats = calloc(ops + 1, sizeof *l.repeats);
    if (l.live == NULL || l.offset == NULL || l.repeats == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
        goto out;
    }
    for (size_t i = 0; i < ops; i++) { l.repeats[i] = 1; }
    redco_graph_live(graph, results, result_count, l.live);
    if ((st = place_values(&l)) != REDCO_OK || (st = choose_copies(&l)) != REDCO_OK ||
        (st = redcoi_measure_arena(measurer, l.bytes, err)) != REDCO_OK ||
        (st = fill_inputs(&l, index_bound)) != REDCO_OK) {
        goto out;
    }
    st = measurer->load != NULL     ? redcoi_measure_sustained(&l, measurer->load, measurer->sustained)
         : measurer->options.queued ? redcoi_measure_queued(&l, op_s)
                                    : run_often(&l, op_s);
out:
    free(l.live);
    free(l.offset);
    free(l.repeats);
    return st;
}

redco_measure_launches redco_measure_queueing(const redco_measurer *measurer)
{
    return measurer->launches;
}

uint64_t redco_measure_workspace_bytes(const redco_measurer *measurer)
{
    return measurer->workspace_bytes;
}

double redco_measure_spread(const redco_measurer *measurer)
{
    return measurer->spread;
}

double redco_measure_wall_s(const redco_measurer *measurer)
{
    return measurer->wall_s;
}

double redco_measure_processor_ratio(const redco_measurer *measurer)
{
    return measurer->all_wall_s > 0.0 ? fmin(1.0, measurer->all_processor_s / measurer->all_wall_s) : 1.0;
}
