/* Values of the graph: where they lie, and the launches that name those places. */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

struct planner {
    redco_schedule *s;
    redcoi_interval *values; /* by entry of roots */
    redco_value *roots;      /* values that need memory */
    uint32_t *root_at;       /* by value: its entry, or NONE */
    uint32_t root_count;
    uint32_t *position;        /* by operator of the graph: in bind->order */
    uint64_t *workspace_bytes; /* by entry of order */
    uint64_t most_workspace_bytes;
};

static const redco_op *op_at(const redco_schedule *s, uint32_t position)
{
    return redco_graph_op(s->options.graph, s->bind.order[position]);
}

static uint32_t ordered(const redco_schedule *s)
{
    const redcoi_piece *const last = &s->bind.pieces[s->bind.piece_count - 1];
    return last->ops.first + last->ops.count;
}

static bool is_collective(const redco_op *op)
{
    return redco_op_kind_class(op->kind) == REDCO_CLASS_COLLECTIVE;
}

/* The tensor whose gradient a value is, where the value can be made in its place. */
static uint32_t *gradients_by_root(const redco_schedule *s)
{
    const redco_graph *const graph = s->options.graph;
    const uint32_t values = redco_graph_value_count(graph);
    uint32_t *const of = malloc(((size_t)values + 1) * sizeof *of);
    if (of == NULL) { return NULL; }
    memset(of, 0xff, ((size_t)values + 1) * sizeof *of);
    for (uint32_t t = 0; t < redcoi_schedule_model(s)->tensor_count; t++) {
        const redco_value root = s->bind.root_of[s->options.gradients[t]];
        if (of[root] == REDCO_STEP_NONE && redco_value_op(graph, root)->kind != REDCO_OP_INPUT) { of[root] = t; }
    }
    return of;
}

static unsigned char *gradient_at(const redco_schedule *s, uint32_t tensor)
{
    const redco_layout *const layout = redco_states_layout(s->options.states);
    const redcoi_slot *const slot = &s->memory.slots[s->memory.gradient_slot[redco_layout_module_of(layout, tensor)]];
    const uint64_t element_bytes = redco_dtype_bytes(redco_states_dtype(s->options.states));
    return s->memory.slot_block + slot->at + redco_layout_tensor_at(layout, tensor) * element_bytes;
}

static bool is_fed(const redco_schedule *s, redco_value value)
{
    for (uint32_t i = 0; i < s->options.input_count; i++) {
        if (s->options.inputs[i] == value) { return true; }
    }
    return false;
}

static void want(struct planner *p, redco_value value, uint32_t from)
{
    const redco_schedule *const s = p->s;
    p->root_at[value] = p->root_count;
    p->roots[p->root_count] = value;
    p->values[p->root_count++] = (redcoi_interval){
        .bytes = redco_type_bytes(redco_value_type(s->options.graph, value)), .from = from, .to = from};
}

/* Every value with memory of its own, from the operator that makes it to the last that reads it. */
static redco_status find_values(struct planner *p, const uint32_t *gradient_of, redco_error *err)
{
    redco_schedule *const s = p->s;
    const redco_graph *const graph = s->options.graph;
    for (uint32_t i = 0; i < s->options.input_count; i++) {
        if (s->options.inputs[i] != REDCO_NO_VALUE) { want(p, s->options.inputs[i], 0); }
    }
    for (uint32_t at = 0; at < ordered(s); at++) {
        const redco_op *const op = op_at(s, at);
        for (uint32_t k = 0; k < op->input_count; k++) {
            const redco_value root = s->bind.root_of[op->inputs[k]];
            if (p->root_at[root] != REDCO_STEP_NONE) { p->values[p->root_at[root]].to = at; }
            if (redco_value_op(graph, root)->kind != REDCO_OP_INPUT || is_fed(s, root) ||
                s->bind.tensor_of[root] != REDCO_STEP_NONE) {
                continue;
            }
            return redco_fail(err, REDCO_EVALUE, redco_value_name(graph, root), "is an input that nobody feeds");
        }
        if (redco_op_is_view(op->kind)) { continue; }
        for (uint32_t k = 0; k < op->output_count; k++) {
            if (gradient_of[op->first_output + k] == REDCO_STEP_NONE) { want(p, op->first_output + k, at); }
        }
    }
    for (uint32_t t = 0; t < redcoi_schedule_model(s)->tensor_count; t++) { /* copied at the end of the piece */
        const redco_value root = s->bind.root_of[s->options.gradients[t]];
        if (p->root_at[root] == REDCO_STEP_NONE) { continue; }
        const redcoi_range_of ops =
            s->bind.pieces[s->bind.piece_of[redco_value_op(graph, s->options.gradients[t])->id]].ops;
        const uint32_t end = ops.first + ops.count - 1;
        if (p->values[p->root_at[root]].to < end) { p->values[p->root_at[root]].to = end; }
    }
    const redco_value loss = s->bind.root_of[s->options.loss];
    if (p->root_at[loss] != REDCO_STEP_NONE) { /* read when its piece is done */
        const redcoi_range_of ops = s->bind.pieces[s->bind.piece_of[redco_value_op(graph, s->options.loss)->id]].ops;
        uint32_t *const to = &p->values[p->root_at[loss]].to;
        if (*to < ops.first + ops.count) { *to = ops.first + ops.count - 1; }
    }
    return REDCO_OK;
}

/* Launches without data: enough to ask for workspace. */
static redco_status describe(struct planner *p, redco_error *err)
{
    redco_schedule *const s = p->s;
    const redco_graph *const graph = s->options.graph;
    redcoi_memory *const memory = &s->memory;
    const uint32_t count = ordered(s);
    size_t tensors = 0;
    for (uint32_t at = 0; at < count; at++) { tensors += op_at(s, at)->input_count + op_at(s, at)->output_count; }
    memory->launches = calloc((size_t)count + 1, sizeof *memory->launches);
    memory->tensors = calloc(tensors + 1, sizeof *memory->tensors);
    memory->names = calloc((size_t)count + 1, sizeof *memory->names);
    if (memory->launches == NULL || memory->tensors == NULL || memory->names == NULL) {
        return redcoi_schedule_memory_short(err);
    }
    redco_tensor *next = memory->tensors;
    for (uint32_t at = 0; at < count; at++) {
        const redco_op *const op = op_at(s, at);
        redco_tensor *const inputs = next, *const outputs = next + op->input_count;
        for (uint32_t k = 0; k < op->input_count; k++) { (next++)->type = *redco_value_type(graph, op->inputs[k]); }
        for (uint32_t k = 0; k < op->output_count; k++) {
            (next++)->type = *redco_value_type(graph, op->first_output + k);
        }
        memory->launches[at] =
            (redco_launch){.kind = op->kind,
                           .attributes = &op->attributes,
                           .input_count = op->input_count,
                           .output_count = op->output_count,
                           .inputs = inputs,
                           .outputs = outputs,
                           .name = redco_op_name(graph, op, memory->names[at], REDCOI_OP_NAME_BYTES)};
        if (redco_op_is_view(op->kind)) { continue; }
        redco_backend *const backend = s->threads[REDCOI_LANE_COMPUTE].backend;
        const redco_collectives *const c = s->options.collectives;
        if (is_collective(op) && c == NULL) {
            return redco_fail(err, REDCO_EVALUE, memory->names[at],
                              "is a collective of %u ranks, but there is no group", op->attributes.ranks);
        }
        const uint64_t bytes = is_collective(op) ? c->workspace_bytes(c->context, &memory->launches[at])
                                                 : backend->calls->workspace_bytes(backend, &memory->launches[at]);
        p->workspace_bytes[at] = bytes;
        if (bytes > p->most_workspace_bytes) { p->most_workspace_bytes = bytes; }
    }
    return REDCO_OK;
}

static redco_status take(redco_schedule *s, uint64_t bytes, unsigned char **block_out, redco_error *err)
{
    redco_backend *const backend = s->threads[REDCOI_LANE_COMPUTE].backend;
    void *block = NULL;
    if (bytes == 0) { return REDCO_OK; }
    const redco_status st = backend->calls->allocate(backend, REDCO_MEMORY_DEVICE, bytes, &block, err);
    *block_out = block;
    /* Gaps between tensors travel with them, so they must hold something; and all memory is there before the first
     * step. */
    return st == REDCO_OK ? backend->calls->fill_zero(backend, s->threads[REDCOI_LANE_COMPUTE].queue, block, bytes, err)
                          : st;
}

/* The weights that a piece reads: gathered for it, or where the states have them. */
static void *weights_at(const redco_schedule *s, const redcoi_piece *piece, uint32_t tensor)
{
    const redco_states *const states = s->options.states;
    const uint32_t module = redco_layout_module_of(redco_states_layout(states), tensor);
    const uint64_t at =
        redco_layout_tensor_at(redco_states_layout(states), tensor) * redco_dtype_bytes(redco_states_dtype(states));
    if (!redco_states_gathers(states, module)) { return (unsigned char *)redco_states_module(states, module) + at; }
    for (uint32_t n = 0; n < piece->needs.count; n++) {
        if (s->bind.needs[piece->needs.first + n] != module) { continue; }
        return s->memory.slot_block + s->memory.slots[s->memory.need_slot[piece->needs.first + n]].at + at;
    }
    return NULL; /* a view that nothing of this piece reads */
}

static void fill_launches(struct planner *p, void *workspace)
{
    redco_schedule *const s = p->s;
    for (uint32_t n = 0; n < s->bind.piece_count; n++) {
        const redcoi_piece *const piece = &s->bind.pieces[n];
        for (uint32_t at = piece->ops.first; at < piece->ops.first + piece->ops.count; at++) {
            const redco_op *const op = op_at(s, at);
            redco_launch *const launch = &s->memory.launches[at];
            redco_tensor *const inputs = (redco_tensor *)(uintptr_t)launch->inputs;
            redco_tensor *const outputs = (redco_tensor *)(uintptr_t)launch->outputs;
            for (uint32_t k = 0; k < op->input_count; k++) {
                const uint32_t tensor = s->bind.tensor_of[op->inputs[k]];
                inputs[k].data = tensor != REDCO_STEP_NONE ? weights_at(s, piece, tensor)
                                                           : s->memory.data[s->bind.root_of[op->inputs[k]]];
            }
            for (uint32_t k = 0; k < op->output_count; k++) {
                outputs[k].data = s->memory.data[s->bind.root_of[op->first_output + k]];
            }
            launch->workspace = p->workspace_bytes[at] > 0 ? workspace : NULL;
        }
    }
}

/* Gradients that could not be made where they belong. */
static redco_status list_copies(redco_schedule *s, const uint32_t *gradient_of, redco_error *err)
{
    const redco_graph *const graph = s->options.graph;
    const uint32_t tensors = redcoi_schedule_model(s)->tensor_count;
    redcoi_memory *const memory = &s->memory;
    memory->copies = calloc((size_t)tensors + 1, sizeof *memory->copies);
    if (memory->copies == NULL) { return redcoi_schedule_memory_short(err); }
    for (uint32_t p = 0; p < s->bind.piece_count; p++) {
        s->bind.pieces[p].copies = (redcoi_range_of){memory->copy_count, 0};
        for (uint32_t t = 0; t < tensors; t++) {
            const redco_value gradient = s->options.gradients[t], root = s->bind.root_of[gradient];
            if (gradient_of[root] == t || s->bind.piece_of[redco_value_op(graph, gradient)->id] != p) { continue; }
            memory->copies[memory->copy_count++] = (redcoi_copy_of){
                p, memory->data[root], gradient_at(s, t), redco_type_bytes(redco_value_type(graph, gradient))};
            s->bind.pieces[p].copies.count++;
        }
    }
    return REDCO_OK;
}

/* Collectives among emulated computation use the same memory one after the other: all of their values are zeros. */
static void squeeze(struct planner *p)
{
    redco_schedule *const s = p->s;
    for (uint32_t i = 0; i < p->root_count; i++) { p->values[i].bytes = 0; }
    for (uint32_t at = 0; at < ordered(s); at++) {
        const redco_op *const op = op_at(s, at);
        if (!is_collective(op)) {
            p->workspace_bytes[at] = 0;
            continue;
        }
        for (uint32_t k = 0; k < op->input_count + op->output_count; k++) {
            const redco_value value = k < op->input_count ? op->inputs[k] : op->first_output + k - op->input_count;
            const uint32_t root = p->root_at[s->bind.root_of[value]];
            if (root == REDCO_STEP_NONE) { continue; }
            p->values[root].bytes = redco_type_bytes(redco_value_type(s->options.graph, p->roots[root]));
            p->values[root].from = p->values[root].to = at;
        }
    }
    p->most_workspace_bytes = 0;
    for (uint32_t at = 0; at < ordered(s); at++) {
        if (p->workspace_bytes[at] > p->most_workspace_bytes) { p->most_workspace_bytes = p->workspace_bytes[at]; }
    }
}

/* What pieces take and give back. */
static void weigh_pieces(struct planner *p)
{
    redco_schedule *const s = p->s;
    for (uint32_t n = 0; n < s->bind.piece_count; n++) {
        redcoi_piece *const piece = &s->bind.pieces[n];
        const uint32_t first = piece->ops.first, end = first + piece->ops.count;
        for (uint32_t i = 0; i < p->root_count && piece->ops.count > 0; i++) {
            const redcoi_interval *const value = &p->values[i];
            if (value->from >= first && value->from < end) { piece->value_bytes[0] += (int64_t)value->bytes; }
            if (value->to >= first && value->to < end) { piece->value_bytes[1] -= (int64_t)value->bytes; }
        }
    }
    for (uint32_t k = 0; k < s->memory.slot_count; k++) {
        const redcoi_slot *const slot = &s->memory.slots[k];
        const int64_t bytes = (int64_t)slot->bytes;
        if (!slot->gradient) {
            if (slot->dies % 2 == 0) { s->bind.pieces[slot->dies / 2 - 1].weight_bytes -= bytes; }
            continue;
        }
        s->bind.pieces[slot->producer].gradient_bytes[0] += bytes;
        if (slot->scatter == REDCO_STEP_NONE) {
            s->bind.pieces[s->bind.ready_of[slot->module]].gradient_bytes[1] -= bytes;
        }
    }
}

static redco_status place_values(struct planner *p, const uint32_t *gradient_of, redco_error *err)
{
    redco_schedule *const s = p->s;
    redcoi_memory *const memory = &s->memory;
    const redco_layout *const layout = redco_states_layout(s->options.states);
    const uint64_t element_bytes = redco_dtype_bytes(redco_states_dtype(s->options.states));
    if (s->options.emulate) { squeeze(p); }
    weigh_pieces(p);
    if (!redcoi_intervals_place(p->values, p->root_count, &memory->size.activation_bytes)) {
        return redcoi_schedule_memory_short(err);
    }
    memory->size.workspace_bytes = p->most_workspace_bytes;
    const uint64_t shard_bytes = memory->scatter_count > 0 ? redco_layout_sizes(layout).whole * element_bytes : 0;
    const uint64_t slot_bytes = memory->size.slot_bytes, unit = REDCO_ALIGNMENT_BYTES;
    memory->size.slot_bytes += (shard_bytes + unit - 1) / unit * unit;
    const uint64_t values_bytes = (memory->size.activation_bytes + unit - 1) / unit * unit;
    redco_status st = take(s, memory->size.slot_bytes, &memory->slot_block, err);
    if (st == REDCO_OK) { st = take(s, values_bytes + memory->size.workspace_bytes, &memory->value_block, err); }
    if (st != REDCO_OK) { return st; }
    if (memory->slot_block != NULL) { memory->shard = memory->slot_block + slot_bytes; }
    for (uint32_t i = 0; i < p->root_count; i++) {
        if (memory->value_block != NULL) { memory->data[p->roots[i]] = memory->value_block + p->values[i].at; }
    }
    for (uint32_t v = 0; v < redco_graph_value_count(s->options.graph); v++) {
        if (gradient_of[v] != REDCO_STEP_NONE) { memory->data[v] = gradient_at(s, gradient_of[v]); }
    }
    for (uint32_t i = 0; i < s->options.input_count; i++) {
        if (s->options.inputs[i] != REDCO_NO_VALUE) { memory->input_data[i] = memory->data[s->options.inputs[i]]; }
    }
    fill_launches(p, memory->value_block != NULL ? memory->value_block + values_bytes : NULL);
    return list_copies(s, gradient_of, err);
}

redco_status redcoi_memory_take(redco_schedule *s, redco_error *err)
{
    const uint32_t values = redco_graph_value_count(s->options.graph);
    uint32_t *const gradient_of = gradients_by_root(s);
    struct planner p = {.s = s,
                        .values = calloc((size_t)values + 1, sizeof *p.values),
                        .roots = calloc((size_t)values + 1, sizeof *p.roots),
                        .root_at = malloc(((size_t)values + 1) * sizeof *p.root_at),
                        .workspace_bytes = calloc((size_t)ordered(s) + 1, sizeof *p.workspace_bytes)};
    redco_status st = REDCO_OK;
    s->memory.data = calloc((size_t)values + 1, sizeof *s->memory.data);
    s->memory.input_data = calloc((size_t)s->options.input_count + 1, sizeof *s->memory.input_data);
    if (gradient_of == NULL || p.values == NULL || p.roots == NULL || p.root_at == NULL || p.workspace_bytes == NULL ||
        s->memory.data == NULL || s->memory.input_data == NULL) {
        st = redcoi_schedule_memory_short(err);
        goto out;
    }
    memset(p.root_at, 0xff, ((size_t)values + 1) * sizeof *p.root_at);
    if ((st = find_values(&p, gradient_of, err)) != REDCO_OK || (st = describe(&p, err)) != REDCO_OK) { goto out; }
    st = place_values(&p, gradient_of, err);
out:
    free(gradient_of);
    free(p.values);
    free(p.roots);
    free(p.root_at);
    free(p.workspace_bytes);
    return st;
}

void redcoi_memory_free(redco_schedule *s)
{
    redcoi_memory *const memory = &s->memory;
    redco_backend *const backend = s->threads[REDCOI_LANE_COMPUTE].backend;
    if (backend != NULL) {
        backend->calls->release(backend, REDCO_MEMORY_DEVICE, memory->slot_block);
        backend->calls->release(backend, REDCO_MEMORY_DEVICE, memory->value_block);
    }
    free(memory->slots);
    free(memory->need_slot);
    free(memory->gradient_slot);
    free(memory->data);
    free((void *)memory->input_data);
    free(memory->launches);
    free(memory->tensors);
    free(memory->names);
    free(memory->copies);
}
