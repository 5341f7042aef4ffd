/* Activations, softmax, norms, cross-entropy and AdamW in basic operators. */
#include "costmodel/graph/decompose.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/pointwise_program.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define UNUSED(x) ((void)(x))

static const double sqrt_half = 0.70710678118654752440;           /* 1 / sqrt 2 */
static const double inverse_sqrt_two_pi = 0.39894228040143267794; /* 1 / sqrt(2 pi) */
static const double sqrt_two_over_pi = 0.79788456080286535588;

/** In the element type of sums. */
static redco_value up(redco_graph *g, redco_value a)
{
    if (redcoi_graph_failed(g)) { return REDCO_NO_VALUE; }
    return redco_cast(g, a, redco_dtype_statistic(redco_value_type(g, a)->dtype));
}

/** In the element type of @p like. */
static redco_value down(redco_graph *g, redco_value a, redco_value like)
{
    if (redcoi_graph_failed(g)) { return REDCO_NO_VALUE; }
    return redco_cast(g, a, redco_value_type(g, like)->dtype);
}

REDCOI_DECOMPOSE(silu)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value x = up(graph, in[0]);
    out[0] = down(graph, redco_mul(graph, x, redco_sigmoid(graph, x)), in[0]);
}

/* s (1 + x (1 - s)) */
REDCOI_DECOMPOSE(silu_grad)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value x = up(graph, in[0]), s = redco_sigmoid(graph, x);
    const redco_value rest = redco_mul(graph, x, redco_shift(graph, redco_neg(graph, s), 1));
    const redco_value slope = redco_mul(graph, s, redco_shift(graph, rest, 1));
    out[0] = down(graph, redco_mul(graph, up(graph, in[1]), slope), in[0]);
}

/** (1 + erf(x / sqrt 2)) / 2 */
static redco_value normal_distribution(redco_graph *g, redco_value x)
{
    return redco_scale(g, redco_shift(g, redco_erf(g, redco_scale(g, x, sqrt_half)), 1), 0.5);
}

REDCOI_DECOMPOSE(gelu)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value x = up(graph, in[0]);
    out[0] = down(graph, redco_mul(graph, x, normal_distribution(graph, x)), in[0]);
}

REDCOI_DECOMPOSE(gelu_grad)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value x = up(graph, in[0]);
    const redco_value exponent = redco_scale(graph, redco_mul(graph, x, x), -0.5);
    const redco_value density = redco_scale(graph, redco_exp(graph, exponent), inverse_sqrt_two_pi);
    const redco_value slope = redco_add(graph, normal_distribution(graph, x), redco_mul(graph, x, density));
    out[0] = down(graph, redco_mul(graph, up(graph, in[1]), slope), in[0]);
}

static redco_value gelu_tanh(redco_graph *g, redco_value x)
{
    const redco_value cube = redco_scale(g, redco_pow(g, x, 3), 0.044715);
    return redco_tanh(g, redco_scale(g, redco_add(g, x, cube), sqrt_two_over_pi));
}

REDCOI_DECOMPOSE(gelu_tanh)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value x = up(graph, in[0]);
    const redco_value half = redco_scale(graph, redco_shift(graph, gelu_tanh(graph, x), 1), 0.5);
    out[0] = down(graph, redco_mul(graph, x, half), in[0]);
}

/* (1 + t) / 2 + x (1 - t^2) u' / 2 with t = tanh u */
REDCOI_DECOMPOSE(gelu_tanh_grad)
{
    UNUSED(attributes);
    UNUSED(input_count);
    redco_graph *g = graph;
    const redco_value x = up(g, in[0]), t = gelu_tanh(g, x);
    const redco_value square = redco_mul(g, x, x);
    const redco_value du = redco_scale(g, redco_shift(g, redco_scale(g, square, 3 * 0.044715), 1), sqrt_two_over_pi);
    const redco_value dt = redco_shift(g, redco_neg(g, redco_mul(g, t, t)), 1);
    const redco_value tail = redco_mul(g, redco_mul(g, x, dt), du);
    const redco_value slope = redco_scale(g, redco_add(g, redco_shift(g, t, 1), tail), 0.5);
    out[0] = down(g, redco_mul(g, up(g, in[1]), slope), in[0]);
}

/* Rows */

static uint32_t last_axis(const redco_graph *g, redco_value a)
{
    return redco_value_type(g, a)->rank - 1;
}

static redco_value row_sum(redco_graph *g, redco_value a)
{
    return redcoi_graph_failed(g) ? REDCO_NO_VALUE : redco_sum_axis(g, a, last_axis(g, a), true);
}

static redco_value row_mean(redco_graph *g, redco_value a)
{
    if (redcoi_graph_failed(g)) { return REDCO_NO_VALUE; }
    const uint32_t axis = last_axis(g, a);
    return redco_mean(g, a, 1, &axis, true);
}

/** Log of the sum of a row's exponentials. The maximum cancels, so it need not be differentiated. */
static redco_value row_log_sum_exp(redco_graph *g, redco_value x)
{
    if (redcoi_graph_failed(g)) { return REDCO_NO_VALUE; }
    const uint32_t axis = last_axis(g, x);
    const redco_value max = redco_stop_gradient(g, redco_reduce_max(g, x, 1, &axis, true));
    return redco_add(g, max, redco_log(g, row_sum(g, redco_exp(g, redco_sub(g, x, max)))));
}

REDCOI_DECOMPOSE(log_softmax)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value x = up(graph, in[0]);
    out[0] = down(graph, redco_sub(graph, x, row_log_sum_exp(graph, x)), in[0]);
}

REDCOI_DECOMPOSE(softmax)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value x = up(graph, in[0]);
    out[0] = down(graph, redco_exp(graph, redco_sub(graph, x, row_log_sum_exp(graph, x))), in[0]);
}

/* y, dy -> y (dy - sum(dy y)) */
REDCOI_DECOMPOSE(softmax_grad)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value y = up(graph, in[0]), d = up(graph, in[1]);
    const redco_value sum = row_sum(graph, redco_mul(graph, d, y));
    out[0] = down(graph, redco_mul(graph, y, redco_sub(graph, d, sum)), in[0]);
}

/* y, dy -> dy - exp(y) sum(dy) */
REDCOI_DECOMPOSE(log_softmax_grad)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value y = up(graph, in[0]), d = up(graph, in[1]);
    out[0] = down(graph, redco_sub(graph, d, redco_mul(graph, redco_exp(graph, y), row_sum(graph, d))), in[0]);
}

/* Norms */

REDCOI_DECOMPOSE(rms_norm)
{
    UNUSED(input_count);
    const redco_value x = up(graph, in[0]);
    const redco_value square = row_mean(graph, redco_mul(graph, x, x));
    out[1] = redco_rsqrt(graph, redco_shift(graph, square, attributes->scalar));
    out[0] = down(graph, redco_mul(graph, redco_mul(graph, x, out[1]), up(graph, in[1])), in[0]);
}

/** Sum of all rows, as a vector. */
static redco_value sum_of_rows(redco_graph *g, redco_value a)
{
    uint32_t axes[REDCO_RANK_MAX];
    if (redcoi_graph_failed(g)) { return REDCO_NO_VALUE; }
    for (uint32_t i = 0; i < REDCO_RANK_MAX; i++) { axes[i] = i; }
    return redco_sum(g, a, last_axis(g, a), axes, false);
}

/* x, w, r, dy; e = dy w:  dx = r e - x r^3 mean(e x),  dw = sum dy x r */
REDCOI_DECOMPOSE(rms_norm_grad)
{
    UNUSED(attributes);
    UNUSED(input_count);
    redco_graph *g = graph;
    const redco_value x = up(g, in[0]), r = in[2], d = up(g, in[3]);
    const redco_value e = redco_mul(g, d, up(g, in[1]));
    const redco_value mean = redco_mul(g, redco_pow(g, r, 3), row_mean(g, redco_mul(g, e, x)));
    out[0] = down(g, redco_sub(g, redco_mul(g, e, r), redco_mul(g, x, mean)), in[0]);
    out[1] = down(g, sum_of_rows(g, redco_mul(g, d, redco_mul(g, x, r))), in[1]);
}

REDCOI_DECOMPOSE(layer_norm)
{
    UNUSED(input_count);
    redco_graph *g = graph;
    const redco_value x = up(g, in[0]), mean = row_mean(g, x), centred = redco_sub(g, x, mean);
    const redco_value variance = row_mean(g, redco_mul(g, centred, centred));
    out[1] = mean;
    out[2] = redco_rsqrt(g, redco_shift(g, variance, attributes->scalar));
    const redco_value scaled = redco_mul(g, redco_mul(g, centred, out[2]), up(g, in[1]));
    out[0] = down(g, redco_add(g, scaled, up(g, in[2])), in[0]);
}

/* x, w, m, r, dy; n = (x - m) r, e = dy w:  dx = r (e - mean e - n mean(e n)),  dw = sum dy n,  db = sum dy */
REDCOI_DECOMPOSE(layer_norm_grad)
{
    UNUSED(attributes);
    UNUSED(input_count);
    redco_graph *g = graph;
    const redco_value r = in[3], d = up(g, in[4]);
    const redco_value n = redco_mul(g, redco_sub(g, up(g, in[0]), in[2]), r);
    const redco_value e = redco_mul(g, d, up(g, in[1]));
    const redco_value tail = redco_mul(g, n, row_mean(g, redco_mul(g, e, n)));
    const redco_value inner = redco_sub(g, redco_sub(g, e, row_mean(g, e)), tail);
    out[0] = down(g, redco_mul(g, r, inner), in[0]);
    out[1] = down(g, sum_of_rows(g, redco_mul(g, d, n)), in[1]);
    out[2] = down(g, sum_of_rows(g, d), in[1]);
}

/* Cross-entropy */

static redco_index_options target_options(const redco_attributes *attributes)
{
    return (redco_index_options){.offset = attributes->offset, .masked = (attributes->flags & REDCO_FLAG_MASKED) != 0};
}

/** @p a [...] as [..., 1] */
static redco_value as_column(redco_graph *g, redco_value a)
{
    if (redcoi_graph_failed(g)) { return REDCO_NO_VALUE; }
    redco_tensor_type type = *redco_value_type(g, a);
    type.dim[type.rank++] = 1;
    return redco_reshape(g, a, type.rank, type.dim);
}

REDCOI_DECOMPOSE(cross_entropy)
{
    UNUSED(input_count);
    redco_graph *g = graph;
    const redco_value x = up(g, in[0]), lse = row_log_sum_exp(g, x);
    redco_value picked = REDCO_NO_VALUE;
    if (redcoi_graph_failed(g)) { return; }
    const redco_tensor_type rows = *redco_value_type(g, in[1]), type = *redco_value_type(g, x);
    out[1] = redco_reshape(g, lse, rows.rank, rows.dim);
    redco_graph_apply(g, REDCO_OP_PICK, (redco_value[]){x, in[1]}, 2, attributes, &picked); /* the same indices */
    out[0] = redco_sub(g, out[1], picked);
    if ((attributes->flags & REDCO_FLAG_MASKED) != 0) {
        const redco_value low = redcoi_constant_like(g, in[1], (double)attributes->offset);
        const redco_value high =
            redcoi_constant_like(g, in[1], (double)attributes->offset + (double)type.dim[type.rank - 1]);
        const redco_value inside = redco_and(g, redco_less_equal(g, low, in[1]), redco_less(g, in[1], high));
        out[0] = redco_select(g, inside, out[0], redcoi_constant_like(g, out[0], 0));
    }
}

/* logits, targets, lse, d -> d exp(logits - lse), less d at the target */
REDCOI_DECOMPOSE(cross_entropy_grad)
{
    UNUSED(input_count);
    redco_graph *g = graph;
    const redco_index_options options = target_options(attributes);
    const redco_value x = up(g, in[0]), d = as_column(g, in[3]);
    if (redcoi_graph_failed(g)) { return; }
    const uint64_t n = redco_value_type(g, x)->dim[last_axis(g, x)];
    const redco_value p = redco_exp(g, redco_sub(g, x, as_column(g, in[2])));
    out[0] = down(g, redco_sub(g, redco_mul(g, p, d), redco_unpick(g, in[1], in[3], n, &options)), in[0]);
}

/** beta a + rest b, with rest = 1 - beta */
static redco_value moving_mean(redco_graph *g, redco_value beta, redco_value rest, redco_value a, redco_value b)
{
    return redco_add(g, redco_mul(g, beta, a), redco_mul(g, rest, b));
}

REDCOI_DECOMPOSE(sum_squares)
{
    UNUSED(attributes);
    UNUSED(input_count);
    const redco_value x = up(graph, in[0]);
    out[0] = redco_sum_all(graph, redco_mul(graph, x, x));
}

/* The rounded copy is left out by who does not ask for it: values that nobody reads are not run. */
REDCOI_DECOMPOSE(adamw)
{
    UNUSED(attributes);
    UNUSED(input_count);
    redco_graph *g = graph;
    redco_value n[REDCO_ADAMW_COUNT];
    if (redcoi_graph_failed(g)) { return; }
    for (uint32_t i = 0; i < REDCO_ADAMW_COUNT; i++) {
        n[i] = redco_reshape(g, redco_slice_axis(g, in[4], 0, i, 1), 0, NULL);
    }
    const redco_dtype dtype = redco_value_type(g, in[0])->dtype;
    const redco_value gradient = redco_mul(g, redco_cast(g, in[3], dtype), n[REDCO_ADAMW_GRADIENT_SCALE]);
    out[1] = moving_mean(g, n[REDCO_ADAMW_BETA1], n[REDCO_ADAMW_REST1], in[1], gradient);
    out[2] = moving_mean(g, n[REDCO_ADAMW_BETA2], n[REDCO_ADAMW_REST2], in[2], redco_mul(g, gradient, gradient));
    const redco_value root = redco_sqrt(g, redco_div(g, out[2], n[REDCO_ADAMW_CORRECTION2]));
    const redco_value deviation = redco_add(g, root, n[REDCO_ADAMW_EPSILON]);
    const redco_value step = redco_div(g, redco_div(g, out[1], n[REDCO_ADAMW_CORRECTION1]), deviation);
    const redco_value decay = redco_mul(g, n[REDCO_ADAMW_RATE], n[REDCO_ADAMW_DECAY]);
    const redco_value kept = redco_mul(g, in[0], redco_shift(g, redco_neg(g, decay), 1));
    out[0] = redco_sub(g, kept, redco_mul(g, n[REDCO_ADAMW_RATE], step));
    out[3] = redco_cast(g, out[0], redco_value_type(g, in[3])->dtype);
}

REDCOI_DECOMPOSE(pointwise)
{
    redco_pointwise p;
    redco_value values[REDCO_POINTWISE_OPERANDS_MAX], operands[3];
    if (redcoi_graph_failed(graph) || !redco_pointwise_unpack(attributes, input_count, &p)) { return; }
    memcpy(values, in, input_count * sizeof *values);
    for (uint32_t i = 0; i < p.step_count && !redcoi_graph_failed(graph); i++) {
        const redco_pointwise_step *const step = &p.steps[i];
        const redco_op_kind kind = (redco_op_kind)step->kind;
        if (kind == REDCO_OP_CONSTANT) {
            const redco_tensor_type type =
                redco_pointwise_constant_type((redco_dtype)step->in[1], redco_value_type(graph, in[0])->rank);
            values[input_count + i] = redco_constant(graph, &type, p.constants[step->in[0]]);
            continue;
        }
        const redco_attributes attributes_of = redco_pointwise_attributes(&p, step);
        const uint32_t arity = redco_pointwise_arity(kind);
        for (uint32_t k = 0; k < arity; k++) { operands[k] = values[step->in[k]]; }
        redco_graph_apply(graph, kind, operands, arity, &attributes_of, &values[input_count + i]);
    }
    for (uint32_t i = 0; i < p.output_count && !redcoi_graph_failed(graph); i++) { out[i] = values[p.outputs[i]]; }
}
