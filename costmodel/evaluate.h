/** @file evaluate.h  Measured runs as evaluations of the cost model: each row of a table becomes a machine, a model, a
 *  workload, an engine, a setting and a strategy; under a set of constants it gives a prediction. */
#ifndef REDCO_EVALUATE_H
#define REDCO_EVALUATE_H

#include "costmodel/simulate.h"
#include "traces/measured.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a row says, in the cost model's words; plain values. */
typedef struct redco_evaluation_input {
    redco_machine machine;
    redco_model_dims dims;
    redco_workload workload;
    redco_setting setting;
    redco_layer_config config; /**< of every layer */
} redco_evaluation_input;

/** @return REDCO_EVALUE if the cost model cannot express the row: the text says what of it */
redco_status redco_evaluation_input_of(const redco_measured_run *run, redco_evaluation_input *input_out,
                                       redco_error *err);

/** Rows ready to be predicted. Not thread-safe. */
typedef struct redco_evaluations redco_evaluations;

/** @param runs  of one table or several, borrowed for the call. Rows that are not to be used or cannot be expressed
 * keep a reason and are no error. */
redco_status redco_evaluations_create(const redco_measured_run *const *runs, size_t count,
                                      redco_evaluations **evaluations_out, redco_error *err);
void redco_evaluations_free(redco_evaluations *evaluations);

/** Why row @p index is skipped; NULL if it can be predicted. */
const char *redco_evaluations_skip(const redco_evaluations *evaluations, size_t index);
/** Of a row that is not skipped, the inputs. */
const redco_evaluation_input *redco_evaluations_input(const redco_evaluations *evaluations, size_t index);
/** The closed form's prediction of a row that is not skipped. */
redco_prediction redco_evaluations_predict(redco_evaluations *evaluations, size_t index,
                                           const redco_calibration *calibration);
/** The event simulator's, likewise; memory stays the closed form's business. @return REDCO_EVALUE if the row's schedule
 *  cannot be laid out */
redco_status redco_evaluations_simulate(redco_evaluations *evaluations, size_t index,
                                        const redco_calibration *calibration, redco_simulation *simulation_out,
                                        redco_error *err);
/** The row's costs under the constants of the last prediction, for other evaluators of the same row. */
redco_costs *redco_evaluations_costs(redco_evaluations *evaluations, size_t index);

/** Name of the shipped set for a GPU and a class of software: "a100-eager", ...
 *  @param framework  "amsp" has a set of its own on A800s; may be "" */
const char *redco_calibration_set(const redco_gpu *gpu, redco_software software, const char *framework);

#ifdef __cplusplus
}
#endif
#endif
