/* MiniMax-M2 (MiniMax, 2025): grouped heads with norms of all queries and of all keys together, and routed experts in
 * every layer, chosen as DeepSeek-V3 does. Source: modeling_minimax_m2.py and configuration_minimax_m2.py of
 * HuggingFace transformers 5.24. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_QUERIES_NORM, "self_attn.q_norm", 0},
    {REDCO_USE_KEYS_NORM, "self_attn.k_norm", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_ROUTER, "block_sparse_moe.gate", 0},
    {REDCO_USE_EXPERT_GATE, "block_sparse_moe.experts.{}.w1", 0},
    {REDCO_USE_EXPERT_UP, "block_sparse_moe.experts.{}.w3", 0},
    {REDCO_USE_EXPERT_DOWN, "block_sparse_moe.experts.{}.w2", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};
static const redcoi_expert_keys experts = {.experts = "num_local_experts", .choices = "num_experts_per_tok"};

const redcoi_family redcoi_family_minimax_m2 = {
    .type = "minimax_m2",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = REDCOI_REQUIRED_SIZES,
    .layers = layers,
    .experts = &experts,
    .sigmoid_router = true,
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
};
