/** @file exec_ranks.h  Ranks of a run: those of mpirun, or processes of this machine that are started here. */
#ifndef REDCO_TOOLS_EXEC_RANKS_H
#define REDCO_TOOLS_EXEC_RANKS_H

#include "executor/comm/communicator.h"
#include "tools/cli.h"

/** Whether mpirun started this process, as what of how many ranks. */
bool exec_under_mpi(uint64_t *rank_out, uint64_t *ranks_out);

/** What a rank does. @param world  as options say, not yet opened. @return its exit code */
typedef int (*exec_rank)(const redco_world_options *options, void *context);

enum { EXEC_RANKS_MAX = 256 };

/** Starts ranks 0 to @p count - 1 as processes that find each other over sockets, and waits for all. They end with
 *  this process. One that a signal ended is reported here.
 *  @return 0, or the exit code of the first that failed */
int exec_start_ranks(const struct cli *cli, uint32_t count, exec_rank run, void *context);

#endif
