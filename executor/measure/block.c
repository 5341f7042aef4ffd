#include "executor/measure/block.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/differentiate.h"
#include "costmodel/graph/transform.h"
#include "executor/measure/measure_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARAMETERS = 256 };

typedef struct work {
    redco_graph *g;
    const redco_measure_model *model;
    redco_dtype dtype;
    redco_value parameters[MOST_PARAMETERS];
    uint32_t count;
} work;

static redco_value parameter(work *w, uint32_t rank, const uint64_t *dim)
{
    char name[16];
    const redco_tensor_type type = redco_type(w->dtype, rank, dim);
    (void)snprintf(name, sizeof name, "p%u", w->count);
    const redco_value p = redco_parameter(w->g, name, &type);
    if (w->count < MOST_PARAMETERS) { w->parameters[w->count++] = p; }
    return p;
}

static redco_value linear(work *w, redco_op_role role, redco_value x, uint64_t in, uint64_t out)
{
    redco_graph_set_role(w->g, role);
    return redco_matmul(w->g, x, parameter(w, 2, (const uint64_t[]){in, out}), false, false);
}

static redco_value norm(work *w, redco_op_role role, redco_value x)
{
    redco_graph_set_role(w->g, role);
    return redco_rms_norm(w->g, x, parameter(w, 1, &w->model->hidden), 1e-5);
}

/* The residual sum belongs to the norm that reads it. */
static redco_value add_residual(work *w, redco_op_role role, redco_value x, redco_value y)
{
    redco_graph_set_role(w->g, role);
    return redco_add(w->g, x, y);
}

static redco_value heads_of(work *w, redco_value x, uint64_t heads)
{
    const redco_measure_model *m = w->model;
    return redco_reshape(w->g, x, 4, (const uint64_t[]){m->batch, m->sequence, heads, m->hidden / m->heads});
}

static redco_value block(work *w, redco_value x, redco_value cosines, redco_value sines, redco_op_role next_norm)
{
    const redco_measure_model *m = w->model;
    redco_graph *const g = w->g;
    const uint64_t h = m->hidden, kv = h / m->heads * m->kv_heads;
    const redco_value normed = norm(w, REDCO_OP_ROLE_ATTENTION_NORM, x);
    redco_value q = heads_of(w, linear(w, REDCO_OP_ROLE_QKV, normed, h, h), m->heads);
    redco_value k = heads_of(w, linear(w, REDCO_OP_ROLE_QKV, normed, h, kv), m->kv_heads);
    const redco_value v = heads_of(w, linear(w, REDCO_OP_ROLE_QKV, normed, h, kv), m->kv_heads);
    redco_graph_set_role(g, REDCO_OP_ROLE_ROTARY);
    q = redco_rotary(g, q, cosines, sines, false);
    k = redco_rotary(g, k, cosines, sines, false);
    redco_graph_set_role(g, REDCO_OP_ROLE_ATTENTION);
    const redco_value seen = redco_attend(g, q, k, v, REDCO_NO_VALUE, &(redco_attention_options){.causal = true});
    const redco_value joined = redco_reshape(g, seen, 3, (const uint64_t[]){m->batch, m->sequence, h});
    const redco_value middle = add_residual(w, REDCO_OP_ROLE_FFN_NORM, x, linear(w, REDCO_OP_ROLE_OUT, joined, h, h));
    const redco_value in = norm(w, REDCO_OP_ROLE_FFN_NORM, middle);
    const redco_value gate = linear(w, REDCO_OP_ROLE_FFN_IN, in, h, m->ffn),
                      up = linear(w, REDCO_OP_ROLE_FFN_IN, in, h, m->ffn);
    redco_graph_set_role(g, REDCO_OP_ROLE_ACTIVATION);
    const redco_value active = redco_mul(g, redco_silu(g, gate), up);
    return add_residual(w, next_norm, middle, linear(w, REDCO_OP_ROLE_FFN_OUT, active, m->ffn, h));
}

static redco_value whole(work *w)
{
    const redco_measure_model *m = w->model;
    redco_graph *const g = w->g;
    const redco_tensor_type tokens = redco_type(REDCO_I32, 2, (const uint64_t[]){m->batch, m->sequence});
    const redco_tensor_type table =
        redco_type(redco_dtype_statistic(w->dtype), 2,
                   (const uint64_t[]){m->sequence, m->hidden / m->heads / 2}); /* made once, not every step */
    const redco_value cosines = redco_input(g, "cosines", &table), sines = redco_input(g, "sines", &table);
    redco_graph_set_role(g, REDCO_OP_ROLE_EMBEDDING);
    redco_value x = redco_gather(g, parameter(w, 2, (const uint64_t[]){m->vocabulary, m->hidden}),
                                 redco_input(g, "tokens", &tokens), NULL);
    for (uint32_t i = 0; i < m->layers; i++) {
        x = block(w, x, cosines, sines, i + 1 < m->layers ? REDCO_OP_ROLE_ATTENTION_NORM : REDCO_OP_ROLE_FINAL_NORM);
    }
    const redco_value logits =
        linear(w, REDCO_OP_ROLE_HEAD, norm(w, REDCO_OP_ROLE_FINAL_NORM, x), m->hidden, m->vocabulary);
    redco_graph_set_role(g, REDCO_OP_ROLE_LOSS);
    return redco_mean_all(g, redco_cross_entropy(g, logits, redco_input(g, "targets", &tokens), false));
}

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

static void sum_up(const redco_graph *g, const double *op_s, redco_measure_step *step)
{
    for (uint32_t i = 0; i < redco_graph_op_count(g); i++) {
        const redco_op *op = redco_graph_op(g, i);
        if (!isfinite(op_s[i])) { continue; }
        redco_measure_name *name = name_of(step, op->role);
        *(op->order == 0 ? &name->forward_s : &name->backward_s) += op_s[i];
        step->total_s += op_s[i];
    }
}

redco_status redco_measure_model_step(redco_measurer *measurer, const redco_measure_model *model,
                                      redco_measure_step *step_out, redco_error *err)
{
    work w = {.g = redco_graph_create(), .model = model, .dtype = REDCO_F32};
    redco_value results[MOST_PARAMETERS + 1];
    double *op_s = NULL;
    redco_status st = REDCO_OK;
    memset(step_out, 0, sizeof *step_out);
    if (w.g == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    results[0] = whole(&w);
    if ((st = redco_graph_status(w.g, err)) != REDCO_OK) { goto out; }
    redco_gradient(w.g, results[0], w.parameters, w.count, results + 1);
    if (measurer->options.fused && (st = redcoi_measure_fuse(redco_backend_fuse_choice(measurer->backend), &w.g,
                                                             results, w.count + 1, err)) != REDCO_OK) {
        goto out;
    }
    const uint32_t ops = redco_graph_op_count(w.g);
    op_s = malloc((ops + 1) * sizeof *op_s);
    if (op_s == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < ops; i++) { op_s[i] = INFINITY; }
    st = redco_measure_graph(measurer, w.g, results, w.count + 1, model->vocabulary, op_s, err);
    if (st != REDCO_OK) { goto out; }
    sum_up(w.g, op_s, step_out);
    step_out->wall_s = redco_measure_wall_s(measurer);
out:
    free(op_s);
    redco_graph_free(w.g);
    return st;
}

/* Operators of a model of so many layers that have to be run, by the side of the loss that they are on. Sizes are such
 * that libraries have a kernel for all of them; nothing is run. */
static redco_status count_operators(redco_backend *backend, uint32_t layers, uint32_t *forward_out,
                                    uint32_t *backward_out, redco_error *err)
{
    const redco_measure_model model = {.batch = 1,
                                       .sequence = 128,
                                       .hidden = 256,
                                       .heads = 2,
                                       .kv_heads = 2,
                                       .ffn = 512,
                                       .vocabulary = 256,
                                       .layers = layers};
    work w = {.g = redco_graph_create(), .model = &model, .dtype = REDCO_BFLOAT16};
    redco_value results[MOST_PARAMETERS + 1];
    bool *live = NULL;
    redco_status st = REDCO_OK;
    if (w.g == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    results[0] = whole(&w);
    if ((st = redco_graph_status(w.g, err)) != REDCO_OK) { goto out; }
    redco_gradient(w.g, results[0], w.parameters, w.count, results + 1);
    if ((st = redco_graph_status(w.g, err)) != REDCO_OK ||
        (st = redcoi_measure_fuse(redco_backend_fuse_choice(backend), &w.g, results, w.count + 1, err)) != REDCO_OK) {
        goto out;
    }
    const uint32_t ops = redco_graph_op_count(w.g);
    live = calloc(ops + 1, sizeof *live);
    if (live == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
        goto out;
    }
    redco_graph_live(w.g, results, w.count + 1, live);
    *forward_out = *backward_out = 0;
    for (uint32_t i = 0; i < ops; i++) {
        const redco_op *op = redco_graph_op(w.g, i);
        if (!live[i] || op->kind == REDCO_OP_INPUT || op->kind == REDCO_OP_RESHAPE) { continue; }
        *(op->order == 0 ? forward_out : backward_out) += 1;
    }
out:
    free(live);
    redco_graph_free(w.g);
    return st;
}

/* What the second of two layers adds. */
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
