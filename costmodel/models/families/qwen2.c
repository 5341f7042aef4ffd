/* Qwen2 (Yang et al., arXiv 2407.10671): LLaMA with biases of queries, keys and values, and, if switched on, a sliding
 * window in the upper layers. Source: modeling_qwen2.py and configuration_qwen2.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

void redcoi_qwen2_windows(redcoi_build *build)
{
    const bool used = redcoi_config_bool(build, "use_sliding_window", false);
    const uint64_t window = redcoi_config_window(build, 4096);
    const uint64_t first = redcoi_config_count(build, "max_window_layers", 28, UINT32_MAX);
    redcoi_config_windows(build, used ? window : 0, (uint32_t)first);
}

const redcoi_family redcoi_family_qwen2 = {
    .type = "qwen2",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 151936,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 22016,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32,
                 [REDCOI_SIZE_KV_HEADS] = 32},
    .layers = redcoi_llama_layers,
    .biases = REDCOI_QKV_BIASES,
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = redcoi_qwen2_windows,
};
