/* Parts of a step, and what goes wrong: the second copy of weights, streams in threads, long vectors, a rank that dies,
 * a gradient that is no number, options that make no sense. */
#include "costmodel/graph/build_calls.h"
#include "executor/states/program.h"

#include "tests/unit/processes.h"
#include "tests/unit/states_fixture.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const redco_optimizer adamw = {
    .kind = REDCO_ADAMW, .beta1 = 0.9, .beta2 = 0.95, .epsilon = 1e-8, .weight_decay = 0.1, .clip_norm = 0.5};

/* Backward gathers the kept values, not the parameters of now. */
static int keeps_second(redco_world *world, void *context)
{
    const struct trial *const t = context;
    const bool backward[] = {true, false, true};
    const double shift[] = {0.0, 1.0, 1.0};
    struct run run;
    int code = run_open(&run, t, world, NULL) == REDCO_OK ? 0 : 1;
    void *whole = code == 0 ? run_gathered(&run, 2, false) : NULL;
    if (whole == NULL || redco_states_keep_secondary(run.states, run.worker, 2, whole, NULL) != REDCO_OK ||
        run_set(&run, 1.0, NULL) != REDCO_OK) {
        code = 2;
    }
    for (int i = 0; i < 3 && code == 0; i++) {
        free(whole);
        whole = run_gathered(&run, 2, backward[i]);
        code = whole == NULL || load(t->dtype, whole, 3) != fixture_initial(2, 3) + shift[i] ? 3 + i : 0;
        if (i == 1 && code == 0) { (void)redco_states_keep_secondary(run.states, run.worker, 2, whole, NULL); }
    }
    free(whole);
    run_close(&run);
    return code;
}

static void second_copy_is_used(void **state)
{
    (void)state;
    const redco_mesh dp = {2, 2};
    struct trial t = {.mesh = {1, dp}, .secondary = {2, 1}, .dtype = REDCO_F64, .optimizer = adamw};
    for (uint32_t l = 0; l < FIX_LAYERS; l++) { t.shards[l] = (redco_shards){dp, dp, dp}; }
    assert_int_equal(run_ranks(4, 20.0, keeps_second, &t, 0), 4);
}

/* A rank that dies while others gather, scatter or reduce. */
enum { LOST = 7 };

static redco_status die(void *context, redco_micro_batch micro_batch, uint32_t module, const void *weights,
                        void *gradient, redco_error *err)
{
    const struct run *const run = context;
    if (run->rank == 1 && micro_batch.index == 1 && module == 3) { (void)raise(SIGKILL); }
    return run_gradient(context, micro_batch, module, weights, gradient, err);
}

static int one_dies(redco_world *world, void *context)
{
    const struct trial *const t = context;
    struct run run;
    redco_error err = {.status = REDCO_OK};
    const gradient_source source = {die, &run};
    const step_options options = {t->micro_batches, 1.0, 0.01, 1};
    int code = 1;
    if (run_open(&run, t, world, &err) == REDCO_OK) {
        const redco_status st = states_step(run.states, run.worker, &source, &options, &run.norm, &err);
        const bool named = strncmp(err.place, "bwd/", 4) == 0 || strncmp(err.place, "fwd/", 4) == 0;
        code = st == REDCO_ESYSTEM && named && strstr(err.text, "rank ") != NULL ? LOST : 2;
    }
    if (code != LOST) { SAY(redco_world_rank(world), 0U, "%s: %s", err.place, err.text); }
    run_close(&run);
    return code;
}

static void a_rank_dies(void **state)
{
    (void)state;
    static const redco_shards kinds[] = {{{1, 1}, {1, 1}, {2, 2}}, {{2, 2}, {2, 2}, {2, 2}}, {{1, 1}, {2, 2}, {2, 2}}};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        struct trial t = {.mesh = {1, {2, 2}}, .dtype = REDCO_F64, .optimizer = adamw, .micro_batches = 3};
        for (uint32_t l = 0; l < FIX_LAYERS; l++) { t.shards[l] = kinds[i]; }
        assert_int_equal(run_ranks(4, 20.0, one_dies, &t, LOST), 3);
    }
}

/* All ranks say so, and none has updated anything. */
static int no_number(redco_world *world, void *context)
{
    const struct trial *const t = context;
    struct trial first = *t; /* one step: what weights must be afterwards */
    struct reference reference;
    struct run run;
    redco_error err = {.status = REDCO_OK};
    int code = 1;
    first.steps = 1;
    fixture_reference(&first, &reference);
    if (run_open(&run, t, world, &err) == REDCO_OK && run_step(&run, &err) == REDCO_OK) {
        const redco_status st = run_step(&run, &err);
        const bool said = st == REDCO_EVALUE && strcmp(err.place, "step/grad_norm") == 0 &&
                          strstr(err.text, "step 2") != NULL && strstr(err.text, "nan") != NULL;
        code = said && weights_error(&run, &reference) < 1e-12 ? 0 : 2;
    }
    run_close(&run);
    return code;
}

static void a_gradient_is_no_number(void **state)
{
    (void)state;
    struct trial t = {
        .mesh = {2, {2, 1}}, .dtype = REDCO_F64, .optimizer = adamw, .micro_batches = 1, .steps = 2, .nan = true};
    for (uint32_t l = 0; l < FIX_LAYERS; l++) { t.shards[l] = (redco_shards){{1, 1}, {1, 1}, {2, 1}}; }
    assert_int_equal(run_ranks(4, 20.0, no_number, &t, 0), 4);
}

/* Vectors of several pieces, over their own inputs: a becomes a + b, b becomes (a + b) a with the old a. */
static void long_vectors(void **state)
{
    (void)state;
    enum { CHUNK = 1024, COUNT = 2 * CHUNK + 777 };
    static double a[COUNT], b[COUNT];
    redcoi_program p = {.graph = redco_graph_create(), .chunk = CHUNK};
    redcoi_worker_memory memory = {.backend = NULL};
    void *work = NULL;
    assert_int_equal(redco_host_open(NULL, &memory.backend, NULL), REDCO_OK);
    const redco_value x = redcoi_program_input(&p, "a", REDCO_F64, false);
    const redco_value y = redcoi_program_input(&p, "b", REDCO_F64, false);
    const redco_value sum = redco_add(p.graph, x, y);
    redcoi_program_output(&p, sum, 0);
    redcoi_program_output(&p, redco_mul(p.graph, sum, x), 1);
    assert_int_equal(redcoi_program_finish(&p, memory.backend, NULL), REDCO_OK);
    assert_int_equal(memory.backend->calls->allocate(memory.backend, REDCO_MEMORY_DEVICE, p.work_bytes, &work, NULL),
                     REDCO_OK);
    memory.work = work;
    for (int i = 0; i < COUNT; i++) {
        a[i] = i;
        b[i] = 3 - i % 7;
    }
    const void *const inputs[] = {a, b};
    void *const outputs[] = {a, b};
    assert_int_equal(redcoi_program_run(&p, &memory, inputs, outputs, COUNT, "test", NULL), REDCO_OK);
    for (int i = 0; i < COUNT; i++) { assert_true(a[i] == i + (3 - i % 7) && b[i] == (double)(i + (3 - i % 7)) * i); }
    memory.backend->calls->release(memory.backend, REDCO_MEMORY_DEVICE, work);
    redcoi_program_free(&p);
    redco_backend_close(memory.backend);
}

/* One stream synchronises the first layers' weights while another gathers the last layer's, in a thread of its own. */
struct other_stream {
    struct run *run;
    redco_states_worker *worker;
    void *whole;
    redco_status status;
};

static void *gather_again(void *argument)
{
    struct other_stream *const s = argument;
    for (int i = 0; i < 50 && s->status == REDCO_OK; i++) {
        s->status = redco_states_gather(s->run->states, s->worker, 5, false, s->whole, NULL);
    }
    return NULL;
}

static int two_streams(redco_world *world, void *context)
{
    const struct trial *const t = context;
    struct reference reference;
    struct run run;
    struct other_stream other = {.run = &run, .whole = calloc(FIX_MOST * 8, sizeof(double))};
    pthread_t thread;
    redco_status st = run_open(&run, t, world, NULL);
    if (st == REDCO_OK) { st = run_step(&run, NULL); }
    if (st == REDCO_OK) { st = redco_states_worker_create(run.states, run.backend, NULL, &other.worker, NULL); }
    if (st != REDCO_OK || other.whole == NULL || pthread_create(&thread, NULL, gather_again, &other) != 0) { return 1; }
    for (int i = 0; i < 50 && st == REDCO_OK; i++) {
        for (uint32_t l = 0; l < 3 && st == REDCO_OK; l++) { st = redco_states_sync(run.states, run.worker, l, NULL); }
    }
    (void)pthread_join(thread, NULL);
    fixture_reference(t, &reference);
    const bool right = error_of(load(t->dtype, other.whole, 7), reference.weights.of[8][7]) < 1e-12;
    const int code = st == REDCO_OK && other.status == REDCO_OK && right && weights_error(&run, &reference) < 1e-12;
    redco_states_worker_free(other.worker);
    free(other.whole);
    run_close(&run);
    return code ? 0 : 2;
}

static void streams_run_at_once(void **state)
{
    (void)state;
    for (int scheme = 0; scheme < 2; scheme++) {
        struct trial t = {.mesh = {1, {2, 2}},
                          .scheme = scheme == 0 ? REDCO_INTER_TENSOR : REDCO_INTRA_TENSOR,
                          .dtype = REDCO_F64,
                          .optimizer = adamw,
                          .micro_batches = 1,
                          .steps = 1};
        for (uint32_t l = 0; l < FIX_LAYERS; l++) { t.shards[l] = (redco_shards){{2, 1}, {2, 1}, {2, 2}}; }
        assert_int_equal(run_ranks(4, 20.0, two_streams, &t, 0), 4);
    }
}

static void refuse(const struct trial *t, const char *text)
{
    const redco_world_options options = {.transport = REDCO_TRANSPORT_SELF};
    redco_world *world = NULL;
    redco_error err = {.status = REDCO_OK};
    struct run run;
    assert_int_equal(redco_world_open(&options, &world, NULL), REDCO_OK);
    assert_int_equal(run_open(&run, t, world, &err), REDCO_EVALUE);
    if (strstr(err.text, text) == NULL) { fail_msg("\"%s\" does not say \"%s\"", err.text, text); }
    run_close(&run);
    redco_world_close(world);
}

static void bad_options(void **state)
{
    (void)state;
    struct trial t = {.mesh = {1, {1, 1}}, .dtype = REDCO_I32, .optimizer = adamw};
    for (uint32_t l = 0; l < FIX_LAYERS; l++) { t.shards[l] = (redco_shards){{1, 1}, {1, 1}, {1, 1}}; }
    refuse(&t, "weights of type i32");
    t.dtype = REDCO_F32;
    t.mesh.dp.gpus = 2;
    refuse(&t, "tp 1 x dp 2x1 x pp 1 = 2 ranks, but there are 1");
    t.mesh.dp.gpus = 1;
    t.optimizer.beta1 = 1.0;
    refuse(&t, "beta1");
    t.optimizer.beta1 = 0.9;
    t.shards[1].optimizer.gpus = 2;
    refuse(&t, "optimizer 2x1 must divide dp 1x1");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_copy_is_used), cmocka_unit_test(streams_run_at_once),
        cmocka_unit_test(long_vectors),        cmocka_unit_test(a_rank_dies),
        cmocka_unit_test(bad_options),         cmocka_unit_test(a_gradient_is_no_number),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
