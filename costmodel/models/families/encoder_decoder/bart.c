/* BART (Lewis et al., arXiv 1910.13461): fairseq's transformer, with learned positions that start at row 2.
 * Source: modeling_bart.py and configuration_bart.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

#include <math.h>

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},
    [REDCOI_SIZE_HIDDEN] = {"d_model", "hidden_size"},
    [REDCOI_SIZE_FFN] = {"decoder_ffn_dim", NULL},
    [REDCOI_SIZE_ENCODER_LAYERS] = {"encoder_layers", NULL},
    [REDCOI_SIZE_LAYERS] = {"decoder_layers", NULL},
    [REDCOI_SIZE_HEADS] = {"decoder_attention_heads", NULL},
    [REDCOI_SIZE_POSITIONS] = {"max_position_embeddings", NULL},
};

static const redcoi_module embedding[] = {
    {REDCO_USE_TABLE, "shared", 0},
    {REDCO_USE_ENCODER_POSITIONS, "encoder.embed_positions", 0},
    {REDCO_USE_ENCODER_EMBEDDING_NORM, "encoder.layernorm_embedding", 0},
    {REDCO_USE_POSITIONS, "decoder.embed_positions", 0},
    {REDCO_USE_EMBEDDING_NORM, "decoder.layernorm_embedding", 0},
    {0},
};

#define ATTENTION                                                                                                      \
    {REDCO_USE_QUERY, "self_attn.q_proj", 0}, {REDCO_USE_KEY, "self_attn.k_proj", 0},                                  \
        {REDCO_USE_VALUE, "self_attn.v_proj", 0}, {REDCO_USE_OUTPUT, "self_attn.out_proj", 0},                         \
    {                                                                                                                  \
        REDCO_USE_ATTENTION_NORM, "self_attn_layer_norm", 0                                                            \
    }
#define FFN                                                                                                            \
    {REDCO_USE_UP, "fc1", 0}, {REDCO_USE_DOWN, "fc2", 0},                                                              \
    {                                                                                                                  \
        REDCO_USE_FFN_NORM, "final_layer_norm", 0                                                                      \
    }

static const redcoi_module encoder[] = {ATTENTION, FFN, {0}};
static const redcoi_module decoder[] = {
    ATTENTION,
    {REDCO_USE_CROSS_QUERY, "encoder_attn.q_proj", 0},
    {REDCO_USE_CROSS_KEY, "encoder_attn.k_proj", 0},
    {REDCO_USE_CROSS_VALUE, "encoder_attn.v_proj", 0},
    {REDCO_USE_CROSS_OUTPUT, "encoder_attn.out_proj", 0},
    {REDCO_USE_CROSS_NORM, "encoder_attn_layer_norm", 0},
    FFN,
    {0},
};
static const redcoi_module head[] = {{REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"model.", embedding},
    [REDCO_CLASS_BLOCK] = {"model.encoder.layers.{}.", encoder},
    [REDCO_CLASS_CROSS] = {"model.decoder.layers.{}.", decoder},
    [REDCO_CLASS_HEAD] = {"", head},
};

/* Encoder and decoder have their own number of heads and FFN width; dims keeps the decoder's heads. */
static void read_bart(redcoi_build *build)
{
    const redco_model_dims *const dims = &build->model->dims;
    static const char key[] = "encoder_attention_heads";
    const uint32_t heads = redcoi_config_u32(build, key, "num_attention_heads", 16, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, key, heads, keys[REDCOI_SIZE_HIDDEN].key, dims->hidden);
    build->encoder_ffn = redcoi_config_u32(build, "encoder_ffn_dim", NULL, 4096, REDCOI_MAX_FFN);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    if (redcoi_config_bool(config, "scale_embedding", false)) { s->embedding_scale = sqrt((double)dims->hidden); }
    redcoi_config_decoder_tokens(config, s, 1, 2);
    const uint32_t heads = redcoi_config_derived(config, "encoder_attention_heads", NULL, 16, REDCOI_MAX_HEADS);
    if (redcoi_building(config) && heads != dims->heads) {
        redcoi_build_fail(config, "encoder_attention_heads", "is %u; the executor needs as many as the decoder has, %u",
                          heads, dims->heads);
    }
}

const redcoi_family redcoi_family_bart = {
    .type = "bart",
    .dims = {.norm = REDCO_NORM_LAYER,
             .positions = REDCO_POSITIONS_LEARNED,
             .post_norm = true,
             .no_final_norm = true,
             .tied = true,
             .dropout = true},
    .keys = keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 50265,
                 [REDCOI_SIZE_HIDDEN] = 1024,
                 [REDCOI_SIZE_FFN] = 4096,
                 [REDCOI_SIZE_ENCODER_LAYERS] = 12,
                 [REDCOI_SIZE_LAYERS] = 12,
                 [REDCOI_SIZE_HEADS] = 16,
                 [REDCOI_SIZE_POSITIONS] = 1024},
    .dropout_key = "dropout",
    .layers = layers,
    .biases = REDCOI_ALL_BIASES,
    .unused_positions = 2,   /* BartLearnedPositionalEmbedding */
    .epsilon = {NULL, 1e-5}, /* torch.nn.LayerNorm has this epsilon; the config has none */
    .deviation = {"init_std", 0.02},
    .active = {"activation_function", REDCOI_ACTIVATION_GELU},
    .read = read_bart,
    .read_settings = read_settings,
};
