/* From the graphs of three micro-batches to operators and values whose sizes are polynomials of the micro-batch. Which
 * operators are of forward, their order and the lifetimes of values are those of redco-exec's schedule. */
#include "executor/pipeline/pipeline_work.h"

#include "costmodel/graph/transform.h"
#include "costmodel/layouts/partition.h"
#include "executor/backend/host/kernels.h"
#include "executor/memory_plan/lifetimes.h"
#include "planner/rules/rules_params.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PROBES = 3, PROBED = 8, FORWARD = 0, BACKWARD = 1, LATER = 2, MOST_CANDIDATES = 20 };

/* The graph of one rank for one micro-batch. */
struct probe {
    uint32_t examples;
    redco_task task;
    redco_graph *graph;
    redco_value *outputs; /* the loss, then the gradients of what is not frozen */
    uint32_t output_count;
    bool *live;
    uint8_t *pass;   /* by operator */
    uint32_t *order; /* operators of forward, then of backward */
    uint32_t order_count;
    redco_lifetimes lifetimes;
};

struct maker {
    const redco_user_pipeline_file *file;
    const redco_pipeline_work_options *options;
    const redco_task_parameter *parameters;
    size_t parameter_count;
    const char *place;
    bool *tables;             /* parameters of which rows are looked up */
    redco_rules_param *rules; /* paths and shapes of the parameters */
    redco_tp_layout *layouts; /* layouts for the degree at work */
    uint32_t tp;
    struct probe probes[PROBES];
    uint32_t probe_count;
    redco_graph_work *work;
};

static redco_status no_memory(const struct maker *m, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, m->place, "out of memory");
}

static void free_probe(struct probe *p)
{
    redco_lifetimes_free(&p->lifetimes);
    redco_graph_free(p->graph);
    redco_user_pipeline_task_free(&p->task);
    free(p->outputs);
    free(p->live);
    free(p->pass);
    free(p->order);
    *p = (struct probe){.graph = NULL};
}

/* As trainer.c lays out the graph that runs. */
static redco_status partition(const struct maker *m, struct probe *p, const redco_task_graph *built, redco_error *err)
{
    const size_t count = m->parameter_count;
    redco_partition_output *const wanted = calloc(count + 1, sizeof *wanted);
    redco_tp_input *const inputs = calloc(count + 1, sizeof *inputs);
    redco_status st = REDCO_OK;
    if (wanted == NULL || inputs == NULL) {
        st = no_memory(m, err);
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
static void find_passes(struct probe *p)
{
    const uint32_t count = redco_graph_op_count(p->graph);
    for (uint32_t i = 0; i < count; i++) {
        const redco_op *const op = redco_graph_op(p->graph, i);
        p->pass[i] = op->order > 0 ? BACKWARD : FORWARD;
        for (uint32_t k = 0; k < op->input_count; k++) {
            const redco_op *const maker = redco_value_op(p->graph, op->inputs[k]);
            const bool source = redco_op_kind_class(maker->kind) == REDCO_CLASS_SOURCE;
            if (!source && p->pass[maker->id] > p->pass[i]) { p->pass[i] = p->pass[maker->id]; }
        }
        if (op->input_count == 0 && op->kind != REDCO_OP_INPUT) { p->pass[i] = LATER; }
    }
    for (uint32_t i = count; i-- > 0;) {
        const redco_op *const op = redco_graph_op(p->graph, i);
        for (uint32_t k = 0; p->live[i] && p->pass[i] != LATER && k < op->input_count; k++) {
            const redco_op *const maker = redco_value_op(p->graph, op->inputs[k]);
            uint8_t *const pass = &p->pass[maker->id];
            if (maker->input_count == 0 && maker->kind != REDCO_OP_INPUT && (*pass == LATER || *pass > p->pass[i])) {
                *pass = p->pass[i];
            }
        }
    }
    for (int pass = FORWARD; pass <= BACKWARD; pass++) {
        for (uint32_t i = 0; i < count; i++) {
            if (p->live[i] && redco_graph_op(p->graph, i)->kind != REDCO_OP_INPUT && p->pass[i] == pass) {
                p->order[p->order_count++] = i;
            }
        }
    }
}

/* Kernels on processors compute in 32 bits; 16 bits are for devices, whose workspaces the engine's traits have. */
static uint64_t workspace_bytes(const redco_backend *backend, const redco_launch *launch)
{
    (void)backend;
    const redco_dtype dtype = launch->output_count > 0 ? launch->outputs[0].type.dtype : REDCO_F32;
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

static redco_status find_lifetimes(const struct maker *m, struct probe *p, redco_error *err)
{
    static const redco_backend_calls calls = {.name = "plan", .workspace_bytes = workspace_bytes};
    redco_backend backend = {&calls};
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

static redco_status make_probe(const struct maker *m, struct probe *p, uint32_t examples, redco_dtype dtype,
                               redco_error *err)
{
    const redco_task_options options = {dtype, dtype, true, true, 1};
    redco_task_graph built = {.graph = NULL};
    const size_t count = m->parameter_count;
    p->examples = examples;
    p->output_count = 1;
    p->outputs = calloc(count + 1, sizeof *p->outputs);
    if (p->outputs == NULL) { return no_memory(m, err); }
    redco_status st = redco_user_pipeline_task(m->file, examples, &p->task, err);
    if (st == REDCO_OK) { st = redco_task_build(&p->task, &options, &built, err); }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        if (built.gradients[i] != REDCO_NO_VALUE) {
            p->outputs[p->output_count++] = built.gradients[i];
        } else if (m->parameters[i].training != REDCO_FROZEN) {
            st = redco_fail(err, REDCO_EVALUE, m->place, "the loss does not depend on the parameter %s",
                            m->parameters[i].name);
        }
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
    if (p->live == NULL || p->pass == NULL || p->order == NULL) { return no_memory(m, err); }
    redco_graph_live(p->graph, p->outputs, p->output_count, p->live);
    find_passes(p);
    return find_lifetimes(m, p, err);
}

/* @return whether two micro-batches' graphs have the same operators and intervals. */
static bool alike(const struct probe *a, const struct probe *b)
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

/* The polynomial through the probes, whose micro-batches are one, two and three times the first. */
static redco_count fit(const struct maker *m, const double f[PROBES])
{
    if (m->probe_count == 1) { return (redco_count){{f[0]}}; }
    const double b = m->probes[0].examples;
    redco_count c;
    c.of[2] = (f[2] - 2.0 * f[1] + f[0]) / (2.0 * b * b);
    c.of[1] = (f[1] - f[0]) / b - 3.0 * b * c.of[2];
    c.of[0] = f[0] - b * (c.of[1] + b * c.of[2]);
    for (uint32_t i = 0; i < REDCO_COUNT_TERMS; i++) {
        if (fabs(c.of[i] - rint(c.of[i])) < 1e-6) { c.of[i] = rint(c.of[i]) + 0.0; }
    }
    return c;
}

/* An operand of the operators that stand at one place of the orders. */
struct operand {
    uint32_t at, number;
    bool result;
};

static const redco_op *op_at(const struct maker *m, uint32_t probe, uint32_t at)
{
    return redco_graph_op(m->probes[probe].graph, m->probes[probe].order[at]);
}

static const redco_tensor_type *type_of(const struct maker *m, uint32_t probe, struct operand x)
{
    const redco_op *const op = op_at(m, probe, x.at);
    return redco_value_type(m->probes[probe].graph, x.result ? op->first_output + x.number : op->inputs[x.number]);
}

static struct operand input_of(uint32_t at, uint32_t number)
{
    return (struct operand){at, number, false};
}

static struct operand result_of(uint32_t at)
{
    return (struct operand){at, 0, true};
}

/* A dimension, counted from the last. 1 where there are fewer. */
static redco_count dim_of(const struct maker *m, struct operand x, uint32_t from_end)
{
    double f[PROBES] = {0.0};
    for (uint32_t p = 0; p < m->probe_count; p++) {
        const redco_tensor_type *const type = type_of(m, p, x);
        f[p] = from_end < type->rank ? (double)type->dim[type->rank - 1 - from_end] : 1.0;
    }
    return fit(m, f);
}

/* The product of all dimensions but so many last ones. */
static redco_count leading_of(const struct maker *m, struct operand x, uint32_t last)
{
    double f[PROBES] = {0.0};
    for (uint32_t p = 0; p < m->probe_count; p++) {
        const redco_tensor_type *const type = type_of(m, p, x);
        f[p] = 1.0;
        for (uint32_t d = 0; d + last < type->rank; d++) { f[p] *= (double)type->dim[d]; }
    }
    return fit(m, f);
}

static void size_attention(const struct maker *m, uint32_t at, redco_work_op *out)
{
    double heads[PROBES] = {0.0};
    for (uint32_t p = 0; p < m->probe_count; p++) {
        const redco_tensor_type *const q = type_of(m, p, input_of(at, 0)); /* [batch, length, heads, size] */
        heads[p] = (double)q->dim[0] * (double)q->dim[2];
    }
    out->kind = REDCO_GRAPH_ATTENTION;
    out->causal = (op_at(m, 0, at)->attributes.flags & REDCO_FLAG_CAUSAL) != 0;
    out->batch = fit(m, heads);
    out->m = dim_of(m, input_of(at, 0), 2);
    out->n = dim_of(m, input_of(at, 1), 2);
    out->k = dim_of(m, input_of(at, 0), 0);
}

static void size_op(const struct maker *m, uint32_t at, redco_work_op *out)
{
    const redco_op *const op = op_at(m, 0, at);
    double results[PROBES] = {0.0}, moved[PROBES] = {0.0};
    for (uint32_t p = 0; p < m->probe_count; p++) {
        for (uint32_t k = 0; k < op->output_count; k++) {
            results[p] += (double)redco_type_elements(type_of(m, p, (struct operand){at, k, true}));
        }
        moved[p] = results[p];
        for (uint32_t k = 0; k < op->input_count; k++) {
            moved[p] += (double)redco_type_elements(type_of(m, p, input_of(at, k)));
        }
    }
    out->elements = fit(m, results);
    out->moved = fit(m, moved);
    out->batch = (redco_count){{1.0}};
    if (op->kind == REDCO_OP_MATMUL) {
        out->kind = REDCO_GRAPH_PRODUCT;
        out->transpose_a = (op->attributes.flags & REDCO_FLAG_TRANSPOSE_A) != 0;
        out->transpose_b = (op->attributes.flags & REDCO_FLAG_TRANSPOSE_B) != 0;
        out->batch = leading_of(m, result_of(at), 2);
        out->m = dim_of(m, result_of(at), 1);
        out->n = dim_of(m, result_of(at), 0);
        out->k = dim_of(m, input_of(at, 0), out->transpose_a ? 1 : 0);
    } else if (op->kind == REDCO_OP_ATTENTION || op->kind == REDCO_OP_ATTENTION_GRAD) {
        size_attention(m, at, out);
    } else if (redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE) {
        const bool gather = op->kind == REDCO_OP_ALL_GATHER;
        out->kind = REDCO_GRAPH_COLLECTIVE;
        out->collective = gather                            ? REDCO_ALL_GATHER
                          : op->kind == REDCO_OP_ALL_REDUCE ? REDCO_ALL_REDUCE
                                                            : REDCO_REDUCE_SCATTER;
        out->elements = leading_of(m, gather ? result_of(at) : input_of(at, 0), 0);
    }
}

static uint64_t mix(uint64_t hash, uint64_t word)
{
    for (uint32_t i = 0; i < 8; i++) { hash = (hash ^ (word >> 8 * i & 0xff)) * UINT64_C(0x100000001b3); } /* FNV-1a */
    return hash;
}

static uint64_t mix_type(const struct maker *m, uint64_t hash, struct operand x)
{
    const redco_tensor_type *const type = type_of(m, 0, x);
    hash = mix(mix(hash, type->dtype), type->rank);
    for (uint32_t d = 0; d < type->rank; d++) {
        const redco_count size = dim_of(m, x, type->rank - 1 - d);
        for (uint32_t i = 0; i < REDCO_COUNT_TERMS; i++) {
            hash = mix(hash, (uint64_t)(int64_t)rint(1024.0 * size.of[i]));
        }
    }
    return hash;
}

/* Kind, flags, axes, and types of operands in symbols: operators of equal ids take equally long. */
static void name_op(const struct maker *m, uint32_t at, redco_work_op *out)
{
    const redco_op *const op = op_at(m, 0, at);
    uint64_t hash = mix(mix(UINT64_C(0xcbf29ce484222325), op->kind), op->attributes.flags);
    for (uint32_t i = 0; i < op->attributes.axis_count; i++) { hash = mix(hash, op->attributes.axis[i]); }
    for (uint32_t k = 0; k < op->input_count; k++) { hash = mix_type(m, hash, input_of(at, k)); }
    for (uint32_t k = 0; k < op->output_count; k++) { hash = mix_type(m, hash, (struct operand){at, k, true}); }
    (void)snprintf(out->name, sizeof out->name, "%s", redco_op_kind_name(op->kind));
    if (out->kind == REDCO_GRAPH_COLLECTIVE) {
        (void)snprintf(out->name, sizeof out->name, "%s", redco_collective_word(out->collective));
        return;
    }
    (void)snprintf(out->measured_as, sizeof out->measured_as, "op-%016" PRIx64, hash);
}

static bool same_count(const redco_count *a, const redco_count *b)
{
    return a->of[0] == b->of[0] && a->of[1] == b->of[1] && a->of[2] == b->of[2];
}

static bool same_op(const redco_work_op *a, const redco_work_op *b)
{
    return a->kind == b->kind && a->backward == b->backward && strcmp(a->name, b->name) == 0 &&
           strcmp(a->measured_as, b->measured_as) == 0 && same_count(&a->elements, &b->elements);
}

static redco_status add_ops(const struct maker *m, redco_degree_work *degree, redco_error *err)
{
    const struct probe *const p = &m->probes[0];
    degree->ops = calloc((size_t)p->order_count + 1, sizeof *degree->ops);
    if (degree->ops == NULL) { return no_memory(m, err); }
    for (uint32_t i = 0; i < p->order_count; i++) {
        const redco_op *const op = redco_graph_op(p->graph, p->order[i]);
        redco_work_op one = {.backward = p->pass[op->id] == BACKWARD, .times = 1};
        uint32_t at = 0;
        if (redco_op_is_view(op->kind)) { continue; }
        size_op(m, i, &one);
        name_op(m, i, &one);
        while (at < degree->op_count && !same_op(&degree->ops[at], &one)) { at++; }
        if (at < degree->op_count) {
            degree->ops[at].times++;
        } else {
            degree->ops[degree->op_count++] = one;
        }
        for (uint32_t q = 0; m->options->see != NULL && one.measured_as[0] != '\0' && q < m->probe_count; q++) {
            const redco_status st =
                m->options->see(m->options->context, m->probes[q].graph, op_at(m, q, i), one.measured_as, err);
            if (st != REDCO_OK) { return st; }
        }
    }
    return REDCO_OK;
}

/* Sizes of intervals in symbols. */
static redco_count *interval_sizes(const struct maker *m)
{
    const uint32_t count = m->probes[0].lifetimes.interval_count;
    redco_count *const sizes = calloc((size_t)count + 1, sizeof *sizes);
    for (uint32_t i = 0; sizes != NULL && i < count; i++) {
        double f[PROBES] = {0.0};
        for (uint32_t p = 0; p < m->probe_count; p++) { f[p] = (double)m->probes[p].lifetimes.intervals[i].size_bytes; }
        sizes[i] = fit(m, f);
    }
    return sizes;
}

static double aligned(const redco_count *size, uint64_t examples)
{
    return ceil(redco_count_at(size, examples) / REDCO_ALIGNMENT_BYTES) * REDCO_ALIGNMENT_BYTES;
}

/* The step of a pass at which most is live. @return false if the pass has no step */
static bool fullest_step(const struct probe *p, const redco_count *sizes, bool backward, uint64_t examples,
                         double *change, uint32_t *step_out)
{
    const redco_lifetimes *const l = &p->lifetimes;
    double live = 0.0, most = -1.0;
    for (uint32_t s = 0; s <= l->step_count; s++) { change[s] = 0.0; }
    for (uint32_t i = 0; i < l->interval_count; i++) {
        const double bytes = aligned(&sizes[i], examples);
        change[l->intervals[i].first] += bytes;
        if (l->intervals[i].last < l->step_count) { change[l->intervals[i].last + 1] -= bytes; }
    }
    for (uint32_t s = 0; s < l->step_count; s++) {
        live += change[s];
        if ((p->pass[l->order[s]] == BACKWARD) != backward || live <= most) { continue; }
        most = live;
        *step_out = s;
    }
    return most >= 0.0;
}

static bool add_value(redco_graph_moment *moment, const redco_count *bytes)
{
    uint32_t at = 0;
    while (at < moment->value_count && !same_count(&moment->values[at].bytes, bytes)) { at++; }
    if (at < moment->value_count) {
        moment->values[at].times += 1.0;
        return true;
    }
    redco_graph_values *const more = calloc((size_t)at + 1, sizeof *more);
    if (more == NULL) { return false; }
    if (at > 0) { memcpy(more, moment->values, at * sizeof *more); }
    free(moment->values);
    moment->values = more;
    moment->values[moment->value_count++] = (redco_graph_values){1.0, *bytes};
    return true;
}

/* Steps that are the fullest of their pass for some micro-batch. */
static redco_status add_moments(const struct maker *m, bool narrow, redco_degree_work *degree, redco_error *err)
{
    const struct probe *const p = &m->probes[0];
    redco_count *const sizes = interval_sizes(m);
    double *const change = calloc((size_t)p->lifetimes.step_count + 2, sizeof *change);
    bool enough = sizes != NULL && change != NULL;
    for (int pass = FORWARD; pass <= BACKWARD && enough; pass++) {
        uint32_t steps[MOST_CANDIDATES], count = 0;
        for (uint32_t c = 0; c < MOST_CANDIDATES && enough; c++) {
            const uint64_t examples = m->probe_count == 1 ? p->examples : UINT64_C(1) << c;
            uint32_t step = 0, at = 0;
            if (!fullest_step(p, sizes, pass == BACKWARD, examples, change, &step)) { break; }
            while (at < count && steps[at] != step) { at++; }
            if (at < count) { continue; }
            steps[count++] = step;
            redco_graph_moment *const more =
                realloc(degree->moments, ((size_t)degree->moment_count + 1) * sizeof *more);
            if (more == NULL) {
                enough = false;
                break;
            }
            degree->moments = more;
            redco_graph_moment *const moment = &degree->moments[degree->moment_count++];
            *moment = (redco_graph_moment){.backward = pass == BACKWARD, .narrow = narrow};
            for (uint32_t i = 0; i < p->lifetimes.interval_count && enough; i++) {
                const redco_interval *const interval = &p->lifetimes.intervals[i];
                if (interval->first <= step && step <= interval->last) { enough = add_value(moment, &sizes[i]); }
            }
        }
    }
    free(sizes);
    free(change);
    return enough ? REDCO_OK : no_memory(m, err);
}

/* The inputs that the graph has, the key of random numbers among them. */
static redco_status add_inputs(const struct maker *m, redco_degree_work *degree, redco_error *err)
{
    redco_graph_moment all = {.value_count = 0};
    bool enough = true;
    for (size_t i = 0; i <= m->probes[0].task.input_count && enough; i++) {
        double f[PROBES] = {0.0};
        bool there = true;
        for (uint32_t p = 0; p < m->probe_count; p++) {
            const struct probe *const probe = &m->probes[p];
            const char *const name = i < probe->task.input_count ? probe->task.inputs[i].name : "key";
            const redco_value value = redco_graph_find_input(probe->graph, name);
            there = there && value != REDCO_NO_VALUE;
            f[p] = there ? (double)redco_type_bytes(redco_value_type(probe->graph, value)) : 0.0;
        }
        const redco_count bytes = fit(m, f);
        enough = !there || add_value(&all, &bytes);
    }
    degree->inputs = all.values;
    degree->input_count = all.value_count;
    return enough ? REDCO_OK : no_memory(m, err);
}

static void free_probes(struct maker *m)
{
    for (uint32_t p = 0; p < PROBES; p++) { free_probe(&m->probes[p]); }
}

static uint32_t first_examples(const struct maker *m)
{
    return m->options->micro_batch > 0 ? m->options->micro_batch : PROBED;
}

/* The graphs of one degree and type. Where they differ by micro-batch, the one that is planned alone. */
static redco_status make_probes(struct maker *m, redco_dtype dtype, redco_error *err)
{
    const uint32_t first = first_examples(m);
    redco_status st = REDCO_OK;
    m->probe_count = m->work->examples > 0 ? 1 : PROBES;
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

static redco_status make_degree(struct maker *m, redco_error *err)
{
    redco_degree_work *const degree = &m->work->degrees[m->work->degree_count++];
    degree->tp = m->tp;
    degree->splits = calloc(m->parameter_count + 1, sizeof *degree->splits);
    if (degree->splits == NULL) { return no_memory(m, err); }
    for (size_t i = 0; i < m->parameter_count; i++) {
        degree->splits[i] = m->layouts[i].kind == REDCO_TP_SPLIT ? (int32_t)m->layouts[i].dim : -1;
    }
    redco_status st = make_probes(m, REDCO_F32, err);
    if (st == REDCO_OK) { st = add_ops(m, degree, err); }
    if (st == REDCO_OK) { st = add_moments(m, false, degree, err); }
    if (st == REDCO_OK) { st = add_inputs(m, degree, err); }
    free_probes(m);
    /* A loss that does not compute in 16 bits (random numbers are drawn in 32) has the values of 32. */
    redco_error why = {.status = REDCO_OK};
    if (st == REDCO_OK) {
        st = make_probes(m, REDCO_BFLOAT16, &why);
        const bool wide = st == REDCO_EVALUE;
        if (st == REDCO_OK) { st = add_moments(m, true, degree, &why); }
        st = wide ? REDCO_OK : st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
    }
    free_probes(m);
    return st;
}

/* Layouts by the rules. @param any_out  whether a parameter is split */
static redco_status lay_out(struct maker *m, bool *any_out, redco_error *err)
{
    redco_rules *rules = NULL;
    const redco_status st =
        redco_rules_decide_user(m->rules, m->parameter_count, m->tp, m->options->rules, &rules, err);
    *any_out = false;
    if (st != REDCO_OK) { return st; }
    for (size_t i = 0; i < m->parameter_count; i++) {
        const int32_t dim = redco_rules_dim(rules, i);
        m->layouts[i] = dim < 0 ? redco_tp_replicated() : redco_tp_split((uint32_t)dim);
        *any_out = *any_out || dim >= 0;
    }
    redco_rules_free(rules);
    return REDCO_OK;
}

/* A degree that the rules or the graph do not allow is an error where it was asked for. */
static redco_status add_degree(struct maker *m, redco_error *err)
{
    const bool asked = m->options->tp_given && m->tp == m->options->most_tp;
    const uint32_t before = m->work->degree_count;
    redco_error why = {.status = REDCO_OK};
    bool any = false;
    redco_status st = lay_out(m, &any, &why);
    if (st == REDCO_OK && !any) {
        st = redco_fail(&why, REDCO_EVALUE, m->place,
                        "tp %u: RedCoast's rules split none of its parameters among so many ranks (redco-rules); give "
                        "rules with --tp-rules",
                        m->tp);
    }
    if (st == REDCO_OK) { st = make_degree(m, &why); }
    if (st == REDCO_OK) { return REDCO_OK; }
    if (st == REDCO_EVALUE && !asked) {
        redco_degree_work *const degree = &m->work->degrees[before];
        for (uint32_t i = 0; i < degree->moment_count; i++) { free(degree->moments[i].values); }
        free(degree->splits);
        free(degree->ops);
        free(degree->moments);
        free(degree->inputs);
        *degree = (redco_degree_work){.tp = 0};
        m->work->degree_count = before;
        return REDCO_OK;
    }
    return redco_fail(err, st, why.place, "%s", why.text);
}

/* A parameter whose rows are looked up is a table, behind casts and reshapes too. */
static redco_status find_tables(struct maker *m, const redco_task *task, redco_error *err)
{
    const redco_task_options options = {REDCO_F32, REDCO_F32, true, false, 1};
    redco_task_graph built = {.graph = NULL};
    const redco_status st = redco_task_build(task, &options, &built, err);
    for (uint32_t i = 0; st == REDCO_OK && i < redco_graph_op_count(built.graph); i++) {
        const redco_op *op = redco_graph_op(built.graph, i);
        if (op->kind != REDCO_OP_GATHER) { continue; }
        redco_value from = op->inputs[0];
        for (op = redco_value_op(built.graph, from); op->kind == REDCO_OP_CAST || redco_op_is_view(op->kind);) {
            from = op->inputs[0];
            op = redco_value_op(built.graph, from);
        }
        for (size_t k = 0; k < m->parameter_count; k++) {
            m->tables[k] = m->tables[k] || (built.parameters[k] == from && m->parameters[k].rank == 2);
        }
    }
    redco_task_graph_free(&built);
    return st;
}

static redco_status make_rules(struct maker *m, const redco_task *task, redco_error *err)
{
    m->tables = calloc(m->parameter_count + 1, sizeof *m->tables);
    m->rules = calloc(m->parameter_count + 1, sizeof *m->rules);
    m->layouts = calloc(m->parameter_count + 1, sizeof *m->layouts);
    if (m->tables == NULL || m->rules == NULL || m->layouts == NULL) { return no_memory(m, err); }
    const redco_status st = find_tables(m, task, err);
    for (size_t i = 0; i < m->parameter_count && st == REDCO_OK; i++) {
        const redco_task_parameter *const p = &m->parameters[i];
        const redco_param_role role = p->rank < 2    ? REDCO_PARAM_BIAS
                                      : m->tables[i] ? REDCO_PARAM_TABLE
                                                     : REDCO_PARAM_KERNEL;
        char path[REDCO_RULES_PATH_BYTES];
        m->layouts[i] = redco_tp_replicated();
        m->rules[i] =
            (redco_rules_param){.path = strdup(redco_rules_pipeline_path(p->name, role, path)), .rank = p->rank};
        memcpy(m->rules[i].shape, p->dim, p->rank * sizeof p->dim[0]);
        if (m->rules[i].path == NULL) { return no_memory(m, err); }
    }
    return st;
}

static json_t *parameters_json(const struct maker *m)
{
    json_t *const list = json_array();
    for (size_t i = 0; i < m->parameter_count; i++) {
        json_t *const shape = json_array();
        for (uint32_t d = 0; d < m->parameters[i].rank; d++) {
            (void)json_array_append_new(shape, json_integer((json_int_t)m->parameters[i].dim[d]));
        }
        json_t *const one = json_pack("{s:s, s:o}", "name", m->parameters[i].name, "shape", shape);
        if (m->tables[i]) { (void)json_object_set_new(one, "table", json_true()); }
        if (m->parameters[i].training == REDCO_FROZEN) { (void)json_object_set_new(one, "frozen", json_true()); }
        (void)json_array_append_new(list, one);
    }
    return list;
}

static redco_status make_work(struct maker *m, const redco_task *task, redco_error *err)
{
    const redco_pipeline_work_options *const o = m->options;
    m->place = redco_user_pipeline_path(m->file);
    m->parameters = task->parameters;
    m->parameter_count = task->parameter_count;
    m->work = calloc(1, sizeof *m->work);
    if (m->work == NULL) { return no_memory(m, err); }
    redco_status st = make_rules(m, task, err);
    m->tp = 1;
    if (st == REDCO_OK) { st = make_degree(m, err); }
    for (m->tp = 2; m->tp <= o->most_tp && m->work->degree_count < REDCO_WORK_DEGREES && st == REDCO_OK; m->tp *= 2) {
        if (!o->tp_given || m->tp == o->most_tp) { st = add_degree(m, err); }
    }
    return st;
}

redco_status redco_pipeline_model(const redco_user_pipeline_file *file, const redco_pipeline_work_options *options,
                                  json_t **config_out, redco_error *err)
{
    struct maker m = {.file = file, .options = options};
    redco_task task = {.name = NULL};
    redco_status st = redco_user_pipeline_task(file, first_examples(&m), &task, err);
    if (st != REDCO_OK) { return st; }
    st = make_work(&m, &task, err);
    if (st == REDCO_OK) {
        json_t *const config = json_pack("{s:s, s:s, s:o}", "model_type", "pipeline", "_name",
                                         redco_user_pipeline_of(file)->name, "parameters", parameters_json(&m));
        if (config != NULL && redco_graph_work_write(m.work, m.parameter_count, config)) {
            *config_out = config;
        } else {
            json_decref(config);
            st = no_memory(&m, err);
        }
    }
    redco_graph_work_free(m.work);
    for (size_t i = 0; m.rules != NULL && i < m.parameter_count; i++) { free((char *)(uintptr_t)m.rules[i].path); }
    free(m.tables);
    free(m.rules);
    free(m.layouts);
    redco_user_pipeline_task_free(&task);
    return st;
}
