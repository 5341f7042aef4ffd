/** @file graph_ops.h  Operators of any graph as cases to be measured, each in a graph of its own with inputs of the
 * types that it reads: those of a user's pipeline. */
#ifndef REDCO_MEASURE_GRAPH_OPS_H
#define REDCO_MEASURE_GRAPH_OPS_H

#include "executor/measure/suite.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A list that owns the graphs of its cases. */
typedef struct redco_measure_ops {
    redco_measure_case *cases;
    size_t count, capacity;
} redco_measure_ops;

/** Adds an operator of @p graph unless one of that name and size is there.
 *  @param measured_as  its name in a profile */
redco_status redco_measure_ops_add(redco_measure_ops *ops, const redco_graph *graph, const redco_op *op,
                                   const char *measured_as, redco_error *err);
void redco_measure_ops_free(redco_measure_ops *ops); /**< frees its contents */

#ifdef __cplusplus
}
#endif
#endif
