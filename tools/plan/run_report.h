/** @file run_report.h  An estimate of a run for people: lines (run_report.c) and a section of an HTML page. */
#ifndef REDCO_TOOLS_RUN_REPORT_H
#define REDCO_TOOLS_RUN_REPORT_H

#include "planner/run/run_estimate.h"
#include "tools/cli/cli.h"

#include <stdio.h>

/** Lines below the plan's, on standard output. */
void run_report(const redco_run_estimate *estimate);
/** Warns of a batch above the critical one, and of a table without a price. */
void run_warn(const struct cli *cli, const redco_run_estimate *estimate, const char *gpu, bool price_known);
/** The section "The run". */
void run_html(FILE *out, const redco_run_estimate *estimate);

/** "42.1 days (38.2 to 49.0)", with fewer digits where the band is wide. @return @p buffer */
const char *run_days(const redco_run_figure *days, char *buffer, size_t size);
/** "1.03 M (0.97 M to 1.2 M)". @return @p buffer */
const char *run_large(const redco_run_figure *figure, char *buffer, size_t size);
/** "10.5 min": a time in the unit that suits it. @return @p buffer */
const char *run_time(double seconds, char *buffer, size_t size);

#endif
