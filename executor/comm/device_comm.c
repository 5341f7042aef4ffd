#include "executor/comm/device_comm.h"

#include "executor/comm/transport.h"

#include <stdio.h>
#include <stdlib.h>

/* The ranks of this rank's colour. @return their number */
static uint32_t members_of(const redco_device_comm *device_comm, const uint32_t *colours, uint32_t *ranks_out,
                           uint32_t *own_out)
{
    uint32_t count = 0;
    for (uint32_t rank = 0; rank < device_comm->size; rank++) {
        if (colours[rank] != colours[device_comm->rank]) { continue; }
        if (rank == device_comm->rank) { *own_out = count; }
        ranks_out[count++] = rank;
    }
    return count;
}

redco_status redco_process_group_split(redco_device_comm *device_comm, const redco_process_group_options *options,
                                       redco_process_group **group_out, redco_error *err)
{
    uint32_t own = 0;
    redco_process_group *process_group = NULL;
    uint32_t *const ranks = calloc((size_t)device_comm->size + 1, sizeof *ranks);
    if (ranks == NULL) {
        return redco_fail(err, REDCO_ENOMEM, options->name, "a process group of %u ranks", device_comm->size);
    }
    const uint32_t size = members_of(device_comm, options->colours, ranks, &own);
    const redco_status st = device_comm->calls->split(
        device_comm, options, &(redco_process_group_members){ranks, size, own}, &process_group, err);
    free(ranks);
    if (st != REDCO_OK) { return st; }
    process_group->device_comm = device_comm;
    process_group->rank = own;
    process_group->size = size;
    process_group->traffic = options->traffic;
    (void)snprintf(process_group->name, sizeof process_group->name, "%s", options->name);
    *group_out = process_group;
    return REDCO_OK;
}

void redco_process_group_free(redco_process_group *process_group)
{
    if (process_group != NULL) { process_group->device_comm->calls->free_process_group(process_group); }
}

uint32_t redco_process_group_size(const redco_process_group *process_group)
{
    return process_group->size;
}

redco_status redco_device_comm_check(redco_device_comm *device_comm, redco_error *err)
{
    return device_comm->calls->check == NULL ? REDCO_OK : device_comm->calls->check(device_comm, err);
}

void redco_device_comm_close(redco_device_comm *device_comm)
{
    if (device_comm != NULL) { device_comm->calls->close(device_comm); }
}

uint64_t redco_process_group_call_elements(const redco_process_group *process_group,
                                           const redco_process_group_call *call)
{
    uint64_t elements = 0;
    if (call->begin != NULL) { return call->begin[process_group->size] - call->begin[0]; }
    switch (call->kind) {
    case REDCO_ALL_REDUCE: return call->count;
    case REDCO_BROADCAST:
        for (uint32_t i = 0; i < call->part_count; i++) { elements += call->parts[i].count; }
        return elements;
    default: return call->count * process_group->size;
    }
}

/* Sums need a type that has one. */
static redco_status check_sum(const redco_process_group_call *call, redco_error *err)
{
    return redcoi_has_sum(call->dtype) ? REDCO_OK : redcoi_no_sum(call->dtype, call->what, err);
}

/* The part of a call that is left in a process group of one. */
static redco_status alone(redco_stream_handle on, const redco_process_group_call *call, redco_error *err)
{
    const uint64_t bytes = call->count * redco_dtype_bytes(call->dtype);
    if (call->in == call->out || bytes == 0) { return REDCO_OK; }
    return on.backend->calls->copy(on.backend, on.stream, call->out, call->in, bytes, err);
}

static redco_status run(redco_process_group *process_group, redco_stream_handle on,
                        const redco_process_group_call *call, redco_error *err)
{
    if (process_group->size == 1) { return alone(on, call, err); }
    if (redco_process_group_call_elements(process_group, call) == 0) { return REDCO_OK; }
    return process_group->device_comm->calls->run(process_group, on, call, err);
}

redco_status redco_process_group_all_reduce(redco_process_group *process_group, redco_stream_handle on,
                                            redco_dtype dtype, redco_reduction reduction, void *data, uint64_t count,
                                            const char *what, redco_error *err)
{
    const redco_process_group_call call = {.kind = REDCO_ALL_REDUCE,
                                           .dtype = dtype,
                                           .reduction = reduction,
                                           .in = data,
                                           .out = data,
                                           .count = count,
                                           .what = what};
    const redco_status st = check_sum(&call, err);
    return st == REDCO_OK ? run(process_group, on, &call, err) : st;
}

redco_status redco_process_group_reduce_scatter(redco_process_group *process_group, redco_stream_handle on,
                                                redco_dtype dtype, redco_reduction reduction, const void *in, void *out,
                                                uint64_t count, const char *what, redco_error *err)
{
    const redco_process_group_call call = {.kind = REDCO_REDUCE_SCATTER,
                                           .dtype = dtype,
                                           .reduction = reduction,
                                           .in = in,
                                           .out = out,
                                           .count = count,
                                           .what = what};
    const redco_status st = check_sum(&call, err);
    return st == REDCO_OK ? run(process_group, on, &call, err) : st;
}

redco_status redco_process_group_reduce_scatter_parts(redco_process_group *process_group, redco_stream_handle on,
                                                      redco_dtype dtype, redco_reduction reduction, void *data,
                                                      const uint64_t *begin, const char *what, redco_error *err)
{
    const redco_process_group_call call = {.kind = REDCO_REDUCE_SCATTER,
                                           .dtype = dtype,
                                           .reduction = reduction,
                                           .in = data,
                                           .out = data,
                                           .begin = begin,
                                           .what = what};
    const redco_status st = check_sum(&call, err);
    return st == REDCO_OK ? run(process_group, on, &call, err) : st;
}

/* Rank order needs no list of its own. */
static bool in_rank_order(const redco_process_group *process_group, const uint32_t *order)
{
    for (uint32_t r = 0; order != NULL && r < process_group->size; r++) {
        if (order[r] != r) { return false; }
    }
    return true;
}

static void *shard_of(const redco_process_group *process_group, redco_dtype dtype, void *data, uint64_t count)
{
    return (unsigned char *)data + process_group->rank * count * redco_dtype_bytes(dtype);
}

redco_status redco_process_group_reduce_scatter_ordered(redco_process_group *process_group, redco_stream_handle on,
                                                        redco_dtype dtype, redco_reduction reduction, void *data,
                                                        const uint32_t *order, uint64_t count, const char *what,
                                                        redco_error *err)
{
    const redco_process_group_call call = {.kind = REDCO_REDUCE_SCATTER,
                                           .dtype = dtype,
                                           .reduction = reduction,
                                           .in = data,
                                           .out = data,
                                           .count = count,
                                           .order = order,
                                           .what = what};
    const redco_status st = check_sum(&call, err);
    if (st != REDCO_OK) { return st; }
    if (in_rank_order(process_group, order)) {
        return redco_process_group_reduce_scatter(process_group, on, dtype, reduction, data,
                                                  shard_of(process_group, dtype, data, count), count, what, err);
    }
    return run(process_group, on, &call, err);
}

redco_status redco_process_group_all_gather(redco_process_group *process_group, redco_stream_handle on,
                                            redco_dtype dtype, const void *in, void *out, uint64_t count,
                                            const char *what, redco_error *err)
{
    const redco_process_group_call call = {
        .kind = REDCO_ALL_GATHER, .dtype = dtype, .in = in, .out = out, .count = count, .what = what};
    return run(process_group, on, &call, err);
}

redco_status redco_process_group_all_gather_ordered(redco_process_group *process_group, redco_stream_handle on,
                                                    redco_dtype dtype, void *data, const uint32_t *order,
                                                    uint64_t count, const char *what, redco_error *err)
{
    const redco_process_group_call call = {.kind = REDCO_ALL_GATHER,
                                           .dtype = dtype,
                                           .in = data,
                                           .out = data,
                                           .count = count,
                                           .order = order,
                                           .what = what};
    if (in_rank_order(process_group, order)) {
        return redco_process_group_all_gather(process_group, on, dtype, shard_of(process_group, dtype, data, count),
                                              data, count, what, err);
    }
    return run(process_group, on, &call, err);
}

redco_status redco_process_group_broadcast(redco_process_group *process_group, redco_stream_handle on,
                                           redco_dtype dtype, void *data, const redco_process_group_part *parts,
                                           uint32_t part_count, const char *what, redco_error *err)
{
    const redco_process_group_call call = {.kind = REDCO_BROADCAST,
                                           .dtype = dtype,
                                           .in = data,
                                           .out = data,
                                           .parts = parts,
                                           .part_count = part_count,
                                           .what = what};
    for (uint32_t i = 0; i < part_count; i++) {
        if (parts[i].root < process_group->size) { continue; }
        return redco_fail(err, REDCO_EVALUE, what, "broadcast from rank %u of a group of %u", parts[i].root,
                          process_group->size);
    }
    return run(process_group, on, &call, err);
}
