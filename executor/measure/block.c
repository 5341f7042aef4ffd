#include "executor/measure/block.h"

#include "costmodel/graph/transform.h"
#include "costmodel/models/language_model.h"
#include "executor/measure/measure_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The loss and the gradients of a model's graph. */
typedef struct work {
    redco_language_model *lm;
    redco_task_graph built;
    redco_value *results;
    uint32_t count;
} work;

static void work_free(work *w)
{
    free(w->results);
    redco_task_graph_free(&w->built);
    redco_language_model_free(w->lm);
}

/* To be freed also after a failure. */
static redco_status work_build(const redco_model *model, const redco_measure_shape *shape, redco_dtype dtype,
                               bool fused, redco_backend *backend, work *w, redco_error *err)
{
    const redco_task_options options = {.parameter = dtype, .compute = dtype, .training = true, .gradients = true};
    *w = (work){.count = 0};
    redco_status st = redco_language_model_create(model, shape->micro_batch, shape->seq_len, &w->lm, err);
    if (st != REDCO_OK) { return st; }
    const redco_task *const task = redco_language_model_task(w->lm);
    if ((st = redco_task_build(task, &options, &w->built, err)) != REDCO_OK) { return st; }
    w->results = calloc(task->parameter_count + 1, sizeof *w->results);
    if (w->results == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    w->results[w->count++] = w->built.loss;
    for (size_t i = 0; i < task->parameter_count; i++) { w->results[w->count++] = w->built.gradients[i]; }
    if (!fused) { return REDCO_OK; }
    return redcoi_measure_fuse(redco_backend_fuse_choice(backend), &w->built.graph, w->results, w->count, err);
}

enum { MOST_POSITIONS = 1 << 20 };

static redco_measure_name *name_of(redco_measure_step *step, redco_op_role role)
{
    for (uint32_t i = 0; i < step->count; i++) {
        if (step->names[i].role == role) { return &step->names[i]; }
    }
    if (step->count < REDCO_MEASURE_NAMES_MAX) { step->count++; }
    redco_measure_name *last = &step->names[step->count - 1];
    last->role = role;
    return last;
}

/* @return whether it has to be done in every step: tables of positions depend on no input, and are made once. */
static bool depends(const redco_graph *g, const redco_op *op, const bool *known)
{
    bool any = op->kind == REDCO_OP_INPUT;
    for (uint32_t i = 0; i < op->input_count; i++) { any = any || known[redco_value_op(g, op->inputs[i])->id]; }
    return any;
}

/* @param varies  room for a flag per operator */
static void sum_up(const redco_graph *g, const double *op_s, bool *varies, redco_measure_step *step)
{
    for (uint32_t i = 0; i < redco_graph_op_count(g); i++) {
        const redco_op *op = redco_graph_op(g, i);
        varies[i] = depends(g, op, varies);
        if (!isfinite(op_s[i]) || !varies[i]) { continue; }
        redco_measure_name *name = name_of(step, op->role);
        *(op->order == 0 ? &name->forward_s : &name->backward_s) += op_s[i];
        step->total_s += op_s[i];
    }
}

redco_status redco_measure_model_step(redco_measurer *measurer, const redco_model *model,
                                      const redco_measure_shape *shape, redco_measure_step *step_out, redco_error *err)
{
    work w;
    double *op_s = NULL;
    bool *varies = NULL;
    memset(step_out, 0, sizeof *step_out);
    redco_status st = work_build(model, shape, REDCO_F32, measurer->options.fused, measurer->backend, &w, err);
    if (st != REDCO_OK) { goto out; }
    const uint32_t ops = redco_graph_op_count(w.built.graph);
    op_s = malloc((ops + 1) * sizeof *op_s);
    varies = calloc(ops + 1, sizeof *varies);
    if (op_s == NULL || varies == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < ops; i++) { op_s[i] = INFINITY; }
    st =
        redco_measure_graph(measurer, w.built.graph, w.results, w.count, redco_model_get_dims(model)->vocab, op_s, err);
    if (st != REDCO_OK) { goto out; }
    sum_up(w.built.graph, op_s, varies, step_out);
    step_out->wall_s = redco_measure_wall_s(measurer);
out:
    free(varies);
    free(op_s);
    work_free(&w);
    return st;
}

redco_status redco_measure_llama(const redco_model_dims *dims, redco_model **model_out, redco_error *err)
{
    json_t *const config = json_pack(
        "{s:s,s:I,s:I,s:I,s:I,s:I,s:I,s:I,s:b}", "model_type", "llama", "hidden_size", (json_int_t)dims->hidden,
        "intermediate_size", (json_int_t)dims->ffn, "num_hidden_layers", (json_int_t)dims->layers,
        "num_attention_heads", (json_int_t)dims->heads, "num_key_value_heads", (json_int_t)dims->kv_heads, "vocab_size",
        (json_int_t)dims->vocab, "max_position_embeddings", (json_int_t)MOST_POSITIONS, "tie_word_embeddings", 0);
    if (config == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    const redco_json_value root = redco_json_wrap(config, "measured model");
    const redco_status st = redco_model_from_json(&root, "measured model", model_out, err);
    json_decref(config);
    return st;
}

/* Operators of a model of so many layers that have to be run, by the side of the loss that they are on. Sizes are such
 * that libraries have a kernel for all of them; nothing is run. */
static redco_status count_operators(redco_backend *backend, uint32_t layers, uint32_t *forward_out,
                                    uint32_t *backward_out, redco_error *err)
{
    const redco_model_dims dims = {
        .hidden = 256, .heads = 2, .kv_heads = 2, .ffn = 512, .vocab = 256, .layers = layers};
    const redco_measure_shape shape = {.micro_batch = 1, .seq_len = 128};
    redco_model *model = NULL;
    work w = {.count = 0};
    bool *live = NULL;
    redco_status st = redco_measure_llama(&dims, &model, err);
    if (st == REDCO_OK) { st = work_build(model, &shape, REDCO_BFLOAT16, true, backend, &w, err); }
    if (st != REDCO_OK) { goto out; }
    const uint32_t ops = redco_graph_op_count(w.built.graph);
    live = calloc(ops + 1, sizeof *live);
    if (live == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
        goto out;
    }
    redco_graph_live(w.built.graph, w.results, w.count, live);
    *forward_out = *backward_out = 0;
    for (uint32_t i = 0; i < ops; i++) {
        const redco_op *op = redco_graph_op(w.built.graph, i);
        if (!live[i] || op->kind == REDCO_OP_INPUT || op->kind == REDCO_OP_RESHAPE) { continue; }
        *(op->order == 0 ? forward_out : backward_out) += 1;
    }
out:
    free(live);
    work_free(&w);
    redco_model_free(model);
    return st;
}

/* The time that the second of two layers adds. */
redco_status redco_measure_block_operators(redco_backend *backend, uint32_t *forward_out, uint32_t *backward_out,
                                           redco_error *err)
{
    uint32_t forward[2] = {0, 0}, backward[2] = {0, 0};
    redco_status st = count_operators(backend, 1, &forward[0], &backward[0], err);
    if (st == REDCO_OK) { st = count_operators(backend, 2, &forward[1], &backward[1], err); }
    *forward_out = forward[1] - forward[0];
    *backward_out = backward[1] - backward[0];
    return st;
}
