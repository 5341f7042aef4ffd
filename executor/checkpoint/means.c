/* Adafactor's means of squares in checkpoints: replicated on all ranks, written by rank 0. */
#include "executor/checkpoint/checkpoint_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of the two vectors of a parameter. @return false: it has none */
static bool vector_of(const redco_checkpoint_states *s, uint32_t parameter, int which, double **data_out,
                      uint64_t *count_out, char name[REDCOI_NAME_SIZE])
{
    const redco_kept_means means = redco_states_means(s->states, parameter);
    const redco_task_parameter *const p = &s->task->parameters[parameter];
    const bool row = (which == 0) != p->transposed;
    *data_out = which == 0 ? means.rows : means.columns;
    *count_out = which == 0 ? means.row_count : means.column_count;
    (void)snprintf(name, REDCOI_NAME_SIZE, "%s.%s", p->name,
                   means.rows == NULL ? "exp_avg_sq"
                   : row              ? "exp_avg_sq_row"
                                      : "exp_avg_sq_col");
    return *data_out != NULL;
}

redco_status redcoi_means_walk(const redco_checkpoint_states *s, redcoi_means_visit visit, void *context,
                               redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; s->optimizer.kind == REDCO_ADAFACTOR && i < s->task->parameter_count; i++) {
        for (int which = 0; which < 2 && st == REDCO_OK; which++) {
            char name[REDCOI_NAME_SIZE];
            double *data = NULL;
            uint64_t count = 0;
            if (!vector_of(s, i, which, &data, &count, name)) { continue; }
            st = visit(context, &(redcoi_means){name, data, count}, err);
        }
    }
    return st;
}

static redco_status add_one(void *context, const redcoi_means *means, redco_error *err)
{
    (void)means;
    (void)err;
    (*(uint32_t *)context)++;
    return REDCO_OK;
}

uint32_t redcoi_means_count(const redco_checkpoint_states *s)
{
    uint32_t count = 0;
    (void)redcoi_means_walk(s, add_one, &count, NULL);
    return count;
}

struct listing {
    redco_checkpoint *checkpoint;
    redcoi_entry *entry; /* the next one */
    const int *descriptors;
};

static redco_status list(void *context, const redcoi_means *means, redco_error *err)
{
    struct listing *const l = context;
    l->entry->name = strdup(means->name);
    l->entry->type = redco_type(l->checkpoint->info.master, 1, &means->count);
    if (l->entry->name == NULL) { return redco_fail(err, REDCO_ENOMEM, l->checkpoint->path, "out of memory"); }
    l->entry++;
    return REDCO_OK;
}

redco_status redcoi_means_catalogue(redco_checkpoint *c, const redco_checkpoint_states *s, uint32_t first,
                                    redco_error *err)
{
    struct listing l = {.checkpoint = c, .entry = &c->entries[first]};
    return redcoi_means_walk(s, list, &l, err);
}

static redco_status save(void *context, const redcoi_means *means, redco_error *err)
{
    struct listing *const l = context;
    redcoi_entry *const entry = l->entry++;
    const uint32_t bytes = redco_dtype_bytes(entry->type.dtype);
    unsigned char *const data = malloc(means->count * bytes + 1);
    if (data == NULL) { return redco_fail(err, REDCO_ENOMEM, l->checkpoint->path, "no memory to write it"); }
    for (uint64_t i = 0; i < means->count; i++) {
        const float narrow = (float)means->data[i];
        memcpy(data + i * bytes, bytes == sizeof narrow ? (const void *)&narrow : (const void *)&means->data[i], bytes);
    }
    entry->checksum = redcoi_checksum(data, means->count, bytes, 0);
    const redco_status st =
        redcoi_write_at(l->descriptors[entry->file], data, means->count * bytes, entry->offset_bytes,
                        l->checkpoint->path, &l->checkpoint->files[entry->file], err);
    free(data);
    return st;
}

redco_status redcoi_means_save(const redco_checkpoint_states *s, redco_checkpoint *c, const int *descriptors,
                               redco_error *err)
{
    struct listing l = {c, &c->entries[c->entry_count - redcoi_means_count(s)], descriptors};
    return redcoi_means_walk(s, save, &l, err);
}

struct reading {
    const redco_checkpoint *checkpoint;
    const int *descriptors; /* NULL: only looks whether they are there */
};

static redco_status read_one(void *context, const redcoi_means *means, redco_error *err)
{
    const struct reading *const r = context;
    const redco_checkpoint *const c = r->checkpoint;
    const redcoi_entry *const entry = redcoi_entry_find(c, means->name);
    if (entry == NULL || entry->type.rank != 1 || entry->type.dim[0] != means->count ||
        entry->type.dtype != c->info.master) {
        return redco_fail(err, REDCO_EVALUE, c->path, "has no tensor %s of %llu elements, which Adafactor asks for",
                          means->name, (unsigned long long)means->count);
    }
    if (r->descriptors == NULL) { return REDCO_OK; }
    const uint32_t bytes = redco_dtype_bytes(entry->type.dtype);
    unsigned char *const data = malloc(means->count * bytes + 1);
    if (data == NULL) { return redco_fail(err, REDCO_ENOMEM, c->path, "no memory to read it"); }
    const redco_status st = redcoi_read_at(r->descriptors[entry->file], data, means->count * bytes, entry->offset_bytes,
                                           c->path, &c->files[entry->file], err);
    for (uint64_t i = 0; i < means->count && st == REDCO_OK; i++) {
        float narrow = 0.0F;
        memcpy(bytes == sizeof narrow ? (void *)&narrow : (void *)&means->data[i], data + i * bytes, bytes);
        if (bytes == sizeof narrow) { means->data[i] = (double)narrow; }
    }
    free(data);
    return st;
}

redco_status redcoi_means_match(const redco_checkpoint *c, const redco_checkpoint_states *s, redco_error *err)
{
    return redcoi_means_walk(s, read_one, &(struct reading){c, NULL}, err);
}

redco_status redcoi_means_load(const redco_checkpoint *c, const redco_checkpoint_states *s, const int *descriptors,
                               redco_error *err)
{
    return redcoi_means_walk(s, read_one, &(struct reading){c, descriptors}, err);
}
