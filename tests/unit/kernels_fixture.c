#include "kernels_fixture.h"

#include "costmodel/graph/graph_internal.h"
#include "executor/backend/cuda/cuda.h"
#include "executor/backend/host/host.h"
#include "executor/backend/host/kernels.h"

enum { ZONE_BYTES = 512, ZONE_BYTE = 0xA5 };

int fixture_open(void **state)
{
    static fixture r;
    redco_error err = {.status = REDCO_OK};
    memset(&r, 0, sizeof r);
    r.random = 7;
    if (redco_cuda_open(NULL, &r.cuda, &err) != REDCO_OK) {
        printf("skipped: %s: %s\n", err.place, err.text);
        exit(77);
    }
    assert_int_equal(redco_host_open(NULL, &r.host, NULL), REDCO_OK);
    assert_int_equal(r.cuda->calls->stream_create(r.cuda, REDCO_DEVICE_STREAM_COMPUTATION, &r.stream, NULL), REDCO_OK);
    assert_int_equal(r.host->calls->stream_create(r.host, REDCO_DEVICE_STREAM_COMPUTATION, &r.host_stream, NULL),
                     REDCO_OK);
    *state = &r;
    return 0;
}

int fixture_close(void **state)
{
    fixture *r = *state;
    uint64_t live_bytes = 1, peak_bytes = 0;
    printf("%u cases, %u launches in place\n", r->cases, r->launches_in_place);
    r->cuda->calls->memory_use(r->cuda, &live_bytes, &peak_bytes);
    assert_int_equal(live_bytes, 0);
    r->cuda->calls->stream_free(r->cuda, r->stream);
    r->host->calls->stream_free(r->host, r->host_stream);
    redco_backend_close(r->cuda);
    redco_backend_close(r->host);
    return 0;
}

static uint64_t next(fixture *r) /* splitmix64 */
{
    uint64_t z = r->random += UINT64_C(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

uint64_t fixture_below(fixture *r, uint64_t n)
{
    return next(r) % n;
}

redco_tensor_type fixture_dims(redco_dtype dtype, uint32_t rank, const uint64_t *dim)
{
    return redco_type(dtype, rank, dim);
}

/** Tensors of a case in one piece of memory, with zones around each that nobody may write. */
typedef struct layout {
    redco_tensor_type out[REDCO_OUTPUTS_MAX];
    uint32_t output_count;
    uint64_t in_at[REDCO_INPUTS_MAX], out_at[REDCO_OUTPUTS_MAX], workspace_at, workspace_bytes, bytes;
} layout;

static uint64_t put(uint64_t *at, uint64_t bytes, bool shifted)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES, begin = (*at + unit - 1) / unit * unit + (shifted ? 16 : 0);
    *at = begin + bytes + ZONE_BYTES;
    return begin;
}

static redco_launch launch_of(const kernel_case *c, const layout *l, unsigned char *memory, redco_tensor *inputs,
                              redco_tensor *outputs)
{
    for (uint32_t i = 0; i < c->input_count; i++) { inputs[i] = (redco_tensor){c->in[i], memory + l->in_at[i]}; }
    for (uint32_t i = 0; i < l->output_count; i++) { outputs[i] = (redco_tensor){l->out[i], memory + l->out_at[i]}; }
    return (redco_launch){.kind = c->kind,
                          .attributes = &c->attributes,
                          .input_count = c->input_count,
                          .output_count = l->output_count,
                          .inputs = inputs,
                          .outputs = outputs,
                          .workspace = l->workspace_bytes > 0 ? memory + l->workspace_at : NULL,
                          .name = redco_op_kind_name(c->kind)};
}

static void lay_out(const kernel_case *c, const redco_backend *backend, layout *l)
{
    redcoi_signature s = {
        .kind = c->kind, .input_count = c->input_count, .in = c->in, .attributes = &c->attributes, .place = "test"};
    redco_error err = {.status = REDCO_OK};
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    uint64_t at = ZONE_BYTES;
    memset(l, 0, sizeof *l);
    s.err = &err;
    if (redcoi_infer_rules[c->kind](&s) != REDCO_OK) { fail_msg("%s: %s", redco_op_kind_name(c->kind), err.text); }
    l->output_count = redco_op_kind_outputs(c->kind);
    for (uint32_t i = 0; i < c->input_count; i++) { l->in_at[i] = put(&at, redco_type_bytes(&c->in[i]), c->shifted); }
    for (uint32_t i = 0; i < l->output_count; i++) {
        l->out[i] = s.out[i];
        l->out_at[i] = put(&at, redco_type_bytes(&l->out[i]), c->shifted);
    }
    const redco_launch launch = launch_of(c, l, NULL, inputs, outputs);
    assert_true(backend->calls->supports(backend, &launch));
    l->workspace_bytes = backend->calls->workspace_bytes(backend, &launch);
    l->workspace_at = put(&at, l->workspace_bytes, false);
    l->bytes = at;
}

static double number(fixture *r, const kernel_case *c, redco_dtype dtype)
{
    static const double specials[] = {0, -0.0, (double)INFINITY, -(double)INFINITY, (double)NAN, 1, -1};
    if (dtype == REDCO_I32) { return c->first + (double)fixture_below(r, (uint64_t)((int64_t)c->end - c->first)); }
    if (dtype == REDCO_BOOL) { return (double)fixture_below(r, 2); }
    if (c->special && fixture_below(r, 4) == 0) {
        return specials[fixture_below(r, sizeof specials / sizeof *specials)];
    }
    return c->low + (c->high - c->low) * ((double)(next(r) >> 11) * 0x1p-53);
}

/** Memory as it is before a run: zones, random inputs, and outputs filled with the zones' bytes. */
static unsigned char *make_image(fixture *r, const kernel_case *c, const layout *l)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    unsigned char *image = aligned_alloc(unit, (l->bytes + unit - 1) / unit * unit);
    assert_non_null(image);
    memset(image, ZONE_BYTE, l->bytes);
    for (uint32_t i = 0; i < c->input_count; i++) {
        const uint64_t count = redco_type_elements(&c->in[i]), bytes = redco_dtype_bytes(c->in[i].dtype);
        if (c->given[i] != NULL) {
            memcpy(image + l->in_at[i], c->given[i], count * bytes);
            continue;
        }
        for (uint64_t e = 0; e < count; e++) {
            const double x = number(r, c, c->in[i].dtype);
            redcoi_store_f64(c->in[i].dtype, &x, 1, image + l->in_at[i] + e * bytes);
        }
    }
    return image;
}

static redco_status run_cuda(fixture *r, const kernel_case *c, const layout *l, const unsigned char *before,
                             unsigned char *after, redco_error *err)
{
    const redco_backend_calls *calls = r->cuda->calls;
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    void *memory = NULL;
    redco_status st = calls->allocate(r->cuda, REDCO_MEMORY_DEVICE, l->bytes, &memory, err);
    if (st != REDCO_OK) { return st; }
    const redco_launch launch = launch_of(c, l, memory, inputs, outputs);
    st = calls->copy(r->cuda, r->stream, memory, before, l->bytes, err);
    if (st == REDCO_OK) { st = calls->run(r->cuda, r->stream, &launch, err); }
    if (st == REDCO_OK) { st = calls->copy(r->cuda, r->stream, after, memory, l->bytes, err); }
    const redco_status waited = calls->stream_finish(r->cuda, r->stream, err);
    calls->release(r->cuda, REDCO_MEMORY_DEVICE, memory);
    return st == REDCO_OK ? waited : st;
}

static void describe(const kernel_case *c, char *text, size_t size)
{
    char type[REDCO_TYPE_TEXT_BYTES];
    size_t used = (size_t)snprintf(text, size, "%s", redco_op_kind_name(c->kind));
    for (uint32_t i = 0; i < c->input_count && used < size; i++) {
        used += (size_t)snprintf(text + used, size - used, " %s", redco_type_text(&c->in[i], type));
    }
}

/** Everything but outputs and workspace is as it was. */
static void check_outside(const kernel_case *c, const layout *l, const unsigned char *before,
                          const unsigned char *after)
{
    char text[600];
    for (uint64_t i = 0; i < l->bytes; i++) {
        bool inside = i >= l->workspace_at && i < l->workspace_at + l->workspace_bytes;
        for (uint32_t k = 0; k < l->output_count && !inside; k++) {
            inside = i >= l->out_at[k] && i < l->out_at[k] + redco_type_bytes(&l->out[k]);
        }
        if (inside || before[i] == after[i]) { continue; }
        describe(c, text, sizeof text);
        fail_msg("%s: byte %llu, outside of the outputs, was written", text, (unsigned long long)i);
    }
}

static double unit_of(redco_dtype dtype)
{
    switch (dtype) {
    case REDCO_F32: return 0x1p-23;
    case REDCO_F64: return 0x1p-52;
    case REDCO_BFLOAT16: return 0x1p-7;
    case REDCO_F16: return 0x1p-10;
    default: return 0;
    }
}

static bool is_close(double want, double have, double bound)
{
    if (isnan(want) || isnan(have)) { return isnan(want) && isnan(have); }
    if (isinf(want) || isinf(have)) { return want == have; }
    return fabs(want - have) <= bound;
}

static void compare(const kernel_case *c, const redco_tensor_type *type, uint32_t output, const unsigned char *want,
                    const unsigned char *have)
{
    const uint64_t count = redco_type_elements(type), bytes = redco_dtype_bytes(type->dtype);
    const bool half = type->dtype == REDCO_BFLOAT16 || type->dtype == REDCO_F16;
    const double units = c->units == 0 ? 0 : half ? 1.01 : c->units;
    double largest = 0;
    for (uint64_t i = 0; i < count; i++) {
        double x;
        redcoi_load_f64(type->dtype, want + i * bytes, 1, &x);
        if (isfinite(x)) { largest = fmax(largest, fabs(x)); }
    }
    for (uint64_t i = 0; i < count; i++) {
        double x, y;
        char text[600];
        redcoi_load_f64(type->dtype, want + i * bytes, 1, &x);
        redcoi_load_f64(type->dtype, have + i * bytes, 1, &y);
        /* below 2^-14 f16 has steps of 2^-24, and float functions may be off by their own last place near 0 */
        const double small = c->units == 0 ? 0 : type->dtype == REDCO_F16 ? 0x1p-24 : 0x1p-126;
        const double size = c->whole ? largest : fabs(x);
        if (is_close(x, y, units * unit_of(type->dtype) * size + small)) { continue; }
        describe(c, text, sizeof text);
        fail_msg("%s: element %llu of output %u: wanted %.17g, have %.17g (largest %.17g)", text, (unsigned long long)i,
                 output, x, y, largest);
    }
}

/** Output k over an input of its type: the same bits come out. */
static void check_in_place(fixture *r, const kernel_case *c, const layout *l, const unsigned char *before,
                           const unsigned char *wanted, unsigned char *after)
{
    const uint32_t inputs = c->kind == REDCO_OP_ADAMW ? 1 : redco_op_overwrites(c->kind);
    for (uint32_t k = 0; k < inputs && k < c->input_count; k++) {
        layout over = *l;
        for (uint32_t i = 0; i < l->output_count; i++) {
            if (!redco_type_equal(&c->in[k + i], &l->out[i])) { return; }
            over.out_at[i] = l->in_at[k + i];
        }
        redco_error err = {.status = REDCO_OK};
        if (run_cuda(r, c, &over, before, after, &err) != REDCO_OK) { fail_msg("%s: %s", err.place, err.text); }
        check_outside(c, &over, before, after);
        for (uint32_t i = 0; i < l->output_count; i++) {
            assert_memory_equal(after + over.out_at[i], wanted + l->out_at[i], redco_type_bytes(&l->out[i]));
        }
        r->launches_in_place++;
    }
}

void fixture_check(fixture *r, const kernel_case *c)
{
    layout l, host;
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    redco_error err = {.status = REDCO_OK};
    char text[600];
    lay_out(c, r->cuda, &l);
    lay_out(c, r->host, &host);
    unsigned char *before = make_image(r, c, &l), *after = malloc(l.bytes), *again = malloc(l.bytes);
    unsigned char *wanted = aligned_alloc(16, (host.bytes + 15) / 16 * 16);
    assert_true(after != NULL && again != NULL && wanted != NULL);
    memcpy(wanted, before, l.workspace_at);
    const redco_launch launch = launch_of(c, &host, wanted, inputs, outputs);
    describe(c, text, sizeof text);
    if (r->host->calls->run(r->host, r->host_stream, &launch, &err) != REDCO_OK) { fail_msg("%s: %s", text, err.text); }
    if (run_cuda(r, c, &l, before, after, &err) != REDCO_OK) { fail_msg("%s: %s: %s", text, err.place, err.text); }
    check_outside(c, &l, before, after);
    for (uint32_t i = 0; i < l.output_count; i++) {
        compare(c, &l.out[i], i, wanted + host.out_at[i], after + l.out_at[i]);
    }
    if (run_cuda(r, c, &l, before, again, &err) != REDCO_OK) { fail_msg("%s: %s: %s", text, err.place, err.text); }
    assert_memory_equal(after, again, l.workspace_at);
    check_in_place(r, c, &l, before, after, again);
    r->cases++;
    free(before);
    free(after);
    free(again);
    free(wanted);
}

redco_status fixture_try(fixture *r, const kernel_case *c, redco_error *err)
{
    layout l;
    lay_out(c, r->cuda, &l);
    unsigned char *before = make_image(r, c, &l), *after = malloc(l.bytes);
    assert_non_null(after);
    const redco_status st = run_cuda(r, c, &l, before, after, err);
    free(before);
    free(after);
    return st;
}
