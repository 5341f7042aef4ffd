#include "executor/measure/measure_collectives.h"

#include "executor/measure/measure_internal.h"
#include "topology/base/clock.h"

#include <math.h>
#include <stdlib.h>

enum { MOST_GROUPS = 64, LEAST_SAMPLES = 3, MOST_SAMPLES = 64, LEAST_RUNS = 1, MOST_RUNS = 10 };
/* A sample moves about so many bytes: small messages are sent several times in a row. */
static const uint64_t sample_bytes = 4 << 20;
/* Nor takes it longer than this, if a single one does not; then one sample must do. */
static const double sample_s = 0.1;
/* Samples of one size take so long together, if that is more than the least number of them. */
static const double size_s = 10e-3;

struct redco_measure_collectives {
    redco_world *world;
    redco_communicator *all;
    redco_communicator *groups[MOST_GROUPS];          /* without a device communicator */
    redco_process_group *process_groups[MOST_GROUPS]; /* with one */
    redco_backend *backend;
    redco_device_stream *stream;
    redco_event *events[2];
    redco_device_comm *device_comm;
    uint32_t group_count;
    redco_measure_curve *curves; /* [group][op] */
    float *data, *shard;         /* memory of the program, or of the device */
};

static redco_status add_group(redco_measure_collectives *c, uint32_t nodes, const redco_measure_curve *shape,
                              redco_error *err)
{
    const uint32_t size = redco_world_size(c->world), per_node = size / nodes;
    uint32_t *colours = calloc(size, sizeof *colours);
    if (colours == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    for (uint32_t r = 0; r < size; r++) {
        /* Ranks of one group differ in the place inside a block of gpus x stride ranks, and in the node inside a block
         * of nodes. */
        const uint32_t node = r / per_node, place = r % per_node, block = shape->gpus * shape->stride;
        colours[r] = (node / shape->nodes * (per_node / block) + place / block) * shape->stride + place % shape->stride;
    }
    const redco_process_group_options options = {
        .colours = colours, .traffic = REDCO_TRAFFIC_OTHER, .name = "measured group"};
    const redco_status st =
        c->device_comm != NULL
            ? redco_process_group_split(c->device_comm, &options, &c->process_groups[c->group_count], err)
            : redco_communicator_split(c->world, colours, "measured group", &c->groups[c->group_count], err);
    free(colours);
    return st;
}

static void set_sizes(redco_measure_curve *curve, uint64_t most_bytes)
{
    const uint64_t factor = most_bytes >> REDCO_MEASURE_SIZES_MAX < REDCO_MEASURE_LEAST_BYTES ? 2 : 4;
    for (uint64_t bytes = REDCO_MEASURE_LEAST_BYTES; bytes <= most_bytes; bytes *= factor) {
        curve->size_bytes[curve->size_count] = bytes;
        curve->time_s[curve->size_count++] = INFINITY;
    }
}

static redco_status add_groups(redco_measure_collectives *c, uint32_t nodes, uint64_t most_bytes, redco_error *err)
{
    const uint32_t size = redco_world_size(c->world), per_node = size / nodes;
    redco_status st = REDCO_OK;
    for (uint32_t n = 1; n <= nodes; n++) {
        for (uint32_t gpus = 1; gpus <= per_node; gpus++) {
            for (uint32_t stride = 1; stride * gpus <= per_node; stride++) {
                /* Neighbours, and as far apart as the node allows: what lies between is priced by the nearest. */
                const bool fits = nodes % n == 0 && per_node % gpus == 0 && gpus * n > 1;
                const bool extreme = stride == 1 || (gpus > 1 && stride == per_node / gpus);
                if (!fits || !extreme || c->group_count == MOST_GROUPS) { continue; }
                redco_measure_curve *curves = c->curves + (size_t)c->group_count * REDCO_MEASURE_COLLECTIVES;
                for (uint32_t op = 0; op < REDCO_MEASURE_COLLECTIVES; op++) {
                    curves[op] = (redco_measure_curve){.op = (redco_collective)op,
                                                       .gpus = gpus,
                                                       .nodes = n,
                                                       .stride = stride,
                                                       .groups_per_node = per_node / gpus};
                    set_sizes(&curves[op], most_bytes);
                }
                if ((st = add_group(c, nodes, curves, err)) != REDCO_OK) { return st; }
                c->group_count++;
            }
        }
    }
    return st;
}

static redco_status check_groups(const redco_measure_groups *groups, uint32_t ranks, redco_error *err)
{
    const uint64_t limit =
        groups->device_comm != NULL ? (uint64_t)REDCO_MEASURE_DEVICE_BYTES : REDCO_MEASURE_MOST_BYTES;
    if (groups->nodes == 0 || ranks % groups->nodes != 0) {
        return redco_fail(err, REDCO_EVALUE, "nodes", "%u do not divide %u ranks", groups->nodes, ranks);
    }
    if (groups->most_bytes < REDCO_MEASURE_LEAST_BYTES || groups->most_bytes > limit) {
        return redco_fail(err, REDCO_EVALUE, "largest size", "%llu bytes are not between %d and %llu",
                          (unsigned long long)groups->most_bytes, REDCO_MEASURE_LEAST_BYTES, (unsigned long long)limit);
    }
    return REDCO_OK;
}

/* The exchanged values are zeros: sums stay zeros, there is no overflow after many rounds. */
static redco_status take_buffers(redco_measure_collectives *c, uint64_t bytes, redco_error *err)
{
    if (c->device_comm == NULL) {
        c->data = calloc(1, bytes);
        c->shard = calloc(1, bytes);
        return c->data != NULL && c->shard != NULL ? REDCO_OK
                                                   : redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
    }
    const redco_backend_calls *const calls = c->backend->calls;
    void *data = NULL, *shard = NULL;
    redco_status st = calls->stream_create(c->backend, REDCO_DEVICE_STREAM_COMMUNICATION, &c->stream, err);
    for (int i = 0; i < 2 && st == REDCO_OK; i++) { st = calls->event_create(c->backend, &c->events[i], err); }
    if (st == REDCO_OK) { st = calls->allocate(c->backend, REDCO_MEMORY_DEVICE, bytes, &data, err); }
    c->data = data;
    if (st == REDCO_OK) { st = calls->allocate(c->backend, REDCO_MEMORY_DEVICE, bytes, &shard, err); }
    c->shard = shard;
    if (st == REDCO_OK) { st = calls->fill_zero(c->backend, c->stream, data, bytes, err); }
    if (st == REDCO_OK) { st = calls->fill_zero(c->backend, c->stream, shard, bytes, err); }
    return st == REDCO_OK ? calls->stream_finish(c->backend, c->stream, err) : st;
}

static void give_buffers(redco_measure_collectives *c)
{
    if (c->device_comm == NULL) {
        free(c->data);
        free(c->shard);
        return;
    }
    const redco_backend_calls *const calls = c->backend->calls;
    if (c->stream != NULL) { (void)calls->stream_finish(c->backend, c->stream, NULL); }
    for (uint32_t g = 0; g < c->group_count; g++) { redco_process_group_free(c->process_groups[g]); }
    calls->release(c->backend, REDCO_MEMORY_DEVICE, c->data);
    calls->release(c->backend, REDCO_MEMORY_DEVICE, c->shard);
    for (int i = 0; i < 2; i++) {
        if (c->events[i] != NULL) { calls->event_free(c->backend, c->events[i]); }
    }
    if (c->stream != NULL) { calls->stream_free(c->backend, c->stream); }
}

redco_status redco_measure_collectives_create(redco_world *world, const redco_measure_groups *groups,
                                              redco_measure_collectives **collectives_out, redco_error *err)
{
    const uint32_t size = redco_world_size(world);
    redco_status st = check_groups(groups, size, err);
    if (st != REDCO_OK) { return st; }
    redco_measure_collectives *c = calloc(1, sizeof *c);
    if (c == NULL) { return redco_fail(err, REDCO_ENOMEM, "measure", "out of memory"); }
    c->world = world;
    c->device_comm = groups->device_comm;
    c->backend = groups->backend;
    const size_t curves = (size_t)MOST_GROUPS * REDCO_MEASURE_COLLECTIVES;
    c->curves = calloc(curves, sizeof *c->curves);
    uint32_t *colours = calloc(size, sizeof *colours); /* all of one colour */
    if (c->curves == NULL || colours == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "measure", "out of memory");
        goto out;
    }
    st = take_buffers(c, groups->most_bytes, err);
    if (st == REDCO_OK) { st = redco_communicator_split(world, colours, "all ranks", &c->all, err); }
    if (st == REDCO_OK) { st = add_groups(c, groups->nodes, groups->most_bytes, err); }
    if (st != REDCO_OK) { goto out; }
    *collectives_out = c;
    c = NULL;
out:
    free(colours);
    redco_measure_collectives_free(c);
    return st;
}

void redco_measure_collectives_free(redco_measure_collectives *collectives)
{
    if (collectives == NULL) { return; }
    give_buffers(collectives);
    for (uint32_t g = 0; g < collectives->group_count; g++) { redco_communicator_free(collectives->groups[g]); }
    redco_communicator_free(collectives->all);
    free(collectives->curves);
    free(collectives);
}

/* The same on the memory of a device. */
static redco_status run_queued(redco_measure_collectives *c, redco_process_group *process_group, redco_collective op,
                               uint64_t bytes, uint32_t turn, redco_error *err)
{
    const redco_stream_handle on = {c->backend, c->stream};
    const uint64_t count = bytes / sizeof(float), shard = count / redco_process_group_size(process_group),
                   part = shard > 0 ? shard : 1;
    const redco_process_group_part whole = {
        .begin = 0, .count = count, .root = turn % redco_process_group_size(process_group)};
    switch (op) {
    case REDCO_ALL_REDUCE:
        return redco_process_group_all_reduce(process_group, on, REDCO_F32, REDCO_REDUCE_SUM, c->data, count,
                                              "all_reduce", err);
    case REDCO_ALL_GATHER:
        return redco_process_group_all_gather(process_group, on, REDCO_F32, c->shard, c->data, part, "all_gather", err);
    case REDCO_REDUCE_SCATTER:
        return redco_process_group_reduce_scatter(process_group, on, REDCO_F32, REDCO_REDUCE_SUM, c->data, c->shard,
                                                  part, "reduce_scatter", err);
    case REDCO_BROADCAST:
        return redco_process_group_broadcast(process_group, on, REDCO_F32, c->data, &whole, 1, "broadcast", err);
    default: return REDCO_OK;
    }
}

/* @param turn  of several in a row: the root of broadcasts changes, so that none can begin before the last has arrived
 */
static redco_status run_op(redco_measure_collectives *c, uint32_t g, redco_collective op, uint64_t bytes, uint32_t turn,
                           redco_error *err)
{
    redco_communicator *const group = c->groups[g];
    if (c->device_comm != NULL) { return run_queued(c, c->process_groups[g], op, bytes, turn, err); }
    const uint64_t count = bytes / sizeof(float), shard = count / redco_communicator_size(group);
    const uint64_t part = shard > 0 ? shard : 1;
    switch (op) {
    case REDCO_ALL_REDUCE:
        return redco_all_reduce(group, REDCO_F32, REDCO_REDUCE_SUM, c->data, count, "all_reduce", err);
    case REDCO_ALL_GATHER: return redco_all_gather(group, REDCO_F32, c->shard, c->data, part, "all_gather", err);
    case REDCO_REDUCE_SCATTER:
        return redco_reduce_scatter(group, REDCO_F32, REDCO_REDUCE_SUM, c->data, c->shard, part, "reduce_scatter", err);
    case REDCO_BROADCAST:
        return redco_broadcast(group, REDCO_F32, c->data, count, turn % redco_communicator_size(group), "broadcast",
                               err);
    default: return REDCO_OK;
    }
}

/* So many in a row, each as long. */
static redco_status time_runs(redco_measure_collectives *c, uint32_t g, redco_collective op, uint64_t bytes,
                              uint32_t runs, double *time_s_out, redco_error *err)
{
    const redco_backend_calls *const calls = c->device_comm != NULL ? c->backend->calls : NULL;
    const double began_s = redco_now_s();
    redco_status st = calls != NULL ? calls->event_set(c->backend, c->stream, c->events[0], err) : REDCO_OK;
    for (uint32_t r = 0; r < runs && st == REDCO_OK; r++) { st = run_op(c, g, op, bytes, r, err); }
    *time_s_out = redco_now_s() - began_s;
    if (st == REDCO_OK && calls != NULL) {
        st = calls->event_set(c->backend, c->stream, c->events[1], err);
        if (st == REDCO_OK) { st = calls->event_finish(c->backend, c->events[1], err); }
        if (st == REDCO_OK) { st = redco_device_comm_check(c->device_comm, err); }
        if (st == REDCO_OK) { st = calls->event_between(c->backend, c->events[0], c->events[1], time_s_out, err); }
    }
    *time_s_out /= runs;
    return st;
}

/* One sample counts as long as its slowest rank took, so all ranks agree on it. */
static redco_status run_sample(redco_measure_collectives *c, uint32_t g, redco_collective op, uint64_t bytes,
                               uint32_t runs, double *time_s_out, redco_error *err)
{
    redco_status st = redco_barrier(c->all, "barrier", err);
    if (st == REDCO_OK) { st = time_runs(c, g, op, bytes, runs, time_s_out, err); }
    return st == REDCO_OK ? redco_all_reduce(c->all, REDCO_F64, REDCO_REDUCE_MAX, time_s_out, 1, "times", err) : st;
}

/* Some samples of one size, one where that takes long. Before them two single ones, the first of which warms buffers
 * and may wait for ranks that come from other work. Ranks agree on the numbers, having the same times. */
static redco_status run_size(redco_measure_collectives *c, uint32_t g, redco_collective op, uint64_t bytes,
                             double *time_s_out, redco_error *err)
{
    double took_s = 0.0, taken_s[MOST_SAMPLES];
    redco_status st = run_sample(c, g, op, bytes, 1, &took_s, err);
    if (st == REDCO_OK) { st = run_sample(c, g, op, bytes, 1, &took_s, err); }
    const double most = fmin(MOST_RUNS, fmin((double)sample_bytes / (double)bytes, sample_s / took_s));
    const uint32_t runs = most > LEAST_RUNS ? (uint32_t)most : LEAST_RUNS;
    const double wanted = fmin(MOST_SAMPLES, size_s / (runs * took_s));
    const uint32_t samples = took_s > sample_s ? 1 : wanted > LEAST_SAMPLES ? (uint32_t)wanted : LEAST_SAMPLES;
    for (uint32_t s = 0; s < samples && st == REDCO_OK; s++) {
        st = run_sample(c, g, op, bytes, runs, &taken_s[s], err);
    }
    if (st != REDCO_OK) { return st; }
    *time_s_out = fmin(*time_s_out, redcoi_measure_undisturbed_s(taken_s, samples));
    return REDCO_OK;
}

redco_status redco_measure_collectives_run(redco_measure_collectives *collectives, redco_error *err)
{
    redco_measure_collectives *const c = collectives;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < c->group_count * REDCO_MEASURE_COLLECTIVES && st == REDCO_OK; i++) {
        redco_measure_curve *curve = &c->curves[i];
        for (uint32_t s = 0; s < curve->size_count && st == REDCO_OK; s++) {
            st = run_size(c, i / REDCO_MEASURE_COLLECTIVES, curve->op, curve->size_bytes[s], &curve->time_s[s], err);
        }
    }
    return st;
}

size_t redco_measure_collectives_curves(const redco_measure_collectives *collectives,
                                        const redco_measure_curve **curves_out)
{
    *curves_out = collectives->curves;
    return (size_t)collectives->group_count * REDCO_MEASURE_COLLECTIVES;
}
