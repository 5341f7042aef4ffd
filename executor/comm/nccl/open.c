/* The device communicator of NCCL and its process groups: opened, split, given back. */
#include "executor/comm/nccl/nccl_internal.h"

#include <stdlib.h>

static const double default_timeout_s = 60.0;
/* See redco_nccl_options. */
enum { CTAS_ALONE = 32, CTAS_BESIDE = 16 };

/* @param cuda  NULL: from where the loader looks */
static redco_status open_library(const redcoi_cuda *cuda, redcoi_nccl_library *nccl, redco_error *err)
{
#define REDCOI_SYMBOL(member, name) {#name, (void (**)(void))(void *)&nccl->member},
    const redcoi_symbol symbols[] = {REDCOI_NCCL_CALLS(REDCOI_SYMBOL)};
#undef REDCOI_SYMBOL
    return redcoi_library_open_kind(cuda != NULL ? cuda->device : NULL, REDCO_CUDA_LIBRARY_NCCL, symbols,
                                    sizeof symbols / sizeof symbols[0], &nccl->library, err);
}

static redco_status check_version(const redcoi_nccl_library *nccl, bool share, redco_error *err)
{
    int version = 0;
    const int oldest = share ? REDCO_NCCL_OLDEST_SHARING : REDCO_NCCL_OLDEST;
    char path[REDCO_CUDA_PATH_BYTES];
    if (nccl->get_version(&version) == ncclSuccess && version >= oldest) { return REDCO_OK; }
    redcoi_library_path(nccl->library, path);
    return redco_fail(err, REDCO_ESYSTEM, "nccl", "NCCL %d.%d.%d is too old (%s): %d.%d or newer is wanted%s",
                      version / 10000, version / 100 % 100, version % 100, path, oldest / 10000, oldest / 100 % 100,
                      share ? " where ranks share a GPU" : "");
}

uint32_t redco_nccl_version(void)
{
    redcoi_nccl_library nccl = {.library = NULL};
    int version = 0;
    if (open_library(NULL, &nccl, NULL) != REDCO_OK) { return 0; }
    if (nccl.get_version(&version) != ncclSuccess) { version = 0; }
    redcoi_library_close(nccl.library);
    return (uint32_t)version;
}

/* Rank 0's, to all. A rank 0 that has none says so, too. */
static redco_status share_id(redcoi_nccl_device_comm *device_comm, ncclUniqueId *id_out, redco_error *err)
{
    struct {
        int32_t result;
        ncclUniqueId id;
    } told = {.result = ncclSuccess};
    _Static_assert(sizeof told % sizeof(int32_t) == 0, "sent as numbers of 32 bits");
    if (device_comm->base.rank == 0) { told.result = (int32_t)device_comm->nccl.get_unique_id(&told.id); }
    const redco_status st =
        redco_broadcast(device_comm->heartbeat, REDCO_I32, &told, sizeof told / sizeof(int32_t), 0, "nccl/id", err);
    if (st != REDCO_OK) { return st; }
    *id_out = told.id;
    return redcoi_nccl_check(&device_comm->root, (ncclResult_t)told.result, "nccl: ncclGetUniqueId", err);
}

static redco_status open_root(redcoi_nccl_device_comm *device_comm, ncclUniqueId id, redco_error *err)
{
    ncclConfig_t config = redcoi_nccl_config(device_comm, REDCO_TRAFFIC_OTHER);
    device_comm->root.comms = calloc(1, sizeof *device_comm->root.comms);
    if (device_comm->root.comms == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "nccl", "the communicator of all ranks");
    }
    redco_status st = redcoi_cuda_enter(device_comm->cuda, err);
    if (st != REDCO_OK) { return st; }
    (void)pthread_mutex_lock(&device_comm->root.calls);
    const ncclResult_t begun = device_comm->nccl.init_rank(&device_comm->root.comms->comm, (int)device_comm->base.size,
                                                           id, (int)device_comm->base.rank, &config);
    st = redcoi_nccl_await(&device_comm->root, begun, &device_comm->root.comms->comm, "nccl: ncclCommInitRankConfig",
                           err);
    (void)pthread_mutex_unlock(&device_comm->root.calls);
    return st;
}

/* Communicators of a rank that failed, or that may never end, are given up; others are left in order. What NCCL may
 * still put one into is kept until its parent was given up. */
static void close_comm(redcoi_nccl_process_group *process_group, redcoi_nccl_comm *c)
{
    redcoi_nccl_device_comm *const device_comm = process_group->device_comm;
    ncclComm_t comm = __atomic_load_n(&c->comm, __ATOMIC_ACQUIRE);
    redco_error err = {.status = REDCO_OK};
    if (comm == NULL && c->begun) {
        c->next = device_comm->abandoned;
        device_comm->abandoned = c;
        return;
    }
    if (comm != NULL && redcoi_cuda_enter(device_comm->cuda, NULL) == REDCO_OK) {
        bool ended = !atomic_load(&device_comm->broken);
        if (ended) {
            ended = redcoi_nccl_await(process_group, device_comm->nccl.finalize(comm), &comm, "nccl: ncclCommFinalize",
                                      &err) == REDCO_OK;
        }
        (void)(ended ? device_comm->nccl.destroy(comm) : device_comm->nccl.abort(comm));
    }
    free(c->order);
    free(c);
}

/* Those of other orders first: they were split from the process group's. */
static void close_comms(redcoi_nccl_process_group *process_group)
{
    (void)pthread_mutex_lock(&process_group->calls);
    while (process_group->comms != NULL && process_group->comms->next != NULL) {
        redcoi_nccl_comm *const c = process_group->comms->next;
        process_group->comms->next = c->next;
        close_comm(process_group, c);
    }
    if (process_group->comms != NULL) { close_comm(process_group, process_group->comms); }
    process_group->comms = NULL;
    (void)pthread_mutex_unlock(&process_group->calls);
}

static void free_process_group(redco_process_group *base)
{
    redcoi_nccl_process_group *const process_group = (redcoi_nccl_process_group *)base;
    redcoi_nccl_device_comm *const device_comm = process_group->device_comm;
    (void)pthread_mutex_lock(&device_comm->list);
    for (redcoi_nccl_process_group **at = &device_comm->process_groups; *at != NULL; at = &(*at)->next) {
        if (*at == process_group) {
            *at = process_group->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&device_comm->list);
    close_comms(process_group);
    (void)pthread_mutex_destroy(&process_group->calls);
    free(process_group);
}

static redco_status split(redco_device_comm *base, const redco_process_group_options *options,
                          const redco_process_group_members *members, redco_process_group **group_out, redco_error *err)
{
    redcoi_nccl_device_comm *const device_comm = (redcoi_nccl_device_comm *)base;
    redcoi_nccl_process_group *const process_group = calloc(1, sizeof *process_group);
    redcoi_nccl_comm *const comm = calloc(1, sizeof *comm);
    if (process_group == NULL || comm == NULL || pthread_mutex_init(&process_group->calls, NULL) != 0) {
        free(process_group);
        free(comm);
        return redco_fail(err, REDCO_ENOMEM, options->name, "a process group");
    }
    process_group->device_comm = device_comm;
    redco_status st = redcoi_nccl_failure(device_comm, err);
    if (st == REDCO_OK && base->size > 1) {
        process_group->comms = comm;
        redcoi_nccl_notice(device_comm, options->name);
        (void)pthread_mutex_lock(&device_comm->root.calls);
        st = redcoi_nccl_split_comm(
            &device_comm->root,
            &(redcoi_nccl_split){(int)members->ranks[0], (int)members->own, options->traffic, options->name}, comm,
            err);
        (void)pthread_mutex_unlock(&device_comm->root.calls);
    } else {
        free(comm);
    }
    if (st != REDCO_OK) { /* a call that hangs is given up, and the others hear of it */
        redcoi_nccl_break(device_comm, err);
        free_process_group(&process_group->base);
        return st;
    }
    (void)pthread_mutex_lock(&device_comm->list);
    process_group->next = device_comm->process_groups;
    device_comm->process_groups = process_group;
    (void)pthread_mutex_unlock(&device_comm->list);
    *group_out = &process_group->base;
    return REDCO_OK;
}

static redco_status check(redco_device_comm *base, redco_error *err)
{
    return redcoi_nccl_failure((redcoi_nccl_device_comm *)base, err);
}

static void close_device_comm(redco_device_comm *base)
{
    redcoi_nccl_device_comm *const device_comm = (redcoi_nccl_device_comm *)base;
    redcoi_nccl_unwatch(device_comm);
    close_comms(&device_comm->root);
    while (device_comm->abandoned != NULL) {
        redcoi_nccl_comm *const c = device_comm->abandoned;
        device_comm->abandoned = c->next;
        c->begun =
            __atomic_load_n(&c->comm, __ATOMIC_ACQUIRE) == NULL; /* then it may still be written: lost for good */
        if (!c->begun) { close_comm(&device_comm->root, c); }
    }
    redco_communicator_free(device_comm->heartbeat);
    redcoi_library_close(device_comm->nccl.library);
    (void)pthread_cond_destroy(&device_comm->changed);
    (void)pthread_mutex_destroy(&device_comm->lock);
    (void)pthread_mutex_destroy(&device_comm->list);
    (void)pthread_mutex_destroy(&device_comm->root.calls);
    free(device_comm);
}

static const redco_device_comm_calls calls = {.name = "nccl",
                                              .split = split,
                                              .run = redcoi_nccl_run,
                                              .free_process_group = free_process_group,
                                              .check = check,
                                              .close = close_device_comm};

static void fill_options(redcoi_nccl_device_comm *device_comm, const redco_nccl_options *options)
{
    if (options != NULL) { device_comm->options = *options; }
    redco_nccl_options *const o = &device_comm->options;
    if (!(o->timeout_s > 0.0)) { o->timeout_s = default_timeout_s; }
    for (int t = 0; t < REDCO_TRAFFIC_COUNT; t++) {
        const bool alone = t == REDCO_TRAFFIC_TENSOR || t == REDCO_TRAFFIC_OTHER;
        if (o->most_ctas[t] == 0) { o->most_ctas[t] = alone ? CTAS_ALONE : CTAS_BESIDE; }
    }
}

static redco_status join(redcoi_nccl_device_comm *device_comm, redco_error *err)
{
    ncclUniqueId id;
    uint32_t *const colours = calloc(device_comm->base.size, sizeof *colours);
    if (colours == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "nccl", "colours of %u ranks", device_comm->base.size);
    }
    redco_status st = redco_communicator_split(device_comm->world, colours, "nccl", &device_comm->heartbeat, err);
    free(colours);
    if (st == REDCO_OK) { st = open_library(device_comm->cuda, &device_comm->nccl, err); }
    if (st == REDCO_OK) { st = check_version(&device_comm->nccl, device_comm->options.share, err); }
    if (st == REDCO_OK) { st = share_id(device_comm, &id, err); } /* before the thread has the communicator */
    if (st == REDCO_OK) { st = redcoi_nccl_watch(device_comm, err); }
    return st == REDCO_OK ? open_root(device_comm, id, err) : st;
}

redco_status redco_nccl_open(redco_world *world, redco_backend *backend, const redco_nccl_options *options,
                             redco_device_comm **device_comm_out, redco_error *err)
{
    if (!backend->calls->cuda) {
        return redco_fail(err, REDCO_EVALUE, "nccl", "the %s backend is no CUDA device", backend->calls->name);
    }
    redcoi_nccl_device_comm *const device_comm = calloc(1, sizeof *device_comm);
    if (device_comm == NULL || pthread_mutex_init(&device_comm->lock, NULL) != 0 ||
        pthread_mutex_init(&device_comm->list, NULL) != 0 || pthread_mutex_init(&device_comm->root.calls, NULL) != 0 ||
        pthread_cond_init(&device_comm->changed, NULL) != 0) {
        free(device_comm);
        return redco_fail(err, REDCO_ENOMEM, "nccl", "no memory to open it");
    }
    device_comm->base = (redco_device_comm){&calls, redco_world_rank(world), redco_world_size(world)};
    device_comm->world = world;
    device_comm->cuda = (const redcoi_cuda *)backend;
    device_comm->root.device_comm = device_comm;
    device_comm->root.base = (redco_process_group){&device_comm->base, device_comm->base.rank, device_comm->base.size,
                                                   REDCO_TRAFFIC_OTHER, "all"};
    fill_options(device_comm, options);
    const redco_status st = device_comm->base.size > 1 ? join(device_comm, err) : REDCO_OK;
    if (st != REDCO_OK) {
        redcoi_nccl_break(device_comm, err);
        close_device_comm(&device_comm->base);
        return st;
    }
    *device_comm_out = &device_comm->base;
    return REDCO_OK;
}
