/** @file memory_graph.h  Internal to costmodel: memory of a user's loss graph (record/graph_work.h), all of which is
 * one layer: its values, its modules' whole weights and gradients, and shards as redco-exec lays them out. */
#ifndef REDCOI_MEMORY_GRAPH_H
#define REDCOI_MEMORY_GRAPH_H

#include "costmodel/closed_form/closed_form_internal.h"

/** Values of the pass that needs more, and the micro-batch's inputs. */
uint64_t redcoi_graph_activation_bytes(const redco_graph_work *work, const redco_shape *shape);
/** Elements of the modules that are trained, each as it is gathered from the shards of its parameters. */
uint64_t redcoi_graph_trained_params(const redcoi_job *job);
/** Gathered weights and whole gradients, beyond the activation bytes of @p cost: of the pass in which memory is
 *  fullest. */
void redcoi_graph_transients(const redcoi_job *job, redco_layer_cost *cost);
/** States of the fullest rank, padding included. */
redcoi_states redcoi_graph_states(const redcoi_job *job);

#endif
