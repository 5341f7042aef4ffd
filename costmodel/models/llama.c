/* LLaMA (Touvron et al., arXiv 2302.13971): RMS norms, rotary positions, grouped heads, a gated FFN, no biases. */
#include "costmodel/models/decoder.h"

void redcoi_llama_read(redcoi_reader *config, const redco_model_dims *dims, redcoi_settings *s)
{
    s->norm_epsilon = redcoi_read_number(config, "rms_norm_eps", 1e-6, 0.0, 1.0);
    s->activation = redcoi_read_activation(config, "hidden_act", REDCOI_ACTIVATION_SILU);
    s->rope.size = dims->head_dim;
    s->rope.theta = redcoi_read_number(config, "rope_theta", 10000.0, 1.0, 1e12);
    redcoi_read_rope_scaling(config, &s->rope);
}

redco_value redcoi_llama_embed(redcoi_pass *p, redco_value tokens)
{
    redco_graph_set_operator(p->g, "embedding");
    return redcoi_lm_rows(p, "/model.embed_tokens", tokens);
}

redco_value redcoi_llama_block(redcoi_pass *p, redco_value x)
{
    redco_graph *const g = p->g;
    const redco_value y = redcoi_lm_rms_norm(p, "attn_norm", "input_layernorm", x);
    redco_value q = redcoi_lm_heads(p, redcoi_lm_product(p, "qkv", "self_attn.q_proj", y), p->dims->heads);
    redco_value k = redcoi_lm_heads(p, redcoi_lm_product(p, "qkv", "self_attn.k_proj", y), p->dims->kv_heads);
    const redco_value v = redcoi_lm_heads(p, redcoi_lm_product(p, "qkv", "self_attn.v_proj", y), p->dims->kv_heads);
    redcoi_lm_rotate(p, &q, &k);
    const redco_value seen = redcoi_lm_attention(p, q, k, v);
    x = redco_add(g, x, redcoi_lm_product(p, "out", "self_attn.o_proj", seen));

    const redco_value z = redcoi_lm_rms_norm(p, "ffn_norm", "post_attention_layernorm", x);
    const redco_value gate = redcoi_lm_product(p, "ffn_in", "mlp.gate_proj", z);
    const redco_value up = redcoi_lm_product(p, "ffn_in", "mlp.up_proj", z);
    const redco_value active = redco_mul(g, redcoi_lm_activate(p, gate), up);
    return redco_add(g, x, redcoi_lm_product(p, "ffn_out", "mlp.down_proj", active));
}

redco_value redcoi_llama_head(redcoi_pass *p, redco_value x)
{
    const redco_value y = redcoi_lm_rms_norm(p, "final_norm", "/model.norm", x);
    return redcoi_lm_logits(p, "/lm_head", "/model.embed_tokens", y);
}

const redcoi_family redcoi_family_llama = {.type = "llama",
                                           .prefix = "model.layers.",
                                           .read = redcoi_llama_read,
                                           .embed = redcoi_llama_embed,
                                           .block = redcoi_llama_block,
                                           .head = redcoi_llama_head};
