/* InternLM3 (Shanghai AI Laboratory, 2025): LLaMA with a key for the biases of queries, keys and values and one for all
 * others. Source: modeling_internlm3.py and configuration_internlm3.py beside internlm/internlm3-8b-instruct. */
#include "costmodel/models/family.h"

const redcoi_family redcoi_family_internlm3 = {
    .type = "internlm3",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 128512,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 11008,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = redcoi_llama_layers,
    .bias_keys = {{"qkv_bias", false, REDCOI_QKV_BIASES}, {"bias", false, REDCOI_BIT(OUTPUT) | REDCOI_FFN_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
};
