/** @file memory_categories.h  The memory categories of a planned arena when it is fullest, in the simulator's words
 * (costmodel/simulator/step.h) where it has one. */
#ifndef REDCO_MEMORY_CATEGORIES_H
#define REDCO_MEMORY_CATEGORIES_H

#include "executor/memory_plan/lifetimes.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_arena_category {
    REDCO_ARENA_ACTIVATIONS, /**< made by forward and read by backward */
    REDCO_ARENA_LOGITS,      /**< the head's product and its gradient */
    REDCO_ARENA_RECOMPUTED,  /**< recomputed */
    REDCO_ARENA_WORKING,     /**< gradients under way, and what a layer makes and reads itself */
    REDCO_ARENA_WORKSPACE,   /**< workspaces of operators */
    REDCO_ARENA_CATEGORIES
} redco_arena_category;

/** @param graph      whose lifetimes were found
 *  @param step       of its order
 *  @param elsewhere  by interval: it is not in this arena; NULL: all are
 *  @param bytes_out  what each holds during it, as planned: rounded up to REDCO_ALIGNMENT_BYTES */
void redco_arena_held(const redco_graph *graph, const redco_lifetimes *lifetimes, uint32_t step, const bool *elsewhere,
                      uint64_t bytes_out[REDCO_ARENA_CATEGORIES]);

#ifdef __cplusplus
}
#endif
#endif
