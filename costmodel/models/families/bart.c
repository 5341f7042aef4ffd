/* BART (Lewis et al., arXiv 1910.13461): fairseq's transformer, with learned positions that start at row 2.
 * Source: modeling_bart.py and configuration_bart.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

#include <math.h>

/* Rows of the position tables that no position uses (BartLearnedPositionalEmbedding). */
static const uint32_t position_offset = 2;

/* Encoder and decoder have their own number of heads and FFN width; dims keeps the decoder's heads. */
struct side {
    const char *name, *layers_key, *heads_key, *ffn_key, *prefix;
    redco_class_kind kind;
    uint32_t layers, ffn;
};

static void read_side(redcoi_build *build, struct side *side, const char *heads_alias)
{
    redco_model_dims *dims = &build->model->dims;
    side->layers = redcoi_config_u32(build, side->layers_key, NULL, 12, REDCOI_MAX_LAYERS);
    side->ffn = redcoi_config_u32(build, side->ffn_key, NULL, 4096, REDCOI_MAX_FFN);
    dims->heads = redcoi_config_u32(build, side->heads_key, heads_alias, 16, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, side->heads_key, dims->heads, "d_model", dims->hidden);
    if (side->ffn > dims->ffn) { dims->ffn = side->ffn; }
}

static void add_side(redcoi_build *build, const struct side *side)
{
    const uint64_t h = build->model->dims.hidden;
    redcoi_class(build, side->name, side->kind, side->layers, side->prefix);
    redcoi_linear(build, REDCO_USE_QUERY, "self_attn.q_proj", h, h, true);
    redcoi_linear(build, REDCO_USE_KEY, "self_attn.k_proj", h, h, true);
    redcoi_linear(build, REDCO_USE_VALUE, "self_attn.v_proj", h, h, true);
    redcoi_linear(build, REDCO_USE_OUTPUT, "self_attn.out_proj", h, h, true);
    redcoi_norm(build, REDCO_USE_ATTENTION_NORM, "self_attn_layer_norm", h, true);
    if (side->kind == REDCO_CLASS_CROSS) {
        redcoi_linear(build, REDCO_USE_CROSS_QUERY, "encoder_attn.q_proj", h, h, true);
        redcoi_linear(build, REDCO_USE_CROSS_KEY, "encoder_attn.k_proj", h, h, true);
        redcoi_linear(build, REDCO_USE_CROSS_VALUE, "encoder_attn.v_proj", h, h, true);
        redcoi_linear(build, REDCO_USE_CROSS_OUTPUT, "encoder_attn.out_proj", h, h, true);
        redcoi_norm(build, REDCO_USE_CROSS_NORM, "encoder_attn_layer_norm", h, true);
    }
    redcoi_linear(build, REDCO_USE_UP, "fc1", side->ffn, h, true);
    redcoi_linear(build, REDCO_USE_DOWN, "fc2", h, side->ffn, true);
    redcoi_norm(build, REDCO_USE_FFN_NORM, "final_layer_norm", h, true);
}

static void build_bart(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    struct side encoder = {.name = "encoder",
                           .layers_key = "encoder_layers",
                           .heads_key = "encoder_attention_heads",
                           .ffn_key = "encoder_ffn_dim",
                           .prefix = "model.encoder.layers.{}.",
                           .kind = REDCO_CLASS_BLOCK};
    struct side decoder = {.name = "decoder",
                           .layers_key = "decoder_layers",
                           .heads_key = "decoder_attention_heads",
                           .ffn_key = "decoder_ffn_dim",
                           .prefix = "model.decoder.layers.{}.",
                           .kind = REDCO_CLASS_CROSS};
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 50265, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "d_model", "hidden_size", 1024, REDCOI_MAX_WIDTH);
    read_side(build, &encoder, "num_attention_heads");
    read_side(build, &decoder, NULL);
    dims->layers = decoder.layers;
    dims->encoder_layers = encoder.layers;
    dims->kv_heads = dims->heads;
    dims->head_dim = dims->hidden / dims->heads;
    dims->max_positions = redcoi_config_u32(build, "max_position_embeddings", NULL, 1024, REDCOI_MAX_ROWS);
    dims->post_norm = dims->no_final_norm = true;
    dims->dropout = redcoi_config_dropout(build, "dropout", 0.1);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "model.");
    const uint64_t rows = (uint64_t)dims->max_positions + position_offset, h = dims->hidden;
    redcoi_table(build, REDCO_USE_TABLE, "shared", dims->vocab, h);
    redcoi_table(build, REDCO_USE_ENCODER_POSITIONS, "encoder.embed_positions", rows, h);
    redcoi_norm(build, REDCO_USE_ENCODER_EMBEDDING_NORM, "encoder.layernorm_embedding", h, true);
    redcoi_table(build, REDCO_USE_POSITIONS, "decoder.embed_positions", rows, h);
    redcoi_norm(build, REDCO_USE_EMBEDDING_NORM, "decoder.layernorm_embedding", h, true);
    add_side(build, &encoder);
    add_side(build, &decoder);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_untied_head(build, "lm_head");
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    s->norm_epsilon = 1e-5; /* torch.nn.LayerNorm has this epsilon; the config has none */
    s->activation = redcoi_config_activation(config, "activation_function", REDCOI_ACTIVATION_GELU);
    s->deviation = redcoi_config_number(config, "init_std", 0.02, 0.0, 10.0);
    if (redcoi_config_bool(config, "scale_embedding", false)) { s->embedding_scale = sqrt((double)dims->hidden); }
    redcoi_config_decoder_tokens(config, s, 1, 2);
    const uint32_t heads = redcoi_config_derived(config, "encoder_attention_heads", NULL, 16, REDCOI_MAX_HEADS);
    if (redcoi_building(config) && heads != dims->heads) {
        redcoi_build_fail(config, "encoder_attention_heads", "is %u; the executor needs as many as the decoder has, %u",
                          heads, dims->heads);
    }
}

static redco_value embed_with(redcoi_pass *p, redco_value tokens, redco_param_use positions, redco_param_use norm)
{
    const redco_value at = redcoi_lm_positions(p, (int32_t)position_offset);
    const redco_value x = redcoi_lm_tokens(p, tokens);
    return redcoi_lm_norm(p, norm, redco_add(p->g, x, redcoi_lm_rows(p, positions, at)));
}

static redco_value embed_source(redcoi_pass *p, redco_value tokens)
{
    return embed_with(p, tokens, REDCO_USE_ENCODER_POSITIONS, REDCO_USE_ENCODER_EMBEDDING_NORM);
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    return embed_with(p, tokens, REDCO_USE_POSITIONS, REDCO_USE_EMBEDDING_NORM);
}

static redco_value attend(redcoi_pass *p, redco_value x, bool causal)
{
    const redcoi_lm_attention_kind own = {REDCO_OP_ROLE_ATTENTION, REDCO_USE_OUTPUT, causal, REDCO_NO_VALUE};
    const redco_value seen = redcoi_lm_attend_by_three(p, &own, REDCO_USE_QUERY, x, x);
    return redcoi_lm_norm(p, REDCO_USE_ATTENTION_NORM, redco_add(p->g, x, seen));
}

static redco_value feed_forward(redcoi_pass *p, redco_value x)
{
    return redcoi_lm_norm(p, REDCO_USE_FFN_NORM, redco_add(p->g, x, redcoi_lm_ffn(p, x)));
}

static redco_value encoder_block(redcoi_pass *p, redco_value x)
{
    return feed_forward(p, attend(p, x, false));
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    static const redcoi_lm_attention_kind cross = {REDCO_OP_ROLE_CROSS_ATTENTION, REDCO_USE_CROSS_OUTPUT, false,
                                                   REDCO_NO_VALUE};
    x = attend(p, x, true);
    const redco_value seen = redcoi_lm_attend_by_three(p, &cross, REDCO_USE_CROSS_QUERY, x, p->encoded);
    return feed_forward(p, redcoi_lm_norm(p, REDCO_USE_CROSS_NORM, redco_add(p->g, x, seen)));
}

const redcoi_family redcoi_family_bart = {.type = "bart",
                                          .norm = REDCO_NORM_LAYER,
                                          .positions = REDCO_POSITIONS_LEARNED,
                                          .build = build_bart,
                                          .graph = {.read = read_settings,
                                                    .embed = embed,
                                                    .block = block,
                                                    .head = redcoi_lm_logits,
                                                    .embed_source = embed_source,
                                                    .encoder_block = encoder_block}};
