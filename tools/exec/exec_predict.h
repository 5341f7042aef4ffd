/** @file exec_predict.h  Files that redco-exec evaluates and continues. */
#ifndef REDCO_TOOLS_EXEC_PREDICT_H
#define REDCO_TOOLS_EXEC_PREDICT_H

#include "tools/exec/exec_args.h"

struct exec_files {
    redco_examples *evaluated, *prompts; /**< for a language model; NULL: there are none */
};

/** Standard output has the predictions and nothing else. */
bool exec_only_predicts(const struct exec_args *args);

/** Reads them, before the first step. */
redco_status exec_files_open(const struct exec_args *args, const redco_trainer *trainer, struct exec_files *files,
                             redco_error *err);
void exec_files_close(struct exec_files *files);
/** After the last step. Every rank calls it. @param leads  this one writes */
redco_status exec_files_use(const struct exec_args *args, const struct exec_files *files, redco_trainer *trainer,
                            bool leads, struct exec_use *use, redco_error *err);

#endif
