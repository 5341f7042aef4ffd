/* Timing on a device that works through streams by itself: a whole run is queued, then waited for once. */
#include "executor/measure/measure_internal.h"
#include "topology/base/clock.h"

#include <math.h>
#include <stdlib.h>

/* Operators of a run: drivers queue about a thousand launches before a call waits for the device. */
enum { MOST_LAUNCHES = 600, MOST_RUNS = 50, MOST_HEATS = 200, FIRST_HEATS = 3 };
static const double default_heat_s = 2e-3, first_stream_s = 20e-6;
static const double hold_factor = 1.5; /* on what queueing a run took before */

/* C = A B of square matrices, bf16. */
static redco_status heat_once(redco_measurer *m, redco_error *err)
{
    const uint64_t side = m->options.heat_side;
    const redco_tensor_type type = redco_type(REDCO_BFLOAT16, 2, (const uint64_t[]){side, side});
    const uint64_t bytes = redco_type_bytes(&type);
    const redco_attributes attributes = {.rank = 0};
    unsigned char *const base = m->heat;
    const redco_tensor inputs[2] = {{type, base}, {type, base + bytes}};
    const redco_tensor output = {type, base + 2 * bytes};
    const redco_launch launch = {.kind = REDCO_OP_MATMUL,
                                 .attributes = &attributes,
                                 .input_count = 2,
                                 .output_count = 1,
                                 .inputs = inputs,
                                 .outputs = &output,
                                 .workspace = base + 3 * bytes,
                                 .name = "heat"};
    return m->backend->calls->run(m->backend, m->stream, &launch, err);
}

static uint64_t heat_workspace(redco_measurer *m, const redco_tensor_type *type)
{
    const redco_attributes attributes = {.rank = 0};
    const redco_tensor inputs[2] = {{*type, NULL}, {*type, NULL}}, output = {*type, NULL};
    const redco_launch launch = {.kind = REDCO_OP_MATMUL,
                                 .attributes = &attributes,
                                 .input_count = 2,
                                 .output_count = 1,
                                 .inputs = inputs,
                                 .outputs = &output,
                                 .name = "heat"};
    return m->backend->calls->workspace_bytes(m->backend, &launch);
}

/* Seconds of one, the last of some. */
static redco_status time_heat(redco_measurer *m, uint32_t tries, double *seconds_out, redco_error *err)
{
    const redco_backend_calls *const calls = m->backend->calls;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < tries && st == REDCO_OK; i++) {
        if (i + 1 == tries) { st = calls->event_set(m->backend, m->stream, m->events[0], err); }
        if (st == REDCO_OK) { st = heat_once(m, err); }
    }
    if (st == REDCO_OK) { st = calls->event_set(m->backend, m->stream, m->events[1], err); }
    if (st == REDCO_OK) { st = calls->event_finish(m->backend, m->events[1], err); }
    if (st == REDCO_OK) { st = calls->event_between(m->backend, m->events[0], m->events[1], seconds_out, err); }
    *seconds_out = fmax(*seconds_out, 1e-9);
    return st;
}

redco_status redcoi_measure_heat_create(redco_measurer *m, redco_error *err)
{
    const redco_backend_calls *const calls = m->backend->calls;
    const uint64_t side = m->options.heat_side;
    if (!(m->options.heat_s > 0.0)) { m->options.heat_s = default_heat_s; }
    m->stream_s = first_stream_s;
    if (side == 0) { return REDCO_OK; }
    const redco_tensor_type type = redco_type(REDCO_BFLOAT16, 2, (const uint64_t[]){side, side});
    const uint64_t bytes = 3 * redco_type_bytes(&type) + heat_workspace(m, &type);
    redco_status st = calls->allocate(m->backend, REDCO_MEMORY_DEVICE, bytes, &m->heat, err);
    /* Numbers, since products of zeros need less power. */
    if (st == REDCO_OK) { st = redcoi_measure_fill(m, m->heat, 2 * redco_type_bytes(&type), REDCO_BFLOAT16, 0, err); }
    return st == REDCO_OK ? time_heat(m, FIRST_HEATS, &m->heat_s, err) : st;
}

redco_status redco_measure_hot_ratio(redco_measurer *measurer, double *ratio_out, redco_error *err)
{
    double now_s = 0.0;
    *ratio_out = 1.0;
    if (measurer->heat == NULL) { return REDCO_OK; }
    const redco_status st = time_heat(measurer, MOST_HEATS, &now_s, err);
    if (st == REDCO_OK) { *ratio_out = now_s / measurer->heat_s; }
    return st;
}

redco_status redco_measure_recording_launch(redco_measurer *measurer, uint32_t operators, double *seconds_out,
                                            redco_error *err)
{
    enum { PLAYS = 20 };
    redco_measurer *const m = measurer;
    const redco_backend_calls *const calls = m->backend->calls;
    redco_recording *recording = NULL;
    double began_s = 0.0;
    *seconds_out = 0.0;
    if (m->heat == NULL || calls->record_begin == NULL || operators == 0) { return REDCO_OK; }
    redco_status st = calls->record_begin(m->backend, m->stream, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < operators && st == REDCO_OK; i++) { st = heat_once(m, err); }
    const redco_status ended = calls->record_end(m->backend, m->stream, st == REDCO_OK ? &recording : NULL, err);
    if (st == REDCO_OK) { st = ended; }
    for (uint32_t i = 0; i <= PLAYS && st == REDCO_OK; i++) { /* the first keeps the device busy */
        st = calls->record_play(m->backend, m->stream, recording, err);
        if (i == 0) { began_s = redco_now_s(); }
    }
    *seconds_out = (redco_now_s() - began_s) / PLAYS;
    const redco_status finished = calls->stream_finish(m->backend, m->stream, st == REDCO_OK ? err : NULL);
    if (recording != NULL) { calls->record_free(m->backend, recording); }
    return st == REDCO_OK ? finished : st;
}

void redcoi_measure_heat_free(redco_measurer *m)
{
    m->backend->calls->release(m->backend, REDCO_MEMORY_DEVICE, m->heat);
    m->heat = NULL;
}

/* The device is busy for that long. */
static redco_status hold(redco_measurer *m, double seconds, redco_error *err)
{
    redco_status st = REDCO_OK;
    if (m->heat == NULL) {
        return m->backend->calls->occupy(m->backend, m->stream, &(redco_occupation){.seconds = seconds}, err);
    }
    const double wanted = ceil(seconds / m->heat_s);
    const uint32_t count = wanted < 1.0 ? 1 : wanted > MOST_HEATS ? MOST_HEATS : (uint32_t)wanted;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) { st = heat_once(m, err); }
    return st;
}

/* State of the runs of one graph. */
struct runs {
    const redcoi_layout *l;
    uint32_t *ops; /* that are run, in order */
    uint32_t count;
    uint32_t turn;   /* number of the next copy */
    double *seconds; /* [run][op] */
};

static redco_status repeat(struct runs *r, uint32_t op_index, uint32_t repeats)
{
    const redcoi_layout *const l = r->l;
    redco_backend *const backend = l->m->backend;
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < repeats && st == REDCO_OK; i++) {
        const redco_op *const op = redco_graph_op(l->graph, r->ops[op_index]);
        const redco_launch launch = redcoi_measure_launch(l, op, (r->turn + i) % l->copies, inputs, outputs);
        st = backend->calls->run(backend, l->m->stream, &launch, l->err);
    }
    return st;
}

/* Every operator on every copy: what a later run reads has been written, libraries have chosen their kernels. */
static redco_status warm(struct runs *r)
{
    redco_status st = REDCO_OK;
    r->turn = 0;
    for (uint32_t i = 0; i < r->count && st == REDCO_OK; i++) { st = repeat(r, i, r->l->copies); }
    return st;
}

static uint32_t launches_of(const struct runs *r)
{
    uint32_t launches = 0;
    for (uint32_t i = 0; i < r->count; i++) { launches += r->l->repeats[r->ops[i]]; }
    return launches;
}

/* One run of all operators, queued as a whole. */
static redco_status run_once(struct runs *r, double *seconds)
{
    redco_measurer *const m = r->l->m;
    const redco_backend_calls *const calls = m->backend->calls;
    const uint32_t launches = launches_of(r);
    redco_status st = hold(m, fmax(m->options.heat_s, hold_factor * m->stream_s * launches), r->l->err);
    const double began_s = redco_now_s();
    if (st == REDCO_OK) { st = calls->event_set(m->backend, m->stream, m->events[0], r->l->err); }
    for (uint32_t i = 0; i < r->count && st == REDCO_OK; i++) {
        st = repeat(r, i, r->l->repeats[r->ops[i]]);
        if (st == REDCO_OK) { st = calls->event_set(m->backend, m->stream, m->events[i + 1], r->l->err); }
    }
    const double queueing_s = redco_now_s() - began_s;
    r->turn = (r->turn + launches) % r->l->copies;
    if (st == REDCO_OK) { st = calls->event_finish(m->backend, m->events[r->count], r->l->err); }
    for (uint32_t i = 0; i < r->count && st == REDCO_OK; i++) {
        st = calls->event_between(m->backend, m->events[i], m->events[i + 1], &seconds[i], r->l->err);
        seconds[i] /= r->l->repeats[r->ops[i]];
    }
    m->stream_s = fmax(queueing_s / launches, 1e-7);
    m->launches.count += launches;
    m->launches.host_s += queueing_s;
    return st;
}

/* As often as a sample lasts; all together not more than can be queued. */
static void choose_repeats(const struct runs *r, const double *seconds)
{
    uint32_t *const repeats = r->l->repeats;
    for (uint32_t i = 0; i < r->count; i++) {
        const double wanted = ceil(r->l->m->options.sample_s / fmax(seconds[i], 1e-9));
        repeats[r->ops[i]] = wanted < 1.0 ? 1 : wanted > MOST_LAUNCHES ? MOST_LAUNCHES : (uint32_t)wanted;
    }
    const uint32_t launches = launches_of(r);
    for (uint32_t i = 0; i < r->count && launches > MOST_LAUNCHES; i++) {
        const uint32_t part = (uint32_t)((uint64_t)repeats[r->ops[i]] * MOST_LAUNCHES / launches);
        repeats[r->ops[i]] = part > 0 ? part : 1;
    }
}

static int compare_numbers(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *numbers, uint32_t count)
{
    qsort(numbers, count, sizeof *numbers, compare_numbers);
    return 0.5 * (numbers[(count - 1) / 2] + numbers[count / 2]);
}

static double sum(const double *numbers, uint32_t count)
{
    double total = 0.0;
    for (uint32_t i = 0; i < count; i++) { total += numbers[i]; }
    return total;
}

/* Medians of all operators, and how much longer than the best a run took on average. */
static void conclude(struct runs *r, uint32_t runs, double *op_s)
{
    redco_measurer *const m = r->l->m;
    double column[MOST_RUNS];
    double least_s = INFINITY, all_s = 0.0;
    for (uint32_t k = 0; k < runs; k++) {
        const double run_s = sum(r->seconds + (size_t)k * r->count, r->count);
        least_s = fmin(least_s, run_s);
        all_s += run_s;
    }
    m->spread = least_s > 0.0 ? all_s / runs / least_s - 1.0 : 0.0;
    m->wall_s = least_s;
    m->all_wall_s += all_s;
    m->all_processor_s += all_s; /* nobody shares the device */
    for (uint32_t i = 0; i < r->count; i++) {
        for (uint32_t k = 0; k < runs; k++) { column[k] = r->seconds[(size_t)k * r->count + i]; }
        op_s[r->ops[i]] = fmin(op_s[r->ops[i]], median(column, runs));
    }
}

redco_status redcoi_measure_queued(const redcoi_layout *l, double *op_s)
{
    const redco_measure_options *const o = &l->m->options;
    const uint32_t ops = redco_graph_op_count(l->graph);
    struct runs r = {.l = l, .ops = calloc(ops + 1, sizeof *r.ops)};
    redco_status st = REDCO_OK;
    uint32_t runs = 0;
    r.seconds = calloc((size_t)MOST_RUNS * (ops + 1), sizeof *r.seconds);
    if (r.ops == NULL || r.seconds == NULL) {
        st = redco_fail(l->err, REDCO_ENOMEM, "measure", "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < ops; i++) {
        if (redcoi_measure_is_run(l, redco_graph_op(l->graph, i))) { r.ops[r.count++] = i; }
    }
    if (r.count == 0) { goto out; }
    if ((st = redcoi_measure_events(l->m, r.count + 1, l->err)) != REDCO_OK || (st = warm(&r)) != REDCO_OK ||
        (st = run_once(&r, r.seconds)) != REDCO_OK) {
        goto out;
    }
    choose_repeats(&r, r.seconds);
    const double began_s = redco_now_s();
    while (st == REDCO_OK && runs < MOST_RUNS && (runs < o->runs || redco_now_s() - began_s < o->case_s)) {
        st = run_once(&r, r.seconds + (size_t)runs * r.count);
        runs++;
    }
    if (st == REDCO_OK) { conclude(&r, runs, op_s); }
out:
    free(r.ops);
    free(r.seconds);
    return st;
}
