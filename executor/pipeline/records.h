/** @file records.h  Examples of a pipeline: JSON lines, each an object that its collate() understands. */
#ifndef REDCO_RECORDS_H
#define REDCO_RECORDS_H

#include "executor/pipeline/user_pipeline_file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_records redco_records;

/** @param skip_bad    lines that are no JSON objects or that collate() refuses are left out and counted, unless all
 * are; else the first of them is the error, before anything is trained
 *  @param pipeline    borrowed until it is closed
 *  @return REDCO_EVALUE with file and line */
redco_status redco_records_open(const char *path, const redco_user_pipeline_file *pipeline, bool skip_bad,
                                redco_records **records_out, redco_error *err);
/** None at first. @param name  stands for a file in errors */
redco_status redco_records_create(const redco_user_pipeline_file *pipeline, const char *name,
                                  redco_records **records_out, redco_error *err);
/** @param example  another reference is taken @return REDCO_EVALUE if it is no object */
redco_status redco_records_add(redco_records *records, json_t *example, redco_error *err);
void redco_records_close(redco_records *records); /**< NULL is accepted */

uint64_t redco_records_count(const redco_records *records);   /**< a file has at least 1 */
uint64_t redco_records_skipped(const redco_records *records); /**< lines left out */
const json_t *redco_records_get(const redco_records *records, uint64_t index);

/** The record that is number @p number of a run: every epoch takes them in another order, which the seed determines. */
uint64_t redco_records_shuffled(const redco_records *records, uint64_t seed, uint64_t number);

/** Arrays of a batch. @param records_of  numbers of @p count records. @param data  by input; cleared first */
redco_status redco_records_collate(const redco_records *records, const uint64_t *records_of, uint32_t count,
                                   void *const *data, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
