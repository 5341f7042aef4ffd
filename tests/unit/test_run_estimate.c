/* Whole runs by hand: days, money, energy, bands, phases, fronts, and what changed between two. */
#include "planner/run/run_compare.h"
#include "planner/run/run_frontier.h"
#include "planner/run/run_json.h"
#include "planner/run/run_phases.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void close_to(double got, double want, double ratio)
{
    if (!(fabs(got - want) <= ratio * fabs(want))) { fail_msg("%.9g instead of %.9g", got, want); }
}

static redco_run_step step_of(void)
{
    return (redco_run_step){.step_s = 2.0,
                            .band_ratio = 0.1,
                            .evidence = REDCO_CALIBRATED,
                            .source = "test",
                            .compute_s = 1.5,
                            .gpus = 64,
                            .nodes = 8,
                            .hosts_per_node = 1,
                            .batch_tokens = 4e6,
                            .micro_batches = 4.0,
                            .watts_per_gpu = 500.0,
                            .idle_w = 100.0,
                            .tdp_w = 700.0,
                            .checkpoint_bytes = 1e11,
                            .writers = 64.0,
                            .replicas = 16};
}

static redco_run_words words_of(const char *const (*terms)[2])
{
    redco_run_words words = redco_run_words_default();
    redco_error err = {0};
    for (size_t i = 0; terms[i][0] != NULL; i++) {
        if (redco_run_words_take(&words, terms[i][0], terms[i][1], terms[i][0], &err) != REDCO_OK) {
            fail_msg("%s: %s", terms[i][0], err.text);
        }
    }
    return words;
}

static redco_run_estimate estimate(const redco_run_step *step, const char *const (*terms)[2])
{
    const redco_run_words words = words_of(terms);
    redco_run_terms made;
    redco_run_estimate e = {.steps = 0.0};
    redco_error err = {0};
    if (redco_run_words_finish(&words, "X", &made, NULL, &err) != REDCO_OK ||
        redco_run_estimate_of(&made, step, &e, &err) != REDCO_OK) {
        fail_msg("%s", err.text);
    }
    return e;
}

/* 1e12 tokens of 4e6 a step are 250,000 steps of 2 s: 500,000 s. Checkpoints that take nothing, no failures: 5.787
 * days, 64 x 138.89 h = 8888.9 GPU-hours, at 3 26,667. Watts: 64 x (500 + 200) x 1.5 x 500,000 s = 9.333 MWh; 50 g:
 * 0.4667 t. */
static void a_run_by_hand(void **state)
{
    static const char *const terms[][2] = {
        {"tokens", "1T"}, {"failures", "none"}, {"checkpoint", "blocking,wait=0s,interval=1h"},
        {"price", "3"},   {"pue", "1.5"},       {"host-watts", "200"},
        {"grid", "50"},   {NULL, NULL}};
    const redco_run_step step = step_of();
    const redco_run_estimate e = estimate(&step, terms);
    (void)state;
    assert_true(e.steps == 250000.0 && e.inflation == 1.0 && !e.played);
    close_to(e.days.value, 500000.0 / 86400.0, 1e-9);
    close_to(e.days.low, 500000.0 / 1.1 / 86400.0, 1e-9);
    close_to(e.days.high, 500000.0 / 0.9 * 1.25 / 86400.0, 1e-9); /* and work beside the steps */
    close_to(e.gpu_hours.value, 64.0 * 500000.0 / 3600.0, 1e-9);
    close_to(e.money.value, 3.0 * 64.0 * 500000.0 / 3600.0, 1e-9);
    close_to(e.mwh.value, 64.0 * 700.0 * 1.5 * 500000.0 / 3.6e9, 1e-9);
    close_to(e.tonnes_co2.value, e.mwh.value * 0.05, 1e-9);
    close_to(e.ettr.value, 1.0, 1e-12);
    assert_true(isinf(e.mttf_s.value));
}

/* A failure a day of all: M = 86,400 s, R = 60 + 240 + 60, interval 3600, wait 36: Daly's closed form. */
static void failures_by_hand(void **state)
{
    static const char *const terms[][2] = {{"tokens", "1T"},
                                           {"failures", "30/30d"},
                                           {"recovery", "detect=1min,restart=4min,reload=1min"},
                                           {"checkpoint", "blocking,wait=36s,interval=1h"},
                                           {NULL, NULL}};
    const redco_run_step step = step_of();
    const redco_run_estimate e = estimate(&step, terms);
    const double m = 86400.0, factor = m * exp(360.0 / m) * expm1(3636.0 / m) / 3600.0;
    (void)state;
    close_to(e.days.value, 500000.0 * factor / 86400.0, 1e-9);
    close_to(e.failures.value, 500000.0 * factor / 86400.0, 1e-9);
    assert_true(e.causes[2].low_days < e.days.value && e.causes[2].high_days > e.days.value);
    assert_true(e.days.low <= e.causes[2].low_days && e.days.high >= e.causes[2].high_days);
}

/* One rank that computes 1.2 times as long adds 0.2 x 1.5 s; noise multiplies; spares are paid for and idle. */
static void what_ifs_by_hand(void **state)
{
    static const char *const terms[][2] = {{"tokens", "1T"},     {"failures", "none"},
                                           {"slow-rank", "1.2"}, {"noise", "transient=0.04"},
                                           {"spares", "2"},      {"checkpoint", "blocking,wait=0s,interval=1h"},
                                           {NULL, NULL}};
    const redco_run_step step = step_of();
    const redco_run_estimate e = estimate(&step, terms);
    (void)state;
    const double step_s = 2.3 * (1.0 + 0.02 * redco_expected_max(64.0));
    close_to(e.step_s.value, step_s, 1e-9);
    close_to(e.paid_gpu_hours.value, e.gpu_hours.value * 80.0 / 64.0, 1e-9);
}

/* Where failures leave less than 75 %, the run is played; Daly's form is exact there. */
static void large_losses_are_played(void **state)
{
    static const char *const terms[][2] = {{"tokens", "1T"},
                                           {"failures", "100/1d"},
                                           {"recovery", "detect=1min,restart=4min,reload=0s"},
                                           {"checkpoint", "blocking,wait=30s,interval=5min"},
                                           {NULL, NULL}};
    const redco_run_step step = step_of();
    const redco_run_estimate e = estimate(&step, terms);
    const double m = 864.0, daly = 300.0 / (m * exp(300.0 / m) * expm1(330.0 / m));
    (void)state;
    assert_true(daly < 0.75);
    assert_true(e.played);
    close_to(e.ettr.value, daly, 0.02);
}

/* Few failures that cost much, and many: middle and ends are told by one method, so that the band holds each cause. */
static void bands_hold_each_cause(void **state)
{
    static const char *const failures[] = {"3/30d", "30/1d", "80/1d", "300/1d"};
    static const char *const savings[] = {"async,interval=10min", "blocking", "memory"};
    static const char *const tokens[] = {"200M", "10B", "1T"};
    (void)state;
    for (size_t i = 0; i < 36; i++) {
        const char *const terms[][2] = {{"tokens", tokens[i % 3]},
                                        {"failures", failures[i / 9]},
                                        {"checkpoint", savings[i / 3 % 3]},
                                        {"spares", "0"},
                                        {NULL, NULL}};
        const redco_run_step step = step_of();
        const redco_run_estimate e = estimate(&step, terms);
        for (int k = 0; k < REDCO_RUN_CAUSES; k++) {
            assert_true(e.days.low <= e.causes[k].low_days && e.causes[k].low_days <= e.days.value);
            assert_true(e.days.high >= e.causes[k].high_days && e.causes[k].high_days >= e.days.value);
        }
        close_to(e.gpu_hours.high, e.days.high * 24.0 * 64.0, 1e-9);
    }
}

static void batches_inflate(void **state)
{
    static const char *const terms[][2] = {{"tokens", "1T"},
                                           {"failures", "none"},
                                           {"critical-batch", "2M"},
                                           {"checkpoint", "blocking,wait=0s,interval=1h"},
                                           {NULL, NULL}};
    const redco_run_step step = step_of();
    redco_run_words words = words_of(terms);
    redco_run_terms made;
    redco_run_estimate e;
    (void)state;
    words.terms.batch_like = 1e6; /* 1 + 4/2 over 1 + 1/2 */
    assert_int_equal(redco_run_words_finish(&words, "X", &made, NULL, NULL), REDCO_OK);
    assert_int_equal(redco_run_estimate_of(&made, &step, &e, NULL), REDCO_OK);
    close_to(e.inflation, 2.0, 1e-12);
    close_to(e.steps, 500000.0, 1e-9);
    assert_true(e.above_critical);
}

static void phases_add_up(void **state)
{
    static const char *const terms[][2] = {{"tokens", "1T"}, {"failures", "20/30d"}, {"price", "2"}, {NULL, NULL}};
    redco_run_step step = step_of();
    redco_run_estimate phases[2], total;
    (void)state;
    phases[0] = estimate(&step, terms);
    step.step_s = 5.0;
    phases[1] = estimate(&step, terms);
    redco_run_total(phases, 2, &total);
    close_to(total.days.value, phases[0].days.value + phases[1].days.value, 1e-12);
    close_to(total.money.high, phases[0].money.high + phases[1].money.high, 1e-12);
    close_to(total.split.compute + total.split.checkpoint + total.split.failures + total.split.restart, 1.0, 1e-9);
    close_to(total.ettr.value * total.days.value, 250000.0 * 7.0 / 86400.0, 1e-6); /* productive time */
}

static void fronts_by_the_definition(void **state)
{
    enum { COUNT = 40 };
    double x[COUNT], y[COUNT];
    bool front[COUNT];
    unsigned seed = 1;
    (void)state;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < COUNT; i++) {
            x[i] = (double)((seed = seed * 1103515245U + 12345U) >> 16 & 15);
            y[i] = (double)((seed = seed * 1103515245U + 12345U) >> 16 & 15);
        }
        redco_pareto(x, y, COUNT, front);
        for (int i = 0; i < COUNT; i++) {
            bool beaten = false, twin = false;
            for (int k = 0; k < COUNT; k++) {
                beaten = beaten || (x[k] <= x[i] && y[k] <= y[i] && (x[k] < x[i] || y[k] < y[i]));
                twin = twin || (k < i && x[k] == x[i] && y[k] == y[i]);
            }
            assert_int_equal(front[i], !beaten && !twin);
        }
    }
}

/* Twice the GPUs at the same speed halve the days and leave the money; dearer GPU-hours are the price's alone. */
static void changes_by_hand(void **state)
{
    const redco_run_summary a = {.tokens = 1e12,
                                 .inflation = 1.0,
                                 .days = 10.0,
                                 .gpus = 64.0,
                                 .paid_gpus = 64.0,
                                 .checkpoint = 0.01,
                                 .failures = 0.02,
                                 .restart = 0.03,
                                 .priced = true,
                                 .money = 10.0 * 24.0 * 64.0 * 2.0,
                                 .price = 2.0};
    redco_run_summary b = a;
    redco_run_change changes[REDCO_RUN_CHANGES];
    (void)state;
    b.gpus = b.paid_gpus = 128.0;
    b.days = 5.0;
    b.price = 3.0;
    b.money = 5.0 * 24.0 * 128.0 * 3.0;
    redco_run_changes(&a, &b, changes);
    for (int i = 0; i < REDCO_RUN_CHANGES; i++) {
        const bool gpus = strcmp(changes[i].cause, "number of GPUs") == 0,
                   price = strcmp(changes[i].cause, "price") == 0;
        assert_true(fabs(changes[i].days - (gpus ? -5.0 : 0.0)) < 1e-9);
        assert_true(fabs(changes[i].money - (price ? b.money - a.money : 0.0)) < 1e-6);
    }
    /* Any two add up. */
    b = (redco_run_summary){.tokens = 2e12,
                            .inflation = 1.1,
                            .days = 7.0,
                            .gpus = 512.0,
                            .paid_gpus = 520.0,
                            .checkpoint = 0.002,
                            .failures = 0.2,
                            .restart = 0.1,
                            .priced = true,
                            .money = 7.0 * 24.0 * 520.0 * 1.2,
                            .price = 1.2};
    redco_run_changes(&a, &b, changes);
    double days = 0.0, money = 0.0;
    for (int i = 0; i < REDCO_RUN_CHANGES; i++) {
        days += changes[i].days;
        money += changes[i].money;
    }
    close_to(days, -3.0, 1e-9);
    close_to(money, b.money - a.money, 1e-9);
}

/* A document of an estimate is a summary again. */
static void documents_are_read_back(void **state)
{
    static const char *const terms[][2] = {{"tokens", "1T"}, {"failures", "20/30d"}, {"price", "2"}, {NULL, NULL}};
    const redco_run_step step = step_of();
    const redco_run_estimate e = estimate(&step, terms);
    json_t *const document = json_pack("{s:o}", "run", redco_run_to_json(&e, 64));
    const redco_json_value root = redco_json_wrap(document, "run.json");
    redco_run_summary summary;
    redco_error err = {0};
    (void)state;
    if (redco_run_summary_from_json(&root, &summary, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    close_to(summary.days, e.days.value, 1e-12);
    close_to(summary.price, 2.0, 1e-9);
    close_to(1.0 / (1.0 + summary.checkpoint + summary.failures + summary.restart), e.ettr.value, 1e-9);
    json_decref(document);
}

/* Llama-3.1-405B: 30.84 million GPU-hours reported (model card), and a band of days of 25 % or less. */
static void llama_405b_is_inside(void **state)
{
    redco_run_words words = redco_run_words_default();
    redco_question question = redco_question_default();
    question.names.engine = "megatron-bridge";
    redco_phases *phases = NULL;
    redco_phase_answer answers[8];
    redco_run_estimate total;
    redco_error err = {0};
    (void)state;
    if (redco_phases_read(REDCO_TEST_DATA "/run/llama-3.1-405b.json", &words, &question.names, &phases, &err) !=
            REDCO_OK ||
        redco_phases_plan(phases, &question, &words, answers, &total, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    assert_int_equal(redco_phases_count(phases), 4);
    close_to(total.tokens, 15.6e12, 0.01);
    assert_true(total.gpu_hours.low < 30.84e6 && total.gpu_hours.high > 30.84e6);
    /* Steps, and a quarter more for what is done beside them. */
    assert_true(total.days.high <= 1.25 * 1.25 * total.days.value && total.days.low >= 0.75 * total.days.value);
    assert_true(total.ettr.high > 0.9);
    redco_phases_free(phases);
}

/* Phases that ask for the same share a plan, and nothing else; any other value is a question of its own. */
static void equal_phases_share_a_plan(void **state)
{
    static const char text[] = "{\"format\": \"redco-run\", \"version\": 1, \"phases\": ["
                               "{\"name\": \"a\", \"tokens\": \"10B\"},"
                               "{\"name\": \"b\", \"tokens\": \"10B\", \"gpus\": 16},"
                               "{\"name\": \"c\", \"tokens\": \"10B\", \"global_batch\": 512},"
                               "{\"name\": \"d\", \"tokens\": \"10B\", \"seq\": 2048},"
                               "{\"name\": \"e\", \"tokens\": \"10B\", \"tp\": 2},"
                               "{\"name\": \"f\", \"tokens\": \"10B\", \"pp\": 2},"
                               "{\"name\": \"g\", \"tokens\": \"10B\", \"cp\": 2},"
                               "{\"name\": \"h\", \"tokens\": \"10B\", \"micro_batch\": 1},"
                               "{\"name\": \"i\", \"tokens\": \"20B\"}]}";
    enum { COUNT = 9 };
    redco_run_words words = redco_run_words_default();
    redco_question question = redco_question_default();
    redco_json *document = NULL;
    redco_phases *phases = NULL;
    redco_phase_answer answers[COUNT];
    redco_run_estimate total;
    redco_error err = {0};
    (void)state;
    question.gpus = 8;
    if (redco_json_parse(text, strlen(text), "phases", &document, &err) != REDCO_OK ||
        redco_phases_from_json(document, &words, &question.names, &phases, &err) != REDCO_OK ||
        redco_phases_plan(phases, &question, &words, answers, &total, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    const redco_phase_answer *const first = &answers[0], *const again = &answers[COUNT - 1];
    for (uint32_t i = 1; i + 1 < COUNT; i++) { assert_true(fabs(answers[i].mfu / first->mfu - 1.0) > 1e-6); }
    assert_int_equal(answers[1].gpus, 16);
    assert_int_equal(answers[2].global_batch, 512);
    assert_int_equal(answers[3].seq_len, 2048);
    assert_string_equal(again->name, "i");
    close_to(again->mfu, first->mfu, 0.0);
    close_to(again->run.tokens, 20e9, 1e-12);
    close_to(again->run.gpu_hours.value, 2.0 * first->run.gpu_hours.value, 0.01);
    close_to(total.tokens, 100e9, 1e-12);
    redco_phases_free(phases);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_by_hand),         cmocka_unit_test(failures_by_hand),
        cmocka_unit_test(what_ifs_by_hand),      cmocka_unit_test(large_losses_are_played),
        cmocka_unit_test(bands_hold_each_cause), cmocka_unit_test(batches_inflate),
        cmocka_unit_test(phases_add_up),         cmocka_unit_test(fronts_by_the_definition),
        cmocka_unit_test(changes_by_hand),       cmocka_unit_test(documents_are_read_back),
        cmocka_unit_test(llama_405b_is_inside),  cmocka_unit_test(equal_phases_share_a_plan),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
