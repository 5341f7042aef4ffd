#include "executor/reference/reference.h"

#include "costmodel/graph/build_calls.h"
#include "executor/backend/evaluate.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Memory of one parameter. */
typedef struct slot {
    void *parameter; /* in the storage type; the master weights themselves where that is the same */
    void *master, *gradient;
    void *state[REDCO_OPTIMIZER_STATES_MAX];
} slot;

/* Values of one parameter in the update's graph, where new ones are put besides the old. */
typedef struct update {
    redco_value master, gradient, state[REDCO_OPTIMIZER_STATES_MAX];
    redco_value new_parameter, new_master, new_state[REDCO_OPTIMIZER_STATES_MAX];
    redco_optimizer optimizer;
    redco_value factors[REDCO_OPTIMIZER_FACTORS]; /* its own inputs; the first: REDCO_NO_VALUE, all parameters' serve */
    double values[REDCO_OPTIMIZER_FACTORS];       /* theirs, in the master type */
} update;

struct redco_reference {
    redco_backend *backend;
    const redco_task *task;
    redco_reference_options options;
    uint32_t states;
    bool separate; /* parameters are not the master weights */
    uint64_t step;
    slot *slots;
    redco_task_graph model;
    redco_value *before, *after; /* sums of gradients in the model's graph: inputs and results */
    redco_graph *update_graph;
    redco_value factors[REDCO_OPTIMIZER_FACTORS], squares;
    update *updates;
    redco_binding *bindings;
    redco_result *results;
};

static redco_status no_memory(const redco_reference *r, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, r->task->name, "no memory to train it");
}

static bool changes(const redco_reference *r, size_t parameter)
{
    return r->task->parameters[parameter].training != REDCO_FROZEN;
}

static bool assigned(const redco_reference *r, size_t parameter)
{
    return r->task->parameters[parameter].training == REDCO_ASSIGNED;
}

/* States of the optimizer that a parameter has. */
static uint32_t states_of(const redco_reference *r, size_t parameter)
{
    return r->task->parameters[parameter].training == REDCO_TRAINED ? r->states : 0;
}

/* Gradients of micro-batches are added as they come: sum + gradient / micro-batches. */
static redco_status build_model(redco_reference *r, redco_error *err)
{
    const redco_task_options options = {r->options.parameter, r->options.compute, true, true, r->options.micro_batches};
    redco_status st = redco_task_build(r->task, &options, &r->model, err);
    if (st != REDCO_OK) { return st; }
    redco_graph *const g = r->model.graph;
    redco_graph_set_layer(g, "step");
    redco_graph_set_role(g, REDCO_OP_ROLE_ACCUMULATE);
    for (size_t i = 0; i < r->task->parameter_count; i++) {
        char name[256];
        if (!changes(r, i)) { continue; }
        const redco_tensor_type type = redco_task_parameter_type(&r->task->parameters[i], r->options.master);
        (void)snprintf(name, sizeof name, "sum.%s", r->task->parameters[i].name);
        const redco_value wide = redco_cast(g, r->model.gradients[i], r->options.master);
        r->before[i] = redco_input(g, name, &type);
        r->after[i] = redco_add(g, r->before[i], redco_scale(g, wide, 1.0 / r->options.micro_batches));
    }
    return redco_graph_status(g, err);
}

static void build_one_update(redco_reference *r, size_t i, redco_value clip)
{
    redco_graph *const g = r->update_graph;
    update *const u = &r->updates[i];
    const redco_tensor_type type = redco_task_parameter_type(&r->task->parameters[i], r->options.master);
    char name[256];
    (void)snprintf(name, sizeof name, "master.%s", r->task->parameters[i].name);
    u->master = redco_parameter(g, name, &type);
    if (assigned(r, i)) {
        u->new_master = redco_sub(g, u->master, u->gradient);
        u->new_parameter = redco_cast(g, u->new_master, r->options.parameter);
        return;
    }
    const redco_task_parameter *const p = &r->task->parameters[i];
    redco_value factors[REDCO_OPTIMIZER_FACTORS];
    double factor = 1.0;
    u->optimizer =
        redco_optimizer_of(&r->options.optimizer, &p->own, !r->options.decay_matrices || p->rank >= 2, &factor);
    memcpy(factors, r->factors, sizeof factors);
    u->factors[0] = REDCO_NO_VALUE;
    for (uint32_t f = 0; f < REDCO_OPTIMIZER_FACTORS && p->own.has_betas; f++) {
        const redco_tensor_type scalar = redco_type(r->options.master, 0, NULL);
        (void)snprintf(name, sizeof name, "%s.%s", redco_optimizer_factor_name(f), p->name);
        factors[f] = u->factors[f] = redco_input(g, name, &scalar);
    }
    if (factor != 1.0) { factors[0] = redco_scale(g, factors[0], factor); } /* the rate */
    for (uint32_t s = 0; s < r->states; s++) {
        (void)snprintf(name, sizeof name, "%s.%s", redco_optimizer_state_name(&r->options.optimizer, s),
                       r->task->parameters[i].name);
        u->state[s] = redco_input(g, name, &type);
    }
    u->new_master =
        redco_optimizer_update(g, &u->optimizer, factors, u->master, u->gradient, clip, u->state, u->new_state);
    u->new_parameter = redco_cast(g, u->new_master, r->options.parameter);
}

static redco_status build_update(redco_reference *r, redco_error *err)
{
    const size_t count = r->task->parameter_count;
    redco_graph *const g = r->update_graph = redco_graph_create();
    redco_value *gradients = calloc(count + 1, sizeof *gradients), clip = REDCO_NO_VALUE;
    if (g == NULL || gradients == NULL) {
        free(gradients);
        return no_memory(r, err);
    }
    redco_graph_set_layer(g, "step");
    redco_graph_set_role(g, REDCO_OP_ROLE_GRAD_NORM);
    uint32_t trained = 0;
    for (size_t i = 0; i < count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&r->task->parameters[i], r->options.master);
        if (!changes(r, i)) { continue; }
        r->updates[i].gradient = redco_input(g, r->task->parameters[i].name, &type);
        if (!assigned(r, i)) { gradients[trained++] = r->updates[i].gradient; }
    }
    r->squares = redco_sum_of_squares(g, gradients, trained);
    if (r->options.optimizer.clip_norm > 0.0) {
        clip = redco_clip_factor(g, r->squares, r->options.optimizer.clip_norm);
    }
    redco_graph_set_role(g, REDCO_OP_ROLE_OPTIMIZER);
    redco_optimizer_inputs(g, r->options.master, r->factors);
    for (size_t i = 0; i < count; i++) {
        if (changes(r, i)) { build_one_update(r, i, clip); }
    }
    free(gradients);
    return redco_graph_status(g, err);
}

static bool take_memory(redco_reference *r)
{
    const size_t count = r->task->parameter_count;
    bool enough = true;
    for (size_t i = 0; i < count && enough; i++) {
        slot *const s = &r->slots[i];
        const redco_tensor_type stored = redco_task_parameter_type(&r->task->parameters[i], r->options.parameter);
        const redco_tensor_type wide = redco_task_parameter_type(&r->task->parameters[i], r->options.master);
        s->master = calloc(1, redco_type_bytes(&wide));
        s->gradient = changes(r, i) ? calloc(1, redco_type_bytes(&wide)) : NULL;
        s->parameter = r->separate ? calloc(1, redco_type_bytes(&stored)) : s->master;
        enough = s->master != NULL && (s->gradient != NULL || !changes(r, i)) && s->parameter != NULL;
        for (uint32_t k = 0; k < states_of(r, i); k++) {
            s->state[k] = calloc(1, redco_type_bytes(&wide));
            enough = enough && s->state[k] != NULL;
        }
    }
    return enough;
}

static redco_status check_options(const redco_reference_options *o, redco_error *err)
{
    if (o->master != REDCO_F32 && o->master != REDCO_F64) {
        return redco_fail(err, REDCO_EVALUE, "master weights", "%s; they must be f32 or f64",
                          redco_dtype_name(o->master));
    }
    if (!redco_dtype_is_float(o->parameter) || !redco_dtype_is_float(o->compute)) {
        return redco_fail(err, REDCO_EVALUE, "parameters", "%s, computed in %s; both must be floating-point",
                          redco_dtype_name(o->parameter), redco_dtype_name(o->compute));
    }
    if (o->micro_batches == 0) { return redco_fail(err, REDCO_EVALUE, "micro-batches", "0; a step needs at least 1"); }
    return redco_optimizer_check(&o->optimizer, err);
}

redco_status redco_reference_create(redco_backend *backend, const redco_task *task,
                                    const redco_reference_options *options, redco_reference **reference_out,
                                    redco_error *err)
{
    const size_t count = task->parameter_count;
    redco_status st = check_options(options, err);
    if (st != REDCO_OK) { return st; }
    redco_reference *r = calloc(1, sizeof *r);
    if (r == NULL) { return redco_fail(err, REDCO_ENOMEM, task->name, "no memory to train it"); }
    r->backend = backend;
    r->task = task;
    r->options = *options;
    r->states = redco_optimizer_states(&options->optimizer);
    r->separate = options->parameter != options->master;
    r->slots = calloc(count + 1, sizeof *r->slots);
    r->before = calloc(count + 1, sizeof *r->before);
    r->after = calloc(count + 1, sizeof *r->after);
    r->updates = calloc(count + 1, sizeof *r->updates);
    /* Bytes of the larger graph, the update's: weights, gradients and states, or all of them anew. */
    const size_t room = (4 + REDCO_OPTIMIZER_FACTORS) * count + task->input_count + REDCO_OPTIMIZER_FACTORS + 2;
    r->bindings = calloc(room, sizeof *r->bindings);
    r->results = calloc(room, sizeof *r->results);
    if (r->slots == NULL || r->before == NULL || r->after == NULL || r->updates == NULL || r->bindings == NULL ||
        r->results == NULL || !take_memory(r)) {
        st = no_memory(r, err);
        goto out;
    }
    if ((st = build_model(r, err)) != REDCO_OK) { goto out; }
    if ((st = build_update(r, err)) != REDCO_OK) { goto out; }
    *reference_out = r;
    r = NULL;
out:
    redco_reference_free(r);
    return st;
}

void redco_reference_free(redco_reference *r)
{
    if (r == NULL) { return; }
    for (size_t i = 0; r->slots != NULL && i < r->task->parameter_count; i++) {
        slot *const s = &r->slots[i];
        if (r->separate) { free(s->parameter); }
        free(s->master);
        free(s->gradient);
        for (uint32_t k = 0; k < REDCO_OPTIMIZER_STATES_MAX; k++) { free(s->state[k]); }
    }
    redco_task_graph_free(&r->model);
    redco_graph_free(r->update_graph);
    free(r->slots);
    free(r->before);
    free(r->after);
    free(r->updates);
    free(r->bindings);
    free(r->results);
    free(r);
}

void *redco_reference_master(redco_reference *r, size_t parameter)
{
    return r->slots[parameter].master;
}

void *redco_reference_state(redco_reference *r, size_t parameter, uint32_t state)
{
    return r->slots[parameter].state[state];
}

/* A scalar result of either type. */
typedef union real {
    double f64;
    float f32;
} real;

static double real_of(redco_dtype dtype, const real *value)
{
    return dtype == REDCO_F64 ? value->f64 : (double)value->f32;
}

/* Parameters of another type than the master weights are made from them, whoever wrote them last. */
static redco_status store_parameters(redco_reference *r, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; r->separate && i < r->task->parameter_count && st == REDCO_OK; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&r->task->parameters[i], r->options.master);
        redco_graph *g = redco_graph_create();
        if (g == NULL) { return no_memory(r, err); }
        const redco_value from = redco_input(g, "master", &type);
        const redco_binding binding = {from, r->slots[i].master};
        const redco_result result = {redco_cast(g, from, r->options.parameter), r->slots[i].parameter};
        st = redco_evaluate(r->backend, g, &binding, 1, &result, 1, err);
        redco_graph_free(g);
    }
    return st;
}

static uint32_t bind_model(redco_reference *r, const void *const *inputs, const int32_t key[2])
{
    static const int32_t no_key[2] = {0, 0};
    uint32_t count = 0;
    for (size_t i = 0; i < r->task->parameter_count; i++) {
        r->bindings[count++] = (redco_binding){r->model.parameters[i], r->slots[i].parameter};
        if (changes(r, i)) { r->bindings[count++] = (redco_binding){r->before[i], r->slots[i].gradient}; }
    }
    for (size_t i = 0; i < r->task->input_count; i++) {
        r->bindings[count++] = (redco_binding){r->model.inputs[i], inputs[i]};
    }
    r->bindings[count++] = (redco_binding){r->model.key, key != NULL ? key : no_key};
    return count;
}

static redco_status run_micro_batch(redco_reference *r, const void *const *inputs, const int32_t key[2], bool gradients,
                                    double *loss_out, redco_error *err)
{
    real loss = {0.0};
    uint32_t results = 0;
    const uint32_t bindings = bind_model(r, inputs, key);
    r->results[results++] = (redco_result){r->model.loss, &loss};
    for (size_t i = 0; gradients && i < r->task->parameter_count; i++) {
        if (!changes(r, i)) { continue; }
        r->results[results++] = (redco_result){r->after[i], r->slots[i].gradient};
    }
    const redco_status st = redco_evaluate(r->backend, r->model.graph, r->bindings, bindings, r->results, results, err);
    if (st == REDCO_OK) { *loss_out = real_of(redco_value_type(r->model.graph, r->model.loss)->dtype, &loss); }
    return st;
}

static redco_status run_norm(redco_reference *r, double *norm_out, redco_error *err)
{
    real squares = {0.0};
    uint32_t bindings = 0;
    for (size_t i = 0; i < r->task->parameter_count; i++) {
        if (!changes(r, i) || assigned(r, i)) { continue; }
        r->bindings[bindings++] = (redco_binding){r->updates[i].gradient, r->slots[i].gradient};
    }
    const redco_result result = {r->squares, &squares};
    const redco_status st = redco_evaluate(r->backend, r->update_graph, r->bindings, bindings, &result, 1, err);
    *norm_out = sqrt(real_of(r->options.master, &squares));
    return st;
}

/* @param values  of the step, which are bound. @return bindings, of which there were @p bindings */
static uint32_t bind_factors(redco_reference *r, const redco_optimizer *optimizer, double learning_rate,
                             const redco_value *factors, double values[REDCO_OPTIMIZER_FACTORS], uint32_t bindings)
{
    redco_optimizer_factors(optimizer, learning_rate, r->step + 1, values);
    for (uint32_t f = 0; f < REDCO_OPTIMIZER_FACTORS; f++) {
        const float single = (float)values[f];
        if (r->options.master != REDCO_F64) { memcpy(&values[f], &single, sizeof single); }
        r->bindings[bindings++] = (redco_binding){factors[f], &values[f]};
    }
    return bindings;
}

static redco_status run_update(redco_reference *r, double learning_rate, redco_error *err)
{
    double factors[REDCO_OPTIMIZER_FACTORS];
    uint32_t results = 0, bindings = bind_factors(r, &r->options.optimizer, learning_rate, r->factors, factors, 0);
    for (size_t i = 0; i < r->task->parameter_count; i++) {
        update *const u = &r->updates[i];
        slot *const s = &r->slots[i];
        if (!changes(r, i)) { continue; }
        if (!assigned(r, i) && u->factors[0] != REDCO_NO_VALUE) {
            bindings = bind_factors(r, &u->optimizer, learning_rate, u->factors, u->values, bindings);
        }
        r->bindings[bindings++] = (redco_binding){u->master, s->master};
        r->bindings[bindings++] = (redco_binding){u->gradient, s->gradient};
        r->results[results++] = (redco_result){u->new_master, s->master};
        if (r->separate) { r->results[results++] = (redco_result){u->new_parameter, s->parameter}; }
        for (uint32_t k = 0; k < states_of(r, i); k++) {
            r->bindings[bindings++] = (redco_binding){u->state[k], s->state[k]};
            r->results[results++] = (redco_result){u->new_state[k], s->state[k]};
        }
    }
    return redco_evaluate(r->backend, r->update_graph, r->bindings, bindings, r->results, results, err);
}

redco_status redco_reference_train(redco_reference *r, const void *const *inputs, const int32_t (*keys)[2],
                                   double learning_rate, redco_reference_step *step_out, redco_error *err)
{
    redco_reference_step step = {0};
    redco_status st = store_parameters(r, err);
    for (size_t i = 0; i < r->task->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&r->task->parameters[i], r->options.master);
        if (!changes(r, i)) { continue; }
        memset(r->slots[i].gradient, 0, redco_type_bytes(&type));
    }
    for (uint32_t m = 0; m < r->options.micro_batches && st == REDCO_OK; m++) {
        double loss = 0.0;
        st = run_micro_batch(r, inputs + m * r->task->input_count, keys != NULL ? keys[m] : NULL, true, &loss, err);
        step.loss += loss / r->options.micro_batches;
    }
    if (st == REDCO_OK) { st = run_norm(r, &step.gradient_norm, err); }
    if (st == REDCO_OK && !(isfinite(step.loss) && isfinite(step.gradient_norm))) {
        st = redco_fail(err, REDCO_EVALUE, r->task->name, "step %llu: loss %g, norm of gradients %g: not finite",
                        (unsigned long long)r->step + 1, step.loss, step.gradient_norm);
    }
    if (st == REDCO_OK) { st = run_update(r, learning_rate, err); }
    if (st == REDCO_OK) {
        r->step++;
        *step_out = step;
    }
    return st;
}
