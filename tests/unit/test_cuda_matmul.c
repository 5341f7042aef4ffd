/* Products of the CUDA backend against the host's: every combination of types, transposes, batches and odd sizes, fused
 * products against what they are decomposed into. Runs on the stand-ins and, unchanged, on a GPU. */
#include "executor/backend/cuda/blas.h"
#include "executor/backend/evaluate.h"
#include "executor/backend/host/host.h"
#include "executor/graph/build.h"
#include "executor/graph/transform.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { INPUTS = 4, OUTPUTS = 2 };

static const redco_dtype dtypes[4] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};

typedef struct rig {
    redco_backend *host, *cuda;
    redco_queue *queue;
    unsigned char *memory; /**< of the device: for the tensors and the workspace of any product that is checked */
} rig;

enum { TENSORS_BYTES = 4 << 20, MEMORY_BYTES = 40 << 20 };

static redco_backend *open_cuda(const redco_cuda_options *options)
{
    redco_backend *b = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_cuda_open(options, &b, &err) != REDCO_OK) {
        print_message("skipped: %s: %s\n", err.place, err.text);
        exit(77);
    }
    return b;
}

static void take_memory(rig *r)
{
    void *memory = NULL;
    assert_int_equal(r->cuda->calls->queue_create(r->cuda, REDCO_QUEUE_COMPUTATION, &r->queue, NULL), REDCO_OK);
    assert_int_equal(r->cuda->calls->allocate(r->cuda, REDCO_MEMORY_DEVICE, MEMORY_BYTES, &memory, NULL), REDCO_OK);
    r->memory = memory;
}

static void return_memory(rig *r)
{
    r->cuda->calls->queue_free(r->cuda, r->queue);
    r->cuda->calls->release(r->cuda, REDCO_MEMORY_DEVICE, r->memory);
}

static int open_rig(void **state)
{
    rig *const r = calloc(1, sizeof *r);
    r->cuda = open_cuda(NULL);
    if (redco_host_open(NULL, &r->host, NULL) != REDCO_OK) { return -1; }
    take_memory(r);
    *state = r;
    return 0;
}

static int close_rig(void **state)
{
    rig *const r = *state;
    return_memory(r);
    redco_backend_close(r->cuda);
    redco_backend_close(r->host);
    free(r);
    return 0;
}

/* Numbers */

static uint64_t next(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

static float from_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/** Sixteenths in [-2, 2]: every type has them. */
static void fill(const redco_tensor_type *type, void *data, uint64_t *seed)
{
    for (uint64_t i = 0; i < redco_type_elements(type); i++) {
        const int sixteenths = (int)(next(seed) % 65) - 32;
        const float value = (float)sixteenths / 16.0F;
        uint32_t bits;
        memcpy(&bits, &value, sizeof bits);
        switch (type->dtype) {
        case REDCO_F64: ((double *)data)[i] = (double)value; break;
        case REDCO_F32: ((float *)data)[i] = value; break;
        case REDCO_BFLOAT16: ((uint16_t *)data)[i] = (uint16_t)(bits >> 16); break;
        default: /* exponents of sixteenths are in range, and so are their digits */
            ((uint16_t *)data)[i] =
                sixteenths == 0
                    ? 0
                    : (uint16_t)((bits >> 16 & 0x8000U) | ((bits >> 13 & 0x3FFFFU) - (UINT32_C(112) << 10)));
            break;
        }
    }
}

static double number(const redco_tensor_type *type, const void *data, uint64_t i)
{
    if (type->dtype == REDCO_F64) { return ((const double *)data)[i]; }
    if (type->dtype == REDCO_F32) { return (double)((const float *)data)[i]; }
    const uint16_t half = ((const uint16_t *)data)[i];
    if (type->dtype == REDCO_BFLOAT16) { return (double)from_bits((uint32_t)half << 16); }
    const int exponent = half >> 10 & 31;
    const double size = exponent == 0 ? ldexp(half & 1023, -24) : ldexp((half & 1023) | 1024, exponent - 25);
    return (half & 0x8000U) != 0 ? -size : size;
}

/** What one rounding of a result, and sums over @p k in another order, may differ by: the sums have terms up to 4. */
static double bound(redco_dtype dtype, double value, double k)
{
    const double unit = dtype == REDCO_F64   ? 0x1p-52
                        : dtype == REDCO_F32 ? 0x1p-23
                        : dtype == REDCO_F16 ? 0x1p-10
                                             : 0x1p-7;
    const double sum = dtype == REDCO_F64 ? 0x1p-52 : 0x1p-23;
    return 2 * unit * fabs(value) + 8 * sum * k + unit * 1e-3;
}

/* Both sides */

typedef struct outcome {
    redco_tensor_type type[OUTPUTS];
    void *data[OUTPUTS];
} outcome;

static void discard(outcome *o)
{
    for (uint32_t i = 0; i < OUTPUTS; i++) { free(o->data[i]); }
}

/** An operator on inputs of its own. */
typedef struct single {
    redco_graph *g;
    const redco_op *op;
    redco_tensor_type out[OUTPUTS];
} single;

static single open_single(redco_op_kind kind, const redco_attributes *attributes, const redco_tensor_type *types,
                          uint32_t count)
{
    static const char *const names[INPUTS] = {"a", "b", "c", "d"};
    single s = {.g = redco_graph_create()};
    redco_value in[INPUTS], out[OUTPUTS];
    redco_error err = {.status = REDCO_OK};
    for (uint32_t i = 0; i < count; i++) { in[i] = redco_input(s.g, names[i], &types[i]); }
    redco_graph_apply(s.g, kind, in, count, attributes, out);
    if (redco_graph_status(s.g, &err) != REDCO_OK) { fail_msg("%s", err.text); }
    s.op = redco_value_op(s.g, out[0]);
    for (uint32_t i = 0; i < s.op->output_count; i++) { s.out[i] = *redco_value_type(s.g, out[i]); }
    return s;
}

static void take_results(const single *s, outcome *o)
{
    *o = (outcome){.data = {NULL}};
    for (uint32_t i = 0; i < s->op->output_count; i++) {
        o->type[i] = s->out[i];
        o->data[i] = malloc(redco_type_bytes(&s->out[i]));
    }
}

static bool always(const redco_op *op, void *context)
{
    (void)context;
    return redco_op_kind_class(op->kind) == REDCO_CLASS_MATMUL;
}

/** On the host, decomposed. */
static redco_status on_host(redco_backend *host, const single *s, uint64_t seed, outcome *o, redco_error *err)
{
    redco_graph *basic = NULL;
    redco_value map[16], wanted[OUTPUTS];
    redco_binding bindings[INPUTS];
    redco_result results[OUTPUTS];
    void *data[INPUTS];
    take_results(s, o);
    for (uint32_t i = 0; i < s->op->output_count; i++) { wanted[i] = s->op->first_output + i; }
    redco_status st = redco_graph_extract(s->g, wanted, s->op->output_count, always, NULL, &basic, map, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        const redco_tensor_type *const type = redco_value_type(s->g, s->op->inputs[i]);
        data[i] = malloc(redco_type_bytes(type));
        fill(type, data[i], &seed);
        bindings[i] = (redco_binding){map[s->op->inputs[i]], data[i]};
    }
    for (uint32_t i = 0; i < s->op->output_count; i++) { results[i] = (redco_result){map[wanted[i]], o->data[i]}; }
    st = redco_evaluate(host, basic, bindings, s->op->input_count, results, s->op->output_count, err);
    for (uint32_t i = 0; i < s->op->input_count; i++) { free(data[i]); }
    redco_graph_free(basic);
    return st;
}

static uint64_t padded(const redco_tensor_type *type)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    return (redco_type_bytes(type) + unit - 1) / unit * unit;
}

/** On the device, as it is. */
static redco_status on_cuda(const rig *r, const single *s, uint64_t seed, outcome *o, redco_error *err)
{
    const redco_backend_calls *const calls = r->cuda->calls;
    redco_tensor in[INPUTS], out[OUTPUTS];
    unsigned char *at = r->memory;
    redco_status st = REDCO_OK;
    take_results(s, o);
    for (uint32_t i = 0; i < s->op->input_count; i++) {
        in[i] = (redco_tensor){*redco_value_type(s->g, s->op->inputs[i]), at};
        void *const data = malloc(redco_type_bytes(&in[i].type));
        fill(&in[i].type, data, &seed);
        st = calls->copy(r->cuda, r->queue, at, data, redco_type_bytes(&in[i].type), err);
        if (st == REDCO_OK) { st = calls->queue_finish(r->cuda, r->queue, err); }
        free(data);
        if (st != REDCO_OK) { return st; }
        at += padded(&in[i].type);
    }
    for (uint32_t i = 0; i < s->op->output_count; i++) {
        out[i] = (redco_tensor){s->out[i], at};
        at += padded(&s->out[i]);
    }
    assert_true(at <= r->memory + TENSORS_BYTES);
    redco_launch launch = {.kind = s->op->kind,
                           .attributes = &s->op->attributes,
                           .input_count = s->op->input_count,
                           .output_count = s->op->output_count,
                           .inputs = in,
                           .outputs = out,
                           .workspace = r->memory + TENSORS_BYTES,
                           .name = "test"};
    assert_true(calls->workspace_bytes(r->cuda, &launch) <= MEMORY_BYTES - TENSORS_BYTES);
    if ((st = calls->run(r->cuda, r->queue, &launch, err)) != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < s->op->output_count && st == REDCO_OK; i++) {
        st = calls->copy(r->cuda, r->queue, o->data[i], out[i].data, redco_type_bytes(&out[i].type), err);
    }
    return st == REDCO_OK ? calls->queue_finish(r->cuda, r->queue, err) : st;
}

static void compare(const outcome *have, const outcome *want, const char *what, double k)
{
    for (uint32_t o = 0; o < OUTPUTS && want->data[o] != NULL; o++) {
        for (uint64_t i = 0; i < redco_type_elements(&want->type[o]); i++) {
            const double x = number(&have->type[o], have->data[o], i), y = number(&want->type[o], want->data[o], i);
            if (!(fabs(x - y) <= bound(have->type[o].dtype, y, k))) {
                fail_msg("%s: output %u, element %llu of %llu: %.9g instead of %.9g", what, o, (unsigned long long)i,
                         (unsigned long long)redco_type_elements(&want->type[o]), x, y);
            }
        }
    }
}

/** Against f64, in which all that is computed from sixteenths is exact but for GELU.
 *  @param k  terms of the longest sum, times the size of what the epilogue may make of a term */
static void check(const rig *r, redco_op_kind kind, const redco_attributes *attributes, const redco_tensor_type *types,
                  uint32_t count, double k, uint64_t seed)
{
    redco_error err = {.status = REDCO_OK};
    char what[900];
    size_t used = (size_t)snprintf(what, sizeof what, "%s, flags %u:", redco_op_kind_name(kind), attributes->flags);
    redco_tensor_type exact[INPUTS];
    outcome want, have;
    for (uint32_t i = 0; i < count; i++) {
        char text[REDCO_TYPE_TEXT_BYTES];
        used += (size_t)snprintf(what + used, sizeof what - used, " %s", redco_type_text(&types[i], text));
        exact[i] = types[i];
        exact[i].dtype = REDCO_F64;
    }
    const single one = open_single(kind, attributes, types, count), other = open_single(kind, attributes, exact, count);
    if (on_host(r->host, &other, seed, &want, &err) != REDCO_OK || on_cuda(r, &one, seed, &have, &err) != REDCO_OK) {
        fail_msg("%s: %s: %s", what, err.place, err.text);
    }
    compare(&have, &want, what, k);
    discard(&want);
    discard(&have);
    redco_graph_free(one.g);
    redco_graph_free(other.g);
}

static redco_tensor_type matrices(redco_dtype dtype, uint32_t batch, const uint64_t *dims, bool turned, uint64_t rows,
                                  uint64_t columns)
{
    uint64_t dim[REDCO_RANK_MAX];
    for (uint32_t i = 0; i < batch; i++) { dim[i] = dims[i]; }
    dim[batch] = turned ? columns : rows;
    dim[batch + 1] = turned ? rows : columns;
    return redco_type(dtype, batch + 2, dim);
}

static redco_attributes turned(bool ta, bool tb)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.flags = (ta ? REDCO_FLAG_TRANSPOSE_A : 0U) | (tb ? REDCO_FLAG_TRANSPOSE_B : 0U);
    return attributes;
}

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
    const rig *const r = *state;
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
    const rig *const r = *state;
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

/* Sums are up to 4 k large: GELU's slope and the product with it stay below 1.2 times that. */
static void fused_products(void **state)
{
    static const uint64_t sizes[][3] = {{1, 8, 1}, {5, 16, 9}, {24, 40, 64}, {7, 5, 3}};
    const rig *const r = *state;
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
                    check(r, fused_cases[c].kind, &attributes, types, count, 2.0 * (double)sizes[s][2], seed++);
                }
            }
        }
    }
    print_message("fused products: %llu combinations are not offered\n", (unsigned long long)refused);
    /* 16-bit products in sizes that matter are: on the stand-in for certain, and what the design counts on. */
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

/* GELU's argument has a leading dimension that must be divisible by 8 (cublasLt.h). */
static void what_has_no_algorithm_is_an_error(void **state)
{
    const rig *const r = *state;
    const uint64_t size[3] = {4, 7, 8};
    const redco_attributes attributes = turned(false, false);
    redco_tensor_type types[INPUTS];
    redco_error err = {.status = REDCO_OK};
    outcome have;
    const uint32_t count = fused_types(REDCO_OP_MATMUL_GELU, REDCO_BFLOAT16, size, false, false, true, types);
    assert_false(is_supported(r->cuda, REDCO_OP_MATMUL_GELU, &attributes, types, count));
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

/* Memory of one's own */

typedef struct device_data {
    redco_backend *b;
    redco_queue *queue;
    redco_tensor in[INPUTS], out[OUTPUTS];
    unsigned char *workspace;
    uint64_t workspace_bytes;
} device_data;

enum { GUARD_BYTES = 4096, GUARD = 0x5B };

static void *on_device(const device_data *d, const redco_tensor_type *type, uint64_t seed)
{
    const uint64_t bytes = redco_type_bytes(type);
    void *const data = malloc(bytes);
    void *memory = NULL;
    fill(type, data, &seed);
    assert_int_equal(d->b->calls->allocate(d->b, REDCO_MEMORY_DEVICE, bytes, &memory, NULL), REDCO_OK);
    assert_int_equal(d->b->calls->copy(d->b, d->queue, memory, data, bytes, NULL), REDCO_OK);
    assert_int_equal(d->b->calls->queue_finish(d->b, d->queue, NULL), REDCO_OK);
    free(data);
    return memory;
}

static void release(const device_data *d, void *memory)
{
    d->b->calls->release(d->b, REDCO_MEMORY_DEVICE, memory);
}

static void fetch(const device_data *d, const redco_tensor *t, void *data)
{
    assert_int_equal(d->b->calls->copy(d->b, d->queue, data, t->data, redco_type_bytes(&t->type), NULL), REDCO_OK);
    assert_int_equal(d->b->calls->queue_finish(d->b, d->queue, NULL), REDCO_OK);
}

/** Its workspace is as long as asked for, with guards before and behind. */
static redco_launch prepare(device_data *d, const redco_attributes *attributes, redco_op_kind kind,
                            const redco_tensor_type *types, uint32_t count, const redco_tensor_type *result)
{
    static const redco_tensor_type none = {.rank = 0};
    assert_int_equal(d->b->calls->queue_create(d->b, REDCO_QUEUE_COMPUTATION, &d->queue, NULL), REDCO_OK);
    for (uint32_t i = 0; i < count; i++) { d->in[i] = (redco_tensor){types[i], on_device(d, &types[i], 100 + i)}; }
    d->out[0] = (redco_tensor){*result, on_device(d, result, 7)};
    d->out[1] = (redco_tensor){none, NULL};
    redco_launch launch = {.kind = kind,
                           .attributes = attributes,
                           .input_count = count,
                           .output_count = 1,
                           .inputs = d->in,
                           .outputs = d->out,
                           .name = "test"};
    d->workspace_bytes = d->b->calls->workspace_bytes(d->b, &launch);
    const uint64_t bytes = d->workspace_bytes + 2 * (uint64_t)GUARD_BYTES;
    void *memory = NULL, *const guards = malloc(bytes);
    memset(guards, GUARD, bytes);
    assert_int_equal(d->b->calls->allocate(d->b, REDCO_MEMORY_DEVICE, bytes, &memory, NULL), REDCO_OK);
    assert_int_equal(d->b->calls->copy(d->b, d->queue, memory, guards, bytes, NULL), REDCO_OK);
    assert_int_equal(d->b->calls->queue_finish(d->b, d->queue, NULL), REDCO_OK);
    free(guards);
    d->workspace = memory;
    launch.workspace = d->workspace + GUARD_BYTES;
    return launch;
}

static void finish(device_data *d, uint32_t count)
{
    unsigned char guards[2][GUARD_BYTES];
    for (uint32_t i = 0; i < 2; i++) {
        const unsigned char *const from = d->workspace + (i == 0 ? 0 : GUARD_BYTES + d->workspace_bytes);
        assert_int_equal(d->b->calls->copy(d->b, d->queue, guards[i], from, GUARD_BYTES, NULL), REDCO_OK);
    }
    assert_int_equal(d->b->calls->queue_finish(d->b, d->queue, NULL), REDCO_OK);
    for (uint32_t i = 0; i < 2 * GUARD_BYTES; i++) {
        assert_int_equal(guards[i / GUARD_BYTES][i % GUARD_BYTES], GUARD);
    }
    for (uint32_t i = 0; i < count; i++) { release(d, d->in[i].data); }
    release(d, d->out[0].data);
    release(d, d->workspace);
    d->b->calls->queue_free(d->b, d->queue);
}

/** Sums of many terms, which algorithms split, in a workspace of exactly the size that was planned. */
static void workspace_is_enough(void **state)
{
    const rig *const r = *state;
    for (uint32_t t = 0; t < 4; t++) {
        const redco_attributes attributes = turned(false, false);
        const redco_tensor_type types[2] = {matrices(dtypes[t], 0, NULL, false, 16, 4096),
                                            matrices(dtypes[t], 0, NULL, false, 4096, 24)};
        const redco_tensor_type result = matrices(dtypes[t], 0, NULL, false, 16, 24);
        device_data d = {.b = r->cuda};
        redco_error err = {.status = REDCO_OK};
        const redco_launch launch = prepare(&d, &attributes, REDCO_OP_MATMUL, types, 2, &result);
        if (r->cuda->calls->run(r->cuda, d.queue, &launch, &err) != REDCO_OK) { fail_msg("%s", err.text); }
        finish(&d, 2);
    }
}

static void plans_are_made_once(void **state)
{
    const rig *const r = *state;
    redcoi_blas *const blas = ((redcoi_cuda *)r->cuda)->blas;
    const redco_attributes attributes = turned(false, true);
    const redco_tensor_type types[2] = {matrices(REDCO_F32, 0, NULL, false, 41, 43),
                                        matrices(REDCO_F32, 0, NULL, true, 43, 47)};
    const redco_tensor_type result = matrices(REDCO_F32, 0, NULL, false, 41, 47);
    device_data d = {.b = r->cuda};
    const redco_launch launch = prepare(&d, &attributes, REDCO_OP_MATMUL, types, 2, &result);
    const uint64_t queries = blas->queries, lookups = blas->lookups;
    const uint32_t plans = blas->plan_count;
    for (uint32_t i = 0; i < 50; i++) {
        assert_int_equal(r->cuda->calls->run(r->cuda, d.queue, &launch, NULL), REDCO_OK);
    }
    assert_int_equal(blas->queries - queries, 1);
    assert_int_equal(blas->plan_count - plans, 1);
    assert_int_equal(blas->lookups - lookups, 50);
    /* Rows of a batch are rows of one product: another operator, the same plan. */
    redco_tensor batch[2] = {d.in[0], d.in[1]}, out = d.out[0];
    batch[0].type = redco_type(REDCO_F32, 3, (const uint64_t[]){41, 1, 43});
    batch[1].type = redco_type(REDCO_F32, 3, (const uint64_t[]){1, 47, 43});
    out.type = redco_type(REDCO_F32, 3, (const uint64_t[]){41, 1, 47});
    redco_launch folded = launch;
    folded.inputs = batch;
    folded.outputs = &out;
    assert_int_equal(r->cuda->calls->run(r->cuda, d.queue, &folded, NULL), REDCO_OK);
    assert_int_equal(blas->queries - queries, 1);
    finish(&d, 2);
}

/** c + a b over c, which comes first: it is what is timed where products are. */
static void check_in_place(redco_backend *cuda)
{
    const redco_attributes attributes = turned(false, false);
    for (uint32_t t = 0; t < 4; t++) {
        const redco_tensor_type result = matrices(dtypes[t], 0, NULL, false, 24, 40);
        const redco_tensor_type types[3] = {result, matrices(dtypes[t], 0, NULL, false, 24, 64),
                                            matrices(dtypes[t], 0, NULL, false, 64, 40)};
        device_data d = {.b = cuda};
        outcome apart = {{result}, {malloc(redco_type_bytes(&result)), NULL}};
        outcome over = {{result}, {malloc(redco_type_bytes(&result)), NULL}};
        redco_launch launch = prepare(&d, &attributes, REDCO_OP_MATMUL_ADD, types, 3, &result);
        const redco_tensor both = {result, on_device(&d, &result, 100)}; /* the same numbers as the first input */
        const redco_tensor in_place[3] = {both, d.in[1], d.in[2]};
        redco_launch second = launch;
        second.inputs = in_place;
        second.outputs = &both;
        redco_error err = {.status = REDCO_OK};
        if (cuda->calls->run(cuda, d.queue, &second, &err) != REDCO_OK) { fail_msg("%s", err.text); }
        fetch(&d, &both, over.data[0]);
        if (cuda->calls->run(cuda, d.queue, &launch, &err) != REDCO_OK) { fail_msg("%s", err.text); }
        fetch(&d, &d.out[0], apart.data[0]);
        compare(&over, &apart, "in place", 64);
        release(&d, both.data);
        finish(&d, 3);
        discard(&apart);
        discard(&over);
    }
}

static void sums_in_place(void **state)
{
    check_in_place(((const rig *)*state)->cuda);
}

static void tuned_products(void **state)
{
    const rig *const r = *state;
    const redco_cuda_options options = {.tune = true};
    rig tuned_rig = {.host = r->host, .cuda = open_cuda(&options)};
    take_memory(&tuned_rig);
    uint64_t seed = 3;
    for (uint32_t t = 0; t < 4; t++) {
        const redco_attributes attributes = turned(t % 2 == 0, t > 1);
        const redco_tensor_type types[2] = {matrices(dtypes[t], 1, (const uint64_t[]){3}, t % 2 == 0, 32, 256),
                                            matrices(dtypes[t], 1, (const uint64_t[]){3}, t > 1, 256, 48)};
        for (uint32_t again = 0; again < 2; again++) {
            check(&tuned_rig, REDCO_OP_MATMUL, &attributes, types, 2, 256, seed++);
        }
    }
    return_memory(&tuned_rig);
    redco_backend_close(tuned_rig.cuda);
}

/* Its scratch is not what the step was planned to take. */
static void tuning_takes_no_memory(void **state)
{
    uint64_t live[2], peak[2];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const redco_cuda_options options = {.tune = i == 1};
        redco_backend *const cuda = open_cuda(&options);
        check_in_place(cuda);
        cuda->calls->memory_use(cuda, &live[i], &peak[i]);
        assert_int_equal(live[i], 0);
        const redcoi_blas *const blas = ((const redcoi_cuda *)cuda)->blas;
        uint32_t tuned_plans = 0;
        for (uint32_t k = 0; k < blas->plan_room; k++) {
            tuned_plans += blas->plans[k] != NULL && blas->plans[k]->tuned;
        }
        assert_int_equal(tuned_plans, i == 1 ? blas->plan_count : 0);
        redco_backend_close(cuda);
    }
    assert_int_equal(peak[0], peak[1]);
}

/* Factors with more digits than TF32 keeps: 1 + 2^-12. */
static void tf32_is_asked_for(void **state)
{
    const redco_cuda_options options = {.tf32 = true};
    double sums[2];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        redco_backend *const b = open_cuda(i == 0 ? NULL : &options);
        redco_graph *const g = redco_graph_create();
        enum { SIZE = 64 };
        static float ones[SIZE * SIZE], result[SIZE * SIZE];
        const redco_tensor_type type = redco_type(REDCO_F32, 2, (const uint64_t[]){SIZE, SIZE});
        const redco_value x = redco_input(g, "x", &type), y = redco_matmul(g, x, x, false, false);
        for (uint32_t k = 0; k < SIZE * SIZE; k++) { ones[k] = 1.0F + 0x1p-12F; }
        const redco_binding binding = {x, ones};
        const redco_result wanted = {y, result};
        assert_int_equal(redco_evaluate(b, g, &binding, 1, &wanted, 1, NULL), REDCO_OK);
        sums[i] = (double)result[0];
        redco_graph_free(g);
        redco_backend_close(b);
    }
    assert_true(fabs(sums[0] - 64 * (1 + 0x1p-11)) < 64 * 0x1p-20); /* (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 */
    assert_true(fabs(sums[1] - sums[0]) > 64 * 0x1p-13);            /* 2^-12 is cut or rounded away */
    assert_true(fabs(sums[1] - sums[0]) < 64 * 0x1p-9);
}

/* Threads */

typedef struct worker {
    redco_backend *first;
    uint32_t which;
    const char *failed;
} worker;

static bool same_results(const rig *r, uint32_t i, uint32_t which)
{
    const redco_attributes attributes = turned(i % 2 == 0, i % 3 == 0);
    const redco_tensor_type types[2] = {
        matrices(REDCO_F64, 1, (const uint64_t[]){2}, i % 2 == 0, 1 + which + i % 7, 64),
        matrices(REDCO_F64, 1, (const uint64_t[]){2}, i % 3 == 0, 64, 5 + i % 4)};
    const single one = open_single(REDCO_OP_MATMUL, &attributes, types, 2);
    outcome want = {.data = {NULL}}, have = {.data = {NULL}};
    bool same = on_host(r->host, &one, i, &want, NULL) == REDCO_OK && on_cuda(r, &one, i, &have, NULL) == REDCO_OK;
    for (uint64_t k = 0; same && k < redco_type_elements(&want.type[0]); k++) {
        same = fabs(((double *)want.data[0])[k] - ((double *)have.data[0])[k]) < 1e-9;
    }
    discard(&want);
    discard(&have);
    redco_graph_free(one.g);
    return same;
}

static void *work(void *context)
{
    worker *const w = context;
    rig mine = {.host = NULL};
    if (w->first->calls->share(w->first, &mine.cuda, NULL) != REDCO_OK ||
        redco_host_open(NULL, &mine.host, NULL) != REDCO_OK) {
        w->failed = "share";
        return NULL;
    }
    take_memory(&mine);
    for (uint32_t i = 0; i < 100 && w->failed == NULL; i++) {
        if (!same_results(&mine, i, w->which)) { w->failed = "a result differs"; }
    }
    return_memory(&mine);
    redco_backend_close(mine.cuda);
    redco_backend_close(mine.host);
    return NULL;
}

static void two_handles_on_two_threads(void **state)
{
    const rig *const r = *state;
    worker w[2] = {{r->cuda, 0, NULL}, {r->cuda, 9, NULL}};
    pthread_t threads[2];
    for (uint32_t i = 0; i < 2; i++) { assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0); }
    for (uint32_t i = 0; i < 2; i++) { assert_int_equal(pthread_join(threads[i], NULL), 0); }
    for (uint32_t i = 0; i < 2; i++) {
        if (w[i].failed != NULL) { fail_msg("thread %u: %s", i, w[i].failed); }
    }
}

/* Descriptors that were not destroyed: only the stand-in counts them. */
static void nothing_is_left(void **state)
{
    size_t (*alive)(void) = NULL;
    void *const library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    void *const address = library == NULL ? NULL : dlsym(library, "standin_cublaslt_alive");
    (void)state;
    if (address == NULL) { skip(); }
    memcpy(&alive, &address, sizeof alive);
    redco_backend *const b = open_cuda(NULL);
    redco_backend_close(b);
    assert_int_equal(alive(), 0);
    (void)dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_combination, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(random_shapes, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(fused_products, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(what_has_no_algorithm_is_an_error, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(workspace_is_enough, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(plans_are_made_once, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(sums_in_place, open_rig, close_rig),
        cmocka_unit_test_setup_teardown(tuned_products, open_rig, close_rig),
        cmocka_unit_test(tuning_takes_no_memory),
        cmocka_unit_test(tf32_is_asked_for),
        cmocka_unit_test_setup_teardown(two_handles_on_two_threads, open_rig, close_rig),
        cmocka_unit_test(nothing_is_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
