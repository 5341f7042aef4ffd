/** @file pipeline_work.h  The work of a pipeline's loss and gradients, in symbols of the micro-batch: what its plan is
 *  priced by (costmodel/models/graph_work.h). The graph is built for three micro-batches and, for each degree of tensor
 *  parallelism, laid out by RedCoast's rules or the user's. */
#ifndef REDCO_PIPELINE_WORK_H
#define REDCO_PIPELINE_WORK_H

#include "costmodel/models/graph_work.h"
#include "executor/pipeline/user_pipeline_file.h"
#include "planner/rules/rules_user.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_pipeline_work_options {
    uint32_t most_tp;     /**< degrees 2, 4, ... up to this are laid out; 0 and 1: none */
    bool tp_given;        /**< a degree that cannot be laid out is an error, if it is most_tp; else it is left out */
    uint32_t micro_batch; /**< that the plan will have; 0: not known */
    const redco_user_rules *rules; /**< NULL: RedCoast's alone */
    /** Called for each operator of the local graphs of one rank, f32, with what it is known as: to measure them. The
     *  graph lives for the call. NULL: nothing is */
    redco_status (*see)(void *context, const redco_graph *graph, const redco_op *op, const char *measured_as,
                        redco_error *err);
    void *context;
} redco_pipeline_work_options;

/** The model that redco-plan plans: a config of type "pipeline", with the parameters and the work.
 *  @param config_out  new reference */
redco_status redco_pipeline_model(const redco_user_pipeline_file *file, const redco_pipeline_work_options *options,
                                  json_t **config_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
