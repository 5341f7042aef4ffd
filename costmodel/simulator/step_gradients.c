/* Around the passes: buckets of gradients, the optimizer, updated parameters. */
#include "costmodel/simulator/step_build.h"

#include <math.h>

/* The norm reads each owned gradient once; the other 28 of the optimizer's 30 bytes (layer_cost.c) are the update's.
 * Since 1; source: count. */
static const double norm_ratio = 2.0 / 30.0;
static const double norm_bytes = 4.0;     /* one number */
static const double rounding_bytes = 0.5; /* bytes that sums of shares may leave over */

static redco_step_op once_op(const redcoi_unit *unit, uint32_t label, redco_work work)
{
    return (redco_step_op){.traffic = REDCO_STEP_NONE,
                           .layer = REDCO_STEP_NONE,
                           .micro_batch = REDCO_STEP_NONE,
                           .label = label,
                           .rank = (uint16_t)unit->rank,
                           .work = (uint8_t)work,
                           .contends = true};
}

/* Layers of a rank in forward order: chunk by chunk. */
static uint32_t stage_layers(const redcoi_builder *b, const redcoi_unit *unit, uint32_t chunk, uint32_t *last_out)
{
    const redcoi_span span = b->spans[chunk * b->parallelism->pp + unit->rank];
    *last_out = span.end;
    return span.first;
}

void redcoi_sync_parameters(redcoi_builder *b, redcoi_unit *unit)
{
    uint32_t last = REDCO_STEP_NONE;
    double calls = 0.0;
    for (uint32_t chunk = 0; chunk < b->chunks; chunk++) {
        uint32_t end = 0;
        for (uint32_t l = stage_layers(b, unit, chunk, &end); l < end; l++) {
            const redcoi_parts *const parts = &b->parts[b->layers[l].parts];
            b->layers[l].update = REDCO_STEP_NONE;
            for (int p = 0; p < REDCO_PARTS; p++) {
                const redcoi_part_update *const update = &parts->updates[p];
                if (!(update->seconds > 0.0)) { continue; }
                calls += b->step->traffic[update->traffic].calls * update->share;
            }
        }
    }
    redcoi_launch(b, unit, b->label_step_launch, REDCO_PASS_NAME_FWD, REDCO_STEP_NONE, REDCO_STEP_NONE,
                  calls * b->costs->calibration.launch_s);
    for (uint32_t chunk = 0; chunk < b->chunks; chunk++) {
        uint32_t end = 0;
        for (uint32_t l = stage_layers(b, unit, chunk, &end); l < end; l++) {
            const redcoi_parts *const parts = &b->parts[b->layers[l].parts];
            for (int p = 0; p < REDCO_PARTS; p++) {
                const redcoi_part_update *const update = &parts->updates[p];
                if (!(update->seconds > 0.0)) { continue; }
                redco_step_op op = once_op(unit, b->label_update, REDCO_WORK_UPDATE);
                op.layer = l;
                op.seconds = update->seconds;
                op.traffic = update->traffic;
                op.link = update->link;
                op.stream = REDCO_STREAM_UPDATE;
                last = redcoi_collective(b, unit, op, REDCO_STEP_NONE);
                b->layers[l].update = last;
            }
        }
    }
    if (!b->overlap_update) { redcoi_wait(unit, last); }
}

/* Issues one bucket per owner, @p bytes each. */
static uint32_t reduce(redcoi_builder *b, redcoi_unit *unit, uint32_t bucket_group_index, double bytes,
                       uint32_t micro_batch)
{
    const redcoi_bucket_group *const bucket_group = &b->bucket_groups[bucket_group_index];
    redcoi_bucket_group_state *const state = &unit->bucket_groups[bucket_group_index];
    bool network = false;
    const double seconds = redcoi_comm_s(b->costs, bucket_group->op, bytes, bucket_group->group, &network);
    const redco_step_traffic traffic = {.op = bucket_group->op,
                                        .calls = bucket_group->calls,
                                        .size_bytes = bytes,
                                        .group = bucket_group->group,
                                        .contention_ratio = redcoi_contention_ratio(b->costs, network) +
                                                            (bucket_group->once ? redcoi_hidden_residue_ratio : 0.0)};
    redco_step_op op = once_op(unit, bucket_group->once ? b->label_bucket : b->label_shards,
                               bucket_group->once ? REDCO_WORK_REDUCE : REDCO_WORK_SHARD);
    redcoi_launch(b, unit, b->label_step_launch, REDCO_PASS_NAME_BWD, REDCO_STEP_NONE, micro_batch,
                  bucket_group->calls * b->costs->calibration.launch_s);
    op.seconds = b->scale * bucket_group->calls * seconds;
    op.link = redcoi_link_of(network);
    op.stream = REDCO_STREAM_GRADIENTS;
    op.suffix = REDCO_SUFFIX_SERIAL;
    op.serial = state->serial++;
    op.micro_batch = micro_batch;
    op.traffic = redco_step_add_traffic(b->step, &traffic);
    const uint32_t done = redcoi_collective(b, unit, op, state->ready);
    if (bucket_group->in_place) {
        state->held_bytes = 0;
    } else if (state->held_bytes == 0) { /* gradients stay where they are: the bucket is a copy while it travels */
        redco_step_add_memory(b->step, REDCO_CATEGORY_BUCKETS, (int64_t)bytes);
        redco_step_add_memory(b->step, REDCO_CATEGORY_BUCKETS, -(int64_t)bytes);
    } else {
        const double left = state->filled_bytes;
        const int64_t kept = (int64_t)left < state->held_bytes ? (int64_t)left : state->held_bytes;
        redco_step_add_memory(b->step, REDCO_CATEGORY_BUCKETS, kept - state->held_bytes);
        state->held_bytes = kept;
    }
    if (!b->overlap_reduce) { redcoi_wait(unit, done); }
    return done;
}

static void reduce_part(redcoi_builder *b, redcoi_unit *unit, const redcoi_parts *parts, redco_param_part part,
                        const redcoi_part_group *group, uint32_t micro_batch, uint32_t ready)
{
    const bool last = redcoi_is_last(b, micro_batch);
    const uint32_t index = last ? parts->once_bucket_group[part] : parts->shard_bucket_group[part];
    int64_t whole_bytes = 0;
    double bytes = 0.0;
    for (uint32_t i = group->first_module; i < group->last_module; i++) {
        if (parts->modules[i].part != part) { continue; }
        bytes += parts->modules[i].reduced_bytes;
        whole_bytes += parts->modules[i].gradient_bytes;
    }
    if (part != REDCO_PART_DENSE && !(bytes > 0.0)) { return; }
    if (parts->sharded || !parts->transient_gradient) { whole_bytes = 0; }
    if (index == REDCO_STEP_NONE) { /* nobody to reduce with */
        redco_step_add_memory(b->step, REDCO_CATEGORY_SCATTERED, -whole_bytes);
        return;
    }
    const redcoi_bucket_group *const bucket_group = &b->bucket_groups[index];
    redcoi_bucket_group_state *const state = &unit->bucket_groups[index];
    state->filled_bytes += bytes;
    if (whole_bytes > 0) { /* moved into the bucket */
        redco_step_add_memory(b->step, REDCO_CATEGORY_SCATTERED, -whole_bytes);
        redco_step_add_memory(b->step, REDCO_CATEGORY_BUCKETS, (int64_t)bytes);
        state->held_bytes += (int64_t)bytes;
    }
    state->ready = ready != REDCO_STEP_NONE ? ready : unit->last;
    /* The stage before waits for the gradient of its output: an engine that reduces in between lets it go first. */
    if (!b->overlap_reduce && b->parallelism->pp > 1 && state->held_bytes == 0) { return; }
    while (state->filled_bytes >= bucket_group->limit_bytes * bucket_group->calls) {
        state->filled_bytes -= bucket_group->limit_bytes * bucket_group->calls;
        (void)reduce(b, unit, index, bucket_group->limit_bytes, micro_batch);
    }
}

void redcoi_gradients(redcoi_builder *b, redcoi_unit *unit, const redcoi_parts *parts, const redcoi_part_group *group,
                      uint32_t micro_batch, uint32_t ready)
{
    for (redco_param_part part = REDCO_PART_DENSE; part < REDCO_PARTS; part++) {
        reduce_part(b, unit, parts, part, group, micro_batch, ready);
    }
}

void redcoi_flush(redcoi_builder *b, redcoi_unit *unit, bool once, uint32_t micro_batch)
{
    for (uint32_t i = 0; i < b->bucket_group_count; i++) {
        const redcoi_bucket_group *const bucket_group = &b->bucket_groups[i];
        redcoi_bucket_group_state *const state = &unit->bucket_groups[i];
        uint32_t done = REDCO_STEP_NONE;
        if (bucket_group->once != once) { continue; }
        while (state->filled_bytes > rounding_bytes) {
            const double bytes = fmin(state->filled_bytes / bucket_group->calls, bucket_group->limit_bytes);
            state->filled_bytes -= bytes * bucket_group->calls;
            done = reduce(b, unit, i, bytes, micro_batch);
        }
        redcoi_wait(unit, done);
        state->serial = once ? state->serial : 0;
    }
}

static double optimizer_s(const redcoi_builder *b, const redcoi_unit *unit)
{
    double seconds = 0.0;
    for (uint32_t chunk = 0; chunk < b->chunks; chunk++) {
        uint32_t end = 0;
        for (uint32_t l = stage_layers(b, unit, chunk, &end); l < end; l++) {
            seconds += redcoi_optimizer_s(b->costs, b->parts[b->layers[l].parts].states.owned_params);
        }
    }
    return b->scale * seconds;
}

/* All scatters of a rank must be through before its norm. */
static void wait_scatters(redcoi_builder *b, redcoi_unit *unit)
{
    for (uint32_t chunk = 0; chunk < b->chunks; chunk++) {
        uint32_t end = 0, last = REDCO_STEP_NONE;
        for (uint32_t l = stage_layers(b, unit, chunk, &end); l < end; l++) {
            const uint32_t scattered = b->layers[l].scattered;
            if (scattered != REDCO_STEP_NONE && (last == REDCO_STEP_NONE || scattered > last)) { last = scattered; }
            b->layers[l].scattered = REDCO_STEP_NONE;
        }
        redcoi_wait(unit, last); /* they share a stream: the last is enough */
    }
}

void redcoi_finish_step(redcoi_builder *b)
{
    const uint32_t ranks = b->parallelism->pp;
    const redco_parallel p = redcoi_parallel_of(b->costs, b->parallelism);
    const redco_group world = redco_parallel_world(&p);
    bool network = false;
    const double reduce_s = b->scale * redcoi_comm_s(b->costs, REDCO_ALL_REDUCE, norm_bytes, world, &network);
    const redco_step_traffic traffic = {.op = REDCO_ALL_REDUCE, .calls = 1, .size_bytes = norm_bytes, .group = world};
    const uint32_t norm = redco_step_add_label(b->step, "step/grad_norm");
    const uint32_t label = redco_step_add_label(b->step, "step/optimizer");
    const uint32_t overhead = redco_step_add_label(b->step, "step/overhead");
    const uint32_t traffic_index = redco_step_add_traffic(b->step, &traffic);
    for (uint32_t r = 0; r < ranks; r++) {
        redcoi_unit *const unit = &b->units[r];
        redco_step_op op = once_op(unit, norm, REDCO_WORK_NORM);
        wait_scatters(b, unit);
        op.seconds = norm_ratio * optimizer_s(b, unit);
        (void)redcoi_compute(b, unit, op);
    }
    for (uint32_t r = 0; r < ranks && reduce_s > 0.0; r++) { /* everybody's norm is in everybody's sum */
        redcoi_unit *const unit = &b->units[r];
        redco_step_op op = once_op(unit, norm, REDCO_WORK_NORM_REDUCE);
        op.suffix = REDCO_SUFFIX_REDUCE;
        op.seconds = reduce_s;
        op.link = redcoi_link_of(network);
        op.stream = REDCO_STREAM_GRADIENTS;
        op.traffic = traffic_index;
        uint32_t inputs[REDCOI_WAITS_MAX];
        uint32_t count = 0;
        for (uint32_t other = 0; other < ranks && count < REDCOI_WAITS_MAX; other++) {
            inputs[count++] = b->units[other].last;
        }
        redcoi_wait(unit, redco_step_add(b->step, &op, inputs, count));
    }
    for (uint32_t r = 0; r < ranks; r++) {
        redcoi_unit *const unit = &b->units[r];
        redco_step_op op = once_op(unit, label, REDCO_WORK_OPTIMIZER);
        op.seconds = (1.0 - norm_ratio) * optimizer_s(b, unit);
        (void)redcoi_compute(b, unit, op);
        op = once_op(unit, overhead, REDCO_WORK_OVERHEAD);
        op.contends = false;
        op.seconds = redco_cost_fixed_memory(b->costs, b->parallelism).overhead_s;
        (void)redcoi_compute(b, unit, op);
    }
}
