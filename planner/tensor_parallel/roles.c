/* Sources of the names: modeling_*.py of HuggingFace transformers 4.48; modeling_internlm2.py. */
#include "planner/tensor_parallel/roles.h"

#include <string.h>

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

struct known_name {
    const char *end; /* the last names of the module, joined with '.' */
    redcoi_tp_role role;
};

/* The first entry that the name ends with counts: longer ones stand before shorter ones. */
static const struct known_name known_names[] = {
    {"EncDecAttention.q", REDCOI_TP_CROSS_Q},
    {"EncDecAttention.k", REDCOI_TP_CROSS_K},
    {"EncDecAttention.v", REDCOI_TP_CROSS_V},
    {"EncDecAttention.o", REDCOI_TP_CROSS_O},
    {"encoder_attn.q_proj", REDCOI_TP_CROSS_Q},
    {"encoder_attn.k_proj", REDCOI_TP_CROSS_K},
    {"encoder_attn.v_proj", REDCOI_TP_CROSS_V},
    {"encoder_attn.out_proj", REDCOI_TP_CROSS_O},
    {"SelfAttention.q", REDCOI_TP_Q},
    {"SelfAttention.k", REDCOI_TP_K},
    {"SelfAttention.v", REDCOI_TP_V},
    {"SelfAttention.o", REDCOI_TP_O},
    {"relative_attention_bias", REDCOI_TP_RELATIVE},
    {"attention.self.query", REDCOI_TP_Q}, /* BERT */
    {"attention.self.key", REDCOI_TP_K},
    {"attention.self.value", REDCOI_TP_V},
    {"attention.output.dense", REDCOI_TP_O},
    {"intermediate.dense", REDCOI_TP_UP},
    {"output.dense", REDCOI_TP_DOWN},
    {"q_proj", REDCOI_TP_Q},
    {"k_proj", REDCOI_TP_K},
    {"v_proj", REDCOI_TP_V},
    {"c_attn", REDCOI_TP_QKV},
    {"query_key_value", REDCOI_TP_QKV},
    {"Wqkv", REDCOI_TP_QKV},
    {"wqkv", REDCOI_TP_QKV},
    {"attn.c_proj", REDCOI_TP_O},
    {"attention.dense", REDCOI_TP_O},
    {"self_attention.dense", REDCOI_TP_O},
    {"attention.wo", REDCOI_TP_O},
    {"o_proj", REDCOI_TP_O},
    {"out_proj", REDCOI_TP_O},
    {"gate_proj", REDCOI_TP_GATE},
    {"feed_forward.w1", REDCOI_TP_GATE},
    {"wi_0", REDCOI_TP_GATE},
    {"up_proj", REDCOI_TP_UP},
    {"feed_forward.w3", REDCOI_TP_UP},
    {"wi_1", REDCOI_TP_UP},
    {"DenseReluDense.wi", REDCOI_TP_UP},
    {"fc_in", REDCOI_TP_UP},
    {"fc1", REDCOI_TP_UP},
    {"c_fc", REDCOI_TP_UP},
    {"dense_h_to_4h", REDCOI_TP_UP},
    {"down_proj", REDCOI_TP_DOWN},
    {"feed_forward.w2", REDCOI_TP_DOWN},
    {"DenseReluDense.wo", REDCOI_TP_DOWN},
    {"fc_out", REDCOI_TP_DOWN},
    {"fc2", REDCOI_TP_DOWN},
    {"mlp.c_proj", REDCOI_TP_DOWN},
    {"dense_4h_to_h", REDCOI_TP_DOWN},
    {"wpe", REDCOI_TP_POSITIONS},
    {"embed_positions", REDCOI_TP_POSITIONS},
    {"position_embeddings", REDCOI_TP_POSITIONS},
    {"wte", REDCOI_TP_TOKENS},
    {"shared", REDCOI_TP_TOKENS},
    {"embed_tokens", REDCOI_TP_TOKENS},
    {"tok_embeddings", REDCOI_TP_TOKENS},
    {"word_embeddings", REDCOI_TP_TOKENS},
    {"embed_in", REDCOI_TP_TOKENS},
    {"project_in", REDCOI_TP_PROJECT_IN},
    {"project_out", REDCOI_TP_PROJECT_OUT},
    {"lm_head", REDCOI_TP_HEAD},
    {"embed_out", REDCOI_TP_HEAD},
    {"output", REDCOI_TP_HEAD},
    {"q", REDCOI_TP_Q}, /* models that are known by their dimensions alone */
    {"k", REDCOI_TP_K},
    {"v", REDCOI_TP_V},
    {"out", REDCOI_TP_O},
    {"ffn_gate", REDCOI_TP_GATE},
    {"ffn_in", REDCOI_TP_UP},
    {"ffn_out", REDCOI_TP_DOWN},
    {"embedding", REDCOI_TP_TOKENS},
    {"head", REDCOI_TP_HEAD},
};

static bool separates(char c)
{
    return c == '.' || c == '/';
}

static size_t module_length(const char *name)
{
    static const char *const leaves[] = {"weight", "kernel", "embedding"};
    const size_t length = strlen(name);
    for (size_t i = 0; i < sizeof leaves / sizeof leaves[0]; i++) {
        const size_t leaf = strlen(leaves[i]);
        if (length > leaf && strcmp(name + length - leaf, leaves[i]) == 0 && separates(name[length - leaf - 1])) {
            return length - leaf - 1;
        }
    }
    return length;
}

static bool ends_with(const char *name, size_t length, const char *end)
{
    const size_t wanted = strlen(end);
    if (length < wanted || (length > wanted && !separates(name[length - wanted - 1]))) { return false; }
    for (size_t i = 0; i < wanted; i++) {
        const char c = name[length - wanted + i];
        if (c != end[i] && !(separates(c) && separates(end[i]))) { return false; }
    }
    return true;
}

redcoi_tp_role redcoi_tp_role_of(const char *name)
{
    const size_t length = module_length(name);
    for (size_t i = 0; i < sizeof known_names / sizeof known_names[0]; i++) {
        if (ends_with(name, length, known_names[i].end)) { return known_names[i].role; }
    }
    return REDCOI_TP_ROLES;
}

redcoi_tp_fusion redcoi_tp_fusion_of(const char *type)
{
    if (strcmp(type, "bloom") == 0 || strcmp(type, "gpt_neox") == 0) { return REDCOI_TP_HEADS; }
    return strcmp(type, "internlm2") == 0 ? REDCOI_TP_GROUPS : REDCOI_TP_THIRDS;
}

void redcoi_tp_weights_find(const redco_model *model, uint32_t class_index, redcoi_tp_weights *weights)
{
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    *weights = (redcoi_tp_weights){.unknown = NULL};
    for (size_t i = 0; i < count; i++) {
        const redco_param *const param = &params[i];
        if (param->class_index != class_index || param->rank < 2) { continue; }
        const redcoi_tp_role role = redcoi_tp_role_of(param->name);
        if (role == REDCOI_TP_ROLES) {
            weights->unknown = param;
            continue;
        }
        weights->param[role] = param;
        weights->index[role] = (uint32_t)i;
        weights->count[role]++;
    }
}
