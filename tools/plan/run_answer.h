/** @file run_answer.h  Answers on runs that hold several plans: sizes and clusters, phases; and two runs compared. */
#ifndef REDCO_TOOLS_RUN_ANSWER_H
#define REDCO_TOOLS_RUN_ANSWER_H

#include "tools/plan/plan_args.h"

/** --gpus 256..16384, --cluster a,b, --deadline, --budget. @return the exit code */
int run_answer_frontier(struct plan_args *args);
/** --run FILE */
int run_answer_phases(struct plan_args *args);
/** --compare-runs A B */
int run_answer_compare(const struct plan_args *args);

#endif
