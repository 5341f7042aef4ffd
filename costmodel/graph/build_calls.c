/* Building calls of basic operators. */
#include "costmodel/graph/build_calls.h"

#include "costmodel/graph/graph_internal.h"

#include <math.h>
#include <string.h>

static redco_attributes no_attributes(void)
{
    redco_attributes a;
    memset(&a, 0, sizeof a);
    return a;
}

static redco_value apply(redco_graph *graph, redco_op_kind kind, const redco_value *in, uint32_t count,
                         const redco_attributes *attributes)
{
    redco_value out[REDCO_OUTPUTS_MAX];
    redco_graph_apply(graph, kind, in, count, attributes, out);
    return out[0];
}

/** Type of @p value; of a scalar if it is none, so that errors pass through. */
static redco_tensor_type type_of(const redco_graph *graph, redco_value value)
{
    return value < redco_graph_value_count(graph) ? *redco_value_type(graph, value) : redco_type(REDCO_F32, 0, NULL);
}

static void set_size(redco_attributes *attributes, uint32_t rank, const uint64_t *dim)
{
    attributes->rank = rank;
    for (uint32_t i = 0; i < rank && i < REDCO_RANK_MAX; i++) { attributes->size[i] = dim[i]; }
}

redco_value redcoi_unary(redco_graph *graph, redco_op_kind kind, redco_value a)
{
    return apply(graph, kind, &a, 1, NULL);
}

/** Leading dimensions of 1 up to @p rank. */
static redco_value raise_rank(redco_graph *graph, redco_value a, uint32_t rank)
{
    const redco_tensor_type type = type_of(graph, a);
    uint64_t dim[REDCO_RANK_MAX];
    if (redcoi_graph_failed(graph) || type.rank >= rank) { return a; }
    for (uint32_t i = 0; i < rank; i++) { dim[i] = i < rank - type.rank ? 1 : type.dim[i - (rank - type.rank)]; }
    return redco_reshape(graph, a, rank, dim);
}

static redco_value elementwise(redco_graph *graph, redco_op_kind kind, redco_value *in, uint32_t count)
{
    uint32_t rank = 0;
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t own = type_of(graph, in[i]).rank;
        if (own > rank) { rank = own; }
    }
    for (uint32_t i = 0; i < count; i++) { in[i] = raise_rank(graph, in[i], rank); }
    return apply(graph, kind, in, count, NULL);
}

redco_value redcoi_binary(redco_graph *graph, redco_op_kind kind, redco_value a, redco_value b)
{
    redco_value in[2] = {a, b};
    return elementwise(graph, kind, in, 2);
}

redco_value redcoi_ternary(redco_graph *graph, redco_op_kind kind, redco_value a, redco_value b, redco_value c)
{
    redco_value in[3] = {a, b, c};
    return elementwise(graph, kind, in, 3);
}

/* Sources */

redco_value redco_constant(redco_graph *graph, const redco_tensor_type *type, double value)
{
    redco_attributes a = no_attributes();
    set_size(&a, type->rank, type->dim);
    a.dtype = (uint32_t)type->dtype;
    a.scalar = value;
    return apply(graph, REDCO_OP_CONSTANT, NULL, 0, &a);
}

redco_value redco_scalar(redco_graph *graph, redco_dtype dtype, double value)
{
    const redco_tensor_type type = redco_type(dtype, 0, NULL);
    return redco_constant(graph, &type, value);
}

redco_value redcoi_constant_like(redco_graph *graph, redco_value like, double scalar)
{
    redco_tensor_type type = type_of(graph, like);
    for (uint32_t i = 0; i < type.rank; i++) { type.dim[i] = 1; }
    return redco_constant(graph, &type, scalar);
}

redco_value redco_iota(redco_graph *graph, const redco_tensor_type *type, uint32_t axis)
{
    redco_attributes a = no_attributes();
    set_size(&a, type->rank, type->dim);
    a.dtype = (uint32_t)type->dtype;
    a.axis[0] = axis;
    a.axis_count = 1;
    return apply(graph, REDCO_OP_IOTA, NULL, 0, &a);
}

static redco_value random_numbers(redco_graph *graph, redco_op_kind kind, redco_value key, uint64_t stream,
                                  const redco_tensor_type *type, const redco_part *part)
{
    redco_attributes a = no_attributes();
    const bool rounded = redco_dtype_is_float(type->dtype) && redco_dtype_bytes(type->dtype) < 4;
    set_size(&a, type->rank, type->dim);
    a.dtype = (uint32_t)(rounded ? REDCO_F32 : type->dtype);
    a.stream = stream;
    for (uint32_t i = 0; i < a.rank && i < REDCO_RANK_MAX; i++) {
        a.begin[i] = part == NULL ? 0 : part->begin[i];
        a.whole[i] = part == NULL ? type->dim[i] : part->whole[i];
    }
    const redco_value drawn = apply(graph, kind, &key, 1, &a);
    return rounded ? redco_cast(graph, drawn, type->dtype) : drawn;
}

redco_value redco_uniform(redco_graph *graph, redco_value key, uint64_t stream, const redco_tensor_type *type,
                          const redco_part *part)
{
    return random_numbers(graph, REDCO_OP_UNIFORM, key, stream, type, part);
}

redco_value redco_normal(redco_graph *graph, redco_value key, uint64_t stream, const redco_tensor_type *type,
                         const redco_part *part)
{
    return random_numbers(graph, REDCO_OP_NORMAL, key, stream, type, part);
}

redco_value redco_dropout(redco_graph *graph, redco_value a, double rate, redco_value key, uint64_t stream,
                          const redco_part *part)
{
    redco_tensor_type type = type_of(graph, a);
    if (!(rate >= 0 && rate < 1)) { return redcoi_graph_fail(graph, "dropout rate %g; it is in [0, 1)", rate); }
    if (rate <= 0) { return a; }
    type.dtype = REDCO_F32;
    const redco_value drawn = redco_uniform(graph, key, stream, &type, part);
    const redco_value kept = redco_less_equal(graph, redco_scalar(graph, REDCO_F32, rate), drawn);
    const redco_value zero = redcoi_constant_like(graph, a, 0);
    return redco_select(graph, kept, redco_scale(graph, a, 1 / (1 - rate)), zero);
}

/* Elementwise */

redco_value redco_neg(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_NEG, a);
}
redco_value redco_exp(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_EXP, a);
}
redco_value redco_log(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_LOG, a);
}
redco_value redco_sqrt(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_SQRT, a);
}
redco_value redco_rsqrt(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_RSQRT, a);
}
redco_value redco_tanh(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_TANH, a);
}
redco_value redco_erf(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_ERF, a);
}
redco_value redco_sin(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_SIN, a);
}
redco_value redco_cos(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_COS, a);
}
redco_value redco_sigmoid(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_SIGMOID, a);
}
redco_value redco_relu(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_RELU, a);
}
redco_value redco_silu(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_SILU, a);
}
redco_value redco_gelu(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_GELU, a);
}
redco_value redco_gelu_tanh(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_GELU_TANH, a);
}
redco_value redco_not(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_NOT, a);
}

redco_value redco_stop_gradient(redco_graph *graph, redco_value a)
{
    return redcoi_unary(graph, REDCO_OP_STOP_GRADIENT, a);
}

/* log(exp(-m) + exp(a - m)) + m with m = max(a, 0): no exponent is above 0. It does not depend on m, which is held
 * constant, so that derivatives are those of softplus at 0, too, where m has none. */
redco_value redco_softplus(redco_graph *graph, redco_value a)
{
    const redco_value most = redco_stop_gradient(graph, redco_relu(graph, a));
    const redco_value zero = redco_exp(graph, redco_neg(graph, most));
    const redco_value one = redco_exp(graph, redco_sub(graph, a, most));
    return redco_add(graph, redco_log(graph, redco_add(graph, zero, one)), most);
}

redco_value redco_pow(redco_graph *graph, redco_value a, double exponent)
{
    redco_attributes attributes = no_attributes();
    attributes.scalar = exponent;
    return apply(graph, REDCO_OP_POW, &a, 1, &attributes);
}

redco_value redco_cast(redco_graph *graph, redco_value a, redco_dtype dtype)
{
    redco_attributes attributes = no_attributes();
    attributes.dtype = (uint32_t)dtype;
    return apply(graph, REDCO_OP_CAST, &a, 1, &attributes);
}

redco_value redco_scale(redco_graph *graph, redco_value a, double factor)
{
    return redco_mul(graph, a, redcoi_constant_like(graph, a, factor));
}

redco_value redco_shift(redco_graph *graph, redco_value a, double summand)
{
    return redco_add(graph, a, redcoi_constant_like(graph, a, summand));
}

redco_value redco_add(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_ADD, a, b);
}
redco_value redco_sub(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_SUB, a, b);
}
redco_value redco_mul(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_MUL, a, b);
}
redco_value redco_div(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_DIV, a, b);
}
redco_value redco_max(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_MAX, a, b);
}
redco_value redco_min(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_MIN, a, b);
}
redco_value redco_equal(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_EQ, a, b);
}
redco_value redco_less(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_LT, a, b);
}
redco_value redco_and(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_AND, a, b);
}
redco_value redco_or(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_OR, a, b);
}

redco_value redco_less_equal(redco_graph *graph, redco_value a, redco_value b)
{
    return redcoi_binary(graph, REDCO_OP_LE, a, b);
}

redco_value redco_select(redco_graph *graph, redco_value condition, redco_value if_true, redco_value if_false)
{
    return redcoi_ternary(graph, REDCO_OP_SELECT, condition, if_true, if_false);
}

/* Reductions */

static redco_value reduce(redco_graph *graph, redco_op_kind kind, redco_value a, uint32_t count, const uint32_t *axes,
                          bool keep)
{
    const redco_tensor_type type = type_of(graph, a);
    redco_attributes attributes = no_attributes();
    uint64_t dim[REDCO_RANK_MAX];
    uint32_t rank = 0;
    attributes.axis_count = count;
    for (uint32_t i = 0; i < count && i < REDCO_RANK_MAX; i++) { attributes.axis[i] = axes[i]; }
    const redco_value kept = apply(graph, kind, &a, 1, &attributes);
    if (keep || kept == REDCO_NO_VALUE) { return kept; }
    for (uint32_t i = 0, next = 0; i < type.rank; i++) {
        if (next < count && axes[next] == i) {
            next++;
        } else {
            dim[rank++] = type.dim[i];
        }
    }
    return redco_reshape(graph, kept, rank, dim);
}

redco_value redco_sum(redco_graph *graph, redco_value a, uint32_t axis_count, const uint32_t *axes, bool keep)
{
    return reduce(graph, REDCO_OP_REDUCE_SUM, a, axis_count, axes, keep);
}

redco_value redco_reduce_max(redco_graph *graph, redco_value a, uint32_t axis_count, const uint32_t *axes, bool keep)
{
    return reduce(graph, REDCO_OP_REDUCE_MAX, a, axis_count, axes, keep);
}

redco_value redco_reduce_min(redco_graph *graph, redco_value a, uint32_t axis_count, const uint32_t *axes, bool keep)
{
    return reduce(graph, REDCO_OP_REDUCE_MIN, a, axis_count, axes, keep);
}

redco_value redco_mean(redco_graph *graph, redco_value a, uint32_t axis_count, const uint32_t *axes, bool keep)
{
    const redco_value sum = redco_sum(graph, a, axis_count, axes, keep);
    if (sum == REDCO_NO_VALUE) { return sum; }
    const redco_tensor_type from = type_of(graph, a), to = type_of(graph, sum);
    return redco_scale(graph, sum, (double)redco_type_elements(&to) / (double)redco_type_elements(&from));
}

redco_value redco_sum_axis(redco_graph *graph, redco_value a, uint32_t axis, bool keep)
{
    return redco_sum(graph, a, 1, &axis, keep);
}

static const uint32_t all_axes[REDCO_RANK_MAX] = {0, 1, 2, 3, 4, 5, 6, 7};

redco_value redco_sum_all(redco_graph *graph, redco_value a)
{
    return redco_sum(graph, a, type_of(graph, a).rank, all_axes, false);
}

redco_value redco_mean_all(redco_graph *graph, redco_value a)
{
    return redco_mean(graph, a, type_of(graph, a).rank, all_axes, false);
}

redco_value redcoi_sum_to(redco_graph *graph, redco_value value, const redco_tensor_type *type)
{
    const redco_tensor_type from = type_of(graph, value);
    uint32_t axes[REDCO_RANK_MAX], count = 0;
    for (uint32_t i = 0; i < from.rank && i < type->rank; i++) {
        if (type->dim[i] == 1 && from.dim[i] != 1) { axes[count++] = i; }
    }
    return count == 0 ? value : redco_sum(graph, value, count, axes, true);
}

/* Moves */

redco_value redco_reshape(redco_graph *graph, redco_value a, uint32_t rank, const uint64_t *dim)
{
    redco_attributes attributes = no_attributes();
    set_size(&attributes, rank, dim);
    return apply(graph, REDCO_OP_RESHAPE, &a, 1, &attributes);
}

redco_value redco_transpose(redco_graph *graph, redco_value a, const uint32_t *axes)
{
    redco_attributes attributes = no_attributes();
    attributes.axis_count = type_of(graph, a).rank;
    for (uint32_t i = 0; i < attributes.axis_count; i++) { attributes.axis[i] = axes[i]; }
    return apply(graph, REDCO_OP_TRANSPOSE, &a, 1, &attributes);
}

redco_value redco_broadcast_to(redco_graph *graph, redco_value a, uint32_t rank, const uint64_t *dim)
{
    redco_attributes attributes = no_attributes();
    set_size(&attributes, rank, dim);
    const redco_value raised = raise_rank(graph, a, rank < REDCO_RANK_MAX ? rank : REDCO_RANK_MAX);
    return apply(graph, REDCO_OP_BROADCAST, &raised, 1, &attributes);
}

redco_value redco_slice(redco_graph *graph, redco_value a, const uint64_t *begin, const uint64_t *size)
{
    redco_attributes attributes = no_attributes();
    set_size(&attributes, type_of(graph, a).rank, size);
    for (uint32_t i = 0; i < attributes.rank; i++) { attributes.begin[i] = begin[i]; }
    return apply(graph, REDCO_OP_SLICE, &a, 1, &attributes);
}

redco_value redco_slice_axis(redco_graph *graph, redco_value a, uint32_t axis, uint64_t begin, uint64_t size)
{
    redco_tensor_type type = type_of(graph, a);
    uint64_t first[REDCO_RANK_MAX] = {0};
    if (axis >= type.rank) {
        return redcoi_graph_failed(graph) ? REDCO_NO_VALUE
                                          : redcoi_graph_fail(graph, "slice: axis %u of rank %u", axis, type.rank);
    }
    first[axis] = begin;
    type.dim[axis] = size;
    return redco_slice(graph, a, first, type.dim);
}

redco_value redco_pad(redco_graph *graph, redco_value a, const uint64_t *begin, const uint64_t *size)
{
    redco_attributes attributes = no_attributes();
    set_size(&attributes, type_of(graph, a).rank, size);
    for (uint32_t i = 0; i < attributes.rank; i++) { attributes.begin[i] = begin[i]; }
    return apply(graph, REDCO_OP_PAD, &a, 1, &attributes);
}

redco_value redco_concat(redco_graph *graph, const redco_value *parts, uint32_t count, uint32_t axis)
{
    redco_attributes attributes = no_attributes();
    attributes.axis[0] = axis;
    attributes.axis_count = 1;
    return apply(graph, REDCO_OP_CONCAT, parts, count, &attributes);
}

/* By index */

static redco_attributes index_attributes(const redco_index_options *options)
{
    redco_attributes attributes = no_attributes();
    if (options != NULL) {
        attributes.offset = options->offset;
        attributes.flags = options->masked ? REDCO_FLAG_MASKED : 0;
    }
    return attributes;
}

redco_value redco_gather(redco_graph *graph, redco_value table, redco_value index, const redco_index_options *options)
{
    const redco_attributes attributes = index_attributes(options);
    return apply(graph, REDCO_OP_GATHER, (redco_value[]){table, index}, 2, &attributes);
}

redco_value redco_scatter_add(redco_graph *graph, redco_value index, redco_value updates, uint64_t rows,
                              const redco_index_options *options)
{
    redco_attributes attributes = index_attributes(options);
    attributes.size[0] = rows;
    return apply(graph, REDCO_OP_SCATTER_ADD, (redco_value[]){index, updates}, 2, &attributes);
}

redco_value redco_pick(redco_graph *graph, redco_value a, redco_value index, const redco_index_options *options)
{
    const redco_attributes attributes = index_attributes(options);
    return apply(graph, REDCO_OP_PICK, (redco_value[]){a, index}, 2, &attributes);
}

redco_value redco_unpick(redco_graph *graph, redco_value index, redco_value a, uint64_t n,
                         const redco_index_options *options)
{
    redco_attributes attributes = index_attributes(options);
    attributes.size[0] = n;
    return apply(graph, REDCO_OP_UNPICK, (redco_value[]){index, a}, 2, &attributes);
}

/* Experts */

redco_value redco_top_k(redco_graph *graph, redco_value a, uint64_t count)
{
    redco_attributes attributes = no_attributes();
    attributes.size[0] = count;
    return apply(graph, REDCO_OP_TOP_K, &a, 1, &attributes);
}

redco_value redco_sort_rows(redco_graph *graph, redco_value rows, redco_value index, uint64_t experts, bool back)
{
    redco_attributes attributes = no_attributes();
    attributes.size[0] = experts;
    attributes.flags = back ? REDCO_FLAG_INVERSE : 0;
    return apply(graph, REDCO_OP_SORT_ROWS, (redco_value[]){rows, index}, 2, &attributes);
}

redco_value redco_grouped_matmul(redco_graph *graph, redco_value rows, redco_value weights, redco_value index,
                                 bool transpose)
{
    redco_attributes attributes = no_attributes();
    attributes.size[0] = type_of(graph, weights).dim[0];
    attributes.flags = transpose ? REDCO_FLAG_TRANSPOSE_B : 0;
    return apply(graph, REDCO_OP_GROUPED_MATMUL, (redco_value[]){rows, weights, index}, 3, &attributes);
}

redco_value redco_grouped_matmul_grad(redco_graph *graph, redco_value a, redco_value b, redco_value index,
                                      uint64_t experts)
{
    redco_attributes attributes = no_attributes();
    attributes.size[0] = experts;
    return apply(graph, REDCO_OP_GROUPED_MATMUL_GRAD, (redco_value[]){a, b, index}, 3, &attributes);
}

/* Products */

redco_value redco_matmul(redco_graph *graph, redco_value a, redco_value b, bool transpose_a, bool transpose_b)
{
    redco_attributes attributes = no_attributes();
    const redco_tensor_type ta = type_of(graph, a), tb = type_of(graph, b);
    attributes.flags = (transpose_a ? REDCO_FLAG_TRANSPOSE_A : 0) | (transpose_b ? REDCO_FLAG_TRANSPOSE_B : 0);
    if (ta.rank > 2 && tb.rank == 2 && !transpose_a && !redcoi_graph_failed(graph)) {
        const uint64_t k = ta.dim[ta.rank - 1], folded[2] = {redco_type_elements(&ta) / k, k};
        const redco_value rows = redco_reshape(graph, a, 2, folded);
        const redco_value product = apply(graph, REDCO_OP_MATMUL, (redco_value[]){rows, b}, 2, &attributes);
        if (product == REDCO_NO_VALUE) { return product; }
        redco_tensor_type out = ta;
        out.dim[ta.rank - 1] = type_of(graph, product).dim[1];
        return redco_reshape(graph, product, out.rank, out.dim);
    }
    const uint32_t rank = ta.rank > tb.rank ? ta.rank : tb.rank;
    const redco_value in[2] = {raise_rank(graph, a, rank), raise_rank(graph, b, rank)};
    return apply(graph, REDCO_OP_MATMUL, in, 2, &attributes);
}

/* Collectives */

static redco_value collective(redco_graph *graph, redco_op_kind kind, redco_value a, redco_rank_group group,
                              uint32_t axis, uint32_t flags)
{
    redco_attributes attributes = no_attributes();
    attributes.group = group.id;
    attributes.ranks = group.ranks;
    attributes.axis[0] = axis;
    attributes.axis_count = kind == REDCO_OP_ALL_REDUCE ? 0 : 1;
    attributes.flags = flags;
    return apply(graph, kind, &a, 1, &attributes);
}

redco_value redco_graph_all_reduce(redco_graph *graph, redco_value a, redco_rank_group group, bool maximum)
{
    return collective(graph, REDCO_OP_ALL_REDUCE, a, group, 0, maximum ? REDCO_FLAG_MAXIMUM : 0);
}

redco_value redco_graph_all_gather(redco_graph *graph, redco_value a, redco_rank_group group, uint32_t axis)
{
    return collective(graph, REDCO_OP_ALL_GATHER, a, group, axis, 0);
}

redco_value redco_graph_reduce_scatter(redco_graph *graph, redco_value a, redco_rank_group group, uint32_t axis)
{
    return collective(graph, REDCO_OP_REDUCE_SCATTER, a, group, axis, 0);
}
