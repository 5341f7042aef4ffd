/* What schedules need, where their chunks stand, and their closed forms. The tables are in schedule_tables.c. */
#include "costmodel/schedules/schedule.h"

#include <stddef.h>

const char *const redco_schedule_words[] = {
    [REDCO_SCHEDULE_1F1B] = "1f1b",
    [REDCO_SCHEDULE_INTERLEAVED] = "interleaved",
    [REDCO_SCHEDULE_GPIPE] = "gpipe",
    [REDCO_SCHEDULE_ZB_H1] = "zb-h1",
    [REDCO_SCHEDULE_DUALPIPE_V] = "dualpipev",
    [REDCO_SCHEDULE_DUALPIPE] = "dualpipe",
    [REDCO_SCHEDULE_COUNT] = NULL,
};

static bool is_dual(redco_schedule_kind kind)
{
    return kind == REDCO_SCHEDULE_DUALPIPE_V || kind == REDCO_SCHEDULE_DUALPIPE;
}

static uint32_t group_of(const redco_schedule *s)
{
    return s->group > 0 ? s->group : s->stages;
}

static redco_status check_groups(const redco_schedule *s, redco_error *err)
{
    const uint32_t group = group_of(s), rest = group > 0 ? s->micro_batches % group : 0;
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

redco_status redco_schedule_check(const redco_schedule *schedule, redco_error *err)
{
    const redco_schedule *const s = schedule;
    const char *const name = s->kind < REDCO_SCHEDULE_COUNT ? redco_schedule_words[s->kind] : "?";
    if (s->kind >= REDCO_SCHEDULE_COUNT || s->stages == 0 || s->chunks == 0 || s->micro_batches == 0 ||
        s->stages > REDCO_SCHEDULE_STAGES_MAX || s->chunks > REDCO_SCHEDULE_CHUNKS_MAX) {
        return redco_fail(err, REDCO_EVALUE, "schedule",
                          "%s with %u stages of %u chunks; 1 to %d stages of 1 to %d chunks are possible", name,
                          s->stages, s->chunks, REDCO_SCHEDULE_STAGES_MAX, REDCO_SCHEDULE_CHUNKS_MAX);
    }
    if (s->kind != REDCO_SCHEDULE_INTERLEAVED && s->group != 0) {
        return redco_fail(err, REDCO_EVALUE, "group", "%s has no groups of micro-batches; interleaved has", name);
    }
    if (s->chunks != redco_schedule_chunks(s->kind, s->chunks) ||
        (s->kind == REDCO_SCHEDULE_INTERLEAVED && (s->chunks < 2 || s->stages < 2))) {
        const bool many = s->kind == REDCO_SCHEDULE_INTERLEAVED;
        return redco_fail(err, REDCO_EVALUE, "chunks", "%u a stage of %u stages; %s has %s", s->chunks, s->stages, name,
                          many               ? "2 or more, of 2 stages or more"
                          : is_dual(s->kind) ? "2"
                                             : "1");
    }
    if (s->kind == REDCO_SCHEDULE_INTERLEAVED) { return check_groups(s, err); }
    const bool halves = s->kind == REDCO_SCHEDULE_DUALPIPE;
    if (is_dual(s->kind) &&
        (s->micro_batches < 2 * s->stages || (halves && (s->stages % 2 != 0 || s->micro_batches % 2 != 0)))) {
        return redco_fail(err, REDCO_EVALUE, "schedule", "%s of %u stages needs %u micro-batches or more%s, not %u",
                          name, s->stages, 2 * s->stages, halves ? ", both numbers even" : "", s->micro_batches);
    }
    return REDCO_OK;
}

uint32_t redco_schedule_chunks(redco_schedule_kind kind, uint32_t asked)
{
    if (kind == REDCO_SCHEDULE_INTERLEAVED) { return asked; }
    return is_dual(kind) ? 2 : 1;
}

bool redco_schedule_splits_backward(redco_schedule_kind kind)
{
    return kind == REDCO_SCHEDULE_ZB_H1 || is_dual(kind);
}

uint32_t redco_schedule_positions(redco_schedule_kind kind, uint32_t stages, uint32_t chunks)
{
    return kind == REDCO_SCHEDULE_DUALPIPE ? stages : stages * chunks;
}

uint32_t redco_schedule_position(redco_schedule_kind kind, uint32_t stages, uint32_t stage, uint32_t chunk)
{
    if (chunk > 0 && kind == REDCO_SCHEDULE_DUALPIPE) { return stages - 1 - stage; }
    if (chunk > 0 && kind == REDCO_SCHEDULE_DUALPIPE_V) { return 2 * stages - 1 - stage; }
    return chunk * stages + stage;
}

uint32_t redco_schedule_stage_at(const redco_schedule *schedule, uint32_t position, uint32_t micro_batch,
                                 uint32_t *chunk_out)
{
    const uint32_t p = schedule->stages;
    switch (schedule->kind) {
    case REDCO_SCHEDULE_DUALPIPE:
        *chunk_out = micro_batch < schedule->micro_batches / 2 ? 0 : 1;
        return *chunk_out == 0 ? position : p - 1 - position;
    case REDCO_SCHEDULE_DUALPIPE_V: *chunk_out = position / p; return *chunk_out == 0 ? position : 2 * p - 1 - position;
    default: *chunk_out = position / p; return position % p;
    }
}

uint32_t redco_schedule_first_batch(const redco_schedule *schedule, uint32_t chunk)
{
    return schedule->kind == REDCO_SCHEDULE_DUALPIPE && chunk > 0 ? schedule->micro_batches / 2 : 0;
}

uint32_t redco_schedule_last_batch(const redco_schedule *schedule, uint32_t chunk)
{
    const bool half = schedule->kind == REDCO_SCHEDULE_DUALPIPE && chunk == 0;
    return (half ? schedule->micro_batches / 2 : schedule->micro_batches) - 1;
}

static uint64_t smaller(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

uint64_t redco_schedule_in_flight(const redco_schedule *schedule, uint32_t stage)
{
    const uint64_t p = schedule->stages, v = schedule->chunks, m = schedule->micro_batches;
    switch (schedule->kind) {
    case REDCO_SCHEDULE_GPIPE: return m;
    case REDCO_SCHEDULE_INTERLEAVED: return smaller(2 * (p - 1 - stage) + (v - 1) * group_of(schedule) + 1, v * m);
    case REDCO_SCHEDULE_ZB_H1: return smaller(p, m);
    case REDCO_SCHEDULE_DUALPIPE_V: return 2 * p + 1;
    case REDCO_SCHEDULE_DUALPIPE: return p + 1;
    default: return smaller(p - stage, m);
    }
}

double redco_schedule_idle_s(const redco_schedule *schedule, double forward_s, double backward_s, double weight_s)
{
    const double fills = (double)schedule->stages - 1.0, pass_s = forward_s + backward_s;
    const double later_s = backward_s - 2.0 * weight_s;
    switch (schedule->kind) {
    case REDCO_SCHEDULE_INTERLEAVED: return fills / schedule->chunks * pass_s;
    case REDCO_SCHEDULE_ZB_H1: return fills * (forward_s + (later_s > 0.0 ? later_s : 0.0));
    case REDCO_SCHEDULE_DUALPIPE_V: return fills / 2.0 * (pass_s + backward_s - 3.0 * weight_s);
    case REDCO_SCHEDULE_DUALPIPE: return (schedule->stages / 2.0 - 1.0) * (pass_s + backward_s - 3.0 * weight_s);
    default: return fills * pass_s;
    }
}
