#include "costmodel/models/model.h"

#include "costmodel/models/family.h"

#include <stdlib.h>

static void free_moments(const redco_model *model)
{
    for (size_t i = 0; model->moments != NULL && i < model->class_count * REDCOI_MOMENT_KINDS; i++) {
        free(model->moments[i]);
    }
    free(model->moments);
}

void redco_model_free(redco_model *model)
{
    if (model == NULL) { return; }
    free_moments(model);
    for (size_t i = 0; i < model->param_count; i++) { free((char *)(uintptr_t)model->params[i].name); }
    free(model->params);
    free(model->classes);
    free(model->works);
    free(model->runs);
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

uint64_t redco_model_active_params(const redco_model *model)
{
    uint64_t params = 0;
    for (size_t i = 0; i < model->class_count; i++) {
        params += model->classes[i].active_params * model->classes[i].layers;
    }
    return params;
}

uint64_t redco_model_trained_params(const redco_model *model)
{
    uint64_t params = 0;
    for (size_t i = 0; i < model->class_count; i++) {
        params += (model->classes[i].params - model->classes[i].frozen_params) * model->classes[i].layers;
    }
    return params;
}

bool redco_model_is_paired(const redco_model *model)
{
    return model->dims.experts > 0 || model->dims.key_latent > 0 || model->dims.adapter_rank > 0;
}

bool redco_model_lays_out(const redco_model *model)
{
    uint32_t nodes = 0;
    for (size_t c = 0; c < model->class_count; c++) { nodes += model->works[c].node_count; }
    return nodes > 0;
}

size_t redco_model_classes(const redco_model *model, const redco_layer_class **classes_out)
{
    *classes_out = model->classes;
    return model->class_count;
}

size_t redco_model_order(const redco_model *model, const redco_layer_run **runs_out)
{
    *runs_out = model->runs;
    return model->run_count;
}

const redco_layer_work *redco_model_work(const redco_model *model, uint32_t class_index)
{
    return &model->works[class_index];
}

size_t redco_model_tensors(const redco_model *model, const redco_param **params_out)
{
    *params_out = model->params;
    return model->param_count;
}

bool redco_model_has_experts(const redco_model *model, uint32_t class_index)
{
    for (size_t i = 0; i < model->param_count; i++) {
        const redco_param *const param = &model->params[i];
        if (param->class_index == class_index && param->part == REDCO_PART_EXPERTS) { return true; }
    }
    return false;
}

uint32_t redco_model_find(const redco_model *model, uint32_t class_index, redco_param_use use, bool bias)
{
    for (size_t i = 0; i < model->param_count; i++) {
        const redco_param *const p = &model->params[i];
        if (p->class_index == class_index && p->use == use && (p->role == REDCO_PARAM_BIAS) == bias &&
            p->adapter == REDCO_ADAPTER_NONE) {
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

uint64_t redco_model_rotary_size(const redco_model *model)
{
    return model->rotary_size;
}

const redco_graph_work *redco_model_graph_work(const redco_model *model)
{
    return model->work;
}

redco_status redco_model_check_rank(const redco_model *model, uint32_t tp, uint32_t micro_batch, bool sequence_parallel,
                                    redco_error *err)
{
    if (model->family->check_rank == NULL) { return REDCO_OK; }
    return model->family->check_rank(model, tp, micro_batch, sequence_parallel, err);
}

uint32_t redco_model_moments(const redco_model *model)
{
    return model->optimizer_states;
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
