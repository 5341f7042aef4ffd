#include "executor/backend/evaluate.h"

#include "costmodel/graph/transform.h"

#include <stdlib.h>

typedef struct run {
    redco_backend *backend;
    const redco_collectives *collectives; /**< or NULL */
    redco_device_stream *stream;
    const redco_graph *graph;
    bool *live;         /**< by operator */
    uint32_t *last_use; /**< by value: operator after which it is released; REDCO_NO_OP for results */
    void **memory;      /**< by value: owned, or NULL */
    void **data;        /**< by value: memory, or that of the value it is a view of */
    redco_value *owner; /**< by value: whose memory it uses */
    void *workspace;
    redco_error *err;
} run;

/** Views use their input's memory, so the memory lives until the last use of either. */
static void find_lifetimes(const run *r, const redco_result *results, uint32_t result_count)
{
    for (uint32_t i = 0; i < redco_graph_op_count(r->graph); i++) {
        const redco_op *op = redco_graph_op(r->graph, i);
        for (uint32_t k = 0; k < op->output_count; k++) {
            const redco_value out = op->first_output + k;
            r->owner[out] = redco_op_is_view(op->kind) ? r->owner[op->inputs[0]] : out;
            if (r->owner[out] == out) { r->last_use[out] = i; }
        }
        for (uint32_t k = 0; r->live[i] && k < op->input_count; k++) { r->last_use[r->owner[op->inputs[k]]] = i; }
    }
    for (uint32_t i = 0; i < result_count; i++) { r->last_use[r->owner[results[i].value]] = REDCO_NO_OP; }
}

static redco_status allocate_value(const run *r, redco_value value)
{
    const redco_status st =
        r->backend->calls->allocate(r->backend, REDCO_MEMORY_DEVICE,
                                    redco_type_bytes(redco_value_type(r->graph, value)), &r->memory[value], r->err);
    r->data[value] = r->memory[value];
    return st;
}

static redco_status load_input(const run *r, redco_value value, const redco_binding *bindings, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (bindings[i].value != value) { continue; }
        const redco_status st = allocate_value(r, value);
        if (st != REDCO_OK) { return st; }
        return r->backend->calls->copy(r->backend, r->stream, r->data[value], bindings[i].data,
                                       redco_type_bytes(redco_value_type(r->graph, value)), r->err);
    }
    return redco_fail(r->err, REDCO_EVALUE, redco_value_name(r->graph, value), "no data is bound to this input");
}

static redco_status run_op(run *r, const redco_op *op)
{
    const redco_backend_calls *calls = r->backend->calls;
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    char name[200];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < op->input_count; i++) {
        inputs[i] = (redco_tensor){*redco_value_type(r->graph, op->inputs[i]), r->data[op->inputs[i]]};
    }
    for (uint32_t i = 0; i < op->output_count && st == REDCO_OK; i++) {
        st = allocate_value(r, op->first_output + i);
        outputs[i] = (redco_tensor){*redco_value_type(r->graph, op->first_output + i), r->data[op->first_output + i]};
    }
    if (st != REDCO_OK) { return st; }
    redco_launch launch = {.kind = op->kind,
                           .attributes = &op->attributes,
                           .input_count = op->input_count,
                           .output_count = op->output_count,
                           .inputs = inputs,
                           .outputs = outputs,
                           .name = redco_op_name(r->graph, op, name, sizeof name)};
    const bool collective = redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE;
    const redco_collectives *c = r->collectives;
    if (collective && c == NULL) {
        return redco_fail(r->err, REDCO_EVALUE, launch.name, "%s: the graph is of one rank of %u and needs the others",
                          redco_op_kind_name(op->kind), op->attributes.ranks);
    }
    const uint64_t workspace_bytes =
        collective ? c->workspace_bytes(c->context, &launch) : calls->workspace_bytes(r->backend, &launch);
    if (workspace_bytes > 0) {
        st = calls->allocate(r->backend, REDCO_MEMORY_DEVICE, workspace_bytes, &r->workspace, r->err);
        if (st != REDCO_OK) { return st; }
        launch.workspace = r->workspace;
    }
    st = collective ? c->run(c->context, r->backend, r->stream, &launch, r->err)
                    : calls->run(r->backend, r->stream, &launch, r->err);
    if (st == REDCO_OK && workspace_bytes > 0) { st = calls->stream_finish(r->backend, r->stream, r->err); }
    calls->release(r->backend, REDCO_MEMORY_DEVICE, r->workspace);
    r->workspace = NULL;
    return st;
}

/** Memory whose last use was operator @p op: of its inputs, and of outputs that nobody reads. */
static redco_status release_unused(const run *r, const redco_op *op)
{
    bool any = false;
    redco_value unused[REDCO_INPUTS_MAX + REDCO_OUTPUTS_MAX];
    uint32_t count = 0;
    for (uint32_t i = 0; i < op->input_count + op->output_count; i++) {
        const redco_value value =
            r->owner[i < op->input_count ? op->inputs[i] : op->first_output + (i - op->input_count)];
        if (r->memory[value] == NULL || r->last_use[value] == REDCO_NO_OP || r->last_use[value] > op->id) { continue; }
        unused[count++] = value;
        any = true;
    }
    if (!any) { return REDCO_OK; }
    const redco_status st = r->backend->calls->stream_finish(r->backend, r->stream, r->err);
    for (uint32_t i = 0; i < count; i++) {
        r->backend->calls->release(r->backend, REDCO_MEMORY_DEVICE, r->memory[unused[i]]);
        r->memory[unused[i]] = NULL;
    }
    return st;
}

static redco_status run_all(run *r, const redco_binding *bindings, uint32_t binding_count)
{
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < redco_graph_op_count(r->graph) && st == REDCO_OK; i++) {
        const redco_op *op = redco_graph_op(r->graph, i);
        if (!r->live[i]) { continue; }
        if (op->kind == REDCO_OP_INPUT) {
            st = load_input(r, op->first_output, bindings, binding_count);
        } else if (redco_op_is_view(op->kind)) {
            r->data[op->first_output] = r->data[op->inputs[0]];
        } else {
            st = run_op(r, op);
        }
        if (st == REDCO_OK) { st = release_unused(r, op); }
    }
    return st;
}

redco_status redco_evaluate(redco_backend *backend, const redco_graph *graph, const redco_binding *bindings,
                            uint32_t binding_count, const redco_result *results, uint32_t result_count,
                            redco_error *err)
{
    return redco_evaluate_rank(backend, NULL, graph, bindings, binding_count, results, result_count, err);
}

redco_status redco_evaluate_rank(redco_backend *backend, const redco_collectives *collectives, const redco_graph *graph,
                                 const redco_binding *bindings, uint32_t binding_count, const redco_result *results,
                                 uint32_t result_count, redco_error *err)
{
    const redco_backend_calls *calls = backend->calls;
    const size_t values = redco_graph_value_count(graph), ops = redco_graph_op_count(graph);
    run r = {.backend = backend, .collectives = collectives, .graph = graph, .err = err};
    redco_value *wanted = NULL;
    redco_status st = redco_graph_status(graph, err);
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < result_count; i++) {
        if (results[i].value >= values) {
            return redco_fail(err, REDCO_EVALUE, "graph", "result %u is no value of this graph", i);
        }
    }
    r.live = calloc(ops + 1, sizeof *r.live);
    r.last_use = calloc(values + 1, sizeof *r.last_use);
    r.memory = calloc(values + 1, sizeof(void *));
    r.data = calloc(values + 1, sizeof(void *));
    r.owner = calloc(values + 1, sizeof *r.owner);
    wanted = calloc((size_t)result_count + 1, sizeof *wanted);
    if (!r.live || !r.last_use || !r.memory || !r.data || !r.owner || !wanted) {
        st = redco_fail(err, REDCO_ENOMEM, "graph", "no memory to run %zu operators", ops);
        goto out;
    }
    if ((st = calls->stream_create(backend, REDCO_DEVICE_STREAM_COMPUTATION, &r.stream, err)) != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < result_count; i++) { wanted[i] = results[i].value; }
    redco_graph_live(graph, wanted, result_count, r.live);
    find_lifetimes(&r, results, result_count);
    if ((st = run_all(&r, bindings, binding_count)) != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < result_count && st == REDCO_OK; i++) {
        st = calls->copy(backend, r.stream, results[i].data, r.data[results[i].value],
                         redco_type_bytes(redco_value_type(graph, results[i].value)), err);
    }
    if (st == REDCO_OK) { st = calls->stream_finish(backend, r.stream, err); }
out:
    if (r.stream != NULL) {
        calls->stream_free(backend, r.stream);
    } /* first: what a failure left in it uses the memory */
    for (size_t i = 0; r.memory != NULL && i < values; i++) {
        calls->release(backend, REDCO_MEMORY_DEVICE, r.memory[i]);
    }
    free(r.live);
    free(r.last_use);
    free(r.memory);
    free(r.data);
    free(r.owner);
    free(wanted);
    return st;
}
