#include "fusion_checks.h"

#include "costmodel/graph/transform.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { NAME_BYTES = 200 };

void fusion_must(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

static bool has_name(const redco_graph *graph, const char *name)
{
    char other[NAME_BYTES];
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        if (strcmp(redco_op_name(graph, redco_graph_op(graph, i), other, sizeof other), name) == 0) { return true; }
    }
    return false;
}

uint32_t fusion_count(const redco_graph *graph, redco_op_kind kind)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        const bool other = redco_op_kind_class(op->kind) != REDCO_CLASS_ELEMENTWISE && op->kind != REDCO_OP_CONSTANT &&
                           !redco_op_is_view(op->kind);
        count += (kind == REDCO_OP_COUNT ? other : op->kind == kind) ? 1 : 0;
    }
    return count;
}

bool fusion_same_graph(const redco_graph *a, const redco_graph *b)
{
    if (redco_graph_op_count(a) != redco_graph_op_count(b)) { return false; }
    for (uint32_t i = 0; i < redco_graph_op_count(a); i++) {
        const redco_op *const x = redco_graph_op(a, i), *const y = redco_graph_op(b, i);
        char of_x[NAME_BYTES], of_y[NAME_BYTES];
        if (x->kind != y->kind || x->input_count != y->input_count || x->output_count != y->output_count ||
            x->copy != y->copy || x->order != y->order || x->origin != y->origin || x->toward != y->toward ||
            memcmp(&x->attributes, &y->attributes, sizeof x->attributes) != 0 ||
            (x->input_count > 0 && memcmp(x->inputs, y->inputs, x->input_count * sizeof *x->inputs) != 0) ||
            strcmp(redco_op_name(a, x, of_x, sizeof of_x), redco_op_name(b, y, of_y, sizeof of_y)) != 0) {
            return false;
        }
    }
    return true;
}

/** Nothing is there for nobody. */
static void check_live(const redco_graph *graph, const redco_value *outputs, uint32_t count)
{
    bool *const live = calloc((size_t)redco_graph_op_count(graph) + 1, sizeof *live);
    assert_non_null(live);
    redco_graph_live(graph, outputs, count, live);
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) { assert_true(live[i]); }
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) { /* nor is a result of a program */
        const redco_op *const op = redco_graph_op(graph, i);
        for (uint32_t k = 0; op->kind == REDCO_OP_POINTWISE && k < op->output_count; k++) {
            bool read = false;
            for (uint32_t n = i + 1; n < redco_graph_op_count(graph) && !read; n++) {
                const redco_op *const reader = redco_graph_op(graph, n);
                for (uint32_t m = 0; m < reader->input_count; m++) {
                    read = read || reader->inputs[m] == op->first_output + k;
                }
            }
            for (uint32_t n = 0; n < count && !read; n++) { read = outputs[n] == op->first_output + k; }
            assert_true(read);
        }
    }
    free(live);
}

static bool decompose_programs(const redco_op *op, void *context)
{
    (void)context;
    return op->kind == REDCO_OP_POINTWISE;
}

uint64_t fusion_elementwise_bytes(const redco_graph *graph, const redco_value *outputs, uint32_t output_count,
                                  bool (*choose)(void *context, const redco_op *op), void *context)
{
    uint64_t bytes = 0;
    bool *const live = calloc((size_t)redco_graph_op_count(graph) + 1, sizeof *live);
    if (live == NULL) { return 0; }
    redco_graph_live(graph, outputs, output_count, live);
    for (uint32_t i = 0; i < redco_graph_op_count(graph); i++) {
        const redco_op *const op = redco_graph_op(graph, i);
        if (!live[i] || redco_op_kind_class(op->kind) != REDCO_CLASS_ELEMENTWISE || redco_op_is_view(op->kind) ||
            (choose != NULL && !choose(context, op))) {
            continue;
        }
        for (uint32_t k = 0; k < op->input_count; k++) {
            bool again = false;
            for (uint32_t n = 0; n < k; n++) { again = again || op->inputs[n] == op->inputs[k]; }
            if (!again) { bytes += redco_type_bytes(redco_value_type(graph, op->inputs[k])); }
        }
        for (uint32_t k = 0; k < op->output_count; k++) {
            bytes += redco_type_bytes(redco_value_type(graph, op->first_output + k));
        }
    }
    free(live);
    return bytes;
}

void fusion_check_promises(const redco_graph *before, const redco_value *outputs, const redco_graph *after,
                           const redco_value *after_outputs, uint32_t count, const redco_fuse_options *options)
{
    redco_graph *again = NULL, *plain = NULL;
    redco_error err = {0};
    char name[NAME_BYTES];
    const uint64_t had = fusion_elementwise_bytes(before, outputs, count, NULL, NULL);
    const uint64_t has = fusion_elementwise_bytes(after, after_outputs, count, NULL, NULL);
    assert_true(has <= had);
    check_live(after, after_outputs, count);
    for (uint32_t i = 0; i < redco_graph_op_count(after); i++) {
        const redco_op *const op = redco_graph_op(after, i);
        for (uint32_t k = 0; k < op->input_count; k++) { assert_true(op->inputs[k] < op->first_output); }
        if (op->origin != REDCO_NO_OP) { assert_true(op->origin < op->id); }
        if (op->operator_name[0] == '\0') { continue; } /* it is called after its kind */
        assert_true(has_name(before, redco_op_name(after, op, name, sizeof name)));
    }
    redco_value *const values = calloc((size_t)count + redco_graph_value_count(after) + 1, sizeof *values);
    assert_non_null(values);
    fusion_must(redco_graph_fuse(after, after_outputs, count, options, &again, values, &err), &err);
    assert_true(fusion_same_graph(after, again));
    /* Taken apart it is made of the operators that there were, some of them twice. */
    fusion_must(redco_graph_extract(after, after_outputs, count, decompose_programs, NULL, &plain, values, &err), &err);
    assert_int_equal(fusion_count(plain, REDCO_OP_POINTWISE), 0);
    assert_int_equal(fusion_count(plain, REDCO_OP_COUNT), fusion_count(after, REDCO_OP_COUNT));
    free(values);
    redco_graph_free(again);
    redco_graph_free(plain);
}
