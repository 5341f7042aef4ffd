/* Recordings: a stream's work captured as a graph, which one call queues again. */
#include "executor/backend/cuda/driver.h"

#include <stdlib.h>

struct redco_recording {
    CUgraphExec graph;
};

redco_status redcoi_cuda_record_begin(redco_backend *backend, redco_device_stream *stream, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    /* Other threads open and close what they like meanwhile. */
    st = redcoi_cuda_check(d, d->driver->stream_begin_capture(stream->handle, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL),
                           "cuda", "cuStreamBeginCapture", err);
    stream->recording = st == REDCO_OK;
    return st;
}

redco_status redcoi_cuda_record_end(redco_backend *backend, redco_device_stream *stream,
                                    redco_recording **recording_out, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    CUgraph captured = NULL;
    stream->recording = false;
    redco_status st = redcoi_cuda_enter(cuda, err);
    if (st == REDCO_OK) {
        st = redcoi_cuda_check(d, d->driver->stream_end_capture(stream->handle, &captured), "cuda",
                               "cuStreamEndCapture", err);
    }
    if (st != REDCO_OK || recording_out == NULL) {
        if (captured != NULL) { (void)d->driver->graph_destroy(captured); }
        return st;
    }
    redco_recording *const recording = calloc(1, sizeof *recording);
    if (recording == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "cuda", "a recording");
    } else {
        st = redcoi_cuda_check(d, d->driver->graph_instantiate(&recording->graph, captured, 0), "cuda",
                               "cuGraphInstantiate", err);
    }
    (void)d->driver->graph_destroy(captured);
    if (st != REDCO_OK) {
        free(recording);
        return st;
    }
    *recording_out = recording;
    return REDCO_OK;
}

redco_status redcoi_cuda_record_play(redco_backend *backend, redco_device_stream *stream,
                                     const redco_recording *recording, redco_error *err)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    const redcoi_device *const d = cuda->device;
    const redco_status st = redcoi_cuda_enter(cuda, err);
    if (st != REDCO_OK) { return st; }
    redcoi_cuda_count_call(cuda);
    return redcoi_cuda_check(d, d->driver->graph_launch(recording->graph, stream->handle), "cuda", "cuGraphLaunch",
                             err);
}

void redcoi_cuda_record_free(redco_backend *backend, redco_recording *recording)
{
    const redcoi_cuda *const cuda = (redcoi_cuda *)backend;
    if (recording == NULL) { return; }
    (void)redcoi_cuda_enter(cuda, NULL);
    (void)cuda->device->driver->graph_exec_destroy(recording->graph);
    free(recording);
}
