/** @file infer.h  The rules of type inference, one per family of operators; rows of operators.h. */
#ifndef REDCO_GRAPH_INFER_H
#define REDCO_GRAPH_INFER_H

#include "costmodel/graph/graph_internal.h"

redco_status redcoi_infer_source(redcoi_signature *s);
redco_status redcoi_infer_iota(redcoi_signature *s);
redco_status redcoi_infer_random(redcoi_signature *s);
redco_status redcoi_infer_float(redcoi_signature *s);
redco_status redcoi_infer_not(redcoi_signature *s);
redco_status redcoi_infer_same(redcoi_signature *s);
redco_status redcoi_infer_cast(redcoi_signature *s);
redco_status redcoi_infer_arithmetic(redcoi_signature *s);
redco_status redcoi_infer_float_arithmetic(redcoi_signature *s);
redco_status redcoi_infer_compare(redcoi_signature *s);
redco_status redcoi_infer_logic(redcoi_signature *s);
redco_status redcoi_infer_select(redcoi_signature *s);
redco_status redcoi_infer_reduce(redcoi_signature *s);
redco_status redcoi_infer_reshape(redcoi_signature *s);
redco_status redcoi_infer_transpose(redcoi_signature *s);
redco_status redcoi_infer_broadcast(redcoi_signature *s);
redco_status redcoi_infer_slice(redcoi_signature *s);
redco_status redcoi_infer_pad(redcoi_signature *s);
redco_status redcoi_infer_concat(redcoi_signature *s);
redco_status redcoi_infer_gather(redcoi_signature *s);
redco_status redcoi_infer_scatter(redcoi_signature *s);
redco_status redcoi_infer_pick(redcoi_signature *s);
redco_status redcoi_infer_unpick(redcoi_signature *s);
redco_status redcoi_infer_top_k(redcoi_signature *s);
redco_status redcoi_infer_sort_rows(redcoi_signature *s);
redco_status redcoi_infer_grouped_matmul(redcoi_signature *s);
redco_status redcoi_infer_grouped_matmul_grad(redcoi_signature *s);
redco_status redcoi_infer_matmul(redcoi_signature *s);
redco_status redcoi_infer_matmul_add(redcoi_signature *s);
redco_status redcoi_infer_matmul_bias(redcoi_signature *s);
redco_status redcoi_infer_matmul_gelu(redcoi_signature *s);
redco_status redcoi_infer_matmul_gelu_grad(redcoi_signature *s);
redco_status redcoi_infer_matmul_bias_grad(redcoi_signature *s);
redco_status redcoi_infer_collective(redcoi_signature *s);
redco_status redcoi_infer_rows(redcoi_signature *s);
redco_status redcoi_infer_norm(redcoi_signature *s);
redco_status redcoi_infer_norm_grad(redcoi_signature *s);
redco_status redcoi_infer_rotary(redcoi_signature *s);
redco_status redcoi_infer_attention(redcoi_signature *s);
redco_status redcoi_infer_attention_grad(redcoi_signature *s);
redco_status redcoi_infer_attention_bias_grad(redcoi_signature *s);
redco_status redcoi_infer_cross_entropy(redcoi_signature *s);
redco_status redcoi_infer_cross_entropy_grad(redcoi_signature *s);
redco_status redcoi_infer_sum_squares(redcoi_signature *s);
redco_status redcoi_infer_adamw(redcoi_signature *s);
redco_status redcoi_infer_pointwise(redcoi_signature *s);

/** The dimensions of @p rows are those of @p table without the last. */
redco_status redcoi_check_rows(redcoi_signature *s, const redco_tensor_type *table, const redco_tensor_type *rows);

#endif
