/* Loads without pause: work is always queued ahead of what is waited for, and averages are those of the meter's
 * samples, by hand. The meter's clock is the test's own, so that nothing depends on how long anything takes. */
#include "executor/backend/host/host.h"
#include "executor/measure/sustained.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void close_to(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted))) { fail_msg("%.12g is not %.12g", got, wanted); }
}

/* A counter that goes on every 0.1 s by what was drawn until then, looked at every 0.05 s: 200 W for 0.2 s, then 600.
 */
static void counters_are_read_where_they_go_on(void **state)
{
    (void)state;
    redco_meter_sample samples[41];
    redco_measure_sustained found;
    for (uint32_t i = 0; i < 41; i++) {
        const double time_s = 0.05 * i, stepped_s = 0.1 * floor(time_s / 0.1 + 1e-9);
        const double joules = 200.0 * fmin(stepped_s, 0.2) + 600.0 * fmax(0.0, stepped_s - 0.2);
        samples[i] = (redco_meter_sample){.time_s = 7.0 + time_s,
                                          .energy_j = 1000.0 + joules,
                                          .watts = 450.0,
                                          .clock_hz = i < 3 ? 1.98e9 : 1.5e9,
                                          .memory_clock_hz = 3e9};
    }
    assert_int_equal(redcoi_measure_average(samples, 41, 5, &found, NULL), REDCO_OK);
    assert_false(found.sampled);
    close_to(found.watts, 600.0); /* from the first step behind 0.25 s to the last one: whole steps of the counter */
    close_to(found.clock_hz, 1.5e9);
    close_to(found.memory_clock_hz, 3e9);
    close_to(found.settle_s, 0.15);
    close_to(found.window_s, 1.75);
}

/* No counter: the trapezoids of 300, 500, 500 W at 0, 1, 3 s are 400 + 1000 J in 3 s. */
static void watts_are_summed_where_joules_are_not_counted(void **state)
{
    (void)state;
    const redco_meter_sample samples[] = {
        {.time_s = 0.0, .energy_j = -1.0, .watts = 300.0, .clock_hz = 1e9, .memory_clock_hz = -1.0},
        {.time_s = 1.0, .energy_j = -1.0, .watts = 500.0, .clock_hz = 1e9, .memory_clock_hz = -1.0},
        {.time_s = 3.0, .energy_j = -1.0, .watts = 500.0, .clock_hz = 1e9, .memory_clock_hz = -1.0}};
    redco_meter_sample still[3] = {samples[0], samples[1], samples[2]};
    redco_measure_sustained found;
    redco_error err = {.status = REDCO_OK};
    assert_int_equal(redcoi_measure_average(samples, 3, 0, &found, NULL), REDCO_OK);
    assert_true(found.sampled && found.memory_clock_hz == 0.0 && found.settle_s == 0.0);
    close_to(found.watts, 1400.0 / 3.0);
    for (int i = 0; i < 3; i++) {
        still[i].energy_j = 5.0;
        still[i].watts = -1.0;
    }
    assert_int_equal(redcoi_measure_average(still, 3, 0, &found, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "the counter of joules stands still, and there are no watts");
}

/* The host backend runs queued work that was waited for. */
static struct {
    const redco_backend_calls *host;
    uint32_t set, finished, least_ahead;
    bool counting;
} seen;

static redco_status count_set(redco_backend *backend, redco_device_stream *stream, redco_event *event, redco_error *err)
{
    if (seen.counting) { seen.set++; }
    return seen.host->event_set(backend, stream, event, err);
}

static redco_status count_finish(redco_backend *backend, redco_event *event, redco_error *err)
{
    if (seen.counting) {
        seen.finished++;
        const uint32_t ahead = seen.set - seen.finished;
        seen.least_ahead = ahead < seen.least_ahead ? ahead : seen.least_ahead;
    } else {
        seen.counting = true; /* the first wait is for the pass that is timed */
    }
    return seen.host->event_finish(backend, event, err);
}

struct script {
    double time_s, watts;
};

static redco_status scripted(void *context, redco_meter_sample *out, redco_error *err)
{
    struct script *const script = context;
    (void)err;
    *out = (redco_meter_sample){.time_s = script->time_s,
                                .energy_j = script->watts * script->time_s,
                                .watts = script->watts,
                                .clock_hz = 1.4e9,
                                .memory_clock_hz = 2.6e9};
    script->time_s += 0.01;
    return REDCO_OK;
}

static void the_queue_is_always_ahead(void **state)
{
    (void)state;
    redco_backend *backend = NULL;
    redco_measurer *measurer = NULL;
    redco_error err = {.status = REDCO_OK};
    struct script script = {.time_s = 0.0, .watts = 640.0};
    assert_int_equal(redco_host_open(NULL, &backend, NULL), REDCO_OK);
    seen.host = backend->calls;
    seen.least_ahead = UINT32_MAX;
    redco_backend_calls calls = *backend->calls;
    calls.event_set = count_set;
    calls.event_finish = count_finish;
    backend->calls = &calls;
    const redco_measure_options options = {.sample_s = 1e-9, .case_s = 1e-9, .runs = 1};
    assert_int_equal(redco_measurer_create(backend, &options, &measurer, &err), REDCO_OK);
    const redco_measure_case one = {
        .kind = REDCO_MEASURE_ATTENTION, .dtype = REDCO_F32, .batch = 1, .heads = 2, .sequence = 16, .size = 8};
    const redco_measure_load load = {.meter = {&script, scripted},
                                     .numbers = REDCO_NUMBERS_NORMAL,
                                     .backward = true,
                                     .settle_s = 0.25,
                                     .window_s = 1.0,
                                     .chunk_s = 1e-12};
    redco_measure_sustained found;
    if (redco_measure_case_sustained(measurer, &one, &load, &found, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    /* A sample every 10 ms: one at the beginning, 25 until it has settled, 100 in the window; six chunks ahead. */
    assert_int_equal(seen.finished, 126);
    assert_int_equal(seen.set, 131);
    assert_int_equal(seen.least_ahead, 5);
    close_to(found.watts, 640.0);
    close_to(found.window_s, 1.0);
    close_to(found.energy_j, 640.0 * found.time_s);
    assert_true(found.time_s > 0.0 && !found.sampled);
    close_to(found.clock_hz, 1.4e9);
    redco_measurer_free(measurer);
    backend->calls = seen.host;
    redco_backend_close(backend);
}

static void idle_watts_are_those_of_the_meter(void **state)
{
    (void)state;
    struct script script = {.time_s = 3.0, .watts = 129.0};
    double watts = 0.0;
    assert_int_equal(redco_measure_idle(&(redco_meter){&script, scripted}, 0.05, &watts, NULL), REDCO_OK);
    close_to(watts, 129.0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(counters_are_read_where_they_go_on),
        cmocka_unit_test(watts_are_summed_where_joules_are_not_counted),
        cmocka_unit_test(the_queue_is_always_ahead),
        cmocka_unit_test(idle_watts_are_those_of_the_meter),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
