/* Rotary embedding and attention in basic operators. */
#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/decompose.h"

#include <string.h>

#define UNUSED(x) ((void)(x))

static redco_value up(redco_graph *g, redco_value a)
{
    if (redcoi_graph_failed(g)) { return REDCO_NO_VALUE; }
    return redco_cast(g, a, redco_dtype_statistic(redco_value_type(g, a)->dtype));
}

/** A pair's members: halves of the rotated part, or its even and odd elements. */
static void split_pairs(redco_graph *g, redco_value x, uint64_t n, bool interleaved, redco_value pair[2])
{
    if (redcoi_graph_failed(g)) { return; }
    redco_tensor_type type = *redco_value_type(g, x); /* [b, s, h, 2 n] */
    for (uint32_t i = 0; i < 2; i++) {
        if (!interleaved) {
            pair[i] = redco_slice_axis(g, x, 3, i * n, n);
            continue;
        }
        const uint64_t pairs[5] = {type.dim[0], type.dim[1], type.dim[2], n, 2};
        const redco_value by_pair = redco_reshape(g, x, 5, pairs);
        const redco_value member = redco_slice_axis(g, by_pair, 4, i, 1);
        pair[i] = redco_reshape(g, member, 4, pairs);
    }
}

static redco_value join_pairs(redco_graph *g, const redco_value pair[2], uint64_t n, bool interleaved)
{
    if (redcoi_graph_failed(g)) { return REDCO_NO_VALUE; }
    if (!interleaved) { return redco_concat(g, pair, 2, 3); }
    redco_tensor_type type = *redco_value_type(g, pair[0]);
    const uint64_t column[5] = {type.dim[0], type.dim[1], type.dim[2], n, 1};
    const redco_value columns[2] = {redco_reshape(g, pair[0], 5, column), redco_reshape(g, pair[1], 5, column)};
    type.dim[3] = 2 * n;
    return redco_reshape(g, redco_concat(g, columns, 2, 4), 4, type.dim);
}

/** Tables [s, n] or [b, s, n] as [1 or b, s, 1, n]. */
static redco_value as_table(redco_graph *g, redco_value table)
{
    const redco_tensor_type *t = redco_value_type(g, table);
    const bool batched = t->rank == 3;
    const uint64_t dim[4] = {batched ? t->dim[0] : 1, t->dim[t->rank - 2], 1, t->dim[t->rank - 1]};
    return redco_reshape(g, table, 4, dim);
}

/* (a, b) -> (a c - b s, b c + a s) */
REDCOI_DECOMPOSE(rotary)
{
    UNUSED(input_count);
    redco_graph *g = graph;
    const bool interleaved = (attributes->flags & REDCO_FLAG_INTERLEAVED) != 0;
    const redco_value x = up(g, in[0]);
    if (redcoi_graph_failed(g)) { return; }
    const uint64_t size = redco_value_type(g, x)->dim[3];
    const redco_value c = as_table(g, in[1]);
    redco_value s = as_table(g, in[2]), pair[2] = {REDCO_NO_VALUE, REDCO_NO_VALUE};
    if ((attributes->flags & REDCO_FLAG_INVERSE) != 0) { s = redco_neg(g, s); }
    if (redcoi_graph_failed(g)) { return; }
    const uint64_t n = redco_value_type(g, c)->dim[3];
    split_pairs(g, redco_slice_axis(g, x, 3, 0, 2 * n), n, interleaved, pair);
    const redco_value turned[2] = {redco_sub(g, redco_mul(g, pair[0], c), redco_mul(g, pair[1], s)),
                                   redco_add(g, redco_mul(g, pair[1], c), redco_mul(g, pair[0], s))};
    redco_value y = join_pairs(g, turned, n, interleaved);
    if (2 * n < size) { y = redco_concat(g, (redco_value[]){y, redco_slice_axis(g, x, 3, 2 * n, size - 2 * n)}, 2, 3); }
    if (redcoi_graph_failed(g)) { return; }
    out[0] = redco_cast(g, y, redco_value_type(g, in[0])->dtype);
}

/** Sizes of one attention. Query heads of one group are laid below one another as rows, so that everything is a product
 * of [batch, groups, rows, ...] with [batch, groups, keys, ...]. */
typedef struct grouped {
    redco_graph *g;
    uint64_t batch, groups, shared, queries, keys;
} grouped;

static grouped group_sizes(redco_graph *g, redco_value q, redco_value k)
{
    const redco_tensor_type *tq = redco_value_type(g, q), *tk = redco_value_type(g, k);
    return (grouped){g, tq->dim[0], tk->dim[2], tq->dim[2] / tk->dim[2], tq->dim[1], tk->dim[1]};
}

/** [batch, queries, heads, n] -> [batch, groups, shared queries, n], in the type of sums */
static redco_value fold_heads(const grouped *s, redco_value a)
{
    if (redcoi_graph_failed(s->g)) { return REDCO_NO_VALUE; }
    const uint64_t n = redco_value_type(s->g, a)->dim[3];
    const uint64_t apart[5] = {s->batch, s->queries, s->groups, s->shared, n};
    const uint64_t folded[4] = {s->batch, s->groups, s->shared * s->queries, n};
    const uint32_t axes[5] = {0, 2, 3, 1, 4};
    const redco_value turned = redco_transpose(s->g, redco_reshape(s->g, up(s->g, a), 5, apart), axes);
    return redco_reshape(s->g, turned, 4, folded);
}

static redco_value unfold_heads(const grouped *s, redco_value a, redco_dtype dtype)
{
    if (redcoi_graph_failed(s->g)) { return REDCO_NO_VALUE; }
    const uint64_t n = redco_value_type(s->g, a)->dim[3];
    const uint64_t apart[5] = {s->batch, s->groups, s->shared, s->queries, n};
    const uint64_t joined[4] = {s->batch, s->queries, s->groups * s->shared, n};
    const uint32_t axes[5] = {0, 3, 1, 2, 4};
    const redco_value turned = redco_transpose(s->g, redco_reshape(s->g, a, 5, apart), axes);
    return redco_cast(s->g, redco_reshape(s->g, turned, 4, joined), dtype);
}

/** [batch, keys, groups, n] <-> [batch, groups, keys, n] */
static redco_value swap_heads(redco_graph *g, redco_value a)
{
    return redco_transpose(g, a, (const uint32_t[]){0, 2, 1, 3});
}

/** Dimensions of a mask or bias with its heads apart by group. */
static void apart_by_group(const grouped *s, const redco_tensor_type *m, uint64_t dim[5])
{
    const bool one = m->dim[1] == 1;
    const uint64_t apart[5] = {m->dim[0], one ? 1 : s->groups, one ? 1 : s->shared, m->dim[2], m->dim[3]};
    memcpy(dim, apart, sizeof apart);
}

static bool is_bias(const grouped *s, redco_value mask)
{
    return mask != REDCO_NO_VALUE && redco_value_type(s->g, mask)->dtype != REDCO_BOOL;
}

/** The keys that a query sees, as BOOL [1 or batch, 1 or groups, 1 or shared, 1 or queries, keys]; REDCO_NO_VALUE for
 * all. */
static redco_value visible(const grouped *s, const redco_attributes *attributes, redco_value mask)
{
    redco_graph *g = s->g;
    redco_value seen = REDCO_NO_VALUE;
    if (mask != REDCO_NO_VALUE && !is_bias(s, mask)) {
        const redco_tensor_type *m = redco_value_type(g, mask);
        uint64_t dim[5];
        apart_by_group(s, m, dim);
        seen = redco_reshape(g, mask, 5, dim);
    }
    if ((attributes->flags & REDCO_FLAG_CAUSAL) == 0) { return seen; }
    const redco_tensor_type rows = redco_type(REDCO_I32, 5, (uint64_t[]){1, 1, 1, s->queries, 1});
    const redco_tensor_type columns = redco_type(REDCO_I32, 5, (uint64_t[]){1, 1, 1, 1, s->keys});
    const redco_value key = redco_iota(g, &columns, 4);
    const redco_value last = redco_shift(g, redco_iota(g, &rows, 3), (double)attributes->offset);
    redco_value causal = redco_less_equal(g, key, last);
    if (attributes->window > 0) {
        const redco_value before = redco_shift(g, last, -(double)attributes->window);
        causal = redco_and(g, causal, redco_less(g, before, key));
    }
    return seen == REDCO_NO_VALUE ? causal : redco_and(g, seen, causal);
}

/** @p a where a query sees, else @p other; a is [batch, groups, shared queries, keys]. */
static redco_value where_visible(const grouped *s, redco_value seen, redco_value a, double other)
{
    redco_graph *g = s->g;
    if (seen == REDCO_NO_VALUE || redcoi_graph_failed(g)) { return a; }
    const uint64_t apart[5] = {s->batch, s->groups, s->shared, s->queries, s->keys};
    const uint64_t folded[4] = {s->batch, s->groups, s->shared * s->queries, s->keys};
    const redco_value spread = redco_reshape(g, a, 5, apart);
    return redco_reshape(g, redco_select(g, seen, spread, redcoi_constant_like(g, spread, other)), 4, folded);
}

/** [batch, groups, shared queries, keys] */
static redco_value capped_scores(redco_graph *g, const redco_attributes *attributes, redco_value q, redco_value k)
{
    const redco_value x = redco_scale(g, redco_matmul(g, q, k, false, true), attributes->scalar);
    const double cap = attributes->cap;
    return cap > 0 ? redco_scale(g, redco_tanh(g, redco_scale(g, x, 1 / cap)), cap) : x;
}

/** Likewise, with the bias if @p mask is one. */
static redco_value scores(const grouped *s, const redco_attributes *attributes, redco_value q, redco_value k,
                          redco_value mask)
{
    redco_graph *g = s->g;
    const redco_value x = capped_scores(g, attributes, q, k);
    if (redcoi_graph_failed(g) || !is_bias(s, mask)) { return x; }
    const uint64_t spread[5] = {s->batch, s->groups, s->shared, s->queries, s->keys};
    const uint64_t folded[4] = {s->batch, s->groups, s->shared * s->queries, s->keys};
    uint64_t dim[5];
    apart_by_group(s, redco_value_type(g, mask), dim);
    const redco_value sum = redco_add(g, redco_reshape(g, x, 5, spread), redco_reshape(g, mask, 5, dim));
    return redco_reshape(g, sum, 4, folded);
}

REDCOI_DECOMPOSE(attention)
{
    redco_graph *g = graph;
    const grouped s = group_sizes(g, in[0], in[1]);
    const redco_dtype dtype = redco_value_type(g, in[0])->dtype;
    const uint32_t last = 3;
    const redco_value q = fold_heads(&s, in[0]), k = swap_heads(g, up(g, in[1])), v = swap_heads(g, up(g, in[2]));
    const redco_value mask = input_count == 4 ? in[3] : REDCO_NO_VALUE;
    const redco_value seen = visible(&s, attributes, mask);
    /* Far below any score, yet finite: a row that sees nothing must not become not-a-number. */
    const redco_value x = where_visible(&s, seen, scores(&s, attributes, q, k, mask), -1e30);
    const redco_value max = redco_stop_gradient(g, redco_reduce_max(g, x, 1, &last, true));
    const redco_value p = where_visible(&s, seen, redco_exp(g, redco_sub(g, x, max)), 0);
    redco_value sum = redco_sum_axis(g, p, last, true), any = REDCO_NO_VALUE;
    if (seen != REDCO_NO_VALUE) {
        any = redco_less(g, redcoi_constant_like(g, sum, 0), sum);
        sum = redco_select(g, any, sum, redcoi_constant_like(g, sum, 1));
    }
    redco_value lse = redco_add(g, max, redco_log(g, sum));
    if (seen != REDCO_NO_VALUE) { lse = redco_select(g, any, lse, redcoi_constant_like(g, lse, 0)); }
    const uint64_t statistic[3] = {s.batch, s.groups * s.shared, s.queries};
    out[0] = unfold_heads(&s, redco_matmul(g, redco_div(g, p, sum), v, false, false), dtype);
    out[1] = redco_reshape(g, lse, 3, statistic);
}

/* Folded tensors that the gradients of attention need: p = exp(x - lse), e = p (do v^T - sum(do o)) */
typedef struct gradient {
    redco_value q, k, v, d, p, e;
} gradient;

static gradient gradient_of(const grouped *s, const redco_attributes *attributes, const redco_value *in,
                            uint32_t input_count)
{
    redco_graph *g = s->g;
    const uint32_t at = input_count == 7 ? 4 : 3;
    const redco_value mask = input_count == 7 ? in[3] : REDCO_NO_VALUE;
    gradient r = {.q = fold_heads(s, in[0]),
                  .k = swap_heads(g, up(g, in[1])),
                  .v = swap_heads(g, up(g, in[2])),
                  .d = fold_heads(s, in[at + 2])};
    const redco_value o = fold_heads(s, in[at]);
    const uint64_t column[4] = {s->batch, s->groups, s->shared * s->queries, 1};
    const redco_value lse = redco_reshape(g, in[at + 1], 4, column);
    const redco_value seen = visible(s, attributes, mask);
    const redco_value x = redco_sub(g, scores(s, attributes, r.q, r.k, mask), lse);
    r.p = redco_exp(g, where_visible(s, seen, x, -1e30));
    const redco_value sum = redco_sum_axis(g, redco_mul(g, r.d, o), 3, true);
    r.e = redco_mul(g, r.p, redco_sub(g, redco_matmul(g, r.d, r.v, false, true), sum));
    return r;
}

/* dq = e k scale, dk = e^T q scale, dv = p^T do */
REDCOI_DECOMPOSE(attention_grad)
{
    redco_graph *g = graph;
    const grouped s = group_sizes(g, in[0], in[1]);
    const redco_dtype dtype = redco_value_type(g, in[0])->dtype;
    const gradient r = gradient_of(&s, attributes, in, input_count);
    redco_value e = redco_scale(g, r.e, attributes->scalar);
    if (attributes->cap > 0) { /* the derivative of the cap: 1 - (capped / cap)^2 */
        const redco_value part = redco_scale(g, capped_scores(g, attributes, r.q, r.k), 1 / attributes->cap);
        e = redco_mul(g, e, redco_shift(g, redco_neg(g, redco_mul(g, part, part)), 1));
    }
    out[0] = unfold_heads(&s, redco_matmul(g, e, r.k, false, false), dtype);
    out[1] = redco_cast(g, swap_heads(g, redco_matmul(g, e, r.q, true, false)), dtype);
    out[2] = redco_cast(g, swap_heads(g, redco_matmul(g, r.p, r.d, true, false)), dtype);
}

/* dbias = e, summed over what the bias repeats */
REDCOI_DECOMPOSE(attention_bias_grad)
{
    redco_graph *g = graph;
    const grouped s = group_sizes(g, in[0], in[1]);
    const redco_tensor_type *const bias = redco_value_type(g, in[3]);
    const uint64_t heads[4] = {s.batch, s.groups * s.shared, s.queries, s.keys};
    const gradient r = gradient_of(&s, attributes, in, input_count);
    out[0] = redcoi_sum_to(g, redco_reshape(g, r.e, 4, heads), bias);
}
