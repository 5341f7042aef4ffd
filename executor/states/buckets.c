/* Which gradients are reduced together: layers of equal meshes, last layer first, cut into buckets. */
#include "executor/states/states_internal.h"

#include <stdlib.h>

static redcoi_pile pile_of(const redco_states *states, uint32_t layer)
{
    const redco_shards s = *redcoi_shards(states, layer);
    const redco_mesh dp = redco_layout_mesh(states->layout).dp;
    const bool inter = redco_layout_scheme(states->layout) == REDCO_INTER_TENSOR;
    const bool dealt = !redco_mesh_equal(s.parameters, s.optimizer);
    redcoi_pile pile = {.shards = s, .sharded = !redco_mesh_equal(s.parameters, s.gradients)};
    pile.scatters = dealt && redco_mesh_equal(s.optimizer, dp);
    pile.buffered = pile.sharded || (pile.scatters && inter);
    /* All who reduce together must agree on the order; only where they share the states do they share the deal. */
    pile.sorted = pile.scatters && inter;
    pile.by_layer = !inter && (pile.sharded || pile.scatters);
    return pile;
}

/* Parts are numbered within the gradients of a rank first: not as ranks are where gradients lie strictly between
 * parameters and optimizer. */
static redco_status number_parts(const redco_states *states, redcoi_pile *pile, redco_error *err)
{
    const redco_shards *const s = &pile->shards;
    const redco_between all = {s->parameters, s->optimizer}, outside = {s->parameters, s->gradients},
                        inside = {s->gradients, s->optimizer};
    const uint32_t count = redco_between_size(all), parts = redco_between_size(inside);
    if (redco_layout_scheme(states->layout) == REDCO_INTER_TENSOR || parts == 1 || parts == count) { return REDCO_OK; }
    pile->part_of = calloc(count, sizeof *pile->part_of);
    if (pile->part_of == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "parts of %u ranks", count); }
    for (uint32_t r = 0; r < count; r++) {
        const redco_place place = redco_between_member(all, redco_layout_place(states->layout), r);
        pile->part_of[r] = redco_between_position(outside, place) * parts + redco_between_position(inside, place);
    }
    return REDCO_OK;
}

static redco_status pile_index(redco_states *states, uint32_t layer, uint32_t *index_out, redco_error *err)
{
    const redcoi_pile pile = pile_of(states, layer);
    for (uint32_t i = 0; i < states->pile_count; i++) {
        *index_out = i;
        if (redco_shards_equal(states->piles[i].shards, pile.shards)) { return REDCO_OK; }
    }
    *index_out = states->pile_count;
    states->piles[states->pile_count++] = pile;
    return number_parts(states, &states->piles[*index_out], err);
}

/* Walks through the gradients of a pile in backward's order and closes buckets. */
struct walk {
    redco_states *states;
    uint32_t pile;
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
    if (w->open != NULL && w->open->elements + (end - begin) > w->limit) { w->open = NULL; }
    if (w->open == NULL) {
        w->open = &s->buckets[s->bucket_count++];
        *w->open = (redcoi_bucket){.pile = w->pile, .first_range = s->range_count};
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
    const uint64_t trained = redcoi_layer(s, layer)->trained;
    const uint32_t end = l->first_module + l->module_count;
    uint32_t first = l->first_module;
    while (first < end && redco_module_frozen(redcoi_model(s), first)) { first++; }
    if (first == end) { return; }
    /* Within a layer, backward makes gradients in an order of its own (norms are often stored last and come in
     * between): buckets of one layer would be open at once, and so would buffers that they share. */
    if (s->piles[w->pile].by_layer || s->piles[w->pile].sharded) {
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

/* Pieces begin at multiples of it in a sorted bucket: 16 bytes of 16-bit elements. */
enum { PIECE_GRANULE = 8, BUFFER_GRANULE = REDCO_ALIGNMENT_BYTES / 2 };

/* Owners' pieces behind one another, each owner's in the order of the shard. */
static redco_status sort_bucket(redco_states *states, redcoi_bucket *bucket, redco_error *err)
{
    const redco_shards *const s = &states->piles[bucket->pile].shards;
    const uint32_t owners = redco_between_size((redco_between){s->parameters, s->optimizer});
    uint64_t *const at = calloc((size_t)owners + 1, sizeof *at);
    if (at == NULL) { return redco_fail(err, REDCO_ENOMEM, "states", "a bucket of %u owners", owners); }
    bucket->owner_at = at;
    for (int pass = 0; pass < 2; pass++) { /* first sizes, then places */
        for (uint32_t r = 0; r < bucket->range_count; r++) {
            const redcoi_range *const range = &states->ranges[bucket->first_range + r];
            const uint32_t first = redcoi_layer(states, range->layer)->first_piece;
            uint32_t count = 0;
            const redco_piece *const pieces = redco_layout_pieces(states->layout, range->layer, &count);
            for (uint32_t i = 0; i < count; i++) {
                if (pieces[i].shard_at < range->begin || pieces[i].shard_at >= range->end) { continue; }
                if (pass == 1) { states->piece_at[first + i] = at[pieces[i].owner]; }
                const uint64_t room = (pieces[i].count + PIECE_GRANULE - 1) / PIECE_GRANULE * PIECE_GRANULE;
                at[pieces[i].owner + (pass == 0 ? 1 : 0)] += room;
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

/* Buffers of one size, in turns, for the buckets of a pile, or of all that are filled when they are reduced.
 *  @param pile  or REDCO_NO_BUCKET for the latter */
static void lay_turns(redco_states *states, uint32_t pile, uint32_t count)
{
    uint64_t size = 0;
    uint32_t buckets = 0, turn = 0;
    for (int pass = 0; pass < 2; pass++) { /* first the size, then places */
        for (uint32_t i = 0; i < states->bucket_count; i++) {
            redcoi_bucket *const bucket = &states->buckets[i];
            const redcoi_pile *const p = &states->piles[bucket->pile];
            const bool wanted =
                pile == REDCO_NO_BUCKET ? p->buffered && !p->sharded : bucket->pile == pile && p->sharded;
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

/* Layers of different meshes may take turns, so buckets of several piles are open at once: each has its own buffers. */
static void lay_buffers(redco_states *states)
{
    for (uint32_t p = 0; p < states->pile_count; p++) { lay_turns(states, p, states->options.bucket_buffers); }
    lay_turns(states, REDCO_NO_BUCKET, 1);
}

static redco_status make(redco_states *states, redco_error *err)
{
    const redco_state_model *const model = redcoi_model(states);
    const uint64_t bytes = states->options.bucket_bytes;
    redco_status st = REDCO_OK;
    for (uint32_t l = model->layer_count; l-- > 0 && st == REDCO_OK;) {
        st = pile_index(states, l, &states->pile_of[l], err);
    }
    if (st != REDCO_OK) { return st; }
    for (uint32_t p = 0; p < states->pile_count; p++) {
        struct walk walk = {.states = states, .pile = p, .limit = bytes / redco_dtype_bytes(states->options.dtype)};
        for (uint32_t l = model->layer_count; l-- > 0;) {
            if (states->pile_of[l] == p) { add_layer(&walk, l); }
        }
    }
    for (uint32_t b = 0; b < states->bucket_count && st == REDCO_OK; b++) {
        if (states->piles[states->buckets[b].pile].sorted) { st = sort_bucket(states, &states->buckets[b], err); }
    }
    if (st == REDCO_OK) { lay_buffers(states); }
    return st;
}

redco_status redcoi_buckets_make(redco_states *states, redco_error *err)
{
    const redco_state_model *const model = redcoi_model(states);
    const size_t modules = (size_t)model->module_count + 1, layers = (size_t)model->layer_count + 1;
    states->piles = calloc(layers, sizeof *states->piles);
    states->pile_of = calloc(layers, sizeof *states->pile_of);
    states->ranges = calloc(modules, sizeof *states->ranges);
    states->buckets = calloc(modules, sizeof *states->buckets);
    states->bucket_of = calloc(modules, sizeof *states->bucket_of);
    states->range_at = calloc(modules, sizeof *states->range_at);
    states->piece_at = calloc((size_t)redco_layout_piece_count(states->layout) + 1, sizeof *states->piece_at);
    if (states->piles == NULL || states->pile_of == NULL || states->ranges == NULL || states->buckets == NULL ||
        states->bucket_of == NULL || states->range_at == NULL || states->piece_at == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "states", "buckets of %u modules", model->module_count);
    }
    for (uint32_t m = 0; m < model->module_count; m++) { states->bucket_of[m] = REDCO_NO_BUCKET; }
    return make(states, err);
}

void redcoi_buckets_free(redco_states *states)
{
    for (uint32_t b = 0; b < states->bucket_count; b++) { free(states->buckets[b].owner_at); }
    for (uint32_t p = 0; p < states->pile_count; p++) { free(states->piles[p].part_of); }
    free(states->piles);
    free(states->pile_of);
    free(states->ranges);
    free(states->buckets);
    free(states->bucket_of);
    free(states->range_at);
    free(states->piece_at);
}

uint32_t redco_states_bucket_count(const redco_states *states)
{
    return states->bucket_count;
}

bool redco_states_bucket_due(const redco_states *states, uint32_t bucket, redco_micro_batch micro_batch)
{
    const redcoi_pile *const pile = &states->piles[states->buckets[bucket].pile];
    const redco_mesh dp = redco_layout_mesh(states->layout).dp;
    const bool shared = !redco_mesh_equal(pile->shards.parameters, dp);
    return shared && (pile->sharded || micro_batch.index + 1 == micro_batch.count);
}

uint32_t redco_states_bucket_after(const redco_states *states, uint32_t module)
{
    const uint32_t bucket = states->bucket_of[module];
    return states->buckets[bucket].last_module == module ? bucket : REDCO_NO_BUCKET;
}

uint32_t redco_states_bucket_of(const redco_states *states, uint32_t module)
{
    return states->bucket_of[module];
}

uint32_t redco_states_take_buffer(const redco_states *states, uint32_t module)
{
    const redcoi_bucket *const bucket = &states->buckets[states->bucket_of[module]];
    return states->piles[bucket->pile].sharded ? bucket->buffer : REDCO_NO_BUCKET;
}

uint64_t redco_states_bucket_bytes(const redco_states *states, uint32_t bucket)
{
    return redcoi_bytes(states, states->buckets[bucket].elements);
}

uint32_t redco_states_bucket_buffer(const redco_states *states, uint32_t bucket)
{
    const redcoi_bucket *const b = &states->buckets[bucket];
    return states->piles[b->pile].buffered ? b->buffer : REDCO_NO_BUCKET;
}
