/* A worker: the stream and the working memory of one thread that computes with states. */
#include "executor/states/states_internal.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t upload_elements_max = (uint64_t)1 << 18;

/* Copies values that come from the program's memory, for callers with a stream of their own: between steps. */
static uint64_t upload_elements(const redco_states *states)
{
    const uint64_t chunk = states->options.chunk_elements;
    return chunk < upload_elements_max ? chunk : upload_elements_max;
}

/* Working memory: of programs, numbers, and values from the program's memory. */
static redco_status worker_memory(const redco_states *states, redco_states_worker *worker, redco_error *err)
{
    redco_backend *const backend = worker->memory.backend;
    const uint64_t work_bytes = redcoi_programs_bytes(states);
    void *block = NULL, *staging = NULL;
    worker->size_bytes = work_bytes + redcoi_numbers_bytes(states);
    if (worker->owns_stream) { worker->size_bytes += upload_elements(states) * sizeof(double); }
    redco_status st = backend->calls->allocate(backend, REDCO_MEMORY_DEVICE, worker->size_bytes, &block, err);
    worker->block = block;
    if (st != REDCO_OK) { return st; }
    worker->memory.work = worker->block;
    worker->numbers = worker->block + work_bytes;
    worker->upload = worker->owns_stream ? worker->numbers + redcoi_numbers_bytes(states) : NULL;
    worker->upload_elements = worker->owns_stream ? upload_elements(states) : 0;
    st = backend->calls->allocate(backend, REDCO_MEMORY_HOST, redcoi_numbers_bytes(states), &staging, err);
    worker->staging = staging;
    if (st == REDCO_OK) { memset(staging, 0, redcoi_numbers_bytes(states)); }
    return st;
}

redco_status redco_states_worker_create(const redco_states *states, redco_backend *backend, redco_device_stream *stream,
                                        redco_states_worker **worker_out, redco_error *err)
{
    redco_status st = REDCO_OK;
    redco_states_worker *worker = calloc(1, sizeof *worker);
    if (worker == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "a worker"); }
    worker->memory.backend = backend;
    worker->memory.stream = stream;
    if (stream == NULL) {
        st = backend->calls->stream_create(backend, REDCO_DEVICE_STREAM_COMPUTATION, &worker->memory.stream, err);
        worker->owns_stream = st == REDCO_OK;
    }
    if (st == REDCO_OK) { st = worker_memory(states, worker, err); }
    if (st != REDCO_OK) {
        redco_states_worker_free(worker);
        return st;
    }
    *worker_out = worker;
    return REDCO_OK;
}

void redco_states_worker_free(redco_states_worker *worker)
{
    if (worker == NULL) { return; }
    redco_backend *const backend = worker->memory.backend;
    if (worker->owns_stream) {
        (void)backend->calls->stream_finish(backend, worker->memory.stream, NULL); /* it may hold what failed */
        backend->calls->stream_free(backend, worker->memory.stream);
    }
    backend->calls->release(backend, REDCO_MEMORY_DEVICE, worker->block);
    backend->calls->release(backend, REDCO_MEMORY_HOST, worker->staging);
    free(worker);
}

redco_stream_handle redcoi_worker_stream(const redco_states_worker *worker)
{
    return (redco_stream_handle){worker->memory.backend, worker->memory.stream};
}

uint64_t redco_states_worker_bytes(const redco_states_worker *worker)
{
    return worker->size_bytes;
}

redco_status redco_states_worker_finish(const redco_states_worker *worker, redco_error *err)
{
    return worker->memory.backend->calls->stream_finish(worker->memory.backend, worker->memory.stream, err);
}

redco_status redcoi_copy(const redco_states_worker *worker, void *to, const void *from, uint64_t size_bytes,
                         redco_error *err)
{
    redco_backend *const backend = worker->memory.backend;
    if (to == from || size_bytes == 0) { return REDCO_OK; }
    return backend->calls->copy(backend, worker->memory.stream, to, from, size_bytes, err);
}

redco_status redcoi_add(const redco_states *states, const redco_states_worker *worker, void *target, const void *other,
                        uint64_t count, bool replace, const char *name, redco_error *err)
{
    const void *const inputs[] = {target, other};
    void *const outputs[] = {target};
    if (replace) { return redcoi_copy(worker, target, other, redcoi_bytes(states, count), err); }
    return redcoi_program_run(&states->add, &worker->memory, inputs, outputs, count, name, err);
}
