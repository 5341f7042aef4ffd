/* Decoder-only models of the LLaMA kind: RMS norms, rotary positions, gated FFN, grouped-query attention.
 * Sources: modeling_*.py and configuration_*.py of HuggingFace transformers 4.48 (llama, mistral, qwen2, gemma);
 * modeling_internlm2.py of internlm/internlm2-7b. */
#include "costmodel/models/model_build.h"

#include <string.h>

/* Defaults of the configuration classes, used where a config.json leaves a key out. */
struct variant {
    const char *type;
    uint32_t vocab, hidden, ffn, layers, heads;
    uint32_t kv_heads; /* 0: as many as heads */
    uint32_t head_dim; /* 0: hidden / heads */
    bool tied;
    bool qkv_bias;              /* always */
    const char *attention_bias; /* key of a switch for biases on all four projections, or NULL */
    bool attention_bias_default;
    const char *mlp_bias; /* likewise */
};

static const struct variant variants[] = {
    {"llama", 32000, 4096, 11008, 32, 32, 0, 0, false, false, "attention_bias", false, "mlp_bias"},
    {"mistral", 32000, 4096, 14336, 32, 32, 8, 0, false, false, NULL, false, NULL},
    {"qwen2", 151936, 4096, 22016, 32, 32, 32, 0, false, true, NULL, false, NULL},
    {"gemma", 256000, 3072, 24576, 28, 16, 16, 256, true, false, "attention_bias", false, NULL},
    {"internlm2", 103168, 4096, 11008, 32, 32, 0, 0, false, false, "bias", true, NULL},
};

static const struct variant *variant_of(const char *type)
{
    size_t i = 0;
    while (strcmp(variants[i].type, type) != 0) { i++; } /* the table of families holds no other type */
    return &variants[i];
}

static void read_heads(redcoi_build *build, const struct variant *variant)
{
    redco_model_dims *dims = &build->model->dims;
    dims->heads = redcoi_config_u32(build, "num_attention_heads", NULL, variant->heads, REDCOI_MAX_HEADS);
    dims->kv_heads = variant->kv_heads != 0
                         ? redcoi_config_u32(build, "num_key_value_heads", NULL, variant->kv_heads, REDCOI_MAX_HEADS)
                         : redcoi_config_derived(build, "num_key_value_heads", NULL, dims->heads, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, "num_key_value_heads", dims->kv_heads, "num_attention_heads", dims->heads);
    if (variant->head_dim == 0 && !redco_json_has(&build->config, "head_dim")) {
        redcoi_config_divides(build, "num_attention_heads", dims->heads, "hidden_size", dims->hidden);
    }
    dims->head_dim = variant->head_dim != 0
                         ? redcoi_config_u32(build, "head_dim", NULL, variant->head_dim, REDCOI_MAX_WIDTH)
                         : redcoi_config_derived(build, "head_dim", NULL, dims->hidden / dims->heads, REDCOI_MAX_WIDTH);
}

static void add_block(redcoi_build *build, const struct variant *variant)
{
    const redco_model_dims *dims = &build->model->dims;
    const uint64_t q = (uint64_t)dims->heads * dims->head_dim;
    const uint64_t kv = (uint64_t)dims->kv_heads * dims->head_dim;
    const bool all_bias = variant->attention_bias != NULL &&
                          redcoi_config_bool(build, variant->attention_bias, variant->attention_bias_default);
    const bool mlp_bias = variant->mlp_bias != NULL && redcoi_config_bool(build, variant->mlp_bias, false);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "model.layers.{}.");
    redcoi_rms_norm(build, "input_layernorm", dims->hidden);
    redcoi_linear(build, "self_attn.q_proj", q, dims->hidden, all_bias || variant->qkv_bias);
    redcoi_linear(build, "self_attn.k_proj", kv, dims->hidden, all_bias || variant->qkv_bias);
    redcoi_linear(build, "self_attn.v_proj", kv, dims->hidden, all_bias || variant->qkv_bias);
    redcoi_linear(build, "self_attn.o_proj", dims->hidden, q, all_bias);
    redcoi_rms_norm(build, "post_attention_layernorm", dims->hidden);
    redcoi_linear(build, "mlp.gate_proj", dims->ffn, dims->hidden, mlp_bias);
    redcoi_linear(build, "mlp.up_proj", dims->ffn, dims->hidden, mlp_bias);
    redcoi_linear(build, "mlp.down_proj", dims->hidden, dims->ffn, mlp_bias);
}

/* Queries, keys and values in one matrix, interleaved by group of heads. */
static void add_internlm2_block(redcoi_build *build, const struct variant *variant)
{
    const redco_model_dims *dims = &build->model->dims;
    const uint64_t q = (uint64_t)dims->heads * dims->head_dim;
    const uint64_t kv = (uint64_t)dims->kv_heads * dims->head_dim;
    const bool bias = redcoi_config_bool(build, variant->attention_bias, variant->attention_bias_default);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "model.layers.{}.");
    redcoi_rms_norm(build, "attention_norm", dims->hidden);
    redcoi_linear(build, "attention.wqkv", q + 2 * kv, dims->hidden, bias);
    redcoi_linear(build, "attention.wo", dims->hidden, q, bias);
    redcoi_rms_norm(build, "ffn_norm", dims->hidden);
    redcoi_linear(build, "feed_forward.w1", dims->ffn, dims->hidden, false);
    redcoi_linear(build, "feed_forward.w3", dims->ffn, dims->hidden, false);
    redcoi_linear(build, "feed_forward.w2", dims->hidden, dims->ffn, false);
}

void redcoi_build_llama(redcoi_build *build)
{
    const struct variant *variant = variant_of(build->model->type);
    const bool internlm2 = strcmp(variant->type, "internlm2") == 0;
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, variant->vocab, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "hidden_size", NULL, variant->hidden, REDCOI_MAX_WIDTH);
    dims->ffn = redcoi_config_u32(build, "intermediate_size", NULL, variant->ffn, REDCOI_MAX_FFN);
    dims->layers = redcoi_config_u32(build, "num_hidden_layers", NULL, variant->layers, REDCOI_MAX_LAYERS);
    read_heads(build, variant);
    dims->gated = true;
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", variant->tied);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "");
    redcoi_table(build, internlm2 ? "model.tok_embeddings" : "model.embed_tokens", dims->vocab, dims->hidden);
    if (internlm2) {
        add_internlm2_block(build, variant);
    } else {
        add_block(build, variant);
    }
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_rms_norm(build, "model.norm", dims->hidden);
    if (!dims->tied) { redcoi_linear(build, internlm2 ? "output" : "lm_head", dims->vocab, dims->hidden, false); }
}
