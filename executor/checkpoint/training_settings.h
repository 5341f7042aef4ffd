/** @file training_settings.h  The optimizer's settings in checkpoints: resuming with different ones is reported. Names
 * are those of redco-exec's options. Pure. */
#ifndef REDCO_TRAINING_SETTINGS_H
#define REDCO_TRAINING_SETTINGS_H

#include "costmodel/models/task.h"
#include "executor/optimizer/optimizer.h"
#include "executor/optimizer/rate.h"

#include <jansson.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_training_settings {
    redco_optimizer optimizer;
    redco_rate_schedule schedule;
    double learning_rate;
    bool decay_matrices;    /**< weight decay is for parameters of two dimensions and more */
    const redco_task *task; /**< its trained parameters may have settings of their own; borrowed */
} redco_training_settings;

/** Those that have an effect: {"beta1": 0.9, ..., "own": {"out.weight": {"beta1": 0.5}}}.
 *  @return a new reference; NULL when out of memory */
json_t *redco_training_settings_json(const redco_training_settings *settings);

/** Says what is different: "--beta1 0.5 (was 0.9), beta1 of out.weight 0.5 (was not given) and 2 more".
 *  @param then, now  of redco_training_settings_json(); what is of another form says nothing
 *  @param text       "" if nothing is
 *  @return the number of differences */
size_t redco_training_settings_changes(const json_t *then, const json_t *now, char *text, size_t size);

#ifdef __cplusplus
}
#endif
#endif
