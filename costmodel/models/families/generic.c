/* A model that is known by its dimensions alone, as tables of measured runs give them: a decoder of plain blocks
 * without biases or learned positions. Its tensors have the names of LLaMA's, so that rules by name know what they are
 * for. */
#include "costmodel/models/family.h"

static void read_generic(redcoi_build *build)
{
    build->model->dims.gated = redcoi_config_bool(build, "gated", true);
}

/* There is no architecture whose default an absent dimension could take. No settings are read: its layers are known,
 * but not the numbers with which one would train it. */
const redcoi_family redcoi_family_generic = {
    .type = "generic",
    .dims = {.norm = REDCO_NORM_RMS, .positions = REDCO_POSITIONS_ROTARY},
    .keys = redcoi_llama_keys,
    .defaults = {[REDCOI_SIZE_VOCAB] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_HIDDEN] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_FFN] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_LAYERS] = REDCOI_SIZE_REQUIRED,
                 [REDCOI_SIZE_HEADS] = REDCOI_SIZE_REQUIRED},
    .layers = redcoi_llama_layers,
    .untrained = true,
    .read = read_generic,
};

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
