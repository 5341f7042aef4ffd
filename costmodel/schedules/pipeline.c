/* The needs of schedules, the places of their chunks, and their closed forms. The tables are in pipeline_tables.c. */
#include "costmodel/schedules/pipeline.h"

#include <stddef.h>

const char *const redco_pipeline_words[] = {
    [REDCO_PIPELINE_1F1B] = "1f1b",
    [REDCO_PIPELINE_INTERLEAVED] = "interleaved",
    [REDCO_PIPELINE_GPIPE] = "gpipe",
    [REDCO_PIPELINE_ZB_H1] = "zb-h1",
    [REDCO_PIPELINE_DUALPIPE_V] = "dualpipev",
    [REDCO_PIPELINE_DUALPIPE] = "dualpipe",
    [REDCO_PIPELINE_COUNT] = NULL,
};

static bool is_dual(redco_pipeline_kind kind)
{
    return kind == REDCO_PIPELINE_DUALPIPE_V || kind == REDCO_PIPELINE_DUALPIPE;
}

static uint32_t group_of(const redco_pipeline *s)
{
    return s->group > 0 ? s->group : s->stages;
}

uint32_t redco_pipeline_least_group(uint32_t stages, uint32_t micro_batches)
{
    uint32_t group = stages > 0 ? stages : 1;
    while (group < micro_batches && micro_batches % group != 0 && micro_batches % group < stages) { group++; }
    return group;
}

static redco_status check_groups(const redco_pipeline *s, redco_error *err)
{
    const uint32_t group = group_of(s), rest = group > 0 ? s->micro_batches % group : 0;
    if (s->micro_batches < s->stages) {
        return redco_fail(err, REDCO_EVALUE, "micro-batches",
                          "%u are fewer than the %u stages; interleaved needs as many", s->micro_batches, s->stages);
    }
    if (group < s->stages || group > s->micro_batches) {
        return redco_fail(err, REDCO_EVALUE, "group",
                          "%u micro-batches one after the other; %u stages with %u micro-batches take %u to %u", group,
                          s->stages, s->micro_batches, s->stages, s->micro_batches);
    }
    if (rest > 0 && rest < s->stages) {
        return redco_fail(err, REDCO_EVALUE, "group",
                          "%u micro-batches in groups of %u leave a group of %u, fewer than the %u stages",
                          s->micro_batches, group, rest, s->stages);
    }
    return REDCO_OK;
}

redco_status redco_pipeline_check(const redco_pipeline *schedule, redco_error *err)
{
    const redco_pipeline *const s = schedule;
    const char *const name = s->kind < REDCO_PIPELINE_COUNT ? redco_pipeline_words[s->kind] : "?";
    if (s->kind >= REDCO_PIPELINE_COUNT || s->stages == 0 || s->chunks == 0 || s->micro_batches == 0 ||
        s->stages > REDCO_PIPELINE_STAGES_MAX || s->chunks > REDCO_PIPELINE_CHUNKS_MAX) {
        return redco_fail(err, REDCO_EVALUE, "schedule",
                          "%s with %u stages of %u chunks; 1 to %d stages of 1 to %d chunks are possible", name,
                          s->stages, s->chunks, REDCO_PIPELINE_STAGES_MAX, REDCO_PIPELINE_CHUNKS_MAX);
    }
    if (s->kind != REDCO_PIPELINE_INTERLEAVED && s->group != 0) {
        return redco_fail(err, REDCO_EVALUE, "group", "%s has no groups of micro-batches; interleaved has", name);
    }
    if (s->chunks != redco_pipeline_chunks(s->kind, s->chunks) ||
        (s->kind == REDCO_PIPELINE_INTERLEAVED && (s->chunks < 2 || s->stages < 2))) {
        const char *const wanted = s->kind == REDCO_PIPELINE_INTERLEAVED ? "2 or more, of 2 stages or more"
                                   : is_dual(s->kind)                    ? "2"
                                                                         : "1";
        return redco_fail(err, REDCO_EVALUE, "chunks", "%u in each of %u stage%s; %s has %s", s->chunks, s->stages,
                          s->stages == 1 ? "" : "s", name, wanted);
    }
    if (s->kind == REDCO_PIPELINE_INTERLEAVED) { return check_groups(s, err); }
    const bool halves = s->kind == REDCO_PIPELINE_DUALPIPE;
    if (is_dual(s->kind) &&
        (s->micro_batches < 2 * s->stages || (halves && (s->stages % 2 != 0 || s->micro_batches % 2 != 0)))) {
        return redco_fail(err, REDCO_EVALUE, "schedule", "%s of %u stages needs %u micro-batches or more%s, not %u",
                          name, s->stages, 2 * s->stages, halves ? ", both numbers even" : "", s->micro_batches);
    }
    return REDCO_OK;
}

uint32_t redco_pipeline_chunks(redco_pipeline_kind kind, uint32_t asked)
{
    if (kind == REDCO_PIPELINE_INTERLEAVED) { return asked; }
    return is_dual(kind) ? 2 : 1;
}

bool redco_pipeline_splits_backward(redco_pipeline_kind kind)
{
    return kind == REDCO_PIPELINE_ZB_H1 || is_dual(kind);
}

redco_pipeline_kind redco_pipeline_of_chunks(redco_pipeline_kind kind, uint32_t chunks)
{
    return kind == REDCO_PIPELINE_1F1B && chunks > 1 ? REDCO_PIPELINE_INTERLEAVED : kind;
}

uint32_t redco_pipeline_positions(redco_pipeline_kind kind, uint32_t stages, uint32_t chunks)
{
    return kind == REDCO_PIPELINE_DUALPIPE ? stages : stages * chunks;
}

uint32_t redco_pipeline_position(redco_pipeline_kind kind, uint32_t stages, uint32_t stage, uint32_t chunk)
{
    if (chunk > 0 && kind == REDCO_PIPELINE_DUALPIPE) { return stages - 1 - stage; }
    if (chunk > 0 && kind == REDCO_PIPELINE_DUALPIPE_V) { return 2 * stages - 1 - stage; }
    return chunk * stages + stage;
}

uint32_t redco_pipeline_stage_at(const redco_pipeline *schedule, uint32_t position, uint32_t micro_batch,
                                 uint32_t *chunk_out)
{
    const uint32_t p = schedule->stages;
    switch (schedule->kind) {
    case REDCO_PIPELINE_DUALPIPE:
        *chunk_out = micro_batch < schedule->micro_batches / 2 ? 0 : 1;
        return *chunk_out == 0 ? position : p - 1 - position;
    case REDCO_PIPELINE_DUALPIPE_V: *chunk_out = position / p; return *chunk_out == 0 ? position : 2 * p - 1 - position;
    default: *chunk_out = position / p; return position % p;
    }
}

uint32_t redco_pipeline_first_batch(const redco_pipeline *schedule, uint32_t chunk)
{
    return schedule->kind == REDCO_PIPELINE_DUALPIPE && chunk > 0 ? schedule->micro_batches / 2 : 0;
}

uint32_t redco_pipeline_last_batch(const redco_pipeline *schedule, uint32_t chunk)
{
    const bool half = schedule->kind == REDCO_PIPELINE_DUALPIPE && chunk == 0;
    return (half ? schedule->micro_batches / 2 : schedule->micro_batches) - 1;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t redco_pipeline_in_flight(const redco_pipeline *schedule, uint32_t stage)
{
    const uint64_t p = schedule->stages, v = schedule->chunks, m = schedule->micro_batches;
    switch (schedule->kind) {
    case REDCO_PIPELINE_GPIPE: return m;
    case REDCO_PIPELINE_INTERLEAVED: return smaller(2 * (p - 1 - stage) + (v - 1) * group_of(schedule) + 1, v * m);
    case REDCO_PIPELINE_ZB_H1: return smaller(p, m);
    case REDCO_PIPELINE_DUALPIPE_V: return 2 * p + 1;
    case REDCO_PIPELINE_DUALPIPE: return p + 1;
    default: return smaller(p - stage, m);
    }
}

/* Groups of N take the chunks in turn: of the forward passes before the first backward one whole rounds of v N have N
 * each, and the last round what is left for the chunk. */
static uint64_t kept_in_groups(const redco_pipeline *s, uint64_t passes, uint32_t chunk)
{
    const uint64_t group = group_of(s), round = group * s->chunks, before = chunk * group;
    if (round == 0) { return 0; }
    const uint64_t left = passes % round, more = left > before ? smaller(left - before, group) : 0;
    return smaller(passes / round * group + more, s->micro_batches);
}

uint64_t redco_pipeline_kept(const redco_pipeline *schedule, uint32_t stage, uint32_t chunk)
{
    const redco_pipeline *const s = schedule;
    const uint64_t all = redco_pipeline_in_flight(s, stage);
    if (s->kind == REDCO_PIPELINE_INTERLEAVED) {
        return all == (uint64_t)s->chunks * s->micro_batches ? s->micro_batches : kept_in_groups(s, all, chunk);
    }
    if (!is_dual(s->kind)) { return all; }
    const bool halves = s->kind == REDCO_PIPELINE_DUALPIPE, second = halves && stage >= s->stages / 2;
    const uint32_t at = second ? s->stages - 1 - stage : stage; /* from where its first direction comes in */
    return chunk == (second ? 1U : 0U) ? all - (at + 1) : at + 1;
}

uint64_t redco_pipeline_late(const redco_pipeline *pipeline, uint32_t stage)
{
    const redco_pipeline *const p = pipeline;
    if (p->kind == REDCO_PIPELINE_ZB_H1) { return smaller(stage + 1, p->micro_batches); }
    if (!is_dual(p->kind)) { return 0; }
    const bool second = p->kind == REDCO_PIPELINE_DUALPIPE && stage >= p->stages / 2;
    return (second ? p->stages - 1 - stage : stage) + 1;
}
