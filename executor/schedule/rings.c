/* Memory of a pipeline stage for the micro-batches that are under way at once: values that a later pass reads wait for
 * it while other micro-batches are computed, values come from and go to the neighbours beside computation. Each kind
 * has a ring of places, which micro-batches take in turn. How many there are follows from the stage's table of passes.
 */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

/* One place is emptied while computation fills the other. */
enum { PLACES = 2 };

static uint64_t aligned(uint64_t bytes)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    return (bytes + unit - 1) / unit * unit;
}

uint32_t redcoi_leaving_list(const redco_schedule *s, redco_value *values_out)
{
    const redco_stage_links *const links = s->options.links;
    uint32_t count = 0;
    for (int d = 0; links != NULL && d < 2; d++) {
        for (uint32_t i = 0; i < links->out_count[d]; i++) { values_out[count++] = links->out[d][i].value; }
    }
    return count;
}

enum { FORWARD, BACKWARD, WEIGHT, PASSES = REDCOI_PASSES };

uint32_t redcoi_pass_count(const redco_schedule *s)
{
    return PASSES * (s->options.links != NULL ? s->options.links->pipeline.chunks : 1);
}

uint32_t redcoi_pass_of(const redco_schedule *s, uint32_t compute_task)
{
    const redco_stage_links *const links = s->options.links;
    uint32_t count = 0;
    const redco_step_op *const op =
        &redco_step_ops(s->options.step, &count)[s->bind.compute_tasks[compute_task].step_op];
    const bool late =
        links != NULL && redco_pipeline_splits_backward(links->pipeline.kind) && op->suffix == REDCO_SUFFIX_WEIGHT;
    const uint32_t kind = op->pass == REDCO_PASS_NAME_FWD ? FORWARD : late ? WEIGHT : BACKWARD;
    return links == NULL || op->layer == REDCO_STEP_NONE
               ? kind
               : PASSES * (links->position_of[op->layer] / links->pipeline.stages) + kind;
}

uint32_t redcoi_pass_at(const redco_schedule *s, uint32_t direction, uint32_t position)
{
    return PASSES * (position / s->options.links->pipeline.stages) + direction;
}

static uint32_t pass_of_turn(const redco_turn *turn)
{
    return PASSES * turn->chunk + (turn->kind == REDCO_TURN_FORWARD  ? FORWARD
                                   : turn->kind == REDCO_TURN_WEIGHT ? WEIGHT
                                                                     : BACKWARD);
}

/* Micro-batches that have done one pass and not yet another one, or are at it, at most. */
static uint32_t under_way(const redco_schedule *s, uint32_t from, uint32_t to)
{
    const redco_pipeline *const pipeline = &s->options.links->pipeline;
    uint32_t now = 0, most = 1;
    for (uint32_t i = 0; i < s->memory.turn_count; i++) {
        const uint32_t pass = pass_of_turn(&s->memory.turns[i]);
        if (pass == from) { now++; }
        if (now > most) { most = now; }
        if (pass == to && now > 0) { now--; }
    }
    return most < pipeline->micro_batches ? most : pipeline->micro_batches;
}

static redco_status list_turns(redco_schedule *s, redco_error *err)
{
    const redco_stage_links *const links = s->options.links;
    redco_pipeline pipeline = links->pipeline;
    pipeline.micro_batches = s->micro_batches;
    s->memory.turns = calloc(redco_pipeline_room(&pipeline) + 1, sizeof *s->memory.turns);
    if (s->memory.turns == NULL) { return redcoi_schedule_memory_short(err); }
    s->memory.turn_count = redco_pipeline_table(&pipeline, links->stage, s->memory.turns);
    return REDCO_OK;
}

uint32_t redcoi_pass_of_step(const redco_schedule *s, uint32_t step)
{
    const redco_lifetimes *const l = &s->memory.lifetimes;
    return redcoi_pass_of(s, s->bind.compute_task_of[l->order[step < l->step_count ? step : l->step_count - 1]]);
}

/* The ring of values from one pass to another. */
static redcoi_ring *kept_ring(redco_schedule *s, uint32_t from, uint32_t to)
{
    const uint32_t passes = redcoi_pass_count(s);
    redcoi_ring *const ring = &s->memory.kept[from * passes + to];
    if (ring->count == 0) { ring->count = under_way(s, from, to); }
    return ring;
}

void redcoi_rings_lay(redco_schedule *s, bool forward)
{
    redcoi_memory *const m = &s->memory;
    const redco_lifetimes *const l = &m->lifetimes;
    const bool late = redco_pipeline_splits_backward(s->options.links->pipeline.kind);
    if (m->inputs.count == 1 && s->options.links->pipeline.chunks == 1) {
        return;
    } /* one micro-batch after the other */
    for (uint32_t i = 0; i < l->interval_count; i++) {
        const uint32_t from = redcoi_pass_of_step(s, l->intervals[i].first);
        uint32_t to = redcoi_pass_of_step(s, l->intervals[i].last);
        if (from == to || m->ring_of[i] != NULL || (forward && from % PASSES != FORWARD)) { continue; }
        if (late && to % PASSES == BACKWARD && from + BACKWARD == to) { to += WEIGHT - BACKWARD; }
        redcoi_ring *const ring = kept_ring(s, from, to);
        m->ring_of[i] = ring;
        m->elsewhere[i] = true;
        m->offsets[i] = ring->bytes;
        ring->bytes += aligned(l->intervals[i].size_bytes);
    }
}

/* The last pass that reads a value. */
static uint32_t last_pass(const redco_schedule *s, redco_value value, uint32_t own)
{
    if (value == REDCO_NO_VALUE || s->memory.lifetimes.place[value].kind == REDCO_PLACE_NONE) { return own; }
    const uint32_t last = redcoi_pass_of_step(s, s->memory.lifetimes.last_step[s->bind.root_of[value]]);
    return s->memory.lifetimes.last_step[s->bind.root_of[value]] == 0 ? own : last;
}

/* Values that come stay until their last reader: a place more, which is filled beside. */
static bool lay_crossings(redco_schedule *s, uint32_t d)
{
    redcoi_memory *const m = &s->memory;
    const redco_stage_links *const links = s->options.links;
    const uint32_t chunks = links->pipeline.chunks;
    m->in[d] = calloc(chunks, sizeof *m->in[d]);
    m->out[d] = calloc(chunks, sizeof *m->out[d]);
    m->in_at[d] = calloc((size_t)links->in_count[d] + 1, sizeof *m->in_at[d]);
    m->out_at[d] = calloc((size_t)links->out_count[d] + 1, sizeof *m->out_at[d]);
    if (m->in[d] == NULL || m->out[d] == NULL || m->in_at[d] == NULL || m->out_at[d] == NULL) { return false; }
    for (uint32_t i = 0; i < links->in_count[d]; i++) {
        const redco_crossing *const c = &links->in[d][i];
        redcoi_ring *const ring = &m->in[d][c->position / links->pipeline.stages];
        const uint32_t own = redcoi_pass_at(s, d, c->position), to = last_pass(s, c->value, own);
        const uint32_t count = under_way(s, own, to) + 1;
        if (ring->count == 0 || count > ring->count) {
            ring->count = count < s->micro_batches ? count : s->micro_batches;
            ring->until = to;
        }
        m->in_at[d][i] = ring->bytes;
        ring->bytes += aligned(redco_type_bytes(&c->type));
    }
    for (uint32_t i = 0; i < links->out_count[d]; i++) {
        redcoi_ring *const ring = &m->out[d][links->out[d][i].position / links->pipeline.stages];
        ring->count = PLACES < s->micro_batches ? PLACES : s->micro_batches;
        m->out_at[d][i] = ring->bytes;
        ring->bytes += aligned(redco_type_bytes(&links->out[d][i].type));
    }
    return true;
}

redco_status redcoi_rings_plan(redco_schedule *s, redco_error *err)
{
    redcoi_memory *const m = &s->memory;
    const size_t intervals = (size_t)m->lifetimes.interval_count + 1, passes = redcoi_pass_count(s);
    m->offsets = calloc(intervals, sizeof *m->offsets);
    m->ring_of = calloc(intervals, sizeof(redcoi_ring *));
    m->elsewhere = calloc(intervals, sizeof *m->elsewhere);
    m->inputs = (redcoi_ring){.count = 1};
    if (m->offsets == NULL || m->ring_of == NULL || m->elsewhere == NULL) { return redcoi_schedule_memory_short(err); }
    if (s->options.links == NULL) { return REDCO_OK; }
    const redco_status st = list_turns(s, err);
    if (st != REDCO_OK) { return st; }
    m->kept = calloc(passes * passes, sizeof *m->kept);
    if (m->kept == NULL) { return redcoi_schedule_memory_short(err); }
    const bool late = redco_pipeline_splits_backward(s->options.links->pipeline.kind);
    m->inputs.count = under_way(s, FORWARD, late ? WEIGHT : BACKWARD); /* the first chunk's are there the longest */
    redcoi_rings_lay(s, true);
    return lay_crossings(s, 0) && lay_crossings(s, 1) ? REDCO_OK : redcoi_schedule_memory_short(err);
}

/* @return bytes of rings behind one another */
static uint64_t place_rings(redcoi_ring *rings, size_t count, unsigned char *from, uint64_t at)
{
    for (size_t i = 0; rings != NULL && i < count; i++) {
        if (from != NULL) { rings[i].memory = from + at; }
        at += rings[i].bytes * rings[i].count;
    }
    return at;
}

/* @param from  NULL: only to count. @param stays_out  of it, values from pass to pass. @return bytes of all rings */
uint64_t redcoi_rings_place(redco_schedule *s, unsigned char *from, uint64_t *stays_out)
{
    redcoi_memory *const m = &s->memory;
    const size_t passes = redcoi_pass_count(s), chunks = passes / PASSES;
    uint64_t bytes = place_rings(m->kept, passes * passes, from, 0);
    bytes = place_rings(m->in[0], chunks, from, bytes);
    *stays_out = bytes;
    bytes = place_rings(m->in[1], chunks, from, bytes);
    bytes = place_rings(m->out[0], chunks, from, bytes);
    return place_rings(m->out[1], chunks, from, bytes);
}

unsigned char *redcoi_address_at(redcoi_address address, uint32_t micro_batch)
{
    return address.ring == NULL ? address.first
                                : address.first + micro_batch % address.ring->count * address.ring->bytes;
}

redcoi_address redcoi_slot_at(const redco_schedule *s, const redcoi_slot *slot)
{
    return (redcoi_address){(slot->ring != NULL ? slot->ring->memory : s->memory.block) + slot->at, slot->ring};
}

const redcoi_ring *redcoi_crossing_ring(const redco_schedule *s, bool comes, uint32_t d, uint32_t position)
{
    const uint32_t chunk = position / s->options.links->pipeline.stages;
    return comes ? &s->memory.in[d][chunk] : &s->memory.out[d][chunk];
}

/* @param at_out  NULL: only asked. @return false: the value comes from no neighbour */
bool redcoi_received_at(const redco_schedule *s, redco_value value, redcoi_address *at_out)
{
    const redco_stage_links *const links = s->options.links;
    for (uint32_t d = 0; links != NULL && d < 2; d++) {
        for (uint32_t i = 0; i < links->in_count[d]; i++) {
            if (links->in[d][i].value != value) { continue; }
            if (at_out != NULL) {
                const redcoi_ring *const ring = redcoi_crossing_ring(s, true, d, links->in[d][i].position);
                *at_out = (redcoi_address){ring->memory + s->memory.in_at[d][i], ring};
            }
            return true;
        }
    }
    return false;
}

static int by_place(const void *a, const void *b)
{
    const redcoi_handover *const x = a, *const y = b;
    return (x->behind > y->behind) - (x->behind < y->behind);
}

/* The entry of the order behind which a value can be copied: where it is made, or, of one that is passed on as it came
 * or was made for another position, the first of the pass. */
static uint32_t made_at(const redco_schedule *s, redco_value value, uint32_t pass)
{
    const uint32_t op = redco_value_op(s->options.graph, s->bind.root_of[value])->id;
    uint32_t task = s->bind.compute_task_of[op];
    if (task == REDCO_STEP_NONE || redcoi_pass_of(s, task) != pass) {
        task = 0;
        while (redcoi_pass_of(s, task) != pass || s->bind.compute_tasks[task].ops.count == 0) { task++; }
        return s->bind.compute_tasks[task].ops.first;
    }
    uint32_t at = s->bind.compute_tasks[task].ops.first;
    while (s->bind.order[at] != op) { at++; }
    return at;
}

redco_status redcoi_handovers_list(redco_schedule *s,
                                   redcoi_address (*address_of)(const redco_schedule *s, redco_value value),
                                   redco_error *err)
{
    redcoi_memory *const m = &s->memory;
    const redco_stage_links *const links = s->options.links;
    if (links == NULL) { return REDCO_OK; }
    m->handovers = calloc((size_t)links->out_count[0] + links->out_count[1] + 1, sizeof *m->handovers);
    if (m->handovers == NULL) { return redcoi_schedule_memory_short(err); }
    for (uint32_t d = 0; d < 2; d++) {
        for (uint32_t i = 0; i < links->out_count[d]; i++) {
            const redco_crossing *const c = &links->out[d][i];
            const redcoi_ring *const ring = redcoi_crossing_ring(s, false, d, c->position);
            m->handovers[m->handover_count++] =
                (redcoi_handover){made_at(s, c->value, redcoi_pass_at(s, d, c->position)),
                                  address_of(s, c->value),
                                  {ring->memory + m->out_at[d][i], ring},
                                  redco_type_bytes(&c->type)};
        }
    }
    qsort(m->handovers, m->handover_count, sizeof *m->handovers, by_place);
    return REDCO_OK;
}

/* Sends or receives all that crosses at a position in one direction, value by value: a broadcast in a group of two. */
redco_status redcoi_cross(redcoi_thread *thread, const redcoi_task *task, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const redco_stage_links *const links = s->options.links;
    const uint32_t d = task->what % 2, position = task->what / 2;
    const bool sends = task->action == REDCOI_SEND;
    redco_process_group *const group = sends ? links->to[d] : links->from[d];
    const redcoi_ring *const ring = redcoi_crossing_ring(s, !sends, d, position);
    const uint64_t *const at = sends ? s->memory.out_at[d] : s->memory.in_at[d];
    const redco_crossing *const crossings = sends ? links->out[d] : links->in[d];
    const uint32_t count = sends ? links->out_count[d] : links->in_count[d];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const redco_tensor_type *const type = &crossings[i].type;
        const redco_process_group_part all = {0, redco_type_elements(type), sends ? group->rank : 1 - group->rank};
        if (crossings[i].position != position) { continue; }
        st = redco_process_group_broadcast(
            group, (redco_stream_handle){thread->backend, thread->stream}, type->dtype,
            redcoi_address_at((redcoi_address){ring->memory + at[i], ring}, task->micro_batch), &all, 1,
            d == 0 ? "fwd/stage/send" : "bwd/stage/send", err);
    }
    return st;
}

void redcoi_rings_free(redcoi_memory *m)
{
    for (int d = 0; d < 2; d++) {
        free(m->in[d]);
        free(m->out[d]);
        free(m->in_at[d]);
        free(m->out_at[d]);
    }
    free(m->kept);
    free((void *)m->ring_of);
    free(m->elsewhere);
    free(m->turns);
    free(m->moving);
    free(m->moves);
    free(m->handovers);
}
