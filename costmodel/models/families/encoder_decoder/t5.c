/* T5 (Raffel et al., arXiv 1910.10683) and mT5. Source: modeling_t5.py, configuration_t5.py, configuration_mt5.py of
 * HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The inner width is heads x d_kv and need not be d_model: nothing has to divide. */
static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},
    [REDCOI_SIZE_HIDDEN] = {"d_model", "hidden_size"},
    [REDCOI_SIZE_FFN] = {"d_ff", NULL},
    [REDCOI_SIZE_ENCODER_LAYERS] = {"num_layers", "num_hidden_layers"},
    [REDCOI_SIZE_LAYERS] = {"num_decoder_layers", NULL},
    [REDCOI_SIZE_HEADS] = {"num_heads", "num_attention_heads"},
    [REDCOI_SIZE_HEAD_DIM] = {"d_kv", "head_dim"},
};

/* Only the first layer of each stack has a relative bias; kept here, all layers of a class are the same. The gradient
 * of the encoder's final norm is made when backward comes to the encoder, long after the head's. */
static const redcoi_module embedding[] = {
    {REDCO_USE_TABLE, "shared", 0},
    {REDCO_USE_ENCODER_RELATIVE_BIAS, "encoder.block.0.layer.0.SelfAttention.relative_attention_bias", 0},
    {REDCO_USE_RELATIVE_BIAS, "decoder.block.0.layer.0.SelfAttention.relative_attention_bias", 0},
    {REDCO_USE_ENCODER_FINAL_NORM, "encoder.final_layer_norm", 0},
    {0},
};

#define ATTENTION                                                                                                      \
    {REDCO_USE_QUERY, "0.SelfAttention.q", 0}, {REDCO_USE_KEY, "0.SelfAttention.k", 0},                                \
        {REDCO_USE_VALUE, "0.SelfAttention.v", 0}, {REDCO_USE_OUTPUT, "0.SelfAttention.o", 0},                         \
    {                                                                                                                  \
        REDCO_USE_ATTENTION_NORM, "0.layer_norm", 0                                                                    \
    }
#define FFN(n)                                                                                                         \
    {REDCO_USE_GATE, n ".DenseReluDense.wi_0", 0}, {REDCO_USE_UP, n ".DenseReluDense.wi_1", REDCOI_GATED},             \
        {REDCO_USE_UP, n ".DenseReluDense.wi", REDCOI_UNGATED}, {REDCO_USE_DOWN, n ".DenseReluDense.wo", 0},           \
    {                                                                                                                  \
        REDCO_USE_FFN_NORM, n ".layer_norm", 0                                                                         \
    }

static const redcoi_module encoder[] = {ATTENTION, FFN("1"), {0}};
static const redcoi_module decoder[] = {
    ATTENTION,
    {REDCO_USE_CROSS_QUERY, "1.EncDecAttention.q", 0},
    {REDCO_USE_CROSS_KEY, "1.EncDecAttention.k", 0},
    {REDCO_USE_CROSS_VALUE, "1.EncDecAttention.v", 0},
    {REDCO_USE_CROSS_OUTPUT, "1.EncDecAttention.o", 0},
    {REDCO_USE_CROSS_NORM, "1.layer_norm", 0},
    FFN("2"),
    {0},
};
static const redcoi_module head[] = {
    {REDCO_USE_FINAL_NORM, "decoder.final_layer_norm", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", embedding},
    [REDCO_CLASS_BLOCK] = {"encoder.block.{}.layer.", encoder},
    [REDCO_CLASS_CROSS] = {"decoder.block.{}.layer.", decoder},
    [REDCO_CLASS_HEAD] = {"", head},
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

static void read_t5(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    dims->buckets = redcoi_config_u32(build, "relative_attention_num_buckets", NULL, 32, REDCOI_MAX_ROWS);
    dims->gated = read_gated(build, dims->gated);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    s->score_scale = 1.0; /* the initial values of the queries' matrices are smaller instead */
    s->activation = dims->gated ? REDCOI_ACTIVATION_GELU_TANH : REDCOI_ACTIVATION_RELU;
    s->relative_buckets = dims->buckets;
    s->relative_distance = redcoi_config_derived(config, "relative_attention_max_distance", NULL, 128, REDCOI_MAX_ROWS);
    redcoi_config_decoder_tokens(config, s, 0, 0);
    if (redcoi_building(config) && (s->relative_buckets < 4 || s->relative_distance <= s->relative_buckets / 2)) {
        redcoi_build_fail(
            config, "relative_attention_num_buckets",
            "is %llu; the executor needs 4 or more, and \"relative_attention_max_distance\" above half of "
            "them",
            (unsigned long long)s->relative_buckets);
    }
    s->scaled_head = redcoi_config_bool(config, "scale_decoder_outputs", dims->tied);
    const char *const text = redcoi_config_string(config, "feed_forward_proj");
    if (text == NULL || !redcoi_building(config) || strcmp(text, "gated-gelu") == 0) { return; } /* it means gelu_new */
    const char *const dash = strchr(text, '-');
    s->activation = redcoi_activation_of(config, "feed_forward_proj", dash == NULL ? text : dash + 1, s->activation);
}

/* mT5 of transformers 5 ties its head and does not scale what goes into it; T5 of any version, and mT5 before, does. */
static void read_mt5_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    read_settings(config, dims, s);
    const char *const version = redcoi_config_string(config, "transformers_version");
    if (version != NULL && strtoul(version, NULL, 10) >= 5 &&
        !redco_json_has(&config->config, "scale_decoder_outputs")) {
        s->scaled_head = false;
    }
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

#define COMMON                                                                                                         \
    .keys = keys, .dropout_key = "dropout_rate", .layers = layers, .epsilon = {"layer_norm_epsilon", 1e-6},            \
    .deviation = {"initializer_factor", 1.0}, .read = read_t5, .deviation_of = deviation

const redcoi_family redcoi_family_t5 = {
    .type = "t5",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_RELATIVE, .tied = true, .dropout = true},
    .defaults = {[REDCOI_SIZE_VOCAB] = 32128,
                 [REDCOI_SIZE_HIDDEN] = 512,
                 [REDCOI_SIZE_FFN] = 2048,
                 [REDCOI_SIZE_ENCODER_LAYERS] = 6,
                 [REDCOI_SIZE_HEADS] = 8,
                 [REDCOI_SIZE_HEAD_DIM] = 64},
    .read_settings = read_settings,
    COMMON,
};

const redcoi_family redcoi_family_mt5 = {
    .type = "mt5",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_RELATIVE, .gated = true, .dropout = true},
    .defaults = {[REDCOI_SIZE_VOCAB] = 250112,
                 [REDCOI_SIZE_HIDDEN] = 512,
                 [REDCOI_SIZE_FFN] = 1024,
                 [REDCOI_SIZE_ENCODER_LAYERS] = 8,
                 [REDCOI_SIZE_HEADS] = 6,
                 [REDCOI_SIZE_HEAD_DIM] = 64},
    .read_settings = read_mt5_settings,
    COMMON,
};
