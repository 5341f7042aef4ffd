/** @file differentiate.h  Gradients as further operators of the same graph, so that they can be differentiated again.
 *  Fused operators have fused gradients; differentiating those, or statistics that fused operators return, goes through
 *  their decomposition into basic operators. No gradient passes i32 and bool values, comparisons, random numbers and
 *  redco_stop_gradient(). Errors are kept by the graph (graph.h). */
#ifndef REDCO_GRAPH_DIFFERENTIATE_H
#define REDCO_GRAPH_DIFFERENTIATE_H

#include "costmodel/graph/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Gradients of a floating-point scalar (rank 0) with respect to values that it depends on, or zeros where it does not.
 *  The gradient with respect to a value counts every way from it to the loss, other entries of @p wrt included.
 *  @param wrt            floating-point values, parameters or any others
 *  @param gradients_out  wrt_count values of the types of @p wrt */
void redco_gradient(redco_graph *graph, redco_value loss, const redco_value *wrt, uint32_t wrt_count,
                    redco_value *gradients_out);

/** The same from given gradients of several values: sum over i of cotangents[i] d outputs[i] / d wrt[j].
 *  @param cotangents  of the types of @p outputs */
void redco_vector_jacobian(redco_graph *graph, const redco_value *outputs, const redco_value *cotangents,
                           uint32_t output_count, const redco_value *wrt, uint32_t wrt_count,
                           redco_value *gradients_out);

#ifdef __cplusplus
}
#endif
#endif
