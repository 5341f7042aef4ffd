#include "costmodel/graph/op_roles.h"

#include <string.h>

/* The properties of roles that other code asks for. */
enum fact { CORE = 1 /* core of attention */, LOGITS = 2, FFN = 4, ACTIVATION = 8 };

static const struct role {
    const char *name;
    unsigned facts;
} roles[REDCO_OP_ROLE_COUNT] = {
    [REDCO_OP_ROLE_NONE] = {"", 0},
    [REDCO_OP_ROLE_EMBEDDING] = {"embedding", 0},
    [REDCO_OP_ROLE_ATTENTION_NORM] = {"attn_norm", 0},
    [REDCO_OP_ROLE_QKV] = {"qkv", 0},
    [REDCO_OP_ROLE_Q_NORM] = {"q_norm", 0},
    [REDCO_OP_ROLE_K_NORM] = {"k_norm", 0},
    [REDCO_OP_ROLE_Q_DOWN] = {"q_down", 0},
    [REDCO_OP_ROLE_Q_UP] = {"q_up", 0},
    [REDCO_OP_ROLE_KV_DOWN] = {"kv_down", 0},
    [REDCO_OP_ROLE_KV_UP] = {"kv_up", 0},
    [REDCO_OP_ROLE_ROTARY] = {"rotary", 0},
    [REDCO_OP_ROLE_SPLIT_HEADS] = {"split_heads", 0},
    [REDCO_OP_ROLE_ATTENTION] = {"attention", CORE},
    [REDCO_OP_ROLE_OUT] = {"out", 0},
    [REDCO_OP_ROLE_CROSS_NORM] = {"cross_norm", 0},
    [REDCO_OP_ROLE_CROSS_Q] = {"cross_q", 0},
    [REDCO_OP_ROLE_CROSS_KV] = {"cross_kv", 0},
    [REDCO_OP_ROLE_CROSS_ATTENTION] = {"cross_attention", CORE},
    [REDCO_OP_ROLE_CROSS_OUT] = {"cross_out", 0},
    [REDCO_OP_ROLE_FFN_NORM] = {"ffn_norm", 0},
    [REDCO_OP_ROLE_FFN_IN] = {"ffn_in", FFN},
    [REDCO_OP_ROLE_ACTIVATION] = {"activation", FFN | ACTIVATION},
    [REDCO_OP_ROLE_FFN_OUT] = {"ffn_out", FFN},
    [REDCO_OP_ROLE_ROUTER] = {"router", 0},
    [REDCO_OP_ROLE_PERMUTE] = {"permute", 0},
    [REDCO_OP_ROLE_EXPERT_IN] = {"expert_in", 0},
    [REDCO_OP_ROLE_EXPERT_ACTIVATION] = {"expert_activation", ACTIVATION},
    [REDCO_OP_ROLE_EXPERT_OUT] = {"expert_out", 0},
    [REDCO_OP_ROLE_UNPERMUTE] = {"unpermute", 0},
    [REDCO_OP_ROLE_SHARED_IN] = {"shared_in", 0},
    [REDCO_OP_ROLE_SHARED_ACTIVATION] = {"shared_activation", ACTIVATION},
    [REDCO_OP_ROLE_SHARED_OUT] = {"shared_out", 0},
    [REDCO_OP_ROLE_MTP_IN] = {"mtp_in", 0},
    [REDCO_OP_ROLE_CASTS] = {"casts", 0},
    [REDCO_OP_ROLE_FINAL_NORM] = {"final_norm", 0},
    [REDCO_OP_ROLE_HEAD] = {"head", LOGITS},
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

static bool has(redco_op_role role, unsigned fact)
{
    return (roles[role].facts & fact) != 0;
}

bool redco_op_role_is_attention(redco_op_role role)
{
    return has(role, CORE);
}

bool redco_op_role_is_activation(redco_op_role role)
{
    return has(role, ACTIVATION);
}

bool redco_op_role_makes_logits(redco_op_role role)
{
    return has(role, LOGITS);
}

bool redco_op_role_is_ffn(redco_op_role role)
{
    return has(role, FFN);
}
