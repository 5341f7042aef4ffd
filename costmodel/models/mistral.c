/* Mistral (Jiang et al., arXiv 2310.06825): LLaMA whose queries see a sliding window of keys. */
#include "costmodel/models/decoder.h"

static void read_settings(redcoi_reader *config, const redco_model_dims *dims, redcoi_settings *s)
{
    redcoi_llama_read(config, dims, s);
    /* The configuration's default is 4096, which null takes away. */
    const bool given = json_object_get(config->config.json, "sliding_window") != NULL;
    s->window = redcoi_read_count(config, "sliding_window", given ? 0 : 4096, UINT32_MAX);
}

const redcoi_family redcoi_family_mistral = {.type = "mistral",
                                             .prefix = "model.layers.",
                                             .read = read_settings,
                                             .embed = redcoi_llama_embed,
                                             .block = redcoi_llama_block,
                                             .head = redcoi_llama_head};
