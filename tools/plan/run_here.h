/** @file run_here.h  --run-here: the machine of a plan is this one, whose processors redco-profile measures. */
#ifndef REDCO_TOOLS_PLAN_RUN_HERE_H
#define REDCO_TOOLS_PLAN_RUN_HERE_H

#include "tools/cli/beside.h"
#include "tools/plan/plan_args.h"

enum { RUN_HERE_MOST = 256 };

/** Measures in a moment, and sets the question's cluster, profile and, where nothing is given, its batch.
 *  @param beside  holds the files that the question names until run_here_close()
 *  @return CLI_DONE, or the exit code: what is wrong was said */
int run_here_measure(struct plan_args *args, struct beside *beside);
/** Removes the files when they were read; does nothing without --run-here. */
void run_here_close(const struct plan_args *args, struct beside *beside);
/** Writes the profile that was measured beside a plan that was written: "plan.profile.json". Without it nobody could
 *  price the plan again (redco-validate --profile).
 *  @param path_out  its name, static; NULL: there is none, as without --run-here */
redco_status run_here_write(const struct plan_args *args, const char **path_out, redco_error *err);

#endif
