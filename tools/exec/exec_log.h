/** @file exec_log.h  The folder of --log: run.log for people, metrics.jsonl, events for TensorBoard; rank 0 writes
 * them. Nothing that fails here ends the run: the first failure is kept, and told behind the run's results. */
#ifndef REDCO_TOOLS_EXEC_LOG_H
#define REDCO_TOOLS_EXEC_LOG_H

#include "executor/log/event_file.h"
#include "executor/log/metrics_file.h"
#include "tools/exec/exec_report.h"

#include <stdio.h>

struct exec_log {
    const struct exec_run *run;
    FILE *text;
    redco_metrics_file *metrics;
    redco_event_file *events;
    redco_error err; /**< the first error: from then on nothing is written */
};

/** Makes the folder and looks whether it can be logged there, before ranks are started.
 *  @return REDCO_EVALUE if another run's log is there that is not to be gone on with */
redco_status exec_log_check(const char *folder, bool resume, redco_error *err);
/** @param folder  NULL: nothing is logged. @param step  that the run is resumed from, or 0 */
void exec_log_open(struct exec_log *log, const struct exec_run *run, const char *folder, bool resume, uint64_t step);
void exec_log_step(struct exec_log *log, uint64_t number, double epoch, const redco_trainer_step *step);
void exec_log_evaluation(struct exec_log *log, const struct exec_evaluation *evaluation);
__attribute__((format(printf, 2, 3))) void exec_log_line(struct exec_log *log, const char *format, ...);
/** Keeps an error of something else that belongs to the log. */
void exec_log_fail(struct exec_log *log, const redco_error *err);
/** Hands the first error on. */
redco_status exec_log_close(struct exec_log *log, redco_error *err);

/** Tokens a second of all ranks, and the share of the plan's GPUs that it is (NaN: not known). */
double exec_tokens_per_s(const struct exec_run *run, double time_s);
double exec_mfu(const struct exec_run *run, double time_s);

#endif
