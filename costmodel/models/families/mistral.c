/* Mistral (Jiang et al., arXiv 2310.06825): LLaMA whose queries see a sliding window of keys.
 * Source: modeling_mistral.py and configuration_mistral.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static void build_mistral(redcoi_build *build)
{
    redcoi_llama_dims(build,
                      &(redcoi_llama_defaults){
                          .vocab = 32000, .hidden = 4096, .ffn = 14336, .layers = 32, .heads = 32, .kv_heads = 8});
    redcoi_llama_tensors(build, (redcoi_llama_biases){.qkv = false});
}

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_llama_read(config, dims, s);
    s->window = redcoi_config_window(config, "sliding_window", 4096);
}

const redcoi_family redcoi_family_mistral = {
    .type = "mistral",
    .norm = REDCO_NORM_RMS,
    .positions = REDCO_POSITIONS_ROTARY,
    .build = build_mistral,
    .graph = {.read = read_settings, .embed = redcoi_lm_tokens, .block = redcoi_llama_block, .head = redcoi_lm_head}};
