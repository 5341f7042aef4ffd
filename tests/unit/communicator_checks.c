#include "tests/unit/communicator_checks.h"

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

/* Ranks first, first + step, ... of the world. */
struct group {
    redco_communicator *communicator;
    uint32_t first, step, size;
};

struct buffers {
    unsigned char *data, *expected, *shard;
};

static int all_reduce(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                      redco_reduction reduction, uint64_t count)
{
    fill(dtype, b->data, redco_world_rank(world), count);
    for (uint64_t i = 0; i < count; i++) { put(dtype, b->expected, i, sum(g->first, g->step, g->size, i, reduction)); }
    CHECK(redco_all_reduce(g->communicator, dtype, reduction, b->data, count, "all-reduce", NULL) == REDCO_OK);
    CHECK(memcmp(b->data, b->expected, count * redco_dtype_bytes(dtype)) == 0);
    return 0;
}

static int reduce_scatter(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                          redco_reduction reduction, uint64_t count, bool in_place)
{
    const uint64_t at = count * redco_communicator_rank(g->communicator);
    unsigned char *const out = in_place ? b->data + at * redco_dtype_bytes(dtype) : b->shard;
    fill(dtype, b->data, redco_world_rank(world), count * g->size);
    for (uint64_t i = 0; i < count; i++) {
        put(dtype, b->expected, i, sum(g->first, g->step, g->size, at + i, reduction));
    }
    CHECK(redco_reduce_scatter(g->communicator, dtype, reduction, b->data, out, count, "reduce-scatter", NULL) ==
          REDCO_OK);
    CHECK(memcmp(out, b->expected, count * redco_dtype_bytes(dtype)) == 0);
    return 0;
}

/* Parts of 0, 1, 2, ... times count elements, the last as long as all others together. */
static int reduce_parts(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                        redco_reduction reduction, uint64_t count)
{
    uint64_t begin[MOST + 1] = {0};
    const uint32_t own = redco_communicator_rank(g->communicator);
    for (uint32_t r = 0; r < g->size; r++) { begin[r + 1] = begin[r] + (r * count) / g->size; }
    begin[g->size] = count * g->size;
    fill(dtype, b->data, redco_world_rank(world), begin[g->size]);
    for (uint64_t i = begin[own]; i < begin[own + 1]; i++) {
        put(dtype, b->expected, i, sum(g->first, g->step, g->size, i, reduction));
    }
    CHECK(redco_reduce_scatter_parts(g->communicator, dtype, reduction, b->data, begin, "parts", NULL) == REDCO_OK);
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
    CHECK(redco_all_gather(g->communicator, dtype, b->shard, b->data, count, "all-gather", NULL) == REDCO_OK);
    CHECK(memcmp(b->data, b->expected, bytes * g->size) == 0);
    return 0;
}

/* Shards in reverse order. */
static int ordered(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                   redco_reduction reduction, uint64_t count)
{
    const size_t bytes = count * redco_dtype_bytes(dtype);
    const uint32_t own = g->size - 1 - redco_communicator_rank(g->communicator);
    uint32_t order[MOST];
    for (uint32_t r = 0; r < g->size; r++) { order[r] = g->size - 1 - r; }
    fill(dtype, b->data, redco_world_rank(world), count * g->size);
    for (uint64_t i = 0; i < count * g->size; i++) {
        put(dtype, b->expected, i, sum(g->first, g->step, g->size, i, reduction));
    }
    CHECK(redco_reduce_scatter_ordered(g->communicator, dtype, reduction, b->data, order, count, "ordered", NULL) ==
          REDCO_OK);
    CHECK(memcmp(b->data + own * bytes, b->expected + own * bytes, bytes) == 0);
    for (uint32_t r = 0; r < g->size; r++) { /* together: an all-reduce */
        if (r != own) { memset(b->data + r * bytes, 0xee, bytes); }
    }
    CHECK(redco_all_gather_ordered(g->communicator, dtype, b->data, order, count, "ordered", NULL) == REDCO_OK);
    CHECK(memcmp(b->data, b->expected, bytes * g->size) == 0);
    return 0;
}

static int broadcast(redco_world *world, const struct group *g, const struct buffers *b, redco_dtype dtype,
                     uint64_t count)
{
    for (uint32_t root = 0; root < g->size; root++) {
        fill(dtype, b->data, redco_world_rank(world), count);
        fill(dtype, b->expected, g->first + root * g->step, count);
        CHECK(redco_broadcast(g->communicator, dtype, b->data, count, root, "broadcast", NULL) == REDCO_OK);
        CHECK(memcmp(b->data, b->expected, count * redco_dtype_bytes(dtype)) == 0);
    }
    CHECK(redco_broadcast(g->communicator, dtype, b->data, count, g->size, "broadcast", NULL) == REDCO_EVALUE);
    return 0;
}

static int check_group(redco_world *world, const struct group *g, const uint64_t *counts, size_t counts_count)
{
    static const redco_dtype types[] = {REDCO_F64, REDCO_F32, REDCO_BFLOAT16, REDCO_F16, REDCO_I32};
    const size_t room = counts[counts_count - 1] * 8 * g->size;
    const struct buffers b = {calloc(room, 1), calloc(room, 1), calloc(room, 1)};
    int line = b.data != NULL && b.expected != NULL && b.shard != NULL ? 0 : 250;
    for (size_t c = 0; c < counts_count; c++) {
        const size_t tried =
            counts[c] < 100000 ? sizeof types / sizeof types[0] : 1; /* long ones: only how they are cut */
        for (size_t t = 0; t < tried; t++) {
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
    free(b.data);
    free(b.expected);
    free(b.shard);
    return line;
}

int check_collectives(redco_world *world)
{
    const uint32_t colours[MOST] = {0};
    /* none, one, fewer than ranks, not divisible, several slices of which the last is short */
    static const uint64_t counts[] = {0, 1, 3, 7, 64, 1001, 300001};
    struct group all = {.step = 1, .size = redco_world_size(world)};
    CHECK(all.size <= MOST);
    CHECK(redco_communicator_split(world, colours, "all", &all.communicator, NULL) == REDCO_OK);
    CHECK(redco_communicator_size(all.communicator) == all.size);
    CHECK(redco_communicator_rank(all.communicator) == redco_world_rank(world));
    bool flag = true;
    CHECK(redco_all_reduce(all.communicator, REDCO_BOOL, REDCO_REDUCE_SUM, &flag, 1, "bool", NULL) == REDCO_EVALUE);
    const int line = check_group(world, &all, counts, sizeof counts / sizeof counts[0]);
    CHECK(redco_barrier(all.communicator, "barrier", NULL) == REDCO_OK);
    redco_communicator_free(all.communicator);
    return line;
}

int check_meshes(redco_world *world)
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
        CHECK(redco_communicator_split(world, colours, "mesh", &g.communicator, NULL) == REDCO_OK);
        CHECK(redco_communicator_size(g.communicator) == sizes[m]);
        const int line = check_group(world, &g, counts, sizeof counts / sizeof counts[0]);
        redco_communicator_free(g.communicator);
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

int check_two_streams(redco_world *world)
{
    const uint32_t size = redco_world_size(world), rank = redco_world_rank(world);
    const uint32_t all[MOST] = {0};
    uint32_t pairs[MOST];
    pthread_t thread;
    struct stream streams[2] = {{world, {.step = 1, .size = size}, 0},
                                {world, {.first = rank % (size / 2), .step = size / 2, .size = 2}, 0}};
    CHECK(size <= MOST && size % 2 == 0);
    for (uint32_t r = 0; r < size; r++) { pairs[r] = r % (size / 2); }
    CHECK(redco_communicator_split(world, all, "all", &streams[0].group.communicator, NULL) == REDCO_OK);
    CHECK(redco_communicator_split(world, pairs, "pairs", &streams[1].group.communicator, NULL) == REDCO_OK);
    CHECK(pthread_create(&thread, NULL, run_stream, &streams[0]) == 0);
    (void)run_stream(&streams[1]);
    CHECK(pthread_join(thread, NULL) == 0);
    redco_communicator_free(streams[0].group.communicator);
    redco_communicator_free(streams[1].group.communicator);
    return streams[0].line != 0 ? streams[0].line : streams[1].line;
}
