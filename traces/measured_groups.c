#include "traces/measured.h"

#include <stdlib.h>
#include <string.h>

struct entry {
    const redco_measured_run *run;
    size_t index; /* index of the row as given */
    size_t first; /* row of the same group that is given first */
    bool task;    /* which values must be equal: also what is computed by which software */
};

static int compare_numbers(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* Tables without the column have no word. */
static int compare_words(const char *a, const char *b)
{
    return strcmp(a != NULL ? a : "", b != NULL ? b : "");
}

/* A group leaves the layout to choose. */
static int compare_tasks(const redco_measured_run *a, const redco_measured_run *b)
{
    const uint64_t left[] = {a->seq_len,   a->global_batch, a->layers,   a->software,   a->precision,
                             a->attention, a->fused_norm,   a->compiled, a->cuda_graphs};
    const uint64_t right[] = {b->seq_len,   b->global_batch, b->layers,   b->software,   b->precision,
                              b->attention, b->fused_norm,   b->compiled, b->cuda_graphs};
    const char *const words[][2] = {{a->framework, b->framework},
                                    {a->release, b->release},
                                    {a->routing, b->routing},
                                    {a->precision_recipe, b->precision_recipe}};
    int order = 0;
    for (size_t i = 0; i < sizeof words / sizeof words[0] && order == 0; i++) {
        order = compare_words(words[i][0], words[i][1]);
    }
    for (size_t i = 0; i < sizeof left / sizeof left[0] && order == 0; i++) {
        order = compare_numbers(left[i], right[i]);
    }
    return order;
}

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
    int order = compare_keys(a->run, b->run);
    if (order == 0 && a->task) { order = compare_tasks(a->run, b->run); }
    return order != 0 ? order : (a->index > b->index) - (a->index < b->index);
}

static int by_index(const void *left, const void *right)
{
    const struct entry *const a = left;
    const struct entry *const b = right;
    return (a->index > b->index) - (a->index < b->index);
}

static redco_status number_groups(const redco_measured_run *const *runs, size_t count, bool task, size_t *group_out,
                                  redco_error *err)
{
    if (count == 0) { return REDCO_OK; }
    struct entry *const entries = calloc(count, sizeof *entries);
    if (entries == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < count; i++) { entries[i] = (struct entry){runs[i], i, i, task}; }
    qsort(entries, count, sizeof *entries, by_key);
    for (size_t i = 1; i < count; i++) {
        const redco_measured_run *const a = entries[i - 1].run, *const b = entries[i].run;
        if (compare_keys(a, b) == 0 && (!task || compare_tasks(a, b) == 0)) { entries[i].first = entries[i - 1].first; }
    }
    qsort(entries, count, sizeof *entries, by_index);
    size_t groups = 0;
    for (size_t i = 0; i < count; i++) {
        group_out[i] = entries[i].first == i ? groups++ : group_out[entries[i].first];
    }
    free(entries);
    return REDCO_OK;
}

redco_status redco_measured_groups(const redco_measured_run *const *runs, size_t count, size_t *group_out,
                                   redco_error *err)
{
    return number_groups(runs, count, false, group_out, err);
}

redco_status redco_measured_tasks(const redco_measured_run *const *runs, size_t count, size_t *group_out,
                                  redco_error *err)
{
    return number_groups(runs, count, true, group_out, err);
}
