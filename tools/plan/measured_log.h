/** @file measured_log.h  --log of redco-plan: what a trainer's log measured, beside what is predicted. */
#ifndef REDCO_TOOLS_MEASURED_LOG_H
#define REDCO_TOOLS_MEASURED_LOG_H

#include "planner/read/run_log.h"
#include "tools/plan/plan_args.h"

/** Seconds of a step that the log measured, from tokens/s where it states those; 0: it states neither. */
double measured_log_step_s(const struct plan_args *args, const redco_run_log *log, const redco_inputs *inputs);
/** For people. @param band  of the prediction; all 0: none is claimed */
void measured_log_report(const struct plan_args *args, const redco_run_log *log, const redco_inputs *inputs,
                         const redco_prediction *predicted, const redco_band *band);
/** "measured" of a JSON document. New reference; NULL when out of memory */
json_t *measured_log_json(const struct plan_args *args, const redco_run_log *log, const redco_inputs *inputs,
                          const redco_prediction *predicted);

#endif
