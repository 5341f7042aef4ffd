/** @file apart.h  Work with a pipeline's library in a process of its own, which it may end, leave, block or crash: the
 * process that started it tells so in one message. Nothing of the library comes into that one. */
#ifndef REDCO_TOOLS_APART_H
#define REDCO_TOOLS_APART_H

#include "executor/pipeline/user_pipeline_calls.h"
#include "tools/cli/cli.h"

#include <stdio.h>

enum { APART_PATH_BYTES = 4096 };

/** Memory that both processes share. */
struct apart {
    redco_user_pipeline_call call; /**< for redco_user_pipeline_open() */
    double timeout_s;              /**< that a function may take */
    redco_error err;               /**< left to the one that started it */
    int code;
    bool done; /**< the work returned: code and err are what it has to say */
    bool ends; /**< it ends itself in order when a signal asks it to; else it is killed */
    /** Called with @p unfinished once no process of the work is left, where it did not return; NULL: there is nothing
     * to remove. */
    void (*clean)(const struct apart *apart);
    char unfinished[2][APART_PATH_BYTES]; /**< paths that the work chose */
};

/** @param apart   call and err for it to use
 *  @param output  the real standard output, for results alone: what a library prints goes to standard error, as all
 * does that is written to stdout, until apart_print()
 *  @return its exit code */
typedef int apart_work(void *context, struct apart *apart, FILE *output);

struct apart_options {
    const char *library; /**< for messages */
    double timeout_s;    /**< at first */
    redco_error *err;    /**< where the work's is wanted; NULL: it prints its own */
};

/** Does the work and waits for it; ends like it where a signal for both ends it. A crash, an end without a return, or a
 *  function that does not return within the time, is REDCO_ESYSTEM: printed, or in @p options err.
 *  @return the exit code of the work, or CLI_SYSTEM */
int apart_run(const struct cli *cli, const struct apart_options *options, apart_work *work, void *context);

/** From here on, stdout is standard output again: for work that tells people what it does. */
void apart_print(FILE *output);

/** Does it in a thread that ends: OpenMP keeps a team of threads for each that had one, and a process that is forked
 *  later from one with a team waits for its threads, which it has not. Without threads it is done here. */
void apart_in_thread(void (*work)(void *context), void *context);

#endif
