/** @file collect.h  Predictions for a pipeline's collect(). Internal to executor/trainer. */
#ifndef REDCOI_COLLECT_H
#define REDCOI_COLLECT_H

#include "executor/trainer/trainer_internal.h"

/** Weights on the processor, and graphs of predictions. @param dtype  of training: predictions are F64 for F64, else
 * F32
 */
redco_status redcoi_policy_create(const redco_user_pipeline_file *file, const redco_task *task, redco_dtype dtype,
                                  redcoi_policy **policy_out, redco_error *err);
void redcoi_policy_free(redcoi_policy *policy); /**< NULL is accepted */
/** Where a parameter's values are written, in the policy's type. */
void *redcoi_policy_weights(const redcoi_policy *policy, size_t parameter);
/** A redco_collector_predict. @param context  the policy */
redco_status redcoi_policy_predict(void *context, uint32_t count, void *const *inputs, const int32_t key[2],
                                   double *values_out, uint32_t values, redco_error *err);

/** Before a step: collects its examples if they are due. */
redco_status redcoi_trainer_collect(redco_trainer *trainer, redco_error *err);

#endif
