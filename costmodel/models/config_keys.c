/* Keys of a config.json that no reader asks for: those that are not harmless are named. */
#include "costmodel/models/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Keys whose value is a probability that numbers are dropped. */
static const char *const dropouts[] = {
    "attention_dropout", "attn_pdrop",   "embd_pdrop",         "emb_pdrop", "resid_pdrop",       "hidden_dropout",
    "dropout",           "dropout_rate", "activation_dropout", "layerdrop", "encoder_layerdrop", "decoder_layerdrop"};

static bool is_asked(const redcoi_build *build, const char *key)
{
    for (size_t i = 0; i < build->asked_count; i++) {
        if (strcmp(key, build->asked[i]) == 0) { return true; }
    }
    return false;
}

/* A list of names, as far as there is room. */
struct list {
    char text[400];
    size_t used, count;
};

static void add(struct list *list, const char *outer, const char *key, const json_t *value)
{
    char *const shown = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
    const size_t room = sizeof list->text - list->used;
    const int size = snprintf(list->text + list->used, room, "%s\"%s%s%.60s\": %.40s", list->count == 0 ? "" : ", ",
                              outer, outer[0] == '\0' ? "" : "/", key, shown != NULL ? shown : "?");
    free(shown);
    list->count++;
    if (size > 0 && (size_t)size < room) {
        list->used += (size_t)size;
    } else {
        list->text[list->used] = '\0';
    }
}

void redcoi_config_unknown(redcoi_build *build)
{
    const redcoi_family *const family = build->model->family;
    redco_error own = {.status = REDCO_OK};
    redcoi_build reader = {.config = build->config, .err = &own};
    redcoi_settings settings = {.norm_epsilon = 0.0};
    struct list list = {.used = 0};
    char text[1200], place[512];
    const char *key = NULL;
    json_t *value = NULL;
    const bool mixture = build->model->dims.experts > 0;
    if (!redcoi_building(build) || family->unlisted) { return; }
    redcoi_settings_read(&reader, family, &build->model->dims, &settings);
    if (!redcoi_building(&reader)) { return; } /* the executor refuses it */
    json_object_foreach((json_t *)(uintptr_t)build->config.json, key, value)
    {
        if (!is_asked(build, key) && !is_asked(&reader, key) &&
            !redcoi_key_is_harmless(family->type, mixture, key, value)) {
            add(&list, "", key, value);
        }
    }
    for (size_t i = 0; i < reader.inner_count; i++) {
        add(&list, reader.inner[i].outer, reader.inner[i].key, reader.inner[i].value);
    }
    if (list.count == 0) { return; }
    build->model->unknown = strdup(list.text);
    (void)snprintf(text, sizeof text, "%s: %zu key%s not known for %s, which may change what it computes: %s",
                   redco_json_place(&build->config, NULL, place, sizeof place), list.count,
                   list.count == 1 ? " is" : "s are", family->type, list.text);
    redcoi_config_warn(build, build->model->unknown != NULL ? strdup(text) : NULL);
}

size_t redco_model_dropouts(const redco_model *model, char *text, size_t size)
{
    struct list list = {.used = 0};
    for (size_t i = 0; i < sizeof dropouts / sizeof dropouts[0]; i++) {
        const json_t *const value = json_object_get(model->config, dropouts[i]);
        if (json_number_value(value) > 0.0) { add(&list, "", dropouts[i], value); }
    }
    (void)snprintf(text, size, "%s", list.text);
    return list.count;
}
