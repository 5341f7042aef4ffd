/* GPT-NeoX (Black et al., arXiv 2204.06745): attention and FFN beside each other, each behind its own norm of the
 * block's input (or, if switched so, behind each other); the matrix of queries, keys and values is ordered by head; the
 * first part of each head is rotated. Source: modeling_gpt_neox.py and configuration_gpt_neox.py of HuggingFace
 * transformers 4.48. */
#include "costmodel/models/family.h"

static void build_gpt_neox(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 50432, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "hidden_size", NULL, 6144, REDCOI_MAX_WIDTH);
    dims->ffn = redcoi_config_u32(build, "intermediate_size", NULL, 24576, REDCOI_MAX_FFN);
    dims->layers = redcoi_config_u32(build, "num_hidden_layers", NULL, 44, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "num_attention_heads", NULL, 64, REDCOI_MAX_HEADS);
    redcoi_plain_heads(build, "num_attention_heads", "hidden_size");
    dims->parallel_block = redcoi_config_bool(build, "use_parallel_residual", true);
    dims->dropout = redcoi_config_dropout(build, "hidden_dropout", 0.0);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", false);
    const bool bias = redcoi_config_bool(build, "attention_bias", true);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "gpt_neox.");
    redcoi_table(build, REDCO_USE_TABLE, "embed_in", dims->vocab, dims->hidden);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "gpt_neox.layers.{}.");
    redcoi_norm(build, REDCO_USE_ATTENTION_NORM, "input_layernorm", dims->hidden, true);
    redcoi_norm(build, REDCO_USE_FFN_NORM, "post_attention_layernorm", dims->hidden, true);
    redcoi_linear(build, REDCO_USE_QKV, "attention.query_key_value", 3 * (uint64_t)dims->hidden, dims->hidden, bias);
    redcoi_linear(build, REDCO_USE_OUTPUT, "attention.dense", dims->hidden, dims->hidden, bias);
    redcoi_linear(build, REDCO_USE_UP, "mlp.dense_h_to_4h", dims->ffn, dims->hidden, true);
    redcoi_linear(build, REDCO_USE_DOWN, "mlp.dense_4h_to_h", dims->hidden, dims->ffn, true);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_norm(build, REDCO_USE_FINAL_NORM, "gpt_neox.final_layer_norm", dims->hidden, true);
    redcoi_untied_head(build, "embed_out");
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    s->norm_epsilon = redcoi_config_number(config, "layer_norm_eps", 1e-5, 0.0, 1.0);
    s->activation = redcoi_config_activation(config, "hidden_act", REDCOI_ACTIVATION_GELU);
    s->rope.size = (uint64_t)((double)dims->head_dim * redcoi_config_number(config, "rotary_pct", 0.25, 0.0, 1.0));
    s->rope.theta = redcoi_config_number(config, "rotary_emb_base", 10000.0, 1.0, 1e12);
    if (s->rope.size < 2 || s->rope.size % 2 != 0) {
        redcoi_build_fail(config, "rotary_pct", "must make an even number of elements of a head, at least 2");
    }
    redcoi_config_rope_scaling(config, &s->rope);
}

static redco_value attend(redcoi_pass *p, redco_value x)
{
    redco_value qkv[3];
    const redco_value product = redcoi_lm_product(p, REDCO_USE_QKV, redcoi_lm_norm(p, REDCO_USE_ATTENTION_NORM, x));
    redco_graph_set_role(p->g, REDCO_OP_ROLE_ROTARY);
    redcoi_lm_split_by_head(p, product, qkv);
    redcoi_lm_rotate(p, &qkv[0], &qkv[1]);
    return redcoi_lm_attention(p, qkv[0], qkv[1], qkv[2]);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    const redco_value attended = attend(p, x);
    if (!p->dims->parallel_block) { x = redco_add(p->g, x, attended); }
    const redco_value fed = redcoi_lm_ffn(p, redcoi_lm_norm(p, REDCO_USE_FFN_NORM, x));
    /* The parts first: under tensor parallelism both are sums over ranks, which become one. */
    return p->dims->parallel_block ? redco_add(p->g, redco_add(p->g, fed, attended), x) : redco_add(p->g, x, fed);
}

const redcoi_family redcoi_family_gpt_neox = {
    .type = "gpt_neox",
    .norm = REDCO_NORM_LAYER,
    .positions = REDCO_POSITIONS_ROTARY,
    .build = build_gpt_neox,
    .graph = {.read = read_settings, .embed = redcoi_lm_tokens, .block = block, .head = redcoi_lm_head}};
