/** @file plan_answer.h  The answers of redco-plan: one plan (or the K best), a comparison, a sweep, a check. Each
 *  prints and returns the exit code. */
#ifndef REDCO_TOOLS_PLAN_ANSWER_H
#define REDCO_TOOLS_PLAN_ANSWER_H

#include "planner/inputs.h"
#include "tools/plan_args.h"

int answer_plan(struct plan_args *args, const redco_inputs *inputs);
int answer_compare(struct plan_args *args, const redco_inputs *inputs);
int answer_sweep(struct plan_args *args, redco_inputs *inputs);
int answer_check(struct plan_args *args);

/** The name of what the options ask for: "optimum", "fixed" or a named strategy. */
const char *answer_name(const redco_search_options *options);
/** cli_fail() with what the cost model calls a quantity named by its option. */
int answer_fail(const struct cli *cli, const redco_error *err);
/** {"format":"redco-plan","feasible":false,...}; NULL when out of memory. @param short_bytes  0: not a matter of memory
 */
json_t *answer_infeasible(const char *strategy, const char *reason, uint64_t short_bytes,
                          const redco_shortfall *shortfall);

#endif
