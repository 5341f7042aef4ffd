/* GPT-2 (Radford et al., 2019): layer norms, learned positions, queries, keys and values from one matrix.
 * Source: modeling_gpt2.py and configuration_gpt2.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

void redcoi_gpt_dims(redcoi_build *build, uint32_t vocab, uint32_t hidden, uint32_t layers, uint32_t heads)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, vocab, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "n_embd", "hidden_size", hidden, REDCOI_MAX_WIDTH);
    dims->layers = redcoi_config_u32(build, "n_layer", "num_hidden_layers", layers, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "n_head", "num_attention_heads", heads, REDCOI_MAX_HEADS);
    redcoi_plain_heads(build, "n_head", "n_embd");
    dims->ffn = redcoi_config_derived(build, "n_inner", NULL, 4 * dims->hidden, REDCOI_MAX_FFN);
}

static void build_gpt2(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    redcoi_gpt_dims(build, 50257, 768, 12, 12);
    dims->max_positions = redcoi_config_u32(build, "n_positions", "max_position_embeddings", 1024, REDCOI_MAX_ROWS);
    dims->dropout = redcoi_config_dropout(build, "resid_pdrop", 0.1);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    if (redcoi_config_bool(build, "add_cross_attention", false)) {
        redcoi_build_fail(build, "add_cross_attention", "is true; redco reads GPT-2 without cross attention");
    }
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "transformer.");
    redcoi_table(build, REDCO_USE_TABLE, "wte", dims->vocab, dims->hidden);
    redcoi_table(build, REDCO_USE_POSITIONS, "wpe", dims->max_positions, dims->hidden);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "transformer.h.{}.");
    redcoi_norm(build, REDCO_USE_ATTENTION_NORM, "ln_1", dims->hidden, true);
    redcoi_conv1d(build, REDCO_USE_QKV, "attn.c_attn", dims->hidden, 3 * (uint64_t)dims->hidden);
    redcoi_conv1d(build, REDCO_USE_OUTPUT, "attn.c_proj", dims->hidden, dims->hidden);
    redcoi_norm(build, REDCO_USE_FFN_NORM, "ln_2", dims->hidden, true);
    redcoi_conv1d(build, REDCO_USE_UP, "mlp.c_fc", dims->hidden, dims->ffn);
    redcoi_conv1d(build, REDCO_USE_DOWN, "mlp.c_proj", dims->ffn, dims->hidden);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_norm(build, REDCO_USE_FINAL_NORM, "transformer.ln_f", dims->hidden, true);
    redcoi_untied_head(build, "lm_head");
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    s->norm_epsilon = redcoi_config_number(config, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    s->activation = redcoi_config_activation(config, "activation_function", REDCOI_ACTIVATION_GELU_TANH);
    if (!redcoi_config_bool(config, "scale_attn_weights", true)) { s->score_scale = 1.0; }
    s->scale_by_layer = redcoi_config_bool(config, "scale_attn_by_inverse_layer_idx", false);
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    const redco_value x = redcoi_lm_tokens(p, tokens);
    return redco_add(p->g, x, redcoi_lm_rows(p, REDCO_USE_POSITIONS, redcoi_lm_positions(p, 0)));
}

static redco_value attend(redcoi_pass *p, redco_value y)
{
    redco_value qkv[3];
    const redco_value product = redcoi_lm_product(p, REDCO_USE_QKV, y);
    redco_graph_set_role(p->g, REDCO_OP_ROLE_SPLIT_HEADS);
    redcoi_lm_split_in_thirds(p, product, qkv);
    return redcoi_lm_attention(p, qkv[0], qkv[1], qkv[2]);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    return redcoi_lm_block(p, x, attend);
}

const redcoi_family redcoi_family_gpt2 = {
    .type = "gpt2",
    .norm = REDCO_NORM_LAYER,
    .positions = REDCO_POSITIONS_LEARNED,
    .build = build_gpt2,
    .graph = {.read = read_settings, .embed = embed, .block = block, .head = redcoi_lm_head, .qkv_in_thirds = true}};
