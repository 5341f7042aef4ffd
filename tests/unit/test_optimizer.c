/* Optimizers against loops written from their papers, and the one-rank reference around them. */
#include "costmodel/graph/build_calls.h"
#include "executor/backend/host/host.h"
#include "executor/reference/reference.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* A task whose gradient is its input: loss = sum (w c) with inputs c; and a second parameter that no loss uses. */
enum { WIDTH = 5, STEPS = 7 };

static redco_value linear_loss(redco_scope *scope, const void *context)
{
    const redco_value w = redco_scope_weight(scope, "w"), c = redco_scope_value(scope, "c");
    (void)context;
    const redco_dtype dtype = redco_dtype_statistic(scope->compute);
    return redco_cast(scope->graph, redco_sum_all(scope->graph, redco_mul(scope->graph, w, c)), dtype);
}

static const redco_task_parameter parameters[2] = {
    {.name = "w", .layer = "line.0", .rank = 1, .dim = {WIDTH}},
    {.name = "unused", .layer = "line.0", .rank = 2, .dim = {2, 3}},
};

typedef struct fixture {
    redco_backend *backend;
    redco_task_input input;
    redco_task task;
    redco_reference *reference;
} fixture;

static void must(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

static void open_fixture(fixture *l, const redco_optimizer *optimizer, redco_dtype compute, redco_dtype master,
                         uint32_t micro_batches)
{
    redco_error err = {0};
    const redco_reference_options options = {compute, compute, master, micro_batches, *optimizer, false};
    l->input = (redco_task_input){"c", redco_type(compute, 1, &(uint64_t){WIDTH})};
    l->task = (redco_task){.name = "line",
                           .parameters = parameters,
                           .parameter_count = 2,
                           .inputs = &l->input,
                           .input_count = 1,
                           .loss = linear_loss};
    must(redco_host_open(NULL, &l->backend, &err), &err);
    must(redco_reference_create(l->backend, &l->task, &options, &l->reference, &err), &err);
}

static void close_fixture(fixture *l)
{
    redco_reference_free(l->reference);
    redco_backend_close(l->backend);
}

static double gradient_at(int step, int micro_batch, int i)
{
    return 3.0 * sin(1.0 + 2.0 * step + 0.7 * i + 0.3 * micro_batch);
}

static double rate_at(int step)
{
    return 0.1 / (1 + step);
}

/* One step by hand of the whole vector. */
typedef struct by_hand {
    double w[WIDTH], unused, first[WIDTH], second[WIDTH];
} by_hand;

static double step_by_hand(const redco_optimizer *o, by_hand *h, int step, int micro_batches)
{
    double g[WIDTH], norm = 0;
    for (int i = 0; i < WIDTH; i++) {
        g[i] = 0;
        for (int m = 0; m < micro_batches; m++) { g[i] += gradient_at(step, m, i) / micro_batches; }
        norm += g[i] * g[i];
    }
    norm = sqrt(norm);
    const double lr = rate_at(step);
    for (int i = 0; i < WIDTH; i++) {
        if (o->clip_norm > 0 && norm > o->clip_norm) { g[i] *= o->clip_norm / (norm + 1e-6); }
        if (o->kind == REDCO_ADAMW) {
            h->first[i] = o->beta1 * h->first[i] + (1 - o->beta1) * g[i];
            h->second[i] = o->beta2 * h->second[i] + (1 - o->beta2) * g[i] * g[i];
            const double m = h->first[i] / (1 - pow(o->beta1, step + 1)),
                         v = h->second[i] / (1 - pow(o->beta2, step + 1));
            h->w[i] -= lr * o->weight_decay * h->w[i] + lr * m / (sqrt(v) + o->epsilon);
        } else {
            h->first[i] = o->momentum * h->first[i] + g[i] + o->weight_decay * h->w[i];
            h->w[i] -= lr * h->first[i];
        }
    }
    h->unused *= o->kind == REDCO_ADAMW ? 1 - lr * o->weight_decay : 1;
    return norm;
}

static void compare(const redco_optimizer *o, int micro_batches)
{
    fixture l;
    by_hand h = {.unused = 2};
    open_fixture(&l, o, REDCO_F64, REDCO_F64, (uint32_t)micro_batches);
    double *w = redco_reference_master(l.reference, 0), *unused = redco_reference_master(l.reference, 1);
    for (int i = 0; i < WIDTH; i++) { w[i] = h.w[i] = 0.5 - 0.2 * i; }
    for (int i = 0; i < 6; i++) { unused[i] = 2; }
    for (int step = 0; step < STEPS; step++) {
        double c[2][WIDTH];
        const void *inputs[2] = {c[0], c[1]};
        redco_reference_step done;
        redco_error err = {0};
        for (int m = 0; m < micro_batches; m++) {
            for (int i = 0; i < WIDTH; i++) { c[m][i] = gradient_at(step, m, i); }
        }
        must(redco_reference_train(l.reference, inputs, NULL, rate_at(step), &done, &err), &err);
        const double norm = step_by_hand(o, &h, step, micro_batches);
        assert_true(fabs(done.gradient_norm - norm) < 1e-13);
        for (int i = 0; i < WIDTH; i++) { assert_true(fabs(w[i] - h.w[i]) < 1e-13); }
        if (o->kind == REDCO_ADAMW) { assert_true(fabs(unused[5] - h.unused) < 1e-13); }
    }
    close_fixture(&l);
}

static void adamw_is_the_papers(void **state)
{
    redco_optimizer o = redco_optimizer_default();
    (void)state;
    compare(&o, 1);
    compare(&o, 2);
    o.clip_norm = 0;
    compare(&o, 1);
    o = (redco_optimizer){.kind = REDCO_ADAMW, .beta1 = 0.8, .beta2 = 0.999, .epsilon = 1e-3, .clip_norm = 1e6};
    compare(&o, 2);
    assert_int_equal(redco_optimizer_states(&o), 2);
}

/* 1 - 0.999 in single precision would be off by 5e-5, and with it the length of every step; its own roundings are 6e-8
 * each. */
static void adamw_in_f32_keeps_its_digits(void **state)
{
    const redco_optimizer o = {.kind = REDCO_ADAMW, .beta1 = 0.9, .beta2 = 0.999, .epsilon = 1e-8};
    fixture l;
    by_hand h = {.unused = 0};
    double worst = 0;
    (void)state;
    open_fixture(&l, &o, REDCO_F32, REDCO_F32, 1);
    const float *w = redco_reference_master(l.reference, 0);
    for (int step = 0; step < STEPS; step++) {
        float c[WIDTH];
        const void *inputs[1] = {c};
        redco_reference_step done;
        redco_error err = {0};
        for (int i = 0; i < WIDTH; i++) { c[i] = (float)gradient_at(step, 0, i); }
        must(redco_reference_train(l.reference, inputs, NULL, rate_at(step), &done, &err), &err);
        (void)step_by_hand(&o, &h, step, 1);
        for (int i = 0; i < WIDTH; i++) { worst = fmax(worst, fabs((double)w[i] - h.w[i]) / rate_at(0)); }
    }
    if (!(worst < 2e-6)) { fail_msg("off by %.1e of a step", worst); }
    close_fixture(&l);
}

static void sgd_is_the_textbooks(void **state)
{
    redco_optimizer o = {.kind = REDCO_SGD};
    (void)state;
    assert_int_equal(redco_optimizer_states(&o), 0);
    compare(&o, 2);
    o = (redco_optimizer){.kind = REDCO_SGD, .momentum = 0.9, .clip_norm = 2};
    assert_int_equal(redco_optimizer_states(&o), 1);
    compare(&o, 1);
    /* The unused parameter decays too, which step_by_hand() leaves out: only AdamW's is compared. */
    o.weight_decay = 0.01;
    compare(&o, 1);
}

/* Steps below the digits of bf16 are lost without master weights: 1 + 2^-9 is 1 in bf16; eight of them are 1 + 2^-6. */
static void master_weights_keep_what_bf16_loses(void **state)
{
    const redco_optimizer o = {.kind = REDCO_SGD};
    fixture l;
    uint16_t c[WIDTH];
    const void *inputs[1] = {c};
    redco_reference_step done = {0};
    redco_error err = {0};
    (void)state;
    open_fixture(&l, &o, REDCO_BFLOAT16, REDCO_F32, 1);
    float *w = redco_reference_master(l.reference, 0);
    for (int i = 0; i < WIDTH; i++) {
        w[i] = 1;
        c[i] = 0xBF80; /* -1 in bf16: the weights grow */
    }
    for (int step = 0; step < 9; step++) {
        must(redco_reference_train(l.reference, inputs, NULL, 0x1p-9, &done, &err), &err);
        if (step == 1) { assert_true(done.loss == -WIDTH); } /* 1 + 2^-9 is a tie, which rounds to 1 */
    }
    assert_true(w[0] == 1 + 9 * 0x1p-9F);
    /* 1 + 8/512 = 1 + 2/128 is a bf16; sums of five are exact in f32 and then rounded to bf16: 5.078125 -> 5.0625 or
     * 5.09375, of which the even one is 5.0625 (162 x 2^-5). */
    assert_true(fabs(done.loss + 5.078125) <= 0.015625);
    close_fixture(&l);
}

static void what_is_not_finite_changes_nothing(void **state)
{
    const redco_optimizer o = redco_optimizer_default();
    fixture l;
    double c[WIDTH] = {1, 2, 3, 4, 5};
    const void *inputs[1] = {c};
    redco_reference_step done = {0};
    redco_error err = {0};
    (void)state;
    open_fixture(&l, &o, REDCO_F64, REDCO_F64, 1);
    double *w = redco_reference_master(l.reference, 0);
    for (int i = 0; i < WIDTH; i++) { w[i] = i; }
    c[3] = (double)NAN;
    assert_int_equal(redco_reference_train(l.reference, inputs, NULL, 0.1, &done, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "not finite"));
    for (int i = 0; i < WIDTH; i++) { assert_true(w[i] == i); }
    assert_true(((const double *)redco_reference_state(l.reference, 0, 1))[3] == 0);
    close_fixture(&l);
}

static void settings_out_of_range_are_named(void **state)
{
    redco_optimizer o = redco_optimizer_default();
    redco_error err = {0};
    (void)state;
    assert_int_equal(redco_optimizer_check(&o, &err), REDCO_OK);
    o.beta2 = 1.0;
    assert_int_equal(redco_optimizer_check(&o, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "beta2 = 1 must be at least 0 and below 1");
    redco_error_clear(&err);
    o = (redco_optimizer){.kind = REDCO_SGD, .clip_norm = (double)NAN};
    assert_int_equal(redco_optimizer_check(&o, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "clip norm = nan must be at least 0 and below 1e+30");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(adamw_is_the_papers),
        cmocka_unit_test(adamw_in_f32_keeps_its_digits),
        cmocka_unit_test(sgd_is_the_textbooks),
        cmocka_unit_test(master_weights_keep_what_bf16_loses),
        cmocka_unit_test(what_is_not_finite_changes_nothing),
        cmocka_unit_test(settings_out_of_range_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
