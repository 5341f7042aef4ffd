/* Gathering weights, scattering their gradients, synchronising updated weights. */
#include "executor/states/states_internal.h"

#include <stdio.h>

static const redco_mesh one = {1, 1};

static void name_module(const redco_states *states, const char *pass, uint32_t module, const char *what,
                        char name[REDCOI_NAME_BYTES])
{
    const redco_state_model *const model = redcoi_model(states);
    const uint32_t layer = redco_layout_layer_of(states->layout, module);
    (void)snprintf(name, REDCOI_NAME_BYTES, "%s/%s/%s/%s", pass, model->layers[layer].name, model->modules[module].name,
                   what);
}

void *redco_states_module(const redco_states *states, uint32_t module)
{
    return redcoi_parameter(states, redco_layout_layer_of(states->layout, module),
                            redco_layout_module(states->layout, module)->shard_at);
}

bool redco_states_gathers(const redco_states *states, uint32_t module)
{
    return redco_mesh_ranks(redcoi_shards(states, redco_layout_layer_of(states->layout, module))->parameters) > 1;
}

static unsigned char *second_of(const redco_states *states, uint32_t layer, uint32_t module)
{
    const uint64_t at = redco_layout_module(states->layout, module)->secondary_at;
    return states->secondary + redcoi_bytes(states, states->secondary_at[layer] + at);
}

redco_status redco_states_gather(redco_states *states, redco_states_worker *worker, uint32_t module, bool backward,
                                 void *whole, redco_error *err)
{
    const uint32_t layer = redco_layout_layer_of(states->layout, module);
    const redco_module_layout *const m = redco_layout_module(states->layout, module);
    const bool second = backward && m->secondary > 0;
    const redco_mesh mesh =
        second ? redco_layout_secondary(states->layout, layer) : redcoi_shards(states, layer)->parameters;
    const void *const shard = second ? second_of(states, layer, module) : redco_states_module(states, module);
    const uint64_t count = second ? m->secondary : m->shard;
    redco_process_group *const group =
        redcoi_group_find(states, second ? REDCOI_STREAM_SECONDARY : REDCOI_STREAM_PARAMETERS, one, mesh);
    char name[REDCOI_NAME_BYTES];
    if (group == NULL) { return redcoi_copy(worker, whole, shard, redcoi_bytes(states, count), err); }
    name_module(states, backward ? "bwd" : "fwd", module, "gather", name);
    return redco_process_group_all_gather(group, redcoi_worker_stream(worker), states->options.dtype, shard, whole,
                                          count, name, err);
}

redco_status redco_states_keep_secondary(redco_states *states, redco_states_worker *worker, uint32_t module,
                                         const void *whole, redco_error *err)
{
    const uint32_t layer = redco_layout_layer_of(states->layout, module);
    const redco_module_layout *const m = redco_layout_module(states->layout, module);
    if (m->secondary == 0) { return REDCO_OK; }
    const uint32_t position =
        redco_mesh_position(redco_layout_secondary(states->layout, layer), redco_layout_place(states->layout));
    const unsigned char *const from = (const unsigned char *)whole + redcoi_bytes(states, m->secondary * position);
    return redcoi_copy(worker, second_of(states, layer, module), from, redcoi_bytes(states, m->secondary), err);
}

redco_status redco_states_scatter(redco_states *states, redco_states_worker *worker, uint32_t module, const void *whole,
                                  void *shard, redco_error *err)
{
    const uint32_t layer = redco_layout_layer_of(states->layout, module);
    const uint64_t count = redco_layout_module(states->layout, module)->shard;
    redco_process_group *const group =
        redcoi_group_find(states, REDCOI_STREAM_PARAMETERS, one, redcoi_shards(states, layer)->parameters);
    char name[REDCOI_NAME_BYTES];
    if (group == NULL) { return redcoi_copy(worker, shard, whole, redcoi_bytes(states, count), err); }
    name_module(states, "bwd", module, "scatter", name);
    return redco_process_group_reduce_scatter(group, redcoi_worker_stream(worker), states->options.dtype,
                                              REDCO_REDUCE_SUM, whole, shard, count, name, err);
}

/* Broadcasts that a process group is asked for at once; all of a layer, but for layers of many small tensors. */
enum { BROADCASTS = 64 };

/* Neighbouring slices of an owner. @return the slice behind them */
static uint32_t next_part(const redco_shard_slice *slices, uint32_t count, uint32_t first,
                          redco_process_group_part *part_out)
{
    uint32_t end = first;
    while (end < count && slices[end].owner == slices[first].owner) { end++; }
    const uint64_t at = slices[first].shard_at, size = slices[end - 1].shard_at + slices[end - 1].count - at;
    *part_out = (redco_process_group_part){at, size, slices[first].owner};
    return end;
}

/* Inter-tensor: each owner broadcasts what it updated, neighbouring slices at once. */
static redco_status broadcast(redco_states *states, const redco_states_worker *worker, uint32_t layer,
                              redco_process_group *group, const char *name, redco_error *err)
{
    uint32_t count = 0, part_count = 0;
    const redco_shard_slice *const slices = redco_layout_slices(states->layout, layer, &count);
    redco_process_group_part parts[BROADCASTS];
    redco_status st = REDCO_OK;
    count = redcoi_layer_layout(states, layer)->trained_pieces;
    for (uint32_t at = 0; at < count && st == REDCO_OK;) {
        at = next_part(slices, count, at, &parts[part_count++]);
        if (part_count < BROADCASTS && at < count) { continue; }
        st = redco_process_group_broadcast(group, redcoi_worker_stream(worker), states->options.dtype,
                                           redcoi_parameter(states, layer, 0), parts, part_count, name, err);
        part_count = 0;
    }
    return st;
}

uint64_t redco_states_sync_elements(const redco_states *states, uint32_t layer)
{
    uint32_t count = 0;
    uint64_t elements = 0;
    const redco_shard_slice *const slices = redco_layout_slices(states->layout, layer, &count);
    count = redcoi_layer_layout(states, layer)->trained_pieces;
    for (uint32_t at = 0; at < count;) {
        redco_process_group_part part;
        at = next_part(slices, count, at, &part);
        elements += part.count;
    }
    return elements;
}

redco_status redco_states_sync(redco_states *states, redco_states_worker *worker, uint32_t layer, redco_error *err)
{
    const redco_shards *const s = redcoi_shards(states, layer);
    const redcoi_bucket_group *const bucket_group = &states->bucket_groups[states->bucket_group_of[layer]];
    redco_process_group *const group = redcoi_group_find(states, REDCOI_STREAM_UPDATE, s->parameters, s->optimizer);
    char name[REDCOI_NAME_BYTES];
    (void)snprintf(name, sizeof name, "fwd/%s/update", redcoi_model(states)->layers[layer].name);
    if (group == NULL) { return REDCO_OK; }
    if (redco_layout_scheme(states->layout) == REDCO_INTER_TENSOR) {
        return broadcast(states, worker, layer, group, name, err);
    }
    return redco_process_group_all_gather_ordered(group, redcoi_worker_stream(worker), states->options.dtype,
                                                  redcoi_parameter(states, layer, 0), bucket_group->part_of,
                                                  redcoi_layer_layout(states, layer)->part, name, err);
}
