/* Collectives as NCCL's calls. */
#include "executor/comm/nccl/nccl_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static ncclDataType_t type_of(redco_dtype dtype)
{
    switch (dtype) {
    case REDCO_F64: return ncclFloat64;
    case REDCO_F32: return ncclFloat32;
    case REDCO_BFLOAT16: return ncclBfloat16;
    case REDCO_F16: return ncclFloat16;
    case REDCO_I32: return ncclInt32;
    default: return ncclUint8; /* bytes, which are never summed */
    }
}

/* The arguments of NCCL's calls. */
struct issue {
    const redcoi_nccl_library *nccl;
    redcoi_nccl_process_group *process_group;
    const redco_process_group_call *call;
    ncclComm_t comm;
    CUstream stream;
    ncclDataType_t type;
    ncclRedOp_t op;
    size_t element_bytes;
};

static void *at(const struct issue *i, uint64_t element)
{
    return (unsigned char *)i->call->out + element * i->element_bytes;
}

/* Ends a group, also after a call of it failed. */
static ncclResult_t end_group(const struct issue *i, ncclResult_t result)
{
    const ncclResult_t ended = i->nccl->group_end();
    return result == ncclSuccess || result == ncclInProgress ? ended : result;
}

static ncclResult_t broadcasts(const struct issue *i)
{
    const redco_process_group_call *const call = i->call;
    ncclResult_t result = i->nccl->group_start();
    if (result != ncclSuccess) { return result; }
    for (uint32_t p = 0; p < call->part_count && result == ncclSuccess; p++) {
        void *const data = at(i, call->parts[p].begin);
        if (call->parts[p].count == 0) { continue; }
        result =
            i->nccl->broadcast(data, data, call->parts[p].count, i->type, (int)call->parts[p].root, i->comm, i->stream);
    }
    return end_group(i, result);
}

static bool equal_parts(const struct issue *i)
{
    const uint64_t *const begin = i->call->begin;
    for (uint32_t r = 1; r < i->process_group->base.size; r++) {
        if (begin[r + 1] - begin[r] != begin[1] - begin[0]) { return false; }
    }
    return true;
}

static ncclResult_t parts(const struct issue *i)
{
    const uint64_t *const begin = i->call->begin;
    const uint32_t rank = i->process_group->base.rank;
    if (equal_parts(i)) {
        return i->nccl->reduce_scatter(at(i, begin[0]), at(i, begin[rank]), begin[1] - begin[0], i->type, i->op,
                                       i->comm, i->stream);
    }
    ncclResult_t result = i->nccl->group_start();
    if (result != ncclSuccess) { return result; }
    for (uint32_t r = 0; r < i->process_group->base.size && result == ncclSuccess; r++) {
        void *const data = at(i, begin[r]);
        if (begin[r + 1] == begin[r]) { continue; }
        result = i->nccl->reduce(data, r == rank ? data : NULL, begin[r + 1] - begin[r], i->type, i->op, (int)r,
                                 i->comm, i->stream);
    }
    return end_group(i, result);
}

static ncclResult_t issue_call(const struct issue *i)
{
    const redco_process_group_call *const call = i->call;
    /* Where this rank's shard begins in a buffer of shards in another order. */
    const uint64_t own = call->order != NULL ? call->order[i->process_group->base.rank] * call->count : 0;
    if (call->begin != NULL) { return parts(i); }
    switch (call->kind) {
    case REDCO_ALL_REDUCE:
        return i->nccl->all_reduce(call->in, call->out, call->count, i->type, i->op, i->comm, i->stream);
    case REDCO_REDUCE_SCATTER:
        return i->nccl->reduce_scatter(call->in, call->order != NULL ? at(i, own) : call->out, call->count, i->type,
                                       i->op, i->comm, i->stream);
    case REDCO_ALL_GATHER:
        return i->nccl->all_gather(call->order != NULL ? at(i, own) : call->in, call->out, call->count, i->type,
                                   i->comm, i->stream);
    default: break;
    }
    return broadcasts(i);
}

static bool has_order(const redcoi_nccl_process_group *process_group, const redcoi_nccl_comm *c, const uint32_t *order)
{
    return c->order != NULL && memcmp(c->order, order, process_group->base.size * sizeof *order) == 0;
}

static redcoi_nccl_comm *find_comm(const redcoi_nccl_process_group *process_group, const uint32_t *order)
{
    redcoi_nccl_comm *c = process_group->comms;
    while (order != NULL && c != NULL && !has_order(process_group, c, order)) { c = c->next; }
    return c;
}

static redco_status order_comm(redcoi_nccl_process_group *process_group, const redco_process_group_call *call,
                               redcoi_nccl_comm **comm_out, redco_error *err)
{
    const size_t bytes = process_group->base.size * sizeof *call->order;
    redcoi_nccl_comm *const c = calloc(1, sizeof *c);
    if (c == NULL || (c->order = malloc(bytes)) == NULL) {
        free(c);
        return redco_fail(err, REDCO_ENOMEM, call->what, "a communicator of another order");
    }
    memcpy(c->order, call->order, bytes);
    c->next = process_group->comms->next;
    process_group->comms->next = c;
    *comm_out = c;
    const redcoi_nccl_split split = {0, (int)call->order[process_group->base.rank], process_group->base.traffic,
                                     call->what};
    return redcoi_nccl_split_comm(process_group, &split, c, err);
}

/* Under the process group's lock. */
static redco_status run(redcoi_nccl_process_group *process_group, redco_stream_handle on,
                        const redco_process_group_call *call, redco_error *err)
{
    redcoi_nccl_device_comm *const device_comm = process_group->device_comm;
    struct issue i = {.nccl = &device_comm->nccl,
                      .process_group = process_group,
                      .call = call,
                      .stream = on.stream->handle,
                      .type = type_of(call->dtype),
                      .op = call->reduction == REDCO_REDUCE_MAX ? ncclMax : ncclSum,
                      .element_bytes = redco_dtype_bytes(call->dtype)};
    redcoi_nccl_comm *c = find_comm(process_group, call->order);
    redco_status st = redcoi_nccl_failure(device_comm, err);
    if (st == REDCO_OK && atomic_load(&device_comm->left)) {
        atomic_store(&device_comm->world->broken, true); /* by another rank */
        st = redco_fail(err, REDCO_ESYSTEM, call->what, "rank %u: another rank has left", device_comm->base.rank);
    }
    if (st == REDCO_OK) { st = redcoi_cuda_enter((const redcoi_cuda *)on.backend, err); }
    if (st == REDCO_OK && c == NULL) { st = order_comm(process_group, call, &c, err); }
    if (st != REDCO_OK) { return st; }
    i.comm = c->comm;
    (void)snprintf(process_group->last, sizeof process_group->last, "%s", call->what);
    return redcoi_nccl_await(process_group, issue_call(&i), &i.comm, call->what, err);
}

redco_status redcoi_nccl_run(redco_process_group *base, redco_stream_handle on, const redco_process_group_call *call,
                             redco_error *err)
{
    redcoi_nccl_process_group *const process_group = (redcoi_nccl_process_group *)base;
    redco_status st = REDCO_OK;
    redcoi_nccl_notice(process_group->device_comm, call->what);
    /* Nothing may be under way on a communicator that is split; while this waits, it can be given up. */
    if (find_comm(process_group, call->order) == NULL) {
        st = on.backend->calls->stream_finish(on.backend, on.stream, err);
    }
    if (st != REDCO_OK) { return st; }
    (void)pthread_mutex_lock(&process_group->calls);
    st = run(process_group, on, call, err);
    (void)pthread_mutex_unlock(&process_group->calls);
    if (st != REDCO_OK) { redcoi_nccl_break(process_group->device_comm, err); }
    return st;
}
