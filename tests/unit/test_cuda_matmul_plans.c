/* The needs of products of the CUDA backend: workspaces, plans, memory, threads. Runs on the mock libraries and,
 * unchanged, on a GPU. */
#include "costmodel/graph/build_calls.h"
#include "executor/backend/cuda/products/blas.h"
#include "executor/backend/evaluate.h"
#include "executor/backend/host/host.h"
#include "tests/unit/products_fixture.h"

#include <dlfcn.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Memory of one's own */

typedef struct device_data {
    redco_backend *b;
    redco_device_stream *stream;
    redco_tensor in[INPUTS], out[OUTPUTS];
    unsigned char *workspace;
    uint64_t workspace_bytes;
} device_data;

enum { GUARD_BYTES = 4096, GUARD = 0x5B };

static void *on_device(const device_data *d, const redco_tensor_type *type, uint64_t seed)
{
    const uint64_t bytes = redco_type_bytes(type);
    void *const data = malloc(bytes);
    void *memory = NULL;
    fill(type, data, &seed);
    assert_int_equal(d->b->calls->allocate(d->b, REDCO_MEMORY_DEVICE, bytes, &memory, NULL), REDCO_OK);
    assert_int_equal(d->b->calls->copy(d->b, d->stream, memory, data, bytes, NULL), REDCO_OK);
    assert_int_equal(d->b->calls->stream_finish(d->b, d->stream, NULL), REDCO_OK);
    free(data);
    return memory;
}

static void release(const device_data *d, void *memory)
{
    d->b->calls->release(d->b, REDCO_MEMORY_DEVICE, memory);
}

static void fetch(const device_data *d, const redco_tensor *t, void *data)
{
    assert_int_equal(d->b->calls->copy(d->b, d->stream, data, t->data, redco_type_bytes(&t->type), NULL), REDCO_OK);
    assert_int_equal(d->b->calls->stream_finish(d->b, d->stream, NULL), REDCO_OK);
}

/** Its workspace is as long as asked for, with guards before and behind. */
static redco_launch prepare(device_data *d, const redco_attributes *attributes, redco_op_kind kind,
                            const redco_tensor_type *types, uint32_t count, const redco_tensor_type *result)
{
    static const redco_tensor_type none = {.rank = 0};
    assert_int_equal(d->b->calls->stream_create(d->b, REDCO_DEVICE_STREAM_COMPUTATION, &d->stream, NULL), REDCO_OK);
    for (uint32_t i = 0; i < count; i++) { d->in[i] = (redco_tensor){types[i], on_device(d, &types[i], 100 + i)}; }
    d->out[0] = (redco_tensor){*result, on_device(d, result, 7)};
    d->out[1] = (redco_tensor){none, NULL};
    redco_launch launch = {.kind = kind,
                           .attributes = attributes,
                           .input_count = count,
                           .output_count = 1,
                           .inputs = d->in,
                           .outputs = d->out,
                           .name = "test"};
    d->workspace_bytes = d->b->calls->workspace_bytes(d->b, &launch);
    const uint64_t bytes = d->workspace_bytes + 2 * (uint64_t)GUARD_BYTES;
    void *memory = NULL, *const guards = malloc(bytes);
    memset(guards, GUARD, bytes);
    assert_int_equal(d->b->calls->allocate(d->b, REDCO_MEMORY_DEVICE, bytes, &memory, NULL), REDCO_OK);
    assert_int_equal(d->b->calls->copy(d->b, d->stream, memory, guards, bytes, NULL), REDCO_OK);
    assert_int_equal(d->b->calls->stream_finish(d->b, d->stream, NULL), REDCO_OK);
    free(guards);
    d->workspace = memory;
    launch.workspace = d->workspace + GUARD_BYTES;
    return launch;
}

static void finish(device_data *d, uint32_t count)
{
    unsigned char guards[2][GUARD_BYTES];
    for (uint32_t i = 0; i < 2; i++) {
        const unsigned char *const from = d->workspace + (i == 0 ? 0 : GUARD_BYTES + d->workspace_bytes);
        assert_int_equal(d->b->calls->copy(d->b, d->stream, guards[i], from, GUARD_BYTES, NULL), REDCO_OK);
    }
    assert_int_equal(d->b->calls->stream_finish(d->b, d->stream, NULL), REDCO_OK);
    for (uint32_t i = 0; i < 2 * GUARD_BYTES; i++) {
        assert_int_equal(guards[i / GUARD_BYTES][i % GUARD_BYTES], GUARD);
    }
    for (uint32_t i = 0; i < count; i++) { release(d, d->in[i].data); }
    release(d, d->out[0].data);
    release(d, d->workspace);
    d->b->calls->stream_free(d->b, d->stream);
}

/** Sums of many terms, which algorithms split, in a workspace of exactly the size that was planned. */
static void workspace_is_enough(void **state)
{
    const fixture *const r = *state;
    for (uint32_t t = 0; t < 4; t++) {
        const redco_attributes attributes = turned(false, false);
        const redco_tensor_type types[2] = {matrices(dtypes[t], 0, NULL, false, 16, 4096),
                                            matrices(dtypes[t], 0, NULL, false, 4096, 24)};
        const redco_tensor_type result = matrices(dtypes[t], 0, NULL, false, 16, 24);
        device_data d = {.b = r->cuda};
        redco_error err = {.status = REDCO_OK};
        const redco_launch launch = prepare(&d, &attributes, REDCO_OP_MATMUL, types, 2, &result);
        if (r->cuda->calls->run(r->cuda, d.stream, &launch, &err) != REDCO_OK) { fail_msg("%s", err.text); }
        finish(&d, 2);
    }
}

static void plans_are_made_once(void **state)
{
    const fixture *const r = *state;
    redcoi_blas *const blas = ((redcoi_cuda *)r->cuda)->blas;
    const redco_attributes attributes = turned(false, true);
    const redco_tensor_type types[2] = {matrices(REDCO_F32, 0, NULL, false, 41, 43),
                                        matrices(REDCO_F32, 0, NULL, true, 43, 47)};
    const redco_tensor_type result = matrices(REDCO_F32, 0, NULL, false, 41, 47);
    device_data d = {.b = r->cuda};
    const redco_launch launch = prepare(&d, &attributes, REDCO_OP_MATMUL, types, 2, &result);
    const uint64_t queries = blas->queries, lookups = blas->lookups;
    const uint32_t plans = blas->plan_count;
    for (uint32_t i = 0; i < 50; i++) {
        assert_int_equal(r->cuda->calls->run(r->cuda, d.stream, &launch, NULL), REDCO_OK);
    }
    assert_int_equal(blas->queries - queries, 1);
    assert_int_equal(blas->plan_count - plans, 1);
    assert_int_equal(blas->lookups - lookups, 50);
    /* Rows of a batch are rows of one product: another operator, the same plan. */
    redco_tensor batch[2] = {d.in[0], d.in[1]}, out = d.out[0];
    batch[0].type = redco_type(REDCO_F32, 3, (const uint64_t[]){41, 1, 43});
    batch[1].type = redco_type(REDCO_F32, 3, (const uint64_t[]){1, 47, 43});
    out.type = redco_type(REDCO_F32, 3, (const uint64_t[]){41, 1, 47});
    redco_launch folded = launch;
    folded.inputs = batch;
    folded.outputs = &out;
    assert_int_equal(r->cuda->calls->run(r->cuda, d.stream, &folded, NULL), REDCO_OK);
    assert_int_equal(blas->queries - queries, 1);
    finish(&d, 2);
}

/** c + a b over c, which comes first: it is what is timed where products are. */
static void check_in_place(redco_backend *cuda)
{
    const redco_attributes attributes = turned(false, false);
    for (uint32_t t = 0; t < 4; t++) {
        const redco_tensor_type result = matrices(dtypes[t], 0, NULL, false, 24, 40);
        const redco_tensor_type types[3] = {result, matrices(dtypes[t], 0, NULL, false, 24, 64),
                                            matrices(dtypes[t], 0, NULL, false, 64, 40)};
        device_data d = {.b = cuda};
        outcome apart = {{result}, {malloc(redco_type_bytes(&result)), NULL}};
        outcome over = {{result}, {malloc(redco_type_bytes(&result)), NULL}};
        redco_launch launch = prepare(&d, &attributes, REDCO_OP_MATMUL_ADD, types, 3, &result);
        const redco_tensor both = {result, on_device(&d, &result, 100)}; /* the same numbers as the first input */
        const redco_tensor in_place[3] = {both, d.in[1], d.in[2]};
        redco_launch second = launch;
        second.inputs = in_place;
        second.outputs = &both;
        redco_error err = {.status = REDCO_OK};
        if (cuda->calls->run(cuda, d.stream, &second, &err) != REDCO_OK) { fail_msg("%s", err.text); }
        fetch(&d, &both, over.data[0]);
        if (cuda->calls->run(cuda, d.stream, &launch, &err) != REDCO_OK) { fail_msg("%s", err.text); }
        fetch(&d, &d.out[0], apart.data[0]);
        compare(&over, &apart, "in place", 64);
        release(&d, both.data);
        finish(&d, 3);
        discard(&apart);
        discard(&over);
    }
}

static void sums_in_place(void **state)
{
    check_in_place(((const fixture *)*state)->cuda);
}

static void tuned_products(void **state)
{
    const fixture *const r = *state;
    const redco_cuda_options options = {.tune = true};
    fixture tuned_fixture = {.host = r->host, .cuda = open_cuda(&options)};
    take_memory(&tuned_fixture);
    uint64_t seed = 3;
    for (uint32_t t = 0; t < 4; t++) {
        const redco_attributes attributes = turned(t % 2 == 0, t > 1);
        const redco_tensor_type types[2] = {matrices(dtypes[t], 1, (const uint64_t[]){3}, t % 2 == 0, 32, 256),
                                            matrices(dtypes[t], 1, (const uint64_t[]){3}, t > 1, 256, 48)};
        for (uint32_t again = 0; again < 2; again++) {
            check(&tuned_fixture, REDCO_OP_MATMUL, &attributes, types, 2, 256, seed++);
        }
    }
    return_memory(&tuned_fixture);
    redco_backend_close(tuned_fixture.cuda);
}

/* Its scratch is not what the step was planned to take. */
static void tuning_takes_no_memory(void **state)
{
    uint64_t live[2], peak[2];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        const redco_cuda_options options = {.tune = i == 1};
        redco_backend *const cuda = open_cuda(&options);
        check_in_place(cuda);
        cuda->calls->memory_use(cuda, &live[i], &peak[i]);
        assert_int_equal(live[i], 0);
        const redcoi_blas *const blas = ((const redcoi_cuda *)cuda)->blas;
        uint32_t tuned_plans = 0;
        for (uint32_t k = 0; k < blas->plan_room; k++) {
            tuned_plans += blas->plans[k] != NULL && blas->plans[k]->tuned;
        }
        assert_int_equal(tuned_plans, i == 1 ? blas->plan_count : 0);
        redco_backend_close(cuda);
    }
    assert_int_equal(peak[0], peak[1]);
}

/* Factors with more digits than TF32 keeps: 1 + 2^-12. */
static void tf32_is_asked_for(void **state)
{
    const redco_cuda_options options = {.tf32 = true};
    double sums[2];
    (void)state;
    for (uint32_t i = 0; i < 2; i++) {
        redco_backend *const b = open_cuda(i == 0 ? NULL : &options);
        redco_graph *const g = redco_graph_create();
        enum { SIZE = 64 };
        static float ones[SIZE * SIZE], result[SIZE * SIZE];
        const redco_tensor_type type = redco_type(REDCO_F32, 2, (const uint64_t[]){SIZE, SIZE});
        const redco_value x = redco_input(g, "x", &type), y = redco_matmul(g, x, x, false, false);
        for (uint32_t k = 0; k < SIZE * SIZE; k++) { ones[k] = 1.0F + 0x1p-12F; }
        const redco_binding binding = {x, ones};
        const redco_result wanted = {y, result};
        assert_int_equal(redco_evaluate(b, g, &binding, 1, &wanted, 1, NULL), REDCO_OK);
        sums[i] = (double)result[0];
        redco_graph_free(g);
        redco_backend_close(b);
    }
    assert_true(fabs(sums[0] - 64 * (1 + 0x1p-11)) < 64 * 0x1p-20); /* (1 + 2^-12)^2 = 1 + 2^-11 + 2^-24 */
    assert_true(fabs(sums[1] - sums[0]) > 64 * 0x1p-13);            /* 2^-12 is cut or rounded away */
    assert_true(fabs(sums[1] - sums[0]) < 64 * 0x1p-9);
}

/* Threads */

typedef struct worker {
    redco_backend *first;
    uint32_t which;
    const char *failed;
} worker;

static bool same_results(const fixture *r, uint32_t i, uint32_t which)
{
    const redco_attributes attributes = turned(i % 2 == 0, i % 3 == 0);
    const redco_tensor_type types[2] = {
        matrices(REDCO_F64, 1, (const uint64_t[]){2}, i % 2 == 0, 1 + which + i % 7, 64),
        matrices(REDCO_F64, 1, (const uint64_t[]){2}, i % 3 == 0, 64, 5 + i % 4)};
    const single one = open_single(REDCO_OP_MATMUL, &attributes, types, 2);
    outcome want = {.data = {NULL}}, have = {.data = {NULL}};
    bool same = on_host(r->host, &one, i, &want, NULL) == REDCO_OK && on_cuda(r, &one, i, &have, NULL) == REDCO_OK;
    for (uint64_t k = 0; same && k < redco_type_elements(&want.type[0]); k++) {
        same = fabs(((double *)want.data[0])[k] - ((double *)have.data[0])[k]) < 1e-9;
    }
    discard(&want);
    discard(&have);
    redco_graph_free(one.g);
    return same;
}

static void *work(void *context)
{
    worker *const w = context;
    fixture mine = {.host = NULL};
    if (w->first->calls->share(w->first, &mine.cuda, NULL) != REDCO_OK ||
        redco_host_open(NULL, &mine.host, NULL) != REDCO_OK) {
        w->failed = "share";
        return NULL;
    }
    take_memory(&mine);
    for (uint32_t i = 0; i < 100 && w->failed == NULL; i++) {
        if (!same_results(&mine, i, w->which)) { w->failed = "a result differs"; }
    }
    return_memory(&mine);
    redco_backend_close(mine.cuda);
    redco_backend_close(mine.host);
    return NULL;
}

static void two_handles_on_two_threads(void **state)
{
    const fixture *const r = *state;
    worker w[2] = {{r->cuda, 0, NULL}, {r->cuda, 9, NULL}};
    pthread_t threads[2];
    for (uint32_t i = 0; i < 2; i++) { assert_int_equal(pthread_create(&threads[i], NULL, work, &w[i]), 0); }
    for (uint32_t i = 0; i < 2; i++) { assert_int_equal(pthread_join(threads[i], NULL), 0); }
    for (uint32_t i = 0; i < 2; i++) {
        if (w[i].failed != NULL) { fail_msg("thread %u: %s", i, w[i].failed); }
    }
}

/* Descriptors that were not destroyed: only the mock library counts them. */
static void nothing_is_left(void **state)
{
    size_t (*alive)(void) = NULL;
    void *const library = dlopen("libcublasLt.so.13", RTLD_NOW | RTLD_NOLOAD);
    void *const address = library == NULL ? NULL : dlsym(library, "mock_cublaslt_alive");
    (void)state;
    if (address == NULL) { skip(); }
    memcpy(&alive, &address, sizeof alive);
    redco_backend *const b = open_cuda(NULL);
    redco_backend_close(b);
    assert_int_equal(alive(), 0);
    (void)dlclose(library);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(workspace_is_enough, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(plans_are_made_once, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(sums_in_place, open_fixture, close_fixture),
        cmocka_unit_test_setup_teardown(tuned_products, open_fixture, close_fixture),
        cmocka_unit_test(tuning_takes_no_memory),
        cmocka_unit_test(tf32_is_asked_for),
        cmocka_unit_test_setup_teardown(two_handles_on_two_threads, open_fixture, close_fixture),
        cmocka_unit_test(nothing_is_left)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
