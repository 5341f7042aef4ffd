/* The clock that a power limit leaves, against the balance of watts, and a step's energy by hand. */
#include "costmodel/operators/power.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void close_to(double got, double wanted)
{
    if (!(fabs(got - wanted) <= 1e-9 * fabs(wanted))) { fail_msg("%.12g is not %.12g", got, wanted); }
}

static const redco_power device = {
    .limit_w = 700.0, .idle_w = 100.0, .product_j_per_flop = 1e-12, .memory_w = 200.0, .burst_clock_ratio = 0.95};

/* Average watts of that load at that clock, as power.h says it. */
static double watts(const redco_power *power, const redco_load *load, double clock)
{
    const double busy_s = (power->burst_clock_ratio * load->product_s + load->core_s) / clock;
    const double joules = load->flops * power->product_j_per_flop * clock + load->memory_s * power->memory_w;
    return power->idle_w + joules / (busy_s + load->memory_s);
}

static void the_clock_meets_the_limit(void **state)
{
    (void)state;
    unsigned limited = 0, free_running = 0;
    for (double product_s = 0.1; product_s < 1.0; product_s += 0.17) {
        for (double memory_s = 0.0; memory_s < 0.5; memory_s += 0.09) {
            for (double rate = 100e12; rate < 1000e12; rate += 100e12) {
                const redco_load load = {
                    .product_s = product_s, .core_s = 0.1, .memory_s = memory_s, .flops = rate * (product_s + 0.1)};
                const double clock = redco_power_clock_ratio(&device, &load);
                assert_true(clock > 0.0 && clock <= 1.0);
                if (clock < 1.0) {
                    close_to(watts(&device, &load, clock), device.limit_w);
                    limited++;
                } else {
                    assert_true(watts(&device, &load, 1.0) <= device.limit_w * (1.0 + 1e-12));
                    free_running++;
                }
            }
        }
    }
    assert_true(limited > 20 && free_running > 20);
}

/* Without memory-bound work: 0.8e15 FLOP in 0.95 s. c^2 = (700 - 100) * 0.95 / (0.8e15 * 1e-12) = 0.7125. */
static void products_alone_by_hand(void **state)
{
    (void)state;
    const redco_load load = {.product_s = 1.0, .flops = 0.8e15};
    close_to(redco_power_clock_ratio(&device, &load), 0.84409715080670663);
    const redco_power trained = {.limit_w = 700.0, .idle_w = 100.0, .product_j_per_flop = 1e-12};
    close_to(redco_power_clock_ratio(&trained, &load), 1.0); /* times that have the limit in them are not slowed */
}

/* 300 J above idle in 2 s: 250 W, 500 J, 4,000 J of eight, 4 J a token of 1,000. Never more than the limit. */
static void energy_by_hand(void **state)
{
    (void)state;
    redco_energy energy = redco_power_energy(&device, 300.0, 2.0, 8.0, 1000.0);
    close_to(energy.watts_per_gpu, 250.0);
    close_to(energy.energy_j, 4000.0);
    close_to(energy.energy_j_per_token, 4.0);
    energy = redco_power_energy(&device, 9000.0, 2.0, 1.0, 1000.0);
    close_to(energy.watts_per_gpu, 700.0);
    const redco_power unknown = {.limit_w = 0.0};
    assert_true(redco_power_energy(&unknown, 300.0, 2.0, 8.0, 1000.0).energy_j == 0.0);
}

static void constants_come_from_profile_or_data_sheet(void **state)
{
    (void)state;
    redco_gpu gpu = {.bf16_flops_per_s = 989e12,
                     .fp16_flops_per_s = 989e12,
                     .tf32_flops_per_s = 494.5e12,
                     .tdp_w = 700.0,
                     .idle_w = 129.0};
    const redco_profile_measured how = {.power_limit_w = 650.0,
                                        .idle_w = 120.0,
                                        .product_j_per_flop = 1.1e-12,
                                        .memory_w = 190.0,
                                        .burst_clock_ratio = 0.96};
    redco_power power = redco_power_of(&gpu, REDCO_BF16, &how);
    assert_true(power.limit_w == 650.0 && power.idle_w == 120.0 && power.burst_clock_ratio == 0.96);
    close_to(power.product_j_per_flop, 1.1e-12);
    close_to(redco_power_of(&gpu, REDCO_FP32, &how).product_j_per_flop, 2.2e-12); /* half as many a cycle */
    power = redco_power_of(&gpu, REDCO_BF16, NULL);
    assert_true(power.limit_w == 700.0 && power.idle_w == 129.0 && power.burst_clock_ratio == 0.0);
    close_to(power.product_j_per_flop, 1.90 * 571.0 / 989e12);
    gpu.tdp_w = 0.0;
    assert_true(redco_power_of(&gpu, REDCO_BF16, &how).limit_w == 0.0);
}

/* A GPU of 100 W idle and 700 W, full clock 2 GHz, 1e-12 J a FLOP at full clock, 200 W for memory, whose products take
 * 0.9 of a burst's time at full clock: what it would measure, made by hand. At a clock of c a product of R FLOP/s at
 * full clock draws 1e-12 c F above idle in F / (R c), so 1e-12 R c^2: the limit leaves one of 800 TFLOP/s c =
 * sqrt(0.75). */
static const redco_profile_measured known = {.power_limit_w = 700.0, .idle_w = 100.0, .clock_hz = 2e9};

static redco_profile_power product_of(uint32_t side, double rate, double clock)
{
    const double flops = 2.0 * pow(side, 3.0), time_s = flops / rate / clock;
    return (redco_profile_power){.name = "gemm",
                                 .type = "bf16",
                                 .numbers = "normal",
                                 .m = side,
                                 .n = side,
                                 .k = side,
                                 .flops = flops,
                                 .time_s = time_s,
                                 .energy_j = 100.0 * time_s + 1e-12 * clock * flops,
                                 .clock_hz = clock * 2e9};
}

static void constants_of_a_known_law_come_back(void **state)
{
    (void)state;
    const redco_gpu gpu = {.bf16_flops_per_s = 1e15, .fp16_flops_per_s = 1e15, .tdp_w = 650.0, .idle_w = 80.0};
    const redco_profile_power memory = {.name = "copy",
                                        .type = "bf16",
                                        .numbers = "normal",
                                        .elements = 1 << 28,
                                        .time_s = 0.25e-3,
                                        .energy_j = 300.0 * 0.25e-3,
                                        .clock_hz = 2e9};
    redco_profile_power rows[6] = {product_of(8192, 800e12, sqrt(0.75)), product_of(4096, 600e12, 1.0),
                                   product_of(2048, 300e12, 1.0),        memory,
                                   product_of(8192, 800e12, 1.0),        product_of(8192, 800e12, 1.0)};
    redco_profile_gemm bursts[2] = {{.m = 8192, .n = 8192, .k = 8192, .type = "bf16"},
                                    {.m = 4096, .n = 4096, .k = 4096, .type = "bf16"}};
    redco_profile_measured how = known;
    (void)snprintf(rows[4].numbers, sizeof rows[4].numbers, "zeros"); /* draws what it likes: no part of the fit */
    rows[4].energy_j *= 0.5;
    (void)snprintf(rows[5].name, sizeof rows[5].name, "attention"); /* likewise */
    bursts[0].time_s = rows[0].flops / 800e12 / 0.9;
    bursts[1].time_s = rows[1].flops / 600e12 / 0.9;
    assert_true(redco_power_fit(rows, 6, bursts, 2, &how));
    close_to(how.product_j_per_flop, 1e-12);
    close_to(how.memory_w, 200.0);
    close_to(how.burst_clock_ratio, 0.9);
    const redco_power power = redco_power_of(&gpu, REDCO_BF16, &how);
    assert_true(power.limit_w == 700.0 && power.idle_w == 100.0); /* measured, not the data sheet's */
    close_to(power.product_j_per_flop, 1e-12);

    /* A step of a product that took 1 s in bursts, 0.72e15 FLOP, and a copy of 0.2 s. Watts at the limit:
     * 0.72e15 1e-12 c + 200 * 0.2 = 600 (0.2 + 0.9 / c), so 720 c^2 - 80 c - 540 = 0, c = (80 + sqrt(1561600)) / 1440.
     */
    const redco_load load = {.product_s = 1.0, .memory_s = 0.2, .flops = 0.72e15};
    const double clock = redco_power_clock_ratio(&power, &load);
    close_to(clock, 0.9233610751007393);
    const double step_s = 0.9 / clock + 0.2, dynamic_j = 720.0 * clock + 40.0;
    const redco_energy energy = redco_power_energy(&power, dynamic_j, step_s, 1.0, 1000.0);
    close_to(step_s, 1.174699956787554);
    close_to(energy.energy_j, 700.0 * 1.174699956787554); /* at the limit all the time */

    assert_true(redco_power_fit(rows, 6, NULL, 0, &how)); /* no bursts to compare with */
    close_to(how.burst_clock_ratio, 1.0);
    how = known;
    assert_false(redco_power_fit(rows, 3, bursts, 2, &how)); /* nothing of memory */
    assert_false(redco_power_fit(rows + 3, 1, bursts, 2, &how));
    assert_true(how.product_j_per_flop == 0.0 && how.memory_w == 0.0);
    how.clock_hz = 0.0;
    assert_false(redco_power_fit(rows, 6, bursts, 2, &how));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_clock_meets_the_limit),
        cmocka_unit_test(products_alone_by_hand),
        cmocka_unit_test(energy_by_hand),
        cmocka_unit_test(constants_come_from_profile_or_data_sheet),
        cmocka_unit_test(constants_of_a_known_law_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
