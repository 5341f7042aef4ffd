/** @file layer_work.h  The work of one layer of a class, in symbols: its operators as they are priced with their
 *  parameters and collectives, the tensors that training software may keep for backward, and its weights and operators
 * as tensor parallelism may lay them out. Whoever has the class's graph makes it when the model is read
 *  (models/layer_groups.c, layer_sites.c, layer_nodes.c): no search walks a graph. */
#ifndef REDCO_LAYER_WORK_H
#define REDCO_LAYER_WORK_H

#include "costmodel/graph/op_roles.h"
#include "costmodel/record/extent.h"
#include "costmodel/record/graph_work.h"
#include "topology/base/collective_op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_group_kind {
    REDCO_GROUP_MEMORY,
    REDCO_GROUP_PRODUCT,
    REDCO_GROUP_ROWS, /**< a token's row to each of its experts, or back */
    REDCO_GROUP_ATTENTION,
    REDCO_GROUP_NORM,
    REDCO_GROUP_LOSS,
    REDCO_GROUP_TABLE
} redco_group_kind;

/** A collective of tensor parallelism whose tensors are split in pairs of columns and rows, of an activation or its
 *  gradient. A reduction stands behind the group in its pass, a gather before it. */
typedef struct redco_group_traffic {
    redco_collective op;
    redco_extent elements; /**< the whole tensor's */
    bool backward;
    bool sequence_parallel; /**< with it; else without */
    bool whole_experts;     /**< where tensor parallelism cuts no experts; else where it does, or there are none */
} redco_group_traffic;

enum { REDCO_GROUP_PARTS = 4, REDCO_GROUP_PARAMS = 8, REDCO_GROUP_TRAFFIC = 12, REDCO_GROUPS_MAX = 32 };

/** Operators of a layer's graph that are priced as one: those of one role. Residual sums, biases and moves are free.
 *  Products that read one input (q, k and v; gate and up) are one; a product that reads the result of another of its
 *  group goes with it from the first one's input to the last one's result. */
typedef struct redco_layer_group {
    redco_op_role role;
    redco_group_kind kind;
    bool causal;                           /**< attention */
    redco_extent rows, inner;              /**< product: [rows][inner] by [inner][n] */
    redco_extent experts;                  /**< product: matrices, each for an equal part of the rows; 1: one */
    redco_extent parts[REDCO_GROUP_PARTS]; /**< product: n of each weight; attention: elements of queries, keys, values
                                                and result; rows: read and written; else: elements, to be added
                                                up */
    uint32_t part_count;
    redco_extent columns;                /**< norm: of a row; table: its elements */
    redco_op_role reader;                /**< norm: the role of all products that read it; none: several */
    uint32_t params[REDCO_GROUP_PARAMS]; /**< ids of the tensors that it reads, ascending */
    uint32_t param_count;
    bool biased; /**< they have biases */
    bool frozen; /**< no parameter of it is trained: backward makes no gradient of weights */
    bool unread; /**< backward reads nothing that it makes, nor what is made of that: of blocks its last products */
    redco_group_traffic traffic[REDCO_GROUP_TRAFFIC];
    uint32_t traffic_count;
} redco_layer_group;

typedef enum redco_site {
    REDCO_SITE_LAYER_INPUT,
    REDCO_SITE_NORM_INPUT,           /**< once where several norms read it */
    REDCO_SITE_NORM_CONVERTED,       /**< its copy in 32 bits, one for each norm */
    REDCO_SITE_NORM_NORMED,          /**< before the weight is applied */
    REDCO_SITE_NORM_STATISTIC,       /**< a number of each row: of its deviation */
    REDCO_SITE_NORM_MEAN,            /**< likewise; of layer norms */
    REDCO_SITE_NORM_OUTPUT,          /**< operand of products, that of the layer before included */
    REDCO_SITE_ATTENTION_QUERIES,    /**< as the attention core reads them */
    REDCO_SITE_ATTENTION_KEYS,       /**< likewise */
    REDCO_SITE_ATTENTION_VALUES,     /**< likewise */
    REDCO_SITE_ATTENTION_REPEATED,   /**< keys and values, one for each head of queries: as large as two of these */
    REDCO_SITE_ATTENTION_OUTPUT,     /**< operand of the projection behind */
    REDCO_SITE_ATTENTION_STATISTIC,  /**< log-sum-exp of each row of scores */
    REDCO_SITE_ATTENTION_SCORES,     /**< elements of one key: to be multiplied by the length of the sequence */
    REDCO_SITE_ACTIVATION_INPUT,     /**< an activation that no gate multiplies reads it */
    REDCO_SITE_ACTIVATION_RECTIFIED, /**< likewise; a ReLU, whose gradient can be made from its output, too */
    REDCO_SITE_ACTIVATION_GATE,      /**< a gate's activation reads it */
    REDCO_SITE_ACTIVATION_FACTOR,    /**< the activated gate multiplies it */
    REDCO_SITE_ACTIVATION_GATED,     /**< the activated gate */
    REDCO_SITE_ACTIVATION_OUTPUT,    /**< operand of the FFN's last product */
    REDCO_SITE_PRODUCT_OPERAND,      /**< operands that no norm, attention core or activation made */
    REDCO_SITE_PRODUCT_OUTPUT,       /**< results of the last product of an FFN */
    REDCO_SITE_ROUTER_SCORES,        /**< a token's for each expert: logits, probabilities and choices */
    REDCO_SITE_EXPERTS_INPUT,        /**< rows by expert, operand of the experts' first products */
    REDCO_SITE_EXPERTS_GATE,         /**< results of these: a gate's activation reads it, */
    REDCO_SITE_EXPERTS_FACTOR,       /**< the activated gate multiplies it, */
    REDCO_SITE_EXPERTS_ACTIVATED,    /**< and what comes of both, operand of their last product */
    REDCO_SITE_EXPERTS_OUTPUT,       /**< result of that, before a token's rows are added up */
    REDCO_SITE_DROPOUT_MASK,         /**< a byte for each element that a part of a block adds to the values handed on */
    REDCO_SITE_ADAPTER_INPUT, /**< operands of adapters' first products beyond the first of matrices that read one
                                 tensor */
    REDCO_SITE_COUNT
} redco_site;

/** "norm.input": words of rule files; NULL-terminated, indexed by the enum. */
extern const char *const redco_site_words[];

enum { REDCO_SITES_MAX = 56 };

typedef struct redco_layer_site {
    redco_site site;
    redco_extent elements;
    redco_op_role role;   /**< the role of the operator that made the tensor */
    redco_op_role reader; /**< norms: the role of all products that read it; none: several */
} redco_layer_site;

typedef enum redco_node_kind {
    REDCO_NODE_STREAM,   /**< the values that layers hand on, or a norm of them */
    REDCO_NODE_ENCODED,  /**< the encoder's output, which all layers of a decoder read */
    REDCO_NODE_TABLE,    /**< rows of a table; without readers: a bias of scores */
    REDCO_NODE_PRODUCT,  /**< with a weight */
    REDCO_NODE_CORE,     /**< attention: queries, keys, values, or one input that holds the three */
    REDCO_NODE_ELEMENTS, /**< element by element: activations */
    REDCO_NODE_SUM,      /**< its summands were made side by side */
    REDCO_NODE_RESIDUAL, /**< added to what layers hand on, or handed on */
    REDCO_NODE_LOSS
} redco_node_kind;

enum { REDCO_NODE_INPUTS = 3, REDCO_NODE_PARAMS = 2, REDCO_NODES_MAX = 24 };

typedef struct redco_layer_node {
    redco_node_kind kind;
    uint64_t roles; /**< a bit each: of a product its own; else of the groups that it is priced with */
    uint32_t inputs[REDCO_NODE_INPUTS]; /**< earlier nodes */
    uint32_t input_count;
    uint32_t params[REDCO_NODE_PARAMS]; /**< ids: the weight; several tables alike, of encoder and decoder */
    uint32_t param_count;
    redco_extent columns; /**< in a row of its result */
    uint32_t blocks;      /**< equal parts of a product's columns, each to be cut alike: queries, keys and values */
} redco_layer_node;

/** The record of a layer class. */
typedef struct redco_layer_work {
    redco_layer_group groups[REDCO_GROUPS_MAX]; /**< in forward order */
    uint32_t group_count;
    redco_layer_site sites[REDCO_SITES_MAX]; /**< in forward order; of heads and embeddings those of norms, products */
    uint32_t site_count;
    redco_layer_node nodes[REDCO_NODES_MAX]; /**< producers before consumers */
    uint32_t node_count;
    /** Operators that a graph lists one by one, each in its pass, and their moments, beside all above; borrowed */
    const redco_graph_work *listed;
} redco_layer_work;

/** The modules whose recomputation runs an operator of that role again. Where norms are in the kernels of products, one
 *  is with that of the FFN, and no module of its own.
 *  @param reader  of norms, as in redco_layer_group */
redco_recompute redco_modules_of(redco_op_role role, redco_op_role reader, bool norms_in_products);

#ifdef __cplusplus
}
#endif
#endif
