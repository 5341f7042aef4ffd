/* Gemma 3, its text model (Gemma Team, arXiv 2503.19786): Gemma 2 with an RMS norm of each head's queries and keys, no
 * caps, and a window in five of six layers.
 * Source: modeling_gemma3.py and configuration_gemma3.py of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

static void read_windows(redcoi_build *build)
{
    enum { DEFAULT_PATTERN = 6 };
    const uint64_t pattern = redcoi_config_count(build, "sliding_window_pattern", DEFAULT_PATTERN, REDCOI_MAX_LAYERS);
    redcoi_config_window_every(build, redcoi_config_window(build, 4096), (uint32_t)pattern);
}

/* Layers with a window turn by a base of their own, whatever the scaling of the others. */
static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    static const char *const caps[] = {"attn_logit_softcapping", "final_logit_softcapping"};
    redcoi_gemma2_settings(config, dims, s);
    for (size_t i = 0; i < sizeof caps / sizeof caps[0]; i++) { /* null */
        if (redcoi_config_asks(config, caps[i])) { redcoi_build_fail(config, caps[i], "is not read of this type"); }
    }
    if (redcoi_config_bool(config, "use_bidirectional_attention", false)) {
        redcoi_build_fail(config, "use_bidirectional_attention", "is true; the executor sees keys before a query only");
    }
    const double base = redcoi_config_number(config, "rope_local_base_freq", 10000.0, 1.0, 1e12);
    if (s->window_rope.size == 0) { s->window_rope = (redcoi_rope){.size = s->rope.size, .theta = base}; }
}

const redcoi_family redcoi_family_gemma3_text = {
    .type = "gemma3_text",
    .dims =
        {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true, .head_norms = true, .tied = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 262208,
                 [REDCOI_SIZE_HIDDEN] = 2304,
                 [REDCOI_SIZE_FFN] = 9216,
                 [REDCOI_SIZE_LAYERS] = 26,
                 [REDCOI_SIZE_HEADS] = 8,
                 [REDCOI_SIZE_KV_HEADS] = 4,
                 [REDCOI_SIZE_HEAD_DIM] = 256},
    .layers = redcoi_gemma2_layers,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}},
    .gain_is_added = true,
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 1000000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_GELU_TANH},
    .read = read_windows,
    .read_settings = read_settings,
};
