/* GPT-2, GPT-J and GPT-NeoX. Source: modeling_*.py and configuration_*.py of HuggingFace transformers 4.48. */
#include "costmodel/models/model_build.h"

/* GPT-2 and GPT-J name their dimensions alike. */
static void read_gpt_dims(redcoi_build *build, uint32_t vocab, uint32_t hidden, uint32_t layers, uint32_t heads)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, vocab, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "n_embd", "hidden_size", hidden, REDCOI_MAX_WIDTH);
    dims->layers = redcoi_config_u32(build, "n_layer", "num_hidden_layers", layers, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "n_head", "num_attention_heads", heads, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, "n_head", dims->heads, "n_embd", dims->hidden);
    dims->kv_heads = dims->heads;
    dims->head_dim = dims->hidden / dims->heads;
    dims->ffn = redcoi_config_derived(build, "n_inner", NULL, 4 * dims->hidden, REDCOI_MAX_FFN);
}

void redcoi_build_gpt2(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    read_gpt_dims(build, 50257, 768, 12, 12);
    dims->max_positions = redcoi_config_u32(build, "n_positions", "max_position_embeddings", 1024, REDCOI_MAX_ROWS);
    dims->learned_positions = true;
    dims->dropout = redcoi_config_dropout(build, "resid_pdrop", 0.1);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", true);
    if (redcoi_config_bool(build, "add_cross_attention", false)) {
        redcoi_build_fail(build, "add_cross_attention", "is true; redco reads GPT-2 without cross attention");
    }
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "transformer.");
    redcoi_table(build, "wte", dims->vocab, dims->hidden);
    redcoi_table(build, "wpe", dims->max_positions, dims->hidden);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "transformer.h.{}.");
    redcoi_layer_norm(build, "ln_1", dims->hidden, true);
    redcoi_conv1d(build, "attn.c_attn", dims->hidden, 3 * (uint64_t)dims->hidden);
    redcoi_conv1d(build, "attn.c_proj", dims->hidden, dims->hidden);
    redcoi_layer_norm(build, "ln_2", dims->hidden, true);
    redcoi_conv1d(build, "mlp.c_fc", dims->hidden, dims->ffn);
    redcoi_conv1d(build, "mlp.c_proj", dims->ffn, dims->hidden);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_layer_norm(build, "transformer.ln_f", dims->hidden, true);
    if (!dims->tied) { redcoi_linear(build, "lm_head", dims->vocab, dims->hidden, false); }
}

void redcoi_build_gptj(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    read_gpt_dims(build, 50400, 4096, 28, 16);
    dims->parallel_block = true;
    dims->dropout = redcoi_config_dropout(build, "resid_pdrop", 0.0);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", false);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "transformer.");
    redcoi_table(build, "wte", dims->vocab, dims->hidden);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "transformer.h.{}.");
    redcoi_layer_norm(build, "ln_1", dims->hidden, true);
    redcoi_linear(build, "attn.q_proj", dims->hidden, dims->hidden, false);
    redcoi_linear(build, "attn.k_proj", dims->hidden, dims->hidden, false);
    redcoi_linear(build, "attn.v_proj", dims->hidden, dims->hidden, false);
    redcoi_linear(build, "attn.out_proj", dims->hidden, dims->hidden, false);
    redcoi_linear(build, "mlp.fc_in", dims->ffn, dims->hidden, true);
    redcoi_linear(build, "mlp.fc_out", dims->hidden, dims->ffn, true);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_layer_norm(build, "transformer.ln_f", dims->hidden, true);
    if (dims->tied) {
        redcoi_bias(build, "lm_head", dims->vocab);
    } else {
        redcoi_linear(build, "lm_head", dims->vocab, dims->hidden, true);
    }
}

void redcoi_build_gpt_neox(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, 50432, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "hidden_size", NULL, 6144, REDCOI_MAX_WIDTH);
    dims->ffn = redcoi_config_u32(build, "intermediate_size", NULL, 24576, REDCOI_MAX_FFN);
    dims->layers = redcoi_config_u32(build, "num_hidden_layers", NULL, 44, REDCOI_MAX_LAYERS);
    dims->heads = redcoi_config_u32(build, "num_attention_heads", NULL, 64, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, "num_attention_heads", dims->heads, "hidden_size", dims->hidden);
    dims->kv_heads = dims->heads;
    dims->head_dim = dims->hidden / dims->heads;
    dims->parallel_block = redcoi_config_bool(build, "use_parallel_residual", true);
    dims->dropout = redcoi_config_dropout(build, "hidden_dropout", 0.0);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", false);
    const bool attention_bias = redcoi_config_bool(build, "attention_bias", true);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "gpt_neox.");
    redcoi_table(build, "embed_in", dims->vocab, dims->hidden);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "gpt_neox.layers.{}.");
    redcoi_layer_norm(build, "input_layernorm", dims->hidden, true);
    redcoi_layer_norm(build, "post_attention_layernorm", dims->hidden, true);
    redcoi_linear(build, "attention.query_key_value", 3 * (uint64_t)dims->hidden, dims->hidden, attention_bias);
    redcoi_linear(build, "attention.dense", dims->hidden, dims->hidden, attention_bias);
    redcoi_linear(build, "mlp.dense_h_to_4h", dims->ffn, dims->hidden, true);
    redcoi_linear(build, "mlp.dense_4h_to_h", dims->hidden, dims->ffn, true);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_layer_norm(build, "gpt_neox.final_layer_norm", dims->hidden, true);
    if (!dims->tied) { redcoi_linear(build, "embed_out", dims->vocab, dims->hidden, false); }
}
