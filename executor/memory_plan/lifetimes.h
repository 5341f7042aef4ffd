/** @file lifetimes.h  When which value of a graph needs memory, for operators that are run one after the other.
 *
 *  Values lie in one of three places: the caller's inputs (weights, tokens), memory of the caller's that results are
 *  wanted in (gradient slots), or the arena. A view (reshape) lies where its input lies. The output of an elementwise
 *  operator, or of an all-reduce, lies over an input of its type that nobody reads any more. What an operator works
 * with beside its tensors needs memory for that operator alone. */
#ifndef REDCO_SCHEDULE_LIFETIMES_H
#define REDCO_SCHEDULE_LIFETIMES_H

#include "costmodel/kept/arena.h"
#include "executor/backend/collectives.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_place_kind {
    REDCO_PLACE_NONE,    /**< it is not computed */
    REDCO_PLACE_INPUT,   /**< where the caller has input `index`, a value of the graph */
    REDCO_PLACE_OUTSIDE, /**< entry `index` of the caller's outside values */
    REDCO_PLACE_ARENA    /**< interval `index` */
} redco_place_kind;

typedef struct redco_value_place {
    redco_place_kind kind;
    uint32_t index;
} redco_value_place;

typedef struct redco_lifetimes_options {
    /** Workspaces are asked of these; NULL: there are none (a backend is needed where there are collectives, too). */
    redco_backend *backend;
    const redco_collectives *collectives;
    /** Operators in the order in which they are run, all that the values below depend on, inputs or not.
     *  NULL: the graph's. */
    const uint32_t *order;
    uint32_t order_count;
    const redco_value *outside; /**< results that the caller has memory for; REDCO_NO_VALUE: there is none */
    uint32_t outside_count;
    /** Outside memory may be written before the operator that makes the result: by what the result is written over,
     * such as the first summand of the gradient of a tied table. outside_step says when. */
    bool outside_early;
    const redco_value *kept; /**< values that stay in the arena to the end */
    uint32_t kept_count;
    const redco_value *read; /**< values that are computed, and read by somebody else when their operator is done */
    uint32_t read_count;
} redco_lifetimes_options;

#define REDCO_NO_INTERVAL UINT32_MAX

/** Open arrays, all owned by it. */
typedef struct redco_lifetimes {
    uint32_t step_count;
    uint32_t *order;          /**< by step: operator; no inputs and no views */
    redco_value_place *place; /**< by value */
    uint32_t *last_step;      /**< by value: of the last operator that reads it or a view of it; step_count: kept */
    uint32_t *workspace;      /**< by operator: interval, or REDCO_NO_INTERVAL */
    /** By outside value: it does not lie where the caller wants it, since it is an input, a part of another result, or
     *  stands twice; it is to be copied from its place when all is done. */
    bool *copied;
    uint32_t *outside_step; /**< by outside value: step that writes there first; step_count: it is copied there */
    redco_interval *intervals;
    redco_value *first_value; /**< by interval: that came first; REDCO_NO_VALUE: a workspace */
    uint32_t interval_count;
    uint32_t op_count, value_count, outside_count;
} redco_lifetimes;

/** @param lifetimes_out  to be freed with redco_lifetimes_free()
 *  @return REDCO_EVALUE if an operator stands before one that it reads, twice, or is missing */
redco_status redco_lifetimes_find(const redco_graph *graph, const redco_lifetimes_options *options,
                                  redco_lifetimes *lifetimes_out, redco_error *err);
void redco_lifetimes_free(redco_lifetimes *lifetimes); /**< an all-zero one is accepted */

#ifdef __cplusplus
}
#endif
#endif
