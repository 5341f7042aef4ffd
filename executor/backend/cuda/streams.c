#include "executor/backend/cuda/driver.h"
#include "executor/backend/cuda/kernels/occupy.h"

#include <stdlib.h>

/* A collective that takes longer than this is none. */
static const double longest_s = 3600.0;

redco_status redcoi_cuda_stream_create(redco_backend *backend, redco_device_stream_kind kind,
                                       redco_device_stream **stream_out, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    redco_device_stream *const stream = calloc(1, sizeof *stream);
    if (stream == NULL) { return redco_fail(err, REDCO_ENOMEM, "cuda", "a stream"); }
    const redcoi_device *const d = cuda->device;
    int least = 0, greatest = 0; /* numerically, the greatest priority is the smaller number */
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st == REDCO_OK) {
        st = redcoi_cuda_check(d, d->driver->stream_priority_range(&least, &greatest), "cuda",
                               "cuCtxGetStreamPriorityRange", err);
    }
    if (st == REDCO_OK) {
        /* Non-blocking: what a library does on the default stream holds up no stream. */
        st = redcoi_cuda_check(d,
                               d->driver->stream_create(&stream->handle, CU_STREAM_NON_BLOCKING,
                                                        kind == REDCO_DEVICE_STREAM_COMMUNICATION ? greatest : least),
                               "cuda", "cuStreamCreateWithPriority", err);
    }
    if (st != REDCO_OK) {
        free(stream);
        return st;
    }
    *stream_out = stream;
    return REDCO_OK;
}

/* Waits: after a failure, memory that queued work uses is released next. */
void redcoi_cuda_stream_free(redco_backend *backend, redco_device_stream *stream)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    if (stream == NULL) { return; }
    (void)redcoi_cuda_enter(cuda, NULL);
    (void)cuda->device->driver->stream_synchronize(stream->handle);
    (void)cuda->device->driver->stream_destroy(stream->handle);
    free(stream);
}

redco_status redcoi_cuda_stream_finish(redco_backend *backend, redco_device_stream *stream, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    st = redcoi_cuda_check(d, d->driver->stream_synchronize(stream->handle), "cuda", "cuStreamSynchronize", err);
    return st == REDCO_OK ? redcoi_fault_check(d, err) : st;
}

redco_status redcoi_cuda_event_create(redco_backend *backend, redco_event **event_out, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    redco_event *const event = calloc(1, sizeof *event);
    if (event == NULL) { return redco_fail(err, REDCO_ENOMEM, "cuda", "an event"); }
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st == REDCO_OK) {
        st = redcoi_cuda_check(cuda->device, cuda->device->driver->event_create(&event->event, CU_EVENT_DEFAULT),
                               "cuda", "cuEventCreate", err);
    }
    if (st != REDCO_OK) {
        free(event);
        return st;
    }
    *event_out = event;
    return REDCO_OK;
}

void redcoi_cuda_event_free(redco_backend *backend, redco_event *event)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    if (event == NULL) { return; }
    (void)redcoi_cuda_enter(cuda, NULL);
    (void)cuda->device->driver->event_destroy(event->event);
    free(event);
}

redco_status redcoi_cuda_event_set(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                                   redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    const redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    if (stream->recording) { /* it is set whenever the recording is played */
        return redcoi_cuda_check(
            d, d->driver->event_record_with_flags(event->event, stream->handle, CU_EVENT_RECORD_EXTERNAL), "cuda",
            "cuEventRecordWithFlags", err);
    }
    redcoi_cuda_count_call(cuda);
    return redcoi_cuda_check(d, d->driver->event_record(event->event, stream->handle), "cuda", "cuEventRecord", err);
}

redco_status redcoi_cuda_event_wait(redco_backend *backend, redco_device_stream *stream, redco_event *event,
                                    redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    const redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    if (stream->recording) { return redco_fail(err, REDCO_EVALUE, "cuda", "a recording waits for no event"); }
    redcoi_cuda_count_call(cuda);
    return redcoi_cuda_check(d, d->driver->stream_wait_event(stream->handle, event->event, CU_EVENT_WAIT_DEFAULT),
                             "cuda", "cuStreamWaitEvent", err);
}

redco_status redcoi_cuda_event_finish(redco_backend *backend, redco_event *event, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    st = redcoi_cuda_check(d, d->driver->event_synchronize(event->event), "cuda", "cuEventSynchronize", err);
    return st == REDCO_OK ? redcoi_fault_check(d, err) : st;
}

redco_status redcoi_cuda_event_between(redco_backend *backend, redco_event *from, redco_event *to, double *seconds_out,
                                       redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    float milliseconds = 0.0F;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    st = redcoi_cuda_check(d, d->driver->event_elapsed_time(&milliseconds, from->event, to->event), "cuda",
                           "cuEventElapsedTime", err);
    if (st == REDCO_OK) { *seconds_out = 1e-3 * (double)milliseconds; }
    return st;
}

redco_status redcoi_cuda_occupy(redco_backend *backend, redco_device_stream *stream, const redco_occupation *occupation,
                                redco_error *err)
{
    const redcoi_grid grid = {.blocks = {REDCOI_OCCUPY_BLOCKS}, .threads = REDCOI_OCCUPY_THREADS};
    const uint64_t round_bytes = (uint64_t)REDCOI_OCCUPY_BLOCKS * REDCOI_OCCUPY_THREADS * 64;
    if (!(occupation->seconds >= 0.0 && occupation->seconds <= longest_s)) {
        return redco_fail(err, REDCO_EVALUE, "cuda", "a stream cannot be busy for %g s; 0 to %g s can be waited for",
                          occupation->seconds, longest_s);
    }
    const bool fills = occupation->memory != NULL && occupation->from != NULL && occupation->from_bytes > 0;
    const bool moves = occupation->memory != NULL && occupation->size_bytes >= round_bytes;
    const struct redcoi_occupy_args args = {.nanoseconds = (uint64_t)(1e9 * occupation->seconds),
                                            .memory = occupation->memory,
                                            .size_bytes =
                                                moves ? occupation->size_bytes / round_bytes * round_bytes : 0,
                                            .moved_bytes = moves ? occupation->moved_bytes : 0,
                                            .from = fills ? occupation->from : NULL,
                                            .from_bytes = occupation->from_bytes,
                                            .fill_bytes = occupation->size_bytes};
    if (args.nanoseconds == 0 && !fills) { return REDCO_OK; }
    return redcoi_kernel_launch((redcoi_cuda *)backend, stream, "redco_k_occupy", &grid, &args, "occupy", err);
}
