/* Strangers at the gates of ranks: processes that connect and say nothing, say anything, say again what a rank said, or
 * say that they are a rank without the secret, before the run begins and while it goes on. The run succeeds every time.
 * REDCO_TEST_ROUNDS: times each (1); 1,500 silent ones need as many descriptors. */
#include "tests/unit/processes.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 3, MOST_CALLS = 1500, SAID_BYTES = 1024, HELLO_BYTES = 24 };

static const unsigned char secret[] = "what these ranks know", other_secret[] = "what others may know";

static unsigned rounds(void)
{
    const char *const text = getenv("REDCO_TEST_ROUNDS");
    const unsigned long number = text != NULL ? strtoul(text, NULL, 10) : 1;
    return number > 0 && number < 1000 ? (unsigned)number : 1;
}

static void nap(long ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000};
    (void)nanosleep(&time, NULL);
}

static int listen_anywhere(uint16_t *port_out)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    assert_true(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
                bind(fd, (const struct sockaddr *)&in, size) == 0 && listen(fd, 16) == 0 &&
                getsockname(fd, (struct sockaddr *)&in, &size) == 0);
    *port_out = ntohs(in.sin_port);
    return fd;
}

/* Until somebody listens there. @return the connection, or -1 */
static int call(uint16_t port, int tries)
{
    const struct sockaddr_in in = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    for (; tries > 0; tries--) {
        const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) { return -1; }
        if (connect(fd, (const struct sockaddr *)&in, sizeof in) == 0) { return fd; }
        (void)close(fd);
        nap(2);
    }
    return -1;
}

/* @return whether the process has the socket of that number. */
static bool has_socket(pid_t pid, unsigned long inode)
{
    char path[64], want[64], link[64];
    (void)snprintf(want, sizeof want, "socket:[%lu]", inode);
    for (int fd = 0; fd < 64; fd++) {
        (void)snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)pid, fd);
        const ssize_t length = readlink(path, link, sizeof link - 1);
        if (length < 0) { continue; }
        link[length] = '\0';
        if (strcmp(link, want) == 0) { return true; }
    }
    return false;
}

/* Ports on which these processes listen, by Linux's table; no other process is bothered. */
static size_t listening(const pid_t *pids, size_t count, uint16_t *ports, size_t most)
{
    char line[512];
    size_t found = 0;
    FILE *const table = fopen("/proc/net/tcp", "re");
    while (table != NULL && fgets(line, sizeof line, table) != NULL) {
        unsigned address = 0, port = 0, state = 0;
        unsigned long inode = 0;
        if (sscanf(line, " %*u: %x:%x %*x:%*x %x %*x:%*x %*x:%*x %*x %*u %*u %lu", &address, &port, &state, &inode) !=
                4 ||
            state != 0x0a) {
            continue;
        }
        for (size_t i = 0; i < count && found < most; i++) {
            if (!has_socket(pids[i], inode)) { continue; }
            ports[found++] = (uint16_t)port;
            break;
        }
    }
    if (table != NULL) { (void)fclose(table); }
    return found;
}

/* The acts of strangers. */
struct siege {
    const char *name;
    int calls;
    const void *say;
    size_t size;
    bool falsely; /* a rank of the same number, with another secret */
};

/* A process of strangers, until it is ended. */
static pid_t besiege(const struct siege *s, uint16_t port)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) { return pid; }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (s->falsely) {
        char address[32];
        redco_world *world = NULL;
        (void)snprintf(address, sizeof address, "127.0.0.1:%u", port);
        const redco_world_options options = {REDCO_TRANSPORT_SOCKET, 1,    RANKS, address, 20.0, other_secret,
                                             sizeof other_secret,    NULL, NULL,  NULL};
        for (;;) { (void)redco_world_open(&options, &world, NULL); }
    }
    for (int i = 0; i < s->calls; i++) {
        const int fd = call(port, 2000);
        if (fd >= 0 && s->size > 0) { (void)!send(fd, s->say, s->size, MSG_NOSIGNAL); }
    }
    for (;;) { (void)pause(); }
}

static void lift(pid_t pid)
{
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}

/* A short run of many groups: each is linked anew. */
static int work(redco_world *world, void *context)
{
    uint32_t colours[PROCESSES_MAX] = {0};
    redco_error err = {.status = REDCO_OK};
    redco_status st = REDCO_OK;
    (void)context;
    for (int i = 0; i < 6 && st == REDCO_OK; i++) {
        redco_communicator *all = NULL;
        int32_t sum = 1;
        st = redco_communicator_split(world, colours, "all", &all, &err);
        if (st == REDCO_OK) { st = redco_all_reduce(all, REDCO_I32, REDCO_REDUCE_SUM, &sum, 1, "sum", &err); }
        if (st == REDCO_OK && sum != (int32_t)redco_world_size(world)) { return 3; }
        redco_communicator_free(all);
        nap(20);
    }
    if (st != REDCO_OK) { (void)fprintf(stderr, "%s: %s\n", err.place, err.text); }
    return st == REDCO_OK ? 0 : 2;
}

/* @param joined  ranks 1 and up call here; else at rank 0's port */
static void start_all(uint16_t port, uint16_t joined, pid_t pids[RANKS], int late_ms)
{
    static char addresses[RANKS][32];
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        (void)snprintf(addresses[rank], sizeof addresses[rank], "127.0.0.1:%u", rank == 1 ? joined : port);
        const redco_world_options options = {
            REDCO_TRANSPORT_SOCKET, rank, RANKS, addresses[rank], 20.0, secret, sizeof secret, NULL, NULL, NULL};
        if (rank == 1) { nap(late_ms); } /* strangers are there before it */
        pids[rank] = start_rank(&options, work, NULL);
    }
}

static void await_all(const pid_t pids[RANKS], const char *name)
{
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        int status = 0;
        assert_int_equal(waitpid(pids[rank], &status, 0), pids[rank]);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) { fail_msg("%s: rank %u: %d", name, rank, status); }
    }
}

static uint16_t free_port(void)
{
    uint16_t port = 0;
    (void)close(listen_anywhere(&port));
    return port;
}

static void besieged(const struct siege *s)
{
    for (unsigned round = 0; round < rounds(); round++) {
        const uint16_t port = free_port();
        pid_t pids[RANKS], strangers[2 + RANKS];
        size_t count = 1;
        uint16_t ports[RANKS + 1];
        strangers[0] = besiege(s, port);
        start_all(port, port, pids, 50);
        if (round % 2 == 0) { /* during the run, at every rank's own */
            nap(20);
            const size_t found = listening(pids, RANKS, ports, RANKS + 1);
            for (size_t i = 0; i < found; i++) { strangers[count++] = besiege(s, ports[i]); }
        }
        await_all(pids, s->name);
        for (size_t i = 0; i < count; i++) { lift(strangers[i]); }
    }
}

static void test_silent(void **state)
{
    const struct siege siege = {"40 silent", 40, NULL, 0, false};
    (void)state;
    besieged(&siege);
}

static void test_crowd(void **state)
{
    const struct siege siege = {"1,500 silent", MOST_CALLS, NULL, 0, false};
    struct rlimit files;
    (void)state;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
    const rlim_t before = files.rlim_cur, wanted = MOST_CALLS + 64;
    if (files.rlim_max != RLIM_INFINITY && files.rlim_max < wanted) { skip(); }
    if (files.rlim_cur < wanted) {
        files.rlim_cur = wanted;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
    }
    besieged(&siege);
    files.rlim_cur = before;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &files), 0);
}

static void test_garbage(void **state)
{
    static unsigned char noise[100000];
    const struct siege siege = {"garbage", 40, noise, sizeof noise, false},
                       short_one = {"a little garbage", 40, noise, 3, false};
    (void)state;
    uint32_t random = 1;
    for (size_t i = 0; i < sizeof noise; i++) {
        random = random * 1664525U + 1013904223U;
        noise[i] = (unsigned char)(random >> 24);
    }
    besieged(&siege);
    besieged(&short_one);
}

static void test_false_rank(void **state)
{
    const struct siege siege = {"a false rank", 0, NULL, 0, true};
    (void)state;
    besieged(&siege);
}

/* Hands on what rank 1 and rank 0 say to each other, and keeps what rank 1 said. Ends when either does. */
static void overhear(int listener, uint16_t port, int record)
{
    const int rank = accept4(listener, NULL, NULL, SOCK_CLOEXEC), gate = call(port, 2000);
    struct pollfd fds[2] = {{.fd = rank, .events = POLLIN}, {.fd = gate, .events = POLLIN}};
    while (rank >= 0 && gate >= 0 && poll(fds, 2, 20000) > 0) {
        unsigned char bytes[4096];
        const int from = fds[0].revents != 0 ? 0 : 1;
        const ssize_t got = recv(fds[from].fd, bytes, sizeof bytes, 0);
        if (got <= 0 || send(fds[1 - from].fd, bytes, (size_t)got, MSG_NOSIGNAL) != got) { break; }
        if (from == 0) { (void)!write(record, bytes, (size_t)got); }
    }
    _exit(0);
}

/* Rank 1's words of one run are said again in the next one, at once and piece by piece. */
static void test_replayed(void **state)
{
    unsigned char said[SAID_BYTES];
    uint16_t listens = 0;
    pid_t pids[RANKS];
    int record[2];
    (void)state;
    const uint16_t port = free_port();
    const int listener = listen_anywhere(&listens);
    assert_int_equal(pipe(record), 0);
    const pid_t between = fork();
    if (between == 0) { overhear(listener, port, record[1]); }
    (void)close(listener);
    (void)close(record[1]);
    start_all(port, listens, pids, 0);
    await_all(pids, "overheard");
    lift(between);
    size_t size = 0;
    for (ssize_t got = 1; got > 0 && size < sizeof said; size += (size_t)got) {
        got = read(record[0], said + size, sizeof said - size);
        assert_true(got >= 0);
    }
    (void)close(record[0]);
    assert_true(size > HELLO_BYTES + 32);
    const struct siege all = {"replayed", 20, said, size, false}, hello = {"half", 20, said, HELLO_BYTES, false};
    besieged(&all);
    besieged(&hello);
}

/* A rank whose parent made the sockets cannot be kept from its place, either. */
static void test_local(void **state)
{
    const struct siege siege = {"silent at local ranks", 100, NULL, 0, false};
    redco_local_ranks *local = NULL;
    pid_t pids[RANKS], strangers[RANKS];
    uint16_t ports[RANKS];
    const pid_t self = getpid();
    (void)state;
    assert_int_equal(redco_local_ranks_make(RANKS, &local, NULL), REDCO_OK);
    const size_t found = listening(&self, 1, ports, RANKS);
    for (uint32_t rank = 0; rank < RANKS; rank++) {
        const redco_world_options options = {
            .transport = REDCO_TRANSPORT_SOCKET, .rank = rank, .size = RANKS, .timeout_s = 20.0, .local = local};
        if (rank < found) { strangers[rank] = besiege(&siege, ports[rank]); }
        if (rank == 1) { nap(50); }
        pids[rank] = start_rank(&options, work, NULL);
    }
    redco_local_ranks_free(local);
    await_all(pids, siege.name);
    for (size_t i = 0; i < RANKS && i < found; i++) { lift(strangers[i]); }
}

/* Ranks with different secrets do not begin, and say why. */
static void test_secrets(void **state)
{
    char address[32];
    (void)state;
    (void)snprintf(address, sizeof address, "127.0.0.1:%u", free_port());
    for (uint32_t rank = 0; rank < 2; rank++) {
        const redco_world_options options = {REDCO_TRANSPORT_SOCKET,
                                             rank,
                                             2,
                                             address,
                                             0.5,
                                             rank == 0 ? secret : other_secret,
                                             rank == 0 ? sizeof secret : sizeof other_secret,
                                             NULL,
                                             NULL,
                                             NULL};
        const pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0) {
            redco_world *world = NULL;
            redco_error err = {.status = REDCO_OK};
            (void)redco_world_open(&options, &world, &err);
            _exit(strstr(err.text, "another secret") != NULL ? 0 : 1);
        }
    }
    for (int i = 0; i < 2; i++) {
        int status = 0;
        assert_true(wait(&status) > 0);
        assert_int_equal(WEXITSTATUS(status), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_silent),     cmocka_unit_test(test_crowd), cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_false_rank), cmocka_unit_test(test_local), cmocka_unit_test(test_replayed),
        cmocka_unit_test(test_secrets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
