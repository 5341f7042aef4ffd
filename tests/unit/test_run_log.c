/* Logs of tests/data/read/logs: what each form says, and what a prediction is of beside it. Wanted values are read off
 * the files by hand. */
#include "planner/read/run_log.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define MIB 1048576.0
#define GIB 1073741824.0

static bool near(double a, double b)
{
    return fabs(a - b) <= 1e-9 * fabs(b);
}

static redco_run_log read_log(const char *name)
{
    char path[300];
    redco_run_log log;
    redco_error err = {.status = REDCO_OK};
    (void)snprintf(path, sizeof path, REDCO_TEST_DATA "/read/logs/%s", name);
    if (redco_run_log_read(path, &log, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return log;
}

static void forms_say_what_they_measured(void **state)
{
    (void)state;
    redco_run_log log = read_log("megatron.log");
    assert_string_equal(log.trainer, "Megatron-LM");
    assert_int_equal(log.steps, 5);
    assert_true(near(log.step_s, 3.01)); /* sorted: 2.99, 3.00, 3.01, 3.02, 21.03 */
    assert_true(near(log.step_low_s, 2.99) && near(log.step_high_s, 21.0346));
    assert_true(near(log.allocated_bytes, 51300.25 * MIB) && near(log.reserved_bytes, 54000.0 * MIB));
    assert_true(near(log.timers_s[REDCO_LOG_FORWARD_BACKWARD], 2.91052)); /* the slowest rank's */
    assert_true(near(log.timers_s[REDCO_LOG_GRADIENTS], 0.0551) && near(log.timers_s[REDCO_LOG_OPTIMIZER], 0.0409));
    log = read_log("torchtitan.log");
    assert_string_equal(log.trainer, "torchtitan");
    assert_true(near(log.tokens_per_s_per_gpu, 7001.0) && near(log.reserved_bytes, 47.53 * GIB));
    assert_true(log.step_s == 0.0 && log.steps == 3);
    log = read_log("nemo.log");
    assert_true(near(log.step_s, 4.25) && log.steps == 3 && strcmp(log.trainer, "NeMo") == 0);
    log = read_log("trainer.log"); /* a bar that is drawn again behind "\r" */
    assert_true(near(log.step_s, 4.0) && log.steps == 3 && strcmp(log.trainer, "Trainer") == 0);
    log = read_log("summary.log");
    assert_true(near(log.allocated_bytes, 40960.0 * MIB) && near(log.reserved_bytes, 45056.0 * MIB));
    log = read_log("oom.log");
    assert_true(log.out_of_memory && near(log.asked_bytes, 2.0 * GIB) && near(log.held_bytes, 70.12 * GIB));
    assert_true(near(log.capacity_bytes, 79.15 * GIB));
}

static void lines_of_others(void **state)
{
    static const struct {
        const char *text;
        double step_s, tokens, samples, allocated, held;
    } rows[] = {
        {"{'train_runtime': 100.0, 'train_samples_per_second': 8.0, 'train_steps_per_second': 0.5}\n", 2.0, 0, 0, 0, 0},
        {"RunningAvgSamplesPerSec=9.9, CurrSamplesPerSec=10.5, MemAllocated=9.5GB, MaxMemAllocated=14.0GB", 0, 0, 10.5,
         14.0 * GIB, 0},
        {"completed step: 8, seconds: 5.125, TFLOP/s/device: 400.1, Tokens/s/device: 7,993.5, loss: 3.1\n", 5.125,
         7993.5, 0, 0, 0},
        {"RuntimeError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 10.76 GiB total capacity; 9.50 GiB "
         "already "
         "allocated; 1.20 MiB free; 9.60 GiB reserved in total by PyTorch)\n",
         0, 0, 0, 0, 9.5 * GIB},
    };
    (void)state;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        redco_run_log log;
        assert_int_equal(redco_run_log_parse(rows[i].text, strlen(rows[i].text), "a.log", &log, NULL), REDCO_OK);
        assert_true(near(log.step_s, rows[i].step_s) && near(log.tokens_per_s_per_gpu, rows[i].tokens));
        assert_true(near(log.samples_per_s, rows[i].samples) && near(log.allocated_bytes, rows[i].allocated));
        assert_true(near(log.held_bytes, rows[i].held));
    }
}

static void other_texts_are_refused(void **state)
{
    static const char *const texts[] = {"",           "hello\n",         "elapsed time per iteration (ms): none\n",
                                        "100 it/s\n", "tflops tps: 0\n", "| Allocated memory |"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        redco_run_log log;
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(redco_run_log_parse(texts[i], strlen(texts[i]), "a.log", &log, &err), REDCO_EVALUE);
        assert_string_equal(err.place, "a.log");
    }
}

/* A step of 4 s that ran 5 s: each term of a fiftieth or more, with the second that is missing; the least change first.
 * Of 50 GB, 30 are states: 20 are twice the 10 that are predicted. */
static void differences_are_of_terms(void **state)
{
    const redco_prediction p = {.step_s = 4.0,
                                .forward_s = 1.0,
                                .backward_s = 2.0,
                                .layer_exposed_s = 0.5,
                                .grad_reduce_exposed_s = 0.07,
                                .optimizer_s = 0.1,
                                .other_s = 0.33,
                                .parameter_bytes = 5000000000,
                                .gradient_bytes = 5000000000,
                                .optimizer_bytes = 20000000000,
                                .allocated_bytes = 40000000000};
    const redco_run_log log = {.step_s = 5.0, .steps = 9, .allocated_bytes = 50e9};
    redco_log_difference d = redco_run_log_compare(&log, &p, 1e6, 256.0, 8.0);
    (void)state;
    assert_true(near(d.ratio, 1.25) && near(d.rest_ratio, 2.0) && near(d.states_bytes, 30e9));
    assert_int_equal(d.term_count, 4); /* reduction is 1.75 % of the step */
    assert_string_equal(d.terms[0].what, "compute");
    assert_true(near(d.terms[0].measured_s, 4.0) && near(d.terms[0].predicted_s, 3.0) && !d.terms[0].timed);
    assert_string_equal(d.terms[1].what, "layer communication");
    assert_string_equal(d.terms[3].what, "optimizer");
    const redco_run_log timed = {.step_s = 5.0, .timers_s = {4.5, 0.2, 0.1}};
    d = redco_run_log_compare(&timed, &p, 1e6, 256.0, 8.0);
    assert_int_equal(d.term_count, 3);
    assert_true(d.terms[0].timed && near(d.terms[0].predicted_s, 4.0 - 0.1 - 0.07));
    const redco_run_log tokens = {.tokens_per_s_per_gpu = 25000.0}; /* 1e6 tokens on 8 GPUs */
    assert_true(near(redco_run_log_compare(&tokens, &p, 1e6, 256.0, 8.0).step_s, 5.0));
    const redco_run_log samples = {.samples_per_s = 64.0};
    assert_true(near(redco_run_log_compare(&samples, &p, 1e6, 256.0, 8.0).step_s, 4.0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(forms_say_what_they_measured),
                                       cmocka_unit_test(lines_of_others), cmocka_unit_test(other_texts_are_refused),
                                       cmocka_unit_test(differences_are_of_terms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
