/* Lifetimes of small graphs, counted by hand; what lies outside; orders that are refused; the poison. */
#include "costmodel/graph/build_calls.h"
#include "executor/backend/host/host.h"
#include "executor/memory_plan/planned_memory.h"
#include "poison_memory.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N = 8, BYTES = N * N * 4 };

static redco_backend *open_backend(void)
{
    redco_backend *backend = NULL;
    assert_int_equal(redco_host_open(NULL, &backend, NULL), REDCO_OK);
    return backend;
}

static redco_value square(redco_graph *g, const char *name)
{
    const redco_tensor_type type = redco_type(REDCO_F32, 2, (const uint64_t[]){N, N});
    return redco_input(g, name, &type);
}

static redco_lifetimes find(const redco_graph *g, const redco_lifetimes_options *options)
{
    redco_lifetimes l;
    redco_error err = {0};
    if (redco_lifetimes_find(g, options, &l, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    return l;
}

static void check_interval(const redco_lifetimes *l, redco_value value, uint32_t first, uint32_t last)
{
    assert_int_equal(l->place[value].kind, REDCO_PLACE_ARENA);
    const redco_interval i = l->intervals[l->place[value].index];
    assert_int_equal(i.first, first);
    assert_int_equal(i.last, last);
}

/* step 0: a = x x; 1: b = exp a, over a; 2: c = b x; 3: d = b + c, over b; 4: e = d x */
static void test_in_place(void **state)
{
    (void)state;
    redco_graph *const g = redco_graph_create();
    const redco_value x = square(g, "x"), a = redco_matmul(g, x, x, false, false), b = redco_exp(g, a);
    const redco_value c = redco_matmul(g, b, x, false, false), d = redco_add(g, b, c);
    const redco_value e = redco_matmul(g, d, x, false, false);
    (void)redco_exp(g, e); /* nobody wants it */
    const redco_lifetimes_options options = {.kept = &e, .kept_count = 1};
    redco_lifetimes l = find(g, &options);
    assert_int_equal(l.step_count, 5);
    assert_int_equal(l.place[x].kind, REDCO_PLACE_INPUT);
    assert_int_equal(l.place[a].index, l.place[b].index);
    assert_int_equal(l.place[b].index, l.place[d].index);
    check_interval(&l, a, 0, 4);
    check_interval(&l, c, 2, 3);
    check_interval(&l, e, 4, 4);
    assert_int_equal(l.interval_count, 3);
    assert_int_equal(l.intervals[0].size_bytes, BYTES);
    assert_int_equal(l.last_step[e], 5);
    redco_lifetimes_free(&l);
    redco_graph_free(g);
}

/* A value that others still read is not written over: b is read by c after d was made. */
static void test_not_in_place(void **state)
{
    (void)state;
    redco_graph *const g = redco_graph_create();
    const redco_value x = square(g, "x"), b = redco_exp(g, x), d = redco_exp(g, b);
    const redco_value c = redco_matmul(g, b, d, false, false);
    const redco_lifetimes_options options = {.outside = &c, .outside_count = 1};
    redco_lifetimes l = find(g, &options);
    assert_int_not_equal(l.place[b].index, l.place[d].index);
    check_interval(&l, b, 0, 2);
    check_interval(&l, d, 1, 2);
    assert_int_equal(l.place[c].kind, REDCO_PLACE_OUTSIDE);
    assert_int_equal(l.interval_count, 2);
    redco_lifetimes_free(&l);
    redco_graph_free(g);
}

/* A view is its input; results that are views, inputs or stand twice. */
static void test_outside(void **state)
{
    (void)state;
    redco_graph *const g = redco_graph_create();
    const redco_value x = square(g, "x"), a = redco_matmul(g, x, x, false, false);
    const redco_value flat = redco_reshape(g, a, 1, (const uint64_t[]){N * N}), b = redco_exp(g, flat);
    const redco_value outside[] = {flat, a, x, b, b};
    const redco_lifetimes_options options = {.outside = outside, .outside_count = 5};
    const bool copied[] = {false, true, true, false, true};
    redco_lifetimes l = find(g, &options);
    for (uint32_t i = 0; i < 5; i++) { assert_int_equal(l.copied[i], copied[i]); }
    assert_int_equal(l.place[a].kind, REDCO_PLACE_OUTSIDE);
    assert_int_equal(l.place[a].index, 0);
    assert_int_equal(l.place[flat].index, 0);
    assert_int_equal(l.place[b].index, 3);
    assert_int_equal(l.place[x].kind, REDCO_PLACE_INPUT);
    assert_int_equal(l.interval_count, 0);
    assert_int_equal(l.last_step[a], l.step_count); /* it is to be copied at the end */
    redco_lifetimes_free(&l);
    redco_graph_free(g);
}

static void check_refused(const redco_graph *g, const uint32_t *order, uint32_t count, redco_value wanted,
                          const char *text)
{
    const redco_lifetimes_options options = {
        .order = order, .order_count = count, .outside = &wanted, .outside_count = 1};
    redco_lifetimes l;
    redco_error err = {0};
    assert_int_equal(redco_lifetimes_find(g, &options, &l, &err), REDCO_EVALUE);
    assert_string_equal(err.text, text);
}

static void test_orders(void **state)
{
    (void)state;
    redco_graph *const g = redco_graph_create();
    const redco_value x = square(g, "x"), a = redco_exp(g, x), b = redco_matmul(g, x, x, false, false);
    const redco_value c = redco_add(g, a, b);
    const uint32_t oa = redco_value_op(g, a)->id, ob = redco_value_op(g, b)->id, oc = redco_value_op(g, c)->id;
    const uint32_t swapped[] = {ob, oa, oc}, early[] = {oa, oc, ob}, twice[] = {oa, ob, oa, oc}, missing[] = {oa, ob};
    const uint32_t unknown[] = {99};
    redco_lifetimes_options options = {.order = swapped, .order_count = 3, .outside = &c, .outside_count = 1};
    redco_lifetimes l = find(g, &options);
    check_interval(&l, b, 0, 2);
    check_interval(&l, a, 1, 2);
    assert_int_equal(l.outside_step[0], 2);
    redco_lifetimes_free(&l);
    options.outside_early = true;
    l = find(g, &options);
    assert_int_equal(l.place[b].kind, REDCO_PLACE_OUTSIDE); /* the sum is written over what was made first */
    assert_int_equal(l.outside_step[0], 0);
    check_interval(&l, a, 1, 2);
    redco_lifetimes_free(&l);
    check_refused(g, early, 3, c, "input 1 is made later in the order");
    check_refused(g, twice, 4, c, "stands twice in the order");
    check_refused(g, missing, 2, c, "is missing in the order");
    check_refused(g, unknown, 1, c, "99 is no operator of this graph");
    check_refused(g, swapped, 3, 1000, "result 0 is no value of this graph");
    redco_graph_free(g);
}

/* With an order that lies about lifetimes the poison shows: here one interval is cut short by hand. */
static void test_poison(void **state)
{
    (void)state;
    redco_backend *const backend = open_backend();
    redco_graph *const g = redco_graph_create();
    const redco_value x = square(g, "x"), a = redco_matmul(g, x, x, false, false), b = redco_exp(g, x);
    const redco_value c = redco_matmul(g, b, x, false, false), d = redco_add(g, a, c);
    const redco_lifetimes_options options = {.backend = backend, .outside = &d, .outside_count = 1};
    redco_memory_plan plan;
    redco_device_stream *stream = NULL;
    float data[N * N], result[N * N];
    void *inputs[8] = {0}, *outside[1] = {result}, *arena = NULL;
    for (uint32_t i = 0; i < N * N; i++) { data[i] = 0.01F * (float)i; }
    inputs[x] = data;
    assert_int_equal(redco_memory_plan_make(g, &options, &plan, NULL), REDCO_OK);
    assert_int_equal(plan.arena.bytes, plan.arena.live_bytes);
    assert_int_equal(backend->calls->stream_create(backend, REDCO_DEVICE_STREAM_COMPUTATION, &stream, NULL), REDCO_OK);
    assert_int_equal(backend->calls->allocate(backend, REDCO_MEMORY_DEVICE, plan.arena.bytes, &arena, NULL), REDCO_OK);
    const redco_memory_map map = {g, &plan, arena, inputs, outside};
    for (uint32_t cut = 0; cut < 2; cut++) {
        if (cut == 1) { plan.lifetimes.intervals[plan.lifetimes.place[a].index].last = 1; }
        assert_int_equal(poison_memory(&map, backend, stream, REDCO_NO_OP, NULL), REDCO_OK);
        for (uint32_t s = 0; s < plan.lifetimes.step_count; s++) {
            assert_int_equal(redco_memory_run(&map, backend, stream, NULL, plan.lifetimes.order[s], NULL), REDCO_OK);
            assert_int_equal(poison_memory(&map, backend, stream, s, NULL), REDCO_OK);
        }
        assert_int_equal(isnan(result[0]) != 0, cut == 1);
    }
    backend->calls->release(backend, REDCO_MEMORY_DEVICE, arena);
    backend->calls->stream_free(backend, stream);
    redco_memory_plan_free(&plan);
    redco_graph_free(g);
    redco_backend_close(backend);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_in_place), cmocka_unit_test(test_not_in_place),
                                       cmocka_unit_test(test_outside), cmocka_unit_test(test_orders),
                                       cmocka_unit_test(test_poison)};
    return cmocka_run_group_tests_name("lifetimes", tests, NULL, NULL);
}
