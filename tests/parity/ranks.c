/* Ranks as processes of this machine, which run one case after the other in one world. */
#include "executor/comm/nccl/nccl.h"
#include "executor/trainer/devices.h"
#include "tests/parity/memory.h"
#include "tests/parity/parity.h"
#include "tests/unit/deferred_backend.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static const double timeout_s = 120.0;

struct work {
    const struct parity_cases *cases;
    const struct parity_trained *trained;
    struct parity_outcome *outcomes;
    size_t first;
    const struct parity_options *asked;
    struct memory *memory; /* NULL: over sockets */
};

/* A rank's device, for all of its cases; NULL on the host. */
struct device {
    redco_backend *backend;
    redco_device_comm *device_comm;
};

static double now_s(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static redco_status train(const struct work *w, size_t i, redco_world *world, const struct device *device,
                          redco_error *err)
{
    redco_trainer_options options = parity_training(&w->cases->list[i]);
    const deferred_options late = {.seed = i * PARITY_RANKS + redco_world_rank(world)};
    const double begin_s = now_s();
    redco_trainer_step steps[PARITY_STEPS];
    redco_trainer *trainer = NULL;
    struct parity_outcome *const outcome = &w->outcomes[i];
    options.steps = w->trained[i].steps;
    if (w->asked->fuse != REDCO_TRAINER_FUSE_AUTO) { options.fuse = w->asked->fuse; }
    options.launch_each = w->asked->launch_each;
    options.backend = device->backend;
    options.device_comm = device->device_comm;
    if (w->asked->deferred) {
        const redco_status st = deferred_open(&late, &options.backend, err);
        if (st != REDCO_OK) { return st; }
    }
    redco_status st = redco_trainer_create(w->trained[i].plan, "plan", &options, world, &trainer, err);
    for (uint32_t s = 0; s < PARITY_STEPS && st == REDCO_OK; s++) { st = redco_trainer_run(trainer, &steps[s], err); }
    if (st == REDCO_OK) {
        st = redco_trainer_compare(trainer, w->trained[i].baseline, steps, PARITY_STEPS, &outcome->verdict, err);
    }
    redco_trainer_free(trainer);
    if (w->asked->deferred) { redco_backend_close(options.backend); }
    if (st == REDCO_OK && redco_world_rank(world) == 0) {
        outcome->seconds = now_s() - begin_s;
        outcome->done = true;
    }
    return st;
}

/* The first words win, more or less. */
static void note(struct parity_outcome *outcome, uint32_t rank, const redco_error *err)
{
    if (outcome->failed) { return; }
    outcome->failed = true;
    (void)snprintf(outcome->error, sizeof outcome->error, "rank %u: %.100s: %.250s", rank, err->place, err->text);
}

static redco_status open_device(redco_world *world, bool share, struct device *device, redco_error *err)
{
    const redco_nccl_options options = {.timeout_s = timeout_s, .share = share};
    const redco_status st = redco_devices_open(world, NULL, share, &device->backend, err);
    return st == REDCO_OK ? redco_nccl_open(world, device->backend, &options, &device->device_comm, err) : st;
}

/* @return exit status: 0 if all cases could be run */
static int run_rank(const struct work *w, const redco_world_options *options)
{
    redco_world *world = NULL;
    struct device device = {.backend = NULL};
    redco_error err = {.status = REDCO_OK};
    struct parity_outcome *outcome = &w->outcomes[w->first];
    redco_status st = w->memory != NULL ? memory_open(w->memory, options->rank, &world, &err)
                                        : redco_world_open(options, &world, &err);
    if (st == REDCO_OK && w->asked->cuda) {
        st = open_device(world, w->asked->share_gpu, &device, &err);
        outcome->no_device = outcome->no_device || st != REDCO_OK;
    }
    for (size_t i = w->first; i < w->cases->count && st == REDCO_OK; i++) {
        outcome = &w->outcomes[i];
        st = train(w, i, world, &device, &err);
        if (st == REDCO_EVALUE) { /* on all ranks alike: they go on together */
            note(outcome, options->rank, &err);
            outcome->done = true;
            err = (redco_error){.status = REDCO_OK};
            st = REDCO_OK;
        }
    }
    if (st != REDCO_OK) { note(outcome, options->rank, &err); }
    redco_device_comm_close(device.device_comm);
    redco_backend_close(device.backend);
    redco_world_close(world);
    return st == REDCO_OK ? 0 : 1;
}

/* All cases from the first on, or up to one that fails. */
static redco_status run_world(const struct work *w, uint32_t ranks, redco_error *err)
{
    pid_t pids[PARITY_RANKS];
    redco_local_ranks *local = NULL;
    redco_status st = redco_local_ranks_make(ranks, &local, err);
    uint32_t started = 0;
    (void)fflush(NULL);
    while (started < ranks && st == REDCO_OK) {
        const redco_world_options options = {.transport = REDCO_TRANSPORT_SOCKET,
                                             .rank = started,
                                             .size = ranks,
                                             .timeout_s = timeout_s,
                                             .local = local};
        const pid_t parent = getpid(), pid = fork();
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            _exit(getppid() == parent ? run_rank(w, &options) : 1);
        }
        if (pid < 0) {
            st = redco_fail(err, REDCO_ESYSTEM, "ranks", "%u of %u processes: %s", started, ranks, strerror(errno));
        } else {
            pids[started++] = pid;
        }
    }
    redco_local_ranks_free(local);
    for (uint32_t i = 0; i < started && st != REDCO_OK; i++) { (void)kill(pids[i], SIGKILL); }
    for (uint32_t left = started; left > 0; left--) {
        int status = 0;
        const pid_t pid = wait(&status);
        for (uint32_t i = 0; i < started; i++) {
            if (pids[i] == pid) { pids[i] = 0; }
        }
        if (WIFEXITED(status) && WEXITSTATUS(status) == 0) { continue; }
        for (uint32_t i = 0; i < started; i++) { /* they would wait for it */
            if (pids[i] > 0) { (void)kill(pids[i], SIGKILL); }
        }
    }
    return st;
}

redco_status parity_run(const struct parity_cases *cases, const struct parity_trained *trained,
                        struct parity_outcome *outcomes, const struct parity_options *options, redco_error *err)
{
    struct work w = {cases, trained, outcomes, 0, options, NULL};
    const uint32_t ranks = parity_ranks(&cases->list[0]);
    redco_status st = REDCO_OK;
    while (w.first < cases->count && st == REDCO_OK) {
        w.memory = options->sockets ? NULL : memory_create(ranks);
        st = run_world(&w, ranks, err);
        memory_free(w.memory);
        while (w.first < cases->count && outcomes[w.first].done) { w.first++; }
        if (w.first == cases->count) { break; }
        struct parity_outcome *const lost = &outcomes[w.first++]; /* the others go on in a new world */
        if (!lost->failed) { (void)snprintf(lost->error, sizeof lost->error, "a rank ended without a word"); }
        lost->failed = true;
        if (lost->no_device) { st = redco_fail(err, REDCO_ESYSTEM, "cuda", "%s", lost->error); }
    }
    return st;
}
