/** @file recomputation.h  Recomputation as a set of a layer's modules, named as Megatron Core names them
 *  (--recompute-modules): backward computes again what these made and keeps their inputs. The record of a layer says
 *  what operators and tensors a module has (costmodel/graph/op_roles.h). */
#ifndef REDCO_BASE_RECOMPUTATION_H
#define REDCO_BASE_RECOMPUTATION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bits below; a larger set leads where sets are put in order. */
typedef uint32_t redco_recompute;

enum {
    REDCO_RECOMPUTE_NONE = 0,
    REDCO_RECOMPUTE_CORE_ATTN = 1,       /**< scores, softmax, product with the values: "selective" where alone */
    REDCO_RECOMPUTE_LAYERNORM = 2,       /**< norms that are kernels of their own */
    REDCO_RECOMPUTE_MLA_UP_PROJ = 4,     /**< latent attention: projections out of the latent space */
    REDCO_RECOMPUTE_MLP = 8,             /**< the FFN, with its norm where that is part of its first product */
    REDCO_RECOMPUTE_MOE_ACT = 16,        /**< activations of experts */
    REDCO_RECOMPUTE_MOE = 32,            /**< router and experts */
    REDCO_RECOMPUTE_SHARED_EXPERTS = 64, /**< experts that take all tokens */
    REDCO_RECOMPUTE_FULL = 128,          /**< only the layer's input is kept; with no other bit */
    REDCO_RECOMPUTE_HALF = 256           /**< in lists of what engines offer: full, of about half of a layer */
};

/** In options: the search chooses. */
#define REDCO_RECOMPUTE_FREE UINT32_MAX

enum { REDCO_RECOMPUTE_SETS = 16, REDCO_RECOMPUTE_TEXT = 80 };

/** Distinct sets, ascending. */
typedef struct redco_recompute_list {
    redco_recompute sets[REDCO_RECOMPUTE_SETS];
    uint32_t count;
} redco_recompute_list;

/** "core_attn", ..., "shared_experts"; NULL-terminated, by bit. */
extern const char *const redco_recompute_modules[];
/** The texts that there are: "none, ..., or modules joined by +: core_attn, ..." */
extern const char redco_recompute_known[];

/** "none", "selective", "layernorm+mlp", "full". @param half  full repeats about half (redco_engine.partial_recompute):
 *  "half". @param buffer  REDCO_RECOMPUTE_TEXT bytes hold any. @return @p buffer */
const char *redco_recompute_text(redco_recompute set, bool half, char *buffer, size_t size);
/** The set of such a text; modules may stand in any order.
 *  @param half_out  whether it is "half", which is full; written with set_out only
 *  @return false: it is none */
bool redco_recompute_parse(const char *text, redco_recompute *set_out, bool *half_out);

/** @return whether layers may have it beside layers with other such sets: the attention core's alone, none, full.
 *  Training software names other modules for all layers at once. */
static inline bool redco_recompute_mixes(redco_recompute set)
{
    return (set & ~(redco_recompute)(REDCO_RECOMPUTE_CORE_ATTN | REDCO_RECOMPUTE_FULL)) == 0;
}

/** @return the index; the count where it is not listed */
uint32_t redco_recompute_find(const redco_recompute_list *list, redco_recompute set);
static inline bool redco_recompute_has(const redco_recompute_list *list, redco_recompute set)
{
    return redco_recompute_find(list, set) < list->count;
}
/** Keeps the order. @return false where there is no room */
bool redco_recompute_add(redco_recompute_list *list, redco_recompute set);
void redco_recompute_drop(redco_recompute_list *list, redco_recompute set);
/** The modules of all sets, none of full and half. */
redco_recompute redco_recompute_union(const redco_recompute_list *list);

#ifdef __cplusplus
}
#endif
#endif
