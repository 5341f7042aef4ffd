/* Fusion of elementwise operators by hand: what becomes one, what stays apart, and the programs of fused operators. */
#include "fusion_checks.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/differentiate.h"
#include "costmodel/graph/pointwise_program.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* By hand */

typedef struct small {
    redco_graph *g;
    redco_tensor_type row; /**< bf16[4,64] */
} small;

static small small_open(void)
{
    small s = {.g = redco_graph_create(), .row = redco_type(REDCO_BFLOAT16, 2, (uint64_t[]){4, 64})};
    assert_non_null(s.g);
    redco_graph_set_layer(s.g, "block.0");
    redco_graph_set_operator(s.g, "activation");
    return s;
}

static redco_graph *fuse(const small *s, const redco_value *outputs, uint32_t count, redco_value *outputs_out,
                         const redco_fuse_options *options)
{
    redco_graph *fused = NULL;
    redco_error err = {0};
    fusion_must(redco_graph_fuse(s->g, outputs, count, options, &fused, outputs_out, &err), &err);
    fusion_check_promises(s->g, outputs, fused, outputs_out, count, options);
    return fused;
}

/* Forward writes the product, not the activated gate; backward makes the gate again. Tensors of 512 bytes: forward
 * moved 2 + 3 and moves 3, backward 3 + 3 + 3 and 5; keeping the gate, 4 and 6. */
static void a_gate_is_made_again(void **state)
{
    small s = small_open();
    redco_value kept[3];
    (void)state;
    const redco_value x = redco_parameter(s.g, "x", &s.row), y = redco_parameter(s.g, "y", &s.row);
    const redco_value product = redco_mul(s.g, redco_silu(s.g, x), y);
    const redco_value seed = redco_input(s.g, "seed", &s.row);
    redco_value results[3] = {product, 0, 0};
    redco_vector_jacobian(s.g, &product, &seed, 1, (redco_value[]){x, y}, 2, results + 1);
    assert_int_equal(fusion_elementwise_bytes(s.g, results, 3, NULL, NULL), (5 + 9) * 512);
    redco_graph *const fused = fuse(&s, results, 3, kept, NULL);
    assert_int_equal(fusion_count(fused, REDCO_OP_POINTWISE), 2);
    assert_int_equal(fusion_elementwise_bytes(fused, kept, 3, NULL, NULL), (3 + 5) * 512);
    const redco_op *const forward = redco_value_op(fused, kept[0]), *const backward = redco_value_op(fused, kept[1]);
    assert_int_equal(forward->output_count, 1);
    assert_int_equal(backward->output_count, 2);
    assert_int_equal(backward->order, 1);
    redco_graph_free(fused);

    const redco_fuse_options keep = {.keep_all = true};
    redco_graph *const keeping = fuse(&s, results, 3, kept, &keep);
    assert_int_equal(fusion_elementwise_bytes(keeping, kept, 3, NULL, NULL), (4 + 6) * 512);
    redco_graph_free(keeping);
    redco_graph_free(s.g);
}

static bool nothing(void *context, const redco_op *op, const redco_tensor_type *inputs,
                    const redco_tensor_type *outputs)
{
    (void)inputs;
    (void)outputs;
    ++*(uint32_t *)context;
    assert_int_equal(op->kind, REDCO_OP_POINTWISE);
    return false;
}

static void a_device_may_decline(void **state)
{
    small s = small_open();
    uint32_t asked = 0;
    const redco_fuse_options options = {.choice = {nothing, &asked}};
    redco_value out;
    (void)state;
    const redco_value x = redco_input(s.g, "x", &s.row), y = redco_exp(s.g, redco_neg(s.g, x));
    redco_graph *const fused = fuse(&s, &y, 1, &out, &options);
    assert_true(fusion_same_graph(s.g, fused));
    assert_true(asked > 0);
    redco_graph_free(fused);
    redco_graph_free(s.g);
}

/* Two operators of the step, two layers, two copies, forward and gradient: never one. */
static void names_stay(void **state)
{
    (void)state;
    for (uint32_t what = 0; what < 4; what++) {
        small s = small_open();
        const redco_value x = redco_input(s.g, "x", &s.row), y = redco_exp(s.g, x);
        redco_value out;
        if (what == 1) { redco_graph_set_layer(s.g, "block.1"); }
        if (what == 2) { redco_graph_set_operator(s.g, "out"); }
        redco_value z = redco_neg(s.g, y);
        if (what == 3) {
            redco_op again = *redco_value_op(s.g, z);
            again.copy = 1;
            redco_graph_insert(s.g, &again, &y, &z);
        }
        /* A cheap value may be made again elsewhere, but that is not what this is about. */
        redco_graph *const fused = fuse(&s, &z, 1, &out, &(redco_fuse_options){.keep_all = true});
        assert_int_equal(fusion_count(fused, REDCO_OP_POINTWISE), what == 0 ? 1 : 0);
        redco_graph_free(fused);
        redco_graph_free(s.g);
    }
}

/* A product between two parts reads the first: they cannot both stand behind it. */
static void what_is_read_before_stays(void **state)
{
    small s = small_open();
    redco_value out;
    (void)state;
    const redco_value x = redco_input(s.g, "x", &s.row), y = redco_exp(s.g, x);
    const redco_value z = redco_add(s.g, y, redco_matmul(s.g, redco_matmul(s.g, y, y, false, true), y, false, false));
    redco_graph *const fused = fuse(&s, &z, 1, &out, NULL);
    assert_int_equal(fusion_count(fused, REDCO_OP_POINTWISE), 0);
    redco_graph_free(fused);
    redco_graph_free(s.g);
}

/* A sum of two that waits for a third product would keep both beside it: one tensor more. A sum of one would not. */
static void memory_is_not_held_longer(void **state)
{
    (void)state;
    for (uint32_t summands = 1; summands <= 2; summands++) {
        small s = small_open();
        const redco_value x = redco_input(s.g, "x", &s.row), w = redco_matmul(s.g, x, x, true, false);
        redco_value part = redco_matmul(s.g, x, w, false, false), out;
        part = summands == 1
                   ? redco_neg(s.g, part)
                   : redco_add(s.g, part, redco_matmul(s.g, x, redco_matmul(s.g, w, w, false, false), false, false));
        const redco_value z =
            redco_add(s.g, part, redco_matmul(s.g, x, redco_matmul(s.g, w, w, true, false), false, false));
        redco_graph *const fused = fuse(&s, &z, 1, &out, NULL);
        assert_int_equal(fusion_count(fused, REDCO_OP_POINTWISE), summands == 1 ? 1 : 0);
        redco_graph_free(fused);
        redco_graph_free(s.g);
    }
}

/* Operators that share an input are one with two results; constants become part of it. */
static void readers_of_one_value_share_it(void **state)
{
    small s = small_open();
    redco_value out[2];
    (void)state;
    const redco_value x = redco_input(s.g, "x", &s.row);
    const redco_value results[2] = {redco_scale(s.g, x, 3), redco_pow(s.g, x, 2.5)};
    redco_graph *const fused = fuse(&s, results, 2, out, NULL);
    assert_int_equal(fusion_count(fused, REDCO_OP_POINTWISE), 1);
    assert_int_equal(fusion_count(fused, REDCO_OP_CONSTANT), 0);
    const redco_op *const op = redco_value_op(fused, out[0]);
    assert_int_equal(op->output_count, 2);
    assert_int_equal(op->input_count, 1);
    redco_graph_free(fused);
    redco_graph_free(s.g);
}

/* Programs */

static redco_pointwise sample_program(void)
{
    redco_pointwise p;
    memset(&p, 0, sizeof p);
    p.input_count = 2;
    p.steps[0] = (redco_pointwise_step){REDCO_OP_ADD, {0, 1, 0}};
    p.steps[1] = (redco_pointwise_step){REDCO_OP_CONSTANT, {0, REDCO_F32, 0}};
    p.steps[2] = (redco_pointwise_step){REDCO_OP_LT, {2, 3, 0}};
    p.steps[3] = (redco_pointwise_step){REDCO_OP_SELECT, {4, 0, 1}};
    p.step_count = 4;
    p.constants[0] = 0.5;
    p.constant_count = 1;
    p.outputs[0] = 5;
    p.outputs[1] = 4;
    p.output_count = 2;
    return p;
}

static void programs_come_back(void **state)
{
    const redco_pointwise p = sample_program();
    redco_pointwise q;
    redco_attributes attributes;
    (void)state;
    redco_pointwise_pack(&p, &attributes);
    assert_true(redco_pointwise_unpack(&attributes, 2, &q));
    assert_memory_equal(&p, &q, sizeof p);
    const redco_tensor_type inputs[2] = {redco_type(REDCO_F32, 2, (uint64_t[]){3, 5}),
                                         redco_type(REDCO_F32, 2, (uint64_t[]){1, 5})};
    redco_tensor_type types[REDCO_POINTWISE_OPERANDS_MAX];
    redco_error err = {0};
    fusion_must(redco_pointwise_types(&p, inputs, "here", types, &err), &err);
    assert_int_equal(types[4].dtype, REDCO_BOOL);
    assert_true(redco_type_equal(&types[5], &inputs[0]));
    /* Inputs have registers 0 and 1. The sum is the first of three values that are alive while both are read again; the
     * constant needs a fourth; the comparison takes the sum's, the choice an input's. */
    uint8_t at[REDCO_POINTWISE_OPERANDS_MAX];
    assert_int_equal(redco_pointwise_registers(&p, at), 4);
    assert_int_equal(at[2], 2);
    assert_int_equal(at[3], 3);
    assert_int_equal(at[4], 2);
    assert_int_equal(at[5], 0);
}

/* Attributes of any bytes: no program, or one whose parts may be looked at. */
static void hostile_programs_are_refused(void **state)
{
    uint64_t random = 77;
    uint32_t sound = 0;
    (void)state;
    for (uint32_t n = 0; n < 200000; n++) {
        redco_attributes attributes;
        redco_pointwise p = sample_program();
        redco_pointwise_pack(&p, &attributes);
        unsigned char *const bytes = (unsigned char *)&attributes;
        for (uint32_t k = 0; k < 1 + n % 4; k++) {
            random = random * 6364136223846793005U + 1442695040888963407U;
            bytes[(random >> 33) % sizeof attributes] = (unsigned char)(random >> 20);
        }
        const uint32_t inputs = n % 11;
        if (!redco_pointwise_unpack(&attributes, inputs, &p)) { continue; }
        sound++;
        assert_true(p.step_count <= REDCO_POINTWISE_STEPS_MAX && p.output_count <= REDCO_OUTPUTS_MAX);
        const redco_tensor_type type = redco_type(REDCO_F32, 1, (uint64_t[]){4});
        redco_tensor_type in[REDCO_POINTWISE_INPUTS_MAX], types[REDCO_POINTWISE_OPERANDS_MAX];
        uint8_t at[REDCO_POINTWISE_OPERANDS_MAX];
        for (uint32_t i = 0; i < inputs; i++) { in[i] = type; }
        redco_error err = {0};
        (void)redco_pointwise_types(&p, in, "here", types, &err);
        assert_true(redco_pointwise_registers(&p, at) <= REDCO_POINTWISE_OPERANDS_MAX);
    }
    assert_true(sound > 1000);
    redco_graph *const g = redco_graph_create();
    const redco_tensor_type type = redco_type(REDCO_F32, 1, (uint64_t[]){4});
    const redco_value x = redco_input(g, "x", &type);
    redco_value out[REDCO_OUTPUTS_MAX];
    redco_error err = {0};
    redco_graph_apply(g, REDCO_OP_POINTWISE, &x, 1, NULL, out);
    assert_int_equal(redco_graph_status(g, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "no program"));
    redco_graph_free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_gate_is_made_again),
                                       cmocka_unit_test(a_device_may_decline),
                                       cmocka_unit_test(names_stay),
                                       cmocka_unit_test(what_is_read_before_stays),
                                       cmocka_unit_test(memory_is_not_held_longer),
                                       cmocka_unit_test(readers_of_one_value_share_it),
                                       cmocka_unit_test(programs_come_back),
                                       cmocka_unit_test(hostile_programs_are_refused)};
    return cmocka_run_group_tests_name("fusion by hand", tests, NULL, NULL);
}
