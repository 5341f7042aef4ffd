/** @file real.h  The element type of kernels on real numbers: files that include it are compiled for float and, with
 *  REDCOI_DOUBLE, for double; their shared names end in _f32 or _f64. Sums over rows and axes are kept in double. */
#ifndef REDCO_HOST_REAL_H
#define REDCO_HOST_REAL_H

#include "executor/backend/host/kernels.h"

#include <math.h>

#ifdef REDCOI_DOUBLE
typedef double real;
#define REAL_NAME(name) redcoi_##name##_f64
#define REAL_FN(name) name
#else
typedef float real;
#define REAL_NAME(name) redcoi_##name##_f32
#define REAL_FN(name) name##f
#endif

redco_status REAL_NAME(unary)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(binary)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(reduce)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(scatter_add)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(pick)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(unpick)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(top_k)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(sort_rows)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(grouped_matmul)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(grouped_matmul_grad)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(matmul)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(matmul_add)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(matmul_bias)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(matmul_gelu)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(matmul_gelu_grad)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(matmul_bias_grad)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(softmax)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(softmax_grad)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(norm)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(norm_grad)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(rotary)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(attention)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(attention_grad)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(attention_bias_grad)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(cross_entropy)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(cross_entropy_grad)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(sum_squares)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(adamw)(const redco_launch *launch, redco_error *err);
redco_status REAL_NAME(random)(const redco_launch *launch, redco_error *err);

/** Rows of the last dimension of a type of rank 1 or more. */
static inline uint64_t row_length(const redco_tensor_type *type)
{
    return type->dim[type->rank - 1];
}

static inline uint64_t row_count(const redco_tensor_type *type)
{
    return redco_type_elements(type) / row_length(type);
}

#endif
