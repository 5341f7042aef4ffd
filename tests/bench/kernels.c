/* redco_bench_kernels [GB/s]: own CUDA kernels at the sizes of a language model (8192 tokens, 4096 wide, 128256 words),
 * as bytes that must be moved over time, and the share of the bandwidth that is given (4800 for an H200). */
#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/graph_internal.h"
#include "executor/backend/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TOKENS = 8192, WIDTH = 4096, WORDS = 128256, INNER = 14336, ROUNDS = 20, INPUTS = 5 };

typedef struct row {
    const char *name;
    redco_op_kind kind;
    redco_attributes attributes;
    uint32_t input_count;
    redco_tensor_type in[INPUTS];
    double read_share; /* share of the inputs' bytes that are needed; 0: all */
} row;

#define T(dtype, ...)                                                                                                  \
    {                                                                                                                  \
        REDCO_##dtype, sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t),                                           \
        {                                                                                                              \
            __VA_ARGS__                                                                                                \
        }                                                                                                              \
    }

static const row rows[] = {
    {"add", REDCO_OP_ADD, {.scalar = 0}, 2, {T(BFLOAT16, TOKENS, WIDTH), T(BFLOAT16, TOKENS, WIDTH)}, 0},
    {"add of a row", REDCO_OP_ADD, {.scalar = 0}, 2, {T(BFLOAT16, TOKENS, INNER), T(BFLOAT16, 1, INNER)}, 0},
    {"mul", REDCO_OP_MUL, {.scalar = 0}, 2, {T(BFLOAT16, TOKENS, INNER), T(BFLOAT16, TOKENS, INNER)}, 0},
    {"add in F32", REDCO_OP_ADD, {.scalar = 0}, 2, {T(F32, TOKENS, WIDTH), T(F32, TOKENS, WIDTH)}, 0},
    {"silu", REDCO_OP_SILU, {.scalar = 0}, 1, {T(BFLOAT16, TOKENS, INNER)}, 0},
    {"silu_grad", REDCO_OP_SILU_GRAD, {.scalar = 0}, 2, {T(BFLOAT16, TOKENS, INNER), T(BFLOAT16, TOKENS, INNER)}, 0},
    {"gelu", REDCO_OP_GELU, {.scalar = 0}, 1, {T(BFLOAT16, TOKENS, INNER)}, 0},
    {"gelu_tanh", REDCO_OP_GELU_TANH, {.scalar = 0}, 1, {T(BFLOAT16, TOKENS, INNER)}, 0},
    {"cast to bf16", REDCO_OP_CAST, {.dtype = REDCO_BFLOAT16}, 1, {T(F32, TOKENS, INNER)}, 0},
    {"cast to f32", REDCO_OP_CAST, {.dtype = REDCO_F32}, 1, {T(BFLOAT16, TOKENS, INNER)}, 0},
    {"rms_norm", REDCO_OP_RMS_NORM, {.scalar = 1e-5}, 2, {T(BFLOAT16, TOKENS, WIDTH), T(BFLOAT16, WIDTH)}, 0},
    {"rms_norm_grad",
     REDCO_OP_RMS_NORM_GRAD,
     {.scalar = 0},
     4,
     {T(BFLOAT16, TOKENS, WIDTH), T(BFLOAT16, WIDTH), T(F32, TOKENS, 1), T(BFLOAT16, TOKENS, WIDTH)},
     0},
    {"layer_norm",
     REDCO_OP_LAYER_NORM,
     {.scalar = 1e-5},
     3,
     {T(BFLOAT16, TOKENS, WIDTH), T(BFLOAT16, WIDTH), T(BFLOAT16, WIDTH)},
     0},
    {"layer_norm_grad",
     REDCO_OP_LAYER_NORM_GRAD,
     {.scalar = 0},
     5,
     {T(BFLOAT16, TOKENS, WIDTH), T(BFLOAT16, WIDTH), T(F32, TOKENS, 1), T(F32, TOKENS, 1), T(BFLOAT16, TOKENS, WIDTH)},
     0},
    {"rotary",
     REDCO_OP_ROTARY,
     {.scalar = 0},
     3,
     {T(BFLOAT16, 2, TOKENS / 2, 32, 128), T(F32, TOKENS / 2, 64), T(F32, TOKENS / 2, 64)},
     0},
    {"softmax", REDCO_OP_SOFTMAX, {.scalar = 0}, 1, {T(BFLOAT16, TOKENS, WIDTH)}, 0},
    {"cross_entropy",
     REDCO_OP_CROSS_ENTROPY,
     {.flags = REDCO_FLAG_MASKED},
     2,
     {T(BFLOAT16, TOKENS, WORDS), T(I32, TOKENS)},
     0},
    {"cross_entropy_grad",
     REDCO_OP_CROSS_ENTROPY_GRAD,
     {.flags = REDCO_FLAG_MASKED},
     4,
     {T(BFLOAT16, TOKENS, WORDS), T(I32, TOKENS), T(F32, TOKENS), T(F32, TOKENS)},
     0},
    {"cross_entropy 50257",
     REDCO_OP_CROSS_ENTROPY,
     {.flags = REDCO_FLAG_MASKED},
     2,
     {T(BFLOAT16, TOKENS, 50257), T(I32, TOKENS)},
     0},
    {"sum of rows", REDCO_OP_REDUCE_SUM, {.axis = {1}, .axis_count = 1}, 1, {T(F32, TOKENS, INNER)}, 0},
    {"sum of columns", REDCO_OP_REDUCE_SUM, {.axis = {0}, .axis_count = 1}, 1, {T(BFLOAT16, TOKENS, INNER)}, 0},
    {"sum of all", REDCO_OP_REDUCE_SUM, {.axis = {0, 1}, .axis_count = 2}, 1, {T(F32, TOKENS, INNER)}, 0},
    {"transpose", REDCO_OP_TRANSPOSE, {.axis = {1, 0}, .axis_count = 2}, 1, {T(BFLOAT16, TOKENS, INNER)}, 0},
    {"transpose of heads",
     REDCO_OP_TRANSPOSE,
     {.axis = {0, 2, 1, 3}, .axis_count = 4},
     1,
     {T(BFLOAT16, 2, TOKENS / 2, 32, 128)},
     0},
    {"slice",
     REDCO_OP_SLICE,
     {.size = {TOKENS, WIDTH}, .begin = {0, 1024}, .rank = 2},
     1,
     {T(BFLOAT16, TOKENS, 6144)},
     2.0 / 3},
    {"concat", REDCO_OP_CONCAT, {.axis = {1}}, 2, {T(BFLOAT16, TOKENS, WIDTH), T(BFLOAT16, TOKENS, WIDTH)}, 0},
    {"gather", REDCO_OP_GATHER, {.scalar = 0}, 2, {T(BFLOAT16, WORDS, WIDTH), T(I32, TOKENS)}, (double)TOKENS / WORDS},
    {"scatter_add", REDCO_OP_SCATTER_ADD, {.size = {WORDS}}, 2, {T(I32, TOKENS), T(BFLOAT16, TOKENS, WIDTH)}, 0},
    {"adamw",
     REDCO_OP_ADAMW,
     {.scalar = 0},
     5,
     {T(F32, 1 << 27), T(F32, 1 << 27), T(F32, 1 << 27), T(BFLOAT16, 1 << 27), T(F32, REDCO_ADAMW_COUNT)},
     0},
};

/* Zeros are inputs as good as any: indices of row 0 are the worst for scatter_add, so these differ. */
static redco_status fill(redco_backend *b, redco_device_stream *q, const redco_tensor *t, redco_error *err)
{
    redco_status st = b->calls->fill_zero(b, q, t->data, redco_type_bytes(&t->type), err);
    if (st != REDCO_OK || t->type.dtype != REDCO_I32) { return st; }
    static int32_t index[TOKENS];
    for (uint32_t i = 0; i < TOKENS; i++) { index[i] = (int32_t)(i * UINT64_C(7919) % 50000); }
    return b->calls->copy(b, q, t->data, index, redco_type_bytes(&t->type), err);
}

static redco_status time_launch(redco_backend *b, redco_device_stream *q, const redco_launch *launch,
                                double *seconds_out, redco_error *err)
{
    redco_event *from = NULL, *to = NULL;
    redco_status st = b->calls->event_create(b, &from, err);
    if (st == REDCO_OK) { st = b->calls->event_create(b, &to, err); }
    for (int i = 0; i < 3 && st == REDCO_OK; i++) { st = b->calls->run(b, q, launch, err); }
    if (st == REDCO_OK) { st = b->calls->event_set(b, q, from, err); }
    for (int i = 0; i < ROUNDS && st == REDCO_OK; i++) { st = b->calls->run(b, q, launch, err); }
    if (st == REDCO_OK) { st = b->calls->event_set(b, q, to, err); }
    if (st == REDCO_OK) { st = b->calls->event_finish(b, to, err); }
    if (st == REDCO_OK) { st = b->calls->event_between(b, from, to, seconds_out, err); }
    *seconds_out /= ROUNDS;
    b->calls->event_free(b, from);
    b->calls->event_free(b, to);
    return st;
}

static redco_status allocate(redco_backend *b, redco_device_stream *q, redco_tensor *t, double *bytes, redco_error *err)
{
    const uint64_t size = redco_type_bytes(&t->type);
    const redco_status st = b->calls->allocate(b, REDCO_MEMORY_DEVICE, size, &t->data, err);
    *bytes += (double)size;
    return st == REDCO_OK ? fill(b, q, t, err) : st;
}

static redco_status run_row(redco_backend *b, redco_device_stream *q, const row *r, double bandwidth, redco_error *err)
{
    redco_tensor inputs[INPUTS], outputs[REDCO_OUTPUTS_MAX];
    redcoi_signature s = {.kind = r->kind,
                          .input_count = r->input_count,
                          .in = r->in,
                          .attributes = &r->attributes,
                          .place = r->name,
                          .err = err};
    redco_launch launch = {.kind = r->kind,
                           .attributes = &r->attributes,
                           .input_count = r->input_count,
                           .output_count = redco_op_kind_outputs(r->kind),
                           .inputs = inputs,
                           .outputs = outputs,
                           .name = r->name};
    double read = 0, written = 0, seconds = 0;
    memset(inputs, 0, sizeof inputs);
    memset(outputs, 0, sizeof outputs);
    redco_status st = redcoi_infer_rules[r->kind](&s);
    for (uint32_t i = 0; i < r->input_count && st == REDCO_OK; i++) {
        inputs[i].type = r->in[i];
        st = allocate(b, q, &inputs[i], &read, err);
    }
    for (uint32_t i = 0; i < launch.output_count && st == REDCO_OK; i++) {
        outputs[i].type = s.out[i];
        st = allocate(b, q, &outputs[i], &written, err);
    }
    if (st == REDCO_OK) {
        const uint64_t bytes = b->calls->workspace_bytes(b, &launch);
        st = bytes == 0 ? REDCO_OK : b->calls->allocate(b, REDCO_MEMORY_DEVICE, bytes, &launch.workspace, err);
    }
    if (st == REDCO_OK) { st = time_launch(b, q, &launch, &seconds, err); }
    if (st == REDCO_OK) {
        const double moved = (r->read_share > 0 ? r->read_share * read : read) + written;
        printf("%-20s %9.1f MB %9.1f us %7.0f GB/s", r->name, 1e-6 * moved, 1e6 * seconds, 1e-9 * moved / seconds);
        if (bandwidth > 0) { printf(" %4.0f %%", 100 * moved / seconds / bandwidth); }
        printf("\n");
    }
    for (uint32_t i = 0; i < r->input_count; i++) { b->calls->release(b, REDCO_MEMORY_DEVICE, inputs[i].data); }
    for (uint32_t i = 0; i < launch.output_count; i++) { b->calls->release(b, REDCO_MEMORY_DEVICE, outputs[i].data); }
    b->calls->release(b, REDCO_MEMORY_DEVICE, launch.workspace);
    return st;
}

int main(int argc, char **argv)
{
    const double bandwidth = argc > 1 ? 1e9 * strtod(argv[1], NULL) : 0;
    redco_error err = {.status = REDCO_OK};
    redco_cuda_device device;
    redco_backend *b = NULL;
    redco_device_stream *q = NULL;
    if (redco_cuda_open(NULL, &b, &err) != REDCO_OK) {
        (void)fprintf(stderr, "%s: %s\n", err.place, err.text);
        return 77;
    }
    redco_status st = redco_cuda_describe(b, &device, &err);
    if (st == REDCO_OK) {
        printf("%s, %u multiprocessors, %.0f MHz, memory %.0f MHz\n", device.name, device.multiprocessors,
               1e-6 * device.clock_hz, 1e-6 * device.memory_clock_hz);
        st = b->calls->stream_create(b, REDCO_DEVICE_STREAM_COMPUTATION, &q, &err);
    }
    for (size_t i = 0; i < sizeof rows / sizeof *rows && st == REDCO_OK; i++) {
        st = run_row(b, q, &rows[i], bandwidth, &err);
    }
    if (st != REDCO_OK) { (void)fprintf(stderr, "%s: %s\n", err.place, err.text); }
    if (q != NULL) { b->calls->stream_free(b, q); }
    redco_backend_close(b);
    return st == REDCO_OK ? 0 : 1;
}
