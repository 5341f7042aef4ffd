/* Measured steps against predicted ones: small traces whose numbers follow by hand, and simulated steps against what
 * the simulator itself says about them. */
#include "cost_fixture.h"
#include "costmodel/simulator/simulate.h"
#include "memory_file.h"
#include "traces/compare/compare.h"

#include <math.h>

enum { COMPUTE = 0, PARAMETERS = 2, GRADIENTS = 4 };

struct span {
    const char *name, *category;
    uint32_t thread;
    double from_s, to_s;
    int micro_batch; /* -1: once */
};

/* One rank's step. Computation 3 + 2 + 4 + 1 = 10 s, launch 0.5, overhead 1; waits for gathers 0 to 2 and 5 to 6, for
 * the reduction 12.5 to 15: 10 + 0.5 + 1 + 3 + 2.5 = 17. Communication runs 0 to 6 and 12 to 15, 9 s, of which 3.5
 * beside something else. */
static const struct span step[] = {
    {"fwd/block.0/p/gather", "gather", PARAMETERS, 0, 2, 0},
    {"fwd/block.0/a", "forward", COMPUTE, 2, 5, 0},
    {"fwd/block.1/p/gather", "gather", PARAMETERS, 2, 6, 0},
    {"fwd/block.1/a", "forward", COMPUTE, 6, 8, 0},
    {"bwd/block.1/a", "backward", COMPUTE, 8, 12, 0},
    {"bwd/gradients/bucket.0", "grad_reduce", GRADIENTS, 12, 15, -1},
    {"step/launch", "launch", COMPUTE, 12, 12.5, -1},
    {"step/optimizer", "optimizer", COMPUTE, 15, 16, -1},
    {"step/overhead", "overhead", COMPUTE, 16, 17, -1},
};
enum { SPANS = sizeof step / sizeof step[0] };

/* Dependencies besides the order of streams: operator 1 for 0, 3 for 2, 5 for 4, 7 for 5. */
static const uint32_t first_input[SPANS + 1] = {0, 0, 1, 1, 2, 2, 3, 3, 4, 4}, inputs[] = {0, 2, 4, 5};
static const redco_compare_graph graph = {first_input, inputs};

static const char *const kinds[] = {"forward",  "recompute", "backward",    "optimizer", "launch",
                                    "overhead", "gather",    "grad_reduce", "pipeline",  NULL};

struct how {
    uint32_t process;
    double at_s, stretch;
    int number;  /* the step's; -1: not told */
    int without; /* operator left out; -1: none */
    bool no_micro_batches;
};

static const struct how plainly = {.stretch = 1.0, .number = -1, .without = -1};

static redco_trace *new_trace(void)
{
    redco_trace *const trace = redco_trace_new();
    assert_non_null(trace);
    return trace;
}

static void add_process(redco_trace *trace, uint32_t process, const char *name)
{
    redco_trace_add_process(trace, process, name);
    redco_trace_add_thread(trace, process, COMPUTE, "compute");
    redco_trace_add_thread(trace, process, PARAMETERS, "parameters");
    redco_trace_add_thread(trace, process, GRADIENTS, "gradients");
}

static void add_span(redco_trace *trace, const struct span *s, const struct how *how)
{
    const redco_trace_span span = {.name = s->name,
                                   .category = s->category,
                                   .process = how->process,
                                   .thread = s->thread,
                                   .start_s = how->at_s + how->stretch * s->from_s,
                                   .duration_s = how->stretch * (s->to_s - s->from_s)};
    (void)redco_trace_add_span(trace, &span);
    if (s->micro_batch >= 0 && !how->no_micro_batches) {
        redco_trace_add_arg(trace, "micro_batch", NULL, s->micro_batch);
    }
    if (how->number >= 0) { redco_trace_add_arg(trace, "step", NULL, how->number); }
}

static void add_step(redco_trace *trace, const struct how *how)
{
    for (int i = 0; i < SPANS; i++) {
        if (i != how->without) { add_span(trace, &step[i], how); }
    }
}

static redco_trace *one_step(const struct how *how)
{
    redco_trace *const trace = new_trace();
    add_process(trace, how->process, "rank");
    add_step(trace, how);
    return trace;
}

static redco_comparison *compare_to(const redco_trace *predicted, const redco_trace *measured)
{
    redco_error err = {.status = REDCO_OK};
    redco_comparison *c = NULL;
    const redco_compare_source sources[] = {{predicted, "prediction"}, {measured, "trace"}};
    check_ok(redco_trace_compare(&sources[0], &sources[1], 1, kinds, &graph, &c, &err), &err);
    return c;
}

static const redco_compare_kind *kind_of(const redco_comparison *c, const char *name)
{
    for (uint32_t k = 0; k < c->kind_count; k++) {
        if (strcmp(c->kinds[k].name, name) == 0) { return &c->kinds[k]; }
    }
    fail_msg("no kind %s", name);
    return NULL;
}

static const redco_compare_operator *operator_of(const redco_comparison *c, const char *name)
{
    for (uint32_t i = 0; i < c->operator_count; i++) {
        if (strcmp(c->operators[i].name, name) == 0) { return &c->operators[i]; }
    }
    fail_msg("no operator %s", name);
    return NULL;
}

static void check_time(const redco_compare_time *t, double stretch)
{
    check_near(t->step_s, 17.0 * stretch, 1e-9);
    check_near(t->compute_s, 10.0 * stretch, 1e-9);
    check_near(t->launch_s, 0.5 * stretch, 1e-9);
    check_near(t->overhead_s, 1.0 * stretch, 1e-9);
    check_near(t->wait_s, 5.5 * stretch, 1e-9);
    check_near(t->bubble_s, 0.0, 1e-9);
    check_near(t->idle_s, 0.0, 1e-9);
    check_near(t->communication_s, 9.0 * stretch, 1e-9);
    check_near(t->covered_s, 3.5 * stretch, 1e-9);
}

/* Two comparisons: with itself, and with the same made 1.25 times as long and begun at another time. */
static void same_and_stretched(void **state)
{
    (void)state;
    const double stretches[] = {1.0, 1.25}, at_s[] = {0.0, -3e5};
    for (int i = 0; i < 2; i++) {
        const struct how how = {.process = 7, .at_s = at_s[i], .stretch = stretches[i], .number = -1, .without = -1};
        redco_trace *const predicted = one_step(&plainly), *const measured = one_step(&how);
        redco_comparison *const c = compare_to(predicted, measured);
        const double stretch = stretches[i];
        check_time(&c->predicted, 1.0);
        check_time(&c->measured, stretch);
        check_near(redco_compare_error(c->predicted.step_s, c->measured.step_s), 1.0 / stretch - 1.0, 1e-9);
        assert_int_equal(c->matched, SPANS);
        assert_int_equal(c->missing + c->extra + c->other_stream, 0);
        assert_int_equal(c->shown_process, 7);
        check_near(c->shown_from_s, at_s[i], 1e-9);
        check_near(c->shown_to_s, at_s[i] + 17.0 * stretch, 1e-9);
        /* The path: both gathers, then block 1, its backward, the reduction, optimizer, overhead. */
        static const struct {
            const char *kind;
            double total_s, exposed_s, critical_s;
        } wants[] = {{"gather", 6, 3, 6},    {"forward", 5, 0, 2},  {"backward", 4, 0, 4}, {"grad_reduce", 3, 2.5, 3},
                     {"optimizer", 1, 0, 1}, {"overhead", 1, 0, 1}, {"launch", 0.5, 0, 0}};
        assert_true(c->critical_known);
        assert_int_equal(c->kind_count, 7);
        for (size_t k = 0; k < 7; k++) {
            const redco_compare_kind *const kind = kind_of(c, wants[k].kind);
            check_near(kind->total.predicted_s, wants[k].total_s, 1e-9);
            check_near(kind->total.measured_s, wants[k].total_s * stretch, 1e-9);
            check_near(kind->exposed.predicted_s, wants[k].exposed_s, 1e-9);
            check_near(kind->exposed.measured_s, wants[k].exposed_s * stretch, 1e-9);
            check_near(kind->critical.predicted_s, wants[k].critical_s, 1e-9);
            check_near(kind->critical.measured_s, wants[k].critical_s * stretch, 1e-9);
            assert_int_equal(kind->communicates, wants[k].exposed_s > 0.0);
        }
        const redco_compare_operator *const forward = operator_of(c, "fwd/block.*/a");
        assert_int_equal(forward->predicted_count, 2);
        assert_int_equal(forward->measured_count, 2);
        check_near(forward->total.measured_s, 5.0 * stretch, 1e-9);
        assert_string_equal(c->operators[0].name, stretch > 1.0 ? "fwd/block.*/p/gather" : "bwd/block.*/a");
        redco_comparison_free(c);
        redco_trace_free(predicted);
        redco_trace_free(measured);
    }
}

/* Only the times of single operators differ: the second gather takes 5 s instead of 4, the optimizer begins 1 s after
 * the reduction has ended, and a mark of the writer over all of it counts for nothing. */
static void parts_differ(void **state)
{
    (void)state;
    static const double shift_s[SPANS] = {0, 0, 0, 1, 1, 1, 1, 2, 2};
    redco_trace *const predicted = one_step(&plainly), *const measured = new_trace();
    add_process(measured, 0, "rank");
    for (int i = 0; i < SPANS; i++) {
        struct span moved = step[i];
        moved.from_s += shift_s[i];
        moved.to_s += shift_s[i] + (i == 2 ? 1.0 : 0.0);
        add_span(measured, &moved, &plainly);
    }
    const struct span mark = {"all of it", "mark", COMPUTE, 0, 30, -1};
    add_span(measured, &mark, &plainly);
    redco_comparison *const c = compare_to(predicted, measured);
    check_near(c->measured.step_s, 19.0, 1e-9);
    check_near(c->measured.compute_s, 10.0, 1e-9);
    check_near(c->measured.wait_s, 6.5, 1e-9);
    check_near(c->measured.idle_s, 1.0, 1e-9);
    check_near(kind_of(c, "gather")->exposed.measured_s, 4.0, 1e-9);
    check_near(kind_of(c, "gather")->critical.measured_s, 7.0, 1e-9);
    check_near(c->critical_idle.measured_s, 1.0, 1e-9);
    check_near(c->critical_idle.predicted_s, 0.0, 1e-9);
    assert_string_equal(c->operators[0].name, "fwd/block.*/p/gather");
    check_near(c->operators[0].total.measured_s - c->operators[0].total.predicted_s, 1.0, 1e-9);
    assert_int_equal(c->extra, 0);
    redco_comparison_free(c);
    redco_trace_free(predicted);
    redco_trace_free(measured);
}

static void missing_extra_moved(void **state)
{
    (void)state;
    struct how how = plainly;
    redco_trace *const predicted = one_step(&plainly);
    how.without = 5; /* the reduction */
    redco_trace *const measured = one_step(&how);
    const struct span more[] = {{"re/block.0/a", "recompute", COMPUTE, 13, 14, 0},
                                {"fwd/block.0/a", "forward", COMPUTE, 14, 15, 0}}; /* the second of its name */
    for (int i = 0; i < 2; i++) { add_span(measured, &more[i], &plainly); }
    redco_comparison *c = compare_to(predicted, measured);
    assert_int_equal(c->matched, SPANS - 1);
    assert_int_equal(c->missing, 1);
    assert_int_equal(c->extra, 2);
    const redco_compare_operator *const bucket = operator_of(c, "bwd/gradients/bucket.*");
    assert_int_equal(bucket->missing_count, 1);
    check_near(bucket->missing_s, 3.0, 1e-9);
    check_near(bucket->total.measured_s, 0.0, 1e-9);
    assert_int_equal(operator_of(c, "re/block.*/a")->extra_count, 1);
    check_near(operator_of(c, "fwd/block.*/a")->extra_s, 1.0, 1e-9);
    check_near(kind_of(c, "recompute")->total.measured_s, 1.0, 1e-9);
    check_near(kind_of(c, "forward")->total.measured_s, 6.0, 1e-9);
    check_near(c->measured.compute_s, 12.0, 1e-9);
    redco_comparison_free(c);
    redco_trace_free(measured);
    /* A gather that the computing thread calls is waited for, and told. */
    redco_trace *const moved = new_trace();
    add_process(moved, 0, "rank");
    for (int i = 0; i < SPANS; i++) {
        struct span s = step[i];
        if (i == 0) { s.thread = COMPUTE; }
        add_span(moved, &s, &plainly);
    }
    c = compare_to(predicted, moved);
    assert_int_equal(c->other_stream, 1);
    assert_string_equal(c->other_stream_first, "fwd/block.0/p/gather on \"compute\" instead of \"parameters\"");
    check_time(&c->measured, 1.0);
    redco_comparison_free(c);
    redco_trace_free(moved);
    redco_trace_free(predicted);
}

/* A series of buckets that is cut into other pieces: none has no partner, and all together are compared. By hand: the
 * reduction's 3 s are predicted as three buckets, of which the last tells no micro-batch, and measured as one, two,
 * five. */
static void series_are_cut_differently(void **state)
{
    (void)state;
    static const char *const names[] = {"bwd/gradients/bucket.0", "bwd/gradients/bucket.1", "bwd/gradients/bucket.2",
                                        "bwd/gradients/bucket.3", "bwd/gradients/bucket.4"};
    struct how how = plainly;
    how.without = 5;
    redco_trace *const predicted = one_step(&how);
    for (int i = 0; i < 3; i++) {
        add_span(predicted, &(struct span){names[i], "grad_reduce", GRADIENTS, 12 + i, 13 + i, i < 2 ? 0 : -1},
                 &plainly);
    }
    for (int pieces = 1; pieces <= 5; pieces += pieces == 1 ? 1 : 3) {
        redco_trace *const measured = one_step(&how);
        for (int i = 0; i < pieces; i++) {
            const double each_s = 3.0 / pieces, from_s = 12 + i * each_s;
            add_span(measured, &(struct span){names[i], "grad_reduce", GRADIENTS, from_s, from_s + each_s, -1},
                     &plainly);
        }
        redco_comparison *const c = compare_to(predicted, measured);
        assert_int_equal(c->missing, 0);
        assert_int_equal(c->extra, 0);
        assert_int_equal(c->matched, SPANS - 1 + pieces);
        const redco_compare_operator *const bucket = operator_of(c, "bwd/gradients/bucket.*");
        check_near(bucket->total.predicted_s, 3.0, 1e-9);
        check_near(bucket->total.measured_s, 3.0, 1e-9);
        assert_int_equal(bucket->predicted_count, 3);
        assert_int_equal(bucket->measured_count, pieces);
        check_near(kind_of(c, "grad_reduce")->total.measured_s, 3.0, 1e-9);
        check_time(&c->measured, 1.0);
        redco_comparison_free(c);
        redco_trace_free(measured);
    }
    redco_trace_free(predicted);
}

/* Steps with numbers, from 1, and without; micro-batches that are not told; the first is left out, and one that was cut
 * short. Of four that count the middle two are averaged. */
static void several_steps(void **state)
{
    (void)state;
    redco_trace *const predicted = one_step(&plainly);
    for (int told = 0; told < 2; told++) {
        static const double stretches[] = {9.0, 1.1, 1.5, 1.2, 1.3};
        redco_trace *const measured = new_trace();
        double at_s = 0.0;
        add_process(measured, 0, "rank");
        for (int k = 0; k < 5; k++) {
            const struct how how = {.at_s = at_s,
                                    .stretch = stretches[k],
                                    .number = told ? k + 1 : -1,
                                    .without = -1,
                                    .no_micro_batches = told == 0};
            add_step(measured, &how);
            at_s += 17.0 * stretches[k] + 0.25;
        }
        const struct how cut = {
            .at_s = at_s, .stretch = 1.0, .number = told ? 6 : -1, .without = -1, .no_micro_batches = told == 0};
        add_span(measured, &step[0], &cut);
        add_span(measured, &step[1], &cut);
        redco_comparison *const c = compare_to(predicted, measured);
        assert_int_equal(c->step_count, 6);
        assert_int_equal(c->counted_steps, 4);
        assert_false(c->steps[0].counted);
        assert_false(c->steps[5].counted);
        check_near(c->steps[0].step_s, 153.0, 1e-9);
        check_time(&c->measured, 1.25);
        check_near(kind_of(c, "backward")->total.measured_s, 4.0 * 1.25, 1e-9);
        check_near(operator_of(c, "fwd/block.*/a")->total.measured_s, 5.0 * 1.25, 1e-9);
        check_near(c->ranks[0].step_s, 17.0 * 1.25, 1e-9);
        check_near(c->shown_to_s - c->shown_from_s, 17.0 * 1.2, 1e-9);
        assert_int_equal(c->matched, 4 * SPANS);
        assert_int_equal(c->missing, 0);
        redco_comparison_free(c);
        redco_trace_free(measured);
    }
    redco_trace_free(predicted);
}

/* Ranks in one file and in two, their clocks a day apart; the slower makes the step, and is shown. An operator that one
 * of them lacks is missing by half. */
static void several_ranks(void **state)
{
    (void)state;
    redco_trace *const predicted = one_step(&plainly);
    const struct how slow = {.process = 1, .at_s = 86400.0, .stretch = 1.5, .number = -1, .without = 4};
    for (uint32_t files = 1; files <= 2; files++) {
        redco_error err = {.status = REDCO_OK};
        redco_comparison *c = NULL;
        redco_trace *const one = one_step(&plainly), *const two = files == 2 ? new_trace() : one;
        add_process(two, 1, "rank 1");
        add_step(two, &slow);
        const redco_compare_source source = {predicted, "prediction"}, sources[] = {{one, "a"}, {two, "b"}};
        check_ok(redco_trace_compare(&source, sources, files, kinds, NULL, &c, &err), &err);
        assert_int_equal(c->rank_count, 2);
        check_near(c->measured.step_s, 25.5, 1e-6);
        check_near(c->ranks[0].step_s, 17.0, 1e-6);
        check_near(c->ranks[1].step_s, 25.5, 1e-6);
        assert_int_equal(c->shown_process, 1);
        assert_int_equal(c->shown_file, files - 1);
        /* Computation 10 s and 15 - 6; the faster rank idles for what the slower takes longer, the slower for its 6 s.
         */
        check_near(c->measured.compute_s, 0.5 * (10.0 + 9.0), 1e-6);
        check_near(c->measured.idle_s, 0.5 * (8.5 + 6.0), 1e-6);
        check_near(operator_of(c, "bwd/block.*/a")->missing_s, 2.0, 1e-6);
        check_near(operator_of(c, "fwd/block.*/a")->total.measured_s, 5.0 * 1.25, 1e-6);
        assert_false(c->critical_known);
        redco_comparison_free(c);
        if (files == 2) { redco_trace_free(two); }
        redco_trace_free(one);
    }
    redco_trace_free(predicted);
}

/* Files that number their processes alike are told apart by what they say whose they are. */
static void ranks_by_note(void **state)
{
    (void)state;
    static const char *const notes[][2] = {{"0 of 2", "1 of 2"}, {"1 of 2", "1 of 2"}};
    redco_trace *const predicted = one_step(&plainly);
    for (int same = 0; same < 2; same++) {
        redco_error err = {.status = REDCO_OK};
        redco_comparison *c = NULL;
        redco_trace *const one = one_step(&plainly), *const two = one_step(&plainly);
        redco_trace_add_note(one, "rank", notes[same][0]);
        redco_trace_add_note(two, "rank", notes[same][1]);
        const redco_compare_source source = {predicted, "prediction"}, sources[] = {{one, "a"}, {two, "b"}};
        const redco_status st = redco_trace_compare(&source, sources, 2, kinds, NULL, &c, &err);
        assert_int_equal(st, same ? REDCO_EVALUE : REDCO_OK);
        if (!same) {
            assert_int_equal(c->rank_count, 2);
            assert_string_equal(c->ranks[1].name, "rank 1 of 2");
            check_time(&c->measured, 1.0);
        }
        redco_comparison_free(c);
        redco_trace_free(one);
        redco_trace_free(two);
    }
    redco_trace_free(predicted);
}

/* Two stages, two micro-batches, as predicted and as measured; each stage measured in a file and with a clock of its
 * own. Predicted: stage 0 waits 4 to 8 and 11 to 13, stage 1 to 2.5 and from 12.5 on; both compute 10 s of 16 and send
 * twice half a second. Measured: the sends of stage 0 take a second each, all that follows comes half a second to one
 * second later: stage 0 waits 4 to 9 and 12 to 14, stage 1 to 3 and from 13 on, until stage 0 ends at 17. */
enum { PIPELINE = 6, STAGE_SPANS = 10 };
static const struct span stages_predicted[2][STAGE_SPANS] = {{{"fwd/block.0/a", "forward", COMPUTE, 0, 2, 0},
                                                              {"fwd/stage.0/send", "pipeline", PIPELINE, 2, 2.5, 0},
                                                              {"fwd/block.0/a", "forward", COMPUTE, 2, 4, 1},
                                                              {"fwd/stage.0/send", "pipeline", PIPELINE, 4, 4.5, 1},
                                                              {"bwd/block.0/a", "backward", COMPUTE, 8, 11, 0},
                                                              {"bwd/block.0/a", "backward", COMPUTE, 13, 16, 1}},
                                                             {{"fwd/block.1/a", "forward", COMPUTE, 2.5, 4.5, 0},
                                                              {"bwd/block.1/a", "backward", COMPUTE, 4.5, 7.5, 0},
                                                              {"bwd/stage.1/send", "pipeline", PIPELINE, 7.5, 8, 0},
                                                              {"fwd/block.1/a", "forward", COMPUTE, 7.5, 9.5, 1},
                                                              {"bwd/block.1/a", "backward", COMPUTE, 9.5, 12.5, 1},
                                                              {"bwd/stage.1/send", "pipeline", PIPELINE, 12.5, 13, 1}}};
static const struct span stages_measured[2][STAGE_SPANS] = {{{"fwd/block.0/a", "forward", COMPUTE, 0, 2, 0},
                                                             {"fwd/stage.0/send", "pipeline", PIPELINE, 2, 3, 0},
                                                             {"fwd/block.0/a", "forward", COMPUTE, 2, 4, 1},
                                                             {"fwd/stage.0/send", "pipeline", PIPELINE, 4, 5, 1},
                                                             {"bwd/stage.1/receive", "pipeline", PIPELINE, 5, 9, 0},
                                                             {"bwd/block.0/a", "backward", COMPUTE, 9, 12, 0},
                                                             {"bwd/stage.1/receive", "pipeline", PIPELINE, 9, 14, 1},
                                                             {"bwd/block.0/a", "backward", COMPUTE, 14, 17, 1}},
                                                            {{"fwd/stage.0/receive", "pipeline", PIPELINE, 0, 3, 0},
                                                             {"fwd/block.1/a", "forward", COMPUTE, 3, 5, 0},
                                                             {"fwd/stage.0/receive", "pipeline", PIPELINE, 3, 5, 1},
                                                             {"bwd/block.1/a", "backward", COMPUTE, 5, 8, 0},
                                                             {"bwd/stage.1/send", "pipeline", PIPELINE, 8, 8.5, 0},
                                                             {"fwd/block.1/a", "forward", COMPUTE, 8, 10, 1},
                                                             {"bwd/block.1/a", "backward", COMPUTE, 10, 13, 1},
                                                             {"bwd/stage.1/send", "pipeline", PIPELINE, 13, 13.5, 1}}};

static void add_stage(redco_trace *trace, const struct span *spans, const char *name, uint32_t process, double at_s)
{
    const struct how how = {.process = process, .at_s = at_s, .stretch = 1.0, .number = -1, .without = -1};
    add_process(trace, process, name);
    redco_trace_add_thread(trace, process, PIPELINE, "pipeline");
    for (int i = 0; i < STAGE_SPANS && spans[i].name != NULL; i++) { add_span(trace, &spans[i], &how); }
}

static void check_pair(redco_compare_pair pair, double predicted_s, double measured_s)
{
    check_near(pair.predicted_s, predicted_s, 1e-6);
    check_near(pair.measured_s, measured_s, 1e-6);
}

static void stage_by_stage(void **state)
{
    (void)state;
    static const double at_s[] = {100.0, 86400.0}, warm_up_s[2][2] = {{8, 9}, {4.5, 5}},
                        sent_s[2][2] = {{1, 2}, {1, 1}};
    static const char *const names[] = {"stage 0", "stage 1"};
    redco_error err = {.status = REDCO_OK};
    redco_comparison *c = NULL;
    redco_trace *const predicted = new_trace(), *const measured[] = {new_trace(), new_trace()};
    for (uint32_t s = 0; s < 2; s++) {
        add_stage(predicted, stages_predicted[s], names[s], s, 0.0);
        add_stage(measured[s], stages_measured[s], names[s], s, at_s[s]);
    }
    const redco_compare_source source = {predicted, "prediction"}, sources[] = {{measured[0], "a"}, {measured[1], "b"}};
    check_ok(redco_trace_compare(&source, sources, 2, kinds, NULL, &c, &err), &err);
    check_near(c->predicted.step_s, 16.0, 1e-6);
    check_near(c->measured.step_s, 17.0, 1e-6);
    assert_int_equal(c->matched, 12);
    assert_int_equal(c->missing + c->extra, 0);
    assert_int_equal(kind_of(c, "pipeline")->measured_count, 4);
    assert_int_equal(c->stage_count, 2);
    for (uint32_t s = 0; s < 2; s++) {
        const redco_compare_stage *const stage = &c->stages[s];
        assert_string_equal(stage->name, names[s]);
        assert_int_equal(stage->rank_count, 1);
        check_near(stage->predicted.compute_s, 10.0, 1e-6);
        check_near(stage->measured.compute_s, 10.0, 1e-6);
        check_pair((redco_compare_pair){stage->predicted.bubble_s, stage->measured.bubble_s}, 6.0, 7.0);
        check_pair(stage->warm_up, warm_up_s[s][0], warm_up_s[s][1]);
        check_pair(stage->transfers, sent_s[s][0], sent_s[s][1]);
        assert_int_equal(stage->predicted_count, 2);
        assert_int_equal(stage->measured_count, 2);
        assert_int_equal(stage->shown_file, s);
        assert_int_equal(stage->shown_process, s);
        check_near(stage->shown_from_s, at_s[s], 1e-6);
        check_near(stage->shown_to_s, at_s[s] + 17.0, 1e-6);
    }
    redco_comparison_free(c);
    for (uint32_t s = 0; s < 2; s++) { redco_trace_free(measured[s]); }
    redco_trace_free(predicted);
}

static void add_held(redco_trace *trace, uint32_t process, double at_s, double parameters, double other,
                     const char *other_name)
{
    redco_trace_add_counter(trace, "memory", process, at_s);
    redco_trace_add_arg(trace, "parameters", NULL, parameters);
    redco_trace_add_arg(trace, other_name, NULL, other);
}

/* Peaks of all, and of the categories that both sides name, which lie at other times. */
static void memory_is_compared(void **state)
{
    (void)state;
    redco_trace *const predicted = one_step(&plainly), *const measured = one_step(&plainly);
    redco_comparison *c = compare_to(predicted, measured);
    assert_false(c->memory.known);
    redco_comparison_free(c);
    add_held(predicted, 0, 0.0, 100.0, 30.0, "reserve");
    add_held(predicted, 0, 1.0, 105.0, 0.0, "reserve");
    add_held(measured, 0, 0.0, 110.0, 5.0, "workspace");
    add_held(measured, 0, 2.0, 90.0, 50.0, "workspace");
    redco_trace_add_counter(measured, "temperature", 0, 3.0);
    redco_trace_add_arg(measured, "parameters", NULL, 1e9);
    c = compare_to(predicted, measured);
    assert_true(c->memory.known);
    check_near(c->memory.predicted_bytes, 130.0, 0.0);
    check_near(c->memory.measured_bytes, 140.0, 0.0);
    check_near(c->memory.common_predicted_bytes, 105.0, 0.0);
    check_near(c->memory.common_measured_bytes, 110.0, 0.0);
    check_near(c->ranks[0].peak_bytes, 140.0, 0.0);
    assert_int_equal(c->memory.category_count, 3);
    assert_string_equal(c->memory.categories[2].name, "workspace");
    assert_true(isnan(c->memory.categories[2].predicted_bytes) && isnan(c->memory.categories[1].measured_bytes));
    check_near(c->memory.categories[0].measured_bytes, 90.0, 0.0);
    redco_comparison_free(c);
    redco_trace_free(predicted);
    redco_trace_free(measured);
}

static void refused(void **state)
{
    (void)state;
    redco_trace *const predicted = one_step(&plainly), *const empty = new_trace(), *const foreign = new_trace();
    const struct span kernel = {"aten::mm", "cpu_op", COMPUTE, 0, 1, -1};
    add_span(foreign, &kernel, &plainly);
    redco_trace *const stages = one_step(&plainly);
    const struct how second = {.process = 1, .stretch = 1.0, .number = -1, .without = -1};
    add_step(stages, &second);
    const struct {
        redco_compare_source predicted, measured[2];
        uint32_t count;
        const char *place, *words;
    } cases[] = {
        {{empty, "prediction"}, {{predicted, "a"}}, 1, "prediction", "no operators"},
        {{predicted, "prediction"}, {{empty, "a"}}, 1, "a", "no spans"},
        {{predicted, "prediction"}, {{foreign, "a"}}, 1, "a", "PyTorch"},
        {{predicted, "prediction"}, {{predicted, "a"}, {predicted, "b"}}, 2, "b", "as has a"},
        {{stages, "prediction"}, {{predicted, "a"}}, 1, "a", "2 pipeline stages"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        redco_error err = {.status = REDCO_OK};
        redco_comparison *c = NULL;
        assert_int_equal(
            redco_trace_compare(&cases[i].predicted, cases[i].measured, cases[i].count, kinds, NULL, &c, &err),
            REDCO_EVALUE);
        assert_string_equal(err.place, cases[i].place);
        if (strstr(err.text, cases[i].words) == NULL) { fail_msg("%zu: %s", i, err.text); }
    }
    redco_trace_free(stages);
    redco_trace_free(foreign);
    redco_trace_free(empty);
    redco_trace_free(predicted);
}

/* A simulated step against itself, through a file's text: no difference; and the account read from its spans is the
 * simulator's own. */
static void simulated(uint32_t pp)
{
    struct fixture b;
    redco_error err = {.status = REDCO_OK};
    fixture_open(&b, "llama-7b", a800_machine(4), plain_workload(64));
    redco_parallelism parallelism = plain_setting(&b, 1);
    if (pp > 1) {
        parallelism.pp = pp;
        parallelism.dp = (redco_mesh){8, 4 / pp};
        parallelism.micro_batches *= pp;
    }
    redco_assignment all[8];
    const redco_layer_class *classes = NULL;
    const uint32_t n = (uint32_t)redco_model_classes(b.model, &classes);
    for (uint32_t i = 0; i < n; i++) {
        all[i] = (redco_assignment){i, classes[i].layers, {{{8, 1}, {8, 1}, {8, 1}}, REDCO_RECOMPUTE_NONE}};
    }
    redco_trace *predicted = NULL, *measured = NULL;
    redco_trace_load_report report;
    redco_comparison *c = NULL;
    redco_simulation simulation;
    const char *works[REDCO_WORK_COUNT + 1] = {NULL};
    char *text = NULL;
    size_t size = 0;
    for (int w = 0; w < REDCO_WORK_COUNT; w++) { works[w] = redco_work_name((redco_work)w); }
    check_ok(redco_simulate(b.costs, &parallelism, all, n, NULL, &simulation, &err), &err);
    check_ok(redco_simulate_trace(b.costs, &parallelism, all, n, NULL, &predicted, &err), &err);
    check_ok(redco_trace_text(predicted, &text, &size, &err), &err);
    char path[MEMORY_FILE_PATH_BYTES];
    FILE *const file = memory_file(text, size, path);
    check_ok(redco_trace_load(path, NULL, &measured, &report, &err), &err);
    (void)fclose(file);
    assert_int_equal(report.ignored + report.unpaired + report.duplicates, 0);
    const redco_compare_source sources[] = {{predicted, "prediction"}, {measured, "trace"}};
    check_ok(redco_trace_compare(&sources[0], &sources[1], 1, works, NULL, &c, &err), &err);
    const redco_compare_time *const p = &c->predicted, *const m = &c->measured;
    const double slack_s = 1e-6 * simulation.step_s;
    check_near(p->step_s, simulation.step_s, slack_s);
    check_near(m->step_s, p->step_s, slack_s);
    check_near(m->compute_s, p->compute_s, slack_s);
    check_near(m->wait_s, p->wait_s, slack_s);
    check_near(m->bubble_s, p->bubble_s, slack_s);
    check_near(m->covered_s, p->covered_s, slack_s);
    check_near(p->compute_s + p->launch_s + p->overhead_s + p->wait_s + p->bubble_s + p->idle_s, p->step_s, slack_s);
    check_near(c->memory.measured_bytes, (double)simulation.peak.bytes, 0.5);
    assert_int_equal(c->missing + c->extra + c->other_stream, 0);
    check_near(fabs(c->operators[0].total.predicted_s - c->operators[0].total.measured_s), 0.0, slack_s);
    const redco_account *const account = &simulation.account;
    if (pp == 1) { /* in a pipeline the comparison has the mean of stages, the simulator the busiest */
        check_near(p->wait_s + p->launch_s + account->contention_s, simulation.exposed_comm_s, slack_s);
        check_near(p->compute_s, simulation.compute_s + account->busy_s[REDCO_WORK_OPTIMIZER] + account->contention_s,
                   slack_s);
        check_near(p->idle_s, 0.0, slack_s);
        check_near(kind_of(c, "gather")->exposed.predicted_s, account->waiting_s[REDCO_WORK_GATHER], slack_s);
    } else {
        assert_true(p->bubble_s > 0.0);
    }
    free(text);
    redco_comparison_free(c);
    redco_trace_free(measured);
    redco_trace_free(predicted);
    fixture_close(&b);
}

static void simulated_step(void **state)
{
    (void)state;
    simulated(1);
}

static void simulated_pipeline(void **state)
{
    (void)state;
    simulated(2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_and_stretched),  cmocka_unit_test(parts_differ),
        cmocka_unit_test(missing_extra_moved), cmocka_unit_test(series_are_cut_differently),
        cmocka_unit_test(several_steps),       cmocka_unit_test(several_ranks),
        cmocka_unit_test(ranks_by_note),       cmocka_unit_test(stage_by_stage),
        cmocka_unit_test(memory_is_compared),  cmocka_unit_test(refused),
        cmocka_unit_test(simulated_step),      cmocka_unit_test(simulated_pipeline),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
