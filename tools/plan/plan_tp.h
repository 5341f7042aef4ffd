/** @file plan_tp.h  The tensor-parallel layout in redco-plan's output: RedCoast's rules against the program. */
#ifndef REDCO_TOOLS_PLAN_TP_H
#define REDCO_TOOLS_PLAN_TP_H

#include "planner/answer/answer.h"
#include "tools/plan/plan_args.h"

#include <jansson.h>

/** One line, where there is something to say. */
void plan_tp_report(const redco_layout_gain *tp, const redco_search_options *options);
/** The table of layers. */
void plan_tp_layers(const redco_layout_gain *tp);
json_t *plan_tp_json(const redco_layout_gain *tp);

#endif
