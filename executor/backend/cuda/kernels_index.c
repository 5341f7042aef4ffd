/* Gather, pick, unpick and scatter_add. */
#include "executor/backend/cuda/kernels_internal.h"

static redcoi_index_args arguments_of(const redcoi_work *work, const redco_tensor *index, uint64_t rows)
{
    const redco_launch *launch = work->launch;
    const redco_index_range range = redco_launch_indices(launch, rows);
    return (redcoi_index_args){.out = launch->outputs[0].data,
                               .index = index->data,
                               .fault = work->cuda->device->fault,
                               .count = redco_type_elements(&index->type),
                               .rows = rows,
                               .offset = launch->attributes->offset,
                               .first = range.first,
                               .end = range.end,
                               .kind = (uint32_t)launch->kind};
}

static redco_status launch_index(const redcoi_work *work, const redcoi_index_args *args, uint64_t items,
                                 const char *name, uint64_t bytes)
{
    return redcoi_work_launch(work, redcoi_pieces(items, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0, args,
                              "redco_k_%s_%u", name, (unsigned)bytes);
}

redco_status redcoi_run_gather(const redcoi_work *work)
{
    const redco_tensor *table = &work->launch->inputs[0];
    const uint64_t bytes = redco_dtype_bytes(table->type.dtype), rows = table->type.dim[0];
    const uint64_t width = redco_type_elements(&table->type) / rows;
    redcoi_index_args args = arguments_of(work, &work->launch->inputs[1], rows);
    const uint64_t wide =
        redcoi_widest(bytes, (uint64_t[]){width, (uintptr_t)table->data / bytes, (uintptr_t)args.out / bytes}, 3);
    args.in = table->data;
    args.width = redcoi_divisor_of(width / wide);
    return launch_index(work, &args, args.count * args.width.divisor, "gather", bytes * wide);
}

redco_status redcoi_run_pick(const redcoi_work *work)
{
    const bool back = work->launch->kind == REDCO_OP_UNPICK;
    const redco_tensor *values = &work->launch->inputs[back ? 1 : 0], *index = &work->launch->inputs[back ? 0 : 1];
    const redco_tensor_type *rows = back ? &work->launch->outputs[0].type : &values->type;
    redcoi_index_args args = arguments_of(work, index, rows->dim[rows->rank - 1]);
    args.in = values->data;
    args.width = redcoi_divisor_of(args.rows);
    return launch_index(work, &args, back ? args.count * args.rows : args.count, back ? "unpick" : "pick",
                        redco_dtype_bytes(values->type.dtype));
}

static uint64_t order_bytes(const redco_launch *launch)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    return redcoi_pieces(redco_type_elements(&launch->inputs[0].type) * sizeof(uint32_t), unit) * unit;
}

uint64_t redcoi_scatter_workspace(const redcoi_cuda *cuda, const redco_launch *launch)
{
    (void)cuda;
    return order_bytes(launch) + (launch->outputs[0].type.dim[0] + 1) * sizeof(uint32_t);
}

redco_status redcoi_run_scatter(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    const redco_tensor *index = &launch->inputs[0], *update = &launch->inputs[1], *out = &launch->outputs[0];
    const uint64_t rows = out->type.dim[0], width = redco_type_elements(&out->type) / rows;
    const uint64_t vector = 16 / redco_dtype_bytes(out->type.dtype);
    const bool wide = width % vector == 0 && redcoi_is_aligned(update->data, 16) && redcoi_is_aligned(out->data, 16);
    const uint64_t vectors = wide ? width / vector : width;
    const uint32_t threads = redcoi_threads_for(vectors, REDCOI_KERNEL_THREADS);
    const redco_index_range range = redco_launch_indices(launch, rows);
    const redcoi_scatter_args args = {.out = out->data,
                                      .update = update->data,
                                      .index = index->data,
                                      .fault = work->cuda->device->fault,
                                      .order = launch->workspace,
                                      .start = (uint32_t *)((unsigned char *)launch->workspace + order_bytes(launch)),
                                      .count = redco_type_elements(&index->type),
                                      .rows = rows,
                                      .width = width,
                                      .offset = launch->attributes->offset,
                                      .first = range.first,
                                      .end = range.end,
                                      .kind = (uint32_t)launch->kind,
                                      .wide = wide ? 1 : 0,
                                      .tiles = redcoi_divisor_of(redcoi_pieces(vectors, threads))};
    const redco_status st = redcoi_work_launch(work, redcoi_pieces(rows, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS,
                                               0, &args, "redco_k_scatter_order");
    if (st != REDCO_OK) { return st; }
    return redcoi_work_launch(work, rows * args.tiles.divisor, threads, 0, &args, "redco_k_scatter_sum_%s",
                              redco_dtype_name(out->type.dtype));
}
