/** @file plan_args.h  The command line of redco-plan. */
#ifndef REDCO_TOOLS_PLAN_ARGS_H
#define REDCO_TOOLS_PLAN_ARGS_H

#include "planner/assemble/inputs.h"
#include "planner/export/export.h"
#include "planner/search/search.h"
#include "tools/cli/cli.h"

enum { PLAN_MOST_PROFILES = 64, PLAN_MOST_SWEEP = 64, PLAN_MOST_TOP = 1000 };

/** --export KIND[=FILE] */
struct plan_export_choice {
    bool chosen;
    const char *path; /**< NULL: standard output */
};

struct plan_args {
    struct cli cli; /* first: see cli.h */
    redco_input_names names;
    const char *profiles[PLAN_MOST_PROFILES];
    uint64_t gpus; /* 0: not given */
    redco_search_options options;
    uint32_t dims; /* --dims: bits of what may exceed 1; 0: not given */
    bool uniform_given;
    bool compare, explain;
    bool compare_engines;  /* --compare engines */
    bool try_engines;      /* --engine auto */
    char engine_note[400]; /* what that found */
    uint64_t sweep[PLAN_MOST_SWEEP];
    uint32_t sweep_count;
    const char *out;
    const char *timeline;
    const char *report; /* HTML page; NULL: none */
    struct plan_export_choice exports[REDCO_FRAMEWORK_COUNT];
    bool exports_any;
    const char *from; /**< the plan file to export */
    const char *check;
    bool plans; /* an option that --check and --from have no use for was given */
};

/** @param args  set to what the words say; what they leave open has its default
 *  @return CLI_RUN, or the exit code */
int plan_args_parse(int argc, char **argv, struct plan_args *args);

#endif
