#include "executor/measure/sustained.h"

#include "executor/measure/measure_internal.h"
#include "executor/measure/measure_operators.h"
#include "topology/base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Chunks that are queued ahead of the one that is waited for; work of one is at most so many operators. */
enum { AHEAD = 6, RING = AHEAD + 2, MOST_OPS = 2000, MOST_SAMPLES = 20000 };
static const double settled_ratio = 0.02, idle_pause_s = 0.02;
static const double read_factor = 3.0; /* a chunk lasts so many times as long as a look at the meter */

/* The state of one load. */
struct sustained {
    const redcoi_layout *l;
    const redco_measure_load *load;
    uint32_t *ops;          /* that are run, in order */
    uint32_t count, passes; /* operators and passes in a chunk */
    double read_s;          /* a look at the meter takes the program */
    uint32_t turn;          /* the number of the next copy */
    redco_recording *recording;
    redco_meter_sample *samples;
    double *chunk_s; /* by sample: of the chunk that it was taken behind */
    uint32_t sample_count;
};

static redco_status stream_passes(struct sustained *s, uint32_t passes)
{
    const redcoi_layout *const l = s->l;
    const uint32_t copies = l->copies > 0 ? l->copies : 1;
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    redco_status st = REDCO_OK;
    for (uint32_t p = 0; p < passes; p++) {
        for (uint32_t i = 0; i < s->count && st == REDCO_OK; i++) {
            const redco_launch launch =
                redcoi_measure_launch(l, redco_graph_op(l->graph, s->ops[i]), s->turn % copies, inputs, outputs);
            st = l->m->backend->calls->run(l->m->backend, l->m->stream, &launch, l->err);
        }
        s->turn++;
    }
    return st;
}

/* All operators once on every copy, so that backward finds what forward keeps and libraries have chosen their kernels;
 * then one pass for its seconds. */
static redco_status choose_passes(struct sustained *s)
{
    const redcoi_layout *const l = s->l;
    redco_backend *const backend = l->m->backend;
    const redco_backend_calls *const calls = backend->calls;
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    redco_status st = REDCO_OK;
    double seconds = 0.0;
    for (uint32_t copy = 0; copy < l->copies; copy++) {
        for (uint32_t i = 0; i < redco_graph_op_count(l->graph) && st == REDCO_OK; i++) {
            const redco_op *const op = redco_graph_op(l->graph, i);
            if (!redcoi_measure_is_run(l, op)) { continue; }
            const redco_launch launch = redcoi_measure_launch(l, op, copy, inputs, outputs);
            st = calls->run(backend, l->m->stream, &launch, l->err);
        }
    }
    if (st == REDCO_OK) { st = calls->event_set(backend, l->m->stream, l->m->events[0], l->err); }
    if (st == REDCO_OK) { st = stream_passes(s, 1); }
    if (st == REDCO_OK) { st = calls->event_set(backend, l->m->stream, l->m->events[1], l->err); }
    if (st == REDCO_OK) { st = calls->event_finish(backend, l->m->events[1], l->err); }
    if (st == REDCO_OK) { st = calls->event_between(backend, l->m->events[0], l->m->events[1], &seconds, l->err); }
    const double wanted = ceil(fmax(s->load->chunk_s, read_factor * s->read_s) / fmax(seconds, 1e-9));
    const double most = fmax(1.0, floor((double)MOST_OPS / s->count));
    s->passes = (uint32_t)fmin(fmax(wanted, 1.0), most);
    return st;
}

/* Drivers answer within microseconds or milliseconds: chunks that are shorter would be done before the next is queued.
 */
static redco_status time_meter(struct sustained *s)
{
    redco_meter_sample sample;
    const double began_s = redco_now_s();
    const redco_status st = s->load->meter.read(s->load->meter.context, &sample, s->l->err);
    s->read_s = redco_now_s() - began_s;
    return st;
}

/* So that the program's launches are no part of it. */
static redco_status record(struct sustained *s)
{
    const redcoi_layout *const l = s->l;
    const redco_backend_calls *const calls = l->m->backend->calls;
    if (calls->record_begin == NULL) { return REDCO_OK; }
    redco_status st = calls->record_begin(l->m->backend, l->m->stream, l->err);
    if (st != REDCO_OK) { return st; }
    s->turn = 0;
    st = stream_passes(s, s->passes);
    const redco_status ended = calls->record_end(l->m->backend, l->m->stream, &s->recording, l->err);
    return st == REDCO_OK ? ended : st;
}

static redco_status stream_chunk(struct sustained *s, uint32_t number)
{
    redco_measurer *const m = s->l->m;
    const redco_backend_calls *const calls = m->backend->calls;
    const redco_status st = s->recording != NULL ? calls->record_play(m->backend, m->stream, s->recording, s->l->err)
                                                 : stream_passes(s, s->passes);
    return st == REDCO_OK ? calls->event_set(m->backend, m->stream, m->events[number % RING], s->l->err) : st;
}

/* Waits for a chunk, with others queued behind it, and looks at the meter. */
static redco_status look(struct sustained *s)
{
    redco_measurer *const m = s->l->m;
    const redco_backend_calls *const calls = m->backend->calls;
    const uint32_t number = s->sample_count;
    redco_event *const event = m->events[number % RING];
    redco_status st = calls->event_finish(m->backend, event, s->l->err);
    if (st == REDCO_OK) { st = s->load->meter.read(s->load->meter.context, &s->samples[number], s->l->err); }
    if (st == REDCO_OK && number > 0) {
        st = calls->event_between(m->backend, m->events[(number - 1) % RING], event, &s->chunk_s[number], s->l->err);
    }
    s->sample_count++;
    return st;
}

static redco_status run(struct sustained *s, uint32_t *first_out)
{
    redco_status st = REDCO_OK;
    uint32_t first = 0;
    for (uint32_t i = 0; i < AHEAD && st == REDCO_OK; i++) { st = stream_chunk(s, i); }
    while (st == REDCO_OK && s->sample_count < MOST_SAMPLES) {
        if ((st = look(s)) != REDCO_OK) { break; }
        const uint32_t last = s->sample_count - 1;
        const double spent_s = s->samples[last].time_s - s->samples[0].time_s;
        if (first == 0 && last > 0 && spent_s >= s->load->settle_s) { first = last; }
        if (first > 0 && last >= first + 2 && s->samples[last].time_s - s->samples[first].time_s >= s->load->window_s) {
            break;
        }
        st = stream_chunk(s, last + AHEAD);
    }
    *first_out = first;
    return st;
}

/* Counters go on in steps of up to a tenth of a second: between the first and the last of them that was seen. */
static bool counted_watts(const redco_meter_sample *samples, uint32_t count, uint32_t first, double *watts_out)
{
    uint32_t from = 0, to = 0;
    for (uint32_t i = first + 1; i < count; i++) {
        if (samples[i].energy_j < 0.0 || samples[i - 1].energy_j < 0.0) { return false; }
        if (!(samples[i].energy_j > samples[i - 1].energy_j)) { continue; }
        if (from == 0) { from = i; }
        to = i;
    }
    if (to <= from || !(samples[to].time_s > samples[from].time_s)) { return false; }
    *watts_out = (samples[to].energy_j - samples[from].energy_j) / (samples[to].time_s - samples[from].time_s);
    return true;
}

/* Average of what @p value finds in samples, over their time; below 0: one of them does not know it. */
static double average(const redco_meter_sample *samples, uint32_t count, uint32_t first,
                      double (*value)(const redco_meter_sample *))
{
    double sum = 0.0;
    const double seconds = samples[count - 1].time_s - samples[first].time_s;
    for (uint32_t i = first; i < count; i++) {
        if (value(&samples[i]) < 0.0) { return -1.0; }
    }
    if (!(seconds > 0.0)) { return value(&samples[first]); }
    for (uint32_t i = first + 1; i < count; i++) {
        sum += 0.5 * (value(&samples[i]) + value(&samples[i - 1])) * (samples[i].time_s - samples[i - 1].time_s);
    }
    return sum / seconds;
}

static double watts_of(const redco_meter_sample *sample)
{
    return sample->watts;
}

static double clock_of(const redco_meter_sample *sample)
{
    return sample->clock_hz;
}

static double memory_clock_of(const redco_meter_sample *sample)
{
    return sample->memory_clock_hz;
}

redco_status redcoi_measure_average(const redco_meter_sample *samples, uint32_t count, uint32_t first,
                                    redco_measure_sustained *out, redco_error *err)
{
    out->sampled = !counted_watts(samples, count, first, &out->watts);
    if (out->sampled) { out->watts = average(samples, count, first, watts_of); }
    if (out->watts < 0.0) {
        return redco_fail(err, REDCO_EVALUE, "meter", "the counter of joules stands still, and there are no watts");
    }
    out->clock_hz = fmax(0.0, average(samples, count, first, clock_of));
    out->memory_clock_hz = fmax(0.0, average(samples, count, first, memory_clock_of));
    out->window_s = samples[count - 1].time_s - samples[first].time_s;
    out->settle_s = 0.0;
    for (uint32_t i = first; i > 0; i--) {
        if (fabs(samples[i - 1].clock_hz - out->clock_hz) <= settled_ratio * out->clock_hz) { continue; }
        out->settle_s = samples[i].time_s - samples[0].time_s;
        break;
    }
    return REDCO_OK;
}

static redco_status conclude(const struct sustained *s, uint32_t first, redco_measure_sustained *out)
{
    double seconds = 0.0;
    for (uint32_t i = first + 1; i < s->sample_count; i++) { seconds += s->chunk_s[i]; }
    out->time_s = seconds / ((double)(s->sample_count - 1 - first) * s->passes);
    const redco_status st = redcoi_measure_average(s->samples, s->sample_count, first, out, s->l->err);
    out->energy_j = out->watts * out->time_s;
    return st;
}

redco_status redcoi_measure_sustained(const redcoi_layout *l, const redco_measure_load *load,
                                      redco_measure_sustained *out)
{
    redco_measurer *const m = l->m;
    const redco_backend_calls *const calls = m->backend->calls;
    const uint32_t ops = redco_graph_op_count(l->graph);
    struct sustained s = {.l = l, .load = load, .ops = calloc(ops + 1, sizeof *s.ops)};
    uint32_t first = 0;
    s.samples = calloc(MOST_SAMPLES, sizeof *s.samples);
    s.chunk_s = calloc(MOST_SAMPLES, sizeof *s.chunk_s);
    redco_status st = redcoi_measure_events(m, RING, l->err);
    if (s.ops == NULL || s.samples == NULL || s.chunk_s == NULL) {
        st = redco_fail(l->err, REDCO_ENOMEM, "measure", "out of memory");
    }
    for (uint32_t i = 0; i < ops && st == REDCO_OK; i++) {
        const redco_op *const op = redco_graph_op(l->graph, i);
        if (!redcoi_measure_is_run(l, op) || op->role == REDCO_OP_ROLE_PREPARATION) { continue; }
        if ((op->order != 0) == load->backward) { s.ops[s.count++] = i; }
    }
    if (st == REDCO_OK && s.count == 0) {
        st = redco_fail(l->err, REDCO_EVALUE, "measure", "nothing of this pass is to be run");
    }
    if (st == REDCO_OK) { st = time_meter(&s); }
    if (st == REDCO_OK) { st = choose_passes(&s); }
    if (st == REDCO_OK) { st = record(&s); }
    if (st == REDCO_OK) { st = run(&s, &first); }
    if (st == REDCO_OK) { st = conclude(&s, first, out); }
    const redco_status finished = calls->stream_finish(m->backend, m->stream, st == REDCO_OK ? l->err : NULL);
    if (s.recording != NULL) { calls->record_free(m->backend, s.recording); }
    free(s.ops);
    free(s.samples);
    free(s.chunk_s);
    return st == REDCO_OK ? finished : st;
}

redco_status redco_measure_idle(const redco_meter *meter, double seconds, double *watts_out, redco_error *err)
{
    enum { MOST = 1000 };
    redco_meter_sample samples[MOST];
    redco_measure_sustained found = {.watts = 0.0};
    uint32_t count = 0;
    redco_status st = REDCO_OK;
    do {
        if (count > 0) {
            const struct timespec pause = {0, (long)(1e9 * fmin(idle_pause_s, fmax(1e-3, seconds / 8.0)))};
            (void)nanosleep(&pause, NULL);
        }
        st = meter->read(meter->context, &samples[count++], err);
    } while (st == REDCO_OK && count < MOST && (count < 3 || samples[count - 1].time_s - samples[0].time_s < seconds));
    if (st == REDCO_OK) { st = redcoi_measure_average(samples, count, 0, &found, err); }
    *watts_out = found.watts;
    return st;
}
