/* Qwen3 (Yang et al., arXiv 2505.09388): Qwen2 whose queries and keys pass an RMS norm of each head before they are
 * rotated, with heads of a given size and without biases.
 * Source: modeling_qwen3.py and configuration_qwen3.py of HuggingFace transformers 4.51. */
#include "costmodel/models/family.h"

static void build_qwen3(redcoi_build *build)
{
    redcoi_llama_dims(
        build,
        &(redcoi_llama_defaults){
            .vocab = 151936, .hidden = 4096, .ffn = 22016, .layers = 32, .heads = 32, .kv_heads = 32, .head_dim = 128});
    build->model->dims.head_norms = true;
    const bool bias = redcoi_config_bool(build, "attention_bias", false);
    redcoi_llama_tensors(build, (redcoi_llama_biases){.qkv = bias, .out = bias});
}

const redcoi_family redcoi_family_qwen3 = {
    .type = "qwen3",
    .norm = REDCO_NORM_RMS,
    .positions = REDCO_POSITIONS_ROTARY,
    .build = build_qwen3,
    .graph = {
        .read = redcoi_qwen2_read, .embed = redcoi_lm_tokens, .block = redcoi_llama_block, .head = redcoi_lm_head}};
