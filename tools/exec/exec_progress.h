/** @file exec_progress.h  A line on a terminal that says how far a run is. Nothing is written elsewhere. */
#ifndef REDCO_TOOLS_EXEC_PROGRESS_H
#define REDCO_TOOLS_EXEC_PROGRESS_H

#include "tools/exec/exec_report.h"

struct exec_progress {
    bool shown;    /**< standard error is a terminal */
    bool alone;    /**< standard output is one, too: lines of steps would be in the way */
    double step_s; /**< time of recent steps, a moving mean; 0: no step yet */
};

/** @param wanted  by this rank */
struct exec_progress exec_progress_begin(bool wanted);
/** Draws the line anew: after step @p number of @p steps. */
void exec_progress_step(struct exec_progress *progress, const struct exec_run *run, uint64_t number, uint64_t steps,
                        const redco_trainer_step *step);
/** Makes room for other lines; the next step draws it again. */
void exec_progress_clear(const struct exec_progress *progress);

/** The line itself. */
void exec_progress_text(const struct exec_progress *progress, const struct exec_run *run, uint64_t number,
                        uint64_t steps, double loss, char *text, size_t size);

#endif
