/** @file rules_roles.h  The role of each parameter of a tree (query, FFN output, vocabulary, ...), from its names and
 *  shape alone: the collectives that a split costs follow from it. Names of the model families that redco reads and
 *  of BERT, RoBERTa, ViT, GPT-Neo, Marian and Pegasus are known; others stay REDCO_ROLE_OTHER. Pure functions. */
#ifndef REDCO_RULES_ROLES_H
#define REDCO_RULES_ROLES_H

#include "planner/rules/rules.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_role {
    REDCO_ROLE_OTHER, /**< a linear, convolution or table of unknown use */
    REDCO_ROLE_QUERY,
    REDCO_ROLE_KEY,
    REDCO_ROLE_VALUE,
    REDCO_ROLE_QKV, /**< query, key and value in one matrix */
    REDCO_ROLE_ATTENTION_OUT,
    REDCO_ROLE_FFN_IN,     /**< up, gate, fc1 */
    REDCO_ROLE_FFN_OUT,    /**< down, fc2 */
    REDCO_ROLE_VOCABULARY, /**< the table of tokens */
    REDCO_ROLE_POSITIONS,
    REDCO_ROLE_TOKEN_TYPES,
    REDCO_ROLE_RELATIVE_BIAS, /**< T5's table (buckets, heads) */
    REDCO_ROLE_HEAD,          /**< to the vocabulary; a tied head has no parameter */
    REDCO_ROLE_NORM,
    REDCO_ROLE_BIAS
} redco_role;

/** Order of the outputs of a fused query-key-value matrix. */
typedef enum redco_qkv_order {
    REDCO_QKV_NOT_FUSED,
    REDCO_QKV_BY_HEAD,  /**< q, k, v of head 0, then of head 1: Bloom, GPT-NeoX */
    REDCO_QKV_BY_GROUP, /**< the queries of a group, its key, its value: InternLM2 */
    REDCO_QKV_BLOCKS    /**< all queries, all keys, all values: GPT-2, MPT */
} redco_qkv_order;

/** Kind of a parameter, by the last name of its path. */
typedef enum redco_part_leaf { REDCO_PART_LEAF_OTHER, REDCO_PART_LEAF_KERNEL, REDCO_PART_LEAF_TABLE } redco_part_leaf;

#define REDCO_PART_NONE UINT32_MAX

typedef struct redco_rules_part {
    redco_role role;
    redco_part_leaf leaf;
    redco_qkv_order qkv;
    uint32_t input_dim;  /**< dimension of the input features of a kernel with 2 dimensions or more */
    uint32_t output_dim; /**< and of its output features. FlaxConv1D (GPT-2) stores (out, in) */
    uint32_t unit;       /**< the same for all kernels of one attention or one FFN, from 0; else REDCO_PART_NONE */
    uint32_t owner;      /**< index of the kernel beside a bias, or REDCO_PART_NONE */
    bool cross;          /**< attention to another sequence: keys and values read the encoder's output */
} redco_rules_part;

/** @param params     a whole tree, as given to redco_rules_decide()
 *  @param parts_out  one for each parameter, to be freed with free() */
redco_status redco_rules_parts(const redco_rules_param *params, size_t count, redco_rules_part **parts_out,
                               redco_error *err);
/** "query", "ffn-out", "relative-bias", ... */
const char *redco_role_name(redco_role role);

#ifdef __cplusplus
}
#endif
#endif
