/* Mixtral (Jiang et al., arXiv 2401.04088): Mistral with experts in place of the FFN, whose width is that of one.
 * Source: modeling_mixtral.py and configuration_mixtral.py of HuggingFace transformers 4.48; 5.24. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_ROUTER, "block_sparse_moe.gate", 0},
    {REDCO_USE_EXPERT_GATE, "block_sparse_moe.experts.{}.w1", 0},
    {REDCO_USE_EXPERT_UP, "block_sparse_moe.experts.{}.w3", 0},
    {REDCO_USE_EXPERT_DOWN, "block_sparse_moe.experts.{}.w2", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};
static const redcoi_expert_keys experts = {.experts = "num_local_experts", .choices = "num_experts_per_tok"};

static void read_window(redcoi_build *build)
{
    build->window = redcoi_config_window(build, 0);
}

const redcoi_family redcoi_family_mixtral = {
    .type = "mixtral",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = REDCOI_REQUIRED_SIZES,
    .layers = layers,
    .experts = &experts,
    .epsilon = {"rms_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = read_window,
};
