/** @file op_roles.h  The roles that operators play in a layer, with their names for people, traces and files. A role
 * decides; a name never does. Operators of a user's own loss function may have any name; their role is
 * REDCO_OP_ROLE_NONE. */
#ifndef REDCO_OP_ROLES_H
#define REDCO_OP_ROLES_H

#include "topology/base/recomputation.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum redco_op_role {
    REDCO_OP_ROLE_NONE,
    REDCO_OP_ROLE_EMBEDDING, /**< table look-up */
    REDCO_OP_ROLE_ATTENTION_NORM,
    REDCO_OP_ROLE_QKV,    /**< queries, keys and values */
    REDCO_OP_ROLE_Q_NORM, /**< norms of heads */
    REDCO_OP_ROLE_K_NORM,
    REDCO_OP_ROLE_Q_DOWN, /**< latent attention: projections into and out of the latent space */
    REDCO_OP_ROLE_Q_UP,
    REDCO_OP_ROLE_KV_DOWN,
    REDCO_OP_ROLE_KV_UP,
    REDCO_OP_ROLE_ROTARY,             /**< rotary embedding, heads split on the way */
    REDCO_OP_ROLE_SPLIT_HEADS,        /**< heads split without it */
    REDCO_OP_ROLE_ATTENTION,          /**< the core: scores, softmax, product with the values */
    REDCO_OP_ROLE_OUT,                /**< output projection */
    REDCO_OP_ROLE_ATTENTION_END_NORM, /**< norms what attention adds to the residual */
    REDCO_OP_ROLE_CROSS_NORM,
    REDCO_OP_ROLE_CROSS_Q,
    REDCO_OP_ROLE_CROSS_KV,
    REDCO_OP_ROLE_CROSS_ATTENTION,
    REDCO_OP_ROLE_CROSS_OUT,
    REDCO_OP_ROLE_FFN_NORM,
    REDCO_OP_ROLE_FFN_IN, /**< gate and up */
    REDCO_OP_ROLE_ACTIVATION,
    REDCO_OP_ROLE_FFN_OUT, /**< down */
    REDCO_OP_ROLE_FFN_END_NORM,
    REDCO_OP_ROLE_ROUTER,  /**< scores of experts, and their choice */
    REDCO_OP_ROLE_PERMUTE, /**< a token's row to each of its experts */
    REDCO_OP_ROLE_EXPERT_IN,
    REDCO_OP_ROLE_EXPERT_ACTIVATION,
    REDCO_OP_ROLE_EXPERT_OUT,
    REDCO_OP_ROLE_UNPERMUTE, /**< back, a token's rows added up */
    REDCO_OP_ROLE_SHARED_IN, /**< shared experts, which all tokens meet */
    REDCO_OP_ROLE_SHARED_ACTIVATION,
    REDCO_OP_ROLE_SHARED_OUT,
    REDCO_OP_ROLE_MTP_IN,     /**< multi-token prediction: of a token's row and what the layers made */
    REDCO_OP_ROLE_ADAPTER,    /**< low-rank adapters beside frozen matrices: both products, the sum */
    REDCO_OP_ROLE_DEQUANTISE, /**< frozen matrices of 4 bits to the width of their product */
    REDCO_OP_ROLE_CASTS,      /**< conversions to and from 8-bit formats */
    REDCO_OP_ROLE_FINAL_NORM,
    REDCO_OP_ROLE_PROJECT_OUT, /**< to the width of a table that is narrower than the model */
    REDCO_OP_ROLE_HEAD,        /**< product with the vocabulary */
    REDCO_OP_ROLE_LOSS,
    REDCO_OP_ROLE_ACCUMULATE, /**< in a step: a micro-batch's gradients onto those before it */
    REDCO_OP_ROLE_GRAD_NORM,
    REDCO_OP_ROLE_OPTIMIZER,
    REDCO_OP_ROLE_GRAPH,       /**< in a step: all operators of a user's loss graph */
    REDCO_OP_ROLE_PREPARATION, /**< in a measured graph: makes what another operator reads and is not measured */
    REDCO_OP_ROLE_COUNT
} redco_op_role;

/** "qkv": static; "" of REDCO_OP_ROLE_NONE. */
const char *redco_op_role_name(redco_op_role role);
/** @return REDCO_OP_ROLE_NONE if no role is called @p name */
redco_op_role redco_op_role_named(const char *name);

/** The modules whose recomputation runs it again. */
redco_recompute redco_op_role_modules(redco_op_role role);

bool redco_op_role_is_attention(redco_op_role role);  /**< an attention core */
bool redco_op_role_is_activation(redco_op_role role); /**< an FFN's or experts' */
bool redco_op_role_makes_logits(redco_op_role role);

#ifdef __cplusplus
}
#endif
#endif
