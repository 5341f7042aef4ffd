#include "executor/measure/graph_ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Whole numbers that an operator reads are rows or classes of something: below so many. */
static uint64_t index_bound(const redco_graph *graph, const redco_op *op)
{
    const redco_tensor_type *const first = redco_value_type(graph, op->inputs[0]);
    switch (op->kind) {
    case REDCO_OP_GATHER: return first->dim[0];
    case REDCO_OP_SCATTER_ADD:
    case REDCO_OP_UNPICK: return op->attributes.size[0];
    case REDCO_OP_PICK:
    case REDCO_OP_CROSS_ENTROPY:
    case REDCO_OP_CROSS_ENTROPY_GRAD: return first->rank > 0 ? first->dim[first->rank - 1] : 1;
    default: return 2;
    }
}

/* The operator alone; values that it reads twice are one input. */
static redco_status alone(const redco_graph *graph, const redco_op *op, redco_measure_case *one, redco_error *err)
{
    redco_graph *const own = redco_graph_create();
    redco_value inputs[REDCO_INPUTS_MAX];
    if (own == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    for (uint32_t i = 0; i < op->input_count; i++) {
        char name[24];
        uint32_t first = 0;
        while (op->inputs[first] != op->inputs[i]) { first++; }
        (void)snprintf(name, sizeof name, "x%u", i);
        inputs[i] = first < i ? inputs[first] : redco_input(own, name, redco_value_type(graph, op->inputs[i]));
    }
    redco_graph_apply(own, op->kind, inputs, op->input_count, &op->attributes, one->results);
    one->graph = own;
    one->result_count = op->output_count;
    one->index_bound = op->input_count > 0 ? index_bound(graph, op) : 0;
    return redco_graph_status(own, err);
}

redco_status redco_measure_ops_add(redco_measure_ops *ops, const redco_graph *graph, const redco_op *op,
                                   const char *measured_as, redco_error *err)
{
    redco_measure_case one = {
        .kind = REDCO_MEASURE_GRAPH, .dtype = REDCO_F32, .columns = 1, .forward_s = INFINITY, .backward_s = INFINITY};
    for (uint32_t k = 0; k < op->output_count; k++) {
        one.rows += redco_type_elements(redco_value_type(graph, op->first_output + k));
    }
    (void)snprintf(one.measured_as, sizeof one.measured_as, "%s", measured_as);
    for (size_t i = 0; i < ops->count; i++) {
        if (ops->cases[i].rows == one.rows && strcmp(ops->cases[i].measured_as, measured_as) == 0) { return REDCO_OK; }
    }
    if (ops->count == ops->capacity) {
        const size_t capacity = 2 * ops->capacity + 64;
        redco_measure_case *const more = realloc(ops->cases, capacity * sizeof *more);
        if (more == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
        ops->cases = more;
        ops->capacity = capacity;
    }
    const redco_status st = alone(graph, op, &one, err);
    ops->cases[ops->count++] = one;
    return st;
}

void redco_measure_ops_free(redco_measure_ops *ops)
{
    for (size_t i = 0; i < ops->count; i++) { redco_graph_free(ops->cases[i].graph); }
    free(ops->cases);
    *ops = (redco_measure_ops){.count = 0};
}
