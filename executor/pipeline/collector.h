/** @file collector.h  Examples that a pipeline makes itself, by its collect(), and what it remembers for it. Whoever
 * trains says how predictions are made. Every rank has all of it and does the same. */
#ifndef REDCO_COLLECTOR_H
#define REDCO_COLLECTOR_H

#include "executor/pipeline/user_pipeline_file.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Predictions of a batch, from its collated inputs.
 *  @param key         of the random numbers that predict() draws
 *  @param values_out  [count][values]
 *  @return REDCO_EVALUE if predictions have not so many numbers, or are none */
typedef redco_status (*redco_collector_predict)(void *context, uint32_t count, void *const *inputs,
                                                const int32_t key[2], double *values_out, uint32_t values,
                                                redco_error *err);

/** Checks the members of a table that are about it. @param path  for errors @return REDCO_EVALUE */
redco_status redco_collector_check(const redco_user_pipeline *table, const char *path, redco_error *err);

/** @param file  that has collect() or state_bytes; borrowed until it is freed */
redco_status redco_collector_create(const redco_user_pipeline_file *file, uint64_t seed, uint64_t global_batch,
                                    redco_user_collector **collector_out, redco_error *err);
void redco_collector_free(redco_user_collector *collector); /**< NULL is accepted */

/** @return whether the examples of step @p step, from 0, are to be collected first. */
bool redco_collector_due(const redco_user_collector *collector, uint64_t step);
/** Calls collect(). @return REDCO_EVALUE if it fails, or its examples are no whole steps */
redco_status redco_collector_collect(redco_user_collector *collector, uint64_t step, redco_collector_predict predict,
                                     void *context, redco_error *err);
/** A digest of the examples, by which ranks agree. */
uint64_t redco_collector_digest(const redco_user_collector *collector);
/** Arrays of examples @p first to @p first + @p count of the run. */
redco_status redco_collector_batch(const redco_user_collector *collector, uint64_t first, uint32_t count,
                                   void *const *data, redco_error *err);
/** Calls report() for @p steps steps. @return a new reference; NULL: nothing */
json_t *redco_collector_report(redco_user_collector *collector, uint64_t steps);

/** State and examples, for a checkpoint. @return a new reference; NULL when out of memory */
json_t *redco_collector_save(const redco_user_collector *collector);
/** @param place  for errors @return REDCO_EVALUE if it is none of this pipeline */
redco_status redco_collector_load(redco_user_collector *collector, const json_t *saved, const char *place,
                                  redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
