/** @file run_html.h  redco-plan --report of several sizes or clusters, and of phases. */
#ifndef REDCO_TOOLS_RUN_HTML_H
#define REDCO_TOOLS_RUN_HTML_H

#include "planner/run/run_frontier.h"
#include "planner/run/run_phases.h"
#include "tools/plan/plan_args.h"

/** Writes the page whole or not at all; a missing gnuplot is a warning. @param json  of the frontier */
redco_status run_html_frontier(const struct plan_args *args, const redco_frontier *frontier, const json_t *json,
                               redco_error *err);
redco_status run_html_phases(const struct plan_args *args, const redco_phase_answer *answers, uint32_t count,
                             const redco_run_estimate *total, redco_error *err);

#endif
