/* Operators and values whose sizes are polynomials of the micro-batch, through those of the probes. */
#include "executor/pipeline/pipeline_work_internal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CANDIDATES = 20 };

/* The polynomial through the probes, whose micro-batches are one, two and three times the first. */
static redco_count fit(const redcoi_work_maker *m, const double f[REDCOI_PROBES])
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

static const redco_op *op_at(const redcoi_work_maker *m, uint32_t probe, uint32_t at)
{
    return redco_graph_op(m->probes[probe].graph, m->probes[probe].order[at]);
}

static const redco_tensor_type *type_of(const redcoi_work_maker *m, uint32_t probe, struct operand x)
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
static redco_count dim_of(const redcoi_work_maker *m, struct operand x, uint32_t from_end)
{
    double f[REDCOI_PROBES] = {0.0};
    for (uint32_t p = 0; p < m->probe_count; p++) {
        const redco_tensor_type *const type = type_of(m, p, x);
        f[p] = from_end < type->rank ? (double)type->dim[type->rank - 1 - from_end] : 1.0;
    }
    return fit(m, f);
}

/* The product of all dimensions but so many last ones. */
static redco_count leading_of(const redcoi_work_maker *m, struct operand x, uint32_t last)
{
    double f[REDCOI_PROBES] = {0.0};
    for (uint32_t p = 0; p < m->probe_count; p++) {
        const redco_tensor_type *const type = type_of(m, p, x);
        f[p] = 1.0;
        for (uint32_t d = 0; d + last < type->rank; d++) { f[p] *= (double)type->dim[d]; }
    }
    return fit(m, f);
}

static void size_attention(const redcoi_work_maker *m, uint32_t at, redco_work_op *out)
{
    double heads[REDCOI_PROBES] = {0.0};
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

static void size_op(const redcoi_work_maker *m, uint32_t at, redco_work_op *out)
{
    const redco_op *const op = op_at(m, 0, at);
    double results[REDCOI_PROBES] = {0.0}, moved[REDCOI_PROBES] = {0.0};
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

static uint64_t mix_type(const redcoi_work_maker *m, uint64_t hash, struct operand x)
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

/* A pipeline's operators are measured beside the others of its graph: names are of one pipeline and degree. */
static uint64_t first_hash(const redcoi_work_maker *m)
{
    uint64_t hash = mix(UINT64_C(0xcbf29ce484222325), m->tp);
    for (const char *c = redco_user_pipeline_of(m->file)->name; *c != '\0'; c++) {
        hash = mix(hash, (unsigned char)*c);
    }
    return hash;
}

/* Kind, flags, axes, and types of operands in symbols: operators of equal ids take equally long. */
static void name_op(const redcoi_work_maker *m, uint32_t at, redco_work_op *out)
{
    const redco_op *const op = op_at(m, 0, at);
    uint64_t hash = mix(mix(first_hash(m), op->kind), op->attributes.flags);
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

/* Micro-batches are made of examples and copied to the device before forward. */
static void add_batch(redcoi_work_maker *m, redco_degree_work *degree)
{
    redco_work_op *const op = &degree->ops[degree->op_count++];
    double elements[REDCOI_PROBES] = {0.0}, moved[REDCOI_PROBES] = {0.0};
    for (uint32_t p = 0; p < m->probe_count; p++) {
        for (size_t i = 0; i < m->probes[p].task.input_count; i++) {
            elements[p] += (double)redco_type_elements(&m->probes[p].task.inputs[i].type);
        }
        moved[p] = 2.0 * elements[p];
    }
    *op = (redco_work_op){
        .name = "batch", .times = 1, .batch = {{1.0}}, .elements = fit(m, elements), .moved = fit(m, moved)};
    (void)snprintf(op->measured_as, sizeof op->measured_as, "op-%016" PRIx64, mix(first_hash(m), REDCO_OP_COUNT));
    memcpy(m->batch_name, op->measured_as, sizeof m->batch_name);
}

redco_status redcoi_work_ops(redcoi_work_maker *m, redco_degree_work *degree, redco_error *err)
{
    const redcoi_probe *const p = &m->probes[0];
    degree->ops = calloc((size_t)p->order_count + 2, sizeof *degree->ops);
    m->names = calloc((size_t)p->order_count + 1, sizeof *m->names);
    if (degree->ops == NULL || m->names == NULL) { return redcoi_work_no_memory(m, err); }
    add_batch(m, degree);
    for (uint32_t i = 0; i < p->order_count; i++) {
        const redco_op *const op = redco_graph_op(p->graph, p->order[i]);
        redco_work_op one = {.backward = p->pass[op->id] == REDCOI_BACKWARD, .times = 1};
        uint32_t at = 0;
        if (redco_op_is_view(op->kind)) { continue; }
        size_op(m, i, &one);
        name_op(m, i, &one);
        memcpy(m->names[i], one.measured_as, sizeof m->names[i]);
        while (at < degree->op_count && !same_op(&degree->ops[at], &one)) { at++; }
        if (at < degree->op_count) {
            degree->ops[at].times++;
        } else {
            degree->ops[degree->op_count++] = one;
        }
    }
    return REDCO_OK;
}

redco_status redcoi_work_show(redcoi_work_maker *m, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; m->options->see != NULL && i < m->probe_count && st == REDCO_OK; i++) {
        redcoi_probe *const p = &m->probes[i];
        redco_pipeline_graph shown = {.graph = p->graph,
                                      .order = p->order,
                                      .order_count = p->order_count,
                                      .outputs = p->outputs,
                                      .output_count = p->output_count,
                                      .measured_as = (const char(*)[REDCO_MEASURED_NAME])m->names,
                                      .batch_measured_as = m->batch_name,
                                      .examples = p->examples};
        st = m->options->see(m->options->context, &shown, err);
        p->graph = shown.graph;
    }
    return st;
}

/* Sizes of intervals in symbols. */
static redco_count *interval_sizes(const redcoi_work_maker *m)
{
    const uint32_t count = m->probes[0].lifetimes.interval_count;
    redco_count *const sizes = calloc((size_t)count + 1, sizeof *sizes);
    for (uint32_t i = 0; sizes != NULL && i < count; i++) {
        double f[REDCOI_PROBES] = {0.0};
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
static bool fullest_step(const redcoi_probe *p, const redco_count *sizes, bool backward, uint64_t examples,
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
        if ((p->pass[l->order[s]] == REDCOI_BACKWARD) != backward || live <= most) { continue; }
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

redco_status redcoi_work_moments(const redcoi_work_maker *m, redco_computed computed, redco_degree_work *degree,
                                 redco_error *err)
{
    const redcoi_probe *const p = &m->probes[0];
    redco_count *const sizes = interval_sizes(m);
    double *const change = calloc((size_t)p->lifetimes.step_count + 2, sizeof *change);
    bool enough = sizes != NULL && change != NULL;
    for (int pass = REDCOI_FORWARD; pass <= REDCOI_BACKWARD && enough; pass++) {
        uint32_t steps[MOST_CANDIDATES], count = 0;
        for (uint32_t c = 0; c < MOST_CANDIDATES && enough; c++) {
            const uint64_t examples = m->probe_count == 1 ? p->examples : UINT64_C(1) << c;
            uint32_t step = 0, at = 0;
            if (!fullest_step(p, sizes, pass == REDCOI_BACKWARD, examples, change, &step)) { break; }
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
            *moment = (redco_graph_moment){.backward = pass == REDCOI_BACKWARD, .computed = computed};
            for (uint32_t i = 0; i < p->lifetimes.interval_count && enough; i++) {
                const redco_interval *const interval = &p->lifetimes.intervals[i];
                if (interval->first <= step && step <= interval->last) { enough = add_value(moment, &sizes[i]); }
            }
        }
    }
    free(sizes);
    free(change);
    return enough ? REDCO_OK : redcoi_work_no_memory(m, err);
}

redco_status redcoi_work_inputs(const redcoi_work_maker *m, redco_degree_work *degree, redco_error *err)
{
    redco_graph_moment all = {.value_count = 0};
    bool enough = true;
    for (size_t i = 0; i <= m->probes[0].task.input_count && enough; i++) {
        double f[REDCOI_PROBES] = {0.0};
        bool there = true;
        for (uint32_t p = 0; p < m->probe_count; p++) {
            const redcoi_probe *const probe = &m->probes[p];
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
    return enough ? REDCO_OK : redcoi_work_no_memory(m, err);
}
