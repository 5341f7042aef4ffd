/** @file cuda_fixture.h  The CUDA backend on the mock library driver (tests/cuda). */
#ifndef REDCO_TESTS_CUDA_FIXTURE_H
#define REDCO_TESTS_CUDA_FIXTURE_H

#include "executor/backend/cuda/cuda_internal.h"

#include "tests/cuda/mock.h"

/** The driver's switches for tests. */
struct mock {
    __typeof__(&mock_stream_do) stream_do;
    __typeof__(&mock_fault) fault;
    __typeof__(&mock_fail_at) fail_at;
    __typeof__(&mock_calls) calls;
};
/** @return whether libcuda.so.1 is the mock library */
bool mock_load(struct mock *mock_out);

/** Fails the test where there is none. */
redco_backend *open_cuda(const redco_cuda_options *options);
redco_device_stream *new_stream(redco_backend *backend);
redco_event *new_event(redco_backend *backend);
void *new_memory(redco_backend *backend, redco_memory where, uint64_t size_bytes);
/** Checks what a call returned. */
void must(redco_status status, const redco_error *err);

/** Work of a stream that does not end before it is let through: what is queued behind it certainly waits. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool open;
};
void gate_close(struct gate *gate, const struct mock *mock, redco_device_stream *stream);
void gate_open(struct gate *gate); /**< once the stream is finished, it can be closed again */

#endif
