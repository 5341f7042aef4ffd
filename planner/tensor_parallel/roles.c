#include "planner/tensor_parallel/roles.h"

#include "planner/rules/rules_params.h"

#include <stdlib.h>

const char *const redcoi_tp_role_names[REDCOI_TP_ROLES] = {
    [REDCOI_TP_Q] = "q",
    [REDCOI_TP_K] = "k",
    [REDCOI_TP_V] = "v",
    [REDCOI_TP_QKV] = "qkv",
    [REDCOI_TP_O] = "o",
    [REDCOI_TP_CROSS_Q] = "cross q",
    [REDCOI_TP_CROSS_K] = "cross k",
    [REDCOI_TP_CROSS_V] = "cross v",
    [REDCOI_TP_CROSS_O] = "cross o",
    [REDCOI_TP_GATE] = "gate",
    [REDCOI_TP_UP] = "up",
    [REDCOI_TP_DOWN] = "down",
    [REDCOI_TP_TOKENS] = "tokens",
    [REDCOI_TP_POSITIONS] = "positions",
    [REDCOI_TP_RELATIVE] = "relative bias",
    [REDCOI_TP_PROJECT_IN] = "project in",
    [REDCOI_TP_PROJECT_OUT] = "project out",
    [REDCOI_TP_HEAD] = "head",
};

/* A linear that is none of a block's stands between the tables' width and the blocks'. */
static redcoi_tp_role other_role(redco_class_kind kind, redco_param_role role)
{
    if (role != REDCO_PARAM_LINEAR) { return REDCOI_TP_ROLES; }
    return kind == REDCO_CLASS_EMBEDDING ? REDCOI_TP_PROJECT_IN
           : kind == REDCO_CLASS_HEAD    ? REDCOI_TP_PROJECT_OUT
                                         : REDCOI_TP_ROLES;
}

/* @param gate  whether an FFN input is the gate of a gated one */
static redcoi_tp_role role_of(const redco_rules_part *part, bool gate)
{
    switch (part->role) {
    case REDCO_ROLE_QUERY: return part->cross ? REDCOI_TP_CROSS_Q : REDCOI_TP_Q;
    case REDCO_ROLE_KEY: return part->cross ? REDCOI_TP_CROSS_K : REDCOI_TP_K;
    case REDCO_ROLE_VALUE: return part->cross ? REDCOI_TP_CROSS_V : REDCOI_TP_V;
    case REDCO_ROLE_QKV: return REDCOI_TP_QKV;
    case REDCO_ROLE_ATTENTION_OUT: return part->cross ? REDCOI_TP_CROSS_O : REDCOI_TP_O;
    case REDCO_ROLE_FFN_IN: return gate ? REDCOI_TP_GATE : REDCOI_TP_UP;
    case REDCO_ROLE_FFN_OUT: return REDCOI_TP_DOWN;
    case REDCO_ROLE_VOCABULARY: return REDCOI_TP_TOKENS;
    case REDCO_ROLE_POSITIONS: return REDCOI_TP_POSITIONS;
    case REDCO_ROLE_RELATIVE_BIAS: return REDCOI_TP_RELATIVE;
    case REDCO_ROLE_HEAD: return REDCOI_TP_HEAD;
    case REDCO_ROLE_TOKEN_TYPES:
    case REDCO_ROLE_OTHER:
    case REDCO_ROLE_NORM:
    case REDCO_ROLE_BIAS: break;
    }
    return REDCOI_TP_ROLES;
}

/* Of two matrices into a gated FFN the first is the gate. */
static bool is_gate(const redco_model *model, const redco_param *params, const redcoi_tp_role *role, size_t index)
{
    if (!redco_model_get_dims(model)->gated) { return false; }
    for (size_t i = 0; i < index; i++) {
        if (params[i].class_index == params[index].class_index && role[i] == REDCOI_TP_GATE) { return false; }
    }
    return true;
}

static void fill(const redco_model *model, const redco_rules_tree *tree, size_t paths, const redco_rules_part *parts,
                 redcoi_tp_roles *roles)
{
    const redco_layer_class *classes = NULL;
    const redco_param *params = NULL;
    (void)redco_model_classes(model, &classes);
    (void)redco_model_tensors(model, &params);
    for (size_t i = 0; i < paths; i++) {
        const size_t tensor = redco_rules_tree_tensor(tree, i);
        if (tensor == REDCO_RULES_NO_TENSOR || params[tensor].rank < 2) { continue; }
        redcoi_tp_role *const role = &roles->role[tensor];
        *role = role_of(&parts[i], parts[i].role == REDCO_ROLE_FFN_IN && is_gate(model, params, roles->role, tensor));
        if (*role == REDCOI_TP_ROLES) {
            *role = other_role(classes[params[tensor].class_index].kind, params[tensor].role);
        }
        if (*role == REDCOI_TP_QKV) { roles->qkv = parts[i].qkv; }
    }
}

redco_status redcoi_tp_roles_find(const redco_model *model, redcoi_tp_roles *roles_out, redco_error *err)
{
    const redco_param *params = NULL;
    const redco_rules_param *paths = NULL;
    const size_t count = redco_model_tensors(model, &params);
    redco_rules_tree *tree = NULL;
    redco_rules_part *parts = NULL;
    redcoi_tp_roles roles = {.qkv = REDCO_QKV_NOT_FUSED};
    redco_status st = redco_rules_tree_from_model(model, false, &tree, err);
    if (st != REDCO_OK) { return st; }
    const size_t path_count = redco_rules_tree_params(tree, &paths);
    if ((st = redco_rules_parts(paths, path_count, &parts, err)) != REDCO_OK) { goto out; }
    if ((roles.role = calloc(count + 1, sizeof *roles.role)) == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, redco_model_name(model), "out of memory");
        goto out;
    }
    for (size_t i = 0; i < count; i++) { roles.role[i] = REDCOI_TP_ROLES; }
    fill(model, tree, path_count, parts, &roles);
    *roles_out = roles;
out:
    free(parts);
    redco_rules_tree_free(tree);
    return st;
}

void redcoi_tp_roles_free(redcoi_tp_roles *roles)
{
    free(roles->role);
    *roles = (redcoi_tp_roles){.role = NULL};
}

void redcoi_tp_weights_find(const redco_model *model, const redcoi_tp_roles *roles, uint32_t class_index,
                            redcoi_tp_weights *weights)
{
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    *weights = (redcoi_tp_weights){.unknown = NULL};
    for (size_t i = 0; i < count; i++) {
        const redco_param *const param = &params[i];
        const redcoi_tp_role role = roles->role[i];
        if (param->class_index != class_index || param->rank < 2) { continue; }
        if (role == REDCOI_TP_ROLES) {
            weights->unknown = param;
            continue;
        }
        weights->param[role] = param;
        weights->index[role] = (uint32_t)i;
        weights->count[role]++;
    }
}
