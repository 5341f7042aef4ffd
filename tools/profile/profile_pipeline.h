/** @file profile_pipeline.h  Pipelines of users whose operators are measured beside the usual list. */
#ifndef REDCO_TOOLS_PROFILE_PIPELINE_H
#define REDCO_TOOLS_PROFILE_PIPELINE_H

#include "executor/measure/graph_passes.h"
#include "executor/pipeline/user_pipeline_file.h"

enum { PROFILE_BATCHES_MAX = 8 };

/** The questions about one pipeline. */
struct profile_pipeline {
    const char *path, *data;       /**< data NULL: micro-batches are not measured */
    const uint32_t *micro_batches; /**< micro-batches of the plans that are meant; none: 8 and multiples */
    uint32_t micro_batch_count;
    uint32_t most_tp;
    redco_user_pipeline_call *call; /**< is told of calls of its functions; NULL: nobody is */
};

/** Cases, and what they read while they are measured. */
struct profile_pipelines {
    redco_measure_ops ops;
    struct profile_source *sources; /**< pipelines that are open */
    struct profile_batches *batches;
};

/** Adds the operators of loss and gradients, of each micro-batch and degree of tensor parallelism. */
redco_status profile_pipeline_add(struct profile_pipelines *pipelines, const struct profile_pipeline *of,
                                  redco_error *err);
void profile_pipelines_free(struct profile_pipelines *pipelines); /**< frees its contents */

#endif
