/* T5 (Raffel et al., arXiv 1910.10683) and mT5. Source: modeling_t5.py, configuration_t5.py, configuration_mt5.py of
 * HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

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
    add_encoder(build);
    add_decoder(build);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_norm(build, REDCO_USE_ENCODER_FINAL_NORM, "encoder.final_layer_norm", dims->hidden, false);
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

const redcoi_family redcoi_family_t5 = {
    .type = "t5", .norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_RELATIVE, .build = build_t5};

const redcoi_family redcoi_family_mt5 = {
    .type = "mt5", .norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_RELATIVE, .build = build_mt5};
