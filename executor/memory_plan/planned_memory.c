#include "executor/memory_plan/planned_memory.h"

#include <stdlib.h>
#include <string.h>

redco_status redco_memory_plan_make(const redco_graph *graph, const redco_lifetimes_options *options,
                                    redco_memory_plan *plan_out, redco_error *err)
{
    redco_memory_plan plan = {.offsets = NULL};
    redco_status st = redco_lifetimes_find(graph, options, &plan.lifetimes, err);
    if (st != REDCO_OK) { return st; }
    const uint32_t count = plan.lifetimes.interval_count;
    plan.offsets = calloc((size_t)count + 1, sizeof *plan.offsets);
    if (plan.offsets == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "arena", "no memory to place %u pieces", count);
    } else {
        st = redco_arena_plan(plan.lifetimes.intervals, count, REDCO_ALIGNMENT_BYTES, plan.offsets, &plan.arena, err);
    }
    if (st == REDCO_OK) {
        *plan_out = plan;
    } else {
        redco_memory_plan_free(&plan);
    }
    return st;
}

void redco_memory_plan_free(redco_memory_plan *plan)
{
    redco_lifetimes_free(&plan->lifetimes);
    free(plan->offsets);
    *plan = (redco_memory_plan){.offsets = NULL};
}

static void *in_arena(const redco_memory_map *map, uint32_t interval)
{
    return (unsigned char *)map->arena + map->plan->offsets[interval];
}

void *redco_memory_of(const redco_memory_map *map, redco_value value)
{
    const redco_value_place place = map->plan->lifetimes.place[value];
    switch (place.kind) {
    case REDCO_PLACE_NONE: return NULL;
    case REDCO_PLACE_INPUT: return map->inputs[place.index];
    case REDCO_PLACE_OUTSIDE: return map->outside[place.index];
    case REDCO_PLACE_ARENA: return in_arena(map, place.index);
    }
    return NULL;
}

redco_status redco_memory_run(const redco_memory_map *map, redco_backend *backend, redco_device_stream *stream,
                              const redco_collectives *collectives, uint32_t op_id, redco_error *err)
{
    const redco_op *const op = redco_graph_op(map->graph, op_id);
    const uint32_t workspace = map->plan->lifetimes.workspace[op_id];
    redco_tensor inputs[REDCO_INPUTS_MAX], outputs[REDCO_OUTPUTS_MAX];
    char name[200];
    for (uint32_t k = 0; k < op->input_count; k++) {
        inputs[k] = (redco_tensor){*redco_value_type(map->graph, op->inputs[k]), redco_memory_of(map, op->inputs[k])};
    }
    for (uint32_t k = 0; k < op->output_count; k++) {
        const redco_value out = op->first_output + k;
        outputs[k] = (redco_tensor){*redco_value_type(map->graph, out), redco_memory_of(map, out)};
    }
    const redco_launch launch = {.kind = op->kind,
                                 .attributes = &op->attributes,
                                 .input_count = op->input_count,
                                 .output_count = op->output_count,
                                 .inputs = inputs,
                                 .outputs = outputs,
                                 .workspace = workspace == REDCO_NO_INTERVAL ? NULL : in_arena(map, workspace),
                                 .name = redco_op_name(map->graph, op, name, sizeof name)};
    if (redco_op_kind_class(op->kind) != REDCO_CLASS_COLLECTIVE) {
        return backend->calls->run(backend, stream, &launch, err);
    }
    if (collectives == NULL) {
        return redco_fail(err, REDCO_EVALUE, launch.name, "%s: the graph is of one rank of %u and needs the others",
                          redco_op_kind_name(op->kind), op->attributes.ranks);
    }
    return collectives->run(collectives->context, backend, stream, &launch, err);
}
