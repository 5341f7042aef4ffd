/* gpt-oss (OpenAI, arXiv 2508.10925): biases of all products, a learned score for each head that is no key's, layers
 * with a window of 128 keys and layers without in turn, experts in two tensors [experts, in, out].
 * Source: modeling_gpt_oss.py and configuration_gpt_oss.py of HuggingFace transformers 5.24. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_SINKS, "self_attn.sinks", REDCOI_TENSOR},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_ROUTER, "mlp.router", 0},
    {REDCO_USE_EXPERT_GATE_UP, "mlp.experts.gate_up_proj", REDCOI_TURNED},
    {REDCO_USE_EXPERT_DOWN, "mlp.experts.down_proj", REDCOI_TURNED},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};
static const redcoi_expert_keys experts = {.experts = "num_local_experts", .choices = "num_experts_per_tok"};

static void read_gpt_oss(redcoi_build *build)
{
    redcoi_config_windows(build, redcoi_config_window(build, 128), 0);
    const bool listed = redco_json_has(&build->config, "layer_types");
    for (uint32_t i = 1; i < build->model->dims.layers && build->windowed != NULL && !listed; i += 2) {
        build->windowed[i] = false;
    }
}

const redcoi_family redcoi_family_gpt_oss = {
    .type = "gpt_oss",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = REDCOI_REQUIRED_SIZES,
    .layers = layers,
    .experts = &experts,
    .biases = REDCOI_BIT(ROUTER) | REDCOI_BIT(EXPERT_GATE_UP) | REDCOI_BIT(EXPERT_DOWN),
    .bias_keys = {{"attention_bias", true, REDCOI_ATTENTION_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = read_gpt_oss,
};
