#include "executor/states/program.h"

#include "costmodel/graph/build_calls.h"
#include "costmodel/graph/fuse.h"

#include <stdlib.h>
#include <string.h>

#define OUTSIDE UINT64_MAX

static const uint64_t widest_bytes = 8;

static uint64_t aligned(uint64_t size_bytes)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    return (size_bytes + unit - 1) / unit * unit;
}

redco_value redcoi_program_input(redcoi_program *program, const char *name, redco_dtype dtype, bool scalar)
{
    const redco_tensor_type type = redco_type(dtype, scalar ? 0 : 1, &program->chunk);
    const redco_value value = redco_input(program->graph, name, &type);
    program->inputs[program->input_count++] = value;
    return value;
}

redco_value redcoi_program_numbers(redcoi_program *program, const char *name, redco_dtype dtype, uint32_t count)
{
    const redco_tensor_type type = redco_type(dtype, 1, &(uint64_t){count});
    const redco_value value = redco_input(program->graph, name, &type);
    program->inputs[program->input_count++] = value;
    return value;
}

redco_value redcoi_program_number(redcoi_program *program, redco_value numbers, uint32_t index)
{
    return redco_reshape(program->graph, redco_slice_axis(program->graph, numbers, 0, index, 1), 0, NULL);
}

void redcoi_program_output(redcoi_program *program, redco_value value, uint32_t over)
{
    program->outputs[program->output_count] = value;
    program->over[program->output_count++] = over;
}

void redcoi_program_free(redcoi_program *program)
{
    redco_graph_free(program->graph);
    free(program->place);
    free(program->last_use);
    *program = (redcoi_program){0};
}

static uint32_t index_of(const redco_value *values, uint32_t count, redco_value value)
{
    uint32_t i = 0;
    while (i < count && values[i] != value) { i++; }
    return i;
}

/* Else it is a scalar, maybe with a dimension of 1 to be repeated. */
static bool is_vector(const redcoi_program *p, const redco_tensor_type *type)
{
    return type->rank == 1 && type->dim[0] == p->chunk;
}

/* The operator on vectors of @p count elements. */
static redco_tensor tensor_of(const redcoi_program *p, redco_value value, uint64_t count)
{
    redco_tensor t = {.type = *redco_value_type(p->graph, value)};
    if (is_vector(p, &t.type)) { t.type.dim[0] = count; }
    return t;
}

static void launch_of(const redcoi_program *p, const redco_op *op, uint64_t count, redco_attributes *attributes,
                      redco_tensor *inputs, redco_tensor *outputs, redco_launch *launch)
{
    *attributes = op->attributes;
    if (attributes->rank == 1 && attributes->size[0] == p->chunk) { attributes->size[0] = count; }
    for (uint32_t i = 0; i < op->input_count; i++) { inputs[i] = tensor_of(p, op->inputs[i], count); }
    for (uint32_t i = 0; i < op->output_count; i++) { outputs[i] = tensor_of(p, op->first_output + i, count); }
    *launch = (redco_launch){.kind = op->kind,
                             .attributes = attributes,
                             .input_count = op->input_count,
                             .output_count = op->output_count,
                             .inputs = inputs,
                             .outputs = outputs};
}

/* Workspace behind the values' places. */
static redco_status plan_workspace(redcoi_program *p, redco_backend *backend, redco_error *err)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < redco_graph_op_count(p->graph); i++) {
        const redco_op *const op = redco_graph_op(p->graph, i);
        redco_attributes attributes;
        redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
        redco_launch launch;
        if (op->kind == REDCO_OP_INPUT) { continue; }
        launch_of(p, op, p->chunk, &attributes, inputs, outputs, &launch);
        if (!backend->calls->supports(backend, &launch)) {
            return redco_fail(err, REDCO_EVALUE, backend->calls->name, "has no %s, which optimizers need",
                              redco_op_kind_name(op->kind));
        }
        const uint64_t bytes = backend->calls->workspace_bytes(backend, &launch);
        most = bytes > most ? bytes : most;
    }
    p->workspace_at = p->work_bytes;
    p->work_bytes += aligned(most);
    return REDCO_OK;
}

/* A place that is free again, or a new one. */
static uint64_t take_place(redcoi_program *p, uint64_t *free_places, uint32_t *free_count, bool vector)
{
    if (vector && *free_count > 0) { return free_places[--*free_count]; }
    const uint64_t at = p->work_bytes;
    p->work_bytes += vector ? aligned(p->chunk * widest_bytes) : REDCO_ALIGNMENT_BYTES;
    return at;
}

static bool is_output(const redcoi_program *p, redco_value value)
{
    return index_of(p->outputs, p->output_count, value) < p->output_count;
}

/* Memory of the program's own: not inputs, nor outputs that are written where they belong. */
static bool is_inside(const redcoi_program *p, const redco_op *op, redco_value value)
{
    const uint32_t output = index_of(p->outputs, p->output_count, value);
    return op->kind != REDCO_OP_INPUT && (output == p->output_count || p->late[output]);
}

static void find_late(redcoi_program *p)
{
    for (uint32_t o = 0; o < p->output_count; o++) {
        const redco_op *const op = redco_value_op(p->graph, p->outputs[o]);
        const uint32_t over = p->over[o];
        p->late[o] = op->kind == REDCO_OP_INPUT;
        for (uint32_t k = 0; k < o; k++) { p->late[o] = p->late[o] || p->outputs[k] == p->outputs[o]; }
        if (over != REDCOI_PROGRAM_APART && p->last_use[p->inputs[over]] > op->id) { p->late[o] = true; }
    }
}

/* Values that are no longer read leave their places to others; outputs keep theirs. */
static void plan_places(redcoi_program *p, uint64_t *free_places)
{
    const uint32_t ops = redco_graph_op_count(p->graph);
    uint32_t free_count = 0;
    for (uint32_t i = 0; i < ops; i++) {
        const redco_op *const op = redco_graph_op(p->graph, i);
        for (uint32_t k = 0; k < op->input_count; k++) { p->last_use[op->inputs[k]] = i; }
    }
    find_late(p);
    for (uint32_t i = 0; i < ops; i++) {
        const redco_op *const op = redco_graph_op(p->graph, i);
        for (uint32_t k = 0; k < op->output_count; k++) {
            const redco_value v = op->first_output + k;
            const bool vector = is_vector(p, redco_value_type(p->graph, v));
            p->place[v] = is_inside(p, op, v) ? take_place(p, free_places, &free_count, vector) : OUTSIDE;
        }
        for (uint32_t k = 0; k < op->input_count; k++) {
            const redco_value v = op->inputs[k];
            const bool again = index_of(op->inputs, k, v) < k, vector = is_vector(p, redco_value_type(p->graph, v));
            if (p->last_use[v] == i && p->place[v] != OUTSIDE && !is_output(p, v) && vector && !again) {
                free_places[free_count++] = p->place[v];
            }
        }
    }
}

/* Values that pass from operator to operator of one fused operator need no working memory. */
static redco_status fuse(redcoi_program *p, redco_backend *backend, redco_error *err)
{
    const redco_fuse_options options = {.choice = redco_backend_fuse_choice(backend)};
    redco_value values[REDCOI_PROGRAM_OUTPUTS + REDCOI_PROGRAM_INPUTS], fused[sizeof values / sizeof values[0]];
    redco_graph *graph = NULL;
    memcpy(values, p->outputs, p->output_count * sizeof *values);
    memcpy(values + p->output_count, p->inputs, p->input_count * sizeof *values);
    const redco_status st =
        redco_graph_fuse(p->graph, values, p->output_count + p->input_count, &options, &graph, fused, err);
    if (st != REDCO_OK) { return st; }
    memcpy(p->outputs, fused, p->output_count * sizeof *fused);
    memcpy(p->inputs, fused + p->output_count, p->input_count * sizeof *fused);
    redco_graph_free(p->graph);
    p->graph = graph;
    return REDCO_OK;
}

redco_status redcoi_program_finish(redcoi_program *p, redco_backend *backend, redco_error *err)
{
    redco_status st = fuse(p, backend, err);
    if (st != REDCO_OK) { return st; }
    const size_t values = (size_t)redco_graph_value_count(p->graph) + 1;
    uint64_t *const free_places = calloc(values, sizeof *free_places);
    p->place = calloc(values, sizeof *p->place);
    p->last_use = calloc(values, sizeof *p->last_use);
    if (p->place == NULL || p->last_use == NULL || free_places == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "states", "a program");
    } else {
        plan_places(p, free_places);
        st = plan_workspace(p, backend, err);
    }
    free(free_places);
    return st;
}

/* The values that a run reads and writes, at one chunk. */
struct bound {
    const redcoi_program *program;
    const redcoi_worker_memory *memory;
    void *inputs[REDCOI_PROGRAM_INPUTS]; /* operators only read them, but a tensor's address is not const */
    void *outputs[REDCOI_PROGRAM_OUTPUTS];
};

static void *address_of(const struct bound *b, redco_value value)
{
    const redcoi_program *const p = b->program;
    const uint32_t output = index_of(p->outputs, p->output_count, value);
    if (output < p->output_count && !p->late[output]) { return b->outputs[output]; }
    if (p->place[value] == OUTSIDE) { return b->inputs[index_of(p->inputs, p->input_count, value)]; }
    return b->memory->work + p->place[value];
}

static redco_status run_chunk(struct bound *b, uint64_t count, const char *name, redco_error *err)
{
    const redcoi_program *const p = b->program;
    redco_backend *const backend = b->memory->backend;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < redco_graph_op_count(p->graph) && st == REDCO_OK; i++) {
        const redco_op *const op = redco_graph_op(p->graph, i);
        redco_attributes attributes;
        redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
        redco_launch launch;
        if (op->kind == REDCO_OP_INPUT) { continue; }
        launch_of(p, op, count, &attributes, inputs, outputs, &launch);
        for (uint32_t k = 0; k < op->input_count; k++) { inputs[k].data = address_of(b, op->inputs[k]); }
        for (uint32_t k = 0; k < op->output_count; k++) { outputs[k].data = address_of(b, op->first_output + k); }
        launch.workspace = b->memory->work + p->workspace_at;
        launch.name = name;
        st = backend->calls->run(backend, b->memory->stream, &launch, err);
    }
    for (uint32_t o = 0; o < p->output_count && st == REDCO_OK; o++) {
        const redco_tensor t = tensor_of(p, p->outputs[o], count);
        if (!p->late[o]) { continue; }
        st = backend->calls->copy(backend, b->memory->stream, b->outputs[o], address_of(b, p->outputs[o]),
                                  redco_type_bytes(&t.type), err);
    }
    return st;
}

/* Bytes from where a value's chunk begins to the next one's. */
static size_t stride_of(const redcoi_program *p, redco_value value, uint64_t at)
{
    const redco_tensor_type *const type = redco_value_type(p->graph, value);
    return is_vector(p, type) ? (size_t)at * redco_dtype_bytes(type->dtype) : 0;
}

redco_status redcoi_program_run(const redcoi_program *p, const redcoi_worker_memory *memory, const void *const *inputs,
                                void *const *outputs, uint64_t count, const char *name, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint64_t at = 0; at < count && st == REDCO_OK; at += p->chunk) {
        struct bound b = {.program = p, .memory = memory};
        for (uint32_t i = 0; i < p->input_count; i++) {
            b.inputs[i] = (unsigned char *)inputs[i] + stride_of(p, p->inputs[i], at);
        }
        for (uint32_t i = 0; i < p->output_count; i++) {
            b.outputs[i] = (unsigned char *)outputs[i] + stride_of(p, p->outputs[i], at);
        }
        st = run_chunk(&b, count - at < p->chunk ? count - at : p->chunk, name, err);
    }
    return st;
}
