/* Command R and Aya (Cohere): attention and a gated FFN read one layer norm without bias and are added together;
 * neighbouring elements are rotated as pairs; logits are scaled and the table is tied. Command R+ has a norm with a
 * gain for each head; "cohere2" (Command R7B, A) has a window in three of four layers, and rotates those alone. Source:
 * modeling_cohere.py, modeling_cohere2.py and their configurations of HuggingFace transformers 4.57. */
#include "costmodel/models/family.h"

static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_QUERIES_NORM, "self_attn.q_norm", 0},
    {REDCO_USE_KEYS_NORM, "self_attn.k_norm", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
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

static void read_cohere(redcoi_build *build)
{
    build->no_queries_norms = !redcoi_config_bool(build, "use_qk_norm", false);
}

static void read_cohere2(redcoi_build *build)
{
    const uint64_t pattern = redcoi_config_count(build, "sliding_window_pattern", 4, REDCOI_MAX_LAYERS);
    build->no_queries_norms = true;
    redcoi_config_window_every(build, redcoi_config_window(build, 4096), (uint32_t)pattern);
    redcoi_config_full_unrotated(build);
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    (void)dims;
    s->rope.interleaved = true;
    s->logit_scale = redcoi_config_number(config, "logit_scale", 0.0625, 1e-6, 1e6);
    if (redcoi_config_bool(config, "use_qk_norm", false)) {
        redcoi_build_fail(config, "use_qk_norm", "is true; the executor has no norms with a gain for each head");
    }
}

#define COMMON                                                                                                         \
    .dims = {.norm = REDCO_NORM_LAYER,                                                                                 \
             .positions = REDCO_POSITIONS_ROTARY,                                                                      \
             .gated = true,                                                                                            \
             .parallel_block = true,                                                                                   \
             .tied = true},                                                                                            \
    .keys = redcoi_llama_keys,                                                                                         \
    .defaults = {[REDCOI_SIZE_VOCAB] = 256000,                                                                         \
                 [REDCOI_SIZE_HIDDEN] = 8192,                                                                          \
                 [REDCOI_SIZE_FFN] = 22528,                                                                            \
                 [REDCOI_SIZE_LAYERS] = 40,                                                                            \
                 [REDCOI_SIZE_HEADS] = 64},                                                                            \
    .layers = layers, .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}},                               \
    .epsilon = {"layer_norm_eps", 1e-5}, .deviation = {"initializer_range", 0.02}, .theta = {"rope_theta", 10000.0},   \
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU}, .read_settings = read_settings

const redcoi_family redcoi_family_cohere = {.type = "cohere", .read = read_cohere, COMMON};
const redcoi_family redcoi_family_cohere2 = {.type = "cohere2", .read = read_cohere2, COMMON};
