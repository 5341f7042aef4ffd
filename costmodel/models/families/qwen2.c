/* Qwen2 (Yang et al., arXiv 2407.10671): LLaMA with biases of queries, keys and values, and, if switched on, a sliding
 * window in the upper layers. Source: modeling_qwen2.py and configuration_qwen2.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static void build_qwen2(redcoi_build *build)
{
    redcoi_llama_dims(build,
                      &(redcoi_llama_defaults){
                          .vocab = 151936, .hidden = 4096, .ffn = 22016, .layers = 32, .heads = 32, .kv_heads = 32});
    redcoi_llama_tensors(build, (redcoi_llama_biases){.qkv = true});
}

void redcoi_qwen2_read(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_llama_read(config, dims, s);
    if (!redcoi_config_bool(config, "use_sliding_window", false)) { return; }
    s->window = redcoi_config_window(config, "sliding_window", 4096);
    s->first_window = (uint32_t)redcoi_config_count(config, "max_window_layers", 28, UINT32_MAX);
}

const redcoi_family redcoi_family_qwen2 = {
    .type = "qwen2",
    .norm = REDCO_NORM_RMS,
    .positions = REDCO_POSITIONS_ROTARY,
    .build = build_qwen2,
    .graph = {
        .read = redcoi_qwen2_read, .embed = redcoi_lm_tokens, .block = redcoi_llama_block, .head = redcoi_lm_head}};
