/** @file milp.h  Internal: problem.h as a mixed-integer program, solved by GLPK. Prints nothing; an error inside GLPK
 *  comes back as REDCO_ESYSTEM; limits are counts of nodes, so that the same input gives the same answer anywhere. */
#ifndef REDCO_MILP_H
#define REDCO_MILP_H

#include "planner/search/problem.h"

typedef struct redcoi_milp_options {
    bool uniform;               /**< all layers in one group */
    double gap_ratio;           /**< stop when bound and answer are this near */
    uint32_t node_limit;        /**< limit of nodes in branch and bound; 0 = none */
    const redcoi_answer *start; /**< NULL, or an answer that fits, to prune with */
    bool round;                 /**< relaxed answers are rounded: where layers are many, that loses little */
} redcoi_milp_options;

typedef struct redcoi_milp_result {
    bool feasible; /**< answer is set: GLPK's, re-checked in exact integers */
    bool proven;   /**< within gap_ratio, or that nothing fits */
    redcoi_answer answer;
    double bound_s; /**< no answer is better; INFINITY when proven infeasible */
    uint32_t nodes;
} redcoi_milp_result;

/** @return REDCO_OK also when nothing fits; REDCO_EVALUE for coefficients that redcoi_problem_check() refuses;
 *  REDCO_ENOMEM; REDCO_ESYSTEM when GLPK fails */
redco_status redcoi_milp_solve(const redcoi_problem *problem, const redcoi_milp_options *options,
                               redcoi_milp_result *result_out, redco_error *err);

#endif
