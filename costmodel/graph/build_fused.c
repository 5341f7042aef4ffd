/* Building calls of fused operators. */
#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/graph_internal.h"

#include <math.h>
#include <string.h>

static redco_value apply(redco_graph *graph, redco_op_kind kind, const redco_value *in, uint32_t count,
                         const redco_attributes *attributes)
{
    redco_value out[REDCO_OUTPUTS_MAX];
    redco_graph_apply(graph, kind, in, count, attributes, out);
    return out[0];
}

redco_value redco_softmax(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_SOFTMAX, a);
}

redco_value redco_log_softmax(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_LOG_SOFTMAX, a);
}

redco_value redco_rms_norm(redco_graph *graph, redco_value a, redco_value scale, double epsilon)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.scalar = epsilon;
    return apply(graph, REDCO_OP_RMS_NORM, (redco_value[]){a, scale}, 2, &attributes);
}

redco_value redco_layer_norm(redco_graph *graph, redco_value a, redco_value scale, redco_value shift, double epsilon)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.scalar = epsilon;
    return apply(graph, REDCO_OP_LAYER_NORM, (redco_value[]){a, scale, shift}, 3, &attributes);
}

redco_value redco_cross_entropy(redco_graph *graph, redco_value logits, redco_value targets, bool masked)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    if (masked && !redcoi_graph_failed(graph) && logits < redco_graph_value_count(graph)) {
        const redco_tensor_type *const type = redco_value_type(graph, logits);
        attributes.flags = REDCO_FLAG_MASKED;
        attributes.first = INT32_MIN;
        attributes.end = type->rank > 0 ? (int64_t)type->dim[type->rank - 1] : 0;
    }
    return apply(graph, REDCO_OP_CROSS_ENTROPY, (redco_value[]){logits, targets}, 2, &attributes);
}

redco_value redco_cross_entropy_mean(redco_graph *graph, redco_value logits, redco_value targets)
{
    const redco_value losses = redco_cross_entropy(graph, logits, targets, true);
    if (redcoi_graph_failed(graph) || losses >= redco_graph_value_count(graph)) { return REDCO_NO_VALUE; }
    const redco_dtype dtype = redco_value_type(graph, losses)->dtype;
    const redco_value asked = redco_less_equal(graph, redco_scalar(graph, REDCO_I32, 0.0), targets);
    const redco_value count = redco_sum_all(graph, redco_cast(graph, asked, dtype));
    const redco_value least = redco_max(graph, count, redco_scalar(graph, dtype, 1.0));
    return redco_div(graph, redco_sum_all(graph, losses), least);
}

redco_value redco_rotary(redco_graph *graph, redco_value x, redco_value cosines, redco_value sines, bool interleaved)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    attributes.flags = interleaved ? REDCO_FLAG_INTERLEAVED : 0;
    return apply(graph, REDCO_OP_ROTARY, (redco_value[]){x, cosines, sines}, 3, &attributes);
}

void redco_rotary_tables(redco_graph *graph, redco_value positions, uint64_t size, double theta, redco_dtype dtype,
                         redco_value *cosines_out, redco_value *sines_out)
{
    *cosines_out = *sines_out = REDCO_NO_VALUE;
    if (redcoi_graph_failed(graph) || positions >= redco_graph_value_count(graph)) { return; }
    redco_tensor_type type = *redco_value_type(graph, positions);
    if (type.rank >= REDCO_RANK_MAX || size < 2 || !(theta > 0)) {
        (void)redcoi_graph_fail(graph, "rotary tables: rank %u, size %llu, theta %g", type.rank,
                                (unsigned long long)size, theta);
        return;
    }
    type.dim[type.rank++] = 1;
    const redco_value at = redco_reshape(graph, positions, type.rank, type.dim);
    redco_tensor_type pair = redco_type(REDCO_I32, 1, &(uint64_t){size / 2});
    /* In F64 whatever the tables are: positions times frequencies need the digits. */
    const redco_value index = redco_cast(graph, redco_iota(graph, &pair, 0), REDCO_F64);
    const redco_value frequency = redco_exp(graph, redco_scale(graph, index, -2 * log(theta) / (double)size));
    const redco_value angle = redco_mul(graph, redco_cast(graph, at, REDCO_F64), frequency);
    *cosines_out = redco_cast(graph, redco_cos(graph, angle), dtype);
    *sines_out = redco_cast(graph, redco_sin(graph, angle), dtype);
}

redco_value redco_attend(redco_graph *graph, redco_value q, redco_value k, redco_value v, redco_value mask,
                         const redco_attention_options *options)
{
    redco_attributes attributes;
    memset(&attributes, 0, sizeof attributes);
    if (redcoi_graph_failed(graph)) { return REDCO_NO_VALUE; }
    const uint32_t count = redco_graph_value_count(graph);
    if (q >= count || k >= count) { return redcoi_graph_fail(graph, "attention: no query or no key"); }
    const redco_tensor_type *tq = redco_value_type(graph, q), *tk = redco_value_type(graph, k);
    if (tq->rank == 4 && tk->rank == 4) { /* else the type rule says what is wrong */
        attributes.scalar = options->scale != 0 ? options->scale : 1 / sqrt((double)tq->dim[3]);
        attributes.cap = options->cap;
        if (options->causal) {
            attributes.offset = options->has_offset ? options->offset : (int64_t)tk->dim[1] - (int64_t)tq->dim[1];
        }
    }
    if (options->causal) {
        attributes.flags = REDCO_FLAG_CAUSAL;
        attributes.window = options->window;
    } else if (options->window != 0) {
        return redcoi_graph_fail(graph, "attention: a window needs causal attention");
    }
    const redco_value in[4] = {q, k, v, mask};
    return apply(graph, REDCO_OP_ATTENTION, in, mask == REDCO_NO_VALUE ? 3 : 4, &attributes);
}

void redco_adamw(redco_graph *graph, redco_value p, redco_value m, redco_value v, redco_value gradient,
                 redco_value numbers, redco_value outputs_out[3])
{
    const redco_value in[5] = {p, m, v, gradient, numbers};
    redco_graph_apply(graph, REDCO_OP_ADAMW, in, 5, NULL, outputs_out);
}

void redco_adamw_rounded(redco_graph *graph, redco_value p, redco_value m, redco_value v, redco_value gradient,
                         redco_value numbers, redco_value outputs_out[4])
{
    const redco_value in[5] = {p, m, v, gradient, numbers};
    redco_graph_apply(graph, REDCO_OP_ADAMW_ROUNDED, in, 5, NULL, outputs_out);
}

redco_value redco_sum_squares(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_SUM_SQUARES, a);
}
