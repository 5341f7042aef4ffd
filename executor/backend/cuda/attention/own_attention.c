/* Attention by own kernels: where cuDNN has none (f32, f64, masks, odd head sizes, queries that see nothing), or is not
 * there. */
#include "executor/backend/cuda/cuda_internal.h"
#include "executor/backend/cuda/kernels/attention.h"

#include <stdio.h>

/** Bytes of the type that is calculated in: double for F64, else float. */
static uint32_t real_bytes(redco_dtype dtype)
{
    return dtype == REDCO_F64 ? 8 : 4;
}

/** Head sizes that kernels exist for; 0: none. */
static uint32_t kernel_size(const redco_launch *launch)
{
    const uint64_t size = launch->inputs[0].type.dim[3], value_size = launch->inputs[2].type.dim[3];
    const uint64_t wanted = size > value_size ? size : value_size;
    return wanted <= 64 ? 64 : wanted <= 128 ? 128 : wanted <= REDCOI_ATTENTION_SIZE_MAX ? 256 : 0;
}

/* Tiles, as the kernels have them: the macros want constants. */
#define BY_SIZE(bytes, size, macro)                                                                                    \
    ((size) == 64 ? macro(bytes, 64) : (size) == 128 ? macro(bytes, 128) : macro(bytes, 256))
#define BY_TYPE(bytes, size, macro) ((uint32_t)((bytes) == 8 ? BY_SIZE(8, size, macro) : BY_SIZE(4, size, macro)))

static bool is_backward(const redco_launch *launch)
{
    return launch->kind == REDCO_OP_ATTENTION_GRAD;
}

bool redcoi_has_bias(const redco_launch *launch)
{
    switch (launch->kind) {
    case REDCO_OP_ATTENTION: return launch->input_count == 4 && launch->inputs[3].type.dtype != REDCO_BOOL;
    case REDCO_OP_ATTENTION_GRAD: return launch->input_count == 7 && launch->inputs[3].type.dtype != REDCO_BOOL;
    case REDCO_OP_ATTENTION_BIAS_GRAD: return true;
    default: return false;
    }
}

static bool supports(const redcoi_cuda *cuda, const redco_launch *launch)
{
    if (launch->kind != REDCO_OP_ATTENTION && !is_backward(launch)) { return false; }
    const redco_tensor_type *q = &launch->inputs[0].type, *k = &launch->inputs[1].type;
    const uint32_t size = kernel_size(launch), bytes = real_bytes(q->dtype);
    if (size == 0 || redcoi_has_bias(launch) || !redco_dtype_is_float(q->dtype)) { return false; }
    const uint32_t shared_bytes = is_backward(launch) ? BY_TYPE(bytes, size, REDCOI_ATTENTION_BACKWARD_BYTES)
                                                      : BY_TYPE(bytes, size, REDCOI_ATTENTION_FORWARD_BYTES);
    /* Blocks are numbered in 31 bits; a tile has 16 rows or more, a block of sums 32. */
    const uint64_t most = UINT64_C(1) << 31, longer = q->dim[1] > k->dim[1] ? q->dim[1] : k->dim[1];
    return shared_bytes <= cuda->device->shared_bytes_max && longer < most &&
           q->dim[0] * q->dim[2] < most / (longer / 16 + 1);
}

static uint64_t workspace_bytes(const redcoi_cuda *cuda, const redco_launch *launch)
{
    const redco_tensor_type *q = &launch->inputs[0].type;
    (void)cuda;
    return is_backward(launch) ? q->dim[0] * q->dim[1] * q->dim[2] * real_bytes(q->dtype) : 0;
}

static void set_mask(redcoi_attention_args *a, const redco_tensor *mask)
{
    const redco_tensor_type *m = &mask->type;
    a->mask = mask->data;
    a->mask_query = m->dim[2] == 1 ? 0 : m->dim[3];
    a->mask_head = m->dim[1] == 1 ? 0 : m->dim[2] * m->dim[3];
    a->mask_batch = m->dim[0] == 1 ? 0 : m->dim[1] * m->dim[2] * m->dim[3];
}

static redcoi_attention_args make_args(const redco_launch *launch)
{
    const redco_tensor *in = launch->inputs;
    const redco_tensor_type *q = &in[0].type, *k = &in[1].type, *v = &in[2].type;
    const redco_attributes *attributes = launch->attributes;
    const uint64_t vector = 16 / redco_dtype_bytes(q->dtype);
    const int64_t far = INT64_C(1) << 60; /* beyond any token, and sums of two do not overflow */
    redcoi_attention_args a = {.q = in[0].data,
                               .k = in[1].data,
                               .v = in[2].data,
                               .scale = attributes->scalar,
                               .cap = attributes->cap,
                               .batch = (uint32_t)q->dim[0],
                               .queries = (uint32_t)q->dim[1],
                               .keys = (uint32_t)k->dim[1],
                               .heads = (uint32_t)q->dim[2],
                               .groups = (uint32_t)k->dim[2],
                               .size = (uint32_t)q->dim[3],
                               .value_size = (uint32_t)v->dim[3],
                               .causal = (attributes->flags & REDCO_FLAG_CAUSAL) != 0,
                               .wide = q->dim[3] % vector == 0 && v->dim[3] % vector == 0};
    const int64_t offset = attributes->offset;
    a.offset = offset > far ? far : offset < -far ? -far : offset;
    a.window = attributes->window > (uint64_t)far ? 0 : (int64_t)attributes->window;
    return a;
}

/** @param rows of a tile @param tokens, heads that are tiled */
static redco_status launch_kernel(redcoi_cuda *cuda, redco_device_stream *stream, const redco_launch *launch,
                                  const char *part, const redcoi_attention_args *a, redcoi_grid grid, redco_error *err)
{
    char name[64];
    const char *type = redco_dtype_name(launch->inputs[0].type.dtype);
    if (grid.shared_bytes == 0) {
        (void)snprintf(name, sizeof name, "redco_k_attention_%s_%s", part, type);
    } else {
        (void)snprintf(name, sizeof name, "redco_k_attention_%s_%s_%u", part, type, kernel_size(launch));
    }
    return redcoi_kernel_launch(cuda, stream, name, &grid, a, launch->name, err);
}

static uint32_t tiles(uint32_t tokens, uint32_t rows)
{
    return (tokens + rows - 1) / rows;
}

static redco_status run_forward(redcoi_cuda *cuda, redco_device_stream *stream, const redco_launch *launch,
                                redco_error *err)
{
    const uint32_t bytes = real_bytes(launch->inputs[0].type.dtype), size = kernel_size(launch);
    redcoi_attention_args a = make_args(launch);
    if (launch->input_count == 4) { set_mask(&a, &launch->inputs[3]); }
    a.out = launch->outputs[0].data;
    a.lse_out = launch->outputs[1].data;
    const uint32_t rows = BY_TYPE(bytes, size, REDCOI_ATTENTION_QUERIES);
    const redcoi_grid grid = {.blocks = {tiles(a.queries, rows) * a.heads * a.batch},
                              .threads = REDCOI_ATTENTION_FORWARD_THREADS,
                              .shared_bytes = BY_TYPE(bytes, size, REDCOI_ATTENTION_FORWARD_BYTES)};
    return launch_kernel(cuda, stream, launch, "forward", &a, grid, err);
}

static redco_status run_backward(redcoi_cuda *cuda, redco_device_stream *stream, const redco_launch *launch,
                                 redco_error *err)
{
    const uint32_t bytes = real_bytes(launch->inputs[0].type.dtype), size = kernel_size(launch);
    const uint32_t threads = REDCOI_ATTENTION_BACKWARD_THREADS, first = launch->input_count == 7 ? 4 : 3;
    const uint32_t shared_bytes = BY_TYPE(bytes, size, REDCOI_ATTENTION_BACKWARD_BYTES);
    const uint32_t rows = BY_TYPE(bytes, size, REDCOI_ATTENTION_OWN);
    redcoi_attention_args a = make_args(launch);
    if (first == 4) { set_mask(&a, &launch->inputs[3]); }
    a.o = launch->inputs[first].data;
    a.lse = launch->inputs[first + 1].data;
    a.d_o = launch->inputs[first + 2].data;
    a.d_q = launch->outputs[0].data;
    a.d_k = launch->outputs[1].data;
    a.d_v = launch->outputs[2].data;
    a.sums = launch->workspace;
    const uint64_t lines = (uint64_t)a.batch * a.queries * a.heads;
    const uint32_t lines_of_block = threads / REDCOI_ATTENTION_LANES;
    const redcoi_grid sums = {.blocks = {(uint32_t)((lines + lines_of_block - 1) / lines_of_block)},
                              .threads = threads};
    const redcoi_grid keys = {
        .blocks = {tiles(a.keys, rows) * a.groups * a.batch}, .threads = threads, .shared_bytes = shared_bytes};
    const redcoi_grid queries = {
        .blocks = {tiles(a.queries, rows) * a.heads * a.batch}, .threads = threads, .shared_bytes = shared_bytes};
    redco_status st = launch_kernel(cuda, stream, launch, "sums", &a, sums, err);
    if (st == REDCO_OK) { st = launch_kernel(cuda, stream, launch, "keys", &a, keys, err); }
    if (st == REDCO_OK) { st = launch_kernel(cuda, stream, launch, "queries", &a, queries, err); }
    return st;
}

static redco_status run(redcoi_cuda *cuda, redco_device_stream *stream, const redco_launch *launch, redco_error *err)
{
    redcoi_dnn_missed(cuda, launch);
    return is_backward(launch) ? run_backward(cuda, stream, launch, err) : run_forward(cuda, stream, launch, err);
}

const redcoi_runner redcoi_own_attention_runner = {supports, workspace_bytes, run};
