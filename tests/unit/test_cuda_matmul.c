/* Products of the CUDA backend against the host's: every combination of types, transposes, batches and odd sizes, fused
 * products against what they are decomposed into. Runs on the mock libraries and, unchanged, on a GPU. */
#include "executor/backend/cuda/products/blas.h"
#include "tests/unit/products_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct batches {
    uint32_t rank;
    uint64_t a[4], b[4];
} batches;

static const batches forms[] = {
    {0, {0}, {0}},
    {1, {1}, {1}},
    {1, {3}, {3}},
    {1, {4}, {1}},             /* rows of a larger matrix, or one b for all */
    {1, {1}, {4}},             /* one a for all */
    {2, {2, 3}, {2, 3}},       /* joined */
    {2, {2, 3}, {1, 3}},       /* outer dimension repeated */
    {2, {2, 3}, {2, 1}},       /* inner */
    {2, {2, 1}, {1, 3}},       /* both */
    {3, {2, 1, 3}, {2, 4, 3}}, /* between */
    {3, {1, 2, 2}, {3, 1, 1}},
    {4, {2, 1, 2, 1}, {1, 3, 1, 2}},
};

static void every_combination(void **state)
{
    static const uint64_t sizes[][3] = {{1, 1, 1},   {1, 7, 3},  {5, 1, 4},    {3, 5, 1},
                                        {8, 16, 32}, {17, 9, 5}, {16, 24, 70}, {33, 31, 129}};
    const fixture *const r = *state;
    uint64_t seed = 1;
    for (uint32_t t = 0; t < 4; t++) {
        for (uint32_t f = 0; f < sizeof forms / sizeof forms[0]; f++) {
            for (uint32_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                for (uint32_t flags = 0; flags < 4; flags++) {
                    const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
                    const redco_attributes attributes = turned(ta, tb);
                    const uint64_t m = sizes[s][0], n = sizes[s][1], k = sizes[s][2];
                    const redco_tensor_type types[2] = {matrices(dtypes[t], forms[f].rank, forms[f].a, ta, m, k),
                                                        matrices(dtypes[t], forms[f].rank, forms[f].b, tb, k, n)};
                    check(r, REDCO_OP_MATMUL, &attributes, types, 2, (double)k, seed++);
                }
            }
        }
    }
}

static void random_shapes(void **state)
{
    const fixture *const r = *state;
    uint64_t seed = 77;
    for (uint32_t round = 0; round < 200; round++) {
        const redco_dtype dtype = dtypes[next(&seed) % 4];
        const uint32_t rank = (uint32_t)(next(&seed) % 4);
        const bool ta = next(&seed) % 2 == 0, tb = next(&seed) % 2 == 0;
        uint64_t a[4], b[4];
        for (uint32_t i = 0; i < rank; i++) {
            a[i] = b[i] = 1 + next(&seed) % 3;
            if (next(&seed) % 3 == 0) { a[i] = 1; }
            if (next(&seed) % 3 == 0) { b[i] = 1; }
        }
        const uint64_t m = 1 + next(&seed) % 40, n = 1 + next(&seed) % 40, k = 1 + next(&seed) % 90;
        const redco_attributes attributes = turned(ta, tb);
        const redco_tensor_type types[2] = {matrices(dtype, rank, a, ta, m, k), matrices(dtype, rank, b, tb, k, n)};
        check(r, REDCO_OP_MATMUL, &attributes, types, 2, (double)k, seed);
    }
}

/* Fused products */

/** Types of the inputs of a fused product of m x k and k x n. @return how many */
static uint32_t fused_types(redco_op_kind kind, redco_dtype dtype, const uint64_t size[3], bool ta, bool tb, bool bias,
                            redco_tensor_type types[INPUTS])
{
    const redco_tensor_type product = matrices(dtype, 0, NULL, false, size[0], size[1]);
    uint32_t count = 0;
    if (kind == REDCO_OP_MATMUL_ADD) { types[count++] = product; }
    types[count++] = matrices(dtype, 0, NULL, ta, size[0], size[2]);
    types[count++] = matrices(dtype, 0, NULL, tb, size[2], size[1]);
    if (bias) { types[count++] = redco_type(dtype, 1, &size[1]); }
    if (kind == REDCO_OP_MATMUL_GELU_GRAD) { types[count++] = product; }
    return count;
}

static bool is_supported(redco_backend *backend, redco_op_kind kind, const redco_attributes *attributes,
                         const redco_tensor_type *types, uint32_t count)
{
    const single one = open_single(kind, attributes, types, count);
    const redco_fuse_choice choice = redco_backend_fuse_choice(backend);
    const bool has = choice.supports(choice.context, one.op, types, one.out);
    redco_graph_free(one.g);
    return has;
}

typedef struct fused_case {
    redco_op_kind kind;
    uint32_t flags, side;
    bool bias;
} fused_case;

static const fused_case fused_cases[] = {
    {REDCO_OP_MATMUL_ADD, 0, 0, false},
    {REDCO_OP_MATMUL_ADD, 0, 0, true},
    {REDCO_OP_MATMUL_BIAS, 0, 0, true},
    {REDCO_OP_MATMUL_BIAS, REDCO_FLAG_RELU, 0, true},
    {REDCO_OP_MATMUL_BIAS, REDCO_FLAG_GELU, 0, true},
    {REDCO_OP_MATMUL_GELU, 0, 0, false},
    {REDCO_OP_MATMUL_GELU, 0, 0, true},
    {REDCO_OP_MATMUL_GELU_GRAD, 0, 0, false},
    {REDCO_OP_MATMUL_BIAS_GRAD, 0, 0, false},
    {REDCO_OP_MATMUL_BIAS_GRAD, 0, 1, false},
};

static bool has_gelu(const fused_case *c)
{
    return c->kind == REDCO_OP_MATMUL_GELU || c->kind == REDCO_OP_MATMUL_GELU_GRAD || (c->flags & REDCO_FLAG_GELU) != 0;
}

/* Sums are up to 4 k large: GELU's slope and the product with it stay below 1.2 times that. */
static void fused_products(void **state)
{
    static const uint64_t sizes[][3] = {{1, 8, 1}, {5, 16, 9}, {24, 40, 64}, {7, 5, 3}};
    const fixture *const r = *state;
    uint64_t seed = 5, refused = 0;
    for (uint32_t c = 0; c < sizeof fused_cases / sizeof fused_cases[0]; c++) {
        for (uint32_t t = 0; t < 4; t++) {
            for (uint32_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
                for (uint32_t flags = 0; flags < 4; flags++) {
                    const bool ta = (flags & 1) != 0, tb = (flags & 2) != 0;
                    redco_attributes attributes = turned(ta, tb);
                    redco_tensor_type types[INPUTS];
                    attributes.flags |= fused_cases[c].flags;
                    if (fused_cases[c].kind == REDCO_OP_MATMUL_BIAS_GRAD) {
                        attributes.axis_count = 1;
                        attributes.axis[0] = fused_cases[c].side;
                    }
                    const uint32_t count =
                        fused_types(fused_cases[c].kind, dtypes[t], sizes[s], ta, tb, fused_cases[c].bias, types);
                    if (!is_supported(r->cuda, fused_cases[c].kind, &attributes, types, count)) {
                        refused++;
                        continue;
                    }
                    const double k = (double)sizes[s][2];
                    check(r, fused_cases[c].kind, &attributes, types, count,
                          2.0 * k + (has_gelu(&fused_cases[c]) ? gelu_terms(k) : 0.0), seed++);
                }
            }
        }
    }
    print_message("fused products: %llu combinations are not offered\n", (unsigned long long)refused);
    /* 16-bit products in sizes that matter are: on the mock library for certain, and what the design counts on. */
    for (uint32_t c = 0; c < sizeof fused_cases / sizeof fused_cases[0]; c++) {
        const uint64_t size[3] = {128, 256, 64};
        const bool gradient = fused_cases[c].kind == REDCO_OP_MATMUL_BIAS_GRAD;
        redco_attributes attributes = turned(gradient, false);
        redco_tensor_type types[INPUTS];
        attributes.flags |= fused_cases[c].flags;
        attributes.axis_count = gradient ? 1 : 0;
        attributes.axis[0] = fused_cases[c].side;
        const uint32_t count =
            fused_types(fused_cases[c].kind, REDCO_BFLOAT16, size, gradient, false, fused_cases[c].bias, types);
        assert_true(is_supported(r->cuda, fused_cases[c].kind, &attributes, types, count));
    }
}

/* GELU's argument has a leading dimension that must be divisible by 8 (cublasLt.h). Libraries that take others compute
 * them. */
static void what_has_no_algorithm_is_an_error(void **state)
{
    const fixture *const r = *state;
    const uint64_t size[3] = {4, 7, 8};
    const redco_attributes attributes = turned(false, false);
    redco_tensor_type types[INPUTS];
    redco_error err = {.status = REDCO_OK};
    outcome have;
    const uint32_t count = fused_types(REDCO_OP_MATMUL_GELU, REDCO_BFLOAT16, size, false, false, true, types);
    if (is_supported(r->cuda, REDCO_OP_MATMUL_GELU, &attributes, types, count)) {
        print_message("this cuBLASLt has GELU of 7 columns\n");
        check(r, REDCO_OP_MATMUL_GELU, &attributes, types, count, 2.0 * 8.0 + gelu_terms(8.0), 3);
        return;
    }
    const single one = open_single(REDCO_OP_MATMUL_GELU, &attributes, types, count);
    assert_int_not_equal(on_cuda(r, &one, 1, &have, &err), REDCO_OK);
    discard(&have);
    redco_graph_free(one.g);
    /* Past supports(), which the backend asks itself. */
    redcoi_cuda *const cuda = (redcoi_cuda *)r->cuda;
    redco_tensor in[3] = {{types[0], NULL}, {types[1], NULL}, {types[2], NULL}};
    const redco_tensor out[2] = {{matrices(REDCO_BFLOAT16, 0, NULL, false, 4, 7), NULL},
                                 {matrices(REDCO_BFLOAT16, 0, NULL, false, 4, 7), NULL}};
    const redco_launch launch = {.kind = REDCO_OP_MATMUL_GELU,
                                 .attributes = &attributes,
                                 .input_count = 3,
                                 .output_count = 2,
                                 .inputs = in,
                                 .outputs = out,
                                 .name = "fwd/block.0/ffn_in"};
    err = (redco_error){.status = REDCO_OK};
    assert_int_equal(redcoi_matmul_runner.run(cuda, NULL, &launch, &err), REDCO_ESYSTEM);
    assert_string_equal(err.place, "fwd/block.0/ffn_in");
    assert_non_null(strstr(err.text, "no algorithm for this matmul_gelu: 1 of bf16 [4, 7] = [4, 8] [8, 7]"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_combination, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(random_shapes, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(fused_products, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(what_has_no_algorithm_is_an_error, open_fixture, close_fixture)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
