#include "executor/comm/replay.h"

#include <stdlib.h>

/* The expected state of a queue; written by the one thread that uses it. */
struct expected {
    const redco_queue *queue;
    double seconds;
    uint64_t elements;
};

struct replay {
    redco_carrier base;
    struct expected queues[REDCO_REPLAY_QUEUES];
    uint32_t queue_count; /* changes only before calls are made */
};

static struct expected *expected_of(redco_carrier *carrier, const redco_queue *queue)
{
    struct replay *const r = (struct replay *)carrier;
    for (uint32_t i = 0; i < r->queue_count; i++) {
        if (r->queues[i].queue == queue) { return &r->queues[i]; }
    }
    return NULL;
}

static redco_status split(redco_carrier *carrier, const redco_team_options *options, const redco_team_members *members,
                          redco_team **team_out, redco_error *err)
{
    (void)carrier;
    (void)members;
    *team_out = calloc(1, sizeof **team_out);
    return *team_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, options->name, "a team");
}

static double seconds_of(const redco_team *team, redco_lane lane, const redco_team_call *call)
{
    const struct expected *const e = expected_of(team->carrier, lane.queue);
    if (e == NULL) { return 0.0; }
    const uint64_t elements = redco_team_call_elements(team, call);
    return e->elements > elements ? e->seconds * (double)elements / (double)e->elements : e->seconds;
}

/* The memory that a rank in a ring of n reads and writes for S bytes, (n - 1) / n aside: in a gather it reads S to send
 * it and writes what comes, S; in a reduce-scatter it reads its summands, S, and the sums that pass, S; an all-reduce
 * is both. */
static uint64_t moved_bytes(const redco_team_call *call, uint64_t bytes)
{
    return call->kind == REDCO_ALL_REDUCE ? 4 * bytes : 2 * bytes;
}

static redco_status run(redco_team *team, redco_lane lane, const redco_team_call *call, redco_error *err)
{
    const uint64_t element_bytes = redco_dtype_bytes(call->dtype), part_bytes = call->count * element_bytes;
    unsigned char *const out = call->out;
    redco_occupation o = {.seconds = seconds_of(team, lane, call),
                          .memory = out,
                          .size_bytes = redco_team_call_elements(team, call) * element_bytes};
    o.moved_bytes = moved_bytes(call, o.size_bytes);
    switch (call->kind) {
    case REDCO_ALL_GATHER: o.from = call->order != NULL ? out + call->order[team->rank] * part_bytes : call->in; break;
    case REDCO_REDUCE_SCATTER: { /* from one buffer to another, or to this rank's part of the same */
        const unsigned char *const own = (const unsigned char *)call->in + team->rank * part_bytes;
        if (call->begin != NULL || call->order != NULL) { break; }
        if (own == out) {
            o.memory = out - team->rank * part_bytes;
        } else {
            o.from = own;
            o.size_bytes = part_bytes;
        }
        break;
    }
    case REDCO_BROADCAST: { /* values that others would send are there already */
        const redco_team_part *const last = &call->parts[call->part_count - 1];
        o.memory = out + call->parts[0].begin * element_bytes;
        o.size_bytes = (last->begin + last->count - call->parts[0].begin) * element_bytes;
        break;
    }
    default: break;
    }
    o.from_bytes = o.from != NULL ? part_bytes : 0;
    return lane.backend->calls->occupy(lane.backend, lane.queue, &o, err);
}

static void free_team(redco_team *team)
{
    free(team);
}

static void close_carrier(redco_carrier *carrier)
{
    free(carrier);
}

static const redco_carrier_calls calls = {
    .name = "replay", .split = split, .run = run, .free_team = free_team, .check = NULL, .close = close_carrier};

redco_status redco_replay_open(uint32_t rank, uint32_t size, redco_carrier **carrier_out, redco_error *err)
{
    struct replay *const r = calloc(1, sizeof *r);
    if (r == NULL) { return redco_fail(err, REDCO_ENOMEM, "replay", "a carrier"); }
    if (rank >= size) {
        free(r);
        return redco_fail(err, REDCO_EVALUE, "replay", "rank %u is not one of %u ranks", rank, size);
    }
    r->base = (redco_carrier){.calls = &calls, .rank = rank, .size = size};
    *carrier_out = &r->base;
    return REDCO_OK;
}

redco_status redco_replay_add_queue(redco_carrier *carrier, const redco_queue *queue, redco_error *err)
{
    struct replay *const r = (struct replay *)carrier;
    if (r->queue_count == REDCO_REPLAY_QUEUES) {
        return redco_fail(err, REDCO_EVALUE, "replay", "more than %d queues", REDCO_REPLAY_QUEUES);
    }
    r->queues[r->queue_count++] = (struct expected){.queue = queue};
    return REDCO_OK;
}

void redco_replay_expect(redco_carrier *carrier, const redco_queue *queue, double seconds, uint64_t elements)
{
    struct expected *const e = expected_of(carrier, queue);
    if (e == NULL) { return; }
    e->seconds = seconds;
    e->elements = elements;
}
