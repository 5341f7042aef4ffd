/* Collectives over sockets among processes of this machine, against sums computed here. Data are small integers, so
 * that every order of summation gives the same bits in every type. test_communicator_mpi runs the same checks under
 * mpirun. */
#include "executor/backend/host/host.h"
#include "tests/unit/communicator_checks.h"
#include "tests/unit/full.h"
#include "tests/unit/processes.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* The words that tell processes what to run. */
typedef int (*check)(redco_world *world);
typedef int (*group_check)(redco_world *world, const check_device *device);

static int run_check(redco_world *world, void *context)
{
    return (*(const check *)context)(world);
}

static uint32_t run_world(uint32_t size, double timeout_s, check run, int code)
{
    return run_ranks(size, timeout_s, run_check, &run, code);
}

static int run_group_check(redco_world *world, void *context)
{
    return (*(const group_check *)context)(world, NULL);
}

static uint32_t run_groups(uint32_t size, group_check run)
{
    return run_ranks(size, 20.0, run_group_check, &run, 0);
}

/* The same through process groups, on the host backend's memory. */
static int run_process_group_check(redco_world *world, void *context)
{
    check_device device = {.backend = NULL};
    int line = 1;
    if (redco_host_open(NULL, &device.backend, NULL) == REDCO_OK &&
        redco_host_device_comm_open(world, &device.device_comm, NULL) == REDCO_OK) {
        line = (*(const group_check *)context)(world, &device);
        if (line == 0 && redco_device_comm_check(device.device_comm, NULL) != REDCO_OK) { line = 2; }
    }
    redco_device_comm_close(device.device_comm);
    redco_backend_close(device.backend);
    return line;
}

static uint32_t run_process_groups(uint32_t size, group_check run)
{
    return run_ranks(size, 20.0, run_process_group_check, &run, 0);
}

static void test_process_groups(void **state)
{
    (void)state;
    assert_int_equal(run_process_groups(1, check_collectives), 1);
    assert_int_equal(run_process_groups(3, check_collectives), 3);
    assert_int_equal(run_process_groups(8, check_meshes), 8);
    assert_int_equal(run_process_groups(4, check_two_streams), 4);
}

static void test_worlds(void **state)
{
    (void)state;
    static const uint32_t sizes[] = {1, 2, 3, 5, 8};
    for (size_t i = 0; i < (test_full() ? sizeof sizes / sizeof sizes[0] : 4); i++) {
        assert_int_equal(run_groups(sizes[i], check_collectives), sizes[i]);
    }
}

static void test_meshes(void **state)
{
    (void)state;
    assert_int_equal(run_groups(8, check_meshes), 8);
}

static void test_two_streams(void **state)
{
    (void)state;
    assert_int_equal(run_groups(4, check_two_streams), 4);
}

static void test_alone(void **state)
{
    (void)state;
    const redco_world_options options = {.transport = REDCO_TRANSPORT_SELF};
    redco_world *world = NULL;
    assert_int_equal(redco_world_open(&options, &world, NULL), REDCO_OK);
    assert_int_equal(check_collectives(world, NULL), 0);
    redco_world_close(world);
}

enum { LOST = 7 };

/* Rank 1 dies in the middle; the others must learn of it, whoever their neighbours are. */
static int one_dies(redco_world *world)
{
    const uint32_t colours[PROCESSES_MAX] = {0};
    const uint64_t count = 1 << 20;
    redco_communicator *all = NULL;
    redco_error err = {.status = REDCO_OK};
    float *const data = calloc(count, sizeof *data);
    int code = 1;
    if (data != NULL && redco_communicator_split(world, colours, "all", &all, &err) == REDCO_OK) {
        redco_status st = REDCO_OK;
        for (int i = 0; i < 1000 && st == REDCO_OK; i++) {
            if (redco_world_rank(world) == 1 && i == 3) { (void)raise(SIGKILL); }
            st = redco_all_reduce(all, REDCO_F32, REDCO_REDUCE_SUM, data, count, "bwd/gradients/bucket.0", &err);
        }
        code = st == REDCO_ESYSTEM && strcmp(err.place, "bwd/gradients/bucket.0") == 0 &&
                       strstr(err.text, "closed the connection") != NULL
                   ? LOST
                   : 2;
    }
    redco_communicator_free(all);
    free(data);
    return code;
}

static void test_death(void **state)
{
    (void)state;
    assert_int_equal(run_world(5, 20.0, one_dies, LOST), 4);
}

/* Rank 2 never calls: the others wait for the time-out, and say for whom. */
static int one_sleeps(redco_world *world)
{
    const uint32_t colours[PROCESSES_MAX] = {0};
    const struct timespec nap = {.tv_sec = 2};
    redco_communicator *all = NULL;
    redco_error err = {.status = REDCO_OK};
    int code = 1;
    if (redco_communicator_split(world, colours, "all", &all, &err) == REDCO_OK) {
        if (redco_world_rank(world) == 2) {
            (void)nanosleep(&nap, NULL);
            code = 0;
        } else {
            const redco_status st = redco_barrier(all, "step/grad_norm/reduce", &err);
            code = st == REDCO_ESYSTEM && strcmp(err.place, "step/grad_norm/reduce") == 0 ? LOST : 2;
        }
    }
    redco_communicator_free(all);
    return code;
}

static void test_silence(void **state)
{
    (void)state;
    assert_int_equal(run_world(3, 0.3, one_sleeps, LOST), 2);
}

static void *give_up(void *context)
{
    const struct timespec nap = {.tv_nsec = 100000000};
    (void)nanosleep(&nap, NULL);
    redco_world_abort(context);
    return NULL;
}

/* Rank 2 never calls, and a thread of rank 0 gives up: it ends long before the time-out, and rank 1 because it left. */
static int one_gives_up(redco_world *world)
{
    const uint32_t colours[PROCESSES_MAX] = {0};
    const struct timespec nap = {.tv_sec = 2};
    const uint32_t rank = redco_world_rank(world);
    redco_communicator *all = NULL;
    redco_error err = {.status = REDCO_OK};
    pthread_t thread;
    int code = 1;
    if (redco_communicator_split(world, colours, "all", &all, &err) == REDCO_OK) {
        if (rank == 2) {
            (void)nanosleep(&nap, NULL);
            code = 0;
        } else if (rank == 1 || pthread_create(&thread, NULL, give_up, world) == 0) {
            const redco_status st = redco_barrier(all, "step/grad_norm/reduce", &err);
            const redco_status again = redco_barrier(all, "once more", NULL);
            const char *const why = rank == 0 ? "has given up" : "closed the connection";
            if (rank == 0) { (void)pthread_join(thread, NULL); }
            code = st == REDCO_ESYSTEM && again == REDCO_ESYSTEM && strstr(err.text, why) != NULL ? LOST : 2;
            if (code != LOST) { (void)fprintf(stderr, "rank %u: %s\n", rank, err.text); }
        }
    }
    redco_communicator_free(all);
    return code;
}

static void test_abort(void **state)
{
    (void)state;
    assert_int_equal(run_world(3, 600.0, one_gives_up, LOST), 2);
}

static int nothing(redco_world *world, void *context)
{
    (void)context;
    return redco_world_size(world) > 0 ? 0 : 1;
}

/* An address of this machine that nobody had a moment ago. */
static void free_address(char text[32])
{
    struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof in;
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(fd >= 0 && bind(fd, (const struct sockaddr *)&in, size) == 0 &&
                getsockname(fd, (struct sockaddr *)&in, &size) == 0);
    (void)close(fd);
    (void)snprintf(text, 32, "127.0.0.1:%u", ntohs(in.sin_port));
}

static const unsigned char secret[REDCO_SECRET_MIN] = "fifteen letters";

static void test_disagreement(void **state)
{
    char address[32];
    (void)state;
    free_address(address);
    const redco_world_options two = {REDCO_TRANSPORT_SOCKET, 0,    2,    address, 5.0, secret,
                                     sizeof secret,          NULL, NULL, NULL},
                              three = {REDCO_TRANSPORT_SOCKET, 1,    3,    address, 5.0, secret,
                                       sizeof secret,          NULL, NULL, NULL};
    const pid_t leader = start_rank(&two, nothing, NULL), other = start_rank(&three, nothing, NULL);
    int status = 0;
    assert_int_equal(waitpid(leader, &status, 0), leader);
    assert_int_equal(WEXITSTATUS(status), 1);
    assert_int_equal(waitpid(other, &status, 0), other);
    assert_int_equal(WEXITSTATUS(status), 1);
}

static void test_options(void **state)
{
    static const redco_world_options wrong[] = {
        {REDCO_TRANSPORT_SOCKET, 2, 2, "127.0.0.1:1", 1.0, secret, sizeof secret, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 0, "127.0.0.1:1", 1.0, secret, sizeof secret, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, "127.0.0.1", 1.0, secret, sizeof secret, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, ":1", 1.0, secret, sizeof secret, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, NULL, 1.0, secret, sizeof secret, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, "127.0.0.1:port", 1.0, secret, sizeof secret, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, "127.0.0.1:0", 1.0, secret, sizeof secret, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, "127.0.0.1:65536", 1.0, secret, sizeof secret, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, "127.0.0.1:131071", 1.0, secret, sizeof secret, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, "127.0.0.1:1", 1.0, NULL, 0, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, "127.0.0.1:1", 1.0, secret, sizeof secret - 1, NULL, NULL, NULL},
        {REDCO_TRANSPORT_SOCKET, 0, 2, "127.0.0.1:1", 1.0, secret, sizeof secret, "no.such.address.invalid", NULL,
         NULL},
        {.transport = REDCO_TRANSPORT_SELF, .size = 1, .timeout_s = -1.0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        redco_world *world = NULL;
        redco_error err = {.status = REDCO_OK};
        assert_int_equal(redco_world_open(&wrong[i], &world, &err), REDCO_EVALUE);
        assert_true(err.text[0] != '\0');
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worlds),      cmocka_unit_test(test_meshes),       cmocka_unit_test(test_process_groups),
        cmocka_unit_test(test_two_streams), cmocka_unit_test(test_alone),        cmocka_unit_test(test_death),
        cmocka_unit_test(test_silence),     cmocka_unit_test(test_disagreement), cmocka_unit_test(test_options),
        cmocka_unit_test(test_abort),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
