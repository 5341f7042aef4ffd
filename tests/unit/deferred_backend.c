#include "tests/unit/deferred_backend.h"

#include "executor/backend/host/host.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct deferred {
    redco_backend base;
    redco_backend_calls calls;
    redco_backend *host;
    deferred_options options;
    atomic_uint streams; /* made so far: each has delays of its own */
} deferred;

/* Times it was set, and passed; when it was passed last. */
struct redco_event {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t set, passed;
    struct timespec time;
};

typedef enum work_kind { WORK_RUN, WORK_COPY, WORK_ZERO, WORK_OCCUPY, WORK_SET, WORK_WAIT } work_kind;

typedef struct work {
    struct work *next;
    work_kind kind;
    redco_launch launch; /* with copies of what it borrows */
    redco_attributes attributes;
    redco_tensor tensors[REDCO_INPUTS_MAX + REDCO_OUTPUTS_MAX];
    char name[200];
    void *to;
    const void *from;
    uint64_t bytes;
    redco_occupation occupation;
    redco_event *event;
    uint64_t turn; /* the event's */
} work;

struct redco_device_stream {
    redco_backend *host; /* for the thread */
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    work *first, **end;
    bool busy, stop, quick;
    uint64_t random;
    redco_status status; /* the first failure of its work */
    redco_error error;
};

static redco_status failed(const char *what, redco_error *err)
{
    return redco_fail(err, REDCO_ESYSTEM, "deferred", "%s", what);
}

static void delay(redco_device_stream *q)
{
    q->random ^= q->random << 13;
    q->random ^= q->random >> 7;
    q->random ^= q->random << 17;
    const uint64_t turn = q->random >> 40 & 255;
    if (q->quick || turn > 24) { return; }
    const long ns = turn == 0 ? 2000000L : (long)(q->random % 200000);
    (void)nanosleep(&(struct timespec){0, ns}, NULL);
}

static void pass(redco_event *event, uint64_t turn)
{
    (void)pthread_mutex_lock(&event->lock);
    (void)clock_gettime(CLOCK_MONOTONIC, &event->time);
    if (turn > event->passed) { event->passed = turn; }
    (void)pthread_cond_broadcast(&event->changed);
    (void)pthread_mutex_unlock(&event->lock);
}

static void await(redco_event *event, uint64_t turn)
{
    (void)pthread_mutex_lock(&event->lock);
    while (event->passed < turn) { (void)pthread_cond_wait(&event->changed, &event->lock); }
    (void)pthread_mutex_unlock(&event->lock);
}

static redco_status do_work(redco_device_stream *q, work *w, redco_error *err)
{
    const redco_backend_calls *const calls = q->host->calls;
    switch (w->kind) {
    case WORK_RUN: return calls->run(q->host, NULL, &w->launch, err);
    case WORK_COPY: return calls->copy(q->host, NULL, w->to, w->from, w->bytes, err);
    case WORK_ZERO: return calls->fill_zero(q->host, NULL, w->to, w->bytes, err);
    case WORK_OCCUPY: return calls->occupy(q->host, NULL, &w->occupation, err);
    case WORK_SET: pass(w->event, w->turn); break;
    case WORK_WAIT: await(w->event, w->turn); break;
    }
    return REDCO_OK;
}

/* After a failure only events are passed, so that nobody waits for ever. */
static void *stream_main(void *context)
{
    redco_device_stream *const q = context;
    for (;;) {
        redco_error err = {.status = REDCO_OK};
        (void)pthread_mutex_lock(&q->lock);
        q->busy = false;
        (void)pthread_cond_broadcast(&q->changed);
        while (q->first == NULL && !q->stop) { (void)pthread_cond_wait(&q->changed, &q->lock); }
        work *const w = q->first;
        const bool skip = q->status != REDCO_OK && w != NULL && w->kind != WORK_SET && w->kind != WORK_WAIT;
        q->busy = true;
        (void)pthread_mutex_unlock(&q->lock);
        if (w == NULL) { return NULL; }
        delay(q);
        const redco_status st = skip ? REDCO_OK : do_work(q, w, &err);
        (void)pthread_mutex_lock(&q->lock);
        if (st != REDCO_OK && q->status == REDCO_OK) {
            q->status = st;
            q->error = err;
        }
        q->first = w->next;
        if (q->first == NULL) { q->end = &q->first; }
        (void)pthread_mutex_unlock(&q->lock);
        free(w);
    }
}

static redco_status told(const redco_device_stream *q, redco_error *err)
{
    return q->status == REDCO_OK ? REDCO_OK : redco_fail(err, q->status, q->error.place, "%s", q->error.text);
}

static redco_status enqueue(redco_device_stream *q, work *w, redco_error *err)
{
    (void)pthread_mutex_lock(&q->lock);
    const redco_status st = told(q, err);
    *q->end = w;
    q->end = &w->next;
    (void)pthread_cond_broadcast(&q->changed);
    (void)pthread_mutex_unlock(&q->lock);
    return st;
}

static work *work_of(work_kind kind)
{
    work *const w = calloc(1, sizeof *w);
    if (w == NULL) { abort(); }
    w->kind = kind;
    return w;
}

static redco_status deferred_allocate(redco_backend *backend, redco_memory where, uint64_t size_bytes,
                                      void **memory_out, redco_error *err)
{
    const deferred *const d = (const deferred *)backend;
    const redco_status st = d->host->calls->allocate(d->host, where, size_bytes, memory_out, err);
    if (st == REDCO_OK) { memset(*memory_out, 0xff, size_bytes); }
    return st;
}

static void deferred_release(redco_backend *backend, redco_memory where, void *memory)
{
    const deferred *const d = (const deferred *)backend;
    d->host->calls->release(d->host, where, memory);
}

static void deferred_memory_use(const redco_backend *backend, uint64_t *live_bytes_out, uint64_t *peak_bytes_out)
{
    const deferred *const d = (const deferred *)backend;
    d->host->calls->memory_use(d->host, live_bytes_out, peak_bytes_out);
}

static redco_status deferred_stream_create(redco_backend *backend, redco_device_stream_kind kind,
                                           redco_device_stream **stream_out, redco_error *err)
{
    deferred *const d = (deferred *)backend;
    redco_device_stream *const q = calloc(1, sizeof *q);
    (void)kind;
    if (q == NULL) { return failed("no memory", err); }
    const uint64_t number = atomic_fetch_add(&d->streams, 1);
    q->end = &q->first;
    q->quick = d->options.quick;
    q->random = (d->options.seed + 1) * UINT64_C(0x9e3779b97f4a7c15) ^ (number + 1) * UINT64_C(0xbf58476d1ce4e5b9);
    q->busy = true;
    if (d->host->calls->share(d->host, &q->host, err) != REDCO_OK || pthread_mutex_init(&q->lock, NULL) != 0 ||
        pthread_cond_init(&q->changed, NULL) != 0 || pthread_create(&q->thread, NULL, stream_main, q) != 0) {
        return failed("no thread", err); /* a test that cannot go on */
    }
    *stream_out = q;
    return REDCO_OK;
}

static redco_status deferred_stream_finish(redco_backend *backend, redco_device_stream *stream, redco_error *err)
{
    (void)backend;
    (void)pthread_mutex_lock(&stream->lock);
    while (stream->first != NULL || stream->busy) { (void)pthread_cond_wait(&stream->changed, &stream->lock); }
    const redco_status st = told(stream, err);
    (void)pthread_mutex_unlock(&stream->lock);
    return st;
}

static void deferred_stream_free(redco_backend *backend, redco_device_stream *stream)
{
    (void)deferred_stream_finish(backend, stream, NULL);
    (void)pthread_mutex_lock(&stream->lock);
    stream->stop = true;
    (void)pthread_cond_broadcast(&stream->changed);
    (void)pthread_mutex_unlock(&stream->lock);
    (void)pthread_join(stream->thread, NULL);
    redco_backend_close(stream->host);
    (void)pthread_cond_destroy(&stream->changed);
    (void)pthread_mutex_destroy(&stream->lock);
    free(stream);
}

static redco_status deferred_event_create(redco_backend *backend, redco_event **event_out, redco_error *err)
{
    redco_event *const event = calloc(1, sizeof *event);
    (void)backend;
    if (event == NULL || pthread_mutex_init(&event->lock, NULL) != 0 || pthread_cond_init(&event->changed, NULL) != 0) {
        free(event);
        return failed("no event", err);
    }
    *event_out = event;
    return REDCO_OK;
}

static void deferred_event_free(redco_backend *backend, redco_event *event)
{
    (void)backend;
    (void)pthread_cond_destroy(&event->changed);
    (void)pthread_mutex_destroy(&event->lock);
    free(event);
}

static redco_status deferred_event_set(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                                       redco_error *err)
{
    work *const w = work_of(WORK_SET);
    (void)backend;
    (void)pthread_mutex_lock(&event->lock);
    w->turn = ++event->set;
    (void)pthread_mutex_unlock(&event->lock);
    w->event = event;
    return enqueue(stream, w, err);
}

static uint64_t turn_of(redco_event *event)
{
    (void)pthread_mutex_lock(&event->lock);
    const uint64_t turn = event->set;
    (void)pthread_mutex_unlock(&event->lock);
    return turn;
}

/* As set when it is called: one that was never set is passed. */
static redco_status deferred_event_wait(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                                        redco_error *err)
{
    work *const w = work_of(WORK_WAIT);
    (void)backend;
    w->event = event;
    w->turn = turn_of(event);
    return enqueue(stream, w, err);
}

static redco_status deferred_event_finish(redco_backend *backend, redco_event *event, redco_error *err)
{
    (void)backend;
    (void)err;
    await(event, turn_of(event));
    return REDCO_OK;
}

static redco_status time_of(redco_event *event, struct timespec *time_out, redco_error *err)
{
    (void)pthread_mutex_lock(&event->lock);
    const bool passed = event->set > 0 && event->passed == event->set;
    *time_out = event->time;
    (void)pthread_mutex_unlock(&event->lock);
    return passed ? REDCO_OK : failed("the time of an event that is not passed", err);
}

static redco_status deferred_event_between(redco_backend *backend, redco_event *from, redco_event *to,
                                           double *seconds_out, redco_error *err)
{
    struct timespec a, b;
    (void)backend;
    redco_status st = time_of(from, &a, err);
    if (st == REDCO_OK) { st = time_of(to, &b, err); }
    if (st != REDCO_OK) { return st; }
    *seconds_out = (double)(b.tv_sec - a.tv_sec) + 1e-9 * (double)(b.tv_nsec - a.tv_nsec);
    return REDCO_OK;
}

static redco_status deferred_copy(redco_backend *backend, redco_device_stream *stream, void *to, const void *from,
                                  uint64_t size_bytes, redco_error *err)
{
    work *const w = work_of(WORK_COPY);
    (void)backend;
    w->to = to;
    w->from = from;
    w->bytes = size_bytes;
    return enqueue(stream, w, err);
}

static redco_status deferred_fill_zero(redco_backend *backend, redco_device_stream *stream, void *to,
                                       uint64_t size_bytes, redco_error *err)
{
    work *const w = work_of(WORK_ZERO);
    (void)backend;
    w->to = to;
    w->bytes = size_bytes;
    return enqueue(stream, w, err);
}

static redco_status deferred_occupy(redco_backend *backend, redco_device_stream *stream,
                                    const redco_occupation *occupation, redco_error *err)
{
    work *const w = work_of(WORK_OCCUPY);
    (void)backend;
    w->occupation = *occupation;
    return enqueue(stream, w, err);
}

static bool deferred_supports(const redco_backend *backend, const redco_launch *launch)
{
    const deferred *const d = (const deferred *)backend;
    return d->host->calls->supports(d->host, launch);
}

static uint64_t deferred_workspace_bytes(const redco_backend *backend, const redco_launch *launch)
{
    const deferred *const d = (const deferred *)backend;
    return d->host->calls->workspace_bytes(d->host, launch);
}

static redco_status deferred_run(redco_backend *backend, redco_device_stream *stream, const redco_launch *launch,
                                 redco_error *err)
{
    work *const w = work_of(WORK_RUN);
    (void)backend;
    w->launch = *launch;
    if (launch->attributes != NULL) {
        w->attributes = *launch->attributes;
        w->launch.attributes = &w->attributes;
    }
    memcpy(w->tensors, launch->inputs, launch->input_count * sizeof *w->tensors);
    memcpy(w->tensors + REDCO_INPUTS_MAX, launch->outputs, launch->output_count * sizeof *w->tensors);
    w->launch.inputs = w->tensors;
    w->launch.outputs = w->tensors + REDCO_INPUTS_MAX;
    if (launch->name != NULL) {
        (void)strncpy(w->name, launch->name, sizeof w->name - 1);
        w->launch.name = w->name;
    }
    return enqueue(stream, w, err);
}

static redco_status make(redco_backend *host, const deferred_options *options, redco_backend **backend_out);

static redco_status deferred_share(redco_backend *backend, redco_backend **backend_out, redco_error *err)
{
    deferred *const d = (deferred *)backend;
    redco_backend *host = NULL;
    deferred_options options = d->options;
    const redco_status st = d->host->calls->share(d->host, &host, err);
    options.seed = d->options.seed * 31 + atomic_fetch_add(&d->streams, 1);
    return st == REDCO_OK ? make(host, &options, backend_out) : st;
}

static void deferred_close(redco_backend *backend)
{
    redco_backend_close(((deferred *)backend)->host);
    free(backend);
}

static redco_status make(redco_backend *host, const deferred_options *options, redco_backend **backend_out)
{
    deferred *const d = calloc(1, sizeof *d);
    if (d == NULL) { abort(); }
    d->host = host;
    d->options = *options;
    d->calls = (redco_backend_calls){
        .name = "deferred",
        .vector_elements = options->vector_elements > 0 ? options->vector_elements : host->calls->vector_elements,
        .close = deferred_close,
        .share = deferred_share,
        .memory_use = deferred_memory_use,
        .allocate = deferred_allocate,
        .release = deferred_release,
        .stream_create = deferred_stream_create,
        .stream_free = deferred_stream_free,
        .stream_finish = deferred_stream_finish,
        .event_create = deferred_event_create,
        .event_free = deferred_event_free,
        .event_set = deferred_event_set,
        .event_wait = deferred_event_wait,
        .event_finish = deferred_event_finish,
        .event_between = deferred_event_between,
        .copy = deferred_copy,
        .fill_zero = deferred_fill_zero,
        .occupy = deferred_occupy,
        .supports = deferred_supports,
        .workspace_bytes = deferred_workspace_bytes,
        .run = deferred_run,
    };
    d->base.calls = &d->calls;
    *backend_out = &d->base;
    return REDCO_OK;
}

redco_status deferred_open(const deferred_options *options, redco_backend **backend_out, redco_error *err)
{
    redco_backend *host = NULL;
    const redco_status st = redco_host_open(NULL, &host, err);
    return st == REDCO_OK ? make(host, options, backend_out) : st;
}
