/* GPT-NeoX (Black et al., arXiv 2204.06745): attention and FFN beside each other, each behind its own norm of the
 * block's input (or, if switched so, behind each other); the matrix of queries, keys and values is ordered by head; the
 * first part of each head is rotated. */
#include "costmodel/models/decoder.h"

static void read_settings(redcoi_reader *config, const redco_model_dims *dims, redcoi_settings *s)
{
    s->norm_epsilon = redcoi_read_number(config, "layer_norm_eps", 1e-5, 0.0, 1.0);
    s->activation = redcoi_read_activation(config, "hidden_act", REDCOI_ACTIVATION_GELU);
    s->sequential = !dims->parallel_block;
    s->rope.size = (uint64_t)((double)dims->head_dim * redcoi_read_number(config, "rotary_pct", 0.25, 0.0, 1.0));
    s->rope.theta = redcoi_read_number(config, "rotary_emb_base", 10000.0, 1.0, 1e12);
    if (s->rope.size < 2 || s->rope.size % 2 != 0) {
        redcoi_read_fail(config, "rotary_pct", "must make an even number of elements of a head, at least 2");
    }
    redcoi_read_rope_scaling(config, &s->rope);
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    redco_graph_set_operator(p->g, "embedding");
    return redcoi_lm_rows(p, "/gpt_neox.embed_in", tokens);
}

static redco_value attend(redcoi_pass *p, redco_value x)
{
    const uint64_t heads = p->dims->heads, size = p->dims->head_dim;
    const redco_value y = redcoi_lm_layer_norm(p, "attn_norm", "input_layernorm", x);
    const redco_value qkv = redcoi_lm_product(p, "qkv", "attention.query_key_value", y);
    redco_graph_set_operator(p->g, "rotary");
    const redco_value by_head = redco_reshape(p->g, qkv, 4, (const uint64_t[]){p->batch, p->length, heads, 3 * size});
    redco_value q = redco_slice_axis(p->g, by_head, 3, 0, size), k = redco_slice_axis(p->g, by_head, 3, size, size);
    const redco_value v = redco_slice_axis(p->g, by_head, 3, 2 * size, size);
    redcoi_lm_rotate(p, &q, &k);
    return redcoi_lm_product(p, "out", "attention.dense", redcoi_lm_attention(p, q, k, v));
}

static redco_value feed(redcoi_pass *p, const char *norm, redco_value x)
{
    const redco_value y = redcoi_lm_layer_norm(p, norm, "post_attention_layernorm", x);
    const redco_value active = redcoi_lm_activate(p, redcoi_lm_product(p, "ffn_in", "mlp.dense_h_to_4h", y));
    return redcoi_lm_product(p, "ffn_out", "mlp.dense_4h_to_h", active);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    const redco_value attended = attend(p, x);
    if (p->set->sequential) {
        x = redco_add(p->g, x, attended);
        return redco_add(p->g, x, feed(p, "ffn_norm", x));
    }
    /* Both norms read the block's input: the simulator counts them as one operator. The parts first: under tensor
     * parallelism both are sums over ranks, which become one. */
    return redco_add(p->g, redco_add(p->g, feed(p, "attn_norm", x), attended), x);
}

static redco_value head(redcoi_pass *p, redco_value x)
{
    const redco_value y = redcoi_lm_layer_norm(p, "final_norm", "/gpt_neox.final_layer_norm", x);
    return redcoi_lm_logits(p, "/embed_out", "/gpt_neox.embed_in", y);
}

const redcoi_family redcoi_family_gpt_neox = {.type = "gpt_neox",
                                              .prefix = "gpt_neox.layers.",
                                              .read = read_settings,
                                              .embed = embed,
                                              .block = block,
                                              .head = head};
