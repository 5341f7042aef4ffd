/** @file exec_predict.h  Files that redco-exec evaluates and continues. */
#ifndef REDCO_TOOLS_EXEC_PREDICT_H
#define REDCO_TOOLS_EXEC_PREDICT_H

#include "tools/exec/exec_args.h"

struct exec_files {
    redco_examples *evaluated, *prompts; /**< for a language model; NULL: there are none */
};

/** Standard output has the predictions and nothing else. */
bool exec_only_predicts(const struct exec_args *args);

/** Warns of records that were left out. */
void exec_files_skipped(const struct exec_args *args, const char *path, uint64_t count);
/** Reads them, before the first step. */
redco_status exec_files_open(const struct exec_args *args, const redco_trainer *trainer, bool leads,
                             struct exec_files *files, redco_error *err);
void exec_files_close(struct exec_files *files);
/** The loss and the metric of --evaluate, into @p use; nothing without it. Every rank calls it, and has the same.
 *  @param pairs  a file for a pipeline's examples and predictions, as --predict writes them; NULL: they are not kept */
redco_status exec_files_evaluate(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                                 const char *pairs, struct exec_use *use, redco_error *err);

/** The fate of predictions. */
enum exec_predicting {
    EXEC_PREDICT_JOIN,  /**< another rank writes them */
    EXEC_PREDICT_WRITE, /**< this one does */
    EXEC_PREDICT_TRY    /**< nobody does, but lines are made */
};
/** The predictions of --predict; nothing without it. Every rank calls it. */
redco_status exec_files_predict(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                                enum exec_predicting what, struct exec_use *use, redco_error *err);

#endif
