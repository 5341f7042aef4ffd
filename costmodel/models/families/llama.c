/* LLaMA (Touvron et al., arXiv 2302.13971): RMS norms, rotary positions, grouped heads, a gated FFN, no biases.
 * Source: modeling_llama.py and configuration_llama.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

const redcoi_key redcoi_llama_keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},          [REDCOI_SIZE_HIDDEN] = {"hidden_size", NULL},
    [REDCOI_SIZE_FFN] = {"intermediate_size", NULL},     [REDCOI_SIZE_LAYERS] = {"num_hidden_layers", NULL},
    [REDCOI_SIZE_HEADS] = {"num_attention_heads", NULL}, [REDCOI_SIZE_KV_HEADS] = {"num_key_value_heads", NULL},
    [REDCOI_SIZE_HEAD_DIM] = {"head_dim", NULL},
};

const redcoi_key redcoi_latent_keys[REDCOI_SIZES] = {
    [REDCOI_SIZE_VOCAB] = {"vocab_size", NULL},          [REDCOI_SIZE_HIDDEN] = {"hidden_size", NULL},
    [REDCOI_SIZE_FFN] = {"intermediate_size", NULL},     [REDCOI_SIZE_LAYERS] = {"num_hidden_layers", NULL},
    [REDCOI_SIZE_HEADS] = {"num_attention_heads", NULL},
};

const redcoi_module redcoi_llama_embedding[] = {{REDCO_USE_TABLE, "model.embed_tokens", 0}, {0}};
static const redcoi_module block[] = {
    {REDCO_USE_ATTENTION_NORM, "input_layernorm", 0},
    {REDCO_USE_QUERY, "self_attn.q_proj", 0},
    {REDCO_USE_KEY, "self_attn.k_proj", 0},
    {REDCO_USE_VALUE, "self_attn.v_proj", 0},
    {REDCO_USE_QUERY_NORM, "self_attn.q_norm", 0},
    {REDCO_USE_KEY_NORM, "self_attn.k_norm", 0},
    {REDCO_USE_OUTPUT, "self_attn.o_proj", 0},
    {REDCO_USE_FFN_NORM, "post_attention_layernorm", 0},
    {REDCO_USE_GATE, "mlp.gate_proj", 0},
    {REDCO_USE_UP, "mlp.up_proj", 0},
    {REDCO_USE_DOWN, "mlp.down_proj", 0},
    {0},
};
const redcoi_module redcoi_llama_head[] = {
    {REDCO_USE_FINAL_NORM, "model.norm", 0}, {REDCO_USE_HEAD, "lm_head", 0}, {0}};

/* Names of the checkpoint of DeepSeek-V3. */
const redcoi_module redcoi_predictions[] = {
    {REDCO_USE_MTP_TABLE, "embed_tokens", 0},
    {REDCO_USE_MTP_TOKEN_NORM, "enorm", 0},
    {REDCO_USE_MTP_HIDDEN_NORM, "hnorm", 0},
    {REDCO_USE_MTP_PROJECT, "eh_proj", 0},
    {REDCO_USE_MTP_FINAL_NORM, "shared_head.norm", 0},
    {REDCO_USE_MTP_HEAD, "shared_head.head", 0},
    {0},
};

const redcoi_layer_modules redcoi_llama_layers[REDCOI_CLASS_KINDS] = {
    [REDCO_CLASS_EMBEDDING] = {"", redcoi_llama_embedding},
    [REDCO_CLASS_BLOCK] = {"model.layers.{}.", block},
    [REDCO_CLASS_HEAD] = {"", redcoi_llama_head},
};

const redcoi_family redcoi_family_llama = {
    .type = "llama",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .gated = true},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = 32000,
                 [REDCOI_SIZE_HIDDEN] = 4096,
                 [REDCOI_SIZE_FFN] = 11008,
                 [REDCOI_SIZE_LAYERS] = 32,
                 [REDCOI_SIZE_HEADS] = 32},
    .layers = redcoi_llama_layers,
    .bias_keys = {{"attention_bias", false, REDCOI_ATTENTION_BIASES}, {"mlp_bias", false, REDCOI_FFN_BIASES}},
    .epsilon = {"rms_norm_eps", 1e-6},
    .deviation = {"initializer_range", 0.02},
    .theta = {"rope_theta", 10000.0},
    .active = {"hidden_act", REDCOI_ACTIVATION_SILU},
};
