/* Teams as communicators of the processor: for backends whose memory it can follow. */
#include "executor/comm/device_comm.h"

#include <stdlib.h>

struct host_carrier {
    redco_carrier base;
    redco_world *world;
};

struct host_team {
    redco_team base;
    redco_communicator *communicator;
};

static redco_status split(redco_carrier *carrier, const redco_team_options *options, const redco_team_members *members,
                          redco_team **team_out, redco_error *err)
{
    redco_world *const world = ((struct host_carrier *)carrier)->world;
    struct host_team *const team = calloc(1, sizeof *team);
    (void)members; /* which the world finds by itself */
    if (team == NULL) { return redco_fail(err, REDCO_ENOMEM, options->name, "a team"); }
    const redco_status st = redco_communicator_split(world, options->colours, options->name, &team->communicator, err);
    if (st != REDCO_OK) {
        free(team);
        return st;
    }
    *team_out = &team->base;
    return REDCO_OK;
}

static redco_status broadcast(redco_communicator *c, const redco_team_call *call, redco_error *err)
{
    const size_t element_bytes = redco_dtype_bytes(call->dtype);
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < call->part_count && st == REDCO_OK; i++) {
        const redco_team_part *const part = &call->parts[i];
        void *const data = (unsigned char *)call->out + part->begin * element_bytes;
        st = redco_broadcast(c, call->dtype, data, part->count, part->root, call->what, err);
    }
    return st;
}

static redco_status run(redco_team *team, redco_lane lane, const redco_team_call *call, redco_error *err)
{
    redco_communicator *const c = ((struct host_team *)team)->communicator;
    const redco_status st = lane.backend->calls->queue_finish(lane.backend, lane.queue, err);
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

static void free_team(redco_team *team)
{
    struct host_team *const own = (struct host_team *)team;
    redco_communicator_free(own->communicator);
    free(own);
}

static void close_carrier(redco_carrier *carrier)
{
    free(carrier);
}

static const redco_carrier_calls calls = {
    .name = "host", .split = split, .run = run, .free_team = free_team, .close = close_carrier};

redco_status redco_host_carrier_open(redco_world *world, redco_carrier **carrier_out, redco_error *err)
{
    struct host_carrier *const carrier = calloc(1, sizeof *carrier);
    if (carrier == NULL) { return redco_fail(err, REDCO_ENOMEM, "carrier", "out of memory"); }
    carrier->base = (redco_carrier){&calls, redco_world_rank(world), redco_world_size(world)};
    carrier->world = world;
    *carrier_out = &carrier->base;
    return REDCO_OK;
}
