/* The same shares on one device without peers: products in one stream, and in another what stands for a collective. */
#include "executor/measure/contention.h"

#include <math.h>
#include <stdlib.h>

enum { TRIES = 5, LEAST_PRODUCTS = 4, MOST_PRODUCTS = 500 };
/* So much of the time that the device is occupied are products queued beside, so that they never run alone. */
static const double beside_ratio = 0.8;

struct device_bench {
    redco_backend *backend;
    redco_device_stream *streams[2]; /* products, traffic */
    redco_event *events[4];          /* before and behind the products, before and behind the traffic */
    unsigned char *matrices, *traffic;
    redco_tensor_type type;
    const redco_measure_traffic *what;
    double seconds; /* seconds of one measurement */
    redco_error *err;
};

static redco_launch product_of(const struct device_bench *b, const redco_attributes *attributes,
                               redco_tensor tensors[3])
{
    const uint64_t bytes = redco_type_bytes(&b->type);
    for (uint32_t i = 0; i < 3; i++) {
        tensors[i] = (redco_tensor){b->type, b->matrices != NULL ? b->matrices + i * bytes : NULL};
    }
    return (redco_launch){.kind = REDCO_OP_MATMUL,
                          .attributes = attributes,
                          .input_count = 2,
                          .output_count = 1,
                          .inputs = tensors,
                          .outputs = tensors + 2,
                          .workspace = b->matrices != NULL ? b->matrices + 3 * bytes : NULL,
                          .name = "contention"};
}

static redco_status products(struct device_bench *b, uint32_t count)
{
    const redco_backend_calls *const calls = b->backend->calls;
    const redco_attributes attributes = {.rank = 0};
    redco_tensor tensors[3];
    const redco_launch launch = product_of(b, &attributes, tensors);
    redco_status st = calls->event_set(b->backend, b->streams[0], b->events[0], b->err);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        st = calls->run(b->backend, b->streams[0], &launch, b->err);
    }
    return st == REDCO_OK ? calls->event_set(b->backend, b->streams[0], b->events[1], b->err) : st;
}

static redco_status occupy(struct device_bench *b)
{
    const redco_backend_calls *const calls = b->backend->calls;
    const redco_occupation occupation = {.seconds = b->seconds,
                                         .memory = b->traffic,
                                         .size_bytes = b->what->size_bytes,
                                         .moved_bytes = (uint64_t)(b->what->bytes_per_s * b->seconds)};
    redco_status st = calls->event_set(b->backend, b->streams[1], b->events[2], b->err);
    if (st == REDCO_OK) { st = calls->occupy(b->backend, b->streams[1], &occupation, b->err); }
    return st == REDCO_OK ? calls->event_set(b->backend, b->streams[1], b->events[3], b->err) : st;
}

/* Seconds between the two events of a stream, when they are passed. */
static redco_status took(struct device_bench *b, uint32_t stream, double *seconds_out)
{
    const redco_backend_calls *const calls = b->backend->calls;
    const redco_status st = calls->event_finish(b->backend, b->events[2 * stream + 1], b->err);
    if (st != REDCO_OK) { return st; }
    return calls->event_between(b->backend, b->events[2 * stream], b->events[2 * stream + 1], seconds_out, b->err);
}

static redco_status one_try(struct device_bench *b, uint32_t count, redco_measure_contention *out)
{
    double alone_s[2] = {0.0, 0.0}, beside_s[2] = {0.0, 0.0};
    redco_status st = products(b, count);
    if (st == REDCO_OK) { st = took(b, 0, &alone_s[0]); }
    if (st == REDCO_OK) { st = occupy(b); }
    if (st == REDCO_OK) { st = took(b, 1, &alone_s[1]); }
    if (st == REDCO_OK) { st = occupy(b); }
    if (st == REDCO_OK) { st = products(b, count); }
    for (uint32_t q = 0; q < 2 && st == REDCO_OK; q++) { st = took(b, q, &beside_s[q]); }
    if (st != REDCO_OK) { return st; }
    const double a = fmin(1.0, alone_s[0] / fmax(beside_s[0], 1e-9));
    const double c = fmin(1.0, alone_s[1] / fmax(beside_s[1], 1e-9));
    out->overlap_ratio = fmax(c, 1e-6) / fmax(a, 1e-6);
    out->contention_ratio = fmin(1.0, fmax(0.0, (1.0 - a) / fmax(c, 1e-6)));
    return REDCO_OK;
}

static redco_status open_bench(struct device_bench *b, uint64_t side)
{
    const redco_backend_calls *const calls = b->backend->calls;
    const redco_attributes attributes = {.rank = 0};
    redco_tensor tensors[3];
    void *matrices = NULL, *traffic = NULL;
    redco_status st = REDCO_OK;
    b->type = redco_type(REDCO_BFLOAT16, 2, (const uint64_t[]){side, side});
    const redco_launch launch = product_of(b, &attributes, tensors);
    const uint64_t bytes = 3 * redco_type_bytes(&b->type) + calls->workspace_bytes(b->backend, &launch);
    for (int i = 0; i < 2 && st == REDCO_OK; i++) {
        st = calls->stream_create(b->backend,
                                  i == 0 ? REDCO_DEVICE_STREAM_COMPUTATION : REDCO_DEVICE_STREAM_COMMUNICATION,
                                  &b->streams[i], b->err);
    }
    for (int i = 0; i < 4 && st == REDCO_OK; i++) { st = calls->event_create(b->backend, &b->events[i], b->err); }
    if (st == REDCO_OK) { st = calls->allocate(b->backend, REDCO_MEMORY_DEVICE, bytes, &matrices, b->err); }
    b->matrices = matrices;
    if (st == REDCO_OK) { st = calls->fill_zero(b->backend, b->streams[0], matrices, bytes, b->err); }
    if (st == REDCO_OK) {
        st = calls->allocate(b->backend, REDCO_MEMORY_DEVICE, b->what->size_bytes, &traffic, b->err);
    }
    b->traffic = traffic;
    if (st == REDCO_OK) { st = calls->fill_zero(b->backend, b->streams[1], traffic, b->what->size_bytes, b->err); }
    for (int i = 0; i < 2 && st == REDCO_OK; i++) { st = calls->stream_finish(b->backend, b->streams[i], b->err); }
    return st;
}

static void close_bench(struct device_bench *b)
{
    const redco_backend_calls *const calls = b->backend->calls;
    for (int i = 0; i < 2; i++) {
        if (b->streams[i] != NULL) { (void)calls->stream_finish(b->backend, b->streams[i], NULL); }
    }
    calls->release(b->backend, REDCO_MEMORY_DEVICE, b->matrices);
    calls->release(b->backend, REDCO_MEMORY_DEVICE, b->traffic);
    for (int i = 0; i < 4; i++) {
        if (b->events[i] != NULL) { calls->event_free(b->backend, b->events[i]); }
    }
    for (int i = 0; i < 2; i++) {
        if (b->streams[i] != NULL) { calls->stream_free(b->backend, b->streams[i]); }
    }
}

/* The number of products that fill the time; the first ones warm up. */
static redco_status find_count(struct device_bench *b, uint32_t *count_out)
{
    double seconds = 0.0;
    redco_status st = products(b, LEAST_PRODUCTS);
    if (st == REDCO_OK) { st = took(b, 0, &seconds); }
    if (st == REDCO_OK) { st = products(b, LEAST_PRODUCTS); }
    if (st == REDCO_OK) { st = took(b, 0, &seconds); }
    const double wanted = floor(beside_ratio * b->seconds / fmax(seconds / LEAST_PRODUCTS, 1e-9));
    *count_out = wanted < 1.0 ? 1 : wanted > MOST_PRODUCTS ? MOST_PRODUCTS : (uint32_t)wanted;
    return st;
}

redco_status redco_measure_contend_device(redco_backend *backend, const redco_measure_traffic *traffic, uint64_t side,
                                          double seconds, redco_measure_contention *contention_out, redco_error *err)
{
    struct device_bench b = {.backend = backend, .what = traffic, .seconds = seconds / (3.0 * TRIES), .err = err};
    redco_measure_contention tries[TRIES];
    uint32_t count = 0;
    redco_status st = open_bench(&b, side);
    if (st == REDCO_OK) { st = find_count(&b, &count); }
    for (int i = 0; i < TRIES && st == REDCO_OK; i++) { st = one_try(&b, count, &tries[i]); }
    if (st == REDCO_OK) { *contention_out = redcoi_middle_contention(tries, TRIES); }
    close_bench(&b);
    return st;
}
