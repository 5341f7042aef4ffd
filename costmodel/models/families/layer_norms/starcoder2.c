/* StarCoder2 (Lozhkov et al., arXiv 2402.19173): grouped heads with rotary positions, layer norms, an FFN without a
 * gate and biases everywhere. Source: modeling_starcoder2.py and configuration_starcoder2.py of HuggingFace
 * transformers 4.57. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_UP, "mlp.c_fc", 0},
    {REDCO_USE_DOWN, "mlp.c_proj", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};

static void read_window(redcoi_build *build)
{
    build->window = redcoi_config_window(build, 0);
}

const redcoi_family redcoi_family_starcoder2 = {
    .type = "starcoder2",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ROTARY, .tied = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 49152,
                 [REDCOI_SIZE_HIDDEN] = 3072,
                 [REDCOI_SIZE_FFN] = 12288,
                 [REDCOI_SIZE_LAYERS] = 30,
                 [REDCOI_SIZE_HEADS] = 24,
                 [REDCOI_SIZE_KV_HEADS] = 2},
    .dropout_key = "residual_dropout",
    .layers = layers,
    .biases = REDCOI_NORM_BIASES,
    .bias_keys = {{"use_bias", true, REDCOI_ATTENTION_BIASES | REDCOI_FFN_BIASES}},
    .epsilon = {"norm_epsilon", 1e-5},
    .deviation = {"initializer_range", 0.018042},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_GELU_TANH},
    .read = read_window,
};
