/** @file plan_args.h  The command line of redco-plan. */
#ifndef REDCO_TOOLS_PLAN_ARGS_H
#define REDCO_TOOLS_PLAN_ARGS_H

#include "planner/answer/question.h"
#include "planner/export/export.h"
#include "planner/read/read.h"
#include "tools/cli/cli.h"
#include "tools/plan/run_args.h"

enum { PLAN_MOST_PROFILES = 64, PLAN_MOST_TOP = 1000, PLAN_OPTIONS = 90 };

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
    uint32_t dp;          /**< --dp; 0: not given */
    const char *pipeline; /**< a shared library instead of a model; NULL: none */
    bool uniform_given;
    bool precisions; /* --precision auto */
    bool compare, explain, kept, memory;
    bool compare_engines; /* --compare engines */
    bool run_here;        /**< for this machine's processors, measured in a moment */
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
    const char *read[REDCO_READ_FILES]; /**< --read */
    uint32_t read_count;
    const char *write;               /**< the file of --read, changed; NULL: not written */
    const char *log;                 /**< --log; NULL: none */
    const char *rescale;             /**< --rescale, likewise */
    const char *read_as;             /**< --read-as; NULL: by content */
    redco_reading *reading;          /**< their content; NULL without --read. Lives until the program ends */
    const char *given[PLAN_OPTIONS]; /**< names of options that were given */
    size_t given_count;
    bool plans; /* an option that --check and --from have no use for was given */
};

/** Sets the options that the files of --read say in @p fresh: trainer_files_apply(). */
typedef redco_status (*plan_args_reader)(const struct plan_args *given, struct plan_args *fresh, redco_error *err);

/** @param args  set to what the words say, and before them what files say; what both leave open has its default
 *  @return CLI_RUN, or the exit code */
int plan_args_parse(int argc, char **argv, plan_args_reader reader, struct plan_args *args);

/** @return whether the command line gives an option, named without dashes */
bool plan_args_given(const struct plan_args *args, const char *option);
/** Sets an option as the command line would; a failure stands in args->cli.err. */
error_t plan_args_set(struct plan_args *args, const char *option, const char *value);

#endif
