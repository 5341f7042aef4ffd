/** @file layer_groups.h  The operators of a layer as they are priced, in symbols: one table per model and layer class,
 *  made when the model is read. Sizes are put in for its axes to get counts: no search walks a graph.
 *
 *  It is derived from the family's graph. The graph of one layer is built at probe sizes, one prime per
 *  axis, so that the factors of each dimension in it tell its axes. Primes were chosen over tags that building calls
 *  attach: a tag would have to pass every reshape, slice and product, and each of them could lose it silently, while
 *  the primes of a dimension are what it is. */
#ifndef REDCO_LAYER_GROUPS_H
#define REDCO_LAYER_GROUPS_H

#include "costmodel/models/model.h"
#include "topology/base/collective_op.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_axis {
    REDCO_AXIS_BATCH,
    REDCO_AXIS_SEQUENCE,
    REDCO_AXIS_HEADS,
    REDCO_AXIS_KV_HEADS,
    REDCO_AXIS_QKV_HEADS, /**< heads + 2 KV heads: of one matrix for queries, keys and values */
    REDCO_AXIS_HEAD_DIM,
    REDCO_AXIS_HIDDEN,
    REDCO_AXIS_FFN,
    REDCO_AXIS_VOCAB,
    REDCO_AXIS_TABLE_WIDTH, /**< the table of tokens': hidden, or less (OPT-350M) */
    REDCO_AXIS_POSITIONS,   /**< rows of a table of positions */
    REDCO_AXIS_BUCKETS,     /**< rows of a table of relative positions */
    REDCO_AXIS_COUNT
} redco_axis;

/** factor x the product of the axes' sizes to their powers. */
typedef struct redco_extent {
    uint32_t factor;
    uint8_t power[REDCO_AXIS_COUNT];
} redco_extent;

uint64_t redco_extent_count(const redco_extent *extent, const uint64_t sizes[REDCO_AXIS_COUNT]);
bool redco_extent_equal(const redco_extent *a, const redco_extent *b);
/** The axis of it that paired tensor parallelism cuts: heads of any kind, FFN, vocabulary.
 *  @return REDCO_AXIS_COUNT if there is none */
redco_axis redco_extent_split(const redco_extent *extent);

typedef enum redco_group_kind {
    REDCO_GROUP_MEMORY,
    REDCO_GROUP_PRODUCT,
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
} redco_group_traffic;

enum { REDCO_GROUP_PARTS = 4, REDCO_GROUP_PARAMS = 8, REDCO_GROUP_TRAFFIC = 8, REDCO_GROUPS_MAX = 16 };

/** Operators of a layer's graph that are priced as one: those of one role. Residual sums, biases and moves are free.
 *  Products that read one input (q, k and v; gate and up) are one; a product that reads the result of another of its
 *  group goes with it from the first one's input to the last one's result. */
typedef struct redco_layer_group {
    redco_op_role role;
    redco_group_kind kind;
    bool causal;                           /**< attention */
    redco_extent rows, inner;              /**< product: [rows][inner] by [inner][n] */
    redco_extent parts[REDCO_GROUP_PARTS]; /**< product: n of each weight; attention: elements of queries, keys, values
                                                and result; else: elements, to be added up */
    uint32_t part_count;
    redco_extent columns;                /**< norm: of a row; table: its elements */
    uint32_t params[REDCO_GROUP_PARAMS]; /**< ids of the tensors that it reads, ascending */
    uint32_t param_count;
    bool unread; /**< backward reads nothing that it makes, nor what is made of that: of blocks its last products */
    redco_group_traffic traffic[REDCO_GROUP_TRAFFIC];
    uint32_t traffic_count;
} redco_layer_group;

/** In forward order. @return their number */
uint32_t redco_model_groups(const redco_model *model, uint32_t class_index, const redco_layer_group **groups_out);
/** Sizes of the model's axes for a whole sequence each of @p batch and @p length, uncut. */
void redco_model_axis_sizes(const redco_model *model, uint64_t batch, uint64_t length,
                            uint64_t sizes_out[REDCO_AXIS_COUNT]);
/** The spaces that a tensor maps to and from, in symbols: a linear's outputs and inputs, a table's rows and width. */
void redco_param_maps(const redco_param *param, redco_extent *out_out, redco_extent *in_out);
/** A tensor's dimensions, as many as its rank, in the order of its shape, in symbols. */
void redco_param_extents(const redco_param *param, redco_extent extents_out[2]);

#ifdef __cplusplus
}
#endif
#endif
