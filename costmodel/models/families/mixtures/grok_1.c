/* Grok-1 (xAI, github.com/xai-org/grok-1, model.py, 2024): a norm before and one behind each part of a block, routed
 * experts in every layer, gated by GELU. It is not in transformers: keys are those of LLaMA and Qwen, names follow. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_ATTENTION_END_NORM, "self_attn.norm", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_ROUTER, "mlp.gate", 0},
    {REDCO_USE_EXPERT_GATE, "mlp.experts.{}.gate_proj", 0},
    {REDCO_USE_EXPERT_UP, "mlp.experts.{}.up_proj", 0},
    {REDCO_USE_EXPERT_DOWN, "mlp.experts.{}.down_proj", 0},
    {REDCO_USE_FFN_END_NORM, "mlp.norm", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};
static const redcoi_expert_keys experts = {.experts = "num_experts", .choices = "num_experts_per_tok"};

const redcoi_family redcoi_family_grok_1 = {
    .type = "grok-1",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true, .tied = true},
    .keys = redcoi_llama_keys,
    .defaults = REDCOI_REQUIRED_SIZES,
    .layers = layers,
    .experts = &experts,
    .epsilon = {"rms_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .active = {"hidden_act", REDCOI_ACTIVATION_GELU_TANH},
};
