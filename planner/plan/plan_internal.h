/** @file plan_internal.h  Shared inside redco_plan only. */
#ifndef REDCO_PLAN_INTERNAL_H
#define REDCO_PLAN_INTERNAL_H

#include "planner/plan/plan.h"

/** Numbers of a plan against one another; @p name stands for the file in errors. */
redco_status redcoi_plan_consistent(const redco_plan *plan, const char *name, redco_error *err);

/** Equal but for the rounding of REDCO_PLAN_DIGITS digits. */
bool redcoi_plan_close(double a, double b);

#endif
