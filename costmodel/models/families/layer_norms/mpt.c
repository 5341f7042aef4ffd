/* MPT (MosaicML, 2023): ALiBi, layer norms without shift, no biases.
 * Source: modeling_mpt.py and configuration_mpt.py of HuggingFace transformers 4.48; for the learned positions of an
 * MPT without ALiBi, which transformers does not build: MosaicML llm-foundry, modeling_mpt.py. */
#include "costmodel/models/family.h"

#include <string.h>

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},
    [REDCOI_SIZE_HIDDEN] = {"d_model", "hidden_size"},
    [REDCOI_SIZE_LAYERS] = {"n_layers", "num_hidden_layers"},
    [REDCOI_SIZE_HEADS] = {"n_heads", "num_attention_heads"},
};

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "wte", 0}, {REDCO_USE_POSITIONS, "wpe", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "norm_1", 0},
    {REDCO_USE_QKV, "attn.Wqkv", 0},
    {REDCO_USE_OUTPUT, "attn.out_proj", 0},
    {REDCO_USE_FFN_NORM, "norm_2", 0},
    {REDCO_USE_UP, "ffn.up_proj", 0},
    {REDCO_USE_DOWN, "ffn.down_proj", 0},
    {0},
};
static const redcoi_module head[] = {
    {REDCO_USE_FINAL_NORM, "transformer.norm_f", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"transformer.", embedding},
    [REDCO_CLASS_BLOCK] = {"transformer.blocks.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

/* Refuses attention whose tensors differ from those built here. @return true if it uses ALiBi */
static bool read_attention(redcoi_build *build)
{
    redcoi_build inner = *build;
    bool alibi = true;
    if (!redcoi_building(build) || !redco_json_has(&build->config, "attn_config")) { return alibi; }
    inner.status = redco_json_object(&build->config, "attn_config", &inner.config, build->err);
    if (redcoi_building(&inner) && redco_json_has(&inner.config, "attn_type")) {
        const char *type = NULL;
        inner.status = redco_json_string(&inner.config, "attn_type", &type, build->err);
        if (redcoi_building(&inner) && strcmp(type, "multihead_attention") != 0) {
            redcoi_build_fail(&inner, "attn_type", "is \"%.40s\"; \"multihead_attention\" is needed", type);
        }
    }
    if (redcoi_config_bool(&inner, "qk_ln", false)) {
        redcoi_build_fail(&inner, "qk_ln", "is true; redco reads MPT without norms of queries and keys");
    }
    alibi = redcoi_config_bool(&inner, "alibi", true);
    build->status = inner.status;
    return alibi;
}

static void read_mpt(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    dims->ffn = redcoi_config_u32(build, "expansion_ratio", NULL, 4, 8) * dims->hidden;
    if (!redcoi_config_bool(build, "no_bias", true)) {
        redcoi_build_fail(build, "no_bias", "is false; redco reads MPT without biases, as transformers builds it");
    }
    const bool alibi = read_attention(build), learned = redcoi_config_bool(build, "learned_pos_emb", true);
    dims->positions = alibi ? REDCO_POSITIONS_ALIBI : learned ? REDCO_POSITIONS_LEARNED : REDCO_POSITIONS_NONE;
    if (dims->positions == REDCO_POSITIONS_LEARNED) {
        dims->max_positions = redcoi_config_u32(build, "max_seq_len", NULL, 2048, REDCOI_MAX_ROWS);
    }
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    static const char *const known[] = {"attn_type",
                                        "attn_impl",
                                        "attn_pdrop",
                                        "qk_ln",
                                        "clip_qkv",
                                        "softmax_scale",
                                        "alibi",
                                        "alibi_bias_max",
                                        "model_type",
                                        "prefix_lm",
                                        "attn_uses_sequence_id",
                                        NULL};
    redcoi_build inner = *config;
    if (dims->positions != REDCO_POSITIONS_ALIBI) {
        redcoi_build_fail(config, "attn_config", "\"alibi\" is false; the executor builds MPT with ALiBi");
    }
    if (!redcoi_config_asks(config, "attn_config")) { return; }
    static const char *const none[] = {NULL};
    redcoi_config_inner(config, "attn_config", json_object_get(config->config.json, "attn_config"), known, none);
    inner.status = redco_json_object(&config->config, "attn_config", &inner.config, config->err);
    if (redco_json_has(&inner.config, "clip_qkv")) {
        redcoi_build_fail(&inner, "clip_qkv", "is set; the executor builds MPT without it");
    }
    s->score_scale = redcoi_config_number(&inner, "softmax_scale", 0.0, 0.0, 1e6);
    const double bias = redcoi_config_number(&inner, "alibi_bias_max", 8.0, 1.0, 1e6);
    if (bias < 8.0 || bias > 8.0) { redcoi_build_fail(&inner, "alibi_bias_max", "is not 8, as the executor has it"); }
    if (redcoi_config_bool(&inner, "prefix_lm", false) || redcoi_config_bool(&inner, "attn_uses_sequence_id", false)) {
        redcoi_build_fail(&inner, NULL, "has \"prefix_lm\" or \"attn_uses_sequence_id\"; the executor has neither");
    }
    config->status = inner.status;
}

const redcoi_family redcoi_family_mpt = {
    .type = "mpt",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ALIBI, .tied = true},
    .keys = keys,
    .defaults =
        {[REDCOI_SIZE_VOCAB] = 50368, [REDCOI_SIZE_HIDDEN] = 2048, [REDCOI_SIZE_LAYERS] = 24, [REDCOI_SIZE_HEADS] = 16},
    .dropout_key = "resid_pdrop",
    .layers = layers,
    .qkv = REDCOI_QKV_BY_KIND,
    .epsilon = {"layer_norm_epsilon", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .active = {NULL, REDCOI_ACTIVATION_GELU}, /* every MPT has it; its config has no key */
    .read = read_mpt,
    .read_settings = read_settings,
};
