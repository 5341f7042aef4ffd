/* BLOOM (BigScience, arXiv 2211.05100): ALiBi instead of position tables, a norm behind the table, an FFN of four
 * widths. Source: modeling_bloom.py and configuration_bloom.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},
    [REDCOI_SIZE_HIDDEN] = {"hidden_size", "n_embed"},
    [REDCOI_SIZE_LAYERS] = {"n_layer", "num_hidden_layers"},
    [REDCOI_SIZE_HEADS] = {"n_head", "num_attention_heads"},
};

static const redcoi_module embedding[] = {
    {REDCO_USE_TABLE, "word_embeddings", 0}, {REDCO_USE_EMBEDDING_NORM, "word_embeddings_layernorm", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QKV, "self_attention.query_key_value", 0},
    {REDCO_USE_OUTPUT, "self_attention.dense", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_UP, "mlp.dense_h_to_4h", 0},
    {REDCO_USE_DOWN, "mlp.dense_4h_to_h", 0},
    {0},
};
static const redcoi_module head[] = {
    {REDCO_USE_FINAL_NORM, "transformer.ln_f", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"transformer.", embedding},
    [REDCO_CLASS_BLOCK] = {"transformer.h.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    s->residual_from_norm = redcoi_config_bool(config, "apply_residual_connection_post_layernorm", false);
}

const redcoi_family redcoi_family_bloom = {
    .type = "bloom",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ALIBI, .tied = true},
    .keys = keys,
    .defaults =
        {[REDCOI_SIZE_VOCAB] = 250880, [REDCOI_SIZE_HIDDEN] = 64, [REDCOI_SIZE_LAYERS] = 2, [REDCOI_SIZE_HEADS] = 8},
    .dropout_key = "hidden_dropout",
    .layers = layers,
    .biases = REDCOI_ALL_BIASES,
    .qkv = REDCOI_QKV_BY_HEAD,
    .epsilon = {"layer_norm_epsilon", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .active = {NULL, REDCOI_ACTIVATION_GELU_TANH}, /* every BLOOM has it; its config has no key */
    .read_settings = read_settings,
};
