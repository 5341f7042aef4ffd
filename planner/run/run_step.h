/** @file run_step.h  The step of a planned candidate as a run sees it. */
#ifndef REDCO_RUN_STEP_H
#define REDCO_RUN_STEP_H

#include "planner/assemble/inputs.h"
#include "planner/run/run_estimate.h"
#include "planner/search/search.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @param options    that were searched
 *  @param candidate  priced
 *  The band is the question's (redco_calibration.band), wider for a layout beyond the measured ones; 15 % where none is
 *  claimed (5 % on one node whose operators were measured). */
redco_run_step redco_run_step_of(const redco_inputs *inputs, const redco_search_options *options,
                                 const redco_candidate *candidate);

#ifdef __cplusplus
}
#endif
#endif
