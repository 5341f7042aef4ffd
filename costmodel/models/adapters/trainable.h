/** @file trainable.h  The part of a model that is trained: all of it, or low-rank adapters (LoRA: Hu et al., arXiv
 * 2106.09685) beside frozen matrices of its blocks, whose matrices QLoRA keeps in 4 bits (arXiv 2305.14314). */
#ifndef REDCO_TRAINABLE_H
#define REDCO_TRAINABLE_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_trainable {
    uint32_t adapter_rank; /**< 0: all is trained */
    uint64_t adapted;      /**< uses of the matrices that have an adapter: bits 1 << redco_param_use */
    bool quantised;        /**< frozen matrices of blocks are kept in 4 bits */
} redco_trainable;

/** "all", "lora:r=16", "qlora:r=16,targets=q+v": targets are q, k, v, o, gate, up, down, "attention", "mlp" or "all",
 *  which they are unless they are named; as PEFT's, names of modules may end in "_proj".
 *  @param place  for the error
 *  @return REDCO_EVALUE and the known words */
redco_status redco_trainable_read(const char *text, const char *place, redco_trainable *trainable_out,
                                  redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
