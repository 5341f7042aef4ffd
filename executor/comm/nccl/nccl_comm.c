/* One communicator of NCCL: its settings, its split, the wait until it is made. */
#include "executor/comm/nccl/nccl_internal.h"
#include "topology/base/clock.h"

#include <sched.h>
#include <time.h>

/* A call is queued after some ten microseconds, communicators take much longer. */
enum { LOOKS_AT_ONCE = 500 };

ncclConfig_t redcoi_nccl_config(const redcoi_nccl_device_comm *device_comm, redco_traffic traffic)
{
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = device_comm->options.blocking ? 1 : 0;
    config.maxCTAs = (int)device_comm->options.most_ctas[traffic];
    config.splitShare = 0; /* process groups of several streams run at once: nothing of one may wait for another's */
    return config;
}

/* A communicator that was begun is there from the start (init) or once it is made (split), so its place is looked at.
 */
redco_status redcoi_nccl_await(const redcoi_nccl_process_group *process_group, ncclResult_t begun, ncclComm_t *comm,
                               const char *what, redco_error *err)
{
    redcoi_nccl_device_comm *const device_comm = process_group->device_comm;
    const struct timespec nap = {.tv_nsec = 200000};
    const double end_s = redco_now_s() + device_comm->options.timeout_s;
    ncclResult_t result = begun;
    uint32_t looks = 0;
    while (result == ncclInProgress || (result == ncclSuccess && !device_comm->options.blocking)) {
        const ncclComm_t made = __atomic_load_n(comm, __ATOMIC_ACQUIRE);
        ncclResult_t state = ncclInProgress;
        if (made != NULL) { result = device_comm->nccl.async_error(made, &state); }
        if (result == ncclSuccess || result == ncclInProgress) { result = state; }
        if (result != ncclInProgress) { break; }
        if (atomic_load(&device_comm->broken)) { return redcoi_nccl_failure(device_comm, err); }
        if (redco_now_s() > end_s) {
            return redco_fail(err, REDCO_ESYSTEM, what, "NCCL: rank %u waited %g s for the other ranks",
                              device_comm->base.rank, device_comm->options.timeout_s);
        }
        if (++looks < LOOKS_AT_ONCE) {
            (void)sched_yield();
        } else {
            (void)nanosleep(&nap, NULL);
        }
    }
    return redcoi_nccl_check(process_group, result, what, err);
}

/* Groups of one have a communicator, too: NCCL 2.28 has ranks of a non-blocking split that are in no group fail. */
redco_status redcoi_nccl_split_comm(redcoi_nccl_process_group *parent, const redcoi_nccl_split *split,
                                    redcoi_nccl_comm *comm, redco_error *err)
{
    redcoi_nccl_device_comm *const device_comm = parent->device_comm;
    ncclConfig_t config = redcoi_nccl_config(device_comm, split->traffic);
    redco_status st = redcoi_cuda_enter(device_comm->cuda, err);
    if (st == REDCO_OK) { st = redcoi_nccl_failure(device_comm, err); }
    if (st != REDCO_OK) { return st; }
    comm->begun = true;
    const ncclResult_t begun =
        device_comm->nccl.split(parent->comms->comm, split->colour, split->key, &comm->comm, &config);
    st = redcoi_nccl_await(parent, begun, &comm->comm, split->name, err);
    if (st == REDCO_OK) { comm->begun = false; }
    return st;
}
