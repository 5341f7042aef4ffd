/* Examples that a pipeline collects: predictions are made on this process's processor, with weights that were gathered
 * once for it, so that a collect() of many small batches asks no other rank. */
#include "executor/trainer/collect.h"

#include "executor/backend/evaluate.h"
#include "executor/backend/host/host.h"
#include "executor/backend/host/kernels.h"
#include "executor/pipeline/user_pipeline_calls.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Sizes of batches whose graphs are kept. */
enum { GRAPHS = 8 };

struct sized {
    uint32_t count; /* 0: none */
    redco_task task;
    redco_task_graph graph;
    redco_value predicted;
    redco_tensor_type type;
};

struct redcoi_policy {
    const redco_user_pipeline_file *file;
    redco_backend *backend;
    redco_dtype dtype; /* type of weights and predictions */
    void **weights;    /* by parameter */
    size_t parameter_count;
    struct sized graphs[GRAPHS];
    uint32_t next;
};

static redco_status no_memory(const redcoi_policy *p, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, redco_user_pipeline_of(p->file)->name, "no memory to predict with it");
}

static void close_sized(struct sized *s)
{
    redco_task_graph_free(&s->graph);
    redco_user_pipeline_task_free(&s->task);
    *s = (struct sized){.count = 0};
}

void redcoi_policy_free(redcoi_policy *p)
{
    if (p == NULL) { return; }
    for (int i = 0; i < GRAPHS; i++) { close_sized(&p->graphs[i]); }
    for (size_t i = 0; p->weights != NULL && i < p->parameter_count; i++) { free(p->weights[i]); }
    free((void *)p->weights);
    redco_backend_close(p->backend);
    free(p);
}

redco_status redcoi_policy_create(const redco_user_pipeline_file *file, const redco_task *task, redco_dtype dtype,
                                  redcoi_policy **policy_out, redco_error *err)
{
    redcoi_policy *p = calloc(1, sizeof *p);
    if (p == NULL) { return redco_fail(err, REDCO_ENOMEM, task->name, "no memory to predict with it"); }
    p->file = file;
    p->dtype = redco_dtype_statistic(dtype);
    p->parameter_count = task->parameter_count;
    p->weights = calloc(task->parameter_count + 1, sizeof(void *));
    bool enough = p->weights != NULL;
    for (size_t i = 0; enough && i < task->parameter_count; i++) {
        const redco_tensor_type type = redco_task_parameter_type(&task->parameters[i], p->dtype);
        enough = (p->weights[i] = calloc(1, redco_type_bytes(&type))) != NULL;
    }
    redco_status st = enough ? redco_host_open(NULL, &p->backend, err) : no_memory(p, err);
    if (st == REDCO_OK) {
        *policy_out = p;
        p = NULL;
    }
    redcoi_policy_free(p);
    return st;
}

void *redcoi_policy_weights(const redcoi_policy *p, size_t parameter)
{
    return p->weights[parameter];
}

struct prediction {
    const redco_user_pipeline_file *file;
    redco_value value;
};

static void build(redco_scope *scope, void *context)
{
    struct prediction *const wanted = context;
    wanted->value = redco_user_pipeline_predict(wanted->file, scope);
}

static redco_status open_sized(redcoi_policy *p, uint32_t count, struct sized *s, redco_error *err)
{
    const redco_task_options options = {p->dtype, p->dtype, false, false, 1};
    struct prediction wanted = {p->file, REDCO_NO_VALUE};
    redco_status st = redco_user_pipeline_task(p->file, count, &s->task, err);
    if (st != REDCO_OK) { return st; }
    st = redco_task_build_values(&s->task, &options, s->task.inputs, s->task.input_count, build, &wanted, &s->graph,
                                 err);
    if (st != REDCO_OK) { return st; }
    if (wanted.value >= redco_graph_value_count(s->graph.graph)) {
        return redco_fail(err, REDCO_EVALUE, s->task.name, "predict() gave no value");
    }
    s->predicted = wanted.value;
    s->type = *redco_value_type(s->graph.graph, wanted.value);
    s->count = count;
    return REDCO_OK;
}

static redco_status sized_of(redcoi_policy *p, uint32_t count, struct sized **sized_out, redco_error *err)
{
    for (int i = 0; i < GRAPHS; i++) {
        *sized_out = &p->graphs[i];
        if (p->graphs[i].count == count) { return REDCO_OK; }
    }
    *sized_out = &p->graphs[p->next++ % GRAPHS];
    close_sized(*sized_out);
    return open_sized(p, count, *sized_out, err);
}

static redco_status run(redcoi_policy *p, const struct sized *s, void *const *inputs, const int32_t key[2], void *raw,
                        redco_error *err)
{
    const size_t parameters = p->parameter_count, count = parameters + s->task.input_count + 1;
    redco_binding *const bindings = calloc(count, sizeof *bindings);
    if (bindings == NULL) { return no_memory(p, err); }
    for (size_t i = 0; i < parameters; i++) { bindings[i] = (redco_binding){s->graph.parameters[i], p->weights[i]}; }
    for (size_t i = 0; i < s->task.input_count; i++) {
        bindings[parameters + i] = (redco_binding){s->graph.inputs[i], inputs[i]};
    }
    bindings[count - 1] = (redco_binding){s->graph.key, key};
    const redco_result result = {s->predicted, raw};
    const redco_status st = redco_evaluate(p->backend, s->graph.graph, bindings, (uint32_t)count, &result, 1, err);
    free(bindings);
    return st;
}

redco_status redcoi_policy_predict(void *context, uint32_t count, void *const *inputs, const int32_t key[2],
                                   double *values_out, uint32_t values, redco_error *err)
{
    redcoi_policy *const p = context;
    struct sized *s = NULL;
    char text[REDCO_TYPE_TEXT_BYTES];
    redco_status st = sized_of(p, count, &s, err);
    if (st != REDCO_OK) { return st; }
    const uint64_t elements = redco_type_elements(&s->type);
    if (s->type.rank == 0 || s->type.dim[0] != count || s->type.dtype == REDCO_BOOL ||
        elements != (uint64_t)count * values) {
        return redco_fail(err, REDCO_EVALUE, s->task.name,
                          "predict() gave %s for %u examples; collect() wants %u numbers of each",
                          redco_type_text(&s->type, text), count, values);
    }
    void *const raw = calloc(1, redco_type_bytes(&s->type));
    st = raw == NULL ? no_memory(p, err) : run(p, s, inputs, key, raw, err);
    if (st == REDCO_OK) { redcoi_load_f64(s->type.dtype, raw, elements, values_out); }
    free(raw);
    for (uint64_t i = 0; i < elements && st == REDCO_OK; i++) {
        if (isfinite(values_out[i])) { continue; }
        st = redco_fail(err, REDCO_EINFEASIBLE, s->task.name, "predict() gave collect() what is no finite number");
    }
    return st;
}

/* A tensor as the policy has it. @param ranks  a module of @p stride elements of each tensor-parallel rank */
static redco_status put_tensor(redco_trainer *t, uint32_t tensor, const unsigned char *ranks, uint64_t stride,
                               redco_error *err)
{
    const redco_tensor_type type = redco_task_parameter_type(&t->task->parameters[tensor], t->options.dtype);
    const uint64_t count = redco_type_elements(&type),
                   at = redco_layout_tensor_at(redco_states_layout(t->states), tensor);
    const bool split = t->layouts[tensor].kind == REDCO_TP_SPLIT;
    void *const whole = malloc(redco_type_bytes(&type));
    double *const wide = malloc(count * sizeof *wide);
    const redco_status st = whole == NULL || wide == NULL ? no_memory(t->policy, err) : REDCO_OK;
    /* A tensor that is not split is rank 0's, so that all ranks predict with the same bits. */
    for (uint32_t r = 0; st == REDCO_OK && r < (split ? t->mesh.tp : 1); r++) {
        redcoi_part_put(t->layouts[tensor], &type, t->mesh.tp, r,
                        ranks + (r * stride + at) * redco_dtype_bytes(t->options.dtype), whole);
    }
    if (st == REDCO_OK) {
        redcoi_load_f64(t->options.dtype, whole, count, wide);
        redcoi_store_f64(t->policy->dtype, wide, count, redcoi_policy_weights(t->policy, tensor));
    }
    free(whole);
    free(wide);
    return st;
}

/* Weights as training has them, of all tensor-parallel ranks. */
static redco_status read_weights(redco_trainer *t, redco_error *err)
{
    const redco_layout *const layout = redco_states_layout(t->states);
    const size_t most_bytes = redco_layout_sizes(layout).whole * redco_dtype_bytes(t->options.dtype);
    redco_status st = redcoi_weights_gather(t, err);
    unsigned char *const own = malloc(most_bytes + 1), *const ranks = malloc(t->mesh.tp * most_bytes + 1);
    if (st == REDCO_OK && (own == NULL || ranks == NULL)) { st = no_memory(t->policy, err); }
    for (uint32_t m = 0; m < t->modules.model.module_count && st == REDCO_OK; m++) {
        const redco_state_module *const module = &t->modules.modules[m];
        const uint64_t stride = redco_layout_module(layout, m)->whole;
        st = redcoi_weights_read(t, m, own, err);
        if (st == REDCO_OK) {
            st = redco_all_gather(t->tp_host, t->options.dtype, own, ranks, stride, "collect/weights", err);
        }
        for (uint32_t i = module->first_tensor; i < module->first_tensor + module->tensor_count && st == REDCO_OK;
             i++) {
            st = put_tensor(t, i, ranks, stride, err);
        }
    }
    free(own);
    free(ranks);
    return st;
}

redco_status redcoi_trainer_collect(redco_trainer *t, redco_error *err)
{
    redco_user_collector *const collector = t->subject.collector;
    if (collector == NULL || t->replay || !redco_collector_due(collector, t->step)) { return REDCO_OK; }
    redco_status st = REDCO_OK;
    if (t->policy == NULL && redco_user_pipeline_of(t->options.pipeline)->predict != NULL) {
        st = redcoi_policy_create(t->options.pipeline, t->task, t->options.dtype, &t->policy, err);
    }
    if (st == REDCO_OK && t->policy != NULL) { st = read_weights(t, err); }
    if (st == REDCO_OK) { st = redco_collector_collect(collector, t->step, redcoi_policy_predict, t->policy, err); }
    if (st != REDCO_OK) { return st; }
    return redcoi_ranks_agree(t, redco_collector_digest(collector), "collect() made other examples",
                              "all it remembers must be in the run's state, all it draws from the collector", err);
}
