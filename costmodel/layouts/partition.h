/** @file partition.h  From the graph of a whole model to the graph of one rank of a tensor-parallel group.
 *
 *  The caller says how each parameter lies on the group. Layouts flow through the operators, forward and gradients
 *  alike; where an operator needs another layout than a value has, a collective (or the own part of what is there) is
 *  inserted, once for all that read it. Sums of partial results are added before they are reduced. The graphs of all
 *  ranks have the same operators in the same order; only offsets differ. costmodel/layouts/README.md has the rules. */
#ifndef REDCO_PARTITION_H
#define REDCO_PARTITION_H

#include "costmodel/graph/build_calls.h"
#include "costmodel/layouts/tensor_layout.h"

#ifdef __cplusplus
extern "C" {
#endif

/** The layout of one input: parameters, or any other that does not come whole. */
typedef struct redco_tp_input {
    const char *name;
    redco_tp_layout layout; /**< replicated or split */
    bool activation;        /**< numbers that are gathered like any other; else split ones are weights, which are not */
} redco_tp_input;

/** A value that the rank's graph is to compute. */
typedef struct redco_partition_output {
    redco_value value;
    const char *like; /**< the input whose layout it gets: a parameter, of its gradient; NULL: replicated */
} redco_partition_output;

typedef struct redco_partition_options {
    redco_rank_group group;
    uint32_t rank; /**< in the group */
    /** Inputs that are not named are replicated. */
    const redco_tp_input *inputs;
    uint32_t input_count;
    /** Sequence parallelism (Korthikanti et al., arXiv 2205.05198): activations between the split products are split
     *  along the sequence: those of dimensions [batch, sequence, ...] or [batch * sequence, n]. An all-reduce becomes a
     *  reduce-scatter and an all-gather. Sequences that the group does not divide stay whole. */
    bool sequence_parallel;
    uint64_t batch;
    const uint64_t *sequences; /**< their lengths: one, or those of encoder and decoder */
    uint32_t sequence_count;
} redco_partition_options;

/** @param outputs      values of @p graph
 *  @param local_out    the rank's graph: inputs have their names and the rank's types; the caller frees it
 *  @param outputs_out  output_count values of it
 *  @return REDCO_EVALUE on an input that does not exist, a layout that does not divide its dimension, a rank outside of
 *          the group, or a graph that holds collectives already */
redco_status redco_partition(const redco_graph *graph, const redco_partition_output *outputs, uint32_t output_count,
                             const redco_partition_options *options, redco_graph **local_out, redco_value *outputs_out,
                             redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
