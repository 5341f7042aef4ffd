/* Addresses of the graph's values, and the launches that use them. */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>

static const redco_op *op_at(const redco_schedule *s, uint32_t position)
{
    return redco_graph_op(s->options.graph, s->bind.order[position]);
}

static uint32_t ordered(const redco_schedule *s)
{
    const redcoi_compute_task *const last = &s->bind.compute_tasks[s->bind.compute_task_count - 1];
    return last->ops.first + last->ops.count;
}

static bool is_collective(const redco_op *op)
{
    return redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE;
}

static uint64_t aligned(uint64_t bytes)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    return (bytes + unit - 1) / unit * unit;
}

static redcoi_address gradient_at(const redco_schedule *s, uint32_t tensor)
{
    const redco_layout *const layout = redco_states_layout(s->options.states);
    const redcoi_slot *const slot = &s->memory.slots[s->memory.gradient_slot[redco_layout_module_of(layout, tensor)]];
    const uint64_t element_bytes = redco_dtype_bytes(redco_states_dtype(s->options.states));
    redcoi_address at = redcoi_slot_at(s, slot);
    at.first += redco_layout_tensor_at(layout, tensor) * element_bytes;
    return at;
}

/* Gradients are written in their slots, taken at the first write; all other values are in the arena. The loss is read
 * when its operator has ended. */
redco_status redcoi_values_plan(redco_schedule *s, redco_error *err)
{
    const redco_graph *const graph = s->options.graph;
    redco_value leaving[2 * REDCOI_LEAVING_MAX];
    const redco_lifetimes_options options = {.backend = s->threads[REDCOI_STREAM_COMPUTE].backend,
                                             .collectives = s->options.collectives,
                                             .order = s->bind.order,
                                             .order_count = ordered(s),
                                             .outside = s->options.gradients,
                                             .outside_count = redcoi_schedule_model(s)->tensor_count,
                                             .outside_early = true,
                                             .kept = &s->options.loss,
                                             .kept_count = s->options.loss != REDCO_NO_VALUE ? 1 : 0,
                                             .read = leaving,
                                             .read_count = redcoi_leaving_list(s, leaving)};
    for (uint32_t v = 0; v < redco_graph_value_count(graph); v++) {
        const redco_op *const op = redco_value_op(graph, v);
        bool fed = op->kind != REDCO_OP_INPUT || !s->bind.live[op->id] || s->bind.tensor_of[v] != REDCO_STEP_NONE;
        for (uint32_t i = 0; i < s->options.input_count; i++) { fed = fed || s->options.inputs[i] == v; }
        fed = fed || redcoi_received_at(s, v, NULL);
        if (fed) { continue; }
        return redco_fail(err, REDCO_EVALUE, redco_value_name(graph, v), "is an input that nobody feeds");
    }
    const redco_status st = redco_lifetimes_find(graph, &options, &s->memory.lifetimes, err);
    const redco_lifetimes *const l = &s->memory.lifetimes;
    for (uint32_t t = 0; t < options.outside_count && st == REDCO_OK; t++) {
        if (s->options.gradients[t] == REDCO_NO_VALUE) { continue; }
        uint32_t *const first = &s->bind.first_of[redco_layout_module_of(redco_states_layout(s->options.states), t)];
        const uint32_t step = l->outside_step[t];
        const uint32_t compute_task = step < l->step_count ? s->bind.compute_task_of[l->order[step]] : *first;
        if (compute_task < *first) { *first = compute_task; }
    }
    return st;
}

/* Peak bytes of values and workspaces during a compute task, and bytes that stay after it: its operators use their
 * workspaces one after the other. */
static redco_status weigh_values(redco_schedule *s, redco_error *err)
{
    const redco_lifetimes *const l = &s->memory.lifetimes;
    /* Values that begin with an operator of the step, and those that end with it; all end with the micro-batch. */
    int64_t *const comes = calloc((size_t)l->step_count + 1, 2 * sizeof *comes), *const goes = comes + l->step_count;
    int64_t live = 0, most = 0;
    if (comes == NULL) { return redco_fail(err, REDCO_ENOMEM, "schedule", "out of memory"); }
    for (uint32_t i = 0; i < l->interval_count; i++) {
        const uint32_t last = l->intervals[i].last < l->step_count ? l->intervals[i].last : l->step_count - 1;
        comes[l->intervals[i].first] += (int64_t)l->intervals[i].size_bytes;
        goes[last] += (int64_t)l->intervals[i].size_bytes;
    }
    for (uint32_t step = 0; step < l->step_count; step++) {
        const uint32_t number = s->bind.compute_task_of[l->order[step]];
        const bool ends = step + 1 == l->step_count || s->bind.compute_task_of[l->order[step + 1]] != number;
        redcoi_compute_task *const compute_task = &s->bind.compute_tasks[number];
        const bool begins = step == 0 || s->bind.compute_task_of[l->order[step - 1]] != number;
        if (begins) { compute_task->value_bytes[0] = -live; }
        live += comes[step];
        most = begins || live > most ? live : most;
        live -= goes[step];
        if (!ends) { continue; }
        compute_task->value_bytes[0] += most;
        compute_task->value_bytes[1] = live - most;
    }
    free(comes);
    return REDCO_OK;
}

/* Slots of gathered weights and of gradients. */
static void weigh_slots(redco_schedule *s)
{
    for (uint32_t k = 0; k < s->memory.slot_count; k++) {
        const redcoi_slot *const slot = &s->memory.slots[k];
        const int64_t bytes = (int64_t)slot->bytes;
        if (!slot->gradient) {
            if (slot->dies % 2 == 0) { s->bind.compute_tasks[slot->dies / 2 - 1].weight_bytes -= bytes; }
            continue;
        }
        s->bind.compute_tasks[slot->producer].gradient_bytes[0] += bytes;
        if (slot->scatter == REDCO_STEP_NONE) {
            s->bind.compute_tasks[s->bind.ready_of[slot->module]].gradient_bytes[1] -= bytes;
        }
    }
}

static redco_status take(redco_schedule *s, uint64_t bytes, unsigned char **block_out, redco_error *err)
{
    redco_backend *const backend = s->threads[REDCOI_STREAM_COMPUTE].backend;
    void *block = NULL;
    if (bytes == 0) { return REDCO_OK; }
    redco_device_stream *const stream = s->threads[REDCOI_STREAM_COMPUTE].stream;
    redco_status st = backend->calls->allocate(backend, REDCO_MEMORY_DEVICE, bytes, &block, err);
    *block_out = block;
    /* Collectives move the gaps between tensors, too, so these are initialised; all memory is touched before the first
     * step. */
    if (st == REDCO_OK) { st = backend->calls->fill_zero(backend, stream, block, bytes, err); }
    return st == REDCO_OK ? backend->calls->stream_finish(backend, stream, err) : st;
}

/* The weights that a compute task reads: its gathered copy, or the states' own. */
static void *weights_at(const redco_schedule *s, const redcoi_compute_task *compute_task, uint32_t tensor)
{
    const redco_states *const states = s->options.states;
    const uint32_t module = redco_layout_module_of(redco_states_layout(states), tensor);
    const uint64_t at =
        redco_layout_tensor_at(redco_states_layout(states), tensor) * redco_dtype_bytes(redco_states_dtype(states));
    if (!redco_states_gathers(states, module)) { return (unsigned char *)redco_states_module(states, module) + at; }
    for (uint32_t n = 0; compute_task != NULL && n < compute_task->needs.count; n++) {
        if (s->bind.needs[compute_task->needs.first + n] != module) { continue; }
        return s->memory.block + s->memory.slots[s->memory.need_slot[compute_task->needs.first + n]].at + at;
    }
    return NULL; /* a view that nothing of this compute task reads */
}

static redcoi_address fed_at(const redco_schedule *s, redco_value value)
{
    redcoi_address at = {NULL, NULL};
    if (redcoi_received_at(s, value, &at)) { return at; }
    for (uint32_t i = 0; i < s->options.input_count; i++) {
        if (s->options.inputs[i] == value) { return (redcoi_address){s->memory.input_data[i], &s->memory.inputs}; }
    }
    return at;
}

static redcoi_address in_arena(const redco_schedule *s, uint32_t interval)
{
    const redcoi_ring *const ring = s->memory.ring_of[interval];
    return (redcoi_address){(ring != NULL ? ring->memory : s->memory.block) + s->memory.offsets[interval], ring};
}

/* The address of a value for an operator of a compute task. */
static redcoi_address data_of(const redco_schedule *s, const redcoi_compute_task *compute_task, redco_value value)
{
    const redco_value_place place = s->memory.lifetimes.place[value];
    switch (place.kind) {
    case REDCO_PLACE_INPUT:
        if (s->bind.tensor_of[place.index] == REDCO_STEP_NONE) { return fed_at(s, place.index); }
        return (redcoi_address){weights_at(s, compute_task, s->bind.tensor_of[place.index]), NULL};
    case REDCO_PLACE_OUTSIDE: return gradient_at(s, place.index);
    case REDCO_PLACE_ARENA: return in_arena(s, place.index);
    case REDCO_PLACE_NONE: break;
    }
    return (redcoi_address){NULL, NULL};
}

/* The same of a value that is no weight. */
static redcoi_address address_of(const redco_schedule *s, redco_value value)
{
    return data_of(s, NULL, value);
}

static redco_status allocate_launches(redco_schedule *s, redco_error *err)
{
    redcoi_memory *const memory = &s->memory;
    const uint32_t count = ordered(s);
    size_t tensors = 0;
    for (uint32_t at = 0; at < count; at++) { tensors += op_at(s, at)->input_count + op_at(s, at)->output_count; }
    memory->launches = calloc((size_t)count + 1, sizeof *memory->launches);
    memory->tensors = calloc(tensors + 1, sizeof *memory->tensors);
    memory->names = calloc((size_t)count + 1, sizeof *memory->names);
    memory->moving = calloc(tensors + count + 1, sizeof *memory->moving);
    memory->moves = calloc((size_t)count + 1, sizeof *memory->moves);
    if (memory->moving == NULL || memory->moves == NULL) { return redcoi_schedule_memory_short(err); }
    return memory->launches == NULL || memory->tensors == NULL || memory->names == NULL
               ? redcoi_schedule_memory_short(err)
               : REDCO_OK;
}

/* Sets types and names. Of emulated operators only collectives run; their data are contiguous. @return the memory of a
 * collective */
static uint64_t describe(redco_schedule *s, uint32_t at, redco_tensor *tensors)
{
    const redco_graph *const graph = s->options.graph;
    const redco_op *const op = op_at(s, at);
    const redco_collectives *const c = s->options.collectives;
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
        const redco_value value = k < op->input_count ? op->inputs[k] : op->first_output + k - op->input_count;
        tensors[k].type = *redco_value_type(graph, value);
        bytes += aligned(redco_type_bytes(&tensors[k].type));
    }
    s->memory.launches[at] =
        (redco_launch){.kind = op->kind,
                       .attributes = &op->attributes,
                       .input_count = op->input_count,
                       .output_count = op->output_count,
                       .inputs = tensors,
                       .outputs = tensors + op->input_count,
                       .name = redco_op_name(graph, op, s->memory.names[at], REDCOI_OP_NAME_BYTES)};
    if (!is_collective(op) || c == NULL) { return 0; }
    return bytes + c->workspace_bytes(c->context, &s->memory.launches[at]);
}

static void place_emulated(redco_schedule *s, uint32_t at, redco_tensor *tensors)
{
    redco_launch *const launch = &s->memory.launches[at];
    unsigned char *next = s->memory.block + s->memory.emulated_at;
    if (!is_collective(op_at(s, at))) { return; }
    for (uint32_t k = 0; k < launch->input_count + launch->output_count; k++) {
        tensors[k].data = next;
        next += aligned(redco_type_bytes(&tensors[k].type));
    }
    launch->workspace = next;
}

static void place_launch(redco_schedule *s, uint32_t at, redco_tensor *tensors)
{
    const redco_op *const op = op_at(s, at);
    const redcoi_compute_task *const compute_task = &s->bind.compute_tasks[s->bind.compute_task_of[op->id]];
    const uint32_t workspace = s->memory.lifetimes.workspace[op->id];
    redcoi_range_of *const moves = &s->memory.moves[at];
    moves->first = at > 0 ? s->memory.moves[at - 1].first + s->memory.moves[at - 1].count : 0;
    for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
        const redco_value value = k < op->input_count ? op->inputs[k] : op->first_output + k - op->input_count;
        const redcoi_address address = data_of(s, compute_task, value);
        tensors[k].data = address.first;
        if (address.ring == NULL || address.ring->count < 2) { continue; }
        s->memory.moving[moves->first + moves->count++] =
            (redcoi_moving){(uint32_t)(tensors - s->memory.tensors) + k, address};
    }
    if (workspace == REDCO_NO_INTERVAL) { return; }
    const redcoi_address room = in_arena(s, workspace);
    s->memory.launches[at].workspace = room.first;
    if (room.ring == NULL || room.ring->count < 2) { return; }
    s->memory.moving[moves->first + moves->count++] = (redcoi_moving){REDCO_STEP_NONE, room};
}

/* Copies gradients that could not be written to their slots. */
static redco_status list_copies(redco_schedule *s, redco_error *err)
{
    const redco_graph *const graph = s->options.graph;
    const uint32_t tensors = redcoi_schedule_model(s)->tensor_count;
    redcoi_memory *const memory = &s->memory;
    memory->copies = calloc((size_t)tensors + 1, sizeof *memory->copies);
    if (memory->copies == NULL) { return redcoi_schedule_memory_short(err); }
    for (uint32_t p = 0; p < s->bind.compute_task_count; p++) {
        redcoi_compute_task *const compute_task = &s->bind.compute_tasks[p];
        compute_task->copies = (redcoi_range_of){memory->copy_count, 0};
        for (uint32_t t = 0; t < tensors && !s->options.emulate; t++) {
            const redco_value gradient = s->options.gradients[t];
            if (gradient == REDCO_NO_VALUE || !memory->lifetimes.copied[t] ||
                s->bind.compute_task_of[redco_value_op(graph, gradient)->id] != p) {
                continue;
            }
            memory->copies[memory->copy_count++] =
                (redcoi_copy_of){p, data_of(s, compute_task, gradient), gradient_at(s, t),
                                 redco_type_bytes(redco_value_type(graph, gradient))};
            compute_task->copies.count++;
        }
    }
    return REDCO_OK;
}

/* Inputs of a micro-batch stay from its beginning to its end. */
static uint64_t input_bytes(const redco_schedule *s, unsigned char *block)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < s->options.input_count && !s->options.emulate; i++) {
        if (s->options.inputs[i] == REDCO_NO_VALUE) { continue; }
        if (block != NULL) { s->memory.input_data[i] = block + bytes; }
        bytes += aligned(redco_type_bytes(redco_value_type(s->options.graph, s->options.inputs[i])));
    }
    return bytes;
}

/* The arena, what collectives among emulated computation use, and inputs. */
static redco_status take_block(redco_schedule *s, uint64_t emulated_bytes, redco_error *err)
{
    redcoi_memory *const memory = &s->memory;
    memory->emulated_at = aligned(memory->arena.bytes);
    const uint64_t rings_at = aligned(memory->emulated_at + emulated_bytes);
    uint64_t stays_bytes = 0;
    memory->inputs.bytes = input_bytes(s, NULL);
    memory->size.arena_bytes = memory->emulated_at + emulated_bytes;
    memory->size.input_bytes = memory->inputs.bytes * memory->inputs.count;
    if (s->options.links != NULL) {
        memory->size.arena_bytes = rings_at + redcoi_rings_place(s, NULL, &stays_bytes);
        memory->size.held_bytes[REDCO_ARENA_ACTIVATIONS] += stays_bytes;
    }
    const redco_status st = take(s, memory->size.arena_bytes + memory->size.input_bytes, &memory->block, err);
    if (st != REDCO_OK || memory->block == NULL) { return st; }
    (void)redcoi_rings_place(s, memory->block + rings_at, &stays_bytes);
    memory->inputs.memory = memory->block + memory->size.arena_bytes;
    (void)input_bytes(s, memory->inputs.memory);
    return st;
}

redco_status redcoi_memory_take(redco_schedule *s, redco_error *err)
{
    uint64_t emulated_bytes = 0;
    s->memory.input_data = calloc((size_t)s->options.input_count + 1, sizeof *s->memory.input_data);
    if (s->memory.input_data == NULL) { return redcoi_schedule_memory_short(err); }
    redco_status st = allocate_launches(s, err);
    if (st != REDCO_OK) { return st; }
    redco_tensor *tensors = s->memory.tensors;
    for (uint32_t at = 0; at < ordered(s); at++) {
        const uint64_t bytes = aligned(describe(s, at, tensors));
        if (bytes > emulated_bytes && s->options.emulate) { emulated_bytes = bytes; }
        tensors += op_at(s, at)->input_count + op_at(s, at)->output_count;
    }
    if (!s->options.emulate && (st = weigh_values(s, err)) != REDCO_OK) { return st; }
    weigh_slots(s);
    if ((st = take_block(s, emulated_bytes, err)) != REDCO_OK) { return st; }
    tensors = s->memory.tensors;
    for (uint32_t at = 0; at < ordered(s); at++) {
        (s->options.emulate ? place_emulated : place_launch)(s, at, tensors);
        tensors += op_at(s, at)->input_count + op_at(s, at)->output_count;
    }
    if (!s->options.emulate && s->options.loss != REDCO_NO_VALUE) { s->memory.loss = address_of(s, s->options.loss); }
    st = list_copies(s, err);
    return st == REDCO_OK ? redcoi_handovers_list(s, address_of, err) : st;
}

void redcoi_memory_free(redco_schedule *s)
{
    redcoi_memory *const memory = &s->memory;
    redco_backend *const backend = s->threads[REDCOI_STREAM_COMPUTE].backend;
    if (backend != NULL) { backend->calls->release(backend, REDCO_MEMORY_DEVICE, memory->block); }
    redco_lifetimes_free(&memory->lifetimes);
    redcoi_rings_free(memory);
    free(memory->offsets);
    free(memory->slots);
    free(memory->need_slot);
    free(memory->gradient_slot);
    free((void *)memory->input_data);
    free(memory->launches);
    free(memory->tensors);
    free(memory->names);
    free(memory->copies);
}
