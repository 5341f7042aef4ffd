/* A model that is known by its dimensions alone, as tables of measured runs give them: a decoder of plain blocks
 * without biases or learned positions. Its tensors have the names of LLaMA's, so that rules by name know what they are
 * for. */
#include "costmodel/models/family.h"

/* There is no architecture whose default an absent dimension could take. */
static uint32_t dimension(redcoi_build *build, const char *key, uint32_t max)
{
    if (redcoi_building(build) && !redco_json_has(&build->config, key)) {
        redcoi_build_fail(build, key, "is missing; a model of type \"generic\" is known by its dimensions alone");
    }
    return redcoi_config_u32(build, key, NULL, 1, max);
}

static void read_dims(redcoi_build *build)
{
    redco_model_dims *const dims = &build->model->dims;
    dims->layers = dimension(build, "num_hidden_layers", REDCOI_MAX_LAYERS);
    dims->hidden = dimension(build, "hidden_size", REDCOI_MAX_WIDTH);
    dims->ffn = dimension(build, "intermediate_size", REDCOI_MAX_FFN);
    dims->heads = dimension(build, "num_attention_heads", REDCOI_MAX_HEADS);
    dims->vocab = dimension(build, "vocab_size", REDCOI_MAX_ROWS);
    dims->kv_heads = redcoi_config_derived(build, "num_key_value_heads", NULL, dims->heads, REDCOI_MAX_HEADS);
    redcoi_config_divides(build, "num_key_value_heads", dims->kv_heads, "num_attention_heads", dims->heads);
    if (!redco_json_has(&build->config, "head_dim")) {
        redcoi_config_divides(build, "num_attention_heads", dims->heads, "hidden_size", dims->hidden);
    }
    dims->head_dim = redcoi_config_derived(build, "head_dim", NULL, dims->hidden / dims->heads, REDCOI_MAX_WIDTH);
    dims->gated = redcoi_config_bool(build, "gated", true);
    dims->tied = redcoi_config_bool(build, "tie_word_embeddings", false);
}

static void build_generic(redcoi_build *build)
{
    read_dims(build);
    redcoi_llama_tensors(build, (redcoi_llama_biases){.qkv = false});
}

/* No settings are read: its layers are known, but not the numbers with which one would train it. */
const redcoi_family redcoi_family_generic = {
    .type = "generic",
    .norm = REDCO_NORM_RMS,
    .positions = REDCO_POSITIONS_ROTARY,
    .build = build_generic,
    .graph = {.embed = redcoi_lm_tokens, .block = redcoi_llama_block, .head = redcoi_lm_head}};

static json_t *config_of(const redco_model_dims *dims, const char *name)
{
    json_t *const config = json_object();
    const struct {
        const char *key;
        json_t *value;
    } members[] = {
        {"model_type", json_string("generic")},
        {"_name", json_string(name)},
        {"num_hidden_layers", json_integer(dims->layers)},
        {"hidden_size", json_integer(dims->hidden)},
        {"intermediate_size", json_integer(dims->ffn)},
        {"num_attention_heads", json_integer(dims->heads)},
        {"num_key_value_heads", json_integer(dims->kv_heads)},
        {"head_dim", json_integer(dims->head_dim)},
        {"vocab_size", json_integer((json_int_t)dims->vocab)},
        {"gated", json_boolean(dims->gated)},
        {"tie_word_embeddings", json_boolean(dims->tied)},
    };
    bool good = config != NULL;
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++) { /* each value is taken, also on failure */
        good = json_object_set_new(config, members[i].key, members[i].value) == 0 && good;
    }
    if (good) { return config; }
    json_decref(config);
    return NULL;
}

redco_status redco_model_from_dims(const redco_model_dims *dims, const char *name, redco_model **model_out,
                                   redco_error *err)
{
    json_t *const config = config_of(dims, name);
    if (config == NULL) { return redco_fail(err, REDCO_EVALUE, "model", "its name is no UTF-8 text"); }
    const redco_json_value value = redco_json_wrap(config, name);
    const redco_status st = redco_model_from_json(&value, name, model_out, err);
    json_decref(config);
    return st;
}
