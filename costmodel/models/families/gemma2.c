/* Gemma 2 (Gemma Team, arXiv 2408.00118): Gemma with a norm behind each part of a block, too, every second layer behind
 * a window, and scores and logits that a tangent caps, which costs no pass of its own.
 * Source: modeling_gemma2.py and configuration_gemma2.py of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

#include <math.h>

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_QUERY_NORM, "self_attn.q_norm", 0},
    {REDCO_USE_KEY_NORM, "self_attn.k_norm", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_ATTENTION_END_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_FFN_NORM, "pre_feedforward_layernorm", 0},
    {REDCO_USE_GATE, "mlp.gate_proj", 0},
    {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {REDCO_USE_FFN_END_NORM, "post_feedforward_layernorm", 0},
    {0},
};

const redcoi_layer_modules redcoi_gemma2_layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};

static void read_windows(redcoi_build *build)
{
    redcoi_config_window_every(build, redcoi_config_window(build, 4096), 2);
}

void redcoi_gemma2_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    s->activation = redcoi_config_activation(config, "hidden_activation", s->activation);
    s->embedding_scale = sqrt((double)dims->hidden);
    s->score_scale = 1.0 / sqrt(redcoi_config_number(config, "query_pre_attn_scalar", 256.0, 1.0, 1e6));
}

/* null: no cap */
static double read_cap(redcoi_build *config, const char *key, double fallback)
{
    const bool none = json_is_null(json_object_get(config->config.json, key));
    return redcoi_config_number(config, key, none ? 0.0 : fallback, 1e-3, 1e6);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_gemma2_settings(config, dims, s);
    s->score_cap = read_cap(config, "attn_logit_softcapping", 50.0);
    s->logit_cap = read_cap(config, "final_logit_softcapping", 30.0);
}

const redcoi_family redcoi_family_gemma2 = {
    .type = "gemma2",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true, .tied = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 256000,
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
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_GELU_TANH},
    .read = read_windows,
    .read_settings = read_settings,
};
