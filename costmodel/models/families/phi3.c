/* Phi-3 (Abdin et al., arXiv 2404.14219): LLaMA with queries, keys and values in one matrix, all queries first, and
 * gate and up in another. Source: modeling_phi3.py and configuration_phi3.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "model.embed_tokens", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QKV, "self_attn.qkv_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE_UP, "mlp.gate_up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {0},
};
static const redcoi_module head[] = {{REDCO_USE_FINAL_NORM, "model.norm", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

static void read_window(redcoi_build *build)
{
    build->window = redcoi_config_window(build, 0);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_config_rotary_part(config, "partial_rotary_factor", 1.0, dims, s);
}

const redcoi_family redcoi_family_phi3 = {
    .type = "phi3",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 32064,
                 [REDCOI_SIZE_HIDDEN] = 3072,
                 [REDCOI_SIZE_FFN] = 8192,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = layers,
    .qkv = REDCOI_QKV_BY_KIND,
    .epsilon = {"rms_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = read_window,
    .read_settings = read_settings,
};
