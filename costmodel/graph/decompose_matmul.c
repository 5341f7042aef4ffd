/* Products with an epilogue, written as the product and what follows it. */
#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/decompose.h"

#include <string.h>

/* Not redco_matmul(): the factors are matrices already. */
static redco_value product(redco_graph *g, const redco_attributes *attributes, const redco_value *factors)
{
    redco_attributes plain;
    redco_value out = REDCO_NO_VALUE;
    memset(&plain, 0, sizeof plain);
    plain.flags = attributes->flags & (REDCO_FLAG_TRANSPOSE_A | REDCO_FLAG_TRANSPOSE_B);
    redco_graph_apply(g, REDCO_OP_MATMUL, factors, 2, &plain, &out);
    return out;
}

/* Basic operators, as all decompositions. */
static redco_value gelu(redco_graph *g, redco_value x)
{
    redco_value out = REDCO_NO_VALUE;
    redcoi_decompose_gelu_tanh(g, NULL, &x, 1, &out);
    return out;
}

REDCOI_DECOMPOSE(matmul_add)
{
    const redco_value made = product(graph, attributes, in + 1);
    out[0] = redco_add(graph, in[0], input_count > 3 ? redco_add(graph, made, in[3]) : made);
}

REDCOI_DECOMPOSE(matmul_bias)
{
    (void)input_count;
    out[0] = redco_add(graph, product(graph, attributes, in), in[2]);
    if ((attributes->flags & REDCO_FLAG_RELU) != 0) { out[0] = redco_relu(graph, out[0]); }
    if ((attributes->flags & REDCO_FLAG_GELU) != 0) { out[0] = gelu(graph, out[0]); }
}

REDCOI_DECOMPOSE(matmul_gelu)
{
    out[1] = product(graph, attributes, in);
    if (input_count > 2) { out[1] = redco_add(graph, out[1], in[2]); }
    out[0] = gelu(graph, out[1]);
}

REDCOI_DECOMPOSE(matmul_gelu_grad)
{
    (void)input_count;
    const redco_value both[2] = {in[2], product(graph, attributes, in)};
    redcoi_decompose_gelu_tanh_grad(graph, attributes, both, 2, out);
}

/* The sum runs over the dimension that the product sums over. */
REDCOI_DECOMPOSE(matmul_bias_grad)
{
    (void)input_count;
    const uint32_t side = attributes->axis[0];
    const bool ta = (attributes->flags & REDCO_FLAG_TRANSPOSE_A) != 0;
    const bool tb = (attributes->flags & REDCO_FLAG_TRANSPOSE_B) != 0;
    const uint32_t axis = side == 0 ? (ta ? 0 : 1) : (tb ? 1 : 0);
    out[0] = product(graph, attributes, in);
    out[1] = redco_sum_axis(graph, in[side], axis, false);
}
