/** @file attention.h  Own attention: parameters and tiles of its kernels, as host and device share them.
 *
 *  Forward: a block has some queries of a head and walks over the keys that they see, with running maxima and sums;
 *  scores exist for a tile at a time. Backward: one kernel in which a block has some keys of a group and walks over
 *  queries, for dK and dV; one in which it has queries and walks over keys, for dQ. Nothing is added atomically: the
 * same inputs give the same bits. Source: Dao, FlashAttention-2 (arXiv 2307.08691).
 *
 *  Bound on an H200 (67 TFLOP/s of FP32 FMA, 34 of FP64; tensor cores are not used): computation, 4 x head size flops a
 *  visible pair forward (the two products), 14 x backward (scores and dO V^T are made twice). Operands come from shared
 * memory in 16-byte reads of which a warp's threads share most: forward has 64 (size 128: 16 FMA a read for the scores,
 * 16 for the sums) and should reach half of the FMA rate; backward's smaller tiles have 5 to 11 FMA a read, at 128
 * bytes a cycle a third of it. Memory traffic is far below: a tile of 64 rows is read once for 64 rows of the other
 * side. */
#ifndef REDCOI_KERNELS_ATTENTION_H
#define REDCOI_KERNELS_ATTENTION_H

#include <stdint.h>

typedef struct redcoi_attention_args {
    const void *q, *k, *v; /**< [batch][tokens][heads or groups][size] */
    const void *o, *d_o, *lse;
    const uint8_t *mask; /**< NULL: none; rows of keys */
    void *out, *lse_out; /**< forward */
    void *d_q, *d_k, *d_v;
    void *sums;                                 /**< sums of dO O: [batch][heads][queries], backward's workspace */
    uint64_t mask_batch, mask_head, mask_query; /**< strides; 0: one for all */
    int64_t offset, window; /**< causal: query i sees keys j with i + offset - window < j <= i + offset;
                               window 0: from the first */
    double scale, cap;      /**< cap: scaled scores x become cap tanh(x / cap); 0: they stay */
    uint32_t batch, queries, keys, heads, groups, size, value_size;
    uint32_t causal;
    uint32_t wide; /**< rows of 16-byte vectors */
} redcoi_attention_args;

enum {
    REDCOI_ATTENTION_FORWARD_THREADS = 128,
    REDCOI_ATTENTION_BACKWARD_THREADS = 256,
    REDCOI_ATTENTION_LANES = 8, /**< threads that share a row of sum(dO O) */
    REDCOI_ATTENTION_SIZE_MAX = 256
};

/* Rows of tiles, by bytes of the type of calculation (4, 8) and size up to which head sizes are filled up (64, 128,
 * 256): as many as shared memory of an A100 holds (163 KiB a block), for forward twice where it can be. */

/** Queries of a forward block. */
#define REDCOI_ATTENTION_QUERIES(bytes, size) ((bytes) == 4 ? ((size) == 256 ? 32 : 64) : ((size) == 256 ? 16 : 32))
/** Keys that it takes at a time. */
#define REDCOI_ATTENTION_KEYS(bytes, size) ((bytes) == 4 ? ((size) == 64 ? 64 : 32) : ((size) == 256 ? 16 : 32))
/** Rows that a backward block has, and those that it takes at a time. */
#define REDCOI_ATTENTION_OWN(bytes, size) REDCOI_ATTENTION_QUERIES(bytes, size)
#define REDCOI_ATTENTION_OTHERS(bytes, size) ((bytes) == 8 && (size) == 256 ? 16 : 32)

/** Elements from a row in shared memory to the next: 16 bytes more, so that rows begin in different banks. */
#define REDCOI_ATTENTION_ROW(bytes, size) ((size) + 16 / (bytes))

/** Shared memory in bytes: queries, keys, values, probabilities. */
#define REDCOI_ATTENTION_FORWARD_BYTES(bytes, size)                                                                    \
    ((bytes) *                                                                                                         \
     ((REDCOI_ATTENTION_QUERIES(bytes, size) + 2 * REDCOI_ATTENTION_KEYS(bytes, size)) *                               \
          REDCOI_ATTENTION_ROW(bytes, size) +                                                                          \
      REDCOI_ATTENTION_QUERIES(bytes, size) * REDCOI_ATTENTION_ROW(bytes, REDCOI_ATTENTION_KEYS(bytes, size))))
/** Two tensors of both sides; probabilities and gradients of scores. */
#define REDCOI_ATTENTION_BACKWARD_BYTES(bytes, size)                                                                   \
    ((bytes) *                                                                                                         \
     (2 * (REDCOI_ATTENTION_OWN(bytes, size) + REDCOI_ATTENTION_OTHERS(bytes, size)) *                                 \
          REDCOI_ATTENTION_ROW(bytes, size) +                                                                          \
      2 * REDCOI_ATTENTION_OWN(bytes, size) * REDCOI_ATTENTION_ROW(bytes, REDCOI_ATTENTION_OTHERS(bytes, size))))

#endif
