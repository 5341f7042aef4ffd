/* OLMo (Groeneveld et al., arXiv 2402.00838): LLaMA with layer norms that have no weights. Source: modeling_olmo.py and
 * configuration_olmo.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_QUERY, "self_attn.q_proj", 0}, {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0}, {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_GATE, "mlp.gate_proj", 0},     {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},     {0},
};
static const redcoi_module head[] = {{REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

const redcoi_family redcoi_family_olmo = {
    .type = "olmo",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 50304,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 11008,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = layers,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}},
    .epsilon = {NULL, 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
};
