#include "executor/backend/backend.h"
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>

static int by_size(const void *a, const void *b)
{
    const redcoi_interval *const x = *(redcoi_interval *const *)a, *const y = *(redcoi_interval *const *)b;
    if (x->bytes != y->bytes) { return x->bytes > y->bytes ? -1 : 1; }
    return (x > y) - (x < y);
}

static int by_address(const void *a, const void *b)
{
    const redcoi_interval *const x = *(redcoi_interval *const *)a, *const y = *(redcoi_interval *const *)b;
    return (x->at > y->at) - (x->at < y->at);
}

bool redcoi_intervals_place(redcoi_interval *intervals, uint32_t count, uint64_t *total_out)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    redcoi_interval **const sorted = calloc((size_t)count + 1, sizeof *sorted);
    redcoi_interval **const beside = calloc((size_t)count + 1, sizeof *beside);
    uint64_t total = 0;
    const bool enough = sorted != NULL && beside != NULL;
    for (uint32_t i = 0; i < count && enough; i++) { sorted[i] = &intervals[i]; }
    if (enough) { qsort(sorted, count, sizeof *sorted, by_size); }
    for (uint32_t i = 0; i < count && enough; i++) {
        redcoi_interval *const block = sorted[i];
        const uint64_t bytes = (block->bytes + unit - 1) / unit * unit;
        uint32_t others = 0;
        for (uint32_t k = 0; k < i; k++) {
            if (sorted[k]->from <= block->to && block->from <= sorted[k]->to) { beside[others++] = sorted[k]; }
        }
        qsort(beside, others, sizeof *beside, by_address);
        block->at = 0;
        for (uint32_t k = 0; k < others && beside[k]->at < block->at + bytes; k++) {
            const uint64_t end = beside[k]->at + (beside[k]->bytes + unit - 1) / unit * unit;
            if (end > block->at) { block->at = end; }
        }
        if (block->at + bytes > total) { total = block->at + bytes; }
    }
    free(sorted);
    free(beside);
    *total_out = total;
    return enough;
}
