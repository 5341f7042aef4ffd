/** @file pipeline_work_internal.h  Graphs of a pipeline for several micro-batches (graph_probes.c), and their sizes in
 *  symbols of the micro-batch (graph_sizes.c): what pipeline_work.c makes its work of. Internal to executor/pipeline.
 */
#ifndef REDCOI_PIPELINE_WORK_INTERNAL_H
#define REDCOI_PIPELINE_WORK_INTERNAL_H

#include "costmodel/layouts/partition.h"
#include "executor/memory_plan/lifetimes.h"
#include "executor/pipeline/pipeline_work.h"

enum { REDCOI_PROBES = 3, REDCOI_FORWARD = 0, REDCOI_BACKWARD = 1, REDCOI_LATER = 2 };

/** The graph of one rank for one micro-batch. */
typedef struct redcoi_probe {
    uint32_t examples;
    redco_task task;
    redco_graph *graph;
    redco_value *outputs; /**< the loss, then the gradients of what is not frozen */
    uint32_t output_count;
    bool *live;
    uint8_t *pass;   /**< by operator */
    uint32_t *order; /**< operators of forward, then of backward */
    uint32_t order_count;
    redco_lifetimes lifetimes;
} redcoi_probe;

typedef struct redcoi_work_maker {
    const redco_user_pipeline_file *file;
    const redco_pipeline_work_options *options;
    const redco_task_parameter *parameters;
    size_t parameter_count;
    const char *place;
    bool *tables;             /**< parameters of which rows are looked up */
    uint8_t *gradient_in;     /**< by parameter: costmodel/models/model.h */
    redco_rules_param *rules; /**< paths and shapes of the parameters */
    redco_tp_layout *layouts; /**< layouts for the degree at work */
    uint32_t tp;
    redcoi_probe probes[REDCOI_PROBES];
    uint32_t probe_count;
    char (*names)[REDCO_MEASURED_NAME]; /**< by place in the orders: what operators are measured as */
    char batch_name[REDCO_MEASURED_NAME];
    redco_graph_work *work;
} redcoi_work_maker;

static inline redco_status redcoi_work_no_memory(const redcoi_work_maker *m, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, m->place, "out of memory");
}

/** The micro-batch of the first probe; the others' are two and three times as large. */
uint32_t redcoi_first_examples(const redcoi_work_maker *m);
/** The graphs of one degree and type. Where they differ by micro-batch, the one that is planned alone. */
redco_status redcoi_probes_make(redcoi_work_maker *m, redco_dtype dtype, redco_error *err);
/** Finds the lifetimes of graphs in 16 bits again, with the workspaces of processors.
 *  @param widened_out  false: those of several micro-batches are not alike */
redco_status redcoi_probes_widen(redcoi_work_maker *m, bool *widened_out, redco_error *err);
void redcoi_probes_free(redcoi_work_maker *m);
/** Finds the passes that hold the gradient of each parameter, in the first probe. */
void redcoi_probes_passes(redcoi_work_maker *m);

/** @param couple_out  whether forward looks at a micro-batch's examples together, as far as the sizes of the first two
 *                     probes tell */
redco_status redcoi_probes_couple(const redcoi_work_maker *m, bool *couple_out, redco_error *err);

redco_status redcoi_work_ops(redcoi_work_maker *m, redco_degree_work *degree, redco_error *err);
/** Shows the graphs to whoever measures them; those that he takes are gone. */
redco_status redcoi_work_show(redcoi_work_maker *m, redco_error *err);
/** Steps that are the fullest of their pass for some micro-batch. @param computed  how the probes are */
redco_status redcoi_work_moments(const redcoi_work_maker *m, redco_computed computed, redco_degree_work *degree,
                                 redco_error *err);
/** The inputs that the graph has, the key of random numbers among them. */
redco_status redcoi_work_inputs(const redcoi_work_maker *m, redco_degree_work *degree, redco_error *err);

#endif
