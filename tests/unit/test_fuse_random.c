/* Random graphs of elementwise operators, fused, against the graphs as they were: not one bit of a result differs.
 * REDCO_TEST_ROUNDS, REDCO_TEST_SEED: more, or other, random graphs. */
#include "evaluate_planned.h"
#include "fusion_checks.h"
#include "random_elementwise.h"

#include "costmodel/graph/pointwise_program.h"
#include "executor/backend/host/host.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static redco_backend *host(void **state)
{
    return *state;
}

/* Random graphs */

/** Programs of at most so many steps, of some types: what the pass does must not depend on a device that has all. */
static bool some(void *context, const redco_op *op, const redco_tensor_type *inputs, const redco_tensor_type *outputs)
{
    const uint32_t limit = *(const uint32_t *)context;
    redco_pointwise p;
    assert_true(redco_pointwise_unpack(&op->attributes, op->input_count, &p));
    for (uint32_t i = 0; i < op->input_count && limit % 3 == 0; i++) {
        if (inputs[i].dtype == REDCO_F64) { return false; }
    }
    (void)outputs;
    return p.step_count <= limit;
}

typedef struct tally {
    uint64_t graphs, operators, programs, steps, made_again, results;
    uint64_t bytes_before, bytes_after;
} tally;

static void check_random(redco_backend *backend, uint64_t seed, tally *t)
{
    static const redco_dtype dtypes[] = {REDCO_F32, REDCO_BFLOAT16, REDCO_F16, REDCO_F64, REDCO_I32, REDCO_BOOL};
    static elementwise_graph m;
    redco_binding rebound[ELEMENTWISE_INPUTS];
    redco_result want[ELEMENTWISE_RESULTS], have[ELEMENTWISE_RESULTS];
    redco_value fused_outputs[ELEMENTWISE_RESULTS];
    redco_graph *fused = NULL;
    redco_error err = {0};
    elementwise_make(&m, seed, dtypes, 6);
    fusion_must(redco_graph_status(m.g, &err), &err);
    const uint32_t results = m.output_count;
    const redco_value *const outputs = m.outputs;
    uint32_t limit = 1 + elementwise_below(&m, 40);
    const redco_fuse_options options = {.choice = {elementwise_below(&m, 3) == 0 ? some : NULL, &limit},
                                        .keep_all = elementwise_below(&m, 4) == 0};
    fusion_must(redco_graph_fuse(m.g, outputs, results, &options, &fused, fused_outputs, &err), &err);
    fusion_check_promises(m.g, outputs, fused, fused_outputs, results, &options);
    const uint32_t bound = elementwise_rebind(&m, fused, rebound);
    for (uint32_t i = 0; i < results; i++) {
        const size_t bytes = redco_type_bytes(redco_value_type(m.g, outputs[i]));
        want[i] = (redco_result){outputs[i], malloc(bytes)};
        have[i] = (redco_result){fused_outputs[i], malloc(bytes)};
    }
    const redco_lifetimes_options lifetimes = {.order = NULL};
    fusion_must(redco_evaluate(backend, m.g, m.bindings, ELEMENTWISE_INPUTS, want, results, &err), &err);
    fusion_must(
        redco_evaluate_planned(backend, NULL, fused, &lifetimes, rebound, bound, have, results, true, NULL, &err),
        &err);
    for (uint32_t i = 0; i < results; i++) {
        const size_t bytes = redco_type_bytes(redco_value_type(m.g, outputs[i]));
        if (memcmp(want[i].data, have[i].data, bytes) != 0) {
            fail_msg("seed %llu: result %u differs", (unsigned long long)seed, i);
        }
        free(want[i].data);
        free(have[i].data);
    }
    t->graphs++;
    t->operators += redco_graph_op_count(m.g);
    t->bytes_before += fusion_elementwise_bytes(m.g, outputs, results, NULL, NULL);
    t->bytes_after += fusion_elementwise_bytes(fused, fused_outputs, results, NULL, NULL);
    for (uint32_t i = 0; i < redco_graph_op_count(fused); i++) {
        const redco_op *const op = redco_graph_op(fused, i);
        redco_pointwise p;
        if (op->kind != REDCO_OP_POINTWISE || !redco_pointwise_unpack(&op->attributes, op->input_count, &p)) {
            continue;
        }
        t->programs++;
        t->steps += p.step_count;
        t->results += p.output_count;
    }
    redco_graph_free(m.g);
    redco_graph_free(fused);
}

static void random_graphs_are_the_same(void **state)
{
    const char *const rounds = getenv("REDCO_TEST_ROUNDS"), *const seed = getenv("REDCO_TEST_SEED");
    const uint64_t count = rounds == NULL ? 2000 : strtoull(rounds, NULL, 10);
    const uint64_t first = seed == NULL ? 1 : strtoull(seed, NULL, 10);
    tally t = {0};
    for (uint64_t i = 0; i < count; i++) { check_random(host(state), first + i, &t); }
    printf("%llu random graphs of %llu operators: %llu programs of %llu steps and %llu results; bytes moved %llu, "
           "now %llu\n",
           (unsigned long long)t.graphs, (unsigned long long)t.operators, (unsigned long long)t.programs,
           (unsigned long long)t.steps, (unsigned long long)t.results, (unsigned long long)t.bytes_before,
           (unsigned long long)t.bytes_after);
    assert_true(t.programs > t.graphs && t.steps > 2 * t.programs && t.results > t.programs);
    assert_true(t.bytes_after < t.bytes_before);
}

static int open_host(void **state)
{
    redco_backend *backend = NULL;
    redco_error err = {0};
    if (redco_host_open(NULL, &backend, &err) != REDCO_OK) { return 1; }
    *state = backend;
    return 0;
}

static int close_host(void **state)
{
    redco_backend_close(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_are_the_same)};
    return cmocka_run_group_tests_name("fusion of random graphs", tests, open_host, close_host);
}
