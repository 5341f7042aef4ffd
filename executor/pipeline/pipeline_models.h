/** @file pipeline_models.h  Language models that a pipeline's describe() asks for. Internal to executor/pipeline. */
#ifndef REDCOI_PIPELINE_MODELS_H
#define REDCOI_PIPELINE_MODELS_H

#include "costmodel/models/language_model.h"

enum { REDCOI_PIPELINE_MODELS_MAX = 4 };

typedef struct redcoi_pipeline_models {
    struct redcoi_pipeline_model {
        char *prefix;
        redco_model *model;
        redco_language_model *lm; /**< its parameters' names have the prefix */
    } list[REDCOI_PIPELINE_MODELS_MAX];
    uint32_t count;
} redcoi_pipeline_models;

/** @param config  JSON text as of HuggingFace's config.json
 *  @param place   of the pipeline, for errors */
redco_status redcoi_pipeline_models_add(redcoi_pipeline_models *models, const char *prefix, const char *config,
                                        const char *place, redco_error *err);
/** @return NULL if there is none of that prefix */
const redco_language_model *redcoi_pipeline_models_find(const redcoi_pipeline_models *models, const char *prefix);
void redcoi_pipeline_models_free(redcoi_pipeline_models *models);

#endif
