/** @file plan_peak.h  redco-plan --memory: the peak of the fullest GPU, part by part. */
#ifndef REDCO_TOOLS_PLAN_PEAK_H
#define REDCO_TOOLS_PLAN_PEAK_H

#include "tools/plan/plan_args.h"

/** Prints the table, largest first, and the three numbers that people compare with. */
void plan_peak(const redco_inputs *inputs, const redco_search_options *options, const redco_candidate *best);

#endif
