/** @file fuse.h  Elementwise operators that stand together become one (REDCO_OP_POINTWISE, pointwise.h), so that what
 *  they hand to each other is not written to memory and read again, and what several of them read is read once.
 *
 *  - Only operators of one layer, name, order, copy and side are fused: timelines and what binds to the step's
 * operators (schedule/bind.c) see the same names. Never across products, reductions, moves and collectives; never
 * constants, which become part of a program.
 *  - Fused operators stand where the last of them stood, and only where nobody else needs one of their values before.
 *  - A fusion is made if fewer bytes are moved: of all that an operator could join, what saves most. Values that others
 *    read become further results, at most REDCO_OUTPUTS_MAX.
 *  - Nowhere between its parts does a fusion hold more bytes than they held.
 *  - A value that is cheap to make of what its reader reads anyway (the activated gate of a gated FFN, in backward) is
 *    made there again and not kept, whatever forward and backward it is between.
 *
 *  Not one bit of a result changes. The pass comes last: after differentiation, layouts, recomputation and the fusion
 * of products. */
#ifndef REDCO_GRAPH_FUSE_H
#define REDCO_GRAPH_FUSE_H

#include "costmodel/graph/fuse_choice.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_fuse_options {
    redco_fuse_choice choice; /**< supports: NULL for all */
    bool keep_all;            /**< nothing is recomputed */
} redco_fuse_options;

/** A new graph of only what @p outputs depend on; names, orders, copies and origins are kept. Fusing it again gives the
 *  same graph.
 *  @param options      NULL for all zero
 *  @param graph_out    the caller frees it
 *  @param outputs_out  output_count values of it */
redco_status redco_graph_fuse(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                              const redco_fuse_options *options, redco_graph **graph_out, redco_value *outputs_out,
                              redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
