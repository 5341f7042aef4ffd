/** @file planned_memory.h  Lifetimes and offsets of a graph that is run from an arena, and its operators run on them.
 * The size of the arena is known before anything is allocated. */
#ifndef REDCO_SCHEDULE_MEMORY_H
#define REDCO_SCHEDULE_MEMORY_H

#include "executor/backend/evaluate.h"
#include "executor/memory_plan/lifetimes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Where everything will be. */
typedef struct redco_memory_plan {
    redco_lifetimes lifetimes;
    uint64_t *offsets; /**< by interval, in the arena */
    redco_arena arena;
} redco_memory_plan;

/** @param plan_out  to be freed with redco_memory_plan_free() */
redco_status redco_memory_plan_make(const redco_graph *graph, const redco_lifetimes_options *options,
                                    redco_memory_plan *plan_out, redco_error *err);
void redco_memory_plan_free(redco_memory_plan *plan); /**< an all-zero one is accepted */

/** Where everything is: what is needed to run the plan's operators. All borrowed. Threads may share one as long as
 *  operators run in the plan's order. */
typedef struct redco_memory_map {
    const redco_graph *graph;
    const redco_memory_plan *plan;
    void *arena;          /**< plan->arena.bytes of device memory; NULL if that is 0 */
    void *const *inputs;  /**< by value of the graph: device memory of inputs; other entries are not looked at */
    void *const *outside; /**< by outside value of the plan: device memory */
} redco_memory_map;

/** Device memory of a value that is computed; NULL of one that is not. */
void *redco_memory_of(const redco_memory_map *map, redco_value value);

/** Queues one operator of the plan's order.
 *  @param collectives  NULL if the graph has none */
redco_status redco_memory_run(const redco_memory_map *map, redco_backend *backend, redco_device_stream *stream,
                              const redco_collectives *collectives, uint32_t op_id, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
