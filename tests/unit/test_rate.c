/* Learning rates of updates against values by hand. */
#include "executor/optimizer/rate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>

static void holds(const redco_rate_schedule *s, const double *want, uint64_t count)
{
    assert_int_equal(redco_rate_check(s, NULL), REDCO_OK);
    for (uint64_t u = 1; u <= count; u++) { assert_true(fabs(redco_rate_at(s, 2.0, u) - want[u - 1]) < 1e-12); }
}

static void rates_are_those_by_hand(void **state)
{
    (void)state;
    holds(&(redco_rate_schedule){.kind = REDCO_RATE_CONSTANT, .warmup = 4}, (const double[]){0.5, 1, 1.5, 2, 2, 2}, 6);
    holds(&(redco_rate_schedule){.kind = REDCO_RATE_CONSTANT}, (const double[]){2, 2}, 2);
    holds(&(redco_rate_schedule){REDCO_RATE_LINEAR, 6, 2, 0, 0.0}, (const double[]){1, 2, 2, 1.5, 1, 0.5, 0, 0}, 8);
    holds(&(redco_rate_schedule){REDCO_RATE_LINEAR, 4, 0, 0, 0.5}, (const double[]){2, 1.75, 1.5, 1.25, 1}, 5);
    /* Cosines of 0, 60, 120 and 180 degrees. */
    holds(&(redco_rate_schedule){REDCO_RATE_COSINE, 3, 0, 0, 0.0}, (const double[]){2, 1.5, 0.5, 0}, 4);
    holds(&(redco_rate_schedule){REDCO_RATE_COSINE, 4, 1, 0, 0.1}, (const double[]){2, 2, 1.55, 0.65, 0.2, 0.2}, 6);
    holds(&(redco_rate_schedule){REDCO_RATE_WSD, 8, 2, 4, 0.0}, (const double[]){1, 2, 2, 2, 2, 1.5, 1, 0.5, 0}, 9);
    holds(&(redco_rate_schedule){REDCO_RATE_WSD, 4, 0, 0, 0.0}, (const double[]){2, 2, 2, 2, 2}, 5);
}

static void schedules_that_do_not_fit(void **state)
{
    (void)state;
    const redco_rate_schedule bad[] = {{REDCO_RATE_LINEAR, 5, 6, 0, 0.0},
                                       {REDCO_RATE_WSD, 5, 2, 4, 0.0},
                                       {REDCO_RATE_COSINE, 5, 0, 0, 1.5},
                                       {REDCO_RATE_CONSTANT, 0, 0, 0, -0.1}};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        assert_int_equal(redco_rate_check(&bad[i], NULL), REDCO_EVALUE);
    }
    assert_int_equal(redco_rate_check(&(redco_rate_schedule){REDCO_RATE_LINEAR, 5, 5, 0, 0.0}, NULL), REDCO_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rates_are_those_by_hand),
                                       cmocka_unit_test(schedules_that_do_not_fit)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
