/** @file run_events.h  A run played failure by failure: the process of reliability.h, where losses are too large for
 * its first-order terms. Time is whole microseconds, so that the parts add up to the wall clock exactly. Same seed,
 * same run. Pure functions. */
#ifndef REDCO_RUN_EVENTS_H
#define REDCO_RUN_EVENTS_H

#include "planner/run/reliability.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Microseconds: wall, a clock of its own, is the sum of the four parts. */
typedef struct redco_run_events {
    int64_t wall_us, compute_us, checkpoint_us, failures_us, restart_us;
    uint64_t failures;
} redco_run_events;

enum { REDCO_MOST_FAILURES = 2000000 /**< failures of one run that is played */ };

/** Plays until @p work_s of productive time are done.
 *  @param r  checked
 *  @return REDCO_EINFEASIBLE when it gets no further: REDCO_MOST_FAILURES */
redco_status redco_run_play(const redco_reliability *r, double work_s, uint64_t seed, redco_run_events *out,
                            redco_error *err);

/** Mean shares of @p runs runs, with seeds @p seed, @p seed + 1, ... */
redco_status redco_run_play_many(const redco_reliability *r, double work_s, uint32_t runs, uint64_t seed,
                                 redco_time_split *split_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
