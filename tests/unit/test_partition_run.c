/* Graphs of ranks run by processes of their own over sockets: loss and gradients as of the whole graph in one process.
 * Two tensor-parallel groups at once among 4 ranks. */
#include "partition_fixture.h"
#include "processes.h"

#include "executor/comm/graph_collectives.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...)                                                                                                      \
    (sizeof((uint64_t[]){__VA_ARGS__}) / 8), (uint64_t[])                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

enum { B = 2, S = 8, D = 16, F = 32, V = 24, HEADS = 4 };

/* Words, one block with two key heads (cut at 4 ranks), a head by words: all kinds of collectives. */
static void build(fixture *r)
{
    const redco_attention_options causal = {.causal = true};
    redco_graph *g = r->g;
    redco_graph_set_layer(g, "block.0");
    redco_value x =
        redco_gather(g, fixture_parameter(r, "words", DIMS(V, D)), fixture_integers(r, "ids", DIMS(B, S), 0, V), NULL);
    const redco_value y = redco_rms_norm(g, x, fixture_parameter(r, "norm", DIMS(D)), 1e-5);
    const redco_value q = redco_matmul(g, y, fixture_parameter(r, "q", DIMS(D, D)), false, false);
    const redco_value k = redco_matmul(g, y, fixture_parameter(r, "k", DIMS(D, D / 2)), false, false);
    const redco_value v = redco_matmul(g, y, fixture_parameter(r, "v", DIMS(D, D / 2)), false, false);
    const redco_value o = redco_attend(
        g, redco_reshape(g, redco_add(g, q, fixture_parameter(r, "q_bias", DIMS(D))), DIMS(B, S, HEADS, D / HEADS)),
        redco_reshape(g, k, DIMS(B, S, HEADS / 2, D / HEADS)), redco_reshape(g, v, DIMS(B, S, HEADS / 2, D / HEADS)),
        REDCO_NO_VALUE, &causal);
    x = redco_add(
        g, x, redco_matmul(g, redco_reshape(g, o, DIMS(B, S, D)), fixture_parameter(r, "o", DIMS(D, D)), false, false));
    redco_graph_set_layer(g, "head.0");
    x = redco_rms_norm(g, x, fixture_parameter(r, "last", DIMS(D)), 1e-5);
    const redco_value logits = redco_matmul(g, x, fixture_parameter(r, "lm_head", DIMS(D, V)), false, false);
    fixture_finish(
        r, redco_mean_all(g, redco_cross_entropy(g, logits, fixture_integers(r, "targets", DIMS(B, S), -4, V), true)));
    fixture_set(r, "words", redco_tp_split(0));
    fixture_set(r, "o", redco_tp_split(0));
    for (uint32_t i = 0; i < 4; i++) {
        fixture_set(r, (const char *[]){"q", "k", "v", "lm_head"}[i], redco_tp_split(1));
    }
    r->batch = B;
    r->sequences[0] = S;
}

/* @return the largest error of this rank, or a negative number after a failure */
static double run_rank(const fixture *r, redco_process_group *process_group, redco_error *err)
{
    const uint32_t ranks = redco_process_group_size(process_group), rank = process_group->rank;
    const redco_group_binding group = {.group = 7, .process_group = process_group};
    redco_process_group_collectives process_groups = {&group, 1};
    const redco_collectives collectives = redco_process_group_collectives_calls(&process_groups);
    redco_value outputs[RIG_INPUTS + 1];
    redco_binding bindings[RIG_INPUTS];
    redco_result results[RIG_INPUTS + 1];
    redco_graph *local = NULL;
    uint32_t inputs = 0, count = 0;
    double worst = 0;
    if (fixture_partition(r, ranks, rank, &local, outputs, err) != REDCO_OK) { goto failed; }
    for (uint32_t i = 0; i < r->inputs; i++) {
        bindings[inputs++] = (redco_binding){redco_graph_find_input(local, r->input[i].name),
                                             fixture_part(&r->input[i], r->input[i].data, ranks, rank)};
    }
    for (uint32_t i = 0; i < r->inputs + 1; i++) {
        if (i > 0 && !r->input[i - 1].parameter) { continue; }
        const uint64_t bytes = redco_type_bytes(redco_value_type(local, outputs[count]));
        results[count] = (redco_result){outputs[count], malloc(bytes)};
        count++;
    }
    if (redco_evaluate_rank(r->backend, &collectives, local, bindings, inputs, results, count, err) != REDCO_OK) {
        goto failed;
    }
    worst = fabs(*(double *)results[0].data - r->wanted[RIG_INPUTS][0]);
    for (uint32_t i = 0, k = 1; i < r->inputs; i++) {
        if (!r->input[i].parameter) { continue; }
        double *part = fixture_part(&r->input[i], r->wanted[i], ranks, rank);
        const uint64_t elements = redco_type_elements(redco_value_type(local, results[k].value));
        for (uint64_t e = 0; e < elements; e++) {
            worst = fmax(worst, fabs(part[e] - ((double *)results[k].data)[e]) / r->scale);
        }
        free(part);
        k++;
    }
    for (uint32_t i = 0; i < inputs; i++) { free((void *)(uintptr_t)bindings[i].data); }
    for (uint32_t i = 0; i < count; i++) { free(results[i].data); }
    redco_graph_free(local);
    return worst;
failed:
    return -1;
}

typedef struct task {
    const fixture *r;
    uint32_t group_size;
    const char *refused; /* the error of every rank; NULL: none */
} task;

static int run_in_group(redco_world *world, void *context)
{
    const task *t = context;
    redco_device_comm *device_comm = NULL;
    redco_process_group *group = NULL;
    redco_error err = {0};
    uint32_t colours[PROCESSES_MAX];
    double worst = -1;
    for (uint32_t i = 0; i < redco_world_size(world); i++) { colours[i] = i / t->group_size; }
    const redco_process_group_options options = {colours, REDCO_TRAFFIC_TENSOR, "tp"};
    if (redco_host_device_comm_open(world, &device_comm, &err) == REDCO_OK &&
        redco_process_group_split(device_comm, &options, &group, &err) == REDCO_OK) {
        worst = run_rank(t->r, group, &err);
    }
    const bool as_wanted = strcmp(err.text, t->refused != NULL ? t->refused : "") == 0;
    if (!as_wanted) { (void)fprintf(stderr, "rank %u: %s: %s\n", redco_world_rank(world), err.place, err.text); }
    redco_process_group_free(group);
    redco_device_comm_close(device_comm);
    if (worst > 1e-13) { (void)fprintf(stderr, "rank %u: error %g\n", redco_world_rank(world), worst); }
    return as_wanted && (t->refused != NULL || (worst >= 0 && worst <= 1e-13)) ? 0 : 1;
}

static void test_processes(void **state)
{
    fixture *r = *state;
    static const uint32_t worlds[][2] = {{2, 2}, {4, 4}, {4, 2}};
    for (uint32_t sp = 0; sp < 2; sp++) {
        r->sequence_parallel = sp == 1;
        for (size_t i = 0; i < sizeof worlds / sizeof worlds[0]; i++) {
            task t = {r, worlds[i][1], NULL};
            assert_int_equal(run_ranks(worlds[i][0], 20, run_in_group, &t, 0), worlds[i][0]);
        }
    }
}

/* A rank skips the rows of others, and none that no rank has. */
static void test_indices_out_of_range(void **state)
{
    fixture *r = *state;
    static const struct {
        const char *input;
        int32_t index;
        const char *refused;
    } cases[] = {{"ids", V, "gather: index 24 is outside of [0, 24)"},
                 {"ids", -1, "gather: index -1 is outside of [0, 24)"},
                 {"targets", V, "cross_entropy: index 24 is neither below 0, which is masked, nor in [0, 24)"}};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (uint32_t k = 0; k < r->inputs; k++) {
            if (strcmp(r->input[k].name, cases[i].input) != 0) { continue; }
            int32_t *const at = (int32_t *)r->input[k].data + 3, before = *at;
            task t = {r, 2, cases[i].refused};
            *at = cases[i].index;
            assert_int_equal(run_ranks(2, 20, run_in_group, &t, 0), 2);
            *at = before;
        }
    }
}

/* A rank alone says so; so does one whose group has no communicator, or one of another size. */
static void test_refusals(void **state)
{
    fixture *r = *state;
    redco_value outputs[RIG_INPUTS + 1];
    redco_binding bindings[RIG_INPUTS];
    redco_graph *local = NULL;
    redco_error err = {0};
    double loss;
    assert_int_equal(fixture_partition(r, 2, 0, &local, outputs, NULL), REDCO_OK);
    for (uint32_t i = 0; i < r->inputs; i++) {
        bindings[i] = (redco_binding){redco_graph_find_input(local, r->input[i].name), r->input[i].data};
    }
    const redco_result result = {outputs[0], &loss};
    assert_int_equal(redco_evaluate(r->backend, local, bindings, r->inputs, &result, 1, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "one rank of 2"));
    redco_process_group_collectives none = {NULL, 0};
    redco_collectives calls = redco_process_group_collectives_calls(&none);
    err = (redco_error){0};
    assert_int_equal(redco_evaluate_rank(r->backend, &calls, local, bindings, r->inputs, &result, 1, &err),
                     REDCO_EVALUE);
    assert_non_null(strstr(err.text, "group 7 has no communicator"));
    const redco_world_options alone = {.transport = REDCO_TRANSPORT_SELF};
    redco_world *world = NULL;
    redco_device_comm *device_comm = NULL;
    redco_process_group *self = NULL;
    const redco_process_group_options options = {(uint32_t[]){0}, REDCO_TRAFFIC_TENSOR, "self"};
    assert_int_equal(redco_world_open(&alone, &world, NULL), REDCO_OK);
    assert_int_equal(redco_host_device_comm_open(world, &device_comm, NULL), REDCO_OK);
    assert_int_equal(redco_process_group_split(device_comm, &options, &self, NULL), REDCO_OK);
    const redco_group_binding group = {7, self};
    redco_process_group_collectives small = {&group, 1};
    calls = redco_process_group_collectives_calls(&small);
    err = (redco_error){0};
    assert_int_equal(redco_evaluate_rank(r->backend, &calls, local, bindings, r->inputs, &result, 1, &err),
                     REDCO_EVALUE);
    assert_non_null(strstr(err.text, "of 2 ranks, its communicator of 1"));
    redco_process_group_free(self);
    redco_device_comm_close(device_comm);
    redco_world_close(world);
    redco_graph_free(local);
}

static int open_fixture(void **state)
{
    static fixture r;
    fixture_open(&r, 3);
    build(&r);
    *state = &r;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_processes), cmocka_unit_test(test_indices_out_of_range),
                                       cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests_name("partitioned processes", tests, open_fixture, fixture_end);
}
