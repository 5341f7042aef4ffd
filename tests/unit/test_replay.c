/* One rank of a large plan alone: the same operators as the simulator's step, collectives that take the modelled time
 * and leave finite values, and the memory that was planned and predicted; no other rank is there. */
#include "costmodel/simulator/step.h"
#include "executor/backend/host/host.h"
#include "executor/comm/replay.h"
#include "executor/trainer/trainer.h"
#include "planner/assemble/assemble.h"
#include "tests/unit/deferred_backend.h"
#include "tests/unit/full.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct plan_case {
    const char *model, *options;
    uint32_t ranks[3]; /* first, one between, last */
} cases[] = {
    {"llama", "--gpus 64 --tp 1 --global-batch 128 --strategy zero3", {0, 31, 63}},
    {"llama", "--gpus 64 --tp 2 --global-batch 64 --strategy zero3 --recompute full", {0, 32, 63}},
    {"gpt2", "--gpus 64 --tp 4 --global-batch 32 --strategy zero1 --sequence-parallel", {0, 34, 63}},
    {"llama", "--gpus 64 --tp 1 --global-batch 128 --fix p=8x1,g=8x2,os=8x8 --scheme inter-tensor", {0, 40, 63}},
    {"llama", "--gpus 64 --tp 1 --global-batch 64 --fix p=1x1,g=8x1,os=8x4 --scheme intra-tensor", {0, 20, 63}},
    {"gpt2", "--gpus 64 --tp 1 --global-batch 64 --strategy zeropp", {0, 16, 63}},
    {"llama", "--gpus 1024 --tp 1 --global-batch 1024 --strategy zero3", {0, 512, 1023}},
    {"llama", "--gpus 1024 --tp 2 --global-batch 512 --fix p=4x1,g=4x1,os=4x16 --scheme intra-tensor", {0, 700, 1023}},
    {"opt", "--gpus 1024 --tp 1 --global-batch 1024 --strategy ddp", {0, 600, 1023}},
};

static void must(redco_status st, const redco_error *err)
{
    if (st != REDCO_OK) { fail_msg("%s: %s", err->place, err->text); }
}

/* The host, but nobody waits: what streams are to be busy with is noted. */
struct recorder {
    redco_backend base;
    redco_backend_calls calls;
    redco_backend *host;
    struct recorder *first; /* first of all handles */
    double occupied_s;
    uint32_t occupations;
};

static redco_status noted(redco_backend *backend, redco_device_stream *stream, const redco_occupation *occupation,
                          redco_error *err)
{
    struct recorder *const r = (struct recorder *)backend;
    redco_occupation o = *occupation;
    __atomic_fetch_add(&r->first->occupations, 1, __ATOMIC_RELAXED);
    r->occupied_s += o.seconds; /* time of this handle's thread */
    o.seconds = 0.0;
    return r->host->calls->occupy(r->host, stream, &o, err);
}

static void forget(redco_backend *backend)
{
    struct recorder *const r = (struct recorder *)backend;
    if (r->first != r) { r->first->occupied_s += r->occupied_s; } /* threads have ended */
    redco_backend_close(r->host);
    free(r);
}

static redco_status shared(redco_backend *backend, redco_backend **backend_out, redco_error *err);

static redco_backend *host_of(const redco_backend *backend)
{
    return ((const struct recorder *)backend)->host;
}

static redco_status allocate(redco_backend *backend, redco_memory where, uint64_t size_bytes, void **memory_out,
                             redco_error *err)
{
    return host_of(backend)->calls->allocate(host_of(backend), where, size_bytes, memory_out, err);
}

static void release(redco_backend *backend, redco_memory where, void *memory)
{
    host_of(backend)->calls->release(host_of(backend), where, memory);
}

static void memory_use(const redco_backend *backend, uint64_t *live_bytes_out, uint64_t *peak_bytes_out)
{
    host_of(backend)->calls->memory_use(host_of(backend), live_bytes_out, peak_bytes_out);
}

static struct recorder *wrap(redco_backend *host, struct recorder *first)
{
    struct recorder *const r = calloc(1, sizeof *r);
    assert_non_null(r);
    r->host = host;
    r->first = first != NULL ? first : r;
    r->calls = *host->calls; /* the others look at no handle */
    r->calls.close = forget;
    r->calls.share = shared;
    r->calls.occupy = noted;
    r->calls.allocate = allocate;
    r->calls.release = release;
    r->calls.memory_use = memory_use;
    r->base.calls = &r->calls;
    return r;
}

static redco_status shared(redco_backend *backend, redco_backend **backend_out, redco_error *err)
{
    struct recorder *const r = (struct recorder *)backend;
    redco_backend *host = NULL;
    const redco_status st = r->host->calls->share(r->host, &host, err);
    if (st == REDCO_OK) { *backend_out = &wrap(host, r->first)->base; }
    return st;
}

/* A plan and its step as the simulator has it. */
struct opened {
    redco_plan *plan;
    redco_plan_case prices;
    redco_step *step;
};

static void open_plan(const char *folder, const struct plan_case *c, struct opened *o)
{
    char command[1600], path[256];
    redco_error err = {.status = REDCO_OK};
    *o = (struct opened){.plan = NULL};
    (void)snprintf(path, sizeof path, "%s/plan.json", folder);
    (void)snprintf(command, sizeof command,
                   "sed 's/\"\\(n_layer\\|num_hidden_layers\\)\": [0-9]*/\"\\1\": 4/' '%s/models/medium/%s.json' "
                   ">'%s/model.json' && "
                   "'%s' --quiet --cluster '%s/exec/many.json' --calibration host --model '%s/model.json' "
                   "--seq 256 --micro-batch 1 --precision fp32 --pp 1 %s -o '%s' >/dev/null",
                   REDCO_TEST_DATA, c->model, folder, REDCO_PLAN_TOOL, REDCO_TEST_DATA, folder, c->options, path);
    if (system(command) != 0) { fail_msg("failed: %s", command); } /* NOLINT(cert-env33-c): the tool under test */
    must(redco_plan_read(path, &o->plan, &err), &err);
    must(redco_plan_reopen(o->plan, path, NULL, 0, &o->prices, &err), &err);
    must(redco_step_build(o->prices.costs, &o->prices.parallelism, o->prices.assignments, o->prices.assignment_count,
                          NULL, &o->step, &err),
         &err);
}

static void close_plan(struct opened *o)
{
    redco_step_free(o->step);
    redco_plan_case_free(&o->prices);
    redco_plan_free(o->plan);
}

/* The simulator's time of communication. */
static double communication_s(const redco_step *step)
{
    uint32_t count = 0;
    double sum_s = 0.0;
    const redco_step_op *const ops = redco_step_ops(step, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].stream != REDCO_STREAM_COMPUTE) { sum_s += ops[i].seconds; }
    }
    return sum_s;
}

/* The same operators on the same streams in the same order. */
static void compare_names(const redco_step *ran, const redco_step *predicted)
{
    uint32_t counts[2] = {0, 0}, at[REDCO_STREAM_COUNT] = {0};
    const redco_step_op *const mine = redco_step_ops(ran, &counts[0]);
    const redco_step_op *const theirs = redco_step_ops(predicted, &counts[1]);
    assert_int_equal(counts[0], counts[1]);
    for (uint32_t i = 0; i < counts[1]; i++) {
        uint32_t *const k = &at[theirs[i].stream];
        char name[160], other[160];
        while (*k < counts[0] && mine[*k].stream != theirs[i].stream) { (*k)++; }
        (void)redco_step_name(predicted, i, name, sizeof name);
        if (*k == counts[0]) { fail_msg("%s was not run", name); }
        assert_string_equal(redco_step_name(ran, (*k)++, other, sizeof other), name);
    }
}

/* Nothing begins before what it waits for has ended. */
static void check_order(const redco_timeline *t)
{
    uint32_t count = 0;
    (void)redco_step_ops(t->step, &count);
    for (uint32_t op = 0; op < count; op++) {
        uint32_t inputs = 0;
        const uint32_t *const input = redco_step_inputs(t->step, op, &inputs);
        assert_true(t->start_s[op] >= 0.0 && t->end_s[op] >= t->start_s[op]);
        for (uint32_t i = 0; i < inputs; i++) { assert_true(t->start_s[op] >= t->end_s[input[i]] - 1e-9); }
    }
}

/* @param backend  closed */
static redco_trainer_memory replay(const struct opened *o, uint32_t rank, redco_backend *backend, uint32_t steps)
{
    const redco_world_options alone = {.transport = REDCO_TRANSPORT_SELF};
    const redco_trainer_options options = {.dtype = REDCO_F32,
                                           .optimizer = redco_optimizer_default(),
                                           .learning_rate = 1e-3,
                                           .seed = 1,
                                           .steps = o->step,
                                           .backend = backend};
    redco_trainer_options own = options;
    redco_error err = {.status = REDCO_OK};
    redco_world *world = NULL;
    redco_trainer *trainer = NULL;
    redco_trainer_step done;
    redco_timeline *timeline = NULL;
    redco_trainer_verdict verdict;
    must(redco_world_open(&alone, &world, &err), &err);
    must(redco_replay_open(rank, (uint32_t)redco_plan_gpus(o->plan), &own.device_comm, &err), &err);
    must(redco_trainer_create(o->plan, "plan", &own, world, &trainer, &err), &err);
    for (uint32_t s = 0; s < steps; s++) { must(redco_trainer_run(trainer, &done, &err), &err); }
    assert_true(done.loss == 0.0 && done.gradient_norm == 0.0); /* which mean nothing */
    must(redco_trainer_timeline(trainer, &timeline, &err), &err);
    compare_names(timeline->step, o->step);
    check_order(timeline);
    const redco_trainer_memory memory = redco_trainer_memory_of(trainer);
    assert_int_equal(redco_trainer_compare(trainer, NULL, &done, 1, &verdict, &err), REDCO_EVALUE);
    assert_non_null(strstr(err.text, "a comparison of rank"));
    redco_timeline_free(timeline);
    redco_trainer_free(trainer);
    redco_device_comm_close(own.device_comm);
    redco_world_close(world);
    return memory;
}

static void ranks_of_large_plans_are_played(void **state)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i += test_full() ? 1 : 2) {
        const struct plan_case *const c = &cases[i];
        struct opened o;
        open_plan(*state, c, &o);
        const double wanted_s = communication_s(o.step);
        double worst = 0.0;
        for (size_t r = test_full() ? 0 : 1; r < (test_full() ? 3 : 2); r++) {
            redco_error err = {.status = REDCO_OK};
            redco_backend *host = NULL;
            must(redco_host_open(NULL, &host, &err), &err);
            struct recorder *const recorder = wrap(host, NULL);
            const redco_trainer_memory m = replay(&o, c->ranks[r], &recorder->base, 1);
            if (fabs(recorder->occupied_s - wanted_s) > 1e-9 * wanted_s + 1e-12) {
                fail_msg("%s rank %u: busy for %.9g s, %.9g s are modelled", c->options, c->ranks[r],
                         recorder->occupied_s, wanted_s);
            }
            assert_int_equal(m.total_bytes, m.allocated_bytes);
            worst = fmax(worst, fabs((double)o.plan->predicted.total_bytes / (double)m.total_bytes - 1.0));
            redco_backend_close(&recorder->base);
        }
        (void)print_message("%s %s: %.3f ms of communication, memory predicted within %.2f %%\n", c->model, c->options,
                            1e3 * wanted_s, 100.0 * worst);
        assert_true(worst <= 0.03);
        close_plan(&o);
    }
}

/* On a device whose streams run later: nothing is read before it is there, as not-a-number would show in the norm. And
 * the emulated operators take their time at least. */
static void a_device_that_is_late_plays_too(void **state)
{
    struct opened o;
    open_plan(*state, &cases[1], &o);
    redco_error err = {.status = REDCO_OK};
    redco_backend *backend = NULL;
    must(deferred_open(&(deferred_options){.seed = 7, .vector_elements = (uint64_t)1 << 20}, &backend, &err), &err);
    (void)replay(&o, 33, backend, 2);
    redco_backend_close(backend);
    close_plan(&o);
}

/* The results that process groups leave: this rank's part everywhere, its summand in sums, and shares of the time by
 * elements.
 */
static void process_groups_leave_what_there_is(void **state)
{
    enum { RANKS = 4, OWN = 2, COUNT = 6 };
    static const uint32_t colours[RANKS] = {0, 0, 0, 0}, order[RANKS] = {1, 3, 2, 0};
    const redco_process_group_options options = {colours, REDCO_TRAFFIC_PARAMETERS, "test"};
    redco_error err = {.status = REDCO_OK};
    redco_device_comm *device_comm = NULL;
    redco_backend *host = NULL;
    redco_process_group *process_group = NULL;
    float part[COUNT], whole[RANKS * COUNT];
    (void)state;
    must(redco_host_open(NULL, &host, &err), &err);
    struct recorder *const recorder = wrap(host, NULL);
    redco_backend *const b = &recorder->base;
    redco_stream_handle on = {.backend = b};
    must(b->calls->stream_create(b, REDCO_DEVICE_STREAM_COMMUNICATION, &on.stream, &err), &err);
    must(redco_replay_open(OWN, RANKS, &device_comm, &err), &err);
    must(redco_replay_add_stream(device_comm, on.stream, &err), &err);
    must(redco_process_group_split(device_comm, &options, &process_group, &err), &err);
    assert_int_equal(process_group->rank, OWN);
    for (int i = 0; i < COUNT; i++) { part[i] = (float)i; }
    memset(whole, 0xff, sizeof whole);
    redco_replay_expect(device_comm, on.stream, 3.0, (uint64_t)3 * RANKS * COUNT);
    must(redco_process_group_all_gather(process_group, on, REDCO_F32, part, whole, COUNT, "gather", &err), &err);
    for (int i = 0; i < RANKS * COUNT; i++) { assert_float_equal(whole[i], (float)(i % COUNT), 0.0); }
    assert_true(fabs(recorder->occupied_s - 1.0) < 1e-12);
    for (int i = 0; i < RANKS * COUNT; i++) { whole[i] = (float)i; }
    must(redco_process_group_all_gather_ordered(process_group, on, REDCO_F32, whole, order, COUNT, "gather", &err),
         &err);
    for (int i = 0; i < RANKS * COUNT; i++) { assert_float_equal(whole[i], (float)(2 * COUNT + i % COUNT), 0.0); }
    for (int i = 0; i < RANKS * COUNT; i++) { whole[i] = (float)i; }
    must(redco_process_group_reduce_scatter(process_group, on, REDCO_F32, REDCO_REDUCE_SUM, whole, part, COUNT,
                                            "scatter", &err),
         &err);
    for (int i = 0; i < COUNT; i++) { assert_float_equal(part[i], (float)(OWN * COUNT + i), 0.0); }
    assert_true(fabs(recorder->occupied_s - 3.0) < 1e-12);
    redco_replay_expect(device_comm, on.stream, 0.5, 0);
    must(redco_process_group_reduce_scatter(process_group, on, REDCO_F32, REDCO_REDUCE_SUM, whole, whole + OWN * COUNT,
                                            COUNT, "scatter", &err),
         &err);
    must(redco_process_group_all_reduce(process_group, on, REDCO_F32, REDCO_REDUCE_SUM, whole, RANKS * COUNT, "sum",
                                        &err),
         &err);
    for (int i = 0; i < RANKS * COUNT; i++) { assert_float_equal(whole[i], (float)i, 0.0); }
    assert_true(fabs(recorder->occupied_s - 4.0) < 1e-12);
    assert_int_equal(recorder->occupations, 5);
    assert_int_equal(redco_replay_open(RANKS, RANKS, &device_comm, &err), REDCO_EVALUE);
    assert_string_equal(err.text, "rank 4 is not one of 4 ranks");
    redco_process_group_free(process_group);
    redco_device_comm_close(device_comm);
    b->calls->stream_free(b, on.stream);
    redco_backend_close(b);
}

static int make_folder(void **state)
{
    static char folder[] = "/tmp/redco-replay-XXXXXX";
    *state = mkdtemp(folder);
    return *state != NULL ? 0 : -1;
}

static int remove_folder(void **state)
{
    char path[256];
    (void)snprintf(path, sizeof path, "%s/plan.json", (const char *)*state);
    (void)unlink(path);
    (void)snprintf(path, sizeof path, "%s/model.json", (const char *)*state);
    (void)unlink(path);
    return rmdir(*state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(process_groups_leave_what_there_is),
        cmocka_unit_test(ranks_of_large_plans_are_played),
        cmocka_unit_test(a_device_that_is_late_plays_too),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
