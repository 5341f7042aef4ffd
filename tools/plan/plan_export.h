/** @file plan_export.h  --export of redco-plan: a plan for other frameworks, in files or on standard output. */
#ifndef REDCO_TOOLS_PLAN_EXPORT_H
#define REDCO_TOOLS_PLAN_EXPORT_H

#include "planner/plan/plan.h"
#include "tools/plan/plan_args.h"

/** KIND or KIND=FILE; records an option's error. */
error_t plan_export_option(struct plan_args *args, const char *text);

/** Checks that the files can be written. */
redco_status plan_export_writable(const struct plan_args *args, redco_error *err);

/** True when an export is what standard output is for. */
bool plan_export_prints(const struct plan_args *args);

/** Makes all exports; then writes those that have files, prints the one that has none, and warns of what a framework
 * cannot express.
 *  @param name         of the plan, for errors
 *  @param exports_out  with --json: the reports, a new reference to an array; else not written */
redco_status plan_export(const struct plan_args *args, const redco_plan *plan, const char *name, json_t **exports_out,
                         redco_error *err);

/** A line for each file written. */
void plan_export_print_written(const struct plan_args *args);

/** --from: an existing plan file. @return the exit code */
int plan_export_file(const struct plan_args *args);

#endif
