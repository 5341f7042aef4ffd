/* Recordings of the CUDA backend on the mock driver: what is kept and not done, what is done whenever they are played,
 * and what spoils one. */
#include "tests/unit/cuda_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

enum { ELEMENTS = 64, BYTES = ELEMENTS * sizeof(float) };

struct fixture {
    struct mock mock;
    redco_backend *b;
    redco_device_stream *q;
    redco_event *event[3];
    float *pinned;
    void *x, *y;
};

static int set_up(void **state)
{
    static struct fixture r;
    if (!mock_load(&r.mock)) { return 1; }
    r.b = open_cuda(NULL);
    r.q = new_stream(r.b);
    for (int i = 0; i < 3; i++) { r.event[i] = new_event(r.b); }
    r.pinned = new_memory(r.b, REDCO_MEMORY_HOST, BYTES);
    r.x = new_memory(r.b, REDCO_MEMORY_DEVICE, BYTES);
    r.y = new_memory(r.b, REDCO_MEMORY_DEVICE, BYTES);
    *state = &r;
    return 0;
}

static int tear_down(void **state)
{
    const struct fixture *const r = *state;
    const redco_backend_calls *const calls = r->b->calls;
    calls->stream_free(r->b, r->q);
    for (int i = 0; i < 3; i++) { calls->event_free(r->b, r->event[i]); }
    calls->release(r->b, REDCO_MEMORY_HOST, r->pinned);
    calls->release(r->b, REDCO_MEMORY_DEVICE, r->x);
    calls->release(r->b, REDCO_MEMORY_DEVICE, r->y);
    redco_backend_close(r->b);
    return 0;
}

/* y = x + x, back to the program. */
static redco_status stream_sum(const struct fixture *r, redco_error *err)
{
    const redco_backend_calls *const calls = r->b->calls;
    const redco_attributes attributes = {.flags = 0};
    const redco_tensor_type type = redco_type(REDCO_F32, 1, (uint64_t[]){ELEMENTS});
    const redco_tensor in[] = {{type, r->x}, {type, r->x}}, out = {type, r->y};
    const redco_launch launch = {.kind = REDCO_OP_ADD,
                                 .attributes = &attributes,
                                 .input_count = 2,
                                 .output_count = 1,
                                 .inputs = in,
                                 .outputs = &out,
                                 .name = "sum"};
    redco_status st = calls->event_set(r->b, r->q, r->event[1], err);
    if (st == REDCO_OK) { st = calls->copy(r->b, r->q, r->x, r->pinned, BYTES, err); }
    if (st == REDCO_OK) { st = calls->run(r->b, r->q, &launch, err); }
    if (st == REDCO_OK) { st = calls->copy(r->b, r->q, r->pinned, r->y, BYTES, err); }
    return st == REDCO_OK ? calls->event_set(r->b, r->q, r->event[2], err) : st;
}

/* 1 becomes 2^n after n plays: what was queued while it was recorded was not done. Marks are those of the last play,
 * and each play is one call. */
static void what_is_recorded_is_played(void **state)
{
    const struct fixture *const r = *state;
    const redco_backend_calls *const calls = r->b->calls;
    redco_error err = {.status = REDCO_OK};
    redco_recording *recording = NULL;
    double before_s = 0.0;
    for (int i = 0; i < ELEMENTS; i++) { r->pinned[i] = 1.0F; }
    must(calls->event_set(r->b, r->q, r->event[0], &err), &err);
    const uint64_t made = redco_cuda_calls_made(r->b);
    must(calls->record_begin(r->b, r->q, &err), &err);
    must(stream_sum(r, &err), &err);
    must(calls->record_end(r->b, r->q, &recording, &err), &err);
    must(calls->stream_finish(r->b, r->q, &err), &err);
    assert_int_equal(redco_cuda_calls_made(r->b), made);
    assert_true(r->pinned[0] == 1.0F);
    for (int play = 1; play <= 3; play++) {
        double from_s = 0.0, took_s = 0.0;
        must(calls->record_play(r->b, r->q, recording, &err), &err);
        must(calls->stream_finish(r->b, r->q, &err), &err);
        assert_int_equal(redco_cuda_calls_made(r->b), made + (uint64_t)play);
        assert_true(r->pinned[ELEMENTS - 1] == (float)(1 << play));
        must(calls->event_between(r->b, r->event[0], r->event[1], &from_s, &err), &err);
        must(calls->event_between(r->b, r->event[1], r->event[2], &took_s, &err), &err);
        assert_true(from_s >= before_s && took_s > 0.0);
        before_s = from_s + took_s;
    }
    calls->record_free(r->b, recording);
    calls->record_free(r->b, NULL);
}

/* Each is refused, the recording is none, and the stream goes on as if nothing had been. */
static void what_waits_spoils_a_recording(void **state)
{
    const struct fixture *const r = *state;
    const redco_backend_calls *const calls = r->b->calls;
    unsigned char own[BYTES] = {0};
    for (int what = 0; what < 6; what++) {
        redco_error err = {.status = REDCO_OK};
        redco_recording *recording = NULL;
        void *memory = NULL;
        redco_status st = REDCO_OK;
        must(calls->record_begin(r->b, r->q, &err), &err);
        must(stream_sum(r, &err), &err);
        switch (what) {
        case 0: st = calls->stream_finish(r->b, r->q, &err); break;
        case 1: st = calls->event_finish(r->b, r->event[0], &err); break;
        case 2: st = calls->event_wait(r->b, r->q, r->event[0], &err); break;
        case 3: st = calls->allocate(r->b, REDCO_MEMORY_DEVICE, BYTES, &memory, &err); break;
        case 4: st = calls->copy(r->b, r->q, r->x, own, BYTES, &err); break;
        default: st = calls->event_between(r->b, r->event[0], r->event[1], &(double){0.0}, &err); break;
        }
        assert_int_not_equal(st, REDCO_OK);
        redco_error_clear(&err);
        st = calls->record_end(r->b, r->q, what == 2 ? NULL : &recording, &err);
        if (what != 2) { assert_int_equal(st, REDCO_ESYSTEM); } /* refused before the driver saw it */
        assert_null(recording);
        redco_error_clear(&err);
        for (int i = 0; i < ELEMENTS; i++) { r->pinned[i] = 3.0F; }
        must(stream_sum(r, &err), &err);
        must(calls->stream_finish(r->b, r->q, &err), &err);
        assert_true(r->pinned[5] == 6.0F);
    }
}

/* Whatever fails, nothing stays behind: the mock driver ends the process if something did. */
static void failures_leave_nothing(void **state)
{
    static const char *const names[] = {"cuStreamBeginCapture_v2", "cuStreamEndCapture", "cuGraphInstantiateWithFlags",
                                        "cuEventRecordWithFlags", "cuGraphLaunch"};
    const struct fixture *const r = *state;
    const redco_backend_calls *const calls = r->b->calls;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        redco_error err = {.status = REDCO_OK};
        redco_recording *recording = NULL;
        r->mock.fail_at(names[i], 1, CUDA_ERROR_UNKNOWN);
        redco_status st = calls->record_begin(r->b, r->q, &err);
        if (st == REDCO_OK) {
            st = stream_sum(r, &err);
            const redco_status ended =
                calls->record_end(r->b, r->q, st == REDCO_OK ? &recording : NULL, st == REDCO_OK ? &err : NULL);
            if (st == REDCO_OK) { st = ended; }
            if (st == REDCO_OK) { st = calls->record_play(r->b, r->q, recording, &err); }
        }
        r->mock.fail_at(NULL, 0, CUDA_SUCCESS);
        assert_int_equal(st, REDCO_ESYSTEM);
        assert_non_null(strstr(err.text, "CUDA_ERROR_UNKNOWN"));
        assert_int_equal(recording != NULL, i == 4);
        calls->record_free(r->b, recording);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_recorded_is_played, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_waits_spoils_a_recording, set_up, tear_down),
        cmocka_unit_test_setup_teardown(failures_leave_nothing, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
