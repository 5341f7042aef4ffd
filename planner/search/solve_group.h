/** @file solve_group.h  Internal: the best answer of one group or one configuration. */
#ifndef REDCO_SOLVE_GROUP_H
#define REDCO_SOLVE_GROUP_H

#include "planner/search/exact.h"
#include "planner/search/ranking.h"

/** The best composition of one group within its budget. For T_comm, the fastest of those that attain its least.
 *  @param limit_s  answers above it are of no interest
 *  @param point    filled where *found_out is set */
redco_status redcoi_solve_group(const redcoi_space *space, const redcoi_configuration *configuration, uint32_t group,
                                double limit_s, redcoi_point *point, bool *found_out, redco_error *err);

/** A redcoi_leaf: runs GLPK, then closes the gap by dynamic programming. @param context  its effort */
redco_status redcoi_solve_leaf(const redcoi_problem *problem, double cutoff_s, double gap_ratio, void *context,
                               redcoi_exact_result *result_out, redco_error *err);

#endif
