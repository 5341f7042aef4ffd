/* Qwen (Bai et al., arXiv 2309.16609): LLaMA with queries, keys and values in one matrix that has biases; its FFN is
 * half as wide as the config says. Source: modeling_qwen.py and configuration_qwen.py beside Qwen/Qwen-7B. */
#include "costmodel/models/family.h"

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},          [REDCOI_SIZE_HIDDEN] = {"hidden_size", NULL},
    [REDCOI_SIZE_FFN] = {"intermediate_size", NULL},     [REDCOI_SIZE_LAYERS] = {"num_hidden_layers", NULL},
    [REDCOI_SIZE_HEADS] = {"num_attention_heads", NULL}, [REDCOI_SIZE_HEAD_DIM] = {"kv_channels", NULL},
};

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "wte", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "ln_1", 0}, {REDCO_USE_QKV, "attn.c_attn", 0},
    {REDCO_USE_OUTPUT, "attn.c_proj", 0},  {REDCO_USE_FFN_NORM, "ln_2", 0},
    {REDCO_USE_GATE, "mlp.w2", 0},         {REDCO_USE_UP, "mlp.w1", 0},
    {REDCO_USE_DOWN, "mlp.c_proj", 0},     {0},
};
static const redcoi_module head[] = {
    {REDCO_USE_FINAL_NORM, "transformer.ln_f", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"transformer.", embedding},
    [REDCO_CLASS_BLOCK] = {"transformer.h.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

static void read_qwen(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    if (redcoi_building(build) && dims->ffn % 2 != 0) {
        redcoi_build_fail(build, "intermediate_size", "is %u; an even number is needed", dims->ffn);
    }
    dims->ffn /= 2;
    if (!redcoi_config_bool(build, "no_bias", true)) { build->biases |= REDCOI_BIT(OUTPUT) | REDCOI_FFN_BIASES; }
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_config_rotary_part(config, "rotary_pct", 1.0, dims, s);
    if (!redcoi_config_bool(config, "scale_attn_weights", true)) { s->score_scale = 1.0; }
}

const redcoi_family redcoi_family_qwen = {
    .type = "qwen",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 151936,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 22016,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32,
                 [REDCOI_SIZE_HEAD_DIM] = 128},
    .layers = layers,
    .biases = REDCOI_QKV_BIASES,
    .qkv = REDCOI_QKV_BY_KIND,
    .epsilon = {"layer_norm_epsilon", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rotary_emb_base", 10000.0},
    .active = {NULL, REDCOI_ACTIVATION_SILU},
    .read = read_qwen,
    .read_settings = read_settings,
};
