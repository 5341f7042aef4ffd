#include "tests/unit/communicator_checks.h"

#include "tests/unit/full.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            (void)fprintf(stderr, "rank %u: line %d: %s\n", redco_world_rank(world), __LINE__, #condition);            \
            return __LINE__ % 250 + 1;                                                                                 \
        }                                                                                                              \
    } while (0)

enum { MOST = 64 };

/* Element i of rank r's data: an integer from -8 to 7. */
static int value(uint32_t rank, uint64_t i)
{
    return (int)((i * 7 + rank * 5 + i / 3) % 16) - 8;
}

/* Small integers as IEEE 754 binary16: 0, 1, 2, 4, 8 ... have no fraction, the rest fill it from the left. */
static uint16_t half_of(int number)
{
    const unsigned sign = number < 0 ? 0x8000 : 0;
    const unsigned magnitude = (unsigned)(number < 0 ? -number : number);
    unsigned exponent = 0;
    if (magnitude == 0) { return 0; }
    while (magnitude >> (exponent + 1) != 0) { exponent++; }
    return (uint16_t)(sign | ((exponent + 15) << 10) | ((magnitude << (10 - exponent)) & 0x3ff));
}

/* An integer as the element of a type, written byte by byte: bf16 is the upper half of a float. */
static void put(redco_dtype dtype, void *data, uint64_t i, int number)
{
    const float f = (float)number;
    const double d = number;
    const int32_t n = number;
    uint32_t bits = 0;
    memcpy(&bits, &f, sizeof bits);
    const uint16_t upper = dtype == REDCO_F16 ? half_of(number) : (uint16_t)(bits >> 16);
    const size_t size = redco_dtype_bytes(dtype);
    const void *const from = dtype == REDCO_F64   ? (const void *)&d
                             : dtype == REDCO_F32 ? (const void *)&f
                             : dtype == REDCO_I32 ? (const void *)&n
                                                  : (const void *)&upper;
    memcpy((char *)data + i * size, from, size);
}

static int sum(uint32_t first, uint32_t step, uint32_t count, uint64_t i, redco_reduction reduction)
{
    int result = value(first, i);
    for (uint32_t k = 1; k < count; k++) {
        const int v = value(first + k * step, i);
        result = reduction == REDCO_REDUCE_SUM ? result + v : v > result ? v : result;
    }
    return result;
}

static void fill(redco_dtype dtype, void *data, uint32_t rank, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) { put(dtype, data, i, value(rank, i)); }
}

/* Ranks first, first + step, ... of the world: a communicator on the program's memory, or a process group on a
 * backend's. */
struct group {
    redco_communicator *communicator;
    redco_process_group *process_group;
    redco_stream_handle on;
    uint32_t first, step, size;
};

struct buffers {
    unsigned char *data, *expected, *shard;
    unsigned char *group_data, *group_shard; /* memory of the backend */
    size_t bytes;
};

static uint32_t rank_in(const struct group *g)
{
    return g->process_group != NULL ? g->process_group->rank : redco_communicator_rank(g->communicator);
}

static uint32_t size_of(const struct group *g)
{
    return g->process_group != NULL ? redco_process_group_size(g->process_group)
                                    : redco_communicator_size(g->communicator);
}

/* Which collective, for both ways. */
struct wanted {
    redco_collective kind;
    redco_dtype dtype;
    redco_reduction reduction;
    uint64_t count;
    const void *in;
    void *out;
    const uint64_t *begin;
    const uint32_t *order;
    uint32_t root;
};

static redco_status on_communicator(redco_communicator *c, const struct wanted *w)
{
    switch (w->kind) {
    case REDCO_ALL_REDUCE: return redco_all_reduce(c, w->dtype, w->reduction, w->out, w->count, "test", NULL);
    case REDCO_REDUCE_SCATTER:
        if (w->begin != NULL) {
            return redco_reduce_scatter_parts(c, w->dtype, w->reduction, w->out, w->begin, "test", NULL);
        }
        if (w->order != NULL) {
            return redco_reduce_scatter_ordered(c, w->dtype, w->reduction, w->out, w->order, w->count, "test", NULL);
        }
        return redco_reduce_scatter(c, w->dtype, w->reduction, w->in, w->out, w->count, "test", NULL);
    case REDCO_ALL_GATHER:
        return w->order != NULL ? redco_all_gather_ordered(c, w->dtype, w->out, w->order, w->count, "test", NULL)
                                : redco_all_gather(c, w->dtype, w->in, w->out, w->count, "test", NULL);
    default: break;
    }
    return redco_broadcast(c, w->dtype, w->out, w->count, w->root, "test", NULL);
}

static redco_status on_process_group(const struct group *g, const struct wanted *w, const void *in, void *out)
{
    /* in two parts, of which the first may be empty */
    const redco_process_group_part parts[] = {{0, w->count / 2, w->root},
                                              {w->count / 2, w->count - w->count / 2, w->root}};
    switch (w->kind) {
    case REDCO_ALL_REDUCE:
        return redco_process_group_all_reduce(g->process_group, g->on, w->dtype, w->reduction, out, w->count, "test",
                                              NULL);
    case REDCO_REDUCE_SCATTER:
        if (w->begin != NULL) {
            return redco_process_group_reduce_scatter_parts(g->process_group, g->on, w->dtype, w->reduction, out,
                                                            w->begin, "test", NULL);
        }
        if (w->order != NULL) {
            return redco_process_group_reduce_scatter_ordered(g->process_group, g->on, w->dtype, w->reduction, out,
                                                              w->order, w->count, "test", NULL);
        }
        return redco_process_group_reduce_scatter(g->process_group, g->on, w->dtype, w->reduction, in, out, w->count,
                                                  "test", NULL);
    case REDCO_ALL_GATHER:
        return w->order != NULL
                   ? redco_process_group_all_gather_ordered(g->process_group, g->on, w->dtype, out, w->order, w->count,
                                                            "test", NULL)
                   : redco_process_group_all_gather(g->process_group, g->on, w->dtype, in, out, w->count, "test", NULL);
    default: break;
    }
    return redco_process_group_broadcast(g->process_group, g->on, w->dtype, out, parts, 2, "test", NULL);
}

/* The buffers' place in the backend's memory. */
static void *moved(const struct buffers *b, const void *at)
{
    const unsigned char *const from = at;
    const bool in_data = from >= b->data && from < b->data + b->bytes;
    return in_data ? b->group_data + (from - b->data) : b->group_shard + (from - b->shard);
}

/* Copies and collective are work of one stream; the program waits once, at the end. */
static redco_status call(const struct group *g, const struct buffers *b, const struct wanted *w)
{
    if (g->process_group == NULL) { return on_communicator(g->communicator, w); }
    const redco_backend_calls *const calls = g->on.backend->calls;
    redco_backend *const backend = g->on.backend;
    redco_device_stream *const stream = g->on.stream;
    redco_status st = calls->copy(backend, stream, b->group_data, b->data, b->bytes, NULL);
    if (st == REDCO_OK) { st = calls->copy(backend, stream, b->group_shard, b->shard, b->bytes, NULL); }
    if (st == REDCO_OK) { st = on_process_group(g, w, w->in == NULL ? NULL : moved(b, w->in), moved(b, w->out)); }
    if (st == REDCO_OK) { st = calls->copy(backend, stream, b->data, b->group_data, b->bytes, NULL); }
    if (st == REDCO_OK) { st = calls->copy(backend, stream, b->shard, b->group_shard, b->bytes, NULL); }
    const redco_status finished = calls->stream_finish(backend, stream, NULL);
    return st == REDCO_OK ? finished : st;
}

static int all_reduce(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                      redco_reduction reduction, uint64_t count)
{
    fill(dtype, b->data, redco_world_rank(world), count);
    for (uint64_t i = 0; i < count; i++) { put(dtype, b->expected, i, sum(g->first, g->step, g->size, i, reduction)); }
    const struct wanted w = {
        .kind = REDCO_ALL_REDUCE, .dtype = dtype, .reduction = reduction, .count = count, .out = b->data};
    CHECK(call(g, b, &w) == REDCO_OK);
    CHECK(memcmp(b->data, b->expected, count * redco_dtype_bytes(dtype)) == 0);
    return 0;
}

static int reduce_scatter(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                          redco_reduction reduction, uint64_t count, bool in_place)
{
    const uint64_t at = count * rank_in(g);
    unsigned char *const out = in_place ? b->data + at * redco_dtype_bytes(dtype) : b->shard;
    fill(dtype, b->data, redco_world_rank(world), count * g->size);
    for (uint64_t i = 0; i < count; i++) {
        put(dtype, b->expected, i, sum(g->first, g->step, g->size, at + i, reduction));
    }
    const struct wanted w = {.kind = REDCO_REDUCE_SCATTER,
                             .dtype = dtype,
                             .reduction = reduction,
                             .count = count,
                             .in = b->data,
                             .out = out};
    CHECK(call(g, b, &w) == REDCO_OK);
    CHECK(memcmp(out, b->expected, count * redco_dtype_bytes(dtype)) == 0);
    return 0;
}

/* Parts of 0, 1, 2, ... times count elements, the last as long as all others together. */
static int reduce_parts(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                        redco_reduction reduction, uint64_t count)
{
    uint64_t begin[MOST + 1] = {0};
    const uint32_t own = rank_in(g);
    for (uint32_t r = 0; r < g->size; r++) { begin[r + 1] = begin[r] + (r * count) / g->size; }
    begin[g->size] = count * g->size;
    fill(dtype, b->data, redco_world_rank(world), begin[g->size]);
    for (uint64_t i = begin[own]; i < begin[own + 1]; i++) {
        put(dtype, b->expected, i, sum(g->first, g->step, g->size, i, reduction));
    }
    const struct wanted w = {
        .kind = REDCO_REDUCE_SCATTER, .dtype = dtype, .reduction = reduction, .begin = begin, .out = b->data};
    CHECK(call(g, b, &w) == REDCO_OK);
    const size_t size = redco_dtype_bytes(dtype);
    CHECK(memcmp(b->data + begin[own] * size, b->expected + begin[own] * size, (begin[own + 1] - begin[own]) * size) ==
          0);
    return 0;
}

static int all_gather(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                      uint64_t count)
{
    const size_t bytes = count * redco_dtype_bytes(dtype);
    fill(dtype, b->shard, redco_world_rank(world), count);
    for (uint32_t r = 0; r < g->size; r++) { fill(dtype, b->expected + r * bytes, g->first + r * g->step, count); }
    memset(b->data, 0xee, bytes * g->size);
    const struct wanted w = {.kind = REDCO_ALL_GATHER, .dtype = dtype, .count = count, .in = b->shard, .out = b->data};
    CHECK(call(g, b, &w) == REDCO_OK);
    CHECK(memcmp(b->data, b->expected, bytes * g->size) == 0);
    return 0;
}

/* Shards in reverse order. */
static int ordered(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                   redco_reduction reduction, uint64_t count)
{
    const size_t bytes = count * redco_dtype_bytes(dtype);
    const uint32_t own = g->size - 1 - rank_in(g);
    uint32_t order[MOST];
    for (uint32_t r = 0; r < g->size; r++) { order[r] = g->size - 1 - r; }
    fill(dtype, b->data, redco_world_rank(world), count * g->size);
    for (uint64_t i = 0; i < count * g->size; i++) {
        put(dtype, b->expected, i, sum(g->first, g->step, g->size, i, reduction));
    }
    struct wanted w = {.kind = REDCO_REDUCE_SCATTER,
                       .dtype = dtype,
                       .reduction = reduction,
                       .count = count,
                       .order = order,
                       .out = b->data};
    CHECK(call(g, b, &w) == REDCO_OK);
    CHECK(memcmp(b->data + own * bytes, b->expected + own * bytes, bytes) == 0);
    for (uint32_t r = 0; r < g->size; r++) { /* together: an all-reduce */
        if (r != own) { memset(b->data + r * bytes, 0xee, bytes); }
    }
    w.kind = REDCO_ALL_GATHER;
    CHECK(call(g, b, &w) == REDCO_OK);
    CHECK(memcmp(b->data, b->expected, bytes * g->size) == 0);
    return 0;
}

static int broadcast(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                     uint64_t count)
{
    for (uint32_t root = 0; root < g->size; root++) {
        fill(dtype, b->data, redco_world_rank(world), count);
        fill(dtype, b->expected, g->first + root * g->step, count);
        const struct wanted w = {.kind = REDCO_BROADCAST, .dtype = dtype, .count = count, .root = root, .out = b->data};
        CHECK(call(g, b, &w) == REDCO_OK);
        CHECK(memcmp(b->data, b->expected, count * redco_dtype_bytes(dtype)) == 0);
    }
    const struct wanted nobody = {
        .kind = REDCO_BROADCAST, .dtype = dtype, .count = count, .root = g->size, .out = b->data};
    CHECK(call(g, b, &nobody) == REDCO_EVALUE);
    return 0;
}

static int check_group(redco_world *world, const struct group *g, const uint64_t *counts, size_t counts_count)
{
    static const redco_dtype types[] = {REDCO_F64, REDCO_F32, REDCO_BFLOAT16, REDCO_F16, REDCO_I32};
    const size_t room = counts[counts_count - 1] * 8 * g->size;
    struct buffers b = {.data = calloc(room, 1), .expected = calloc(room, 1), .shard = calloc(room, 1), .bytes = room};
    int line = b.data != NULL && b.expected != NULL && b.shard != NULL ? 0 : 250;
    if (g->process_group != NULL) {
        const redco_backend_calls *const calls = g->on.backend->calls;
        void *memory[2] = {NULL, NULL};
        for (int i = 0; i < 2 && line == 0; i++) {
            line = calls->allocate(g->on.backend, REDCO_MEMORY_DEVICE, room, &memory[i], NULL) == REDCO_OK ? 0 : 249;
        }
        b.group_data = memory[0];
        b.group_shard = memory[1];
    }
    for (size_t c = 0; c < counts_count; c++) {
        /* Long ones: only how they are cut. In the quick tier types take turns. */
        const size_t all = sizeof types / sizeof types[0], from = test_full() || counts[c] >= 100000 ? 0 : 2 * c;
        const size_t tried = counts[c] >= 100000 ? 1 : test_full() ? all : 2;
        for (size_t turn = from; turn < from + tried; turn++) {
            const size_t t = turn % all;
            const redco_reduction reduction = t % 2 == 0 ? REDCO_REDUCE_SUM : REDCO_REDUCE_MAX;
            if (line == 0) { line = all_reduce(world, g, &b, types[t], REDCO_REDUCE_SUM, counts[c]); }
            if (line == 0) { line = all_reduce(world, g, &b, types[t], REDCO_REDUCE_MAX, counts[c]); }
            if (line == 0) { line = reduce_scatter(world, g, &b, types[t], reduction, counts[c], false); }
            if (line == 0) { line = reduce_scatter(world, g, &b, types[t], reduction, counts[c], true); }
            if (line == 0) { line = reduce_parts(world, g, &b, types[t], reduction, counts[c]); }
            if (line == 0) { line = ordered(world, g, &b, types[t], reduction, counts[c]); }
            if (line == 0) { line = all_gather(world, g, &b, types[t], counts[c]); }
            if (line == 0) { line = broadcast(world, g, &b, types[t], counts[c]); }
        }
    }
    if (g->process_group != NULL) {
        g->on.backend->calls->release(g->on.backend, REDCO_MEMORY_DEVICE, b.group_data);
        g->on.backend->calls->release(g->on.backend, REDCO_MEMORY_DEVICE, b.group_shard);
    }
    free(b.data);
    free(b.expected);
    free(b.shard);
    return line;
}

/* The group of this rank's colour, and what has to be given back. */
static bool open_group(redco_world *world, const check_device *device, const uint32_t *colours, const char *name,
                       struct group *g)
{
    if (device == NULL) { return redco_communicator_split(world, colours, name, &g->communicator, NULL) == REDCO_OK; }
    const redco_process_group_options options = {colours, REDCO_TRAFFIC_OTHER, name};
    g->on.backend = device->backend;
    return device->backend->calls->stream_create(device->backend, REDCO_DEVICE_STREAM_COMMUNICATION, &g->on.stream,
                                                 NULL) == REDCO_OK &&
           redco_process_group_split(device->device_comm, &options, &g->process_group, NULL) == REDCO_OK;
}

static void close_group(const struct group *g)
{
    redco_communicator_free(g->communicator);
    redco_process_group_free(g->process_group);
    if (g->on.stream != NULL) { g->on.backend->calls->stream_free(g->on.backend, g->on.stream); }
}

int check_collectives(redco_world *world, const check_device *device)
{
    const uint32_t colours[MOST] = {0};
    /* none, one, fewer than ranks, not divisible, several slices of which the last is short */
    static const uint64_t counts[] = {0, 1, 3, 7, 64, 1001, 300001};
    struct group all = {.step = 1, .size = redco_world_size(world)};
    CHECK(all.size <= MOST);
    CHECK(open_group(world, device, colours, "all", &all));
    CHECK(size_of(&all) == all.size);
    CHECK(rank_in(&all) == redco_world_rank(world));
    bool flag = true;
    if (device == NULL) {
        CHECK(redco_all_reduce(all.communicator, REDCO_BOOL, REDCO_REDUCE_SUM, &flag, 1, "b", NULL) == REDCO_EVALUE);
    } else {
        CHECK(redco_process_group_all_reduce(all.process_group, all.on, REDCO_BOOL, REDCO_REDUCE_SUM, &flag, 1, "b",
                                             NULL) == REDCO_EVALUE);
    }
    const int line = check_group(world, &all, counts, sizeof counts / sizeof counts[0]);
    if (device == NULL) { CHECK(redco_barrier(all.communicator, "barrier", NULL) == REDCO_OK); }
    close_group(&all);
    return line;
}

int check_meshes(redco_world *world, const check_device *device)
{
    static const uint64_t counts[] = {1, 50, 4097};
    static const uint32_t sizes[] = {2, 4, 2, 4, 1, 8}, steps[] = {1, 2, 4, 1, 1, 1};
    const uint32_t rank = redco_world_rank(world);
    CHECK(redco_world_size(world) == 8);
    for (size_t m = 0; m < sizeof sizes / sizeof sizes[0]; m++) {
        /* Groups of sizes[m] ranks, steps[m] apart. */
        const uint32_t block = sizes[m] * steps[m];
        uint32_t colours[8];
        for (uint32_t r = 0; r < 8; r++) { colours[r] = r / block * steps[m] + r % steps[m]; }
        struct group g = {.first = rank / block * block + rank % steps[m], .step = steps[m], .size = sizes[m]};
        CHECK(open_group(world, device, colours, "mesh", &g));
        CHECK(size_of(&g) == sizes[m]);
        const int line = check_group(world, &g, counts, sizeof counts / sizeof counts[0]);
        close_group(&g);
        if (line != 0) { return line; }
    }
    return 0;
}

struct stream {
    redco_world *world;
    struct group group;
    int line;
};

static void *run_stream(void *argument)
{
    static const uint64_t counts[] = {17, 100003};
    struct stream *const stream = argument;
    for (int round = 0; round < 3 && stream->line == 0; round++) {
        stream->line = check_group(stream->world, &stream->group, counts, 2);
    }
    return NULL;
}

int check_two_streams(redco_world *world, const check_device *device)
{
    const uint32_t size = redco_world_size(world), rank = redco_world_rank(world);
    const uint32_t all[MOST] = {0};
    uint32_t pairs[MOST];
    pthread_t thread;
    redco_backend *shared = NULL; /* a handle of the thread's own */
    check_device other = {.backend = NULL};
    struct stream streams[2] = {{world, {.step = 1, .size = size}, 0},
                                {world, {.first = rank % (size / 2), .step = size / 2, .size = 2}, 0}};
    CHECK(size <= MOST && size % 2 == 0);
    for (uint32_t r = 0; r < size; r++) { pairs[r] = r % (size / 2); }
    if (device != NULL) {
        CHECK(device->backend->calls->share(device->backend, &shared, NULL) == REDCO_OK);
        other = (check_device){shared, device->device_comm};
    }
    CHECK(open_group(world, device != NULL ? &other : NULL, all, "all", &streams[0].group));
    CHECK(open_group(world, device, pairs, "pairs", &streams[1].group));
    CHECK(pthread_create(&thread, NULL, run_stream, &streams[0]) == 0);
    (void)run_stream(&streams[1]);
    CHECK(pthread_join(thread, NULL) == 0);
    close_group(&streams[0].group);
    close_group(&streams[1].group);
    redco_backend_close(shared);
    return streams[0].line != 0 ? streams[0].line : streams[1].line;
}
