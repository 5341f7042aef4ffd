/* OPT (Zhang et al., arXiv 2205.01068): learned positions behind two unused rows, ReLU; OPT-350M has its norms behind
 * the residual sums and a table narrower than the model. Source: modeling_opt.py and configuration_opt.py of
 * HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

/* Rows of the position table that no position uses (OPTLearnedPositionalEmbedding). */
static const uint32_t position_offset = 2;

/* OPT can leave the gain and bias of every norm out. */
static void add_norm(redcoi_build *build, redco_param_use use, const char *name, bool affine)
{
    if (affine) { redcoi_norm(build, use, name, build->model->dims.hidden, true); }
}

static void add_tensors(redcoi_build *build, uint32_t table_width)
{
    const redco_model_dims *dims = &build->model->dims;
    const uint64_t h = dims->hidden;
    const bool bias = redcoi_config_bool(build, "enable_bias", true);
    const bool affine = redcoi_config_bool(build, "layer_norm_elementwise_affine", true);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "model.decoder.");
    redcoi_table(build, REDCO_USE_TABLE, "embed_tokens", dims->vocab, table_width);
    redcoi_table(build, REDCO_USE_POSITIONS, "embed_positions", (uint64_t)dims->max_positions + position_offset, h);
    if (table_width != h) { redcoi_linear(build, REDCO_USE_PROJECT_IN, "project_in", h, table_width, false); }
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "model.decoder.layers.{}.");
    redcoi_linear(build, REDCO_USE_QUERY, "self_attn.q_proj", h, h, bias);
    redcoi_linear(build, REDCO_USE_KEY, "self_attn.k_proj", h, h, bias);
    redcoi_linear(build, REDCO_USE_VALUE, "self_attn.v_proj", h, h, bias);
    redcoi_linear(build, REDCO_USE_OUTPUT, "self_attn.out_proj", h, h, bias);
    add_norm(build, REDCO_USE_ATTENTION_NORM, "self_attn_layer_norm", affine);
    redcoi_linear(build, REDCO_USE_UP, "fc1", dims->ffn, h, bias);
    redcoi_linear(build, REDCO_USE_DOWN, "fc2", h, dims->ffn, bias);
    add_norm(build, REDCO_USE_FFN_NORM, "final_layer_norm", affine);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    add_norm(build, REDCO_USE_FINAL_NORM, "model.decoder.final_layer_norm", affine && !dims->no_final_norm);
    if (table_width != h) {
        redcoi_linear(build, REDCO_USE_PROJECT_OUT, "model.decoder.project_out", table_width, h, false);
    }
    if (!dims->tied) { redcoi_linear(build, REDCO_USE_HEAD, "lm_head", dims->vocab, table_width, false); }
}

static void build_opt(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 50272, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "hidden_size", NULL, 768, REDCOI_MAX_WIDTH);
    dims->ffn = redcoi_config_u32(build, "ffn_dim", NULL, 3072, REDCOI_MAX_FFN);
    dims->layers = redcoi_config_u32(build, "num_hidden_layers", NULL, 12, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "num_attention_heads", NULL, 12, REDCOI_MAX_HEADS);
    redcoi_plain_heads(build, "num_attention_heads", "hidden_size");
    dims->max_positions = redcoi_config_u32(build, "max_position_embeddings", NULL, 2048, REDCOI_MAX_ROWS);
    dims->dropout = redcoi_config_dropout(build, "dropout", 0.1);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    dims->post_norm = !redcoi_config_bool(build, "do_layer_norm_before", true);
    dims->no_final_norm = dims->post_norm || redcoi_config_bool(build, "_remove_final_layer_norm", false);
    add_tensors(build, redcoi_config_derived(build, "word_embed_proj_dim", NULL, dims->hidden, REDCOI_MAX_WIDTH));
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    s->norm_epsilon = 1e-5; /* torch.nn.LayerNorm has this epsilon; the config has none */
    s->activation = redcoi_config_activation(config, "activation_function", REDCOI_ACTIVATION_RELU);
    s->deviation = redcoi_config_number(config, "init_std", 0.02, 0.0, 10.0);
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    redco_value x = redcoi_lm_tokens(p, tokens);
    if (redcoi_lm_has(p, REDCO_USE_PROJECT_IN)) { x = redcoi_lm_product(p, REDCO_USE_PROJECT_IN, x); }
    const redco_value positions = redcoi_lm_positions(p, (int32_t)position_offset);
    return redco_add(p->g, x, redcoi_lm_rows(p, REDCO_USE_POSITIONS, positions));
}

static redco_value attend(redcoi_pass *p, redco_value y)
{
    const redcoi_lm_attention_kind own = {REDCO_OP_ROLE_ATTENTION, REDCO_USE_OUTPUT, true, REDCO_NO_VALUE};
    return redcoi_lm_attend_by_three(p, &own, REDCO_USE_QUERY, y, y);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    if (p->dims->post_norm) {
        x = redcoi_lm_norm(p, REDCO_USE_ATTENTION_NORM, redco_add(p->g, x, attend(p, x)));
        return redcoi_lm_norm(p, REDCO_USE_FFN_NORM, redco_add(p->g, x, redcoi_lm_ffn(p, x)));
    }
    return redcoi_lm_block(p, x, attend);
}

static redco_value head(redcoi_pass *p, redco_value x)
{
    if (!p->dims->no_final_norm) { x = redcoi_lm_norm(p, REDCO_USE_FINAL_NORM, x); }
    if (redcoi_lm_has(p, REDCO_USE_PROJECT_OUT)) { x = redcoi_lm_product(p, REDCO_USE_PROJECT_OUT, x); }
    return redcoi_lm_logits(p, x);
}

const redcoi_family redcoi_family_opt = {
    .type = "opt",
    .norm = REDCO_NORM_LAYER,
    .positions = REDCO_POSITIONS_LEARNED,
    .activation = REDCO_ACTIVATION_RELU,
    .build = build_opt,
    .graph = {.read = read_settings, .embed = embed, .block = block, .head = head}};
