/* Granite 3 (IBM): LLaMA with factors on embeddings, residuals, scores and logits, which cost no pass of their own.
 * Source: modeling_granite.py and configuration_granite.py of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    s->embedding_scale = redcoi_config_number(config, "embedding_multiplier", 1.0, 1e-6, 1e6);
    s->residual_scale = redcoi_config_number(config, "residual_multiplier", 1.0, 1e-6, 1e6);
    s->score_scale = redcoi_config_number(config, "attention_multiplier", 1.0, 1e-6, 1e6);
    s->logit_scale = 1.0 / redcoi_config_number(config, "logits_scaling", 1.0, 1e-6, 1e6);
}

const redcoi_family redcoi_family_granite = {
    .type = "granite",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 32000,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 11008,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = redcoi_llama_layers,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}, {"mlp_bias", false, REDCOI_FFN_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read_settings = read_settings,
};
