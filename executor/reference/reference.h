/** @file reference.h  Training on one rank, operator by operator, without schedule, layouts or shards: what everything
 *  later is compared with, and enough for small models. */
#ifndef REDCO_REFERENCE_H
#define REDCO_REFERENCE_H

#include "costmodel/models/task.h"
#include "executor/backend/backend.h"
#include "executor/optimizer/optimizer.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_reference redco_reference;

typedef struct redco_reference_options {
    redco_dtype parameter; /**< storage of what the model computes with */
    redco_dtype compute;
    redco_dtype master;     /**< F32 or F64: weights that the optimizer moves, its states, sums of gradients */
    uint32_t micro_batches; /**< in a step, whose gradients are averaged */
    redco_optimizer optimizer;
    bool decay_matrices; /**< weight decay is for parameters of two dimensions and more alone */
} redco_reference_options;

/** Master weights are zero until redco_reference_master() is written.
 *  @param backend, task  borrowed until it is freed */
redco_status redco_reference_create(redco_backend *backend, const redco_task *task,
                                    const redco_reference_options *options, redco_reference **reference_out,
                                    redco_error *err);
void redco_reference_free(redco_reference *reference); /**< NULL is accepted */

/** A parameter's master weights, in the program's memory, of the task's dimensions; may be written between steps. */
void *redco_reference_master(redco_reference *reference, size_t parameter);
/** Its states (redco_optimizer_states() of them), and the gradient of the last step, not clipped. */
void *redco_reference_state(redco_reference *reference, size_t parameter, uint32_t state);

/** The results of a step. */
typedef struct redco_reference_step {
    double loss;          /**< mean over its micro-batches */
    double gradient_norm; /**< norm of all gradients together, before clipping */
} redco_reference_step;

/** One step.
 *  @param inputs  micro_batches times task->input_count addresses of dense data, micro-batch by micro-batch
 *  @param keys    micro_batches pairs for random operators; NULL if the loss has none
 *  @return REDCO_EVALUE if loss or gradients are not finite; weights and states are then as before */
redco_status redco_reference_train(redco_reference *reference, const void *const *inputs, const int32_t (*keys)[2],
                                   double learning_rate, redco_reference_step *step_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
