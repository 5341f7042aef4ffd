#include "executor/trainer/rounds.h"

#include <stdlib.h>
#include <string.h>

static int longest_first(const void *a, const void *b, void *context)
{
    const uint32_t *const lengths = context;
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    if (lengths[x] != lengths[y]) { return lengths[x] > lengths[y] ? -1 : 1; }
    return x < y ? -1 : x > y;
}

redco_status redcoi_rounds_make(const uint32_t *lengths, uint64_t count, uint32_t batch, uint32_t padded,
                                redcoi_rounds *r, redco_error *err)
{
    *r = (redcoi_rounds){.count = count, .batch = batch, .batches = (count + batch - 1) / batch};
    r->order = calloc(count, sizeof *r->order);
    r->lengths = calloc(count, sizeof *r->lengths);
    if (r->order == NULL || r->lengths == NULL) {
        redcoi_rounds_free(r);
        return redco_fail(err, REDCO_ENOMEM, "examples", "no memory to sort them");
    }
    memcpy(r->lengths, lengths, count * sizeof *lengths);
    for (uint64_t i = 0; i < count; i++) { r->order[i] = i; }
    qsort_r(r->order, count, sizeof *r->order, longest_first, r->lengths);
    r->longest = r->lengths[r->order[0]];
    r->unit = r->longest / padded + (r->longest % padded != 0 ? 1 : 0);
    return REDCO_OK;
}

void redcoi_rounds_free(redcoi_rounds *r)
{
    free(r->order);
    free(r->lengths);
    *r = (redcoi_rounds){.order = NULL};
}

uint64_t redcoi_rounds_of(const redcoi_rounds *r, uint64_t ranks)
{
    return (r->batches + ranks - 1) / ranks;
}

uint32_t redcoi_rounds_length(const redcoi_rounds *r, uint64_t batch)
{
    const uint64_t first = batch < r->batches ? batch * r->batch : 0;
    const uint32_t padded = redcoi_rounds_number(r, r->lengths[r->order[first]]) * r->unit;
    return padded < r->longest ? padded : r->longest;
}

uint32_t redcoi_rounds_number(const redcoi_rounds *r, uint32_t length)
{
    return length / r->unit + (length % r->unit != 0 ? 1 : 0);
}

bool redcoi_rounds_example(const redcoi_rounds *r, uint64_t batch, uint32_t row, uint64_t *example_out)
{
    const uint64_t at = batch * r->batch + row;
    if (batch >= r->batches || at >= r->count) { return false; }
    *example_out = r->order[at];
    return true;
}
