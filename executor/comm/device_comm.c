#include "executor/comm/device_comm.h"

#include "executor/comm/transport.h"

#include <stdio.h>
#include <stdlib.h>

/* The ranks of this rank's colour. @return their number */
static uint32_t members_of(const redco_carrier *carrier, const uint32_t *colours, uint32_t *ranks_out,
                           uint32_t *own_out)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < carrier->size; rank++) {
        if (colours[rank] != colours[carrier->rank]) { continue; }
        if (rank == carrier->rank) { *own_out = count; }
        ranks_out[count++] = rank;
    }
    return count;
}

redco_status redco_team_split(redco_carrier *carrier, const redco_team_options *options, redco_team **team_out,
                              redco_error *err)
{
    uint32_t own = 0;
    redco_team *team = NULL;
    uint32_t *const ranks = calloc((size_t)carrier->size + 1, sizeof *ranks);
    if (ranks == NULL) { return redco_fail(err, REDCO_ENOMEM, options->name, "a team of %u ranks", carrier->size); }
    const uint32_t size = members_of(carrier, options->colours, ranks, &own);
    const redco_status st =
        carrier->calls->split(carrier, options, &(redco_team_members){ranks, size, own}, &team, err);
    free(ranks);
    if (st != REDCO_OK) { return st; }
    team->carrier = carrier;
    team->rank = own;
    team->size = size;
    team->traffic = options->traffic;
    (void)snprintf(team->name, sizeof team->name, "%s", options->name);
    *team_out = team;
    return REDCO_OK;
}

void redco_team_free(redco_team *team)
{
    if (team != NULL) { team->carrier->calls->free_team(team); }
}

uint32_t redco_team_rank(const redco_team *team)
{
    return team->rank;
}

uint32_t redco_team_size(const redco_team *team)
{
    return team->size;
}

redco_status redco_carrier_check(redco_carrier *carrier, redco_error *err)
{
    return carrier->calls->check == NULL ? REDCO_OK : carrier->calls->check(carrier, err);
}

void redco_carrier_close(redco_carrier *carrier)
{
    if (carrier != NULL) { carrier->calls->close(carrier); }
}

uint64_t redco_team_call_elements(const redco_team *team, const redco_team_call *call)
{
    uint64_t elements = 0;
    if (call->begin != NULL) { return call->begin[team->size] - call->begin[0]; }
    switch (call->kind) {
    case REDCO_ALL_REDUCE: return call->count;
    case REDCO_BROADCAST:
        for (uint32_t i = 0; i < call->part_count; i++) { elements += call->parts[i].count; }
        return elements;
    default: return call->count * team->size;
    }
}

/* Sums need a type that has one. */
static redco_status check_sum(const redco_team_call *call, redco_error *err)
{
    return redcoi_has_sum(call->dtype) ? REDCO_OK : redcoi_no_sum(call->dtype, call->what, err);
}

/* The part of a call that is left in a team of one. */
static redco_status alone(redco_lane lane, const redco_team_call *call, redco_error *err)
{
    const uint64_t bytes = call->count * redco_dtype_bytes(call->dtype);
    if (call->in == call->out || bytes == 0) { return REDCO_OK; }
    return lane.backend->calls->copy(lane.backend, lane.queue, call->out, call->in, bytes, err);
}

static redco_status run(redco_team *team, redco_lane lane, const redco_team_call *call, redco_error *err)
{
    if (team->size == 1) { return alone(lane, call, err); }
    if (redco_team_call_elements(team, call) == 0) { return REDCO_OK; }
    return team->carrier->calls->run(team, lane, call, err);
}

redco_status redco_team_all_reduce(redco_team *team, redco_lane lane, redco_dtype dtype, redco_reduction reduction,
                                   void *data, uint64_t count, const char *what, redco_error *err)
{
    const redco_team_call call = {.kind = REDCO_ALL_REDUCE,
                                  .dtype = dtype,
                                  .reduction = reduction,
                                  .in = data,
                                  .out = data,
                                  .count = count,
                                  .what = what};
    const redco_status st = check_sum(&call, err);
    return st == REDCO_OK ? run(team, lane, &call, err) : st;
}

redco_status redco_team_reduce_scatter(redco_team *team, redco_lane lane, redco_dtype dtype, redco_reduction reduction,
                                       const void *in, void *out, uint64_t count, const char *what, redco_error *err)
{
    const redco_team_call call = {.kind = REDCO_REDUCE_SCATTER,
                                  .dtype = dtype,
                                  .reduction = reduction,
                                  .in = in,
                                  .out = out,
                                  .count = count,
                                  .what = what};
    const redco_status st = check_sum(&call, err);
    return st == REDCO_OK ? run(team, lane, &call, err) : st;
}

redco_status redco_team_reduce_scatter_parts(redco_team *team, redco_lane lane, redco_dtype dtype,
                                             redco_reduction reduction, void *data, const uint64_t *begin,
                                             const char *what, redco_error *err)
{
    const redco_team_call call = {.kind = REDCO_REDUCE_SCATTER,
                                  .dtype = dtype,
                                  .reduction = reduction,
                                  .in = data,
                                  .out = data,
                                  .begin = begin,
                                  .what = what};
    const redco_status st = check_sum(&call, err);
    return st == REDCO_OK ? run(team, lane, &call, err) : st;
}

/* Rank order needs no list of its own. */
static bool in_rank_order(const redco_team *team, const uint32_t *order)
{
    for (uint32_t r = 0; order != NULL && r < team->size; r++) {
        if (order[r] != r) { return false; }
    }
    return true;
}

static void *shard_of(const redco_team *team, redco_dtype dtype, void *data, uint64_t count)
{
    return (unsigned char *)data + team->rank * count * redco_dtype_bytes(dtype);
}

redco_status redco_team_reduce_scatter_ordered(redco_team *team, redco_lane lane, redco_dtype dtype,
                                               redco_reduction reduction, void *data, const uint32_t *order,
                                               uint64_t count, const char *what, redco_error *err)
{
    const redco_team_call call = {.kind = REDCO_REDUCE_SCATTER,
                                  .dtype = dtype,
                                  .reduction = reduction,
                                  .in = data,
                                  .out = data,
                                  .count = count,
                                  .order = order,
                                  .what = what};
    const redco_status st = check_sum(&call, err);
    if (st != REDCO_OK) { return st; }
    if (in_rank_order(team, order)) {
        return redco_team_reduce_scatter(team, lane, dtype, reduction, data, shard_of(team, dtype, data, count), count,
                                         what, err);
    }
    return run(team, lane, &call, err);
}

redco_status redco_team_all_gather(redco_team *team, redco_lane lane, redco_dtype dtype, const void *in, void *out,
                                   uint64_t count, const char *what, redco_error *err)
{
    const redco_team_call call = {
        .kind = REDCO_ALL_GATHER, .dtype = dtype, .in = in, .out = out, .count = count, .what = what};
    return run(team, lane, &call, err);
}

redco_status redco_team_all_gather_ordered(redco_team *team, redco_lane lane, redco_dtype dtype, void *data,
                                           const uint32_t *order, uint64_t count, const char *what, redco_error *err)
{
    const redco_team_call call = {.kind = REDCO_ALL_GATHER,
                                  .dtype = dtype,
                                  .in = data,
                                  .out = data,
                                  .count = count,
                                  .order = order,
                                  .what = what};
    if (in_rank_order(team, order)) {
        return redco_team_all_gather(team, lane, dtype, shard_of(team, dtype, data, count), data, count, what, err);
    }
    return run(team, lane, &call, err);
}

redco_status redco_team_broadcast(redco_team *team, redco_lane lane, redco_dtype dtype, void *data,
                                  const redco_team_part *parts, uint32_t part_count, const char *what, redco_error *err)
{
    const redco_team_call call = {.kind = REDCO_BROADCAST,
                                  .dtype = dtype,
                                  .in = data,
                                  .out = data,
                                  .parts = parts,
                                  .part_count = part_count,
                                  .what = what};
    for (uint32_t i = 0; i < part_count; i++) {
        if (parts[i].root < team->size) { continue; }
        return redco_fail(err, REDCO_EVALUE, what, "broadcast from rank %u of a group of %u", parts[i].root,
                          team->size);
    }
    return run(team, lane, &call, err);
}
