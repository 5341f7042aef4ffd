/* Products with an epilogue, by the kernels of their parts on the result where it lies: compiled for float and double
 * (real.h). */
#include "executor/backend/host/real.h"

#include <string.h>

/** @p kind by its kernel, of one or two tensors into @p out, which may be one of them. */
static redco_status apply(const redco_launch *launch, redcoi_kernel kernel, redco_op_kind kind, const redco_tensor *x,
                          const redco_tensor *y, const redco_tensor *out, redco_error *err)
{
    const redco_tensor in[2] = {*x, y == NULL ? *x : *y};
    redco_launch part = *launch;
    part.kind = kind;
    part.input_count = y == NULL ? 1 : 2;
    part.output_count = 1;
    part.inputs = in;
    part.outputs = out;
    return kernel(&part, err);
}

/** a b + beta out, of two neighbouring inputs. */
static redco_status multiply(const redco_launch *launch, const redco_tensor *factors, double beta, redco_error *err)
{
    const redco_tensor *const a = &factors[0], *const b = &factors[1], *const out = &launch->outputs[0];
    const bool ta = (launch->attributes->flags & REDCO_FLAG_TRANSPOSE_A) != 0;
    const redcoi_gemm g = {.transpose_a = ta,
                           .transpose_b = (launch->attributes->flags & REDCO_FLAG_TRANSPOSE_B) != 0,
                           .m = out->type.dim[0],
                           .n = out->type.dim[1],
                           .k = a->type.dim[ta ? 0 : 1],
                           .row_a = a->type.dim[1],
                           .row_b = b->type.dim[1],
                           .row_c = out->type.dim[1],
                           .alpha = 1,
                           .beta = beta,
                           .a = a->data,
                           .b = b->data,
                           .c = out->data};
    return REAL_NAME(gemm)(&g, err);
}

static redco_status add_bias(const redco_launch *launch, const redco_tensor *bias, redco_error *err)
{
    const redco_tensor *const out = &launch->outputs[0];
    const redco_tensor row = {redco_type(bias->type.dtype, 2, (const uint64_t[]){1, bias->type.dim[0]}), bias->data};
    return apply(launch, REAL_NAME(binary), REDCO_OP_ADD, out, &row, out, err);
}

redco_status REAL_NAME(matmul_add)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *const out = &launch->outputs[0], *const addend = &launch->inputs[0];
    if (out->data != addend->data) { memcpy(out->data, addend->data, redco_type_elements(&out->type) * sizeof(real)); }
    const redco_status st = multiply(launch, &launch->inputs[1], 1, err);
    return st == REDCO_OK && launch->input_count > 3 ? add_bias(launch, &launch->inputs[3], err) : st;
}

redco_status REAL_NAME(matmul_bias)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *const out = &launch->outputs[0];
    const uint32_t flags = launch->attributes->flags;
    redco_status st = multiply(launch, launch->inputs, 0, err);
    if (st == REDCO_OK) { st = add_bias(launch, &launch->inputs[2], err); }
    if (st != REDCO_OK || (flags & (REDCO_FLAG_RELU | REDCO_FLAG_GELU)) == 0) { return st; }
    return apply(launch, REAL_NAME(unary), (flags & REDCO_FLAG_RELU) != 0 ? REDCO_OP_RELU : REDCO_OP_GELU_TANH, out,
                 NULL, out, err);
}

redco_status REAL_NAME(matmul_gelu)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *const out = &launch->outputs[0], *const before = &launch->outputs[1];
    redco_status st = multiply(launch, launch->inputs, 0, err);
    if (st == REDCO_OK && launch->input_count > 2) { st = add_bias(launch, &launch->inputs[2], err); }
    if (st != REDCO_OK) { return st; }
    memcpy(before->data, out->data, redco_type_elements(&out->type) * sizeof(real));
    return apply(launch, REAL_NAME(unary), REDCO_OP_GELU_TANH, before, NULL, out, err);
}

redco_status REAL_NAME(matmul_gelu_grad)(const redco_launch *launch, redco_error *err)
{
    const redco_tensor *const out = &launch->outputs[0];
    const redco_status st = multiply(launch, launch->inputs, 0, err);
    return st == REDCO_OK ? apply(launch, REAL_NAME(binary), REDCO_OP_GELU_TANH_GRAD, &launch->inputs[2], out, out, err)
                          : st;
}

redco_status REAL_NAME(matmul_bias_grad)(const redco_launch *launch, redco_error *err)
{
    const uint32_t side = launch->attributes->axis[0];
    const redco_tensor *const factor = &launch->inputs[side];
    const uint32_t transposed = side == 0 ? REDCO_FLAG_TRANSPOSE_A : REDCO_FLAG_TRANSPOSE_B;
    /* The dimension that is added up: of a as stored the second, of b the first, or the other one if transposed. */
    const uint32_t axis = ((launch->attributes->flags & transposed) != 0) == (side == 0) ? 0 : 1;
    redco_tensor sum = launch->outputs[1];
    sum.type.rank = 2;
    sum.type.dim[axis] = 1;
    sum.type.dim[1 - axis] = factor->type.dim[1 - axis];
    const redco_status st = multiply(launch, launch->inputs, 0, err);
    return st == REDCO_OK ? apply(launch, REAL_NAME(reduce), REDCO_OP_REDUCE_SUM, factor, NULL, &sum, err) : st;
}
