/* Lifetimes of gathered weights and whole gradients (slot_offsets.c gives them memory). */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

static uint32_t place_of(uint32_t compute_task)
{
    return 2 * (compute_task + 1);
}

bool redcoi_module_of(const redco_schedule *s, const redco_step_op *op, uint32_t *module_out)
{
    const redco_state_model *const model = redcoi_schedule_model(s);
    const uint32_t layer = op->layer;
    if (op->module > 0) {
        const uint32_t first = redco_layer_of_step(model, layer), next = redco_layer_of_step(model, layer + 1);
        const uint32_t end = next < model->layer_count ? model->layers[next].first_module : model->module_count;
        *module_out = model->layers[first].first_module + op->module - 1;
        return *module_out < end;
    }
    for (uint32_t p = 0; p < s->bind.compute_task_count; p++) { /* "shared_table": of another layer */
        const redcoi_compute_task *const compute_task = &s->bind.compute_tasks[p];
        for (uint32_t n = 0; compute_task->layer == layer && n < compute_task->needs.count; n++) {
            const uint32_t module = s->bind.needs[compute_task->needs.first + n];
            const uint32_t home = redco_layout_layer_of(redco_states_layout(s->options.states), module);
            if (redcoi_layer_of(s, module) == layer && !model->layers[home].shared) { continue; }
            *module_out = module;
            return true;
        }
    }
    return false;
}

static redco_status unknown_module(const redco_schedule *s, uint32_t op, redco_error *err)
{
    char name[REDCOI_OP_NAME_BYTES];
    return redco_fail(err, REDCO_EVALUE, redco_step_name(s->options.step, op, name, sizeof name),
                      "the model has no module of this name");
}

/* Gathers and scatters of the first micro-batch, and gradients that are taken at once. */
static redco_status list_slots(redco_schedule *s, redco_error *err)
{
    redcoi_memory *const memory = &s->memory;
    const redco_layout *const layout = redco_states_layout(s->options.states);
    const uint64_t element_bytes = redco_dtype_bytes(redco_states_dtype(s->options.states));
    uint32_t count = 0, compute_tasks = 0;
    const redco_step_op *const ops = redco_step_ops(s->options.step, &count);
    for (uint32_t i = 0; i < count; i++) {
        const bool gather = ops[i].work == REDCO_WORK_GATHER, scatter = ops[i].work == REDCO_WORK_SCATTER;
        redcoi_slot slot = {.layer = ops[i].layer, .gradient = scatter, .step_op = i, .scatter = REDCO_STEP_NONE};
        if (ops[i].micro_batch != 0) { continue; }
        if (compute_tasks < s->bind.compute_task_count && s->bind.compute_tasks[compute_tasks].step_op == i) {
            compute_tasks++;
        }
        if (!gather && !scatter) { continue; }
        if (!redcoi_module_of(s, &ops[i], &slot.module)) { return unknown_module(s, i, err); }
        if (scatter && redco_module_frozen(redcoi_schedule_model(s), slot.module)) {
            char name[REDCOI_OP_NAME_BYTES];
            return redco_fail(err, REDCO_EVALUE, redco_step_name(s->options.step, i, name, sizeof name),
                              "the module is frozen: there is nothing to scatter");
        }
        slot.bytes = redco_layout_module(layout, slot.module)->whole * element_bytes;
        slot.backward = gather && ops[i].pass != REDCO_PASS_NAME_FWD;
        if (scatter) {
            slot.producer = s->bind.first_of[slot.module];
            slot.scatter = memory->scatter_count++;
            slot.born = place_of(slot.producer);
            slot.dies = place_of(compute_tasks - 1); /* at least; see keep_gradients() */
            if (s->bind.ready_of[slot.module] + 1 > compute_tasks) {
                char name[REDCOI_OP_NAME_BYTES];
                return redco_fail(err, REDCO_EVALUE, redco_step_name(s->options.step, i, name, sizeof name),
                                  "is issued before all gradients of the module are made");
            }
            memory->gradient_slot[slot.module] = memory->slot_count;
        } else {
            slot.born = slot.dies = 2 * compute_tasks + 1;
        }
        memory->slots[memory->slot_count++] = slot;
    }
    return REDCO_OK;
}

static redco_status add_taken(redco_schedule *s, redco_error *err)
{
    redcoi_memory *const memory = &s->memory;
    const redco_state_model *const model = redcoi_schedule_model(s);
    const redco_layout *const layout = redco_states_layout(s->options.states);
    const uint64_t element_bytes = redco_dtype_bytes(redco_states_dtype(s->options.states));
    for (uint32_t m = 0; m < model->module_count; m++) {
        if (memory->gradient_slot[m] != REDCO_STEP_NONE || redco_module_frozen(model, m)) { continue; }
        if (redco_states_gathers(s->options.states, m)) {
            return redco_fail(err, REDCO_EVALUE, model->modules[m].name,
                              "is sharded, but no operator of the step scatters the gradients of \"%s\"",
                              model->layers[redco_layout_layer_of(layout, m)].name);
        }
        memory->gradient_slot[m] = memory->slot_count;
        memory->slots[memory->slot_count++] =
            (redcoi_slot){.layer = redcoi_layer_of(s, m),
                          .module = m,
                          .gradient = true,
                          .step_op = REDCO_STEP_NONE,
                          .producer = s->bind.first_of[m],
                          .born = place_of(s->bind.first_of[m]),
                          .dies = place_of(s->bind.ready_of[m]),
                          .bytes = redco_layout_module(layout, m)->whole * element_bytes,
                          .scatter = REDCO_STEP_NONE};
    }
    return REDCO_OK;
}

/* The number of the last slot before a compute task that holds a module gathered for a layer, plus 1; 0 if there is
 * none */
static uint32_t gathered_for(const redcoi_memory *memory, uint32_t module, uint32_t layer, uint32_t compute_task)
{
    uint32_t at = memory->slot_count;
    while (at > 0 && (memory->slots[at - 1].gradient || memory->slots[at - 1].module != module ||
                      memory->slots[at - 1].layer != layer || memory->slots[at - 1].born > place_of(compute_task))) {
        at--;
    }
    return at;
}

/* Weights live as long as compute tasks read or wait for them, also tasks of another layer than the one that gathers
 * them (the norm behind an encoder), since these gather nothing. */
static redco_status keep_weights(redco_schedule *s, redco_error *err)
{
    redcoi_memory *const memory = &s->memory;
    uint32_t count = 0, waited[REDCO_STREAM_COUNT] = {0}; /* by stream: the operator after the last one waited for */
    const redco_step_op *const ops = redco_step_ops(s->options.step, &count);
    for (uint32_t p = 0; p < s->bind.compute_task_count; p++) {
        const redcoi_compute_task *const compute_task = &s->bind.compute_tasks[p];
        uint32_t inputs = 0;
        const uint32_t *const input = redco_step_inputs(s->options.step, compute_task->step_op, &inputs);
        for (uint32_t n = 0; n < compute_task->needs.count; n++) {
            const uint32_t module = s->bind.needs[compute_task->needs.first + n];
            const uint32_t home = redcoi_layer_of(s, module);
            uint32_t at = gathered_for(memory, module, compute_task->layer, p);
            if (at == 0) { at = gathered_for(memory, module, home, p); }
            if (at == 0) {
                char name[REDCOI_OP_NAME_BYTES];
                return redco_fail(err, REDCO_EVALUE,
                                  redco_step_name(s->options.step, compute_task->step_op, name, sizeof name),
                                  "reads \"%s\", which no operator before it gathers",
                                  redcoi_schedule_model(s)->modules[module].name);
            }
            memory->need_slot[compute_task->needs.first + n] = at - 1;
            memory->slots[at - 1].dies = place_of(p);
        }
        for (uint32_t i = 0; i < inputs; i++) {
            const uint32_t stream = ops[input[i]].stream, from = waited[stream];
            if (ops[input[i]].work != REDCO_WORK_GATHER || input[i] < from) { continue; }
            for (uint32_t k = 0; k < memory->slot_count;
                 k++) { /* gathers before it in its stream are waited for, too */
                redcoi_slot *const slot = &memory->slots[k];
                if (slot->gradient || ops[slot->step_op].stream != stream) { continue; }
                if (slot->step_op >= from && slot->step_op <= input[i] && slot->dies < place_of(p)) {
                    slot->dies = place_of(p);
                }
            }
            waited[stream] = input[i] + 1;
        }
    }
    return REDCO_OK;
}

/* A scatter overlaps with the next layer's backward before a task waits for it. */
static void keep_gradients(redco_schedule *s)
{
    const uint32_t last = s->bind.compute_task_count - 1;
    for (uint32_t k = 0; k < s->memory.slot_count; k++) {
        redcoi_slot *const slot = &s->memory.slots[k];
        if (!slot->gradient || slot->scatter == REDCO_STEP_NONE) { continue; }
        const uint32_t from = slot->dies / 2 - 1, layer = s->bind.compute_tasks[from].layer;
        uint32_t until = last;
        for (uint32_t p = from + 1; p <= last; p++) {
            if (s->bind.compute_tasks[p].layer + 1 < layer && layer != REDCO_STEP_NONE) {
                until = p - 1;
                break;
            }
        }
        slot->dies = place_of(until) + 1;
    }
}

/* A gradient that other operators read, too. */
static void keep_for_readers(redco_schedule *s)
{
    const redco_graph *const graph = s->options.graph;
    const redco_state_model *const model = redcoi_schedule_model(s);
    const redco_layout *const layout = redco_states_layout(s->options.states);
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        if (model->tensors[t].frozen) { continue; }
        const redco_value root = s->bind.root_of[s->options.gradients[t]];
        redcoi_slot *const slot = &s->memory.slots[s->memory.gradient_slot[redco_layout_module_of(layout, t)]];
        for (uint32_t i = redco_value_op(graph, root)->id + 1; i < redco_graph_op_count(graph); i++) {
            const redco_op *const op = redco_graph_op(graph, i);
            for (uint32_t k = 0; s->bind.compute_task_of[i] != REDCO_STEP_NONE && k < op->input_count; k++) {
                const uint32_t place = place_of(s->bind.compute_task_of[i]);
                if (s->bind.root_of[op->inputs[k]] == root && place > slot->dies) { slot->dies = place; }
            }
        }
    }
}

/* Gradients that wait for a later pass would be written over by other micro-batches'. */
static redco_status check_passes(const redco_schedule *s, redco_error *err)
{
    const redco_state_model *const model = redcoi_schedule_model(s);
    for (uint32_t m = 0; s->options.links != NULL && m < model->module_count; m++) {
        if (redco_module_frozen(model, m) ||
            redcoi_pass_of(s, s->bind.first_of[m]) == redcoi_pass_of(s, s->bind.ready_of[m])) {
            continue;
        }
        return redco_fail(err, REDCO_EVALUE, model->tensors[model->modules[m].first_tensor].name,
                          "has its gradients in two passes of a micro-batch, which is not executed; plan with "
                          "--pp-schedule 1f1b");
    }
    return REDCO_OK;
}

redco_status redcoi_slots_plan(redco_schedule *s, redco_error *err)
{
    redcoi_memory *const memory = &s->memory;
    const uint32_t modules = redcoi_schedule_model(s)->module_count;
    uint32_t count = 0, transfers = 0;
    const redco_step_op *const ops = redco_step_ops(s->options.step, &count);
    for (uint32_t i = 0; i < count; i++) {
        const bool moves = ops[i].work == REDCO_WORK_GATHER || ops[i].work == REDCO_WORK_SCATTER;
        transfers += moves && ops[i].micro_batch == 0 ? 1 : 0;
    }
    memory->slots = calloc((size_t)transfers + modules + 1, sizeof *memory->slots);
    memory->need_slot = calloc((size_t)s->bind.need_count + 1, sizeof *memory->need_slot);
    memory->gradient_slot = malloc(((size_t)modules + 1) * sizeof *memory->gradient_slot);
    if (memory->slots == NULL || memory->need_slot == NULL || memory->gradient_slot == NULL) {
        return redcoi_schedule_memory_short(err);
    }
    memset(memory->gradient_slot, 0xff, ((size_t)modules + 1) * sizeof *memory->gradient_slot);
    redco_status st = check_passes(s, err);
    if (st == REDCO_OK) { st = list_slots(s, err); }
    if (st == REDCO_OK) { st = add_taken(s, err); }
    if (st == REDCO_OK) { st = keep_weights(s, err); }
    if (st != REDCO_OK) { return st; }
    keep_gradients(s);
    keep_for_readers(s);
    return REDCO_OK;
}
