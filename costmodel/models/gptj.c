/* GPT-J (Wang and Komatsuzaki, 2021): attention and FFN read one norm and are added together; neighbouring elements of
 * the first part of each head are turned as pairs. */
#include "costmodel/models/decoder.h"

static void read_settings(redcoi_reader *config, const redco_model_dims *dims, redcoi_settings *s)
{
    const bool given = json_object_get(config->config.json, "rotary_dim") != NULL;
    s->norm_epsilon = redcoi_read_number(config, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    s->activation = redcoi_read_activation(config, "activation_function", REDCOI_ACTIVATION_GELU_TANH);
    /* null turns whole heads; transformers' table then has the width of the model, which no head has. */
    if (given && !redco_json_has(&config->config, "rotary_dim")) {
        redcoi_read_fail(config, "rotary_dim", "is null; the number of rotated elements of a head is needed");
    }
    s->rope.size = redcoi_read_count(config, "rotary_dim", 64, dims->head_dim);
    s->rope.theta = 10000.0;
    s->rope.interleaved = true;
    if (s->rope.size < 2 || s->rope.size % 2 != 0 || s->rope.size > dims->head_dim) {
        redcoi_read_fail(config, "rotary_dim", "must be even, at least 2 and at most the size of a head");
    }
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    redco_graph_set_operator(p->g, "embedding");
    return redcoi_lm_rows(p, "/transformer.wte", tokens);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    const uint64_t heads = p->dims->heads;
    const redco_value y = redcoi_lm_layer_norm(p, "attn_norm", "ln_1", x);
    redco_value q = redcoi_lm_heads(p, redcoi_lm_product(p, "qkv", "attn.q_proj", y), heads);
    redco_value k = redcoi_lm_heads(p, redcoi_lm_product(p, "qkv", "attn.k_proj", y), heads);
    const redco_value v = redcoi_lm_heads(p, redcoi_lm_product(p, "qkv", "attn.v_proj", y), heads);
    redcoi_lm_rotate(p, &q, &k);
    const redco_value seen = redcoi_lm_attention(p, q, k, v);
    const redco_value attended = redcoi_lm_product(p, "out", "attn.out_proj", seen);

    const redco_value active = redcoi_lm_activate(p, redcoi_lm_product(p, "ffn_in", "mlp.fc_in", y));
    const redco_value fed = redcoi_lm_product(p, "ffn_out", "mlp.fc_out", active);
    /* The parts first: under tensor parallelism both are sums over ranks, which become one. */
    return redco_add(p->g, redco_add(p->g, attended, fed), x);
}

static redco_value head(redcoi_pass *p, redco_value x)
{
    const redco_value y = redcoi_lm_layer_norm(p, "final_norm", "/transformer.ln_f", x);
    return redcoi_lm_logits(p, "/lm_head", "/transformer.wte", y);
}

const redcoi_family redcoi_family_gptj = {
    .type = "gptj", .prefix = "transformer.h.", .read = read_settings, .embed = embed, .block = block, .head = head};
