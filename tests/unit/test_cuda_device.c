/* The CUDA backend's device, memory, streams and events, on the mock library driver, which delays work at random and
 * lets work of different streams overtake each other. */
#include "tests/unit/cuda_fixture.h"

#include "executor/backend/cuda/driver.h"

#include <dlfcn.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 1000 };

struct fixture {
    struct mock mock;
    redco_backend *b;
    redco_device_stream *q[2];
    redco_event *event[2];
    struct gate gate;
};

static int set_up(void **state)
{
    static struct fixture r = {.gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false}};
    if (!mock_load(&r.mock)) { return 1; }
    r.b = open_cuda(NULL);
    for (int i = 0; i < 2; i++) {
        r.q[i] = new_stream(r.b);
        r.event[i] = new_event(r.b);
    }
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    const struct fixture *const r = *state;
    for (int i = 0; i < 2; i++) {
        r->b->calls->stream_free(r->b, r->q[i]);
        r->b->calls->event_free(r->b, r->event[i]);
    }
    redco_backend_close(r->b);
    return 0;
}

static void fill(unsigned char *bytes, unsigned factor)
{
    for (size_t i = 0; i < SIZE; i++) { bytes[i] = (unsigned char)(factor * i + 1); }
}

/* Through all pairs of the program's memory, page-locked and device memory. */
static void bytes_come_back(void **state)
{
    const struct fixture *const r = *state;
    const redco_backend_calls *const calls = r->b->calls;
    redco_error err = {.status = REDCO_OK};
    unsigned char first[SIZE], last[SIZE];
    void *const place[] = {new_memory(r->b, REDCO_MEMORY_DEVICE, SIZE), new_memory(r->b, REDCO_MEMORY_HOST, SIZE),
                           malloc(SIZE)};
    for (size_t i = 0; i < 9; i++) {
        const void *const from = place[i / 3];
        fill(first, (unsigned)i + 3);
        must(calls->copy(r->b, r->q[0], place[i / 3], first, SIZE, &err), &err);
        must(calls->stream_finish(r->b, r->q[0], &err), &err); /* the program's memory is read at once */
        must(calls->copy(r->b, r->q[0], place[i % 3], from, i / 3 == i % 3 ? 0 : SIZE, &err), &err);
        must(calls->stream_finish(r->b, r->q[0], &err), &err);
        must(calls->copy(r->b, r->q[0], last, place[i % 3], SIZE, &err), &err);
        must(calls->stream_finish(r->b, r->q[0], &err), &err);
        assert_memory_equal(first, last, SIZE);
    }
    must(calls->copy(r->b, r->q[0], place[0], first, SIZE, &err), &err);
    must(calls->fill_zero(r->b, r->q[0], (char *)place[0] + 10, 20, &err), &err);
    must(calls->fill_zero(r->b, r->q[0], place[0], 0, &err), &err);
    must(calls->copy(r->b, r->q[0], last, place[0], SIZE, &err), &err);
    must(calls->stream_finish(r->b, r->q[0], &err), &err);
    memset(first + 10, 0, 20);
    assert_memory_equal(first, last, SIZE);
    calls->release(r->b, REDCO_MEMORY_DEVICE, place[0]);
    calls->release(r->b, REDCO_MEMORY_HOST, place[1]);
    free(place[2]);
}

/* A stream that reads another one's work without waiting does not find it yet; with a wait it is. The gate makes both
 * certain. */
static void a_wait_orders_queues(void **state)
{
    struct fixture *const r = *state;
    const redco_backend_calls *const calls = r->b->calls;
    redco_error err = {.status = REDCO_OK};
    unsigned char made[SIZE], got[SIZE];
    void *const pinned = new_memory(r->b, REDCO_MEMORY_HOST, SIZE);
    void *const device = new_memory(r->b, REDCO_MEMORY_DEVICE, SIZE);
    memset(pinned, 0, SIZE);
    for (int waits = 0; waits < 2; waits++) {
        must(calls->fill_zero(r->b, r->q[0], device, SIZE, &err), &err);
        must(calls->stream_finish(r->b, r->q[0], &err), &err);
        fill(made, 5);
        memcpy(pinned, made, SIZE);
        gate_close(&r->gate, &r->mock, r->q[0]);
        must(calls->copy(r->b, r->q[0], device, pinned, SIZE, &err), &err);
        must(calls->event_set(r->b, r->q[0], r->event[0], &err), &err);
        if (waits) { must(calls->event_wait(r->b, r->q[1], r->event[0], &err), &err); }
        void *const out = new_memory(r->b, REDCO_MEMORY_HOST, SIZE);
        must(calls->copy(r->b, r->q[1], out, device, SIZE, &err), &err);
        if (!waits) { must(calls->stream_finish(r->b, r->q[1], &err), &err); }
        gate_open(&r->gate);
        must(calls->stream_finish(r->b, r->q[1], &err), &err);
        must(calls->stream_finish(r->b, r->q[0], &err), &err);
        memcpy(got, out, SIZE);
        if (!waits) { memset(made, 0, SIZE); }
        assert_memory_equal(got, made, SIZE);
        calls->release(r->b, REDCO_MEMORY_HOST, out);
    }
    calls->release(r->b, REDCO_MEMORY_HOST, pinned);
    calls->release(r->b, REDCO_MEMORY_DEVICE, device);
}

/* A wait is for the event as it was set when the wait was queued; one that was never set holds up nobody. */
static void a_mark_is_set_again(void **state)
{
    struct fixture *const r = *state;
    const redco_backend_calls *const calls = r->b->calls;
    redco_error err = {.status = REDCO_OK};
    double seconds = -1.0;
    redco_event *const fresh = new_event(r->b);
    must(calls->event_wait(r->b, r->q[1], fresh, &err), &err);
    must(calls->event_finish(r->b, fresh, &err), &err);
    must(calls->stream_finish(r->b, r->q[1], &err), &err);
    must(calls->event_set(r->b, r->q[0], fresh, &err), &err);
    must(calls->event_wait(r->b, r->q[1], fresh, &err), &err);
    gate_close(&r->gate, &r->mock, r->q[0]);
    must(calls->event_set(r->b, r->q[0], fresh, &err), &err);
    must(calls->stream_finish(r->b, r->q[1], &err), &err); /* the first setting was enough */
    assert_int_not_equal(calls->event_between(r->b, fresh, fresh, &seconds, &err), REDCO_OK);
    assert_non_null(strstr(err.text, "CUDA_ERROR_NOT_READY"));
    gate_open(&r->gate);
    redco_error_clear(&err);
    must(calls->event_finish(r->b, fresh, &err), &err);
    must(calls->event_between(r->b, fresh, fresh, &seconds, &err), &err);
    assert_true(seconds == 0.0);
    calls->event_free(r->b, fresh);
}

static void occupation_takes_its_time(void **state)
{
    const struct fixture *const r = *state;
    const redco_backend_calls *const calls = r->b->calls;
    const uint64_t size = 1 << 20;
    redco_error err = {.status = REDCO_OK};
    double seconds = 0.0;
    unsigned char *const before = malloc(size), *const after = malloc(size);
    void *const memory = new_memory(r->b, REDCO_MEMORY_DEVICE, size);
    for (size_t i = 0; i < size; i++) { before[i] = (unsigned char)(i * i >> 3); }
    must(calls->copy(r->b, r->q[0], memory, before, size, &err), &err);
    const redco_occupation occupations[] = {
        {.seconds = 0.02, .memory = memory, .size_bytes = size, .moved_bytes = 8 * size},
        {.seconds = 0.02, .memory = memory, .size_bytes = 100, .moved_bytes = 100},
        {.seconds = 0.02}};
    for (size_t i = 0; i < 3; i++) {
        must(calls->event_set(r->b, r->q[0], r->event[0], &err), &err);
        must(calls->occupy(r->b, r->q[0], &occupations[i], &err), &err);
        must(calls->event_set(r->b, r->q[0], r->event[1], &err), &err);
        must(calls->event_finish(r->b, r->event[1], &err), &err);
        must(calls->event_between(r->b, r->event[0], r->event[1], &seconds, &err), &err);
        assert_true(seconds >= 0.02);
    }
    must(calls->copy(r->b, r->q[0], after, memory, size, &err), &err);
    must(calls->stream_finish(r->b, r->q[0], &err), &err);
    assert_memory_equal(before, after, size);
    /* Filled with a part of it, also with one of odd size, of whole vectors and not, in no time and while memory is
     * moved. */
    static const struct {
        uint64_t part, left, moved;
        double seconds;
    } fills[] = {{4096, 6, 0, 0.0}, {4094, 6, 1, 0.0},         {4096, 0, 1, 0.0}, {4096, 48, 3, 2e-3},
                 {48, 16, 1, 1e-3}, {(300 << 10), 16, 0, 0.0}, {16, 0, 5, 1e-3},  {(200 << 10) - 16, 32, 1, 0.0}};
    for (size_t f = 0; f < sizeof fills / sizeof fills[0]; f++) {
        const uint64_t part = fills[f].part, filled = size - fills[f].left;
        const redco_occupation fill = {.seconds = fills[f].seconds,
                                       .memory = memory,
                                       .size_bytes = filled,
                                       .moved_bytes = fills[f].moved * filled,
                                       .from = (unsigned char *)memory + 2 * part,
                                       .from_bytes = part};
        must(calls->copy(r->b, r->q[0], memory, before, size, &err), &err);
        must(calls->occupy(r->b, r->q[0], &fill, &err), &err);
        must(calls->copy(r->b, r->q[0], after, memory, size, &err), &err);
        must(calls->stream_finish(r->b, r->q[0], &err), &err);
        for (size_t i = 0; i < filled; i++) { assert_int_equal(after[i], before[2 * part + i % part]); }
        assert_memory_equal(after + filled, before + filled, size - filled);
    }
    const redco_occupation nothing = {.seconds = 0.0};
    must(calls->occupy(r->b, r->q[0], &nothing, &err), &err);
    const double impossible_s[] = {-1.0, 1e9, (double)INFINITY, (double)NAN};
    for (size_t i = 0; i < 4; i++) {
        const redco_occupation o = {.seconds = impossible_s[i]};
        redco_error_clear(&err);
        assert_int_equal(calls->occupy(r->b, r->q[0], &o, &err), REDCO_EVALUE);
    }
    calls->release(r->b, REDCO_MEMORY_DEVICE, memory);
    free(before);
    free(after);
}

static void memory_is_counted_and_limited(void **state)
{
    (void)state;
    redco_backend *const b = open_cuda(&(redco_cuda_options){.memory_limit_bytes = 1000});
    redco_backend *second = NULL;
    redco_error err = {.status = REDCO_OK};
    uint64_t live = 0, peak = 0;
    void *memory = NULL;
    must(b->calls->share(b, &second, &err), &err);
    void *const one = new_memory(b, REDCO_MEMORY_DEVICE, 600);
    void *const pinned = new_memory(b, REDCO_MEMORY_HOST, 5000);
    assert_int_equal((uintptr_t)one % REDCO_ALIGNMENT_BYTES, 0);
    assert_int_equal(b->calls->allocate(b, REDCO_MEMORY_DEVICE, 401, &memory, &err), REDCO_ENOMEM);
    assert_string_equal(err.text, "no room for 401 bytes: 600 of 1000 are in use");
    redco_error_clear(&err);
    assert_int_equal(second->calls->allocate(second, REDCO_MEMORY_DEVICE, UINT64_MAX, &memory, &err), REDCO_ENOMEM);
    void *const two = new_memory(second, REDCO_MEMORY_DEVICE, 400);
    b->calls->memory_use(b, &live, &peak);
    assert_int_equal(live, 600);
    assert_int_equal(peak, 600);
    second->calls->release(second, REDCO_MEMORY_DEVICE, one); /* the other one allocated it */
    b->calls->memory_use(b, &live, &peak);
    assert_int_equal(live, 0);
    assert_int_equal(peak, 600);
    second->calls->memory_use(second, &live, &peak);
    assert_int_equal(live, 400);
    assert_int_equal(peak, 400);
    b->calls->release(b, REDCO_MEMORY_DEVICE, two);
    b->calls->release(b, REDCO_MEMORY_DEVICE, NULL);
    b->calls->release(b, REDCO_MEMORY_HOST, NULL);
    b->calls->release(b, REDCO_MEMORY_HOST, pinned);
    void *const none = new_memory(b, REDCO_MEMORY_DEVICE, 0);
    b->calls->release(b, REDCO_MEMORY_DEVICE, none);
    redco_backend_close(second);
    redco_backend_close(b);
}

/* An error about something that the device lacks says what it has. */
static void a_full_device_says_so(void **state)
{
    const struct fixture *const r = *state;
    redco_error err = {.status = REDCO_OK};
    void *memory = NULL;
    uint64_t live = 1, peak = 0;
    const uint64_t wanted = (uint64_t)1 << 40;
    assert_int_equal(r->b->calls->allocate(r->b, REDCO_MEMORY_DEVICE, wanted, &memory, &err), REDCO_ENOMEM);
    assert_string_equal(err.text, "no room for 1099511627776 bytes: 2080374784 of 2147483648 are free on device 0");
    r->b->calls->memory_use(r->b, &live, &peak);
    assert_int_equal(live, 0);
}

static void a_device_describes_itself(void **state)
{
    const struct fixture *const r = *state;
    redco_cuda_device d;
    redco_error err = {.status = REDCO_OK};
    must(redco_cuda_describe(r->b, &d, &err), &err);
    assert_string_equal(d.name, "mock library device");
    assert_string_equal(d.uuid, "GPU-5d5d5d5d-5d5d-5d5d-5d5d-5d5d5d5d5d00");
    assert_int_equal(d.major, 9);
    assert_int_equal(d.minor, 0);
    assert_int_equal(d.multiprocessors, 132);
    assert_int_equal(d.memory_bytes, (uint64_t)2 << 30);
    assert_true(d.free_bytes < d.memory_bytes && d.free_bytes > d.memory_bytes / 2); /* the context takes some */
    assert_true(d.clock_hz == 1.98e9);
    assert_true(d.memory_clock_hz == 3.201e9);
    assert_int_equal(d.driver_version, CUDA_VERSION);
    assert_int_equal(redco_cuda_count(), 1);
    redco_backend other = {.calls = &(redco_backend_calls){.name = "host"}};
    assert_int_equal(redco_cuda_describe(&other, &d, &err), REDCO_EVALUE);
}

static void it_opens_a_thousand_times(void **state)
{
    (void)state; /* with a handle of set_up() open, and others in between */
    for (int i = 0; i < 1000; i++) {
        redco_backend *const b = open_cuda(NULL);
        if (i % 100 == 0) {
            void *const memory = new_memory(b, REDCO_MEMORY_DEVICE, 100);
            b->calls->release(b, REDCO_MEMORY_DEVICE, memory);
        }
        redco_backend_close(b);
    }
}

/* A thread of its own, with a handle of its own: numbers that it sends through the device come back. */
struct worker {
    redco_backend *b;
    unsigned factor;
    bool failed;
};

static void *work(void *context)
{
    struct worker *const w = context;
    const redco_backend_calls *const calls = w->b->calls;
    unsigned char made[SIZE], got[SIZE];
    void *device[2] = {NULL, NULL};
    redco_device_stream *q[2] = {NULL, NULL};
    redco_event *event = NULL;
    redco_status st = calls->event_create(w->b, &event, NULL);
    for (int i = 0; i < 2 && st == REDCO_OK; i++) {
        st = calls->stream_create(w->b, REDCO_DEVICE_STREAM_COMPUTATION, &q[i], NULL);
        if (st == REDCO_OK) { st = calls->allocate(w->b, REDCO_MEMORY_DEVICE, SIZE, &device[i], NULL); }
    }
    for (unsigned round = 0; round < 50 && st == REDCO_OK; round++) {
        const redco_occupation short_while = {.seconds = 1e-4};
        fill(made, w->factor + round);
        st = calls->copy(w->b, q[0], device[0], made, SIZE, NULL);
        if (st == REDCO_OK && round % 10 == 0) { st = calls->occupy(w->b, q[0], &short_while, NULL); }
        if (st == REDCO_OK) { st = calls->copy(w->b, q[0], device[1], device[0], SIZE, NULL); }
        if (st == REDCO_OK) { st = calls->event_set(w->b, q[0], event, NULL); }
        if (st == REDCO_OK) { st = calls->event_wait(w->b, q[1], event, NULL); }
        if (st == REDCO_OK) { st = calls->copy(w->b, q[1], got, device[1], SIZE, NULL); }
        if (st == REDCO_OK) { st = calls->stream_finish(w->b, q[1], NULL); }
        w->failed = w->failed || st != REDCO_OK || memcmp(made, got, SIZE) != 0;
    }
    for (int i = 0; i < 2; i++) {
        calls->release(w->b, REDCO_MEMORY_DEVICE, device[i]);
        calls->stream_free(w->b, q[i]);
    }
    calls->event_free(w->b, event);
    return NULL;
}

static void handles_work_in_threads(void **state)
{
    (void)state;
    redco_backend *const b = open_cuda(NULL);
    struct worker workers[4] = {{b, 3, false}, {NULL, 40, false}, {NULL, 90, false}, {open_cuda(NULL), 150, false}};
    pthread_t threads[4];
    redco_error err = {.status = REDCO_OK};
    must(b->calls->share(b, &workers[1].b, &err), &err);
    must(b->calls->share(b, &workers[2].b, &err), &err);
    for (int i = 0; i < 4; i++) { assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0); }
    for (int i = 0; i < 4; i++) { assert_int_equal(pthread_join(threads[i], NULL), 0); }
    for (int i = 0; i < 4; i++) { assert_false(workers[i].failed); }
    for (int i = 3; i >= 0; i--) { redco_backend_close(workers[i].b); }
}

/* Streams of communication have the greatest priority that the driver has, computation's the least. */
static void communication_goes_first(void **state)
{
    const struct fixture *const r = *state;
    const redco_backend_calls *const calls = r->b->calls;
    const redcoi_driver *const driver = ((redcoi_cuda *)r->b)->device->driver;
    __typeof__(&cuStreamGetPriority) priority_of = NULL;
    *(void **)&priority_of = dlsym(driver->library, "cuStreamGetPriority");
    assert_non_null(priority_of);
    int priorities[2] = {99, 99}, least = 99, greatest = 99;
    for (int i = 0; i < 2; i++) {
        redco_device_stream *q = NULL;
        redco_error err = {.status = REDCO_OK};
        must(calls->stream_create(r->b, i == 0 ? REDCO_DEVICE_STREAM_COMPUTATION : REDCO_DEVICE_STREAM_COMMUNICATION,
                                  &q, &err),
             &err);
        assert_int_equal(priority_of(q->handle, &priorities[i]), CUDA_SUCCESS);
        calls->stream_free(r->b, q);
    }
    assert_int_equal(driver->stream_priority_range(&least, &greatest), CUDA_SUCCESS);
    assert_int_equal(priorities[0], least);
    assert_int_equal(priorities[1], greatest);
    assert_true(priorities[1] < priorities[0]);
    CUstream stream = NULL; /* the mock library takes none that there is not */
    assert_int_equal(driver->stream_create(&stream, CU_STREAM_NON_BLOCKING, greatest - 1), CUDA_ERROR_INVALID_VALUE);
    assert_int_equal(driver->stream_create(&stream, CU_STREAM_NON_BLOCKING, least + 1), CUDA_ERROR_INVALID_VALUE);
}

static void wrong_launches_are_errors(void **state)
{
    const struct fixture *const r = *state;
    redcoi_cuda *const cuda = (redcoi_cuda *)r->b;
    const struct {
        const char *kernel;
        redcoi_grid grid;
        const char *text;
    } cases[] = {
        {"redco_k_nothing", {.threads = 32}, "is in none of the"},
        {"redco_k_occupy", {.threads = 2048}, "cuLaunchKernel of redco_k_occupy, 1 x 1 x 1 blocks of 2048 threads: "},
        {"redco_k_occupy", {.blocks = {1, 65536}, .threads = 32}, "CUDA_ERROR_INVALID_VALUE"},
        {"redco_k_occupy",
         {.threads = 32, .shared_bytes = 300000},
         "wants 300000 bytes of shared memory, the device has"},
    };
    const unsigned char parameters[256] = {0};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(redcoi_kernel_launch(cuda, r->q[0], cases[i].kernel, &cases[i].grid, parameters, "here", &err),
                         REDCO_ESYSTEM);
        if (strstr(err.text, cases[i].text) == NULL) { fail_msg("%s: %s", err.place, err.text); }
    }
    const redcoi_grid large = {.threads = 32, .shared_bytes = 200000};
    redco_error err = {.status = REDCO_OK};
    for (int i = 0; i < 2; i++) {
        must(redcoi_kernel_launch(cuda, r->q[0], "redco_k_occupy", &large, parameters, "here", &err), &err);
    }
    must(r->b->calls->stream_finish(r->b, r->q[0], &err), &err);
}

int main(void)
{
#define RIGGED(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        RIGGED(bytes_come_back),           RIGGED(a_wait_orders_queues),
        RIGGED(a_mark_is_set_again),       RIGGED(occupation_takes_its_time),
        RIGGED(communication_goes_first),  cmocka_unit_test(memory_is_counted_and_limited),
        RIGGED(a_full_device_says_so),     RIGGED(a_device_describes_itself),
        RIGGED(it_opens_a_thousand_times), cmocka_unit_test(handles_work_in_threads),
        RIGGED(wrong_launches_are_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
