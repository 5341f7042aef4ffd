#include "costmodel/graph/op_roles.h"

#include <string.h>

/* What other code asks of a role. */
enum fact {
    NORM = 1,
    CORE = 2, /* of attention */
    LOGITS = 4,
    BEGINS = 8, /* a tensor-parallel region */
    ENDS = 16,
    SHARED = 32,   /* in a parallel block, whose two regions are one, it is inside of it */
    LAST = 64,     /* its result is summed into what the block hands on */
    LAST_TOO = 128 /* likewise in a parallel block */
};

static const struct role {
    const char *name;
    unsigned facts;
} roles[REDCO_OP_ROLE_COUNT] = {
    [REDCO_OP_ROLE_NONE] = {"", 0},
    [REDCO_OP_ROLE_EMBEDDING] = {"embedding", 0},
    [REDCO_OP_ROLE_ATTENTION_NORM] = {"attn_norm", NORM},
    [REDCO_OP_ROLE_QKV] = {"qkv", BEGINS},
    [REDCO_OP_ROLE_Q_NORM] = {"q_norm", NORM},
    [REDCO_OP_ROLE_K_NORM] = {"k_norm", NORM},
    [REDCO_OP_ROLE_Q_DOWN] = {"q_down", 0},
    [REDCO_OP_ROLE_Q_UP] = {"q_up", BEGINS},
    [REDCO_OP_ROLE_KV_DOWN] = {"kv_down", 0},
    [REDCO_OP_ROLE_KV_UP] = {"kv_up", 0},
    [REDCO_OP_ROLE_ROTARY] = {"rotary", 0},
    [REDCO_OP_ROLE_SPLIT_HEADS] = {"split_heads", 0},
    [REDCO_OP_ROLE_ATTENTION] = {"attention", CORE},
    [REDCO_OP_ROLE_OUT] = {"out", ENDS | SHARED | LAST_TOO},
    [REDCO_OP_ROLE_CROSS_NORM] = {"cross_norm", NORM},
    [REDCO_OP_ROLE_CROSS_Q] = {"cross_q", BEGINS},
    [REDCO_OP_ROLE_CROSS_KV] = {"cross_kv", 0},
    [REDCO_OP_ROLE_CROSS_ATTENTION] = {"cross_attention", CORE},
    [REDCO_OP_ROLE_CROSS_OUT] = {"cross_out", ENDS},
    [REDCO_OP_ROLE_FFN_NORM] = {"ffn_norm", NORM},
    [REDCO_OP_ROLE_FFN_IN] = {"ffn_in", BEGINS | SHARED},
    [REDCO_OP_ROLE_ACTIVATION] = {"activation", 0},
    [REDCO_OP_ROLE_FFN_OUT] = {"ffn_out", ENDS | LAST},
    [REDCO_OP_ROLE_ROUTER] = {"router", 0},
    [REDCO_OP_ROLE_EXPERT_IN] = {"expert_in", BEGINS},
    [REDCO_OP_ROLE_EXPERT_OUT] = {"expert_out", ENDS | LAST},
    [REDCO_OP_ROLE_CASTS] = {"casts", 0},
    [REDCO_OP_ROLE_FINAL_NORM] = {"final_norm", NORM},
    [REDCO_OP_ROLE_HEAD] = {"head", LOGITS},
    [REDCO_OP_ROLE_LOSS] = {"loss", 0},
    [REDCO_OP_ROLE_ACCUMULATE] = {"accumulate", 0},
    [REDCO_OP_ROLE_GRAD_NORM] = {"grad_norm", 0},
    [REDCO_OP_ROLE_OPTIMIZER] = {"optimizer", 0},
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

bool redco_op_role_is_norm(redco_op_role role)
{
    return has(role, NORM);
}

bool redco_op_role_is_attention(redco_op_role role)
{
    return has(role, CORE);
}

bool redco_op_role_makes_logits(redco_op_role role)
{
    return has(role, LOGITS);
}

bool redco_op_role_begins_tp(redco_op_role role, bool parallel)
{
    return has(role, BEGINS) && !(parallel && has(role, SHARED));
}

bool redco_op_role_ends_tp(redco_op_role role, bool parallel)
{
    return has(role, ENDS) && !(parallel && has(role, SHARED));
}

bool redco_op_role_ends_block(redco_op_role role, bool parallel)
{
    return has(role, parallel ? LAST | LAST_TOO : LAST);
}
