/** @file plan_args.h  The command line of redco-plan. */
#ifndef REDCO_TOOLS_PLAN_ARGS_H
#define REDCO_TOOLS_PLAN_ARGS_H

#include "planner/answer/question.h"
#include "planner/export/export.h"
#include "tools/cli/cli.h"
#include "tools/plan/run_args.h"

enum { PLAN_MOST_PROFILES = 64, PLAN_MOST_TOP = 1000, PLAN_OPTIONS = 80 };

/** --export KIND[=FILE] */
struct plan_export_choice {
    bool chosen;
    const char *path; /**< NULL: standard output */
};

struct plan_args {
    struct cli cli; /* first: see cli.h */
    redco_question question;
    const char *profiles[PLAN_MOST_PROFILES];
    uint32_t dims;        /* --dims: REDCO_HAS_... of what may exceed 1; 0: not given */
    const char *pipeline; /**< a shared library instead of a model; NULL: none */
    bool uniform_given;
    bool precisions; /* --precision auto */
    bool compare, explain, kept, memory;
    bool compare_engines; /* --compare engines */
    const char *out;
    const char *timeline;
    const char *report; /* HTML page; NULL: none */
    struct plan_export_choice exports[REDCO_FRAMEWORK_COUNT];
    bool exports_any;
    const char *from; /**< the plan file to export */
    const char *check;
    struct run_args run;
    struct argp_option options[PLAN_OPTIONS];
    char strategy_help[256];
    bool plans; /* an option that --check and --from have no use for was given */
};

/** @param args  set to what the words say; what they leave open has its default
 *  @return CLI_RUN, or the exit code */
int plan_args_parse(int argc, char **argv, struct plan_args *args);

#endif
