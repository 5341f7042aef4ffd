/* GPT-2 (Radford et al., 2019): layer norms, learned positions, queries, keys and values from one matrix.
 * Source: modeling_gpt2.py and configuration_gpt2.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

const redcoi_key redcoi_gpt_keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},
    [REDCOI_SIZE_HIDDEN] = {"n_embd", "hidden_size"},
    [REDCOI_SIZE_FFN] = {"n_inner", NULL},
    [REDCOI_SIZE_LAYERS] = {"n_layer", "num_hidden_layers"},
    [REDCOI_SIZE_HEADS] = {"n_head", "num_attention_heads"},
    [REDCOI_SIZE_POSITIONS] = {"n_positions", "max_position_embeddings"},
};

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "wte", 0}, {REDCO_USE_POSITIONS, "wpe", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "ln_1", 0},
    {REDCO_USE_QKV, "attn.c_attn", 0},
    {REDCO_USE_OUTPUT, "attn.c_proj", 0},
    {REDCO_USE_FFN_NORM, "ln_2", 0},
    {REDCO_USE_UP, "mlp.c_fc", 0},
    {REDCO_USE_DOWN, "mlp.c_proj", 0},
    {0},
};
static const redcoi_module head[] = {
    {REDCO_USE_FINAL_NORM, "transformer.ln_f", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

const redcoi_layer_modules redcoi_gpt_layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"transformer.", embedding},
    [REDCO_CLASS_BLOCK] = {"transformer.h.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

static void read_gpt2(redcoi_build *build)
{
    if (redcoi_config_bool(build, "add_cross_attention", false)) {
        redcoi_build_fail(build, "add_cross_attention", "is true; redco reads GPT-2 without cross attention");
    }
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    if (!redcoi_config_bool(config, "scale_attn_weights", true)) { s->score_scale = 1.0; }
    s->scale_by_layer = redcoi_config_bool(config, "scale_attn_by_inverse_layer_idx", false);
}

const redcoi_family redcoi_family_gpt2 = {
    .type = "gpt2",
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
    .qkv = REDCOI_QKV_BY_KIND,
    .conv1d = true,
    .epsilon = {"layer_norm_epsilon", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .active = {"activation_function", REDCOI_ACTIVATION_GELU_TANH},
    .read = read_gpt2,
    .read_settings = read_settings,
};
