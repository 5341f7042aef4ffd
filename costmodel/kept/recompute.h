/** @file recompute.h  From the graph of one rank to a graph that keeps less: what a layer's policy does not save is
 *  computed again in backward, as another copy of its operators ("re/block.3/qkv"). No number changes: the copies read
 *  what the first ones read and are the same kernels.
 *
 *  - none: all that backward reads is kept.
 *  - core_attn: outputs of the attention core are dropped; the core runs again in front of the first operator that
 *    reads one of them.
 *  - full: what a layer made is dropped but for what other layers read: their inputs. When backward enters the layer,
 *    all that it needs of it is computed again, in forward's order, collectives included; what backward does not read,
 *    such as the last product and its sum over ranks, is not.
 *  - where tensor-parallel ranks share sequences, tensors that forward gathered are gathered again (Korthikanti et al.,
 *    arXiv 2205.05198, section 4.2.2), so that each rank keeps its part only: "bwd/block.3/qkv/tp_gather". */
#ifndef REDCO_SCHEDULE_RECOMPUTE_H
#define REDCO_SCHEDULE_RECOMPUTE_H

#include "costmodel/graph/graph.h"
#include "topology/base/sharding.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_recompute_options {
    /** The policy of the layer of that name ("block.3"). NULL: none of all. */
    redco_recompute (*policy)(void *context, const char *layer);
    void *context;
    bool gather_again; /**< gathered activations are not kept: sequence parallelism */
} redco_recompute_options;

/** A new graph of only what @p outputs depend on, operators in the order in which they are to be run.
 *  @param graph        of one rank, gradients included; what is of order 0 is forward
 *  @param graph_out    the caller frees it
 *  @param outputs_out  output_count values of it */
redco_status redco_recompute_graph(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                   const redco_recompute_options *options, redco_graph **graph_out,
                                   redco_value *outputs_out, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
