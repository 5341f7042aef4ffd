/** @file op_roles.h  Internal: which weight of a layer a tensor is: the roles of rules_roles.h, told apart as far as a
 * graph needs it. */
#ifndef REDCO_TP_ROLES_H
#define REDCO_TP_ROLES_H

#include "costmodel/models/model.h"
#include "planner/rules/rules_roles.h"

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
    REDCOI_TP_ROLES /**< no matrix, or none of these */
} redcoi_tp_role;

extern const char *const redcoi_tp_role_names[REDCOI_TP_ROLES];

/** Of all tensors of a model. */
typedef struct redcoi_tp_roles {
    redcoi_tp_role *role; /**< as redco_model_tensors() */
    redco_qkv_order qkv;  /**< of its fused matrices */
} redcoi_tp_roles;

redco_status redcoi_tp_roles_find(const redco_model *model, redcoi_tp_roles *roles_out, redco_error *err);
void redcoi_tp_roles_free(redcoi_tp_roles *roles);

/** The weights of one class of layers by role. */
typedef struct redcoi_tp_weights {
    const redco_param *param[REDCOI_TP_ROLES]; /**< NULL: there is none; of several alike the last */
    uint32_t count[REDCOI_TP_ROLES];           /**< several: position tables of encoder and decoder */
    uint32_t index[REDCOI_TP_ROLES];           /**< in the model's tensors */
    const redco_param *unknown;                /**< a matrix without a role, or NULL */
} redcoi_tp_weights;

void redcoi_tp_weights_find(const redco_model *model, const redcoi_tp_roles *roles, uint32_t class_index,
                            redcoi_tp_weights *weights);

#endif
