/* Nemotron-4 and Minitron (Parmar et al., arXiv 2402.16819): layer norms that multiply by 1 + gain, half of each head
 * rotated, an FFN without a gate whose activation is the square of ReLU.
 * Source: modeling_nemotron.py and configuration_nemotron.py of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_config_rotary_part(config, "partial_rotary_factor", 0.5, dims, s);
}

const redcoi_family redcoi_family_nemotron = {
    .type = "nemotron",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ROTARY, .activation = REDCO_ACTIVATION_RELU},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 256000,
                 [REDCOI_SIZE_HIDDEN] = 6144,
                 [REDCOI_SIZE_FFN] = 24576,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 48},
    .layers = layers,
    .biases = REDCOI_NORM_BIASES,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}, {"mlp_bias", false, REDCOI_FFN_BIASES}},
    .gain_is_added = true,
    .epsilon = {"norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.0134},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_RELU_SQUARED},
    .read_settings = read_settings,
};
