/* Events of tasks: for timing their begin and end, and for other streams to wait for. */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>

static redco_status add(redco_schedule *s, redco_backend *backend, redco_event **event_out, redco_error *err)
{
    const redco_status st = backend->calls->event_create(backend, event_out, err);
    if (st == REDCO_OK) { s->events[s->event_count++] = *event_out; }
    return st;
}

/* An event takes as long to set as a launch: so a task that waits for no other stream begins where the one before it in
 * its own stream ended, and one that does nothing ends where it began. */
static redco_status add_stream_events(redco_schedule *s, const redcoi_thread *thread, redco_error *err)
{
    redco_event *before = NULL;
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

redco_status redcoi_events_make(redco_schedule *s, redco_error *err)
{
    const size_t tasks = (size_t)s->task_count + 1;
    redco_backend *const own = s->threads[REDCOI_STREAM_COMPUTE].backend;
    s->begin = calloc(tasks, sizeof(redco_event *));
    s->end = calloc(tasks, sizeof(redco_event *));
    s->events = calloc(2 * tasks, sizeof(redco_event *));
    s->ended_s = calloc(tasks, sizeof *s->ended_s);
    if (s->begin == NULL || s->end == NULL || s->events == NULL || s->ended_s == NULL) {
        return redcoi_schedule_memory_short(err);
    }
    redco_status st = add(s, own, &s->base, err);
    for (int stream_kind = 0; stream_kind < REDCOI_STREAMS && st == REDCO_OK; stream_kind++) {
        st = add_stream_events(s, &s->threads[stream_kind], err);
    }
    return st;
}

void redcoi_events_free(redco_schedule *s)
{
    redco_backend *const own = s->threads[REDCOI_STREAM_COMPUTE].backend;
    for (uint32_t i = 0; i < s->event_count; i++) { own->calls->event_free(own, s->events[i]); }
    free((void *)s->begin);
    free((void *)s->end);
    free((void *)s->events);
    free(s->ended_s);
}
