/* GPTBigCode (SantaCoder, StarCoder; Li et al., arXiv 2305.06161): GPT-2 of which all heads share one of keys and
 * values. Source: modeling_gpt_bigcode.py and configuration_gpt_bigcode.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static void read_heads(redcoi_build *build)
{
    if (redcoi_config_bool(build, "multi_query", true)) { build->model->dims.kv_heads = 1; }
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    if (!redcoi_config_bool(config, "scale_attn_weights", true)) { s->score_scale = 1.0; }
}

const redcoi_family redcoi_family_gpt_bigcode = {
    .type = "gpt_bigcode",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_LEARNED, .tied = true, .dropout = true},
    .keys = redcoi_gpt_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 50257,
                 [REDCOI_SIZE_HIDDEN] = 768,
                 [REDCOI_SIZE_LAYERS] = 12,
                 [REDCOI_SIZE_HEADS] = 12,
                 [REDCOI_SIZE_POSITIONS] = 1024},
    .dropout_key = "resid_pdrop",
    .layers = redcoi_gpt_layers,
    .biases = REDCOI_ALL_BIASES,
    .qkv = REDCOI_QKV_BY_GROUP,
    .epsilon = {"layer_norm_epsilon", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .active = {"activation_function", REDCOI_ACTIVATION_GELU_TANH},
    .read = read_heads,
    .read_settings = read_settings,
};
