/** @file pipeline_work.h  The work of a pipeline's loss and gradients, in symbols of the micro-batch: what its plan is
 *  priced by (costmodel/record/graph_work.h). The graph is built for three micro-batches and, for each degree of tensor
 *  parallelism, laid out by RedCoast's rules or the user's. */
#ifndef REDCO_PIPELINE_WORK_H
#define REDCO_PIPELINE_WORK_H

#include "costmodel/record/graph_work.h"
#include "executor/pipeline/user_pipeline_file.h"
#include "planner/rules/rules_user.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The local graph of one rank for one micro-batch, f32. All is borrowed for the call but for the graph. */
typedef struct redco_pipeline_graph {
    redco_graph *graph;    /**< NULL where it was taken */
    const uint32_t *order; /**< operators of forward, then of backward, views among them */
    uint32_t order_count;
    const redco_value *outputs; /**< loss and gradients */
    uint32_t output_count;
    const char (*measured_as)[REDCO_MEASURED_NAME]; /**< by place in the order; "" of views and collectives */
    const char *batch_measured_as;                  /**< likewise, making a micro-batch */
    uint32_t examples;
} redco_pipeline_graph;

typedef struct redco_pipeline_work_options {
    uint32_t most_tp;     /**< degrees 2, 4, ... up to this are laid out; 0 and 1: none */
    bool tp_given;        /**< a degree that cannot be laid out is an error, if it is most_tp; else it is left out */
    uint32_t micro_batch; /**< that the plan will have; 0: not known */
    const redco_user_rules *rules; /**< NULL: RedCoast's alone */
    /** Called for the graph of each micro-batch and degree, to measure its operators: may take the graph. NULL: none is
     *  shown */
    redco_status (*see)(void *context, redco_pipeline_graph *graph, redco_error *err);
    void *context;
    /** NULL, or told whether the loss looks at examples together: pairs of them, or a statistic that comes back to
     * each. It is then another one for other micro-batches. */
    bool *couples_out;
} redco_pipeline_work_options;

/** The model that redco-plan plans: a config of type "pipeline", with the parameters and the work.
 *  @param config_out  new reference */
redco_status redco_pipeline_model(const redco_user_pipeline_file *file, const redco_pipeline_work_options *options,
                                  json_t **config_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
