#include "executor/backend/cuda/driver.h"
#include "executor/backend/cuda/kernels/occupy.h"

#include <stdlib.h>

/* A collective that takes longer than this is none. */
static const double longest_s = 3600.0;

redco_status redcoi_cuda_queue_create(redco_backend *backend, redco_queue_kind kind, redco_queue **queue_out,
                                      redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    redco_queue *const queue = calloc(1, sizeof *queue);
    if (queue == NULL) { return redco_fail(err, REDCO_ENOMEM, "cuda", "a queue"); }
    const redcoi_device *const d = cuda->device;
    int least = 0, greatest = 0; /* numerically, the greatest priority is the smaller number */
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st == REDCO_OK) {
        st = redcoi_cuda_check(d, d->driver->stream_priority_range(&least, &greatest), "cuda",
                               "cuCtxGetStreamPriorityRange", err);
    }
    if (st == REDCO_OK) {
        /* Non-blocking: what a library does on the default stream holds up no queue. */
        st = redcoi_cuda_check(d,
                               d->driver->stream_create(&queue->stream, CU_STREAM_NON_BLOCKING,
                                                        kind == REDCO_QUEUE_COMMUNICATION ? greatest : least),
                               "cuda", "cuStreamCreateWithPriority", err);
    }
    if (st != REDCO_OK) {
        free(queue);
        return st;
    }
    *queue_out = queue;
    return REDCO_OK;
}

/* Waits: after a failure, memory that queued work uses is released next. */
void redcoi_cuda_queue_free(redco_backend *backend, redco_queue *queue)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    if (queue == NULL) { return; }
    (void)redcoi_cuda_enter(cuda, NULL);
    (void)cuda->device->driver->stream_synchronize(queue->stream);
    (void)cuda->device->driver->stream_destroy(queue->stream);
    free(queue);
}

redco_status redcoi_cuda_queue_finish(redco_backend *backend, redco_queue *queue, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    st = redcoi_cuda_check(d, d->driver->stream_synchronize(queue->stream), "cuda", "cuStreamSynchronize", err);
    return st == REDCO_OK ? redcoi_fault_check(d, err) : st;
}

redco_status redcoi_cuda_mark_create(redco_backend *backend, redco_mark **mark_out, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    redco_mark *const mark = calloc(1, sizeof *mark);
    if (mark == NULL) { return redco_fail(err, REDCO_ENOMEM, "cuda", "a mark"); }
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st == REDCO_OK) {
        st = redcoi_cuda_check(cuda->device, cuda->device->driver->event_create(&mark->event, CU_EVENT_DEFAULT), "cuda",
                               "cuEventCreate", err);
    }
    if (st != REDCO_OK) {
        free(mark);
        return st;
    }
    *mark_out = mark;
    return REDCO_OK;
}

void redcoi_cuda_mark_free(redco_backend *backend, redco_mark *mark)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    if (mark == NULL) { return; }
    (void)redcoi_cuda_enter(cuda, NULL);
    (void)cuda->device->driver->event_destroy(mark->event);
    free(mark);
}

redco_status redcoi_cuda_mark_set(redco_backend *backend, redco_queue *queue, redco_mark *mark, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    const redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    if (queue->recording) { /* it is set whenever the recording is played */
        return redcoi_cuda_check(
            d, d->driver->event_record_with_flags(mark->event, queue->stream, CU_EVENT_RECORD_EXTERNAL), "cuda",
            "cuEventRecordWithFlags", err);
    }
    redcoi_cuda_count_call(cuda);
    return redcoi_cuda_check(d, d->driver->event_record(mark->event, queue->stream), "cuda", "cuEventRecord", err);
}

redco_status redcoi_cuda_mark_wait(redco_backend *backend, redco_queue *queue, redco_mark *mark, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    const redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    if (queue->recording) { return redco_fail(err, REDCO_EVALUE, "cuda", "a recording waits for no mark"); }
    redcoi_cuda_count_call(cuda);
    return redcoi_cuda_check(d, d->driver->stream_wait_event(queue->stream, mark->event, CU_EVENT_WAIT_DEFAULT), "cuda",
                             "cuStreamWaitEvent", err);
}

redco_status redcoi_cuda_mark_finish(redco_backend *backend, redco_mark *mark, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    st = redcoi_cuda_check(d, d->driver->event_synchronize(mark->event), "cuda", "cuEventSynchronize", err);
    return st == REDCO_OK ? redcoi_fault_check(d, err) : st;
}

redco_status redcoi_cuda_mark_between(redco_backend *backend, redco_mark *from, redco_mark *to, double *seconds_out,
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

redco_status redcoi_cuda_occupy(redco_backend *backend, redco_queue *queue, const redco_occupation *occupation,
                                redco_error *err)
{
    const redcoi_grid grid = {.blocks = {REDCOI_OCCUPY_BLOCKS}, .threads = REDCOI_OCCUPY_THREADS};
    const uint64_t round_bytes = (uint64_t)REDCOI_OCCUPY_BLOCKS * REDCOI_OCCUPY_THREADS * 64;
    if (!(occupation->seconds >= 0.0 && occupation->seconds <= longest_s)) {
        return redco_fail(err, REDCO_EVALUE, "cuda", "a queue cannot be busy for %g s; 0 to %g s can be waited for",
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
    return redcoi_kernel_launch((redcoi_cuda *)backend, queue, "redco_k_occupy", &grid, &args, "occupy", err);
}
