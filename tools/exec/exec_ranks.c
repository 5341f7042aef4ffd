#include "tools/exec/exec_ranks.h"
#include "topology/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

/* After a failure, what ranks have to see that a peer is gone and to say so. */
static const double grace_s = 2.0;

struct child {
    pid_t pid;
    bool ended, killed, reported; /* killed: by this process */
    bool left;                    /* a function of a pipeline ended it */
    int status;
    double stopped_s; /* since when; 0: it runs */
    double call_s;    /* in the present call of a pipeline's function, while this process ran */
    uint64_t call;    /* its number */
    double over_s;    /* since it returned, likewise */
    struct exec_report report;
};

struct run {
    const struct cli *cli;
    double timeout_s;
    uint32_t count, left; /* started; not ended */
    int pipe[2], signals;
    sigset_t before; /* signal mask */
    struct exec_slot *slots;
    struct child *children;
    double trouble_s; /* since when; 0: none */
    int signal;       /* that is to end this process */
    int32_t hanging;  /* rank that stayed stopped, or in a function; -1: none */
    double looked_s;  /* at the clock */
};

static redco_status open_run(struct run *r, uint32_t count, redco_error *err)
{
    const size_t bytes = count * sizeof *r->slots;
    static const int enders[] = {SIGINT, SIGTERM, SIGHUP};
    sigset_t waited;
    (void)sigemptyset(&waited);
    (void)sigaddset(&waited, SIGCHLD);
    (void)signal(SIGCHLD, SIG_DFL); /* a pipeline may have ignored it: no rank would ever be seen to end */
    for (size_t i = 0; i < sizeof enders / sizeof enders[0]; i++) {
        struct sigaction now;
        if (sigaction(enders[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN) { continue; } /* nohup */
        (void)sigaddset(&waited, enders[i]);
    }
    r->children = calloc(count, sizeof *r->children);
    r->slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r->slots == MAP_FAILED) { r->slots = NULL; }
    if (r->children == NULL || r->slots == NULL) {
        return redco_fail(err, REDCO_ENOMEM, "ranks", "no memory to start %u", count);
    }
    if (pipe2(r->pipe, O_CLOEXEC | O_NONBLOCK) != 0 || sigprocmask(SIG_BLOCK, &waited, &r->before) != 0 ||
        (r->signals = signalfd(-1, &waited, SFD_CLOEXEC | SFD_NONBLOCK)) < 0) {
        return redco_fail(err, REDCO_ESYSTEM, "ranks", "cannot be watched: %s", strerror(errno));
    }
    return REDCO_OK;
}

static void close_run(struct run *r, uint32_t count)
{
    if (r->slots != NULL) { (void)munmap(r->slots, count * sizeof *r->slots); }
    for (int i = 0; i < 2; i++) {
        if (r->pipe[i] >= 0) { (void)close(r->pipe[i]); }
    }
    if (r->signals >= 0) { (void)close(r->signals); }
    (void)sigprocmask(SIG_SETMASK, &r->before, NULL);
    free(r->children);
}

/* A rank that ends with an error and has said why on its own, or has only an answer to give, says so. */
static _Noreturn void be_rank(struct run *r, const redco_world_options *options, exec_rank run, void *context)
{
    struct exec_line line = {.pipe = r->pipe[1], .slot = &r->slots[options->rank]};
    (void)close(r->pipe[0]);
    (void)close(r->signals);
    (void)fcntl(line.pipe, F_SETFL, 0); /* a report is not lost because others are ahead of it */
    (void)sigprocmask(SIG_SETMASK, &r->before, NULL);
    (void)pthread_mutex_init(&line.lock, NULL);
    free(r->children);
    const int code = run(options, &line, context);
    if (code != CLI_DONE && !line.reported) {
        const struct exec_report report = {.rank = options->rank, .code = code, .told = true};
        (void)!write(line.pipe, &report, sizeof report);
    }
    (void)pthread_mutex_destroy(&line.lock);
    redco_local_ranks_free(options->local);
    line.slot->code = code;
    (void)fflush(NULL);
    atomic_store(&line.slot->returned, true);
    exit(code); /* not _exit: sanitizers look for leaks here */
}

/* Output that the parent had not yet written would be written twice. */
static pid_t start(struct run *r, const redco_world_options *options, exec_rank run, void *context)
{
    const pid_t parent = getpid(), pid = fork();
    if (pid != 0) { return pid; }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { _exit(CLI_SYSTEM); }
    be_rank(r, options, run, context);
}

static void kill_rest(struct run *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        struct child *const c = &r->children[i];
        if (c->ended || c->killed) { continue; }
        c->killed = true;
        (void)kill(c->pid, SIGKILL);
    }
}

static void take_reports(struct run *r)
{
    struct exec_report report;
    while (read(r->pipe[0], &report, sizeof report) == (ssize_t)sizeof report) {
        if (report.rank >= r->count) { continue; }
        r->children[report.rank].reported = true;
        r->children[report.rank].report = report;
        if (r->trouble_s == 0.0) { r->trouble_s = redco_now_s(); }
    }
}

static void take_signals(struct run *r)
{
    struct signalfd_siginfo info;
    while (read(r->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) { continue; }
        r->signal = (int)info.ssi_signo;
        kill_rest(r);
    }
}

static void take_children(struct run *r)
{
    int status = 0;
    for (pid_t pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED); pid > 0;
         pid = waitpid(-1, &status, WNOHANG | WUNTRACED | WCONTINUED)) {
        uint32_t rank = 0;
        while (rank < r->count && r->children[rank].pid != pid) { rank++; }
        if (rank == r->count) { continue; }
        struct child *const c = &r->children[rank];
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            c->stopped_s = WIFSTOPPED(status) ? redco_now_s() : 0.0;
            continue;
        }
        c->ended = true;
        c->status = status;
        const bool returned = atomic_load(&r->slots[rank].returned);
        if (returned && (!WIFEXITED(status) || WEXITSTATUS(status) == CLI_DONE)) {
            c->status = status = W_EXITCODE(r->slots[rank].code, 0);
        }
        c->left = WIFEXITED(status) && !returned;
        r->left--;
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGPIPE && !c->killed && r->signal == 0) {
            r->signal = SIGPIPE; /* nobody reads what is printed: all end as one program would */
            kill_rest(r);
        }
        const bool done = WIFEXITED(status) && WEXITSTATUS(status) == CLI_DONE && !c->left;
        if (!done && r->trouble_s == 0.0) { r->trouble_s = redco_now_s(); }
    }
}

/* Those that are stopped will say nothing. */
static bool all_stopped(const struct run *r)
{
    for (uint32_t i = 0; i < r->count; i++) {
        if (!r->children[i].ended && r->children[i].stopped_s == 0.0) { return false; }
    }
    return true;
}

/* A function of a pipeline that does not return: nobody need wait for the rank that is in it. */
static bool is_late(struct run *r, uint32_t rank, double passed_s)
{
    struct child *const c = &r->children[rank];
    const redco_user_pipeline_call *const call = &r->slots[rank].call;
    const uint64_t number = redco_user_pipeline_in_number(call);
    c->call_s = redco_user_pipeline_in(call) != NULL && number == c->call ? c->call_s + passed_s : 0.0;
    c->call = number;
    return !c->ended && c->call_s >= r->timeout_s;
}

/* A rank that stays stopped is given up, even where nobody waits for it any more. */
static void look_at_clock(struct run *r)
{
    const double now = redco_now_s(), most_s = 0.2; /* between two looks: this process may be stopped, too */
    const double passed_s = now - r->looked_s < most_s ? now - r->looked_s : most_s;
    r->looked_s = now;
    for (uint32_t i = 0; i < r->count; i++) {
        struct child *const c = &r->children[i];
        if (!c->ended && atomic_load(&r->slots[i].returned) && (c->over_s += passed_s) > grace_s) {
            (void)kill(c->pid, SIGKILL); /* a library does not let it end */
        }
        if (!is_late(r, i, passed_s) || r->hanging >= 0) { continue; }
        r->hanging = (int32_t)i;
        if (r->trouble_s == 0.0) { r->trouble_s = now - grace_s; }
    }
    for (uint32_t i = 0; i < r->count && r->trouble_s == 0.0; i++) {
        const struct child *const c = &r->children[i];
        if (c->ended || c->stopped_s == 0.0 || now - c->stopped_s < r->timeout_s + grace_s) { continue; }
        r->hanging = (int32_t)i;
        r->trouble_s = now;
    }
    if (r->trouble_s > 0.0 && (now - r->trouble_s >= grace_s || all_stopped(r))) { kill_rest(r); }
}

static void watch(struct run *r)
{
    while (r->left > 0) {
        struct pollfd fds[2] = {{.fd = r->pipe[0], .events = POLLIN}, {.fd = r->signals, .events = POLLIN}};
        (void)poll(fds, 2, 100);
        take_signals(r);
        take_reports(r);
        take_children(r);
        look_at_clock(r);
    }
    take_reports(r);
    take_signals(r); /* a terminal's goes to all at once */
}

/* The fate of a rank, in its place and step. */
static int tell_of(const struct run *r, uint32_t rank, redco_status status, const char *what)
{
    struct exec_report report = {.rank = rank, .step = atomic_load(&r->slots[rank].step)};
    const char *const doing = exec_doing(&r->slots[rank]);
    (void)redco_fail(&report.err, status, doing[0] != '\0' ? doing : "starting", "%s", what);
    exec_print_report(r->cli, &report);
    return CLI_SYSTEM;
}

/* Rank of the first child for which it holds, or the number of ranks. */
static uint32_t first_of(const struct run *r, bool (*holds)(const struct child *child))
{
    uint32_t rank = 0;
    while (rank < r->count && !holds(&r->children[rank])) { rank++; }
    return rank;
}

static bool by_signal(const struct child *c)
{
    return c->ended && WIFSIGNALED(c->status) && !c->killed;
}
static bool by_itself(const struct child *c)
{
    return c->reported && !c->report.broken;
}
static bool silent_stopped(const struct child *c)
{
    return c->killed && !c->reported && c->stopped_s > 0.0;
}
static bool silent(const struct child *c)
{
    return c->killed && !c->reported && WIFSIGNALED(c->status);
}
static bool without_word(const struct child *c)
{
    return c->ended && WIFEXITED(c->status) && WEXITSTATUS(c->status) != CLI_DONE && !c->reported;
}
static bool has_left(const struct child *c)
{
    return c->left;
}
static bool at_all(const struct child *c)
{
    return c->reported;
}

/* Causes before consequences: a rank that a signal ended, one that left, one that failed itself, one that was silent,
 * then those that missed it. @return the exit code */
static int tell(const struct run *r)
{
    const uint32_t failed = first_of(r, by_itself), saw = first_of(r, at_all), odd = first_of(r, without_word);
    uint32_t rank = first_of(r, by_signal);
    char what[200 + CLI_CRASH_BYTES];
    if (rank < r->count) {
        const int number = WTERMSIG(r->children[rank].status);
        (void)snprintf(what, sizeof what, "was ended by signal %d (%s)%s%s", number, strsignal(number),
                       cli_crash()[0] != '\0' ? "; " : "", cli_crash());
        return tell_of(r, rank, REDCO_ESYSTEM, what);
    }
    rank = first_of(r, has_left);
    if (rank < r->count) {
        (void)snprintf(what, sizeof what, "called exit(%d)", WEXITSTATUS(r->children[rank].status));
        return tell_of(r, rank, REDCO_ESYSTEM, what);
    }
    if (failed < r->count) {
        const struct exec_report *const report = &r->children[failed].report;
        if (!report->told) { exec_print_report(r->cli, report); }
        return report->code;
    }
    if (odd < r->count) {
        (void)snprintf(what, sizeof what, "ended with exit code %d and no message",
                       WEXITSTATUS(r->children[odd].status));
        return tell_of(r, odd, REDCO_ESYSTEM, what);
    }
    rank = r->hanging >= 0 ? (uint32_t)r->hanging : first_of(r, silent_stopped);
    if (rank == r->count) { rank = first_of(r, silent); }
    if (rank < r->count && r->children[rank].call_s >= r->timeout_s) {
        (void)snprintf(what, sizeof what, "%s has not returned for %g s", redco_user_pipeline_in(&r->slots[rank].call),
                       r->timeout_s);
        return tell_of(r, rank, REDCO_ESYSTEM, what);
    }
    if (rank < r->count) {
        (void)snprintf(what, sizeof what, "was not heard of for %g s%s", r->timeout_s,
                       r->children[rank].stopped_s > 0.0 ? ": it is stopped" : "");
        return tell_of(r, rank, REDCO_ESYSTEM, what);
    }
    if (saw == r->count) { return CLI_DONE; }
    exec_print_report(r->cli, &r->children[saw].report);
    return r->children[saw].report.code;
}

static redco_status start_all(struct run *r, uint32_t count, exec_rank run, void *context, redco_error *err)
{
    redco_local_ranks *local = NULL;
    redco_status st = count > 1 ? redco_local_ranks_make(count, &local, err) : REDCO_OK;
    (void)fflush(NULL);
    while (r->count < count && st == REDCO_OK) {
        const redco_world_options options = {.transport = count > 1 ? REDCO_TRANSPORT_SOCKET : REDCO_TRANSPORT_SELF,
                                             .rank = r->count,
                                             .size = count,
                                             .timeout_s = r->timeout_s,
                                             .local = local};
        const pid_t pid = start(r, &options, run, context);
        if (pid < 0) {
            st = redco_fail(err, REDCO_ESYSTEM, "ranks", "%u of %u processes: %s", r->count, count, strerror(errno));
            break;
        }
        r->children[r->count++].pid = pid;
        r->left++;
    }
    redco_local_ranks_free(local);
    return st;
}

int exec_start_ranks(const struct cli *cli, uint32_t count, double timeout_s, exec_rank run, void (*cleanup)(void *),
                     void *context)
{
    struct run r = {.cli = cli, .timeout_s = timeout_s, .pipe = {-1, -1}, .signals = -1, .hanging = -1};
    redco_error err = {.status = REDCO_OK};
    int code = CLI_DONE;
    (void)sigprocmask(SIG_BLOCK, NULL, &r.before);
    redco_status st = open_run(&r, count, &err);
    if (st == REDCO_OK) { st = start_all(&r, count, run, context, &err); }
    if (st != REDCO_OK) { kill_rest(&r); }
    watch(&r);
    if (st != REDCO_OK) {
        code = cli_fail(cli, &err);
    } else if (r.signal == 0) {
        code = tell(&r);
    }
    if ((code != CLI_DONE || r.signal != 0) && cleanup != NULL) { cleanup(context); }
    close_run(&r, count);
    if (r.signal != 0) { /* whoever sent it sees that it worked */
        sigset_t one;
        (void)sigemptyset(&one);
        (void)sigaddset(&one, r.signal);
        (void)signal(r.signal, SIG_DFL);
        (void)sigprocmask(SIG_UNBLOCK, &one, NULL);
        (void)raise(r.signal);
    }
    return code;
}
