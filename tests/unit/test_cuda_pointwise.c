/* Programs of elementwise operators on the CUDA backend (with the mock libraries, or a device): fused graphs against
 * the same graphs operator by operator on the device, bit for bit, and against the host. */
#include "random_elementwise.h"

#include "costmodel/graph/differentiate.h"
#include "costmodel/graph/fuse.h"
#include "costmodel/graph/pointwise_program.h"
#include "executor/backend/cuda/kernels_internal.h"
#include "executor/backend/host/host.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    redco_backend *host, *cuda;
} fixture;

static void must(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

static redco_graph *fuse_for(redco_backend *backend, const redco_graph *graph, const redco_value *outputs,
                             uint32_t count, redco_value *outputs_out)
{
    const redco_fuse_options options = {.choice = redco_backend_fuse_choice(backend)};
    redco_graph *fused = NULL;
    redco_error err = {0};
    must(redco_graph_fuse(graph, outputs, count, &options, &fused, outputs_out, &err), &err);
    return fused;
}

/* Which program a fused operator is on the device: its name, "" for any other, NULL if it is none. */
static const char *known_name(const redco_graph *graph, const redco_op *op)
{
    redco_tensor in[REDCO_INPUTS_MAX], out[REDCO_OUTPUTS_MAX];
    if (op->kind != REDCO_OP_POINTWISE) { return NULL; }
    for (uint32_t i = 0; i < op->input_count; i++) {
        in[i] = (redco_tensor){*redco_value_type(graph, op->inputs[i]), NULL};
    }
    for (uint32_t i = 0; i < op->output_count; i++) {
        out[i] = (redco_tensor){*redco_value_type(graph, op->first_output + i), NULL};
    }
    const redco_launch launch = {.kind = op->kind,
                                 .attributes = &op->attributes,
                                 .input_count = op->input_count,
                                 .output_count = op->output_count,
                                 .inputs = in,
                                 .outputs = out,
                                 .name = ""};
    const char *const name = redcoi_pointwise_known(&launch);
    return name == NULL ? "" : name;
}

/* Random graphs */

static void run(redco_backend *backend, const redco_graph *graph, const redco_binding *bindings, uint32_t bound,
                const redco_value *outputs, uint32_t count, redco_result *results)
{
    redco_error err = {0};
    for (uint32_t i = 0; i < count; i++) {
        results[i] = (redco_result){outputs[i], malloc(redco_type_bytes(redco_value_type(graph, outputs[i])))};
    }
    must(redco_evaluate(backend, graph, bindings, bound, results, count, &err), &err);
}

static uint32_t check_random(const fixture *r, uint64_t seed)
{
    static const redco_dtype dtypes[] = {REDCO_BFLOAT16, REDCO_F32, REDCO_BFLOAT16, REDCO_F16, REDCO_BOOL};
    static elementwise_graph e;
    redco_value outputs[ELEMENTWISE_RESULTS];
    redco_binding rebound[ELEMENTWISE_INPUTS];
    redco_result want[ELEMENTWISE_RESULTS], have[ELEMENTWISE_RESULTS];
    redco_error err = {0};
    uint32_t programs = 0;
    elementwise_make(&e, seed, dtypes, 5);
    must(redco_graph_status(e.g, &err), &err);
    redco_graph *const fused = fuse_for(r->cuda, e.g, e.outputs, e.output_count, outputs);
    const uint32_t bound = elementwise_rebind(&e, fused, rebound);
    run(r->cuda, e.g, e.bindings, ELEMENTWISE_INPUTS, e.outputs, e.output_count, want);
    run(r->cuda, fused, rebound, bound, outputs, e.output_count, have);
    for (uint32_t i = 0; i < e.output_count; i++) {
        const size_t bytes = redco_type_bytes(redco_value_type(fused, outputs[i]));
        if (memcmp(want[i].data, have[i].data, bytes) != 0) {
            fail_msg("seed %llu: result %u differs", (unsigned long long)seed, i);
        }
        free(want[i].data);
        free(have[i].data);
    }
    for (uint32_t i = 0; i < redco_graph_op_count(fused); i++) {
        programs += redco_graph_op(fused, i)->kind == REDCO_OP_POINTWISE ? 1 : 0;
    }
    redco_graph_free(e.g);
    redco_graph_free(fused);
    return programs;
}

static void random_graphs_are_the_same(void **state)
{
    const char *const rounds = getenv("REDCO_TEST_ROUNDS");
    const uint64_t count = rounds == NULL ? 400 : strtoull(rounds, NULL, 10);
    uint32_t programs = 0;
    for (uint64_t i = 0; i < count; i++) { programs += check_random(*state, 1 + i); }
    printf("%llu random graphs, %u programs\n", (unsigned long long)count, programs);
    assert_true(programs > count);
}

/* Operators of models */

/** The makings of a result: its summands' sizes added up, as none of them may cancel in a bound, and
 *  how many roundings are behind each. */
typedef struct made_of {
    double size;
    uint32_t roundings;
} made_of;

typedef struct sample {
    redco_graph *g;
    redco_value outputs[4];
    uint32_t count;
    made_of (*bound)(uint32_t output, const double *in); /**< from inputs in the order in which they were made */
} sample;

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

/* silu(x) y: an exponential (2 ulp at most, CUDA C++ Programming Guide, mathematical functions), a sum, a quotient, two
 * products, and a rounding of each operator's result. Its slope s (1 + x (1 - s)) is a sum, a difference and two
 * products more, and two products with seed and y. */
static made_of bound_gated(uint32_t output, const double *in)
{
    const double x = in[0], y = in[1], seed = in[2], s = sigmoid(x);
    if (output == 0) { return (made_of){fabs(x) * s * fabs(y), 8}; }
    if (output == 2) { return (made_of){fabs(x) * s * fabs(seed), 8}; }
    return (made_of){fabs(seed * y) * s * (1 + fabs(x) * (1 - s)), 14};
}

static made_of bound_residual(uint32_t output, const double *in)
{
    (void)output;
    return (made_of){fabs(in[0]) + fabs(in[1]) + fabs(in[2]), 2};
}

static made_of bound_relu(uint32_t output, const double *in)
{
    (void)output;
    return (made_of){fabs(in[1]), 1};
}

static void gated(sample *s, const redco_tensor_type *type)
{
    const redco_value x = redco_input(s->g, "x", type), y = redco_input(s->g, "y", type);
    const redco_value seed = redco_input(s->g, "seed", type);
    const redco_value product = redco_mul(s->g, redco_silu(s->g, x), y);
    s->outputs[0] = product;
    redco_vector_jacobian(s->g, &product, &seed, 1, (redco_value[]){x, y}, 2, s->outputs + 1);
    s->count = 3;
    s->bound = bound_gated;
}

static void residual(sample *s, const redco_tensor_type *type)
{
    const redco_value x = redco_input(s->g, "x", type), y = redco_input(s->g, "y", type);
    const redco_tensor_type row = redco_type(type->dtype, 1, &type->dim[type->rank - 1]);
    s->outputs[0] = redco_add(s->g, y, redco_add(s->g, x, redco_input(s->g, "row", &row)));
    s->count = 1;
    s->bound = bound_residual;
}

static void relu(sample *s, const redco_tensor_type *type)
{
    const redco_value x = redco_input(s->g, "x", type), seed = redco_input(s->g, "seed", type);
    const redco_value y = redco_relu(s->g, x);
    redco_vector_jacobian(s->g, &y, &seed, 1, &x, 1, s->outputs);
    s->count = 1;
    s->bound = bound_relu;
}

static double number_at(redco_dtype dtype, const void *data, uint64_t i)
{
    uint32_t bits;
    float real;
    if (dtype == REDCO_F32) { return (double)((const float *)data)[i]; }
    const uint16_t half = ((const uint16_t *)data)[i];
    if (dtype == REDCO_F16) {
        const double fraction = (half & 0x3ff) * 0x1p-10, sign = (half & 0x8000) != 0 ? -1 : 1;
        const int exponent = half >> 10 & 31;
        return sign * (exponent == 0 ? ldexp(fraction, -14) : ldexp(1 + fraction, exponent - 15));
    }
    bits = (uint32_t)half << 16;
    memcpy(&real, &bits, sizeof real);
    return (double)real;
}

/** Small numbers of all types, by their bits. */
static void fill(void *data, const redco_tensor_type *type, uint32_t seed)
{
    for (uint64_t i = 0; i < redco_type_elements(type); i++) {
        seed = seed * 1664525 + 1013904223;
        const float real = (float)(seed >> 8) * 0x1p-22F - 2;
        uint32_t bits;
        memcpy(&bits, &real, sizeof bits);
        if (type->dtype == REDCO_F32) {
            ((float *)data)[i] = real;
        } else {
            ((uint16_t *)data)[i] =
                (uint16_t)(type->dtype == REDCO_BFLOAT16 ? bits >> 16 : 0x3000 | (seed >> 16 & 0x8fff));
        }
    }
}

enum { SAMPLE_INPUTS = 3, SAMPLE_BYTES = 1 << 16 };

/** Against the host, which rounds as often: both may be off by all their roundings. */
static void check_sample(const fixture *r, void (*build)(sample *s, const redco_tensor_type *type),
                         const redco_tensor_type *type, const char *const *names)
{
    static unsigned char data[SAMPLE_INPUTS][SAMPLE_BYTES];
    redco_binding bindings[SAMPLE_INPUTS], rebound[SAMPLE_INPUTS];
    redco_result want[4], plain[4], have[4];
    redco_value outputs[4];
    sample s = {.g = redco_graph_create()};
    uint32_t inputs = 0, bound = 0, found = 0;
    redco_graph_set_operator(s.g, "activation");
    build(&s, type);
    for (uint32_t i = 0; i < redco_graph_op_count(s.g); i++) {
        const redco_op *const op = redco_graph_op(s.g, i);
        if (op->kind != REDCO_OP_INPUT) { continue; }
        fill(data[inputs], redco_value_type(s.g, op->first_output), 5 + inputs);
        bindings[inputs] = (redco_binding){op->first_output, data[inputs]};
        inputs++;
    }
    redco_graph *const fused = fuse_for(r->cuda, s.g, s.outputs, s.count, outputs);
    for (uint32_t i = 0; i < redco_graph_op_count(fused); i++) {
        const char *const name = known_name(fused, redco_graph_op(fused, i));
        if (name != NULL) { assert_string_equal(name, names[found++]); }
    }
    assert_null(names[found]);
    for (uint32_t i = 0; i < inputs; i++) {
        const redco_value value = redco_graph_find_input(fused, redco_value_name(s.g, bindings[i].value));
        if (value != REDCO_NO_VALUE) { rebound[bound++] = (redco_binding){value, bindings[i].data}; }
    }
    run(r->host, s.g, bindings, inputs, s.outputs, s.count, want);
    run(r->cuda, s.g, bindings, inputs, s.outputs, s.count, plain);
    run(r->cuda, fused, rebound, bound, outputs, s.count, have);
    /* Unit roundoffs, and what is lost at most where numbers of a type end. */
    const double unit = type->dtype == REDCO_F32 ? 0x1p-24 : type->dtype == REDCO_BFLOAT16 ? 0x1p-8 : 0x1p-11;
    const double least = type->dtype == REDCO_F16 ? 0x1p-25 : 0x1p-134;
    for (uint32_t i = 0; i < s.count; i++) {
        assert_memory_equal(plain[i].data, have[i].data, redco_type_bytes(type));
        for (uint64_t n = 0; n < redco_type_elements(type); n++) {
            const double a = number_at(type->dtype, want[i].data, n), b = number_at(type->dtype, have[i].data, n);
            double in[SAMPLE_INPUTS];
            for (uint32_t k = 0; k < inputs; k++) {
                const uint64_t elements = redco_type_elements(redco_value_type(s.g, bindings[k].value));
                in[k] = number_at(type->dtype, bindings[k].data, n % elements);
            }
            const made_of m = s.bound(i, in);
            if (fabs(a - b) > 2 * m.roundings * (unit * m.size + least)) {
                fail_msg("%s, result %u, element %llu: %.9g, on the host %.9g", names[0], i, (unsigned long long)n, b,
                         a);
            }
        }
        free(want[i].data);
        free(plain[i].data);
        free(have[i].data);
    }
    redco_graph_free(s.g);
    redco_graph_free(fused);
}

static void models_have_kernels_of_their_own(void **state)
{
    static const redco_dtype dtypes[] = {REDCO_F32, REDCO_BFLOAT16, REDCO_F16};
    static const uint64_t lengths[] = {8, 64, 200, 13, 1};
    static const char *const of_gated[] = {"gated", "gated_grad", NULL};
    static const char *const of_sum[] = {"sum3", NULL}, *const of_relu[] = {"relu_grad", NULL};
    for (uint32_t d = 0; d < 3; d++) {
        for (uint32_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
            for (uint64_t rows = 1; rows <= 7; rows += 3) {
                const redco_tensor_type type = redco_type(dtypes[d], 3, (uint64_t[]){1, rows, lengths[i]});
                check_sample(*state, gated, &type, of_gated);
                check_sample(*state, relu, &type, of_relu);
                check_sample(*state, residual, &type, of_sum);
            }
        }
    }
}

/* An operator that kernels do not have stays as it was. */
static void others_are_declined(void **state)
{
    const fixture *const r = *state;
    for (uint32_t what = 0; what < 4; what++) {
        const redco_dtype dtype = what == 0 ? REDCO_F64 : what == 1 ? REDCO_I32 : REDCO_F32;
        const redco_tensor_type type = redco_type(dtype, 1, (uint64_t[]){64});
        redco_graph *const g = redco_graph_create();
        const redco_value x = redco_input(g, "x", &type), y = redco_input(g, "y", &type);
        redco_value z = redco_add(g, redco_mul(g, x, y), y), out;
        if (what == 2) { z = redco_pow(g, z, 2.5); }
        if (what == 3) { z = redco_sin(g, redco_mul(g, x, y)); }
        redco_graph *const fused = fuse_for(r->cuda, g, &z, 1, &out);
        for (uint32_t i = 0; i < redco_graph_op_count(fused); i++) {
            const redco_op *const op = redco_graph_op(fused, i);
            redco_pointwise p;
            if (op->kind != REDCO_OP_POINTWISE) { continue; }
            assert_int_equal(what, 2); /* the sum before the power */
            assert_true(redco_pointwise_unpack(&op->attributes, op->input_count, &p));
            assert_int_equal(p.step_count, 2);
        }
        redco_graph_free(g);
        redco_graph_free(fused);
    }
}

static int open_fixture(void **state)
{
    static fixture r;
    redco_error err = {0};
    if (redco_host_open(NULL, &r.host, &err) != REDCO_OK) { return 1; }
    if (redco_cuda_open(NULL, &r.cuda, &err) != REDCO_OK) {
        (void)fprintf(stderr, "%s: %s\n", err.place, err.text);
        return 1;
    }
    *state = &r;
    return 0;
}

static int close_fixture(void **state)
{
    const fixture *const r = *state;
    if (r == NULL) { return 0; }
    redco_backend_close(r->cuda);
    redco_backend_close(r->host);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(random_graphs_are_the_same),
                                       cmocka_unit_test(models_have_kernels_of_their_own),
                                       cmocka_unit_test(others_are_declined)};
    return cmocka_run_group_tests_name("pointwise kernels", tests, open_fixture, close_fixture);
}
