#include "executor/data/initial.h"

#include "costmodel/graph/build_calls.h"
#include "executor/backend/evaluate.h"

#include <stdlib.h>
#include <string.h>

static void key_of(uint64_t seed, int32_t key_out[2])
{
    const uint32_t words[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    memcpy(key_out, words, sizeof words);
}

/* FNV-1a, 64 bits (Fowler, Noll, Vo): parameters have streams of their own, whatever their order. */
static uint64_t stream_of(const char *name)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (const char *c = name; *c != '\0'; c++) { hash = (hash ^ (unsigned char)*c) * 0x100000001b3; }
    return hash;
}

/* Operators that make them. @param key  i32[2] */
static redco_value first_value(redco_graph *graph, redco_value key, const redco_task_parameter *p, const redco_box *box,
                               redco_dtype dtype)
{
    redco_tensor_type type = redco_task_parameter_type(p, dtype);
    redco_part part = {{0}, {0}};
    memcpy(part.whole, p->dim, sizeof part.whole);
    if (box != NULL) {
        memcpy(part.begin, box->begin, sizeof part.begin);
        type = redco_type(dtype, p->rank, box->size);
    }
    if (p->initial.kind != REDCO_INITIAL_NORMAL) {
        return redco_constant(graph, &type, p->initial.kind == REDCO_INITIAL_ONE ? 1.0 : 0.0);
    }
    type.dtype = REDCO_F64;
    const redco_value normal = redco_normal(graph, key, stream_of(p->name), &type, &part);
    return redco_cast(graph, redco_cast(graph, redco_scale(graph, normal, p->initial.deviation), REDCO_F32), dtype);
}

static redco_status fill_box(redco_backend *backend, const redco_task_parameter *parameter, const redco_box *box,
                             uint64_t seed, redco_dtype dtype, void *out, redco_error *err)
{
    const redco_tensor_type type = redco_type(REDCO_I32, 1, &(uint64_t){2});
    int32_t key[2];
    redco_graph *g = redco_graph_create();
    if (g == NULL) { return redco_fail(err, REDCO_ENOMEM, parameter->name, "no memory for its first values"); }
    key_of(seed, key);
    const redco_value input = redco_input(g, "key", &type);
    const redco_binding binding = {input, key};
    const redco_result result = {first_value(g, input, parameter, box, dtype), out};
    redco_status st = redco_graph_status(g, err);
    if (st == REDCO_OK) { st = redco_evaluate(backend, g, &binding, 1, &result, 1, err); }
    redco_graph_free(g);
    return st;
}

/* Numbers are drawn in double and rounded twice: a piece after the other, so that large tensors need no more memory for
 * it than small ones. */
redco_status redco_initial_fill(redco_backend *backend, const redco_task_parameter *parameter, const redco_box *box,
                                uint64_t seed, redco_dtype dtype, void *out, redco_error *err)
{
    static const uint64_t piece_elements = (uint64_t)1 << 18;
    redco_box whole = {.begin = {0}};
    if (box == NULL) { memcpy(whole.size, parameter->dim, sizeof whole.size); }
    redco_box piece = box != NULL ? *box : whole;
    const uint64_t rows = piece.size[0];
    uint64_t row_elements = 1;
    for (uint32_t d = 1; d < parameter->rank; d++) { row_elements *= piece.size[d]; }
    const uint64_t at_once =
        row_elements >= piece_elements ? 1 : piece_elements / (row_elements > 0 ? row_elements : 1);
    if (parameter->rank == 0 || rows <= at_once) { return fill_box(backend, parameter, box, seed, dtype, out, err); }
    const uint64_t first = piece.begin[0], end = first + rows;
    unsigned char *to = out;
    redco_status st = REDCO_OK;
    for (uint64_t row = first; row < end && st == REDCO_OK; row += at_once) {
        piece.begin[0] = row;
        piece.size[0] = end - row < at_once ? end - row : at_once;
        st = fill_box(backend, parameter, &piece, seed, dtype, to, err);
        to += (size_t)(piece.size[0] * row_elements) * redco_dtype_bytes(dtype);
    }
    return st;
}

/* On the device */

/* Values of a chunk at once: what was drawn, its factor, their product. */
enum { SLOTS = 3, VALUES = 16 };
/* A processor draws what its cache holds, a device by few launches. */
static const uint64_t chunk_elements_device = (uint64_t)1 << 21, chunk_elements_host = (uint64_t)1 << 14;

struct redco_drawer {
    redco_backend *backend;
    redco_device_stream *stream;
    redco_dtype dtype;
    int32_t *key_there; /* page-locked */
    void *key;
    unsigned char *slots; /* device memory, each for room doubles */
    uint64_t chunk, room; /* elements: at once; of a slot */
};

redco_status redco_drawer_open(redco_backend *backend, redco_device_stream *stream, uint64_t seed, redco_dtype dtype,
                               redco_drawer **drawer_out, redco_error *err)
{
    const redco_backend_calls *const calls = backend->calls;
    redco_drawer *drawer = calloc(1, sizeof *drawer);
    void *there = NULL;
    if (drawer == NULL) { return redco_fail(err, REDCO_ENOMEM, "weights", "no memory for their first values"); }
    drawer->backend = backend;
    drawer->stream = stream;
    drawer->dtype = dtype;
    drawer->chunk = calls->vector_elements >= chunk_elements_device ? chunk_elements_device : chunk_elements_host;
    redco_status st = calls->allocate(backend, REDCO_MEMORY_HOST, 2 * sizeof(int32_t), &there, err);
    drawer->key_there = there;
    if (st == REDCO_OK) { st = calls->allocate(backend, REDCO_MEMORY_DEVICE, 2 * sizeof(int32_t), &drawer->key, err); }
    if (st == REDCO_OK) {
        key_of(seed, drawer->key_there);
        st = calls->copy(backend, stream, drawer->key, drawer->key_there, 2 * sizeof(int32_t), err);
    }
    if (st == REDCO_OK) {
        *drawer_out = drawer;
        drawer = NULL;
    }
    redco_drawer_close(drawer);
    return st;
}

void redco_drawer_close(redco_drawer *drawer)
{
    if (drawer == NULL) { return; }
    const redco_backend_calls *const calls = drawer->backend->calls;
    (void)calls->stream_finish(drawer->backend, drawer->stream, NULL);
    calls->release(drawer->backend, REDCO_MEMORY_DEVICE, drawer->slots);
    calls->release(drawer->backend, REDCO_MEMORY_DEVICE, drawer->key);
    calls->release(drawer->backend, REDCO_MEMORY_HOST, drawer->key_there);
    free(drawer);
}

/* Small tensors need little. */
static redco_status make_room(redco_drawer *drawer, uint64_t elements, redco_error *err)
{
    const redco_backend_calls *const calls = drawer->backend->calls;
    const uint64_t unit = REDCO_ALIGNMENT_BYTES / sizeof(double);
    void *slots = NULL;
    if (elements <= drawer->room) { return REDCO_OK; }
    const uint64_t room = (elements + unit - 1) / unit * unit;
    redco_status st = calls->stream_finish(drawer->backend, drawer->stream, err);
    calls->release(drawer->backend, REDCO_MEMORY_DEVICE, drawer->slots);
    drawer->slots = NULL;
    drawer->room = 0;
    if (st == REDCO_OK) {
        st = calls->allocate(drawer->backend, REDCO_MEMORY_DEVICE, SLOTS * room * sizeof(double), &slots, err);
    }
    if (st != REDCO_OK) { return st; }
    drawer->slots = slots;
    drawer->room = room;
    return REDCO_OK;
}

static redco_status run_op(const redco_drawer *drawer, const redco_graph *g, const redco_op *op, void *const *memory,
                           const char *name, redco_error *err)
{
    redco_tensor inputs[REDCO_INPUTS_MAX];
    const redco_tensor output = {*redco_value_type(g, op->first_output), memory[op->first_output]};
    for (uint32_t k = 0; k < op->input_count; k++) {
        inputs[k] = (redco_tensor){*redco_value_type(g, op->inputs[k]), memory[op->inputs[k]]};
    }
    const redco_launch launch = {.kind = op->kind,
                                 .attributes = &op->attributes,
                                 .input_count = op->input_count,
                                 .output_count = 1,
                                 .inputs = inputs,
                                 .outputs = &output,
                                 .name = name};
    return drawer->backend->calls->run(drawer->backend, drawer->stream, &launch, err);
}

/* Where the graph's values are while its operators are queued. */
struct places {
    void *memory[VALUES];
    uint8_t slot_of[VALUES];   /* + 1; 0: none of the slots */
    uint32_t last_use[VALUES]; /* operator */
    bool taken[SLOTS];
};

static uint32_t take_slot(struct places *p, redco_value value)
{
    uint32_t slot = 0;
    while (slot < SLOTS && p->taken[slot]) { slot++; }
    if (slot < SLOTS) {
        p->taken[slot] = true;
        p->slot_of[value] = (uint8_t)(slot + 1);
    }
    return slot;
}

/* The stream is in order: what was read by an operator may be written by the next. */
static void leave_slots(struct places *p, const redco_op *op)
{
    for (uint32_t k = 0; k < op->input_count; k++) {
        const redco_value value = op->inputs[k];
        if (p->slot_of[value] > 0 && p->last_use[value] == op->id) { p->taken[p->slot_of[value] - 1] = false; }
    }
}

/* Queues the graph's operators: values lie in slots, the result where it belongs if casts may write there. */
static redco_status run_graph(const redco_drawer *drawer, const redco_graph *g, redco_value result, const char *name,
                              void *out, redco_error *err)
{
    const redco_backend_calls *const calls = drawer->backend->calls;
    const bool direct = (uintptr_t)out % 16 == 0 && redco_value_op(g, result)->kind == REDCO_OP_CAST;
    struct places p = {.memory = {NULL}};
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < redco_graph_op_count(g) && redco_graph_value_count(g) <= VALUES; i++) {
        const redco_op *const op = redco_graph_op(g, i);
        for (uint32_t k = 0; k < op->input_count; k++) { p.last_use[op->inputs[k]] = i; }
    }
    for (uint32_t i = 0; i < redco_graph_op_count(g) && st == REDCO_OK; i++) {
        const redco_op *const op = redco_graph_op(g, i);
        const redco_value value = op->first_output;
        if (redco_graph_value_count(g) > VALUES) {
            return redco_fail(err, REDCO_EVALUE, name, "first values of too many operators");
        }
        if (op->kind == REDCO_OP_INPUT) {
            p.memory[value] = drawer->key;
        } else if (redco_op_is_view(op->kind)) { /* nobody else reads its input */
            p.memory[value] = p.memory[op->inputs[0]];
            p.slot_of[value] = p.slot_of[op->inputs[0]];
        } else {
            const uint32_t slot = direct && value == result ? 0 : take_slot(&p, value);
            if (slot == SLOTS) { return redco_fail(err, REDCO_EVALUE, name, "first values of too many operators"); }
            p.memory[value] = direct && value == result ? out : drawer->slots + slot * drawer->room * sizeof(double);
            st = run_op(drawer, g, op, p.memory, name, err);
            leave_slots(&p, op);
        }
    }
    if (st != REDCO_OK || direct) { return st; }
    return calls->copy(drawer->backend, drawer->stream, out, p.memory[result],
                       redco_type_bytes(redco_value_type(g, result)), err);
}

/* Rows of the part, whole or in part, which are rows of a matrix of the whole tensor. */
static redco_status draw_rows(redco_drawer *drawer, const redco_task_parameter *p, const redco_part *part,
                              const uint64_t size[2], void *out, redco_error *err)
{
    const redco_tensor_type key_type = redco_type(REDCO_I32, 1, &(uint64_t){2});
    const uint64_t count = size[0] * size[1];
    redco_graph *const g = redco_graph_create();
    redco_value value = REDCO_NO_VALUE;
    if (g == NULL) { return redco_fail(err, REDCO_ENOMEM, p->name, "no memory for its first values"); }
    if (p->initial.kind == REDCO_INITIAL_NORMAL) {
        const redco_tensor_type type = redco_type(REDCO_F64, 2, size);
        const redco_value key = redco_input(g, "key", &key_type);
        value = redco_reshape(g, redco_normal(g, key, stream_of(p->name), &type, part), 1, &count);
        value = redco_cast(g, redco_scale(g, value, p->initial.deviation), REDCO_F32);
        if (drawer->dtype != REDCO_F32) { value = redco_cast(g, value, drawer->dtype); }
    } else {
        const redco_tensor_type type = redco_type(drawer->dtype, 1, &count);
        value = redco_constant(g, &type, p->initial.kind == REDCO_INITIAL_ONE ? 1.0 : 0.0);
    }
    redco_status st = redco_graph_status(g, err);
    if (st == REDCO_OK) { st = make_room(drawer, count, err); }
    if (st == REDCO_OK) { st = run_graph(drawer, g, value, p->name, out, err); }
    redco_graph_free(g);
    return st;
}

redco_status redco_drawer_draw(redco_drawer *drawer, const redco_task_parameter *parameter,
                               const redco_drawn_part *part, uint64_t begin, uint64_t count, void *out,
                               redco_error *err)
{
    const redco_tensor_type type = redco_task_parameter_type(parameter, drawer->dtype);
    const uint64_t width = redco_type_elements(&type) / part->rows, own = width / part->parts;
    unsigned char *to = out;
    redco_status st = REDCO_OK;
    for (uint64_t at = begin, end = begin + count; at < end && st == REDCO_OK;) {
        const uint64_t row = at / own, column = at % own, left = end - at;
        uint64_t size[2] = {1, own - column}; /* to the end of a row, or as many whole rows as there are */
        if (column == 0 && own <= left && own <= drawer->chunk) {
            size[0] = (left < drawer->chunk ? left : drawer->chunk) / own;
        }
        if (size[1] > drawer->chunk) { size[1] = drawer->chunk; }
        if (size[1] > left) { size[1] = left; }
        const redco_part where = {.begin = {row, (uint64_t)part->part * own + column}, .whole = {part->rows, width}};
        st = draw_rows(drawer, parameter, &where, size, to, err);
        at += size[0] * size[1];
        to += size[0] * size[1] * redco_dtype_bytes(drawer->dtype);
    }
    return st;
}
