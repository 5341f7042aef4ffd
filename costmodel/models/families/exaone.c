/* EXAONE 3 and 3.5 (LG AI Research, arXiv 2408.03541): LLaMA under other names.
 * Source: modeling_exaone.py and configuration_exaone.py beside LGAI-EXAONE/EXAONE-3.5-7.8B-Instruct. */
#include "costmodel/models/family.h"

static const redcoi_key keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},          [REDCOI_SIZE_HIDDEN] = {"hidden_size", NULL},
    [REDCOI_SIZE_FFN] = {"intermediate_size", NULL},     [REDCOI_SIZE_LAYERS] = {"num_layers", "num_hidden_layers"},
    [REDCOI_SIZE_HEADS] = {"num_attention_heads", NULL}, [REDCOI_SIZE_KV_HEADS] = {"num_key_value_heads", NULL},
    [REDCOI_SIZE_HEAD_DIM] = {"head_dim", NULL},
};

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "wte", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "ln_1", 0},
    {REDCO_USE_QUERY, "attn.attention.q_proj", 0},
    {REDCO_USE_KEY, "attn.attention.k_proj", 0},
    {REDCO_USE_VALUE, "attn.attention.v_proj", 0},
    {REDCO_USE_OUTPUT, "attn.attention.out_proj", 0},
    {REDCO_USE_FFN_NORM, "ln_2", 0},
    {REDCO_USE_GATE, "mlp.c_fc_0", 0},
    {REDCO_USE_UP, "mlp.c_fc_1", 0},
    {REDCO_USE_DOWN, "mlp.c_proj", 0},
    {0},
};
static const redcoi_module head[] = {
    {REDCO_USE_FINAL_NORM, "transformer.ln_f", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"transformer.", embedding},
    [REDCO_CLASS_BLOCK] = {"transformer.h.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

const redcoi_family redcoi_family_exaone = {
    .type = "exaone",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 102400,
                 [REDCOI_SIZE_HIDDEN] = 2048,
                 [REDCOI_SIZE_FFN] = 8192,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = layers,
    .epsilon = {"layer_norm_epsilon", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"activation_function", REDCOI_ACTIVATION_SILU},
};
