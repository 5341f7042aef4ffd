/* The thread that notices: errors that NCCL has for calls which returned long ago, ranks that are gone, and this rank's
 * own end. Devices wait for each other without asking anybody; only giving communicators up ends that. */
#include "executor/comm/nccl/nccl_internal.h"

#include <string.h>
#include <time.h>

/* NCCL is asked so often, ranks tell each other that they are there every so many times, and more rarely the more there
 * are: a beat goes round their ring twice. */
static const long look_ns = 20000000;
enum { LOOKS_OF_BEAT = 12, RANKS_OF_LOOK = 8 };

void redcoi_nccl_notice(const redcoi_nccl_carrier *carrier, const char *what)
{
    const redco_world *const world = carrier->world;
    if (world->watch != NULL) { world->watch(world->watch_context, what); }
}

redco_status redcoi_nccl_failure(redcoi_nccl_carrier *carrier, redco_error *err)
{
    if (!atomic_load(&carrier->broken)) { return REDCO_OK; }
    (void)pthread_mutex_lock(&carrier->lock);
    const redco_error failure = carrier->failure;
    (void)pthread_mutex_unlock(&carrier->lock);
    return redco_fail(err, failure.status, failure.place, "%s", failure.text);
}

void redcoi_nccl_break(redcoi_nccl_carrier *carrier, const redco_error *failure)
{
    (void)pthread_mutex_lock(&carrier->lock);
    if (!atomic_load(&carrier->broken)) {
        if (failure != NULL && failure->status != REDCO_OK) { carrier->failure = *failure; }
        (void)redco_fail(&carrier->failure, REDCO_ESYSTEM, "nccl", "rank %u failed", carrier->base.rank);
        atomic_store(&carrier->broken, true);
    }
    (void)pthread_cond_broadcast(&carrier->changed);
    (void)pthread_mutex_unlock(&carrier->lock);
}

/* Waits for the next look, or until there is something to do. @return whether the carrier is being closed */
static bool nap(redcoi_nccl_carrier *carrier)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += look_ns;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    (void)pthread_mutex_lock(&carrier->lock);
    if (!carrier->closing && !atomic_load(&carrier->broken)) {
        (void)pthread_cond_timedwait(&carrier->changed, &carrier->lock, &until);
    }
    const bool closing = carrier->closing;
    (void)pthread_mutex_unlock(&carrier->lock);
    return closing;
}

static void look_at_comm(redcoi_nccl_team *team, ncclComm_t comm)
{
    redcoi_nccl_carrier *const carrier = team->carrier;
    redco_error err = {.status = REDCO_OK};
    ncclResult_t state = ncclSuccess;
    ncclResult_t result = carrier->nccl.async_error(comm, &state);
    if (result == ncclSuccess) { result = state; }
    if (result == ncclSuccess || result == ncclInProgress) { return; }
    if (result == ncclRemoteError) { atomic_store(&carrier->world->broken, true); } /* another rank's */
    (void)redcoi_nccl_check(team, result, team->last[0] != '\0' ? team->last : team->base.name, &err);
    redcoi_nccl_break(carrier, &err);
}

/* One whose calls are made just now sees its errors itself. */
static void look_at_team(redcoi_nccl_team *team)
{
    if (pthread_mutex_trylock(&team->calls) != 0) { return; }
    for (const redcoi_nccl_comm *c = team->comms; c != NULL; c = c->next) {
        if (c->comm != NULL && !c->begun) { look_at_comm(team, c->comm); }
    }
    (void)pthread_mutex_unlock(&team->calls);
}

static void look(redcoi_nccl_carrier *carrier)
{
    look_at_team(&carrier->root);
    (void)pthread_mutex_lock(&carrier->list);
    for (redcoi_nccl_team *t = carrier->teams; t != NULL; t = t->next) { look_at_team(t); }
    (void)pthread_mutex_unlock(&carrier->list);
}

/* No thread may call NCCL for a communicator that is given up: calls that do not block end soon, as the carrier is
 * broken. A thread that hangs in a blocking one keeps its communicators. */
static bool seize(redcoi_nccl_team *team)
{
    struct timespec until;
    (void)clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 2;
    team->seized = pthread_mutex_timedlock(&team->calls, &until) == 0;
    return team->seized;
}

static void abort_comms(redcoi_nccl_team *team)
{
    if (!seize(team)) { return; }
    for (redcoi_nccl_comm *c = team->comms; c != NULL; c = c->next) {
        const ncclComm_t comm = __atomic_load_n(&c->comm, __ATOMIC_ACQUIRE);
        c->given_up = comm != NULL;
        if (c->given_up) { (void)team->carrier->nccl.abort(comm); }
    }
}

static void forget_comms(redcoi_nccl_team *team)
{
    if (!team->seized) { return; }
    for (redcoi_nccl_comm *c = team->comms; c != NULL; c = c->next) {
        if (!c->given_up) { continue; }
        c->comm = NULL;
        c->begun = false;
    }
    (void)pthread_mutex_unlock(&team->calls);
}

/* All in one group: giving one up waits for its kernels, which may be behind those of another in the same queue. That
 * of all ranks first: another may just be split from it. The ranks before and after this one in the ring see its beat
 * end, and do the same. */
static void give_up(redcoi_nccl_carrier *carrier)
{
    (void)redcoi_cuda_enter(carrier->cuda, NULL);
    (void)pthread_mutex_lock(&carrier->list);
    (void)carrier->nccl.group_start();
    abort_comms(&carrier->root);
    for (redcoi_nccl_team *t = carrier->teams; t != NULL; t = t->next) { abort_comms(t); }
    (void)carrier->nccl.group_end();
    forget_comms(&carrier->root);
    for (redcoi_nccl_team *t = carrier->teams; t != NULL; t = t->next) { forget_comms(t); }
    (void)pthread_mutex_unlock(&carrier->list);
    redco_communicator_free(carrier->heartbeat);
    carrier->heartbeat = NULL;
}

/* @return whether all are there, and none leaves */
static bool beat(redcoi_nccl_carrier *carrier, bool leaves)
{
    redco_error err = {.status = REDCO_OK};
    int32_t leaving = leaves ? 1 : 0;
    if (redco_all_reduce(carrier->heartbeat, REDCO_I32, REDCO_REDUCE_SUM, &leaving, 1, "nccl", &err) != REDCO_OK) {
        redcoi_nccl_break(carrier, &err);
        return false;
    }
    if (leaving > 0) { atomic_store(&carrier->left, true); }
    return leaving == 0;
}

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Ranks leave when all of their work is done, and then that of the others soon is. */
static void wait_for_left(redcoi_nccl_carrier *carrier, double since_s)
{
    redco_error err = {.status = REDCO_OK};
    if (now_s() - since_s < carrier->options.timeout_s) { return; }
    (void)redco_fail(&err, REDCO_ESYSTEM, "nccl", "rank %u: another rank left %g s ago", carrier->base.rank,
                     carrier->options.timeout_s);
    redcoi_nccl_break(carrier, &err);
}

static void *watch(void *context)
{
    redcoi_nccl_carrier *const carrier = context;
    const uint32_t looks_of_beat = LOOKS_OF_BEAT + carrier->base.size / RANKS_OF_LOOK;
    uint32_t looks = 0;
    double left_s = 0.0; /* since when a rank is gone */
    for (;;) {
        const bool closing = nap(carrier);
        if (atomic_load(&carrier->world->aborted)) {
            redco_error err = {.status = REDCO_OK};
            (void)redco_fail(&err, REDCO_ESYSTEM, "nccl", "rank %u has given up", carrier->base.rank);
            redcoi_nccl_break(carrier, &err);
        }
        if (!atomic_load(&carrier->broken)) { look(carrier); }
        if (!atomic_load(&carrier->broken) && left_s == 0.0 && (closing || ++looks >= looks_of_beat)) {
            looks = 0;
            left_s = beat(carrier, closing) ? 0.0 : now_s();
        }
        if (atomic_load(&carrier->broken)) {
            give_up(carrier);
            return NULL;
        }
        if (closing) { return NULL; }
        if (left_s > 0.0) { wait_for_left(carrier, left_s); }
    }
}

redco_status redcoi_nccl_watch(redcoi_nccl_carrier *carrier, redco_error *err)
{
    redcoi_communicator_hush(carrier->heartbeat);
    const int code = pthread_create(&carrier->thread, NULL, watch, carrier);
    if (code != 0) { return redco_fail(err, REDCO_ESYSTEM, "nccl", "a thread: %s", strerror(code)); }
    carrier->watched = true;
    return REDCO_OK;
}

void redcoi_nccl_unwatch(redcoi_nccl_carrier *carrier)
{
    if (!carrier->watched) { return; }
    (void)pthread_mutex_lock(&carrier->lock);
    carrier->closing = true;
    (void)pthread_cond_broadcast(&carrier->changed);
    (void)pthread_mutex_unlock(&carrier->lock);
    (void)pthread_join(carrier->thread, NULL);
}
