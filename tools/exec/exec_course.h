/** @file exec_course.h  The course of a run: epochs, evaluations between steps, the best checkpoint, where its numbers
 *  are logged. */
#ifndef REDCO_TOOLS_EXEC_COURSE_H
#define REDCO_TOOLS_EXEC_COURSE_H

#include "tools/exec/exec_args.h"
#include "tools/exec/exec_predict.h"

/** Reads an option of EXEC_COURSE_OPTIONS. @return ARGP_ERR_UNKNOWN for another key */
error_t exec_course_option(struct exec_args *args, int key, const char *text);
/** Options that do not go together. */
error_t exec_course_check(struct exec_args *args);

/** The examples of an epoch, and with --epochs the steps of the run: once data are open, before ranks are started. */
redco_status exec_course_resolve(struct exec_args *args, redco_error *err);
/** Epochs that are done after so many steps; NaN: data are made and have none. */
double exec_course_epoch(const struct exec_args *args, uint64_t steps);
/** @return whether there is an evaluation after this step */
bool exec_course_evaluates(const struct exec_args *args, uint64_t step);

/** Facts that ranks must have alike. */
void exec_course_facts(const struct exec_args *args, struct exec_facts *facts);

/** Evaluates some examples and predicts some, to see that it can be done, before the first step. */
redco_status exec_course_try(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                             redco_error *err);
/** An evaluation, added to @p use. Every rank calls it, and has the same.
 *  @param leads  this rank writes a pipeline's examples and predictions into the folder of --log
 *  @param best   the best checkpoint so far; it is this step's if the evaluation is the best of all */
redco_status exec_course_evaluate(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                                  uint64_t step, bool leads, struct exec_use *use, redco_checkpoint_best *best,
                                  redco_error *err);

#endif
