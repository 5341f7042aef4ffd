#include "executor/memory_plan/memory_categories.h"

#include <string.h>

static bool is_logits(const redco_op *op)
{
    const bool loss = op->kind == REDCO_OP_CROSS_ENTROPY_GRAD;
    return loss || (op->order == 0 && redco_op_kind_class(op->kind) == REDCO_CLASS_MATMUL &&
                    redco_op_role_makes_logits(op->role));
}

static redco_arena_category category_of(const redco_graph *graph, const redco_lifetimes *l, uint32_t interval)
{
    const redco_value value = l->first_value[interval];
    if (value == REDCO_NO_VALUE) { return REDCO_ARENA_WORKSPACE; }
    const redco_op *const maker = redco_value_op(graph, value);
    const redco_op *const last = redco_graph_op(graph, l->order[l->intervals[interval].last]);
    if (maker->copy > 0) { return REDCO_ARENA_RECOMPUTED; }
    if (is_logits(maker)) { return REDCO_ARENA_LOGITS; }
    return maker->order == 0 && (last->order > 0 || last->copy > 0) ? REDCO_ARENA_ACTIVATIONS : REDCO_ARENA_WORKING;
}

void redco_arena_held(const redco_graph *graph, const redco_lifetimes *l, uint32_t step, const bool *elsewhere,
                      uint64_t bytes_out[REDCO_ARENA_CATEGORIES])
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    memset(bytes_out, 0, REDCO_ARENA_CATEGORIES * sizeof *bytes_out);
    for (uint32_t i = 0; i < l->interval_count; i++) {
        const bool there = step >= l->intervals[i].first && step <= l->intervals[i].last;
        if (!there || (elsewhere != NULL && elsewhere[i])) { continue; }
        bytes_out[category_of(graph, l, i)] += (l->intervals[i].size_bytes + unit - 1) / unit * unit;
    }
}
