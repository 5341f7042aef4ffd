/* MPT (MosaicML, 2023): ALiBi, layer norms without shift, no biases.
 * Source: modeling_mpt.py and configuration_mpt.py of HuggingFace transformers 4.48; for the learned positions of an
 * MPT without ALiBi, which transformers does not build: MosaicML llm-foundry, modeling_mpt.py. */
#include "costmodel/models/family.h"

#include <string.h>

/* Refuses attention whose tensors differ from those built here. @return whether it uses ALiBi */
static bool read_attention(redcoi_build *build)
{
    redcoi_build inner = *build;
    bool alibi = true;
    if (!redcoi_building(build) || !redco_json_has(&build->config, "attn_config")) { return alibi; }
    inner.status = redco_json_object(&build->config, "attn_config", &inner.config, build->err);
    if (redcoi_building(&inner) && redco_json_has(&inner.config, "attn_type")) {
        const char *type = NULL;
        inner.status = redco_json_string(&inner.config, "attn_type", &type, build->err);
        if (redcoi_building(&inner) && strcmp(type, "multihead_attention") != 0) {
            redcoi_build_fail(&inner, "attn_type", "is \"%.40s\"; \"multihead_attention\" is needed", type);
        }
    }
    if (redcoi_config_bool(&inner, "qk_ln", false)) {
        redcoi_build_fail(&inner, "qk_ln", "is true; redco reads MPT without norms of queries and keys");
    }
    alibi = redcoi_config_bool(&inner, "alibi", true);
    build->status = inner.status;
    return alibi;
}

static void build_mpt(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 50368, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "d_model", "hidden_size", 2048, REDCOI_MAX_WIDTH);
    dims->layers = redcoi_config_u32(build, "n_layers", "num_hidden_layers", 24, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "n_heads", "num_attention_heads", 16, REDCOI_MAX_HEADS);
    redcoi_plain_heads(build, "n_heads", "d_model");
    dims->ffn = redcoi_config_u32(build, "expansion_ratio", NULL, 4, 8) * dims->hidden;
    dims->dropout = redcoi_config_dropout(build, "resid_pdrop", 0.0);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    if (!redcoi_config_bool(build, "no_bias", true)) {
        redcoi_build_fail(build, "no_bias", "is false; redco reads MPT without biases, as transformers builds it");
    }
    const bool alibi = read_attention(build);
    const bool learned = redcoi_config_bool(build, "learned_pos_emb", true);
    dims->positions = alibi ? REDCO_POSITIONS_ALIBI : learned ? REDCO_POSITIONS_LEARNED : REDCO_POSITIONS_NONE;
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "transformer.");
    redcoi_table(build, REDCO_USE_TABLE, "wte", dims->vocab, dims->hidden);
    if (dims->positions == REDCO_POSITIONS_LEARNED) {
        dims->max_positions = redcoi_config_u32(build, "max_seq_len", NULL, 2048, REDCOI_MAX_ROWS);
        redcoi_table(build, REDCO_USE_POSITIONS, "wpe", dims->max_positions, dims->hidden);
    }
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "transformer.blocks.{}.");
    redcoi_norm(build, REDCO_USE_ATTENTION_NORM, "norm_1", dims->hidden, false);
    redcoi_linear(build, REDCO_USE_QKV, "attn.Wqkv", 3 * (uint64_t)dims->hidden, dims->hidden, false);
    redcoi_linear(build, REDCO_USE_OUTPUT, "attn.out_proj", dims->hidden, dims->hidden, false);
    redcoi_norm(build, REDCO_USE_FFN_NORM, "norm_2", dims->hidden, false);
    redcoi_linear(build, REDCO_USE_UP, "ffn.up_proj", dims->ffn, dims->hidden, false);
    redcoi_linear(build, REDCO_USE_DOWN, "ffn.down_proj", dims->hidden, dims->ffn, false);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_norm(build, REDCO_USE_FINAL_NORM, "transformer.norm_f", dims->hidden, false);
    redcoi_untied_head(build, "lm_head");
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_build inner = *config;
    s->norm_epsilon = redcoi_config_number(config, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    s->activation = REDCOI_ACTIVATION_GELU; /* every MPT has it; its config has no key */
    if (dims->positions != REDCO_POSITIONS_ALIBI) {
        redcoi_build_fail(config, "attn_config", "\"alibi\" is false; the executor builds MPT with ALiBi");
    }
    if (!redcoi_building(config) || !redco_json_has(&config->config, "attn_config")) { return; }
    inner.status = redco_json_object(&config->config, "attn_config", &inner.config, config->err);
    if (redco_json_has(&inner.config, "clip_qkv")) {
        redcoi_build_fail(&inner, "clip_qkv", "is set; the executor builds MPT without it");
    }
    s->score_scale = redcoi_config_number(&inner, "softmax_scale", 0.0, 0.0, 1e6);
    config->status = inner.status;
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    redco_value x = redcoi_lm_tokens(p, tokens);
    if (redcoi_lm_has(p, REDCO_USE_POSITIONS)) {
        x = redco_add(p->g, x, redcoi_lm_rows(p, REDCO_USE_POSITIONS, redcoi_lm_positions(p, 0)));
    }
    if (p->dims->positions == REDCO_POSITIONS_ALIBI) { redcoi_lm_alibi(p); }
    return x;
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

const redcoi_family redcoi_family_mpt = {
    .type = "mpt",
    .norm = REDCO_NORM_LAYER,
    .positions = REDCO_POSITIONS_ALIBI,
    .build = build_mpt,
    .graph = {.read = read_settings, .embed = embed, .block = block, .head = redcoi_lm_head, .qkv_in_thirds = true}};
