/* Process groups as communicators of the processor: for backends whose memory it can follow. */
#include "executor/comm/device_comm.h"

#include <stdlib.h>

struct host_device_comm {
    redco_device_comm base;
    redco_world *world;
};

struct host_process_group {
    redco_process_group base;
    redco_communicator *communicator;
};

static redco_status split(redco_device_comm *device_comm, const redco_process_group_options *options,
                          const redco_process_group_members *members, redco_process_group **group_out, redco_error *err)
{
    redco_world *const world = ((struct host_device_comm *)device_comm)->world;
    struct host_process_group *const process_group = calloc(1, sizeof *process_group);
    (void)members; /* which the world finds by itself */
    if (process_group == NULL) { return redco_fail(err, REDCO_ENOMEM, options->name, "a process group"); }
    const redco_status st =
        redco_communicator_split(world, options->colours, options->name, &process_group->communicator, err);
    if (st != REDCO_OK) {
        free(process_group);
        return st;
    }
    *group_out = &process_group->base;
    return REDCO_OK;
}

static redco_status broadcast(redco_communicator *c, const redco_process_group_call *call, redco_error *err)
{
    const size_t element_bytes = redco_dtype_bytes(call->dtype);
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < call->part_count && st == REDCO_OK; i++) {
        const redco_process_group_part *const part = &call->parts[i];
        void *const data = (unsigned char *)call->out + part->begin * element_bytes;
        st = redco_broadcast(c, call->dtype, data, part->count, part->root, call->what, err);
    }
    return st;
}

static redco_status run(redco_process_group *process_group, redco_stream_handle on,
                        const redco_process_group_call *call, redco_error *err)
{
    redco_communicator *const c = ((struct host_process_group *)process_group)->communicator;
    const redco_status st = on.backend->calls->stream_finish(on.backend, on.stream, err);
    if (st != REDCO_OK) { return st; }
    switch (call->kind) {
    case REDCO_ALL_REDUCE:
        return redco_all_reduce(c, call->dtype, call->reduction, call->out, call->count, call->what, err);
    case REDCO_REDUCE_SCATTER:
        if (call->begin != NULL) {
            return redco_reduce_scatter_parts(c, call->dtype, call->reduction, call->out, call->begin, call->what, err);
        }
        if (call->order != NULL) {
            return redco_reduce_scatter_ordered(c, call->dtype, call->reduction, call->out, call->order, call->count,
                                                call->what, err);
        }
        return redco_reduce_scatter(c, call->dtype, call->reduction, call->in, call->out, call->count, call->what, err);
    case REDCO_ALL_GATHER:
        if (call->order != NULL) {
            return redco_all_gather_ordered(c, call->dtype, call->out, call->order, call->count, call->what, err);
        }
        return redco_all_gather(c, call->dtype, call->in, call->out, call->count, call->what, err);
    default: break;
    }
    return broadcast(c, call, err);
}

static void free_process_group(redco_process_group *process_group)
{
    struct host_process_group *const own = (struct host_process_group *)process_group;
    redco_communicator_free(own->communicator);
    free(own);
}

static void close_device_comm(redco_device_comm *device_comm)
{
    free(device_comm);
}

static const redco_device_comm_calls calls = {
    .name = "host", .split = split, .run = run, .free_process_group = free_process_group, .close = close_device_comm};

redco_status redco_host_device_comm_open(redco_world *world, redco_device_comm **device_comm_out, redco_error *err)
{
    struct host_device_comm *const device_comm = calloc(1, sizeof *device_comm);
    if (device_comm == NULL) { return redco_fail(err, REDCO_ENOMEM, "communicator", "out of memory"); }
    device_comm->base = (redco_device_comm){&calls, redco_world_rank(world), redco_world_size(world)};
    device_comm->world = world;
    *device_comm_out = &device_comm->base;
    return REDCO_OK;
}
