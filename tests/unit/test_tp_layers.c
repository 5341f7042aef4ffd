/* Rules of the user's that give single layers another layout. Expected values are those of models whose layers are all
 * alike, of which a mixed one has its share of layers each, and parameters counted by hand. */
#include "costmodel/simulator/simulate.h"
#include "costmodel/simulator/step.h"
#include "planner/tensor_parallel/tp_placement.h"
#include "tests/unit/tp_fixture.h"

enum { LAYERS = 32, MOST_RULES = 3 * LAYERS };

/* The FFN the other way round: rows into it, columns out of it; or its last matrix on every rank. */
enum layout { TURNED, WHOLE };

/* Rules for layers [first, end) of every step-th. */
static redco_user_rules *rules_of(enum layout layout, uint32_t first, uint32_t end, uint32_t step)
{
    static const char *const names[] = {"gate_proj", "up_proj", "down_proj"};
    static char match[MOST_RULES][64];
    redco_user_rule list[MOST_RULES];
    redco_user_rules *rules = NULL;
    size_t count = 0;
    for (uint32_t layer = first; layer < end; layer += step) {
        for (int i = layout == WHOLE ? 2 : 0; i < 3; i++, count++) {
            (void)snprintf(match[count], sizeof match[count], "layers/%u/mlp/%s/kernel", layer, names[i]);
            list[count] =
                (redco_user_rule){match[count], layout == WHOLE ? REDCO_RULES_REPLICATED : (i == 2 ? 1 : 0), 0};
        }
    }
    assert_int_equal(redco_user_rules_create(list, count, REDCO_USER_OVERRIDE, "test", &rules, NULL), REDCO_OK);
    return rules;
}

struct prices {
    redco_prediction closed;
    redco_simulation simulated;
    uint64_t parameter_bytes[2]; /* bytes of the first and the last stage as built */
};

static struct prices price(struct subject *s, const redco_user_rules *rules)
{
    const redco_mesh one = {1, 1};
    const redco_layer_config config = {.shards = {one, one, one}, .recompute = REDCO_RECOMPUTE_NONE};
    const redco_layer_class *classes = NULL;
    const uint32_t count = (uint32_t)redco_model_classes(s->inputs.model, &classes);
    redco_assignment assignments[REDCOI_TP_LAYERS];
    redco_step *step = NULL;
    redco_error err = {0};
    struct prices p = {.closed = {.step_s = 0.0}};
    for (uint32_t c = 0; c < count; c++) { assignments[c] = (redco_assignment){c, classes[c].layers, config}; }
    assert_int_equal(
        redco_tp_attach(s->costs, s->inputs.model, rules != NULL ? REDCO_TP_USER : REDCO_TP_RULES, rules, NULL),
        REDCO_OK);
    p.closed = redco_cost_step(s->costs, &s->parallelism, assignments, count);
    assert_int_equal(redco_costs_failure(s->costs, NULL), REDCO_OK);
    if (redco_simulate(s->costs, &s->parallelism, assignments, count, NULL, &p.simulated, &err) != REDCO_OK ||
        redco_step_build(s->costs, &s->parallelism, assignments, count, NULL, &step, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    p.parameter_bytes[0] = redco_step_resident_bytes(step, 0)[REDCO_CATEGORY_PARAMETERS];
    p.parameter_bytes[1] = redco_step_resident_bytes(step, s->parallelism.pp - 1)[REDCO_CATEGORY_PARAMETERS];
    redco_step_free(step);
    return p;
}

static struct prices price_layers(struct subject *s, enum layout layout, uint32_t first, uint32_t end, uint32_t step)
{
    redco_user_rules *rules = rules_of(layout, first, end, step);
    const struct prices p = price(s, rules);
    redco_costs_set_layouts(s->costs, (redco_layouts){.cost = NULL});
    redco_user_rules_free(rules);
    return p;
}

static void check_near(double got, double wanted, double ratio)
{
    if (!(fabs(got - wanted) <= ratio * fabs(wanted))) { fail_msg("%.12g, wanted %.12g", got, wanted); }
}

static void open_model(struct subject *s, bool rows, uint32_t micro_batches)
{
    assert_true(subject_open(s, "llama-7b", 8, rows));
    s->parallelism.micro_batches = micro_batches;
}

/* One pass after the other: a step is the sum of its layers, whichever they are. */
static void layers_add_up(void **state)
{
    (void)state;
    for (int rows = 0; rows < 2; rows++) {
        struct subject s;
        open_model(&s, rows == 1, 8);
        const struct prices none = price(&s, NULL);
        const struct prices all = price_layers(&s, TURNED, 0, LAYERS, 1);
        const struct prices first = price_layers(&s, TURNED, 0, 1, 1);
        const struct prices some = price_layers(&s, TURNED, 3, LAYERS, 7); /* 3, 10, 17, 24, 31 */
        const double share = 5.0 / LAYERS, one = 1.0 / LAYERS;
        assert_true(all.closed.step_s > 1.1 * none.closed.step_s); /* or there is nothing to see */
        check_near(some.closed.step_s, none.closed.step_s + share * (all.closed.step_s - none.closed.step_s), 1e-9);
        check_near(some.closed.tp_s, none.closed.tp_s + share * (all.closed.tp_s - none.closed.tp_s), 1e-9);
        check_near(first.closed.step_s, none.closed.step_s + one * (all.closed.step_s - none.closed.step_s), 1e-9);
        check_near(some.simulated.step_s,
                   none.simulated.step_s + share * (all.simulated.step_s - none.simulated.step_s), 1e-9);
        check_near(first.simulated.step_s, none.simulated.step_s + one * (all.simulated.step_s - none.simulated.step_s),
                   1e-9);
        subject_close(&s);
    }
}

/* 4096 x 11008 parameters of which a rank holds all, not an eighth: 2, 4 and 12 bytes each in bf16 with gradients of as
 * many bytes as the engine keeps. */
static void whole_matrices_count_where_they_are(void **state)
{
    (void)state;
    struct subject s;
    open_model(&s, false, 8);
    const double more = 4096.0 * 11008.0 * (1.0 - 1.0 / 8.0);
    const struct prices none = price(&s, NULL);
    const struct prices two = price_layers(&s, WHOLE, 4, 6, 1);
    check_near((double)(two.closed.parameter_bytes - none.closed.parameter_bytes), 2.0 * 2.0 * more, 1e-6);
    check_near((double)(two.closed.optimizer_bytes - none.closed.optimizer_bytes), 2.0 * 12.0 * more, 1e-6);
    check_near((double)(two.parameter_bytes[0] - none.parameter_bytes[0]), 2.0 * 2.0 * more, 1e-9);
    subject_close(&s);
}

/* Two stages of 16 layers each, the last of which has the slow ones. 1F1B goes at the pace of the slower stage; the
 * faster one fills and drains the pipeline once, so that against slow layers everywhere one micro-batch's difference
 * of a stage is gained: of m + 1 that all of them lose. */
static void stages_have_their_own_layers(void **state)
{
    (void)state;
    struct subject s;
    open_model(&s, false, 16);
    s.inputs.machine.nodes = 2;
    redco_costs_free(s.costs);
    assert_int_equal(redco_costs_create(&s.inputs.machine, s.inputs.model, &s.workload, &s.inputs.calibration,
                                        s.inputs.comm, &s.costs, NULL),
                     REDCO_OK);
    s.parallelism.pp = 2;
    s.parallelism.dp = (redco_mesh){1, 1};
    const struct prices none = price(&s, NULL);
    const struct prices all = price_layers(&s, TURNED, 0, LAYERS, 1);
    const struct prices last = price_layers(&s, TURNED, LAYERS / 2, LAYERS, 1);
    const double lost_s = all.simulated.step_s - none.simulated.step_s;
    check_near(all.simulated.step_s - last.simulated.step_s, lost_s / 17.0, 0.01);
    check_near(last.closed.step_s, last.simulated.step_s, 0.03);
    /* States lie where their layers are; a plan counts those of the fuller stage. */
    const struct prices whole = price_layers(&s, WHOLE, 0, LAYERS, 1);
    const struct prices half = price_layers(&s, WHOLE, LAYERS / 2, LAYERS, 1);
    assert_int_equal(half.parameter_bytes[0], none.parameter_bytes[0]);
    assert_int_equal(half.parameter_bytes[1], whole.parameter_bytes[1]);
    assert_int_equal(half.closed.parameter_bytes, whole.closed.parameter_bytes);
    subject_close(&s);
}

/* The names of the report, and its sum. */
static void reports_tell_layouts_apart(void **state)
{
    (void)state;
    struct subject s;
    redco_tp_report report, plain;
    open_model(&s, false, 8);
    redco_user_rules *rules = rules_of(TURNED, 2, 3, 1);
    assert_int_equal(redco_tp_compare(s.costs, s.inputs.model, NULL, &s.parallelism, &plain, NULL), REDCO_OK);
    assert_int_equal(redco_tp_compare(s.costs, s.inputs.model, rules, &s.parallelism, &report, NULL), REDCO_OK);
    assert_int_equal(plain.class_count, 2);
    assert_int_equal(report.class_count, 3);
    assert_string_equal(report.classes[1].name, "block 0...");
    assert_int_equal(report.classes[1].layers, LAYERS - 1);
    assert_string_equal(report.classes[2].name, "block 2");
    assert_int_equal(report.classes[2].layers, 1);
    assert_true(report.classes[1].same);
    assert_false(report.classes[2].same);
    check_near(report.rules.time_s, plain.rules.time_s + report.classes[2].rules.time_s - plain.classes[1].rules.time_s,
               1e-9);
    redco_user_rules_free(rules);
    subject_close(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_add_up),
        cmocka_unit_test(whole_matrices_count_where_they_are),
        cmocka_unit_test(stages_have_their_own_layers),
        cmocka_unit_test(reports_tell_layouts_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
