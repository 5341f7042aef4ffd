#include "executor/measure/graph_passes.h"

#include "executor/measure/measure_internal.h"
#include "executor/memory_plan/lifetimes.h"
#include "topology/base/clock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A round's passes: until so much time is spent, but at least so many. */
enum { LEAST_PASSES = 4, MOST_PASSES = 2048, HURRIED_PASSES = 2, CLOCKS = 32 };
static const double round_s = 0.25;
static const double least_s = 1e-9; /* a row of a profile is above 0 */

struct redcoi_graph_pass {
    redco_measure_graph_of of;
    char (*names)[REDCO_MEASURED_AS]; /* by part: rows of the profile; the batch is the last */
    uint32_t *order;
    redco_value *outputs;
    uint32_t *part_of; /* by operator; REDCO_NO_OP: it has no row */
    double *part_s;    /* by part, of the last round */
    uint32_t part_count;
    bool placed;
    redco_lifetimes lifetimes;
    uint64_t *offset, *workspace_at; /* by value; by step */
    uint64_t bytes;
    redco_launch *launches; /* by step */
    redco_tensor *tensors;
    redco_value key;    /* random numbers depend on it; REDCO_NO_VALUE: none are drawn */
    int32_t key_now[2]; /* in this pass */
    void **batch;       /* by input of a batch */
    unsigned char *staging;
    double *samples; /* [MOST_PASSES][steps and the batch], while it runs */
};

static redco_status short_memory(redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
}

static void free_pass(redcoi_graph_pass *p)
{
    if (p == NULL) { return; }
    redco_graph_free(p->of.graph);
    redco_lifetimes_free(&p->lifetimes);
    for (uint32_t i = 0; p->batch != NULL && i < p->of.input_count; i++) { free(p->batch[i]); }
    free((void *)p->batch);
    free(p->staging);
    free(p->names);
    free(p->order);
    free(p->outputs);
    free(p->part_of);
    free(p->part_s);
    free(p->offset);
    free(p->workspace_at);
    free(p->launches);
    free(p->tensors);
    free(p);
}

/* Whole numbers that no batch gives are rows or classes of something, below so many. */
static uint64_t bound_of(const redco_graph *graph, const redco_op *op)
{
    const redco_tensor_type *const first = redco_value_type(graph, op->inputs[0]);
    switch (op->kind) {
    case REDCO_OP_GATHER: return first->dim[0];
    case REDCO_OP_SCATTER_ADD:
    case REDCO_OP_UNPICK: return op->attributes.size[0];
    case REDCO_OP_PICK:
    case REDCO_OP_CROSS_ENTROPY:
    case REDCO_OP_CROSS_ENTROPY_GRAD: return first->rank > 0 ? first->dim[first->rank - 1] : 1;
    default: return UINT64_MAX;
    }
}

/* The least of its readers, views of it included. */
static uint64_t index_bound(const redco_graph *graph, redco_value value)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = redco_value_op(graph, value)->id + 1; i < redco_graph_op_count(graph); i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        for (uint32_t k = 0; k < op->input_count; k++) {
            if (op->inputs[k] != value) { continue; }
            const uint64_t bound =
                redco_op_is_view(op->kind) ? index_bound(graph, op->first_output) : bound_of(graph, op);
            least = bound < least ? bound : least;
        }
    }
    return least;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + REDCO_ALIGNMENT_BYTES - 1) / REDCO_ALIGNMENT_BYTES * REDCO_ALIGNMENT_BYTES;
}

static uint64_t no_workspace(void *context, const redco_launch *launch)
{
    (void)context;
    (void)launch;
    return 0;
}

static const redco_op *op_at(const redcoi_graph_pass *p, uint32_t step)
{
    return redco_graph_op(p->of.graph, p->lifetimes.order[step]);
}

/* Inputs lie in front of an arena that is planned as a step's. */
static redco_status place(redcoi_graph_pass *p, redco_error *err)
{
    const redco_graph *const graph = p->of.graph;
    const redco_lifetimes *const l = &p->lifetimes;
    uint64_t *const at = calloc((size_t)l->interval_count + 1, sizeof *at);
    redco_arena arena = {.bytes = 0};
    uint64_t inputs_bytes = 0;
    if (at == NULL) { return short_memory(err); }
    const redco_status st = redco_arena_plan(l->intervals, l->interval_count, REDCO_ALIGNMENT_BYTES, at, &arena, err);
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        if (op->kind != REDCO_OP_INPUT) { continue; }
        p->offset[op->first_output] = inputs_bytes;
        inputs_bytes += aligned(redco_type_bytes(redco_value_type(graph, op->first_output)));
    }
    for (uint32_t v = 0; v < l->value_count; v++) {
        const redco_value_place where = l->place[v];
        if (where.kind == REDCO_PLACE_ARENA) { p->offset[v] = inputs_bytes + at[where.index]; }
        if (where.kind == REDCO_PLACE_INPUT) { p->offset[v] = p->offset[where.index]; }
    }
    for (uint32_t s = 0; s < l->step_count; s++) {
        const uint32_t interval = l->workspace[l->order[s]];
        p->workspace_at[s] = interval != REDCO_NO_INTERVAL ? inputs_bytes + at[interval] : UINT64_MAX;
    }
    p->bytes = inputs_bytes + arena.bytes;
    free(at);
    return st;
}

/* Memory that only a measuring rank takes. */
static redco_status lay_out(redcoi_graph_pass *p, redco_backend *backend, redco_error *err)
{
    const redco_collectives collectives = {.workspace_bytes = no_workspace};
    const redco_lifetimes_options options = {.backend = backend,
                                             .collectives = &collectives,
                                             .order = p->order,
                                             .order_count = p->of.order_count,
                                             .kept = p->outputs,
                                             .kept_count = p->of.output_count};
    redco_status st = redco_lifetimes_find(p->of.graph, &options, &p->lifetimes, err);
    if (st != REDCO_OK) { return st; }
    const size_t steps = p->lifetimes.step_count;
    size_t tensors = 0;
    uint64_t staged_bytes = 0;
    for (uint32_t s = 0; s < steps; s++) { tensors += op_at(p, s)->input_count + op_at(p, s)->output_count; }
    for (uint32_t i = 0; i < p->of.input_count; i++) { staged_bytes += p->of.input_bytes[i]; }
    p->offset = calloc((size_t)p->lifetimes.value_count + 1, sizeof *p->offset);
    p->workspace_at = calloc(steps + 1, sizeof *p->workspace_at);
    p->launches = calloc(steps + 1, sizeof *p->launches);
    p->tensors = calloc(tensors + 1, sizeof *p->tensors);
    p->batch = calloc((size_t)p->of.input_count + 1, sizeof(void *));
    p->staging = malloc(staged_bytes + 1);
    bool enough = p->offset && p->workspace_at && p->launches && p->tensors && p->batch && p->staging;
    for (uint32_t i = 0; enough && i < p->of.input_count; i++) {
        p->batch[i] = calloc(1, p->of.input_bytes[i] + 1);
        enough = p->batch[i] != NULL;
    }
    st = enough ? place(p, err) : short_memory(err);
    p->placed = st == REDCO_OK;
    return st;
}

/* The arena of the measurer, which later graphs may have made larger. */
static void bind(redcoi_graph_pass *p, void *arena)
{
    unsigned char *const base = arena;
    redco_tensor *next = p->tensors;
    for (uint32_t s = 0; s < p->lifetimes.step_count; s++) {
        const redco_op *const op = op_at(p, s);
        const redco_tensor *const inputs = next;
        for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
            const redco_value v = k < op->input_count ? op->inputs[k] : op->first_output + k - op->input_count;
            *next++ = (redco_tensor){*redco_value_type(p->of.graph, v), base + p->offset[v]};
        }
        p->launches[s] =
            (redco_launch){.kind = op->kind,
                           .attributes = &op->attributes,
                           .input_count = op->input_count,
                           .output_count = op->output_count,
                           .inputs = inputs,
                           .outputs = inputs + op->input_count,
                           .workspace = p->workspace_at[s] == UINT64_MAX ? NULL : base + p->workspace_at[s],
                           .name = redco_op_kind_name(op->kind)};
    }
}

/* Small numbers everywhere: what is left of other graphs might not be finite. */
static redco_status fill(redco_measurer *m, const redcoi_graph_pass *p, redco_error *err)
{
    const redco_graph *const graph = p->of.graph;
    unsigned char *const arena = m->arena;
    m->numbers = REDCO_NUMBERS_NORMAL;
    redco_status st = redcoi_measure_fill(m, arena, p->bytes, REDCO_F32, 0, err);
    for (uint32_t i = 0; i < redco_graph_op_count(graph) && st == REDCO_OK; i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        const redco_tensor_type *const type = redco_value_type(graph, op->first_output);
        if (op->kind != REDCO_OP_INPUT || type->dtype == REDCO_F32) { continue; }
        const uint64_t bound = type->dtype == REDCO_I32 ? index_bound(graph, op->first_output) : 0;
        st = redcoi_measure_fill(m, arena + p->offset[op->first_output], redco_type_bytes(type), type->dtype,
                                 bound == UINT64_MAX ? 2 : bound, err);
    }
    m->numbers = REDCO_NUMBERS_UNIFORM;
    return st;
}

/* As the executor feeds a micro-batch: collated, kept for the device, copied to it. */
static redco_status take_batch(redco_measurer *m, const redcoi_graph_pass *p, redco_error *err)
{
    const redco_measure_graph_of *const of = &p->of;
    unsigned char *at = p->staging;
    redco_status st = of->next(of->context, of->examples, p->batch, err);
    for (uint32_t i = 0; i < of->input_count && st == REDCO_OK; i++) {
        const redco_value v = redco_graph_find_input(of->graph, of->inputs[i]);
        if (v == REDCO_NO_VALUE) { continue; }
        const uint64_t bytes = redco_type_bytes(redco_value_type(of->graph, v));
        memcpy(at, p->batch[i], bytes);
        st = m->backend->calls->copy(m->backend, m->stream, (unsigned char *)m->arena + p->offset[v], at, bytes, err);
        at += bytes;
    }
    return st;
}

/* Every micro-batch draws other numbers: of the same ones over and over a processor learns the branches. */
static redco_status renew_key(redco_measurer *m, redcoi_graph_pass *p, uint32_t pass, redco_error *err)
{
    if (p->key == REDCO_NO_VALUE) { return REDCO_OK; }
    p->key_now[0] = (int32_t)pass;
    return m->backend->calls->copy(m->backend, m->stream, (unsigned char *)m->arena + p->offset[p->key], p->key_now,
                                   sizeof p->key_now, err);
}

/* Ranks do not meet here: what a collective would bring is the rank's own. */
static redco_status run_step(redco_measurer *m, const redco_launch *launch, redco_error *err)
{
    if (redco_op_kind_class(launch->kind) != REDCO_CLASS_COLLECTIVE) {
        return m->backend->calls->run(m->backend, m->stream, launch, err);
    }
    const uint64_t from = redco_type_bytes(&launch->inputs[0].type), to = redco_type_bytes(&launch->outputs[0].type);
    return m->backend->calls->copy(m->backend, m->stream, launch->outputs[0].data, launch->inputs[0].data,
                                   from < to ? from : to, err);
}

/* A pass's samples lie together, so that writing them down leaves the caches alone. */
static double *samples_of(const redcoi_graph_pass *p, uint32_t pass)
{
    return p->samples + (size_t)pass * (p->lifetimes.step_count + 1);
}

static redco_status run_pass(redco_measurer *m, redcoi_graph_pass *p, uint32_t pass, redco_error *err)
{
    const uint32_t steps = p->lifetimes.step_count;
    redco_status st = renew_key(m, p, pass, err);
    const double began_s = redco_now_s(), used_s = redco_thread_s();
    double before_s = redco_now_s();
    if (p->of.next != NULL && st == REDCO_OK) {
        st = take_batch(m, p, err);
        const double now_s = redco_now_s();
        samples_of(p, pass)[steps] = now_s - before_s;
        before_s = now_s;
    }
    for (uint32_t s = 0; s < steps && st == REDCO_OK; s++) {
        st = run_step(m, &p->launches[s], err);
        const double now_s = redco_now_s();
        samples_of(p, pass)[s] = now_s - before_s;
        before_s = now_s;
    }
    const double wall_s = before_s - began_s, processor_s = redco_thread_s() - used_s;
    m->all_wall_s += wall_s;
    m->all_processor_s += m->options.processor_time ? processor_s : wall_s;
    return st;
}

/* A reading of the clock, which each sample has. */
static double clock_s(void)
{
    double samples[CLOCKS];
    for (uint32_t i = 0; i < CLOCKS; i++) {
        const double before_s = redco_now_s();
        samples[i] = redco_now_s() - before_s;
    }
    return redcoi_measure_undisturbed_s(samples, CLOCKS);
}

/* Operators of one name take the mean of their times. */
static void conclude(const redcoi_graph_pass *p, uint32_t passes)
{
    const uint32_t steps = p->lifetimes.step_count, batches = p->of.next != NULL ? 1 : 0;
    const double each_clock_s = clock_s();
    double each[MOST_PASSES], *const taken_s = samples_of(p, 0);
    for (uint32_t s = 0; s < steps + batches; s++) {
        for (uint32_t pass = 0; pass < passes; pass++) { each[pass] = samples_of(p, pass)[s]; }
        taken_s[s] = fmax(least_s, redcoi_measure_undisturbed_s(each, passes) - each_clock_s);
    }
    for (uint32_t part = 0; part + batches < p->part_count; part++) {
        double sum_s = 0.0;
        uint32_t times = 0;
        for (uint32_t s = 0; s < steps; s++) {
            if (p->part_of[p->lifetimes.order[s]] != part) { continue; }
            sum_s += taken_s[s];
            times++;
        }
        p->part_s[part] = times > 0 ? sum_s / times : 0.0;
    }
    if (batches > 0) { p->part_s[p->part_count - 1] = taken_s[steps]; }
}

redco_status redcoi_graph_pass_run(redco_measurer *m, redcoi_graph_pass *p, redco_error *err)
{
    const uint32_t least = m->options.case_s > 0.0 ? LEAST_PASSES : HURRIED_PASSES;
    redco_status st = p->placed ? REDCO_OK : lay_out(p, m->backend, err);
    if (st == REDCO_OK) { st = redcoi_measure_arena(m, p->bytes, err); }
    if (st == REDCO_OK) { st = fill(m, p, err); }
    if (st != REDCO_OK) { return st; }
    bind(p, m->arena);
    p->samples = calloc(((size_t)p->lifetimes.step_count + 1) * MOST_PASSES, sizeof *p->samples);
    if (p->samples == NULL) { return short_memory(err); }
    st = run_pass(m, p, 0, err); /* warms up */
    const double began_s = redco_now_s();
    uint32_t passes = 0;
    while (st == REDCO_OK && passes < MOST_PASSES && (passes < least || redco_now_s() - began_s < round_s)) {
        st = run_pass(m, p, passes++, err);
    }
    if (st == REDCO_OK) { conclude(p, passes); }
    free(p->samples);
    p->samples = NULL;
    return st;
}

double redcoi_graph_pass_s(const redcoi_graph_pass *pass, uint32_t part)
{
    return pass->part_s[part];
}

static redco_status add_case(redco_measure_ops *ops, redcoi_graph_pass *pass, uint32_t part, redco_error *err)
{
    if (ops->count == ops->capacity) {
        const size_t capacity = 2 * ops->capacity + 64;
        redco_measure_case *const more = realloc(ops->cases, capacity * sizeof *more);
        if (more == NULL) { return short_memory(err); }
        ops->cases = more;
        ops->capacity = capacity;
    }
    redco_measure_case *const one = &ops->cases[ops->count++];
    *one = (redco_measure_case){.kind = REDCO_MEASURE_GRAPH,
                                .dtype = REDCO_F32,
                                .rows = pass->of.examples,
                                .columns = 1,
                                .forward_s = INFINITY,
                                .backward_s = INFINITY,
                                .pass = pass,
                                .part = part,
                                .measured_as = pass->names[part]};
    return REDCO_OK;
}

static uint32_t part_named(redcoi_graph_pass *p, const char *name)
{
    uint32_t part = 0;
    while (part < p->part_count && strcmp(p->names[part], name) != 0) { part++; }
    if (part == p->part_count) { (void)snprintf(p->names[p->part_count++], REDCO_MEASURED_AS, "%s", name); }
    return part;
}

redco_status redco_measure_ops_add(redco_measure_ops *ops, const redco_measure_graph_of *of, redco_error *err)
{
    redcoi_graph_pass *const p = calloc(1, sizeof *p);
    redcoi_graph_pass **const more = realloc((void *)ops->passes, (ops->pass_count + 1) * sizeof *more);
    if (more != NULL) { ops->passes = more; }
    if (p == NULL || more == NULL) {
        free(p);
        redco_graph_free(of->graph);
        return short_memory(err);
    }
    ops->passes[ops->pass_count++] = p;
    p->of = *of;
    p->key = redco_graph_find_input(of->graph, "key");
    const uint32_t op_count = redco_graph_op_count(of->graph);
    p->part_of = malloc(((size_t)op_count + 1) * sizeof *p->part_of);
    p->names = calloc((size_t)of->order_count + 2, sizeof *p->names);
    p->part_s = calloc((size_t)of->order_count + 2, sizeof *p->part_s);
    p->order = calloc((size_t)of->order_count + 1, sizeof *p->order);
    p->outputs = calloc((size_t)of->output_count + 1, sizeof *p->outputs);
    if (!p->part_of || !p->names || !p->part_s || !p->order || !p->outputs) { return short_memory(err); }
    memcpy(p->order, of->order, of->order_count * sizeof *p->order);
    memcpy(p->outputs, of->outputs, of->output_count * sizeof *p->outputs);
    for (uint32_t i = 0; i < op_count; i++) { p->part_of[i] = REDCO_NO_OP; }
    for (uint32_t i = 0; i < of->order_count; i++) {
        if (of->measured_as[i][0] != '\0') { p->part_of[of->order[i]] = part_named(p, of->measured_as[i]); }
    }
    if (of->next != NULL) { (void)part_named(p, of->batch_measured_as); }
    redco_status st = REDCO_OK;
    for (uint32_t part = 0; part < p->part_count && st == REDCO_OK; part++) { st = add_case(ops, p, part, err); }
    return st;
}

void redco_measure_ops_free(redco_measure_ops *ops)
{
    for (size_t i = 0; i < ops->pass_count; i++) { free_pass(ops->passes[i]); }
    free((void *)ops->passes);
    free(ops->cases);
    *ops = (redco_measure_ops){.count = 0};
}
