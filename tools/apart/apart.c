#include "tools/apart/apart.h"
#include "topology/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

static const double tick_s = 0.1, grace_s = 10.0; /* an end may take so long */

struct watched {
    struct apart *apart;
    pid_t process;
    int signals;     /* descriptor */
    sigset_t before; /* signal mask */
    bool ended;
    int status, sent; /* signal for both; 0: none */
    bool killed;
    double call_s, stopped_s, ending_s; /* in the present call; stopped; since it is to end or has done its work */
    uint64_t number;                    /* number of the call */
    const char *late;                   /* function that did not return in time; NULL: none */
};

static FILE *keep_output(void)
{
    const int real = fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    FILE *const output = real >= 0 ? fdopen(real, "w") : NULL;
    if (output != NULL && dup2(STDERR_FILENO, STDOUT_FILENO) >= 0) { return output; }
    return stdout;
}

void apart_print(FILE *output)
{
    (void)fflush(stdout);
    (void)dup2(fileno(output), STDOUT_FILENO);
}

/* Signals that end stay blocked, in threads of the library as well: the process that watches takes them. */
static _Noreturn void work_here(const struct watched *w, apart_work *work, void *context, pid_t parent)
{
    sigset_t ended;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { _exit(CLI_SYSTEM); }
    (void)close(w->signals);
    (void)sigemptyset(&ended);
    (void)sigaddset(&ended, SIGCHLD);
    (void)sigprocmask(SIG_UNBLOCK, &ended, NULL);
    const int code = work(context, w->apart, keep_output());
    (void)fflush(NULL);
    w->apart->code = code;
    __atomic_store_n(&w->apart->done, true, __ATOMIC_SEQ_CST);
    exit(code); /* not _exit: sanitizers look for leaks here */
}

static redco_status open_watch(struct watched *w, const struct apart_options *options, redco_error *err)
{
    static const int passed[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    sigset_t waited;
    (void)sigemptyset(&waited);
    (void)sigaddset(&waited, SIGCHLD);
    for (size_t i = 0; i < sizeof passed / sizeof passed[0]; i++) {
        struct sigaction now;
        if (sigaction(passed[i], NULL, &now) == 0 && now.sa_handler == SIG_IGN) { continue; } /* nohup */
        (void)sigaddset(&waited, passed[i]);
    }
    (void)signal(SIGCHLD, SIG_DFL);
    (void)prctl(PR_SET_CHILD_SUBREAPER, 1);
    w->apart = mmap(NULL, sizeof *w->apart, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (w->apart == MAP_FAILED) {
        w->apart = NULL;
        return redco_fail(err, REDCO_ENOMEM, options->library, "out of memory");
    }
    w->apart->timeout_s = options->timeout_s;
    if (sigprocmask(SIG_BLOCK, &waited, &w->before) != 0 ||
        (w->signals = signalfd(-1, &waited, SFD_CLOEXEC | SFD_NONBLOCK)) < 0) {
        return redco_fail(err, REDCO_ESYSTEM, options->library, "cannot be watched: %s", strerror(errno));
    }
    return REDCO_OK;
}

static void end(struct watched *w)
{
    if (!w->killed) { (void)kill(w->process, SIGKILL); }
    w->killed = true;
}

/* A terminal sends its signals to both processes; another sender to this one alone. */
static void take_signals(struct watched *w)
{
    struct signalfd_siginfo info;
    while (read(w->signals, &info, sizeof info) == (ssize_t)sizeof info) {
        if (info.ssi_signo == SIGCHLD) { continue; }
        w->sent = (int)info.ssi_signo;
        if (w->ended) { continue; }
        if (!w->apart->ends) { end(w); }
        (void)kill(w->process, w->sent);
    }
}

static void take_status(struct watched *w)
{
    int status = 0;
    while (!w->ended && waitpid(w->process, &status, WNOHANG | WUNTRACED | WCONTINUED) == w->process) {
        if (WIFSTOPPED(status) || WIFCONTINUED(status)) {
            w->stopped_s = WIFSTOPPED(status) ? tick_s : 0.0;
            continue;
        }
        w->ended = true;
        w->status = status;
    }
}

/* Time counts while this process runs: both may be stopped. */
static void count_time(struct watched *w, double passed_s)
{
    const double s = passed_s < 2.0 * tick_s ? passed_s : 2.0 * tick_s;
    const char *const function = redco_user_pipeline_in(&w->apart->call);
    const uint64_t number = redco_user_pipeline_in_number(&w->apart->call);
    const bool done = __atomic_load_n(&w->apart->done, __ATOMIC_SEQ_CST);
    w->call_s = function != NULL && number == w->number ? w->call_s + s : 0.0;
    w->number = number;
    if (w->stopped_s > 0.0) { w->stopped_s += s; }
    if (done || w->sent != 0) { w->ending_s += s; }
    if (function != NULL && w->call_s >= w->apart->timeout_s && w->late == NULL) {
        w->late = function;
        end(w);
    }
    if (w->ending_s > grace_s || w->stopped_s > w->apart->timeout_s + grace_s) { end(w); }
}

static void watch(struct watched *w)
{
    double before_s = redco_now_s();
    while (!w->ended) {
        struct pollfd fd = {.fd = w->signals, .events = POLLIN};
        (void)poll(&fd, 1, (int)(1000.0 * tick_s));
        const double s = redco_now_s();
        take_signals(w);
        take_status(w);
        if (!w->ended) { count_time(w, s - before_s); }
        before_s = s;
    }
    take_signals(w);
}

/* Processes that the work or its library started come to this one when their parents end: none is to stay. */
static void end_descendants(void)
{
    char path[64];
    (void)snprintf(path, sizeof path, "/proc/self/task/%d/children", (int)getpid());
    for (;;) {
        FILE *const list = fopen(path, "re");
        int process = 0;
        while (list != NULL && fscanf(list, "%9d", &process) == 1) { (void)kill(process, SIGKILL); }
        if (list != NULL) { (void)fclose(list); }
        if (waitpid(-1, NULL, 0) < 0 && errno != EINTR) { return; }
    }
}

/* The work's end, where it did not return. */
static void tell(const struct watched *w, const char *library, redco_error *err)
{
    const char *const function = redco_user_pipeline_in(&w->apart->call);
    const char *const in = function != NULL ? " in " : "", *const where = function != NULL ? function : "";
    const int number = WIFSIGNALED(w->status) ? WTERMSIG(w->status) : 0;
    if (w->late != NULL) {
        (void)redco_fail(err, REDCO_ESYSTEM, library, "%s has not returned for %g s", w->late, w->apart->timeout_s);
    } else if (w->killed) {
        (void)redco_fail(err, REDCO_ESYSTEM, library, "a function stopped its process%s%s", in, where);
    } else if (number == 0) {
        (void)redco_fail(err, REDCO_ESYSTEM, library, "a function called exit(%d)%s%s", WEXITSTATUS(w->status), in,
                         where);
    } else if (cli_crash()[0] != '\0') {
        (void)redco_fail(err, REDCO_ESYSTEM, library, "a function crashed: signal %d (%s)%s%s; %s", number,
                         strsignal(number), in, where, cli_crash());
    } else {
        (void)redco_fail(err, REDCO_ESYSTEM, library, "its process was ended by signal %d (%s)%s%s", number,
                         strsignal(number), in, where);
    }
}

/* @return the exit code; may end by the signal that was for both */
static int conclude(const struct watched *w, const struct cli *cli, const struct apart_options *options)
{
    const int code = w->apart->code;
    redco_error err = {.status = REDCO_OK};
    if (w->apart->done && (w->sent == 0 || code == CLI_DONE)) {
        if (options->err != NULL && w->apart->err.status != REDCO_OK) { *options->err = w->apart->err; }
        return code == CLI_DONE && WIFEXITED(w->status) ? WEXITSTATUS(w->status) : code; /* a sanitizer's, say */
    }
    if (w->sent != 0 || (WIFSIGNALED(w->status) && WTERMSIG(w->status) == SIGPIPE)) {
        const int number = w->sent != 0 ? w->sent : SIGPIPE;
        (void)signal(number, SIG_DFL);
        (void)sigprocmask(SIG_SETMASK, &w->before, NULL);
        (void)raise(number); /* whoever sent it sees that it worked */
    }
    tell(w, options->library, options->err != NULL ? options->err : &err);
    return options->err != NULL ? CLI_SYSTEM : cli_fail(cli, &err);
}

int apart_run(const struct cli *cli, const struct apart_options *options, apart_work *work, void *context)
{
    struct watched w = {.signals = -1};
    redco_error own = {.status = REDCO_OK}, *const err = options->err != NULL ? options->err : &own;
    int code = CLI_SYSTEM;
    (void)fflush(NULL);
    const pid_t parent = getpid();
    redco_status st = open_watch(&w, options, err);
    if (st == REDCO_OK && (w.process = fork()) == 0) { work_here(&w, work, context, parent); }
    if (st == REDCO_OK && w.process < 0) {
        st = redco_fail(err, REDCO_ESYSTEM, options->library, "cannot start a process: %s", strerror(errno));
    }
    if (st == REDCO_OK) {
        watch(&w);
        end_descendants();
        if (!w.apart->done && w.apart->clean != NULL) { w.apart->clean(w.apart); }
        code = conclude(&w, cli, options);
    } else if (options->err == NULL) {
        code = cli_fail(cli, err);
    }
    if (w.signals >= 0) {
        (void)close(w.signals);
        (void)sigprocmask(SIG_SETMASK, &w.before, NULL);
    }
    if (w.apart != NULL) { (void)munmap(w.apart, sizeof *w.apart); }
    return code;
}

struct in_thread {
    void (*work)(void *context);
    void *context;
    stack_t stack; /* for handlers of signals */
};

static void *begin_thread(void *context)
{
    const struct in_thread *const t = context;
    if ((t->stack.ss_flags & SS_DISABLE) == 0) { (void)sigaltstack(&t->stack, NULL); }
    t->work(t->context);
    return NULL;
}

void apart_in_thread(void (*work)(void *context), void *context)
{
    struct in_thread t = {.work = work, .context = context, .stack = {.ss_flags = SS_DISABLE}};
    pthread_t thread;
    (void)sigaltstack(NULL, &t.stack);
    if (pthread_create(&thread, NULL, begin_thread, &t) == 0) {
        (void)pthread_join(thread, NULL);
    } else {
        work(context);
    }
}
