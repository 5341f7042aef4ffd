/* Failures and checkpoints: formulas against closed forms worked by hand, the event simulation against the formulas,
 * and time that adds up. */
#include "planner/run/reliability.h"
#include "planner/run/run_events.h"
#include "planner/run/scale_noise.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static void close_to(double got, double want, double ratio)
{
    if (!(fabs(got - want) <= ratio * fabs(want))) { fail_msg("%.9g instead of %.9g", got, want); }
}

static redco_reliability blocking(double mttf_s, double interval_s, double block_s, double restart_s)
{
    return (redco_reliability){.mttf_s = mttf_s,
                               .restart_s = restart_s,
                               .saving = REDCO_SAVE_BLOCKING,
                               .interval_s = interval_s,
                               .block_s = block_s,
                               .pooled = true};
}

/* Daly 2006: T = M e^(R/M) (e^((t + d)/M) - 1) Ts / t. With M = 1000, t = 90, d = 10, R = 50: e^0.05
 * = 1.0512710963760241, e^0.1 - 1 = 0.10517091807564763, so T/Ts = 1000 * 1.1056311... / 90 / 10 = 1.22848... */
static void formula_is_dalys(void **state)
{
    (void)state;
    const redco_reliability r = blocking(1000.0, 90.0, 10.0, 50.0);
    const redco_time_split split = redco_time_split_of(&r);
    close_to(1.0 / split.compute, 1000.0 * 1.0512710963760241 * 0.10517091807564763 / 90.0, 1e-12);
    close_to(split.checkpoint / split.compute, 10.0 / 90.0, 1e-12);
    close_to(split.compute + split.checkpoint + split.failures + split.restart, 1.0, 1e-12);
    redco_reliability never = r;
    never.mttf_s = (double)INFINITY;
    const redco_time_split free = redco_time_split_of(&never);
    close_to(free.compute, 0.9, 1e-12);
    assert_true(free.failures == 0.0 && free.restart == 0.0);
}

static double ettr_first_order(const redco_reliability *r)
{
    return (1.0 - (r->restart_s + 0.5 * r->interval_s) / r->mttf_s) / (1.0 + r->block_s / r->interval_s);
}

/* Worked in the reference: 2048 nodes at 3.79e-3 a day fail every 11,131 s. */
static void first_order_by_hand(void **state)
{
    (void)state;
    const double mttf_s = 86400.0 / (2048 * 3.79e-3);
    redco_reliability r = blocking(mttf_s, 0.0, 20.0, 600.0);
    r.interval_s = redco_interval_young(20.0, mttf_s);
    close_to(r.interval_s, 667.26, 1e-4);
    close_to(ettr_first_order(&r), 0.889, 1e-3);
    r = blocking(mttf_s, redco_interval_young(10.0, mttf_s), 10.0, 300.0);
    close_to(ettr_first_order(&r), 0.932, 1e-3);
    close_to(redco_interval_daly(10.0, mttf_s), r.interval_s - 10.0, 1e-12);
}

/* Exact minimisation against a fine grid and against Lambert's W: t = M (1 + W(-e^(-w/M - 1))). */
static void best_interval_is_the_least(void **state)
{
    (void)state;
    static const double waits[] = {1.0, 20.0, 300.0}, mttfs[] = {2000.0, 11131.0, 1e6, 1e8};
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 4; k++) {
            redco_reliability r = blocking(mttfs[k], 0.0, waits[i], 300.0);
            const double best_s = redco_interval_best(&r);
            double x = -1.0 + sqrt(2.0 * waits[i] / mttfs[k]); /* Newton for x e^x = -e^(-w/M - 1), x = t/M - 1 */
            for (int n = 0; n < 50; n++) {
                const double target = -exp(-waits[i] / mttfs[k] - 1.0);
                x -= (x * exp(x) - target) / ((1.0 + x) * exp(x));
            }
            close_to(best_s, mttfs[k] * (1.0 + x), 1e-5);
            r.interval_s = best_s;
            const double most = redco_time_split_of(&r).compute;
            for (double f = 0.5; f <= 2.0; f += 0.01) {
                r.interval_s = best_s * f;
                assert_true(redco_time_split_of(&r).compute <= most * (1.0 + 1e-9));
            }
        }
    }
}

/* Copies in memory, of which some failures lose all: none of an hour's intervals is better, and none with a slower
 * write to storage. */
static void best_interval_of_copies(void **state)
{
    static const double waits[] = {0.1, 2.0, 20.0}, mttfs[] = {2000.0, 11131.0, 1e6};
    (void)state;
    for (int i = 0; i < 9; i++) {
        double slower = 0.0;
        for (double write_s = 600.0; write_s > 0.5; write_s /= 2.0) {
            redco_reliability r = blocking(mttfs[i % 3], 0.0, waits[i / 3], 300.0);
            r.saving = REDCO_SAVE_MEMORY;
            r.deep_ratio = 0.02;
            r.write_s = write_s;
            r.stored_interval_s = fmax(60.0, 10.0 * write_s);
            r.interval_s = redco_interval_best(&r);
            const double most = redco_time_split_of(&r).compute;
            assert_true(most >= slower * (1.0 - 1e-12));
            slower = most;
            for (r.interval_s = 5.0; r.interval_s < 3600.0; r.interval_s *= 1.05) {
                assert_true(redco_time_split_of(&r).compute <= most * (1.0 + 1e-9));
            }
        }
    }
}

static redco_time_split mean_of(const redco_reliability *r, double work_s, uint32_t runs)
{
    redco_time_split split;
    redco_error err = {0};
    if (redco_run_play_many(r, work_s, runs, 7, &split, &err) != REDCO_OK) { fail_msg("%s", err.text); }
    return split;
}

static void compare(const redco_reliability *r, double work_s, uint32_t runs)
{
    redco_error err = {0};
    if (redco_reliability_check(r, &err) != REDCO_OK) { fail_msg("%s", err.text); }
    const redco_time_split formula = redco_time_split_of(r), played = mean_of(r, work_s, runs);
    assert_true(formula.compute > 0.75);
    close_to(played.compute, formula.compute, 0.02);
    close_to(played.checkpoint, formula.checkpoint, 0.03);
    assert_true(fabs(played.failures - formula.failures) < 0.02);
    assert_true(fabs(played.restart - formula.restart) < 0.02);
}

/* 10^4 runs for each way to save, where losses are below 25 %. */
static void events_agree_with_formulas(void **state)
{
    (void)state;
    enum { RUNS = 10000 };
    redco_reliability r = blocking(10000.0, 600.0, 20.0, 300.0);
    compare(&r, 2e5, RUNS);
    r.block_s = 60.0;
    r.interval_s = redco_interval_best(&r);
    r.restart_s = 600.0;
    compare(&r, 2e5, RUNS);

    redco_reliability async = blocking(10000.0, 600.0, 5.0, 300.0);
    async.saving = REDCO_SAVE_ASYNC;
    async.write_s = 400.0;
    compare(&async, 2e5, RUNS);

    redco_reliability memory = blocking(10000.0, 60.0, 1.0, 300.0);
    memory.saving = REDCO_SAVE_MEMORY;
    memory.write_s = 600.0;
    memory.stored_interval_s = 3600.0;
    memory.deep_ratio = 0.1;
    compare(&memory, 2e5, RUNS);

    redco_reliability replicas = blocking(3000.0, 1800.0, 20.0, 1200.0);
    replicas.replicas = 16;
    replicas.stall_s = 60.0;
    replicas.deep_ratio = 0.02;
    replicas.write_s = 100.0;
    compare(&replicas, 2e5, RUNS);

    redco_reliability spares = blocking(20000.0, 900.0, 10.0, 300.0);
    spares.pooled = false;
    spares.spares = 2;
    spares.repair_s = 20000.0;
    close_to(redco_spares_wait(2, 20000.0, 20000.0), 1.0 / 16.0, 1e-12); /* (1/3!) / (1 + 1 + 1/2 + 1/6) */
    compare(&spares, 1e6, RUNS / 4);
}

/* Where formulas end, both are still Daly's exact process. */
static void large_losses_agree_with_daly(void **state)
{
    (void)state;
    const redco_reliability r = blocking(1000.0, 300.0, 60.0, 400.0);
    const redco_time_split formula = redco_time_split_of(&r), played = mean_of(&r, 3e5, 200);
    assert_true(formula.compute < 0.5);
    close_to(played.compute, formula.compute, 0.02);
}

static void time_adds_up_exactly(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        redco_reliability r = blocking(500.0 + (double)(seed % 7) * 900.0, 50.0 + (double)(seed % 11) * 40.0,
                                       (double)(seed % 5) * 3.3, (double)(seed % 13) * 30.1);
        r.saving = (redco_saving)(seed % 3);
        r.write_s = r.saving == REDCO_SAVE_BLOCKING ? 0.0 : 47.7;
        r.stored_interval_s = 400.0;
        r.deep_ratio = (double)(seed % 4) * 0.1;
        r.pooled = seed % 2 == 0;
        r.spares = (uint32_t)(seed % 3);
        r.repair_s = 700.0;
        r.replicas = seed % 5 == 4 ? 2 + (uint32_t)(seed % 9) : 0;
        r.stall_s = 20.0;
        redco_run_events run, again;
        assert_int_equal(redco_run_play(&r, 20000.0, seed, &run, NULL), REDCO_OK);
        assert_true(run.wall_us == run.compute_us + run.checkpoint_us + run.failures_us + run.restart_us);
        assert_true(run.compute_us == 20000000000);
        assert_true(run.checkpoint_us >= 0 && run.failures_us >= 0 && run.restart_us >= 0);
        assert_int_equal(redco_run_play(&r, 20000.0, seed, &again, NULL), REDCO_OK);
        assert_memory_equal(&run, &again, sizeof run); /* same seed, same run */
    }
}

static void hopeless_runs_end(void **state)
{
    (void)state;
    const redco_reliability r = blocking(10.0, 600.0, 10.0, 1.0);
    redco_run_events run;
    redco_error err = {0};
    assert_int_equal(redco_run_play(&r, 1e6, 1, &run, &err), REDCO_EINFEASIBLE);
    redco_reliability late = blocking(1e4, 100.0, 1.0, 1.0);
    late.saving = REDCO_SAVE_ASYNC;
    late.write_s = 200.0;
    assert_int_equal(redco_reliability_check(&late, NULL), REDCO_EVALUE);
}

/* Binomial sums by hand: n = 10, p = 0.1: P[0] = 0.3487, P[<= 1] = 0.7361, P[<= 2] = 0.9298, P[<= 3] = 0.9872, P[<= 4]
 * = 0.9984. */
static void spares_by_hand(void **state)
{
    (void)state;
    assert_int_equal(redco_spares_needed(10, 0.1, 0.3), 0);
    assert_int_equal(redco_spares_needed(10, 0.1, 0.7), 1);
    assert_int_equal(redco_spares_needed(10, 0.1, 0.95), 3);
    assert_int_equal(redco_spares_needed(10, 0.1, 0.99), 4);
    assert_int_equal(redco_spares_needed(10, 0.0, 0.99), 0);
    assert_int_equal(redco_spares_needed(10, 1.0, 0.99), 10);
}

/* Chi-square tables: of 10 counts 5.425 to 16.962, of none up to 2.996. */
static void band_of_counts(void **state)
{
    double low, high;
    (void)state;
    redco_count_band(10.0, &low, &high);
    close_to(low, 5.4254, 1e-4);
    close_to(high, 16.9622, 1e-4);
    redco_count_band(0.0, &low, &high);
    assert_true(low == 0.0);
    close_to(high, 2.9957, 1e-4);
    redco_count_band(466.0, &low, &high);
    close_to(low, 431.08, 1e-3);
    close_to(high, 503.05, 1e-3);
}

/* Order statistics of the normal distribution (Harter, Biometrika 48, 1961; the reference's table). */
static void slowest_of_many(void **state)
{
    (void)state;
    static const double known[][2] = {{2, 0.56419}, {8, 1.42360}, {64, 2.34},    {512, 3.04},
                                      {1024, 3.25}, {4096, 3.63}, {16384, 3.97}, {65536, 4.29}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        close_to(redco_expected_max(known[i][0]), known[i][1], i < 2 ? 1e-5 : 2e-3);
    }
    assert_true(redco_expected_max(1.0) == 0.0);
    /* 2 % noise per rank: 6.5 % at 1,024 and 7.9 % at 16,384 ranks; 16 micro-batches divide transient noise by 4. */
    close_to(redco_noise_factor(&(redco_noise){.static_ratio = 0.02}, 1024.0, 16.0), 1.065, 1e-3);
    close_to(redco_noise_factor(&(redco_noise){.static_ratio = 0.02}, 16384.0, 1.0), 1.0794, 1e-3);
    close_to(redco_noise_factor(&(redco_noise){.transient_ratio = 0.08}, 16384.0, 16.0), 1.0794, 1e-3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formula_is_dalys),
        cmocka_unit_test(first_order_by_hand),
        cmocka_unit_test(best_interval_is_the_least),
        cmocka_unit_test(best_interval_of_copies),
        cmocka_unit_test(events_agree_with_formulas),
        cmocka_unit_test(large_losses_agree_with_daly),
        cmocka_unit_test(time_adds_up_exactly),
        cmocka_unit_test(hopeless_runs_end),
        cmocka_unit_test(spares_by_hand),
        cmocka_unit_test(band_of_counts),
        cmocka_unit_test(slowest_of_many),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
