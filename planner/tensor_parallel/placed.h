/** @file placed.h  Internal: both placements of a model's layers for one (tp, cp, micro-batch), priced. */
#ifndef REDCO_TP_PLACED_H
#define REDCO_TP_PLACED_H

#include "planner/tensor_parallel/layer_build.h"
#include "planner/tensor_parallel/tp_placement.h"

enum { REDCOI_TP_LAYERS = 8 /**< classes of layers that a model may have */ };

/** One graph of the model under each placement. */
typedef struct redcoi_tp_placed {
    redcoi_tp_layer layer;
    redcoi_tp_total reference; /**< the layout that the closed form assumes */
    redcoi_tp_choice rules_choice;
    redcoi_tp_total rules;
    redcoi_tp_answer milp;    /**< when asked for */
    uint32_t layout, layouts; /**< the rules' layout that this is, and how many the class has */
    uint32_t first, members;  /**< the first layer with it, and how many there are */
} redcoi_tp_placed;

/** The layouts that rules give to the layers of one class. */
typedef struct redcoi_tp_class_layouts {
    uint32_t count; /**< at least 1 */
    uint32_t *of;   /**< the layout of each layer, numbered in the order of their first layers; NULL: all have one */
} redcoi_tp_class_layouts;

/** The rules' split of every tensor of a model: matrices, as far as rules tell the layers of a class apart. */
typedef struct redcoi_tp_ruled_splits {
    uint32_t count;          /**< as redco_model_tensors() */
    redcoi_tp_split *splits; /**< [layout][tensor] */
    redcoi_tp_class_layouts classes[REDCOI_TP_LAYERS];
} redcoi_tp_ruled_splits;

/** @param user  NULL: RedCoast's rules */
redco_status redcoi_tp_rules_splits(const redco_model *model, uint32_t shards, const redco_user_rules *user,
                                    redcoi_tp_ruled_splits *splits_out, redco_error *err);
void redcoi_tp_rules_splits_free(redcoi_tp_ruled_splits *splits);

/** The inputs of all graphs of a parallelism: @p costs prices their collectives and is borrowed. */
typedef struct redcoi_tp_pricing {
    redco_costs *costs;
    uint32_t tp;
} redcoi_tp_pricing;
redcoi_tp_base redcoi_tp_base_of(redcoi_tp_pricing *pricing, const redco_model *model,
                                 const redco_parallelism *parallelism);

typedef redco_status (*redcoi_tp_solver)(const redcoi_tp_graph *graph, redcoi_tp_answer *answer_out, redco_error *err);
/** The model's graphs, one at a time and one for each layout of a class: graph @p index, or *more_out false behind the
 *  last.
 *  @param solve  problem 2, too: redcoi_tp_solve(), or NULL: programs without GLPK */
redco_status redcoi_tp_place(const redcoi_tp_base *base, const redcoi_tp_ruled_splits *ruled, redcoi_tp_solver solve,
                             uint32_t index, redcoi_tp_placed *placed_out, bool *more_out, redco_error *err);

/** Option taken by a weight's node. */
const redcoi_tp_option *redcoi_tp_chosen(const redcoi_tp_layer *layer, const redcoi_tp_choice *choice, uint32_t node);

/** redco_tp_attach() with a solver. */
redco_status redcoi_tp_attach(redco_costs *costs, const redco_model *model, redco_tp_placement placement,
                              const redco_user_rules *user, redcoi_tp_solver solve, redco_error *err);

#endif
