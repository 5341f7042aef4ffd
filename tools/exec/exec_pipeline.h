/** @file exec_pipeline.h  Pipelines of users: opening one with its data, and writing a new one. */
#ifndef REDCO_TOOLS_EXEC_PIPELINE_H
#define REDCO_TOOLS_EXEC_PIPELINE_H

#include "tools/exec/exec_args.h"

/** Opens the pipeline and its files, before ranks are started; nothing without --pipeline. */
redco_status exec_pipeline_open(struct exec_args *args, redco_error *err);
void exec_pipeline_close(struct exec_args *args);

/** Writes the folder of a new pipeline. @return the exit code */
int exec_new_pipeline(const struct cli *cli, const char *name);

#endif
