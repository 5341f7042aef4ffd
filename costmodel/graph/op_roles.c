#include "costmodel/graph/op_roles.h"

#include <string.h>

#define MODULE(module) REDCO_RECOMPUTE_##module

static const struct role {
    const char *name;
    redco_recompute modules; /* that recompute it */
} roles[REDCO_OP_ROLE_COUNT] = {
    [REDCO_OP_ROLE_NONE] = {"", 0},
    [REDCO_OP_ROLE_EMBEDDING] = {"embedding", 0},
    [REDCO_OP_ROLE_ATTENTION_NORM] = {"attn_norm", MODULE(LAYERNORM)},
    [REDCO_OP_ROLE_QKV] = {"qkv", 0},
    [REDCO_OP_ROLE_Q_NORM] = {"q_norm", 0},
    [REDCO_OP_ROLE_K_NORM] = {"k_norm", 0},
    [REDCO_OP_ROLE_Q_DOWN] = {"q_down", 0},
    [REDCO_OP_ROLE_Q_UP] = {"q_up", MODULE(MLA_UP_PROJ)},
    [REDCO_OP_ROLE_KV_DOWN] = {"kv_down", 0},
    [REDCO_OP_ROLE_KV_UP] = {"kv_up", MODULE(MLA_UP_PROJ)},
    [REDCO_OP_ROLE_ROTARY] = {"rotary", 0},
    [REDCO_OP_ROLE_SPLIT_HEADS] = {"split_heads", 0},
    [REDCO_OP_ROLE_ATTENTION] = {"attention", MODULE(CORE_ATTN)},
    [REDCO_OP_ROLE_OUT] = {"out", 0},
    [REDCO_OP_ROLE_ATTENTION_END_NORM] = {"attn_end_norm", MODULE(LAYERNORM)},
    [REDCO_OP_ROLE_CROSS_NORM] = {"cross_norm", MODULE(LAYERNORM)},
    [REDCO_OP_ROLE_CROSS_Q] = {"cross_q", 0},
    [REDCO_OP_ROLE_CROSS_KV] = {"cross_kv", 0},
    [REDCO_OP_ROLE_CROSS_ATTENTION] = {"cross_attention", MODULE(CORE_ATTN)},
    [REDCO_OP_ROLE_CROSS_OUT] = {"cross_out", 0},
    [REDCO_OP_ROLE_FFN_NORM] = {"ffn_norm", MODULE(LAYERNORM)},
    [REDCO_OP_ROLE_FFN_IN] = {"ffn_in", MODULE(MLP)},
    [REDCO_OP_ROLE_ACTIVATION] = {"activation", MODULE(MLP)},
    [REDCO_OP_ROLE_FFN_OUT] = {"ffn_out", MODULE(MLP)},
    [REDCO_OP_ROLE_FFN_END_NORM] = {"ffn_end_norm", MODULE(LAYERNORM)},
    [REDCO_OP_ROLE_ROUTER] = {"router", MODULE(MOE)},
    [REDCO_OP_ROLE_PERMUTE] = {"permute", MODULE(MOE)},
    [REDCO_OP_ROLE_EXPERT_IN] = {"expert_in", MODULE(MOE)},
    [REDCO_OP_ROLE_EXPERT_ACTIVATION] = {"expert_activation", MODULE(MOE) | MODULE(MOE_ACT)},
    [REDCO_OP_ROLE_EXPERT_OUT] = {"expert_out", MODULE(MOE)},
    [REDCO_OP_ROLE_UNPERMUTE] = {"unpermute", MODULE(MOE)},
    [REDCO_OP_ROLE_SHARED_IN] = {"shared_in", MODULE(MOE) | MODULE(SHARED_EXPERTS)},
    [REDCO_OP_ROLE_SHARED_ACTIVATION] = {"shared_activation", MODULE(MOE) | MODULE(SHARED_EXPERTS)},
    [REDCO_OP_ROLE_SHARED_OUT] = {"shared_out", MODULE(MOE) | MODULE(SHARED_EXPERTS)},
    [REDCO_OP_ROLE_MTP_IN] = {"mtp_in", 0},
    [REDCO_OP_ROLE_ADAPTER] = {"adapter", 0},
    [REDCO_OP_ROLE_DEQUANTISE] = {"dequantise", 0},
    [REDCO_OP_ROLE_CASTS] = {"casts", 0},
    [REDCO_OP_ROLE_FINAL_NORM] = {"final_norm", 0},
    [REDCO_OP_ROLE_PROJECT_OUT] = {"project_out", 0},
    [REDCO_OP_ROLE_HEAD] = {"head", 0},
    [REDCO_OP_ROLE_LOSS] = {"loss", 0},
    [REDCO_OP_ROLE_ACCUMULATE] = {"accumulate", 0},
    [REDCO_OP_ROLE_GRAD_NORM] = {"grad_norm", 0},
    [REDCO_OP_ROLE_OPTIMIZER] = {"optimizer", 0},
    [REDCO_OP_ROLE_GRAPH] = {"graph", 0},
    [REDCO_OP_ROLE_PREPARATION] = {"preparation", 0},
};

const char *redco_op_role_name(redco_op_role role)
{
    return roles[role].name;
}

redco_op_role redco_op_role_named(const char *name)
{
    for (unsigned role = REDCO_OP_ROLE_NONE + 1; role < REDCO_OP_ROLE_COUNT; role++) {
        if (strcmp(roles[role].name, name) == 0) { return (redco_op_role)role; }
    }
    return REDCO_OP_ROLE_NONE;
}

redco_recompute redco_op_role_modules(redco_op_role role)
{
    return roles[role].modules;
}

bool redco_op_role_is_attention(redco_op_role role)
{
    return (roles[role].modules & REDCO_RECOMPUTE_CORE_ATTN) != 0;
}

bool redco_op_role_is_activation(redco_op_role role)
{
    return role == REDCO_OP_ROLE_ACTIVATION || role == REDCO_OP_ROLE_EXPERT_ACTIVATION ||
           role == REDCO_OP_ROLE_SHARED_ACTIVATION;
}

bool redco_op_role_makes_logits(redco_op_role role)
{
    return role == REDCO_OP_ROLE_HEAD;
}
