/** @file exec_pipeline.h  Pipelines of users: opening one with its data, and writing a new one. */
#ifndef REDCO_TOOLS_EXEC_PIPELINE_H
#define REDCO_TOOLS_EXEC_PIPELINE_H

#include "tools/exec/exec_args.h"

/** Opens the pipeline and its files, before ranks are started; nothing without --pipeline. */
redco_status exec_pipeline_open(struct exec_args *args, redco_error *err);
void exec_pipeline_close(struct exec_args *args);
/** The command line with the options that a pipeline's table has in front. @return to be freed with exec_words_free();
 *  NULL: as it is. What is wrong with a library or its options exec_pipeline_open() says. */
char **exec_pipeline_words(int argc, char **argv, redco_user_pipeline_call *call, int *count_out);
void exec_words_free(char **words); /**< NULL is accepted */

/** Writes the folder of a new pipeline. @return the exit code */
int exec_new_pipeline(const struct cli *cli, const char *name);

#endif
