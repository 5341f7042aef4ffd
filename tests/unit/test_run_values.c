/* Batches against their tables, and how people write what a run stands on. */
#include "planner/run/batch_size.h"
#include "planner/run/run_values.h"
#include "topology/base/preset.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static void within(double got, double want, double ratio)
{
    if (!(fabs(got - want) <= ratio * fabs(want))) { fail_msg("%.9g instead of %.9g", got, want); }
}

/* MLPerf's reference convergence points: mean samples to the target (mlcommons/logging, rcp_checker). */
static const redco_batch_point llama_405b[] = {{1152, 313344}, {2304, 368640}, {4608, 488448}};
static const redco_batch_point deepseek[] = {{15360, 721920}, {16384, 767317}, {18432, 857088}};
static const redco_batch_point llama_8b[] = {{32, 179405}, {64, 226714}, {96, 278640}, {128, 345907}};
static const redco_batch_point gpt3[] = {{1536, 1.01}, {2048, 1.0},  {3072, 1.03},
                                         {4096, 1.07}, {6144, 1.19}, {8192, 1.38}};

static void from_two(const redco_batch_point *points, size_t count, double ratio)
{
    const redco_batch_point ends[2] = {points[0], points[count - 1]};
    redco_batch_curve curve;
    assert_int_equal(redco_batch_fit(ends, 2, false, &curve, NULL), REDCO_OK);
    for (size_t i = 0; i < count; i++) {
        within(redco_batch_needed(&curve, points[i].batch), points[i].needed, i == 0 || i == count - 1 ? 1e-9 : ratio);
    }
}

static void two_points_predict_the_others(void **state)
{
    (void)state;
    from_two(llama_405b, 3, 0.03);
    from_two(deepseek, 3, 0.03);
    from_two(llama_8b, 4, 0.05);
}

static void all_points_fit(void **state)
{
    redco_batch_curve curve;
    (void)state;
    assert_int_equal(redco_batch_fit(llama_405b, 3, false, &curve, NULL), REDCO_OK);
    within(curve.needed, 253440.0, 0.01); /* the reference's fit, which weighs points in another way */
    within(1.0 / curve.linear, 4983.0, 0.03);
    for (size_t i = 0; i < 3; i++) {
        within(redco_batch_needed(&curve, llama_405b[i].batch), llama_405b[i].needed, 0.01);
    }
    assert_int_equal(redco_batch_fit(llama_8b, 4, false, &curve, NULL), REDCO_OK);
    for (size_t i = 0; i < 4; i++) { within(redco_batch_needed(&curve, llama_8b[i].batch), llama_8b[i].needed, 0.05); }
    assert_int_equal(redco_batch_fit(gpt3, 6, true, &curve, NULL), REDCO_OK);
    assert_true(curve.square > 0.0);
    for (size_t i = 0; i < 6; i++) { within(redco_batch_needed(&curve, gpt3[i].batch), gpt3[i].needed, 0.05); }
}

/* Points of a known curve give it back; steps that are constant are a line through 0. */
static void known_curves_come_back(void **state)
{
    redco_batch_point points[5];
    redco_batch_curve curve;
    (void)state;
    for (int i = 0; i < 5; i++) {
        const double b = 100.0 * (i + 1);
        points[i] = (redco_batch_point){b, 5e6 * (1.0 + b / 700.0 + b * b / 90000.0)};
    }
    assert_int_equal(redco_batch_fit(points, 5, true, &curve, NULL), REDCO_OK);
    within(curve.needed, 5e6, 1e-6);
    within(curve.linear, 1.0 / 700.0, 1e-6);
    within(curve.square, 1.0 / 90000.0, 1e-6);
    for (int i = 0; i < 5; i++) { points[i].needed = 47.0 * points[i].batch; }
    assert_int_equal(redco_batch_fit(points, 5, false, &curve, NULL), REDCO_OK);
    within(redco_batch_needed(&curve, 1000.0), 47000.0, 1e-9);
    assert_int_equal(redco_batch_fit(points, 1, false, &curve, NULL), REDCO_EVALUE);
    points[1].batch = points[0].batch;
    assert_int_equal(redco_batch_fit(points, 2, false, &curve, NULL), REDCO_EVALUE);
}

static void inflation_by_hand(void **state)
{
    const redco_critical_batch critical = redco_critical_batch_of(4e6);
    const redco_critical_batch law = {.given = true, .by_seen = true, .seen_coefficient = 2.0, .seen_exponent = 0.5};
    const redco_critical_batch none = {.given = false};
    redco_critical_batch table;
    (void)state;
    within(redco_batch_inflation(&critical, 4e6, 1e6, 1e12), 2.0 / 1.25, 1e-12);
    within(redco_critical_batch_tokens(&law, 4e12), 4e6, 1e-12);
    within(redco_batch_inflation(&law, 4e6, 1e6, 4e12), 2.0 / 1.25, 1e-12);
    assert_true(redco_batch_inflation(&none, 1e9, 1.0, 1.0) == 1.0);
    assert_int_equal(redco_critical_batch_read("mlperf-llama-3.1-405b", &table, NULL), REDCO_OK);
    within(table.tokens, 40.8e6, 0.03);
    within(redco_batch_inflation(&table, 4608.0 * 8192.0, 1152.0 * 8192.0, 1e12), 488448.0 / 313344.0, 0.01);
}

static void words_are_read(void **state)
{
    static const struct {
        const char *text;
        redco_run_unit unit;
        double value; /* negative: refused */
    } cases[] = {{"15T", REDCO_RUN_TOKENS, 15e12},
                 {"300 B", REDCO_RUN_TOKENS, 300e9},
                 {"4194304", REDCO_RUN_TOKENS, 4194304.0},
                 {"15 tons", REDCO_RUN_TOKENS, -1.0},
                 {"90s", REDCO_RUN_SECONDS, 90.0},
                 {"10 min", REDCO_RUN_SECONDS, 600.0},
                 {"60d", REDCO_RUN_SECONDS, 5184000.0},
                 {"10", REDCO_RUN_SECONDS, -1.0},
                 {"-3 s", REDCO_RUN_SECONDS, -1.0},
                 {"2.5/gpu-hour", REDCO_RUN_PRICE, 2.5},
                 {"2.5/hour", REDCO_RUN_PRICE, -1.0},
                 {"56 gCO2/kWh", REDCO_RUN_INTENSITY, 56.0},
                 {"", REDCO_RUN_TOKENS, -1.0},
                 {"1e300T", REDCO_RUN_TOKENS, -1.0}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        double value = 0.0;
        const redco_status st = redco_run_parse(cases[i].text, cases[i].unit, "x", &value, NULL);
        assert_int_equal(st, cases[i].value < 0.0 ? REDCO_EVALUE : REDCO_OK);
        if (st == REDCO_OK) { within(value, cases[i].value, 1e-12); }
    }
}

static void counts_are_rates(void **state)
{
    redco_failures failures;
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_failures_read("466/54d/2048", &failures, &err), REDCO_OK);
    const redco_run_value rate = redco_failures_rate(&failures, 64);
    within(rate.value * 86400.0, 4.214e-3, 1e-3); /* 466 / 54 / 2048 */
    within(rate.low / rate.value, 431.08 / 466.0, 1e-3);
    assert_int_equal(rate.evidence, REDCO_GIVEN);
    assert_int_equal(redco_failures_read("12/30d", &failures, &err), REDCO_OK);
    within(redco_failures_rate(&failures, 1024).value * 86400.0, 12.0 / 30.0 / 128.0, 1e-12);
    static const char *const bad[] = {"12/", "12/30", "12/30d/", "12/30d/0", "12/0d", "nothing"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        redco_error_clear(&err);
        assert_int_equal(redco_failures_read(bad[i], &failures, &err), REDCO_EVALUE);
    }
}

static void presets_are_sound(void **state)
{
    static const char *const kinds[] = {"failures", "prices", "grids", "batches"};
    (void)state;
    for (size_t k = 0; k < 4; k++) {
        size_t count = 0;
        for (const redco_preset *p; (p = redco_preset_at(kinds[k], count)) != NULL; count++) {
            redco_failures failures;
            redco_run_value value;
            redco_critical_batch critical;
            char currency[16];
            bool known = false;
            redco_error err = {0};
            const redco_status st = k == 0 ? redco_failures_read(p->name, &failures, &err)
                                    : k == 1
                                        ? redco_price_read(p->name, "H100-SXM5-80GB", &known, &value, currency, &err)
                                    : k == 2 ? redco_grid_read(p->name, &value, &err)
                                             : redco_critical_batch_read(p->name, &critical, &err);
            if (st != REDCO_OK) { fail_msg("%s: %s: %s", p->name, err.place, err.text); }
            if (k == 1) { assert_true(known && strcmp(currency, "USD") == 0); }
        }
        assert_true(count > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_points_predict_the_others),
        cmocka_unit_test(all_points_fit),
        cmocka_unit_test(known_curves_come_back),
        cmocka_unit_test(inflation_by_hand),
        cmocka_unit_test(words_are_read),
        cmocka_unit_test(counts_are_rates),
        cmocka_unit_test(presets_are_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
