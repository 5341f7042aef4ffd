/* GPT-J (Wang and Komatsuzaki, 2021): attention and FFN read one norm and are added together; neighbouring elements of
 * the first part of each head are turned as pairs. Source: modeling_gptj.py and configuration_gptj.py of HuggingFace
 * transformers 4.48. */
#include "costmodel/models/family.h"

static void build_gptj(redcoi_build *build)
{
    redco_model_dims *dims = &build->model->dims;
    redcoi_gpt_dims(build, 50400, 4096, 28, 16);
    dims->parallel_block = true;
    dims->dropout = redcoi_config_dropout(build, "resid_pdrop", 0.0);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", false);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "transformer.");
    redcoi_table(build, REDCO_USE_TABLE, "wte", dims->vocab, dims->hidden);
    redcoi_class(build, "block", REDCO_CLASS_BLOCK, dims->layers, "transformer.h.{}.");
    redcoi_norm(build, REDCO_USE_ATTENTION_NORM, "ln_1", dims->hidden, true);
    redcoi_linear(build, REDCO_USE_QUERY, "attn.q_proj", dims->hidden, dims->hidden, false);
    redcoi_linear(build, REDCO_USE_KEY, "attn.k_proj", dims->hidden, dims->hidden, false);
    redcoi_linear(build, REDCO_USE_VALUE, "attn.v_proj", dims->hidden, dims->hidden, false);
    redcoi_linear(build, REDCO_USE_OUTPUT, "attn.out_proj", dims->hidden, dims->hidden, false);
    redcoi_linear(build, REDCO_USE_UP, "mlp.fc_in", dims->ffn, dims->hidden, true);
    redcoi_linear(build, REDCO_USE_DOWN, "mlp.fc_out", dims->hidden, dims->ffn, true);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_norm(build, REDCO_USE_FINAL_NORM, "transformer.ln_f", dims->hidden, true);
    redcoi_untied_head(build, "lm_head");
    redcoi_bias(build, REDCO_USE_HEAD, "lm_head", dims->vocab);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    const bool given = json_object_get(config->config.json, "rotary_dim") != NULL;
    s->norm_epsilon = redcoi_config_number(config, "layer_norm_epsilon", 1e-5, 0.0, 1.0);
    s->activation = redcoi_config_activation(config, "activation_function", REDCOI_ACTIVATION_GELU_TANH);
    /* null turns whole heads; transformers' table then has the width of the model, which no head has. */
    if (given && !redco_json_has(&config->config, "rotary_dim")) {
        redcoi_build_fail(config, "rotary_dim", "is null; the number of rotated elements of a head is needed");
    }
    s->rope.size = redcoi_config_count(config, "rotary_dim", 64, dims->head_dim);
    s->rope.theta = 10000.0;
    s->rope.interleaved = true;
    if (s->rope.size < 2 || s->rope.size % 2 != 0 || s->rope.size > dims->head_dim) {
        redcoi_build_fail(config, "rotary_dim", "must be even, at least 2 and at most the size of a head");
    }
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    const redco_value y = redcoi_lm_norm(p, REDCO_USE_ATTENTION_NORM, x);
    const redco_value attended = redcoi_lm_rotary_attention(p, y), fed = redcoi_lm_ffn(p, y);
    /* The parts first: under tensor parallelism both are sums over ranks, which become one. */
    return redco_add(p->g, redco_add(p->g, attended, fed), x);
}

const redcoi_family redcoi_family_gptj = {
    .type = "gptj",
    .norm = REDCO_NORM_LAYER,
    .positions = REDCO_POSITIONS_ROTARY,
    .build = build_gptj,
    .graph = {.read = read_settings, .embed = redcoi_lm_tokens, .block = block, .head = redcoi_lm_head}};
