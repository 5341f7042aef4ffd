#include "costmodel/models/task.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/differentiate.h"

#include <stdlib.h>
#include <string.h>

redco_tensor_type redco_task_parameter_type(const redco_task_parameter *parameter, redco_dtype dtype)
{
    return redco_type(dtype, parameter->rank, parameter->dim);
}

const redco_task_parameter *redco_task_find(const redco_task *task, const char *name)
{
    for (size_t i = 0; i < task->parameter_count; i++) {
        if (strcmp(task->parameters[i].name, name) == 0) { return &task->parameters[i]; }
    }
    return NULL;
}

bool redco_scope_has(const redco_scope *scope, const char *name)
{
    return redco_graph_find_input(scope->graph, name) != REDCO_NO_VALUE;
}

redco_value redco_scope_value(redco_scope *scope, const char *name)
{
    const redco_value value = redco_graph_find_input(scope->graph, name);
    if (value == REDCO_NO_VALUE && redco_graph_status(scope->graph, NULL) == REDCO_OK) {
        (void)redco_fail(&scope->error, REDCO_EVALUE, name,
                         "the loss function asks for it; the task has no parameter "
                         "and no input of that name");
    }
    return value;
}

redco_value redco_scope_weight(redco_scope *scope, const char *name)
{
    return redco_cast(scope->graph, redco_scope_value(scope, name), scope->compute);
}

static void declare(const redco_task *task, const redco_task_options *options, redco_task_graph *built)
{
    redco_graph *const g = built->graph;
    for (size_t i = 0; i < task->parameter_count; i++) {
        const redco_task_parameter *const p = &task->parameters[i];
        const redco_tensor_type type = redco_task_parameter_type(p, options->parameter);
        redco_graph_set_layer(g, p->layer);
        built->parameters[i] = redco_parameter(g, p->name, &type);
    }
    redco_graph_set_layer(g, "");
    for (size_t i = 0; i < task->input_count; i++) {
        built->inputs[i] = redco_input(g, task->inputs[i].name, &task->inputs[i].type);
    }
    const redco_tensor_type key = redco_type(REDCO_I32, 1, &(uint64_t){2});
    built->key = redco_input(g, "key", &key);
}

static redco_status scope_status(const redco_scope *scope, redco_error *err)
{
    if (scope->error.status != REDCO_OK) {
        return redco_fail(err, scope->error.status, scope->error.place, "%s", scope->error.text);
    }
    return redco_graph_status(scope->graph, err);
}

static redco_status build_loss(const redco_task *task, const redco_task_options *options, redco_task_graph *built,
                               redco_error *err)
{
    redco_graph *const g = built->graph;
    redco_scope scope = {.graph = g, .compute = options->compute, .training = options->training, .key = built->key};
    redco_status st = redco_graph_status(g, err);
    if (st != REDCO_OK) { return st; }
    built->loss = task->loss(&scope, task->context);
    if ((st = scope_status(&scope, err)) != REDCO_OK) { return st; }
    if (built->loss >= redco_graph_value_count(g)) {
        return redco_fail(err, REDCO_EVALUE, task->name, "the loss function gave no value");
    }
    const redco_tensor_type *type = redco_value_type(g, built->loss);
    if (type->rank != 0 || (type->dtype != REDCO_F32 && type->dtype != REDCO_F64)) {
        char text[REDCO_TYPE_TEXT_BYTES];
        return redco_fail(err, REDCO_EVALUE, task->name, "the loss is %s; it must be a scalar, f32 or f64",
                          redco_type_text(type, text));
    }
    return REDCO_OK;
}

redco_status redco_task_build_values(const redco_task *task, const redco_task_options *options,
                                     const redco_task_input *inputs, size_t input_count, redco_values_function build,
                                     void *context, redco_task_graph *graph_out, redco_error *err)
{
    redco_task with = *task;
    redco_task_graph built = {.graph = redco_graph_create(), .loss = REDCO_NO_VALUE};
    with.inputs = inputs;
    with.input_count = input_count;
    built.inputs = calloc(input_count + 1, sizeof *built.inputs);
    built.parameters = calloc(task->parameter_count + 1, sizeof *built.parameters);
    if (built.graph == NULL || built.inputs == NULL || built.parameters == NULL) {
        redco_task_graph_free(&built);
        return redco_fail(err, REDCO_ENOMEM, task->name, "no memory for its graph");
    }
    declare(&with, options, &built);
    redco_scope scope = {
        .graph = built.graph, .compute = options->compute, .training = options->training, .key = built.key};
    redco_status st = redco_graph_status(built.graph, err);
    if (st == REDCO_OK) {
        build(&scope, context);
        st = scope_status(&scope, err);
    }
    if (st == REDCO_OK) {
        *graph_out = built;
        built = (redco_task_graph){.graph = NULL};
    }
    redco_task_graph_free(&built);
    return st;
}

redco_status redco_task_build(const redco_task *task, const redco_task_options *options, redco_task_graph *graph_out,
                              redco_error *err)
{
    redco_task_graph built = {.graph = redco_graph_create(), .loss = REDCO_NO_VALUE};
    redco_status st = REDCO_OK;
    built.inputs = calloc(task->input_count + 1, sizeof *built.inputs);
    built.parameters = calloc(task->parameter_count + 1, sizeof *built.parameters);
    built.gradients = options->gradients ? calloc(task->parameter_count + 1, sizeof *built.gradients) : NULL;
    if (built.graph == NULL || built.inputs == NULL || built.parameters == NULL ||
        (options->gradients && built.gradients == NULL)) {
        st = redco_fail(err, REDCO_ENOMEM, task->name, "no memory for its graph");
        goto out;
    }
    declare(task, options, &built);
    if ((st = build_loss(task, options, &built, err)) != REDCO_OK) { goto out; }
    if (options->gradients) {
        redco_gradient(built.graph, built.loss, built.parameters, (uint32_t)task->parameter_count, built.gradients);
        if ((st = redco_graph_status(built.graph, err)) != REDCO_OK) { goto out; }
    }
    *graph_out = built;
    built = (redco_task_graph){.graph = NULL};
out:
    redco_task_graph_free(&built);
    return st;
}

void redco_task_graph_free(redco_task_graph *graph)
{
    redco_graph_free(graph->graph);
    free(graph->inputs);
    free(graph->parameters);
    free(graph->gradients);
    *graph = (redco_task_graph){.graph = NULL};
}
