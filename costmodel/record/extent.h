/** @file extent.h  Sizes in symbols: products of a model's axes. Sizes are put in for the axes to get counts. */
#ifndef REDCO_EXTENT_H
#define REDCO_EXTENT_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_axis {
    REDCO_AXIS_BATCH,
    REDCO_AXIS_SEQUENCE,
    REDCO_AXIS_HEADS,
    REDCO_AXIS_KV_HEADS,
    REDCO_AXIS_QKV_HEADS, /**< heads + 2 KV heads: of one matrix for queries, keys and values */
    REDCO_AXIS_HEAD_DIM,
    REDCO_AXIS_HIDDEN,
    REDCO_AXIS_FFN,
    REDCO_AXIS_VOCAB,
    REDCO_AXIS_TABLE_WIDTH, /**< the table of tokens': hidden, or less (OPT-350M) */
    REDCO_AXIS_POSITIONS,   /**< rows of a table of positions */
    REDCO_AXIS_BUCKETS,     /**< rows of a table of relative positions */
    REDCO_AXIS_QUERY_LATENT,
    REDCO_AXIS_KEY_LATENT,
    REDCO_AXIS_ROTARY_DIM,      /**< latent attention: the part of a head that is rotated; its key is shared */
    REDCO_AXIS_PLAIN_DIM,       /**< the part that is not: heads of queries and keys have both, HEAD_DIM */
    REDCO_AXIS_VALUE_DIM,       /**< heads of values, where they differ from those of keys */
    REDCO_AXIS_LATENT_ROTARY,   /**< key latent + rotary dim: of one matrix down for both */
    REDCO_AXIS_PLAIN_VALUE_DIM, /**< plain + value dim: of one matrix up for both */
    REDCO_AXIS_EXPERTS,
    REDCO_AXIS_CHOICES, /**< experts of a token */
    REDCO_AXIS_EXPERT_FFN,
    REDCO_AXIS_SHARED_FFN, /**< shared experts together */
    REDCO_AXIS_ADAPTER,    /**< rank of low-rank adapters */
    REDCO_AXIS_COUNT
} redco_axis;

/** factor x the product of the axes' sizes to their powers. */
typedef struct redco_extent {
    uint32_t factor;
    uint8_t power[REDCO_AXIS_COUNT];
} redco_extent;

uint64_t redco_extent_count(const redco_extent *extent, const uint64_t sizes[REDCO_AXIS_COUNT]);
bool redco_extent_equal(const redco_extent *a, const redco_extent *b);
/** The axis of it that paired tensor parallelism cuts: heads of any kind, FFN, vocabulary.
 *  Experts are cut as FFNs are.
 *  @return REDCO_AXIS_COUNT if there is none */
redco_axis redco_extent_split(const redco_extent *extent);

#ifdef __cplusplus
}
#endif
#endif
