/** @file processes.h  Ranks of a world as processes of this machine: forked, connected over sockets. */
#ifndef REDCO_TESTS_PROCESSES_H
#define REDCO_TESTS_PROCESSES_H

#include "executor/comm/communicator.h"

#include <sys/types.h>

enum { PROCESSES_MAX = 8 };

/** The body of a rank. @return its exit status. @p context is the parent's memory as it was when it forked. */
typedef int (*rank_main)(redco_world *world, void *context);

pid_t start_rank(const redco_world_options *options, rank_main run, void *context);
/** @return how many of @p size ranks ended with @p code */
uint32_t run_ranks(uint32_t size, double timeout_s, rank_main run, void *context, int code);

#endif
