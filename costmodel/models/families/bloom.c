/* BLOOM (BigScience, arXiv 2211.05100): ALiBi instead of position tables, a norm behind the table, an FFN of four
 * widths. Source: modeling_bloom.py and configuration_bloom.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static void build_bloom(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 250880, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "hidden_size", "n_embed", 64, REDCOI_MAX_WIDTH);
    dims->layers = redcoi_config_u32(build, "n_layer", "num_hidden_layers", 2, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "n_head", "num_attention_heads", 8, REDCOI_MAX_HEADS);
    redcoi_plain_heads(build, "n_head", "hidden_size");
    dims->ffn = 4 * dims->hidden;
    dims->dropout = redcoi_config_dropout(build, "hidden_dropout", 0.0);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "transformer.");
    redcoi_table(build, REDCO_USE_TABLE, "word_embeddings", dims->vocab, dims->hidden);
    redcoi_norm(build, REDCO_USE_EMBEDDING_NORM, "word_embeddings_layernorm", dims->hidden, true);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "transformer.h.{}.");
    redcoi_norm(build, REDCO_USE_ATTENTION_NORM, "input_layernorm", dims->hidden, true);
    redcoi_linear(build, REDCO_USE_QKV, "self_attention.query_key_value", 3 * (uint64_t)dims->hidden, dims->hidden,
                  true);
    redcoi_linear(build, REDCO_USE_OUTPUT, "self_attention.dense", dims->hidden, dims->hidden, true);
    redcoi_norm(build, REDCO_USE_FFN_NORM, "post_attention_layernorm", dims->hidden, true);
    redcoi_linear(build, REDCO_USE_UP, "mlp.dense_h_to_4h", dims->ffn, dims->hidden, true);
    redcoi_linear(build, REDCO_USE_DOWN, "mlp.dense_4h_to_h", dims->hidden, dims->ffn, true);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_norm(build, REDCO_USE_FINAL_NORM, "transformer.ln_f", dims->hidden, true);
    redcoi_untied_head(build, "lm_head");
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    s->norm_epsilon = redcoi_config_number(config, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    s->activation = REDCOI_ACTIVATION_GELU_TANH; /* every BLOOM has it; its config has no key */
    s->residual_from_norm = redcoi_config_bool(config, "apply_residual_connection_post_layernorm", false);
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    const redco_value x = redcoi_lm_norm(p, REDCO_USE_EMBEDDING_NORM, redcoi_lm_tokens(p, tokens));
    redcoi_lm_alibi(p);
    return x;
}

static redco_value attend(redcoi_pass *p, redco_value y)
{
    redco_value qkv[3];
    const redco_value product = redcoi_lm_product(p, REDCO_USE_QKV, y);
    redco_graph_set_role(p->g, REDCO_OP_ROLE_SPLIT_HEADS);
    redcoi_lm_split_by_head(p, product, qkv);
    return redcoi_lm_attention(p, qkv[0], qkv[1], qkv[2]);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    const bool from_norm = p->set->residual_from_norm;
    redco_value y = redcoi_lm_norm(p, REDCO_USE_ATTENTION_NORM, x);
    x = redco_add(p->g, from_norm ? y : x, attend(p, y));
    y = redcoi_lm_norm(p, REDCO_USE_FFN_NORM, x);
    return redco_add(p->g, from_norm ? y : x, redcoi_lm_ffn(p, y));
}

const redcoi_family redcoi_family_bloom = {
    .type = "bloom",
    .norm = REDCO_NORM_LAYER,
    .positions = REDCO_POSITIONS_ALIBI,
    .build = build_bloom,
    .graph = {.read = read_settings, .embed = embed, .block = block, .head = redcoi_lm_head}};
