/** @file saving_rules.h  The tensors that training software keeps for backward, as rule files (presets/saving): for
 * each tensor of a layer (record/layer_work.h) how many bytes of an element are kept, and when. Recomputing the module
 * that made a tensor frees it. The page is costmodel/closed_form/MEMORY.md. */
#ifndef REDCO_SAVING_RULES_H
#define REDCO_SAVING_RULES_H

#include "costmodel/record/layer_work.h"
#include "topology/base/json.h"
#include "topology/base/sharding.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Sets that ship; each has a file of its word. */
typedef enum redco_saver {
    REDCO_SAVER_TE,       /**< Megatron Core with Transformer Engine */
    REDCO_SAVER_LOCAL,    /**< Megatron-LM with its own kernels */
    REDCO_SAVER_EAGER,    /**< PyTorch, operator by operator */
    REDCO_SAVER_COMPILED, /**< PyTorch, blocks through torch.compile */
    REDCO_SAVER_BY_OP,    /**< PyTorch, selective checkpointing by operator: every second product is kept */
    REDCO_SAVER_XLA,      /**< JAX without a policy, and what is priced as it is */
    REDCO_SAVER_REMAT,    /**< JAX, policies that keep projections to queries, keys and values (save_qkv_proj) */
    REDCO_SAVER_COPIES,   /**< PyTorch, norms in 32 bits and attention's output copied to another order */
    REDCO_SAVER_FORMULAS, /**< frameworks in general */
    REDCO_SAVER_PLANNED,  /**< redco-exec: what backward of the graph reads */
    REDCO_SAVER_COUNT
} redco_saver;

/** "te", "local", "eager", "compiled", "by-op", "xla", "remat", "copies", "formulas", "planned"; NULL-terminated. */
extern const char *const redco_saver_words[];

/** Facts about model and software on which rules depend; bits. */
enum {
    REDCO_SAVER_IF_PLAIN_NORM = 1, /**< norms of several kernels each */
    REDCO_SAVER_IF_DROPOUT = 2,
    REDCO_SAVER_IF_FUSED_SCORES = 4,   /**< scores of attention are written, its softmax is one kernel */
    REDCO_SAVER_IF_UNFUSED_SCORES = 8, /**< likewise, of several kernels */
    REDCO_SAVER_IF_ALL_TO_ALL = 16,    /**< context parallelism exchanges heads */
    REDCO_SAVER_IF_MADE_AGAIN = 32,    /**< backward makes activated gates again */
    REDCO_SAVER_IF_AUTOCAST = 64,      /**< products copy operands from 32 bits, which layers hand on */
    REDCO_SAVER_IF_FP8_INPUT = 128     /**< the input of an activation is kept in 8 bits */
};

enum { REDCO_SAVING_RULES = 40, REDCO_SAVING_NAME = 40, REDCO_SAVING_SOURCE = 160 };

typedef struct redco_saving_rule {
    char name[REDCO_SAVING_NAME]; /**< row of --kept: rules of several sets with one name are of the same tensor */
    char source[REDCO_SAVING_SOURCE];
    redco_site site;
    uint32_t bytes, narrow_bytes, per; /**< bytes / per of an element in 16-bit training; where products are in fewer
                                          bits, narrow_bytes / per. Twice that in 32 bits */
    uint32_t when, unless;             /**< REDCO_SAVER_IF_... bits: all of the first, none of the others */
    bool fixed;                        /**< in 32 bits in any training */
    bool whole;                        /**< not split where ranks share a sequence: it is kept as it was gathered */
    bool in_product;                   /**< a norm within the kernel of the product behind: of an FFN freed with it */
    bool result;                       /**< freed with the module that made it although that hands it on */
    bool within;                       /**< part of the factor: counts only where recomputation frees it */
    bool beside;                       /**< the factor leaves it out */
} redco_saving_rule;

/** A rule file. What tensor parallelism cuts counts factor / per times (without dropout masks counted apart). */
typedef struct redco_saving_set {
    char title[REDCO_SAVING_SOURCE];
    redco_saving_rule rules[REDCO_SAVING_RULES];
    uint32_t count;
    uint32_t factor, per;
    char factor_source[REDCO_SAVING_SOURCE];
} redco_saving_set;

/** @return static, the file of that word; NULL when out of memory (shipped files are held by a test) */
const redco_saving_set *redco_saving_set_of(redco_saver saver);
/** Reads a rule file. */
redco_status redco_saving_set_read(const redco_json_value *file, redco_saving_set *set_out, redco_error *err);

/** One rank's layer. */
typedef struct redco_saving_case {
    const uint64_t *sizes;   /**< the sizes of its axes: redco_rank_axis_sizes() */
    uint64_t keys;           /**< that a row of scores has; 0: scores are not counted */
    uint32_t holds;          /**< REDCO_SAVER_IF_... bits */
    uint32_t sequence_ranks; /**< that share a sequence: they split what tensor parallelism does not cut */
    uint32_t routers;        /**< ranks among them that route their own part: they split rows of experts; 0: 1 */
    bool narrow;             /**< products are in 8 or 4 bits */
    bool wide;               /**< training is in 32 bits */
    bool partial;            /**< full recomputation repeats half of what a layer keeps beside its input */
} redco_saving_case;

/** Bytes of one rule. */
uint64_t redco_saving_rule_bytes(const redco_saving_rule *rule, const redco_layer_site *sites, uint32_t count,
                                 const redco_saving_case *rank);

/** The part that recomputation frees: full recomputation what is not the layer's input, whatever the rules say, or half
 * of it where that is partial. */
typedef struct redco_saved_bytes {
    uint64_t kept; /**< where nothing is recomputed */
    uint64_t freed[REDCO_RECOMPUTE_SETS];
} redco_saved_bytes;

/** @param recomputed  sets of modules in any order, of which freed has as many */
redco_saved_bytes redco_saving_bytes(const redco_saving_set *set, const redco_layer_site *sites, uint32_t count,
                                     const redco_saving_case *rank, const redco_recompute_list *recomputed);

#ifdef __cplusplus
}
#endif
#endif
