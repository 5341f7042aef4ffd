/** @file plan_layouts.h  From a plan's rules, which name modules as Flax does, to layouts of the parameters that
 *  redco-exec trains. */
#ifndef REDCO_PLAN_LAYOUTS_H
#define REDCO_PLAN_LAYOUTS_H

#include "costmodel/layouts/tensor_layout.h"
#include "costmodel/models/model.h"
#include "costmodel/models/task.h"
#include "planner/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Lays the task's parameters onto the plan's tensor-parallel ranks.
 *  @param place        of the plan, for errors
 *  @param layouts_out  one for each parameter
 *  @return REDCO_EVALUE: no rule matches a parameter, or parts would be uneven */
redco_status redco_plan_layouts(const redco_plan *plan, const char *place, const redco_model *model,
                                const redco_task *task, redco_tp_layout *layouts_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
