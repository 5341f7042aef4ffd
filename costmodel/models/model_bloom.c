/* BLOOM and MPT: ALiBi instead of position tables, an FFN of four widths.
 * Sources: modeling_bloom.py, modeling_mpt.py and their configurations of HuggingFace transformers 4.48; for the
 * learned positions of an MPT without ALiBi, which transformers does not build: MosaicML llm-foundry, modeling_mpt.py.
 */
#include "costmodel/models/model_build.h"

#include <string.h>

void redcoi_build_bloom(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 250880, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "hidden_size", "n_embed", 64, REDCOI_MAX_WIDTH);
    dims->layers = redcoi_config_u32(build, "n_layer", "num_hidden_layers", 2, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "n_head", "num_attention_heads", 8, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, "n_head", dims->heads, "hidden_size", dims->hidden);
    dims->kv_heads = dims->heads;
    dims->head_dim = dims->hidden / dims->heads;
    dims->ffn = 4 * dims->hidden;
    dims->dropout = redcoi_config_dropout(build, "hidden_dropout", 0.0);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "transformer.");
    redcoi_table(build, "word_embeddings", dims->vocab, dims->hidden);
    redcoi_layer_norm(build, "word_embeddings_layernorm", dims->hidden, true);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "transformer.h.{}.");
    redcoi_layer_norm(build, "input_layernorm", dims->hidden, true);
    redcoi_linear(build, "self_attention.query_key_value", 3 * (uint64_t)dims->hidden, dims->hidden, true);
    redcoi_linear(build, "self_attention.dense", dims->hidden, dims->hidden, true);
    redcoi_layer_norm(build, "post_attention_layernorm", dims->hidden, true);
    redcoi_linear(build, "mlp.dense_h_to_4h", dims->ffn, dims->hidden, true);
    redcoi_linear(build, "mlp.dense_4h_to_h", dims->hidden, dims->ffn, true);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_layer_norm(build, "transformer.ln_f", dims->hidden, true);
    if (!dims->tied) { redcoi_linear(build, "lm_head", dims->vocab, dims->hidden, false); }
}

/* What MPT's attention may be: refuses variants whose tensors differ. @return whether it uses ALiBi */
static bool read_mpt_attention(redcoi_build *build)
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

void redcoi_build_mpt(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 50368, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "d_model", "hidden_size", 2048, REDCOI_MAX_WIDTH);
    dims->layers = redcoi_config_u32(build, "n_layers", "num_hidden_layers", 24, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "n_heads", "num_attention_heads", 16, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, "n_heads", dims->heads, "d_model", dims->hidden);
    dims->kv_heads = dims->heads;
    dims->head_dim = dims->hidden / dims->heads;
    dims->ffn = redcoi_config_u32(build, "expansion_ratio", NULL, 4, 8) * dims->hidden;
    dims->dropout = redcoi_config_dropout(build, "resid_pdrop", 0.0);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    if (!redcoi_config_bool(build, "no_bias", true)) {
        redcoi_build_fail(build, "no_bias", "is false; redco reads MPT without biases, as transformers builds it");
    }
    const bool alibi = read_mpt_attention(build);
    dims->learned_positions = redcoi_config_bool(build, "learned_pos_emb", true) && !alibi;
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "transformer.");
    redcoi_table(build, "wte", dims->vocab, dims->hidden);
    if (dims->learned_positions) {
        dims->max_positions = redcoi_config_u32(build, "max_seq_len", NULL, 2048, REDCOI_MAX_ROWS);
        redcoi_table(build, "wpe", dims->max_positions, dims->hidden);
    }
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "transformer.blocks.{}.");
    redcoi_layer_norm(build, "norm_1", dims->hidden, false);
    redcoi_linear(build, "attn.Wqkv", 3 * (uint64_t)dims->hidden, dims->hidden, false);
    redcoi_linear(build, "attn.out_proj", dims->hidden, dims->hidden, false);
    redcoi_layer_norm(build, "norm_2", dims->hidden, false);
    redcoi_linear(build, "ffn.up_proj", dims->ffn, dims->hidden, false);
    redcoi_linear(build, "ffn.down_proj", dims->hidden, dims->ffn, false);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_layer_norm(build, "transformer.norm_f", dims->hidden, false);
    if (!dims->tied) { redcoi_linear(build, "lm_head", dims->vocab, dims->hidden, false); }
}
