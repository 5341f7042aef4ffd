/* EXAONE 4 (LG AI Research, arXiv 2507.11407): OLMo 2 with a norm of each head's queries and keys; where layers have a
 * window, those without are not rotated. Source: modeling_exaone4.py and configuration_exaone4.py of HuggingFace
 * transformers 4.57. */
#include "costmodel/models/family.h"

#include <string.h>

static const redcoi_module block[] = {
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_QUERY_NORM, "self_attn.q_norm", 0},
    {REDCO_USE_KEY_NORM, "self_attn.k_norm", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_ATTENTION_END_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE, "mlp.gate_proj", 0},
    {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {REDCO_USE_FFN_END_NORM, "post_feedforward_layernorm", 0},
    {0},
};

static const redcoi_layer_modules layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};

/* The pattern is a number, or one letter a layer: "LLLG". */
static void read_windows(redcoi_build *build)
{
    enum { DEFAULT_PATTERN = 4 };
    static const char key[] = "sliding_window_pattern";
    const char *const letters = json_string_value(json_object_get(build->config.json, key));
    const uint64_t window = redcoi_config_window(build, 4096);
    uint64_t pattern = DEFAULT_PATTERN;
    if (letters != NULL) {
        (void)redcoi_config_asks(build, key);
        pattern = strlen(letters);
    } else {
        pattern = redcoi_config_count(build, key, DEFAULT_PATTERN, REDCOI_MAX_LAYERS);
    }
    redcoi_config_window_every(build, window, (uint32_t)pattern);
    redcoi_config_full_unrotated(build);
}

const redcoi_family redcoi_family_exaone4 = {
    .type = "exaone4",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true, .head_norms = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 102400,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 16384,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = layers,
    .epsilon = {"rms_norm_eps", 1e-5},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
    .read = read_windows,
};
