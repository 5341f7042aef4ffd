/** @file from_plan.h  Reads what a plan file says about states. */
#ifndef REDCO_STATES_FROM_PLAN_H
#define REDCO_STATES_FROM_PLAN_H

#include "executor/states/shard_layout.h"
#include "planner/plan/plan.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Mesh, scheme and second copy. */
redco_layout_options redco_layout_options_from_plan(const redco_plan *plan);

/** The row of the plan's sharding list that a layer falls under.
 *  @param layer    the simulator's name: "block.3"
 *  @param row_out  borrowed from the plan
 *  @return REDCO_EVALUE if none does */
redco_status redco_plan_layer(const redco_plan *plan, const char *layer, const redco_plan_layers **row_out,
                              redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
