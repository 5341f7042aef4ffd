/** @file plan_answer.h  The answers of redco-plan: one plan (or the K best), a comparison, a sweep, a check. Each
 *  prints and returns the exit code. */
#ifndef REDCO_TOOLS_PLAN_ANSWER_H
#define REDCO_TOOLS_PLAN_ANSWER_H

#include "planner/assemble/inputs.h"
#include "tools/plan/plan_args.h"

int answer_plan(const struct plan_args *given, const redco_inputs *inputs);
int answer_compare(const struct plan_args *args, const redco_inputs *inputs);
/** --compare engines: best first. */
int answer_engines(const struct plan_args *args, const redco_inputs *inputs);
/** One row a cluster. @param args  its question is not read */
int answer_clusters(const struct plan_args *args);
int answer_sweep(const struct plan_args *args, const redco_inputs *inputs);
int answer_check(const struct plan_args *args);

/** The ranks that a candidate's meshes divide: redco_shard_grid(). */
redco_mesh answer_grid(const redco_inputs *inputs, const redco_search_options *options,
                       const redco_candidate *candidate);
/** {"format":"redco-plan","feasible":false,...}, with what is predicted where one layout was given; NULL when out of
 *  memory. */
json_t *answer_infeasible(const redco_inputs *inputs, const char *strategy, const char *reason,
                          const redco_search_result *result);

#endif
