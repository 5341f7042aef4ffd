#include "executor/backend/host/kernels.h"

#include <string.h>

void redcoi_strides(const redco_tensor_type *type, bool repeat, uint64_t stride[REDCO_RANK_MAX])
{
    uint64_t elements = 1;
    for (uint32_t i = type->rank; i > 0; i--) {
        stride[i - 1] = repeat && type->dim[i - 1] == 1 ? 0 : elements;
        elements *= type->dim[i - 1];
    }
}

/** @return whether dimension @p i and the next, as added to the walk last, are one run for all operands. */
static bool joins(const redcoi_walk *walk, uint64_t (*stride)[REDCO_RANK_MAX], uint32_t i)
{
    for (uint32_t k = 0; k < walk->operands; k++) {
        if (stride[k][i] != walk->stride[k][0] * walk->dim[0]) { return false; }
    }
    return true;
}

static void push_front(redcoi_walk *walk, uint64_t dim, uint64_t (*stride)[REDCO_RANK_MAX], uint32_t i)
{
    memmove(walk->dim + 1, walk->dim, walk->rank * sizeof *walk->dim);
    walk->dim[0] = dim;
    for (uint32_t k = 0; k < walk->operands; k++) {
        memmove(walk->stride[k] + 1, walk->stride[k], walk->rank * sizeof *walk->stride[k]);
        walk->stride[k][0] = stride[k][i];
    }
    walk->rank++;
}

void redcoi_walk_begin(redcoi_walk *walk, const redco_tensor_type *type, uint64_t (*stride)[REDCO_RANK_MAX],
                       uint32_t operands)
{
    memset(walk, 0, sizeof *walk);
    walk->operands = operands;
    for (uint32_t i = type->rank; i > 0; i--) {
        if (type->dim[i - 1] == 1) { continue; }
        if (walk->rank > 0 && joins(walk, stride, i - 1)) {
            walk->dim[0] *= type->dim[i - 1];
        } else {
            push_front(walk, type->dim[i - 1], stride, i - 1);
        }
    }
    if (walk->rank == 0) { /* one element */
        walk->rank = 1;
        walk->dim[0] = 1;
    }
    walk->count = walk->dim[walk->rank - 1];
}

bool redcoi_walk_next(redcoi_walk *walk)
{
    walk->done += walk->count;
    for (uint32_t i = walk->rank - 1; i > 0; i--) {
        const uint32_t d = i - 1;
        const bool more = ++walk->at[d] < walk->dim[d];
        for (uint32_t k = 0; k < walk->operands; k++) {
            walk->first[k] += walk->stride[k][d];
            if (!more) { walk->first[k] -= walk->stride[k][d] * walk->dim[d]; }
        }
        if (more) { return true; }
        walk->at[d] = 0;
    }
    return false;
}

void redcoi_walk_inputs(redcoi_walk *walk, const redco_launch *launch)
{
    uint64_t stride[REDCOI_WALK_OPERANDS][REDCO_RANK_MAX] = {{0}};
    for (uint32_t k = 0; k < launch->input_count; k++) { redcoi_strides(&launch->inputs[k].type, true, stride[k]); }
    redcoi_walk_begin(walk, &launch->outputs[0].type, stride, launch->input_count);
}
