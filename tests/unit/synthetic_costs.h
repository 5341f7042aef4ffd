/** @file synthetic_costs.h  A mock library for costmodel/closed_form/closed_form.c in tests of the search: the same
 * shape (linear in layers, two windows, transient buffers), seeded noise on every coefficient, no model files. Link it
 * instead of the cost model. */
#ifndef REDCO_SYNTHETIC_COSTS_H
#define REDCO_SYNTHETIC_COSTS_H

#include "costmodel/closed_form/closed_form.h"

typedef struct synthetic {
    redco_machine machine;
    redco_model *model;
    redco_calibration calibration; /**< fitted_rows is the seed; memory_traffic_factor NaN poisons one coefficient */
    redco_workload workload;
} synthetic;

/** LLaMA-like: embedding, @p layers blocks of @p block_params, head; @p encoder_layers > 0 adds a second block class.
 *  The model is freed with synthetic_free(). */
synthetic synthetic_create(uint32_t nodes, uint32_t gpus_per_node, uint32_t layers, uint32_t encoder_layers,
                           uint64_t block_params, uint64_t global_batch, uint32_t seed);
void synthetic_free(synthetic *s);

#endif
