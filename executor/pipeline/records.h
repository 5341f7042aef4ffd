/** @file records.h  Examples of a pipeline: JSON lines, each an object that its collate() understands, or a folder of
 * arrays that make such objects (executor/data/record_file.h). Each is read when it is asked for. */
#ifndef REDCO_RECORDS_H
#define REDCO_RECORDS_H

#include "executor/pipeline/user_pipeline_file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_records redco_records;

typedef struct redco_records_options {
    /** Lines that are no JSON objects, lack a target or are refused by collate() are left out and counted, unless all
     * are; else the first of them is the error, before anything is trained. */
    bool skip_bad;
    bool predicted; /**< examples may lack their targets */
} redco_records_options;

/** @param pipeline    borrowed until it is closed
 *  @return REDCO_EVALUE with file and line, also for a collate() that writes behind an input, or that makes something
 *          else of an example when another one stands before it */
redco_status redco_records_open(const char *path, const redco_user_pipeline_file *pipeline,
                                redco_records_options options, redco_records **records_out, redco_error *err);
void redco_records_close(redco_records *records); /**< NULL is accepted */

const redco_user_pipeline_file *redco_records_pipeline(const redco_records *records);
uint64_t redco_records_count(const redco_records *records); /**< at least 1 */
/** The pipeline's weight() of one; 1 without. */
double redco_records_weight(const redco_records *records, uint64_t index);
uint64_t redco_records_skipped(const redco_records *records); /**< lines left out */
/** New reference; NULL when out of memory. */
json_t *redco_records_get(const redco_records *records, uint64_t index);
/** Those at the beginning, at most @p count of them; @p records must outlive them. */
redco_status redco_records_begin(const redco_records *records, uint64_t count, redco_records **records_out,
                                 redco_error *err);

/** Arrays of a batch. @param records_of  numbers of @p count records. @param data  by input; cleared first */
redco_status redco_records_collate(const redco_records *records, const uint64_t *records_of, uint32_t count,
                                   void *const *data, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
