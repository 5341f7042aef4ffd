/* OLMo 3 (OLMo Team, 2025): OLMo 2 with a window in three of four layers, whose rotation no scaling stretches.
 * Source: modeling_olmo3.py and configuration_olmo3.py of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

static void read_windows(redcoi_build *build)
{
    redcoi_config_window_every(build, redcoi_config_window(build, 4096), 4);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)config;
    (void)dims;
    if (s->window_rope.size == 0) { s->window_rope = (redcoi_rope){.size = s->rope.size, .theta = s->rope.theta}; }
}

const redcoi_family redcoi_family_olmo3 = {
    .type = "olmo3",
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
    .read = read_windows,
    .read_settings = read_settings,
};
