/* Kernels on rows of the last dimension: softmax, norms, rotary embedding, cross-entropy. */
#include "executor/backend/cuda/kernels_internal.h"

#include <string.h>

enum {
    WARP_VECTORS = 256, /* vectors of 16 bytes: up to it, a warp has a row */
    ROWS_OF_BLOCK = REDCOI_KERNEL_THREADS / 32,
    NORM_SHARED_BYTES = 96 * 1024, /* for a block's sums of columns, so that two blocks or more are resident */
    NORM_BLOCKS_PER_MULTIPROCESSOR = 3
};

static uint64_t row_length(const redco_tensor_type *type)
{
    return type->dim[type->rank - 1];
}

static uint64_t row_count(const redco_tensor_type *type)
{
    return redco_type_elements(type) / row_length(type);
}

static uint64_t width_of(redco_dtype dtype)
{
    return 16 / redco_dtype_bytes(dtype);
}

static bool all_aligned(const redco_launch *launch)
{
    bool aligned = true;
    for (uint32_t i = 0; i < launch->input_count; i++) {
        aligned = aligned && redcoi_is_aligned(launch->inputs[i].data, 16);
    }
    for (uint32_t i = 0; i < launch->output_count; i++) {
        aligned = aligned && redcoi_is_aligned(launch->outputs[i].data, 16);
    }
    return aligned;
}

/* The threads that share a row, and how many blocks and threads that makes: four vectors a thread, where a block has
 * it. */
typedef struct rows_grid {
    bool warps;
    uint64_t blocks;
    uint32_t threads;
} rows_grid;

static rows_grid grid_of(const redco_tensor_type *type)
{
    const uint64_t vectors = redcoi_pieces(row_length(type), width_of(type->dtype)), rows = row_count(type);
    if (vectors <= WARP_VECTORS) {
        return (rows_grid){true, redcoi_pieces(rows, ROWS_OF_BLOCK), REDCOI_KERNEL_THREADS};
    }
    return (rows_grid){false, rows, redcoi_threads_for(vectors / 4, REDCOI_ROW_THREADS_MAX)};
}

redco_status redcoi_run_softmax(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    const redco_tensor *in = launch->inputs;
    const bool gradient = launch->kind == REDCO_OP_SOFTMAX_GRAD || launch->kind == REDCO_OP_LOG_SOFTMAX_GRAD;
    const rows_grid grid = grid_of(&in[0].type);
    const redcoi_rows_args args = {
        .out = launch->outputs[0].data,
        .a = in[0].data,
        .b = gradient ? in[1].data : NULL,
        .rows = row_count(&in[0].type),
        .length = row_length(&in[0].type),
        .warps = grid.warps ? 1 : 0,
        .logarithm = launch->kind == REDCO_OP_LOG_SOFTMAX || launch->kind == REDCO_OP_LOG_SOFTMAX_GRAD ? 1 : 0};
    return redcoi_work_launch(work, grid.blocks, grid.threads, 0, &args, "redco_k_%s_%s",
                              gradient ? "softmax_grad" : "softmax", redco_dtype_name(in[0].type.dtype));
}

redco_status redcoi_run_cross_entropy(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    const redco_tensor *in = launch->inputs, *out = launch->outputs;
    const bool gradient = launch->kind == REDCO_OP_CROSS_ENTROPY_GRAD;
    const rows_grid grid = grid_of(&in[0].type);
    const redco_index_range range = redco_launch_indices(launch, row_length(&in[0].type));
    const redcoi_cross_entropy_args args = {.out = out[0].data,
                                            .lse_out = gradient ? NULL : out[1].data,
                                            .logits = in[0].data,
                                            .target = in[1].data,
                                            .lse = gradient ? in[2].data : NULL,
                                            .dloss = gradient ? in[3].data : NULL,
                                            .fault = work->cuda->device->fault,
                                            .rows = row_count(&in[0].type),
                                            .length = row_length(&in[0].type),
                                            .offset = launch->attributes->offset,
                                            .first = range.first,
                                            .end = range.end,
                                            .kind = (uint32_t)launch->kind,
                                            .warps = grid.warps ? 1 : 0};
    return redcoi_work_launch(work, grid.blocks, grid.threads, 0, &args, "redco_k_%s_%s",
                              redco_op_kind_name(launch->kind), redco_dtype_name(in[0].type.dtype));
}

redco_status redcoi_run_norm(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    const redco_tensor *in = launch->inputs, *out = launch->outputs;
    const bool layer = launch->kind == REDCO_OP_LAYER_NORM;
    const rows_grid grid = grid_of(&in[0].type);
    const uint64_t length = row_length(&in[0].type);
    const redcoi_norm_args args = {.out = out[0].data,
                                   .mean_out = layer ? out[1].data : NULL,
                                   .inverse_out = out[layer ? 2 : 1].data,
                                   .x = in[0].data,
                                   .scale = in[1].data,
                                   .shift = layer ? in[2].data : NULL,
                                   .rows = row_count(&in[0].type),
                                   .length = length,
                                   .epsilon = launch->attributes->scalar,
                                   .warps = grid.warps ? 1 : 0,
                                   .wide = length % width_of(in[0].type.dtype) == 0 && all_aligned(launch) ? 1 : 0,
                                   .layer = layer ? 1 : 0};
    return redcoi_work_launch(work, grid.blocks, grid.threads, 0, &args, "redco_k_norm_%s",
                              redco_dtype_name(in[0].type.dtype));
}

/* The gradients of scale and shift are sums of columns: each block keeps those of its rows, a second stage adds up the
 * blocks'. */
typedef struct norm_plan {
    uint64_t blocks, part_bytes; /* for one vector's [blocks][length] */
    uint32_t threads;
    redco_dtype sums;
} norm_plan;

static norm_plan plan_norm(const redcoi_cuda *cuda, const redco_launch *launch)
{
    const redco_tensor_type *x = &launch->inputs[0].type;
    const uint64_t unit = REDCO_ALIGNMENT_BYTES, length = row_length(x), rows = row_count(x);
    norm_plan p = {.sums = redco_dtype_statistic(x->dtype)};
    p.threads = redcoi_threads_for(redcoi_pieces(length, 2 * width_of(x->dtype)), REDCOI_KERNEL_THREADS);
    p.blocks =
        (uint64_t)cuda->device->multiprocessors * NORM_BLOCKS_PER_MULTIPROCESSOR * (REDCOI_KERNEL_THREADS / p.threads);
    if (p.blocks > rows) { p.blocks = rows; }
    p.part_bytes = redcoi_pieces(p.blocks * length * redco_dtype_bytes(p.sums), unit) * unit;
    return p;
}

uint64_t redcoi_norm_grad_workspace(const redcoi_cuda *cuda, const redco_launch *launch)
{
    const norm_plan p = plan_norm(cuda, launch);
    return launch->kind == REDCO_OP_LAYER_NORM_GRAD ? 2 * p.part_bytes : p.part_bytes;
}

redco_status redcoi_run_norm_grad(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    const redco_tensor *in = launch->inputs, *out = launch->outputs;
    const bool layer = launch->kind == REDCO_OP_LAYER_NORM_GRAD;
    const redco_dtype dtype = in[0].type.dtype;
    const uint64_t length = row_length(&in[0].type);
    const norm_plan p = plan_norm(work->cuda, launch);
    const bool wide = length % width_of(dtype) == 0 && all_aligned(launch);
    const uint64_t piece = p.threads * (wide ? width_of(dtype) : 1);
    const uint64_t shared = redcoi_pieces(length, piece) * piece * redco_dtype_bytes(p.sums) * (layer ? 2 : 1);
    const uint64_t room = work->cuda->device->shared_bytes_max;
    /* the kernel's own parts of sums, up to 32 numbers for each of two sums, are shared memory, too */
    const bool fits = shared <= NORM_SHARED_BYTES && shared + 1024 <= room;
    redcoi_norm_grad_args args = {.dx = out[0].data,
                                  .scale_parts = launch->workspace,
                                  .shift_parts = layer ? (unsigned char *)launch->workspace + p.part_bytes : NULL,
                                  .x = in[0].data,
                                  .scale = in[1].data,
                                  .mean = layer ? in[2].data : NULL,
                                  .inverse = in[layer ? 3 : 2].data,
                                  .dy = in[layer ? 4 : 3].data,
                                  .rows = row_count(&in[0].type),
                                  .length = length,
                                  .wide = wide ? 1 : 0,
                                  .layer = layer ? 1 : 0,
                                  .in_shared = fits ? 1 : 0};
    redco_status st = redcoi_work_launch(work, p.blocks, p.threads, fits ? (uint32_t)shared : 0, &args, "redco_k_%s_%s",
                                         redco_op_kind_name(launch->kind), redco_dtype_name(dtype));
    if (st != REDCO_OK) { return st; }
    st = redcoi_sum_columns(work, args.scale_parts, p.sums, p.blocks, length, out[1].data, dtype);
    if (st != REDCO_OK || !layer) { return st; }
    return redcoi_sum_columns(work, args.shift_parts, p.sums, p.blocks, length, out[2].data, dtype);
}

redco_status redcoi_run_rotary(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    const redco_tensor_type *x = &launch->inputs[0].type, *table = &launch->inputs[1].type;
    const uint64_t size = x->dim[3], n = row_length(table), width = width_of(x->dtype);
    const bool interleaved = (launch->attributes->flags & REDCO_FLAG_INTERLEAVED) != 0;
    const bool wide = n % width == 0 && size % width == 0 && all_aligned(launch);
    const uint64_t pieces = !wide ? size - n : interleaved ? size / width : (size - n) / width;
    const redcoi_rotary_args args = {.out = launch->outputs[0].data,
                                     .x = launch->inputs[0].data,
                                     .cosines = launch->inputs[1].data,
                                     .sines = launch->inputs[2].data,
                                     .count = redco_type_elements(x) / size * pieces,
                                     .size = size,
                                     .n = n,
                                     .wide = wide ? 1 : 0,
                                     .interleaved = interleaved ? 1 : 0,
                                     .sign = (launch->attributes->flags & REDCO_FLAG_INVERSE) != 0 ? -1 : 1,
                                     .pieces = redcoi_divisor_of(pieces),
                                     .heads = redcoi_divisor_of(x->dim[2]),
                                     .table_rows = redcoi_divisor_of(row_count(table))};
    return redcoi_work_launch(work, redcoi_pieces(args.count, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0, &args,
                              "redco_k_rotary_%s", redco_dtype_name(x->dtype));
}
