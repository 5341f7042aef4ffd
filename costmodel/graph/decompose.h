/** @file decompose.h  Fused operators written in basic ones, rows of operators.h. Half-precision tensors
 * are computed in f32 and rounded at the end, as the fused kernels do. */
#ifndef REDCO_GRAPH_DECOMPOSE_H
#define REDCO_GRAPH_DECOMPOSE_H

#include "costmodel/graph/graph_internal.h"

#define REDCOI_DECOMPOSE(name)                                                                                         \
    void redcoi_decompose_##name(redco_graph *graph, const redco_attributes *attributes, const redco_value *in,        \
                                 uint32_t input_count, redco_value *out)

REDCOI_DECOMPOSE(silu);
REDCOI_DECOMPOSE(gelu);
REDCOI_DECOMPOSE(gelu_tanh);
REDCOI_DECOMPOSE(silu_grad);
REDCOI_DECOMPOSE(gelu_grad);
REDCOI_DECOMPOSE(gelu_tanh_grad);
REDCOI_DECOMPOSE(softmax);
REDCOI_DECOMPOSE(softmax_grad);
REDCOI_DECOMPOSE(log_softmax);
REDCOI_DECOMPOSE(log_softmax_grad);
REDCOI_DECOMPOSE(rms_norm);
REDCOI_DECOMPOSE(rms_norm_grad);
REDCOI_DECOMPOSE(layer_norm);
REDCOI_DECOMPOSE(layer_norm_grad);
REDCOI_DECOMPOSE(rotary);
REDCOI_DECOMPOSE(attention);
REDCOI_DECOMPOSE(attention_grad);
REDCOI_DECOMPOSE(attention_bias_grad);
REDCOI_DECOMPOSE(cross_entropy);
REDCOI_DECOMPOSE(cross_entropy_grad);
REDCOI_DECOMPOSE(sum_squares);
REDCOI_DECOMPOSE(adamw);
REDCOI_DECOMPOSE(matmul_add);
REDCOI_DECOMPOSE(matmul_bias);
REDCOI_DECOMPOSE(matmul_gelu);
REDCOI_DECOMPOSE(matmul_gelu_grad);
REDCOI_DECOMPOSE(matmul_bias_grad);
REDCOI_DECOMPOSE(pointwise);

#endif
