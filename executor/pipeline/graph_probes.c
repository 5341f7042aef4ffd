/* The graphs of a rank for several micro-batches. Which operators are of forward, their order and the lifetimes of
 * values are those of redco-exec's schedule. */
#include "costmodel/graph/transform.h"
#include "executor/backend/host/host_internal.h"
#include "executor/pipeline/pipeline_work_internal.h"

#include <stdlib.h>

enum { PROBED = 8 };

static void free_probe(redcoi_probe *p)
{
    redco_lifetimes_free(&p->lifetimes);
    redco_graph_free(p->graph);
    redco_user_pipeline_task_free(&p->task);
    free(p->outputs);
    free(p->live);
    free(p->pass);
    free(p->order);
    *p = (redcoi_probe){.graph = NULL};
}

/* As trainer.c lays out the graph that runs. */
static redco_status partition(const redcoi_work_maker *m, redcoi_probe *p, const redco_task_graph *built,
                              redco_error *err)
{
    const size_t count = m->parameter_count;
    redco_partition_output *const wanted = calloc(count + 1, sizeof *wanted);
    redco_tp_input *const inputs = calloc(count + 1, sizeof *inputs);
    redco_status st = REDCO_OK;
    if (wanted == NULL || inputs == NULL) {
        st = redcoi_work_no_memory(m, err);
        goto out;
    }
    wanted[0] = (redco_partition_output){built->loss, NULL};
    for (size_t i = 0, at = 1; i < count; i++) {
        inputs[i] = (redco_tp_input){.name = m->parameters[i].name, .layout = m->layouts[i]};
        if (built->gradients[i] == REDCO_NO_VALUE) { continue; }
        wanted[at++] = (redco_partition_output){built->gradients[i], m->parameters[i].name};
    }
    const uint64_t length = 1;
    const redco_partition_options options = {.group = {0, m->tp},
                                             .inputs = inputs,
                                             .input_count = (uint32_t)count,
                                             .batch = p->examples,
                                             .sequences = &length,
                                             .sequence_count = 1};
    st = redco_partition(built->graph, wanted, p->output_count, &options, &p->graph, p->outputs, err);
out:
    free(wanted);
    free(inputs);
    return st;
}

/* As bind.c has them: by the order of their derivative, and never before what they read; what reads nothing comes with
 * its first reader. */
static void find_passes(redcoi_probe *p)
{
    const uint32_t count = redco_graph_op_count(p->graph);
    for (uint32_t i = 0; i < count; i++) {
        const redco_op *const op = redco_graph_op(p->graph, i);
        p->pass[i] = op->order > 0 ? REDCOI_BACKWARD : REDCOI_FORWARD;
        for (uint32_t k = 0; k < op->input_count; k++) {
            const redco_op *const maker = redco_value_op(p->graph, op->inputs[k]);
            const bool source = redco_op_kind_class(maker->kind) == REDCO_CLASS_SOURCE;
            if (!source && p->pass[maker->id] > p->pass[i]) { p->pass[i] = p->pass[maker->id]; }
        }
        if (op->input_count == 0 && op->kind != REDCO_OP_INPUT) { p->pass[i] = REDCOI_LATER; }
    }
    for (uint32_t i = count; i-- > 0;) {
        const redco_op *const op = redco_graph_op(p->graph, i);
        for (uint32_t k = 0; p->live[i] && p->pass[i] != REDCOI_LATER && k < op->input_count; k++) {
            const redco_op *const maker = redco_value_op(p->graph, op->inputs[k]);
            uint8_t *const pass = &p->pass[maker->id];
            if (maker->input_count == 0 && maker->kind != REDCO_OP_INPUT &&
                (*pass == REDCOI_LATER || *pass > p->pass[i])) {
                *pass = p->pass[i];
            }
        }
    }
    for (uint32_t i = 0; i < count; i++) { /* nothing reads it: a gradient that is a number */
        if (p->live[i] && p->pass[i] == REDCOI_LATER) { p->pass[i] = REDCOI_BACKWARD; }
    }
    for (int pass = REDCOI_FORWARD; pass <= REDCOI_BACKWARD; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            if (p->live[i] && redco_graph_op(p->graph, i)->kind != REDCO_OP_INPUT && p->pass[i] == pass) {
                p->order[p->order_count++] = i;
            }
        }
    }
}

/* Devices compute in 16 bits; their workspaces the engine's traits have. */
static uint64_t device_workspace(const redco_backend *backend, const redco_launch *launch)
{
    const redco_dtype dtype = launch->output_count > 0 ? launch->outputs[0].type.dtype : REDCO_F32;
    (void)backend;
    return dtype == REDCO_BFLOAT16 ? 0 : redcoi_kernel_workspace_bytes(launch, sizeof(float));
}

/* As graph_collectives.c needs it. */
static uint64_t collective_workspace(void *context, const redco_launch *launch)
{
    uint64_t outer = 1;
    (void)context;
    for (uint32_t d = 0; d < launch->attributes->axis[0]; d++) { outer *= launch->inputs[0].type.dim[d]; }
    if (launch->kind == REDCO_OP_ALL_REDUCE || outer == 1) { return 0; }
    return redco_type_bytes(launch->kind == REDCO_OP_ALL_GATHER ? &launch->outputs[0].type : &launch->inputs[0].type);
}

/* @param device  computes in 16 bits; else processors do, as they do in 32 */
static redco_status find_lifetimes(const redcoi_work_maker *m, redcoi_probe *p, bool device, redco_error *err)
{
    static const redco_backend_calls devices = {.name = "plan", .workspace_bytes = device_workspace},
                                     processors = {.name = "plan", .workspace_bytes = redcoi_host_workspace_bytes};
    redco_backend backend = {device ? &devices : &processors};
    const redco_collectives collectives = {.workspace_bytes = collective_workspace};
    const redco_lifetimes_options options = {.backend = &backend,
                                             .collectives = m->tp > 1 ? &collectives : NULL,
                                             .order = p->order,
                                             .order_count = p->order_count,
                                             .outside = p->outputs + 1,
                                             .outside_count = p->output_count - 1,
                                             .outside_early = true,
                                             .kept = p->outputs,
                                             .kept_count = 1};
    return redco_lifetimes_find(p->graph, &options, &p->lifetimes, err);
}

static redco_status make_probe(const redcoi_work_maker *m, redcoi_probe *p, uint32_t examples, redco_dtype dtype,
                               redco_error *err)
{
    const redco_task_options options = {dtype, dtype, true, true, 1};
    redco_task_graph built = {.graph = NULL};
    const size_t count = m->parameter_count;
    p->examples = examples;
    p->output_count = 1;
    p->outputs = calloc(count + 1, sizeof *p->outputs);
    if (p->outputs == NULL) { return redcoi_work_no_memory(m, err); }
    redco_status st = redco_user_pipeline_task(m->file, examples, &p->task, err);
    if (st == REDCO_OK) { st = redco_task_build(&p->task, &options, &built, err); }
    if (st == REDCO_OK) { st = redco_user_pipeline_check_gradients(m->file, &built, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        if (built.gradients[i] != REDCO_NO_VALUE) { p->outputs[p->output_count++] = built.gradients[i]; }
    }
    if (st == REDCO_OK && m->tp > 1) {
        st = partition(m, p, &built, err);
    } else if (st == REDCO_OK) {
        p->outputs[0] = built.loss;
        p->graph = built.graph;
        built.graph = NULL;
    }
    redco_task_graph_free(&built);
    if (st != REDCO_OK) { return st; }
    const size_t ops = (size_t)redco_graph_op_count(p->graph) + 1;
    p->live = calloc(ops, sizeof *p->live);
    p->pass = calloc(ops, sizeof *p->pass);
    p->order = calloc(ops, sizeof *p->order);
    if (p->live == NULL || p->pass == NULL || p->order == NULL) { return redcoi_work_no_memory(m, err); }
    redco_graph_live(p->graph, p->outputs, p->output_count, p->live);
    find_passes(p);
    return find_lifetimes(m, p, dtype == REDCO_BFLOAT16, err);
}

/* @return whether two micro-batches' graphs have the same operators and intervals. */
static bool alike(const redcoi_probe *a, const redcoi_probe *b)
{
    bool same = a->order_count == b->order_count && a->lifetimes.interval_count == b->lifetimes.interval_count;
    for (uint32_t i = 0; same && i < a->order_count; i++) {
        const redco_op *const x = redco_graph_op(a->graph, a->order[i]), *const y =
                                                                             redco_graph_op(b->graph, b->order[i]);
        same = x->kind == y->kind && x->input_count == y->input_count && x->output_count == y->output_count;
    }
    for (uint32_t i = 0; same && i < a->lifetimes.interval_count; i++) {
        const redco_interval *const x = &a->lifetimes.intervals[i], *const y = &b->lifetimes.intervals[i];
        same = x->first == y->first && x->last == y->last;
    }
    return same;
}
uint32_t redcoi_first_examples(const redcoi_work_maker *m)
{
    return m->options->micro_batch > 0 ? m->options->micro_batch : PROBED;
}

redco_status redcoi_probes_make(redcoi_work_maker *m, redco_dtype dtype, redco_error *err)
{
    const uint32_t first = redcoi_first_examples(m);
    redco_status st = REDCO_OK;
    m->probe_count = m->work->examples > 0 ? 1 : REDCOI_PROBES;
    for (uint32_t p = 0; p < m->probe_count && st == REDCO_OK; p++) {
        st = make_probe(m, &m->probes[p], first * (p + 1), dtype, err);
        if (st != REDCO_OK || p == 0 || alike(&m->probes[0], &m->probes[p])) { continue; }
        if (m->options->micro_batch == 0) {
            return redco_fail(err, REDCO_EVALUE, m->place,
                              "the loss of %u examples builds another graph than that of %u: give --micro-batch", first,
                              first * (p + 1));
        }
        m->work->examples = first;
        m->probe_count = 1;
    }
    return st;
}

redco_status redcoi_probes_widen(redcoi_work_maker *m, bool *widened_out, redco_error *err)
{
    *widened_out = true;
    for (uint32_t i = 0; i < m->probe_count; i++) {
        redcoi_probe *const p = &m->probes[i];
        redco_lifetimes_free(&p->lifetimes);
        const redco_status st = find_lifetimes(m, p, false, err);
        if (st != REDCO_OK) { return st; }
        *widened_out = *widened_out && (i == 0 || alike(&m->probes[0], p));
    }
    return REDCO_OK;
}

void redcoi_probes_free(redcoi_work_maker *m)
{
    for (uint32_t p = 0; p < REDCOI_PROBES; p++) { free_probe(&m->probes[p]); }
}

static redco_value root_of(const redco_graph *graph, redco_value value)
{
    const redco_op *op = redco_value_op(graph, value);
    for (; redco_op_is_view(op->kind); op = redco_value_op(graph, value)) { value = op->inputs[0]; }
    return value;
}

/* Passes that read a value or a view of it. */
static uint8_t readers_of(const redcoi_probe *p, redco_value value)
{
    uint8_t passes = 0;
    for (uint32_t i = 0; i < p->order_count; i++) {
        const redco_op *const op = redco_graph_op(p->graph, p->order[i]);
        for (uint32_t k = 0; k < op->input_count && !redco_op_is_view(op->kind); k++) {
            if (root_of(p->graph, op->inputs[k]) == value) { passes |= (uint8_t)(1U << p->pass[op->id]); }
        }
    }
    return passes;
}

void redcoi_probes_passes(redcoi_work_maker *m)
{
    const redcoi_probe *const p = &m->probes[0];
    uint32_t output = 1;
    for (size_t i = 0; i < m->parameter_count; i++) {
        if (m->parameters[i].training == REDCO_FROZEN) { continue; }
        const redco_value gradient = root_of(p->graph, p->outputs[output++]);
        const uint32_t maker = redco_value_op(p->graph, gradient)->id;
        m->gradient_in[i] = (uint8_t)(1U << p->pass[maker]) | readers_of(p, gradient);
    }
}
