/* GPT-J (Wang and Komatsuzaki, 2021): attention and FFN read one norm and are added together; neighbouring elements of
 * the first part of each head are turned as pairs. Source: modeling_gptj.py and configuration_gptj.py of HuggingFace
 * transformers 4.48. */
#include "costmodel/models/family.h"

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},
    [REDCOI_SIZE_HIDDEN] = {"n_embd", "hidden_size"},
    [REDCOI_SIZE_FFN] = {"n_inner", NULL},
    [REDCOI_SIZE_LAYERS] = {"n_layer", "num_hidden_layers"},
    [REDCOI_SIZE_HEADS] = {"n_head", "num_attention_heads"},
};

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "wte", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "ln_1", 0},  {REDCO_USE_QUERY, "attn.q_proj", 0},
    {REDCO_USE_KEY, "attn.k_proj", 0},      {REDCO_USE_VALUE, "attn.v_proj", 0},
    {REDCO_USE_OUTPUT, "attn.out_proj", 0}, {REDCO_USE_UP, "mlp.fc_in", 0},
    {REDCO_USE_DOWN, "mlp.fc_out", 0},      {0},
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
    /* null turns whole heads; transformers' table then has the width of the model, which no head has. */
    if (json_is_null(json_object_get(config->config.json, "rotary_dim"))) {
        redcoi_build_fail(config, "rotary_dim", "is null; the number of rotated elements of a head is needed");
    }
    s->rope.size = redcoi_config_count(config, "rotary_dim", 64, dims->head_dim);
    s->rope.interleaved = true;
    if (s->rope.size < 2 || s->rope.size % 2 != 0 || s->rope.size > dims->head_dim) {
        redcoi_build_fail(config, "rotary_dim", "must be even, at least 2 and at most the size of a head");
    }
}

const redcoi_family redcoi_family_gptj = {
    .type = "gptj",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ROTARY, .parallel_block = true},
    .keys = keys,
    .defaults =
        {[REDCOI_SIZE_VOCAB] = 50400, [REDCOI_SIZE_HIDDEN] = 4096, [REDCOI_SIZE_LAYERS] = 28, [REDCOI_SIZE_HEADS] = 16},
    .dropout_key = "resid_pdrop",
    .layers = layers,
    .biases = REDCOI_NORM_BIASES | REDCOI_FFN_BIASES | REDCOI_BIT(HEAD),
    .epsilon = {"layer_norm_epsilon", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {NULL, 10000.0},
    .active = {"activation_function", REDCOI_ACTIVATION_GELU_TANH},
    .read_settings = read_settings,
};
