/* Graphs that keep less, run from a planned arena whose freed parts are overwritten, against the graph as it is: not
 * one bit of loss or gradients may differ. All families, all policies, on one rank and on ranks that are processes. */
#include "evaluate_planned.h"
#include "language_fixture.h"
#include "processes.h"

#include "costmodel/kept/recompute.h"
#include "executor/backend/host/host.h"
#include "executor/comm/graph_collectives.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { SEQUENCES = 2, LENGTH = 12 };

static const char *const configs[] = {"llama", "llama-scaled", "mistral", "qwen2",    "qwen3",
                                      "gpt2",  "gpt2-variant", "gptj",    "gpt_neox", "gpt_neox-sequential",
                                      "opt",   "opt-post-norm"};
enum { CONFIGS = sizeof configs / sizeof configs[0], POLICIES = 4 };

static const char *const policy_names[POLICIES] = {"none", "selective", "full", "mixed"};

static redco_recompute policy_of(void *context, const char *layer)
{
    static const redco_recompute same[] = {REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_CORE_ATTN, REDCO_RECOMPUTE_FULL};
    const uint32_t policy = *(const uint32_t *)context;
    if (strncmp(layer, "block.", 6) != 0) { return REDCO_RECOMPUTE_NONE; }
    if (policy < 3) { return same[policy]; }
    return strcmp(layer, "block.0") == 0 ? REDCO_RECOMPUTE_FULL : REDCO_RECOMPUTE_CORE_ATTN;
}

static void model_path(const char *config, char path[512])
{
    (void)snprintf(path, 512, "%s/models/oracle/%s.json", REDCO_TEST_DATA, config);
}

typedef struct outcome {
    redco_result results[LANGUAGE_PARAMETERS_MAX + 1];
    uint32_t count;
} outcome;

static void prepare(outcome *o, const redco_graph *graph, const redco_value *values, uint32_t count)
{
    o->count = count;
    for (uint32_t i = 0; i < count; i++) {
        o->results[i] = (redco_result){values[i], malloc(redco_type_bytes(redco_value_type(graph, values[i])) + 1)};
    }
}

static void discard(outcome *o)
{
    for (uint32_t i = 0; i < o->count; i++) { free(o->results[i].data); }
}

typedef struct job {
    const char *config;
    language_shape shape;
    redco_backend *backend;
    const redco_collectives *collectives;
} job;

/* @return operators that were repeated, or UINT32_MAX after a failure, which it prints */
static uint32_t compare(const job *j, const language *l, const outcome *want, uint32_t policy)
{
    const redco_recompute_options options = {policy_of, &policy, j->shape.sequence_parallel};
    static redco_binding bindings[LANGUAGE_PARAMETERS_MAX + 3];
    redco_value outputs[LANGUAGE_PARAMETERS_MAX + 1];
    redco_graph *graph = NULL;
    redco_error err = {0};
    outcome have = {.count = 0};
    uint32_t repeated = UINT32_MAX;
    if (redco_recompute_graph(l->graph, l->outputs, l->output_count, &options, &graph, outputs, &err) != REDCO_OK) {
        goto out;
    }
    prepare(&have, graph, outputs, l->output_count);
    const uint32_t bound = language_rebind(l, graph, bindings);
    const redco_lifetimes_options lifetimes = {.order = NULL};
    if (redco_evaluate_planned(j->backend, j->collectives, graph, &lifetimes, bindings, bound, have.results, have.count,
                               true, NULL, &err) != REDCO_OK) {
        goto out;
    }
    repeated = 0;
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        repeated += redco_graph_op(graph, i)->copy > 0 ? 1 : 0;
    }
    for (uint32_t i = 0; i < have.count && repeated != UINT32_MAX; i++) {
        const size_t bytes = redco_type_bytes(redco_value_type(graph, outputs[i]));
        if (memcmp(have.results[i].data, want->results[i].data, bytes) == 0) { continue; }
        (void)fprintf(stderr, "rank %u of %u, %s, %s: %s differs\n", j->shape.rank, j->shape.ranks, j->config,
                      policy_names[policy], i == 0 ? "the loss" : l->task->parameters[i - 1].name);
        repeated = UINT32_MAX;
    }
out:
    if (err.status != REDCO_OK) {
        (void)fprintf(stderr, "rank %u, %s, %s: %s: %s\n", j->shape.rank, j->config, policy_names[policy], err.place,
                      err.text);
    }
    discard(&have);
    redco_graph_free(graph);
    return repeated;
}

/* All policies of one model. */
static bool check(const job *j, uint32_t repeated_out[POLICIES])
{
    language l;
    outcome want = {.count = 0};
    redco_error err = {0};
    char path[512];
    bool same = true;
    model_path(j->config, path);
    language_open(&l, path, &j->shape);
    language_data(&l);
    prepare(&want, l.graph, l.outputs, l.output_count);
    if (redco_evaluate_rank(j->backend, j->collectives, l.graph, l.bindings, l.binding_count, want.results, want.count,
                            &err) != REDCO_OK) {
        (void)fprintf(stderr, "%s: %s: %s\n", j->config, err.place, err.text);
        same = false;
    }
    for (uint32_t policy = 0; policy < POLICIES && same; policy++) {
        repeated_out[policy] = compare(j, &l, &want, policy);
        same = repeated_out[policy] != UINT32_MAX;
    }
    discard(&want);
    language_close(&l);
    return same;
}

static void test_one_rank(void **state)
{
    static const redco_dtype dtypes[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16};
    for (uint32_t c = 0; c < CONFIGS; c++) {
        uint32_t repeated[POLICIES] = {0};
        for (uint32_t d = 0; d < 3; d++) {
            const job j = {configs[c], {dtypes[d], SEQUENCES, LENGTH, 1, 0, false, NULL, NULL}, *state, NULL};
            assert_true(check(&j, repeated));
            assert_int_equal(repeated[0], 0);
            assert_true(repeated[1] > 0 && repeated[2] > repeated[1]);
            assert_true(repeated[3] > repeated[1] && repeated[3] < repeated[2]);
        }
        printf("%-20s repeats %u operators, %u, %u, %u\n", configs[c], repeated[0], repeated[1], repeated[2],
               repeated[3]);
    }
}

/* Which models a rank goes through. */
typedef struct several {
    redco_dtype dtype;
    bool sequence_parallel;
} several;

static int run_rank(redco_world *world, void *context)
{
    const several *const s = context;
    redco_device_comm *device_comm = NULL;
    redco_process_group *group = NULL;
    redco_backend *backend = NULL;
    redco_error err = {0};
    uint32_t colours[PROCESSES_MAX] = {0}, repeated[POLICIES];
    const redco_process_group_options options = {colours, REDCO_TRAFFIC_TENSOR, "tp"};
    bool same = redco_host_device_comm_open(world, &device_comm, &err) == REDCO_OK &&
                redco_process_group_split(device_comm, &options, &group, &err) == REDCO_OK &&
                redco_host_open(NULL, &backend, &err) == REDCO_OK;
    const redco_group_binding binding = {.group = 0, .process_group = group};
    redco_process_group_collectives process_groups = {&binding, 1};
    const redco_collectives collectives = redco_process_group_collectives_calls(&process_groups);
    for (uint32_t c = 0; c < CONFIGS && same; c++) {
        const job j = {configs[c],
                       {s->dtype, SEQUENCES, LENGTH, redco_world_size(world), redco_world_rank(world),
                        s->sequence_parallel, NULL, NULL},
                       backend,
                       &collectives};
        same = check(&j, repeated) && (s->sequence_parallel || repeated[0] == 0);
    }
    redco_backend_close(backend);
    redco_process_group_free(group);
    redco_device_comm_close(device_comm);
    return same ? 0 : 1;
}

static void test_ranks(void **state)
{
    static const several two[] = {{REDCO_F32, true}, {REDCO_BFLOAT16, false}};
    static const several four[] = {{REDCO_F32, false}, {REDCO_BFLOAT16, true}};
    (void)state;
    for (uint32_t i = 0; i < 2; i++) { /* the time is for a hang, not for a slow machine */
        several of_two = two[i], of_four = four[i];
        assert_int_equal(run_ranks(2, 600, run_rank, &of_two, 0), 2);
        assert_int_equal(run_ranks(4, 600, run_rank, &of_four, 0), 4);
    }
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
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_one_rank), cmocka_unit_test(test_ranks)};
    return cmocka_run_group_tests_name("recomputation", tests, open_host, close_host);
}
