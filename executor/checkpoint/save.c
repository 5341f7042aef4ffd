#include "executor/checkpoint/checkpoint_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Elements copied from the states at once. */
static const uint64_t chunk_elements = (uint64_t)1 << 18;

struct saving {
    const redco_checkpoint_states *states;
    redco_checkpoint *checkpoint;
    const int *descriptors;
    redcoi_entry *entry; /* at work */
    int kinds;           /* tensors of each parameter */
    uint32_t element_bytes;
    void *chunk; /* chunk_elements of them */
    unsigned char *row;
};

static redco_status write_run(void *context, const redcoi_run *run, redco_error *err)
{
    struct saving *const s = context;
    const redco_dtype master = s->checkpoint->info.master, dtype = s->entry->type.dtype;
    const uint32_t file_bytes = redco_dtype_bytes(dtype);
    const unsigned char *from = (const unsigned char *)s->chunk + run->local_at * s->element_bytes;
    if (run->stride != 1 || dtype != master) {
        for (uint64_t i = 0; i < run->count; i++) {
            memcpy(s->row + i * s->element_bytes, from + i * run->stride * s->element_bytes, s->element_bytes);
        }
        if (dtype != master) { redco_weights_cast(master, s->row, run->count, dtype, s->row); }
        from = s->row;
    }
    s->entry->checksum += redcoi_checksum(from, run->count, file_bytes, run->file_at);
    return redcoi_write_at(s->descriptors[s->entry->file], from, run->count * file_bytes,
                           s->entry->offset_bytes + run->file_at * file_bytes, s->checkpoint->path,
                           &s->checkpoint->files[s->entry->file], err);
}

/* Ranks that hold the same elements each write a part of them. */
struct share {
    uint32_t own, of;
};

static struct share share_of(const redco_checkpoint_states *s, uint32_t layer, uint32_t tensor)
{
    const redco_layout *const layout = redco_states_layout(s->states);
    const redco_rank_mesh mesh = redco_layout_mesh(layout);
    const redco_place place = redco_layout_place(layout);
    const redco_state_model *const model = redco_layout_model(layout);
    const redco_shards *const shards = &model->layers[layer].shards;
    const redco_between blocks = {model->tensors[tensor].frozen ? shards->parameters : shards->optimizer, mesh.dp};
    struct share share = {redco_between_position(blocks, place), redco_between_size(blocks)};
    if (s->layouts[tensor].kind != REDCO_TP_SPLIT) {
        share = (struct share){share.own * mesh.tp + place.tp, share.of * mesh.tp};
    }
    return share;
}

/* Products of 128 bits are not needed: an element's number is below 2^48, a rank's below 2^16. */
static uint64_t cut(uint64_t count, uint32_t part, uint32_t parts)
{
    return count * part / parts;
}

/* Refuses values that are not finite: earlier checkpoints stay. */
static redco_status check_finite(const struct saving *s, uint64_t count, redco_error *err)
{
    bool finite = true;
    for (uint64_t i = 0; i < count; i++) {
        finite = finite && (s->element_bytes == sizeof(double) ? isfinite(((const double *)s->chunk)[i])
                                                               : isfinite(((const float *)s->chunk)[i]));
    }
    return finite ? REDCO_OK
                  : redco_fail(err, REDCO_EINFEASIBLE, s->checkpoint->path, "%s holds what is not a finite number",
                               s->entry->name);
}

static redco_status save_range(struct saving *s, const redco_shard_slice *slice, int which,
                               const redcoi_placing *placing, redco_error *err)
{
    const redco_layout *const layout = redco_states_layout(s->states->states);
    const uint32_t layer = redco_layout_layer_of(layout, redco_layout_module_of(layout, slice->tensor));
    const struct share share = share_of(s->states, layer, slice->tensor);
    const uint64_t end = slice->begin + cut(slice->count, share.own + 1, share.of);
    redco_status st = REDCO_OK;
    s->entry =
        &s->checkpoint
             ->entries[redcoi_entry_number(s->states, redco_checkpoint_parameter(s->states, slice->tensor), which)];
    for (uint64_t at = slice->begin + cut(slice->count, share.own, share.of); at < end && st == REDCO_OK;
         at += chunk_elements) {
        const uint64_t count = end - at < chunk_elements ? end - at : chunk_elements;
        st = redco_states_get_range(s->states->states, s->states->worker, slice->tensor, which, at, count, s->chunk,
                                    err);
        if (st == REDCO_OK) { st = check_finite(s, count, err); }
        if (st == REDCO_OK) { st = redcoi_runs_walk(placing, at, count, write_run, s, err); }
    }
    return st;
}

static redco_status save_own(struct saving *s, redco_error *err)
{
    const redco_layout *const layout = redco_states_layout(s->states->states);
    redco_status st = REDCO_OK;
    for (uint32_t layer = 0; layer < redco_layout_model(layout)->layer_count && st == REDCO_OK; layer++) {
        uint32_t count = 0;
        const redco_shard_slice *const slices = redco_layout_slices(layout, layer, &count);
        for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
            const uint32_t tensor = slices[i].tensor;
            const bool frozen = redco_layout_model(layout)->tensors[tensor].frozen;
            const bool elsewhere = s->states->written_elsewhere != NULL && s->states->written_elsewhere[tensor];
            if ((slices[i].owned_at == REDCO_NOWHERE && !frozen) || elsewhere) { continue; }
            const redcoi_placing placing = redcoi_placing_of(s->states, tensor);
            const int states = redcoi_states_of(s->states, redco_checkpoint_parameter(s->states, tensor), s->kinds - 1);
            for (int which = REDCO_STATES_WEIGHTS; which < states && st == REDCO_OK; which++) {
                st = save_range(s, &slices[i], which, &placing, err);
            }
        }
    }
    return st;
}

redco_status redcoi_save_part(const redco_checkpoint_states *states, redco_checkpoint *checkpoint, int kinds,
                              bool means, redco_error *err)
{
    int *descriptors = NULL;
    struct saving s = {.states = states, .checkpoint = checkpoint, .kinds = kinds};
    s.element_bytes = redco_dtype_bytes(checkpoint->info.master);
    s.chunk = malloc(chunk_elements * s.element_bytes);
    s.row = malloc(chunk_elements * s.element_bytes);
    redco_status st = s.chunk == NULL || s.row == NULL
                          ? redco_fail(err, REDCO_ENOMEM, checkpoint->path, "no memory to write it")
                          : redcoi_files_open(checkpoint, checkpoint->path, true, &descriptors, err);
    s.descriptors = descriptors;
    if (st == REDCO_OK) { st = save_own(&s, err); }
    if (st == REDCO_OK && means) { st = redcoi_means_save(states, checkpoint, descriptors, err); }
    if (st == REDCO_OK) { st = redcoi_files_flush(checkpoint, checkpoint->path, descriptors, err); }
    redcoi_files_close(checkpoint, descriptors);
    free(s.chunk);
    free(s.row);
    return st;
}

static redco_status add_checksums(redco_checkpoints *c, redco_checkpoint *checkpoint, redco_error *err)
{
    uint64_t *const sums = calloc((size_t)checkpoint->entry_count + 1, sizeof *sums);
    if (sums == NULL) { return redco_fail(err, REDCO_ENOMEM, checkpoint->path, "out of memory"); }
    for (uint32_t i = 0; i < checkpoint->entry_count; i++) { sums[i] = checkpoint->entries[i].checksum; }
    const redco_status st = redcoi_add_up(c, sums, checkpoint->entry_count, "checkpoint/checksums", err);
    for (uint32_t i = 0; i < checkpoint->entry_count; i++) { checkpoint->entries[i].checksum = sums[i]; }
    free(sums);
    return st;
}

void redco_checkpoints_set_best(redco_checkpoints *c, const redco_checkpoint_best *best)
{
    (void)snprintf(c->best_by, sizeof c->best_by, "%s", best->by);
    c->best = (redco_checkpoint_best){best->step, best->value, c->best_by};
}

redco_checkpoint_best redco_checkpoints_best(const redco_checkpoints *c)
{
    return c->best;
}

redco_status redco_checkpoints_save(redco_checkpoints *c, const redco_checkpoint_info *info,
                                    const redco_checkpoint_states *states, redco_error *err)
{
    const bool first = redco_communicator_rank(c->all) == 0;
    const redco_checkpoints_options *const options = &c->options;
    redco_checkpoint *checkpoint = NULL;
    redco_checkpoint_info with_best = *info;
    with_best.best = c->best;
    redco_status st = redcoi_catalogue(&c->options, &with_best, states, &checkpoint, err);
    if (st == REDCO_OK && first) { st = redcoi_store_begin(options, checkpoint, err); }
    if ((st = redcoi_agree(c, st, "checkpoint/begin", NULL, err)) != REDCO_OK) { goto out; }
    st = redcoi_save_part(states, checkpoint, 1 + (int)redco_optimizer_states(&states->optimizer), first, err);
    if ((st = redcoi_agree(c, st, "checkpoint/write", NULL, err)) != REDCO_OK) { goto out; }
    if ((st = add_checksums(c, checkpoint, err)) != REDCO_OK) { goto out; }
    if (first) {
        st = redcoi_store_commit(options, checkpoint, err);
        if (st == REDCO_OK) { st = redcoi_store_prune(options, info->step, c->best.step, c->resumed, err); }
        if (st == REDCO_OK) { c->resumed = UINT64_MAX; } /* the folder is whole now */
    }
    st = redcoi_agree(c, st, "checkpoint/commit", NULL, err);
out:
    if (st != REDCO_OK && first) { redcoi_store_clean(options, false); }
    redco_checkpoint_free(checkpoint);
    return st;
}
