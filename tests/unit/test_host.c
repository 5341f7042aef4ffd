/* The host backend's own parts: rounding, random numbers, and the table of calls. Its kernels: test_kernels.
 */
#include "executor/backend/host/host.h"
#include "executor/backend/host/kernels.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Every half-precision number keeps its bits, and every boundary between two neighbours rounds to the even one of them,
 * all else to the nearer one. With @p limit the first pattern that is no finite number. */
static void check_rounding(redco_dtype dtype, uint16_t limit)
{
    for (uint32_t bits = 0; bits < 0x10000; bits++) {
        const uint16_t pattern = (uint16_t)bits;
        uint16_t back;
        float wide;
        redcoi_widen(dtype, &pattern, 1, &wide);
        redcoi_narrow(dtype, &wide, 1, &back);
        if (isnan(wide)) {
            redcoi_widen(dtype, &back, 1, &wide);
            assert_true(isnan(wide));
        } else {
            assert_int_equal(back, pattern);
        }
    }
    for (uint16_t low = 0; low + 1 < limit; low++) {
        const uint16_t pair[2] = {low, (uint16_t)(low + 1)}, even = (uint16_t)((low & 1) == 0 ? low : low + 1);
        float ends[2];
        redcoi_widen(dtype, pair, 2, ends);
        const float middle = (float)(((double)ends[0] + (double)ends[1]) / 2); /* exact, for subnormals too */
        const float tries[3] = {nextafterf(middle, ends[0]), middle, nextafterf(middle, ends[1])};
        const uint16_t want[3] = {low, even, (uint16_t)(low + 1)};
        for (int i = 0; i < 3; i++) {
            const float negative = -tries[i];
            uint16_t have;
            redcoi_narrow(dtype, &tries[i], 1, &have);
            assert_int_equal(have, want[i]);
            redcoi_narrow(dtype, &negative, 1, &have);
            assert_int_equal(have, want[i] | 0x8000);
        }
        /* From double in one rounding: just off the middle, by less than float can tell. */
        const double fine[2] = {nextafter((double)middle, 0), nextafter((double)middle, 1e300)};
        uint16_t have[2];
        redcoi_store_f64(dtype, fine, 2, have);
        assert_int_equal(have[0], low);
        assert_int_equal(have[1], low + 1);
    }
}

static void half_precision_rounds_to_nearest_even(void **state)
{
    (void)state;
    check_rounding(REDCO_BFLOAT16, 0x7f80);
    check_rounding(REDCO_F16, 0x7c00);
    const float values[4] = {65519.9F, 65520.0F, INFINITY, 1e30F};
    uint16_t have[4];
    redcoi_narrow(REDCO_F16, values, 4, have); /* from the middle of 65504 and 65536 on: infinity */
    assert_memory_equal(have, ((uint16_t[4]){0x7bff, 0x7c00, 0x7c00, 0x7c00}), sizeof have);
    const float large[2] = {0x1.fep127F, 0x1.ffp127F};
    redcoi_narrow(REDCO_BFLOAT16, large, 2, have);
    assert_int_equal(have[0], 0x7f7f);
    assert_int_equal(have[1], 0x7f80);
}

/* Known answers: file kat_vectors of Random123 1.14 (github.com/DEShawResearch/random123), lines "philox4x32 10". */
static void random_blocks_are_philox(void **state)
{
    (void)state;
    static const struct {
        uint32_t counter[4], key[2], want[4];
    } rows[3] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    for (int i = 0; i < 3; i++) {
        uint32_t have[4];
        redcoi_philox(rows[i].counter, rows[i].key, have);
        assert_memory_equal(have, rows[i].want, sizeof have);
    }
}

static void table_of_calls(void **state)
{
    (void)state;
    redco_backend *b = NULL;
    redco_device_stream *stream = NULL;
    redco_event *events[2] = {NULL, NULL};
    void *memory = NULL, *more = NULL;
    double seconds = -1;
    uint64_t live_bytes, peak_bytes;
    redco_error err = {0};
    assert_int_equal(redco_host_open(&(redco_host_options){.memory_limit_bytes = 1000}, &b, NULL), REDCO_OK);
    const redco_backend_calls *c = b->calls;
    assert_int_equal(c->allocate(b, REDCO_MEMORY_DEVICE, 600, &memory, &err), REDCO_OK);
    assert_int_equal((uintptr_t)memory % REDCO_ALIGNMENT_BYTES, 0);
    assert_int_equal(c->allocate(b, REDCO_MEMORY_DEVICE, 401, &more, &err), REDCO_ENOMEM);
    assert_string_equal(err.text, "no room for 401 bytes: 600 of 1000 are in use");
    redco_error_clear(&err);
    assert_int_equal(c->allocate(b, REDCO_MEMORY_HOST, 700, &more, &err), REDCO_OK);
    assert_int_equal(c->stream_create(b, REDCO_DEVICE_STREAM_COMPUTATION, &stream, &err), REDCO_OK);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(c->event_create(b, &events[i], &err), REDCO_OK);
        assert_int_equal(c->event_set(b, stream, events[i], &err), REDCO_OK);
        assert_int_equal(c->event_wait(b, stream, events[i], &err), REDCO_OK);
        assert_int_equal(c->event_finish(b, events[i], &err), REDCO_OK);
    }
    assert_int_equal(c->event_between(b, events[0], events[1], &seconds, &err), REDCO_OK);
    assert_true(seconds >= 0);
    memset(more, 7, 400);
    assert_int_equal(c->fill_zero(b, stream, memory, 600, &err), REDCO_OK);
    assert_int_equal(c->copy(b, stream, memory, more, 400, &err), REDCO_OK);
    assert_int_equal(c->stream_finish(b, stream, &err), REDCO_OK);
    assert_int_equal(((unsigned char *)memory)[399], 7);
    assert_int_equal(((unsigned char *)memory)[400], 0);
    for (int i = 0; i < 2; i++) { c->event_free(b, events[i]); }
    c->stream_free(b, stream);
    c->release(b, REDCO_MEMORY_DEVICE, memory);
    c->release(b, REDCO_MEMORY_HOST, more);
    redco_host_memory(b, &live_bytes, &peak_bytes);
    assert_int_equal(live_bytes, 0);
    assert_int_equal(peak_bytes, 600); /* the program's memory is not the device's */
    assert_true(redco_host_core_name()[0] != 0);
    redco_backend_close(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_precision_rounds_to_nearest_even),
        cmocka_unit_test(random_blocks_are_philox),
        cmocka_unit_test(table_of_calls),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
