/* Answers of a search as users get them: ordered, kept and refused by the event simulator. Each case first shows that
 * closed form and simulator disagree there; found by putting layouts of the shipped models to both. */
#include "planner/answer/priced.h"
#include "planner/answer/question.h"

#include "planner/assemble/step_memo.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>

struct question {
    redco_inputs inputs;
    redco_search_options options;
    redco_costs *costs;
};

/* @param engine  NULL: the cluster's */
static void open_question_of(struct question *q, const char *engine, const char *cluster, const char *model,
                             redco_search_options options)
{
    const redco_input_names names = {.model = model, .cluster = cluster, .engine = engine};
    redco_error err = {.status = REDCO_OK};
    *q = (struct question){.options = options};
    if (redco_inputs_read(&names, 64, &q->inputs, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    q->inputs.engine_limits = engine != NULL; /* the whole space, unless an engine is named */
    redco_inputs_use_engine(&q->inputs, &q->options);
    assert_int_equal(redco_costs_of(&q->inputs, &q->options, &q->costs, NULL), REDCO_OK);
}

static void open_question(struct question *q, const char *cluster, const char *model, redco_search_options options)
{
    open_question_of(q, NULL, cluster, model, options);
}

static void close_question(struct question *q)
{
    redco_costs_free(q->costs);
    redco_inputs_free(&q->inputs);
}

static redco_search_options standard(void)
{
    return (redco_search_options){
        .workload = {.seq_len = 4096, .global_batch = 1024, .precision = REDCO_BF16, .overlap = REDCO_OVERLAP_ALL},
        .recompute = REDCO_RECOMPUTE_FREE,
        .pass.gap_ratio = 0.0005};
}

static redco_search_result *by_closed_form(struct question *q)
{
    redco_search_result *result = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_search(&q->inputs.machine, q->inputs.model, &q->inputs.calibration, q->inputs.comm, &q->options, &result,
                     &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    return result;
}

static redco_search_result *by_simulator(struct question *q)
{
    redco_search_result *result = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_search_priced(&q->inputs, &q->options, &result, &err) != REDCO_OK) {
        fail_msg("%s: %s", err.place, err.text);
    }
    return result;
}

static redco_prediction simulated(struct question *q, const redco_candidate *candidate)
{
    redco_candidate priced = *candidate;
    assert_int_equal(redco_candidate_price(q->costs, &priced, NULL), REDCO_OK);
    return priced.prediction;
}

static bool fits(const redco_prediction *p)
{
    return p->total_bytes <= p->capacity_bytes;
}

/* A candidate's own figures are its cost. */
static void assert_priced(struct question *q, const redco_candidate *candidate)
{
    redco_candidate again = *candidate;
    assert_int_equal(redco_candidate_price(q->costs, &again, NULL), REDCO_OK);
    assert_memory_equal(&again.prediction, &candidate->prediction, sizeof again.prediction);
    assert_memory_equal(&again.closed_form, &candidate->closed_form, sizeof again.closed_form);
}

/* It has the strategy of the one that did not fit, and is no more than 1 % slower; where nothing leaner is found, the
 * bytes that are missing are told. */
static void assert_replaced(struct question *q, const redco_prediction *first)
{
    redco_search_result *const priced = by_simulator(q);
    if (priced->ranked_count == 0) {
        assert_int_equal(priced->shortfall.short_bytes, first->total_bytes - first->capacity_bytes);
        redco_search_result_free(priced);
        return;
    }
    const redco_candidate *const answer = &priced->ranked[0];
    assert_priced(q, answer);
    assert_true(fits(&answer->prediction));
    assert_true(redco_mesh_ranks(answer->assignments[0].config.shards.parameters) == 1);
    assert_true(answer->prediction.step_s < first->step_s * 1.01);
    redco_search_result_free(priced);
}

/* Where the closed form's answer is within memory and the simulator's memory of it is not. */
static void an_answer_that_is_too_large_is_replaced(void **state)
{
    static const struct {
        const char *cluster, *model;
        uint32_t seq_len;
    } questions[] = {{"a800-hdr", "llama-65b", 4096}, {"p4d", "qwen2-7b", 4096},       {"p4d", "llama-7b", 8192},
                     {"p4d", "llama-13b", 4096},      {"a800-hdr", "llama-30b", 4096}, {"dgx-a100", "qwen2-7b", 8192},
                     {"dgx-a100", "llama-13b", 8192}, {"a800-hdr", "llama-13b", 8192}, {"a800-hdr", "qwen2-7b", 16384},
                     {"p4d", "llama-65b", 2048}};
    uint32_t replaced = 0;
    (void)state;
    for (size_t i = 0; i < sizeof questions / sizeof questions[0]; i++) {
        struct question q;
        redco_search_options options = standard();
        options.strategy = REDCO_STRATEGY_ZERO2;
        options.workload.seq_len = questions[i].seq_len;
        open_question(&q, questions[i].cluster, questions[i].model, options);
        redco_search_result *const closed = by_closed_form(&q);
        if (closed->ranked_count > 0) {
            const redco_prediction first = simulated(&q, &closed->ranked[0]);
            if (fits(&closed->ranked[0].prediction) && !fits(&first)) {
                assert_replaced(&q, &first);
                replaced++;
            }
        }
        redco_search_result_free(closed);
        close_question(&q);
    }
    assert_true(replaced > 0);
}

/* One layout: 80.7 GB of 79.9 by the closed form, 77.5 GB simulated. */
static redco_search_options one_layout(void)
{
    redco_search_options options = standard();
    options.workload.seq_len = 5760;
    options.given.tp = 1;
    options.given.micro_batch = 4;
    options.recompute = REDCO_RECOMPUTE_FULL;
    options.stated |= REDCO_STATES(REDCO_OF_SCHEME);
    options.given.scheme = REDCO_INTER_TENSOR;
    options.fix = (redco_shards){{8, 1}, {8, 8}, {8, 8}};
    return options;
}

static void a_given_layout_is_judged_by_the_simulator(void **state)
{
    struct question q;
    (void)state;
    open_question(&q, "a800-hdr", "llama-65b", one_layout());
    redco_search_result *const closed = by_closed_form(&q);
    redco_search_result *const priced = by_simulator(&q);
    assert_int_equal(closed->ranked_count, 0);
    assert_int_equal(closed->candidates, 1);
    assert_int_equal(priced->ranked_count, 1);
    const redco_candidate *const answer = &priced->ranked[0];
    assert_priced(&q, answer);
    assert_true(!fits(&answer->closed_form) && fits(&answer->prediction));
    assert_string_equal(priced->status, "optimal"); /* there is no other */
    assert_int_equal(priced->shortfall.short_bytes, 0);
    assert_null(priced->shortfall.leanest.assignments);
    redco_search_result_free(closed);
    redco_search_result_free(priced);
    close_question(&q);
}

/* The same with longer sequences fits neither way, and is priced all the same. */
static void a_given_layout_that_does_not_fit_is_priced(void **state)
{
    struct question q;
    redco_search_options options = one_layout();
    options.workload.seq_len = 8192;
    (void)state;
    open_question(&q, "a800-hdr", "llama-65b", options);
    redco_search_result *const priced = by_simulator(&q);
    const redco_candidate *const given = &priced->shortfall.leanest;
    assert_int_equal(priced->ranked_count, 0);
    assert_non_null(given->assignments);
    assert_priced(&q, given);
    assert_true(!fits(&given->prediction) && given->prediction.step_s > 0.0);
    assert_int_equal(priced->shortfall.short_bytes, given->prediction.total_bytes - given->prediction.capacity_bytes);
    redco_search_result_free(priced);
    close_question(&q);
}

static void the_best_few_are_in_the_simulators_order(void **state)
{
    struct question q;
    redco_search_options options = standard();
    bool closed_form_differs = false;
    options.given.tp = 2;
    options.top = 6;
    (void)state;
    open_question(&q, "dgx-h100", "llama-13b", options);
    redco_search_result *const priced = by_simulator(&q);
    assert_int_equal(priced->ranked_count, 6);
    for (uint32_t i = 0; i < priced->ranked_count; i++) {
        assert_priced(&q, &priced->ranked[i]);
        assert_true(fits(&priced->ranked[i].prediction));
        if (i == 0) { continue; }
        const redco_candidate *const before = &priced->ranked[i - 1], *const c = &priced->ranked[i];
        assert_true(c->prediction.step_s >= before->prediction.step_s * (1.0 - 1e-9));
        closed_form_differs = closed_form_differs || c->closed_form.step_s < before->closed_form.step_s;
    }
    assert_true(closed_form_differs);
    redco_search_result_free(priced);
    close_question(&q);
}

/* T_comm orders AMSP's own strategies, not the step. */
static void amsp_keeps_its_order(void **state)
{
    struct question q;
    redco_search_options options = standard();
    options.strategy = REDCO_STRATEGY_AMSP;
    options.top = 6;
    bool steps_differ = false;
    (void)state;
    open_question(&q, "a800-hdr", "llama-13b", options);
    redco_search_result *const closed = by_closed_form(&q);
    redco_search_result *const priced = by_simulator(&q);
    assert_int_equal(priced->ranked_count, closed->ranked_count);
    for (uint32_t i = 0; i < priced->ranked_count; i++) {
        const redco_candidate *const c = &priced->ranked[i];
        assert_true(fits(&c->prediction));
        /* None is worse than the closed form's: it may not fit by that, and have less to send. */
        assert_true(c->closed_form.amsp_total_s <= closed->ranked[i].closed_form.amsp_total_s);
        if (i == 0) { continue; }
        assert_true(c->closed_form.amsp_total_s >= priced->ranked[i - 1].closed_form.amsp_total_s);
        steps_differ = steps_differ || c->prediction.step_s < priced->ranked[i - 1].prediction.step_s;
    }
    assert_true(steps_differ);
    redco_search_result_free(closed);
    redco_search_result_free(priced);
    close_question(&q);
}

/* Stages that reduce gradients in every micro-batch do so beside the turns of others: of the best few by the closed
 * form another may be faster. It is in some of these questions, and the answer is slower in none. */
static void a_slow_answer_is_looked_beyond(void **state)
{
    static const char *const models[] = {"llama-7b", "llama-13b", "llama-65b"};
    uint32_t beyond = 0;
    (void)state;
    for (uint32_t c = 0; c < 6; c++) {
        struct question q;
        redco_search_options options = standard();
        options.given.tp = 1;
        options.given.pp = c < 3 ? 2 : 4;
        options.given.chunks = REDCO_DEGREE_AUTO;
        open_question_of(&q, "megatron-bridge", "dgx-h100", models[c % 3], options);
        redco_search_result *const closed = by_closed_form(&q);
        redco_search_result *const priced = by_simulator(&q);
        if (closed->ranked_count > 0) {
            const redco_prediction first = simulated(&q, &closed->ranked[0]);
            assert_int_equal(priced->ranked_count, 1);
            assert_priced(&q, &priced->ranked[0]);
            assert_true(fits(&priced->ranked[0].prediction));
            assert_true(!fits(&first) || priced->ranked[0].prediction.step_s <= first.step_s * (1.0 + 1e-3));
            const bool faster = priced->ranked[0].prediction.step_s < 0.999 * first.step_s;
            assert_true(priced->by_simulation || !faster);
            beyond += faster ? 1 : 0;
            /* The proof was the closed form's: what it says of this answer. */
            const double bound_s = closed->ranked[0].closed_form.step_s * (1.0 - closed->gap_ratio);
            const double gap = fmax(0.0, 1.0 - bound_s / priced->ranked[0].closed_form.step_s);
            assert_true(fabs(priced->gap_ratio - gap) < 1e-9);
            assert_string_equal(priced->status, gap <= options.pass.gap_ratio ? "optimal" : "feasible");
        }
        redco_search_result_free(closed);
        redco_search_result_free(priced);
        close_question(&q);
    }
    print_message("beyond in %u of 6\n", beyond);
    assert_true(beyond > 0);
}

/* All layouts of a small space, simulated: none is faster than the answer by more than it says, and the counts add up.
 */
static void small_spaces_are_simulated_whole(void **state)
{
    (void)state;
    for (uint32_t pp = 1; pp <= 4; pp *= 2) {
        struct question q;
        redco_search_options options = standard();
        options.given.tp = 4;
        options.given.pp = pp;
        options.given.chunks = REDCO_DEGREE_AUTO;
        options.sequence_parallel = REDCO_EITHER;
        options.given.micro_batch = 1;
        options.verify = true;
        open_question(&q, "dgx-h100", "llama-13b", options);
        redco_search_result *const priced = by_simulator(&q);
        const redco_search_counts *const c = &priced->counts;
        assert_int_equal(c->listed, c->bounded + c->priced);
        assert_true(c->priced <= c->listed && c->solved >= priced->ranked_count);
        assert_true(priced->verify_simulated > 20 && c->simulated > priced->verify_simulated);
        assert_true(c->simulated <= priced->verify_simulated + 97); /* the first, and 96 others */
        assert_true(priced->verified && !priced->verify_failed);
        const double least_s = priced->ranked[0].prediction.step_s * (1.0 - priced->within_ratio);
        assert_true(priced->within_ratio >= 0.0 && priced->within_ratio < (pp > 1 ? 0.04 : 0.02));
        assert_true(priced->least_above_ratio <= 1e-9); /* a bound is one */
        assert_true(priced->verify_simulated_s >= least_s);
        redco_search_result_free(priced);
        close_question(&q);
    }
}

/* One layout, so that a step of other inputs would be found if it were looked for. */
static redco_search_options one_step(void)
{
    redco_search_options options = standard();
    options.given.tp = 2;
    options.given.micro_batch = 1;
    options.recompute = REDCO_RECOMPUTE_FULL;
    options.stated |= REDCO_STATES(REDCO_OF_SCHEME);
    options.given.scheme = REDCO_INTRA_TENSOR;
    options.sequence_parallel = REDCO_ON;
    options.fix = (redco_shards){{4, 8}, {4, 8}, {4, 8}};
    return options;
}

static redco_candidate first_of(const redco_inputs *inputs, const redco_search_options *options, bool *known_out)
{
    redco_search_result *result = NULL;
    redco_error err = {.status = REDCO_OK};
    uint64_t operators = 0;
    if (redco_search_priced(inputs, options, &result, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    assert_int_equal(result->ranked_count, 1);
    assert_int_equal(result->counts.simulated, 1); /* known or not */
    redco_candidate first = result->ranked[0];
    *known_out = redco_known_steps_find(redco_known_steps_of(inputs, options), &first, &operators);
    assert_true(!*known_out || operators > 0);
    redco_search_result_free(result);
    first.assignments = NULL;
    return first;
}

/* An answer that the memo may have a part in is the one that it has none in.
 * @return whether the step is known now */
static bool assert_as_without(const redco_inputs *inputs, const redco_search_options *options, double *step_s_out)
{
    redco_inputs without = *inputs;
    bool known = false, never = false;
    without.step_memo = NULL;
    const redco_candidate fresh = first_of(&without, options, &never);
    for (int i = 0; i < 2; i++) {
        const redco_candidate with = first_of(inputs, options, &known);
        assert_memory_equal(&with.prediction, &fresh.prediction, sizeof with.prediction);
        assert_memory_equal(&with.closed_form, &fresh.closed_form, sizeof with.closed_form);
    }
    assert_false(never);
    *step_s_out = fresh.prediction.step_s;
    return known;
}

/* Recurrence over simulated time of a mixture that spaces of tools/run prove were further off with. */
static double paced_ratio(const char *model, const char *cluster, redco_workload workload,
                          redco_parallelism parallelism, redco_shards shards)
{
    const redco_input_names names = {.model = model, .cluster = cluster};
    redco_question question = redco_question_default();
    redco_inputs inputs;
    const redco_layer_class *classes = NULL;
    const uint64_t gpus = redco_mesh_ranks(parallelism.dp) * parallelism.tp * parallelism.cp * parallelism.pp;
    redco_assignment all[8];
    redco_candidate candidate = {.parallelism = parallelism, .assignments = all};
    redco_costs *costs = NULL;
    redco_paced paced;
    redco_error err = {.status = REDCO_OK};
    question.options.workload.seq_len = workload.seq_len;
    question.options.workload.global_batch = workload.global_batch;
    if (redco_inputs_read(&names, gpus, &inputs, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    inputs.engine_limits = false;
    redco_inputs_use_engine(&inputs, &question.options);
    assert_int_equal(redco_costs_of(&inputs, &question.options, &costs, NULL), REDCO_OK);
    candidate.assignment_count = (uint32_t)redco_model_classes(inputs.model, &classes);
    for (uint32_t i = 0; i < candidate.assignment_count; i++) {
        all[i] = (redco_assignment){i, classes[i].layers, {shards, REDCO_RECOMPUTE_NONE}};
    }
    if (redco_candidate_price(costs, &candidate, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    assert_int_equal(redco_cost_paced(costs, &candidate.parallelism, all, candidate.assignment_count,
                                      &candidate.closed_form, &paced, NULL),
                     REDCO_OK);
    redco_costs_free(costs);
    redco_inputs_free(&inputs);
    return paced.step_s / candidate.prediction.step_s;
}

/* A stage fetches a layer beside the one before it, whatever its kind; a head that is larger than the blocks of a stage
 * is reduced in one message; gathers of experts wait for all ranks of their own grid. */
static void stages_of_a_mixture_take_what_is_simulated(void **state)
{
    static uint32_t split[] = {0, 2, 1, 2, 1, 1, 1, 1};
    const redco_mesh one = {1, 1}, pair = {2, 1}, node = {8, 1}, nodes = {1, 6};
    (void)state;
    const double gathered = paced_ratio(REDCO_TEST_DATA "/gaps/few-layers.json", "p4d",
                                        (redco_workload){.seq_len = 512, .global_batch = 48},
                                        (redco_parallelism){.tp = 1,
                                                            .pp = 6,
                                                            .cp = 2,
                                                            .micro_batch = 6,
                                                            .micro_batches = 2,
                                                            .scheme = REDCO_INTRA_TENSOR,
                                                            .dp = {4, 1}},
                                        (redco_shards){node, node, node});
    const double reduced = paced_ratio(REDCO_TEST_DATA "/gaps/large-head.json", "dgx-h100",
                                       (redco_workload){.seq_len = 4096, .global_batch = 512},
                                       (redco_parallelism){.tp = 4,
                                                           .pp = 4,
                                                           .cp = 1,
                                                           .ep = 8,
                                                           .etp = 1,
                                                           .sequence_parallel = true,
                                                           .schedule = REDCO_PIPELINE_DUALPIPE_V,
                                                           .chunks = 2,
                                                           .split = split,
                                                           .micro_batch = 1,
                                                           .micro_batches = 256,
                                                           .scheme = REDCO_INTRA_TENSOR,
                                                           .dp = pair},
                                       (redco_shards){one, pair, pair});
    const double waited = paced_ratio(REDCO_TEST_DATA "/gaps/experts-over-nodes.json", "a800-hdr",
                                      (redco_workload){.seq_len = 8192, .global_batch = 576},
                                      (redco_parallelism){.tp = 4,
                                                          .pp = 1,
                                                          .cp = 2,
                                                          .ep = 1,
                                                          .etp = 1,
                                                          .sequence_parallel = true,
                                                          .micro_batch = 1,
                                                          .micro_batches = 96,
                                                          .dp = nodes},
                                      (redco_shards){nodes, nodes, nodes});
    print_message("recurrence %.3f, %.3f and %.3f of the simulated step\n", gathered, reduced, waited);
    assert_true(fabs(waited - 1.0) < 0.1);    /* 1.61 where gathers of experts wait for the ranks of the dense grid */
    assert_true(fabs(gathered - 1.0) < 0.25); /* 1.40 where each kind of layers has a pass of its own */
    assert_true(fabs(reduced - 1.0) < 0.15);  /* 1.52 where a message has the size of a stage's */
}

/* The answer that chose an engine is the answer to the same question, once; to no other. */
static void a_kept_answer_is_handed_over_once(void **state)
{
    struct question q;
    redco_search_result *found = NULL, *taken = NULL;
    (void)state;
    open_question_of(&q, "megatron-lm", "dgx-h100", "llama-13b", one_step());
    redco_search_options asked = q.options, again = q.options, other = q.options;
    assert_int_equal(redco_search_answer(&q.inputs, &asked, &found, NULL), REDCO_OK);
    assert_int_equal(found->ranked_count, 1);
    redco_known_answer_keep(&q.inputs, &q.options, &asked, found, redco_search_result_free);
    other.pass.margin_bytes = 1;
    assert_false(redco_known_answer_take(&q.inputs, &other, &taken));
    other = q.options;
    other.workload.seq_len = 2048;
    assert_false(redco_known_answer_take(&q.inputs, &other, &taken));
    again.pass.no_remedies = true; /* no part of an answer with a plan */
    assert_true(redco_known_answer_take(&q.inputs, &again, &taken));
    assert_ptr_equal(taken, found);
    assert_true(again.pass.no_remedies);
    again = q.options;
    assert_false(redco_known_answer_take(&q.inputs, &again, &taken));
    redco_search_result_free(found);
    close_question(&q);
}

/* The same layout of other engines, constants, machines and collectives is another step. */
static void a_known_step_is_that_of_the_same_inputs(void **state)
{
    static const redco_input_names bridge = {
        .model = "llama-13b", .cluster = "dgx-h100", .engine = "megatron-bridge,grad_reduce_bytes=2"};
    enum { MOST = 16 };
    double step_s[MOST];
    int count = 0;
    struct question q;
    redco_inputs other;
    redco_comm *comm = NULL;
    (void)state;
    open_question_of(&q, "megatron-lm", "dgx-h100", "llama-13b", one_step());
    assert_true(assert_as_without(&q.inputs, &q.options, &step_s[count++]));
    const redco_inputs *const base = &q.inputs;

    redco_search_options o = q.options; /* a trait */
    o.workload.engine.gradient_bytes = 2;
    assert_true(assert_as_without(base, &o, &step_s[count++]));
    o = q.options; /* the workload */
    o.workload.global_batch = 2048;
    assert_true(assert_as_without(base, &o, &step_s[count++]));
    o = q.options; /* half of what is recomputed */
    o.workload.engine.partial_recompute = true;
    assert_true(assert_as_without(base, &o, &step_s[count++]));
    o = q.options; /* tensors split in another way */
    o.tp_placement = q.options.tp_placement == REDCO_TP_PAIRED ? REDCO_TP_RULES : REDCO_TP_PAIRED;
    double placed_s = 0.0;
    assert_true(assert_as_without(base, &o, &placed_s)); /* it may take as long */
    assert_ptr_not_equal(redco_known_steps_of(base, &o), redco_known_steps_of(base, &q.options));
    o = q.options; /* rules that are not those of the inputs: nothing is looked for */
    o.tp_rules = (const redco_user_rules *)(const void *)&o;
    assert_null(redco_known_steps_of(base, &o));
    redco_inputs there = *base;
    there.model = NULL;
    assert_null(redco_known_steps_of(&there, &q.options));

    there = *base; /* constants */
    there.calibration.gemm_efficiency *= 0.9;
    assert_true(assert_as_without(&there, &q.options, &step_s[count++]));
    there = *base; /* a machine */
    there.machine.gpu.memory_bandwidth_bytes_per_s *= 1.1;
    assert_true(assert_as_without(&there, &q.options, &step_s[count++]));
    assert_int_equal(redco_comm_at_rates(base->comm, &there.machine, &comm, NULL), REDCO_OK);
    there.comm = comm; /* collectives of their own: nothing is kept */
    double own_s = 0.0;
    assert_false(assert_as_without(&there, &q.options, &own_s));
    redco_comm_free(comm);

    /* Other inputs that lend the memo, another engine; and with more GPUs one of their own. */
    assert_int_equal(redco_inputs_read_like(base, &bridge, 0, &other, NULL), REDCO_OK);
    assert_ptr_equal(other.step_memo, base->step_memo);
    o = q.options;
    redco_inputs_use_engine(&other, &o);
    assert_true(assert_as_without(&other, &o, &step_s[count++]));
    redco_inputs_free(&other);
    assert_int_equal(redco_inputs_read_like(base, &bridge, 128, &other, NULL), REDCO_OK);
    assert_ptr_not_equal(other.step_memo, base->step_memo);
    assert_true(assert_as_without(&other, &o, &step_s[count++]));
    redco_inputs_forget(&other);
    assert_false(assert_as_without(&other, &o, &own_s));
    redco_inputs_free(&other);

    double again_s = 0.0;
    assert_true(assert_as_without(base, &q.options, &again_s));
    assert_true(again_s == step_s[0]);
    for (int i = 0; i < count; i++) { /* else the answers above would show nothing */
        for (int k = 0; k < i; k++) { assert_true(step_s[i] != step_s[k]); }
    }
    close_question(&q);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_answer_that_is_too_large_is_replaced),
        cmocka_unit_test(a_given_layout_is_judged_by_the_simulator),
        cmocka_unit_test(a_given_layout_that_does_not_fit_is_priced),
        cmocka_unit_test(the_best_few_are_in_the_simulators_order),
        cmocka_unit_test(amsp_keeps_its_order),
        cmocka_unit_test(a_slow_answer_is_looked_beyond),
        cmocka_unit_test(small_spaces_are_simulated_whole),
        cmocka_unit_test(a_known_step_is_that_of_the_same_inputs),
        cmocka_unit_test(a_kept_answer_is_handed_over_once),
        cmocka_unit_test(stages_of_a_mixture_take_what_is_simulated),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
