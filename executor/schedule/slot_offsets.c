/* Offsets in one arena for the graph's values, gathered weights and whole gradients, and the waits for memory that is
 * reused. Collectives start behind the computation issued before them, so that memory which that computation has read
 * is free. Whole gradients are free once scattered, which the step does not express: a wait is added wherever their
 * memory is reused. */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>

/* Steps of the arena's order by compute task. */
static uint32_t *first_steps(const redco_schedule *s)
{
    const redco_lifetimes *const l = &s->memory.lifetimes;
    uint32_t *const first = calloc((size_t)s->bind.compute_task_count + 2, sizeof *first);
    uint32_t step = 0;
    for (uint32_t p = 0; first != NULL && p <= s->bind.compute_task_count; p++) {
        first[p] = step;
        while (step < l->step_count && s->bind.compute_task_of[l->order[step]] == p) { step++; }
    }
    return first;
}

/* Odd positions lie between compute tasks: values that begin there may be written once the previous compute task has
 * ended. */
static redco_interval slot_interval(const redco_schedule *s, const redcoi_slot *slot, const uint32_t *first)
{
    const uint32_t steps = s->memory.lifetimes.step_count, compute_tasks = s->bind.compute_task_count;
    const uint32_t from = slot->born % 2 == 0 ? slot->born / 2 - 1 : (slot->born - 1) / 2;
    const uint32_t until = slot->dies / 2 - 1; /* odd ones: the compute task before */
    const uint32_t last_compute_task = slot->dies < 2 ? 0 : until < compute_tasks ? until : compute_tasks - 1;
    uint32_t born = first[from < compute_tasks ? from : compute_tasks - 1];
    if (born >= steps) { born = steps - 1; }
    const uint32_t end = first[last_compute_task + 1];
    return (redco_interval){slot->bytes, born, end > born + 1 ? end - 1 : born};
}

static bool overlap(uint64_t a, uint64_t a_bytes, uint64_t b, uint64_t b_bytes)
{
    return a < b + b_bytes && b < a + a_bytes;
}

static bool later(uint32_t scatter, uint32_t than)
{
    return than == REDCO_STEP_NONE || scatter > than;
}

/* The scatter that must end before memory needed from position @p first on is written: of this micro-batch or of the
 * one before. */
static void find_scatters(const redcoi_memory *memory, const redco_interval *slots, uint64_t at, uint64_t bytes,
                          uint32_t first, uint32_t *after_out, uint32_t *after_before_out)
{
    for (uint32_t i = 0; i < memory->slot_count; i++) {
        const redcoi_slot *const other = &memory->slots[i];
        if (other->scatter == REDCO_STEP_NONE || !overlap(at, bytes, other->at, other->bytes)) { continue; }
        uint32_t *const after = slots[i].last < first ? after_out : after_before_out;
        if (later(other->scatter, *after)) { *after = other->scatter; }
    }
}

static void find_waits(redco_schedule *s, const redco_interval *intervals)
{
    redcoi_memory *const memory = &s->memory;
    const redco_lifetimes *const l = &memory->lifetimes;
    for (uint32_t p = 0; p < s->bind.compute_task_count; p++) {
        s->bind.compute_tasks[p].after = s->bind.compute_tasks[p].after_before = REDCO_STEP_NONE;
    }
    for (uint32_t k = 0; k < memory->slot_count; k++) {
        redcoi_slot *const slot = &memory->slots[k];
        slot->after = slot->after_before = REDCO_STEP_NONE;
        if (slot->ring != NULL) { continue; }
        find_scatters(memory, intervals, slot->at, slot->bytes, intervals[k].first, &slot->after, &slot->after_before);
        if (!slot->gradient) { continue; }
        redcoi_compute_task *const compute_task = &s->bind.compute_tasks[slot->producer];
        if (slot->after != REDCO_STEP_NONE && later(slot->after, compute_task->after)) {
            compute_task->after = slot->after;
        }
        if (slot->after_before != REDCO_STEP_NONE && later(slot->after_before, compute_task->after_before)) {
            compute_task->after_before = slot->after_before;
        }
    }
    for (uint32_t i = 0; i < l->interval_count && !s->options.emulate; i++) {
        if (memory->elsewhere[i]) { continue; }
        redcoi_compute_task *const compute_task =
            &s->bind.compute_tasks[s->bind.compute_task_of[l->order[l->intervals[i].first]]];
        find_scatters(memory, intervals, memory->offsets[i], l->intervals[i].size_bytes, l->intervals[i].first,
                      &compute_task->after, &compute_task->after_before);
    }
}

/* Slots and values that lie in no ring. @return their number */
static uint32_t list_placed(const redco_schedule *s, redco_interval *intervals, uint32_t *who)
{
    const redcoi_memory *const memory = &s->memory;
    const redco_lifetimes *const l = &memory->lifetimes;
    const uint32_t values = s->options.emulate ? 0 : l->interval_count, slots = memory->slot_count;
    uint32_t count = 0;
    for (uint32_t k = 0; k < slots; k++) {
        if (memory->slots[k].ring != NULL) { continue; }
        intervals[slots + count] = intervals[k];
        who[count++] = k;
    }
    for (uint32_t i = 0; i < values; i++) {
        if (memory->elsewhere[i]) { continue; }
        redco_interval *const interval = &intervals[slots + count];
        *interval = l->intervals[i];
        if (interval->last >= l->step_count) { interval->last = l->step_count - 1; } /* it stays to the end */
        who[count++] = slots + i;
    }
    return count;
}

/* Intervals of the slots, then of what is placed. */
redco_status redcoi_places_plan(redco_schedule *s, redco_error *err)
{
    redcoi_memory *const memory = &s->memory;
    const redco_lifetimes *const l = &memory->lifetimes;
    const uint32_t slots = memory->slot_count;
    const size_t all = (size_t)slots + l->interval_count + 1;
    redco_interval *const intervals = calloc(all + slots, sizeof *intervals);
    uint64_t *const offsets = calloc(all, sizeof *offsets);
    uint32_t *const first = first_steps(s), *const who = calloc(all, sizeof *who);
    redco_status st = REDCO_OK;
    if (intervals == NULL || offsets == NULL || first == NULL || who == NULL || memory->offsets == NULL ||
        l->step_count == 0) {
        st = redcoi_schedule_memory_short(err);
        goto out;
    }
    for (uint32_t k = 0; k < slots; k++) { intervals[k] = slot_interval(s, &memory->slots[k], first); }
    if (!s->options.emulate && (st = redcoi_rings_fill(s, intervals, err)) != REDCO_OK) { goto out; }
    const uint32_t placed = list_placed(s, intervals, who);
    st = redco_arena_plan(intervals + slots, placed, REDCO_ALIGNMENT_BYTES, offsets, &memory->arena, err);
    if (st != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < placed; i++) {
        if (who[i] >= slots) {
            memory->offsets[who[i] - slots] = offsets[i];
            continue;
        }
        const redco_interval *const slot = &intervals[who[i]];
        memory->slots[who[i]].at = offsets[i];
        if (slot->first <= memory->arena.live_step && memory->arena.live_step <= slot->last) {
            memory->size.slot_bytes += slot->size_bytes;
        }
    }
    if (!s->options.emulate && l->interval_count > 0) {
        redco_arena_held(s->options.graph, l, memory->arena.live_step, memory->elsewhere, memory->size.held_bytes);
    }
    find_waits(s, intervals);
out:
    free(intervals);
    free(offsets);
    free(first);
    free(who);
    return st;
}
