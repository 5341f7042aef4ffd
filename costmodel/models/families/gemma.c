/* Gemma (Gemma Team, arXiv 2403.08295): LLaMA with heads wider than hidden / heads, a tied table whose rows are
 * multiplied by the root of their length, norms that multiply by 1 + gain, and GELU's tanh form.
 * Source: modeling_gemma.py and configuration_gemma.py of HuggingFace transformers 4.48. */
#include "costmodel/models/family.h"

#include <math.h>

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

static void read_settings(redcoi_build *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_llama_read(config, dims, s);
    const redcoi_activation older = redcoi_config_activation(config, "hidden_act", REDCOI_ACTIVATION_GELU_TANH);
    s->activation = redcoi_config_activation(config, "hidden_activation", older);
    s->embedding_scale = sqrt((double)dims->hidden);
}

const redcoi_family redcoi_family_gemma = {.type = "gemma",
                                           .norm = REDCO_NORM_RMS,
                                           .positions = REDCO_POSITIONS_ROTARY,
                                           .build = build_gemma,
                                           .graph = {.read = read_settings,
                                                     .embed = redcoi_lm_tokens,
                                                     .block = redcoi_llama_block,
                                                     .head = redcoi_lm_head,
                                                     .gain_is_added = true}};
