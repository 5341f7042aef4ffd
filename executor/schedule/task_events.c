/* Marks of tasks: when each began and ended, and what other queues wait for. */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>

static redco_status add(redco_schedule *s, redco_backend *backend, redco_mark **mark_out, redco_error *err)
{
    const redco_status st = backend->calls->mark_create(backend, mark_out, err);
    if (st == REDCO_OK) { s->marks[s->mark_count++] = *mark_out; }
    return st;
}

/* A mark takes as long to set as a launch: so a task that waits for no other lane begins where the one before it in its
 * own lane ended, and one that does nothing ends where it began. */
static redco_status mark_lane(redco_schedule *s, const redcoi_thread *thread, redco_error *err)
{
    redco_mark *before = NULL;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < thread->task_count && st == REDCO_OK; i++) {
        const uint32_t t = thread->tasks[i];
        const bool nothing = s->tasks[t].action == REDCOI_NOTHING && !s->options.emulate;
        s->begin[t] = before;
        if (before == NULL || s->tasks[t].wait_count > 0) { st = add(s, thread->backend, &s->begin[t], err); }
        s->end[t] = s->begin[t];
        if (st == REDCO_OK && !nothing) { st = add(s, thread->backend, &s->end[t], err); }
        before = s->end[t];
    }
    return st;
}

redco_status redcoi_marks_make(redco_schedule *s, redco_error *err)
{
    const size_t tasks = (size_t)s->task_count + 1;
    redco_backend *const own = s->threads[REDCOI_LANE_COMPUTE].backend;
    s->begin = calloc(tasks, sizeof(redco_mark *));
    s->end = calloc(tasks, sizeof(redco_mark *));
    s->marks = calloc(2 * tasks, sizeof(redco_mark *));
    s->ended_s = calloc(tasks, sizeof *s->ended_s);
    if (s->begin == NULL || s->end == NULL || s->marks == NULL || s->ended_s == NULL) {
        return redcoi_schedule_memory_short(err);
    }
    redco_status st = add(s, own, &s->base, err);
    for (int lane = 0; lane < REDCOI_LANES && st == REDCO_OK; lane++) { st = mark_lane(s, &s->threads[lane], err); }
    return st;
}

void redcoi_marks_free(redco_schedule *s)
{
    redco_backend *const own = s->threads[REDCOI_LANE_COMPUTE].backend;
    for (uint32_t i = 0; i < s->mark_count; i++) { own->calls->mark_free(own, s->marks[i]); }
    free((void *)s->begin);
    free((void *)s->end);
    free((void *)s->marks);
    free(s->ended_s);
}
