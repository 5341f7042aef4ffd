/* Reductions: dimensions that go and that stay, and into how many pieces a result is cut. Cuts follow from sizes alone,
 * so that a sum is the same on every device. */
#include "executor/backend/cuda/kernels_internal.h"

#include <string.h>

enum {
    ITEMS_WANTED = 1024, /* results and pieces of them: 8 blocks each on 128 multiprocessors */
    WARP_LENGTH = 1024,  /* up to it, a warp has a row */
    ROW_PIECE = 4096,    /* elements that a block should have at least */
    COLUMN_PIECE = 64    /* rows that a block should have at least */
};

typedef struct plan {
    bool rows; /* the last dimension goes */
    uint64_t outputs, length, splits, chunk, width;
    uint32_t kept, reduced;
    uint64_t kept_dim[REDCO_RANK_MAX], kept_stride[REDCO_RANK_MAX];
    uint64_t reduced_dim[REDCO_RANK_MAX], reduced_stride[REDCO_RANK_MAX];
} plan;

/* Groups of neighbouring dimensions of one fate, the outermost first. */
static void find_groups(plan *p, const redco_tensor_type *in, const redco_tensor_type *out)
{
    uint64_t stride = 1, dim[REDCO_RANK_MAX], strides[REDCO_RANK_MAX];
    bool goes[REDCO_RANK_MAX];
    uint32_t groups = 0;
    for (uint32_t i = in->rank; i > 0; i--) {
        const bool going = out->dim[i - 1] != in->dim[i - 1];
        if (in->dim[i - 1] == 1) { continue; }
        if (groups > 0 && goes[groups - 1] == going) {
            dim[groups - 1] *= in->dim[i - 1];
        } else {
            goes[groups] = going;
            strides[groups] = stride;
            dim[groups++] = in->dim[i - 1];
        }
        stride *= in->dim[i - 1];
    }
    p->rows = groups == 0 || goes[0];
    for (uint32_t i = groups; i > 0; i--) {
        if (goes[i - 1]) {
            p->reduced_dim[p->reduced] = dim[i - 1];
            p->reduced_stride[p->reduced++] = strides[i - 1];
        } else {
            p->kept_dim[p->kept] = dim[i - 1];
            p->kept_stride[p->kept++] = strides[i - 1];
        }
    }
}

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* Columns are read in vectors where all rows begin at one. */
static uint64_t width_of(const plan *p, redco_dtype dtype)
{
    const uint64_t width = 16 / redco_dtype_bytes(dtype);
    for (uint32_t i = 0; i < p->kept; i++) {
        const uint64_t step = i + 1 == p->kept ? p->kept_dim[i] : p->kept_stride[i];
        if (step % width != 0) { return 1; }
    }
    for (uint32_t i = 0; i < p->reduced; i++) {
        if (p->reduced_stride[i] % width != 0) { return 1; }
    }
    return width;
}

static uint64_t tiles_of(const plan *p, uint64_t width)
{
    return redcoi_pieces(p->kept_dim[p->kept - 1], 32 * width);
}

static void cut(plan *p, uint64_t items, uint64_t piece, uint64_t unit)
{
    const uint64_t most = redcoi_pieces(p->length, piece);
    const uint64_t wanted = items >= ITEMS_WANTED ? 1 : least(ITEMS_WANTED / items, most);
    p->chunk = redcoi_pieces(redcoi_pieces(p->length, wanted), unit) * unit;
    p->splits = redcoi_pieces(p->length, p->chunk);
}

static plan make_plan(const redco_launch *launch)
{
    const redco_tensor_type *in = &launch->inputs[0].type, *out = &launch->outputs[0].type;
    plan p;
    memset(&p, 0, sizeof p);
    find_groups(&p, in, out);
    p.outputs = redco_type_elements(out);
    p.length = redco_type_elements(in) / p.outputs;
    p.width = p.rows ? 16 / redco_dtype_bytes(in->dtype) : width_of(&p, in->dtype);
    if (p.rows) {
        cut(&p, p.outputs, ROW_PIECE, 64);
    } else {
        cut(&p, p.outputs / p.kept_dim[p.kept - 1] * tiles_of(&p, p.width), COLUMN_PIECE, 1);
    }
    return p;
}

/* The largest of several pieces is one of them. */
static redco_dtype sums_of(const redco_launch *launch)
{
    const redco_dtype dtype = launch->inputs[0].type.dtype;
    return launch->kind == REDCO_OP_REDUCE_SUM ? redco_dtype_statistic(dtype) : dtype;
}

uint64_t redcoi_reduce_workspace(const redcoi_cuda *cuda, const redco_launch *launch)
{
    const plan p = make_plan(launch);
    (void)cuda;
    return p.splits == 1 ? 0 : p.outputs * p.splits * redco_dtype_bytes(sums_of(launch));
}

static redco_status launch_plan(const redcoi_work *work, const plan *p, redco_op_kind kind, const void *in,
                                redco_dtype from, void *out, redco_dtype to)
{
    redcoi_reduce_args args;
    memset(&args, 0, sizeof args);
    args.out = out;
    args.in = in;
    args.outputs = p->outputs;
    args.length = p->length;
    args.chunk = p->chunk;
    args.splits = redcoi_divisor_of(p->splits);
    args.kept_rank = p->kept;
    args.reduced_rank = p->reduced;
    for (uint32_t i = 0; i < p->kept; i++) {
        args.kept[i] = redcoi_divisor_of(p->kept_dim[i]);
        args.kept_stride[i] = p->kept_stride[i];
    }
    for (uint32_t i = 0; i < p->reduced; i++) {
        args.reduced[i] = redcoi_divisor_of(p->reduced_dim[i]);
        args.reduced_stride[i] = p->reduced_stride[i];
    }
    const char *name = redco_op_kind_name(kind), *f = redco_dtype_name(from), *t = redco_dtype_name(to);
    const uint64_t items = p->outputs * p->splits;
    if (p->rows) {
        args.warps = p->chunk <= WARP_LENGTH || p->length <= WARP_LENGTH ? 1 : 0;
        return redcoi_work_launch(work, args.warps != 0 ? redcoi_pieces(items, REDCOI_KERNEL_THREADS / 32) : items,
                                  REDCOI_KERNEL_THREADS, 0, &args, "redco_k_%s_rows_%s_%s", name, f, t);
    }
    const bool aligned = redcoi_is_aligned(in, 16) && redcoi_is_aligned(out, 16);
    const uint64_t width = aligned ? p->width : 1, tiles = tiles_of(p, width);
    args.wide = width > 1 ? 1 : 0;
    args.tiles = redcoi_divisor_of(tiles);
    return redcoi_work_launch(work, items / p->kept_dim[p->kept - 1] * tiles, REDCOI_KERNEL_THREADS, 0, &args,
                              "redco_k_%s_columns_%s_%s", name, f, t);
}

/* A dense matrix of sums: its rows or its columns become one each. */
static plan matrix_plan(bool rows, uint64_t outputs, uint64_t length, redco_dtype dtype)
{
    plan p = {
        .rows = rows, .outputs = outputs, .length = length, .splits = 1, .chunk = length, .kept = 1, .reduced = 1};
    p.kept_dim[0] = outputs;
    p.kept_stride[0] = rows ? length : 1;
    p.reduced_dim[0] = length;
    p.reduced_stride[0] = rows ? 1 : outputs;
    p.width = width_of(&p, dtype);
    return p;
}

redco_status redcoi_run_reduce(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const redco_dtype sums = sums_of(launch);
    const plan p = make_plan(launch);
    if (p.splits == 1) {
        return launch_plan(work, &p, launch->kind, in->data, in->type.dtype, out->data, out->type.dtype);
    }
    const redco_status st = launch_plan(work, &p, launch->kind, in->data, in->type.dtype, launch->workspace, sums);
    if (st != REDCO_OK) { return st; }
    const plan second = matrix_plan(p.rows, p.outputs, p.splits, sums);
    return launch_plan(work, &second, launch->kind, launch->workspace, sums, out->data, out->type.dtype);
}

redco_status redcoi_sum_columns(const redcoi_work *work, const void *in, redco_dtype from, uint64_t rows,
                                uint64_t columns, void *out, redco_dtype to)
{
    const plan p = matrix_plan(false, columns, rows, from);
    return launch_plan(work, &p, REDCO_OP_REDUCE_SUM, in, from, out, to);
}

/* A vector of any length in at most ITEMS_WANTED pieces. */
static redcoi_squares_args cut_squares(const redco_launch *launch)
{
    redcoi_squares_args args = {.in = launch->inputs[0].data, .count = redco_type_elements(&launch->inputs[0].type)};
    const uint64_t wanted = redcoi_pieces(args.count, ITEMS_WANTED);
    args.chunk = redcoi_pieces(wanted > ROW_PIECE ? wanted : ROW_PIECE, 64) * 64;
    args.pieces = redcoi_pieces(args.count, args.chunk);
    return args;
}

uint64_t redcoi_squares_workspace(const redcoi_cuda *cuda, const redco_launch *launch)
{
    const redcoi_squares_args args = cut_squares(launch);
    (void)cuda;
    return args.pieces == 1 ? 0 : args.pieces * redco_dtype_bytes(launch->outputs[0].type.dtype);
}

redco_status redcoi_run_squares(const redcoi_work *work)
{
    const redco_launch *const launch = work->launch;
    const redco_tensor *const out = &launch->outputs[0];
    redcoi_squares_args args = cut_squares(launch);
    args.out = args.pieces == 1 ? out->data : launch->workspace;
    const redco_status st =
        redcoi_work_launch(work, args.pieces, REDCOI_KERNEL_THREADS, 0, &args, "redco_k_sum_squares_%s",
                           redco_dtype_name(launch->inputs[0].type.dtype));
    if (st != REDCO_OK || args.pieces == 1) { return st; }
    const plan p = matrix_plan(true, 1, args.pieces, out->type.dtype);
    return launch_plan(work, &p, REDCO_OP_REDUCE_SUM, launch->workspace, out->type.dtype, out->data, out->type.dtype);
}
