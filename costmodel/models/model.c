#include "costmodel/models/model.h"

#include "costmodel/models/family.h"
#include "topology/base/preset.h"
#include "topology/base/text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* 16 bytes of training state for each of this many parameters still fit into 64 bits with room. */
static const uint64_t max_params = 1000000000000000;

static redco_status find_family(const redco_json_value *config, const redcoi_family **family_out, redco_error *err)
{
    char names[REDCOI_FAMILY_NAMES_SIZE];
    const char *type = NULL;
    if (json_is_object(config->json) && !redco_json_has(config, "model_type")) {
        return redco_json_fail(config, "model_type", err, "is missing; one of: %s", redcoi_family_names(false, names));
    }
    const redco_status st = redco_json_string(config, "model_type", &type, err);
    if (st != REDCO_OK) { return st; }
    *family_out = redcoi_family_find(type);
    if (*family_out != NULL) { return REDCO_OK; }
    return redco_json_fail(config, "model_type", err, "\"%.40s\" is not a model type that redco knows; known: %s", type,
                           redcoi_family_names(false, names));
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

redco_status redco_model_from_json(const redco_json_value *config, const char *name, redco_model **model_out,
                                   redco_error *err)
{
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
    model->config = json_incref((json_t *)(uintptr_t)config->json);
    model->defaults = defaults;
    redcoi_build build = {.model = model, .config = *config, .status = REDCO_OK, .err = err};
    (family->build != NULL ? family->build : redcoi_family_build)(&build);
    if (model->dims.gated) { model->dims.activation = REDCO_ACTIVATION_GATED; }
    redcoi_config_spelling(&build);
    redcoi_config_unknown(&build);
    redcoi_config_defaults(&build);
    sum_params(&build);
    if (redcoi_building(&build)) { build.status = redcoi_layer_groups_make(model, err); }
    if (!redcoi_building(&build)) {
        redco_model_free(model);
        return build.status;
    }
    *model_out = model;
    return REDCO_OK;
}

redco_status redco_model_read(const char *name_or_path, redco_model **model_out, redco_error *err)
{
    redco_json *document = NULL;
    redco_status st = redco_preset_open("models", "a model", name_or_path, &document, err);
    if (st != REDCO_OK) { return st; }
    const redco_json_value root = redco_json_root(document);
    st = redco_model_from_json(&root, NULL, model_out, err);
    redco_json_close(document);
    return st;
}

void redco_model_free(redco_model *model)
{
    if (model == NULL) { return; }
    for (size_t i = 0; i < model->param_count; i++) { free((char *)(uintptr_t)model->params[i].name); }
    free(model->params);
    for (size_t i = 0; i < REDCOI_MODEL_WARNINGS; i++) { free(model->warnings[i]); }
    redco_graph_work_free(model->work);
    json_decref(model->config);
    json_decref(model->defaults);
    free(model->name);
    free(model->unknown);
    free(model);
}

const char *redco_model_name(const redco_model *model)
{
    return model->name;
}

const char *redco_model_type(const redco_model *model)
{
    return model->family->type;
}

const redco_model_dims *redco_model_get_dims(const redco_model *model)
{
    return &model->dims;
}

uint64_t redco_model_params(const redco_model *model)
{
    return model->total_params;
}

size_t redco_model_classes(const redco_model *model, const redco_layer_class **classes_out)
{
    *classes_out = model->classes;
    return model->class_count;
}

size_t redco_model_tensors(const redco_model *model, const redco_param **params_out)
{
    *params_out = model->params;
    return model->param_count;
}

uint32_t redco_model_find(const redco_model *model, uint32_t class_index, redco_param_use use, bool bias)
{
    for (size_t i = 0; i < model->param_count; i++) {
        const redco_param *const p = &model->params[i];
        if (p->class_index == class_index && p->use == use && (p->role == REDCO_PARAM_BIAS) == bias) {
            return (uint32_t)i;
        }
    }
    return REDCO_NO_PARAM;
}

const char *redco_model_warning(const redco_model *model, size_t index)
{
    return index < REDCOI_MODEL_WARNINGS ? model->warnings[index] : NULL;
}

const char *redco_model_unknown_keys(const redco_model *model)
{
    return model->unknown;
}

const json_t *redco_model_defaults(const redco_model *model)
{
    return model->defaults;
}

const redco_graph_work *redco_model_graph_work(const redco_model *model)
{
    return model->work;
}

static uint32_t log2_of(uint32_t tp)
{
    uint32_t log = 0;
    while (log < 31 && UINT32_C(1) << log < tp) { log++; }
    return log;
}

bool redco_param_is_cut(const redco_param *param, uint32_t tp)
{
    return (param->rank >= 2) != ((param->odd_degrees >> log2_of(tp) & 1) != 0);
}

const json_t *redco_model_config(const redco_model *model)
{
    return model->config;
}
