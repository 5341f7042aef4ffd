/** @file graph.h  A tensor graph: operators that read values and make values, in the order in which they were added.
 *
 *  A value is a number; values and operators are numbered from 0 in topological order, so a table by value or operator
 * is an array. The graph owns all of them; what it returns by pointer is borrowed until redco_graph_free() and does not
 * move. Building calls (build_calls.h) return REDCO_NO_VALUE after the first error, accept it as an argument, and the
 * graph keeps that error: a whole model is built first and asked once by redco_graph_status(). Two operators of equal
 * kind, inputs, attributes and copy are one: the second call returns the first one's values. One thread at a time may
 * use a graph. */
#ifndef REDCO_GRAPH_H
#define REDCO_GRAPH_H

#include "costmodel/graph/names.h"
#include "costmodel/graph/op_roles.h"
#include "costmodel/graph/type.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_graph redco_graph;
typedef uint32_t redco_value;

#define REDCO_NO_VALUE UINT32_MAX
#define REDCO_NO_OP UINT32_MAX

/** Layers that every graph has: of operators without one, and of what is done once a step (the optimizer). */
enum { REDCO_LAYER_NONE, REDCO_LAYER_STEP };

enum { REDCO_INPUTS_MAX = 64, REDCO_OUTPUTS_MAX = 4 };

/** The kinds; what each one computes and its attributes: operators.h, build_calls.h. */
typedef enum redco_op_kind {
    REDCO_OP_INPUT, /**< sources */
    REDCO_OP_CONSTANT,
    REDCO_OP_IOTA,
    REDCO_OP_UNIFORM,
    REDCO_OP_NORMAL,
    REDCO_OP_NEG, /**< elementwise, one input */
    REDCO_OP_EXP,
    REDCO_OP_LOG,
    REDCO_OP_SQRT,
    REDCO_OP_RSQRT,
    REDCO_OP_POW,
    REDCO_OP_TANH,
    REDCO_OP_ERF,
    REDCO_OP_SIN,
    REDCO_OP_COS,
    REDCO_OP_SIGMOID,
    REDCO_OP_RELU,
    REDCO_OP_SILU,
    REDCO_OP_GELU,
    REDCO_OP_GELU_TANH,
    REDCO_OP_NOT,
    REDCO_OP_CAST,
    REDCO_OP_STOP_GRADIENT,
    REDCO_OP_SILU_GRAD, /**< elementwise, several inputs; dimensions of 1 are repeated */
    REDCO_OP_GELU_GRAD,
    REDCO_OP_GELU_TANH_GRAD,
    REDCO_OP_ADD,
    REDCO_OP_SUB,
    REDCO_OP_MUL,
    REDCO_OP_DIV,
    REDCO_OP_MAX,
    REDCO_OP_MIN,
    REDCO_OP_EQ,
    REDCO_OP_LT,
    REDCO_OP_LE,
    REDCO_OP_AND,
    REDCO_OP_OR,
    REDCO_OP_SELECT,
    REDCO_OP_REDUCE_SUM, /**< reductions */
    REDCO_OP_REDUCE_MAX,
    REDCO_OP_REDUCE_MIN,
    REDCO_OP_RESHAPE, /**< moves */
    REDCO_OP_TRANSPOSE,
    REDCO_OP_BROADCAST,
    REDCO_OP_SLICE,
    REDCO_OP_PAD,
    REDCO_OP_CONCAT,
    REDCO_OP_GATHER, /**< by index */
    REDCO_OP_SCATTER_ADD,
    REDCO_OP_PICK,
    REDCO_OP_UNPICK,
    REDCO_OP_TOP_K,
    REDCO_OP_SORT_ROWS, /**< mixtures of experts: rows, and products with a matrix for each expert */
    REDCO_OP_GROUPED_MATMUL,
    REDCO_OP_GROUPED_MATMUL_GRAD,
    REDCO_OP_MATMUL,
    REDCO_OP_MATMUL_ADD, /**< products of matrices with what is done to the result: fuse_matmul.h */
    REDCO_OP_MATMUL_BIAS,
    REDCO_OP_MATMUL_GELU,
    REDCO_OP_MATMUL_GELU_GRAD,
    REDCO_OP_MATMUL_BIAS_GRAD,
    REDCO_OP_SOFTMAX, /**< fused: each has a decomposition into the operators above */
    REDCO_OP_SOFTMAX_GRAD,
    REDCO_OP_LOG_SOFTMAX,
    REDCO_OP_LOG_SOFTMAX_GRAD,
    REDCO_OP_RMS_NORM,
    REDCO_OP_RMS_NORM_GRAD,
    REDCO_OP_LAYER_NORM,
    REDCO_OP_LAYER_NORM_GRAD,
    REDCO_OP_ROTARY,
    REDCO_OP_ATTENTION,
    REDCO_OP_ATTENTION_GRAD,
    REDCO_OP_ATTENTION_BIAS_GRAD,
    REDCO_OP_CROSS_ENTROPY,
    REDCO_OP_CROSS_ENTROPY_GRAD,
    REDCO_OP_SUM_SQUARES,
    REDCO_OP_ADAMW,
    REDCO_OP_ADAMW_ROUNDED,
    REDCO_OP_POINTWISE,  /**< a program of elementwise operators, one to three outputs: pointwise.h */
    REDCO_OP_ALL_REDUCE, /**< collectives of a rank's graph: a communicator runs them, not a backend */
    REDCO_OP_ALL_GATHER,
    REDCO_OP_REDUCE_SCATTER,
    REDCO_OP_COUNT
} redco_op_kind;

/** An operator's treatment of dimensions: enough for most of what layouts and schedules ask. */
typedef enum redco_op_class {
    REDCO_CLASS_SOURCE,
    REDCO_CLASS_ELEMENTWISE, /**< may write over an input of the output's type */
    REDCO_CLASS_REDUCTION,
    REDCO_CLASS_MOVE,
    REDCO_CLASS_INDEX,
    REDCO_CLASS_MATMUL,
    REDCO_CLASS_EXPERTS, /**< rows that go to experts, and what is multiplied by them */
    REDCO_CLASS_ROWS,    /**< rows of the last dimension, each alone */
    REDCO_CLASS_ATTENTION,
    REDCO_CLASS_COLLECTIVE
} redco_op_class;

enum redco_op_flags {
    REDCO_FLAG_TRANSPOSE_A = 1,  /**< matmul: the last two dimensions of the first input are exchanged */
    REDCO_FLAG_TRANSPOSE_B = 2,  /**< matmul: of the second */
    REDCO_FLAG_CAUSAL = 4,       /**< attention: key j is seen by query i if j <= i + offset */
    REDCO_FLAG_MASKED = 8,       /**< indices out of range are skipped (rows of zeros), else they are an error */
    REDCO_FLAG_INTERLEAVED = 16, /**< rotary: pairs are neighbours (GPT-J), else halves (LLaMA, GPT-NeoX) */
    REDCO_FLAG_INVERSE = 32,     /**< rotary: by the negative angle; sort_rows: back, those of a token added up */
    REDCO_FLAG_PARAMETER = 64,   /**< input: trained */
    REDCO_FLAG_MAXIMUM = 128,    /**< all-reduce: the largest instead of the sum */
    REDCO_FLAG_RELU = 256,       /**< matmul_bias: of the sum */
    REDCO_FLAG_GELU = 512        /**< likewise, GPT-2's (gelu_tanh) */
};

/** The attributes of an operator. Those that a kind does not use are 0; plain bytes, compared as such. */
typedef struct redco_attributes {
    double scalar;                  /**< constant's value, exponent, epsilon of norms, scale of attention */
    double cap;                     /**< attention: c, scaled scores x become c tanh(x / c); 0: they stay */
    int64_t offset;                 /**< index that means row 0; attention: position of query 0 among the keys */
    int64_t first, end;             /**< with REDCO_FLAG_MASKED: indices outside of [first, end) are an error all the
                                       same; both 0: none is */
    uint64_t window;                /**< attention: a query sees that many last keys; 0 = all */
    uint64_t stream;                /**< random: which of a key's independent streams */
    uint64_t begin[REDCO_RANK_MAX]; /**< slice, pad: where the smaller tensor lies; random: where this part lies */
    uint64_t size[REDCO_RANK_MAX];  /**< sources and moves: dimensions of the result; [0] rows of a scatter, unpick;
                                       top_k: how many; experts: their number */
    uint64_t whole[REDCO_RANK_MAX]; /**< random: dimensions of the tensor that the result is a part of */
    uint32_t axis[REDCO_RANK_MAX];  /**< reductions: which, ascending; transpose: output i is input axis[i]; concat,
                                       iota: [0] */
    uint32_t rank;                  /**< entries of size */
    uint32_t axis_count;
    uint32_t dtype; /**< type of the result: sources and casts */
    uint32_t flags;
    uint32_t group; /**< collectives: which group of ranks, as the layouts number them */
    uint32_t ranks; /**< collectives: how many are in it */
} redco_attributes;

/** An operator. */
typedef struct redco_op {
    redco_op_kind kind;
    uint32_t id;
    uint32_t input_count, output_count;
    const redco_value *inputs;
    redco_value first_output; /**< outputs are numbered consecutively */
    redco_attributes attributes;
    redco_op_role role;
    uint32_t layer_id;    /**< equal if and only if the layer is; REDCO_LAYER_NONE, REDCO_LAYER_STEP, ... */
    uint32_t name_id;     /**< likewise of operator_name, 0 if it is "" */
    uint32_t absorbed_id; /**< likewise of absorbed */
    const char *layer;    /**< "block.3": names of the simulator (costmodel/simulator/step.h); "" if none was set */
    const char *operator_name; /**< "qkv" (OPERATORS.md); "" if none was set */
    bool carries;              /**< a collective on what that operator reads or makes: "qkv/tp_gather" by its kind */
    const char *absorbed;      /**< "activation": another operator of the layer whose work this one does as well, "" */
    uint32_t order;            /**< 0 forward, 1 gradient, 2 gradient of a gradient ... */
    uint32_t copy;             /**< 0, or which recomputation: not merged with equal operators of another copy */
    uint32_t origin;           /**< for a gradient: the operator that it differentiates, else REDCO_NO_OP */
    uint32_t toward; /**< for a product's gradient: which of the origin's inputs it belongs to, else REDCO_NO_VALUE */
} redco_op;

/** @return an empty graph, or NULL if memory is short */
redco_graph *redco_graph_create(void);
void redco_graph_free(redco_graph *graph); /**< NULL is accepted */
/** The first error of any building call since creation. */
redco_status redco_graph_status(const redco_graph *graph, redco_error *err);

/** Names of what is added from here on; the layer of what is done once a step (the optimizer) is "step". The strings
 * are copied. */
void redco_graph_set_layer(redco_graph *graph, const char *layer);
/** A name that a role has (op_roles.h) sets that role. */
void redco_graph_set_operator(redco_graph *graph, const char *operator_name);
void redco_graph_set_role(redco_graph *graph, redco_op_role role); /**< and its name */
/** Layer, operator and role of @p op, which may be of another graph. */
void redco_graph_set_like(redco_graph *graph, const redco_op *op);
/** While labels are held, the calls above change nothing: all that a function adds stands under one label. */
void redco_graph_hold_label(redco_graph *graph, bool held);
/** Whoever builds from here on, "digits: loss()": the place of errors, in place of layer and operator. "": these. */
void redco_graph_set_builder(redco_graph *graph, const char *builder);

/** Adds an operator of any kind, checks it and simplifies it: what all building calls do. Who rewrites graphs (layouts,
 *  recomputation) calls it with the kind and attributes of an operator of the old graph and inputs of the new one.
 *  @param attributes  NULL for none
 *  @param outputs_out one entry per output of the kind; REDCO_NO_VALUE each after an error. They may be values that
 * existed before: equal operators, identities and folded constants */
void redco_graph_apply(redco_graph *graph, redco_op_kind kind, const redco_value *inputs, uint32_t input_count,
                       const redco_attributes *attributes, redco_value *outputs_out);
/** The same for an operator that the caller describes: kind, input_count, attributes, role and all names; its origin is
 * an operator of @p graph, or REDCO_NO_OP. */
void redco_graph_insert(redco_graph *graph, const redco_op *op, const redco_value *inputs, redco_value *outputs_out);

/** An input: bound to memory when the graph is run. Its name is unique in the graph. */
redco_value redco_input(redco_graph *graph, const char *name, const redco_tensor_type *type);
/** An input that is trained. */
redco_value redco_parameter(redco_graph *graph, const char *name, const redco_tensor_type *type);
/** @return REDCO_NO_VALUE if there is none of that name */
redco_value redco_graph_find_input(const redco_graph *graph, const char *name);

uint32_t redco_graph_op_count(const redco_graph *graph);
uint32_t redco_graph_value_count(const redco_graph *graph);
const redco_op *redco_graph_op(const redco_graph *graph, uint32_t op);
const redco_op *redco_value_op(const redco_graph *graph, redco_value value); /**< that made it */
/** REDCO_NO_VALUE has a type whose dimensions are all 1: functions that build need not ask after each call. */
const redco_tensor_type *redco_value_type(const redco_graph *graph, redco_value value);
const char *redco_value_name(const redco_graph *graph, redco_value value); /**< an input's name; else NULL */
const redco_names *redco_graph_names(const redco_graph *graph); /**< names of layers and operators: layer_id, name_id */

/** The operator's name in schedules and traces, "fwd/block.3/qkv", "bwd/block.3/qkv/weight", as in
 * costmodel/simulator/step.h.
 *  @return @p buffer, cut to fit */
const char *redco_op_name(const redco_graph *graph, const redco_op *op, char *buffer, size_t size);

const char *redco_op_kind_name(redco_op_kind kind); /**< static: "matmul" */
redco_op_class redco_op_kind_class(redco_op_kind kind);
uint32_t redco_op_kind_outputs(redco_op_kind kind); /**< for a pointwise operator: the most */
/** The output is the input's bytes: no memory and no work are needed (reshape, stop_gradient). */
bool redco_op_is_view(redco_op_kind kind);
/** So many of the first inputs may be overwritten by an only output, or any one of a pointwise operator, if it has
 * their type (executor/backend/backend.h, redco_launch). */
uint32_t redco_op_overwrites(redco_op_kind kind);
bool redco_op_is_fused(redco_op_kind kind); /**< it can be decomposed: transform.h */

#ifdef __cplusplus
}
#endif
#endif
