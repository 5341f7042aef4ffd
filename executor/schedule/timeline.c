/* The measured step as a timeline with the simulator's names. */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>

redco_status redco_schedule_timeline(const redco_schedule *s, redco_timeline **timeline_out, redco_error *err)
{
    redco_timeline *const t = calloc(1, sizeof *t);
    const size_t count = (size_t)s->task_count + 1;
    redco_backend *const own = s->threads[REDCOI_STREAM_COMPUTE].backend;
    redco_status st = REDCO_OK;
    if (t == NULL) { return redcoi_schedule_memory_short(err); }
    *t = (redco_timeline){.step = s->step,
                          .start_s = calloc(count, sizeof(double)),
                          .end_s = calloc(count, sizeof(double)),
                          .cause = calloc(count, sizeof(uint32_t)),
                          .last = REDCO_STEP_NONE,
                          .peaks = calloc(1, sizeof(redco_memory_peak))};
    if (t->start_s == NULL || t->end_s == NULL || t->cause == NULL || t->peaks == NULL) {
        redco_timeline_free(t);
        return redcoi_schedule_memory_short(err);
    }
    for (uint32_t i = 0; i < s->task_count && st == REDCO_OK; i++) {
        t->cause[i] = REDCO_STEP_NONE;
        st = own->calls->event_between(own, s->base, s->begin[i], &t->start_s[i], err);
        if (st == REDCO_OK) { st = own->calls->event_between(own, s->base, s->end[i], &t->end_s[i], err); }
        if (t->end_s[i] < t->span_s) { continue; }
        t->span_s = t->end_s[i];
        t->last = i;
    }
    if (st != REDCO_OK) {
        redco_timeline_free(t);
        return st;
    }
    *timeline_out = t;
    return REDCO_OK;
}

/* Exposed communication of the compute thread: gaps in which it waits for other threads, its tensor-parallel
 * collectives and launches. */
redco_status redco_schedule_exposed(const redco_schedule *s, double *seconds_out, redco_error *err)
{
    const redcoi_thread *const own = &s->threads[REDCOI_STREAM_COMPUTE];
    const redco_backend_calls *const calls = own->backend->calls;
    uint32_t count = 0;
    const redco_step_op *const ops = redco_step_ops(s->step, &count);
    redco_event *before = s->base;
    redco_status st = REDCO_OK;
    *seconds_out = 0.0;
    for (uint32_t i = 0; i < own->task_count && st == REDCO_OK; i++) {
        const uint32_t task = own->tasks[i];
        const bool waited = s->tasks[task].wait_count > 0;
        const bool communicates = ops[task].stream != REDCO_STREAM_COMPUTE || ops[task].work == REDCO_WORK_LAUNCH;
        double gap_s = 0.0, took_s = 0.0;
        if (waited) { st = calls->event_between(own->backend, before, s->begin[task], &gap_s, err); }
        if (communicates && st == REDCO_OK) {
            st = calls->event_between(own->backend, s->begin[task], s->end[task], &took_s, err);
        }
        *seconds_out += gap_s + took_s;
        before = s->end[task];
    }
    return st;
}
