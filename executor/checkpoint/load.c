#include "executor/checkpoint/checkpoint_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Elements that are read at once. */
static const uint64_t chunk_elements = (uint64_t)1 << 18;

/* Rank 0 lists the checkpoints. */
static redco_status look(redco_checkpoints *c, redco_error *err)
{
    const redco_checkpoints_options *const o = &c->options;
    uint64_t *steps = NULL;
    size_t count = 0;
    redco_status st = redcoi_store_lock(o->folder, !o->resume, &c->lock, err);
    if (st == REDCO_OK) { st = redcoi_store_list(o->folder, &steps, &count, err); }
    if (st == REDCO_OK && count > 0 && !o->resume) {
        st = redco_fail(err, REDCO_EVALUE, o->folder,
                        "has a checkpoint of step %" PRIu64 " already; --resume continues it, another run needs "
                        "another folder",
                        steps[0]);
    }
    if (st == REDCO_OK) { redcoi_store_clean(o, true); }
    free(steps);
    return st;
}

redco_status redco_checkpoints_open(const redco_checkpoints_options *options, redco_world *world,
                                    redco_checkpoints **checkpoints_out, redco_error *err)
{
    const uint32_t ranks = redco_world_size(world);
    redco_checkpoints *c = calloc(1, sizeof *c);
    uint32_t *const colours = calloc(ranks, sizeof *colours);
    redco_status st = REDCO_OK;
    if (c == NULL || colours == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, options->folder, "out of memory");
        goto out;
    }
    *c = (redco_checkpoints){.options = *options, .world = world, .lock = -1, .resumed = UINT64_MAX};
    if (options->keep == 0) {
        st = redco_fail(err, REDCO_EVALUE, options->folder, "at least one checkpoint must be kept");
        goto out;
    }
    if ((st = redco_communicator_split(world, colours, "checkpoints", &c->all, err)) != REDCO_OK) { goto out; }
    if (redco_world_rank(world) == 0) { st = look(c, err); }
    if ((st = redcoi_agree(c, st, "checkpoint/open", NULL, err)) != REDCO_OK) { goto out; }
    *checkpoints_out = c;
    c = NULL;
out:
    free(colours);
    redco_checkpoints_close(c);
    return st;
}

void redco_checkpoints_close(redco_checkpoints *c)
{
    if (c == NULL) { return; }
    redco_communicator_free(c->all);
    if (c->lock >= 0) { (void)close(c->lock); }
    free(c);
}

/* Each rank sums a part of each tensor. */
static redco_status sum_part(const redco_checkpoints *c, const redco_checkpoint *checkpoint, const int *descriptors,
                             uint64_t *sums, redco_error *err)
{
    const uint64_t ranks = redco_communicator_size(c->all), rank = redco_communicator_rank(c->all);
    redco_status st = REDCO_OK;
    void *const chunk = malloc(chunk_elements * sizeof(double));
    if (chunk == NULL) { return redco_fail(err, REDCO_ENOMEM, checkpoint->path, "no memory to read it"); }
    for (uint32_t i = 0; i < checkpoint->entry_count && st == REDCO_OK; i++) {
        const redcoi_entry *const e = &checkpoint->entries[i];
        const uint32_t element_bytes = redco_dtype_bytes(e->type.dtype);
        const uint64_t elements = redco_type_elements(&e->type), end = elements * (rank + 1) / ranks;
        for (uint64_t at = elements * rank / ranks; at < end && st == REDCO_OK; at += chunk_elements) {
            const uint64_t count = end - at < chunk_elements ? end - at : chunk_elements;
            st =
                redcoi_read_at(descriptors[e->file], chunk, count * element_bytes, e->offset_bytes + at * element_bytes,
                               checkpoint->path, &checkpoint->files[e->file], err);
            if (st == REDCO_OK) { sums[i] += redcoi_checksum(chunk, count, element_bytes, at); }
        }
    }
    free(chunk);
    return st;
}

static redco_status compare(const redco_checkpoint *checkpoint, const uint64_t *sums, redco_error *err)
{
    for (uint32_t i = 0; i < checkpoint->entry_count; i++) {
        const redcoi_entry *const e = &checkpoint->entries[i];
        char place[512];
        if (sums[i] == e->checksum) { continue; }
        (void)snprintf(place, sizeof place, "%.400s/%s", checkpoint->path, checkpoint->files[e->file].name);
        return redco_fail(err, REDCO_EVALUE, place, "%s is not what was written: its checksum is another", e->name);
    }
    return REDCO_OK;
}

/* @param agreed_out  whether all ranks got the same answer; else a peer is lost */
static redco_status check_one(const redco_checkpoints *c, uint64_t step, redco_checkpoint **checkpoint_out,
                              bool *agreed_out, redco_error *err)
{
    redco_checkpoint *checkpoint = NULL;
    int *descriptors = NULL;
    uint64_t *sums = NULL;
    char path[REDCOI_PATH_SIZE];
    redcoi_store_path(c->options.folder, step, true, path);
    redco_status st = redcoi_manifest_open(path, REDCOI_MANIFEST, step, &checkpoint, err);
    if (st == REDCO_OK) { st = redcoi_files_open(checkpoint, checkpoint->path, false, &descriptors, err); }
    for (uint32_t i = 0; st == REDCO_OK && redco_communicator_rank(c->all) == 0 && i < checkpoint->file_count; i++) {
        st = redcoi_file_check(checkpoint, i, descriptors[i], err);
    }
    if ((st = redcoi_agree(c, st, "checkpoint/check", agreed_out, err)) != REDCO_OK || checkpoint == NULL ||
        descriptors == NULL) {
        goto out;
    }
    sums = calloc((size_t)checkpoint->entry_count + 1, sizeof *sums);
    st = sums != NULL ? sum_part(c, checkpoint, descriptors, sums, err)
                      : redco_fail(err, REDCO_ENOMEM, checkpoint->path, "out of memory");
    if ((st = redcoi_agree(c, st, "checkpoint/check", agreed_out, err)) != REDCO_OK || sums == NULL) { goto out; }
    *agreed_out = false;
    st = redcoi_add_up(c, sums, checkpoint->entry_count, "checkpoint/checksums", err);
    if (st != REDCO_OK) { goto out; }
    *agreed_out = true;
    st = compare(checkpoint, sums, err);
out:
    free(sums);
    redcoi_files_close(checkpoint, descriptors);
    if (st == REDCO_OK) {
        *checkpoint_out = checkpoint;
    } else {
        redco_checkpoint_free(checkpoint);
    }
    return st;
}

static void pass_over(const redco_checkpoints *c, const redco_error *bad)
{
    char text[sizeof bad->place + sizeof bad->text + 64];
    if (redco_communicator_rank(c->all) != 0 || c->options.tell == NULL) { return; }
    const char *const colon = strncmp(bad->place, "rank ", 5) == 0 ? strchr(bad->place, ':') : NULL;
    (void)snprintf(text, sizeof text, "%s: %s; this checkpoint is passed over", colon != NULL ? colon + 2 : bad->place,
                   bad->text);
    c->options.tell(c->options.context, text);
}

/* The best checkpoint that this one names, unless it was removed: rank 0 checks. */
static redco_status take_best(redco_checkpoints *c, const redco_checkpoint_best *best, redco_error *err)
{
    uint64_t there = 0;
    if (best->step == 0) { return REDCO_OK; }
    if (redco_communicator_rank(c->all) == 0) { there = redcoi_store_has(c->options.folder, best->step) ? 1 : 0; }
    const redco_status st = redcoi_tell(c, &there, 1, "checkpoint/find", err);
    if (st == REDCO_OK && there == 1) { redco_checkpoints_set_best(c, best); }
    return st;
}

/* Tries checkpoints in rank 0's order. */
static redco_status find(redco_checkpoints *c, const uint64_t *steps, uint64_t count, redco_checkpoint **checkpoint_out,
                         redco_error *err)
{
    redco_status st = redcoi_tell(c, &count, 1, "checkpoint/find", err);
    for (uint64_t i = 0; i < count && st == REDCO_OK; i++) {
        uint64_t step = steps != NULL ? steps[i] : 0;
        bool agreed = false;
        redco_error bad = {.status = REDCO_OK};
        if ((st = redcoi_tell(c, &step, 1, "checkpoint/find", err)) != REDCO_OK) { return st; }
        const redco_status found = check_one(c, step, checkpoint_out, &agreed, &bad);
        if (found == REDCO_OK && *checkpoint_out != NULL) {
            if (i > 0) { c->resumed = step; }
            return take_best(c, &(*checkpoint_out)->info.best, err);
        }
        if (!agreed || found == REDCO_ENOMEM) { return redco_fail(err, found, bad.place, "%s", bad.text); }
        pass_over(c, &bad);
    }
    if (st != REDCO_OK) { return st; }
    return redco_fail(err, REDCO_EVALUE, c->options.folder, "has no checkpoint%s to resume",
                      count > 0 ? " that is whole" : "");
}

redco_status redco_checkpoints_find(redco_checkpoints *c, redco_checkpoint **checkpoint_out, redco_error *err)
{
    uint64_t *steps = NULL;
    size_t count = 0;
    redco_status st = REDCO_OK;
    if (redco_communicator_rank(c->all) == 0) { st = redcoi_store_list(c->options.folder, &steps, &count, err); }
    st = redcoi_agree(c, st, "checkpoint/find", NULL, err);
    if (st == REDCO_OK) { st = find(c, steps, count, checkpoint_out, err); }
    free(steps);
    return st;
}

struct loading {
    const redco_checkpoint_states *states;
    const redco_checkpoint *checkpoint;
    const int *descriptors;
    const redcoi_entry *entry; /* at work */
    uint32_t element_bytes;
    unsigned char *chunk, *row; /* chunk_elements each */
};

static redco_status read_run(void *context, const redcoi_run *run, redco_error *err)
{
    const struct loading *const l = context;
    unsigned char *const to = l->chunk + run->local_at * l->element_bytes;
    unsigned char *const row = run->stride == 1 ? to : l->row;
    const redco_status st = redcoi_read_at(l->descriptors[l->entry->file], row, run->count * l->element_bytes,
                                           l->entry->offset_bytes + run->file_at * l->element_bytes,
                                           l->checkpoint->path, &l->checkpoint->files[l->entry->file], err);
    for (uint64_t i = 0; i < run->count && run->stride != 1 && st == REDCO_OK; i++) {
        memcpy(to + i * run->stride * l->element_bytes, row + i * l->element_bytes, l->element_bytes);
    }
    return st;
}

static const redcoi_entry *entry_of(const redco_checkpoint *c, const redco_checkpoint_states *states,
                                    uint32_t parameter, int which)
{
    char name[REDCOI_NAME_SIZE];
    redcoi_entry_name(states, parameter, which, name);
    return redcoi_entry_find(c, name);
}

/* Checks that the checkpoint has every tensor of the task, and no other. */
static redco_status match(const redco_checkpoint *c, const redco_checkpoint_states *s, redco_error *err)
{
    const uint32_t parameters = (uint32_t)s->task->parameter_count;
    const int kinds = (int)redco_optimizer_states(&s->optimizer);
    for (uint32_t i = 0; i < parameters; i++) {
        const redco_tensor_type want = redcoi_entry_type(&s->task->parameters[i], redco_states_master_dtype(s->states));
        for (int which = REDCO_STATES_WEIGHTS; which < redcoi_states_of(s, i, kinds); which++) {
            char name[REDCOI_NAME_SIZE], have_text[REDCO_TYPE_TEXT_BYTES], want_text[REDCO_TYPE_TEXT_BYTES];
            const redcoi_entry *const entry = entry_of(c, s, i, which);
            redcoi_entry_name(s, i, which, name);
            if (entry == NULL) {
                return redco_fail(err, REDCO_EVALUE, c->path, "has no tensor %s, which %s asks for", name,
                                  s->task->name);
            }
            if (!redco_type_equal(&entry->type, &want)) {
                return redco_fail(err, REDCO_EVALUE, c->path, "%s is %s; this run has %s", name,
                                  redco_type_text(&entry->type, have_text), redco_type_text(&want, want_text));
            }
        }
    }
    const redco_status st = redcoi_means_match(c, s, err);
    const uint32_t tensors = redcoi_entry_count(s, (uint32_t)kinds + 1) + redcoi_means_count(s);
    if (st != REDCO_OK || c->entry_count == tensors) { return st; }
    return redco_fail(err, REDCO_EVALUE, c->path, "has %u tensors; %s has %u", c->entry_count, s->task->name, tensors);
}

static redco_status load_range(struct loading *l, const redco_shard_slice *slice, int which, redco_error *err)
{
    const redcoi_placing placing = redcoi_placing_of(l->states, slice->tensor);
    const uint64_t end = slice->begin + slice->count;
    redco_status st = REDCO_OK;
    l->entry = entry_of(l->checkpoint, l->states, redco_checkpoint_parameter(l->states, slice->tensor), which);
    for (uint64_t at = slice->begin; at < end && st == REDCO_OK; at += chunk_elements) {
        const uint64_t count = end - at < chunk_elements ? end - at : chunk_elements;
        st = redcoi_runs_walk(&placing, at, count, read_run, l, err);
        if (st == REDCO_OK) {
            st = redco_states_set_range(l->states->states, l->states->worker, slice->tensor, which, at, count, l->chunk,
                                        err);
        }
    }
    return st;
}

/* Weights of the whole shard, states of what this rank updates. */
static redco_status load_own(struct loading *l, redco_error *err)
{
    const redco_layout *const layout = redco_states_layout(l->states->states);
    const int kinds = (int)redco_optimizer_states(&l->states->optimizer);
    redco_status st = REDCO_OK;
    for (uint32_t layer = 0; layer < redco_layout_model(layout)->layer_count && st == REDCO_OK; layer++) {
        uint32_t count = 0;
        const redco_shard_slice *const slices = redco_layout_slices(layout, layer, &count);
        for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
            st = load_range(l, &slices[i], REDCO_STATES_WEIGHTS, err);
            const uint32_t parameter = redco_checkpoint_parameter(l->states, slices[i].tensor);
            const int states = slices[i].owned_at != REDCO_NOWHERE ? redcoi_states_of(l->states, parameter, kinds) : 0;
            for (int which = 0; which < states && st == REDCO_OK; which++) {
                st = load_range(l, &slices[i], which, err);
            }
        }
    }
    return st;
}

redco_status redco_checkpoint_load(redco_checkpoints *c, const redco_checkpoint *checkpoint,
                                   const redco_checkpoint_states *states, redco_error *err)
{
    int *descriptors = NULL;
    struct loading l = {.states = states, .checkpoint = checkpoint};
    redco_status st = match(checkpoint, states, err);
    if (st != REDCO_OK) { return st; } /* so on all ranks */
    l.element_bytes = redco_dtype_bytes(redco_states_master_dtype(states->states));
    l.chunk = malloc(chunk_elements * l.element_bytes);
    l.row = malloc(chunk_elements * l.element_bytes);
    st = l.chunk == NULL || l.row == NULL ? redco_fail(err, REDCO_ENOMEM, checkpoint->path, "no memory to read it")
                                          : redcoi_files_open(checkpoint, checkpoint->path, false, &descriptors, err);
    l.descriptors = descriptors;
    if (st == REDCO_OK) { st = load_own(&l, err); }
    if (st == REDCO_OK) { st = redcoi_means_load(checkpoint, states, descriptors, err); }
    redcoi_files_close(checkpoint, descriptors);
    free(l.chunk);
    free(l.row);
    return redcoi_agree(c, st, "checkpoint/load", NULL, err);
}
