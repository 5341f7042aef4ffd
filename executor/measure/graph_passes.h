/** @file graph_passes.h  Operators of a user's graph as cases to be measured: not one by one, but forward and backward
 *  over and over in the memory that a training step gives them. So each finds caches, and what the processor has
 * learned of its branches, as a step leaves them, and a micro-batch is collated between two passes. */
#ifndef REDCO_MEASURE_GRAPH_PASSES_H
#define REDCO_MEASURE_GRAPH_PASSES_H

#include "executor/measure/suite.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_MEASURED_AS = 24 };

/** The graph of one rank for one micro-batch, and where its micro-batches come from. */
typedef struct redco_measure_graph_of {
    redco_graph *graph;         /**< f32; its collectives are not run, its input "key" is another in every pass */
    const uint32_t *order;      /**< operators as a step runs them, views among them, inputs not */
    uint32_t order_count;       /**< entries of order and of measured_as */
    const redco_value *outputs; /**< loss and gradients */
    uint32_t output_count;
    const char (*measured_as)[REDCO_MEASURED_AS]; /**< rows of the profile; names may repeat; "": no row */
    uint32_t examples;                            /**< size that its rows are of */
    /** Makes a micro-batch. NULL: inputs hold any numbers
     *  @param data  memory of each input, of its whole size */
    redco_status (*next)(void *context, uint32_t examples, void *const *data, redco_error *err);
    void *context;             /**< it, names and sizes of the inputs are borrowed until the list is freed */
    const char *const *inputs; /**< names in the graph, which may lack some */
    const uint64_t *input_bytes;
    uint32_t input_count;
    const char *batch_measured_as; /**< row of a micro-batch: making it and copying it to the device */
} redco_measure_graph_of;

/** A list that owns the graphs of its cases. */
typedef struct redco_measure_ops {
    redco_measure_case *cases;
    size_t count, capacity;
    redcoi_graph_pass **passes;
    size_t pass_count;
} redco_measure_ops;

/** Adds a case for each name.
 *  @param of  the graph is the list's from here on, also after an error; the rest is copied where it says nothing else
 */
redco_status redco_measure_ops_add(redco_measure_ops *ops, const redco_measure_graph_of *of, redco_error *err);
void redco_measure_ops_free(redco_measure_ops *ops); /**< frees its contents */

#ifdef __cplusplus
}
#endif
#endif
