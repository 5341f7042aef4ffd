#include "costmodel/models/model_build.h"

#include "topology/base/word.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool redcoi_building(const redcoi_build *build)
{
    return build->status == REDCO_OK;
}

void redcoi_build_fail(redcoi_build *build, const char *key, const char *format, ...)
{
    char text[512];
    va_list args;
    if (!redcoi_building(build)) { return; }
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    build->status = redco_json_fail(&build->config, key, build->err, "%s", text);
}

/* Of the outer config; the readers ask for fewer keys than there is room for. */
static void note_asked(redcoi_build *build, const char *key, bool absent)
{
    if (build->asked_count == REDCOI_MODEL_KEYS) { return; }
    build->asked[build->asked_count] = key;
    build->absent[build->asked_count++] = absent;
}

/* Takes the text; NULL is a want of memory. */
static void add_warning(redcoi_build *build, char *text)
{
    size_t i = 0;
    while (build->model->warnings[i] != NULL) { i++; }
    build->model->warnings[i] = text;
    if (text == NULL) { build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory"); }
}

void redcoi_config_spelling(redcoi_build *build)
{
    enum { LONG = 8, SHORT = 5 }; /* letters: shorter keys are alike by chance */
    enum { MOST_KEYS = 1000 };    /* no config has as many: a hostile one costs no more */
    const char *key = NULL;
    json_t *value = NULL;
    if (!redcoi_building(build)) { return; }
    if (json_object_size(build->config.json) > MOST_KEYS) { return; }
    json_object_foreach((json_t *)(uintptr_t)build->config.json, key, value)
    {
        const char *meant = NULL;
        bool known = false;
        for (size_t i = 0; i < build->asked_count && !known; i++) {
            const char *const asked = build->asked[i];
            const size_t length = strlen(asked);
            known = strcmp(key, asked) == 0;
            if (build->absent[i] && length >= SHORT && redco_word_distance(key, asked) <= (length >= LONG ? 2 : 1)) {
                meant = asked;
            }
        }
        if (known || meant == NULL) { continue; }
        char place[120];
        char text[320];
        (void)snprintf(text, sizeof text,
                       "%s: is not known here, and there is no \"%s\", whose default is taken: is it misspelt?",
                       redco_json_place(&build->config, key, place, sizeof place), meant);
        add_warning(build, strdup(text));
        return;
    }
}

void redcoi_config_defaults(redcoi_build *build)
{
    const redco_model *const model = build->model;
    char place[512];
    char text[1536];
    const char *key = NULL;
    json_t *value = NULL;
    size_t used = 0;
    if (!redcoi_building(build) || json_object_size(model->defaults) == 0) { return; }
    used = (size_t)snprintf(text, sizeof text, "%s: leaves sizes out; the defaults of %s are taken:",
                            redco_json_place(&build->config, NULL, place, sizeof place), model->type);
    json_object_foreach(model->defaults, key, value)
    {
        if (used >= sizeof text) { break; } /* no family has as many keys */
        used += (size_t)snprintf(text + used, sizeof text - used, "%s %s = %" JSON_INTEGER_FORMAT,
                                 value == json_object_iter_value(json_object_iter(model->defaults)) ? "" : ",", key,
                                 json_integer_value(value));
    }
    add_warning(build, strdup(text));
}

/* @param given_out  whether the config has it */
static uint32_t read_u32(redcoi_build *build, const char *key, const char *alias, uint32_t fallback, uint32_t max,
                         bool *given_out)
{
    uint32_t value = fallback;
    *given_out = true;
    if (!redcoi_building(build)) { return fallback; }
    const char *found = alias != NULL && redco_json_has(&build->config, alias) ? alias : key;
    const bool absent = !redco_json_has(&build->config, found);
    note_asked(build, key, absent);
    if (alias != NULL) { note_asked(build, alias, absent); }
    if (!absent) { build->status = redco_json_u32(&build->config, found, 1, max, &value, build->err); }
    *given_out = !absent;
    return value;
}

uint32_t redcoi_config_derived(redcoi_build *build, const char *key, const char *alias, uint32_t fallback, uint32_t max)
{
    bool given = false;
    return read_u32(build, key, alias, fallback, max, &given);
}

uint32_t redcoi_config_u32(redcoi_build *build, const char *key, const char *alias, uint32_t fallback, uint32_t max)
{
    bool given = false;
    const uint32_t value = read_u32(build, key, alias, fallback, max, &given);
    if (!given && json_object_set_new(build->model->defaults, key, json_integer(value)) != 0) {
        build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory");
    }
    return value;
}

bool redcoi_config_bool(redcoi_build *build, const char *key, bool fallback)
{
    bool value = fallback;
    if (!redcoi_building(build)) { return fallback; }
    note_asked(build, key, !redco_json_has(&build->config, key));
    if (redco_json_has(&build->config, key)) {
        build->status = redco_json_bool(&build->config, key, &value, build->err);
    }
    return value;
}

bool redcoi_config_dropout(redcoi_build *build, const char *key, double fallback)
{
    double value = fallback;
    if (!redcoi_building(build)) { return fallback > 0.0; }
    note_asked(build, key, !redco_json_has(&build->config, key));
    if (redco_json_has(&build->config, key)) {
        build->status = redco_json_number(&build->config, key, 0.0, 1.0, &value, build->err);
    }
    return value > 0.0;
}

void redcoi_config_divides(redcoi_build *build, const char *key, uint32_t divisor, const char *value_name,
                           uint32_t value)
{
    if (redcoi_building(build) && value % divisor != 0) {
        redcoi_build_fail(build, key, "%s = %u must divide %s = %u", key, divisor, value_name, value);
    }
}

void redcoi_class(redcoi_build *build, const char *name, redco_class_kind kind, uint32_t layers, const char *prefix)
{
    redco_model *model = build->model;
    if (!redcoi_building(build)) { return; }
    redco_layer_class *class = &model->classes[model->class_count++];
    *class = (redco_layer_class){.kind = kind, .layers = layers};
    (void)snprintf(class->name, sizeof class->name, "%s", name);
    build->prefix = prefix;
}

static bool grow(redco_model *model)
{
    if (model->param_count < model->param_capacity) { return true; }
    const size_t capacity = model->param_capacity == 0 ? 32 : 2 * model->param_capacity;
    redco_param *larger = realloc(model->params, capacity * sizeof *larger);
    if (larger == NULL) { return false; }
    model->params = larger;
    model->param_capacity = capacity;
    return true;
}

static void add(redcoi_build *build, const char *module, const char *leaf, redco_param_role role, uint64_t rows,
                uint64_t columns)
{
    char name[REDCOI_MODEL_NAME_SIZE];
    redco_model *model = build->model;
    uint64_t elements = rows;
    if (!redcoi_building(build)) { return; }
    redco_layer_class *class = &model->classes[model->class_count - 1];
    (void)snprintf(name, sizeof name, "%s%s.%s", build->prefix, module, leaf);
    if (columns > 0 && !redco_mul_u64(rows, columns, &elements)) {
        redcoi_build_fail(build, NULL, "%s would have more than 2^64 elements", name);
        return;
    }
    char *copy = strdup(name);
    if (copy == NULL || !grow(model)) {
        free(copy);
        build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory");
        return;
    }
    model->params[model->param_count++] = (redco_param){.name = copy,
                                                        .role = role,
                                                        .rank = columns > 0 ? 2 : 1,
                                                        .shape = {rows, columns},
                                                        .class_index = (uint32_t)(model->class_count - 1),
                                                        .count = class->layers};
    /* The limits of the dimensions keep a tensor below 2^58 elements and a class below 40 tensors: no overflow. */
    class->params += elements;
    class->tensors++;
    if (role != REDCO_PARAM_BIAS) { class->modules++; }
    if (elements > class->largest_tensor_params) { class->largest_tensor_params = elements; }
}

void redcoi_linear(redcoi_build *build, const char *name, uint64_t out, uint64_t in, bool bias)
{
    add(build, name, "weight", REDCO_PARAM_LINEAR, out, in);
    if (bias) { redcoi_bias(build, name, out); }
}

void redcoi_bias(redcoi_build *build, const char *name, uint64_t width)
{
    add(build, name, "bias", REDCO_PARAM_BIAS, width, 0);
}

void redcoi_conv1d(redcoi_build *build, const char *name, uint64_t in, uint64_t out)
{
    add(build, name, "weight", REDCO_PARAM_CONV1D, in, out);
    redcoi_bias(build, name, out);
}

void redcoi_table(redcoi_build *build, const char *name, uint64_t rows, uint64_t columns)
{
    add(build, name, "weight", REDCO_PARAM_TABLE, rows, columns);
}

void redcoi_rms_norm(redcoi_build *build, const char *name, uint64_t width)
{
    add(build, name, "weight", REDCO_PARAM_RMS_NORM, width, 0);
}

void redcoi_layer_norm(redcoi_build *build, const char *name, uint64_t width, bool bias)
{
    add(build, name, "weight", REDCO_PARAM_LAYER_NORM, width, 0);
    if (bias) { redcoi_bias(build, name, width); }
}
