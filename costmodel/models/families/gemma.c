/* Gemma (Gemma Team, arXiv 2403.08295): LLaMA with heads wider than hidden / heads, a tied table whose rows are
 * multiplied by the root of their length, norms that multiply by 1 + gain, and GELU's tanh form.
 * Source: modeling_gemma.py and configuration_gemma.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

#include <math.h>

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    s->activation = redcoi_config_activation(config, "hidden_activation", s->activation);
    s->embedding_scale = sqrt((double)dims->hidden);
}

const redcoi_family redcoi_family_gemma = {
    .type = "gemma",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true, .tied = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 256000,
                 [REDCOI_SIZE_HIDDEN] = 3072,
                 [REDCOI_SIZE_FFN] = 24576,
                 [REDCOI_SIZE_LAYERS] = 28,
                 [REDCOI_SIZE_HEADS] = 16,
                 [REDCOI_SIZE_KV_HEADS] = 16,
                 [REDCOI_SIZE_HEAD_DIM] = 256},
    .layers = redcoi_llama_layers,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}},
    .gain_is_added = true,
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_GELU_TANH}, /* older configs; "hidden_activation" wins */
    .read_settings = read_settings,
};
