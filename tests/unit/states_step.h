/** @file states_step.h  A whole step on sharded states, one thing after the other: what the schedule's steps must come
 * to. */
#ifndef REDCO_TESTS_STATES_STEP_H
#define REDCO_TESTS_STATES_STEP_H

#include "executor/states/states.h"

typedef struct gradient_source {
    /** Backward of one module, when the worker's stream is empty. @param weights  gathered, from the second copy if
     * there is one
     *  @param gradient  to be written; memory like that of @p weights */
    redco_status (*gradient)(void *context, redco_micro_batch micro_batch, uint32_t module, const void *weights,
                             void *gradient, redco_error *err);
    void *context;
} gradient_source;

typedef struct step_options {
    uint32_t micro_batches;
    double gradient_scale; /**< 1 / (micro-batches × data-parallel ranks) for a mean of means */
    double learning_rate;
    uint64_t step; /**< from 1 */
} step_options;

/** @param norm_out  of the scaled gradients before clipping, the same on all ranks
 *  @return REDCO_EVALUE if it is not finite: nothing was updated then */
redco_status states_step(redco_states *states, redco_states_worker *worker, const gradient_source *source,
                         const step_options *options, double *norm_out, redco_error *err);

#endif
