/** @file build_calls.h  Calls that add operators to a graph. Each returns the new value, or REDCO_NO_VALUE after an
 * error, which the graph keeps (graph.h). Element types must agree: nothing is cast unasked. In elementwise calls a
 * tensor of lower rank gets leading dimensions of 1, and dimensions of 1 are repeated. All are differentiable with
 * respect to their floating-point inputs, any number of times, unless said otherwise. */
#ifndef REDCO_GRAPH_BUILD_H
#define REDCO_GRAPH_BUILD_H

#include "costmodel/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Sources */

redco_value redco_constant(redco_graph *graph, const redco_tensor_type *type, double value); /**< every element */
redco_value redco_scalar(redco_graph *graph, redco_dtype dtype, double value);               /**< rank 0 */
/** The index along @p axis, as i32. */
redco_value redco_iota(redco_graph *graph, const redco_tensor_type *type, uint32_t axis);

/** Which part of a whole tensor is wanted: element values do not depend on how the whole is cut. */
typedef struct redco_part {
    uint64_t begin[REDCO_RANK_MAX];
    uint64_t whole[REDCO_RANK_MAX]; /**< dimensions of the whole */
} redco_part;

/** Numbers in [0, 1), multiples of 2^-24: Philox4x32-10 (Salmon et al., SC 2011), element e of the whole is word e mod
 * 4 of the block with counter {e / 4, stream}.
 *  @param key     i32[2]: seed, step, ...; an input, so that every step draws anew without another graph
 *  @param stream  other streams of one key are independent: number the draws of a model
 *  @param type    F32 or F64, which give the same numbers, or 16 bits, to which they are rounded (to 1, too)
 *  @param part    NULL: the result is the whole */
redco_value redco_uniform(redco_graph *graph, redco_value key, uint64_t stream, const redco_tensor_type *type,
                          const redco_part *part);
/** Standard normal numbers from pairs of the same words (Box and Muller, 1958). */
redco_value redco_normal(redco_graph *graph, redco_value key, uint64_t stream, const redco_tensor_type *type,
                         const redco_part *part);

/* Elementwise, one tensor */

redco_value redco_neg(redco_graph *graph, redco_value a);
redco_value redco_exp(redco_graph *graph, redco_value a);
redco_value redco_log(redco_graph *graph, redco_value a);
redco_value redco_sqrt(redco_graph *graph, redco_value a);
redco_value redco_rsqrt(redco_graph *graph, redco_value a); /**< 1 / sqrt(a) */
redco_value redco_pow(redco_graph *graph, redco_value a, double exponent);
redco_value redco_tanh(redco_graph *graph, redco_value a);
redco_value redco_erf(redco_graph *graph, redco_value a);
redco_value redco_sin(redco_graph *graph, redco_value a);
redco_value redco_cos(redco_graph *graph, redco_value a);
redco_value redco_sigmoid(redco_graph *graph, redco_value a);
redco_value redco_relu(redco_graph *graph, redco_value a);      /**< derivative at 0: 0 */
redco_value redco_silu(redco_graph *graph, redco_value a);      /**< a sigmoid(a) */
redco_value redco_gelu(redco_graph *graph, redco_value a);      /**< a (1 + erf(a / sqrt 2)) / 2 */
redco_value redco_gelu_tanh(redco_graph *graph, redco_value a); /**< GPT-2's: tanh for erf (Hendrycks, Gimpel, 2016) */
/** log(1 + exp(a)), exact for large and small a. softplus(-m) is -log sigmoid(m), the loss of a pair that is won by m;
 * softplus(l) - t l is the binary cross entropy of logits l and targets t in [0, 1]. */
redco_value redco_softplus(redco_graph *graph, redco_value a);
redco_value redco_scale(redco_graph *graph, redco_value a, double factor);
redco_value redco_shift(redco_graph *graph, redco_value a, double summand);
redco_value redco_cast(redco_graph *graph, redco_value a, redco_dtype dtype); /**< no gradient through I32, BOOL */
redco_value redco_stop_gradient(redco_graph *graph, redco_value a);           /**< the value, as if it were constant */
redco_value redco_not(redco_graph *graph, redco_value a);

/* Elementwise, several tensors */

redco_value redco_add(redco_graph *graph, redco_value a, redco_value b);
redco_value redco_sub(redco_graph *graph, redco_value a, redco_value b);
redco_value redco_mul(redco_graph *graph, redco_value a, redco_value b);
redco_value redco_div(redco_graph *graph, redco_value a, redco_value b);
redco_value redco_max(redco_graph *graph, redco_value a,
                      redco_value b); /**< where both are equal, @p a gets the gradient */
redco_value redco_min(redco_graph *graph, redco_value a, redco_value b);   /**< likewise */
redco_value redco_equal(redco_graph *graph, redco_value a, redco_value b); /**< comparisons are BOOL */
redco_value redco_less(redco_graph *graph, redco_value a, redco_value b);
redco_value redco_less_equal(redco_graph *graph, redco_value a, redco_value b);
redco_value redco_and(redco_graph *graph, redco_value a, redco_value b);
redco_value redco_or(redco_graph *graph, redco_value a, redco_value b);
redco_value redco_select(redco_graph *graph, redco_value condition, redco_value if_true, redco_value if_false);

/* Reductions over axes (ascending); keep: reduced dimensions stay as 1 */

redco_value redco_sum(redco_graph *graph, redco_value a, uint32_t axis_count, const uint32_t *axes, bool keep);
redco_value redco_mean(redco_graph *graph, redco_value a, uint32_t axis_count, const uint32_t *axes, bool keep);
/** The gradient is shared equally by equal maxima. */
redco_value redco_reduce_max(redco_graph *graph, redco_value a, uint32_t axis_count, const uint32_t *axes, bool keep);
redco_value redco_reduce_min(redco_graph *graph, redco_value a, uint32_t axis_count, const uint32_t *axes, bool keep);
redco_value redco_sum_axis(redco_graph *graph, redco_value a, uint32_t axis, bool keep);
redco_value redco_sum_all(redco_graph *graph, redco_value a);  /**< rank 0 */
redco_value redco_mean_all(redco_graph *graph, redco_value a); /**< rank 0 */

/* Moves */

/** Free: the same memory under other dimensions. */
redco_value redco_reshape(redco_graph *graph, redco_value a, uint32_t rank, const uint64_t *dim);
/** Output dimension i is input dimension axes[i]; as many axes as dimensions. */
redco_value redco_transpose(redco_graph *graph, redco_value a, const uint32_t *axes);
/** Repeats dimensions of 1, and adds leading ones. */
redco_value redco_broadcast_to(redco_graph *graph, redco_value a, uint32_t rank, const uint64_t *dim);
redco_value redco_slice(redco_graph *graph, redco_value a, const uint64_t *begin, const uint64_t *size);
redco_value redco_slice_axis(redco_graph *graph, redco_value a, uint32_t axis, uint64_t begin, uint64_t size);
/** @p a at @p begin inside zeros of dimensions @p size: slice's gradient. */
redco_value redco_pad(redco_graph *graph, redco_value a, const uint64_t *begin, const uint64_t *size);
redco_value redco_concat(redco_graph *graph, const redco_value *parts, uint32_t count, uint32_t axis);

/* By index (i32). An index means row (index - offset). Rows out of range: an error when it is run, or, if masked, rows
 * of zeros that take no gradient: how a table is used of which this rank holds the rows from offset on. */

typedef struct redco_index_options {
    int64_t offset;
    bool masked;
} redco_index_options; /**< NULL for all zero */

/** Rows of @p table [rows, ...] by @p index [...]: embedding. */
redco_value redco_gather(redco_graph *graph, redco_value table, redco_value index, const redco_index_options *options);
/** Zeros [rows, ...] to which updates [index dims, ...] are added: gather's gradient. */
redco_value redco_scatter_add(redco_graph *graph, redco_value index, redco_value updates, uint64_t rows,
                              const redco_index_options *options);
/** One element of each row: @p a [..., n], @p index [...]. */
redco_value redco_pick(redco_graph *graph, redco_value a, redco_value index, const redco_index_options *options);
/** Rows [..., n] of zeros but for one element each: pick's gradient. */
redco_value redco_unpick(redco_graph *graph, redco_value index, redco_value a, uint64_t n,
                         const redco_index_options *options);

/* Mixtures of experts. A token's row goes to the experts that it chose, index i32 [tokens, choices]; rows lie by
 * expert, those of one in the order of tokens and choices. Rows by expert make sense among these operators alone: a
 * part of the tokens is sorted by itself. */

/** Indices of the @p count largest numbers of each row, the largest first, of equal ones the first: i32. No gradient
 *  passes. */
redco_value redco_top_k(redco_graph *graph, redco_value a, uint64_t count);
/** Rows [tokens, n] to one for each choice, [tokens x choices, n]; or @p back, those of a token added up: each is the
 *  other's gradient. */
redco_value redco_sort_rows(redco_graph *graph, redco_value rows, redco_value index, uint64_t experts, bool back);
/** Rows [tokens x choices, in] by the matrices of their experts, [experts, in, out]; [experts, out, in] if they are
 *  exchanged first. */
redco_value redco_grouped_matmul(redco_graph *graph, redco_value rows, redco_value weights, redco_value index,
                                 bool transpose);
/** For each expert a^T b of its rows, [experts, columns of a, columns of b]: the gradient of its matrix. */
redco_value redco_grouped_matmul_grad(redco_graph *graph, redco_value a, redco_value b, redco_value index,
                                      uint64_t experts);

/* Products */

/** a b, with either's last two dimensions exchanged if asked. Batch dimensions come before; a tensor of lower rank gets
 *  leading ones, and ones are repeated. A matrix @p b under a batch of @p a is one large product. */
redco_value redco_matmul(redco_graph *graph, redco_value a, redco_value b, bool transpose_a, bool transpose_b);

/* Rows of the last dimension: fused operators with fused gradients */

redco_value redco_softmax(redco_graph *graph, redco_value a);
redco_value redco_log_softmax(redco_graph *graph, redco_value a);
/** scale a / sqrt(mean a^2 + epsilon) */
redco_value redco_rms_norm(redco_graph *graph, redco_value a, redco_value scale, double epsilon);
/** scale (a - mean) / sqrt(variance + epsilon) + shift */
redco_value redco_layer_norm(redco_graph *graph, redco_value a, redco_value scale, redco_value shift, double epsilon);
/** -log softmax(logits)[target] per row, as F64 for F64, else F32: logits [..., n], targets i32 [...].
 *  @param masked targets below 0, such as -100, have loss 0; others outside of [0, n) are an error when it is run, as
 *                all are without */
redco_value redco_cross_entropy(redco_graph *graph, redco_value logits, redco_value targets, bool masked);

/** The mean of the cross entropy over rows whose target is asked for, which is not below 0: -100 marks others, as
 *  torch.nn.functional.cross_entropy(ignore_index=-100) has it; padding is marked so. A scalar; 0 if none is asked for.
 */
redco_value redco_cross_entropy_mean(redco_graph *graph, redco_value logits, redco_value targets);

/* Attention */

/** Rotates pairs of x [batch, sequence, heads, size] by the angles whose cosines and sines are given as [sequence, n]
 * or [batch, sequence, n]; what lies beyond the first 2 n of each head stays (Su et al., arXiv 2104.09864). */
redco_value redco_rotary(redco_graph *graph, redco_value x, redco_value cosines, redco_value sines, bool interleaved);
/** Tables for positions (i32 [sequence] or [batch, sequence]) of n = size / 2 angles: position * theta^(-2 i / size).
 */
void redco_rotary_tables(redco_graph *graph, redco_value positions, uint64_t size, double theta, redco_dtype dtype,
                         redco_value *cosines_out, redco_value *sines_out);

typedef struct redco_attention_options {
    double scale; /**< scale of the scores; 0 means 1 / sqrt(size) */
    double cap;   /**< c: scaled scores x become c tanh(x / c) before a bias is added (Gemma 2); 0: they stay */
    bool causal;  /**< query i sees keys up to i + offset */
    bool has_offset;
    int64_t offset;  /**< used if has_offset, else keys - queries: the last query sees all */
    uint64_t window; /**< with causal: only that many last keys are seen; 0 = all */
} redco_attention_options;

/** softmax(q k^T scale) v with q [batch, queries, heads, size], k and v [batch, keys, groups, size]; heads / groups
 *  neighbouring query heads share a key head. A query that sees nothing gives 0.
 *  @param mask  REDCO_NO_VALUE; or BOOL [batch or 1, heads or 1, queries or 1, keys]: true is seen; or a bias of the
 *               same dimensions, F64 for F64, else F32, which is added to the scaled scores */
redco_value redco_attend(redco_graph *graph, redco_value q, redco_value k, redco_value v, redco_value mask,
                         const redco_attention_options *options);

/* Optimizer */

/** The numbers that AdamW needs besides tensors, as one input: rates and clipping change from step to step. */
enum redco_adamw_number {
    REDCO_ADAMW_RATE,
    REDCO_ADAMW_GRADIENT_SCALE, /**< the gradient is multiplied by it first: clipping, averaging */
    REDCO_ADAMW_BETA1,
    REDCO_ADAMW_BETA2,
    REDCO_ADAMW_EPSILON,
    REDCO_ADAMW_DECAY,
    REDCO_ADAMW_CORRECTION1, /**< 1 - beta1^step */
    REDCO_ADAMW_CORRECTION2, /**< 1 - beta2^step */
    REDCO_ADAMW_REST1,       /**< 1 - beta1: from an f32 beta it would have lost its digits */
    REDCO_ADAMW_REST2,       /**< 1 - beta2 */
    REDCO_ADAMW_COUNT
};

/** One step (Loshchilov, Hutter, arXiv 1711.05101), with g = gradient scale:
 *  m' = beta1 m + (1 - beta1) g,  v' = beta2 v + (1 - beta2) g^2,
 *  p' = p (1 - rate decay) - rate (m' / correction1) / (sqrt(v' / correction2) + epsilon).
 *  Elementwise: any part of a tensor may be updated alone.
 *  @param p, m, v      F32 or F64, one type; @param gradient any floating-point type, the same dimensions
 *  @param numbers      [REDCO_ADAMW_COUNT] of p's element type
 *  @param outputs_out  p', m', v'; a backend may write them over p, m, v */
void redco_adamw(redco_graph *graph, redco_value p, redco_value m, redco_value v, redco_value gradient,
                 redco_value numbers, redco_value outputs_out[3]);
/** The same, and p' rounded to the gradient's element type: weights in 16 bits beside master weights, in one pass.
 *  @param outputs_out  p', m', v', rounded p' */
void redco_adamw_rounded(redco_graph *graph, redco_value p, redco_value m, redco_value v, redco_value gradient,
                         redco_value numbers, redco_value outputs_out[4]);
/** The sum of squares of all elements, in one pass: rank 0, F64 for F64, else F32. */
redco_value redco_sum_squares(redco_graph *graph, redco_value a);

/* Collectives: of graphs in which layouts have already been applied, one per rank. They cannot be differentiated (the
 * gradient is made before) and are run by the schedule, through a communicator. */

typedef struct redco_rank_group {
    uint32_t id;    /**< as the layouts number their groups */
    uint32_t ranks; /**< in it; 1 needs no operator */
} redco_rank_group;

redco_value redco_graph_all_reduce(redco_graph *graph, redco_value a, redco_rank_group group, bool maximum);
/** The ranks' tensors, contiguous along @p axis. */
redco_value redco_graph_all_gather(redco_graph *graph, redco_value a, redco_rank_group group, uint32_t axis);
/** This rank's part along @p axis of the sum. */
redco_value redco_graph_reduce_scatter(redco_graph *graph, redco_value a, redco_rank_group group, uint32_t axis);

/* Random masks */

/** @p a with a share of @p rate elements set to 0 and the others divided by 1 - rate; streams and part:
 * redco_uniform(). */
redco_value redco_dropout(redco_graph *graph, redco_value a, double rate, redco_value key, uint64_t stream,
                          const redco_part *part);

#ifdef __cplusplus
}
#endif
#endif
