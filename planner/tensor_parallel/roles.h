/** @file roles.h  Internal: which weight of a layer a tensor is, told by the names that transformers gives. */
#ifndef REDCO_TP_ROLES_H
#define REDCO_TP_ROLES_H

#include "costmodel/model.h"
#include "planner/tensor_parallel/graph.h"

typedef enum redcoi_tp_role {
    REDCOI_TP_Q,
    REDCOI_TP_K,
    REDCOI_TP_V,
    REDCOI_TP_QKV, /**< one matrix for the three */
    REDCOI_TP_O,
    REDCOI_TP_CROSS_Q,
    REDCOI_TP_CROSS_K,
    REDCOI_TP_CROSS_V,
    REDCOI_TP_CROSS_O,
    REDCOI_TP_GATE,
    REDCOI_TP_UP,
    REDCOI_TP_DOWN,
    REDCOI_TP_TOKENS,
    REDCOI_TP_POSITIONS,
    REDCOI_TP_RELATIVE,    /**< T5's attention bias, [buckets, heads] */
    REDCOI_TP_PROJECT_IN,  /**< between a narrow token table and the blocks (OPT-350m) */
    REDCOI_TP_PROJECT_OUT, /**< and back */
    REDCOI_TP_HEAD,
    REDCOI_TP_ROLES
} redcoi_tp_role;

/** How a fused matrix holds queries, keys and values. */
typedef enum redcoi_tp_fusion {
    REDCOI_TP_THIRDS, /**< all queries, then all keys, then all values: GPT-2, MPT */
    REDCOI_TP_HEADS,  /**< head by head: Bloom, GPT-NeoX */
    REDCOI_TP_GROUPS  /**< group by group of query heads with their key and value: InternLM2 */
} redcoi_tp_fusion;

extern const char *const redcoi_tp_role_names[REDCOI_TP_ROLES];

/** @param name  with dots or slashes, with or without ".weight", "/kernel", "/embedding"
 *  @return REDCOI_TP_ROLES if the name is not known */
redcoi_tp_role redcoi_tp_role_of(const char *name);
/** @param type  of a model: "gpt2", "bloom", ... */
redcoi_tp_fusion redcoi_tp_fusion_of(const char *type);

/** The weights of one class of layers by role. */
typedef struct redcoi_tp_weights {
    const redco_param *param[REDCOI_TP_ROLES]; /**< NULL: there is none; of several alike the last */
    uint32_t count[REDCOI_TP_ROLES];           /**< several: position tables of encoder and decoder */
    uint32_t index[REDCOI_TP_ROLES];           /**< in the model's tensors */
    const redco_param *unknown;                /**< a matrix without a role, or NULL */
} redcoi_tp_weights;

void redcoi_tp_weights_find(const redco_model *model, uint32_t class_index, redcoi_tp_weights *weights);

#endif
