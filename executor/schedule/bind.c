/* Assigns the operators of the rank's graph to the compute operators of the step. */
#include "costmodel/graph/transform.h"
#include "executor/schedule/schedule_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A compute operator of the first micro-batch by its name: pass, layer, label and suffix of the step. */
struct named {
    uint32_t layer, label, place; /* place: pass and suffix */
    uint32_t compute_task;
};

struct binder {
    redco_schedule *s;
    redcoi_bind *bind;
    struct named *names;
    uint32_t *label_of;                     /* by number of a name in the graph: of the step, or REDCO_STEP_NONE */
    uint32_t label_of_kind[REDCO_OP_COUNT]; /* likewise of operators without a name */
    uint32_t *layer_of;                     /* by number of a layer in the graph: in the step, or REDCO_STEP_NONE */
    uint32_t *reader;                       /* by value: first compute task that reads it */
    uint32_t *lower;                        /* by operator: the earliest compute task that it can belong to */
    bool *excused;                          /* by compute task: another task's operators do its work */
};

static uint32_t place_of(uint32_t pass, uint32_t suffix)
{
    return 256 * pass + suffix;
}

static int compare_names(const void *a, const void *b)
{
    const struct named *const x = a, *const y = b;
    if (x->layer != y->layer) { return x->layer < y->layer ? -1 : 1; }
    if (x->label != y->label) { return x->label < y->label ? -1 : 1; }
    if (x->place != y->place) { return x->place < y->place ? -1 : 1; }
    return (x->compute_task > y->compute_task) - (x->compute_task < y->compute_task);
}

bool redcoi_is_compute_task(const redco_step_op *op)
{
    return op->work == REDCO_WORK_FORWARD || op->work == REDCO_WORK_RECOMPUTE || op->work == REDCO_WORK_BACKWARD ||
           op->work == REDCO_WORK_TENSOR || op->work == REDCO_WORK_EXCHANGE;
}

static redco_status list_compute_tasks(struct binder *b, redco_error *err)
{
    const redco_step *const step = b->s->options.step;
    uint32_t count = 0;
    const redco_step_op *const ops = redco_step_ops(step, &count);
    b->bind->compute_tasks = calloc((size_t)count + 1, sizeof *b->bind->compute_tasks);
    b->names = calloc((size_t)count + 1, sizeof *b->names);
    b->excused = calloc((size_t)count + 1, sizeof *b->excused);
    if (b->bind->compute_tasks == NULL || b->names == NULL || b->excused == NULL) {
        return redcoi_schedule_memory_short(err);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].micro_batch != 0 || !redcoi_is_compute_task(&ops[i])) { continue; }
        const uint32_t compute_task = b->bind->compute_task_count++;
        b->bind->compute_tasks[compute_task] = (redcoi_compute_task){.step_op = i, .layer = ops[i].layer};
        b->names[compute_task] =
            (struct named){ops[i].layer, ops[i].label, place_of(ops[i].pass, ops[i].suffix), compute_task};
    }
    qsort(b->names, b->bind->compute_task_count, sizeof *b->names, compare_names);
    return REDCO_OK;
}

/* Turns names into numbers of the step; later code compares no text. */
static redco_status read_names(struct binder *b, redco_error *err)
{
    const redco_step *const step = b->s->options.step;
    const redco_names *const names = redco_graph_names(b->s->options.graph);
    char text[REDCOI_OP_NAME_BYTES];
    b->label_of = malloc(((size_t)names->count + 1) * sizeof *b->label_of);
    b->layer_of = malloc(((size_t)names->count + 1) * sizeof *b->layer_of);
    if (b->label_of == NULL || b->layer_of == NULL) { return redcoi_schedule_memory_short(err); }
    for (uint32_t i = 0; i < names->count; i++) {
        b->label_of[i] = redco_step_find_label(step, names->texts[i]);
        b->layer_of[i] = REDCO_STEP_NONE;
    }
    for (unsigned kind = 0; kind < REDCO_OP_COUNT; kind++) {
        b->label_of_kind[kind] = redco_step_find_label(step, redco_op_kind_name((redco_op_kind)kind));
    }
    for (uint32_t l = 0; l < redco_step_layer_count(step); l++) {
        const uint32_t layer = redco_names_find(names, redco_step_layer_name(step, l, text, sizeof text));
        if (layer != REDCO_NO_NAME) { b->layer_of[layer] = l; }
    }
    return REDCO_OK;
}

/* The first compute task of that name that is not before @p earliest. */
static uint32_t find(const struct binder *b, uint32_t layer, uint32_t label, uint32_t place, uint32_t earliest)
{
    const struct named wanted = {layer, label, place, earliest};
    uint32_t low = 0, high = b->bind->compute_task_count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (compare_names(&b->names[middle], &wanted) < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    const struct named *const at = &b->names[low];
    const bool found =
        low < b->bind->compute_task_count && at->layer == layer && at->label == label && at->place == place;
    return found ? at->compute_task : REDCO_STEP_NONE;
}

/* An operator of the graph among those of the step, and its part: a collective, or a side of a product's backward. */
struct wanted {
    uint32_t layer, pass, label, part, earliest;
    bool late; /* it belongs to the pass for weights, where backward is cut in two: a bias has its gradient with them */
};

static uint32_t find_part(const struct binder *b, const struct wanted *w, uint32_t part)
{
    if (w->layer == REDCO_STEP_NONE || w->label == REDCO_STEP_NONE) { return REDCO_STEP_NONE; }
    return find(b, w->layer, w->label, place_of(w->pass, part), w->earliest);
}

/* The compute task of an operator: the step's operator of that label and part. Where it gives no side of a product's
 * backward (biases, sums of gradients), the first side behind the operator's inputs. A collective that the simulator
 * lacks belongs to the operator whose value it carries. */
static uint32_t natural(const struct binder *b, struct wanted w)
{
    uint32_t compute_task = find_part(b, &w, w.part);
    if (compute_task == REDCO_STEP_NONE) { compute_task = find_part(b, &w, REDCO_SUFFIX_NONE); }
    if (compute_task != REDCO_STEP_NONE) { return compute_task; }
    const uint32_t weight = find_part(b, &w, REDCO_SUFFIX_WEIGHT), input = find_part(b, &w, REDCO_SUFFIX_INPUT);
    if (w.late && weight != REDCO_STEP_NONE) { return weight; }
    return weight < input ? weight : input;
}

static uint32_t part_of(const redco_op *op)
{
    if (op->carries) {
        return op->kind == REDCO_OP_ALL_REDUCE   ? REDCO_SUFFIX_REDUCE
               : op->kind == REDCO_OP_ALL_GATHER ? REDCO_SUFFIX_TP_GATHER
                                                 : REDCO_SUFFIX_TP_SCATTER;
    }
    if (op->toward == REDCO_NO_VALUE || op->origin == REDCO_NO_OP) { return REDCO_SUFFIX_NONE; }
    return op->toward == 1 ? REDCO_SUFFIX_WEIGHT : REDCO_SUFFIX_INPUT;
}

static struct wanted wanted_of(const struct binder *b, const redco_op *op, uint32_t earliest)
{
    return (struct wanted){.layer = b->layer_of[op->layer_id],
                           .pass = op->order > 0  ? REDCO_PASS_NAME_BWD
                                   : op->copy > 0 ? REDCO_PASS_NAME_RE
                                                  : REDCO_PASS_NAME_FWD,
                           .label = op->name_id != 0 ? b->label_of[op->name_id] : b->label_of_kind[op->kind],
                           .part = part_of(op),
                           .earliest = earliest};
}

/* The last compute task that makes an input of an operator. */
static uint32_t made_by(const struct binder *b, const redco_op *op)
{
    uint32_t earliest = 0;
    for (uint32_t i = 0; i < op->input_count; i++) {
        const uint32_t compute_task = b->lower[redco_value_op(b->s->options.graph, op->inputs[i])->id];
        if (compute_task > earliest) { earliest = compute_task; }
    }
    return earliest;
}

/* Operators that read only sources have no place of their own in the order: they move to their first reader. */
static bool is_free(const struct binder *b, const redco_op *op)
{
    for (uint32_t i = 0; i < op->input_count; i++) {
        const redco_op *const maker = redco_value_op(b->s->options.graph, op->inputs[i]);
        if (redco_op_kind_class(maker->kind) != REDCO_CLASS_SOURCE) { return false; }
    }
    return op->name_id == 0 || op->input_count == 0;
}

/* Marks operators of the step whose work another one does: they need no operator of the graph. */
static void excuse(const struct binder *b, const redco_op *op)
{
    struct wanted other = wanted_of(b, op, 0);
    other.label = b->label_of[op->absorbed_id];
    const uint32_t compute_task = find_part(b, &other, REDCO_SUFFIX_NONE);
    if (compute_task != REDCO_STEP_NONE) { b->excused[compute_task] = true; }
}

/* Values from other stages are there when a pass of the position begins. @return the first compute task that can read
 * an input */
static uint32_t comes_at(const struct binder *b, redco_value input)
{
    const redco_stage_links *const links = b->s->options.links;
    uint32_t first = 0;
    for (uint32_t d = 0; links != NULL && d < 2; d++) {
        for (uint32_t i = 0; i < links->in_count[d]; i++) {
            if (links->in[d][i].value != input) { continue; }
            const uint32_t pass = redcoi_pass_at(b->s, d, links->in[d][i].position);
            while (first + 1 < b->bind->compute_task_count && redcoi_pass_of(b->s, first) != pass) { first++; }
            return first;
        }
    }
    return 0;
}

/* @return whether another operator reads what this one makes, or a view or a sum over ranks of it: not of gradients of
 * parameters */
static bool is_read(const struct binder *b, const redco_op *op)
{
    bool read = false;
    for (uint32_t k = 0; k < op->output_count; k++) { read = read || b->reader[op->first_output + k] != 0; }
    return read;
}

static void find_readers(struct binder *b)
{
    const redco_graph *const graph = b->s->options.graph;
    redco_value leaving[2 * REDCOI_LEAVING_MAX];
    for (uint32_t i = redcoi_leaving_list(b->s, leaving); i-- > 0;) { b->reader[leaving[i]] = 1; }
    for (uint32_t i = redco_graph_op_count(graph); i-- > 0;) {
        const redco_op *const op = redco_graph_op(graph, i);
        const bool passes_on = redco_op_is_view(op->kind) || op->kind == REDCO_OP_ALL_REDUCE;
        const bool reads = b->bind->live[i] && (!passes_on || is_read(b, op));
        for (uint32_t k = 0; reads && k < op->input_count; k++) { b->reader[op->inputs[k]] = 1; }
    }
}

static void assign(struct binder *b)
{
    const redco_graph *const graph = b->s->options.graph;
    const redco_stage_links *const links = b->s->options.links;
    const bool splits = links != NULL && redco_pipeline_splits_backward(links->pipeline.kind);
    find_readers(b);
    const uint32_t count = redco_graph_op_count(graph);
    for (uint32_t i = 0; i < count; i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        b->bind->compute_task_of[i] = REDCO_STEP_NONE;
        if (op->kind == REDCO_OP_INPUT) { b->lower[i] = comes_at(b, op->first_output); }
        if (!b->bind->live[i] || op->kind == REDCO_OP_INPUT || is_free(b, op)) { continue; }
        const uint32_t earliest = made_by(b, op);
        struct wanted wanted = wanted_of(b, op, earliest);
        wanted.late = splits && !is_read(b, op);
        if (op->absorbed_id != 0) { excuse(b, op); }
        /* A value that is recomputed without an operator of its own (a gather of keys) moves to its reader. */
        const uint32_t compute_task = op->copy > 0 ? find_part(b, &wanted, wanted.part) : natural(b, wanted);
        const bool late = compute_task == REDCO_STEP_NONE && op->copy > 0;
        b->bind->compute_task_of[i] = compute_task != REDCO_STEP_NONE || late ? compute_task : earliest;
        b->lower[i] = compute_task != REDCO_STEP_NONE ? compute_task : earliest;
    }
    memset(b->reader, 0xff, redco_graph_value_count(graph) * sizeof *b->reader);
    for (uint32_t i = count; i-- > 0;) {
        const redco_op *const op = redco_graph_op(graph, i);
        if (!b->bind->live[i] || op->kind == REDCO_OP_INPUT) { continue; }
        if (b->bind->compute_task_of[i] == REDCO_STEP_NONE) {
            uint32_t first = b->bind->compute_task_count - 1;
            for (uint32_t k = 0; k < op->output_count; k++) {
                const uint32_t reader = b->reader[op->first_output + k];
                if (reader < first) { first = reader; }
            }
            b->bind->compute_task_of[i] = first;
        }
        for (uint32_t k = 0; k < op->input_count; k++) {
            uint32_t *const reader = &b->reader[op->inputs[k]];
            if (b->bind->compute_task_of[i] < *reader) { *reader = b->bind->compute_task_of[i]; }
        }
    }
}

/* Sorts operators by compute task, in the graph's order. */
static redco_status sort_ops(struct binder *b, redco_error *err)
{
    redcoi_bind *const bind = b->bind;
    const uint32_t count = redco_graph_op_count(b->s->options.graph);
    uint32_t first = 0;
    bind->order = calloc((size_t)count + 1, sizeof *bind->order);
    if (bind->order == NULL) { return redcoi_schedule_memory_short(err); }
    for (uint32_t i = 0; i < count; i++) {
        if (bind->compute_task_of[i] != REDCO_STEP_NONE) { bind->compute_tasks[bind->compute_task_of[i]].ops.count++; }
    }
    for (uint32_t p = 0; p < bind->compute_task_count; p++) {
        bind->compute_tasks[p].ops.first = first;
        first += bind->compute_tasks[p].ops.count;
        bind->compute_tasks[p].ops.count = 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        if (bind->compute_task_of[i] == REDCO_STEP_NONE) { continue; }
        redcoi_range_of *const ops = &bind->compute_tasks[bind->compute_task_of[i]].ops;
        bind->order[ops->first + ops->count++] = i;
    }
    return REDCO_OK;
}

/* Tensor-parallel collectives of the closed form may be elsewhere in the graph: layouts differ. Recomputation that the
 * graph does not have costs nothing. */
static redco_status check_compute_tasks(const struct binder *b, redco_error *err)
{
    const redco_step *const step = b->s->options.step;
    uint32_t count = 0;
    const redco_step_op *const ops = redco_step_ops(step, &count);
    for (uint32_t p = 0; p < b->bind->compute_task_count; p++) {
        const uint32_t op = b->bind->compute_tasks[p].step_op;
        const uint8_t work = ops[op].work;
        char name[REDCOI_OP_NAME_BYTES];
        if (b->bind->compute_tasks[p].ops.count > 0 || b->excused[p] || work == REDCO_WORK_TENSOR ||
            work == REDCO_WORK_EXCHANGE || work == REDCO_WORK_RECOMPUTE || b->s->options.loose) {
            continue;
        }
        return redco_fail(err, REDCO_EVALUE, redco_step_name(step, op, name, sizeof name),
                          "no operator of the model's graph has this name");
    }
    return REDCO_OK;
}

/* The owner of each value's memory, and which are parameters or views of them. */
static redco_status find_tensors(struct binder *b, redco_error *err)
{
    const redco_graph *const graph = b->s->options.graph;
    const redco_state_model *const model = redcoi_schedule_model(b->s);
    const size_t values = redco_graph_value_count(graph);
    b->bind->tensor_of = malloc((values + 1) * sizeof *b->bind->tensor_of);
    b->bind->root_of = calloc(values + 1, sizeof *b->bind->root_of);
    if (b->bind->tensor_of == NULL || b->bind->root_of == NULL) { return redcoi_schedule_memory_short(err); }
    memset(b->bind->tensor_of, 0xff, (values + 1) * sizeof *b->bind->tensor_of);
    for (uint32_t t = 0; t < model->tensor_count; t++) {
        const redco_value value = redco_graph_find_input(graph, model->tensors[t].name);
        if (value != REDCO_NO_VALUE) { b->bind->tensor_of[value] = t; }
    }
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        for (uint32_t k = 0; k < op->output_count; k++) {
            b->bind->root_of[op->first_output + k] = op->first_output + k;
        }
        if (!redco_op_is_view(op->kind)) { continue; }
        b->bind->tensor_of[op->first_output] = b->bind->tensor_of[op->inputs[0]];
        b->bind->root_of[op->first_output] = b->bind->root_of[op->inputs[0]];
    }
    return REDCO_OK;
}

/* Modules whose gathered weights a compute task reads; one entry each. */
static redco_status find_needs(struct binder *b, redco_error *err)
{
    redcoi_bind *const bind = b->bind;
    const redco_graph *const graph = b->s->options.graph;
    const redco_states *const states = b->s->options.states;
    const redco_layout *const layout = redco_states_layout(states);
    uint32_t room = 0;
    for (uint32_t p = 0; p < bind->compute_task_count; p++) {
        redcoi_compute_task *const compute_task = &bind->compute_tasks[p];
        compute_task->needs.first = bind->need_count;
        for (uint32_t i = 0; i < compute_task->ops.count; i++) {
            const redco_op *const op = redco_graph_op(graph, bind->order[compute_task->ops.first + i]);
            if (redco_op_is_view(op->kind)) { continue; }
            for (uint32_t k = 0; k < op->input_count; k++) {
                const uint32_t tensor = bind->tensor_of[op->inputs[k]];
                const uint32_t module = tensor == REDCO_STEP_NONE ? 0 : redco_layout_module_of(layout, tensor);
                bool known = tensor == REDCO_STEP_NONE || !redco_states_gathers(states, module);
                for (uint32_t n = compute_task->needs.first; n < bind->need_count && !known; n++) {
                    known = bind->needs[n] == module;
                }
                if (known) { continue; }
                if (bind->need_count == room) {
                    room = 2 * room + 64;
                    uint32_t *const more = realloc(bind->needs, room * sizeof *more);
                    if (more == NULL) { return redcoi_schedule_memory_short(err); }
                    bind->needs = more;
                }
                bind->needs[bind->need_count++] = module;
                compute_task->needs.count++;
            }
        }
    }
    return REDCO_OK;
}

/* The first and the last compute task that make gradients of a module. */
static redco_status find_ready(struct binder *b, redco_error *err)
{
    redcoi_bind *const bind = b->bind;
    const redco_state_model *const model = redcoi_schedule_model(b->s);
    bind->first_of = calloc((size_t)model->module_count + 1, sizeof *bind->first_of);
    bind->ready_of = calloc((size_t)model->module_count + 1, sizeof *bind->ready_of);
    bind->takes = calloc((size_t)model->module_count + 1, sizeof *bind->takes);
    if (bind->first_of == NULL || bind->ready_of == NULL || bind->takes == NULL) {
        return redcoi_schedule_memory_short(err);
    }
    for (uint32_t m = 0; m < model->module_count; m++) {
        const redco_state_module *const module = &model->modules[m];
        bind->first_of[m] = REDCO_STEP_NONE;
        if (redco_module_frozen(model, m)) {
            bind->ready_of[m] = REDCO_STEP_NONE;
            continue;
        }
        for (uint32_t t = module->first_tensor; t < module->first_tensor + module->tensor_count; t++) {
            const redco_value gradient = b->s->options.gradients[t];
            const uint32_t compute_task = bind->compute_task_of[redco_value_op(b->s->options.graph, gradient)->id];
            const uint32_t made =
                bind->compute_task_of[redco_value_op(b->s->options.graph, bind->root_of[gradient])->id];
            if (compute_task == REDCO_STEP_NONE || made == REDCO_STEP_NONE) {
                return redco_fail(err, REDCO_EVALUE, model->tensors[t].name, "has no gradient in the graph");
            }
            if (made < bind->first_of[m]) { bind->first_of[m] = made; }
            if (compute_task > bind->ready_of[m]) { bind->ready_of[m] = compute_task; }
        }
    }
    uint32_t take = 0;
    for (uint32_t p = 0; p < bind->compute_task_count; p++) {
        bind->compute_tasks[p].takes.first = take;
        for (uint32_t m = model->module_count; m-- > 0;) { /* backward reaches the last module first */
            if (bind->ready_of[m] != p || redco_states_gathers(b->s->options.states, m)) { continue; }
            bind->takes[take++] = m;
            bind->compute_tasks[p].takes.count++;
        }
    }
    return REDCO_OK;
}

redco_status redcoi_bind_make(redco_schedule *s, redco_error *err)
{
    const redco_graph *const graph = s->options.graph;
    const uint32_t tensors = redcoi_schedule_model(s)->tensor_count;
    struct binder b = {.s = s, .bind = &s->bind};
    redco_value *const wanted = calloc((size_t)tensors + 2 * REDCOI_LEAVING_MAX + 1, sizeof *wanted);
    redco_status st = REDCO_OK;
    s->bind.live = calloc((size_t)redco_graph_op_count(graph) + 1, sizeof *s->bind.live);
    s->bind.compute_task_of = calloc((size_t)redco_graph_op_count(graph) + 1, sizeof *s->bind.compute_task_of);
    b.reader = calloc((size_t)redco_graph_value_count(graph) + 1, sizeof *b.reader);
    b.lower = calloc((size_t)redco_graph_op_count(graph) + 1, sizeof *b.lower);
    if (wanted == NULL || s->bind.live == NULL || s->bind.compute_task_of == NULL || b.reader == NULL ||
        b.lower == NULL) {
        st = redcoi_schedule_memory_short(err);
        goto out;
    }
    uint32_t wants = redcoi_leaving_list(s, wanted);
    if (s->options.loss != REDCO_NO_VALUE) { wanted[wants++] = s->options.loss; }
    for (uint32_t t = 0; t < tensors; t++) {
        if (s->options.gradients[t] != REDCO_NO_VALUE) { wanted[wants++] = s->options.gradients[t]; }
    }
    redco_graph_live(graph, wanted, wants, s->bind.live);
    if ((st = list_compute_tasks(&b, err)) != REDCO_OK || (st = read_names(&b, err)) != REDCO_OK) { goto out; }
    if (s->bind.compute_task_count == 0) {
        st = redco_fail(err, REDCO_EVALUE, "schedule", "the step computes nothing");
        goto out;
    }
    assign(&b);
    if ((st = sort_ops(&b, err)) != REDCO_OK || (st = check_compute_tasks(&b, err)) != REDCO_OK ||
        (st = find_tensors(&b, err)) != REDCO_OK || (st = find_needs(&b, err)) != REDCO_OK) {
        goto out;
    }
    st = find_ready(&b, err);
out:
    free(wanted);
    free(b.names);
    free(b.label_of);
    free(b.layer_of);
    free(b.excused);
    free(b.reader);
    free(b.lower);
    return st;
}

void redcoi_bind_free(redcoi_bind *bind)
{
    free(bind->compute_tasks);
    free(bind->compute_task_of);
    free(bind->order);
    free(bind->takes);
    free(bind->needs);
    free(bind->first_of);
    free(bind->ready_of);
    free(bind->live);
    free(bind->root_of);
    free(bind->tensor_of);
}
