#include "executor/comm/replay.h"

#include <stdlib.h>

/* The expected state of a stream; written by the one thread that uses it. */
struct expected {
    const redco_device_stream *stream;
    double seconds;
    uint64_t elements;
};

struct replay {
    redco_device_comm base;
    struct expected streams[REDCO_REPLAY_STREAMS];
    uint32_t stream_count; /* changes only before calls are made */
};

static struct expected *expected_of(redco_device_comm *device_comm, const redco_device_stream *stream)
{
    struct replay *const r = (struct replay *)device_comm;
    for (uint32_t i = 0; i < r->stream_count; i++) {
        if (r->streams[i].stream == stream) { return &r->streams[i]; }
    }
    return NULL;
}

static redco_status split(redco_device_comm *device_comm, const redco_process_group_options *options,
                          const redco_process_group_members *members, redco_process_group **group_out, redco_error *err)
{
    (void)device_comm;
    (void)members;
    *group_out = calloc(1, sizeof **group_out);
    return *group_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, options->name, "a process group");
}

static double seconds_of(const redco_process_group *process_group, redco_stream_handle on,
                         const redco_process_group_call *call)
{
    const struct expected *const e = expected_of(process_group->device_comm, on.stream);
    if (e == NULL) { return 0.0; }
    const uint64_t elements = redco_process_group_call_elements(process_group, call);
    return e->elements > elements ? e->seconds * (double)elements / (double)e->elements : e->seconds;
}

/* The memory that a rank in a ring of n reads and writes for S bytes, (n - 1) / n aside: in a gather it reads S to send
 * it and writes what comes, S; in a reduce-scatter it reads its summands, S, and the sums that pass, S; an all-reduce
 * is both. */
static uint64_t moved_bytes(const redco_process_group_call *call, uint64_t bytes)
{
    return call->kind == REDCO_ALL_REDUCE ? 4 * bytes : 2 * bytes;
}

static redco_status run(redco_process_group *process_group, redco_stream_handle on,
                        const redco_process_group_call *call, redco_error *err)
{
    const uint64_t element_bytes = redco_dtype_bytes(call->dtype), part_bytes = call->count * element_bytes;
    unsigned char *const out = call->out;
    redco_occupation o = {.seconds = seconds_of(process_group, on, call),
                          .memory = out,
                          .size_bytes = redco_process_group_call_elements(process_group, call) * element_bytes};
    o.moved_bytes = moved_bytes(call, o.size_bytes);
    switch (call->kind) {
    case REDCO_ALL_GATHER:
        o.from = call->order != NULL ? out + call->order[process_group->rank] * part_bytes : call->in;
        break;
    case REDCO_REDUCE_SCATTER: { /* from one buffer to another, or to this rank's part of the same */
        const unsigned char *const own = (const unsigned char *)call->in + process_group->rank * part_bytes;
        if (call->begin != NULL || call->order != NULL) { break; }
        if (own == out) {
            o.memory = out - process_group->rank * part_bytes;
        } else {
            o.from = own;
            o.size_bytes = part_bytes;
        }
        break;
    }
    case REDCO_BROADCAST: { /* values that others would send are there already */
        const redco_process_group_part *const last = &call->parts[call->part_count - 1];
        o.memory = out + call->parts[0].begin * element_bytes;
        o.size_bytes = (last->begin + last->count - call->parts[0].begin) * element_bytes;
        break;
    }
    default: break;
    }
    o.from_bytes = o.from != NULL ? part_bytes : 0;
    return on.backend->calls->occupy(on.backend, on.stream, &o, err);
}

static void free_process_group(redco_process_group *process_group)
{
    free(process_group);
}

static void close_device_comm(redco_device_comm *device_comm)
{
    free(device_comm);
}

static const redco_device_comm_calls calls = {.name = "replay",
                                              .split = split,
                                              .run = run,
                                              .free_process_group = free_process_group,
                                              .check = NULL,
                                              .close = close_device_comm};

redco_status redco_replay_open(uint32_t rank, uint32_t size, redco_device_comm **device_comm_out, redco_error *err)
{
    struct replay *const r = calloc(1, sizeof *r);
    if (r == NULL) { return redco_fail(err, REDCO_ENOMEM, "replay", "a device communicator"); }
    if (rank >= size) {
        free(r);
        return redco_fail(err, REDCO_EVALUE, "replay", "rank %u is not one of %u ranks", rank, size);
    }
    r->base = (redco_device_comm){.calls = &calls, .rank = rank, .size = size};
    *device_comm_out = &r->base;
    return REDCO_OK;
}

redco_status redco_replay_add_stream(redco_device_comm *device_comm, const redco_device_stream *stream,
                                     redco_error *err)
{
    struct replay *const r = (struct replay *)device_comm;
    if (r->stream_count == REDCO_REPLAY_STREAMS) {
        return redco_fail(err, REDCO_EVALUE, "replay", "more than %d streams", REDCO_REPLAY_STREAMS);
    }
    r->streams[r->stream_count++] = (struct expected){.stream = stream};
    return REDCO_OK;
}

void redco_replay_expect(redco_device_comm *device_comm, const redco_device_stream *stream, double seconds,
                         uint64_t elements)
{
    struct expected *const e = expected_of(device_comm, stream);
    if (e == NULL) { return; }
    e->seconds = seconds;
    e->elements = elements;
}
