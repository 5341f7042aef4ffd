#include "tools/exec_ranks.h"

#include <arpa/inet.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static bool number_in(const char *name, uint64_t *out)
{
    const char *const text = getenv(name);
    char *end = NULL;
    if (text == NULL || text[0] < '0' || text[0] > '9') { return false; }
    *out = strtoull(text, &end, 10);
    return *end == '\0';
}

/* Open MPI, then what MPICH and its descendants set. */
bool exec_under_mpi(uint64_t *rank_out, uint64_t *ranks_out)
{
    return (number_in("OMPI_COMM_WORLD_RANK", rank_out) && number_in("OMPI_COMM_WORLD_SIZE", ranks_out)) ||
           (number_in("PMI_RANK", rank_out) && number_in("PMI_SIZE", ranks_out));
}

/* A port on which nobody listens now. */
static redco_status free_address(char text[32], redco_error *err)
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool got = fd >= 0 && bind(fd, (const struct sockaddr *)&in, size) == 0 &&
                     getsockname(fd, (struct sockaddr *)&in, &size) == 0;
    const int why = errno;
    if (fd >= 0) { (void)close(fd); }
    if (!got) { return redco_fail(err, REDCO_ESYSTEM, "127.0.0.1", "no port for rank 0: %s", strerror(why)); }
    (void)snprintf(text, 32, "127.0.0.1:%u", ntohs(in.sin_port));
    return REDCO_OK;
}

/* What the parent had not yet written would be written twice. */
static pid_t start(const redco_world_options *options, exec_rank run, void *context)
{
    const pid_t parent = getpid(), pid = fork();
    if (pid != 0) { return pid; }
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) { _exit(CLI_SYSTEM); }
    exit(run(options, context)); /* not _exit: sanitizers look for leaks here */
}

static int code_of(const struct cli *cli, uint32_t rank, int status)
{
    redco_error err = {.status = REDCO_OK};
    char place[32];
    if (WIFEXITED(status)) { return WEXITSTATUS(status); }
    (void)snprintf(place, sizeof place, "rank %u", rank);
    (void)redco_fail(&err, REDCO_ESYSTEM, place, "was ended by signal %d (%s)", WTERMSIG(status),
                     strsignal(WTERMSIG(status)));
    return cli_fail(cli, &err);
}

int exec_start_ranks(const struct cli *cli, uint32_t count, exec_rank run, void *context)
{
    pid_t pids[EXEC_RANKS_MAX];
    char address[32];
    redco_error err = {.status = REDCO_OK};
    uint32_t started = 0;
    int code = CLI_DONE;
    if (free_address(address, &err) != REDCO_OK) { return cli_fail(cli, &err); }
    (void)fflush(NULL);
    while (started < count) {
        const redco_world_options options = {REDCO_TRANSPORT_SOCKET, started, count, address, 0.0};
        pids[started] = start(&options, run, context);
        if (pids[started] < 0) {
            (void)redco_fail(&err, REDCO_ESYSTEM, "ranks", "%u of %u processes: %s", started, count, strerror(errno));
            code = cli_fail(cli, &err);
            break;
        }
        started++;
    }
    for (uint32_t i = 0; i < started && code != CLI_DONE; i++) { (void)kill(pids[i], SIGKILL); }
    for (uint32_t left = started; left > 0; left--) {
        int status = 0;
        const pid_t pid = wait(&status);
        uint32_t rank = 0;
        while (rank < started && pids[rank] != pid) { rank++; }
        if (pid < 0 || rank == started) { break; }
        if (code == CLI_DONE) { code = code_of(cli, rank, status); }
    }
    return code;
}
