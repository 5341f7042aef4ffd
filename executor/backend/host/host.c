#include "executor/backend/host/host.h"

#include "executor/backend/host/host_internal.h"
#include "executor/backend/host/kernels.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct host {
    redco_backend base;
    uint64_t limit_bytes, live_bytes, peak_bytes;
} host;

/* A block's size stands in front of it, so that release needs only the address. What the program reads and writes is
 * no memory of a device. */
typedef struct block {
    uint64_t size_bytes;
} block;

static redco_status host_allocate(redco_backend *backend, redco_memory where, uint64_t size_bytes, void **memory_out,
                                  redco_error *err)
{
    host *h = (host *)backend;
    const bool counted = where == REDCO_MEMORY_DEVICE, limited = counted && h->limit_bytes > 0;
    if (size_bytes > SIZE_MAX / 2 || (limited && size_bytes > h->limit_bytes - h->live_bytes)) {
        return redco_fail(err, REDCO_ENOMEM, "host", "no room for %llu bytes: %llu of %llu are in use",
                          (unsigned long long)size_bytes, (unsigned long long)h->live_bytes,
                          (unsigned long long)h->limit_bytes);
    }
    const uint64_t unit = REDCO_ALIGNMENT_BYTES, padded = (size_bytes + unit - 1) / unit * unit;
    unsigned char *memory = aligned_alloc(unit, padded + unit);
    if (memory == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "host", "no memory for %llu bytes", (unsigned long long)size_bytes);
    }
    memcpy(memory, &(block){size_bytes}, sizeof(block));
    h->live_bytes += counted ? size_bytes : 0;
    if (h->live_bytes > h->peak_bytes) { h->peak_bytes = h->live_bytes; }
    *memory_out = memory + unit;
    return REDCO_OK;
}

static void host_release(redco_backend *backend, redco_memory where, void *memory)
{
    block b;
    if (memory == NULL) { return; }
    unsigned char *start = (unsigned char *)memory - REDCO_ALIGNMENT_BYTES;
    memcpy(&b, start, sizeof b);
    ((host *)backend)->live_bytes -= where == REDCO_MEMORY_DEVICE ? b.size_bytes : 0;
    free(start);
}

/* Work is done where it is queued, by the calling thread; so a stream holds nothing and an event is a time. */
struct redco_device_stream {
    uint32_t unused;
};

struct redco_event {
    struct timespec time;
};

static redco_status host_stream_create(redco_backend *backend, redco_device_stream_kind kind,
                                       redco_device_stream **stream_out, redco_error *err)
{
    (void)backend;
    (void)kind; /* streams do their work when it is queued */
    *stream_out = calloc(1, sizeof **stream_out);
    return *stream_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "host", "a stream");
}

static void host_stream_free(redco_backend *backend, redco_device_stream *stream)
{
    (void)backend;
    free(stream);
}

static redco_status host_stream_finish(redco_backend *backend, redco_device_stream *stream, redco_error *err)
{
    (void)backend;
    (void)stream;
    (void)err;
    return REDCO_OK;
}

static redco_status host_event_create(redco_backend *backend, redco_event **event_out, redco_error *err)
{
    (void)backend;
    *event_out = calloc(1, sizeof **event_out);
    return *event_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "host", "an event");
}

static void host_event_free(redco_backend *backend, redco_event *event)
{
    (void)backend;
    free(event);
}

static redco_status host_event_set(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                                   redco_error *err)
{
    (void)backend;
    (void)stream;
    if (clock_gettime(CLOCK_MONOTONIC, &event->time) != 0) {
        return redco_fail(err, REDCO_ESYSTEM, "host", "clock_gettime failed");
    }
    return REDCO_OK;
}

static redco_status host_event_wait(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                                    redco_error *err)
{
    (void)event;
    return host_stream_finish(backend, stream, err);
}

static redco_status host_event_finish(redco_backend *backend, redco_event *event, redco_error *err)
{
    (void)event;
    return host_stream_finish(backend, NULL, err);
}

static redco_status host_event_between(redco_backend *backend, redco_event *from, redco_event *to, double *seconds_out,
                                       redco_error *err)
{
    (void)backend;
    (void)err;
    *seconds_out =
        (double)(to->time.tv_sec - from->time.tv_sec) + 1e-9 * (double)(to->time.tv_nsec - from->time.tv_nsec);
    return REDCO_OK;
}

static redco_status host_copy(redco_backend *backend, redco_device_stream *stream, void *to, const void *from,
                              uint64_t size_bytes, redco_error *err)
{
    (void)backend;
    (void)stream;
    (void)err;
    memmove(to, from, size_bytes);
    return REDCO_OK;
}

static redco_status host_fill_zero(redco_backend *backend, redco_device_stream *stream, void *to, uint64_t size_bytes,
                                   redco_error *err)
{
    (void)backend;
    (void)stream;
    (void)err;
    memset(to, 0, size_bytes);
    return REDCO_OK;
}

/* The memory of a gather whose other ranks are not there: this rank's part in all places. */
static void repeat(const redco_occupation *occupation)
{
    unsigned char *const to = occupation->memory;
    for (uint64_t at = 0; at < occupation->size_bytes; at += occupation->from_bytes) {
        const uint64_t left = occupation->size_bytes - at;
        memmove(to + at, occupation->from, left < occupation->from_bytes ? left : occupation->from_bytes);
    }
}

static redco_status host_occupy(redco_backend *backend, redco_device_stream *stream, const redco_occupation *occupation,
                                redco_error *err)
{
    (void)backend;
    (void)stream;
    struct timespec until;
    if (clock_gettime(CLOCK_MONOTONIC, &until) != 0) {
        return redco_fail(err, REDCO_ESYSTEM, "host", "clock_gettime failed");
    }
    const double whole_s = floor(occupation->seconds);
    until.tv_sec += (time_t)whole_s;
    until.tv_nsec += (long)(1e9 * (occupation->seconds - whole_s));
    if (until.tv_nsec >= 1000000000L) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000L;
    }
    if (occupation->memory != NULL && occupation->from != NULL) { repeat(occupation); }
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) {}
    return REDCO_OK;
}

static void host_close(redco_backend *backend)
{
    free(backend);
}

static redco_status host_share(redco_backend *backend, redco_backend **backend_out, redco_error *err)
{
    host *const second = calloc(1, sizeof *second);
    if (second == NULL) { return redco_fail(err, REDCO_ENOMEM, "host", "the backend"); }
    second->base = *backend;
    second->limit_bytes = ((const host *)backend)->limit_bytes;
    *backend_out = &second->base;
    return REDCO_OK;
}

static const redco_backend_calls host_calls = {
    .name = "host",
    .immediate = true,
    .vector_elements = (uint64_t)1 << 14,
    .clock_resolution_s = 2e-9, /* two readings of a clock of nanoseconds */
    .close = host_close,
    .share = host_share,
    .memory_use = redco_host_memory,
    .allocate = host_allocate,
    .release = host_release,
    .stream_create = host_stream_create,
    .stream_free = host_stream_free,
    .stream_finish = host_stream_finish,
    .event_create = host_event_create,
    .event_free = host_event_free,
    .event_set = host_event_set,
    .event_wait = host_event_wait,
    .event_finish = host_event_finish,
    .event_between = host_event_between,
    .copy = host_copy,
    .fill_zero = host_fill_zero,
    .occupy = host_occupy,
    .supports = redcoi_host_supports,
    .workspace_bytes = redcoi_host_workspace_bytes,
    .run = redcoi_host_run,
};

redco_status redco_host_open(const redco_host_options *options, redco_backend **backend_out, redco_error *err)
{
    host *h = calloc(1, sizeof *h);
    if (h == NULL) { return redco_fail(err, REDCO_ENOMEM, "host", "the backend"); }
    h->base.calls = &host_calls;
    h->limit_bytes = options == NULL ? 0 : options->memory_limit_bytes;
    redcoi_blas_threads(options == NULL || options->threads == 0 ? 1 : (int)options->threads);
    *backend_out = &h->base;
    return REDCO_OK;
}

void redco_host_memory(const redco_backend *backend, uint64_t *live_bytes_out, uint64_t *peak_bytes_out)
{
    const host *h = (const host *)backend;
    *live_bytes_out = h->live_bytes;
    *peak_bytes_out = h->peak_bytes;
}
