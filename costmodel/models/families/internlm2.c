/* InternLM2 (Cai et al., arXiv 2403.17297): LLaMA with queries, keys and values in one matrix, interleaved by group of
 * heads. Source: modeling_internlm2.py of internlm/internlm2-7b. */
#include "costmodel/models/family.h"

static const redcoi_module embedding[] = {{REDCO_USE_TABLE, "model.tok_embeddings", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "attention_norm", 0}, {REDCO_USE_QKV, "attention.wqkv", 0},
    {REDCO_USE_OUTPUT, "attention.wo", 0},           {REDCO_USE_FFN_NORM, "ffn_norm", 0},
    {REDCO_USE_GATE, "feed_forward.w1", 0},          {REDCO_USE_UP, "feed_forward.w3", 0},
    {REDCO_USE_DOWN, "feed_forward.w2", 0},          {0},
};
static const redcoi_module head[] = {{REDCO_USE_FINAL_NORM, "model.norm", 0}, {REDCO_USE_HEAD, "output", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

const redcoi_family redcoi_family_internlm2 = {
    .type = "internlm2",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 103168,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 11008,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = layers,
    .bias_keys = {{"bias", true, REDCOI_ATTENTION_BIASES}},
    .qkv = REDCOI_QKV_BY_GROUP,
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
};
