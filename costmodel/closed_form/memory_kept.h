/** @file memory_kept.h  The tensors of a block that frameworks keep for backward, and those that they allocate beside
 * it: derived from what each framework's functions save (sources in the table), not fitted. Engines whose files say
 *  "memory": "megatron" or "pytorch" use it. The page is costmodel/closed_form/MEMORY.md. Pure functions. */
#ifndef REDCO_MEMORY_KEPT_H
#define REDCO_MEMORY_KEPT_H

#include "costmodel/operators/compute.h"

#ifdef __cplusplus
extern "C" {
#endif

/** A column of the table. */
typedef enum redco_kept_column {
    REDCO_KEPT_TE,       /**< Megatron Core with Transformer Engine */
    REDCO_KEPT_LOCAL,    /**< Megatron-LM with its own kernels */
    REDCO_KEPT_EAGER,    /**< PyTorch, operator by operator */
    REDCO_KEPT_COMPILED, /**< PyTorch, blocks through torch.compile */
    REDCO_KEPT_BY_OP,    /**< PyTorch, selective checkpointing by operator: every second product is kept */
    REDCO_KEPT_REMAT,    /**< JAX, policies that keep projections to queries, keys and values (save_qkv_proj) */
    REDCO_KEPT_COPIES,   /**< PyTorch, norms in 32 bits and attention's output copied to another order */
    REDCO_KEPT_COLUMNS
} redco_kept_column;

/** The elements of a tensor for each token. */
typedef enum redco_kept_width {
    REDCO_KEPT_HIDDEN,
    REDCO_KEPT_QUERIES, /**< heads x head size */
    REDCO_KEPT_KEYS,    /**< KV heads x head size */
    REDCO_KEPT_FFN,
    REDCO_KEPT_HEADS,
    REDCO_KEPT_ONE
} redco_kept_width;

/** When a block has a tensor; bits, all of which must hold. */
enum {
    REDCO_KEPT_IF_GATED = 1,
    REDCO_KEPT_IF_PLAIN_FFN = 2,
    REDCO_KEPT_IF_FUSED_NORM = 4,
    REDCO_KEPT_IF_PLAIN_NORM = 8,
    REDCO_KEPT_IF_LAYER_NORM = 16,
    REDCO_KEPT_IF_DROPOUT = 32,
    REDCO_KEPT_IF_FLASH = 64,
    REDCO_KEPT_IF_ALL_TO_ALL = 128 /**< cp > 1 */
};

typedef struct redco_kept_tensor {
    const char *name;
    redco_kept_width width;
    unsigned when;
    bool per_norm;                     /**< one for each norm of the block on the way of its input */
    bool per_attention;                /**< one for each attention of the block */
    redco_recompute again;             /**< the policy that does not keep it, beside full: selective or mlp; none */
    uint8_t bytes[REDCO_KEPT_COLUMNS]; /**< bytes of an element in 16-bit training, all such tensors together */
    uint8_t narrow_bytes;              /**< in place of the first column's, where products are in 8 or 4 bits */
    const char *source;
} redco_kept_tensor;

/** The table. @return its rows, in the order of a forward pass */
size_t redco_kept_tensors(const redco_kept_tensor **tensors_out);
/** "te", "local", "eager", "compiled", "by-op", "remat", "copies". */
const char *redco_kept_column_name(redco_kept_column column);

/** The column of an engine whose memory is of that kind. */
redco_kept_column redco_kept_column_of(const redco_engine *engine);

/** Bytes of one row for a token of a block that no parallelism cuts, flash attention. */
uint64_t redco_kept_token_bytes(const redco_model_dims *dims, const redco_kept_tensor *tensor, redco_kept_column column,
                                const redco_engine *engine);

/** Bytes that one rank keeps of a block and micro-batch, in 16-bit training, without scores that unfused attention
 *  writes.
 *  @param policy  none, selective or mlp */
uint64_t redco_kept_block_bytes(const redco_model_dims *dims, bool cross, const redco_shape *shape,
                                redco_kept_column column, redco_recompute policy);
/** The memory that backward of a block allocates beside kept tensors, at its fullest moment. */
uint64_t redco_kept_working_bytes(const redco_model_dims *dims, const redco_shape *shape);
/** Logits, their gradient and what the head's backward allocates beside. */
uint64_t redco_kept_loss_bytes(const redco_model *model, const redco_shape *shape);

#ifdef __cplusplus
}
#endif
#endif
