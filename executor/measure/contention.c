#include "executor/measure/contention.h"
#include "topology/base/clock.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SIDE = 512, TRIES = 5 };

/* A try: how often each was done in how long. */
struct counts {
    double products, product_s;
    double collectives, collective_s;
};

struct bench {
    redco_backend *backend;
    redco_device_stream *stream;
    redco_communicator *all, *beside; /* the second is the thread's */
    float *matrices, *data;
    uint64_t count;
    double seconds;    /* seconds of one measurement */
    uint64_t repeats;  /* collectives in that time: ranks must agree on their number */
    atomic_bool ended; /* the thread's collectives are through */
    double thread_s;
    redco_status thread_status;
    redco_error thread_err;
    redco_error *err;
};

static redco_status product(struct bench *b)
{
    const size_t elements = (size_t)SIDE * SIDE;
    const redco_tensor_type type = redco_type(REDCO_F32, 2, (const uint64_t[]){SIDE, SIDE});
    const redco_attributes attributes = {.rank = 0};
    redco_tensor inputs[2] = {{type, b->matrices}, {type, b->matrices + elements}};
    redco_tensor output = {type, b->matrices + 2 * elements};
    const redco_launch launch = {.kind = REDCO_OP_MATMUL,
                                 .attributes = &attributes,
                                 .input_count = 2,
                                 .output_count = 1,
                                 .inputs = inputs,
                                 .outputs = &output,
                                 .name = "matmul"};
    return b->backend->calls->run(b->backend, b->stream, &launch, b->err);
}

/* Products until the time is over, or until the thread's collectives are. */
static redco_status products(struct bench *b, bool beside, struct counts *counts)
{
    redco_status st = REDCO_OK;
    const double began_s = redco_now_s();
    counts->products = 0.0;
    do {
        st = product(b);
        counts->products += 1.0;
        counts->product_s = redco_now_s() - began_s;
    } while (st == REDCO_OK && (beside ? !atomic_load(&b->ended) : counts->product_s < b->seconds));
    return st == REDCO_OK ? b->backend->calls->stream_finish(b->backend, b->stream, b->err) : st;
}

static redco_status collectives(struct bench *b, uint64_t repeats, double *seconds_out, redco_error *err)
{
    redco_status st = REDCO_OK;
    const double began_s = redco_now_s();
    for (uint64_t r = 0; r < repeats && st == REDCO_OK; r++) {
        st = redco_all_reduce(b->beside, REDCO_F32, REDCO_REDUCE_SUM, b->data, b->count, "contention", err);
    }
    *seconds_out = redco_now_s() - began_s;
    return st;
}

static void *run_thread(void *context)
{
    struct bench *const b = context;
    b->thread_status = collectives(b, b->repeats, &b->thread_s, &b->thread_err);
    atomic_store(&b->ended, true);
    return NULL;
}

static redco_status both(struct bench *b, struct counts *counts)
{
    pthread_t thread;
    atomic_store(&b->ended, false);
    b->thread_status = REDCO_OK;
    if (pthread_create(&thread, NULL, run_thread, b) != 0) {
        return redco_fail(b->err, REDCO_ESYSTEM, "measure", "a thread cannot be started");
    }
    const redco_status st = products(b, true, counts);
    (void)pthread_join(thread, NULL);
    counts->collectives = (double)b->repeats;
    counts->collective_s = b->thread_s;
    if (b->thread_status != REDCO_OK) {
        return redco_fail(b->err, b->thread_status, b->thread_err.place, "%s", b->thread_err.text);
    }
    return st;
}

static redco_status together(struct bench *b)
{
    return redco_barrier(b->all, "contention", b->err);
}

/* The number of collectives that fill the time: the ranks' average estimate. */
static redco_status find_repeats(struct bench *b)
{
    double took_s = 0.0;
    redco_status st = collectives(b, 1, &took_s, b->err); /* warms buffers */
    if (st == REDCO_OK) { st = collectives(b, 1, &took_s, b->err); }
    if (st == REDCO_OK) {
        st = redco_all_reduce(b->all, REDCO_F64, REDCO_REDUCE_MAX, &took_s, 1, "contention", b->err);
    }
    b->repeats = (uint64_t)fmax(1.0, ceil(b->seconds / fmax(took_s, 1e-6)));
    return st;
}

/* Shares are averaged over the ranks: one may have been disturbed more than the other. */
static redco_status one_try(struct bench *b, redco_measure_contention *out)
{
    struct counts alone = {.products = 0.0}, beside = {.products = 0.0};
    redco_status st = together(b);
    if (st == REDCO_OK) { st = products(b, false, &alone); }
    if (st == REDCO_OK) { st = together(b); }
    if (st == REDCO_OK) { st = collectives(b, b->repeats, &alone.collective_s, b->err); }
    alone.collectives = (double)b->repeats;
    if (st == REDCO_OK) { st = together(b); }
    if (st == REDCO_OK) { st = both(b, &beside); }
    if (st != REDCO_OK) { return st; }
    const double a = beside.products / beside.product_s / (alone.products / alone.product_s);
    const double c = beside.collectives / beside.collective_s / (alone.collectives / alone.collective_s);
    double shares[2] = {a, c};
    st = redco_all_reduce(b->all, REDCO_F64, REDCO_REDUCE_SUM, shares, 2, "contention", b->err);
    const double ranks = redco_communicator_size(b->all);
    *out = (redco_measure_contention){fmin(1.0, fmax(0.0, (ranks - shares[0]) / shares[1])), shares[1] / shares[0]};
    return st;
}

static int by_contention(const void *left, const void *right)
{
    const redco_measure_contention *a = left, *b = right;
    return (a->contention_ratio > b->contention_ratio) - (a->contention_ratio < b->contention_ratio);
}

redco_measure_contention redcoi_middle_contention(redco_measure_contention *tries, uint32_t count)
{
    qsort(tries, count, sizeof tries[0], by_contention);
    return tries[count / 2];
}

static redco_status open_bench(struct bench *b, redco_world *world)
{
    uint32_t *const colours = calloc(redco_world_size(world), sizeof *colours); /* all of one colour */
    b->matrices = calloc((size_t)3 * SIDE * SIDE, sizeof *b->matrices);
    b->data = calloc(b->count, sizeof *b->data);
    redco_status st = REDCO_OK;
    if (colours == NULL || b->matrices == NULL || b->data == NULL) {
        st = redco_fail(b->err, REDCO_ENOMEM, "measure", "out of memory");
        goto out;
    }
    for (size_t i = 0; i < (size_t)2 * SIDE * SIDE; i++) { b->matrices[i] = 0.5F; }
    st = b->backend->calls->stream_create(b->backend, REDCO_DEVICE_STREAM_COMPUTATION, &b->stream, b->err);
    if (st == REDCO_OK) { st = redco_communicator_split(world, colours, "all ranks", &b->all, b->err); }
    if (st == REDCO_OK) { st = redco_communicator_split(world, colours, "beside", &b->beside, b->err); }
out:
    free(colours);
    return st;
}

redco_status redco_measure_contend(redco_world *world, redco_backend *backend, uint64_t bytes, double seconds,
                                   redco_measure_contention *contention_out, redco_error *err)
{
    struct bench b = {.backend = backend,
                      .count = bytes / sizeof(float) > 0 ? bytes / sizeof(float) : 1,
                      .seconds = seconds / (3.0 * TRIES),
                      .err = err};
    redco_measure_contention tries[TRIES];
    atomic_init(&b.ended, false);
    redco_status st = open_bench(&b, world);
    if (st == REDCO_OK) { st = find_repeats(&b); }
    for (int i = 0; i < TRIES && st == REDCO_OK; i++) { st = one_try(&b, &tries[i]); }
    if (st == REDCO_OK) { *contention_out = redcoi_middle_contention(tries, TRIES); }
    redco_communicator_free(b.beside);
    redco_communicator_free(b.all);
    if (b.stream != NULL) { backend->calls->stream_free(backend, b.stream); }
    free(b.matrices);
    free(b.data);
    return st;
}
