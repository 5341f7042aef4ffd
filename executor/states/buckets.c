/* Which gradients are reduced together: layers of equal meshes, last layer first, cut into buckets. */
#include "executor/states/states_internal.h"

#include <stdlib.h>

static redcoi_bucket_group bucket_group_of(const redco_states *states, uint32_t layer)
{
    const redco_shards s = *redcoi_shards(states, layer);
    const redco_mesh dp = redco_layout_mesh(states->layout).dp;
    const bool inter = redco_layout_scheme(states->layout) == REDCO_INTER_TENSOR;
    const bool owned_by_tensor = !redco_mesh_equal(s.parameters, s.optimizer);
    redcoi_bucket_group bucket_group = {.shards = s, .sharded = !redco_mesh_equal(s.parameters, s.gradients)};
    bucket_group.scatters = owned_by_tensor && redco_mesh_equal(s.optimizer, dp);
    bucket_group.buffered = bucket_group.sharded || (bucket_group.scatters && inter);
    /* Ranks that reduce together must agree on the order: they share the owner assignment only where they share states.
     */
    bucket_group.sorted = bucket_group.scatters && inter;
    bucket_group.by_layer = !inter && (bucket_group.sharded || bucket_group.scatters);
    return bucket_group;
}

/* Parts are numbered within the gradients of a rank first: not as ranks are where gradients lie strictly between
 * parameters and optimizer. */
static redco_status number_parts(const redco_states *states, redcoi_bucket_group *bucket_group, redco_error *err)
{
    const redco_shards *const s = &bucket_group->shards;
    const redco_between all = {s->parameters, s->optimizer}, outside = {s->parameters, s->gradients},
                        inside = {s->gradients, s->optimizer};
    const uint32_t count = redco_between_size(all), parts = redco_between_size(inside);
    if (redco_layout_scheme(states->layout) == REDCO_INTER_TENSOR || parts == 1 || parts == count) { return REDCO_OK; }
    bucket_group->part_of = calloc(count, sizeof *bucket_group->part_of);
    if (bucket_group->part_of == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "parts of %u ranks", count); }
    for (uint32_t r = 0; r < count; r++) {
        const redco_place place = redco_between_member(all, redco_layout_place(states->layout), r);
        bucket_group->part_of[r] =
            redco_between_position(outside, place) * parts + redco_between_position(inside, place);
    }
    return REDCO_OK;
}

static redco_status bucket_group_index(redco_states *states, uint32_t layer, uint32_t *index_out, redco_error *err)
{
    const redcoi_bucket_group bucket_group = bucket_group_of(states, layer);
    for (uint32_t i = 0; i < states->bucket_group_count; i++) {
        *index_out = i;
        if (redco_shards_equal(states->bucket_groups[i].shards, bucket_group.shards)) { return REDCO_OK; }
    }
    *index_out = states->bucket_group_count;
    states->bucket_groups[states->bucket_group_count++] = bucket_group;
    return number_parts(states, &states->bucket_groups[*index_out], err);
}

/* Walks through the gradients of a bucket group in backward's order and closes buckets. */
struct walk {
    redco_states *states;
    uint32_t bucket_group;
    uint64_t limit; /* elements */
    redcoi_bucket *open;
};

static void add_range(struct walk *w, uint32_t layer, uint64_t begin, uint64_t end)
{
    redco_states *const s = w->states;
    redcoi_range *const last =
        w->open->range_count > 0 ? &s->ranges[w->open->first_range + w->open->range_count - 1] : NULL;
    if (last != NULL && last->layer == layer) {
        last->end = end;
    } else {
        s->ranges[s->range_count++] = (redcoi_range){layer, begin, end, w->open->elements};
        w->open->range_count++;
    }
    w->open->elements += end - begin;
}

/* Gradients up to and with those of a module: the next unit that goes into a bucket as a whole. */
static void add_unit(struct walk *w, uint32_t layer, uint32_t module, uint64_t begin, uint64_t end)
{
    redco_states *const s = w->states;
    /* Layers of another part of the model, which a pipeline stage computes in passes of its own, begin another bucket.
     */
    const bool apart = redcoi_model(s)->numbers != NULL && w->open != NULL &&
                       layer + 1 < redcoi_model(s)->layer_count &&
                       redco_step_layer_of(redcoi_model(s), layer) + 1 <
                           redco_step_layer_of(redcoi_model(s), s->ranges[s->range_count - 1].layer);
    if (apart) { w->open = NULL; }
    const bool rest_before =
        layer + 1 < redcoi_model(s)->layer_count &&
        redco_step_layer_of(redcoi_model(s), layer) == redco_step_layer_of(redcoi_model(s), layer + 1) &&
        s->bucket_groups[w->bucket_group].sharded;
    if (w->open != NULL && w->open->elements + (end - begin) > w->limit && !rest_before) { w->open = NULL; }
    if (w->open == NULL) {
        w->open = &s->buckets[s->bucket_count++];
        *w->open = (redcoi_bucket){.bucket_group = w->bucket_group, .first_range = s->range_count};
    }
    s->range_at[module] = w->open->elements;
    add_range(w, layer, begin, end);
    w->open->last_module = module;
    s->bucket_of[module] = (uint32_t)(w->open - s->buckets);
}

static void add_layer(struct walk *w, uint32_t layer)
{
    redco_states *const s = w->states;
    const redco_state_layer *const l = &redcoi_model(s)->layers[layer];
    const uint64_t trained = redcoi_layer_layout(s, layer)->trained;
    const uint32_t end = l->first_module + l->module_count;
    uint32_t first = l->first_module;
    while (first < end && redco_module_frozen(redcoi_model(s), first)) { first++; }
    if (first == end) { return; }
    /* Within a layer, backward makes gradients in an order of its own (norms are often stored last and come in
     * between): buckets of one layer would be open at once, and so would buffers that they share. */
    if (s->bucket_groups[w->bucket_group].by_layer || s->bucket_groups[w->bucket_group].sharded) {
        add_unit(w, layer, first, 0, trained);
        const uint64_t at = s->range_at[first];
        for (uint32_t m = first; m < end; m++) {
            if (redco_module_frozen(redcoi_model(s), m)) { continue; }
            s->range_at[m] = at + redco_layout_module(s->layout, m)->shard_at;
            s->bucket_of[m] = s->bucket_of[first];
        }
        return;
    }
    for (uint32_t m = end; m-- > first;) {
        const redco_module_layout *const module = redco_layout_module(s->layout, m);
        if (redco_module_frozen(redcoi_model(s), m)) { continue; }
        add_unit(w, layer, m, module->shard_at, m == first ? trained : module->shard_at + module->shard);
    }
}

/* Slices begin at multiples of it in a sorted bucket: 16 bytes of 16-bit elements. */
enum { PIECE_GRANULE = 8, BUFFER_GRANULE = REDCO_ALIGNMENT_BYTES / 2 };

/* Owners' slices behind one another, each owner's in the order of the shard. */
static redco_status sort_bucket(redco_states *states, redcoi_bucket *bucket, redco_error *err)
{
    const redco_shards *const s = &states->bucket_groups[bucket->bucket_group].shards;
    const uint32_t owners = redco_between_size((redco_between){s->parameters, s->optimizer});
    uint64_t *const at = calloc((size_t)owners + 1, sizeof *at);
    if (at == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "a bucket of %u owners", owners); }
    bucket->owner_at = at;
    for (int pass = 0; pass < 2; pass++) { /* first sizes, then places */
        for (uint32_t r = 0; r < bucket->range_count; r++) {
            const redcoi_range *const range = &states->ranges[bucket->first_range + r];
            const uint32_t first = redcoi_layer_layout(states, range->layer)->first_slice;
            uint32_t count = 0;
            const redco_shard_slice *const slices = redco_layout_slices(states->layout, range->layer, &count);
            for (uint32_t i = 0; i < count; i++) {
                if (slices[i].shard_at < range->begin || slices[i].shard_at >= range->end) { continue; }
                if (pass == 1) { states->slice_at[first + i] = at[slices[i].owner]; }
                const uint64_t room = (slices[i].count + PIECE_GRANULE - 1) / PIECE_GRANULE * PIECE_GRANULE;
                at[slices[i].owner + (pass == 0 ? 1 : 0)] += room;
            }
        }
        if (pass == 0) {
            for (uint32_t o = 0; o < owners; o++) { at[o + 1] += at[o]; }
        } else { /* each place moved on to where the next one began */
            for (uint32_t o = owners; o > 0; o--) { at[o] = at[o - 1]; }
            at[0] = 0;
        }
    }
    bucket->elements = at[owners];
    return REDCO_OK;
}

/* Buffers of one size, in turns, for the buckets of a bucket group, or of all that are filled when they are reduced.
 *  @param bucket group  or REDCO_NO_BUCKET for the latter */
static void lay_turns(redco_states *states, uint32_t bucket_group, uint32_t count)
{
    uint64_t size = 0;
    uint32_t buckets = 0, turn = 0;
    for (int pass = 0; pass < 2; pass++) { /* first the size, then places */
        for (uint32_t i = 0; i < states->bucket_count; i++) {
            redcoi_bucket *const bucket = &states->buckets[i];
            const redcoi_bucket_group *const p = &states->bucket_groups[bucket->bucket_group];
            const bool wanted = bucket_group == REDCO_NO_BUCKET ? p->buffered && !p->sharded
                                                                : bucket->bucket_group == bucket_group && p->sharded;
            if (!wanted) { continue; }
            if (pass == 0) {
                const uint64_t elements = (bucket->elements + BUFFER_GRANULE - 1) / BUFFER_GRANULE * BUFFER_GRANULE;
                size = elements > size ? elements : size;
                buckets++;
            } else {
                bucket->buffer = states->buffer_count + turn % count;
                bucket->buffer_at = states->buffer_elements + turn % count * size;
                turn++;
            }
        }
        count = count < buckets ? count : buckets;
    }
    if (buckets == 0) { return; }
    states->buffer_count += count;
    states->buffer_elements += count * size;
}

/* Layers of different meshes may take turns, so buckets of several bucket groups are open at once: each has its own
 * buffers. */
static void lay_buffers(redco_states *states)
{
    for (uint32_t p = 0; p < states->bucket_group_count; p++) { lay_turns(states, p, states->options.bucket_buffers); }
    lay_turns(states, REDCO_NO_BUCKET, 1);
}

static redco_status make(redco_states *states, redco_error *err)
{
    const redco_state_model *const model = redcoi_model(states);
    const uint64_t bytes = states->options.bucket_bytes;
    redco_status st = REDCO_OK;
    for (uint32_t l = model->layer_count; l-- > 0 && st == REDCO_OK;) {
        st = bucket_group_index(states, l, &states->bucket_group_of[l], err);
    }
    if (st != REDCO_OK) { return st; }
    for (uint32_t p = 0; p < states->bucket_group_count; p++) {
        struct walk walk = {
            .states = states, .bucket_group = p, .limit = bytes / redco_dtype_bytes(states->options.dtype)};
        for (uint32_t l = model->layer_count; l-- > 0;) {
            if (states->bucket_group_of[l] == p) { add_layer(&walk, l); }
        }
    }
    for (uint32_t b = 0; b < states->bucket_count && st == REDCO_OK; b++) {
        if (states->bucket_groups[states->buckets[b].bucket_group].sorted) {
            st = sort_bucket(states, &states->buckets[b], err);
        }
    }
    if (st == REDCO_OK) { lay_buffers(states); }
    return st;
}

redco_status redcoi_buckets_make(redco_states *states, redco_error *err)
{
    const redco_state_model *const model = redcoi_model(states);
    const size_t modules = (size_t)model->module_count + 1, layers = (size_t)model->layer_count + 1;
    states->bucket_groups = calloc(layers, sizeof *states->bucket_groups);
    states->bucket_group_of = calloc(layers, sizeof *states->bucket_group_of);
    states->ranges = calloc(modules, sizeof *states->ranges);
    states->buckets = calloc(modules, sizeof *states->buckets);
    states->bucket_of = calloc(modules, sizeof *states->bucket_of);
    states->range_at = calloc(modules, sizeof *states->range_at);
    states->slice_at = calloc((size_t)redco_layout_slice_count(states->layout) + 1, sizeof *states->slice_at);
    if (states->bucket_groups == NULL || states->bucket_group_of == NULL || states->ranges == NULL ||
        states->buckets == NULL || states->bucket_of == NULL || states->range_at == NULL || states->slice_at == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "states", "buckets of %u modules", model->module_count);
    }
    for (uint32_t m = 0; m < model->module_count; m++) { states->bucket_of[m] = REDCO_NO_BUCKET; }
    return make(states, err);
}

void redcoi_buckets_free(redco_states *states)
{
    for (uint32_t b = 0; b < states->bucket_count; b++) { free(states->buckets[b].owner_at); }
    for (uint32_t p = 0; p < states->bucket_group_count; p++) { free(states->bucket_groups[p].part_of); }
    free(states->bucket_groups);
    free(states->bucket_group_of);
    free(states->ranges);
    free(states->buckets);
    free(states->bucket_of);
    free(states->range_at);
    free(states->slice_at);
}

uint32_t redco_states_bucket_count(const redco_states *states)
{
    return states->bucket_count;
}

bool redco_states_bucket_due(const redco_states *states, uint32_t bucket, redco_micro_batch micro_batch)
{
    const redcoi_bucket_group *const bucket_group = &states->bucket_groups[states->buckets[bucket].bucket_group];
    const redco_mesh dp = redco_layout_mesh(states->layout).dp;
    const bool shared = !redco_mesh_equal(bucket_group->shards.parameters, dp);
    return shared && (bucket_group->sharded || micro_batch.index + 1 == micro_batch.count);
}

uint32_t redco_states_bucket_of(const redco_states *states, uint32_t module)
{
    return states->bucket_of[module];
}

uint32_t redco_states_take_buffer(const redco_states *states, uint32_t module)
{
    const redcoi_bucket *const bucket = &states->buckets[states->bucket_of[module]];
    return states->bucket_groups[bucket->bucket_group].sharded ? bucket->buffer : REDCO_NO_BUCKET;
}

uint64_t redco_states_bucket_bytes(const redco_states *states, uint32_t bucket)
{
    return redcoi_bytes(states, states->buckets[bucket].elements);
}

uint32_t redco_states_bucket_buffer(const redco_states *states, uint32_t bucket)
{
    const redcoi_bucket *const b = &states->buckets[bucket];
    return states->bucket_groups[b->bucket_group].buffered ? b->buffer : REDCO_NO_BUCKET;
}
