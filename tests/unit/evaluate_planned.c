#include "evaluate_planned.h"

#include "poison_memory.h"

#include <stdlib.h>
#include <string.h>

typedef struct run {
    redco_backend *backend;
    const redco_collectives *collectives;
    const redco_graph *graph;
    redco_device_stream *stream;
    redco_memory_plan plan;
    redco_memory_map map;
    void **inputs; /**< by value: owned */
    redco_error *err;
} run;

static redco_status plan_memory(run *r, const redco_lifetimes_options *options, const redco_result *results,
                                uint32_t result_count)
{
    redco_lifetimes_options own = *options;
    redco_value *const kept = calloc((size_t)result_count + 1, sizeof *kept);
    if (kept == NULL) { return redco_fail(r->err, REDCO_ENOMEM, "graph", "no memory for its results"); }
    for (uint32_t i = 0; i < result_count; i++) { kept[i] = results[i].value; }
    own.backend = r->backend;
    own.collectives = r->collectives;
    own.outside_count = 0;
    own.kept = kept;
    own.kept_count = result_count;
    const redco_status st = redco_memory_plan_make(r->graph, &own, &r->plan, r->err);
    free(kept);
    return st;
}

static redco_status load_inputs(const run *r, const redco_binding *bindings, uint32_t count)
{
    const redco_backend_calls *const calls = r->backend->calls;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const redco_value value = bindings[i].value;
        if (value >= r->plan.lifetimes.value_count || r->inputs[value] != NULL) { continue; }
        const uint64_t bytes = redco_type_bytes(redco_value_type(r->graph, value));
        st = calls->allocate(r->backend, REDCO_MEMORY_DEVICE, bytes, &r->inputs[value], r->err);
        if (st == REDCO_OK) {
            st = calls->copy(r->backend, r->stream, r->inputs[value], bindings[i].data, bytes, r->err);
        }
    }
    for (uint32_t s = 0; s < r->plan.lifetimes.step_count && st == REDCO_OK; s++) {
        const redco_op *const op = redco_graph_op(r->graph, r->plan.lifetimes.order[s]);
        for (uint32_t k = 0; k < op->input_count && st == REDCO_OK; k++) {
            const redco_value_place place = r->plan.lifetimes.place[op->inputs[k]];
            if (place.kind == REDCO_PLACE_INPUT && r->inputs[place.index] == NULL) {
                st = redco_fail(r->err, REDCO_EVALUE, redco_value_name(r->graph, place.index),
                                "no data is bound to this input");
            }
        }
    }
    return st;
}

static redco_status run_all(run *r, bool poison)
{
    const redco_lifetimes *const l = &r->plan.lifetimes;
    redco_status st = REDCO_OK;
    if (poison) { st = poison_memory(&r->map, r->backend, r->stream, REDCO_NO_OP, r->err); }
    for (uint32_t s = 0; s < l->step_count && st == REDCO_OK; s++) {
        st = redco_memory_run(&r->map, r->backend, r->stream, r->collectives, l->order[s], r->err);
        if (st == REDCO_OK && poison) { st = poison_memory(&r->map, r->backend, r->stream, s, r->err); }
    }
    return st;
}

static redco_status read_results(const run *r, const redco_result *results, uint32_t count)
{
    const redco_backend_calls *const calls = r->backend->calls;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const void *const data = redco_memory_of(&r->map, results[i].value);
        if (data == NULL) {
            return redco_fail(r->err, REDCO_EVALUE, redco_value_name(r->graph, results[i].value),
                              "no data is bound to this input");
        }
        st = calls->copy(r->backend, r->stream, results[i].data, data,
                         redco_type_bytes(redco_value_type(r->graph, results[i].value)), r->err);
    }
    return st == REDCO_OK ? calls->stream_finish(r->backend, r->stream, r->err) : st;
}

redco_status redco_evaluate_planned(redco_backend *backend, const redco_collectives *collectives,
                                    const redco_graph *graph, const redco_lifetimes_options *options,
                                    const redco_binding *bindings, uint32_t binding_count, const redco_result *results,
                                    uint32_t result_count, bool poison, redco_memory_plan *plan_out, redco_error *err)
{
    const redco_backend_calls *const calls = backend->calls;
    run r = {.backend = backend, .collectives = collectives, .graph = graph, .err = err};
    void *arena = NULL;
    redco_status st = plan_memory(&r, options, results, result_count);
    if (st != REDCO_OK) { return st; }
    r.inputs = calloc((size_t)r.plan.lifetimes.value_count + 1, sizeof(void *));
    if (r.inputs == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "graph", "no memory for its inputs");
        goto out;
    }
    if ((st = calls->stream_create(backend, REDCO_DEVICE_STREAM_COMPUTATION, &r.stream, err)) != REDCO_OK) { goto out; }
    if (r.plan.arena.bytes > 0) { st = calls->allocate(backend, REDCO_MEMORY_DEVICE, r.plan.arena.bytes, &arena, err); }
    r.map = (redco_memory_map){graph, &r.plan, arena, r.inputs, NULL};
    if (st == REDCO_OK) { st = load_inputs(&r, bindings, binding_count); }
    if (st == REDCO_OK) { st = run_all(&r, poison); }
    if (st == REDCO_OK) { st = read_results(&r, results, result_count); }
    if (st == REDCO_OK && plan_out != NULL) {
        *plan_out = r.plan;
        r.plan = (redco_memory_plan){.offsets = NULL};
    }
out:
    if (r.stream != NULL) {
        calls->stream_free(backend, r.stream);
    } /* first: what a failure left in it uses the memory */
    for (size_t i = 0; r.inputs != NULL && i < redco_graph_value_count(graph); i++) {
        calls->release(backend, REDCO_MEMORY_DEVICE, r.inputs[i]);
    }
    calls->release(backend, REDCO_MEMORY_DEVICE, arena);
    redco_memory_plan_free(&r.plan);
    free(r.inputs);
    return st;
}
