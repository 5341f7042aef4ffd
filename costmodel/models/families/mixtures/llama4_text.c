/* Llama 4, its text model (Meta, 2025): every "interleave_moe_layer_step"-th layer has experts, and a shared one as
 * wide as each; the others have an FFN of "intermediate_size_mlp". Chunked attention ("attention_chunk_size") and heads
 * divided by their length have no tensors, and are priced as full attention: more than they take beyond 8192 tokens.
 * Source: modeling_llama4.py and configuration_llama4.py of HuggingFace transformers 5.24. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE, "feed_forward.gate_proj", 0},
    {REDCO_USE_UP, "feed_forward.up_proj", 0},
    {REDCO_USE_DOWN, "feed_forward.down_proj", 0},
    {REDCO_USE_ROUTER, "feed_forward.router", 0},
    {REDCO_USE_EXPERT_GATE_UP, "feed_forward.experts.gate_up_proj", REDCOI_TURNED},
    {REDCO_USE_EXPERT_DOWN, "feed_forward.experts.down_proj", REDCOI_TURNED},
    {REDCO_USE_SHARED_GATE, "feed_forward.shared_expert.gate_proj", 0},
    {REDCO_USE_SHARED_UP, "feed_forward.shared_expert.up_proj", 0},
    {REDCO_USE_SHARED_DOWN, "feed_forward.shared_expert.down_proj", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};
static const redcoi_expert_keys experts = {.experts = "num_local_experts", .choices = "num_experts_per_tok"};

/* "intermediate_size" is an expert's width here. */
static void read_llama4(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    dims->shared_ffn = dims->expert_ffn;
    dims->ffn = redcoi_config_derived(build, "intermediate_size_mlp", NULL, dims->expert_ffn, REDCOI_MAX_FFN);
    const uint64_t step = redcoi_config_derived(build, "interleave_moe_layer_step", NULL, 1, REDCOI_MAX_LAYERS);
    redcoi_config_sparse_step(build, step, NULL);
}

const redcoi_family redcoi_family_llama4_text = {
    .type = "llama4_text",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = REDCOI_REQUIRED_SIZES,
    .layers = layers,
    .experts = &experts,
    .sigmoid_router = true,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = read_llama4,
};
