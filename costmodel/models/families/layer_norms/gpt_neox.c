/* GPT-NeoX (Black et al., arXiv 2204.06745): attention and FFN beside each other, each behind its own norm of the
 * block's input (or, if switched so, behind each other); the matrix of queries, keys and values is ordered by head; the
 * first part of each head is rotated. Source: modeling_gpt_neox.py and configuration_gpt_neox.py of HuggingFace
 * transformers 4.48. */
#include "costmodel/models/family.h"

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},          [REDCOI_SIZE_HIDDEN] = {"hidden_size", NULL},
    [REDCOI_SIZE_FFN] = {"intermediate_size", NULL},     [REDCOI_SIZE_LAYERS] = {"num_hidden_layers", NULL},
    [REDCOI_SIZE_HEADS] = {"num_attention_heads", NULL},
};

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "embed_in", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_QKV, "attention.query_key_value", 0},
    {REDCO_USE_OUTPUT, "attention.dense", 0},
    {REDCO_USE_UP, "mlp.dense_h_to_4h", 0},
    {REDCO_USE_DOWN, "mlp.dense_4h_to_h", 0},
    {0},
};
static const redcoi_module head[] = {
    {REDCO_USE_FINAL_NORM, "gpt_neox.final_layer_norm", 0}, {REDCO_USE_HEAD, "embed_out", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"gpt_neox.", embedding},
    [REDCO_CLASS_BLOCK] = {"gpt_neox.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

static void read_neox(redcoi_build *build)
{
    build->model->dims.parallel_block = redcoi_config_bool(build, "use_parallel_residual", true);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    /* 4.48 writes both again under the names that other families have, and reads those. */
    const double part = redcoi_config_number(config, "rotary_pct", 0.25, 0.0, 1.0);
    s->rope.size =
        (uint64_t)((double)dims->head_dim * redcoi_config_rotary_share(config, "partial_rotary_factor", part));
    s->rope.theta = redcoi_config_number(config, "rope_theta", s->rope.theta, 1.0, 1e12);
    if (s->rope.size < 2 || s->rope.size % 2 != 0) {
        redcoi_build_fail(config, "rotary_pct", "must make an even number of elements of a head, at least 2");
    }
}

const redcoi_family redcoi_family_gpt_neox = {
    .type = "gpt_neox",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ROTARY},
    .keys = keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 50432,
                 [REDCOI_SIZE_HIDDEN] = 6144,
                 [REDCOI_SIZE_FFN] = 24576,
                 [REDCOI_SIZE_LAYERS] = 44,
                 [REDCOI_SIZE_HEADS] = 64},
    .dropout_key = "hidden_dropout",
    .layers = layers,
    .biases = REDCOI_ALL_BIASES,
    .bias_keys = {{"attention_bias", true, REDCOI_ATTENTION_BIASES}},
    .qkv = REDCOI_QKV_BY_HEAD,
    .epsilon = {"layer_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rotary_emb_base", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_GELU},
    .read = read_neox,
    .read_settings = read_settings,
};
