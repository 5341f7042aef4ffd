/** @file layer_build.h  Internal: the graphs (graph.h) of a model's layers: one per class of blocks, one for embedding
 * and head together, since they may share a table. */
#ifndef REDCO_TP_BUILD_H
#define REDCO_TP_BUILD_H

#include "costmodel/models/model.h"
#include "costmodel/operators/compute.h"
#include "planner/tensor_parallel/layer_graph.h"
#include "planner/tensor_parallel/roles.h"

/** What a graph is built from; borrowed. */
typedef struct redcoi_tp_base {
    const redco_model *model;
    const redcoi_tp_roles *roles;
    const redco_compute *compute;
    redco_shape shape; /**< of one rank, tp > 1 */
    redcoi_tp_prices prices;
    double exposed_ratio;
    double param_s;       /**< redco_costs_param_s() */
    uint64_t param_bytes; /**< of all states */
} redcoi_tp_base;

/** A graph and where its weights are. */
typedef struct redcoi_tp_layer {
    redcoi_tp_graph graph;
    uint32_t classes[REDCOI_TP_CLASSES];               /**< of the slots; UINT32_MAX: none */
    uint32_t node[REDCOI_TP_CLASSES][REDCOI_TP_ROLES]; /**< REDCOI_TP_NONE: no such weight */
    redcoi_tp_weights weights[REDCOI_TP_CLASSES];
} redcoi_tp_layer;

/** Prices included, without a limit on memory.
 *  @param embedding, head  class indices; UINT32_MAX: the model has no such class
 *  @return REDCO_EVALUE if the layer has a matrix that has no known role (named), or none of those it needs */
redco_status redcoi_tp_build_block(const redcoi_tp_base *base, uint32_t class_index, redcoi_tp_layer *layer_out,
                                   redco_error *err);
redco_status redcoi_tp_build_edges(const redcoi_tp_base *base, uint32_t embedding, uint32_t head,
                                   redcoi_tp_layer *layer_out, redco_error *err);

/** Sets the limit: what the reference layout needs, and a share of its states' memory on top; or the states of
 *  @p other_params parameters, if these are more. @return the reference's total */
redcoi_tp_total redcoi_tp_limit(redcoi_tp_graph *graph, uint64_t other_params);

#endif
