/** @file plan_internal.h  Shared inside redco_plan only. */
#ifndef REDCO_PLAN_INTERNAL_H
#define REDCO_PLAN_INTERNAL_H

#include "planner/plan/plan.h"

/** Numbers of a plan against one another; @p name stands for the file in errors. */
redco_status redcoi_plan_consistent(const redco_plan *plan, const char *name, redco_error *err);

/** Equal but for the rounding of REDCO_PLAN_DIGITS digits. */
bool redcoi_plan_close(double a, double b);

/** The ranks over which an expert is data-parallel, as GPUs of a node x nodes: edp of the expert grid (parallel.h) with
 *  the plan's etp and ep. 0x0 where the degrees have no such grid. */
redco_mesh redcoi_plan_expert_replicas(const redco_plan *plan);

/** The member "pipeline" (plan_pipeline.c). */
json_t *redcoi_plan_pipeline_json(const redco_plan *plan);
redco_status redcoi_plan_read_pipeline(const redco_json_value *root, redco_plan *plan, redco_error *err);
/** @return whether schedule, chunks, groups and stages agree. @param pointer_out  static: the member that does not */
redco_status redcoi_plan_check_pipeline(const redco_plan *plan, const char **pointer_out, redco_error *err);

/** The member "evidence", which may be absent (plan_evidence.c). */
redco_status redcoi_plan_read_evidence(const redco_json_value *root, redco_plan *plan, redco_error *err);

/** The member "execution", likewise (plan_execution.c). */
redco_status redcoi_plan_read_execution(const redco_json_value *root, redco_plan *plan, redco_error *err);

#endif
