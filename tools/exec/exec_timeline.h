/** @file exec_timeline.h  The last steps of a rank as a trace. Nothing that fails here ends the run: the first failure
 * is kept, and told behind the run's results. */
#ifndef REDCO_TOOLS_EXEC_TIMELINE_H
#define REDCO_TOOLS_EXEC_TIMELINE_H

#include "tools/cli/cli.h"
#include "tools/exec/exec_report.h"

struct exec_timeline {
    const char *path;      /**< NULL: none is wanted */
    uint64_t steps, shown; /**< steps of the run; steps of the trace, at most */
    uint32_t rank;         /**< the rank that is shown */
    redco_trace *trace;    /**< NULL: of another rank, or none */
    double from_s;         /**< where the next step begins */
    redco_error err;       /**< the first error */
};

/** Only on the rank whose timeline it is. */
void exec_timeline_open(struct exec_timeline *timeline);
/** @return whether this rank adds the step: the last ones, without the first where there are others. */
bool exec_timeline_shows(const struct exec_timeline *timeline, uint64_t step);
void exec_timeline_add(struct exec_timeline *timeline, const redco_trainer *trainer, uint64_t step);
/** Mends what the clock's resolution makes of events that touch, and writes the file. What is wrong by more is a
 * warning that names the two events.
 *  @param backend  whose clock it is, or NULL: the processor's */
void exec_timeline_write(struct exec_timeline *timeline, const struct cli *cli, const struct exec_run *run,
                         const redco_backend *backend);
/** Every rank learns what failed where the timeline was made: without it, rank 0 would not know. Called by all. */
redco_status exec_timeline_agree(struct exec_timeline *timeline, redco_world *world, redco_error *err);
void exec_timeline_close(struct exec_timeline *timeline);

#endif
