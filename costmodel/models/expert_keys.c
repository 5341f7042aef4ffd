/* Keys of mixtures of experts and of latent attention. */
#include "costmodel/models/family.h"

#include <stdlib.h>

/* The sizes of a mixture are the model: none has a default. */
static uint32_t size_of(redcoi_build *config, const redcoi_build *build, const char *key, uint32_t most)
{
    if (key == NULL) { return 0; }
    if (redcoi_building(config) && !redco_json_has(&config->config, key)) {
        redcoi_build_fail(config, key, "is missing; a mixture of type \"%s\" is known by its dimensions alone",
                          build->model->family->type);
    }
    return redcoi_config_derived(config, key, NULL, 1, most);
}

void redcoi_config_experts(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    const redcoi_expert_keys *const keys = build->model->family->experts;
    redcoi_build inner = {.err = build->err};
    redcoi_build *const config = keys->outer != NULL ? &inner : build;
    if (keys->optional && !redco_json_has(&build->config, keys->experts)) { return; }
    if (keys->outer != NULL && redcoi_config_asks(build, keys->outer)) {
        build->status = redco_json_object(&build->config, keys->outer, &inner.config, build->err);
    } else if (keys->outer != NULL) {
        redcoi_build_fail(build, keys->outer, "is missing");
    }
    if (!redcoi_building(build)) { return; }
    dims->experts = size_of(config, build, keys->experts, REDCOI_MAX_EXPERTS);
    dims->choices = size_of(config, build, keys->choices, REDCOI_MAX_EXPERTS);
    dims->expert_ffn = keys->width != NULL ? size_of(config, build, keys->width, REDCOI_MAX_FFN) : dims->ffn;
    const bool all_shared = !keys->optional || redco_json_has(&config->config, keys->all_shared);
    dims->shared_ffn = all_shared ? size_of(config, build, keys->all_shared, REDCOI_MAX_FFN) : 0;
    if (keys->shared != NULL) { /* null and 0: there are none */
        const uint64_t shared = redcoi_config_count(config, keys->shared, 0, REDCOI_MAX_EXPERTS);
        dims->shared_ffn = (uint32_t)shared * dims->expert_ffn;
    }
    if (redcoi_building(config) && dims->choices > dims->experts) {
        redcoi_build_fail(config, keys->choices, "is %u of %u experts", dims->choices, dims->experts);
    }
    build->status = config->status;
}

/* @return room for each layer, all false; NULL on error */
static bool *all_layers(redcoi_build *build)
{
    if (!redcoi_building(build)) { return NULL; }
    build->dense = calloc(build->model->dims.layers, sizeof *build->dense);
    if (build->dense == NULL) {
        build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory");
    }
    return build->dense;
}

void redcoi_config_dense_first(redcoi_build *build, const char *key, const char *every)
{
    const uint64_t first = redcoi_config_count(build, key, 0, REDCOI_MAX_LAYERS);
    const uint32_t step = every == NULL ? 1 : redcoi_config_derived(build, every, NULL, 1, REDCOI_MAX_LAYERS);
    const uint32_t layers = build->model->dims.layers;
    bool *const dense = all_layers(build);
    build->model->dims.dense_first = (uint32_t)first;
    for (uint32_t i = 0; i < layers && dense != NULL; i++) { dense[i] = i < first || i % step != 0; }
}

void redcoi_config_sparse_step(redcoi_build *build, uint64_t every, const char *except)
{
    const uint32_t layers = build->model->dims.layers;
    bool *const dense = all_layers(build);
    redco_json_value list;
    size_t count = 0;
    for (uint32_t i = 0; i < layers && dense != NULL; i++) { dense[i] = every == 0 || (i + 1) % every != 0; }
    if (except == NULL || !redcoi_config_asks(build, except)) { return; }
    build->status = redco_json_array(&build->config, except, &list, &count, build->err);
    for (size_t i = 0; redcoi_building(build) && i < count; i++) {
        const json_t *const layer = json_array_get(list.json, i);
        const json_int_t index = json_is_integer(layer) ? json_integer_value(layer) : -1;
        if (index < 0 || index >= (json_int_t)layers) {
            redcoi_build_fail(build, except, "entry %zu is no layer of %u", i, layers);
        } else {
            dense[index] = true;
        }
    }
}

void redcoi_config_latents(redcoi_build *build)
{
    static const char query[] = "q_lora_rank";
    redco_model_dims *const dims = &build->model->dims;
    dims->query_latent = (uint32_t)redcoi_config_count(build, query, 0, REDCOI_MAX_WIDTH);
    dims->key_latent = size_of(build, build, "kv_lora_rank", REDCOI_MAX_WIDTH);
    dims->rotary_dim = size_of(build, build, "qk_rope_head_dim", REDCOI_MAX_WIDTH);
    dims->value_dim = size_of(build, build, "v_head_dim", REDCOI_MAX_WIDTH);
    dims->head_dim = size_of(build, build, "qk_nope_head_dim", REDCOI_MAX_WIDTH) + dims->rotary_dim;
    dims->kv_heads = dims->heads; /* "num_key_value_heads" says nothing here */
}
