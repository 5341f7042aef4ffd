#include "executor/pipeline/pipeline_models.h"

#include "topology/base/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static redco_status open_model(struct redcoi_pipeline_model *m, const char *text, const char *place, redco_error *err)
{
    json_error_t at;
    json_t *const config = json_loads(text, JSON_REJECT_DUPLICATES, &at);
    if (config == NULL) {
        return redco_fail(err, REDCO_EVALUE, place, "is no JSON: line %d, column %d: %s", at.line, at.column, at.text);
    }
    const redco_json_value value = redco_json_wrap(config, place);
    redco_status st = redco_model_from_json(&value, NULL, &m->model, err);
    json_decref(config);                                                /* the model has it */
    if (st == REDCO_OK && redco_model_unknown_keys(m->model) != NULL) { /* nobody would read a warning */
        st = redco_fail(err, REDCO_EVALUE, place, "its config has keys that redco does not know: %.400s",
                        redco_model_unknown_keys(m->model));
    }
    /* Graphs have the sizes of the tokens that they are given. */
    if (st == REDCO_OK) { st = redco_language_model_create(m->model, 1, 1, &m->lm, err); }
    return st == REDCO_OK ? redco_language_model_rename(m->lm, m->prefix, err) : st;
}

redco_status redcoi_pipeline_models_add(redcoi_pipeline_models *models, const char *prefix, const char *config,
                                        const char *place, redco_error *err)
{
    char of[300];
    (void)snprintf(of, sizeof of, "%.180s: model \"%.80s\"", place, prefix);
    if (models->count == REDCOI_PIPELINE_MODELS_MAX) {
        return redco_fail(err, REDCO_EVALUE, of, "is one too many; %d are possible", REDCOI_PIPELINE_MODELS_MAX);
    }
    if (redcoi_pipeline_models_find(models, prefix) != NULL) {
        return redco_fail(err, REDCO_EVALUE, of, "is there already");
    }
    struct redcoi_pipeline_model *const m = &models->list[models->count++];
    m->prefix = strdup(prefix);
    return m->prefix != NULL ? open_model(m, config, of, err) : redco_fail(err, REDCO_ENOMEM, of, "out of memory");
}

const redco_language_model *redcoi_pipeline_models_find(const redcoi_pipeline_models *models, const char *prefix)
{
    for (uint32_t i = 0; i < models->count; i++) {
        const struct redcoi_pipeline_model *const m = &models->list[i];
        if (m->prefix != NULL && strcmp(m->prefix, prefix) == 0) { return m->lm; }
    }
    return NULL;
}

void redcoi_pipeline_models_free(redcoi_pipeline_models *models)
{
    for (uint32_t i = 0; i < models->count; i++) {
        redco_language_model_free(models->list[i].lm);
        redco_model_free(models->list[i].model);
        free(models->list[i].prefix);
    }
    models->count = 0;
}
