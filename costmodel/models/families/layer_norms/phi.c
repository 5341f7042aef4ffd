/* Phi-1, 1.5 and 2 (Gunasekar et al., arXiv 2306.11644; Li et al., arXiv 2309.05463): attention and FFN read one norm
 * and are added together; a part of each head is rotated; biases everywhere. Source: modeling_phi.py and
 * configuration_phi.py of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_QUERY_NORM, "self_attn.q_layernorm", 0},
    {REDCO_USE_KEY_NORM, "self_attn.k_layernorm", 0},
    {REDCO_USE_OUTPUT, "self_attn.dense", 0},
    {REDCO_USE_UP, "mlp.fc1", 0},
    {REDCO_USE_DOWN, "mlp.fc2", 0},
    {0},
};
static const redcoi_module head[] = {
    {REDCO_USE_FINAL_NORM, "model.final_layernorm", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", head},
};

static void read_phi(redcoi_build *build)
{
    build->model->dims.head_norms = redcoi_config_bool(build, "qk_layernorm", false);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_config_rotary_part(config, "partial_rotary_factor", 0.5, dims, s);
}

const redcoi_family redcoi_family_phi = {
    .type = "phi",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ROTARY, .parallel_block = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 51200,
                 [REDCOI_SIZE_HIDDEN] = 2048,
                 [REDCOI_SIZE_FFN] = 8192,
                 [REDCOI_SIZE_LAYERS] = 24,
                 [REDCOI_SIZE_HEADS] = 32},
    .dropout_key = "resid_pdrop",
    .layers = layers,
    .biases = ~UINT64_C(0),
    .epsilon = {"layer_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_GELU_TANH},
    .read = read_phi,
    .read_settings = read_settings,
};
