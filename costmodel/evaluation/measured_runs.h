/** @file measured_runs.h  Measured runs as evaluations of the cost model: each row of a table becomes a request
 *  (request.h); under a set of constants it gives a prediction. */
#ifndef REDCO_EVALUATE_H
#define REDCO_EVALUATE_H

#include "costmodel/evaluation/request.h"
#include "traces/measured.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The engine of a row: its framework's file, and otherwise what the row's columns state.
 *  @param file  of the framework, or of flat FSDP where that is unknown */
redco_status redco_engine_of_run(const redco_measured_run *run, const redco_engine_file *file,
                                 redco_engine_choice *choice_out, redco_error *err);

/** Rows ready to be predicted. Not thread-safe. */
typedef struct redco_evaluations redco_evaluations;

/** @param runs  of one table or several, borrowed for the call. Rows that are not to be used or cannot be expressed
 * keep a reason and are no error. */
redco_status redco_evaluations_create(const redco_measured_run *const *runs, size_t count,
                                      redco_evaluations **evaluations_out, redco_error *err);
void redco_evaluations_free(redco_evaluations *evaluations);

/** Why row @p index is skipped; NULL if it can be predicted. */
const char *redco_evaluations_skip(const redco_evaluations *evaluations, size_t index);
/** The request of a row that is not skipped; its calibration is that of the last prediction. Borrowed. */
const redco_request *redco_evaluations_request(const redco_evaluations *evaluations, size_t index);
/** The prices of its collectives, shared with other rows. Borrowed. */
const redco_comm *redco_evaluations_comm(const redco_evaluations *evaluations, size_t index);
/** Name of the shipped set of constants for the row's engine and GPU. */
const char *redco_evaluations_set(const redco_evaluations *evaluations, size_t index);
/** The closed form's prediction of a row that is not skipped. */
redco_prediction redco_evaluations_predict(redco_evaluations *evaluations, size_t index,
                                           const redco_calibration *calibration);
/** The simulator's beside it. @return REDCO_EVALUE if the row's schedule cannot be laid out */
redco_status redco_evaluations_price(redco_evaluations *evaluations, size_t index, const redco_calibration *calibration,
                                     redco_price *price_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
