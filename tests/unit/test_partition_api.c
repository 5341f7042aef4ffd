/* Names, element types, the report, the identity of one rank, and errors. */
#include "partition_fixture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...)                                                                                                      \
    (sizeof((uint64_t[]){__VA_ARGS__}) / 8), (uint64_t[])                                                              \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

enum { T = 4, D = 6, F = 12 };

/** Two column products that share x, gated, and a row product. */
static void build(fixture *r)
{
    redco_graph *g = r->g;
    redco_graph_set_layer(g, "block.3");
    redco_graph_set_operator(g, "norm");
    const redco_value x0 = fixture_parameter(r, "x", DIMS(1, T, D));
    const redco_value x = redco_rms_norm(g, x0, fixture_parameter(r, "norm", DIMS(D)), 1e-5);
    redco_graph_set_operator(g, "ffn_in");
    const redco_value gate = redco_silu(g, redco_matmul(g, x, fixture_parameter(r, "gate", DIMS(D, F)), false, false));
    const redco_value up = redco_matmul(g, x, fixture_parameter(r, "up", DIMS(D, F)), false, false);
    redco_graph_set_operator(g, "ffn_out");
    const redco_value y =
        redco_matmul(g, redco_mul(g, gate, up), fixture_parameter(r, "down", DIMS(F, D)), false, false);
    redco_graph_set_layer(g, "head.0");
    redco_graph_set_operator(g, "norm");
    const redco_value z = redco_rms_norm(g, redco_add(g, x0, y), fixture_parameter(r, "last", DIMS(D)), 1e-5);
    redco_graph_set_operator(g, "loss");
    fixture_finish(r, redco_mean_all(g, redco_mul(g, z, z)));
    fixture_set(r, "gate", redco_tp_split(1));
    fixture_set(r, "up", redco_tp_split(1));
    fixture_set(r, "down", redco_tp_split(0));
    r->batch = 1;
    r->sequences[0] = T;
}

static void assert_names(fixture *r, const char *const *names)
{
    fixture_check(r, 2, 1e-12, "names");
    for (uint32_t i = 0; i < r->traffic_count; i++) { assert_string_equal(r->names[i], names[i]); }
    assert_null(names[r->traffic_count]);
}

/* As the simulator calls them: costmodel/simulator/step.h. */
static void test_names(void **state)
{
    fixture *r = *state;
    static const char *const plain[] = {"fwd/block.3/ffn_out/reduce", "bwd/block.3/ffn_in/reduce", NULL};
    r->sequence_parallel = false;
    assert_names(r, plain);
}

/* Products keep their names: which gradient of which product. */
static void test_origins(void **state)
{
    fixture *r = *state;
    redco_value outputs[RIG_INPUTS + 1];
    redco_graph *local = NULL;
    uint32_t weights = 0, inputs = 0;
    assert_int_equal(fixture_partition(r, 2, 1, &local, outputs, NULL), REDCO_OK);
    for (uint32_t i = 0; i < redco_graph_op_count(local); i++) {
        const redco_op *op = redco_graph_op(local, i);
        char name[120];
        if (op->kind != REDCO_OP_MATMUL || op->order == 0) { continue; }
        (void)redco_op_name(local, op, name, sizeof name);
        assert_int_equal(redco_graph_op(local, op->origin)->kind, REDCO_OP_MATMUL);
        weights += strstr(name, "/weight") != NULL ? 1 : 0;
        inputs += strstr(name, "/input") != NULL ? 1 : 0;
    }
    assert_int_equal(weights, 3);
    assert_int_equal(inputs, 3);
    redco_graph_free(local);
}

/* Ring bytes of a rank: (n - 1) / n of the tensor, twice for an all-reduce: 4 × 6 × 8 = 192 bytes. */
static void test_report(void **state)
{
    fixture *r = *state;
    static const uint64_t sent[] = {192, 256, 288};
    for (uint32_t n = 2; n <= 4; n++) {
        fixture_check(r, n, 1e-12, "report");
        assert_int_equal(r->traffic_count, 2);
        assert_int_equal(r->traffic[0].kind, REDCO_OP_ALL_REDUCE);
        assert_int_equal(r->traffic[0].size_bytes, 192);
        assert_int_equal(r->traffic[0].sent_bytes, sent[n - 2]);
        assert_int_equal(r->traffic[0].group.id, 7);
        assert_int_equal(r->traffic[0].group.ranks, n);
    }
}

static void test_one_rank(void **state)
{
    fixture *r = *state;
    redco_value outputs[RIG_INPUTS + 1];
    redco_graph *local = NULL;
    fixture_traffic *traffic = NULL;
    uint32_t count = 1;
    assert_int_equal(fixture_partition(r, 1, 0, &local, outputs, NULL), REDCO_OK);
    assert_int_equal(fixture_list_traffic(local, &traffic, &count, NULL), REDCO_OK);
    assert_int_equal(count, 0);
    assert_null(traffic);
    redco_graph_free(local);
    fixture_check(r, 1, 0, "one rank"); /* bit for bit */
}

/* Layouts without any split: the same graph on every rank, no traffic. */
static void test_nothing_split(void **state)
{
    fixture *r = *state;
    fixture_input kept[RIG_INPUTS];
    memcpy(kept, r->input, sizeof kept);
    for (uint32_t i = 0; i < r->inputs; i++) { r->input[i].layout = redco_tp_replicated(); }
    fixture_check(r, 3, 0, "nothing split");
    assert_int_equal(r->traffic_count, 0);
    memcpy(r->input, kept, sizeof kept);
}

/* Weights in f32, computation in bf16: what is reduced is bf16, and no partial sum is widened before. */
static void test_precision(void **state)
{
    (void)state;
    redco_graph *g = redco_graph_create(), *local = NULL;
    const redco_tensor_type x_type = redco_type(REDCO_BFLOAT16, 2, (uint64_t[]){8, 4});
    const redco_tensor_type a_type = redco_type(REDCO_F32, 2, (uint64_t[]){4, 16});
    const redco_tensor_type b_type = redco_type(REDCO_F32, 2, (uint64_t[]){16, 4});
    const redco_value x = redco_parameter(g, "x", &x_type), a = redco_parameter(g, "a", &a_type);
    const redco_value b = redco_parameter(g, "b", &b_type), wrt[3] = {x, a, b};
    redco_value gradients[3], outputs[4];
    const redco_value h = redco_gelu(g, redco_matmul(g, x, redco_cast(g, a, REDCO_BFLOAT16), false, false));
    const redco_value y = redco_matmul(g, h, redco_cast(g, b, REDCO_BFLOAT16), false, false);
    const redco_value wide = redco_cast(g, y, REDCO_F32);
    const redco_value loss = redco_mean_all(g, redco_mul(g, wide, wide));
    redco_gradient(g, loss, wrt, 3, gradients);
    const redco_partition_output wanted[4] = {
        {loss, NULL}, {gradients[0], "x"}, {gradients[1], "a"}, {gradients[2], "b"}};
    const redco_tp_input layouts[2] = {{.name = "a", .layout = redco_tp_split(1)},
                                       {.name = "b", .layout = redco_tp_split(0)}};
    const redco_partition_options options = {.group = {0, 2}, .rank = 1, .inputs = layouts, .input_count = 2};
    redco_error err = {0};
    fixture_traffic *traffic = NULL;
    uint32_t count = 0;
    if (redco_partition(g, wanted, 4, &options, &local, outputs, &err) != REDCO_OK) { fail_msg("%s", err.text); }
    assert_int_equal(fixture_list_traffic(local, &traffic, &count, NULL), REDCO_OK);
    assert_int_equal(count, 2); /* y, and the gradient of x: 8 × 4 × 2 bytes */
    for (uint32_t i = 0; i < count; i++) { assert_int_equal(traffic[i].size_bytes, 64); }
    assert_int_equal(redco_value_type(local, outputs[2])->dim[1], 8);
    assert_int_equal(redco_value_type(local, outputs[3])->dtype, REDCO_F32);
    free(traffic);
    redco_graph_free(local);
    redco_graph_free(g);
}

/* The optimizer behind the gradients, on the own part; frozen weights (inputs that are no parameters) beside a low-rank
 * product are not gathered either. */
static void test_update(void **state)
{
    (void)state;
    redco_graph *g = redco_graph_create(), *local = NULL;
    const redco_tensor_type x_type = redco_type(REDCO_F64, 2, (uint64_t[]){64, 6});
    const redco_tensor_type w_type = redco_type(REDCO_F64, 2, (uint64_t[]){6, 6});
    const redco_tensor_type a_type = redco_type(REDCO_F64, 2, (uint64_t[]){6, 2});
    const redco_tensor_type numbers = redco_type(REDCO_F64, 1, (uint64_t[]){REDCO_ADAMW_COUNT});
    const redco_value x = redco_input(g, "x", &x_type), frozen = redco_input(g, "frozen", &w_type);
    const redco_value a = redco_parameter(g, "a", &a_type), w = redco_parameter(g, "w", &w_type);
    const redco_value b = redco_transpose(g, redco_matmul(g, w, a, true, false), (uint32_t[]){1, 0});
    const redco_value low = redco_matmul(g, redco_matmul(g, x, a, false, false), b, false, false);
    const redco_value y = redco_silu(g, redco_add(g, redco_matmul(g, x, frozen, false, false), low));
    const redco_value z = redco_matmul(g, y, w, false, false);
    redco_value gradient, updated[3], outputs[4];
    redco_gradient(g, redco_mean_all(g, redco_mul(g, z, z)), &w, 1, &gradient);
    redco_adamw(g, w, redco_input(g, "m", &w_type), redco_input(g, "v", &w_type), gradient,
                redco_input(g, "numbers", &numbers), updated);
    const redco_partition_output wanted[4] = {{updated[0], "w"}, {updated[1], "w"}, {updated[2], "w"}, {z, NULL}};
    const redco_tp_input layouts[4] = {{.name = "frozen", .layout = redco_tp_split(1)},
                                       {.name = "w", .layout = redco_tp_split(0)},
                                       {.name = "m", .layout = redco_tp_split(0)},
                                       {.name = "v", .layout = redco_tp_split(0)}};
    const redco_partition_options options = {.group = {0, 2}, .rank = 1, .inputs = layouts, .input_count = 4};
    redco_error err = {0};
    if (redco_partition(g, wanted, 4, &options, &local, outputs, &err) != REDCO_OK) { fail_msg("%s", err.text); }
    for (uint32_t i = 0; i < 3; i++) {
        assert_int_equal(redco_value_op(local, outputs[i])->kind, REDCO_OP_ADAMW);
        assert_int_equal(redco_value_type(local, outputs[i])->dim[0], 3);
    }
    for (uint32_t i = 0; i < redco_graph_op_count(local); i++) {
        const redco_op *op = redco_graph_op(local, i);
        if (op->kind != REDCO_OP_ALL_GATHER) { continue; }
        const char *gathered = redco_value_name(local, op->inputs[0]);
        assert_true(gathered == NULL || strcmp(gathered, "frozen") != 0);
    }
    redco_graph_free(local);
    redco_graph_free(g);
}

/* Errors: place and text, and nothing is made. */

static void assert_error(const redco_graph *g, const redco_partition_output *output,
                         const redco_partition_options *options, const char *place, const char *text)
{
    redco_graph *local = NULL;
    redco_value value = 12345;
    redco_error err = {0};
    assert_int_equal(redco_partition(g, output, 1, options, &local, &value, &err), REDCO_EVALUE);
    assert_string_equal(err.place, place);
    if (strstr(err.text, text) == NULL) { fail_msg("\"%s\" is not in \"%s\"", text, err.text); }
    assert_null(local);
}

static void test_errors(void **state)
{
    (void)state;
    redco_graph *g = redco_graph_create();
    const redco_tensor_type type = redco_type(REDCO_F32, 2, (uint64_t[]){6, 8});
    const redco_value w = redco_parameter(g, "w", &type);
    const redco_value sum = redco_sum_all(g, w);
    redco_partition_output out = {sum, NULL};
    redco_tp_input in[2] = {{.name = "w", .layout = redco_tp_split(0)}, {.name = "w", .layout = redco_tp_split(1)}};
    redco_partition_options o = {.group = {0, 4}, .rank = 0, .inputs = in, .input_count = 1};
    assert_error(g, &out, &o, "w", "split 0 of f32[6,8] among 4 ranks: it must divide the dimension");
    in[0].layout.dim = 2;
    assert_error(g, &out, &o, "w", "split 2 of f32[6,8]");
    in[0].layout = (redco_tp_layout){REDCO_TP_SPLIT, 1, 4};
    assert_error(g, &out, &o, "w", "split 1 in 4 blocks of f32[6,8] among 4 ranks");
    in[0].layout = (redco_tp_layout){REDCO_TP_SPLIT, 1, 0};
    assert_error(g, &out, &o, "w", "among 4 ranks");
    in[0].layout = redco_tp_partial();
    assert_error(g, &out, &o, "w", "not a partial sum");
    in[0] = (redco_tp_input){.name = "v", .layout = redco_tp_split(0)};
    assert_error(g, &out, &o, "v", "no such input");
    in[0] = (redco_tp_input){.name = "w", .layout = redco_tp_split(1)};
    o.input_count = 2;
    assert_error(g, &out, &o, "w", "two layouts");
    o.input_count = 1;
    o.rank = 4;
    assert_error(g, &out, &o, "partition", "rank 4 of a group of 4");
    o = (redco_partition_options){.group = {0, 0}};
    assert_error(g, &out, &o, "partition", "rank 0 of a group of 0");
    o = (redco_partition_options){.group = {0, 2}, .sequence_parallel = true};
    assert_error(g, &out, &o, "partition", "needs the batch and the sequence lengths");
    o.sequence_parallel = false;
    out.like = "w";
    assert_error(g, &out, &o, "w", "is to be split like it, but is f32[]");
    out.like = "u";
    assert_error(g, &out, &o, "u", "there is none");
    out = (redco_partition_output){redco_graph_value_count(g), NULL};
    assert_error(g, &out, &o, "partition", "is no value");
    redco_graph_set_layer(g, "block.0");
    redco_graph_set_operator(g, "qkv/reduce");
    out.value = redco_graph_all_reduce(g, w, (redco_rank_group){0, 2}, false);
    assert_error(g, &out, &o, "fwd/block.0/qkv/reduce", "partitioned before");
    (void)redco_add(g, w, redco_scalar(g, REDCO_F64, 1));
    redco_graph *local = NULL;
    redco_value value;
    assert_int_equal(redco_partition(g, &out, 1, &o, &local, &value, NULL), REDCO_EVALUE);
    redco_graph_free(g);
}

static void test_texts(void **state)
{
    (void)state;
    char text[64];
    assert_string_equal(redco_tp_text(redco_tp_replicated(), text), "replicated");
    assert_string_equal(redco_tp_text(redco_tp_partial(), text), "partial");
    assert_string_equal(redco_tp_text(redco_tp_split(1), text), "split 1");
    assert_string_equal(redco_tp_text((redco_tp_layout){REDCO_TP_SPLIT, 0, 4}, text), "split 0 in 4 blocks");
}

static int open_fixture(void **state)
{
    static fixture r;
    fixture_open(&r, 9);
    build(&r);
    *state = &r;
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_origins),       cmocka_unit_test(test_report),
        cmocka_unit_test(test_one_rank), cmocka_unit_test(test_nothing_split), cmocka_unit_test(test_precision),
        cmocka_unit_test(test_update),   cmocka_unit_test(test_errors),        cmocka_unit_test(test_texts),
    };
    return cmocka_run_group_tests_name("partition's calls", tests, open_fixture, fixture_end);
}
