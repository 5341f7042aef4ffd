/* MiniCPM (Hu et al., arXiv 2404.06395): LLaMA, tied, with factors on embeddings, on what each part adds, and on
 * logits. Source: modeling_minicpm.py and configuration_minicpm.py beside openbmb/MiniCPM-2B-sft-bf16. */
#include "costmodel/models/family.h"

#include <math.h>

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    const double base = redcoi_config_number(config, "dim_model_base", 1.0, 1.0, REDCOI_MAX_WIDTH);
    s->embedding_scale = redcoi_config_number(config, "scale_emb", 1.0, 1e-6, 1e6);
    s->residual_scale = redcoi_config_number(config, "scale_depth", 1.0, 1e-6, 1e6) / sqrt((double)dims->layers);
    s->logit_scale = base / (double)dims->hidden;
}

const redcoi_family redcoi_family_minicpm = {
    .type = "minicpm",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true, .tied = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 32000,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 11008,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = redcoi_llama_layers,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read_settings = read_settings,
};
