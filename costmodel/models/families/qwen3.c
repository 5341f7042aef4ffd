/* Qwen3 (Yang et al., arXiv 2505.09388): Qwen2 whose queries and keys pass an RMS norm of each head before they are
 * rotated, with heads of a given size and without biases.
 * Source: modeling_qwen3.py and configuration_qwen3.py of HuggingFace transformers 4.51. */
#include "costmodel/models/family.h"

const redcoi_family redcoi_family_qwen3 = {
    .type = "qwen3",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true, .head_norms = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 151936,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 22016,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32,
                 [REDCOI_SIZE_KV_HEADS] = 32,
                 [REDCOI_SIZE_HEAD_DIM] = 128},
    .layers = redcoi_llama_layers,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = redcoi_qwen2_windows,
};
