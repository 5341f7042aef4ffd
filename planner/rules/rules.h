/** @file rules.h  RedCoast's tensor-parallel rules: from parameter names, shapes and a number of shards to one rule per
 *  key and one split dimension per parameter. Names and shapes are in Flax order (kernel: [in, out]).
 *  Source: redco 0.4.23, get_sharding_rules and get_params_spec; RedCoast, arXiv 2310.16355. Two deviations: names are
 *  compared literally, not as regular expressions; where the reference fails (ranks of one key that differ) the key is
 *  replicated. Pure functions. */
#ifndef REDCO_RULES_H
#define REDCO_RULES_H

#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_RULES_RANK_MAX = 8, REDCO_RULES_REPLICATED = -1 };

typedef struct redco_rules_param {
    const char *path; /**< names joined with '/': "model/layers/0/self_attn/q_proj/kernel" */
    uint32_t rank;    /**< 0 to REDCO_RULES_RANK_MAX */
    uint64_t shape[REDCO_RULES_RANK_MAX];
} redco_rules_param;

/** The reason for a rule: (a) to (g) are the cases of the reference, in its order. */
typedef enum redco_rule_case {
    REDCO_RULE_NO_WEIGHT,     /**< the last name is neither kernel nor embedding: never split */
    REDCO_RULE_RANKS,         /**< numbers of dimensions differ under one key */
    REDCO_RULE_INDIVISIBLE,   /**< no dimension is divisible for every parameter of the key */
    REDCO_RULE_EMBEDDING,     /**< (a) lowest valid dimension */
    REDCO_RULE_ATTENTION_IN,  /**< (b) q, k or v at an end of the name: highest */
    REDCO_RULE_ATTENTION_OUT, /**< (c) o at an end of the name: lowest */
    REDCO_RULE_FFN_IN,        /**< (d) up, gate, wi, the word in: highest */
    REDCO_RULE_FFN_OUT,       /**< (e) down, wo, the word out: lowest */
    REDCO_RULE_HEAD,          /**< (f) head at an end: highest */
    REDCO_RULE_PLAIN,         /**< (g) alternates between the highest and the next lower */
    REDCO_RULE_USER           /**< given; see rules_user.h */
} redco_rule_case;

#define REDCO_RULES_NONE SIZE_MAX

typedef struct redco_rule {
    const char *key; /**< "q_proj/kernel", "embedding", "bias" */
    uint32_t rank;   /**< dimensions of the parameters with this key; 0 when replicated */
    int32_t dim;     /**< the one dimension that is split, or REDCO_RULES_REPLICATED */
    redco_rule_case reason;
    bool overridden; /**< one of RedCoast's, but a user's rule has the same key: it is never taken */
    bool turned;     /**< (g): not the highest valid dimension, as the plain key before took that */
    size_t
        previous; /**< (g): index of the plain key before, whose turn this one alternates with, or REDCO_RULES_NONE */
} redco_rule;

typedef struct redco_rules redco_rules;

/** @param shards  n >= 1; 1 means no splitting: no rules, everything replicated
 *  @param params  borrowed for the call
 *  @return REDCO_OK, REDCO_EVALUE for 0 shards or a rank out of range, or REDCO_ENOMEM */
redco_status redco_rules_decide(const redco_rules_param *params, size_t count, uint32_t shards, redco_rules **rules_out,
                                redco_error *err);
void redco_rules_free(redco_rules *rules);

/** The rules in the order in which they are tried. */
size_t redco_rules_list(const redco_rules *rules, const redco_rule **list_out);
/** The rule that the @p index-th parameter takes, or NULL with 1 shard. It is mostly but not always that of its key:
 *  the first rule wins whose names stand anywhere in the path. */
const redco_rule *redco_rules_of(const redco_rules *rules, size_t index);
/** The split dimension of the @p index-th parameter, or REDCO_RULES_REPLICATED. */
int32_t redco_rules_dim(const redco_rules *rules, size_t index);

#ifdef __cplusplus
}
#endif
#endif
