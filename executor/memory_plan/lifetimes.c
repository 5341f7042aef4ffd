#include "executor/memory_plan/lifetimes.h"

#include "costmodel/graph/transform.h"

#include <stdlib.h>
#include <string.h>

typedef struct finder {
    const redco_graph *graph;
    const redco_lifetimes_options *options;
    redco_lifetimes *l;
    bool *live;        /**< by operator */
    redco_value *root; /**< by value: whose memory a view is of */
    uint32_t *step;    /**< by operator; REDCO_NO_OP: not yet */
} finder;

static redco_status no_memory(const finder *f, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, "graph", "no memory for the lifetimes of %u values", f->l->value_count);
}

static redco_status take_memory(finder *f, redco_error *err)
{
    redco_lifetimes *const l = f->l;
    const size_t ops = (size_t)l->op_count + 1, values = (size_t)l->value_count + 1;
    l->order = calloc(ops, sizeof *l->order);
    l->place = calloc(values, sizeof *l->place);
    l->last_step = calloc(values, sizeof *l->last_step);
    l->workspace = malloc(ops * sizeof *l->workspace);
    l->copied = calloc((size_t)l->outside_count + 1, sizeof *l->copied);
    l->outside_step = calloc((size_t)l->outside_count + 1, sizeof *l->outside_step);
    l->intervals = calloc(ops + values, sizeof *l->intervals); /* a workspace of each operator, memory of each value */
    l->first_value = calloc(ops + values, sizeof *l->first_value);
    f->live = calloc(ops, sizeof *f->live);
    f->root = calloc(values, sizeof *f->root);
    f->step = malloc(ops * sizeof *f->step);
    if (!l->order || !l->place || !l->last_step || !l->workspace || !l->copied || !l->outside_step || !l->intervals ||
        !l->first_value || !f->live || !f->root || !f->step) {
        return no_memory(f, err);
    }
    memset(l->workspace, 0xff, ops * sizeof *l->workspace);
    memset(f->step, 0xff, ops * sizeof *f->step);
    return REDCO_OK;
}

static redco_status find_live(finder *f, redco_error *err)
{
    const redco_lifetimes_options *const o = f->options;
    const uint32_t stays = o->outside_count + o->kept_count, count = stays + o->read_count;
    redco_value *const wanted = calloc((size_t)count + 1, sizeof *wanted);
    if (wanted == NULL) { return no_memory(f, err); }
    uint32_t wants = 0;
    for (uint32_t i = 0; i < count; i++) {
        const redco_value value = i < o->outside_count ? o->outside[i]
                                  : i < stays          ? o->kept[i - o->outside_count]
                                                       : o->read[i - stays];
        if (value == REDCO_NO_VALUE && i < o->outside_count) { continue; }
        wanted[wants++] = value;
        if (value >= f->l->value_count) {
            free(wanted);
            return redco_fail(err, REDCO_EVALUE, "graph", "result %u is no value of this graph", i);
        }
    }
    redco_graph_live(f->graph, wanted, wants, f->live);
    free(wanted);
    return REDCO_OK;
}

static redco_status take_step(finder *f, uint32_t id, redco_error *err)
{
    char name[200];
    if (id >= f->l->op_count) { return redco_fail(err, REDCO_EVALUE, "order", "%u is no operator of this graph", id); }
    const redco_op *const op = redco_graph_op(f->graph, id);
    if (!f->live[id]) { return REDCO_OK; }
    if (f->step[id] != REDCO_NO_OP) {
        return redco_fail(err, REDCO_EVALUE, redco_op_name(f->graph, op, name, sizeof name),
                          "stands twice in the order");
    }
    for (uint32_t k = 0; k < op->input_count; k++) {
        const redco_op *const maker = redco_value_op(f->graph, op->inputs[k]);
        if (maker->kind != REDCO_OP_INPUT && f->step[maker->id] == REDCO_NO_OP) {
            return redco_fail(err, REDCO_EVALUE, redco_op_name(f->graph, op, name, sizeof name),
                              "input %u is made later in the order", k);
        }
    }
    f->step[id] = f->l->step_count;
    if (op->kind != REDCO_OP_INPUT && !redco_op_is_view(op->kind)) { f->l->order[f->l->step_count++] = id; }
    return REDCO_OK;
}

static redco_status find_order(finder *f, redco_error *err)
{
    const redco_lifetimes_options *const o = f->options;
    const uint32_t count = o->order == NULL ? f->l->op_count : o->order_count;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = take_step(f, o->order == NULL ? i : o->order[i], err);
    }
    for (uint32_t i = 0; i < f->l->op_count && st == REDCO_OK; i++) {
        char name[200];
        const redco_op *const op = redco_graph_op(f->graph, i);
        if (!f->live[i] || f->step[i] != REDCO_NO_OP || op->kind == REDCO_OP_INPUT) { continue; }
        st = redco_fail(err, REDCO_EVALUE, redco_op_name(f->graph, op, name, sizeof name), "is missing in the order");
    }
    return st;
}

/* Lifetimes of the memory's owners; other values get their owner's. */
static void find_last_steps(const finder *f)
{
    const redco_lifetimes_options *const o = f->options;
    redco_lifetimes *const l = f->l;
    for (uint32_t i = 0; i < l->op_count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, i);
        for (uint32_t k = 0; k < op->output_count; k++) {
            const redco_value out = op->first_output + k;
            f->root[out] = redco_op_is_view(op->kind) ? f->root[op->inputs[0]] : out;
            if (f->root[out] == out) { l->last_step[out] = f->live[i] ? f->step[i] : 0; }
        }
        if (!f->live[i] || redco_op_is_view(op->kind)) { continue; }
        for (uint32_t k = 0; k < op->input_count; k++) {
            const redco_value root = f->root[op->inputs[k]];
            if (l->last_step[root] < f->step[i]) { l->last_step[root] = f->step[i]; }
        }
    }
    for (uint32_t i = 0; i < o->kept_count; i++) { l->last_step[f->root[o->kept[i]]] = l->step_count; }
}

/* @return whether another output of the operator lies there. */
static bool is_taken(const finder *f, const redco_op *op, redco_value_place place)
{
    for (uint32_t k = 0; k < op->output_count; k++) {
        const redco_value_place other = f->l->place[op->first_output + k];
        if (other.kind == REDCO_PLACE_ARENA && place.kind == other.kind && place.index == other.index) { return true; }
    }
    return false;
}

/* The input over which @p op may write an output, or REDCO_NO_VALUE; only what is placed as @p kind: what was made
 * first, or last where there are several outputs, which fit together more closely so. */
static redco_value overwritten(const finder *f, const redco_op *op, redco_value output, redco_place_kind kind)
{
    const redco_tensor_type *const out = redco_value_type(f->graph, output);
    const bool several = op->output_count > 1;
    const uint32_t inputs = several && op->kind != REDCO_OP_POINTWISE ? 0 : redco_op_overwrites(op->kind);
    redco_value found = REDCO_NO_VALUE;
    uint32_t found_step = 0;
    for (uint32_t k = 0; k < op->input_count && k < inputs; k++) {
        const redco_value root = f->root[op->inputs[k]];
        const redco_op *const maker = redco_value_op(f->graph, root);
        const uint32_t step = f->step[maker->id];
        if (f->l->place[root].kind != kind || f->l->last_step[root] != f->step[op->id] ||
            maker->kind == REDCO_OP_INPUT || is_taken(f, op, f->l->place[root]) ||
            !redco_type_equal(redco_value_type(f->graph, op->inputs[k]), out)) {
            continue;
        }
        if (found == REDCO_NO_VALUE || (several ? step > found_step : step < found_step)) {
            found = root;
            found_step = step;
        }
    }
    return found;
}

/* A result's memory is the caller's if all of it is the result and no other result has it; and so is, if allowed, that
 * of what the result is written over: a first summand of a tied table's gradient lies there from the head's backward
 * on. */
static void place_outside(const finder *f)
{
    const redco_lifetimes_options *const o = f->options;
    redco_lifetimes *const l = f->l;
    for (uint32_t i = 0; i < o->outside_count; i++) {
        l->outside_step[i] = l->step_count;
        if (o->outside[i] == REDCO_NO_VALUE) { continue; }
        redco_value root = f->root[o->outside[i]];
        if (redco_value_op(f->graph, root)->kind == REDCO_OP_INPUT || l->place[root].kind != REDCO_PLACE_NONE ||
            l->last_step[root] == l->step_count) {
            l->copied[i] = true;
            l->last_step[root] = l->step_count;
            continue;
        }
        while (root != REDCO_NO_VALUE) {
            const redco_op *const maker = redco_value_op(f->graph, root);
            l->place[root] = (redco_value_place){REDCO_PLACE_OUTSIDE, i};
            l->outside_step[i] = f->step[maker->id];
            root = o->outside_early ? overwritten(f, maker, root, REDCO_PLACE_NONE) : REDCO_NO_VALUE;
        }
    }
}

static uint32_t add_interval(const finder *f, redco_value value, uint64_t bytes, uint32_t first, uint32_t last)
{
    redco_lifetimes *const l = f->l;
    const uint32_t end = l->step_count > 0 ? l->step_count - 1 : 0;
    l->first_value[l->interval_count] = value;
    l->intervals[l->interval_count] = (redco_interval){bytes, first, last < end ? last : end};
    return l->interval_count++;
}

static void place_outputs(const finder *f, const redco_op *op)
{
    redco_lifetimes *const l = f->l;
    const uint32_t end = l->step_count > 0 ? l->step_count - 1 : 0;
    for (uint32_t k = 0; k < op->output_count; k++) {
        const redco_value out = op->first_output + k;
        if (l->place[out].kind != REDCO_PLACE_NONE) { continue; }
        const redco_value over = overwritten(f, op, out, REDCO_PLACE_ARENA);
        if (over != REDCO_NO_VALUE) {
            redco_interval *const interval = &l->intervals[l->place[over].index];
            l->place[out] = l->place[over];
            interval->last = l->last_step[out] < end ? l->last_step[out] : end;
            continue;
        }
        const uint64_t bytes = redco_type_bytes(redco_value_type(f->graph, out));
        l->place[out] =
            (redco_value_place){REDCO_PLACE_ARENA, add_interval(f, out, bytes, f->step[op->id], l->last_step[out])};
    }
}

static void place_workspace(const finder *f, const redco_op *op)
{
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    const bool collective = redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE;
    const redco_collectives *const c = f->options->collectives;
    if (f->options->backend == NULL || (collective && c == NULL)) { return; }
    for (uint32_t k = 0; k < op->input_count; k++) {
        inputs[k] = (redco_tensor){*redco_value_type(f->graph, op->inputs[k]), NULL};
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        outputs[k] = (redco_tensor){*redco_value_type(f->graph, op->first_output + k), NULL};
    }
    const redco_launch launch = {.kind = op->kind,
                                 .attributes = &op->attributes,
                                 .input_count = op->input_count,
                                 .output_count = op->output_count,
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .name = ""};
    const uint64_t bytes = collective ? c->workspace_bytes(c->context, &launch)
                                      : f->options->backend->calls->workspace_bytes(f->options->backend, &launch);
    if (bytes == 0) { return; }
    f->l->workspace[op->id] = add_interval(f, REDCO_NO_VALUE, bytes, f->step[op->id], f->step[op->id]);
}

static void place_all(const finder *f)
{
    redco_lifetimes *const l = f->l;
    for (uint32_t i = 0; i < l->op_count; i++) {
        const redco_op *const op = redco_graph_op(f->graph, i);
        if (op->kind == REDCO_OP_INPUT) {
            l->place[op->first_output] = (redco_value_place){REDCO_PLACE_INPUT, op->first_output};
        }
    }
    for (uint32_t s = 0; s < l->step_count; s++) {
        const redco_op *const op = redco_graph_op(f->graph, l->order[s]);
        place_outputs(f, op);
        place_workspace(f, op);
    }
    for (redco_value v = 0; v < l->value_count; v++) {
        if (!f->live[redco_value_op(f->graph, v)->id]) { continue; }
        l->place[v] = l->place[f->root[v]];
        l->last_step[v] = l->last_step[f->root[v]];
    }
}

redco_status redco_lifetimes_find(const redco_graph *graph, const redco_lifetimes_options *options,
                                  redco_lifetimes *lifetimes_out, redco_error *err)
{
    redco_lifetimes l = {.op_count = redco_graph_op_count(graph),
                         .value_count = redco_graph_value_count(graph),
                         .outside_count = options->outside_count};
    finder f = {.graph = graph, .options = options, .l = &l};
    redco_status st = redco_graph_status(graph, err);
    if (st != REDCO_OK) { return st; }
    if ((st = take_memory(&f, err)) != REDCO_OK) { goto out; }
    if ((st = find_live(&f, err)) != REDCO_OK) { goto out; }
    if ((st = find_order(&f, err)) != REDCO_OK) { goto out; }
    find_last_steps(&f);
    place_outside(&f);
    place_all(&f);
    *lifetimes_out = l;
    l = (redco_lifetimes){0};
out:
    redco_lifetimes_free(&l);
    free(f.live);
    free(f.root);
    free(f.step);
    return st;
}

void redco_lifetimes_free(redco_lifetimes *l)
{
    free(l->order);
    free(l->place);
    free(l->last_step);
    free(l->workspace);
    free(l->copied);
    free(l->outside_step);
    free(l->intervals);
    free(l->first_value);
    *l = (redco_lifetimes){0};
}
