/* Gemma (Gemma Team, arXiv 2403.08295): LLaMA with heads wider than hidden / heads and a tied table.
 * Source: modeling_gemma.py and configuration_gemma.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

static void build_gemma(redcoi_build *build)
{
    redcoi_llama_dims(build, &(redcoi_llama_defaults){.vocab = 256000,
                                                      .hidden = 3072,
                                                      .ffn = 24576,
                                                      .layers = 28,
                                                      .heads = 16,
                                                      .kv_heads = 16,
                                                      .head_dim = 256,
                                                      .tied = true});
    const bool bias = redcoi_config_bool(build, "attention_bias", false);
    redcoi_llama_tensors(build, (redcoi_llama_biases){.qkv = bias, .out = bias});
}

const redcoi_family redcoi_family_gemma = {
    .type = "gemma", .norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY, .build = build_gemma};
