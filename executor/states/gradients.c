/* Gradients from a module's backward to the sum that the optimizer reads. */
#include "executor/states/states_internal.h"

#include <stdio.h>

static const char *const take_name = "bwd/gradients";

static unsigned char *buffer_at(const redco_states *states, const redcoi_bucket *bucket, uint64_t at)
{
    return states->buffers + redcoi_bytes(states, bucket->buffer_at + at);
}

/* Place of a slice in its bucket's buffer. */
static uint64_t place_of(const redco_states *states, const redcoi_bucket *bucket, uint32_t layer, uint32_t index,
                         const redco_shard_slice *slice)
{
    if (states->bucket_groups[bucket->bucket_group].sorted) {
        return states->slice_at[redcoi_layer_layout(states, layer)->first_slice + index];
    }
    const uint32_t module = redco_layout_module_of(states->layout, slice->tensor);
    return states->range_at[module] + slice->shard_at - redco_layout_module(states->layout, module)->shard_at;
}

/* A module's gradients into its bucket. */
static redco_status fill(redco_states *states, redco_states_worker *worker, uint32_t module, const void *shard,
                         redco_error *err)
{
    const uint32_t layer = redco_layout_layer_of(states->layout, module);
    const redcoi_bucket *const bucket = &states->buckets[states->bucket_of[module]];
    const redco_module_layout *const m = redco_layout_module(states->layout, module);
    redco_status st = REDCO_OK;
    uint32_t count = 0;
    if (!states->bucket_groups[bucket->bucket_group].sorted) {
        return redcoi_copy(worker, buffer_at(states, bucket, states->range_at[module]), shard,
                           redcoi_bytes(states, m->shard), err);
    }
    const redco_shard_slice *const slices = redco_layout_slices(states->layout, layer, &count);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        if (redco_layout_module_of(states->layout, slices[i].tensor) != module) { continue; }
        st = redcoi_copy(worker, buffer_at(states, bucket, place_of(states, bucket, layer, i, &slices[i])),
                         (const unsigned char *)shard + redcoi_bytes(states, slices[i].shard_at - m->shard_at),
                         redcoi_bytes(states, slices[i].count), err);
    }
    return st;
}

redco_status redco_states_take(redco_states *states, redco_states_worker *worker, uint32_t module,
                               redco_micro_batch micro_batch, const void *shard, redco_error *err)
{
    const uint32_t layer = redco_layout_layer_of(states->layout, module);
    const redco_module_layout *const m = redco_layout_module(states->layout, module);
    const redcoi_bucket_group *const bucket_group = &states->bucket_groups[states->bucket_group_of[layer]];
    if (bucket_group->sharded) { return fill(states, worker, module, shard, err); }
    return redcoi_add(states, worker, redcoi_gradient(states, layer, m->shard_at), shard, m->shard,
                      micro_batch.index == 0, take_name, err);
}

/* The moves between a bucket and the gradients that are kept. */
enum flow {
    TO_BUCKET,   /* bucket = gradients */
    INTO_BUCKET, /* bucket += gradients */
    TO_KEPT,     /* gradients = bucket */
    INTO_KEPT    /* gradients += bucket */
};

static redco_status move(redco_states *states, redco_states_worker *worker, unsigned char *kept, unsigned char *buffer,
                         uint64_t count, enum flow flow, const char *name, redco_error *err)
{
    const bool inwards = flow == TO_BUCKET || flow == INTO_BUCKET;
    return redcoi_add(states, worker, inwards ? buffer : kept, inwards ? kept : buffer, count,
                      flow == TO_BUCKET || flow == TO_KEPT, name, err);
}

/* @param owned_only  only what this rank updates */
static redco_status move_slices(redco_states *states, redco_states_worker *worker, const redcoi_bucket *bucket,
                                const redcoi_range *range, enum flow flow, bool owned_only, const char *name,
                                redco_error *err)
{
    uint32_t count = 0;
    const redco_shard_slice *const slices = redco_layout_slices(states->layout, range->layer, &count);
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const redco_shard_slice *const slice = &slices[i];
        const bool wanted = (owned_only ? slice->owned_at : slice->gradient_at) != REDCO_NOWHERE;
        if (!wanted || slice->shard_at < range->begin || slice->shard_at >= range->end) { continue; }
        st = move(states, worker, redcoi_gradient(states, range->layer, slice->gradient_at),
                  buffer_at(states, bucket, place_of(states, bucket, range->layer, i, slice)), slice->count, flow, name,
                  err);
    }
    return st;
}

/* Ranges that are whole layers in parts: what is kept is one range of each. */
static redco_status move_part(redco_states *states, redco_states_worker *worker, const redcoi_bucket *bucket,
                              const redcoi_range *range, enum flow flow, bool owned_only, const char *name,
                              redco_error *err)
{
    const redco_layer_layout *const l = redcoi_layer_layout(states, range->layer);
    const redco_shards *const s = redcoi_shards(states, range->layer);
    const uint32_t position =
        redco_between_position((redco_between){s->gradients, s->optimizer}, redco_layout_place(states->layout));
    const uint64_t skipped = owned_only ? l->part * position : 0;
    return move(states, worker, redcoi_gradient(states, range->layer, skipped),
                buffer_at(states, bucket, range->at + l->gradient_begin + skipped), owned_only ? l->part : l->gradients,
                flow, name, err);
}

static redco_status move_bucket(redco_states *states, redco_states_worker *worker, const redcoi_bucket *bucket,
                                enum flow flow, bool owned_only, const char *name, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (uint32_t r = 0; r < bucket->range_count && st == REDCO_OK; r++) {
        const redcoi_range *const range = &states->ranges[bucket->first_range + r];
        st = states->bucket_groups[bucket->bucket_group].by_layer
                 ? move_part(states, worker, bucket, range, flow, owned_only, name, err)
                 : move_slices(states, worker, bucket, range, flow, owned_only, name, err);
    }
    return st;
}

/* Each layer's parts to the ranks of the group, in place; in the bucket's copy, or in the gradients themselves. */
static redco_status scatter_parts(redco_states *states, const redco_states_worker *worker, const redcoi_bucket *bucket,
                                  redco_process_group *group, const uint32_t *part_of, const char *name,
                                  redco_error *err)
{
    const redcoi_bucket_group *const bucket_group = &states->bucket_groups[bucket->bucket_group];
    redco_status st = REDCO_OK;
    for (uint32_t r = 0; r < bucket->range_count && st == REDCO_OK; r++) {
        const redcoi_range *const range = &states->ranges[bucket->first_range + r];
        const uint64_t count = redcoi_layer_layout(states, range->layer)->trained / redco_process_group_size(group);
        unsigned char *const data =
            bucket_group->buffered ? buffer_at(states, bucket, range->at) : redcoi_gradient(states, range->layer, 0);
        st = redco_process_group_reduce_scatter_ordered(group, redcoi_worker_stream(worker), states->options.dtype,
                                                        REDCO_REDUCE_SUM, data, part_of, count, name, err);
    }
    return st;
}

/* Everything to everybody. Gradients that are reduced where they are lie together, gaps between layers included. */
static redco_status sum_all(redco_states *states, const redco_states_worker *worker, const redcoi_bucket *bucket,
                            redco_process_group *group, const char *name, redco_error *err)
{
    const redcoi_range *const first = &states->ranges[bucket->first_range];
    const redcoi_range *const last = first + bucket->range_count - 1;
    unsigned char *data = buffer_at(states, bucket, 0);
    uint64_t count = bucket->elements;
    if (!states->bucket_groups[bucket->bucket_group].buffered) {
        data = redcoi_gradient(states, first->layer, first->begin);
        count = states->gradients_at[last->layer] + last->end - states->gradients_at[first->layer] - first->begin;
    }
    return redco_process_group_all_reduce(group, redcoi_worker_stream(worker), states->options.dtype, REDCO_REDUCE_SUM,
                                          data, count, name, err);
}

/* In every micro-batch but the last: what is kept of the sum of those who share the parameters and keep other parts. */
static redco_status reduce_shards(redco_states *states, redco_states_worker *worker, const redcoi_bucket *bucket,
                                  bool first, const char *name, redco_error *err)
{
    const redcoi_bucket_group *const bucket_group = &states->bucket_groups[bucket->bucket_group];
    redco_process_group *const group = redcoi_group_find(
        states, REDCOI_STREAM_GRADIENTS, bucket_group->shards.parameters, bucket_group->shards.gradients);
    const redco_status st = bucket_group->by_layer ? scatter_parts(states, worker, bucket, group, NULL, name, err)
                                                   : sum_all(states, worker, bucket, group, name, err);
    if (st != REDCO_OK) { return st; }
    return move_bucket(states, worker, bucket, first ? TO_KEPT : INTO_KEPT, false, name, err);
}

/* In the last one: the sum over all who have the same shard. What was kept until then goes in with it. */
static redco_status reduce_once(redco_states *states, redco_states_worker *worker, const redcoi_bucket *bucket,
                                bool first, const char *name, redco_error *err)
{
    const redcoi_bucket_group *const bucket_group = &states->bucket_groups[bucket->bucket_group];
    redco_process_group *const group = redcoi_group_find(
        states, REDCOI_STREAM_GRADIENTS, bucket_group->shards.parameters, redco_layout_mesh(states->layout).dp);
    redco_status st = REDCO_OK;
    if (bucket_group->buffered && !(bucket_group->sharded && first)) {
        st = move_bucket(states, worker, bucket, bucket_group->sharded ? INTO_BUCKET : TO_BUCKET, false, name, err);
    }
    if (st != REDCO_OK) { return st; }
    if (bucket_group->sorted) {
        st = redco_process_group_reduce_scatter_parts(group, redcoi_worker_stream(worker), states->options.dtype,
                                                      REDCO_REDUCE_SUM, buffer_at(states, bucket, 0), bucket->owner_at,
                                                      name, err);
    } else if (bucket_group->scatters) {
        st = scatter_parts(states, worker, bucket, group, bucket_group->part_of, name, err);
    } else {
        st = sum_all(states, worker, bucket, group, name, err);
    }
    if (st != REDCO_OK || !bucket_group->buffered) { return st; }
    return move_bucket(states, worker, bucket, TO_KEPT, bucket_group->scatters, name, err);
}

redco_status redco_states_reduce(redco_states *states, redco_states_worker *worker, uint32_t bucket,
                                 redco_micro_batch micro_batch, redco_error *err)
{
    const bool first = micro_batch.index == 0, last = micro_batch.index + 1 == micro_batch.count;
    const redcoi_bucket *const b = &states->buckets[bucket];
    char name[REDCOI_NAME_BYTES];
    if (!redco_states_bucket_due(states, bucket, micro_batch)) { return REDCO_OK; }
    (void)snprintf(name, sizeof name, "bwd/gradients/%s.%u", last ? "bucket" : "shards", bucket);
    return last ? reduce_once(states, worker, b, first, name, err) : reduce_shards(states, worker, b, first, name, err);
}
