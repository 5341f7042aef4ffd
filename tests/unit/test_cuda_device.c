/* The CUDA backend's device, memory, queues and marks, on the stand-in driver. */
#include "executor/backend/cuda/cuda.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static redco_backend *open_device(void)
{
    redco_backend *b = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_cuda_open(NULL, &b, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return b;
}

static void bytes_come_back(void **state)
{
    redco_backend *const b = open_device();
    redco_queue *q = NULL;
    void *device = NULL, *pinned = NULL;
    unsigned char out[1000], in[1000];
    (void)state;
    for (size_t i = 0; i < sizeof out; i++) { out[i] = (unsigned char)(7 * i); }
    assert_int_equal(b->calls->queue_create(b, &q, NULL), REDCO_OK);
    assert_int_equal(b->calls->allocate(b, REDCO_MEMORY_DEVICE, sizeof out, &device, NULL), REDCO_OK);
    assert_int_equal(b->calls->allocate(b, REDCO_MEMORY_HOST, sizeof out, &pinned, NULL), REDCO_OK);
    assert_int_equal(b->calls->copy(b, q, device, out, sizeof out, NULL), REDCO_OK);
    assert_int_equal(b->calls->fill_zero(b, q, (char *)device + 10, 20, NULL), REDCO_OK);
    assert_int_equal(b->calls->copy(b, q, pinned, device, sizeof out, NULL), REDCO_OK);
    assert_int_equal(b->calls->queue_finish(b, q, NULL), REDCO_OK);
    memcpy(in, pinned, sizeof in);
    memset(out + 10, 0, 20);
    assert_memory_equal(in, out, sizeof in);
    b->calls->release(b, REDCO_MEMORY_HOST, pinned);
    b->calls->release(b, REDCO_MEMORY_DEVICE, device);
    b->calls->queue_free(b, q);
    redco_backend_close(b);
}

static void occupation_takes_its_time(void **state)
{
    redco_backend *const b = open_device();
    redco_queue *q = NULL;
    redco_mark *from = NULL, *to = NULL;
    void *memory = NULL;
    double seconds = 0.0;
    const uint64_t size = 1 << 20;
    (void)state;
    assert_int_equal(b->calls->queue_create(b, &q, NULL), REDCO_OK);
    assert_int_equal(b->calls->mark_create(b, &from, NULL), REDCO_OK);
    assert_int_equal(b->calls->mark_create(b, &to, NULL), REDCO_OK);
    assert_int_equal(b->calls->allocate(b, REDCO_MEMORY_DEVICE, size, &memory, NULL), REDCO_OK);
    const redco_occupation occupation = {0.02, memory, size, 8 * size};
    assert_int_equal(b->calls->mark_set(b, q, from, NULL), REDCO_OK);
    assert_int_equal(b->calls->occupy(b, q, &occupation, NULL), REDCO_OK);
    assert_int_equal(b->calls->mark_set(b, q, to, NULL), REDCO_OK);
    assert_int_equal(b->calls->mark_finish(b, to, NULL), REDCO_OK);
    assert_int_equal(b->calls->mark_between(b, from, to, &seconds, NULL), REDCO_OK);
    assert_true(seconds >= 0.02);
    b->calls->release(b, REDCO_MEMORY_DEVICE, memory);
    b->calls->mark_free(b, from);
    b->calls->mark_free(b, to);
    b->calls->queue_free(b, q);
    redco_backend_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_come_back), cmocka_unit_test(occupation_takes_its_time)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
