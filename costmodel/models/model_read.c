/* Models from their configs. */
#include "costmodel/models/family.h"
#include "topology/base/preset.h"
#include "topology/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 16 bytes of training state for each of this many parameters still fit into 64 bits with room. */
static const uint64_t max_params = 1000000000000000;

/* Layers that redco does not know: linear attention, Mamba, attention of which an index chooses the keys. */
static redco_status check_layers(const redco_json_value *config, const char *type, redco_error *err)
{
    static const struct {
        const char *prefix, *layers;
    } unknown[] = {{"linear_", "linear attention"}, {"mamba_", "Mamba layers"}, {"index_", "sparse attention"}};
    const char *key = NULL;
    json_t *value = NULL;
    json_object_foreach((json_t *)(uintptr_t)config->json, key, value)
    {
        for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++) {
            if (strncmp(key, unknown[i].prefix, strlen(unknown[i].prefix)) != 0 || json_is_null(value)) { continue; }
            return redco_json_fail(config, key, err, "is a key of %s, which redco does not know: \"%.40s\" is not read",
                                   unknown[i].layers, type);
        }
    }
    return REDCO_OK;
}

/* The family that reads the keys of one whose type is not known; NULL: none does. */
static const redcoi_family *nearest(const redco_json_value *config)
{
    static const struct {
        const char *keys[2], *type;
    } known[] = {{{"n_routed_experts", "kv_lora_rank"}, "deepseek_v3"},
                 {{"n_routed_experts", "moe_intermediate_size"}, "glm4_moe"},
                 {{"num_experts", "shared_expert_intermediate_size"}, "qwen2_moe"},
                 {{"num_experts", "moe_intermediate_size"}, "qwen3_moe"},
                 {{"num_experts", "num_experts_per_tok"}, "olmoe"},
                 {{"num_local_experts", "num_experts_per_tok"}, "mixtral"},
                 {{"rms_norm_eps", "intermediate_size"}, "llama"}};
    for (size_t i = 0; i < sizeof known / sizeof known[0]; i++) {
        if (!redco_json_has(config, known[i].keys[0]) || !redco_json_has(config, known[i].keys[1])) { continue; }
        return redcoi_family_find(known[i].type);
    }
    return NULL;
}

static redco_status find_family(const redco_json_value *config, const redcoi_family **family_out, redco_error *err)
{
    char names[REDCOI_FAMILY_NAMES_SIZE];
    const char *type = NULL;
    if (json_is_object(config->json) && !redco_json_has(config, "model_type")) {
        return redco_json_fail(config, "model_type", err, "is missing; one of: %s", redcoi_family_names(false, names));
    }
    redco_status st = redco_json_string(config, "model_type", &type, err);
    if (st != REDCO_OK) { return st; }
    *family_out = redcoi_family_find(type);
    if (*family_out == NULL) { *family_out = nearest(config); }
    const bool exact = *family_out != NULL && strcmp((*family_out)->type, type) == 0;
    if (!exact || (*family_out)->experts != NULL) { st = check_layers(config, type, err); }
    if (st != REDCO_OK || *family_out != NULL) { return st; }
    return redco_json_fail(config, "model_type", err,
                           "\"%.40s\" is not a model type that redco knows; generic states sizes alone; known: %s",
                           type, redcoi_family_names(false, names));
}

static void sum_params(redcoi_build *build)
{
    redco_model *model = build->model;
    for (size_t i = 0; redcoi_building(build) && i < model->class_count; i++) {
        const redco_layer_class *class = &model->classes[i];
        uint64_t params = 0;
        if (!redco_mul_u64(class->params, class->layers, &params) || params > max_params ||
            model->total_params + params > max_params) {
            redcoi_build_fail(build, NULL, "has more than %llu parameters, the most that redco reads",
                              (unsigned long long)max_params);
        }
        model->total_params += params;
    }
}

static redco_status choose_name(const redco_json_value *config, const char *given, const char *fallback,
                                const char **name_out, redco_error *err)
{
    static const char *const keys[] = {"_name", "_name_or_path"};
    const char *slash = strrchr(fallback, '/');
    /* Without its folder: the same file gives the same plan wherever it lies. */
    *name_out = given != NULL ? given : slash != NULL && slash[1] != '\0' ? slash + 1 : fallback;
    for (size_t i = 0; given == NULL && i < sizeof keys / sizeof keys[0]; i++) {
        const char *text = NULL;
        if (!redco_json_has(config, keys[i])) { continue; }
        const redco_status st = redco_json_string(config, keys[i], &text, err);
        if (st != REDCO_OK) { return st; }
        if (text[0] != '\0') {
            *name_out = text;
            break;
        }
    }
    return REDCO_OK;
}

/* A name that can be shown: names may be paths of any length and bytes. */
static char *shown_name(const char *name)
{
    enum { MOST_SHOWN = 64 };
    size_t size = strlen(name);
    if (size > MOST_SHOWN) {
        for (size = MOST_SHOWN; size > 0 && ((unsigned char)name[size] & 0xc0) == 0x80;) { size--; }
    }
    char *copy = strndup(name, size);
    if (copy != NULL) { redco_text_clean(copy); }
    return copy;
}

/* Keys that no size depends on are read by nobody here; what is trained from the config reads them. A number that no
 * model has is a damaged file. */
static redco_status check_numbers(const redco_json_value *config, redco_error *err)
{
    static const struct {
        const char *key;
        double least, most;
    } numbers[] = {{"rms_norm_eps", 0.0, 1.0},
                   {"layer_norm_eps", 0.0, 1.0},
                   {"layer_norm_epsilon", 0.0, 1.0},
                   {"norm_epsilon", 0.0, 1.0},
                   {"rope_theta", 1.0, 1e12},
                   {"rotary_emb_base", 1.0, 1e12},
                   {"initializer_range", 0.0, 1e3},
                   {"max_position_embeddings", 1.0, REDCOI_MAX_ROWS},
                   {"n_positions", 1.0, REDCOI_MAX_ROWS}};
    double number = 0.0;
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && st == REDCO_OK; i++) {
        const json_t *value = json_object_get(config->json, numbers[i].key);
        if (value == NULL || json_is_null(value)) { continue; }
        st = redco_json_number(config, numbers[i].key, numbers[i].least, numbers[i].most, &number, err);
    }
    return st;
}

/* A type that is read as the nearest one: what its keys do not say is that one's. */
static void warn_of_type(redcoi_build *build)
{
    const char *const type = json_string_value(json_object_get(build->config.json, "model_type"));
    const char *const family = build->model->family->type;
    char place[512], text[1024];
    if (!redcoi_building(build) || type == NULL || strcmp(type, family) == 0) { return; }
    (void)snprintf(text, sizeof text, "%s: \"%.40s\" is not a model type that redco knows; read as the nearest, %s",
                   redco_json_place(&build->config, "model_type", place, sizeof place), type, family);
    redcoi_config_warn(build, strdup(text));
}

/* ---- configs that are no config.json ---- */

static bool has(const json_t *config, const char *key)
{
    return json_object_get(config, key) != NULL;
}

static redco_status read_u64(const redco_json_value *config, const char *key, uint64_t fallback, uint64_t *out,
                             redco_error *err)
{
    *out = fallback;
    return has(config->json, key) ? redco_json_u64(config, key, 1, REDCOI_MAX_ROWS, out, err) : REDCO_OK;
}

/* The width of the gated FFN: two thirds of 4 dim, times a factor, up to a multiple (llama/model.py of
 * github.com/meta-llama/llama-models). */
static redco_status ffn_of(const redco_json_value *config, uint64_t dim, uint64_t *ffn_out, redco_error *err)
{
    uint64_t multiple = 256;
    double factor = 1.0;
    if (has(config->json, "hidden_dim")) { return read_u64(config, "hidden_dim", 0, ffn_out, err); } /* Mistral's */
    redco_status st = read_u64(config, "multiple_of", multiple, &multiple, err);
    if (st == REDCO_OK && !json_is_null(json_object_get(config->json, "ffn_dim_multiplier")) &&
        has(config->json, "ffn_dim_multiplier")) {
        st = redco_json_number(config, "ffn_dim_multiplier", 1e-3, 1e3, &factor, err);
    }
    const uint64_t wanted = (uint64_t)(factor * (double)(8 * dim / 3));
    *ffn_out = (wanted + multiple - 1) / multiple * multiple;
    return st;
}

/* params.json of Meta's and Mistral's checkpoints */
static bool is_params(const redco_json_value *config)
{
    return json_is_object(config->json) && !has(config->json, "model_type") && has(config->json, "dim") &&
           has(config->json, "n_layers") && has(config->json, "n_heads");
}

static redco_status config_of_params(const redco_json_value *config, json_t **config_out, redco_error *err)
{
    uint64_t dim = 0, layers = 0, heads = 0, kv_heads = 0, vocab = 0, head_dim = 0, ffn = 0;
    double epsilon = 1e-5, theta = 10000.0;
    if (has(config->json, "moe")) {
        return redco_json_fail(config, "moe", err, "is a mixture of experts; its config.json is read");
    }
    redco_status st = redco_json_u64(config, "dim", 1, REDCOI_MAX_WIDTH, &dim, err);
    if (st == REDCO_OK) { st = redco_json_u64(config, "n_layers", 1, REDCOI_MAX_LAYERS, &layers, err); }
    if (st == REDCO_OK) { st = redco_json_u64(config, "n_heads", 1, REDCOI_MAX_HEADS, &heads, err); }
    if (st == REDCO_OK) { st = read_u64(config, "n_kv_heads", heads, &kv_heads, err); }
    if (st == REDCO_OK) { st = read_u64(config, "head_dim", dim / heads, &head_dim, err); }
    if (st == REDCO_OK && json_integer_value(json_object_get(config->json, "vocab_size")) < 1) {
        st = redco_json_fail(config, "vocab_size", err,
                             "is that of the tokenizer beside it; the number is needed: 32000 of LLaMA and LLaMA 2");
    }
    if (st == REDCO_OK) { st = redco_json_u64(config, "vocab_size", 1, REDCOI_MAX_ROWS, &vocab, err); }
    if (st == REDCO_OK) { st = ffn_of(config, dim, &ffn, err); }
    if (st == REDCO_OK && has(config->json, "norm_eps")) {
        st = redco_json_number(config, "norm_eps", 0.0, 1.0, &epsilon, err);
    }
    if (st == REDCO_OK && has(config->json, "rope_theta")) {
        st = redco_json_number(config, "rope_theta", 1.0, 1e12, &theta, err);
    }
    if (st != REDCO_OK) { return st; }
    *config_out =
        json_pack("{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:f,s:f}", "model_type", "llama", "hidden_size", (json_int_t)dim,
                  "intermediate_size", (json_int_t)ffn, "num_hidden_layers", (json_int_t)layers, "num_attention_heads",
                  (json_int_t)heads, "num_key_value_heads", (json_int_t)kv_heads, "head_dim", (json_int_t)head_dim,
                  "vocab_size", (json_int_t)vocab, "rms_norm_eps", epsilon, "rope_theta", theta);
    return *config_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, config->name, "out of memory");
}

/* A model of SimuMax (configs/models of github.com/MooreThreads/SimuMax) */
static bool is_simumax(const redco_json_value *config)
{
    return json_is_object(config->json) && has(config->json, "layer_num") && has(config->json, "head_num") &&
           has(config->json, "hidden_size");
}

static const char *generic_key(const char *key)
{
    static const struct {
        const char *theirs, *ours;
    } keys[] = {{"model_name", "_name"},
                {"layer_num", "num_hidden_layers"},
                {"head_num", "num_attention_heads"},
                {"kv_head_num", "num_key_value_heads"},
                {"head_size", "head_dim"},
                {"use_swiglu", "gated"},
                {"expert_num", "num_experts"},
                {"topk", "num_experts_per_tok"},
                {"moe_ffn_hidden_size", "moe_intermediate_size"},
                {"moe_shared_expert_intermediate_size", "shared_expert_intermediate_size"},
                {"dense_layers", "first_k_dense_replace"},
                {"qk_head_dim", "qk_nope_head_dim"},
                {"qk_pos_emb_head_dim", "qk_rope_head_dim"}};
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (strcmp(keys[i].theirs, key) == 0) { return keys[i].ours; }
    }
    return key;
}

static redco_status config_of_simumax(const redco_json_value *config, json_t **config_out, redco_error *err)
{
    json_t *const made = json_object();
    const char *key = NULL;
    json_t *value = NULL;
    const bool latent = has(config->json, "kv_lora_rank");
    const bool experts = json_integer_value(json_object_get(config->json, "expert_num")) > 1;
    const json_t *const width = json_object_get(config->json, "intermediate_size");
    bool good = made != NULL && json_object_set_new(made, "model_type", json_string("generic")) == 0;
    if (good && experts && width != NULL) { /* experts are as wide as an FFN unless something says otherwise */
        good = json_object_set_new(made, "moe_intermediate_size", json_deep_copy(width)) == 0;
    }
    json_object_foreach((json_t *)(uintptr_t)config->json, key, value)
    {
        const bool heads = strcmp(key, "kv_head_num") == 0 || strcmp(key, "head_size") == 0;
        const bool alone = strcmp(key, "expert_num") == 0 || strcmp(key, "topk") == 0;
        if (strcmp(key, "model_type") == 0 || strcmp(key, "attention_type") == 0 || (latent && heads) ||
            (!experts && alone)) {
            continue;
        }
        good = good && json_object_set_new(made, generic_key(key), json_deep_copy(value)) == 0;
    }
    if (!good) {
        json_decref(made);
        return redco_fail(err, REDCO_ENOMEM, config->name, "out of memory");
    }
    *config_out = made;
    return REDCO_OK;
}

/* ---- mixtures of a type that is not known, whose keys have names of their own ---- */

/* The key of GLM-4.5 or DeepSeek-V3 for what others call otherwise: Ling, Hunyuan and ERNIE 4.5 (config.json of
 * inclusionAI/Ling-mini-2.0, tencent/Hunyuan-A13B-Instruct and baidu/ERNIE-4.5-300B-A47B-PT on the hub). */
static const struct {
    const char *theirs, *ours;
    bool tells; /* no family of redco's has it */
} expert_spellings[] = {{"num_experts", "n_routed_experts", false},
                        {"moe_num_experts", "n_routed_experts", true},
                        {"moe_topk", "num_experts_per_tok", true},
                        {"moe_k", "num_experts_per_tok", true},
                        {"num_shared_experts", "n_shared_experts", true},
                        {"num_shared_expert", "n_shared_experts", true},
                        {"moe_num_shared_experts", "n_shared_experts", true},
                        {"moe_layer_start_index", "first_k_dense_replace", true}};
enum { EXPERT_SPELLINGS = sizeof expert_spellings / sizeof expert_spellings[0] };

static bool spells_otherwise(const redco_json_value *config)
{
    const char *const type = json_string_value(json_object_get(config->json, "model_type"));
    if (type == NULL || redcoi_family_find(type) != NULL) { return false; }
    for (size_t i = 0; i < EXPERT_SPELLINGS; i++) {
        if (expert_spellings[i].tells && has(config->json, expert_spellings[i].theirs)) { return true; }
    }
    return has(config->json, "num_experts") && has(config->json, "first_k_dense_replace");
}

/* A list of as many equal numbers as there are layers is that number. */
static json_t *one_for_all(json_t *value)
{
    json_t *const first = json_array_get(value, 0);
    for (size_t i = 1; i < json_array_size(value); i++) {
        if (!json_equal(first, json_array_get(value, i))) { return value; }
    }
    return first != NULL ? first : value;
}

static redco_status config_of_spelling(const redco_json_value *config, json_t **config_out, redco_error *err)
{
    json_t *const made = json_copy((json_t *)(uintptr_t)config->json);
    json_t *const width = json_object_get(made, "moe_intermediate_size");
    bool good = made != NULL;
    if (width != NULL) { good = json_object_set(made, "moe_intermediate_size", one_for_all(width)) == 0; }
    for (size_t i = 0; i < EXPERT_SPELLINGS && good; i++) {
        json_t *const value = json_object_get(made, expert_spellings[i].theirs);
        if (value == NULL || has(made, expert_spellings[i].ours)) { continue; }
        good = json_object_set(made, expert_spellings[i].ours, one_for_all(value)) == 0 &&
               json_object_del(made, expert_spellings[i].theirs) == 0;
    }
    *config_out = made;
    if (good) { return REDCO_OK; }
    json_decref(made);
    *config_out = NULL;
    return redco_fail(err, REDCO_ENOMEM, config->name, "out of memory");
}

/* the text part of a model that also sees */
static bool has_text(const redco_json_value *config)
{
    const json_t *const text = json_object_get(config->json, "text_config");
    return json_is_object(text) && has(text, "model_type") && !has(config->json, "hidden_size");
}

/* The config of a language model inside of another, or one of other keys, as one of a family. */
static redco_status from_other(const redco_json_value *config, const char *name, redco_model **model_out,
                               redco_error *err)
{
    redco_json_value inner = *config;
    json_t *made = NULL;
    const bool text = has_text(config);
    redco_status st = text                       ? redco_json_object(config, "text_config", &inner, err)
                      : spells_otherwise(config) ? config_of_spelling(config, &made, err)
                      : is_simumax(config)       ? config_of_simumax(config, &made, err)
                                                 : config_of_params(config, &made, err);
    if (!text) { inner.json = made; }
    json_t *const trainable = json_object_get(config->json, "_trainable");
    if (st == REDCO_OK && trainable != NULL &&
        json_object_set((json_t *)(uintptr_t)inner.json, "_trainable", trainable) != 0) {
        st = redco_fail(err, REDCO_ENOMEM, config->name, "out of memory");
    }
    if (st == REDCO_OK) { st = redco_model_from_json(&inner, name, model_out, err); }
    json_decref(made);
    if (st != REDCO_OK || !text) { return st; }
    char place[512], words[1024];
    (void)snprintf(words, sizeof words, "%s: the language model in \"text_config\" is read, and nothing beside it",
                   redco_json_place(config, "text_config", place, sizeof place));
    redcoi_build build = {.model = *model_out, .config = *config, .status = REDCO_OK, .err = err};
    redcoi_config_warn(&build, strdup(words));
    return build.status;
}

redco_status redco_model_from_json(const redco_json_value *config, const char *name, redco_model **model_out,
                                   redco_error *err)
{
    if (has_text(config) || spells_otherwise(config) || is_params(config) || is_simumax(config)) {
        return from_other(config, name, model_out, err);
    }
    const redcoi_family *family = NULL;
    const char *shown = NULL;
    redco_status st = find_family(config, &family, err);
    if (st == REDCO_OK) { st = check_numbers(config, err); }
    if (st == REDCO_OK) { st = choose_name(config, name, config->name, &shown, err); }
    if (st != REDCO_OK) { return st; }
    redco_model *model = calloc(1, sizeof *model);
    char *copy = shown_name(shown);
    json_t *defaults = json_object();
    if (model == NULL || copy == NULL || defaults == NULL) {
        free(model);
        free(copy);
        json_decref(defaults);
        return redco_fail(err, REDCO_ENOMEM, config->name, "out of memory");
    }
    model->name = copy;
    model->family = family;
    model->dims = family->dims;
    model->optimizer_states = 2;
    model->config = json_incref((json_t *)(uintptr_t)config->json);
    model->defaults = defaults;
    redcoi_build build = {.model = model, .config = *config, .status = REDCO_OK, .err = err};
    (family->build != NULL ? family->build : redcoi_family_build)(&build);
    if (model->dims.gated) { model->dims.activation = REDCO_ACTIVATION_GATED; }
    warn_of_type(&build);
    redcoi_config_spelling(&build);
    redcoi_config_unknown(&build);
    redcoi_config_defaults(&build);
    sum_params(&build);
    free(build.windowed);
    free(build.unrotated);
    free(build.dense);
    if (redcoi_building(&build) && family->build != NULL && redco_json_has(config, "_trainable")) {
        redcoi_build_fail(&build, "_trainable", "a model of type \"%s\" has no adapters", family->type);
    }
    if (redcoi_building(&build)) { build.status = redcoi_layer_works_make(model, err); }
    if (!redcoi_building(&build)) {
        redco_model_free(model);
        return build.status;
    }
    *model_out = model;
    return REDCO_OK;
}

redco_status redco_model_read(const char *name_or_path, redco_model **model_out, redco_error *err)
{
    return redco_model_read_trained(name_or_path, NULL, model_out, err);
}

redco_status redco_model_read_trained(const char *name_or_path, const char *trainable, redco_model **model_out,
                                      redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_preset_open("models", "a model", name_or_path, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    /* Names by which the preset is found; plans keep the config without them. */
    if (json_is_object(root.json)) { (void)json_object_del((json_t *)(uintptr_t)root.json, "_hub"); }
    if (json_is_object(root.json) && trainable != NULL &&
        json_object_set_new((json_t *)(uintptr_t)root.json, "_trainable", json_string(trainable)) != 0) {
        st = redco_fail(err, REDCO_EVALUE, "_trainable", "is no UTF-8 text");
    }
    if (st == REDCO_OK) { st = redco_model_from_json(&root, NULL, model_out, err); }
    redco_json_close(document);
    return st;
}

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
    const struct {
        const char *key;
        uint64_t value;
    } mixture[] = {
        {"num_experts", dims->experts},
        {"num_experts_per_tok", dims->choices},
        {"moe_intermediate_size", dims->expert_ffn},
        {"shared_expert_intermediate_size", dims->shared_ffn},
        {"first_k_dense_replace", dims->dense_first},
        {"num_nextn_predict_layers", dims->predictions},
    };
    bool good = config != NULL;
    for (size_t i = 0; i < sizeof mixture / sizeof mixture[0]; i++) { /* a 0 is none */
        json_t *const value = mixture[i].value > 0 ? json_integer((json_int_t)mixture[i].value) : NULL;
        good = (value == NULL || json_object_set_new(config, mixture[i].key, value) == 0) && good;
    }
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
