/* The event engine against graphs done by hand. */
#include "cost_fixture.h"
#include "costmodel/simulator/simulate.h"

static const redco_step_op plain = {.traffic = REDCO_STEP_NONE, .layer = REDCO_STEP_NONE, .micro_batch = 0};

struct graph {
    redco_step *step;
    redco_timeline *timeline;
};

static struct graph graph_new(uint32_t ranks, double overlap_ratio)
{
    const struct graph g = {redco_step_new(ranks, overlap_ratio), NULL};
    assert_non_null(g.step);
    return g;
}

static void run(struct graph *g)
{
    redco_error err = {.status = REDCO_OK};
    check_ok(redco_step_finish(g->step, &err), &err);
    check_ok(redco_timeline_create(g->step, &g->timeline, &err), &err);
    check_ok(redco_timeline_check(g->timeline, &err), &err);
}

static void graph_free(struct graph *g)
{
    redco_timeline_free(g->timeline);
    redco_step_free(g->step);
}

static uint32_t add(struct graph *g, const char *name, redco_stream stream, double seconds, uint32_t input)
{
    redco_step_op op = plain;
    op.label = redco_step_add_label(g->step, name);
    op.stream = (uint8_t)stream;
    op.work = stream == REDCO_STREAM_COMPUTE ? REDCO_WORK_FORWARD : REDCO_WORK_GATHER;
    op.link = stream == REDCO_STREAM_COMPUTE ? REDCO_LINK_NONE : REDCO_LINK_NVLINK;
    op.contends = true;
    op.seconds = seconds;
    return redco_step_add(g->step, &op, &input, input != REDCO_STEP_NONE ? 1 : 0);
}

static void at(const struct graph *g, uint32_t op, double start_s, double end_s)
{
    check_near(g->timeline->start_s[op], start_s, 1e-12);
    check_near(g->timeline->end_s[op], end_s, 1e-12);
}

/* Two layers a and b of two modules each; a gather takes 1 s and 10 bytes, a module 2 s. Gathers run ahead, the GPU and
 * the link do not disturb one another:
 *   link     a1 0-1  a2 1-2  b1 2-3  b2 3-4
 *   compute          a1 1-3  a2 3-5  b1 5-7  b2 7-9
 *   bytes    10 from 0, 20 from 1, 30 from 2; at 3 a1 gives back what b2 takes; 20 from 5, 10 from 7, none from 9 */
static void layers_ahead(void **state)
{
    (void)state;
    static const char *const names[] = {"a1", "a2", "b1", "b2"};
    struct graph g = graph_new(1, 1.0);
    uint32_t gathers[4], modules[4];
    for (int i = 0; i < 4; i++) {
        gathers[i] = add(&g, names[i], REDCO_STREAM_PARAMETERS, 1.0, REDCO_STEP_NONE);
        redco_step_add_memory(g.step, REDCO_CATEGORY_GATHERED, 10);
    }
    for (int i = 0; i < 4; i++) {
        modules[i] = add(&g, names[i], REDCO_STREAM_COMPUTE, 2.0, gathers[i]);
        redco_step_add_memory(g.step, REDCO_CATEGORY_GATHERED, -10);
    }
    run(&g);
    for (int i = 0; i < 4; i++) {
        at(&g, gathers[i], i, i + 1.0);
        at(&g, modules[i], 2.0 * i + 1.0, 2.0 * i + 3.0);
    }
    check_near(g.timeline->span_s, 9.0, 1e-12);
    assert_int_equal(g.timeline->peaks[0].bytes, 30);
    assert_int_equal(g.timeline->peaks[0].op, gathers[2]);
    /* a1's gather, then all modules */
    assert_int_equal(g.timeline->last, modules[3]);
    for (int i = 3; i > 0; i--) { assert_int_equal(g.timeline->cause[modules[i]], modules[i - 1]); }
    assert_int_equal(g.timeline->cause[modules[0]], gathers[0]);
    assert_int_equal(g.timeline->cause[gathers[0]], REDCO_STEP_NONE);
    const redco_account account = redco_timeline_account(g.timeline, 0, REDCO_ALL_MICRO_BATCHES);
    check_near(account.waiting_s[REDCO_WORK_GATHER], 1.0, 1e-12);
    check_near(account.busy_s[REDCO_WORK_FORWARD], 8.0, 1e-12);
    redco_memory_point *points = NULL;
    uint32_t count = 0;
    redco_error err = {.status = REDCO_OK};
    check_ok(redco_timeline_memory(g.timeline, 0, &points, &count, &err), &err);
    static const double times[] = {0.0, 1.0, 2.0, 3.0, 5.0, 7.0, 9.0};
    static const uint64_t bytes[] = {10, 20, 30, 30, 20, 10, 0};
    assert_int_equal(count, 7);
    for (uint32_t i = 0; i < count; i++) {
        check_near(points[i].time_s, times[i], 1e-12);
        assert_int_equal(points[i].held_bytes[REDCO_CATEGORY_GATHERED], bytes[i]);
    }
    free(points);
    graph_free(&g);
}

/* SIMULATOR.md: hide(C, X) = C + k min(X, y C) + max(0, X - y C). C 10, X 4, y 0.8, k 0.25: 10 + 1 = 11. C 4, X 10: y C
 * = 3.2, 4 + 0.8 + 6.8 = 11.6. */
static void contention(void **state)
{
    (void)state;
    static const double cases[2][3] = {{10.0, 4.0, 11.0}, {4.0, 10.0, 11.6}};
    for (int i = 0; i < 2; i++) {
        struct graph g = graph_new(1, 0.8);
        const redco_step_traffic traffic = {.op = REDCO_ALL_GATHER, .calls = 1, .contention_ratio = 0.25};
        redco_step_op op = plain;
        op.seconds = cases[i][1];
        op.stream = REDCO_STREAM_PARAMETERS;
        op.work = REDCO_WORK_GATHER;
        op.link = REDCO_LINK_NETWORK;
        op.contends = true;
        op.label = redco_step_add_label(g.step, "x");
        op.traffic = redco_step_add_traffic(g.step, &traffic);
        (void)redco_step_add(g.step, &op, NULL, 0);
        (void)add(&g, "c", REDCO_STREAM_COMPUTE, cases[i][0], REDCO_STEP_NONE);
        run(&g);
        check_near(g.timeline->span_s, cases[i][2], 1e-12);
        const redco_account account = redco_timeline_account(g.timeline, 0, REDCO_ALL_MICRO_BATCHES);
        /* All time is accounted for: work, slow-down, and the wait for what is left of X. */
        check_near(account.busy_s[REDCO_WORK_FORWARD] + account.contention_s + account.waiting_s[REDCO_WORK_GATHER],
                   cases[i][2], 1e-12);
        graph_free(&g);
    }
}

/* Two collectives of 3 s and 1 s on one link: half speed each, the short one ends at 2, the long one has 2 s left: 4.
 * On different links 3 and 1. */
static void links_are_shared(void **state)
{
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct graph g = graph_new(1, 1.0);
        const uint32_t one = add(&g, "long", REDCO_STREAM_PARAMETERS, 3.0, REDCO_STEP_NONE);
        redco_step_op op = plain;
        op.seconds = 1.0;
        op.stream = REDCO_STREAM_GRADIENTS;
        op.work = REDCO_WORK_REDUCE;
        op.link = shared ? REDCO_LINK_NVLINK : REDCO_LINK_NETWORK;
        op.label = redco_step_add_label(g.step, "short");
        const uint32_t two = redco_step_add(g.step, &op, NULL, 0);
        run(&g);
        at(&g, one, 0.0, shared ? 4.0 : 3.0);
        at(&g, two, 0.0, shared ? 2.0 : 1.0);
        graph_free(&g);
    }
}

/* Rank 1 waits for rank 0's second operator, rank 0 for nothing: 1 + 2, then 4. A stream keeps its order even where a
 * later operator could run: the third of rank 1 waits behind the second. */
static void ranks_and_order(void **state)
{
    (void)state;
    struct graph g = graph_new(2, 1.0);
    (void)add(&g, "r0a", REDCO_STREAM_COMPUTE, 1.0, REDCO_STEP_NONE);
    const uint32_t source = add(&g, "r0b", REDCO_STREAM_COMPUTE, 2.0, REDCO_STEP_NONE);
    redco_step_op op = plain;
    op.rank = 1;
    op.seconds = 4.0;
    op.label = redco_step_add_label(g.step, "r1");
    const uint32_t waits = redco_step_add(g.step, &op, &source, 1);
    const uint32_t behind = redco_step_add(g.step, &op, NULL, 0);
    run(&g);
    at(&g, waits, 3.0, 7.0);
    at(&g, behind, 7.0, 11.0);
    const redco_account account = redco_timeline_account(g.timeline, 1, REDCO_ALL_MICRO_BATCHES);
    check_near(account.waiting_s[REDCO_WORK_FORWARD], 3.0, 1e-12); /* the other rank computes */
    graph_free(&g);
}

/* The check finds what it promises to find. */
static void check_finds_faults(void **state)
{
    (void)state;
    static const char *const wants[] = {"starts before its inputs", "runs beside another", "faster than alone",
                                        "ends after the step", "does not start when its cause ends"};
    for (int fault = 0; fault < 5; fault++) {
        struct graph g = graph_new(1, 1.0);
        redco_error err = {.status = REDCO_OK};
        const uint32_t gather = add(&g, "gather", REDCO_STREAM_PARAMETERS, 2.0, REDCO_STEP_NONE);
        const uint32_t first = add(&g, "first", REDCO_STREAM_COMPUTE, 1.0, gather);
        const uint32_t second = add(&g, "second", REDCO_STREAM_COMPUTE, 1.0, REDCO_STEP_NONE);
        run(&g);
        if (fault == 0) { g.timeline->start_s[first] = 1.0; }
        if (fault == 1) { g.timeline->start_s[second] = 2.5; }
        if (fault == 2) { g.timeline->end_s[gather] = 1.0; }
        if (fault == 3) { g.timeline->end_s[second] = 9.0; }
        if (fault == 4) { g.timeline->cause[second] = gather; }
        assert_int_equal(redco_timeline_check(g.timeline, &err), REDCO_EVALUE);
        if (strstr(err.text, wants[fault]) == NULL) { fail_msg("%d: %s %s", fault, err.place, err.text); }
        graph_free(&g);
    }
}

/* Input that cannot be a graph is refused, not run. */
static void bad_graphs(void **state)
{
    (void)state;
    redco_error err = {.status = REDCO_OK};
    struct graph g = graph_new(1, 1.0);
    (void)add(&g, "waits for itself", REDCO_STREAM_COMPUTE, 1.0, 0);
    assert_int_equal(redco_step_finish(g.step, &err), REDCO_EVALUE);
    graph_free(&g);
    assert_null(redco_step_new(0, 1.0));
    g = graph_new(1, 1.0);
    redco_error_clear(&err);
    (void)add(&g, "never ends", REDCO_STREAM_COMPUTE, 1.0 / 0.0, REDCO_STEP_NONE);
    check_ok(redco_step_finish(g.step, &err), &err);
    assert_int_equal(redco_timeline_create(g.step, &g.timeline, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "never ends");
    g.timeline = NULL;
    graph_free(&g);
    g = graph_new(3, 1.0); /* nothing to do takes no time */
    redco_error_clear(&err);
    check_ok(redco_timeline_create(g.step, &g.timeline, &err), &err);
    check_ok(redco_timeline_check(g.timeline, &err), &err);
    check_near(g.timeline->span_s, 0.0, 0.0);
    graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(layers_ahead),       cmocka_unit_test(contention),
                                       cmocka_unit_test(links_are_shared),   cmocka_unit_test(ranks_and_order),
                                       cmocka_unit_test(check_finds_faults), cmocka_unit_test(bad_graphs)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
