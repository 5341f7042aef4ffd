/* Settings of a training in its checkpoints: which count, and how changes of them are told. */
#include "executor/checkpoint/training_settings.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { PARAMETERS = 6 };

/* A training, or the same with other settings. */
struct training {
    redco_task_parameter parameters[PARAMETERS];
    redco_task task;
    redco_training_settings settings;
};

static void begin(struct training *t)
{
    static const char *const names[PARAMETERS] = {"a.weight", "a.bias", "b.weight", "c.weight", "d.weight", "frozen"};
    *t = (struct training){.settings = {.optimizer = redco_optimizer_default(), .learning_rate = 1e-3}};
    for (size_t i = 0; i < PARAMETERS; i++) {
        t->parameters[i] = (redco_task_parameter){.name = names[i], .rank = i == 1 ? 1 : 2};
    }
    t->parameters[PARAMETERS - 1].training = REDCO_FROZEN;
    t->task = (redco_task){.parameters = t->parameters, .parameter_count = PARAMETERS};
    t->settings.task = &t->task;
}

/* Through text with 17 digits, as a checkpoint has it. */
static json_t *written(const redco_training_settings *settings)
{
    json_t *const json = redco_training_settings_json(settings);
    char *const text = json_dumps(json, JSON_REAL_PRECISION(17));
    json_t *const read = json_loads(text, 0, NULL);
    free(text);
    json_decref(json);
    assert_non_null(read);
    return read;
}

static void told(const struct training *then, const struct training *now, size_t count, const char *want)
{
    char text[800];
    json_t *const a = written(&then->settings), *const b = redco_training_settings_json(&now->settings);
    assert_int_equal(redco_training_settings_changes(a, b, text, sizeof text), count);
    assert_string_equal(text, want);
    json_decref(a);
    json_decref(b);
}

static void test_options(void **state)
{
    struct training then, now;
    (void)state;
    begin(&then);
    begin(&now);
    told(&then, &now, 0, "");
    now.settings.optimizer.beta1 = 0.1 + 0.2; /* no number of 16 digits */
    then.settings.optimizer.beta1 = 0.1 + 0.2;
    told(&then, &now, 0, "");
    then.settings.optimizer.momentum = 0.7; /* AdamW has none */
    now.settings.schedule.updates = 9;      /* a constant rate does not look at it */
    told(&then, &now, 0, "");
    now.settings.optimizer.weight_decay = 0.0;
    told(&then, &now, 1, "--weight-decay 0 (was 0.1)");
    now.settings.decay_matrices = true;
    told(&then, &now, 2, "--weight-decay 0 (was 0.1), --decay matrices (was all)");
    begin(&then);
    begin(&now);
    then.settings.schedule = (redco_rate_schedule){REDCO_RATE_WSD, 100, 5, 10, 0.0};
    now.settings.schedule = (redco_rate_schedule){REDCO_RATE_WSD, 200, 5, 20, 0.0};
    told(&then, &now, 2, "--steps 200 (was 100), --decay-steps 20 (was 10)");
}

static void test_optimizers(void **state)
{
    struct training then, now;
    (void)state;
    begin(&then);
    begin(&now);
    then.settings.optimizer = now.settings.optimizer = redco_optimizer_adafactor();
    now.settings.optimizer.relative_rate = true;
    now.settings.optimizer.beta2 = 0.5; /* Adafactor has none */
    told(&then, &now, 1, "--relative-rate on (was off)");
    then.settings.optimizer.kind = now.settings.optimizer.kind = REDCO_SGD;
    now.settings.optimizer.momentum = 0.9;
    told(&then, &now, 1, "--momentum 0.9 (was 0)");
}

static void test_own(void **state)
{
    struct training then, now;
    (void)state;
    begin(&then);
    begin(&now);
    /* Settings that are the same as all have, or of a parameter that is not trained, change nothing. */
    now.parameters[0].own = (redco_own_settings){.has_betas = true, .beta1 = 0.9, .beta2 = 0.95, .rate_factor = 1.0};
    now.parameters[5].own = (redco_own_settings){.rate_factor = 3.0};
    told(&then, &now, 0, "");
    then.parameters[0].own = (redco_own_settings){.has_betas = true, .beta1 = 0.5, .beta2 = 0.95};
    now.parameters[1].own = (redco_own_settings){.has_decay = true, .weight_decay = 0.2};
    told(&then, &now, 2, "weight decay of a.bias 0.2 (was not given), beta1 of a.weight not given (was 0.5)");
    /* Vectors do not decay here. */
    then.settings.decay_matrices = now.settings.decay_matrices = true;
    told(&then, &now, 1, "beta1 of a.weight not given (was 0.5)");
    /* SGD has no betas. */
    then.settings.optimizer.kind = now.settings.optimizer.kind = REDCO_SGD;
    told(&then, &now, 0, "");
}

static void test_many(void **state)
{
    struct training then, now;
    (void)state;
    begin(&then);
    begin(&now);
    for (size_t i = 0; i < 5; i++) { now.parameters[i].own.rate_factor = 2.0; }
    now.settings.optimizer.epsilon = 1e-6;
    told(&then, &now, 6,
         "--epsilon 1e-06 (was 1e-08), rate of a.weight 2 (was not given), rate of a.bias 2 (was not given), "
         "rate of b.weight 2 (was not given) and 2 more");
}

/* Checkpoints of before tell none; a file is what somebody wrote. */
static void test_other_forms(void **state)
{
    static const char *const forms[] = {"[]", "3", "{\"own\": 1}", "{\"own\": {\"a.weight\": [1]}}"};
    struct training now;
    char text[200];
    (void)state;
    begin(&now);
    json_t *const json = redco_training_settings_json(&now.settings);
    assert_int_equal(redco_training_settings_changes(NULL, json, text, sizeof text), 0);
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        json_t *const form = json_loads(forms[i], JSON_DECODE_ANY, NULL);
        assert_non_null(form);
        (void)redco_training_settings_changes(form, json, text, sizeof text);
        assert_true(strlen(text) < sizeof text);
        json_decref(form);
    }
    json_decref(json);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_options), cmocka_unit_test(test_optimizers),
                                       cmocka_unit_test(test_own), cmocka_unit_test(test_many),
                                       cmocka_unit_test(test_other_forms)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
