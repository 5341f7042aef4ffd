#include "costmodel/models/task.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/differentiate.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct redco_scope_step {
    const redco_task *task;
    const redco_value *parameters;
    redco_value *gradients; /* by parameter; NULL: the loss alone is wanted */
};

bool redco_scope_takes_gradients(const redco_scope *scope)
{
    return scope->step != NULL && scope->step->gradients != NULL;
}

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
                         "a function asks for it; the task has no parameter "
                         "and no input of that name");
    }
    return value;
}

redco_value redco_scope_weight(redco_scope *scope, const char *name)
{
    return redco_cast(scope->graph, redco_scope_value(scope, name), scope->compute);
}

redco_value redco_scope_linear(redco_scope *scope, redco_value x, const char *name)
{
    char part[256];
    (void)snprintf(part, sizeof part, "%.200s.weight", name);
    const redco_value product = redco_matmul(scope->graph, x, redco_scope_weight(scope, part), false, false);
    (void)snprintf(part, sizeof part, "%.200s.bias", name);
    return redco_scope_has(scope, part) ? redco_add(scope->graph, product, redco_scope_weight(scope, part)) : product;
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

static redco_scope scope_of(const redco_task_options *options, const redco_task_graph *built)
{
    return (redco_scope){.graph = built->graph,
                         .compute = options->compute,
                         .training = options->training,
                         .key = built->key,
                         .micro_batches = options->micro_batches > 0 ? options->micro_batches : 1};
}

/* The parameter of that name; the scope's error says why there is none. @return its number, or the count */
static size_t find_for_step(redco_scope *scope, const char *name, redco_training training)
{
    const redco_task *const task = scope->step != NULL ? scope->step->task : NULL;
    size_t i = 0;
    if (task == NULL) {
        (void)redco_fail(&scope->error, REDCO_EVALUE, name, "is changed outside of step()");
        return SIZE_MAX;
    }
    while (i < task->parameter_count && strcmp(task->parameters[i].name, name) != 0) { i++; }
    if (i == task->parameter_count) {
        (void)redco_fail(&scope->error, REDCO_EVALUE, name, "the train step changes it; there is no such parameter");
        return SIZE_MAX;
    }
    if (task->parameters[i].training == training) { return scope->step->gradients != NULL ? i : SIZE_MAX; }
    (void)redco_fail(&scope->error, REDCO_EVALUE, name, "the train step %s it; it is described as %s",
                     training == REDCO_ASSIGNED ? "assigns" : "gives a gradient to",
                     task->parameters[i].training == REDCO_TRAINED    ? "trained"
                     : task->parameters[i].training == REDCO_ASSIGNED ? "assigned"
                                                                      : "frozen");
    return SIZE_MAX;
}

/* Adds what a step says of a parameter. @param what  for errors */
static void add_gradient(redco_scope *scope, size_t i, redco_value value, const char *what)
{
    redco_graph *const g = scope->graph;
    const redco_task_parameter *const p = &scope->step->task->parameters[i];
    redco_value *const gradient = &scope->step->gradients[i];
    if (redco_graph_status(g, NULL) != REDCO_OK || scope->error.status != REDCO_OK) { return; }
    if (value >= redco_graph_value_count(g)) {
        (void)redco_fail(&scope->error, REDCO_EVALUE, p->name, "the train step gives it no %s", what);
        return;
    }
    const redco_tensor_type type = *redco_value_type(g, value);
    const redco_tensor_type wanted = *redco_value_type(g, scope->step->parameters[i]);
    bool same = type.rank == wanted.rank && redco_dtype_is_float(type.dtype);
    for (uint32_t d = 0; d < wanted.rank && same; d++) { same = type.dim[d] == wanted.dim[d]; }
    if (!same) {
        char have[REDCO_TYPE_TEXT_BYTES], want[REDCO_TYPE_TEXT_BYTES];
        (void)redco_fail(&scope->error, REDCO_EVALUE, p->name, "its %s is %s; the parameter is %s", what,
                         redco_type_text(&type, have), redco_type_text(&wanted, want));
        return;
    }
    const redco_value cast = redco_cast(g, value, wanted.dtype);
    *gradient = *gradient == REDCO_NO_VALUE ? cast : redco_add(g, *gradient, cast);
}

void redco_scope_minimize(redco_scope *scope, redco_value loss, const char *prefix)
{
    const redco_scope_step *const step = scope->step;
    if (step == NULL) {
        (void)find_for_step(scope, "a loss", REDCO_TRAINED);
        return;
    }
    if (step->gradients == NULL) { return; }
    const size_t length = strlen(prefix), count = step->task->parameter_count;
    redco_value *const wrt = calloc(2 * count + 1, sizeof *wrt), *const gradients = wrt + count;
    size_t wanted = 0;
    if (wrt == NULL) {
        (void)redco_fail(&scope->error, REDCO_ENOMEM, step->task->name, "no memory for its gradients");
        return;
    }
    for (size_t i = 0; i < count; i++) {
        const redco_task_parameter *const p = &step->task->parameters[i];
        if (p->training != REDCO_TRAINED || strncmp(p->name, prefix, length) != 0) { continue; }
        wrt[wanted++] = step->parameters[i];
    }
    if (wanted == 0) {
        (void)redco_fail(&scope->error, REDCO_EVALUE, step->task->name,
                         "the train step minimizes for \"%s\"; no trained parameter has a name that begins so", prefix);
    }
    redco_gradient(scope->graph, loss, wrt, (uint32_t)wanted, gradients);
    for (size_t i = 0, at = 0; i < count && wanted > 0; i++) {
        if (at < wanted && wrt[at] == step->parameters[i]) { add_gradient(scope, i, gradients[at++], "gradient"); }
    }
    free(wrt);
}

void redco_scope_set_gradient(redco_scope *scope, const char *name, redco_value gradient)
{
    const size_t i = find_for_step(scope, name, REDCO_TRAINED);
    if (i != SIZE_MAX) { add_gradient(scope, i, gradient, "gradient"); }
}

/* The gradient of an assigned parameter is what is subtracted from it: its sum over micro-batches is small where the
 * change is, so that 16 bits keep it. */
void redco_scope_assign(redco_scope *scope, const char *name, redco_value value)
{
    const size_t i = find_for_step(scope, name, REDCO_ASSIGNED);
    if (i == SIZE_MAX) { return; }
    if (scope->step->gradients[i] != REDCO_NO_VALUE) {
        (void)redco_fail(&scope->error, REDCO_EVALUE, name, "the train step assigns it twice");
        return;
    }
    const redco_value before = scope->step->parameters[i];
    if (value >= redco_graph_value_count(scope->graph)) {
        add_gradient(scope, i, value, "value");
        return;
    }
    const redco_tensor_type type = *redco_value_type(scope->graph, value);
    const redco_tensor_type wanted = *redco_value_type(scope->graph, before);
    add_gradient(scope, i, value, "value");
    if (scope->error.status != REDCO_OK || type.rank != wanted.rank) { return; }
    scope->step->gradients[i] = redco_sub(scope->graph, before, scope->step->gradients[i]);
}

/* Refuses parameters that the step left out. */
static redco_status check_step(const redco_task *task, const redco_task_graph *built, redco_error *err)
{
    for (size_t i = 0; i < task->parameter_count; i++) {
        const redco_task_parameter *const p = &task->parameters[i];
        if (p->training == REDCO_FROZEN || built->gradients[i] != REDCO_NO_VALUE) { continue; }
        return p->training == REDCO_TRAINED
                   ? redco_fail(err, REDCO_EVALUE, p->name,
                                "the train step gives it no gradient; describe it as frozen if it is not trained")
                   : redco_fail(err, REDCO_EVALUE, p->name, "is described as assigned; the train step assigns it none");
    }
    return REDCO_OK;
}

/* The loss's gradients, of trained parameters alone. */
static redco_status differentiate(const redco_task *task, redco_task_graph *built, redco_error *err)
{
    redco_value *const wrt = calloc(2 * task->parameter_count + 1, sizeof *wrt);
    redco_value *const gradients = wrt + task->parameter_count;
    uint32_t wanted = 0;
    if (wrt == NULL) { return redco_fail(err, REDCO_ENOMEM, task->name, "no memory for its gradients"); }
    for (size_t i = 0; i < task->parameter_count; i++) {
        if (task->parameters[i].training == REDCO_TRAINED) { wrt[wanted++] = built->parameters[i]; }
    }
    redco_gradient(built->graph, built->loss, wrt, wanted, gradients);
    for (size_t i = 0, at = 0; i < task->parameter_count; i++) {
        if (task->parameters[i].training == REDCO_TRAINED) { built->gradients[i] = gradients[at++]; }
    }
    free(wrt);
    return redco_graph_status(built->graph, err);
}

static redco_status build_loss(const redco_task *task, const redco_task_options *options, redco_task_graph *built,
                               redco_error *err)
{
    redco_graph *const g = built->graph;
    redco_scope_step step = {task, built->parameters, built->gradients};
    redco_scope scope = scope_of(options, built);
    redco_status st = redco_graph_status(g, err);
    if (st != REDCO_OK) { return st; }
    const bool own = task->step != NULL && (options->gradients || task->loss == NULL);
    if (own) { scope.step = &step; }
    built->loss = own ? task->step(&scope, task->context) : task->loss(&scope, task->context);
    if ((st = scope_status(&scope, err)) != REDCO_OK) { return st; }
    if (built->loss >= redco_graph_value_count(g)) {
        return redco_fail(err, REDCO_EVALUE, task->name, "the loss function gave no value");
    }
    const redco_tensor_type *type = redco_value_type(g, built->loss);
    if (type->rank != 0 || (type->dtype != REDCO_F32 && type->dtype != REDCO_F64)) {
        char text[REDCO_TYPE_TEXT_BYTES];
        const bool narrow = type->rank == 0 && redco_dtype_is_float(type->dtype);
        return redco_fail(err, REDCO_EVALUE, task->name, "the loss is %s; it must be a scalar, f32 or f64%s",
                          redco_type_text(type, text),
                          narrow ? ": redco_cast() it to redco_dtype_statistic(scope->compute)" : "");
    }
    return REDCO_OK;
}

redco_value redco_task_loss(const redco_task *task, redco_scope *scope)
{
    if (task->loss != NULL) { return task->loss(scope, task->context); }
    const redco_scope_step step = {task, NULL, NULL};
    redco_scope inside = *scope;
    inside.step = &step;
    const redco_value loss = task->step(&inside, task->context);
    scope->error = inside.error;
    return loss;
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
    redco_scope scope = scope_of(options, &built);
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
    for (size_t i = 0; options->gradients && i < task->parameter_count; i++) { built.gradients[i] = REDCO_NO_VALUE; }
    if ((st = build_loss(task, options, &built, err)) != REDCO_OK) { goto out; }
    if (options->gradients) {
        st = task->step != NULL ? check_step(task, &built, err) : differentiate(task, &built, err);
        if (st != REDCO_OK) { goto out; }
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
