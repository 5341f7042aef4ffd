/** @file vjp.h  Gradient rules, rows of operators.h. Each writes vjp->gradient[i] for every needed input
 * i; an input's gradient has its type. What a rule returns false for is differentiated through its decomposition. */
#ifndef REDCO_GRAPH_VJP_H
#define REDCO_GRAPH_VJP_H

#include "costmodel/graph/graph_internal.h"

bool redcoi_vjp_neg(redcoi_vjp *v);
bool redcoi_vjp_exp(redcoi_vjp *v);
bool redcoi_vjp_log(redcoi_vjp *v);
bool redcoi_vjp_sqrt(redcoi_vjp *v);
bool redcoi_vjp_rsqrt(redcoi_vjp *v);
bool redcoi_vjp_pow(redcoi_vjp *v);
bool redcoi_vjp_tanh(redcoi_vjp *v);
bool redcoi_vjp_erf(redcoi_vjp *v);
bool redcoi_vjp_sin(redcoi_vjp *v);
bool redcoi_vjp_cos(redcoi_vjp *v);
bool redcoi_vjp_sigmoid(redcoi_vjp *v);
bool redcoi_vjp_relu(redcoi_vjp *v);
bool redcoi_vjp_gated(redcoi_vjp *v);
bool redcoi_vjp_cast(redcoi_vjp *v);
bool redcoi_vjp_add(redcoi_vjp *v);
bool redcoi_vjp_sub(redcoi_vjp *v);
bool redcoi_vjp_mul(redcoi_vjp *v);
bool redcoi_vjp_div(redcoi_vjp *v);
bool redcoi_vjp_extreme(redcoi_vjp *v);
bool redcoi_vjp_select(redcoi_vjp *v);
bool redcoi_vjp_sum(redcoi_vjp *v);
bool redcoi_vjp_reduce_extreme(redcoi_vjp *v);
bool redcoi_vjp_reshape(redcoi_vjp *v);
bool redcoi_vjp_transpose(redcoi_vjp *v);
bool redcoi_vjp_broadcast(redcoi_vjp *v);
bool redcoi_vjp_slice(redcoi_vjp *v);
bool redcoi_vjp_pad(redcoi_vjp *v);
bool redcoi_vjp_concat(redcoi_vjp *v);
bool redcoi_vjp_gather(redcoi_vjp *v);
bool redcoi_vjp_scatter(redcoi_vjp *v);
bool redcoi_vjp_pick(redcoi_vjp *v);
bool redcoi_vjp_unpick(redcoi_vjp *v);
bool redcoi_vjp_sort_rows(redcoi_vjp *v);
bool redcoi_vjp_grouped_matmul(redcoi_vjp *v);
bool redcoi_vjp_grouped_matmul_grad(redcoi_vjp *v);
bool redcoi_vjp_matmul(redcoi_vjp *v);
bool redcoi_vjp_softmax(redcoi_vjp *v);
bool redcoi_vjp_rms_norm(redcoi_vjp *v);
bool redcoi_vjp_layer_norm(redcoi_vjp *v);
bool redcoi_vjp_rotary(redcoi_vjp *v);
bool redcoi_vjp_attention(redcoi_vjp *v);
bool redcoi_vjp_cross_entropy(redcoi_vjp *v);

#endif
