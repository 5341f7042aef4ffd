/* OPT (Zhang et al., arXiv 2205.01068): learned positions behind two unused rows, ReLU; OPT-350M has its norms behind
 * the residual sums and a table narrower than the model. */
#include "costmodel/models/decoder.h"

/* Rows of the position table that no position uses (OPTLearnedPositionalEmbedding). */
static const int32_t position_offset = 2;

static void read_settings(redcoi_reader *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    s->norm_epsilon = 1e-5; /* of torch.nn.LayerNorm: the config has none */
    s->activation = redcoi_read_activation(config, "activation_function", REDCOI_ACTIVATION_RELU);
    s->deviation = redcoi_read_number(config, "init_std", 0.02, 0.0, 10.0);
    s->post_norm = !redcoi_read_bool(config, "do_layer_norm_before", true);
    s->no_final_norm = s->post_norm || redcoi_read_bool(config, "_remove_final_layer_norm", false);
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    redco_graph_set_operator(p->g, "embedding");
    redco_value x = redcoi_lm_rows(p, "/model.decoder.embed_tokens", tokens);
    if (redco_scope_has(p->scope, "model.decoder.project_in.weight")) {
        x = redcoi_lm_product(p, "embedding", "/model.decoder.project_in", x);
    }
    const redco_value positions = redcoi_lm_positions(p, position_offset);
    return redco_add(p->g, x, redcoi_lm_rows(p, "/model.decoder.embed_positions", positions));
}

static redco_value attend(redcoi_pass *p, redco_value y)
{
    const uint64_t heads = p->dims->heads;
    const redco_value q = redcoi_lm_product(p, "qkv", "self_attn.q_proj", y);
    const redco_value k = redcoi_lm_product(p, "qkv", "self_attn.k_proj", y);
    const redco_value v = redcoi_lm_product(p, "qkv", "self_attn.v_proj", y);
    redco_graph_set_operator(p->g, "split_heads");
    const redco_value q_heads = redcoi_lm_heads(p, q, heads), k_heads = redcoi_lm_heads(p, k, heads);
    const redco_value v_heads = redcoi_lm_heads(p, v, heads);
    return redcoi_lm_product(p, "out", "self_attn.out_proj", redcoi_lm_attention(p, q_heads, k_heads, v_heads));
}

static redco_value feed(redcoi_pass *p, redco_value y)
{
    const redco_value active = redcoi_lm_activate(p, redcoi_lm_product(p, "ffn_in", "fc1", y));
    return redcoi_lm_product(p, "ffn_out", "fc2", active);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    if (p->set->post_norm) {
        x = redcoi_lm_layer_norm(p, "attn_norm", "self_attn_layer_norm", redco_add(p->g, x, attend(p, x)));
        return redcoi_lm_layer_norm(p, "ffn_norm", "final_layer_norm", redco_add(p->g, x, feed(p, x)));
    }
    x = redco_add(p->g, x, attend(p, redcoi_lm_layer_norm(p, "attn_norm", "self_attn_layer_norm", x)));
    return redco_add(p->g, x, feed(p, redcoi_lm_layer_norm(p, "ffn_norm", "final_layer_norm", x)));
}

static redco_value head(redcoi_pass *p, redco_value x)
{
    if (!p->set->no_final_norm) { x = redcoi_lm_layer_norm(p, "final_norm", "/model.decoder.final_layer_norm", x); }
    if (redco_scope_has(p->scope, "model.decoder.project_out.weight")) {
        x = redcoi_lm_product(p, "head", "/model.decoder.project_out", x);
    }
    return redcoi_lm_logits(p, "/lm_head", "/model.decoder.embed_tokens", x);
}

const redcoi_family redcoi_family_opt = {.type = "opt",
                                         .prefix = "model.decoder.layers.",
                                         .read = read_settings,
                                         .embed = embed,
                                         .block = block,
                                         .head = head};
