/* Building: types, errors, names, equal operators, identities, copies of graphs. */
#include "graph_fixture.h"

/* Not used here: a program includes both sides, so their names must not meet. */
#include "costmodel/simulator/simulate.h"
#include "executor/comm/communicator.h"
#include "planner/plan/plan.h"
#include "planner/search/search.h"
#include "topology/base/collective_op.h"
#include "traces/trace.h"

static redco_value input(redco_graph *g, const char *name, redco_dtype dtype, uint32_t rank, const uint64_t *dim)
{
    const redco_tensor_type type = redco_type(dtype, rank, dim);
    return redco_input(g, name, &type);
}

#define DIMS(...)                                                                                                      \
    (uint32_t)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)), (const uint64_t[])                               \
    {                                                                                                                  \
        __VA_ARGS__                                                                                                    \
    }

static int open_fixture(void **state)
{
    static fixture l;
    fixture_open(&l, 3);
    *state = &l;
    return 0;
}

static int close_fixture(void **state)
{
    fixture_close(*state);
    return 0;
}

/* The graph keeps the first error, with layer and operator as its place; everything after it passes through. */
static void assert_error(fixture *l, const char *place, const char *text)
{
    redco_error err = {0};
    assert_int_equal(redco_graph_status(l->g, &err), REDCO_EVALUE);
    assert_string_equal(err.place, place);
    assert_string_equal(err.text, text);
    assert_int_equal(redco_neg(l->g, REDCO_NO_VALUE), REDCO_NO_VALUE);
    assert_int_equal(redco_scalar(l->g, REDCO_F32, 1), REDCO_NO_VALUE);
    fixture_clear(l);
}

static void errors_name_operator_and_shapes(void **state)
{
    fixture *l = *state;
    redco_graph_set_layer(l->g, "block.3");
    redco_graph_set_operator(l->g, "qkv");
    (void)redco_matmul(l->g, input(l->g, "x", REDCO_BFLOAT16, DIMS(2, 3)), input(l->g, "w", REDCO_BFLOAT16, DIMS(4, 5)),
                       false, false);
    assert_error(l, "block.3/qkv", "matmul of bf16[2,3] (x) and bf16[4,5] (w): inner dimensions 3 and 4 differ");
    (void)redco_matmul(l->g, input(l->g, "x", REDCO_F32, DIMS(2, 3)), input(l->g, "w", REDCO_F32, DIMS(4, 3)), true,
                       true);
    assert_error(l, "",
                 "matmul of f32[2,3] (x) and f32[4,3] (w): inner dimensions 2 (transposed) and 3 (transposed) differ");
    (void)redco_add(l->g, input(l->g, "x", REDCO_F32, DIMS(2, 3)), input(l->g, "y", REDCO_F32, DIMS(2)));
    assert_error(l, "", "add of f32[2,3] (x) and f32[1,2] (reshape): dimension 1 is 3 and 2");
    (void)redco_add(l->g, input(l->g, "x", REDCO_F32, DIMS(2)), input(l->g, "y", REDCO_F64, DIMS(2)));
    assert_error(l, "", "add of f32[2] (x) and f64[2] (y): element types differ: cast one");
    (void)redco_exp(l->g, input(l->g, "x", REDCO_I32, DIMS(2)));
    assert_error(l, "", "exp of i32[2] (x): it needs a floating-point tensor");
    (void)redco_select(l->g, input(l->g, "c", REDCO_F32, DIMS(2)), input(l->g, "x", REDCO_F32, DIMS(2)),
                       input(l->g, "y", REDCO_F32, DIMS(2)));
    assert_error(l, "", "select of f32[2] (c), f32[2] (x) and f32[2] (y): the condition is a bool tensor");
    (void)redco_reshape(l->g, input(l->g, "x", REDCO_F32, DIMS(2, 3)), DIMS(4));
    assert_error(l, "", "reshape of f32[2,3] (x): f32[4] has another number of elements");
    (void)redco_slice_axis(l->g, input(l->g, "x", REDCO_F32, DIMS(2, 3)), 1, 2, 2);
    assert_error(l, "", "slice of f32[2,3] (x): dimension 1: 2 from 2 on do not lie in 3");
    (void)redco_slice_axis(l->g, input(l->g, "x", REDCO_F32, DIMS(2, 3)), 1, UINT64_MAX, 2);
    assert_error(l, "", "slice of f32[2,3] (x): dimension 1: 2 from 18446744073709551615 on do not lie in 3");
    (void)redco_sum_axis(l->g, input(l->g, "x", REDCO_F32, DIMS(2, 3)), 2, false);
    assert_error(l, "", "sum of f32[2,3] (x): axis 2; axes ascend and are below 2");
    (void)redco_transpose(l->g, input(l->g, "x", REDCO_F32, DIMS(2, 3)), (uint32_t[]){1, 1});
    assert_error(l, "", "transpose of f32[2,3] (x): axis 1 is out of range or stands twice");
    (void)redco_gather(l->g, input(l->g, "t", REDCO_F32, DIMS(4, 3)), input(l->g, "i", REDCO_F32, DIMS(2)), NULL);
    assert_error(l, "", "gather of f32[4,3] (t) and f32[2] (i): indices are i32");
    (void)redco_rms_norm(l->g, input(l->g, "x", REDCO_F32, DIMS(4, 3)), input(l->g, "w", REDCO_F32, DIMS(4)), 0);
    assert_error(
        l, "",
        "rms_norm of f32[4,3] (x) and f32[4] (w): input 1 must be a vector of the last dimension's size and type");
    (void)redco_attend(l->g, input(l->g, "q", REDCO_F32, DIMS(1, 2, 3, 4)),
                       input(l->g, "k", REDCO_F32, DIMS(1, 2, 2, 4)), input(l->g, "v", REDCO_F32, DIMS(1, 2, 2, 4)),
                       REDCO_NO_VALUE, &(redco_attention_options){0});
    assert_error(l, "",
                 "attention of f32[1,2,3,4] (q), f32[1,2,2,4] (k) and f32[1,2,2,4] (v): query heads must be a multiple "
                 "of key heads, "
                 "which are as many as value heads");
    (void)redco_cross_entropy(l->g, input(l->g, "x", REDCO_F32, DIMS(4, 3)), input(l->g, "t", REDCO_I32, DIMS(3)),
                              false);
    assert_error(l, "", "cross_entropy of f32[4,3] (x) and i32[3] (t): all dimensions but the last must agree");
    (void)redco_concat(
        l->g, (redco_value[]){input(l->g, "x", REDCO_F32, DIMS(4, 3)), input(l->g, "y", REDCO_F32, DIMS(4, 2))}, 2, 0);
    assert_error(l, "", "concat of f32[4,3] (x) and f32[4,2] (y): dimension 1 differs");
    /* Whoever builds is the place, whatever the label; a value that was computed is called by its operator. */
    redco_graph_set_layer(l->g, "block.3");
    redco_graph_set_builder(l->g, "digits: loss()");
    (void)redco_mul(l->g, redco_exp(l->g, input(l->g, "x", REDCO_F32, DIMS(2))), input(l->g, "y", REDCO_F32, DIMS(3)));
    assert_error(l, "digits: loss()", "mul of f32[2] (exp) and f32[3] (y): dimension 0 is 2 and 3");
    redco_graph_set_layer(l->g, "block.3");
    redco_graph_set_builder(l->g, "digits: loss()");
    redco_graph_set_builder(l->g, "");
    (void)redco_exp(l->g, input(l->g, "x", REDCO_I32, DIMS(2)));
    assert_error(l, "block.3", "exp of i32[2] (x): it needs a floating-point tensor");
}

/* Functions that build may go on with the dimensions of what an error left out. */
static void no_value_has_dimensions(void **state)
{
    fixture *l = *state;
    const redco_tensor_type *const type = redco_value_type(l->g, REDCO_NO_VALUE);
    for (uint32_t i = 0; i < REDCO_RANK_MAX; i++) { assert_int_equal(type->dim[i], 1); }
    assert_int_equal(redco_type_elements(type), 1);
    fixture_clear(l);
}

/* Whatever types two inputs have, an operator is refused or it runs: none reaches a kernel that it does not have. */
static void accepted_types_have_kernels(void **state)
{
    fixture *l = *state;
    static unsigned char zeros[64], out[4096];
    uint32_t ran = 0;
    for (uint32_t kind = REDCO_OP_CONSTANT; kind < REDCO_OP_ALL_REDUCE; kind++) {
        for (uint32_t n = 0; n < REDCO_DTYPE_COUNT * REDCO_DTYPE_COUNT * 8; n++) {
            const redco_dtype first = (redco_dtype)(n % REDCO_DTYPE_COUNT);
            const redco_dtype second = (redco_dtype)(n / REDCO_DTYPE_COUNT % REDCO_DTYPE_COUNT);
            const uint32_t count = n / (REDCO_DTYPE_COUNT * REDCO_DTYPE_COUNT);
            redco_value in[8], made[REDCO_OUTPUTS_MAX];
            redco_binding bindings[8];
            char name[2] = {0};
            for (uint32_t i = 0; i < count; i++) {
                name[0] = (char)('a' + i);
                in[i] = input(l->g, name, i == 0 || (i > 1 && n % 3 == 0) ? first : second, DIMS(2));
                bindings[i] = (redco_binding){in[i], zeros};
            }
            const redco_attributes attributes = {.dtype = (uint32_t)second, .size = {2}, .whole = {2}, .rank = 1};
            redco_graph_apply(l->g, (redco_op_kind)kind, in, count, &attributes, made);
            if (redco_graph_status(l->g, NULL) == REDCO_OK) {
                redco_error err = {0};
                const redco_result result = {made[0], out};
                if (redco_evaluate(l->backend, l->g, bindings, count, &result, 1, &err) != REDCO_OK) {
                    fail_msg("%s: %s", redco_op_kind_name((redco_op_kind)kind), err.text);
                }
                ran++;
            }
            fixture_clear(l);
        }
    }
    assert_true(ran > 200);
}

static void errors_of_types_and_calls(void **state)
{
    fixture *l = *state;
    (void)input(l->g, "x", REDCO_F32, DIMS(2, 0));
    assert_error(l, "", "dimension 1 is 0; each must be at least 1");
    (void)input(l->g, "x", REDCO_F32, DIMS(UINT64_C(1) << 30, UINT64_C(1) << 30));
    assert_error(l, "", "a tensor of more than 2^48 elements");
    (void)input(l->g, "x", REDCO_F32, DIMS(1, 1, 1, 1, 1, 1, 1, 1, 1));
    assert_error(l, "", "input: rank 9; at most 8 are supported");
    (void)input(l->g, "x", REDCO_F32, DIMS(1));
    (void)input(l->g, "x", REDCO_F32, DIMS(1));
    assert_error(l, "", "two inputs are named \"x\"");
    (void)redco_neg(l->g, 17);
    assert_error(l, "", "neg: input 0 is no value of this graph");
    (void)redco_dropout(l->g, input(l->g, "x", REDCO_F32, DIMS(1)), 1, 0, 0, NULL);
    assert_error(l, "", "dropout rate 1; it is in [0, 1)");
    (void)redco_gather(l->g, input(l->g, "t", REDCO_F32, DIMS(4, 3)), input(l->g, "i", REDCO_I32, DIMS(2)),
                       &(redco_index_options){.offset = INT64_MIN});
    assert_error(l, "", "gather of f32[4,3] (t) and i32[2] (i): offset -9223372036854775808");
    redco_value d;
    redco_value x = input(l->g, "x", REDCO_F32, DIMS(2));
    redco_gradient(l->g, x, &x, 1, &d);
    assert_error(l, "", "gradient: the loss is f32[2]; it must be a scalar");
    x = input(l->g, "x", REDCO_I32, DIMS(2));
    redco_gradient(l->g, redco_scalar(l->g, REDCO_F32, 1), &x, 1, &d);
    assert_error(l, "", "gradient: value 0 is i32[2]; it must be floating-point");
    const redco_tensor_type drawn = redco_type(REDCO_I32, DIMS(2));
    (void)redco_uniform(l->g, input(l->g, "key", REDCO_I32, DIMS(2)), 0, &drawn, NULL);
    assert_error(l, "", "uniform of i32[2] (key): numbers are of a floating-point type");
}

static void errors_when_it_is_run(void **state)
{
    fixture *l = *state;
    redco_error err = {0};
    float out[8];
    redco_graph_set_layer(l->g, "embedding.0");
    redco_graph_set_operator(l->g, "embedding");
    const redco_value table = input(l->g, "table", REDCO_F32, DIMS(3, 2)),
                      index = input(l->g, "index", REDCO_I32, DIMS(2));
    const redco_value rows = redco_gather(l->g, table, index, NULL);
    const redco_binding bindings[2] = {{table, (float[6]){0}}, {index, (int32_t[2]){1, -1}}};
    assert_int_equal(redco_evaluate(l->backend, l->g, bindings, 2, &(redco_result){rows, out}, 1, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "fwd/embedding.0/embedding");
    assert_string_equal(err.text, "gather: index -1 is outside of [0, 3)");
    redco_error_clear(&err);
    assert_int_equal(redco_evaluate(l->backend, l->g, bindings, 1, &(redco_result){rows, out}, 1, &err), REDCO_EVALUE);
    assert_string_equal(err.place, "index");
    assert_string_equal(err.text, "no data is bound to this input");
    fixture_clear(l);
}

/* Whatever allocation fails, all memory comes back, and the error says so. */
static void short_memory_is_an_error(void **state)
{
    fixture *l = *state;
    static float data[64];
    float out[64];
    uint64_t limit_bytes, peak_bytes, live_bytes;
    const redco_value x = input(l->g, "x", REDCO_BFLOAT16, DIMS(8, 8));
    const redco_value y = redco_softmax(l->g, redco_matmul(l->g, x, x, false, true));
    const redco_binding binding = {x, data};
    bool enough = false;
    for (limit_bytes = 1; !enough && limit_bytes < 4096; limit_bytes += 64) {
        redco_backend *b = NULL;
        redco_error err = {0};
        const redco_host_options options = {.memory_limit_bytes = limit_bytes};
        assert_int_equal(redco_host_open(&options, &b, NULL), REDCO_OK);
        const redco_status st = redco_evaluate(b, l->g, &binding, 1, &(redco_result){y, out}, 1, &err);
        redco_host_memory(b, &live_bytes, &peak_bytes);
        assert_int_equal(live_bytes, 0);
        assert_true(peak_bytes <= limit_bytes);
        enough = st == REDCO_OK;
        if (!enough) { assert_int_equal(st, REDCO_ENOMEM); }
        redco_backend_close(b);
    }
    assert_true(enough && limit_bytes > 256);
    fixture_clear(l);
}

/* The operator of a value again, as recomputation adds it. */
static redco_value add_copy(redco_graph *g, redco_value value)
{
    redco_op op = *redco_value_op(g, value);
    redco_value again = REDCO_NO_VALUE;
    op.copy = 1;
    redco_graph_insert(g, &op, redco_value_op(g, value)->inputs, &again);
    return again;
}

static void equal_operators_are_one(void **state)
{
    fixture *l = *state;
    const redco_value x = input(l->g, "x", REDCO_F32, DIMS(2, 3)), y = input(l->g, "y", REDCO_F32, DIMS(2, 3));
    const redco_value sum = redco_add(l->g, x, y);
    const uint32_t ops = redco_graph_op_count(l->g);
    assert_int_equal(redco_add(l->g, x, y), sum);
    assert_int_not_equal(redco_add(l->g, y, x), sum);
    assert_int_equal(redco_graph_op_count(l->g), ops + 1);
    assert_int_not_equal(redco_pow(l->g, x, 2), redco_pow(l->g, x, 3));
    const redco_value again = add_copy(l->g, sum); /* recomputation is not merged with the first computation */
    assert_int_not_equal(again, sum);
    assert_int_equal(add_copy(l->g, sum), again);
    /* More operators than the first table of the graph holds. */
    redco_value last = x;
    for (int i = 0; i < 3000; i++) { last = redco_shift(l->g, last, 1 + i); }
    for (int i = 0; i < 3000; i++) { last = i == 0 ? redco_shift(l->g, x, 1) : redco_shift(l->g, last, 1 + i); }
    assert_true(redco_graph_op_count(l->g) < 6020);
    fixture_assert_ok(l);
    fixture_clear(l);
}

static void identities_need_no_operator(void **state)
{
    fixture *l = *state;
    const redco_value x = input(l->g, "x", REDCO_F32, DIMS(2, 3)), row = input(l->g, "row", REDCO_F32, DIMS(1, 3));
    assert_int_equal(redco_shift(l->g, x, 0), x);
    assert_int_equal(redco_scale(l->g, x, 1), x);
    assert_int_equal(redco_sub(l->g, x, redco_scalar(l->g, REDCO_F32, 0)), x);
    assert_int_equal(redco_neg(l->g, redco_neg(l->g, x)), x);
    assert_int_equal(redco_cast(l->g, x, REDCO_F32), x);
    assert_int_equal(redco_transpose(l->g, redco_transpose(l->g, x, (uint32_t[]){1, 0}), (uint32_t[]){1, 0}), x);
    assert_int_equal(redco_reshape(l->g, redco_reshape(l->g, x, DIMS(6)), DIMS(2, 3)), x);
    assert_int_equal(redco_sum_axis(l->g, row, 0, true), row);
    assert_int_equal(redco_slice_axis(l->g, x, 0, 0, 2), x);
    assert_int_equal(redco_pow(l->g, x, 1), x);
    /* The gradient of a tensor that is only cut in three is its parts' gradients side by side. */
    const redco_value w = input(l->g, "w", REDCO_F32, DIMS(2, 6));
    redco_value f = redco_scalar(l->g, REDCO_F32, 0), d;
    for (uint64_t i = 0; i < 3; i++) {
        const redco_value part = redco_slice_axis(l->g, w, 1, i == 0 ? 0 : i + 1, i == 2 ? 3 : i == 0 ? 2 : 1);
        f = redco_add(l->g, f, redco_sum_all(l->g, redco_exp(l->g, part)));
    }
    redco_gradient(l->g, f, &w, 1, &d);
    assert_int_equal(redco_value_op(l->g, d)->kind, REDCO_OP_CONCAT);
    assert_int_equal(redco_value_op(l->g, d)->input_count, 3);
    assert_int_equal(redco_value_op(l->g, redco_value_op(l->g, d)->inputs[0])->kind, REDCO_OP_EXP);
    /* But where a dimension is repeated, adding zero is no identity. */
    const redco_tensor_type type = redco_type(REDCO_F32, DIMS(2, 3));
    assert_int_not_equal(redco_add(l->g, row, redco_constant(l->g, &type, 0)), row);
    /* Constants: 2 + 3 = 5, rounded as f32 is. */
    const redco_value five = redco_add(l->g, redco_scalar(l->g, REDCO_F32, 2), redco_scalar(l->g, REDCO_F32, 3));
    assert_int_equal(five, redco_scalar(l->g, REDCO_F32, 5));
    const redco_value third = redco_div(l->g, redco_scalar(l->g, REDCO_F32, 1), redco_scalar(l->g, REDCO_F32, 3));
    assert_true(redco_value_op(l->g, third)->attributes.scalar == (double)(1.0F / 3.0F));
    /* Not-a-number and infinities are left to the run. */
    const redco_value zero = redco_scalar(l->g, REDCO_F32, 0);
    assert_int_equal(redco_value_op(l->g, redco_div(l->g, zero, zero))->kind, REDCO_OP_DIV);
    fixture_clear(l);
}

static void operators_carry_the_simulators_names(void **state)
{
    fixture *l = *state;
    char name[100];
    const redco_tensor_type weight = redco_type(REDCO_F32, DIMS(3, 4));
    redco_graph_set_layer(l->g, "block.7");
    redco_graph_set_operator(l->g, "qkv");
    const redco_value x = input(l->g, "x", REDCO_F32, DIMS(2, 3)), w = redco_parameter(l->g, "w", &weight);
    const redco_value y = redco_matmul(l->g, x, w, false, false);
    redco_graph_set_operator(l->g, "activation");
    const redco_value a = redco_silu(l->g, y);
    const redco_value wrt[2] = {x, w};
    redco_value d[2];
    redco_gradient(l->g, redco_sum_all(l->g, a), wrt, 2, d);
    fixture_assert_ok(l);
    assert_string_equal(redco_op_name(l->g, redco_value_op(l->g, y), name, sizeof name), "fwd/block.7/qkv");
    assert_string_equal(redco_op_name(l->g, redco_value_op(l->g, d[0]), name, sizeof name), "bwd/block.7/qkv/input");
    assert_string_equal(redco_op_name(l->g, redco_value_op(l->g, d[1]), name, sizeof name), "bwd/block.7/qkv/weight");
    const redco_op *gate = redco_value_op(l->g, redco_value_op(l->g, d[1])->inputs[1]);
    assert_int_equal(gate->kind, REDCO_OP_SILU_GRAD);
    assert_string_equal(redco_op_name(l->g, gate, name, sizeof name), "bwd/block.7/activation");
    assert_int_equal(gate->order, 1);
    assert_int_equal(gate->origin, redco_value_op(l->g, a)->id);
    const redco_value again = add_copy(l->g, y);
    assert_string_equal(redco_op_name(l->g, redco_value_op(l->g, again), name, sizeof name), "re/block.7/qkv");
    redco_graph_set_layer(l->g, "step");
    redco_graph_set_operator(l->g, "optimizer");
    const redco_value moved = redco_sub(l->g, w, d[1]);
    assert_string_equal(redco_op_name(l->g, redco_value_op(l->g, moved), name, sizeof name), "step/optimizer");
    assert_int_equal(redco_graph_find_input(l->g, "w"), w);
    assert_int_equal(redco_value_op(l->g, w)->attributes.flags, REDCO_FLAG_PARAMETER);
    assert_int_equal(redco_graph_find_input(l->g, "v"), REDCO_NO_VALUE);
    assert_string_equal(redco_value_name(l->g, w), "w");
    fixture_clear(l);
}

static void operators_have_roles(void **state)
{
    fixture *l = *state;
    for (unsigned role = 1; role < REDCO_OP_ROLE_COUNT; role++) { /* each has a name of its own */
        assert_string_not_equal(redco_op_role_name((redco_op_role)role), "");
        assert_int_equal(redco_op_role_named(redco_op_role_name((redco_op_role)role)), role);
    }
    assert_int_equal(redco_op_role_named("my_operator"), REDCO_OP_ROLE_NONE);
    const redco_value x = input(l->g, "x", REDCO_F32, DIMS(2));
    redco_graph_set_layer(l->g, "block.1");
    redco_graph_set_role(l->g, REDCO_OP_ROLE_CROSS_ATTENTION);
    const redco_op *const first = redco_value_op(l->g, redco_exp(l->g, x));
    redco_graph_set_layer(l->g, "block.2");
    redco_graph_set_operator(l->g, "my_operator");
    const redco_op *const second = redco_value_op(l->g, redco_log(l->g, x));
    redco_graph_set_layer(l->g, "block.1");
    redco_graph_set_operator(l->g, "cross_attention");
    const redco_op *const third = redco_value_op(l->g, redco_sqrt(l->g, x));
    redco_graph_set_like(l->g, second);
    const redco_op *const fourth = redco_value_op(l->g, redco_sin(l->g, x));
    assert_string_equal(first->operator_name, "cross_attention");
    assert_int_equal(first->role, REDCO_OP_ROLE_CROSS_ATTENTION);
    assert_int_equal(second->role, REDCO_OP_ROLE_NONE);
    assert_int_equal(third->role, first->role);
    assert_int_equal(third->layer_id, first->layer_id);
    assert_int_equal(third->name_id, first->name_id);
    assert_int_not_equal(second->layer_id, first->layer_id);
    assert_int_equal(fourth->layer_id, second->layer_id);
    assert_int_equal(fourth->name_id, second->name_id);
    fixture_clear(l);
}

static void extraction_keeps_what_is_needed(void **state)
{
    fixture *l = *state;
    const redco_value x = fixture_real(l, 2, (uint64_t[]){2, 3}, -1, 1),
                      unused = fixture_real(l, 1, (uint64_t[]){4}, -1, 1);
    (void)redco_exp(l->g, unused);
    redco_graph_set_layer(l->g, "block.0");
    const redco_value y = redco_softmax(l->g, x), f = redco_sum_all(l->g, redco_mul(l->g, y, y));
    redco_value d, map[64];
    redco_gradient(l->g, f, &x, 1, &d);
    fixture_assert_ok(l);
    assert_true(redco_graph_value_count(l->g) <= 64);
    redco_graph *small = NULL;
    assert_int_equal(redco_graph_extract(l->g, &d, 1, NULL, NULL, &small, map, NULL), REDCO_OK);
    assert_true(redco_graph_op_count(small) < redco_graph_op_count(l->g));
    assert_int_equal(map[unused], REDCO_NO_VALUE);
    assert_string_equal(redco_value_name(small, map[x]), redco_value_name(l->g, x));
    assert_string_equal(redco_value_op(small, map[y])->layer, "block.0");
    assert_int_equal(redco_value_op(small, map[d])->origin, redco_value_op(small, map[y])->id);
    double before[6], after[6];
    fixture_run(l, d, before);
    const redco_binding binding = {map[x], l->data[0]};
    assert_int_equal(redco_evaluate(l->backend, small, &binding, 1, &(redco_result){map[d], after}, 1, NULL), REDCO_OK);
    assert_memory_equal(before, after, sizeof before);
    redco_graph_free(small);
    fixture_clear(l);
}

/* Refusals that layouts add: types, a group of one, and no gradient. */
/* A rank's graph has three of the collectives, by the names of the one table. */
static void collectives_have_the_tables_names(void **state)
{
    static const redco_op_kind kinds[] = {REDCO_OP_ALL_REDUCE, REDCO_OP_ALL_GATHER, REDCO_OP_REDUCE_SCATTER};
    static const redco_collective ops[] = {REDCO_ALL_REDUCE, REDCO_ALL_GATHER, REDCO_REDUCE_SCATTER};
    (void)state;
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++) {
        assert_string_equal(redco_op_kind_name(kinds[i]), redco_collective_name(ops[i]));
    }
    for (int op = 0; op < REDCO_COLLECTIVE_COUNT - 1; op++) { /* readers take both spellings */
        const char *const texts[] = {redco_collective_name((redco_collective)op),
                                     redco_collective_word((redco_collective)op)};
        for (size_t t = 0; t < 2; t++) {
            redco_collective read = REDCO_COLLECTIVE_COUNT;
            assert_true(redco_collective_parse(texts[t], strlen(texts[t]), &read));
            assert_int_equal(read, op);
        }
    }
}

static void collectives(void **state)
{
    fixture *l = *state;
    char text[REDCO_TYPE_TEXT_BYTES];
    const redco_rank_group group = {.id = 2, .ranks = 4}, alone = {.id = 2, .ranks = 1};
    redco_value x = input(l->g, "x", REDCO_F32, DIMS(8, 3)), d;
    const redco_value gathered = redco_graph_all_gather(l->g, x, group, 1),
                      part = redco_graph_reduce_scatter(l->g, x, group, 0);
    assert_string_equal(redco_type_text(redco_value_type(l->g, gathered), text), "f32[8,12]");
    assert_string_equal(redco_type_text(redco_value_type(l->g, part), text), "f32[2,3]");
    assert_int_equal(redco_graph_all_reduce(l->g, x, alone, false), x);
    const redco_value sum = redco_graph_all_reduce(l->g, x, group, false);
    assert_int_not_equal(sum, redco_graph_all_reduce(l->g, x, group, true));
    assert_int_equal(redco_value_op(l->g, sum)->attributes.group, 2);
    redco_error err = {0};
    float data[24] = {0};
    const redco_binding binding = {x, data};
    assert_int_equal(redco_evaluate(l->backend, l->g, &binding, 1, &(redco_result){sum, data}, 1, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "all_reduce: the graph is of one rank of 4 and needs the others");
    redco_gradient(l->g, redco_sum_all(l->g, sum), &x, 1, &d);
    assert_error(l, "", "gradient through all_reduce: differentiate before layouts are applied");
    (void)redco_graph_reduce_scatter(l->g, input(l->g, "x", REDCO_F32, DIMS(8, 3)), group, 1);
    assert_error(l, "", "reduce_scatter of f32[8,3] (x): 4 ranks do not divide dimension 1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_name_operator_and_shapes),
        cmocka_unit_test(no_value_has_dimensions),
        cmocka_unit_test(errors_of_types_and_calls),
        cmocka_unit_test(accepted_types_have_kernels),
        cmocka_unit_test(errors_when_it_is_run),
        cmocka_unit_test(equal_operators_are_one),
        cmocka_unit_test(short_memory_is_an_error),
        cmocka_unit_test(identities_need_no_operator),
        cmocka_unit_test(operators_carry_the_simulators_names),
        cmocka_unit_test(operators_have_roles),
        cmocka_unit_test(extraction_keeps_what_is_needed),
        cmocka_unit_test(collectives),
        cmocka_unit_test(collectives_have_the_tables_names),
    };
    return cmocka_run_group_tests(tests, open_fixture, close_fixture);
}
