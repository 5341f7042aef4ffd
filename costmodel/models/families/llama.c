/* LLaMA (Touvron et al., arXiv 2302.13971): RMS norms, rotary positions, grouped heads, a gated FFN, no biases.
 * Source: modeling_llama.py and configuration_llama.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static void read_heads(redcoi_build *build, const redcoi_llama_defaults *d)
{
    redco_model_dims *dims = &build->model->dims;
    dims->heads = redcoi_config_u32(build, "num_attention_heads", NULL, d->heads, REDCOI_MAX_HEADS);
    dims->kv_heads = d->kv_heads != 0
                         ? redcoi_config_u32(build, "num_key_value_heads", NULL, d->kv_heads, REDCOI_MAX_HEADS)
                         : redcoi_config_derived(build, "num_key_value_heads", NULL, dims->heads, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, "num_key_value_heads", dims->kv_heads, "num_attention_heads", dims->heads);
    if (d->head_dim == 0 && !redco_json_has(&build->config, "head_dim")) {
        redcoi_config_divides(build, "num_attention_heads", dims->heads, "hidden_size", dims->hidden);
    }
    dims->head_dim = d->head_dim != 0
                         ? redcoi_config_u32(build, "head_dim", NULL, d->head_dim, REDCOI_MAX_WIDTH)
                         : redcoi_config_derived(build, "head_dim", NULL, dims->hidden / dims->heads, REDCOI_MAX_WIDTH);
}

void redcoi_llama_dims(redcoi_build *build, const redcoi_llama_defaults *d)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, d->vocab, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "hidden_size", NULL, d->hidden, REDCOI_MAX_WIDTH);
    dims->ffn = redcoi_config_u32(build, "intermediate_size", NULL, d->ffn, REDCOI_MAX_FFN);
    dims->layers = redcoi_config_u32(build, "num_hidden_layers", NULL, d->layers, REDCOI_MAX_LAYERS);
    read_heads(build, d);
    dims->gated = true;
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", d->tied);
}

void redcoi_llama_tensors(redcoi_build *build, redcoi_llama_biases biases)
{
    const redco_model_dims *dims = &build->model->dims;
    const uint64_t h = dims->hidden;
    const uint64_t q = (uint64_t)dims->heads * dims->head_dim, kv = (uint64_t)dims->kv_heads * dims->head_dim;
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "");
    redcoi_table(build, REDCO_USE_TABLE, "model.embed_tokens", dims->vocab, h);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "model.layers.{}.");
    redcoi_norm(build, REDCO_USE_ATTENTION_NORM, "input_layernorm", h, false);
    redcoi_linear(build, REDCO_USE_QUERY, "self_attn.q_proj", q, h, biases.qkv);
    redcoi_linear(build, REDCO_USE_KEY, "self_attn.k_proj", kv, h, biases.qkv);
    redcoi_linear(build, REDCO_USE_VALUE, "self_attn.v_proj", kv, h, biases.qkv);
    if (dims->head_norms) {
        redcoi_norm(build, REDCO_USE_QUERY_NORM, "self_attn.q_norm", dims->head_dim, false);
        redcoi_norm(build, REDCO_USE_KEY_NORM, "self_attn.k_norm", dims->head_dim, false);
    }
    redcoi_linear(build, REDCO_USE_OUTPUT, "self_attn.o_proj", h, q, biases.out);
    redcoi_norm(build, REDCO_USE_FFN_NORM, "post_attention_layernorm", h, false);
    if (dims->gated) { redcoi_linear(build, REDCO_USE_GATE, "mlp.gate_proj", dims->ffn, h, biases.ffn); }
    redcoi_linear(build, REDCO_USE_UP, "mlp.up_proj", dims->ffn, h, biases.ffn);
    redcoi_linear(build, REDCO_USE_DOWN, "mlp.down_proj", h, dims->ffn, biases.ffn);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_norm(build, REDCO_USE_FINAL_NORM, "model.norm", h, false);
    redcoi_untied_head(build, "lm_head");
}

static void build_llama(redcoi_build *build)
{
    redcoi_llama_dims(
        build, &(redcoi_llama_defaults){.vocab = 32000, .hidden = 4096, .ffn = 11008, .layers = 32, .heads = 32});
    const bool bias = redcoi_config_bool(build, "attention_bias", false);
    redcoi_llama_tensors(build, (redcoi_llama_biases){bias, bias, redcoi_config_bool(build, "mlp_bias", false)});
}

void redcoi_llama_read(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    s->norm_epsilon = redcoi_config_number(config, "rms_norm_eps", 1e-6, 0.0, 1.0);
    s->activation = redcoi_config_activation(config, "hidden_act", REDCOI_ACTIVATION_SILU);
    s->rope.size = dims->head_dim;
    s->rope.theta = redcoi_config_number(config, "rope_theta", 10000.0, 1.0, 1e12);
    redcoi_config_rope_scaling(config, &s->rope);
}

redco_value redcoi_llama_block(redcoi_pass *p, redco_value x)
{
    const redco_value y = redcoi_lm_norm(p, REDCO_USE_ATTENTION_NORM, x);
    x = redco_add(p->g, x, redcoi_lm_rotary_attention(p, y));
    return redco_add(p->g, x, redcoi_lm_ffn(p, redcoi_lm_norm(p, REDCO_USE_FFN_NORM, x)));
}

const redcoi_family redcoi_family_llama = {
    .type = "llama",
    .norm = REDCO_NORM_RMS,
    .positions = REDCO_POSITIONS_ROTARY,
    .build = build_llama,
    .graph = {
        .read = redcoi_llama_read, .embed = redcoi_lm_tokens, .block = redcoi_llama_block, .head = redcoi_lm_head}};
