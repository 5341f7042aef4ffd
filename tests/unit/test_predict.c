/* The parts of evaluation and generation: which examples run together, and how a token is drawn. */
#include "executor/trainer/rounds.h"
#include "executor/trainer/sampling.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>

enum { WORDS = 5, DRAWS = 40000 };
/* Probabilities at temperature 1: 0.4, 0.3, 0.15, 0.1, 0.05, in another order. */
static const double shares[WORDS] = {0.1, 0.4, 0.05, 0.3, 0.15};

static void logits_of(double logits[WORDS])
{
    for (uint32_t i = 0; i < WORDS; i++) { logits[i] = log(shares[i]) + 3.0; }
}

/* Counts how often each word is drawn, as a share. */
static void count(const redco_sampling *s, double share[WORDS])
{
    double logits[WORDS];
    uint32_t order[WORDS];
    logits_of(logits);
    for (uint32_t i = 0; i < WORDS; i++) { share[i] = 0.0; }
    for (uint64_t d = 0; d < DRAWS; d++) {
        const int32_t word = redco_sample(s, logits, WORDS, order, d / 100, d % 100);
        assert_in_range(word, 0, WORDS - 1);
        share[word] += 1.0 / DRAWS;
    }
}

/* Four standard deviations of a share of 0.5 in as many draws are 0.01. */
static void check(const redco_sampling *s, const double want[WORDS])
{
    double share[WORDS];
    count(s, share);
    for (uint32_t i = 0; i < WORDS; i++) {
        if (want[i] == 0.0) { assert_true(share[i] == 0.0); }
        assert_true(fabs(share[i] - want[i]) < 0.01);
    }
}

static void tokens_are_drawn_by_their_probabilities(void **state)
{
    (void)state;
    check(&(redco_sampling){1.0, 0, 1.0, 7}, shares);
    check(&(redco_sampling){0.0, 0, 1.0, 7}, (const double[]){0, 1, 0, 0, 0});
    check(&(redco_sampling){1.0, 2, 1.0, 7}, (const double[]){0, 0.4 / 0.7, 0, 0.3 / 0.7, 0});
    check(&(redco_sampling){1.0, 0, 0.69, 7}, (const double[]){0, 0.4 / 0.7, 0, 0.3 / 0.7, 0});
    check(&(redco_sampling){1.0, 0, 0.71, 7}, (const double[]){0, 0.4 / 0.85, 0, 0.3 / 0.85, 0.15 / 0.85});
    check(&(redco_sampling){1.0, 3, 0.45, 7}, (const double[]){0, 1, 0, 0, 0}); /* 0.4 of 0.85 is more than 0.45 */
    check(&(redco_sampling){1.0, 3, 0.48, 7}, (const double[]){0, 0.4 / 0.7, 0, 0.3 / 0.7, 0});
    /* At temperature 1/2 probabilities are squares: 0.16 + 0.09 + 0.0225 + 0.01 + 0.0025 = 0.285. */
    check(&(redco_sampling){0.5, 0, 1.0, 7},
          (const double[]){0.01 / 0.285, 0.16 / 0.285, 0.0025 / 0.285, 0.09 / 0.285, 0.0225 / 0.285});
}

static void equals_and_no_numbers(void **state)
{
    const double even[3] = {1.0, 2.0, 2.0}, bad[3] = {1.0, (double)NAN, 2.0};
    const redco_sampling greedy = {0.0, 0, 1.0, 1}, one = {1.0, 1, 1.0, 1};
    uint32_t order[3], seen[3] = {0, 0, 0};
    (void)state;
    assert_int_equal(redco_sample(&greedy, even, 3, order, 0, 0), 1);
    assert_int_equal(redco_sample(&greedy, bad, 3, order, 0, 0), -1);
    assert_int_equal(redco_sample(&one, bad, 3, order, 0, 0), -1);
    for (uint64_t i = 0; i < 100; i++) { seen[redco_sample(&one, even, 3, order, i, 0)]++; } /* both of two equals */
    assert_int_equal(seen[0], 0);
    assert_true(seen[1] > 20 && seen[2] > 20);
}

static void options_out_of_range(void **state)
{
    (void)state;
    assert_int_equal(redco_sampling_check(&(redco_sampling){0.0, 0, 1.0, 0}, NULL), REDCO_OK);
    assert_int_equal(redco_sampling_check(&(redco_sampling){-1.0, 0, 1.0, 0}, NULL), REDCO_EVALUE);
    assert_int_equal(redco_sampling_check(&(redco_sampling){(double)NAN, 0, 1.0, 0}, NULL), REDCO_EVALUE);
    assert_int_equal(redco_sampling_check(&(redco_sampling){1.0, 0, 0.0, 0}, NULL), REDCO_EVALUE);
    assert_int_equal(redco_sampling_check(&(redco_sampling){1.0, 0, 1.1, 0}, NULL), REDCO_EVALUE);
}

/* Every example is in one row of one batch, is no longer than its batch, and there are few lengths. */
static void every_example_runs_once(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 60; n++) {
        for (uint32_t batch = 1; batch < 6; batch++) {
            const uint32_t padded = 1 + n % REDCOI_PADDED_LENGTHS_MAX, most = 1 + 37 * n % 101;
            uint32_t lengths[60], seen[60] = {0};
            bool used[REDCOI_PADDED_LENGTHS_MAX + 1] = {false};
            redcoi_rounds r;
            for (uint32_t i = 0; i < n; i++) { lengths[i] = 1 + i * 29 % most; }
            assert_int_equal(redcoi_rounds_make(lengths, n, batch, padded, &r, NULL), REDCO_OK);
            assert_int_equal(r.batches, (n + batch - 1) / batch);
            assert_int_equal(redcoi_rounds_of(&r, 3), (r.batches + 2) / 3);
            for (uint64_t b = 0; b < r.batches + 2; b++) {
                const uint32_t length = redcoi_rounds_length(&r, b), number = redcoi_rounds_number(&r, length);
                assert_in_range(number, 1, padded);
                used[number] = true;
                for (uint32_t row = 0; row < batch; row++) {
                    uint64_t example = 0;
                    if (!redcoi_rounds_example(&r, b, row, &example)) { continue; }
                    seen[example]++;
                    assert_true(lengths[example] <= length && length <= r.longest);
                }
            }
            for (uint32_t i = 0; i < n; i++) { assert_int_equal(seen[i], 1); }
            assert_false(used[0]);
            redcoi_rounds_free(&r);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(tokens_are_drawn_by_their_probabilities),
                                       cmocka_unit_test(equals_and_no_numbers), cmocka_unit_test(options_out_of_range),
                                       cmocka_unit_test(every_example_runs_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
