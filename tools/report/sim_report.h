/** @file sim_report.h  The output of redco-sim: a summary for people, one JSON document for programs. */
#ifndef REDCO_TOOLS_SIM_REPORT_H
#define REDCO_TOOLS_SIM_REPORT_H

#include "costmodel/simulator/simulate.h"
#include "planner/assemble/assemble.h"

/** A simulated plan. */
struct sim_answer {
    const redco_plan *plan;
    const redco_plan_case *reopened; /* with the overlap simulated */
    redco_prediction closed;         /* the closed form's, for the same overlap */
    redco_simulation simulation;
    uint32_t chunks;
};

/** @return false when out of memory */
bool sim_report(const struct sim_answer *answer);
/** NULL when out of memory. */
json_t *sim_json(const struct sim_answer *answer);

#endif
