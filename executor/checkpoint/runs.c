#include "executor/checkpoint/runs.h"

#include <string.h>

/* A split dimension is [blocks, ranks, rest]: of a row-major tensor a rank has pieces of equal length, one of every
 * @ref ranks. */
typedef struct pieces {
    uint64_t length;
    uint32_t ranks, rank;
} pieces;

static uint64_t whole_of(const pieces *p, uint64_t local)
{
    return (local / p->length * p->ranks + p->rank) * p->length + local % p->length;
}

/* @param behind  elements of one step along the split dimension */
static pieces pieces_of(const redcoi_placing *p, uint64_t behind)
{
    const bool split = p->layout.kind == REDCO_TP_SPLIT;
    const uint64_t rest = split ? p->whole.dim[p->layout.dim] / p->layout.blocks / p->ranks : 1;
    return split ? (pieces){rest * behind, p->ranks, p->rank} : (pieces){UINT64_MAX, 1, 0};
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static redco_status walk_rows(const redcoi_placing *p, uint64_t begin, uint64_t count, redcoi_run_visit visit,
                              void *context, redco_error *err)
{
    uint64_t behind = 1;
    for (uint32_t d = p->layout.dim + 1; d < p->whole.rank; d++) { behind *= p->whole.dim[d]; }
    const pieces cut = pieces_of(p, behind);
    redco_status st = REDCO_OK;
    for (uint64_t at = begin; at < begin + count && st == REDCO_OK;) {
        const uint64_t here = smaller(cut.length - at % cut.length, begin + count - at);
        const redcoi_run run = {whole_of(&cut, at), at - begin, here, 1};
        st = visit(context, &run, err);
        at += here;
    }
    return st;
}

/* Rows that have an element of column @p column before @p end. */
static uint64_t rows_before(uint64_t end, uint64_t column, uint64_t columns)
{
    return end > column ? (end - column - 1) / columns + 1 : 0;
}

/* A column of the memory is a row of the file. */
static redco_status walk_columns(const redcoi_placing *p, uint64_t begin, uint64_t count, redcoi_run_visit visit,
                                 void *context, redco_error *err)
{
    const bool split = p->layout.kind == REDCO_TP_SPLIT;
    const uint64_t columns = split && p->layout.dim == 1 ? p->whole.dim[1] / p->ranks : p->whole.dim[1];
    const pieces cut = pieces_of(p, 1), none = {UINT64_MAX, 1, 0};
    const pieces *const of_rows = split && p->layout.dim == 0 ? &cut : &none;
    const pieces *const of_columns = split && p->layout.dim == 1 ? &cut : &none;
    redco_status st = REDCO_OK;
    for (uint64_t c = 0; c < columns && st == REDCO_OK; c++) {
        const uint64_t end = rows_before(begin + count, c, columns);
        for (uint64_t row = rows_before(begin, c, columns); row < end && st == REDCO_OK;) {
            const uint64_t here = smaller(of_rows->length - row % of_rows->length, end - row);
            const redcoi_run run = {whole_of(of_columns, c) * p->whole.dim[0] + whole_of(of_rows, row),
                                    row * columns + c - begin, here, columns};
            st = visit(context, &run, err);
            row += here;
        }
    }
    return st;
}

redco_status redcoi_runs_walk(const redcoi_placing *p, uint64_t begin, uint64_t count, redcoi_run_visit visit,
                              void *context, redco_error *err)
{
    return (p->transposed && p->whole.rank == 2 ? walk_columns : walk_rows)(p, begin, count, visit, context, err);
}

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
    return x ^ (x >> 31);
}

uint64_t redcoi_checksum(const void *elements, uint64_t count, uint32_t element_bytes, uint64_t place)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t bits = 0; /* little-endian: tensor_file.c */
        memcpy(&bits, (const unsigned char *)elements + i * element_bytes, element_bytes);
        sum += mix(bits + (place + i + 1) * 0x9e3779b97f4a7c15U);
    }
    return sum;
}
