/* StableLM (Bellagente et al., arXiv 2402.17834): LLaMA with layer norms and a quarter of each head rotated; 12B has
 * its parts beside each other and a norm of each head. Source: modeling_stablelm.py and configuration_stablelm.py of
 * HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

/* The norms of a model's heads are tensors of their own, "q_layernorm.norms.0.weight" and so on: here they are one. */
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_QUERIES_NORM, "self_attn.q_layernorm.norms", 0},
    {REDCO_USE_KEYS_NORM, "self_attn.k_layernorm.norms", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE, "mlp.gate_proj", 0},
    {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};

static void read_stablelm(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    build->no_queries_norms = !redcoi_config_bool(build, "qk_layernorm", false);
    dims->parallel_block = build->one_norm = redcoi_config_bool(build, "use_parallel_residual", false);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_config_rotary_part(config, "partial_rotary_factor", 0.25, dims, s);
    if (redcoi_config_bool(config, "qk_layernorm", false)) {
        redcoi_build_fail(config, "qk_layernorm", "is true; the executor has no norms with a gain for each head");
    }
}

const redcoi_family redcoi_family_stablelm = {
    .type = "stablelm",
    .dims = {.norm = REDCO_NORM_LAYER, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 50304,
                 [REDCOI_SIZE_HIDDEN] = 2560,
                 [REDCOI_SIZE_FFN] = 6912,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .dropout_key = "hidden_dropout",
    .layers = layers,
    .biases = REDCOI_NORM_BIASES & ~(REDCOI_BIT(QUERIES_NORM) | REDCOI_BIT(KEYS_NORM)),
    .bias_keys = {{"use_qkv_bias", false, REDCOI_QKV_BIASES}},
    .epsilon = {"layer_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = read_stablelm,
    .read_settings = read_settings,
};
