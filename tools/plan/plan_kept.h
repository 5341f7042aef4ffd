/** @file plan_kept.h  redco-plan --kept: what engines keep of one layer for backward, tensor by tensor. */
#ifndef REDCO_TOOLS_PLAN_KEPT_H
#define REDCO_TOOLS_PLAN_KEPT_H

#include "tools/plan/plan_args.h"

/** Prints the table for the model's first block and the engine's norms. @return the exit code */
int plan_kept(const struct plan_args *args, const redco_inputs *inputs);

#endif
