/** @file layer_build.h  Internal: the graphs (layer_graph.h) of a model's layers: one per class of blocks, one for
 *  embedding and head together, since they may share a table. Their nodes are those that the model's classes have
 *  (layer_nodes.c); options, prices and memory are given to them here. */
#ifndef REDCO_TP_BUILD_H
#define REDCO_TP_BUILD_H

#include "costmodel/operators/compute.h"
#include "costmodel/record/layer_work.h"
#include "planner/tensor_parallel/layer_graph.h"

/** The inputs of a graph; borrowed. */
typedef struct redcoi_tp_base {
    const redco_model *model;
    const redco_compute *compute;
    redco_shape shape; /**< shape of one rank, tp > 1 */
    redcoi_tp_prices prices;
    double exposed_ratio;
    double param_s;       /**< redco_costs_param_s() */
    uint64_t param_bytes; /**< bytes of all states */
} redcoi_tp_base;

/** A graph and what its nodes are. */
typedef struct redcoi_tp_layer {
    redcoi_tp_graph graph;
    uint32_t classes[REDCOI_TP_CLASSES];            /**< classes of the slots; UINT32_MAX: none */
    const redco_layer_node *nodes[REDCOI_TP_NODES]; /**< the model's nodes */
} redcoi_tp_layer;

/** Prices included, without a limit on memory.
 *  @param classes  indices: a block alone, or embedding and head; UINT32_MAX: none */
redco_status redcoi_tp_build(const redcoi_tp_base *base, const uint32_t classes[REDCOI_TP_CLASSES],
                             redcoi_tp_layer *layer_out, redco_error *err);
/** The node of a weight: REDCOI_TP_NONE if it has none here. */
uint32_t redcoi_tp_node_of(const redcoi_tp_layer *layer, uint32_t param);

/** Sets the limit: what the reference layout needs, and a share of its states' memory on top; or the states of
 *  @p other_params parameters, if these are more. @return the reference's total */
redcoi_tp_total redcoi_tp_limit(redcoi_tp_graph *graph, uint64_t other_params);

#endif
