/** @file profile_pipeline.h  Pipelines of users whose operators are measured beside the usual list. */
#ifndef REDCO_TOOLS_PROFILE_PIPELINE_H
#define REDCO_TOOLS_PROFILE_PIPELINE_H

#include "executor/measure/graph_ops.h"

enum { PROFILE_BATCHES_MAX = 8 };

/** The questions about one pipeline. */
struct profile_pipeline {
    uint32_t
        micro_batches[PROFILE_BATCHES_MAX]; /**< micro-batches of the plans that are meant; none: 8 and multiples */
    uint32_t micro_batch_count;
    uint32_t most_tp;
};

/** Adds the operators of loss and gradients, of each micro-batch and degree of tensor parallelism. */
redco_status profile_pipeline_add(const char *path, const struct profile_pipeline *of, redco_measure_ops *ops,
                                  redco_error *err);

#endif
