#include "costmodel/kept/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* Attempts to improve the best greedy answer, and comparisons of intervals that all attempts together may take. Few
 * pieces, of which one that stands in the wrong place may be a tenth of all, are shuffled as well. */
enum { TRIES_MAX = 200, SHUFFLED_MAX = 256, SHUFFLES_MAX = 1000 };
static const uint64_t work_max = UINT64_C(400) * 1000 * 1000;

static const uint64_t total_bytes_max = UINT64_C(1) << 62;

typedef struct piece {
    uint64_t size_bytes, offset, weight;
    uint32_t first, last, index;
} piece;

/* Pieces in the order in which they are placed; those placed stand in front of a second list, by offset. */
typedef struct packer {
    piece *pieces;
    uint32_t *placed;
    uint32_t count;
    uint64_t work;
} packer;

/* Orders of placing. */
typedef enum rule { BY_SIZE, BY_LENGTH, BY_AREA, BY_BEGIN, BY_END, RULES } rule;

static uint64_t weight_of(const piece *p, rule by)
{
    const uint64_t length = (uint64_t)p->last - p->first + 1;
    switch (by) {
    case BY_SIZE: return p->size_bytes;
    case BY_LENGTH: return length;
    case BY_AREA: return p->size_bytes >= UINT64_MAX / length ? UINT64_MAX : p->size_bytes * length;
    case BY_BEGIN: return UINT64_MAX - p->first;
    case BY_END: return p->last;
    case RULES: break;
    }
    return 0;
}

/* Heaviest first; then what is larger, lasts longer, begins earlier. */
static int by_weight(const void *a, const void *b)
{
    const piece *const x = a, *const y = b;
    const uint32_t x_length = x->last - x->first, y_length = y->last - y->first;
    if (x->weight != y->weight) { return x->weight > y->weight ? -1 : 1; }
    if (x->size_bytes != y->size_bytes) { return x->size_bytes > y->size_bytes ? -1 : 1; }
    if (x_length != y_length) { return x_length > y_length ? -1 : 1; }
    if (x->first != y->first) { return x->first < y->first ? -1 : 1; }
    return x->index < y->index ? -1 : x->index > y->index;
}

/* Where @p p fits among what is placed: the smallest gap, or the lowest. */
static uint64_t find_offset(packer *k, const piece *p, uint32_t placed, bool lowest)
{
    uint64_t top = 0, best = UINT64_MAX, best_gap = UINT64_MAX;
    k->work += placed;
    for (uint32_t i = 0; i < placed; i++) {
        const piece *const other = &k->pieces[k->placed[i]];
        if (other->last < p->first || other->first > p->last) { continue; }
        if (other->offset > top && other->offset - top >= p->size_bytes && other->offset - top < best_gap) {
            best = top;
            best_gap = other->offset - top;
            if (lowest) { return best; }
        }
        if (other->offset + other->size_bytes > top) { top = other->offset + other->size_bytes; }
    }
    return best == UINT64_MAX ? top : best;
}

/* Adds piece @p n, which has its offset, to the @p placed ones. */
static void insert(packer *k, uint32_t n, uint32_t placed)
{
    uint32_t low = 0, high = placed;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (k->pieces[k->placed[middle]].offset <= k->pieces[n].offset) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    memmove(&k->placed[low + 1], &k->placed[low], (placed - low) * sizeof *k->placed);
    k->placed[low] = n;
}

/* Places all in order. @return the size of the arena */
static uint64_t pack(packer *k, bool lowest)
{
    uint64_t bytes = 0;
    for (uint32_t n = 0; n < k->count; n++) {
        piece *const p = &k->pieces[n];
        p->offset = find_offset(k, p, n, lowest);
        insert(k, n, n);
        if (p->offset + p->size_bytes > bytes) { bytes = p->offset + p->size_bytes; }
    }
    return bytes;
}

static void keep(const packer *k, uint64_t bytes, uint64_t *best_bytes, uint64_t *offsets_out)
{
    if (bytes >= *best_bytes) { return; }
    *best_bytes = bytes;
    for (uint32_t i = 0; i < k->count; i++) { offsets_out[k->pieces[i].index] = k->pieces[i].offset; }
}

/* A buffer that reaches beyond the bound comes earlier next time: half way to the front of the list. */
static bool promote(packer *k, uint64_t bound_bytes)
{
    bool any = false;
    for (uint32_t i = 0; i < k->count; i++) {
        piece *const p = &k->pieces[i];
        p->weight = 2 * (uint64_t)(k->count - i);
        if (p->offset + p->size_bytes <= bound_bytes) { continue; }
        p->weight += k->count;
        any = true;
    }
    qsort(k->pieces, k->count, sizeof *k->pieces, by_weight);
    return any;
}

/* Orders near that by size: each piece comes earlier or later by up to half of the list. */
static void shuffle(packer *k, uint64_t *random)
{
    for (uint32_t i = 0; i < k->count; i++) { k->pieces[i].weight = weight_of(&k->pieces[i], BY_SIZE); }
    qsort(k->pieces, k->count, sizeof *k->pieces, by_weight);
    for (uint32_t i = 0; i < k->count; i++) {
        *random ^= *random << 13; /* Marsaglia's xorshift, J. Stat. Softw. 8(14), 2003 */
        *random ^= *random >> 7;
        *random ^= *random << 17;
        k->pieces[i].weight = 2 * (uint64_t)(k->count - i) + (*random >> 32) % k->count;
    }
    qsort(k->pieces, k->count, sizeof *k->pieces, by_weight);
}

static uint64_t place_all(packer *k, uint64_t bound_bytes, uint64_t *offsets_out)
{
    uint64_t best_bytes = UINT64_MAX, random = 1;
    rule best_rule = BY_SIZE;
    bool best_lowest = false;
    for (rule by = BY_SIZE; by < RULES && best_bytes > bound_bytes; by++) {
        for (uint32_t i = 0; i < k->count; i++) { k->pieces[i].weight = weight_of(&k->pieces[i], by); }
        qsort(k->pieces, k->count, sizeof *k->pieces, by_weight);
        for (uint32_t lowest = 0; lowest < 2 && best_bytes > bound_bytes; lowest++) {
            const uint64_t before = best_bytes;
            keep(k, pack(k, lowest == 1), &best_bytes, offsets_out);
            if (best_bytes < before) {
                best_rule = by;
                best_lowest = lowest == 1;
            }
        }
    }
    if (best_bytes == bound_bytes) { return best_bytes; }
    for (uint32_t i = 0; i < k->count; i++) { k->pieces[i].weight = weight_of(&k->pieces[i], best_rule); }
    qsort(k->pieces, k->count, sizeof *k->pieces, by_weight);
    (void)pack(k, best_lowest);
    for (uint32_t n = 0; n < TRIES_MAX && k->work < work_max && best_bytes > bound_bytes; n++) {
        if (!promote(k, bound_bytes)) { break; }
        keep(k, pack(k, best_lowest), &best_bytes, offsets_out);
    }
    for (uint32_t n = 0; n < SHUFFLES_MAX && k->count <= SHUFFLED_MAX && best_bytes > bound_bytes; n++) {
        shuffle(k, &random);
        keep(k, pack(k, n % 2 == 1), &best_bytes, offsets_out);
    }
    return best_bytes;
}

static uint64_t round_up(uint64_t bytes, uint64_t alignment_bytes)
{
    return (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
}

static redco_status check(const redco_interval *intervals, uint32_t count, uint64_t alignment_bytes, redco_error *err)
{
    uint64_t total_bytes = 0;
    if (alignment_bytes == 0 || alignment_bytes > total_bytes_max) {
        return redco_fail(err, REDCO_EVALUE, "arena", "an alignment of %llu bytes",
                          (unsigned long long)alignment_bytes);
    }
    for (uint32_t i = 0; i < count; i++) {
        const redco_interval *const p = &intervals[i];
        if (p->last < p->first) {
            return redco_fail(err, REDCO_EVALUE, "arena", "piece %u is needed from step %u to step %u", i, p->first,
                              p->last);
        }
        if (p->size_bytes > total_bytes_max - alignment_bytes ||
            round_up(p->size_bytes, alignment_bytes) > total_bytes_max - total_bytes) {
            return redco_fail(err, REDCO_EVALUE, "arena", "%u pieces are more than 2^62 bytes together", i + 1);
        }
        total_bytes += round_up(p->size_bytes, alignment_bytes);
    }
    return REDCO_OK;
}

redco_status redco_arena_live(const redco_interval *intervals, uint32_t count, uint64_t alignment_bytes,
                              redco_arena *arena_out, redco_error *err)
{
    redco_status st = check(intervals, count, alignment_bytes, err);
    uint32_t steps = 0;
    if (st != REDCO_OK) { return st; }
    for (uint32_t i = 0; i < count; i++) {
        if (intervals[i].last >= steps) { steps = intervals[i].last + 1; }
    }
    int64_t *const change = calloc((size_t)steps + 2, sizeof *change);
    if (change == NULL) { return redco_fail(err, REDCO_ENOMEM, "arena", "no memory to place %u pieces", count); }
    for (uint32_t i = 0; i < count; i++) {
        const int64_t bytes = (int64_t)round_up(intervals[i].size_bytes, alignment_bytes);
        change[intervals[i].first] += bytes;
        change[(size_t)intervals[i].last + 1] -= bytes;
    }
    redco_arena arena = {0};
    int64_t live = 0;
    for (uint32_t s = 0; s < steps; s++) {
        live += change[s];
        if ((uint64_t)live > arena.live_bytes) {
            arena.live_bytes = (uint64_t)live;
            arena.live_step = s;
        }
    }
    arena.bytes = arena.live_bytes;
    *arena_out = arena;
    free(change);
    return REDCO_OK;
}

redco_status redco_arena_plan(const redco_interval *intervals, uint32_t count, uint64_t alignment_bytes,
                              uint64_t *offsets_out, redco_arena *arena_out, redco_error *err)
{
    redco_arena arena = {0};
    packer k = {.pieces = NULL};
    redco_status st = redco_arena_live(intervals, count, alignment_bytes, &arena, err);
    if (st != REDCO_OK) { return st; }
    k.pieces = calloc((size_t)count + 1, sizeof *k.pieces);
    k.placed = calloc((size_t)count + 1, sizeof *k.placed);
    if (k.pieces == NULL || k.placed == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "arena", "no memory to place %u pieces", count);
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t bytes = round_up(intervals[i].size_bytes, alignment_bytes);
        offsets_out[i] = 0;
        if (bytes == 0) { continue; }
        k.pieces[k.count++] =
            (piece){.size_bytes = bytes, .first = intervals[i].first, .last = intervals[i].last, .index = i};
    }
    arena.bytes = k.count > 0 ? place_all(&k, arena.live_bytes, offsets_out) : 0;
    *arena_out = arena;
out:
    free(k.pieces);
    free(k.placed);
    return st;
}

redco_status redco_arena_fill(const redco_arena_room *room, const redco_interval *intervals, uint32_t count,
                              uint64_t alignment_bytes, uint64_t *offsets_out, redco_error *err)
{
    const size_t all = (size_t)room->fixed_count + count + 1;
    packer k = {.pieces = calloc(all, sizeof *k.pieces), .placed = calloc(all, sizeof *k.placed)};
    redco_status st = check(intervals, count, alignment_bytes, err);
    if (st == REDCO_OK && (k.pieces == NULL || k.placed == NULL)) {
        st = redco_fail(err, REDCO_ENOMEM, "arena", "no memory to place %u pieces", count);
    }
    for (uint32_t i = 0; i < room->fixed_count && st == REDCO_OK; i++) {
        const redco_interval *const p = &room->fixed[i];
        k.pieces[k.count] = (piece){.size_bytes = round_up(p->size_bytes, alignment_bytes),
                                    .offset = room->offsets[i],
                                    .first = p->first,
                                    .last = p->last};
        insert(&k, k.count, k.count);
        k.count++;
    }
    uint32_t placed = k.count;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const uint64_t bytes = round_up(intervals[i].size_bytes, alignment_bytes);
        k.pieces[k.count++] = (piece){
            .size_bytes = bytes, .weight = bytes, .first = intervals[i].first, .last = intervals[i].last, .index = i};
    }
    if (st == REDCO_OK) { qsort(k.pieces + placed, count, sizeof *k.pieces, by_weight); }
    for (uint32_t n = k.count - count; n < k.count && st == REDCO_OK; n++) {
        piece *const p = &k.pieces[n];
        p->offset = find_offset(&k, p, placed, false);
        const bool fits = p->size_bytes <= room->bytes && p->offset <= room->bytes - p->size_bytes;
        offsets_out[p->index] = fits ? p->offset : REDCO_ARENA_NO_ROOM;
        if (fits) { insert(&k, n, placed++); }
    }
    free(k.pieces);
    free(k.placed);
    return st;
}
