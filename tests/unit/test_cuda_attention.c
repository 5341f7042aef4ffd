/* Attention of the CUDA backend, forward and backward, against the host backend in F64 on the same (rounded) numbers:
 * by own kernels in every element type, and by cuDNN in those that it has. Runs on the mock libraries, and on a real
 * GPU unchanged.
 *
 * Bounds, relative to the largest magnitude of the exact tensor or to 1 (gradients are sums over tokens that may
 * cancel, of summands of order 1), e the unit roundoff of the result's type: own kernels   calculate in float or
 * double: n sums of products of unit size lose about sqrt(n) 2^-24; 2^-18 (2^-46) holds 4096 of them. Results in 16
 * bits are rounded once more: e = 2^-8 (bf16), 2^-11 (f16). cuDNN         rounds probabilities and gradients of scores
 * to 16 bits before products (dnn_graph.c): e each, of sums of mixed signs; and grouped heads' dK, dV once per head
 * before they are added. 4 e for all of that. log-sum-exp   float: 2^-20 of a number of about 10, by whoever makes it.
 */
#include "executor/backend/cuda/cuda_internal.h"
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

typedef enum mask_kind { NO_MASK, FULL_MASK, KEY_MASK, HEAD_MASK } mask_kind;

typedef struct shape {
    const char *name;
    uint64_t batch, queries, keys, heads, groups, size, value_size;
    bool causal;
    int64_t offset;
    uint64_t window;
    mask_kind mask;
    bool dnn; /**< cuDNN takes it, in 16 bits */
} shape;

static const shape shapes[] = {
    {"causal", 2, 64, 64, 2, 2, 64, 64, true, 0, 0, NO_MASK, true},
    {"causal, odd length", 1, 77, 77, 2, 2, 64, 64, true, 0, 0, NO_MASK, true},
    {"whole", 2, 33, 49, 3, 3, 32, 32, false, 0, 0, NO_MASK, true},
    {"grouped heads", 2, 40, 40, 6, 2, 64, 64, true, 0, 0, NO_MASK, true},
    {"one key head", 1, 21, 65, 4, 1, 16, 16, false, 0, 0, NO_MASK, true},
    {"longer keys", 1, 17, 70, 2, 1, 64, 64, true, 53, 0, NO_MASK, true},
    {"diagonal between", 1, 17, 70, 2, 2, 32, 32, true, 9, 0, NO_MASK, true},
    {"window", 1, 100, 100, 2, 1, 32, 32, true, 0, 7, NO_MASK, true},
    {"window, longer keys", 1, 30, 90, 2, 2, 32, 32, true, 60, 11, NO_MASK, true},
    {"window, diagonal between", 1, 17, 70, 2, 2, 32, 32, true, 9, 12, NO_MASK, true},
    {"window before the diagonal", 1, 17, 70, 2, 2, 32, 32, true, 9, 5, NO_MASK, false},
    {"window wider than all", 1, 30, 30, 2, 2, 32, 32, true, 0, 1000, NO_MASK, true},
    {"wide heads", 1, 40, 40, 1, 1, 128, 128, true, 0, 0, NO_MASK, true},
    {"uneven sizes", 1, 35, 41, 2, 2, 96, 40, false, 0, 0, NO_MASK, true},
    {"longer queries", 1, 50, 20, 2, 2, 32, 32, true, 0, 0, NO_MASK, true},
    {"one query", 2, 1, 40, 2, 2, 32, 32, true, 39, 0, NO_MASK, true},
    {"widest heads", 1, 34, 34, 1, 1, 256, 256, true, 0, 0, NO_MASK, false},
    {"size 20", 1, 35, 35, 2, 2, 20, 20, true, 0, 0, NO_MASK, false},
    {"sizes 7 and 3", 2, 19, 23, 2, 1, 7, 3, true, 4, 0, NO_MASK, false},
    {"one token", 1, 1, 1, 1, 1, 64, 64, true, 0, 0, NO_MASK, false},
    {"one token of size 1", 3, 1, 1, 2, 1, 1, 1, false, 0, 0, NO_MASK, false},
    {"blind queries", 1, 70, 70, 2, 1, 64, 64, true, -66, 0, NO_MASK, false},
    {"all blind", 1, 9, 9, 2, 1, 32, 32, true, -9, 0, NO_MASK, false},
    {"window left behind", 1, 80, 20, 2, 2, 32, 32, true, 10, 8, NO_MASK, false},
    {"mask", 2, 37, 45, 4, 2, 64, 64, false, 0, 0, FULL_MASK, false},
    {"mask of keys, causal", 2, 37, 37, 2, 2, 32, 32, true, 0, 0, KEY_MASK, false},
    {"mask of heads", 1, 37, 45, 4, 2, 32, 32, false, 0, 0, HEAD_MASK, false},
};

typedef struct fixture {
    redco_backend *cuda, *host;
    redco_device_stream *stream;
    uint64_t random;
    double worst; /**< share of the bound */
    uint32_t compared;
} fixture;

static double draw(fixture *r)
{
    r->random = r->random * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    return (double)(r->random >> 11) * 0x1p-53 * 2 - 1;
}

static double round_to(redco_dtype dtype, double x)
{
    if (dtype == REDCO_F64) { return x; }
    if (dtype == REDCO_F32) { return (double)(float)x; }
    int exponent = 0;
    (void)frexp(x, &exponent);
    const int digits = dtype == REDCO_BFLOAT16 ? 8 : 11;
    if (dtype == REDCO_F16 && exponent < -13) { exponent = -13; } /* subnormal */
    return ldexp(rint(ldexp(x, digits - exponent)), exponent - digits);
}

static uint16_t f16_bits(double x)
{
    int exponent = 0;
    const uint16_t sign = signbit(x) ? 0x8000 : 0;
    (void)frexp(x, &exponent);
    if (x == 0 || exponent < -13) { return (uint16_t)(sign | (uint16_t)ldexp(fabs(x), 24)); }
    return (uint16_t)(sign | ((exponent + 14) << 10) | ((uint16_t)ldexp(fabs(x), 11 - exponent) & 0x3ff));
}

static double f16_value(uint16_t bits)
{
    const int exponent = (bits >> 10) & 31, fraction = bits & 0x3ff;
    const double x = exponent == 31  ? (fraction == 0 ? (double)INFINITY : (double)NAN)
                     : exponent == 0 ? ldexp(fraction, -24)
                                     : ldexp(fraction + 1024, exponent - 25);
    return (bits & 0x8000) != 0 ? -x : x;
}

/** @p values are representable in the type. */
static void encode(redco_dtype dtype, const double *values, uint64_t count, void *to)
{
    for (uint64_t i = 0; i < count; i++) {
        const float f = (float)values[i];
        uint32_t bits;
        memcpy(&bits, &f, sizeof bits);
        switch (dtype) {
        case REDCO_F64: ((double *)to)[i] = values[i]; break;
        case REDCO_F32: ((float *)to)[i] = f; break;
        case REDCO_BFLOAT16: ((uint16_t *)to)[i] = (uint16_t)(bits >> 16); break;
        case REDCO_F16: ((uint16_t *)to)[i] = f16_bits(values[i]); break;
        default: ((uint8_t *)to)[i] = values[i] != 0; break;
        }
    }
}

static void decode(redco_dtype dtype, const void *from, uint64_t count, double *values)
{
    for (uint64_t i = 0; i < count; i++) {
        float f = 0;
        if (dtype == REDCO_BFLOAT16) {
            const uint32_t bits = (uint32_t)((const uint16_t *)from)[i] << 16;
            memcpy(&f, &bits, sizeof f);
        }
        values[i] = dtype == REDCO_F64   ? ((const double *)from)[i]
                    : dtype == REDCO_F32 ? (double)((const float *)from)[i]
                    : dtype == REDCO_F16 ? f16_value(((const uint16_t *)from)[i])
                                         : (double)f;
    }
}

enum { Q, K, V, O, LSE, D_O, D_Q, D_K, D_V, MASK, TENSORS };
enum { GUARD_BYTES = 256, GUARD = 0x5a };

/** One case: exact values of all tensors in F64, and their types. */
typedef struct problem {
    const shape *shape;
    redco_dtype dtype;
    redco_attributes attributes;
    redco_tensor_type type[TENSORS];
    double *exact[TENSORS];
} problem;

static uint64_t count_of(const problem *p, int t)
{
    return redco_type_elements(&p->type[t]);
}

static void set_types(problem *p)
{
    const shape *s = p->shape;
    const uint64_t q[4] = {s->batch, s->queries, s->heads, s->size}, k[4] = {s->batch, s->keys, s->groups, s->size};
    const uint64_t v[4] = {s->batch, s->keys, s->groups, s->value_size};
    const uint64_t o[4] = {s->batch, s->queries, s->heads, s->value_size};
    const uint64_t l[3] = {s->batch, s->heads, s->queries};
    const uint64_t m[4] = {s->mask == HEAD_MASK ? 1 : s->batch, s->mask == KEY_MASK ? 1 : s->heads,
                           s->mask == KEY_MASK ? 1 : s->queries, s->keys};
    p->type[Q] = p->type[D_Q] = redco_type(p->dtype, 4, q);
    p->type[K] = p->type[D_K] = redco_type(p->dtype, 4, k);
    p->type[V] = p->type[D_V] = redco_type(p->dtype, 4, v);
    p->type[O] = p->type[D_O] = redco_type(p->dtype, 4, o);
    p->type[LSE] = redco_type(redco_dtype_statistic(p->dtype), 3, l);
    p->type[MASK] = redco_type(REDCO_BOOL, 4, m);
}

/** Which tensors a kind reads and writes, in order. @return how many it reads */
static uint32_t ports(const problem *p, redco_op_kind kind, int in[7], int out[3], uint32_t *out_count)
{
    const bool masked = p->shape->mask != NO_MASK, backward = kind == REDCO_OP_ATTENTION_GRAD;
    uint32_t n = 0;
    in[n++] = Q;
    in[n++] = K;
    in[n++] = V;
    if (masked) { in[n++] = MASK; }
    if (backward) {
        in[n++] = O;
        in[n++] = LSE;
        in[n++] = D_O;
    }
    out[0] = backward ? D_Q : O;
    out[1] = backward ? D_K : LSE;
    out[2] = D_V;
    *out_count = backward ? 3 : 2;
    return n;
}

/** Runs it on the host in F64, on and into exact values. */
static void run_exact(fixture *r, problem *p, redco_op_kind kind)
{
    int in[7], out[3];
    uint32_t outputs = 0;
    const uint32_t inputs = ports(p, kind, in, out, &outputs);
    redco_tensor from[7], to[3];
    uint8_t *mask = NULL;
    for (uint32_t i = 0; i < inputs; i++) {
        from[i] = (redco_tensor){p->type[in[i]], p->exact[in[i]]};
        from[i].type.dtype = REDCO_F64;
        if (in[i] == MASK) {
            mask = malloc(count_of(p, MASK));
            assert_non_null(mask);
            encode(REDCO_BOOL, p->exact[MASK], count_of(p, MASK), mask);
            from[i] = (redco_tensor){p->type[MASK], mask};
        }
    }
    for (uint32_t i = 0; i < outputs; i++) {
        to[i] = (redco_tensor){p->type[out[i]], p->exact[out[i]]};
        to[i].type.dtype = REDCO_F64;
    }
    redco_launch launch = {.kind = kind,
                           .attributes = &p->attributes,
                           .input_count = inputs,
                           .output_count = outputs,
                           .inputs = from,
                           .outputs = to,
                           .name = p->shape->name};
    redco_error err = {.status = REDCO_OK};
    launch.workspace = malloc(r->host->calls->workspace_bytes(r->host, &launch) + 1);
    assert_non_null(launch.workspace);
    if (r->host->calls->run(r->host, NULL, &launch, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
    free(launch.workspace);
    free(mask);
}

static void must(redco_status status, const redco_error *err)
{
    if (status != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

static double bound_of(const problem *p, int tensor, bool dnn)
{
    const redco_dtype dtype = p->dtype;
    if (tensor == LSE) { return dtype == REDCO_F64 ? 0x1p-46 : 0x1p-20; }
    if (dtype == REDCO_F64) { return 0x1p-46; }
    const double unit = dtype == REDCO_F32 ? 0 : dtype == REDCO_F16 ? 0x1p-11 : 0x1p-8;
    return (dnn ? 4 : 1) * unit + 0x1p-18;
}

static void compare(fixture *r, const problem *p, int tensor, const double *got, bool dnn)
{
    static const char *const names[] = {"q", "k", "v", "o", "lse", "do", "dq", "dk", "dv"};
    const double bound = bound_of(p, tensor, dnn);
    const uint64_t n = count_of(p, tensor);
    double largest = 1; /* gradients may cancel: their summands are of order 1 */
    for (uint64_t i = 0; i < n; i++) { largest = fmax(largest, fabs(p->exact[tensor][i])); }
    for (uint64_t i = 0; i < n; i++) {
        const double error = fabs(got[i] - p->exact[tensor][i]);
        if (!(error <= bound * largest)) {
            fail_msg("%s, %s, %s: %s[%llu] is %.9g, exactly %.9g: error %.3g of %.3g, bound %.3g", p->shape->name,
                     redco_dtype_name(p->dtype), dnn ? "cuDNN" : "own", names[tensor], (unsigned long long)i, got[i],
                     p->exact[tensor][i], error, largest, bound);
        }
        r->worst = fmax(r->worst, error / (bound * largest));
    }
    r->compared++;
}

/** The same on the device, compared with exact values; each output has a guard behind it that must not change.
 *  @param keep  instead of compared, outputs become the problem's values */
static void run_device(fixture *r, problem *p, redco_op_kind kind, bool dnn, bool keep)
{
    int in[7], out[3];
    uint32_t outputs = 0;
    const uint32_t inputs = ports(p, kind, in, out, &outputs);
    redco_tensor from[7], to[3];
    redco_error err = {.status = REDCO_OK};
    redco_backend *b = r->cuda;
    const redco_backend_calls *c = b->calls;
    redco_launch launch = {.kind = kind,
                           .attributes = &p->attributes,
                           .input_count = inputs,
                           .output_count = outputs,
                           .inputs = from,
                           .outputs = to,
                           .name = p->shape->name};
    for (uint32_t i = 0; i < inputs + outputs; i++) {
        const int t = i < inputs ? in[i] : out[i - inputs];
        redco_tensor *tensor = i < inputs ? &from[i] : &to[i - inputs];
        const uint64_t bytes = redco_type_bytes(&p->type[t]) + GUARD_BYTES;
        unsigned char *data = malloc(bytes);
        assert_non_null(data);
        tensor->type = p->type[t];
        memset(data, GUARD, bytes);
        if (i < inputs) { encode(p->type[t].dtype, p->exact[t], count_of(p, t), data); }
        must(c->allocate(b, REDCO_MEMORY_DEVICE, bytes, &tensor->data, &err), &err);
        must(c->copy(b, r->stream, tensor->data, data, bytes, &err), &err);
        must(c->stream_finish(b, r->stream, &err), &err);
        free(data);
    }
    assert_true(c->supports(b, &launch));
    assert_int_equal(redcoi_dnn_runner.supports((const redcoi_cuda *)b, &launch), dnn);
    const uint64_t workspace_bytes = c->workspace_bytes(b, &launch);
    if (!dnn) { /* as the README says */
        const uint64_t rows = p->shape->batch * p->shape->heads * p->shape->queries;
        assert_int_equal(workspace_bytes, kind == REDCO_OP_ATTENTION ? 0 : rows * (p->dtype == REDCO_F64 ? 8 : 4));
    }
    must(c->allocate(b, REDCO_MEMORY_DEVICE, workspace_bytes + 1, &launch.workspace, &err), &err);
    must(c->run(b, r->stream, &launch, &err), &err);
    for (uint32_t i = 0; i < outputs; i++) {
        const uint64_t bytes = redco_type_bytes(&to[i].type), n = count_of(p, out[i]);
        unsigned char *data = malloc(bytes + GUARD_BYTES);
        double *values = malloc(n * sizeof *values);
        assert_non_null(data);
        assert_non_null(values);
        must(c->copy(b, r->stream, data, to[i].data, bytes + GUARD_BYTES, &err), &err);
        must(c->stream_finish(b, r->stream, &err), &err);
        decode(to[i].type.dtype, data, n, values);
        if (keep) {
            memcpy(p->exact[out[i]], values, n * sizeof *values);
        } else {
            compare(r, p, out[i], values, dnn);
        }
        for (uint32_t g = 0; g < GUARD_BYTES; g++) { assert_int_equal(data[bytes + g], GUARD); }
        free(values);
        free(data);
    }
    for (uint32_t i = 0; i < inputs + outputs; i++) {
        c->release(b, REDCO_MEMORY_DEVICE, i < inputs ? from[i].data : to[i - inputs].data);
    }
    c->release(b, REDCO_MEMORY_DEVICE, launch.workspace);
}

static void make_problem(fixture *r, const shape *s, redco_dtype dtype, problem *p)
{
    memset(p, 0, sizeof *p);
    p->shape = s;
    p->dtype = dtype;
    p->attributes.scalar = 1 / sqrt((double)s->size);
    p->attributes.flags = s->causal ? REDCO_FLAG_CAUSAL : 0;
    p->attributes.offset = s->offset;
    p->attributes.window = s->window;
    set_types(p);
    for (int t = 0; t < TENSORS; t++) {
        p->exact[t] = calloc(count_of(p, t), sizeof(double));
        assert_non_null(p->exact[t]);
        for (uint64_t i = 0; i < count_of(p, t); i++) {
            p->exact[t][i] = t == MASK ? (double)(draw(r) < 0.2) : round_to(dtype, 2 * draw(r));
        }
    }
    if (s->mask != NO_MASK) { /* the first row sees nothing */
        for (uint64_t i = 0; i < s->keys; i++) { p->exact[MASK][i] = 0; }
    }
}

static void free_problem(problem *p)
{
    for (int t = 0; t < TENSORS; t++) { free(p->exact[t]); }
}

static void run_shapes(fixture *r, const redco_dtype *dtypes, uint32_t count, bool dnn)
{
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        for (uint32_t d = 0; d < count; d++) {
            problem p;
            if (dnn && !shapes[i].dnn) { continue; }
            make_problem(r, &shapes[i], dtypes[d], &p);
            run_exact(r, &p, REDCO_OP_ATTENTION);
            run_device(r, &p, REDCO_OP_ATTENTION, dnn, false);
            /* Backward gets what forward stored: both sides start from the same rounded numbers. */
            for (uint64_t k = 0; k < count_of(&p, O); k++) { p.exact[O][k] = round_to(p.dtype, p.exact[O][k]); }
            for (uint64_t k = 0; k < count_of(&p, LSE); k++) {
                p.exact[LSE][k] = round_to(p.type[LSE].dtype, p.exact[LSE][k]);
            }
            run_exact(r, &p, REDCO_OP_ATTENTION_GRAD);
            run_device(r, &p, REDCO_OP_ATTENTION_GRAD, dnn, false);
            free_problem(&p);
        }
    }
    print_message("%u tensors, largest error %.2f of the bound\n", r->compared, r->worst);
}

static void open_fixture(fixture *r, bool own)
{
    const redco_cuda_options options = {.own_attention = own};
    redco_error err = {.status = REDCO_OK};
    memset(r, 0, sizeof *r);
    r->random = 20261120;
    if (redco_cuda_open(&options, &r->cuda, &err) != REDCO_OK) {
        print_message("%s: %s\n", err.place, err.text);
        skip();
    }
    must(redco_host_open(NULL, &r->host, &err), &err);
    must(r->cuda->calls->stream_create(r->cuda, REDCO_DEVICE_STREAM_COMPUTATION, &r->stream, &err), &err);
}

static void close_fixture(fixture *r)
{
    uint64_t live = 0, peak = 0;
    r->cuda->calls->memory_use(r->cuda, &live, &peak);
    assert_int_equal(live, 0);
    r->cuda->calls->stream_free(r->cuda, r->stream);
    redco_backend_close(r->cuda);
    redco_backend_close(r->host);
}

static void own_kernels_agree_with_host(void **state)
{
    static const redco_dtype dtypes[] = {REDCO_F32, REDCO_F64, REDCO_BFLOAT16, REDCO_F16};
    fixture r;
    (void)state;
    open_fixture(&r, true);
    redco_cuda_device device;
    assert_int_equal(redco_cuda_describe(r.cuda, &device, NULL), REDCO_OK);
    assert_int_equal(device.dnn_version, 0);
    run_shapes(&r, dtypes, 4, false);
    close_fixture(&r);
}

static void same_inputs_give_same_bits(void **state)
{
    static const redco_dtype dtypes[] = {REDCO_F32, REDCO_BFLOAT16};
    fixture r;
    (void)state;
    open_fixture(&r, true);
    for (int d = 0; d < 2; d++) {
        problem p;
        double *first[3];
        make_problem(&r, &shapes[3], dtypes[d], &p);
        run_exact(&r, &p, REDCO_OP_ATTENTION);
        for (uint64_t k = 0; k < count_of(&p, O); k++) { p.exact[O][k] = round_to(p.dtype, p.exact[O][k]); }
        for (int turn = 0; turn < 2; turn++) {
            run_device(&r, &p, REDCO_OP_ATTENTION_GRAD, false, true);
            for (int t = 0; t < 3; t++) {
                const size_t bytes = count_of(&p, D_Q + t) * sizeof(double);
                if (turn == 0) {
                    first[t] = malloc(bytes);
                    assert_non_null(first[t]);
                    memcpy(first[t], p.exact[D_Q + t], bytes);
                } else {
                    assert_memory_equal(first[t], p.exact[D_Q + t], bytes);
                    free(first[t]);
                }
            }
        }
        free_problem(&p);
    }
    close_fixture(&r);
}

/** Where own kernels replace it, the device counts that and knows why. */
static void without_dnn_own_kernels_run(void **state)
{
    static const char *const settings[][2] = {{"MOCK_CUDNN_VERSION", "91001"}, /* too old */
                                              {"MOCK_CUDNN_HANDLES", "0"},
                                              {"MOCK_CUDNN_ENGINES", "0"}};
    static const char *const whys[] = {"9.10.1 is too old", "does not start", "does not take forward of 64 queries"};
    redco_cuda_device device;
    (void)state;
    for (int i = 0; i < 3; i++) {
        fixture r;
        problem p;
        assert_int_equal(setenv(settings[i][0], settings[i][1], 1), 0);
        open_fixture(&r, false);
        assert_int_equal(redco_cuda_describe(r.cuda, &device, NULL), REDCO_OK);
        if (strstr(device.name, "mock library") == NULL) { /* a real device does not listen */
            close_fixture(&r);
            assert_int_equal(unsetenv(settings[i][0]), 0);
            skip();
        }
        assert_int_equal(device.dnn_version != 0, i == 2);
        make_problem(&r, &shapes[0], REDCO_BFLOAT16, &p);
        run_exact(&r, &p, REDCO_OP_ATTENTION);
        run_device(&r, &p, REDCO_OP_ATTENTION, false, false);
        redco_cuda_attention used;
        redco_cuda_attention_used(r.cuda, &used);
        assert_int_equal(used.dnn_launches, 0);
        assert_true(used.own_launches > 0 && used.slow_launches == used.own_launches);
        assert_non_null(strstr(used.why, whys[i]));
        free_problem(&p);
        close_fixture(&r);
        assert_int_equal(unsetenv(settings[i][0]), 0);
    }
}

/** An old version refuses backward with keys that are no multiple of 128, and nothing else (cudnn-frontend 1.23,
 *  CompositeSDPABackwardNode::pre_validate_node(): up to 9.15.0). */
static void old_versions_refuse_odd_keys_backward(void **state)
{
    static const struct {
        const char *version;
        uint64_t keys;
        bool backward_taken;
    } cases[] = {{"91002", 128, true}, {"91400", 256, true}, {"91400", 129, false},
                 {"91500", 64, false}, {"91501", 64, true},  {"91600", 77, true}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        fixture r;
        redco_cuda_device device;
        assert_int_equal(setenv("MOCK_CUDNN_VERSION", cases[i].version, 1), 0);
        open_fixture(&r, false);
        assert_int_equal(redco_cuda_describe(r.cuda, &device, NULL), REDCO_OK);
        if (strstr(device.name, "mock library") == NULL) {
            close_fixture(&r);
            assert_int_equal(unsetenv("MOCK_CUDNN_VERSION"), 0);
            skip();
        }
        shape s = shapes[0];
        problem p;
        redco_cuda_attention used;
        s.queries = s.keys = cases[i].keys;
        make_problem(&r, &s, REDCO_BFLOAT16, &p);
        run_exact(&r, &p, REDCO_OP_ATTENTION);
        run_device(&r, &p, REDCO_OP_ATTENTION, true, false);
        for (uint64_t k = 0; k < count_of(&p, O); k++) { p.exact[O][k] = round_to(p.dtype, p.exact[O][k]); }
        run_exact(&r, &p, REDCO_OP_ATTENTION_GRAD);
        run_device(&r, &p, REDCO_OP_ATTENTION_GRAD, cases[i].backward_taken, false);
        redco_cuda_attention_used(r.cuda, &used);
        assert_int_equal(used.dnn_launches, cases[i].backward_taken ? 2 : 1);
        assert_int_equal(used.slow_launches, cases[i].backward_taken ? 0 : 1);
        if (!cases[i].backward_taken) { assert_non_null(strstr(used.why, ": 9.16.0 or newer is wanted")); }
        free_problem(&p);
        close_fixture(&r);
    }
    assert_int_equal(unsetenv("MOCK_CUDNN_VERSION"), 0);
}

/** Gradients against differences of the loss sum(o w) along random directions, forward by the host in F64: of second
 *  order, h = 1e-4: 1e-8 of derivatives of third order, and 1e-12 of rounding. */
static void gradients_are_differences(void **state)
{
    const double h = 1e-4;
    fixture r;
    (void)state;
    open_fixture(&r, true);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        problem p;
        double *direction[3], slope = 0, size = 1e-3, difference = 0;
        if (shapes[i].size > 128) { continue; }
        make_problem(&r, &shapes[i], REDCO_F64, &p);
        for (int t = Q; t <= V; t++) {
            direction[t] = malloc(count_of(&p, t) * sizeof(double));
            assert_non_null(direction[t]);
            for (uint64_t k = 0; k < count_of(&p, t); k++) { direction[t][k] = draw(&r); }
        }
        run_exact(&r, &p, REDCO_OP_ATTENTION);
        run_device(&r, &p, REDCO_OP_ATTENTION_GRAD, false, true);
        for (int t = Q; t <= V; t++) {
            for (uint64_t k = 0; k < count_of(&p, t); k++) {
                slope += p.exact[D_Q + t][k] * direction[t][k];
                size += fabs(p.exact[D_Q + t][k] * direction[t][k]);
            }
        }
        for (int side = 1; side >= -1; side -= 2) {
            const double step = side > 0 ? h : -2 * h;
            for (int t = Q; t <= V; t++) {
                for (uint64_t k = 0; k < count_of(&p, t); k++) { p.exact[t][k] += step * direction[t][k]; }
            }
            run_exact(&r, &p, REDCO_OP_ATTENTION);
            for (uint64_t k = 0; k < count_of(&p, O); k++) {
                difference += side * p.exact[O][k] * p.exact[D_O][k] / (2 * h);
            }
        }
        if (!(fabs(slope - difference) <= 1e-7 * size)) {
            fail_msg("%s: slope %.12g, differences %.12g of %.3g", shapes[i].name, slope, difference, size);
        }
        for (int t = Q; t <= V; t++) { free(direction[t]); }
        free_problem(&p);
    }
    close_fixture(&r);
}

/** A graph that cuDNN refuses is an error that says what and where. */
static void refusals_are_errors(void **state)
{
    redco_cuda_device device;
    redco_error err = {.status = REDCO_OK};
    redco_tensor from[3], to[2];
    problem p;
    fixture r;
    (void)state;
    open_fixture(&r, false);
    assert_int_equal(redco_cuda_describe(r.cuda, &device, NULL), REDCO_OK);
    if (device.dnn_version == 0 || strstr(device.name, "mock library") == NULL) { /* a real device would be lost */
        close_fixture(&r);
        skip();
    }
    make_problem(&r, &shapes[0], REDCO_BFLOAT16, &p);
    static unsigned char host_memory[1 << 16];
    for (int i = 0; i < 3; i++) { from[i] = (redco_tensor){p.type[Q + i], host_memory}; }
    for (int i = 0; i < 2; i++) { to[i] = (redco_tensor){p.type[O + i], host_memory}; }
    const redco_launch launch = {.kind = REDCO_OP_ATTENTION,
                                 .attributes = &p.attributes,
                                 .input_count = 3,
                                 .output_count = 2,
                                 .inputs = from,
                                 .outputs = to,
                                 .name = "fwd/block.0/attention"};
    assert_int_equal(r.cuda->calls->run(r.cuda, r.stream, &launch, &err), REDCO_ESYSTEM);
    assert_string_equal(err.place, "fwd/block.0/attention");
    assert_non_null(strstr(err.text, "cuDNN: attention: CUDNN_STATUS_BAD_PARAM"));
    free_problem(&p);
    close_fixture(&r);
}

/** Never run without the bias that it has. */
static void a_bias_of_the_scores_is_refused(void **state)
{
    redco_tensor in[7], out[3];
    problem p;
    fixture r;
    (void)state;
    open_fixture(&r, false);
    make_problem(&r, &shapes[0], REDCO_BFLOAT16, &p);
    static unsigned char host_memory[1 << 16];
    const uint64_t dim[4] = {1, p.shape->heads, 1, p.shape->keys};
    const redco_tensor bias = {redco_type(REDCO_F32, 4, dim), host_memory};
    const int order[7] = {Q, K, V, MASK, O, LSE, D_O};
    for (int i = 0; i < 7; i++) { in[i] = i == 3 ? bias : (redco_tensor){p.type[order[i]], host_memory}; }
    for (int k = 0; k < 3; k++) {
        static const redco_op_kind kinds[3] = {REDCO_OP_ATTENTION, REDCO_OP_ATTENTION_GRAD,
                                               REDCO_OP_ATTENTION_BIAS_GRAD};
        redco_error err = {.status = REDCO_OK};
        const bool forward = kinds[k] == REDCO_OP_ATTENTION;
        for (int i = 0; i < 3; i++) { out[i] = in[i]; }
        if (forward) { out[0] = in[4], out[1] = in[5]; }
        if (kinds[k] == REDCO_OP_ATTENTION_BIAS_GRAD) { out[0] = bias; }
        const redco_launch launch = {.kind = kinds[k],
                                     .attributes = &p.attributes,
                                     .input_count = forward ? 4 : 7,
                                     .output_count = redco_op_kind_outputs(kinds[k]),
                                     .inputs = in,
                                     .outputs = out,
                                     .name = "fwd/block.0/attention"};
        assert_false(r.cuda->calls->supports(r.cuda, &launch));
        assert_int_equal(r.cuda->calls->run(r.cuda, r.stream, &launch, &err), REDCO_EVALUE);
        assert_string_equal(err.text, "attention adds a bias to its scores (ALiBi, relative positions), for which the "
                                      "CUDA backend has no kernel: use --backend host");
    }
    free_problem(&p);
    close_fixture(&r);
}

static void dnn_agrees_with_host(void **state)
{
    static const redco_dtype dtypes[] = {REDCO_BFLOAT16, REDCO_F16};
    redco_cuda_device device;
    fixture r;
    (void)state;
    open_fixture(&r, false);
    assert_int_equal(redco_cuda_describe(r.cuda, &device, NULL), REDCO_OK);
    if (device.dnn_version == 0) {
        close_fixture(&r);
        print_message("no libcudnn.so.9\n");
        skip();
    }
    run_shapes(&r, dtypes, 2, true);
    close_fixture(&r);
}

/** A graph that cuDNN does not take goes to own kernels, with their workspace and their precision. */
static void own_kernels_fill_in(void **state)
{
    static const redco_dtype dtypes[] = {REDCO_BFLOAT16};
    fixture r;
    (void)state;
    open_fixture(&r, false);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        problem p;
        /* cuDNN has forward of wide heads on some devices, and of one token. */
        if (shapes[i].dnn || shapes[i].size == 256 || shapes[i].queries == 1) { continue; }
        make_problem(&r, &shapes[i], dtypes[0], &p);
        run_exact(&r, &p, REDCO_OP_ATTENTION);
        run_device(&r, &p, REDCO_OP_ATTENTION, false, false);
        free_problem(&p);
    }
    assert_in_range(r.compared, 10, 1000);
    close_fixture(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_kernels_agree_with_host), cmocka_unit_test(a_bias_of_the_scores_is_refused),
        cmocka_unit_test(dnn_agrees_with_host),        cmocka_unit_test(own_kernels_fill_in),
        cmocka_unit_test(without_dnn_own_kernels_run), cmocka_unit_test(old_versions_refuse_odd_keys_backward),
        cmocka_unit_test(refusals_are_errors),         cmocka_unit_test(gradients_are_differences),
        cmocka_unit_test(same_inputs_give_same_bits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
