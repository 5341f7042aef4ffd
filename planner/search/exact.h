/** @file exact.h  Internal: problem.h solved exactly without GLPK. Uniform: every composition of a group. Layer-wise:
 *  branch and bound over the transient buffers, then label-setting dynamic programming over counts, its labels pruned
 *  by the Lagrangian bound (bound.c). The second opinion of --verify, and what closes gaps where GLPK is slow. */
#ifndef REDCO_EXACT_H
#define REDCO_EXACT_H

#include "planner/search/problem.h"

typedef enum redcoi_objective {
    REDCOI_LEAST_TIME,   /**< then least memory */
    REDCOI_LEAST_MEMORY, /**< then least time */
    REDCOI_EVERY_TIME    /**< as REDCOI_LEAST_TIME, but whatever fits is looked at, also where it cannot win */
} redcoi_objective;

/** @return the number of compositions of @p group */
double redcoi_exact_count(const redcoi_problem *problem, uint32_t group);

/** @return whether several classes with a choice have so many layers together that going through one of them takes too
 * long: by a count of compositions, so that answers do not depend on the clock. */
bool redcoi_exact_is_long(const redcoi_problem *problem, uint32_t group);

/** The best composition of @p group that fits and takes at most @p cutoff_s. Up to 256 of them are gone through,
 * partial ones that cannot win are cut. Of more, only those near the Lagrangian bound are looked for, and the last
 * three options of one class by convexity: with one class of many layers the work grows with their logarithm.
 * REDCOI_LEAST_MEMORY mixes no options. Of equal ones the one with more layers in earlier options (less recomputation)
 * wins.
 *  @param looked_at  NULL, or increased by the number of whole compositions
 *  @return false when there is none */
bool redcoi_exact_group(const redcoi_problem *problem, uint32_t group, redcoi_objective objective, double cutoff_s,
                        redcoi_answer *answer_out, uint64_t *looked_at);

typedef struct redcoi_exact_result {
    bool feasible; /**< answer is set and better than the cut-off */
    bool proven;   /**< within the gap asked for */
    redcoi_answer answer;
    double bound_s;  /**< no answer is better, unless it is no better than (1 - gap) times the cut-off */
    uint64_t states; /**< labels made */
} redcoi_exact_result;

/** One problem without transient buffers. @p cutoff_s: only better answers are of interest (INFINITY: any). */
typedef redco_status (*redcoi_leaf)(const redcoi_problem *problem, double cutoff_s, double gap_ratio, void *context,
                                    redcoi_exact_result *result_out, redco_error *err);

/** Comparisons of labels that one search may make; about a second. A count, so that answers do not depend on the clock.
 */
static const uint64_t redcoi_effort_default = UINT64_C(1) << 28;

/** Label-setting dynamic programming, a redcoi_leaf. When the effort runs out the result is not proven.
 *  @param context  NULL, or a uint64_t: the effort left, counted down */
redco_status redcoi_labels_solve(const redcoi_problem *problem, double cutoff_s, double gap_ratio, void *context,
                                 redcoi_exact_result *result_out, redco_error *err);

/** Improves an answer of a problem without transient buffers by local search; what it ends with is never worse. */
void redcoi_answer_polish(const redcoi_problem *problem, redcoi_answer *answer);

/** Layer-wise: splits by the sizes of transient buffers until each part has fixed ones, solves those with @p leaf. */
redco_status redcoi_layerwise_solve(const redcoi_problem *problem, double cutoff_s, double gap_ratio, redcoi_leaf leaf,
                                    void *context, redcoi_exact_result *result_out, redco_error *err);

#endif
