/* T5 and mT5. Source: modeling_t5.py, configuration_t5.py, configuration_mt5.py of HuggingFace transformers 4.48. */
#include "costmodel/models/model_build.h"

#include <string.h>

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

static void add_attention(redcoi_build *build, const char *const names[4])
{
    const redco_model_dims *dims = &build->model->dims;
    const uint64_t inner = (uint64_t)dims->heads * dims->head_dim;
    for (size_t i = 0; i < 3; i++) { redcoi_linear(build, names[i], inner, dims->hidden, false); }
    redcoi_linear(build, names[3], dims->hidden, inner, false);
}

static void add_encoder(redcoi_build *build)
{
    static const char *const attention[4] = {"0.SelfAttention.q", "0.SelfAttention.k", "0.SelfAttention.v",
                                             "0.SelfAttention.o"};
    const redco_model_dims *dims = &build->model->dims;
    redcoi_class(build, "encoder", REDCO_CLASS_BLOCK, dims->encoder_layers, "encoder.block.{}.layer.");
    add_attention(build, attention);
    redcoi_rms_norm(build, "0.layer_norm", dims->hidden);
    redcoi_linear(build, dims->gated ? "1.DenseReluDense.wi_0" : "1.DenseReluDense.wi", dims->ffn, dims->hidden, false);
    if (dims->gated) { redcoi_linear(build, "1.DenseReluDense.wi_1", dims->ffn, dims->hidden, false); }
    redcoi_linear(build, "1.DenseReluDense.wo", dims->hidden, dims->ffn, false);
    redcoi_rms_norm(build, "1.layer_norm", dims->hidden);
}

static void add_decoder(redcoi_build *build)
{
    static const char *const self[4] = {"0.SelfAttention.q", "0.SelfAttention.k", "0.SelfAttention.v",
                                        "0.SelfAttention.o"};
    static const char *const cross[4] = {"1.EncDecAttention.q", "1.EncDecAttention.k", "1.EncDecAttention.v",
                                         "1.EncDecAttention.o"};
    const redco_model_dims *dims = &build->model->dims;
    redcoi_class(build, "decoder", REDCO_CLASS_CROSS, dims->layers, "decoder.block.{}.layer.");
    add_attention(build, self);
    redcoi_rms_norm(build, "0.layer_norm", dims->hidden);
    add_attention(build, cross);
    redcoi_rms_norm(build, "1.layer_norm", dims->hidden);
    redcoi_linear(build, dims->gated ? "2.DenseReluDense.wi_0" : "2.DenseReluDense.wi", dims->ffn, dims->hidden, false);
    if (dims->gated) { redcoi_linear(build, "2.DenseReluDense.wi_1", dims->ffn, dims->hidden, false); }
    redcoi_linear(build, "2.DenseReluDense.wo", dims->hidden, dims->ffn, false);
    redcoi_rms_norm(build, "2.layer_norm", dims->hidden);
}

void redcoi_build_t5(redcoi_build *build)
{
    const bool mt5 = strcmp(build->model->type, "mt5") == 0;
    redco_model_dims *dims = &build->model->dims;
    dims->vocab = redcoi_config_u32(build, "vocab_size", NULL, mt5 ? 250112 : 32128, REDCOI_MAX_ROWS);
    dims->hidden = redcoi_config_u32(build, "d_model", "hidden_size", 512, REDCOI_MAX_WIDTH);
    dims->ffn = redcoi_config_u32(build, "d_ff", NULL, mt5 ? 1024 : 2048, REDCOI_MAX_FFN);
    dims->encoder_layers = redcoi_config_u32(build, "num_layers", "num_hidden_layers", mt5 ? 8 : 6, REDCOI_MAX_LAYERS);
    dims->layers = redcoi_config_derived(build, "num_decoder_layers", NULL, dims->encoder_layers, REDCOI_MAX_LAYERS);
    /* The inner width is heads x d_kv and need not be d_model: nothing has to divide. */
    dims->heads = redcoi_config_u32(build, "num_heads", "num_attention_heads", mt5 ? 6 : 8, REDCOI_MAX_HEADS);
    dims->kv_heads = dims->heads;
    dims->head_dim = redcoi_config_u32(build, "d_kv", "head_dim", 64, REDCOI_MAX_WIDTH);
    const uint32_t buckets = redcoi_config_u32(build, "relative_attention_num_buckets", NULL, 32, REDCOI_MAX_ROWS);
    dims->gated = read_gated(build, mt5);
    dims->dropout = redcoi_config_dropout(build, "dropout_rate", 0.1);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", !mt5);
    redcoi_class(build, "embedding", REDCO_CLASS_EMBEDDING, 1, "");
    redcoi_table(build, "shared", dims->vocab, dims->hidden);
    /* Only the first layer of each stack has such a table; kept here, all layers of a class are the same. */
    redcoi_table(build, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias", buckets, dims->heads);
    redcoi_table(build, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias", buckets, dims->heads);
    add_encoder(build);
    add_decoder(build);
    redcoi_class(build, "head", REDCO_CLASS_HEAD, 1, "");
    redcoi_rms_norm(build, "encoder.final_layer_norm", dims->hidden);
    redcoi_rms_norm(build, "decoder.final_layer_norm", dims->hidden);
    if (!dims->tied) { redcoi_linear(build, "lm_head", dims->vocab, dims->hidden, false); }
}
