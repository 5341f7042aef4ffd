/* SmolLM3 (Hugging Face, 2025): LLaMA with a tied table and, in every fourth layer, no rotation.
 * Source: modeling_smollm3.py and configuration_smollm3.py of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

static void read_rotation(redcoi_build *build)
{
    const uint64_t interval = redcoi_config_count(build, "no_rope_layer_interval", 4, REDCOI_MAX_LAYERS);
    const bool windows = redcoi_config_bool(build, "use_sliding_window", false);
    redcoi_config_unrotated(build, "no_rope_layers", (uint32_t)interval);
    const uint64_t window = redcoi_config_window(build, 0); /* asked for: a config without windows may have the key */
    redcoi_config_windows(build, windows ? window : 0, 0);
}

const redcoi_family redcoi_family_smollm3 = {
    .type = "smollm3",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true, .tied = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 128256,
                 [REDCOI_SIZE_HIDDEN] = 2048,
                 [REDCOI_SIZE_FFN] = 11008,
                 [REDCOI_SIZE_LAYERS] = 36,
                 [REDCOI_SIZE_HEADS] = 16,
                 [REDCOI_SIZE_KV_HEADS] = 4},
    .layers = redcoi_llama_layers,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}, {"mlp_bias", false, REDCOI_FFN_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 2000000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = read_rotation,
};
