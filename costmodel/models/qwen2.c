/* Qwen2 (Yang et al., arXiv 2407.10671): LLaMA with biases of queries, keys and values, and, if switched on, a sliding
 * window in the upper layers. */
#include "costmodel/models/decoder.h"

static void read_settings(redcoi_reader *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_llama_read(config, dims, s);
    if (!redcoi_read_bool(config, "use_sliding_window", false)) { return; }
    const bool given = json_object_get(config->config.json, "sliding_window") != NULL;
    s->window = redcoi_read_count(config, "sliding_window", given ? 0 : 4096, UINT32_MAX);
    s->first_window = (uint32_t)redcoi_read_count(config, "max_window_layers", 28, UINT32_MAX);
}

const redcoi_family redcoi_family_qwen2 = {.type = "qwen2",
                                           .prefix = "model.layers.",
                                           .read = read_settings,
                                           .embed = redcoi_llama_embed,
                                           .block = redcoi_llama_block,
                                           .head = redcoi_llama_head};
