/** @file run_args.h  Options of redco-plan on a whole run: tokens, failures, prices, deadlines. */
#ifndef REDCO_TOOLS_RUN_ARGS_H
#define REDCO_TOOLS_RUN_ARGS_H

#include "planner/run/run_terms.h"

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

enum { RUN_MOST_CLUSTERS = 16, RUN_CLUSTER_TEXT = 1024 };

enum run_objective { RUN_TIME_TO_TRAIN, RUN_COST, RUN_ENERGY };

struct run_args {
    redco_run_words words;
    const char *term;          /* the first option given that is a term of a run, "--price" say; NULL: none */
    const char *file;          /* --run */
    const char *compared[2];   /* --compare-runs */
    double deadline_s, budget; /* 0: none */
    bool objective_given;
    enum run_objective objective;
    bool sizes; /* --gpus gives several: question.sizes */
    const char *clusters[RUN_MOST_CLUSTERS];
    uint32_t cluster_count; /* 0: one, as for any plan */
    char cluster_text[RUN_CLUSTER_TEXT];
};

struct plan_args;

/** Parses these options; its input is a struct plan_args. */
extern const struct argp run_argp;

/** "256..16384" (doubling) or "256,512,1024". @return whether it is such a list; then it was taken, or is an error */
bool run_args_sizes(struct plan_args *args, const char *text, error_t *why);
/** --objective time-to-train, cost, energy. @return whether it is one */
bool run_args_objective(struct plan_args *args, const char *text);
/** Splits --cluster a,b,c where a run is asked for. */
void run_args_clusters(struct plan_args *args);
/** Options that contradict one another; fails by cli_bad_option(). @return whether there was an error */
bool run_args_contradict(struct plan_args *args);
/** @return whether the answer is a list of sizes or clusters. */
bool run_args_frontier(const struct plan_args *args);

#endif
