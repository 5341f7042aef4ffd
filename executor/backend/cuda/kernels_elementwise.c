/* Elementwise kernels, AdamW and sources: their arguments. */
#include "executor/backend/cuda/kernels_internal.h"
#include "executor/backend/host/kernels.h"

#include <string.h>

/* Two vectors a thread: as the kernels' loops are. */
static uint64_t blocks_of(uint64_t pieces)
{
    return redcoi_pieces(pieces, (uint64_t)2 * REDCOI_KERNEL_THREADS);
}

/* Vectors need rows and inputs' strides that are whole vectors. */
static bool is_wide(const redcoi_shape *shape, uint64_t width)
{
    const uint32_t last = shape->rank - 1;
    if (last == 0) { return true; }
    if (shape->dim[last] % width != 0) { return false; }
    for (uint32_t k = 0; k < shape->operands; k++) {
        for (uint32_t i = 0; i < last; i++) {
            if (shape->stride[k][last] != 0 && shape->stride[k][i] % width != 0) { return false; }
        }
    }
    return true;
}

static void fill_arguments(redcoi_elementwise_args *args, const redcoi_shape *shape, bool wide, uint64_t width)
{
    const uint32_t last = shape->rank - 1;
    args->wide = wide ? 1 : 0;
    args->rank = last;
    args->inner = redcoi_divisor_of(wide ? shape->dim[last] / width : shape->dim[last]);
    for (uint32_t k = 0; k < shape->operands; k++) { args->step[k] = (uint32_t)shape->stride[k][last]; }
    for (uint32_t i = 0; i < last; i++) {
        args->dim[i] = redcoi_divisor_of(shape->dim[i]);
        for (uint32_t k = 0; k < shape->operands; k++) { args->stride[k][i] = shape->stride[k][i]; }
    }
}

/* Elements in 16 bytes of the widest operand; whether all of them begin at 16 bytes. */
static uint64_t width_of(const redco_launch *launch, bool *aligned_out)
{
    uint64_t bytes = redco_dtype_bytes(launch->outputs[0].type.dtype);
    *aligned_out = redcoi_is_aligned(launch->outputs[0].data, 16);
    for (uint32_t i = 0; i < launch->input_count; i++) {
        const uint64_t own = redco_dtype_bytes(launch->inputs[i].type.dtype);
        bytes = own > bytes ? own : bytes;
        *aligned_out = *aligned_out && redcoi_is_aligned(launch->inputs[i].data, 16);
    }
    return 16 / bytes;
}

redco_status redcoi_run_elementwise(const redcoi_work *work)
{
    const redco_launch *launch = work->launch;
    uint64_t stride[REDCOI_SHAPE_OPERANDS][REDCO_RANK_MAX] = {{0}};
    redcoi_elementwise_args args;
    redcoi_shape shape;
    bool aligned;
    const uint64_t width = width_of(launch, &aligned);
    memset(&args, 0, sizeof args);
    for (uint32_t k = 0; k < launch->input_count; k++) {
        redcoi_dense_strides(&launch->inputs[k].type, true, stride[k]);
        args.in[k] = launch->inputs[k].data;
    }
    redcoi_shape_make(&shape, &launch->outputs[0].type, stride, launch->input_count);
    const bool large = launch->kind == REDCO_OP_SIN || launch->kind == REDCO_OP_COS; /* is_large of elementwise.cuh */
    const bool wide = aligned && !large && is_wide(&shape, width);
    fill_arguments(&args, &shape, wide, width);
    args.out = launch->outputs[0].data;
    args.count = redco_type_elements(&launch->outputs[0].type);
    args.scalar = launch->attributes->scalar;
    const uint64_t blocks = blocks_of(wide ? args.count / width : args.count);
    if (launch->kind == REDCO_OP_SELECT) {
        return redcoi_work_launch(work, blocks, REDCOI_KERNEL_THREADS, 0, &args, "redco_k_select_%u",
                                  redco_dtype_bytes(launch->outputs[0].type.dtype));
    }
    if (launch->kind == REDCO_OP_CAST) {
        return redcoi_work_launch(work, blocks, REDCOI_KERNEL_THREADS, 0, &args, "redco_k_cast_%s_%s",
                                  redco_dtype_name(launch->inputs[0].type.dtype),
                                  redco_dtype_name(launch->outputs[0].type.dtype));
    }
    return redcoi_work_launch(work, blocks, REDCOI_KERNEL_THREADS, 0, &args, "redco_k_%s_%s",
                              redco_op_kind_name(launch->kind), redco_dtype_name(launch->inputs[0].type.dtype));
}

redco_status redcoi_run_adamw(const redcoi_work *work)
{
    const redco_tensor *in = work->launch->inputs, *out = work->launch->outputs;
    const redcoi_adamw_args args = {.next_p = out[0].data,
                                    .next_m = out[1].data,
                                    .next_v = out[2].data,
                                    .rounded = work->launch->kind == REDCO_OP_ADAMW_ROUNDED ? out[3].data : NULL,
                                    .p = in[0].data,
                                    .m = in[1].data,
                                    .v = in[2].data,
                                    .gradient = in[3].data,
                                    .numbers = in[4].data,
                                    .count = redco_type_elements(&in[0].type)};
    const uint64_t width = 16 / redco_dtype_bytes(in[0].type.dtype);
    return redcoi_work_launch(work, redcoi_pieces(args.count, width * REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0,
                              &args, "redco_k_adamw_%s_%s", redco_dtype_name(in[0].type.dtype),
                              redco_dtype_name(in[3].type.dtype));
}

redco_status redcoi_run_constant(const redcoi_work *work)
{
    const redco_tensor *out = &work->launch->outputs[0];
    const uint32_t bytes = redco_dtype_bytes(out->type.dtype);
    redcoi_fill_args args = {.out = out->data, .bytes = redco_type_bytes(&out->type)};
    double one; /* room for an element of any type */
    redcoi_store_f64(out->type.dtype, &work->launch->attributes->scalar, 1, &one);
    for (uint32_t i = 0; i < 16; i += bytes) { memcpy((unsigned char *)args.pattern + i, &one, bytes); }
    return redcoi_work_launch(work, redcoi_pieces(args.bytes, (uint64_t)16 * REDCOI_KERNEL_THREADS),
                              REDCOI_KERNEL_THREADS, 0, &args, "redco_k_fill");
}

redco_status redcoi_run_iota(const redcoi_work *work)
{
    const redco_tensor_type *type = &work->launch->outputs[0].type;
    const uint32_t axis = work->launch->attributes->axis[0];
    uint64_t inner = 1;
    for (uint32_t i = axis + 1; i < type->rank; i++) { inner *= type->dim[i]; }
    const redcoi_iota_args args = {.out = work->launch->outputs[0].data,
                                   .count = redco_type_elements(type),
                                   .inner = redcoi_divisor_of(inner),
                                   .size = redcoi_divisor_of(type->dim[axis])};
    return redcoi_work_launch(work, redcoi_pieces(args.count, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0, &args,
                              "redco_k_iota");
}

redco_status redcoi_run_random(const redcoi_work *work)
{
    const redco_attributes *a = work->launch->attributes;
    const redco_tensor *out = &work->launch->outputs[0];
    const redco_tensor_type whole = redco_type(out->type.dtype, a->rank, a->whole);
    uint64_t stride[REDCOI_SHAPE_OPERANDS][REDCO_RANK_MAX] = {{0}};
    redcoi_random_args args = {.out = out->data,
                               .key = work->launch->inputs[0].data,
                               .count = redco_type_elements(&out->type),
                               .stream = a->stream};
    redcoi_shape shape;
    redcoi_dense_strides(&whole, false, stride[0]);
    for (uint32_t i = 0; i < a->rank; i++) { args.begin += a->begin[i] * stride[0][i]; }
    redcoi_shape_make(&shape, &out->type, stride, 1);
    const bool run = shape.rank == 1 && shape.stride[0][0] == 1;
    args.rank = run ? 0 : shape.rank;
    for (uint32_t i = 0; i < args.rank; i++) {
        args.dim[i] = redcoi_divisor_of(shape.dim[i]);
        args.stride[i] = shape.stride[0][i];
    }
    const uint64_t items = run ? redcoi_pieces(args.count, 4) + 1 : args.count;
    return redcoi_work_launch(work, redcoi_pieces(items, REDCOI_KERNEL_THREADS), REDCOI_KERNEL_THREADS, 0, &args,
                              "redco_k_%s_%s", redco_op_kind_name(work->launch->kind),
                              redco_dtype_name(out->type.dtype));
}
