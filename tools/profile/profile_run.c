/* Ranks of redco-profile: processes of this program over TCP on this machine, or mpirun's. */
#include "tools/profile/profile_check.h"
#include "tools/profile/profile_device.h"
#include "tools/profile/profile_power.h"

#include "executor/measure/contention.h"
#include "topology/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { MOST_ROUNDS = 20 };
static const double silence_s = 600.0; /* ranks of a busy machine may be far apart */
static const double late_ratio = 0.7;  /* share of the time: a first round that is not done by then tries less often */
static const uint64_t quick_bytes = 16384;
static const uint64_t contention_bytes = 4 << 20;
static const double contention_s = 5.0, quick_contention_s = 0.05;
static const int patience_ms = 1000; /* for a rank that failed to say why */

/* State of one rank. */
struct rank {
    const struct profile_job *job;
    struct profile_result *result;
    redco_world *world;
    redco_backend *backend;
    redco_measurer *measurer;
    redco_measure_collectives *collectives;
    redco_device_comm *device_comm; /* NULL: the processor's communicators */
    redco_communicator *all;
    redco_measure_case *cases;
    size_t case_count;
    uint32_t rounds;
    double began_s;
    uint64_t workspace_bytes; /* the largest of products */
    redco_error *err;
};

static void show(const struct rank *r, const char *what, size_t done, size_t of)
{
    if (!r->job->progress || redco_world_rank(r->world) != 0) { return; }
    (void)fprintf(stderr, "\rround %u, %.0f s: %s %zu of %zu   ", r->rounds + 1, redco_now_s() - r->began_s, what, done,
                  of);
    (void)fflush(stderr);
}

static redco_status open_collectives(struct rank *r)
{
    redco_measure_groups groups = {.nodes = r->job->nodes,
                                   .most_bytes = r->job->largest_bytes > 0 ? r->job->largest_bytes
                                                 : r->job->quick           ? quick_bytes
                                                 : r->job->cuda            ? (uint64_t)REDCO_MEASURE_DEVICE_BYTES
                                                                           : REDCO_MEASURE_MOST_BYTES,
                                   .backend = r->backend};
    const redco_status st = profile_device_comm(r->job, r->world, r->backend, &r->device_comm, r->err);
    if (st != REDCO_OK) { return st; }
    groups.device_comm = r->device_comm;
    return redco_measure_collectives_create(r->world, &groups, &r->collectives, r->err);
}

static redco_status open_rank(struct rank *r)
{
    const uint32_t size = redco_world_size(r->world);
    redco_measure_options options = {.queued = false};
    uint32_t *colours = calloc(size, sizeof *colours);
    if (colours == NULL) { return redco_fail(r->err, REDCO_ENOMEM, "", "out of memory"); }
    redco_status st = redco_communicator_split(r->world, colours, "all ranks", &r->all, r->err);
    free(colours);
    if (st == REDCO_OK) { st = profile_device_open(r->job, r->world, &r->backend, r->err); }
    if (st == REDCO_OK) { st = profile_device_options(r->job, r->backend, &options, r->err); }
    if (st == REDCO_OK && redco_world_rank(r->world) == 0) { /* before anything runs on it */
        st = profile_power_idle(r->job, r->backend, r->result, r->err);
    }
    if (st == REDCO_OK) { st = redco_measurer_create(r->backend, &options, &r->measurer, r->err); }
    if (st == REDCO_OK && size > 1) { st = open_collectives(r); }
    if (st != REDCO_OK || r->job->collectives) { return st; }
    r->case_count = r->job->cuda && !r->job->quick ? redco_measure_device_cases(&r->job->shapes, &r->cases)
                                                   : redco_measure_cases(r->job->quick, &r->cases);
    const size_t more = r->job->ops->count;
    redco_measure_case *const all = r->case_count > 0 ? realloc(r->cases, (r->case_count + more) * sizeof *all) : NULL;
    if (all == NULL) { return redco_fail(r->err, REDCO_ENOMEM, "", "out of memory"); }
    r->cases = all;
    if (more > 0) { /* first, before time is short: the user asked for them by name */
        memmove(all + more, all, r->case_count * sizeof *all);
        memcpy(all, r->job->ops->cases, more * sizeof *all);
    }
    r->case_count += more;
    return REDCO_OK;
}

static void close_rank(struct rank *r)
{
    redco_measure_collectives_free(r->collectives);
    redco_device_comm_close(r->device_comm);
    redco_communicator_free(r->all);
    redco_measurer_free(r->measurer);
    redco_backend_close(r->backend);
    redco_world_close(r->world);
}

/* Measures one operator. Skips operators that do not fit or lack this type. */
static redco_status one_case(struct rank *r, redco_measure_case *one)
{
    redco_error err = {.status = REDCO_OK};
    const redco_status st = redco_measure_case_run(r->measurer, one, &err);
    if (st == REDCO_OK && one->kind == REDCO_MEASURE_GEMM && one->workspace_bytes > r->workspace_bytes) {
        r->workspace_bytes = one->workspace_bytes;
    }
    if (st == REDCO_OK || (r->job->cuda && (st == REDCO_ENOMEM || st == REDCO_EVALUE))) { return REDCO_OK; }
    return redco_fail(r->err, st, err.place, "%s", err.text);
}

/* The budget that loads without pause leave. */
static double burst_seconds(const struct rank *r)
{
    return r->job->seconds - profile_power_seconds(r->job);
}

/* All operators once more; after the first round only while there is time. The list of a GPU begins with what matters
 * most and ends when its time is over. What the user named is in the first round twice, at its beginning and its end.
 */
static redco_status one_round(struct rank *r)
{
    const size_t again = r->rounds == 0 ? r->job->ops->count : 0;
    redco_status st = REDCO_OK;
    for (size_t turn = 0; turn < r->case_count + again && st == REDCO_OK; turn++) {
        const size_t i = turn % r->case_count;
        const double spent_s = redco_now_s() - r->began_s;
        if ((r->rounds > 0 || r->job->cuda) && spent_s > burst_seconds(r)) { break; }
        if (spent_s > late_ratio * burst_seconds(r)) { redco_measurer_hurry(r->measurer); }
        if (i % 16 == 0) { show(r, "operator", i, r->case_count); }
        st = one_case(r, &r->cases[i]);
    }
    if (st == REDCO_OK && r->collectives != NULL) {
        show(r, "collectives of", 0, redco_world_size(r->world));
        st = redco_measure_collectives_run(r->collectives, r->err);
    }
    return st;
}

/* Where operators and collectives are both measured: what they take from each other. */
static redco_status measure_contention(struct rank *r, redco_profile_measured *how)
{
    redco_measure_contention contention;
    if (r->job->cuda) { return profile_device_contend(r->job, r->backend, how, r->err); }
    if (r->collectives == NULL || r->job->collectives) { return REDCO_OK; }
    show(r, "contention of", 0, redco_world_size(r->world));
    const redco_status st =
        redco_measure_contend(r->world, r->backend, r->job->quick ? quick_bytes : contention_bytes,
                              r->job->quick ? quick_contention_s : contention_s, &contention, r->err);
    if (st != REDCO_OK) { return st; }
    how->contention_ratio = contention.contention_ratio;
    how->overlap_ratio = contention.overlap_ratio;
    return REDCO_OK;
}

/* Rounds, one after another, so that a busy moment does not spoil every try of the same operator. */
static redco_status measure(struct rank *r)
{
    double elapsed_s = 0.0, round_s = 0.0;
    redco_status st = redco_barrier(r->all, "start", r->err);
    r->began_s = redco_now_s();
    do {
        const double before_s = redco_now_s();
        if (st == REDCO_OK) { st = one_round(r); }
        r->rounds++;
        round_s = redco_now_s() - before_s;
        elapsed_s = redco_now_s() - r->began_s;
        /* Ranks agree on whether another round begins. */
        double both[2] = {elapsed_s, round_s};
        if (st == REDCO_OK) { st = redco_all_reduce(r->all, REDCO_F64, REDCO_REDUCE_MAX, both, 2, "time", r->err); }
        elapsed_s = both[0];
        round_s = both[1];
    } while (st == REDCO_OK && !r->job->quick && r->rounds < MOST_ROUNDS &&
             elapsed_s + 0.5 * round_s < burst_seconds(r));
    return st;
}

static int compare_numbers(const void *left, const void *right)
{
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* The slowest rank's times, everywhere. */
static redco_status merge(struct rank *r, redco_profile_measured *how)
{
    const size_t n = r->case_count;
    double *numbers = calloc(3 * n + 1, sizeof *numbers);
    if (numbers == NULL) { return redco_fail(r->err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < n; i++) {
        numbers[i] = r->cases[i].forward_s;
        numbers[n + i] = r->cases[i].backward_s;
        const double best_s = r->cases[i].forward_s + r->cases[i].backward_s;
        numbers[2 * n + i] = isfinite(best_s) ? r->cases[i].average_s / best_s - 1.0 : (double)INFINITY;
    }
    numbers[3 * n] = -redco_measure_processor_ratio(r->measurer); /* ratio of the rank that got least */
    const redco_status st = redco_all_reduce(r->all, REDCO_F64, REDCO_REDUCE_MAX, numbers, 3 * n + 1, "times", r->err);
    for (size_t i = 0; i < n; i++) {
        r->cases[i].forward_s = numbers[i];
        r->cases[i].backward_s = numbers[n + i];
    }
    size_t known = 0;
    for (size_t i = 0; i < n; i++) { /* a measurement that was left out has no spread */
        if (isfinite(numbers[2 * n + i])) { numbers[2 * n + known++] = numbers[2 * n + i]; }
    }
    qsort(numbers + 2 * n, known, sizeof *numbers, compare_numbers);
    if (known > 0) { how->spread_ratio = numbers[2 * n + known / 2]; }
    if (n > 0) { how->processor_ratio = -numbers[3 * n]; }
    how->left_out = (uint32_t)(n - known);
    how->rounds = r->rounds;
    how->ranks = redco_world_size(r->world);
    how->took_s = redco_now_s() - r->began_s;
    how->budget_s = r->job->seconds;
    how->workspace_bytes = r->job->cuda ? r->workspace_bytes : 0; /* a processor's are not counted anywhere */
    free(numbers);
    return st;
}

static redco_status hand_over(struct rank *r, struct profile_result *result)
{
    const redco_measure_curve *curves = NULL;
    const size_t count = r->collectives != NULL ? redco_measure_collectives_curves(r->collectives, &curves) : 0;
    if (count > 0) {
        result->curves = calloc(count, sizeof *curves);
        if (result->curves == NULL) { return redco_fail(r->err, REDCO_ENOMEM, "", "out of memory"); }
        memcpy(result->curves, curves, count * sizeof *curves);
    }
    result->curve_count = count;
    result->cases = r->cases;
    result->case_count = r->case_count;
    r->cases = NULL;
    result->ranks = redco_world_size(r->world);
    result->nodes = r->job->nodes;
    (void)snprintf(result->how.backend, sizeof result->how.backend, "%s", r->backend->calls->name);
    if (!r->job->cuda) { profile_kernels(result->how.kernels, sizeof result->how.kernels); }
    if (r->job->collectives) { result->how.device[0] = '\0'; } /* they are no property of it */
    result->mpi = r->job->mpi;
    return REDCO_OK;
}

static redco_status run_rank(const struct profile_job *job, const redco_world_options *options,
                             struct profile_result *result, bool *leader_out, redco_error *err)
{
    struct rank r = {.job = job, .result = result, .err = err};
    redco_status st = redco_world_open(options, &r.world, err);
    if (st != REDCO_OK) { return st; }
    *leader_out = redco_world_rank(r.world) == 0;
    if (job->nodes == 0 || redco_world_size(r.world) % job->nodes != 0) {
        st = redco_fail(err, REDCO_EVALUE, "--nodes", "%u nodes cannot have equal parts of %u ranks", job->nodes,
                        redco_world_size(r.world));
    }
    if (st == REDCO_OK && *leader_out) { profile_machine(&result->how); }
    if (st == REDCO_OK) { st = open_rank(&r); }
    if (st == REDCO_OK && *leader_out) { st = profile_device_describe(r.backend, &result->how, err); }
    if (st == REDCO_OK) { st = measure(&r); }
    if (st == REDCO_OK) { st = measure_contention(&r, &result->how); }
    if (st == REDCO_OK) { st = profile_device_conclude(r.backend, r.measurer, &result->how, err); }
    /* One device speaks for all; the others wait for it where times are brought together. */
    if (st == REDCO_OK && *leader_out) { st = profile_power_loads(job, r.backend, r.measurer, result, err); }
    if (r.job->progress && *leader_out) { (void)fprintf(stderr, "\r%60s\r", ""); }
    if (st == REDCO_OK) { st = merge(&r, &result->how); }
    if (st == REDCO_OK) { st = hand_over(&r, result); }
    free(r.cases);
    close_rank(&r);
    return st;
}

struct leaving {
    int why; /* a pipe */
    uint32_t rank;
};

/* Ranks end with _exit(): exit() was called by a function of a pipeline's. */
static void tell_exit(int code, void *context)
{
    const struct leaving *const leaving = context;
    redco_error err = {0};
    char place[32];
    (void)snprintf(place, sizeof place, "rank %u", leaving->rank);
    (void)redco_fail(&err, REDCO_ESYSTEM, place, "a function of a pipeline called exit(%d)", code);
    (void)!write(leaving->why, &err, sizeof err);
    _exit(CLI_SYSTEM);
}

/* A rank of its own process. It dies with its parent; an error goes into the pipe @p why. */
static _Noreturn void child(const struct profile_job *job, redco_world_options options, pid_t parent, uint32_t rank,
                            int why)
{
    struct profile_job silent = *job;
    struct profile_result result = {0};
    redco_error err = {0};
    bool leader = false;
    struct leaving leaving = {why, rank};
    silent.progress = false;
    options.rank = rank;
    (void)on_exit(tell_exit, &leaving);
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { _exit(CLI_SYSTEM); }
    const redco_status st = run_rank(&silent, &options, &result, &leader, &err);
    profile_result_free(&result);
    if (st != REDCO_OK) { (void)write(why, &err, sizeof err); } /* whole, being less than PIPE_BUF */
    _exit(st == REDCO_OK ? CLI_DONE : CLI_SYSTEM);
}

/* Ranks that this process started, which a thread looks at: rank 0 is this process, and measures alone for minutes. */
struct ranks {
    const struct profile_job *job;
    const pid_t *processes; /* ranks 1, 2, ... */
    uint32_t count;
    atomic_bool over; /* rank 0 has done its work, or failed */
};

/* A rank that a signal ended has said nothing. @return whether there is one, with its end in @p err */
static bool find_killed(const struct ranks *ranks, redco_error *err)
{
    for (uint32_t i = 0; i < ranks->count; i++) {
        siginfo_t how = {.si_pid = 0};
        char place[32];
        if (waitid(P_PID, (id_t)ranks->processes[i], &how, WEXITED | WNOHANG | WNOWAIT) != 0 || how.si_pid == 0 ||
            (how.si_code != CLD_KILLED && how.si_code != CLD_DUMPED)) { /* else it has, and rank 0 hears of it */
            continue;
        }
        redco_error_clear(err);
        (void)snprintf(place, sizeof place, "rank %u", i + 1);
        (void)redco_fail(err, REDCO_ESYSTEM, place, "was ended by signal %d (%s)", how.si_status,
                         strsignal(how.si_status));
        return true;
    }
    return false;
}

static void *look_at_ranks(void *context)
{
    struct ranks *const ranks = context;
    redco_error err = {0};
    while (!atomic_load(&ranks->over)) {
        if (find_killed(ranks, &err) && !atomic_load(&ranks->over)) {
            for (uint32_t i = 0; i < ranks->count; i++) { (void)kill(ranks->processes[i], SIGKILL); }
            ranks->job->give_up(ranks->job->context, &err);
        }
        (void)poll(NULL, 0, 100);
    }
    return NULL;
}

/* The rank that failed first says more than the others, whose connections broke. */
static void ask_children(int why, redco_error *err)
{
    redco_error theirs = {0};
    struct pollfd ready = {.fd = why, .events = POLLIN};
    if (poll(&ready, 1, patience_ms) != 1 || read(why, &theirs, sizeof theirs) != (ssize_t)sizeof theirs) { return; }
    redco_error_clear(err);
    (void)redco_fail(err, theirs.status, theirs.place, "%s", theirs.text);
}

static void end_children(const pid_t *children, uint32_t count, bool kill_them)
{
    for (uint32_t i = 0; i < count; i++) {
        if (kill_them) { (void)kill(children[i], SIGKILL); }
    }
    for (uint32_t i = 0; i < count; i++) {
        while (waitpid(children[i], NULL, 0) < 0 && errno == EINTR) {}
    }
}

static redco_status run_processes(const struct profile_job *job, struct profile_result *result, bool *leader_out,
                                  redco_error *err)
{
    redco_local_ranks *local = NULL;
    redco_world_options options = {.transport = REDCO_TRANSPORT_SOCKET, .size = job->ranks, .timeout_s = silence_s};
    const pid_t parent = getpid();
    int why[2] = {-1, -1};
    uint32_t started = 0;
    if (pipe2(why, O_CLOEXEC) != 0) { return redco_fail(err, REDCO_ESYSTEM, "", "no pipe: %s", strerror(errno)); }
    redco_status st = redco_local_ranks_make(job->ranks, &local, err);
    options.local = local;
    pid_t *children = calloc(job->ranks, sizeof *children);
    if (children == NULL) { st = redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (uint32_t rank = 1; rank < job->ranks && st == REDCO_OK; rank++) {
        const pid_t pid = fork();
        if (pid == 0) { child(job, options, parent, rank, why[1]); }
        if (pid < 0) {
            st = redco_fail(err, REDCO_ESYSTEM, "", "cannot start rank %u: %s", rank, strerror(errno));
        } else {
            children[started++] = pid;
        }
    }
    struct ranks ranks = {.job = job, .processes = children, .count = started};
    pthread_t looks;
    const bool looked_at = st == REDCO_OK && pthread_create(&looks, NULL, look_at_ranks, &ranks) == 0;
    if (st == REDCO_OK) { st = run_rank(job, &options, result, leader_out, err); }
    atomic_store(&ranks.over, true);
    if (looked_at) { (void)pthread_join(looks, NULL); }
    if (st == REDCO_ESYSTEM && started > 0 && !find_killed(&ranks, err)) { ask_children(why[0], err); }
    end_children(children, started, st != REDCO_OK);
    (void)close(why[0]);
    (void)close(why[1]);
    free(children);
    redco_local_ranks_free(local); /* the rest of it: rank 0 is this process */
    return st;
}

redco_status profile_run(const struct profile_job *job, struct profile_result *result_out, bool *leader_out,
                         redco_error *err)
{
    struct profile_result result = {0};
    redco_status st = REDCO_OK;
    *leader_out = true;
    if (job->launched != NULL) {
        redco_world_options options = *job->launched;
        options.timeout_s = silence_s;
        st = run_rank(job, &options, &result, leader_out, err);
    } else if (job->mpi) {
        const redco_world_options options = {.transport = REDCO_TRANSPORT_MPI, .timeout_s = silence_s};
        st = run_rank(job, &options, &result, leader_out, err);
    } else if (job->ranks == 1) {
        const redco_world_options options = {.transport = REDCO_TRANSPORT_SELF, .size = 1};
        st = run_rank(job, &options, &result, leader_out, err);
    } else {
        st = run_processes(job, &result, leader_out, err);
    }
    if (st == REDCO_OK) {
        *result_out = result;
        result = (struct profile_result){0};
    }
    profile_result_free(&result);
    return st;
}

void profile_result_free(struct profile_result *result)
{
    free(result->cases);
    free(result->curves);
    *result = (struct profile_result){0};
}
