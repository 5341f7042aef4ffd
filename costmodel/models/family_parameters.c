/* Tensors of the model families. */
#include "costmodel/graph/names.h"
#include "costmodel/models/family.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* @param name  copied */
static void add_param(redcoi_build *build, const char *name, const redco_param *param, uint64_t elements)
{
    redco_model *const model = build->model;
    redco_layer_class *const class = &model->classes[model->class_count - 1];
    char *const copy = strdup(name);
    if (copy == NULL || !grow(model)) {
        free(copy);
        build->status = redco_fail(build->err, REDCO_ENOMEM, build->config.name, "out of memory");
        return;
    }
    redco_param *const added = &model->params[model->param_count++];
    *added = *param;
    added->name = copy;
    added->class_index = (uint32_t)(model->class_count - 1);
    added->count = class->layers;
    /* The limits of the dimensions keep a tensor below 2^58 elements and a class below 40 tensors: no overflow. */
    class->params += elements;
    if (param->frozen) { class->frozen_params += elements; }
    class->tensors++;
    added->joined = param->joined || param->role == REDCO_PARAM_BIAS;
    if (!added->joined) { class->modules++; }
    if (elements > class->largest_tensor_params) { class->largest_tensor_params = elements; }
}

void redcoi_tensor(redcoi_build *build, const char *name, uint32_t rank, const uint64_t *shape, redcoi_tensor_kind kind)
{
    const redco_model *const model = build->model;
    uint64_t elements = 1;
    if (!redcoi_building(build)) { return; }
    const bool more = model->param_count > 0 && redco_same_module(model->params[model->param_count - 1].name, name);
    const redco_param_role vector = more ? REDCO_PARAM_BIAS : REDCO_PARAM_RMS_NORM;
    const redco_param_role matrix = kind.table ? REDCO_PARAM_TABLE : REDCO_PARAM_KERNEL;
    redco_param param = {
        .role = rank < 2 ? vector : matrix, .use = REDCO_USE_UP, .rank = rank, .joined = more, .frozen = kind.frozen};
    for (uint32_t i = 0; i < rank; i++) {
        param.shape[i] = shape[i];
        elements *= shape[i];
    }
    add_param(build, name, &param, elements);
}

static void add(redcoi_build *build, redco_param_use use, redco_param_role role, const char *module, uint64_t rows,
                uint64_t columns)
{
    char name[REDCOI_MODEL_NAME_SIZE];
    uint64_t elements = rows;
    if (!redcoi_building(build)) { return; }
    (void)snprintf(name, sizeof name, "%s%s.%s", build->prefix, module, role == REDCO_PARAM_BIAS ? "bias" : "weight");
    if (columns > 0 && !redco_mul_u64(rows, columns, &elements)) {
        redcoi_build_fail(build, NULL, "%s would have more than 2^64 elements", name);
        return;
    }
    const redco_param param = {.role = role, .use = use, .rank = columns > 0 ? 2 : 1, .shape = {rows, columns}};
    add_param(build, name, &param, elements);
}

void redcoi_linear(redcoi_build *build, redco_param_use use, const char *name, uint64_t out, uint64_t in, bool bias)
{
    add(build, use, REDCO_PARAM_LINEAR, name, out, in);
    if (bias) { redcoi_bias(build, use, name, out); }
}

void redcoi_bias(redcoi_build *build, redco_param_use use, const char *name, uint64_t width)
{
    add(build, use, REDCO_PARAM_BIAS, name, width, 0);
}

void redcoi_conv1d(redcoi_build *build, redco_param_use use, const char *name, uint64_t in, uint64_t out)
{
    add(build, use, REDCO_PARAM_CONV1D, name, in, out);
    redcoi_bias(build, use, name, out);
}

void redcoi_table(redcoi_build *build, redco_param_use use, const char *name, uint64_t rows, uint64_t columns)
{
    add(build, use, REDCO_PARAM_TABLE, name, rows, columns);
}

void redcoi_norm(redcoi_build *build, redco_param_use use, const char *name, uint64_t width, bool bias)
{
    const bool rms = build->model->dims.norm == REDCO_NORM_RMS;
    add(build, use, rms ? REDCO_PARAM_RMS_NORM : REDCO_PARAM_LAYER_NORM, name, width, 0);
    if (bias) { redcoi_bias(build, use, name, width); }
}

void redcoi_untied_head(redcoi_build *build, const char *name)
{
    const redco_model_dims *const dims = &build->model->dims;
    if (!dims->tied) { redcoi_linear(build, REDCO_USE_HEAD, name, dims->vocab, dims->hidden, false); }
}

const char *redcoi_param_name(const redco_param *param, uint32_t layer, char name[REDCOI_MODEL_NAME_SIZE])
{
    const char *brace = strstr(param->name, "{}");
    if (brace == NULL) {
        (void)snprintf(name, REDCOI_MODEL_NAME_SIZE, "%s", param->name);
    } else {
        (void)snprintf(name, REDCOI_MODEL_NAME_SIZE, "%.*s%u%s", (int)(brace - param->name), param->name, layer,
                       brace + 2);
    }
    return name;
}

bool redcoi_model_has(const redco_model *model, redco_param_use use)
{
    for (size_t i = 0; i < model->param_count; i++) {
        if (model->params[i].use == use) { return true; }
    }
    return false;
}
