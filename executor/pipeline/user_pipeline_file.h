/** @file user_pipeline_file.h  Opens a pipeline's shared library, and what redco makes of it: a task to train, a model
 * to plan, examples to collate. */
#ifndef REDCO_USER_PIPELINE_FILE_H
#define REDCO_USER_PIPELINE_FILE_H

#include "costmodel/models/language_model.h"
#include "executor/pipeline/user_pipeline.h"
#include "topology/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_user_pipeline_file redco_user_pipeline_file;

/** The function that a process is in: user_pipeline_calls.h. All zero at first. */
typedef struct redco_user_pipeline_call {
    const char *function;
    uint64_t number;
    int process; /**< calls of others, which were forked from it, are not told */
} redco_user_pipeline_call;

/** Loads it and calls describe(). What the library does to this process, it does: it may end it, or not return.
 *  @param call  is told of every call, also where another process looks; NULL: nobody does. Borrowed until the file is
 *               closed
 *  @return REDCO_EIO if it cannot be loaded; REDCO_EVALUE for another ABI version, a table that lacks something, or
 *          parameters and inputs that cannot be */
redco_status redco_user_pipeline_open(const char *path, redco_user_pipeline_call *call,
                                      redco_user_pipeline_file **file_out, redco_error *err);
/** The same of a table in memory, which is borrowed. @param name  stands for the file in errors */
redco_status redco_user_pipeline_describe(const redco_user_pipeline *table, const char *name,
                                          redco_user_pipeline_call *call, redco_user_pipeline_file **file_out,
                                          redco_error *err);
/** Tells another one from here on: that of a process which this one became. */
void redco_user_pipeline_watch(redco_user_pipeline_file *file, redco_user_pipeline_call *call);
void redco_user_pipeline_close(redco_user_pipeline_file *file); /**< NULL is accepted */

const redco_user_pipeline *redco_user_pipeline_of(const redco_user_pipeline_file *file);

/** The first target that an example lacks; NULL: it has all. Borrowed. */
const char *redco_user_pipeline_missing(const redco_user_pipeline_file *file, const json_t *example);

/** The language model that continues prompts; NULL: none does. Borrowed. */
const redco_language_model *redco_user_pipeline_generator(const redco_user_pipeline_file *file);

/** The task of micro-batches of @p examples.
 *  @param file      must outlive the task
 *  @param task_out  to be freed with redco_user_pipeline_task_free() */
redco_status redco_user_pipeline_task(const redco_user_pipeline_file *file, uint32_t examples, redco_task *task_out,
                                      redco_error *err);
void redco_user_pipeline_task_free(redco_task *task); /**< an all-zero one is accepted */

/** @return REDCO_EVALUE if a trained parameter has a gradient of zeros, whatever the examples are */
redco_status redco_user_pipeline_check_gradients(const redco_user_pipeline_file *file, const redco_task_graph *built,
                                                 redco_error *err);
/** Builds loss and gradients several times, which must be the same: the first place where a loss function's errors are
 * seen. */
redco_status redco_user_pipeline_try(const redco_user_pipeline_file *file, uint32_t examples, redco_error *err);
const char *redco_user_pipeline_path(const redco_user_pipeline_file *file); /**< as it was opened */
/** Checks that a plan's model is this pipeline's. @param place  path of the plan, for errors */
redco_status redco_user_pipeline_check_model(const redco_user_pipeline_file *file, const json_t *config,
                                             const char *place, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
