/** @file block.h  One forward and backward of a model of a family, by the graph that redco-exec trains, timed operator
 * by operator: what a profile's prediction is held against. */
#ifndef REDCO_MEASURE_BLOCK_H
#define REDCO_MEASURE_BLOCK_H

#include "costmodel/graph/op_roles.h"
#include "costmodel/models/model.h"
#include "executor/measure/measure.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A micro-batch. */
typedef struct redco_measure_shape {
    uint32_t micro_batch, seq_len;
} redco_measure_shape;

/** A LLaMA model of hidden, ffn, layers, heads, kv_heads and vocab of @p dims.
 *  @param model_out  freed with redco_model_free() */
redco_status redco_measure_llama(const redco_model_dims *dims, redco_model **model_out, redco_error *err);

enum { REDCO_MEASURE_NAMES_MAX = 32 };

/** Least seconds of the operators of one role, over all layers. */
typedef struct redco_measure_name {
    redco_op_role role;
    double forward_s, backward_s;
} redco_measure_name;

typedef struct redco_measure_step {
    redco_measure_name names[REDCO_MEASURE_NAMES_MAX];
    uint32_t count;
    double total_s; /**< all runs */
    double wall_s;  /**< the fastest whole run */
} redco_measure_step;

/** In single precision; fused where the measurer is told to.
 *  @param model  of a family of language_model.h */
redco_status redco_measure_model_step(redco_measurer *measurer, const redco_model *model,
                                      const redco_measure_shape *shape, redco_measure_step *step_out, redco_error *err);

/** Operators that a device is told to do for one block of layers of a LLaMA model in bf16, forward and backward, fused
 *  as far as @p backend has what they become: what the program's time for a launch is multiplied by. */
redco_status redco_measure_block_operators(redco_backend *backend, uint32_t *forward_out, uint32_t *backward_out,
                                           redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
