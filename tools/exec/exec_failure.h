/** @file exec_failure.h  Ends a run of several ranks in one message, whoever failed: what ranks report, what they
 *  were doing, and which of it is told. */
#ifndef REDCO_TOOLS_EXEC_FAILURE_H
#define REDCO_TOOLS_EXEC_FAILURE_H

#include "executor/comm/communicator.h"
#include "executor/pipeline/user_pipeline_calls.h"
#include "tools/cli/cli.h"

#include <pthread.h>
#include <stdatomic.h>

/** A rank's words when it fails. */
struct exec_report {
    uint32_t rank;
    int code;      /**< exit code */
    uint64_t step; /**< from 1; 0: before the first */
    bool broken;   /**< communication failed: perhaps through another rank, which ended */
    bool told;     /**< there is nothing to add to what it printed */
    redco_error err;
};

/** The present work of a rank, in memory that the process that started it sees. */
struct exec_slot {
    _Atomic bool returned; /**< the rank came to its end; else a function called exit() */
    int code;              /**< its exit code then: what a library does at the end of its process changes nothing */
    _Atomic uint64_t step;
    atomic_uint current; /**< number of the present one of the two texts */
    char what[2][112];   /**< the last communication that began */
    redco_user_pipeline_call call;
};

/** A rank's connection with the process that started it. */
struct exec_line {
    int pipe;               /**< reports go there; -1: nobody started this rank but mpirun */
    struct exec_slot *slot; /**< NULL likewise */
    double timeout_s;
    pthread_mutex_t lock; /**< streams write one after the other */
    bool reported;
};

/** For redco_world_watch(). @param context  a struct exec_line */
void exec_watch(void *context, const char *what);
/** The work of a rank when it ended. @return "" if not known */
const char *exec_doing(const struct exec_slot *slot);

/** This rank has failed: it reports, or, under mpirun, prints the message if it is the one to do so, and ends all
 *  others if they would wait.
 *  @param world  NULL before there is one
 *  @return its exit code */
int exec_fail(const struct cli *cli, struct exec_line *line, redco_world *world, uint32_t rank, uint64_t step,
              const redco_error *err);

/** Prints a report: "rank 2, step 7: PLACE: what". */
void exec_print_report(const struct cli *cli, const struct exec_report *report);

#endif
