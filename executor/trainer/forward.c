#include "executor/trainer/forward.h"

#include <stdlib.h>
#include <string.h>

/* A parameter that a run reads. */
struct use {
    redco_value value;
    uint32_t tensor, module;
};

/* A module that is gathered for a run, from its first reader to its last, in the block of all of them. */
struct gathered {
    uint32_t module, first, last;
    uint64_t at;
};

/* An input that the program gives. */
struct given {
    redco_value value;
    void *data; /* device memory */
};

struct redcoi_forward {
    redco_trainer *trainer;
    redco_graph *graph; /* this rank's */
    redco_memory_plan plan;
    redco_device_stream *stream;
    void *arena, *block; /* values; gathered modules */
    void **inputs;       /* by value of the graph: device memory */
    void **outside;      /* results, then what is kept */
    redco_value *outputs;
    uint32_t result_count, kept_count;
    redco_value *kept;     /* inputs; REDCO_NO_VALUE: not read */
    uint32_t *kept_output; /* by kept tensor: its place among outputs, UINT32_MAX: none */
    uint32_t output_count;
    struct use *uses;
    uint32_t use_count;
    struct gathered *gathered;
    uint32_t gathered_count;
    struct given *given;
    uint32_t given_count;
};

static redco_status no_memory(const redcoi_forward *f, redco_error *err)
{
    return redco_fail(err, REDCO_ENOMEM, f->trainer->place, "no memory to evaluate it");
}

static redco_tp_layout kept_layout(const redco_trainer *t, const redcoi_kept *kept)
{
    const redco_tp_layout split = redco_tp_split(2);
    return kept->split && redco_tp_fits(split, &kept->type, t->mesh.tp) ? split : redco_tp_replicated();
}

uint64_t redcoi_kept_bytes(const redco_trainer *t, const redcoi_kept *kept)
{
    const redco_tensor_type local = redco_tp_local(kept_layout(t, kept), &kept->type, t->mesh.tp);
    return redco_type_bytes(&local);
}

/* The graph of this rank, with the results and then what is kept as its outputs. */
static redco_status cut(redcoi_forward *f, const redcoi_forward_options *o, redco_error *err)
{
    const redco_trainer *const t = f->trainer;
    const uint32_t parameters = (uint32_t)t->task->parameter_count;
    redco_partition_output *const wanted = calloc((size_t)o->result_count + o->kept_count + 1, sizeof *wanted);
    redco_tp_input *const inputs = calloc((size_t)parameters + o->kept_count + 1, sizeof *inputs);
    redco_status st = wanted == NULL || inputs == NULL ? no_memory(f, err) : REDCO_OK;
    for (uint32_t i = 0; i < o->result_count && st == REDCO_OK; i++) {
        wanted[f->output_count++] = (redco_partition_output){o->results[i], NULL};
    }
    for (uint32_t i = 0; i < o->kept_count && st == REDCO_OK; i++) {
        f->kept_output[i] = UINT32_MAX;
        if (o->kept[i].value == REDCO_NO_VALUE) { continue; }
        f->kept_output[i] = f->output_count;
        wanted[f->output_count++] = (redco_partition_output){o->kept[i].value, o->kept[i].name};
    }
    uint32_t count = 0;
    for (uint32_t i = 0; i < parameters && st == REDCO_OK; i++) {
        if (redco_graph_find_input(o->graph, t->task->parameters[i].name) == REDCO_NO_VALUE) { continue; }
        inputs[count++] = (redco_tp_input){t->task->parameters[i].name, t->layouts[i], false};
    }
    for (uint32_t i = 0; i < o->kept_count && st == REDCO_OK; i++) {
        inputs[count++] = (redco_tp_input){o->kept[i].name, kept_layout(t, &o->kept[i]), true};
    }
    const redco_partition_options options = {
        .group = {0, t->mesh.tp}, .rank = t->at.tp, .inputs = inputs, .input_count = count};
    if (st == REDCO_OK) {
        st = redco_partition(o->graph, wanted, f->output_count, &options, &f->graph, f->outputs, err);
    }
    free(wanted);
    free(inputs);
    return st;
}

static redco_status plan_memory(redcoi_forward *f, redco_error *err)
{
    const redco_trainer *const t = f->trainer;
    const redco_backend_calls *const calls = t->backend->calls;
    const redco_lifetimes_options options = {.backend = t->backend,
                                             .collectives = t->mesh.tp > 1 ? &t->collectives : NULL,
                                             .outside = f->outputs,
                                             .outside_count = f->output_count};
    redco_status st = redco_memory_plan_make(f->graph, &options, &f->plan, err);
    if (st == REDCO_OK) { st = calls->stream_create(t->backend, REDCO_DEVICE_STREAM_COMPUTATION, &f->stream, err); }
    if (st == REDCO_OK && f->plan.arena.bytes > 0) {
        st = calls->allocate(t->backend, REDCO_MEMORY_DEVICE, f->plan.arena.bytes, &f->arena, err);
    }
    for (uint32_t i = 0; i < f->result_count && st == REDCO_OK; i++) {
        st = calls->allocate(t->backend, REDCO_MEMORY_DEVICE,
                             redco_type_bytes(redco_value_type(f->graph, f->outputs[i])), &f->outside[i], err);
    }
    return st;
}

/* First and last step that reads each input, or an output that is an input. */
static void find_readers(const redcoi_forward *f, uint32_t *first, uint32_t *last)
{
    const redco_lifetimes *const l = &f->plan.lifetimes;
    for (uint32_t v = 0; v < l->value_count; v++) { first[v] = UINT32_MAX; }
    for (uint32_t s = 0; s < l->step_count; s++) {
        const redco_op *const op = redco_graph_op(f->graph, l->order[s]);
        for (uint32_t k = 0; k < op->input_count; k++) {
            const redco_value_place place = l->place[op->inputs[k]];
            if (place.kind != REDCO_PLACE_INPUT) { continue; }
            if (first[place.index] == UINT32_MAX) { first[place.index] = s; }
            last[place.index] = s;
        }
    }
    for (uint32_t i = 0; i < f->output_count; i++) {
        const redco_value_place place = l->place[f->outputs[i]];
        if (place.kind != REDCO_PLACE_INPUT || l->step_count == 0) { continue; }
        if (first[place.index] == UINT32_MAX) { first[place.index] = l->step_count - 1; }
        last[place.index] = l->step_count - 1;
    }
}

static redco_status add_module(redcoi_forward *f, uint32_t module, uint32_t first, uint32_t last)
{
    if (!redco_states_gathers(f->trainer->states, module)) { return REDCO_OK; }
    for (uint32_t i = 0; i < f->gathered_count; i++) {
        struct gathered *const g = &f->gathered[i];
        if (g->module != module) { continue; }
        g->first = first < g->first ? first : g->first;
        g->last = last > g->last ? last : g->last;
        return REDCO_OK;
    }
    f->gathered[f->gathered_count++] = (struct gathered){module, first, last, 0};
    return REDCO_OK;
}

static redco_status place_gathered(redcoi_forward *f, redco_error *err)
{
    const redco_trainer *const t = f->trainer;
    const redco_layout *const layout = redco_states_layout(t->states);
    const uint32_t count = f->gathered_count;
    redco_interval *const intervals = calloc((size_t)count + 1, sizeof *intervals);
    uint64_t *const offsets = calloc((size_t)count + 1, sizeof *offsets);
    redco_arena arena = {.bytes = 0};
    redco_status st = intervals == NULL || offsets == NULL ? no_memory(f, err) : REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const struct gathered *const g = &f->gathered[i];
        intervals[i] = (redco_interval){
            redco_layout_module(layout, g->module)->whole * redco_dtype_bytes(t->options.dtype), g->first, g->last};
    }
    if (st == REDCO_OK) { st = redco_arena_plan(intervals, count, REDCO_ALIGNMENT_BYTES, offsets, &arena, err); }
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) { f->gathered[i].at = offsets[i]; }
    if (st == REDCO_OK && arena.bytes > 0) {
        st = t->backend->calls->allocate(t->backend, REDCO_MEMORY_DEVICE, arena.bytes, &f->block, err);
    }
    free(intervals);
    free(offsets);
    return st;
}

/* Every input that is read is a parameter, kept, or given. */
static redco_status sort_inputs(redcoi_forward *f, const redcoi_forward_options *o, redco_error *err)
{
    const redco_trainer *const t = f->trainer;
    const redco_layout *const layout = redco_states_layout(t->states);
    const uint32_t values = f->plan.lifetimes.value_count;
    uint32_t *const first = calloc((size_t)values + 1, sizeof *first);
    uint32_t *const last = calloc((size_t)values + 1, sizeof *last);
    bool *const taken = calloc((size_t)values + 1, sizeof *taken);
    redco_status st = first == NULL || last == NULL || taken == NULL ? no_memory(f, err) : REDCO_OK;
    if (st == REDCO_OK) { find_readers(f, first, last); }
    for (uint32_t i = 0; i < t->task->parameter_count && st == REDCO_OK; i++) {
        const redco_value value = redco_graph_find_input(f->graph, t->task->parameters[i].name);
        if (value == REDCO_NO_VALUE || first[value] == UINT32_MAX) { continue; }
        const uint32_t module = redco_layout_module_of(layout, i);
        f->uses[f->use_count++] = (struct use){value, i, module};
        taken[value] = true;
        st = add_module(f, module, first[value], last[value]);
    }
    for (uint32_t i = 0; i < o->kept_count && st == REDCO_OK; i++) {
        f->kept[i] = redco_graph_find_input(f->graph, o->kept[i].name);
        if (f->kept[i] != REDCO_NO_VALUE) { taken[f->kept[i]] = true; }
    }
    f->given = calloc((size_t)values + 1, sizeof *f->given);
    if (st == REDCO_OK && f->given == NULL) { st = no_memory(f, err); }
    for (uint32_t v = 0; v < values && st == REDCO_OK; v++) {
        if (first[v] == UINT32_MAX || taken[v]) { continue; }
        struct given *const given = &f->given[f->given_count++];
        given->value = v;
        st = t->backend->calls->allocate(t->backend, REDCO_MEMORY_DEVICE,
                                         redco_type_bytes(redco_value_type(f->graph, v)), &given->data, err);
        f->inputs[v] = given->data;
    }
    free(first);
    free(last);
    free(taken);
    return st == REDCO_OK ? place_gathered(f, err) : st;
}

redco_status redcoi_forward_create(redco_trainer *t, const redcoi_forward_options *o, redcoi_forward **forward_out,
                                   redco_error *err)
{
    const size_t outputs = (size_t)o->result_count + o->kept_count + 1;
    redcoi_forward *f = calloc(1, sizeof *f);
    redco_status st = REDCO_OK;
    if (f == NULL) { return redco_fail(err, REDCO_ENOMEM, t->place, "no memory to evaluate it"); }
    f->trainer = t;
    f->result_count = o->result_count;
    f->kept_count = o->kept_count;
    f->outputs = calloc(outputs, sizeof *f->outputs);
    f->outside = calloc(outputs, sizeof(void *));
    f->kept = calloc((size_t)o->kept_count + 1, sizeof *f->kept);
    f->kept_output = calloc((size_t)o->kept_count + 1, sizeof *f->kept_output);
    f->uses = calloc(t->task->parameter_count + 1, sizeof *f->uses);
    f->gathered = calloc((size_t)t->modules.model.module_count + 1, sizeof *f->gathered);
    if (f->outputs == NULL || f->outside == NULL || f->kept == NULL || f->kept_output == NULL || f->uses == NULL ||
        f->gathered == NULL) {
        st = no_memory(f, err);
    }
    if (st == REDCO_OK) { st = cut(f, o, err); }
    if (st == REDCO_OK) { st = plan_memory(f, err); }
    if (st == REDCO_OK && (f->inputs = calloc((size_t)f->plan.lifetimes.value_count + 1, sizeof(void *))) == NULL) {
        st = no_memory(f, err);
    }
    if (st == REDCO_OK) { st = sort_inputs(f, o, err); }
    if (st == REDCO_OK) { st = redco_schedule_settle(t->schedule, err); }
    if (st == REDCO_OK) {
        *forward_out = f;
        f = NULL;
    }
    redcoi_forward_free(f);
    return st;
}

void redcoi_forward_free(redcoi_forward *f)
{
    if (f == NULL) { return; }
    const redco_backend_calls *const calls = f->trainer->backend->calls;
    redco_backend *const backend = f->trainer->backend;
    if (f->stream != NULL) {
        calls->stream_free(backend, f->stream);
    } /* first: what a failure left in it uses the memory */
    for (uint32_t i = 0; i < f->given_count; i++) { calls->release(backend, REDCO_MEMORY_DEVICE, f->given[i].data); }
    for (uint32_t i = 0; f->outside != NULL && i < f->result_count; i++) {
        calls->release(backend, REDCO_MEMORY_DEVICE, f->outside[i]);
    }
    calls->release(backend, REDCO_MEMORY_DEVICE, f->arena);
    calls->release(backend, REDCO_MEMORY_DEVICE, f->block);
    redco_memory_plan_free(&f->plan);
    redco_graph_free(f->graph);
    free(f->inputs);
    free(f->outside);
    free(f->outputs);
    free(f->kept);
    free(f->kept_output);
    free(f->uses);
    free(f->gathered);
    free(f->given);
    free(f);
}

static void *module_at(const redcoi_forward *f, uint32_t module)
{
    for (uint32_t i = 0; i < f->gathered_count; i++) {
        if (f->gathered[i].module == module) { return (unsigned char *)f->block + f->gathered[i].at; }
    }
    return redco_states_module(f->trainer->states, module);
}

/* Where parameters are: those that are not gathered may have moved since the last run. */
static redco_status bind(redcoi_forward *f, const redcoi_fed *fed, uint32_t fed_count, void *const *kept_in,
                         void *const *kept_out, redco_error *err)
{
    const redco_trainer *const t = f->trainer;
    const redco_layout *const layout = redco_states_layout(t->states);
    const uint32_t element_bytes = redco_dtype_bytes(t->options.dtype);
    for (uint32_t i = 0; i < f->use_count; i++) {
        const struct use *const u = &f->uses[i];
        f->inputs[u->value] =
            (unsigned char *)module_at(f, u->module) + redco_layout_tensor_at(layout, u->tensor) * element_bytes;
    }
    for (uint32_t i = 0; i < f->kept_count; i++) {
        if (f->kept[i] != REDCO_NO_VALUE) { f->inputs[f->kept[i]] = kept_in[i]; }
        if (f->kept_output[i] != UINT32_MAX) { f->outside[f->kept_output[i]] = kept_out[i]; }
    }
    uint32_t found = 0;
    for (uint32_t i = 0; i < fed_count; i++) {
        const redco_value value = redco_graph_find_input(f->graph, fed[i].name);
        for (uint32_t g = 0; g < f->given_count; g++) {
            if (f->given[g].value != value) { continue; }
            found++;
            const redco_status st = t->backend->calls->copy(t->backend, f->stream, f->given[g].data, fed[i].data,
                                                            redco_type_bytes(redco_value_type(f->graph, value)), err);
            if (st != REDCO_OK) { return st; }
        }
    }
    if (found == f->given_count) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, t->place, "the graph reads %u inputs; %u of them are given", f->given_count,
                      found);
}

/* Gathers go over the worker's stream, and over memory that operators before have read. */
static redco_status gather_due(redcoi_forward *f, uint32_t step, redco_error *err)
{
    redco_trainer *const t = f->trainer;
    redco_status st = REDCO_OK;
    bool any = false;
    for (uint32_t i = 0; i < f->gathered_count && st == REDCO_OK; i++) {
        if (f->gathered[i].first != step) { continue; }
        if (!any) { st = t->backend->calls->stream_finish(t->backend, f->stream, err); }
        any = true;
        if (st != REDCO_OK) { break; }
        st = redco_states_gather(t->states, t->worker, f->gathered[i].module, false,
                                 (unsigned char *)f->block + f->gathered[i].at, err);
    }
    return any && st == REDCO_OK ? redco_states_worker_finish(t->worker, err) : st;
}

redco_status redcoi_forward_run(redcoi_forward *f, const redcoi_fed *fed, uint32_t fed_count, void *const *kept_in,
                                void *const *kept_out, redco_error *err)
{
    const redco_trainer *const t = f->trainer;
    const redco_backend_calls *const calls = t->backend->calls;
    const redco_lifetimes *const l = &f->plan.lifetimes;
    const redco_memory_map map = {f->graph, &f->plan, f->arena, f->inputs, f->outside};
    redco_status st = bind(f, fed, fed_count, kept_in, kept_out, err);
    for (uint32_t s = 0; s < l->step_count && st == REDCO_OK; s++) {
        st = gather_due(f, s, err);
        if (st == REDCO_OK) {
            st = redco_memory_run(&map, t->backend, f->stream, t->mesh.tp > 1 ? &t->collectives : NULL, l->order[s],
                                  err);
        }
    }
    for (uint32_t i = 0; i < f->output_count && st == REDCO_OK; i++) {
        if (!l->copied[i]) { continue; }
        st = calls->copy(t->backend, f->stream, f->outside[i], redco_memory_of(&map, f->outputs[i]),
                         redco_type_bytes(redco_value_type(f->graph, f->outputs[i])), err);
    }
    return st == REDCO_OK ? calls->stream_finish(t->backend, f->stream, err) : st;
}

redco_status redcoi_forward_read(const redcoi_forward *f, uint32_t result, void *out, redco_error *err)
{
    const redco_backend_calls *const calls = f->trainer->backend->calls;
    const redco_status st = calls->copy(f->trainer->backend, f->stream, out, f->outside[result],
                                        redco_type_bytes(redco_value_type(f->graph, f->outputs[result])), err);
    return st == REDCO_OK ? calls->stream_finish(f->trainer->backend, f->stream, err) : st;
}
