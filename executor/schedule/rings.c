/* Memory of a pipeline stage for the micro-batches that are under way at once: values that backward reads wait for it
 * while other micro-batches go forward, values come from and go to the neighbours beside computation. Each kind has a
 * ring of places, which micro-batches take in turn. */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

/* One place is filled or emptied while computation has the other. */
enum { PLACES = 2 };

static uint64_t aligned(uint64_t bytes)
{
    const uint64_t unit = REDCO_ALIGNMENT_BYTES;
    return (bytes + unit - 1) / unit * unit;
}

static uint64_t value_bytes(const redco_schedule *s, redco_value value)
{
    return redco_type_bytes(redco_value_type(s->options.graph, value));
}

uint32_t redcoi_leaving_list(const redco_schedule *s, redco_value *values_out)
{
    const redco_stage_links *const links = s->options.links;
    uint32_t count = 0;
    for (int d = 0; links != NULL && d < 2; d++) {
        for (uint32_t i = 0; i < links->out_count[d]; i++) { values_out[count++] = links->out[d][i]; }
    }
    return count;
}

uint32_t redcoi_under_way(const redco_schedule *s)
{
    const redco_stage_links *const links = s->options.links;
    return links == NULL ? 1 : (uint32_t)redco_pipeline_in_flight(&links->pipeline, links->stage);
}

bool redcoi_is_backward_task(const redco_schedule *s, uint32_t compute_task)
{
    uint32_t count = 0;
    return redco_step_ops(s->options.step, &count)[s->bind.compute_tasks[compute_task].step_op].pass !=
           REDCO_PASS_NAME_FWD;
}

static bool is_backward_step(const redco_schedule *s, uint32_t step)
{
    const redco_lifetimes *const l = &s->memory.lifetimes;
    return redcoi_is_backward_task(s,
                                   s->bind.compute_task_of[l->order[step < l->step_count ? step : l->step_count - 1]]);
}

/* Values from forward to backward, behind one another: all are there at once. */
static void lay_kept(redco_schedule *s)
{
    redcoi_memory *const m = &s->memory;
    const redco_lifetimes *const l = &m->lifetimes;
    m->kept = (redcoi_ring){.count = redcoi_under_way(s)};
    for (uint32_t i = 0; i < l->interval_count && m->kept.count > 1; i++) {
        m->is_kept[i] = !is_backward_step(s, l->intervals[i].first) && is_backward_step(s, l->intervals[i].last);
        if (!m->is_kept[i]) { continue; }
        m->offsets[i] = m->kept.bytes;
        m->kept.bytes += aligned(l->intervals[i].size_bytes);
    }
}

static bool lay_values(const redco_schedule *s, const redco_value *values, uint32_t value_count, uint32_t places,
                       redcoi_ring *ring, uint64_t **at_out)
{
    *ring = (redcoi_ring){.count = places < s->micro_batches ? places : s->micro_batches};
    *at_out = calloc((size_t)value_count + 1, sizeof **at_out);
    for (uint32_t i = 0; *at_out != NULL && i < value_count; i++) {
        (*at_out)[i] = ring->bytes;
        ring->bytes += aligned(value_bytes(s, values[i]));
    }
    return *at_out != NULL;
}

redco_status redcoi_rings_plan(redco_schedule *s, redco_error *err)
{
    redcoi_memory *const m = &s->memory;
    const redco_stage_links *const links = s->options.links;
    const size_t intervals = (size_t)m->lifetimes.interval_count + 1;
    bool enough = true;
    m->offsets = calloc(intervals, sizeof *m->offsets);
    m->is_kept = calloc(intervals, sizeof *m->is_kept);
    if (m->offsets == NULL || m->is_kept == NULL) { return redcoi_schedule_memory_short(err); }
    m->inputs = (redcoi_ring){.count = redcoi_under_way(s)};
    if (links == NULL) { return REDCO_OK; }
    lay_kept(s);
    /* Values that forward received stay until backward has read them. */
    const uint32_t in[2] = {redcoi_under_way(s) + 1, PLACES};
    for (int d = 0; d < 2; d++) {
        enough = enough && lay_values(s, links->in[d], links->in_count[d], in[d], &m->in[d], &m->in_at[d]) &&
                 lay_values(s, links->out[d], links->out_count[d], PLACES, &m->out[d], &m->out_at[d]);
    }
    return enough ? REDCO_OK : redcoi_schedule_memory_short(err);
}

/* @param from  NULL: only to count. @return bytes of all rings */
uint64_t redcoi_rings_place(redco_schedule *s, unsigned char *from)
{
    redcoi_memory *const m = &s->memory;
    redcoi_ring *const rings[] = {&m->kept, &m->in[0], &m->in[1], &m->out[0], &m->out[1]};
    uint64_t bytes = 0;
    for (size_t i = 0; i < sizeof rings / sizeof rings[0]; i++) {
        if (from != NULL) { rings[i]->memory = from + bytes; }
        bytes += rings[i]->bytes * rings[i]->count;
    }
    return bytes;
}

unsigned char *redcoi_address_at(redcoi_address address, uint32_t micro_batch)
{
    return address.ring == NULL ? address.first
                                : address.first + micro_batch % address.ring->count * address.ring->bytes;
}

/* @param at_out  NULL: only asked. @return false: the value comes from no neighbour */
bool redcoi_received_at(const redco_schedule *s, redco_value value, redcoi_address *at_out)
{
    const redco_stage_links *const links = s->options.links;
    for (int d = 0; links != NULL && d < 2; d++) {
        for (uint32_t i = 0; i < links->in_count[d]; i++) {
            if (links->in[d][i] != value) { continue; }
            if (at_out != NULL) {
                *at_out = (redcoi_address){s->memory.in[d].memory + s->memory.in_at[d][i], &s->memory.in[d]};
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

/* The entry of the order behind which a value can be copied: where it is made, or, of one that is passed on as it came,
 * the first of the pass. */
static uint32_t made_at(const redco_schedule *s, redco_value value, bool backward)
{
    const uint32_t op = redco_value_op(s->options.graph, s->bind.root_of[value])->id;
    const uint32_t made = s->bind.compute_task_of[op];
    uint32_t task = made;
    if (made == REDCO_STEP_NONE) {
        task = 0;
        while (redcoi_is_backward_task(s, task) != backward || s->bind.compute_tasks[task].ops.count == 0) { task++; }
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
    for (int d = 0; d < 2; d++) {
        for (uint32_t i = 0; i < links->out_count[d]; i++) {
            const redco_value value = links->out[d][i];
            m->handovers[m->handover_count++] = (redcoi_handover){made_at(s, value, d == 1),
                                                                  address_of(s, value),
                                                                  {m->out[d].memory + m->out_at[d][i], &m->out[d]},
                                                                  value_bytes(s, value)};
        }
    }
    qsort(m->handovers, m->handover_count, sizeof *m->handovers, by_place);
    return REDCO_OK;
}

/* Sends or receives all that crosses in one direction, value by value: a broadcast in a group of two. */
redco_status redcoi_cross(redcoi_thread *thread, const redcoi_task *task, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const redco_stage_links *const links = s->options.links;
    const uint32_t d = task->what;
    const bool sends = task->action == REDCOI_SEND;
    redco_process_group *const group = sends ? links->to[d] : links->from[d];
    const redcoi_ring *const ring = sends ? &s->memory.out[d] : &s->memory.in[d];
    const uint64_t *const at = sends ? s->memory.out_at[d] : s->memory.in_at[d];
    const redco_value *const values = sends ? links->out[d] : links->in[d];
    const uint32_t count = sends ? links->out_count[d] : links->in_count[d];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const redco_tensor_type *const type = redco_value_type(s->options.graph, values[i]);
        const redco_process_group_part all = {0, redco_type_elements(type), sends ? group->rank : 1 - group->rank};
        const redcoi_address address = {ring->memory + at[i], ring};
        st = redco_process_group_broadcast(group, (redco_stream_handle){thread->backend, thread->stream}, type->dtype,
                                           redcoi_address_at(address, task->micro_batch), &all, 1,
                                           d == 0 ? "fwd/stage/send" : "bwd/stage/send", err);
    }
    return st;
}

void redcoi_rings_free(redcoi_memory *m)
{
    for (int d = 0; d < 2; d++) {
        free(m->in_at[d]);
        free(m->out_at[d]);
    }
    free(m->is_kept);
    free(m->moving);
    free(m->moves);
    free(m->handovers);
}
