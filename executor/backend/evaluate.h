/** @file evaluate.h  Runs a graph operator by operator in the order in which it was built: the reference that schedules
 * are tested against, and enough for small things. Memory is taken as it is needed and released after the last use. */
#ifndef REDCO_BACKEND_EVALUATE_H
#define REDCO_BACKEND_EVALUATE_H

#include "executor/backend/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Data in the program's memory, dense, of the value's type. */
typedef struct redco_binding {
    redco_value value;
    const void *data;
} redco_binding;

typedef struct redco_result {
    redco_value value;
    void *data;
} redco_result;

/** Only what @p results depend on is run; each input among that must be bound.
 *  @param bindings  inputs of the graph; borrowed for the call
 *  @param results   written on success
 *  @return REDCO_EVALUE if an input is not bound or an index is out of range */
redco_status redco_evaluate(redco_backend *backend, const redco_graph *graph, const redco_binding *bindings,
                            uint32_t binding_count, const redco_result *results, uint32_t result_count,
                            redco_error *err);

/** The same for the graph of one rank of several: every rank calls it with its own.
 *  @param collectives  runs the collective operators; NULL as in redco_evaluate(), which refuses them */
redco_status redco_evaluate_rank(redco_backend *backend, const redco_collectives *collectives, const redco_graph *graph,
                                 const redco_binding *bindings, uint32_t binding_count, const redco_result *results,
                                 uint32_t result_count, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
