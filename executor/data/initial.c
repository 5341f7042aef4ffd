#include "executor/data/initial.h"

#include "executor/backend/evaluate.h"
#include "executor/graph/build.h"

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
