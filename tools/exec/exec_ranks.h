/** @file exec_ranks.h  Ranks of a run: those of mpirun, or processes of this machine that are started here. */
#ifndef REDCO_TOOLS_EXEC_RANKS_H
#define REDCO_TOOLS_EXEC_RANKS_H

#include "tools/exec/exec_failure.h"

/** The body of a rank. @param world  as options say, not yet opened. @return its exit code */
typedef int (*exec_rank)(const redco_world_options *options, struct exec_line *line, void *context);

enum { EXEC_RANKS_MAX = 256 };

/** Starts ranks 0 to @p count - 1 as processes that find each other over sockets, and waits for all. They end with
 *  this process. When one fails, is ended by a signal or stays stopped for the time-out, the others have a moment to
 *  say what they saw and are ended; then one message is printed. A signal that ends this process ends them first.
 *  @param cleanup  called when no rank is left after a failure; may be NULL
 *  @return 0, or the exit code of the rank whose message it was */
int exec_start_ranks(const struct cli *cli, uint32_t count, double timeout_s, exec_rank run, void (*cleanup)(void *),
                     void *context);

#endif
