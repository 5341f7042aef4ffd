/* Gradient rules of basic operators. */
#include "costmodel/graph/vjp.h"

#include "costmodel/graph/build_calls.h"

#include <math.h>
#include <string.h>

static const double two_over_sqrt_pi = 1.12837916709551257390;

/** Gradient of a unary operator: the cotangent times @p slope. */
static bool times(redcoi_vjp *v, redco_value slope)
{
    v->gradient[0] = redco_mul(v->graph, v->cotangent[0], slope);
    return true;
}

bool redcoi_vjp_neg(redcoi_vjp *v)
{
    v->gradient[0] = redco_neg(v->graph, v->cotangent[0]);
    return true;
}

bool redcoi_vjp_exp(redcoi_vjp *v)
{
    return times(v, v->out[0]);
}

bool redcoi_vjp_log(redcoi_vjp *v)
{
    v->gradient[0] = redco_div(v->graph, v->cotangent[0], v->in[0]);
    return true;
}

bool redcoi_vjp_sqrt(redcoi_vjp *v)
{
    v->gradient[0] = redco_div(v->graph, redco_scale(v->graph, v->cotangent[0], 0.5), v->out[0]);
    return true;
}

bool redcoi_vjp_rsqrt(redcoi_vjp *v)
{
    return times(v, redco_scale(v->graph, redco_pow(v->graph, v->out[0], 3), -0.5));
}

bool redcoi_vjp_pow(redcoi_vjp *v)
{
    const double p = v->op->attributes.scalar;
    return times(v, redco_scale(v->graph, redco_pow(v->graph, v->in[0], p - 1), p));
}

bool redcoi_vjp_tanh(redcoi_vjp *v)
{
    const redco_value square = redco_mul(v->graph, v->out[0], v->out[0]);
    return times(v, redco_shift(v->graph, redco_neg(v->graph, square), 1));
}

bool redcoi_vjp_erf(redcoi_vjp *v)
{
    const redco_value square = redco_mul(v->graph, v->in[0], v->in[0]);
    return times(v, redco_scale(v->graph, redco_exp(v->graph, redco_neg(v->graph, square)), two_over_sqrt_pi));
}

bool redcoi_vjp_sin(redcoi_vjp *v)
{
    return times(v, redco_cos(v->graph, v->in[0]));
}

bool redcoi_vjp_cos(redcoi_vjp *v)
{
    return times(v, redco_neg(v->graph, redco_sin(v->graph, v->in[0])));
}

bool redcoi_vjp_sigmoid(redcoi_vjp *v)
{
    const redco_value rest = redco_shift(v->graph, redco_neg(v->graph, v->out[0]), 1);
    return times(v, redco_mul(v->graph, v->out[0], rest));
}

bool redcoi_vjp_relu(redcoi_vjp *v)
{
    const redco_value zero = redcoi_constant_like(v->graph, v->in[0], 0);
    v->gradient[0] = redco_select(v->graph, redco_less(v->graph, zero, v->in[0]), v->cotangent[0], zero);
    return true;
}

bool redcoi_vjp_gated(redcoi_vjp *v)
{
    const redco_op_kind kind = v->op->kind == REDCO_OP_SILU   ? REDCO_OP_SILU_GRAD
                               : v->op->kind == REDCO_OP_GELU ? REDCO_OP_GELU_GRAD
                                                              : REDCO_OP_GELU_TANH_GRAD;
    v->gradient[0] = redcoi_binary(v->graph, kind, v->in[0], v->cotangent[0]);
    return true;
}

bool redcoi_vjp_cast(redcoi_vjp *v)
{
    v->gradient[0] = redco_cast(v->graph, v->cotangent[0], redco_value_type(v->graph, v->in[0])->dtype);
    return true;
}

/** Gradient of input @p i from one with the output's dimensions. */
static void repeated(redcoi_vjp *v, uint32_t i, redco_value gradient)
{
    v->gradient[i] = redcoi_sum_to(v->graph, gradient, redco_value_type(v->graph, v->in[i]));
}

bool redcoi_vjp_add(redcoi_vjp *v)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (v->needed[i]) { repeated(v, i, v->cotangent[0]); }
    }
    return true;
}

bool redcoi_vjp_sub(redcoi_vjp *v)
{
    if (v->needed[0]) { repeated(v, 0, v->cotangent[0]); }
    if (v->needed[1]) { repeated(v, 1, redco_neg(v->graph, v->cotangent[0])); }
    return true;
}

bool redcoi_vjp_mul(redcoi_vjp *v)
{
    for (uint32_t i = 0; i < 2; i++) {
        if (v->needed[i]) { repeated(v, i, redco_mul(v->graph, v->cotangent[0], v->in[1 - i])); }
    }
    return true;
}

bool redcoi_vjp_div(redcoi_vjp *v)
{
    const redco_value quotient = redco_div(v->graph, v->cotangent[0], v->in[1]);
    if (v->needed[0]) { repeated(v, 0, quotient); }
    if (v->needed[1]) { repeated(v, 1, redco_neg(v->graph, redco_mul(v->graph, quotient, v->out[0]))); }
    return true;
}

/** Either the first or the second input gets the cotangent. */
static void chosen(redcoi_vjp *v, redco_value first, uint32_t i, uint32_t j)
{
    const redco_value zero = redcoi_constant_like(v->graph, v->cotangent[0], 0);
    if (v->needed[i]) { repeated(v, i, redco_select(v->graph, first, v->cotangent[0], zero)); }
    if (v->needed[j]) { repeated(v, j, redco_select(v->graph, first, zero, v->cotangent[0])); }
}

bool redcoi_vjp_extreme(redcoi_vjp *v)
{
    const bool max = v->op->kind == REDCO_OP_MAX;
    chosen(v, redco_less_equal(v->graph, v->in[max ? 1 : 0], v->in[max ? 0 : 1]), 0, 1);
    return true;
}

bool redcoi_vjp_select(redcoi_vjp *v)
{
    chosen(v, v->in[0], 1, 2);
    return true;
}

static redco_value as_input(redcoi_vjp *v, redco_value small)
{
    const redco_tensor_type *type = redco_value_type(v->graph, v->in[0]);
    return redco_broadcast_to(v->graph, small, type->rank, type->dim);
}

bool redcoi_vjp_sum(redcoi_vjp *v)
{
    v->gradient[0] = as_input(v, v->cotangent[0]);
    return true;
}

bool redcoi_vjp_reduce_extreme(redcoi_vjp *v)
{
    redco_graph *g = v->graph;
    const redco_value equal = redco_equal(g, v->in[0], v->out[0]);
    const redco_tensor_type *reduced = redco_value_type(g, v->out[0]);
    const redco_value count = redcoi_sum_to(g, redco_cast(g, equal, reduced->dtype), reduced);
    const redco_value zero = redcoi_constant_like(g, v->in[0], 0);
    v->gradient[0] = redco_select(g, equal, redco_div(g, v->cotangent[0], count), zero);
    return true;
}

bool redcoi_vjp_reshape(redcoi_vjp *v)
{
    const redco_tensor_type *type = redco_value_type(v->graph, v->in[0]);
    v->gradient[0] = redco_reshape(v->graph, v->cotangent[0], type->rank, type->dim);
    return true;
}

bool redcoi_vjp_transpose(redcoi_vjp *v)
{
    uint32_t inverse[REDCO_RANK_MAX];
    for (uint32_t i = 0; i < v->op->attributes.axis_count; i++) { inverse[v->op->attributes.axis[i]] = i; }
    v->gradient[0] = redco_transpose(v->graph, v->cotangent[0], inverse);
    return true;
}

bool redcoi_vjp_broadcast(redcoi_vjp *v)
{
    repeated(v, 0, v->cotangent[0]);
    return true;
}

bool redcoi_vjp_slice(redcoi_vjp *v)
{
    const redco_tensor_type *type = redco_value_type(v->graph, v->in[0]);
    v->gradient[0] = redco_pad(v->graph, v->cotangent[0], v->op->attributes.begin, type->dim);
    return true;
}

bool redcoi_vjp_pad(redcoi_vjp *v)
{
    const redco_tensor_type *type = redco_value_type(v->graph, v->in[0]);
    v->gradient[0] = redco_slice(v->graph, v->cotangent[0], v->op->attributes.begin, type->dim);
    return true;
}

bool redcoi_vjp_concat(redcoi_vjp *v)
{
    const uint32_t axis = v->op->attributes.axis[0];
    uint64_t begin = 0;
    for (uint32_t i = 0; i < v->op->input_count; i++) {
        const uint64_t size = redco_value_type(v->graph, v->in[i])->dim[axis];
        if (v->needed[i]) { v->gradient[i] = redco_slice_axis(v->graph, v->cotangent[0], axis, begin, size); }
        begin += size;
    }
    return true;
}

static redco_index_options index_options(const redcoi_vjp *v)
{
    return (redco_index_options){.offset = v->op->attributes.offset,
                                 .masked = (v->op->attributes.flags & REDCO_FLAG_MASKED) != 0};
}

bool redcoi_vjp_gather(redcoi_vjp *v)
{
    const redco_index_options options = index_options(v);
    const uint64_t rows = redco_value_type(v->graph, v->in[0])->dim[0];
    v->gradient[0] = redco_scatter_add(v->graph, v->in[1], v->cotangent[0], rows, &options);
    return true;
}

bool redcoi_vjp_scatter(redcoi_vjp *v)
{
    const redco_index_options options = index_options(v);
    v->gradient[1] = redco_gather(v->graph, v->cotangent[0], v->in[0], &options);
    return true;
}

bool redcoi_vjp_pick(redcoi_vjp *v)
{
    const redco_index_options options = index_options(v);
    const redco_tensor_type *type = redco_value_type(v->graph, v->in[0]);
    v->gradient[0] = redco_unpick(v->graph, v->in[1], v->cotangent[0], type->dim[type->rank - 1], &options);
    return true;
}

bool redcoi_vjp_unpick(redcoi_vjp *v)
{
    const redco_index_options options = index_options(v);
    v->gradient[1] = redco_pick(v->graph, v->cotangent[0], v->in[0], &options);
    return true;
}

/** C = A' B', where ' may exchange: dA' = dC B'^T, dB' = A'^T dC, each exchanged back. */
bool redcoi_vjp_matmul(redcoi_vjp *v)
{
    redco_graph *g = v->graph;
    const redco_value a = v->in[0], b = v->in[1], d = v->cotangent[0];
    const bool ta = (v->op->attributes.flags & REDCO_FLAG_TRANSPOSE_A) != 0;
    const bool tb = (v->op->attributes.flags & REDCO_FLAG_TRANSPOSE_B) != 0;
    if (v->needed[0]) {
        g->label.toward = 0;
        repeated(v, 0, ta ? redco_matmul(g, b, d, tb, true) : redco_matmul(g, d, b, false, !tb));
    }
    if (v->needed[1]) {
        g->label.toward = 1;
        repeated(v, 1, tb ? redco_matmul(g, d, a, true, ta) : redco_matmul(g, a, d, !ta, false));
    }
    return true;
}

/** Copying rows and adding them up are each other's transpose. */
bool redcoi_vjp_sort_rows(redcoi_vjp *v)
{
    const bool back = (v->op->attributes.flags & REDCO_FLAG_INVERSE) != 0;
    const uint64_t experts = v->op->attributes.size[0];
    v->gradient[0] = redco_sort_rows(v->graph, v->cotangent[0], v->in[1], experts, !back);
    return true;
}

/** Each expert has y = x W', where ' may exchange: dx = dy W'^T, dW' = x^T dy. */
bool redcoi_vjp_grouped_matmul(redcoi_vjp *v)
{
    redco_graph *const g = v->graph;
    const redco_value x = v->in[0], index = v->in[2], d = v->cotangent[0];
    const bool turned = (v->op->attributes.flags & REDCO_FLAG_TRANSPOSE_B) != 0;
    if (v->needed[0]) {
        g->label.toward = 0;
        v->gradient[0] = redco_grouped_matmul(g, d, v->in[1], index, !turned);
    }
    if (v->needed[1]) {
        g->label.toward = 1;
        const uint64_t experts = v->op->attributes.size[0];
        v->gradient[1] = redco_grouped_matmul_grad(g, turned ? d : x, turned ? x : d, index, experts);
    }
    return true;
}

/** Each expert has W = x^T y: dx = y dW^T, dy = x dW. */
bool redcoi_vjp_grouped_matmul_grad(redcoi_vjp *v)
{
    if (v->needed[0]) { v->gradient[0] = redco_grouped_matmul(v->graph, v->in[1], v->cotangent[0], v->in[2], true); }
    if (v->needed[1]) { v->gradient[1] = redco_grouped_matmul(v->graph, v->in[0], v->cotangent[0], v->in[2], false); }
    return true;
}
