/* Falcon (Almazrouei et al., arXiv 2311.16867): attention and FFN beside each other; 7B has one head of keys for all
 * and one norm, the new architecture of 40B and 180B groups heads and gives each part a norm of its own. Checkpoints
 * hold the head apart from the table. Source: modeling_falcon.py and configuration_falcon.py of HuggingFace
 * transformers 4.57. */
#include "costmodel/models/family.h"

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},
    [REDCOI_SIZE_HIDDEN] = {"hidden_size", NULL},
    [REDCOI_SIZE_FFN] = {"ffn_hidden_size", NULL},
    [REDCOI_SIZE_LAYERS] = {"num_hidden_layers", "n_layer"},
    [REDCOI_SIZE_HEADS] = {"num_attention_heads", "n_head"},
};

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "word_embeddings", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", REDCOI_OTHER_NORMS},
    {REDCO_USE_ATTENTION_NORM, "ln_attn", REDCOI_TWO_NORMS},
    {REDCO_USE_FFN_NORM, "ln_mlp", REDCOI_TWO_NORMS},
    {REDCO_USE_QKV, "self_attention.query_key_value", 0},
    {REDCO_USE_OUTPUT, "self_attention.dense", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", REDCOI_OTHER_NORMS},
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

static void read_falcon(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    const bool grouped = redcoi_config_bool(build, "new_decoder_architecture", false);
    const bool one_head = redcoi_config_bool(build, "multi_query", true);
    const bool parallel = redcoi_config_bool(build, "parallel_attn", true);
    if (redcoi_config_bool(build, "alibi", false)) { dims->positions = REDCO_POSITIONS_ALIBI; }
    (void)redcoi_config_count(build, "ff_factor", 4, REDCOI_MAX_WIDTH); /* the quotient of two other keys */
    if (grouped) {
        dims->kv_heads = (uint32_t)redcoi_config_count(build, "num_kv_heads", dims->heads, dims->heads);
        redcoi_config_divides(build, "num_kv_heads", dims->kv_heads, "num_attention_heads", dims->heads);
    } else if (one_head) {
        dims->kv_heads = 1;
    }
    dims->parallel_block = grouped || parallel;
    build->one_norm =
        dims->parallel_block && (!grouped || redcoi_config_count(build, "num_ln_in_parallel_attn", 2, 2) == 1);
}

/* transformers rounds the slopes of Falcon's ALiBi to 16 bits. */
static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)s;
    if (dims->positions == REDCO_POSITIONS_ALIBI) {
        redcoi_build_fail(config, "alibi", "is true; the executor builds Falcon with rotary positions");
    }
}

const redcoi_family redcoi_family_falcon = {
    .type = "falcon",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ROTARY},
    .keys = keys,
    .defaults =
        {[REDCOI_SIZE_VOCAB] = 65024, [REDCOI_SIZE_HIDDEN] = 4544, [REDCOI_SIZE_LAYERS] = 32, [REDCOI_SIZE_HEADS] = 71},
    .dropout_key = "hidden_dropout",
    .layers = layers,
    .biases = REDCOI_NORM_BIASES,
    .bias_keys = {{"bias", false, REDCOI_ATTENTION_BIASES | REDCOI_FFN_BIASES}},
    .qkv = REDCOI_QKV_BY_GROUP,
    .epsilon = {"layer_norm_epsilon", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"activation", REDCOI_ACTIVATION_GELU},
    .read = read_falcon,
    .read_settings = read_settings,
};
