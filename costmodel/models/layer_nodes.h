/** @file layer_nodes.h  A layer as tensor parallelism sees it: its weights and the operators between them that may lie
 *  on the ranks in several ways, with what each reads. One list per model and layer class, derived from the family's
 *  graph when the model is read. */
#ifndef REDCO_LAYER_NODES_H
#define REDCO_LAYER_NODES_H

#include "costmodel/models/layer_groups.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/** Producers before consumers. @return their number */
uint32_t redco_model_nodes(const redco_model *model, uint32_t class_index, const redco_layer_node **nodes_out);

#ifdef __cplusplus
}
#endif
#endif
