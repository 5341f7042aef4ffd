/* GLM-4 (GLM Team, arXiv 2406.12793): LLaMA with half of each head rotated, by neighbouring pairs, biases of queries,
 * keys and values, and gate and up in one matrix; "glm4" (0414) has a norm behind each part, too.
 * Source: modeling_glm.py, modeling_glm4.py and their configurations of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

static const redcoi_module glm_block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE_UP, "mlp.gate_up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {0},
};
static const redcoi_module glm4_block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_ATTENTION_END_NORM, "post_self_attn_layernorm", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE_UP, "mlp.gate_up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {REDCO_USE_FFN_END_NORM, "post_mlp_layernorm", 0},
    {0},
};

static const redcoi_layer_modules glm_layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", glm_block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};
static const redcoi_layer_modules glm4_layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", glm4_block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_config_rotary_part(config, "partial_rotary_factor", 0.5, dims, s);
    s->rope.interleaved = true;
}

#define COMMON                                                                                                         \
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true}, .keys = redcoi_llama_keys,   \
    .defaults = {[REDCOI_SIZE_VOCAB] = 151552, [REDCOI_SIZE_HIDDEN] = 4096, [REDCOI_SIZE_FFN] = 13696,                 \
                 [REDCOI_SIZE_LAYERS] = 40,    [REDCOI_SIZE_HEADS] = 32,    [REDCOI_SIZE_KV_HEADS] = 2,                \
                 [REDCOI_SIZE_HEAD_DIM] = 128},                                                                        \
    .bias_keys = {{"attention_bias", false, REDCOI_QKV_BIASES}}, .epsilon = {"rms_norm_eps", 1.5625e-7},               \
    .deviation = {"initializer_range", 0.02}, .theta = {"rope_theta", 10000.0},                                        \
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU}, .read_settings = read_settings

const redcoi_family redcoi_family_glm = {.type = "glm", .layers = glm_layers, COMMON};
const redcoi_family redcoi_family_glm4 = {.type = "glm4", .layers = glm4_layers, COMMON};
