/* Chooses the segments of a step that are recorded and launched as a whole: launching a small operator takes the host
 * longer than running it takes the device. */
#include "executor/schedule/schedule_internal.h"

#include <stdio.h>
#include <stdlib.h>

static bool communicates(const redco_schedule *s, const redcoi_task *task)
{
    const redcoi_compute_task *const compute_task = &s->bind.compute_tasks[task->what];
    for (uint32_t i = compute_task->ops.first; i < compute_task->ops.first + compute_task->ops.count; i++) {
        if (redco_op_kind_class(s->memory.launches[i].kind) == REDCO_CLASS_COLLECTIVE) { return true; }
    }
    return false;
}

/* Collectives are not recorded: a library counts its calls, or the processor runs them. */
static bool can_be_recorded(const redco_schedule *s, const redcoi_task *task)
{
    switch ((redcoi_action)task->action) {
    case REDCOI_COMPUTE: return !communicates(s, task);
    case REDCOI_NOTHING:
    case REDCOI_NORM:
    case REDCOI_OPTIMIZER: return true;
    default: return false;
    }
}

/* Inputs come from the program, so that a micro-batch begins by itself; the update waits for the norm. */
static bool can_follow(const redco_schedule *s, const redcoi_task *task)
{
    const bool feeds = task->action == REDCOI_COMPUTE && task->what == 0;
    return task->wait_count == 0 && !feeds && task->action != REDCOI_OPTIMIZER && can_be_recorded(s, task);
}

redco_status redcoi_segments_make(redco_schedule *s, redco_error *err)
{
    const redcoi_thread *const own = &s->threads[REDCOI_STREAM_COMPUTE];
    if (!s->options.record || s->options.emulate || own->backend->calls->record_begin == NULL) { return REDCO_OK; }
    bool *const awaited = calloc((size_t)s->task_count + 1, sizeof *awaited);
    s->segments = calloc((size_t)own->task_count + 1, sizeof *s->segments);
    if (s->segments == NULL || awaited == NULL) {
        free(awaited);
        return redcoi_schedule_memory_short(err);
    }
    for (uint32_t i = 0; i < s->wait_count; i++) { awaited[s->waits[i].task] = true; }
    for (uint32_t first = 0; first < own->task_count;) {
        uint32_t end = first + 1;
        const redcoi_task *const task = &s->tasks[own->tasks[first]];
        if (can_be_recorded(s, task)) {
            while (task->action != REDCOI_OPTIMIZER && end < own->task_count && !awaited[own->tasks[end - 1]] &&
                   can_follow(s, &s->tasks[own->tasks[end]])) {
                end++;
            }
            s->segments[first].count = end - first;
        }
        first = end;
    }
    free(awaited);
    return REDCO_OK;
}

void redcoi_segments_free(redco_schedule *s)
{
    const redcoi_thread *const own = &s->threads[REDCOI_STREAM_COMPUTE];
    for (uint32_t i = 0; s->segments != NULL && i < own->task_count; i++) {
        for (int timed = 0; timed < 2; timed++) {
            own->backend->calls->record_free(own->backend, s->segments[i].recordings[timed]);
        }
    }
    free(s->segments);
}

static redco_status record(redcoi_thread *thread, redco_recording **recording_out,
                           redco_status (*body)(redcoi_thread *thread, uint32_t first, redco_error *err),
                           uint32_t first, redco_error *err)
{
    const redco_backend_calls *const calls = thread->backend->calls;
    redco_status st = calls->record_begin(thread->backend, thread->stream, err);
    if (st != REDCO_OK) { return st; }
    st = body(thread, first, err);
    const redco_status ended = calls->record_end(thread->backend, thread->stream, st == REDCO_OK ? recording_out : NULL,
                                                 st == REDCO_OK ? err : NULL);
    return st == REDCO_OK ? ended : st;
}

/* For steps that are timed, that are not, or both. */
static redco_status record_kinds(redcoi_thread *thread, redcoi_segment *segment,
                                 redco_status (*body)(redcoi_thread *thread, uint32_t first, redco_error *err),
                                 uint32_t first, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    redco_status st = REDCO_OK;
    for (int timed = 0; timed < 2 && st == REDCO_OK; timed++) {
        const bool wanted = (timed == 0) == s->untimed || (timed == 1 && s->timed_later);
        if (!wanted || segment->recordings[timed] != NULL) { continue; }
        s->marking = timed == 1;
        st = record(thread, &segment->recordings[timed], body, first, err);
    }
    return st;
}

/* Shapes, addresses and order are those of every step; in the first one libraries choose and load what they run. */
redco_status redcoi_segment_run(redcoi_thread *thread, redcoi_segment *segment,
                                redco_status (*body)(redcoi_thread *thread, uint32_t first, redco_error *err),
                                uint32_t first, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const int timed = s->untimed ? 0 : 1;
    redco_error why = {.status = REDCO_OK};
    if (s->round >= 2 && !segment->failed && segment->recordings[timed] == NULL &&
        record_kinds(thread, segment, body, first, &why) != REDCO_OK) {
        segment->failed = true;
        if (s->recorded.why_not[0] == '\0') {
            (void)snprintf(s->recorded.why_not, sizeof s->recorded.why_not, "%.150s: %.240s", why.place, why.text);
        }
    }
    if (s->round < 2 || segment->failed) {
        s->marking = !s->untimed || s->round < 2; /* so that every event was set once */
        return body(thread, first, err);
    }
    return thread->backend->calls->record_play(thread->backend, thread->stream, segment->recordings[timed], err);
}

void redco_schedule_time(redco_schedule *s, bool now, bool later)
{
    s->untimed = !now;
    s->timed_later = later;
}

redco_schedule_recorded redco_schedule_what_is_recorded(const redco_schedule *s)
{
    const redcoi_thread *const own = &s->threads[REDCOI_STREAM_COMPUTE];
    redco_schedule_recorded recorded = s->recorded;
    for (uint32_t i = 0; s->segments != NULL && i < own->task_count; i++) {
        if (s->segments[i].failed || (s->segments[i].recordings[0] == NULL && s->segments[i].recordings[1] == NULL)) {
            continue;
        }
        recorded.recordings++;
        recorded.operators += s->segments[i].count;
    }
    return recorded;
}
