#include "traces/measured.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    const redco_measured_run *run;
    size_t index; /* index of the row as given */
    size_t first; /* row of the same group that is given first */
};

static int compare_keys(const redco_measured_run *a, const redco_measured_run *b)
{
    int order = strcmp(a->source, b->source);
    if (order == 0) { order = strcmp(a->model, b->model); }
    if (order == 0) { order = strcmp(a->gpu, b->gpu); }
    if (order == 0) { order = (a->n_gpus > b->n_gpus) - (a->n_gpus < b->n_gpus); }
    return order;
}

static int by_key(const void *left, const void *right)
{
    const struct entry *const a = left;
    const struct entry *const b = right;
    const int order = compare_keys(a->run, b->run);
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static int by_index(const void *left, const void *right)
{
    const struct entry *const a = left;
    const struct entry *const b = right;
    return (a->index > b->index) - (a->index < b->index);
}

redco_status redco_measured_groups(const redco_measured_run *const *runs, size_t count, size_t *group_out,
                                   redco_error *err)
{
    if (count == 0) { return REDCO_OK; }
    struct entry *const entries = calloc(count, sizeof *entries);
    if (entries == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < count; i++) { entries[i] = (struct entry){runs[i], i, i}; }
    qsort(entries, count, sizeof *entries, by_key);
    for (size_t i = 1; i < count; i++) {
        if (compare_keys(entries[i - 1].run, entries[i].run) == 0) { entries[i].first = entries[i - 1].first; }
    }
    qsort(entries, count, sizeof *entries, by_index);
    size_t groups = 0;
    for (size_t i = 0; i < count; i++) {
        group_out[i] = entries[i].first == i ? groups++ : group_out[entries[i].first];
    }
    free(entries);
    return REDCO_OK;
}
