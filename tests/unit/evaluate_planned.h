/** @file evaluate_planned.h  A graph run from an arena, on its own: tests compare schedules with it. */
#ifndef REDCO_TEST_EVALUATE_PLANNED_H
#define REDCO_TEST_EVALUATE_PLANNED_H

#include "executor/backend/evaluate.h"
#include "executor/memory_plan/planned_memory.h"

/** redco_evaluate_rank() from an arena: allocates arena and inputs, runs the graph in the order given.
 *  @param options  its outside and kept values are ignored: results take their place
 *  @param poison   see above
 *  @param plan_out NULL, or what was planned; to be freed with redco_memory_plan_free() */
redco_status redco_evaluate_planned(redco_backend *backend, const redco_collectives *collectives,
                                    const redco_graph *graph, const redco_lifetimes_options *options,
                                    const redco_binding *bindings, uint32_t binding_count, const redco_result *results,
                                    uint32_t result_count, bool poison, redco_memory_plan *plan_out, redco_error *err);

#endif
