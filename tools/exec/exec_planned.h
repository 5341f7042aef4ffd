/** @file exec_planned.h  The plan of a run that is given a model instead: redco-plan --run-here makes it. */
#ifndef REDCO_TOOLS_EXEC_PLANNED_H
#define REDCO_TOOLS_EXEC_PLANNED_H

#include "tools/exec/exec_args.h"

/** Plans for args->ranks processors of this machine.
 *  @param plan_out  freed with redco_plan_free()
 *  @return CLI_DONE, or the exit code: what is wrong was said */
int exec_planned(const struct exec_args *args, redco_plan **plan_out);

#endif
