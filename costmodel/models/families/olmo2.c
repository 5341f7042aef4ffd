/* OLMo 2 (OLMo Team, arXiv 2501.00656): LLaMA whose norms stand behind the parts of a block and not before them, with
 * norms of all queries and of all keys together.
 * Source: modeling_olmo2.py and configuration_olmo2.py of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_QUERIES_NORM, "self_attn.q_norm", 0},
    {REDCO_USE_KEYS_NORM, "self_attn.k_norm", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_ATTENTION_END_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE, "mlp.gate_proj", 0},
    {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {REDCO_USE_FFN_END_NORM, "post_feedforward_layernorm", 0},
    {0},
};

const redcoi_layer_modules redcoi_olmo2_layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};

const redcoi_family redcoi_family_olmo2 = {
    .type = "olmo2",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 50304,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 11008,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = redcoi_olmo2_layers,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
};
