/** @file validate_trace.h  The result of redco-validate PLAN TRACE, for its two reports. */
#ifndef REDCO_TOOLS_VALIDATE_TRACE_H
#define REDCO_TOOLS_VALIDATE_TRACE_H

#include "costmodel/simulator/simulate.h"
#include "planner/plan/plan.h"
#include "tools/validate/validate.h"
#include "traces/compare/compare.h"

struct trace_report {
    const struct validate_arguments *arguments;
    const redco_plan *plan;
    const redco_comparison *comparison;
    const redco_trace_load_report *loads; /* report of each trace */
    const char *const *origins;           /* note "source" of each trace, or NULL */
    uint32_t load_count;
    bool passed; /* no bound is broken; without bounds true */
};

/** Peaks of what both sides tell of, else of all. @return false where one of them is not known */
bool trace_report_peaks(const redco_comparison *comparison, double *predicted_bytes, double *measured_bytes);
/** Share of communication beside which something computes; NaN without communication. */
double trace_report_hidden(const redco_compare_time *time);

void trace_report_print(const void *report);
/** NULL when out of memory. */
json_t *trace_report_json(const struct trace_report *report);

#endif
