/* T5 (Raffel et al., arXiv 1910.10683) and mT5. Source: modeling_t5.py, configuration_t5.py, configuration_mt5.py of
 * HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

#include <math.h>
#include <string.h>

/* Defaults of a configuration class. */
struct defaults {
    uint32_t vocab, ffn, layers, heads;
    bool gated, tied;
};

/* "relu", "gelu", ...: one matrix in; "gated-gelu", "gated-silu": two. */
static bool read_gated(redcoi_build *build, bool fallback)
{
    const char *text = NULL;
    if (!redcoi_building(build) || !redco_json_has(&build->config, "feed_forward_proj")) { return fallback; }
    build->status = redco_json_string(&build->config, "feed_forward_proj", &text, build->err);
    if (!redcoi_building(build)) { return fallback; }
    const char *dash = strchr(text, '-');
    const bool gated = strncmp(text, "gated-", strlen("gated-")) == 0;
    if (text[0] == '\0' || (dash != NULL && (!gated || strchr(dash + 1, '-') != NULL || dash[1] == '\0'))) {
        redcoi_build_fail(build, "feed_forward_proj", "is \"%.40s\"; ACTIVATION or gated-ACTIVATION is needed", text);
    }
    return gated;
}

/* @p names  one matrix in; two, of which the first is the gate; out; the norm */
static void add_ffn(redcoi_build *build, const char *const names[5])
{
    const redco_model_dims *dims = &build->model->dims;
    if (dims->gated) {
        redcoi_linear(build, REDCO_USE_GATE, names[1], dims->ffn, dims->hidden, false);
        redcoi_linear(build, REDCO_USE_UP, names[2], dims->ffn, dims->hidden, false);
    } else {
        redcoi_linear(build, REDCO_USE_UP, names[0], dims->ffn, dims->hidden, false);
    }
    redcoi_linear(build, REDCO_USE_DOWN, names[3], dims->hidden, dims->ffn, false);
    redcoi_norm(build, REDCO_USE_FFN_NORM, names[4], dims->hidden, false);
}

static void add_attention(redcoi_build *build)
{
    const redco_model_dims *dims = &build->model->dims;
    const uint64_t h = dims->hidden, inner = (uint64_t)dims->heads * dims->head_dim;
    redcoi_linear(build, REDCO_USE_QUERY, "0.SelfAttention.q", inner, h, false);
    redcoi_linear(build, REDCO_USE_KEY, "0.SelfAttention.k", inner, h, false);
    redcoi_linear(build, REDCO_USE_VALUE, "0.SelfAttention.v", inner, h, false);
    redcoi_linear(build, REDCO_USE_OUTPUT, "0.SelfAttention.o", h, inner, false);
    redcoi_norm(build, REDCO_USE_ATTENTION_NORM, "0.layer_norm", h, false);
}

static void add_encoder(redcoi_build *build)
{
    static const char *const ffn[] = {"1.DenseReluDense.wi", "1.DenseReluDense.wi_0", "1.DenseReluDense.wi_1",
                                      "1.DenseReluDense.wo", "1.layer_norm"};
    redcoi_class(build, "encoder", REDCO_CLASS_BLOCK, build->model->dims.encoder_layers, "encoder.block.{}.layer.");
    add_attention(build);
    add_ffn(build, ffn);
}

static void add_decoder(redcoi_build *build)
{
    static const char *const ffn[] = {"2.DenseReluDense.wi", "2.DenseReluDense.wi_0", "2.DenseReluDense.wi_1",
                                      "2.DenseReluDense.wo", "2.layer_norm"};
    const redco_model_dims *dims = &build->model->dims;
    const uint64_t h = dims->hidden, inner = (uint64_t)dims->heads * dims->head_dim;
    redcoi_class(build, "decoder", REDCO_CLASS_CROSS, dims->layers, "decoder.block.{}.layer.");
    add_attention(build);
    redcoi_linear(build, REDCO_USE_CROSS_QUERY, "1.EncDecAttention.q", inner, h, false);
    redcoi_linear(build, REDCO_USE_CROSS_KEY, "1.EncDecAttention.k", inner, h, false);
    redcoi_linear(build, REDCO_USE_CROSS_VALUE, "1.EncDecAttention.v", inner, h, false);
    redcoi_linear(build, REDCO_USE_CROSS_OUTPUT, "1.EncDecAttention.o", h, inner, false);
    redcoi_norm(build, REDCO_USE_CROSS_NORM, "1.layer_norm", h, false);
    add_ffn(build, ffn);
}

static void build_with(redcoi_build *build, const struct defaults *d)
{
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, d->vocab, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "d_model", "hidden_size", 512, REDCOI_MAX_WIDTH);
    dims->ffn = redcoi_config_u32(build, "d_ff", NULL, d->ffn, REDCOI_MAX_FFN);
    dims->encoder_layers = redcoi_config_u32(build, "num_layers", "num_hidden_layers", d->layers, REDCOI_MAX_LAYERS);
    dims->layers = redcoi_config_derived(build, "num_decoder_layers", NULL, dims->encoder_layers, REDCOI_MAX_LAYERS);
    /* The inner width is heads x d_kv and need not be d_model: nothing has to divide. */
    dims->heads = redcoi_config_u32(build, "num_heads", "num_attention_heads", d->heads, REDCOI_MAX_HEADS);
    dims->kv_heads = dims->heads;
    dims->head_dim = redcoi_config_u32(build, "d_kv", "head_dim", 64, REDCOI_MAX_WIDTH);
    const uint32_t buckets = redcoi_config_u32(build, "relative_attention_num_buckets", NULL, 32, REDCOI_MAX_ROWS);
    dims->gated = read_gated(build, d->gated);
    dims->dropout = redcoi_config_dropout(build, "dropout_rate", 0.1);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", d->tied);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "");
    redcoi_table(build, REDCO_USE_TABLE, "shared", dims->vocab, dims->hidden);
    /* Only the first layer of each stack has such a table; kept here, all layers of a class are the same. */
    redcoi_table(build, REDCO_USE_ENCODER_RELATIVE_BIAS,
                 "encoder.block.0.layer.0.SelfAttention.relative_attention_bias", buckets, dims->heads);
    redcoi_table(build, REDCO_USE_RELATIVE_BIAS, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias",
                 buckets, dims->heads);
    /* Its gradient is made when backward comes to the encoder, long after the head's. */
    redcoi_norm(build, REDCO_USE_ENCODER_FINAL_NORM, "encoder.final_layer_norm", dims->hidden, false);
    add_encoder(build);
    add_decoder(build);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_norm(build, REDCO_USE_FINAL_NORM, "decoder.final_layer_norm", dims->hidden, false);
    redcoi_untied_head(build, "lm_head");
}

static void build_t5(redcoi_build *build)
{
    build_with(build, &(struct defaults){.vocab = 32128, .ffn = 2048, .layers = 6, .heads = 8, .tied = true});
}

static void build_mt5(redcoi_build *build)
{
    build_with(build, &(struct defaults){.vocab = 250112, .ffn = 1024, .layers = 8, .heads = 6, .gated = true});
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    const char *text = NULL;
    s->norm_epsilon = redcoi_config_number(config, "layer_norm_epsilon", 1e-6, 0.0, 1.0);
    s->deviation = redcoi_config_number(config, "initializer_factor", 1.0, 0.0, 1e3);
    s->score_scale = 1.0; /* the initial values of the queries' matrices are smaller instead */
    s->activation = dims->gated ? REDCOI_ACTIVATION_GELU_TANH : REDCOI_ACTIVATION_RELU;
    s->relative_buckets = redcoi_config_derived(config, "relative_attention_num_buckets", NULL, 32, REDCOI_MAX_ROWS);
    s->relative_distance = redcoi_config_derived(config, "relative_attention_max_distance", NULL, 128, REDCOI_MAX_ROWS);
    redcoi_config_decoder_tokens(config, s, 0, 0);
    if (redcoi_building(config) && (s->relative_buckets < 4 || s->relative_distance <= s->relative_buckets / 2)) {
        redcoi_build_fail(
            config, "relative_attention_num_buckets",
            "is %llu; the executor needs 4 or more, and \"relative_attention_max_distance\" above half of "
            "them",
            (unsigned long long)s->relative_buckets);
    }
    if (!redcoi_building(config) || !redco_json_has(&config->config, "feed_forward_proj")) { return; }
    config->status = redco_json_string(&config->config, "feed_forward_proj", &text, config->err);
    if (!redcoi_building(config) || strcmp(text, "gated-gelu") == 0) { return; } /* this one means gelu_new */
    const char *const dash = strchr(text, '-');
    s->activation = redcoi_activation_of(config, "feed_forward_proj", dash == NULL ? text : dash + 1, s->activation);
}

/* T5PreTrainedModel._init_weights() */
static double deviation(const redco_language_model *lm, redco_param_use use)
{
    const double factor = lm->set.deviation, hidden = (double)lm->dims->hidden, size = (double)lm->dims->head_dim;
    switch (use) {
    case REDCO_USE_TABLE:
    case REDCO_USE_HEAD: return factor;
    case REDCO_USE_QUERY:
    case REDCO_USE_CROSS_QUERY: return factor / sqrt(hidden * size);
    case REDCO_USE_OUTPUT:
    case REDCO_USE_CROSS_OUTPUT: return factor / sqrt((double)lm->dims->heads * size);
    case REDCO_USE_DOWN: return factor / sqrt((double)lm->dims->ffn);
    default: return factor / sqrt(hidden);
    }
}

/* The bucket of a distance (T5Attention._relative_position_bucket): half of the buckets hold one distance each, the
 * others ever more of them, the last one all from relative_distance on. Both sides have buckets of their own where
 * later keys are seen. @param offset  i32, key less query. @return i32, of the same dimensions */
static redco_value bucket_of(redcoi_pass *p, redco_value offset, bool both_sides)
{
    redco_graph *const g = p->g;
    const double buckets = (double)(p->set->relative_buckets / (both_sides ? 2 : 1));
    const double exact = floor(buckets / 2.0);
    const redco_value zero = redco_scalar(g, REDCO_F64, 0.0);
    const redco_value signed_distance = redco_neg(g, redco_cast(g, offset, REDCO_F64));
    const redco_value other_way = redco_neg(g, signed_distance);
    const redco_value distance = redco_max(g, signed_distance, both_sides ? other_way : zero);
    const redco_value far = redco_max(g, distance, redco_scalar(g, REDCO_F64, exact));
    const redco_value ratio = redco_div(g, redco_log(g, redco_scale(g, far, 1.0 / exact)),
                                        redco_scalar(g, REDCO_F64, log((double)p->set->relative_distance / exact)));
    const redco_value steps = redco_cast(g, redco_scale(g, ratio, buckets - exact), REDCO_I32);
    const redco_value wide = redco_min(g, redco_shift(g, steps, exact), redco_scalar(g, REDCO_I32, buckets - 1.0));
    const redco_value is_exact = redco_less(g, distance, redco_scalar(g, REDCO_F64, exact));
    const redco_value bucket = redco_select(g, is_exact, redco_cast(g, distance, REDCO_I32), wide);
    if (!both_sides) { return bucket; }
    const redco_value later = redco_less(g, zero, other_way);
    return redco_select(g, later, redco_shift(g, bucket, buckets), bucket);
}

/* The bias of one query for each sequence, at its position, to all kept keys: [batch, heads, 1, keys]. */
static redco_value relative_bias_decoding(redcoi_pass *p, redco_param_use use)
{
    redco_graph *const g = p->g;
    const redco_tensor_type by_key = redco_type(REDCO_I32, 2, (const uint64_t[]){1, p->caches->keys});
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    const redco_value bucket = bucket_of(p, redco_sub(g, redco_iota(g, &by_key, 1), p->positions), false);
    const redco_value rows = redco_cast(g, redcoi_lm_rows(p, use, bucket), redco_dtype_statistic(p->scope->compute));
    const redco_value by_head = redco_transpose(g, rows, (const uint32_t[]){0, 2, 1});
    return redco_reshape(g, by_head, 4, (const uint64_t[]){p->batch, p->dims->heads, 1, p->caches->keys});
}

/* Row i of the table that all offsets have is that of key less query = i - (length - 1): [1, heads, queries, keys]. */
static redco_value relative_bias(redcoi_pass *p, redco_param_use use, bool both_sides)
{
    redco_graph *const g = p->g;
    const uint64_t n = p->length, heads = p->dims->heads;
    const redco_tensor_type line = redco_type(REDCO_I32, 1, &(uint64_t){2 * n - 1});
    const redco_tensor_type square = redco_type(REDCO_I32, 2, (const uint64_t[]){n, n});
    const double last = (double)n - 1.0;
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    const redco_value bucket = bucket_of(p, redco_shift(g, redco_iota(g, &line, 0), -last), both_sides);
    const redco_value rows = redco_cast(g, redcoi_lm_rows(p, use, bucket), redco_dtype_statistic(p->scope->compute));
    const redco_value offset = redco_sub(g, redco_iota(g, &square, 1), redco_iota(g, &square, 0));
    const redco_value by_pair = redco_gather(g, rows, redco_shift(g, offset, last), NULL);
    const redco_value by_head = redco_transpose(g, by_pair, (const uint32_t[]){2, 0, 1});
    return redco_reshape(g, by_head, 4, (const uint64_t[]){1, heads, n, n});
}

static redco_value embed_source(redcoi_pass *p, redco_value tokens)
{
    const redco_value x = redcoi_lm_tokens(p, tokens);
    p->bias = relative_bias(p, REDCO_USE_ENCODER_RELATIVE_BIAS, true);
    return x;
}

static redco_value embed(redcoi_pass *p, redco_value tokens)
{
    const redco_value x = redcoi_lm_tokens(p, tokens);
    p->bias = p->caches != NULL && p->caches->decoding ? relative_bias_decoding(p, REDCO_USE_RELATIVE_BIAS)
                                                       : relative_bias(p, REDCO_USE_RELATIVE_BIAS, false);
    return x;
}

static redco_value attend(redcoi_pass *p, redco_value x, bool causal)
{
    const redcoi_lm_attention_kind own = {REDCO_OP_ROLE_ATTENTION, REDCO_USE_OUTPUT, causal, p->bias};
    const redco_value y = redcoi_lm_norm(p, REDCO_USE_ATTENTION_NORM, x);
    return redco_add(p->g, x, redcoi_lm_attend_by_three(p, &own, REDCO_USE_QUERY, y, y));
}

static redco_value feed_forward(redcoi_pass *p, redco_value x)
{
    return redco_add(p->g, x, redcoi_lm_ffn(p, redcoi_lm_norm(p, REDCO_USE_FFN_NORM, x)));
}

static redco_value encoder_block(redcoi_pass *p, redco_value x)
{
    return feed_forward(p, attend(p, x, false));
}

static redco_value encoder_end(redcoi_pass *p, redco_value x)
{
    return redcoi_lm_norm(p, REDCO_USE_ENCODER_FINAL_NORM, x);
}

static redco_value block(redcoi_pass *p, redco_value x)
{
    static const redcoi_lm_attention_kind cross = {REDCO_OP_ROLE_CROSS_ATTENTION, REDCO_USE_CROSS_OUTPUT, false,
                                                   REDCO_NO_VALUE};
    x = attend(p, x, true);
    const redco_value y = redcoi_lm_norm(p, REDCO_USE_CROSS_NORM, x);
    x = redco_add(p->g, x, redcoi_lm_attend_by_three(p, &cross, REDCO_USE_CROSS_QUERY, y, p->encoded));
    return feed_forward(p, x);
}

static redco_value head(redcoi_pass *p, redco_value x)
{
    x = redcoi_lm_norm(p, REDCO_USE_FINAL_NORM, x);
    /* A table that is the embedding as well has rows of length 1 rather than of 1 / root of the width. */
    if (p->dims->tied) { x = redco_scale(p->g, x, 1.0 / sqrt((double)p->dims->hidden)); }
    return redcoi_lm_logits(p, x);
}

#define GRAPH                                                                                                          \
    {                                                                                                                  \
        .read = read_settings, .embed = embed, .block = block, .head = head, .embed_source = embed_source,             \
        .encoder_block = encoder_block, .encoder_end = encoder_end, .deviation = deviation                             \
    }

const redcoi_family redcoi_family_t5 = {
    .type = "t5", .norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_RELATIVE, .build = build_t5, .graph = GRAPH};

const redcoi_family redcoi_family_mt5 = {
    .type = "mt5", .norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_RELATIVE, .build = build_mt5, .graph = GRAPH};
