/* The pipeline of redco-exec --new-pipeline, of which one function does what no function should: HOSTILE=WHERE:DEED
 * says which and what, HOSTILE_FROM=N from which call on. tests/exec-hostile.py has the table. */
#include "executor/pipeline/user_pipeline.h"

#include <errno.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile int zero;
static int calls;

static int deep(volatile int *from)
{
    volatile int here[4096] = {*from + 1};
    return deep(here) + here[1];
}
static void *spin(void *unused)
{
    for (;;) { (void)nanosleep(&(struct timespec){0, 1000000}, NULL); }
    return unused;
}
static void *print(void *unused)
{
    for (;;) {
        (void)printf("a thread prints\n");
        (void)fflush(stdout);
        (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    }
    return unused;
}
static void *crash_soon(void *unused)
{
    (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    *(volatile int *)8 = 1;
    return unused;
}
static void *leave_soon(void *unused)
{
    (void)nanosleep(&(struct timespec){0, 1000000}, NULL);
    _exit(0);
    return unused;
}
static void *join_work(void *unused)
{
    return unused;
}
static void start(void *(*body)(void *))
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, body, NULL) == 0) { (void)pthread_detach(thread); }
}
static void crash_at_end(void)
{
    *(volatile int *)8 = 1;
}
static void hang_at_end(void)
{
    for (;;) { (void)pause(); }
}
static void leave_at_end(void)
{
    _exit(0);
}
static void print_at_end(void)
{
    (void)printf("printed at the end\n");
}
static void ignore(int number)
{
    (void)number;
}
static void block_all(void)
{
    sigset_t all;
    (void)sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
}

static void work_together(void)
{
    int sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < 1000; i++) { sum += i; }
    zero = 0 * sum;
}

static void act(const char *deed)
{
    const struct sigaction nowait = {.sa_handler = SIG_DFL, .sa_flags = SA_NOCLDWAIT}, handled = {.sa_handler = ignore};
    const struct itimerval soon = {.it_value = {0, 1000}};
    pthread_t thread;
#define IS(word) (strcmp(deed, word) == 0)
    if (IS("exit0")) { exit(0); }
    if (IS("exit1")) { exit(1); }
    if (IS("_exit0")) { _exit(0); }
    if (IS("_exit7")) { _exit(7); }
    if (IS("quick")) { quick_exit(0); }
    if (IS("exec")) { (void)execl("/bin/true", "true", (char *)NULL); }
    if (IS("abort")) { abort(); }
    if (IS("null")) { *(volatile int *)8 = 1; }
    if (IS("raise-fpe")) { (void)raise(SIGFPE); }
    if (IS("deep")) { zero = deep(&zero); }
    if (IS("trap")) { __builtin_trap(); }
    if (IS("kill")) { (void)kill(getpid(), SIGKILL); }
    if (IS("term")) { (void)kill(getpid(), SIGTERM); }
    if (IS("usr1")) { (void)raise(SIGUSR1); }
    if (IS("xcpu")) { (void)raise(SIGXCPU); }
    if (IS("stop")) { (void)raise(SIGSTOP); }
    if (IS("alarm")) { (void)alarm(1), hang_at_end(); }
    if (IS("timer")) { (void)setitimer(ITIMER_REAL, &soon, NULL), hang_at_end(); }
    if (IS("cpu")) { (void)setrlimit(RLIMIT_CPU, &(struct rlimit){1, 1}); }
    if (IS("cpu")) {
        for (;;) { zero += 0; }
    }
    if (IS("thread-exit")) { pthread_exit(NULL); }
    if (IS("pause")) { hang_at_end(); }
    if (IS("spin")) {
        for (;;) { zero += 0; }
    }
    if (IS("deaf")) { block_all(), hang_at_end(); }
    if (IS("deaf-spin")) { block_all(), spin(NULL); }
    if (IS("join")) { (void)pthread_create(&thread, NULL, spin, NULL), (void)pthread_join(thread, NULL); }
    if (IS("read")) { (void)!read(open("/dev/zero", O_RDONLY) < 0 ? 0 : 0, &(char){0}, 0), hang_at_end(); }
    if (IS("thread")) { start(spin); }
    if (IS("openmp")) { work_together(); }
    if (IS("threads")) {
        for (int i = 0; i < 8; i++) { start(spin); }
    }
    if (IS("joined")) { (void)pthread_create(&thread, NULL, join_work, NULL), (void)pthread_join(thread, NULL); }
    if (IS("thread-crash")) { start(crash_soon), hang_at_end(); }
    if (IS("thread-leave")) { start(leave_soon), hang_at_end(); }
    if (IS("thread-print")) { start(print); }
    if (IS("printf")) { (void)printf("{\"printed\": 1}\n"); }
    if (IS("puts-part")) { (void)fputs("no line end", stdout); }
    if (IS("write")) { (void)!write(1, "written\n", 8); }
    if (IS("print-much")) {
        for (int i = 0; i < 10000; i++) { (void)puts("printed and printed"); }
    }
    if (IS("child-print")) { (void)!system("echo printed by a child"); }
    if (IS("sigchld-ignored")) { (void)signal(SIGCHLD, SIG_IGN); }
    if (IS("sigchld-nowait")) { (void)sigaction(SIGCHLD, &nowait, NULL); }
    if (IS("sigchld-handled")) { (void)sigaction(SIGCHLD, &handled, NULL); }
    if (IS("ends-ignored")) { (void)signal(SIGINT, SIG_IGN), (void)signal(SIGTERM, SIG_IGN); }
    if (IS("blocked")) { block_all(); }
    if (IS("at-end-crash")) { (void)atexit(crash_at_end); }
    if (IS("at-end-hang")) { (void)atexit(hang_at_end); }
    if (IS("at-end-leave")) { (void)atexit(leave_at_end); }
    if (IS("at-end-print")) { (void)atexit(print_at_end); }
    if (IS("locale")) { (void)setlocale(LC_ALL, ""); }
    if (IS("child")) { (void)!system("true"); }
    if (IS("fork")) {
        const pid_t pid = fork();
        if (pid == 0) { _exit(0); }
        (void)waitpid(pid, NULL, 0);
    }
    if (IS("sleep")) { (void)nanosleep(&(struct timespec){0, 300000000}, NULL); }
    if (IS("environment")) { (void)unsetenv("PATH"), (void)unsetenv("HOME"); }
    if (IS("errno")) { errno = ENOSPC; }
}

static void here(const char *where)
{
    const char *const hostile = getenv("HOSTILE"), *const from = getenv("HOSTILE_FROM");
    const size_t length = strlen(where);
    if (hostile == NULL || strncmp(hostile, where, length) != 0 || hostile[length] != ':') { return; }
    if (++calls >= (from != NULL ? atoi(from) : 1)) { act(hostile + length + 1); }
}

__attribute__((constructor)) static void open_library(void)
{
    here("constructor");
}
__attribute__((destructor)) static void close_library(void)
{
    here("destructor");
}

static void describe(redco_user_pipeline_shape *shape)
{
    const redco_initial small = {REDCO_INITIAL_NORMAL, 0.1}, zeros = {REDCO_INITIAL_ZERO, 0.0};
    here("describe");
    redco_user_pipeline_parameter(shape, "line.weight", 2, (const uint64_t[]){1, 1}, small);
    redco_user_pipeline_parameter(shape, "line.bias", 1, (const uint64_t[]){1}, zeros);
    redco_user_pipeline_input(shape, "x", REDCO_F32, 1, (const uint64_t[]){1});
    redco_user_pipeline_input(shape, "y", REDCO_F32, 1, (const uint64_t[]){1});
}

static redco_status collate(const json_t *const *examples, uint32_t count, void *const *data, redco_error *err)
{
    float *const x = data[0], *const y = data[1];
    (void)err;
    here("collate");
    for (uint32_t i = 0; i < count; i++) {
        x[i] = (float)json_number_value(json_object_get(examples[i], "x"));
        y[i] = (float)json_number_value(json_object_get(examples[i], "y"));
    }
    return REDCO_OK;
}

static redco_value line(redco_scope *scope)
{
    redco_graph *const g = scope->graph;
    const redco_value x = redco_scope_weight(scope, "x"), weight = redco_scope_weight(scope, "line.weight");
    return redco_add(g, redco_matmul(g, x, weight, false, false), redco_scope_weight(scope, "line.bias"));
}

static redco_value predict(redco_scope *scope)
{
    here("predict");
    return line(scope);
}

/* Another graph from a call on. */
static redco_value loss(redco_scope *scope, const void *context)
{
    const char *const from = getenv("HOSTILE_GRAPH");
    static int built;
    redco_graph *const g = scope->graph;
    (void)context;
    here("loss");
    redco_value error = redco_sub(g, line(scope), redco_scope_weight(scope, "y"));
    if (from != NULL && ++built >= atoi(from)) { error = redco_scale(g, error, 2.0); }
    return redco_cast(g, redco_mean_all(g, redco_mul(g, error, error)), redco_dtype_statistic(scope->compute));
}

static json_t *output(const json_t *example, const double *values, uint32_t count)
{
    (void)example, (void)count;
    here("output");
    return json_real(values[0]);
}

const redco_user_pipeline redco_user_pipeline_table = {.abi = REDCO_USER_PIPELINE_ABI,
                                                       .name = "hostile",
                                                       .describe = describe,
                                                       .collate = collate,
                                                       .loss = loss,
                                                       .predict = predict,
                                                       .output = output};
