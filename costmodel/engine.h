/** @file engine.h  How the training software does its work, as far as it changes what a step costs: kernels, formats,
 *  what is gathered at a time. Plain values; all zero is what the planner assumes of a present-day engine: flash
 *  attention, fused norms, matrices in the training precision, one module gathered at a time, one model chunk per
 *  stage. Formulas: costmodel/README.md, sections 2, 3 and 5. */
#ifndef REDCO_ENGINE_H
#define REDCO_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_attention {
    REDCO_ATTENTION_AUTO, /**< flash 2, or flash 1 on GPUs before compute capability 8.0 */
    REDCO_ATTENTION_FLASH1,
    REDCO_ATTENTION_FLASH2,
    REDCO_ATTENTION_FLASH3, /**< or cuDNN's flash kernels on Hopper and later */
    REDCO_ATTENTION_FUSED,  /**< scores are written out; one kernel for mask and softmax */
    REDCO_ATTENTION_UNFUSED /**< scores are written out; a kernel per operation */
} redco_attention;

/** Number format of the matrix products in blocks; attention and head keep the training precision. */
typedef enum redco_gemm_format {
    REDCO_GEMM_SAME, /**< the training precision */
    REDCO_GEMM_FP8,
    REDCO_GEMM_MXFP8,
    REDCO_GEMM_NVFP4
} redco_gemm_format;

typedef struct redco_engine {
    redco_attention attention;
    redco_gemm_format gemm_format;
    bool plain_norm;        /**< norms of several kernels each */
    bool compiled;          /**< torch.compile fuses memory-bound operators */
    bool logits_gathered;   /**< every tensor-parallel rank holds the logits of the whole vocabulary */
    bool async_tp;          /**< tensor-parallel traffic is cut up and overlapped with the products beside it */
    bool partial_recompute; /**< REDCO_RECOMPUTE_FULL repeats about half of the forward products only: checkpointing per
                                 operator, or policies that keep some outputs */
    bool layer_units;       /**< parameters are gathered a layer at a time (flat FSDP units), not by module */
    bool planned_memory;    /**< memory is planned from the lifetimes of a graph's values (redco-exec): what backward
                                 reads is kept once, nothing is masked, converted or fragmented; and what
                                 it does not read is not computed again */
    bool made_again; /**< of engines that plan their memory, on GPUs: backward makes the activated gate of a gated
                          FFN again, of what it reads anyway, and forward does not keep it */
    uint64_t workspace_bytes; /**< planned memory: of one product beside its operands */
    bool shard_over_cp; /**< what is sharded over all data-parallel ranks is sharded over context-parallel ones too */
    uint32_t gradient_bytes; /**< per element, reduced and kept; 0 = as the precision says */
    uint32_t virtual_stages; /**< model chunks per pipeline stage (interleaved schedule); 0 and 1 = one */
} redco_engine;

#ifdef __cplusplus
}
#endif
#endif
