/* Moves: what is copied from where to where, by pieces as large as strides allow. */
#include "executor/backend/cuda/kernels_internal.h"

#include <string.h>

enum { IN, OUT };

redco_status redcoi_run_copy(const redcoi_work *work)
{
    const redco_tensor *out = &work->launch->outputs[0];
    redco_backend *backend = &work->cuda->base;
    if (out->data == work->launch->inputs[0].data) { return REDCO_OK; }
    return backend->calls->copy(backend, work->stream, out->data, work->launch->inputs[0].data,
                                redco_type_bytes(&out->type), work->err);
}

/* The number of elements that move as one: all steps but of runs that both have side by side are multiples of it. */
static uint64_t together(const redcoi_shape *shape, uint64_t bytes, const void *in, const void *out)
{
    uint64_t numbers[2 * REDCO_RANK_MAX + 3];
    uint32_t count = 0;
    const uint32_t last = shape->rank - 1;
    if (shape->stride[IN][last] != 1 || shape->stride[OUT][last] != 1) { return 1; }
    numbers[count++] = shape->dim[last];
    numbers[count++] = (uintptr_t)in / bytes;
    numbers[count++] = (uintptr_t)out / bytes;
    for (uint32_t i = 0; i < last; i++) {
        numbers[count++] = shape->stride[IN][i];
        numbers[count++] = shape->stride[OUT][i];
    }
    return redcoi_widest(bytes, numbers, count);
}

static redco_status launch_move(const redcoi_work *work, const redcoi_shape *shape, uint64_t bytes, const void *in,
                                void *out)
{
    const uint64_t wide = together(shape, bytes, in, out);
    redcoi_move_args args;
    memset(&args, 0, sizeof args);
    args.out = out;
    args.in = in;
    args.rank = shape->rank;
    args.count = 1;
    for (uint32_t i = 0; i < shape->rank; i++) {
        const bool last = i + 1 == shape->rank;
        const uint64_t dim = last ? shape->dim[i] / wide : shape->dim[i];
        args.dim[i] = redcoi_divisor_of(dim);
        args.count *= dim;
        args.in_stride[i] = last ? shape->stride[IN][i] : shape->stride[IN][i] / wide;
        args.out_stride[i] = last ? shape->stride[OUT][i] : shape->stride[OUT][i] / wide;
    }
    return redcoi_work_launch(work, redcoi_pieces(args.count, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0, &args,
                              "redco_k_move_%u", (unsigned)(bytes * wide));
}

/* The dimension whose elements lie side by side in the input, if it is not the last; else the rank. */
static uint32_t turned_dimension(const redcoi_shape *shape)
{
    const uint32_t last = shape->rank - 1;
    if (shape->stride[IN][last] <= 1 || shape->dim[last] < 8) { return shape->rank; }
    for (uint32_t i = 0; i < last; i++) {
        if (shape->stride[IN][i] == 1 && shape->dim[i] >= 8) { return i; }
    }
    return shape->rank;
}

static redco_status launch_transpose(const redcoi_work *work, const redcoi_shape *shape, uint32_t turned,
                                     uint64_t bytes, const void *in, void *out)
{
    const uint32_t last = shape->rank - 1;
    redcoi_transpose_args args;
    memset(&args, 0, sizeof args);
    args.in = in;
    args.out = out;
    args.rows = shape->dim[last];
    args.columns = shape->dim[turned];
    args.in_row = shape->stride[IN][last];
    args.out_row = shape->stride[OUT][turned];
    args.row_tiles = redcoi_divisor_of(redcoi_pieces(args.rows, 32));
    args.column_tiles = redcoi_divisor_of(redcoi_pieces(args.columns, 32));
    args.tiles = args.row_tiles.divisor * args.column_tiles.divisor;
    for (uint32_t i = 0; i < last; i++) {
        if (i == turned) { continue; }
        args.dim[args.rank] = redcoi_divisor_of(shape->dim[i]);
        args.in_stride[args.rank] = shape->stride[IN][i];
        args.out_stride[args.rank++] = shape->stride[OUT][i];
        args.tiles *= shape->dim[i];
    }
    return redcoi_work_launch(work, args.tiles, REDCOI_KERNEL_THREADS, 0, &args, "redco_k_transpose_%u",
                              (unsigned)bytes);
}

redco_status redcoi_run_strided(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const uint64_t bytes = redco_dtype_bytes(in->type.dtype);
    uint64_t own[REDCO_RANK_MAX] = {0}, stride[REDCOI_SHAPE_OPERANDS][REDCO_RANK_MAX] = {{0}}, begin = 0;
    redcoi_shape shape;
    redcoi_dense_strides(&in->type, launch->kind == REDCO_OP_BROADCAST, own);
    redcoi_dense_strides(&out->type, false, stride[OUT]);
    for (uint32_t i = 0; i < out->type.rank; i++) {
        stride[IN][i] = launch->kind == REDCO_OP_TRANSPOSE ? own[launch->attributes->axis[i]] : own[i];
        if (launch->kind == REDCO_OP_SLICE) { begin += launch->attributes->begin[i] * own[i]; }
    }
    redcoi_shape_make(&shape, &out->type, stride, 2);
    const unsigned char *from = (const unsigned char *)in->data + begin * bytes;
    const uint32_t turned = turned_dimension(&shape);
    return turned < shape.rank ? launch_transpose(work, &shape, turned, bytes, from, out->data)
                               : launch_move(work, &shape, bytes, from, out->data);
}

redco_status redcoi_run_pad(const redcoi_work *work)
{
    const redco_tensor *in = &work->launch->inputs[0], *out = &work->launch->outputs[0];
    const uint64_t bytes = redco_dtype_bytes(in->type.dtype), *begin = work->launch->attributes->begin;
    uint64_t dim[REDCO_RANK_MAX] = {0}, first[REDCO_RANK_MAX] = {0}, size[REDCO_RANK_MAX] = {0}, stride = 1;
    uint32_t rank = 0; /* from the last dimension on; one that is filled joins the one outside of it */
    redcoi_pad_args args;
    memset(&args, 0, sizeof args);
    for (uint32_t i = out->type.rank; i > 0; i--) {
        const uint64_t outer = out->type.dim[i - 1], inner = in->type.dim[i - 1];
        if (rank > 0 && size[rank - 1] == dim[rank - 1]) {
            first[rank - 1] = begin[i - 1] * dim[rank - 1];
            size[rank - 1] *= inner;
            dim[rank - 1] *= outer;
        } else {
            first[rank] = begin[i - 1];
            size[rank] = inner;
            dim[rank++] = outer;
        }
    }
    if (rank == 0) { dim[rank] = size[rank] = 1, rank++; }
    const uint64_t wide = redcoi_widest(
        bytes, (uint64_t[]){dim[0], first[0], size[0], (uintptr_t)in->data / bytes, (uintptr_t)out->data / bytes}, 5);
    dim[0] /= wide;
    first[0] /= wide;
    size[0] /= wide;
    args.out = out->data;
    args.in = in->data;
    args.rank = rank;
    args.count = redco_type_elements(&out->type) / wide;
    for (uint32_t i = 0; i < rank; i++) { /* the kernel wants the last one last */
        const uint32_t d = rank - 1 - i;
        args.dim[d] = redcoi_divisor_of(dim[i]);
        args.begin[d] = first[i];
        args.size[d] = size[i];
        args.in_stride[d] = stride;
        stride *= size[i];
    }
    return redcoi_work_launch(work, redcoi_pieces(args.count, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0, &args,
                              "redco_k_pad_%u", (unsigned)(bytes * wide));
}

redco_status redcoi_run_concat(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    const redco_tensor *out = &launch->outputs[0];
    const uint32_t axis = launch->attributes->axis[0];
    const uint64_t bytes = redco_dtype_bytes(out->type.dtype);
    uint64_t inner = 1, numbers[2 * REDCO_INPUTS_MAX + 1];
    uint32_t count = 0;
    redcoi_concat_args args;
    memset(&args, 0, sizeof args);
    for (uint32_t i = axis + 1; i < out->type.rank; i++) { inner *= out->type.dim[i]; }
    for (uint32_t k = 0; k < launch->input_count; k++) {
        numbers[count++] = launch->inputs[k].type.dim[axis] * inner;
        numbers[count++] = (uintptr_t)launch->inputs[k].data / bytes;
    }
    numbers[count++] = (uintptr_t)out->data / bytes;
    const uint64_t wide = redcoi_widest(bytes, numbers, count);
    args.out = out->data;
    args.count = redco_type_elements(&out->type) / wide;
    args.parts = launch->input_count;
    args.total = redcoi_divisor_of(out->type.dim[axis] * inner / wide);
    for (uint32_t k = 0; k < launch->input_count; k++) {
        args.in[k] = launch->inputs[k].data;
        args.begin[k + 1] = args.begin[k] + launch->inputs[k].type.dim[axis] * inner / wide;
    }
    return redcoi_work_launch(work, redcoi_pieces(args.count, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0, &args,
                              "redco_k_concat_%u", (unsigned)(bytes * wide));
}
