#include "tests/unit/cuda_fixture.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

bool mock_load(struct mock *mock_out)
{
    static const char *const names[] = {"mock_stream_do", "mock_fault", "mock_fail_at", "mock_calls"};
    void *const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    void *found[4] = {NULL};
    _Static_assert(sizeof found == sizeof *mock_out, "one address for each member");
    for (size_t i = 0; library != NULL && i < 4; i++) { found[i] = dlsym(library, names[i]); }
    memcpy(mock_out, found, sizeof found);
    return found[3] != NULL;
}

void must(redco_status status, const redco_error *err)
{
    if (status != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

redco_backend *open_cuda(const redco_cuda_options *options)
{
    redco_backend *backend = NULL;
    redco_error err = {.status = REDCO_OK};
    must(redco_cuda_open(options, &backend, &err), &err);
    return backend;
}

redco_device_stream *new_stream(redco_backend *backend)
{
    redco_device_stream *stream = NULL;
    redco_error err = {.status = REDCO_OK};
    must(backend->calls->stream_create(backend, REDCO_DEVICE_STREAM_COMPUTATION, &stream, &err), &err);
    return stream;
}

redco_event *new_event(redco_backend *backend)
{
    redco_event *event = NULL;
    redco_error err = {.status = REDCO_OK};
    must(backend->calls->event_create(backend, &event, &err), &err);
    return event;
}

void *new_memory(redco_backend *backend, redco_memory where, uint64_t size_bytes)
{
    void *memory = NULL;
    redco_error err = {.status = REDCO_OK};
    must(backend->calls->allocate(backend, where, size_bytes, &memory, &err), &err);
    return memory;
}

static void wait_at_gate(void *context)
{
    struct gate *const gate = context;
    (void)pthread_mutex_lock(&gate->lock);
    while (!gate->open) { (void)pthread_cond_wait(&gate->changed, &gate->lock); }
    (void)pthread_mutex_unlock(&gate->lock);
}

void gate_close(struct gate *gate, const struct mock *mock, redco_device_stream *stream)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->open = false;
    (void)pthread_mutex_unlock(&gate->lock);
    assert_int_equal(mock->stream_do(stream->handle, "gate", wait_at_gate, gate), CUDA_SUCCESS);
}

void gate_open(struct gate *gate)
{
    (void)pthread_mutex_lock(&gate->lock);
    gate->open = true;
    (void)pthread_cond_broadcast(&gate->changed);
    (void)pthread_mutex_unlock(&gate->lock);
}
