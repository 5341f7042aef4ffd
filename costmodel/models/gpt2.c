/* GPT-2 (Radford et al., 2019): layer norms, learned positions, queries, keys and values from one matrix. */
#include "costmodel/models/decoder.h"

static void read_settings(redcoi_reader *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    s->norm_epsilon = redcoi_read_number(config, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    s->activation = redcoi_read_activation(config, "activation_function", REDCOI_ACTIVATION_GELU_TANH);
    if (!redcoi_read_bool(config, "scale_attn_weights", true)) { s->score_scale = 1.0; }
    s->scale_by_layer = redcoi_read_bool(config, "scale_attn_by_inverse_layer_idx", false);
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    redco_graph_set_operator(p->g, "embedding");
    const redco_value x = redcoi_lm_rows(p, "/transformer.wte", tokens);
    return redco_add(p->g, x, redcoi_lm_rows(p, "/transformer.wpe", redcoi_lm_positions(p, 0)));
}

static redco_value third(redcoi_pass *p, redco_value qkv, uint64_t which)
{
    const uint64_t width = p->dims->hidden;
    return redcoi_lm_heads(p, redco_slice_axis(p->g, qkv, 2, which * width, width), p->dims->heads);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    const redco_value y = redcoi_lm_layer_norm(p, "attn_norm", "ln_1", x);
    const redco_value qkv = redcoi_lm_product(p, "qkv", "attn.c_attn", y);
    redco_graph_set_operator(p->g, "split_heads");
    const redco_value q = third(p, qkv, 0), k = third(p, qkv, 1), v = third(p, qkv, 2);
    const redco_value seen = redcoi_lm_attention(p, q, k, v);
    x = redco_add(p->g, x, redcoi_lm_product(p, "out", "attn.c_proj", seen));

    const redco_value z = redcoi_lm_layer_norm(p, "ffn_norm", "ln_2", x);
    const redco_value active = redcoi_lm_activate(p, redcoi_lm_product(p, "ffn_in", "mlp.c_fc", z));
    return redco_add(p->g, x, redcoi_lm_product(p, "ffn_out", "mlp.c_proj", active));
}

static redco_value head(redcoi_pass *p, redco_value x)
{
    const redco_value y = redcoi_lm_layer_norm(p, "final_norm", "/transformer.ln_f", x);
    return redcoi_lm_logits(p, "/lm_head", "/transformer.wte", y);
}

const redcoi_family redcoi_family_gpt2 = {.type = "gpt2",
                                          .prefix = "transformer.h.",
                                          .fused = ".attn.c_attn.",
                                          .read = read_settings,
                                          .embed = embed,
                                          .block = block,
                                          .head = head};
