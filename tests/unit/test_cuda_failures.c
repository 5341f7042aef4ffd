/* Each of the driver's errors becomes one clear error, and nothing left behind. The mock library driver ends the
 * process when a context is released with something in it. */
#include "tests/unit/cuda_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SIZE = 4096 };

struct used {
    redco_backend *b, *second;
    void *device, *pinned;
    redco_device_stream *stream;
    redco_event *from, *to;
};

static redco_status take(struct used *u, redco_error *err)
{
    redco_status st = redco_cuda_open(NULL, &u->b, err);
    if (st != REDCO_OK) { return st; }
    if ((st = u->b->calls->share(u->b, &u->second, err)) != REDCO_OK) { return st; }
    if ((st = u->b->calls->allocate(u->b, REDCO_MEMORY_DEVICE, SIZE, &u->device, err)) != REDCO_OK) { return st; }
    if ((st = u->b->calls->allocate(u->b, REDCO_MEMORY_HOST, SIZE, &u->pinned, err)) != REDCO_OK) { return st; }
    if ((st = u->b->calls->stream_create(u->b, REDCO_DEVICE_STREAM_COMPUTATION, &u->stream, err)) != REDCO_OK) {
        return st;
    }
    if ((st = u->b->calls->event_create(u->b, &u->from, err)) != REDCO_OK) { return st; }
    return u->b->calls->event_create(u->b, &u->to, err);
}

static redco_status use(struct used *u, redco_error *err)
{
    const redco_backend_calls *const calls = u->b->calls;
    const redco_occupation occupation = {.seconds = 1e-5};
    redco_cuda_device about;
    double seconds = 0.0;
    redco_status st = calls->event_set(u->b, u->stream, u->from, err);
    if (st == REDCO_OK) { st = calls->event_wait(u->b, u->stream, u->from, err); }
    if (st == REDCO_OK) { st = calls->copy(u->b, u->stream, u->device, u->pinned, SIZE, err); }
    if (st == REDCO_OK) { st = calls->fill_zero(u->b, u->stream, u->device, SIZE, err); }
    if (st == REDCO_OK) { st = calls->occupy(u->b, u->stream, &occupation, err); }
    if (st == REDCO_OK) { st = calls->event_set(u->second, u->stream, u->to, err); }
    if (st == REDCO_OK) { st = calls->event_finish(u->b, u->to, err); }
    if (st == REDCO_OK) { st = calls->event_between(u->b, u->from, u->to, &seconds, err); }
    if (st == REDCO_OK) { st = calls->stream_finish(u->b, u->stream, err); }
    return st == REDCO_OK ? redco_cuda_describe(u->b, &about, err) : st;
}

static void give_back(const struct used *u)
{
    if (u->b == NULL) { return; }
    const redco_backend_calls *const calls = u->b->calls;
    calls->event_free(u->b, u->to);
    calls->event_free(u->b, u->from);
    calls->stream_free(u->b, u->stream);
    calls->release(u->b, REDCO_MEMORY_HOST, u->pinned);
    calls->release(u->b, REDCO_MEMORY_DEVICE, u->device);
    redco_backend_close(u->second);
    redco_backend_close(u->b);
}

static redco_status everything(redco_error *err)
{
    struct used u = {.b = NULL};
    redco_status st = take(&u, err);
    if (st == REDCO_OK) { st = use(&u, err); }
    give_back(&u);
    return st;
}

/* Every call fails once, with each of the codes. What fails while things are given back is no error: nobody could do
 * anything about it. */
static void every_call_may_fail(void **state)
{
    static const CUresult codes[] = {CUDA_ERROR_OUT_OF_MEMORY, CUDA_ERROR_UNKNOWN, CUDA_ERROR_ILLEGAL_ADDRESS,
                                     CUDA_ERROR_INVALID_HANDLE, (CUresult)12345};
    struct mock mock;
    redco_error err = {.status = REDCO_OK};
    (void)state;
    assert_true(mock_load(&mock));
    const uint64_t before = mock.calls();
    must(everything(&err), &err);
    const uint64_t count = mock.calls() - before;
    uint64_t failures = 0;
    assert_in_range(count, 50, 1000);
    for (size_t c = 0; c < sizeof codes / sizeof codes[0]; c++) {
        for (uint64_t at = 1; at <= count; at++) {
            redco_error_clear(&err);
            mock.fail_at(NULL, at, codes[c]);
            const redco_status st = everything(&err);
            mock.fail_at(NULL, 0, CUDA_SUCCESS);
            if (st == REDCO_OK) { continue; }
            failures++;
            assert_int_equal(err.status, st);
            if (st != REDCO_ENOMEM) { assert_int_equal(st, REDCO_ESYSTEM); }
            if (st == REDCO_ENOMEM) { assert_int_equal(codes[c], CUDA_ERROR_OUT_OF_MEMORY); }
            assert_true(strlen(err.place) > 0 && strlen(err.text) > 10);
            assert_null(strchr(err.text, '\n'));
        }
    }
    print_message("%llu calls, %llu failures\n", (unsigned long long)count, (unsigned long long)failures);
    assert_true(failures > 5 * 30);
    redco_error_clear(&err);
    must(everything(&err), &err);
}

static void a_code_without_a_name_is_named(void **state)
{
    struct mock mock;
    redco_error err = {.status = REDCO_OK};
    (void)state;
    assert_true(mock_load(&mock));
    mock.fail_at("cuDeviceGet", 1, (CUresult)12345);
    assert_int_equal(everything(&err), REDCO_ESYSTEM);
    assert_string_equal(err.text, "cuDeviceGet: unknown error (12345: no description)");
    redco_error_clear(&err);
    mock.fail_at("cuEventSynchronize", 1, CUDA_ERROR_ILLEGAL_ADDRESS);
    assert_int_equal(everything(&err), REDCO_ESYSTEM);
    assert_string_equal(err.text, "cuEventSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS (700: an illegal memory access was "
                                  "encountered)");
}

/* Codes of cuInit() that mean that there is nothing to compute on. */
static void no_device_is_said_so(void **state)
{
    static const struct {
        const char *call;
        int code;
        const char *text;
    } cases[] = {
        {"cuInit", 34, "no CUDA device: libcuda.so.1 is the toolkit's stub"},
        {"cuInit", 35, "no CUDA device: the driver is older"},
        {"cuInit", 100, "no CUDA device: the driver sees none"},
        {"cuDeviceGetCount", 100, "no CUDA device: the driver sees none"},
        {"cuInit", 999, "no CUDA device: cuInit: CUDA_ERROR_UNKNOWN (999: unknown error)"},
        {"cuInit", 803, "no CUDA device: cuInit: unknown error (803: no description)"},
    };
    struct mock mock;
    (void)state;
    assert_true(mock_load(&mock));
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redco_backend *b = NULL;
        redco_error err = {.status = REDCO_OK};
        mock.fail_at(cases[i].call, 1, (CUresult)cases[i].code);
        assert_int_equal(redco_cuda_open(NULL, &b, &err), REDCO_ESYSTEM);
        assert_null(b);
        assert_memory_equal(err.text, cases[i].text, strlen(cases[i].text));
        mock.fail_at(cases[i].call, 1, (CUresult)cases[i].code);
        assert_int_equal(redco_cuda_count(), 0);
    }
    redco_error err = {.status = REDCO_OK};
    redco_backend *b = NULL;
    assert_int_equal(redco_cuda_open(&(redco_cuda_options){.device = 1}, &b, &err), REDCO_ESYSTEM);
    assert_string_equal(err.text, "no CUDA device: device 1 is wanted, the driver shows 1");
}

struct fault {
    const struct mock *mock;
};

static void go_wrong(void *context)
{
    const struct fault *const f = context;
    f->mock->fault(CUDA_ERROR_LAUNCH_FAILED, "a kernel that goes wrong, as the test wants it");
}

static void reach_beyond(void *context)
{
    ((volatile unsigned char *)context)[SIZE] = 1;
}

/* An error of queued work comes back from later calls, from all of them, until the device is closed by all handles. */
static void an_asynchronous_error_stays(void **state)
{
    struct mock mock;
    (void)state;
    assert_true(mock_load(&mock));
    for (int i = 0; i < 2; i++) {
        struct used u = {.b = NULL};
        const struct fault fault = {&mock};
        redco_error err = {.status = REDCO_OK};
        redco_backend *third = NULL;
        must(take(&u, &err), &err);
        (void)(i == 0 ? mock.stream_do(u.stream->handle, "wrong", go_wrong, (void *)(uintptr_t)&fault)
                      : mock.stream_do(u.stream->handle, "beyond", reach_beyond, u.device));
        assert_int_equal(u.b->calls->stream_finish(u.b, u.stream, &err), REDCO_ESYSTEM);
        assert_non_null(strstr(err.text, i == 0 ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_ILLEGAL_ADDRESS"));
        assert_int_equal(use(&u, NULL), REDCO_ESYSTEM);
        assert_int_equal(u.b->calls->share(u.b, &third, NULL), REDCO_ESYSTEM);
        give_back(&u);
        redco_error_clear(&err);
        must(everything(&err), &err);
    }
}

/* Work that uses memory which was released before it ran. */
static void memory_is_released_too_early(void **state)
{
    struct mock mock;
    struct used u = {.b = NULL};
    struct gate gate = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false};
    redco_error err = {.status = REDCO_OK};
    (void)state;
    assert_true(mock_load(&mock));
    must(take(&u, &err), &err);
    gate_close(&gate, &mock, u.stream);
    must(u.b->calls->fill_zero(u.b, u.stream, u.device, SIZE, &err), &err);
    u.b->calls->release(u.b, REDCO_MEMORY_DEVICE, u.device);
    u.device = NULL;
    gate_open(&gate);
    assert_int_equal(u.b->calls->stream_finish(u.b, u.stream, &err), REDCO_ESYSTEM);
    assert_non_null(strstr(err.text, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    give_back(&u);
}

static void foreign_memory_is_refused(void **state)
{
    struct used u = {.b = NULL};
    redco_error err = {.status = REDCO_OK};
    unsigned char own[16] = {0};
    (void)state;
    must(take(&u, &err), &err);
    assert_int_equal(u.b->calls->copy(u.b, u.stream, u.device, u.pinned, SIZE + 1, &err), REDCO_ESYSTEM);
    assert_non_null(strstr(err.text, "cuMemcpyAsync: CUDA_ERROR_INVALID_VALUE"));
    redco_error_clear(&err);
    assert_int_equal(u.b->calls->fill_zero(u.b, u.stream, own, sizeof own, &err), REDCO_ESYSTEM);
    give_back(&u);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call_may_fail),          cmocka_unit_test(a_code_without_a_name_is_named),
        cmocka_unit_test(no_device_is_said_so),         cmocka_unit_test(an_asynchronous_error_stays),
        cmocka_unit_test(memory_is_released_too_early), cmocka_unit_test(foreign_memory_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
