/* Communicators of NCCL: made, split, given back. */
#include "executor/comm/nccl/nccl_internal.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const double default_timeout_s = 60.0;
/* See redco_nccl_options. */
enum { CTAS_ALONE = 32, CTAS_BESIDE = 16 };
/* A call is queued after some ten microseconds, communicators take much longer. */
enum { LOOKS_AT_ONCE = 500 };

/* @param cuda  NULL: from where the loader looks */
static redco_status open_library(const redcoi_cuda *cuda, redcoi_nccl_library *nccl, redco_error *err)
{
#define REDCOI_SYMBOL(member, name) {#name, (void (**)(void))(void *)&nccl->member},
    const redcoi_symbol symbols[] = {REDCOI_NCCL_CALLS(REDCOI_SYMBOL)};
#undef REDCOI_SYMBOL
    return redcoi_library_open_kind(cuda != NULL ? cuda->device : NULL, REDCO_CUDA_LIBRARY_NCCL, symbols,
                                    sizeof symbols / sizeof symbols[0], &nccl->library, err);
}

static redco_status check_version(const redcoi_nccl_library *nccl, redco_error *err)
{
    int version = 0;
    char path[REDCO_CUDA_PATH_BYTES];
    if (nccl->get_version(&version) == ncclSuccess && version >= REDCO_NCCL_OLDEST) { return REDCO_OK; }
    redcoi_library_path(nccl->library, path);
    return redco_fail(err, REDCO_ESYSTEM, "nccl", "NCCL %d.%d.%d is too old (%s): %d.%d or newer is wanted",
                      version / 10000, version / 100 % 100, version % 100, path, REDCO_NCCL_OLDEST / 10000,
                      REDCO_NCCL_OLDEST / 100 % 100);
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

static ncclConfig_t config_of(const redcoi_nccl_carrier *carrier, redco_traffic traffic)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = carrier->options.blocking ? 1 : 0;
    config.maxCTAs = (int)carrier->options.most_ctas[traffic];
    config.splitShare = 0; /* teams of several streams run at once: nothing of one may wait for another's */
    return config;
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A communicator that was begun is there from the start (init) or once it is made (split), so its place is looked at.
 */
redco_status redcoi_nccl_await(const redcoi_nccl_team *team, ncclResult_t begun, ncclComm_t *comm, const char *what,
                               redco_error *err)
{
    redcoi_nccl_carrier *const carrier = team->carrier;
    const struct timespec nap = {.tv_nsec = 200000};
    const double end_s = now_s() + carrier->options.timeout_s;
    ncclResult_t result = begun;
    uint32_t looks = 0;
    while (result == ncclInProgress || (result == ncclSuccess && !carrier->options.blocking)) {
        const ncclComm_t made = __atomic_load_n(comm, __ATOMIC_ACQUIRE);
        ncclResult_t state = ncclInProgress;
        if (made != NULL) { result = carrier->nccl.async_error(made, &state); }
        if (result == ncclSuccess || result == ncclInProgress) { result = state; }
        if (result != ncclInProgress) { break; }
        if (atomic_load(&carrier->broken)) { return redcoi_nccl_failure(carrier, err); }
        if (now_s() > end_s) {
            return redco_fail(err, REDCO_ESYSTEM, what, "NCCL: rank %u waited %g s for the other ranks",
                              carrier->base.rank, carrier->options.timeout_s);
        }
        if (++looks < LOOKS_AT_ONCE) {
            (void)sched_yield();
        } else {
            (void)nanosleep(&nap, NULL);
        }
    }
    return redcoi_nccl_check(team, result, what, err);
}

/* Rank 0's, to all. A rank 0 that has none says so, too. */
static redco_status share_id(redcoi_nccl_carrier *carrier, ncclUniqueId *id_out, redco_error *err)
{
    struct {
        int32_t result;
        ncclUniqueId id;
    } told = {.result = ncclSuccess};
    _Static_assert(sizeof told % sizeof(int32_t) == 0, "sent as numbers of 32 bits");
    if (carrier->base.rank == 0) { told.result = (int32_t)carrier->nccl.get_unique_id(&told.id); }
    const redco_status st =
        redco_broadcast(carrier->heartbeat, REDCO_I32, &told, sizeof told / sizeof(int32_t), 0, "nccl/id", err);
    if (st != REDCO_OK) { return st; }
    *id_out = told.id;
    return redcoi_nccl_check(&carrier->root, (ncclResult_t)told.result, "nccl: ncclGetUniqueId", err);
}

static redco_status open_root(redcoi_nccl_carrier *carrier, ncclUniqueId id, redco_error *err)
{
    ncclConfig_t config = config_of(carrier, REDCO_TRAFFIC_OTHER);
    carrier->root.comms = calloc(1, sizeof *carrier->root.comms);
    if (carrier->root.comms == NULL) { return redco_fail(err, REDCO_ENOMEM, "nccl", "the communicator of all ranks"); }
    redco_status st = redcoi_cuda_enter(carrier->cuda, err);
    if (st != REDCO_OK) { return st; }
    (void)pthread_mutex_lock(&carrier->root.calls);
    const ncclResult_t begun = carrier->nccl.init_rank(&carrier->root.comms->comm, (int)carrier->base.size, id,
                                                       (int)carrier->base.rank, &config);
    st = redcoi_nccl_await(&carrier->root, begun, &carrier->root.comms->comm, "nccl: ncclCommInitRankConfig", err);
    (void)pthread_mutex_unlock(&carrier->root.calls);
    return st;
}

/* Communicators of a rank that failed, or that may never end, are given up; others are left in order. What NCCL may
 * still put one into is kept until its parent was given up. */
static void close_comm(redcoi_nccl_team *team, redcoi_nccl_comm *c)
{
    redcoi_nccl_carrier *const carrier = team->carrier;
    ncclComm_t comm = __atomic_load_n(&c->comm, __ATOMIC_ACQUIRE);
    redco_error err = {.status = REDCO_OK};
    if (comm == NULL && c->begun) {
        c->next = carrier->abandoned;
        carrier->abandoned = c;
        return;
    }
    if (comm != NULL && redcoi_cuda_enter(carrier->cuda, NULL) == REDCO_OK) {
        bool ended = !atomic_load(&carrier->broken);
        if (ended) {
            ended = redcoi_nccl_await(team, carrier->nccl.finalize(comm), &comm, "nccl: ncclCommFinalize", &err) ==
                    REDCO_OK;
        }
        (void)(ended ? carrier->nccl.destroy(comm) : carrier->nccl.abort(comm));
    }
    free(c->order);
    free(c);
}

/* Those of other orders first: they were split from the team's. */
static void close_comms(redcoi_nccl_team *team)
{
    (void)pthread_mutex_lock(&team->calls);
    while (team->comms != NULL && team->comms->next != NULL) {
        redcoi_nccl_comm *const c = team->comms->next;
        team->comms->next = c->next;
        close_comm(team, c);
    }
    if (team->comms != NULL) { close_comm(team, team->comms); }
    team->comms = NULL;
    (void)pthread_mutex_unlock(&team->calls);
}

static void free_team(redco_team *base)
{
    redcoi_nccl_team *const team = (redcoi_nccl_team *)base;
    redcoi_nccl_carrier *const carrier = team->carrier;
    (void)pthread_mutex_lock(&carrier->list);
    for (redcoi_nccl_team **at = &carrier->teams; *at != NULL; at = &(*at)->next) {
        if (*at == team) {
            *at = team->next;
            break;
        }
    }
    (void)pthread_mutex_unlock(&carrier->list);
    close_comms(team);
    (void)pthread_mutex_destroy(&team->calls);
    free(team);
}

/* Groups of one have a communicator, too: NCCL 2.28 has ranks of a non-blocking split that are in no group fail. */
redco_status redcoi_nccl_split_comm(redcoi_nccl_team *parent, const redcoi_nccl_split *split, redcoi_nccl_comm *comm,
                                    redco_error *err)
{
    redcoi_nccl_carrier *const carrier = parent->carrier;
    ncclConfig_t config = config_of(carrier, split->traffic);
    redco_status st = redcoi_cuda_enter(carrier->cuda, err);
    if (st == REDCO_OK) { st = redcoi_nccl_failure(carrier, err); }
    if (st != REDCO_OK) { return st; }
    comm->begun = true;
    const ncclResult_t begun =
        carrier->nccl.split(parent->comms->comm, split->colour, split->key, &comm->comm, &config);
    st = redcoi_nccl_await(parent, begun, &comm->comm, split->name, err);
    if (st == REDCO_OK) { comm->begun = false; }
    return st;
}

static redco_status split(redco_carrier *base, const redco_team_options *options, const redco_team_members *members,
                          redco_team **team_out, redco_error *err)
{
    redcoi_nccl_carrier *const carrier = (redcoi_nccl_carrier *)base;
    redcoi_nccl_team *const team = calloc(1, sizeof *team);
    redcoi_nccl_comm *const comm = calloc(1, sizeof *comm);
    if (team == NULL || comm == NULL || pthread_mutex_init(&team->calls, NULL) != 0) {
        free(team);
        free(comm);
        return redco_fail(err, REDCO_ENOMEM, options->name, "a team");
    }
    team->carrier = carrier;
    redco_status st = redcoi_nccl_failure(carrier, err);
    if (st == REDCO_OK && base->size > 1) {
        team->comms = comm;
        redcoi_nccl_notice(carrier, options->name);
        (void)pthread_mutex_lock(&carrier->root.calls);
        st = redcoi_nccl_split_comm(
            &carrier->root,
            &(redcoi_nccl_split){(int)members->ranks[0], (int)members->own, options->traffic, options->name}, comm,
            err);
        (void)pthread_mutex_unlock(&carrier->root.calls);
    } else {
        free(comm);
    }
    if (st != REDCO_OK) { /* a call that hangs is given up, and the others hear of it */
        redcoi_nccl_break(carrier, err);
        free_team(&team->base);
        return st;
    }
    (void)pthread_mutex_lock(&carrier->list);
    team->next = carrier->teams;
    carrier->teams = team;
    (void)pthread_mutex_unlock(&carrier->list);
    *team_out = &team->base;
    return REDCO_OK;
}

static redco_status check(redco_carrier *base, redco_error *err)
{
    return redcoi_nccl_failure((redcoi_nccl_carrier *)base, err);
}

static void close_carrier(redco_carrier *base)
{
    redcoi_nccl_carrier *const carrier = (redcoi_nccl_carrier *)base;
    redcoi_nccl_unwatch(carrier);
    close_comms(&carrier->root);
    while (carrier->abandoned != NULL) {
        redcoi_nccl_comm *const c = carrier->abandoned;
        carrier->abandoned = c->next;
        c->begun =
            __atomic_load_n(&c->comm, __ATOMIC_ACQUIRE) == NULL; /* then it may still be written: lost for good */
        if (!c->begun) { close_comm(&carrier->root, c); }
    }
    redco_communicator_free(carrier->heartbeat);
    redcoi_library_close(carrier->nccl.library);
    (void)pthread_cond_destroy(&carrier->changed);
    (void)pthread_mutex_destroy(&carrier->lock);
    (void)pthread_mutex_destroy(&carrier->list);
    (void)pthread_mutex_destroy(&carrier->root.calls);
    free(carrier);
}

static const redco_carrier_calls calls = {.name = "nccl",
                                          .estimates = true,
                                          .split = split,
                                          .run = redcoi_nccl_run,
                                          .free_team = free_team,
                                          .check = check,
                                          .close = close_carrier};

static void fill_options(redcoi_nccl_carrier *carrier, const redco_nccl_options *options)
{
    if (options != NULL) { carrier->options = *options; }
    redco_nccl_options *const o = &carrier->options;
    if (!(o->timeout_s > 0.0)) { o->timeout_s = default_timeout_s; }
    for (int t = 0; t < REDCO_TRAFFIC_COUNT; t++) {
        const bool alone = t == REDCO_TRAFFIC_TENSOR || t == REDCO_TRAFFIC_OTHER;
        if (o->most_ctas[t] == 0) { o->most_ctas[t] = alone ? CTAS_ALONE : CTAS_BESIDE; }
    }
}

static redco_status join(redcoi_nccl_carrier *carrier, redco_error *err)
{
    ncclUniqueId id;
    uint32_t *const colours = calloc(carrier->base.size, sizeof *colours);
    if (colours == NULL) { return redco_fail(err, REDCO_ENOMEM, "nccl", "colours of %u ranks", carrier->base.size); }
    redco_status st = redco_communicator_split(carrier->world, colours, "nccl", &carrier->heartbeat, err);
    free(colours);
    if (st == REDCO_OK) { st = open_library(carrier->cuda, &carrier->nccl, err); }
    if (st == REDCO_OK) { st = check_version(&carrier->nccl, err); }
    if (st == REDCO_OK) { st = share_id(carrier, &id, err); } /* before the thread has the communicator */
    if (st == REDCO_OK) { st = redcoi_nccl_watch(carrier, err); }
    return st == REDCO_OK ? open_root(carrier, id, err) : st;
}

redco_status redco_nccl_open(redco_world *world, redco_backend *backend, const redco_nccl_options *options,
                             redco_carrier **carrier_out, redco_error *err)
{
    if (!backend->calls->cuda) {
        return redco_fail(err, REDCO_EVALUE, "nccl", "the %s backend is no CUDA device", backend->calls->name);
    }
    redcoi_nccl_carrier *const carrier = calloc(1, sizeof *carrier);
    if (carrier == NULL || pthread_mutex_init(&carrier->lock, NULL) != 0 ||
        pthread_mutex_init(&carrier->list, NULL) != 0 || pthread_mutex_init(&carrier->root.calls, NULL) != 0 ||
        pthread_cond_init(&carrier->changed, NULL) != 0) {
        free(carrier);
        return redco_fail(err, REDCO_ENOMEM, "nccl", "no memory to open it");
    }
    carrier->base = (redco_carrier){&calls, redco_world_rank(world), redco_world_size(world)};
    carrier->world = world;
    carrier->cuda = (const redcoi_cuda *)backend;
    carrier->root.carrier = carrier;
    carrier->root.base =
        (redco_team){&carrier->base, carrier->base.rank, carrier->base.size, REDCO_TRAFFIC_OTHER, "all"};
    fill_options(carrier, options);
    const redco_status st = carrier->base.size > 1 ? join(carrier, err) : REDCO_OK;
    if (st != REDCO_OK) {
        redcoi_nccl_break(carrier, err);
        close_carrier(&carrier->base);
        return st;
    }
    *carrier_out = &carrier->base;
    return REDCO_OK;
}
