/* A kernel that is queued: its grid, its divisors, the shapes of its operands. */
#include "executor/backend/cuda/kernels_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { BLOCKS_PER_MULTIPROCESSOR = 32 }; /* several times what is resident, so that none runs alone at the end */

redcoi_divisor redcoi_divisor_of(uint64_t divisor)
{
    redcoi_divisor d = {.divisor = divisor};
    uint32_t bits = 0; /* 2^bits <= divisor */
    if (divisor <= 1) { return d; }
    while (bits < 63 && divisor >> (bits + 1) != 0) { bits++; }
    d.shift = (divisor & (divisor - 1)) == 0 ? bits - 1 : bits;
    /* 2^(64 + shift) / divisor, rounded up, bit by bit. Then e = factor divisor - 2^(64 + shift) < divisor, and for
     * n < 2^48 n e < 2^(49 + bits) <= 2^(64 + shift): n factor / 2^(64 + shift) is less than 1 / divisor too large. */
    uint64_t rest = 0, quotient = 0;
    for (uint32_t i = 0; i < 65 + d.shift; i++) {
        rest = (rest << 1) | (i == 0 ? 1 : 0);
        quotient <<= 1;
        if (rest >= divisor) {
            rest -= divisor;
            quotient |= 1;
        }
    }
    d.factor = quotient + (rest > 0 ? 1 : 0);
    return d;
}

uint64_t redcoi_pieces(uint64_t count, uint64_t size)
{
    return (count + size - 1) / size;
}

bool redcoi_is_aligned(const void *memory, uint64_t bytes)
{
    return (uintptr_t)memory % bytes == 0;
}

uint32_t redcoi_threads_for(uint64_t items, uint32_t most)
{
    uint32_t threads = 32;
    while (threads < most && threads < items) { threads *= 2; }
    return threads;
}

redco_status redcoi_work_launch(const redcoi_work *work, uint64_t blocks, uint32_t threads, uint32_t shared_bytes,
                                const void *arguments, const char *format, ...)
{
    const uint64_t most = (uint64_t)work->cuda->device->multiprocessors * BLOCKS_PER_MULTIPROCESSOR;
    redcoi_grid grid = {.threads = threads, .shared_bytes = shared_bytes};
    char name[100];
    va_list list;
    va_start(list, format);
    (void)vsnprintf(name, sizeof name, format, list);
    va_end(list);
    grid.blocks[0] = (uint32_t)(blocks < 1 ? 1 : blocks < most ? blocks : most);
    return redcoi_kernel_launch(work->cuda, work->stream, name, &grid, arguments, work->launch->name, work->err);
}

void redcoi_dense_strides(const redco_tensor_type *type, bool repeat, uint64_t stride[REDCO_RANK_MAX])
{
    uint64_t elements = 1;
    for (uint32_t i = type->rank; i > 0; i--) {
        stride[i - 1] = repeat && type->dim[i - 1] == 1 ? 0 : elements;
        elements *= type->dim[i - 1];
    }
}

/* @return whether dimension i and the next, as added to the shape last, are one run for all operands. */
static bool joins(const redcoi_shape *shape, uint64_t (*stride)[REDCO_RANK_MAX], uint32_t i)
{
    for (uint32_t k = 0; k < shape->operands; k++) {
        if (stride[k][i] != shape->stride[k][0] * shape->dim[0]) { return false; }
    }
    return true;
}

void redcoi_shape_make(redcoi_shape *shape, const redco_tensor_type *type, uint64_t (*stride)[REDCO_RANK_MAX],
                       uint32_t operands)
{
    memset(shape, 0, sizeof *shape);
    shape->operands = operands;
    for (uint32_t i = type->rank; i > 0; i--) {
        if (type->dim[i - 1] == 1) { continue; }
        if (shape->rank > 0 && joins(shape, stride, i - 1)) {
            shape->dim[0] *= type->dim[i - 1];
            continue;
        }
        memmove(shape->dim + 1, shape->dim, shape->rank * sizeof *shape->dim);
        shape->dim[0] = type->dim[i - 1];
        for (uint32_t k = 0; k < operands; k++) {
            memmove(shape->stride[k] + 1, shape->stride[k], shape->rank * sizeof *shape->stride[k]);
            shape->stride[k][0] = stride[k][i - 1];
        }
        shape->rank++;
    }
    if (shape->rank == 0) { /* one element */
        shape->rank = 1;
        shape->dim[0] = 1;
        for (uint32_t k = 0; k < operands; k++) { shape->stride[k][0] = 1; }
    }
}

uint64_t redcoi_widest(uint64_t element_bytes, const uint64_t *numbers, uint32_t count)
{
    uint64_t all = 16 / element_bytes;
    for (uint32_t i = 0; i < count; i++) {
        while (numbers[i] % all != 0) { all /= 2; }
    }
    return all;
}
