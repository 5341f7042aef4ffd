#include "tests/unit/products_fixture.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/transform.h"
#include "executor/backend/evaluate.h"
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

const redco_dtype dtypes[4] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};

enum { TENSORS_BYTES = 4 << 20, MEMORY_BYTES = 40 << 20 };

redco_backend *open_cuda(const redco_cuda_options *options)
{
    redco_backend *b = NULL;
    redco_error err = {.status = REDCO_OK};
    if (redco_cuda_open(options, &b, &err) != REDCO_OK) {
        print_message("skipped: %s: %s\n", err.place, err.text);
        exit(77);
    }
    return b;
}

void take_memory(fixture *r)
{
    void *memory = NULL;
    assert_int_equal(r->cuda->calls->stream_create(r->cuda, REDCO_DEVICE_STREAM_COMPUTATION, &r->stream, NULL),
                     REDCO_OK);
    assert_int_equal(r->cuda->calls->allocate(r->cuda, REDCO_MEMORY_DEVICE, MEMORY_BYTES, &memory, NULL), REDCO_OK);
    r->memory = memory;
}

void return_memory(fixture *r)
{
    r->cuda->calls->stream_free(r->cuda, r->stream);
    r->cuda->calls->release(r->cuda, REDCO_MEMORY_DEVICE, r->memory);
}

int open_fixture(void **state)
{
    fixture *const r = calloc(1, sizeof *r);
    r->cuda = open_cuda(NULL);
    if (redco_host_open(NULL, &r->host, NULL) != REDCO_OK) { return -1; }
    take_memory(r);
    *state = r;
    return 0;
}

int close_fixture(void **state)
{
    fixture *const r = *state;
    return_memory(r);
    redco_backend_close(r->cuda);
    redco_backend_close(r->host);
    free(r);
    return 0;
}

/* Numbers */

uint64_t next(uint64_t *seed)
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

void fill(const redco_tensor_type *type, void *data, uint64_t *seed)
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

double gelu_terms(double k)
{
    return 20.0 * (4.0 * k + 2.0) / 16.0;
}

/** The difference that one rounding of a result, and sums over @p k in another order, may make: the sums have terms up
 * to 4. */
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

void discard(outcome *o)
{
    for (uint32_t i = 0; i < OUTPUTS; i++) { free(o->data[i]); }
}

single open_single(redco_op_kind kind, const redco_attributes *attributes, const redco_tensor_type *types,
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

redco_status on_host(redco_backend *host, const single *s, uint64_t seed, outcome *o, redco_error *err)
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

redco_status on_cuda(const fixture *r, const single *s, uint64_t seed, outcome *o, redco_error *err)
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
        st = calls->copy(r->cuda, r->stream, at, data, redco_type_bytes(&in[i].type), err);
        if (st == REDCO_OK) { st = calls->stream_finish(r->cuda, r->stream, err); }
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
    if ((st = calls->run(r->cuda, r->stream, &launch, err)) != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < s->op->output_count && st == REDCO_OK; i++) {
        st = calls->copy(r->cuda, r->stream, o->data[i], out[i].data, redco_type_bytes(&out[i].type), err);
    }
    return st == REDCO_OK ? calls->stream_finish(r->cuda, r->stream, err) : st;
}

void compare(const outcome *have, const outcome *want, const char *what, double k)
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

void check(const fixture *r, redco_op_kind kind, const redco_attributes *attributes, const redco_tensor_type *types,
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

redco_tensor_type matrices(redco_dtype dtype, uint32_t batch, const uint64_t *dims, bool turned, uint64_t rows,
                           uint64_t columns)
{
    uint64_t dim[REDCO_RANK_MAX];
    for (uint32_t i = 0; i < batch; i++) { dim[i] = dims[i]; }
    dim[batch] = turned ? columns : rows;
    dim[batch + 1] = turned ? rows : columns;
    return redco_type(dtype, batch + 2, dim);
}

redco_attributes turned(bool ta, bool tb)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.flags = (ta ? REDCO_FLAG_TRANSPOSE_A : 0U) | (tb ? REDCO_FLAG_TRANSPOSE_B : 0U);
    return attributes;
}
