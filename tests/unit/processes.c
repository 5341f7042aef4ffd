#include "tests/unit/processes.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

pid_t start_rank(const redco_world_options *options, rank_main run, void *context)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0) { return pid; }
    redco_error err = {.status = REDCO_OK};
    redco_world *world = NULL;
    int code = 1;
    if (redco_world_open(options, &world, &err) == REDCO_OK) {
        code = run(world, context);
        redco_world_close(world);
    } else {
        (void)fprintf(stderr, "rank %u: %s: %s\n", options->rank, err.place, err.text);
    }
    _exit(code);
}

uint32_t run_ranks(uint32_t size, double timeout_s, rank_main run, void *context, int code)
{
    pid_t ranks[PROCESSES_MAX];
    redco_local_ranks *local = NULL;
    uint32_t count = 0;
    assert_true(size <= PROCESSES_MAX);
    assert_int_equal(redco_local_ranks_make(size, &local, NULL), REDCO_OK);
    for (uint32_t i = 0; i < size; i++) {
        const redco_world_options options = {
            .transport = REDCO_TRANSPORT_SOCKET, .rank = i, .size = size, .timeout_s = timeout_s, .local = local};
        ranks[i] = start_rank(&options, run, context);
    }
    redco_local_ranks_free(local);
    for (uint32_t i = 0; i < size; i++) {
        int status = 0;
        assert_int_equal(waitpid(ranks[i], &status, 0), ranks[i]);
        count += WIFEXITED(status) && WEXITSTATUS(status) == code ? 1 : 0;
    }
    return count;
}
