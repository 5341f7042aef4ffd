/** @file user_pipeline_calls.h  Calls of the functions that a pipeline's table has. Each says what it is in, so that
 * another process can tell which function never returns, or in which one this process ended; and functions that build
 * graphs must build the same ones whenever they are called. */
#ifndef REDCO_USER_PIPELINE_CALLS_H
#define REDCO_USER_PIPELINE_CALLS_H

#include "executor/pipeline/user_pipeline_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Those that the table must have; errors are the function's own. */
redco_status redco_user_pipeline_collate(const redco_user_pipeline_file *file, const json_t *const *examples,
                                         uint32_t count, void *const *data, redco_error *err);
redco_value redco_user_pipeline_predict(const redco_user_pipeline_file *file, redco_scope *scope);
double redco_user_pipeline_weigh(const redco_user_pipeline_file *file, const json_t *example);
double redco_user_pipeline_judge(const redco_user_pipeline_file *file, const json_t *example, const json_t *prediction);
/** @return a new reference; NULL: the function made nothing */
json_t *redco_user_pipeline_output(const redco_user_pipeline_file *file, const json_t *example, const double *values,
                                   uint32_t count);
redco_status redco_user_pipeline_collect(const redco_user_pipeline_file *file, redco_user_collector *collector,
                                         redco_error *err);
/** @return a new reference; NULL: nothing, or there is no such function */
json_t *redco_user_pipeline_report(const redco_user_pipeline_file *file, const redco_user_run *run);

/** The function that a process is in, in memory that other processes may share. @return NULL: in none. Borrowed, and
 *  good in all processes that were forked from one */
const char *redco_user_pipeline_in(const redco_user_pipeline_call *call);
/** Changes whenever a function begins or ends. */
uint64_t redco_user_pipeline_in_number(const redco_user_pipeline_call *call);

#ifdef __cplusplus
}
#endif
#endif
