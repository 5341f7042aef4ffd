/* Mistral (Jiang et al., arXiv 2310.06825): LLaMA whose queries see a sliding window of keys.
 * Source: modeling_mistral.py and configuration_mistral.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static void read_window(redcoi_build *build)
{
    build->window = redcoi_config_window(build, 4096);
}

const redcoi_family redcoi_family_mistral = {
    .type = "mistral",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 32000,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 14336,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32,
                 [REDCOI_SIZE_KV_HEADS] = 8},
    .layers = redcoi_llama_layers,
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = read_window,
};
