/* A micro-batch has its place in a ring from the pass that fills it to the one that empties it. Values that come and go
 * meanwhile, and whole gradients that are taken at once, lie in the place while those that it is for do not lie there
 * yet, or no longer: so n micro-batches under way need n - 1 times the kept values, and the peak of one. */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>

/* The largest ring in which a micro-batch has a place from one pass to another of a chunk; NULL: there is none. */
static redcoi_ring *ring_of_passes(const redco_schedule *s, uint32_t begin, uint32_t end)
{
    const uint32_t passes = redcoi_pass_count(s), first = begin / REDCOI_PASSES * REDCOI_PASSES;
    redcoi_ring *largest = NULL;
    if (end / REDCOI_PASSES != begin / REDCOI_PASSES) { return NULL; }
    for (uint32_t from = first; from <= begin; from++) {
        for (uint32_t to = end; to < first + REDCOI_PASSES; to++) {
            redcoi_ring *const ring = &s->memory.kept[from * passes + to];
            if (ring->bytes > 0 && (largest == NULL || ring->bytes > largest->bytes)) { largest = ring; }
        }
    }
    return largest;
}

/* Pieces that lie in a ring's place, and candidates for its gaps: numbers of values, then of slots behind them. */
struct gaps {
    redco_interval *fixed, *candidates;
    uint64_t *fixed_at, *at;
    uint32_t *who, fixed_count, candidate_count;
};

static bool belongs(const redco_schedule *s, const redco_interval *interval, const redcoi_ring *ring, bool one_pass)
{
    const uint32_t begin = redcoi_pass_of_step(s, interval->first), end = redcoi_pass_of_step(s, interval->last);
    return (begin == end) == one_pass && ring_of_passes(s, begin, end) == ring;
}

static void list(const redco_schedule *s, const redcoi_ring *ring, const redco_interval *slots, bool one_pass,
                 struct gaps *g)
{
    const redcoi_memory *const m = &s->memory;
    const uint32_t values = m->lifetimes.interval_count;
    g->fixed_count = g->candidate_count = 0;
    for (uint32_t i = 0; i < values; i++) {
        const redco_interval *const interval = &m->lifetimes.intervals[i];
        if (m->ring_of[i] == ring) {
            g->fixed_at[g->fixed_count] = m->offsets[i];
            g->fixed[g->fixed_count++] = *interval;
        } else if (!m->elsewhere[i] && belongs(s, interval, ring, one_pass)) {
            g->who[g->candidate_count] = i;
            g->candidates[g->candidate_count++] = *interval;
        }
    }
    for (uint32_t k = 0; k < m->slot_count; k++) {
        const bool taken = m->slots[k].gradient && m->slots[k].scatter == REDCO_STEP_NONE;
        if (!taken || !belongs(s, &slots[k], ring, one_pass)) { continue; }
        g->who[g->candidate_count] = values + k;
        g->candidates[g->candidate_count++] = slots[k];
    }
}

static void settle(redco_schedule *s, redcoi_ring *ring, const struct gaps *g)
{
    redcoi_memory *const m = &s->memory;
    for (uint32_t i = 0; i < g->candidate_count; i++) {
        const uint32_t who = g->who[i], values = m->lifetimes.interval_count;
        if (g->at[i] == REDCO_ARENA_NO_ROOM) { continue; }
        if (who < values) {
            m->ring_of[who] = ring;
            m->offsets[who] = g->at[i];
            m->elsewhere[who] = true;
        } else {
            m->slots[who - values].ring = ring;
            m->slots[who - values].at = g->at[i];
        }
    }
}

/* @param one_pass  values of one pass; else of several */
static redco_status fill(redco_schedule *s, const redco_interval *slots, bool one_pass, struct gaps *g,
                         redco_error *err)
{
    const uint32_t rings = redcoi_pass_count(s) * redcoi_pass_count(s);
    redco_status st = REDCO_OK;
    for (uint32_t r = 0; r < rings && st == REDCO_OK; r++) {
        redcoi_ring *const ring = &s->memory.kept[r];
        if (ring->bytes == 0) { continue; }
        list(s, ring, slots, one_pass, g);
        const redco_arena_room room = {ring->bytes, g->fixed, g->fixed_at, g->fixed_count};
        st = redco_arena_fill(&room, g->candidates, g->candidate_count, REDCO_ALIGNMENT_BYTES, g->at, err);
        if (st == REDCO_OK) { settle(s, ring, g); }
    }
    return st;
}

redco_status redcoi_rings_fill(redco_schedule *s, const redco_interval *slots, redco_error *err)
{
    const size_t all = (size_t)s->memory.lifetimes.interval_count + s->memory.slot_count + 1;
    struct gaps g = {.fixed = calloc(all, sizeof *g.fixed),
                     .candidates = calloc(all, sizeof *g.candidates),
                     .fixed_at = calloc(all, sizeof *g.fixed_at),
                     .at = calloc(all, sizeof *g.at),
                     .who = calloc(all, sizeof *g.who)};
    const bool enough = g.fixed != NULL && g.candidates != NULL && g.fixed_at != NULL && g.at != NULL && g.who != NULL;
    redco_status st = enough ? REDCO_OK : redcoi_schedule_memory_short(err);
    if (st == REDCO_OK && s->memory.kept != NULL) {
        st = fill(s, slots, false, &g, err);
        redcoi_rings_lay(s, false);
        if (st == REDCO_OK) { st = fill(s, slots, true, &g, err); }
    }
    free(g.fixed);
    free(g.candidates);
    free(g.fixed_at);
    free(g.at);
    free(g.who);
    return st;
}
