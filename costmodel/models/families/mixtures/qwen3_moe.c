/* Qwen3-MoE (Yang et al., arXiv 2505.09388): Qwen3 with routed experts in the layers that "decoder_sparse_step" and
 * "mlp_only_layers" leave. Source: modeling_qwen3_moe.py and configuration_qwen3_moe.py of HuggingFace transformers
 * 4.51; 5.24. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_QUERY_NORM, "self_attn.q_norm", 0},
    {REDCO_USE_KEY_NORM, "self_attn.k_norm", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE, "mlp.gate_proj", 0},
    {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {REDCO_USE_ROUTER, "mlp.gate", 0},
    {REDCO_USE_EXPERT_GATE, "mlp.experts.{}.gate_proj", 0},
    {REDCO_USE_EXPERT_UP, "mlp.experts.{}.up_proj", 0},
    {REDCO_USE_EXPERT_DOWN, "mlp.experts.{}.down_proj", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};
static const redcoi_expert_keys experts = {
    .experts = "num_experts", .choices = "num_experts_per_tok", .width = "moe_intermediate_size"};

const redcoi_family redcoi_family_qwen3_moe = {
    .type = "qwen3_moe",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true, .head_norms = true},
    .keys = redcoi_llama_keys,
    .defaults = REDCOI_REQUIRED_SIZES,
    .layers = layers,
    .experts = &experts,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = redcoi_qwen_moe_layers,
};
