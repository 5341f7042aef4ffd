/* Collectives of NCCL on device memory among processes of this machine, a GPU each: on real ones where there are
 * enough, else with the mock libraries. The checks are those of test_communicator. */
#include "executor/backend/host/host.h"
#include "executor/comm/nccl/nccl.h"
#include "executor/trainer/devices.h"
#include "tests/unit/communicator_checks.h"
#include "tests/unit/full.h"
#include "tests/unit/processes.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

/* Whoever hangs is ended; whoever waits for a time-out of the world's or NCCL's hangs. */
enum { MOST_S = 400, LOST = 7 };
static const double world_timeout_s = 1000.0;

typedef struct rank {
    redco_world *world;
    check_device device;
    redco_device_stream *stream;
    redco_process_group *process_group; /* process group of all ranks */
    float *data;
    uint64_t count;
} rank;

typedef int (*rank_check)(rank *r);

typedef struct job {
    rank_check run;
    redco_nccl_options options;
    bool shared; /* all on device 0 */
} job;

static int told(const rank *r, const redco_error *err, int code)
{
    (void)fprintf(stderr, "rank %u: %s: %s\n", redco_world_rank(r->world), err->place, err->text);
    return code;
}

static redco_stream_handle on(const rank *r)
{
    return (redco_stream_handle){r->device.backend, r->stream};
}

/* A process group of all, a stream and memory of zeros. */
static redco_status open_process_group(rank *r, redco_error *err)
{
    static const uint32_t colours[PROCESSES_MAX] = {0};
    const redco_process_group_options options = {colours, REDCO_TRAFFIC_GRADIENTS, "gradients 1x1 to 4x1"};
    redco_backend *const b = r->device.backend;
    void *memory = NULL;
    r->count = 1 << 16;
    redco_status st = redco_process_group_split(r->device.device_comm, &options, &r->process_group, err);
    if (st == REDCO_OK) { st = b->calls->stream_create(b, REDCO_DEVICE_STREAM_COMMUNICATION, &r->stream, err); }
    if (st == REDCO_OK) {
        st = b->calls->allocate(b, REDCO_MEMORY_DEVICE, r->count * sizeof(float), &memory, err);
        r->data = memory;
    }
    return st == REDCO_OK ? b->calls->fill_zero(b, r->stream, memory, r->count * sizeof(float), err) : st;
}

static void close_process_group(const rank *r)
{
    redco_backend *const b = r->device.backend;
    redco_process_group_free(r->process_group);
    if (r->stream != NULL) { b->calls->stream_free(b, r->stream); }
    b->calls->release(b, REDCO_MEMORY_DEVICE, r->data);
}

static redco_status reduce(const rank *r, const char *what, redco_error *err)
{
    return redco_process_group_all_reduce(r->process_group, on(r), REDCO_F32, REDCO_REDUCE_SUM, r->data, r->count, what,
                                          err);
}

/* Waits for the stream, then asks whether it was worth it. */
static redco_status finish(const rank *r, redco_error *err)
{
    const redco_status st = r->device.backend->calls->stream_finish(r->device.backend, r->stream, err);
    return st == REDCO_OK ? redco_device_comm_check(r->device.device_comm, err) : st;
}

static int run_rank(redco_world *world, void *context)
{
    const job *const j = context;
    const redco_cuda_options first = {.device = 0};
    rank r = {.world = world};
    redco_error err = {.status = REDCO_OK};
    (void)alarm(MOST_S);
    redco_status st = j->shared ? redco_cuda_open(&first, &r.device.backend, &err)
                                : redco_devices_open(world, NULL, false, &r.device.backend, &err);
    if (st == REDCO_OK) { st = redco_nccl_open(world, r.device.backend, &j->options, &r.device.device_comm, &err); }
    int code = st == REDCO_OK ? j->run(&r) : 0;
    if (st != REDCO_OK) {
        code = j->shared && st == REDCO_ESYSTEM && strstr(err.text, "Duplicate GPU") != NULL ? LOST : told(&r, &err, 1);
    }
    redco_device_comm_close(r.device.device_comm);
    redco_backend_close(r.device.backend);
    return code;
}

static uint32_t devices;

/* A process that forks after it opened a device may not use it: another one looks. */
static uint32_t count_devices(void)
{
    int status = 0;
    const pid_t pid = fork();
    if (pid == 0) { _exit((int)redco_cuda_count()); }
    return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? (uint32_t)WEXITSTATUS(status) : 0;
}

static uint32_t run_world(uint32_t size, job j, int code)
{
    if (size > devices) {
        print_message("%u ranks need a GPU each; here are %u\n", size, devices);
        skip();
    }
    return run_ranks(size, world_timeout_s, run_rank, &j, code);
}

static int run_collectives(rank *r)
{
    return check_collectives(r->world, &r->device);
}

static int run_meshes(rank *r)
{
    return check_meshes(r->world, &r->device);
}

static int run_two_streams(rank *r)
{
    return check_two_streams(r->world, &r->device);
}

static void test_worlds(void **state)
{
    static const uint32_t sizes[] = {1, 2, 4};
    (void)state;
    for (size_t i = test_full() ? 0 : 2; i < sizeof sizes / sizeof sizes[0]; i++) {
        assert_int_equal(run_world(sizes[i], (job){.run = run_collectives}, 0), sizes[i]);
    }
}

static void test_blocking(void **state)
{
    (void)state;
    assert_int_equal(run_world(2, (job){.run = run_collectives, .options = {.blocking = true}}, 0), 2);
}

static void test_meshes(void **state)
{
    (void)state;
    assert_int_equal(run_world(8, (job){.run = run_meshes}, 0), 8);
}

static void test_two_streams(void **state)
{
    (void)state;
    assert_int_equal(run_world(4, (job){.run = run_two_streams}, 0), 4);
}

static void wait_s(double seconds)
{
    const struct timespec nap = {.tv_sec = (time_t)seconds,
                                 .tv_nsec = (long)(1e9 * (seconds - (double)(time_t)seconds))};
    (void)nanosleep(&nap, NULL);
}

/* Rank 1 is killed; the others have work queued that can never be done, and learn of it although devices do not. */
static int one_dies(rank *r)
{
    redco_error err = {.status = REDCO_OK};
    int code = 2;
    redco_status st = open_process_group(r, &err);
    for (int i = 0; i < 6 && st == REDCO_OK; i++) {
        if (redco_world_rank(r->world) == 1 && i == 3) {
            (void)finish(r, NULL);
            (void)raise(SIGKILL);
        }
        st = reduce(r, "bwd/gradients/bucket.0", &err);
    }
    if (st == REDCO_OK) { st = finish(r, &err); }
    if (st == REDCO_ESYSTEM && err.text[0] != '\0') { code = LOST; }
    if (code == LOST && reduce(r, "bwd/gradients/bucket.1", NULL) != REDCO_ESYSTEM) { code = 3; }
    if (code != LOST) { (void)told(r, &err, code); }
    close_process_group(r);
    return code;
}

static void test_death(void **state)
{
    (void)state;
    assert_int_equal(run_world(4, (job){.run = one_dies}, LOST), 3);
}

/* The same while the others make a communicator. */
static int one_dies_early(rank *r)
{
    redco_error err = {.status = REDCO_OK};
    if (redco_world_rank(r->world) == 1) { (void)raise(SIGKILL); }
    const int code = open_process_group(r, &err) == REDCO_ESYSTEM ? LOST : 2;
    close_process_group(r);
    return code;
}

static void test_early_death(void **state)
{
    (void)state;
    assert_int_equal(run_world(4, (job){.run = one_dies_early}, LOST), 3);
}

/* Rank 0's program gives up while its stream waits for a rank that never calls: all end. */
static int one_gives_up(rank *r)
{
    redco_error err = {.status = REDCO_OK};
    redco_status st = open_process_group(r, &err);
    const uint32_t own = redco_world_rank(r->world);
    if (st == REDCO_OK && own != 2) { st = reduce(r, "fwd/block.0/q_proj/gather", &err); }
    if (own == 0) {
        wait_s(0.3);
        redco_world_abort(r->world);
    }
    for (int i = 0; i < 200 && own == 2 && st == REDCO_OK; i++) {
        wait_s(0.1);
        st = redco_device_comm_check(r->device.device_comm, &err);
    }
    if (st == REDCO_OK) { st = finish(r, &err); }
    close_process_group(r);
    return st == REDCO_ESYSTEM ? LOST : told(r, &err, 2);
}

static void test_abort(void **state)
{
    (void)state;
    assert_int_equal(run_world(3, (job){.run = one_gives_up}, LOST), 3);
}

/* Rank 0 leaves in order; another one that goes on is told. */
static int one_leaves(rank *r)
{
    redco_error err = {.status = REDCO_OK};
    int code = 2;
    redco_status st = open_process_group(r, &err);
    if (st == REDCO_OK) { st = reduce(r, "step", &err); }
    if (st == REDCO_OK) { st = finish(r, &err); }
    if (st != REDCO_OK) { code = told(r, &err, 3); }
    if (st == REDCO_OK && redco_world_rank(r->world) == 0) { code = LOST; }
    for (int i = 0; i < 100 && st == REDCO_OK && code != LOST; i++) { /* until the beat has told it */
        wait_s(0.1);
        st = i < 20 ? REDCO_OK : reduce(r, "step", &err);
        if (st == REDCO_ESYSTEM && strstr(err.text, "left") != NULL) { code = LOST; }
    }
    close_process_group(r);
    return code;
}

static void test_leaving(void **state)
{
    (void)state;
    assert_int_equal(run_world(2, (job){.run = one_leaves}, LOST), 2);
}

/* An error that NCCL finds after a call returned comes back with the call's name. */
static int async_error(rank *r)
{
    redco_error err = {.status = REDCO_OK};
    redco_status st = open_process_group(r, &err);
    if (st == REDCO_OK) { st = reduce(r, "bwd/gradients/bucket.0", &err); }
    if (st == REDCO_OK) { st = finish(r, &err); }
    close_process_group(r);
    if (st != REDCO_ESYSTEM) { return told(r, &err, 2); }
    if (redco_world_rank(r->world) != 1) { return LOST; }
    const bool right = strcmp(err.place, "bwd/gradients/bucket.0") == 0 &&
                       strstr(err.text, "remote process exited") != NULL &&
                       strstr(err.text, "rank 1 of 3 of \"gradients 1x1 to 4x1\"") != NULL;
    return right ? LOST : told(r, &err, 3);
}

static void test_async_error(void **state)
{
    (void)state;
    if (getenv("MOCK_CUDA_DEVICES") == NULL) { skip(); } /* a real NCCL cannot be told to fail */
    assert_int_equal(setenv("MOCK_NCCL_FAIL", "1:1:6", 1), 0);
    const uint32_t lost = run_world(3, (job){.run = async_error}, LOST);
    assert_int_equal(unsetenv("MOCK_NCCL_FAIL"), 0);
    assert_int_equal(lost, 3);
}

/* Two process groups in one stream, in another order on rank 1: kernels wait for each other for ever. The mock library
 * says so. */
static int wrong_order(rank *r)
{
    static const uint32_t colours[PROCESSES_MAX] = {0};
    const redco_process_group_options options = {colours, REDCO_TRAFFIC_UPDATE, "updated parameters"};
    const bool first = redco_world_rank(r->world) == 0;
    redco_process_group *other = NULL;
    redco_error err = {.status = REDCO_OK};
    redco_status st = open_process_group(r, &err);
    if (st == REDCO_OK) { st = redco_process_group_split(r->device.device_comm, &options, &other, &err); }
    for (int i = 0; i < 2 && st == REDCO_OK; i++) {
        st = redco_process_group_all_reduce((i == 0) == first ? r->process_group : other, on(r), REDCO_F32,
                                            REDCO_REDUCE_SUM, r->data, r->count, "order", &err);
    }
    if (st == REDCO_OK) { st = finish(r, &err); }
    redco_world_abort(r->world);
    redco_process_group_free(other);
    close_process_group(r);
    return st == REDCO_ESYSTEM ? LOST : told(r, &err, 2);
}

static void test_order(void **state)
{
    (void)state;
    if (getenv("MOCK_CUDA_DEVICES") == NULL) { skip(); } /* real devices hang */
    assert_int_equal(setenv("MOCK_NCCL_TIMEOUT", "1", 1), 0);
    const uint32_t lost = run_world(2, (job){.run = wrong_order}, LOST);
    assert_int_equal(unsetenv("MOCK_NCCL_TIMEOUT"), 0);
    assert_int_equal(lost, 2);
}

/* Members that call with other counts. */
static int wrong_count(rank *r)
{
    redco_error err = {.status = REDCO_OK};
    redco_status st = open_process_group(r, &err);
    r->count -= redco_world_rank(r->world);
    if (st == REDCO_OK) { st = reduce(r, "count", &err); }
    if (st == REDCO_OK) { st = finish(r, &err); }
    redco_world_abort(r->world);
    close_process_group(r);
    return st == REDCO_ESYSTEM ? LOST : told(r, &err, 2);
}

static void test_counts(void **state)
{
    (void)state;
    if (getenv("MOCK_CUDA_DEVICES") == NULL) { skip(); } /* undefined with a real NCCL */
    assert_int_equal(run_world(2, (job){.run = wrong_count}, LOST), 2);
}

static void test_one_device(void **state)
{
    (void)state;
    assert_int_equal(run_world(2, (job){.run = run_collectives, .shared = true}, LOST), 2);
}

static void test_refusals(void **state)
{
    const redco_world_options alone = {.transport = REDCO_TRANSPORT_SELF};
    redco_world *world = NULL;
    redco_backend *host = NULL;
    redco_device_comm *device_comm = NULL;
    redco_error err = {.status = REDCO_OK};
    (void)state;
    assert_int_equal(redco_world_open(&alone, &world, NULL), REDCO_OK);
    assert_int_equal(redco_host_open(NULL, &host, NULL), REDCO_OK);
    assert_int_equal(redco_nccl_open(world, host, NULL, &device_comm, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "host backend is no CUDA device"));
    redco_backend_close(host);
    redco_world_close(world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_worlds),      cmocka_unit_test(test_blocking), cmocka_unit_test(test_meshes),
        cmocka_unit_test(test_two_streams), cmocka_unit_test(test_death),    cmocka_unit_test(test_early_death),
        cmocka_unit_test(test_abort),       cmocka_unit_test(test_leaving),  cmocka_unit_test(test_async_error),
        cmocka_unit_test(test_order),       cmocka_unit_test(test_counts),   cmocka_unit_test(test_one_device),
        cmocka_unit_test(test_refusals),
    };
    devices = count_devices();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
