/* Seed-OSS (ByteDance, 2025): LLaMA with biases of queries, keys and values, and a key for that of the output.
 * Source: modeling_seed_oss.py and configuration_seed_oss.py of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

const redcoi_family redcoi_family_seed_oss = {
    .type = "seed_oss",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 155136,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 27648,
                 [REDCOI_SIZE_LAYERS] = 64,
                 [REDCOI_SIZE_HEADS] = 80,
                 [REDCOI_SIZE_KV_HEADS] = 8,
                 [REDCOI_SIZE_HEAD_DIM] = 128},
    .dropout_key = "residual_dropout",
    .layers = redcoi_llama_layers,
    .bias_keys = {{"attention_bias", true, REDCOI_QKV_BIASES},
                  {"attention_out_bias", false, REDCOI_BIT(OUTPUT)},
                  {"mlp_bias", false, REDCOI_FFN_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
};
