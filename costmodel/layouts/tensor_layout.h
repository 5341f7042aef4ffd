/** @file tensor_layout.h  The layout of a tensor on the ranks of a tensor-parallel group. Pure functions. */
#ifndef REDCO_PARTITION_LAYOUT_H
#define REDCO_PARTITION_LAYOUT_H

#include "costmodel/graph/type.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_tp_kind {
    REDCO_TP_REPLICATED, /**< every rank has all of it */
    REDCO_TP_SPLIT,      /**< every rank has a part along one dimension */
    REDCO_TP_PARTIAL     /**< the tensor is the sum of the ranks' tensors */
} redco_tp_kind;

/** A split dimension is seen as [blocks, ranks, rest]: rank r has [:, r, :]. One block is the usual contiguous part.
 *  More stand for what reshapes and concatenations make of it: the rows of a folded [batch, sequence] of which the
 *  sequence is split, or the columns of a fused query-key-value product of which the heads are split. */
typedef struct redco_tp_layout {
    redco_tp_kind kind;
    uint32_t dim;    /**< that a split cuts */
    uint64_t blocks; /**< that a split has, at least 1; else 0 */
} redco_tp_layout;

redco_tp_layout redco_tp_replicated(void);
redco_tp_layout redco_tp_partial(void);
redco_tp_layout redco_tp_split(uint32_t dim);
bool redco_tp_equal(redco_tp_layout a, redco_tp_layout b);
/** "replicated", "split 1", "split 0 in 4 blocks", "partial". @return @p text */
const char *redco_tp_text(redco_tp_layout layout, char text[64]);

/** A split must divide its dimension. */
bool redco_tp_fits(redco_tp_layout layout, const redco_tensor_type *type, uint32_t ranks);
/** The type of the part of @p type that one rank holds; @p layout fits. */
redco_tensor_type redco_tp_local(redco_tp_layout layout, const redco_tensor_type *type, uint32_t ranks);

#ifdef __cplusplus
}
#endif
#endif
