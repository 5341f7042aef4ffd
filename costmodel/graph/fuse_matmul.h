/** @file fuse_matmul.h  Products that do at once what is done to their result: cuBLASLt's epilogues.
 *
 *  What graphs of language models have behind products of matrices, and the operator that a product and it become,
 * where the device has that operator (all of them can be decomposed again, so that any device can have none):
 *
 *  | behind the product a b | becomes | in place of |
 *  |---|---|---|
 *  | + bias | matmul_bias a, b, bias | reading and writing the result once more |
 *  | + bias, then ReLU or GELU whose argument nobody else reads (forward of recomputed layers) | matmul_bias, flags |
 * twice | | [+ bias], GELU (GPT-2's) whose argument backward reads | matmul_gelu a, b[, bias]: result, argument |
 * reading twice, writing once | | + addend [+ bias]: residual sums, sums of gradients of what several products read |
 * matmul_add c, a, b[, bias]; may be written over c | writing and reading the product | | GELU's gradient |
 * matmul_gelu_grad a, b, argument | likewise | | beside it, the sum of a factor's rows: the gradient of a bias beside
 * that of its weight | matmul_bias_grad a, b: product, sum | reading the factor once more |
 *
 *  A fused operator has the names of the product (so it stays the simulator's operator of that name) and stands where
 * the product stood; `absorbed` names what it does besides, if that has another name. Only neighbours are joined: same
 * layer, order and copy, everything else that it reads made before the product, so that nothing is held longer than
 * before. */
#ifndef REDCO_GRAPH_FUSE_MATMUL_H
#define REDCO_GRAPH_FUSE_MATMUL_H

#include "costmodel/graph/fuse_choice.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A new graph of what @p outputs depend on, with products fused. Results differ from the old graph's by roundings of
 *  what is no longer stored. It comes behind layouts and recomputation, and before any other fusion.
 *  @param choice      asked for each candidate; borrowed for the call
 *  @param graph_out   the caller frees it
 *  @param outputs_out output_count entries: @p outputs in the new graph */
redco_status redco_graph_fuse_matmul(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                     const redco_fuse_choice *choice, redco_graph **graph_out, redco_value *outputs_out,
                                     redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
