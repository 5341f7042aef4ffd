/* The thread that notices: errors that NCCL has for calls which returned long ago, ranks that are gone, and this rank's
 * own end. Devices wait for each other without asking anybody; only giving communicators up ends that. */
#include "executor/comm/nccl/nccl_internal.h"
#include "topology/base/clock.h"

#include <string.h>
#include <time.h>

/* NCCL is asked so often, ranks tell each other that they are there every so many times, and more rarely the more there
 * are: a beat goes round their ring twice. */
static const long look_ns = 20000000;
enum { LOOKS_OF_BEAT = 12, RANKS_OF_LOOK = 8 };

redco_status redcoi_nccl_check(const redcoi_nccl_process_group *process_group, ncclResult_t result, const char *what,
                               redco_error *err)
{
    const redcoi_nccl_library *const nccl = &process_group->device_comm->nccl;
    if (result == ncclSuccess) { return REDCO_OK; }
    const char *const text = nccl->error_string(result);
    const char *last = nccl->last_error(NULL);
    if (last == NULL || *last == '\0') { last = "NCCL_DEBUG=WARN makes NCCL say more"; }
    return redco_fail(err, REDCO_ESYSTEM, what, "NCCL, rank %u of %u of \"%s\": %s (%s)", process_group->base.rank,
                      process_group->base.size, process_group->base.name,
                      text != NULL ? text : "an error without a name", last);
}

void redcoi_nccl_notice(const redcoi_nccl_device_comm *device_comm, const char *what)
{
    const redco_world *const world = device_comm->world;
    if (world->watch != NULL) { world->watch(world->watch_context, what); }
}

redco_status redcoi_nccl_failure(redcoi_nccl_device_comm *device_comm, redco_error *err)
{
    if (!atomic_load(&device_comm->broken)) { return REDCO_OK; }
    (void)pthread_mutex_lock(&device_comm->lock);
    const redco_error failure = device_comm->failure;
    (void)pthread_mutex_unlock(&device_comm->lock);
    return redco_fail(err, failure.status, failure.place, "%s", failure.text);
}

void redcoi_nccl_break(redcoi_nccl_device_comm *device_comm, const redco_error *failure)
{
    (void)pthread_mutex_lock(&device_comm->lock);
    if (!atomic_load(&device_comm->broken)) {
        if (failure != NULL && failure->status != REDCO_OK) { device_comm->failure = *failure; }
        (void)redco_fail(&device_comm->failure, REDCO_ESYSTEM, "nccl", "rank %u failed", device_comm->base.rank);
        atomic_store(&device_comm->broken, true);
    }
    (void)pthread_cond_broadcast(&device_comm->changed);
    (void)pthread_mutex_unlock(&device_comm->lock);
}

/* Waits for the next look, or until there is something to do. @return whether the device communicator is being closed
 */
static bool nap(redcoi_nccl_device_comm *device_comm)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += look_ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_mutex_lock(&device_comm->lock);
    if (!device_comm->closing && !atomic_load(&device_comm->broken)) {
        (void)pthread_cond_timedwait(&device_comm->changed, &device_comm->lock, &until);
    }
    const bool closing = device_comm->closing;
    (void)pthread_mutex_unlock(&device_comm->lock);
    return closing;
}

static void look_at_comm(redcoi_nccl_process_group *process_group, ncclComm_t comm)
{
    redcoi_nccl_device_comm *const device_comm = process_group->device_comm;
    redco_error err = {.status = REDCO_OK};
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = device_comm->nccl.async_error(comm, &state);
    if (result == ncclSuccess) { result = state; }
    if (result == ncclSuccess || result == ncclInProgress) { return; }
    if (result == ncclRemoteError) { atomic_store(&device_comm->world->broken, true); } /* another rank's */
    (void)redcoi_nccl_check(process_group, result,
                            process_group->last[0] != '\0' ? process_group->last : process_group->base.name, &err);
    redcoi_nccl_break(device_comm, &err);
}

/* One whose calls are made just now sees its errors itself. */
static void look_at_process_group(redcoi_nccl_process_group *process_group)
{
    if (pthread_mutex_trylock(&process_group->calls) != 0) { return; }
    for (const redcoi_nccl_comm *c = process_group->comms; c != NULL; c = c->next) {
        if (c->comm != NULL && !c->begun) { look_at_comm(process_group, c->comm); }
    }
    (void)pthread_mutex_unlock(&process_group->calls);
}

static void look(redcoi_nccl_device_comm *device_comm)
{
    look_at_process_group(&device_comm->root);
    (void)pthread_mutex_lock(&device_comm->list);
    for (redcoi_nccl_process_group *t = device_comm->process_groups; t != NULL; t = t->next) {
        look_at_process_group(t);
    }
    (void)pthread_mutex_unlock(&device_comm->list);
}

/* No thread may call NCCL for a communicator that is given up: calls that do not block end soon, as the device
 * communicator is broken. A thread that hangs in a blocking one keeps its communicators. */
static bool seize(redcoi_nccl_process_group *process_group)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    process_group->seized = pthread_mutex_timedlock(&process_group->calls, &until) == 0;
    return process_group->seized;
}

static void abort_comms(redcoi_nccl_process_group *process_group)
{
    if (!seize(process_group)) { return; }
    for (redcoi_nccl_comm *c = process_group->comms; c != NULL; c = c->next) {
        const ncclComm_t comm = __atomic_load_n(&c->comm, __ATOMIC_ACQUIRE);
        c->given_up = comm != NULL;
        if (c->given_up) { (void)process_group->device_comm->nccl.abort(comm); }
    }
}

static void forget_comms(redcoi_nccl_process_group *process_group)
{
    if (!process_group->seized) { return; }
    for (redcoi_nccl_comm *c = process_group->comms; c != NULL; c = c->next) {
        if (!c->given_up) { continue; }
        c->comm = NULL;
        c->begun = false;
    }
    (void)pthread_mutex_unlock(&process_group->calls);
}

/* All in one group: giving one up waits for its kernels, which may be behind those of another in the same stream. That
 * of all ranks first: another may just be split from it. The ranks before and after this one in the ring see its beat
 * end, and do the same. */
static void give_up(redcoi_nccl_device_comm *device_comm)
{
    (void)redcoi_cuda_enter(device_comm->cuda, NULL);
    (void)pthread_mutex_lock(&device_comm->list);
    (void)device_comm->nccl.group_start();
    abort_comms(&device_comm->root);
    for (redcoi_nccl_process_group *t = device_comm->process_groups; t != NULL; t = t->next) { abort_comms(t); }
    (void)device_comm->nccl.group_end();
    forget_comms(&device_comm->root);
    for (redcoi_nccl_process_group *t = device_comm->process_groups; t != NULL; t = t->next) { forget_comms(t); }
    (void)pthread_mutex_unlock(&device_comm->list);
    redco_communicator_free(device_comm->heartbeat);
    device_comm->heartbeat = NULL;
}

/* @return whether all are there, and none leaves */
static bool beat(redcoi_nccl_device_comm *device_comm, bool leaves)
{
    redco_error err = {.status = REDCO_OK};
    int32_t leaving = leaves ? 1 : 0;
    if (redco_all_reduce(device_comm->heartbeat, REDCO_I32, REDCO_REDUCE_SUM, &leaving, 1, "nccl", &err) != REDCO_OK) {
        redcoi_nccl_break(device_comm, &err);
        return false;
    }
    if (leaving > 0) { atomic_store(&device_comm->left, true); }
    return leaving == 0;
}

/* Ranks leave when all of their work is done, and then that of the others soon is. */
static void wait_for_left(redcoi_nccl_device_comm *device_comm, double since_s)
{
    redco_error err = {.status = REDCO_OK};
    if (redco_now_s() - since_s < device_comm->options.timeout_s) { return; }
    (void)redco_fail(&err, REDCO_ESYSTEM, "nccl", "rank %u: another rank left %g s ago", device_comm->base.rank,
                     device_comm->options.timeout_s);
    redcoi_nccl_break(device_comm, &err);
}

static void *watch(void *context)
{
    redcoi_nccl_device_comm *const device_comm = context;
    const uint32_t looks_of_beat = LOOKS_OF_BEAT + device_comm->base.size / RANKS_OF_LOOK;
    uint32_t looks = 0;
    double left_s = 0.0; /* since when a rank is gone */
    for (;;) {
        const bool closing = nap(device_comm);
        if (atomic_load(&device_comm->world->aborted)) {
            redco_error err = {.status = REDCO_OK};
            (void)redco_fail(&err, REDCO_ESYSTEM, "nccl", "rank %u has given up", device_comm->base.rank);
            redcoi_nccl_break(device_comm, &err);
        }
        if (!atomic_load(&device_comm->broken)) { look(device_comm); }
        if (!atomic_load(&device_comm->broken) && left_s == 0.0 && (closing || ++looks >= looks_of_beat)) {
            looks = 0;
            left_s = beat(device_comm, closing) ? 0.0 : redco_now_s();
        }
        if (atomic_load(&device_comm->broken)) {
            give_up(device_comm);
            return NULL;
        }
        if (closing) { return NULL; }
        if (left_s > 0.0) { wait_for_left(device_comm, left_s); }
    }
}

redco_status redcoi_nccl_watch(redcoi_nccl_device_comm *device_comm, redco_error *err)
{
    redcoi_communicator_hush(device_comm->heartbeat);
    const int code = pthread_create(&device_comm->thread, NULL, watch, device_comm);
    if (code != 0) { return redco_fail(err, REDCO_ESYSTEM, "nccl", "a thread: %s", strerror(code)); }
    device_comm->watched = true;
    return REDCO_OK;
}

void redcoi_nccl_unwatch(redcoi_nccl_device_comm *device_comm)
{
    if (!device_comm->watched) { return; }
    (void)pthread_mutex_lock(&device_comm->lock);
    device_comm->closing = true;
    (void)pthread_cond_broadcast(&device_comm->changed);
    (void)pthread_mutex_unlock(&device_comm->lock);
    (void)pthread_join(device_comm->thread, NULL);
}
