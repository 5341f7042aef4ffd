#include "executor/comm/graph_collectives.h"

/** Along its axis a tensor is [outer, length, inner]; teams join what lies one behind the other. */
static uint64_t outer_count(const redco_launch *launch)
{
    uint64_t outer = 1;
    for (uint32_t d = 0; d < launch->attributes->axis[0]; d++) { outer *= launch->inputs[0].type.dim[d]; }
    return outer;
}

static const redco_tensor *larger(const redco_launch *launch)
{
    return launch->kind == REDCO_OP_ALL_GATHER ? &launch->outputs[0] : &launch->inputs[0];
}

static uint64_t workspace_bytes(void *context, const redco_launch *launch)
{
    (void)context;
    if (launch->kind == REDCO_OP_ALL_REDUCE || outer_count(launch) == 1) { return 0; }
    return redco_type_bytes(&larger(launch)->type);
}

/** From [first, second, piece] to [second, first, piece], by the backend: behind what its queue holds. */
static redco_status exchange_order(redco_lane lane, const redco_launch *launch, void *to, const void *from,
                                   uint64_t first, uint64_t second, redco_error *err)
{
    const redco_tensor_type *const type = &larger(launch)->type;
    const uint64_t piece = redco_type_elements(type) / first / second;
    const redco_attributes attributes = {.axis = {1, 0, 2}, .axis_count = 3};
    const redco_tensor in = {{.dtype = type->dtype, .rank = 3, .dim = {first, second, piece}}, (void *)(uintptr_t)from};
    const redco_tensor out = {{.dtype = type->dtype, .rank = 3, .dim = {second, first, piece}}, to};
    const redco_launch move = {.kind = REDCO_OP_TRANSPOSE,
                               .attributes = &attributes,
                               .input_count = 1,
                               .output_count = 1,
                               .inputs = &in,
                               .outputs = &out,
                               .name = launch->name};
    return lane.backend->calls->run(lane.backend, lane.queue, &move, err);
}

static redco_status all_reduce(redco_team *team, redco_lane lane, const redco_launch *launch, redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const bool maximum = (launch->attributes->flags & REDCO_FLAG_MAXIMUM) != 0;
    redco_status st = REDCO_OK;
    if (out->data != in->data) {
        st = lane.backend->calls->copy(lane.backend, lane.queue, out->data, in->data, redco_type_bytes(&in->type), err);
    }
    if (st != REDCO_OK) { return st; }
    return redco_team_all_reduce(team, lane, in->type.dtype, maximum ? REDCO_REDUCE_MAX : REDCO_REDUCE_SUM, out->data,
                                 redco_type_elements(&in->type), launch->name, err);
}

static redco_status gather(redco_team *team, redco_lane lane, const redco_launch *launch, redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const uint64_t outer = outer_count(launch);
    void *const ordered = outer == 1 ? NULL : launch->workspace;
    const redco_status st =
        redco_team_all_gather(team, lane, in->type.dtype, in->data, ordered == NULL ? out->data : ordered,
                              redco_type_elements(&in->type), launch->name, err);
    if (st != REDCO_OK || ordered == NULL) { return st; }
    return exchange_order(lane, launch, out->data, ordered, redco_team_size(team), outer, err);
}

static redco_status scatter(redco_team *team, redco_lane lane, const redco_launch *launch, redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const uint64_t outer = outer_count(launch);
    void *const ordered = outer == 1 ? NULL : launch->workspace;
    redco_status st = REDCO_OK;
    if (ordered != NULL) { st = exchange_order(lane, launch, ordered, in->data, outer, redco_team_size(team), err); }
    if (st != REDCO_OK) { return st; }
    return redco_team_reduce_scatter(team, lane, in->type.dtype, REDCO_REDUCE_SUM, ordered == NULL ? in->data : ordered,
                                     out->data, redco_type_elements(&out->type), launch->name, err);
}

static redco_status run(void *context, redco_backend *backend, redco_queue *queue, const redco_launch *launch,
                        redco_error *err)
{
    const redco_team_collectives *const teams = context;
    const redco_lane lane = {backend, queue};
    redco_team *team = NULL;
    for (uint32_t i = 0; i < teams->count; i++) {
        if (teams->groups[i].group == launch->attributes->group) { team = teams->groups[i].team; }
    }
    if (team == NULL) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "group %u has no communicator", launch->attributes->group);
    }
    if (redco_team_size(team) != launch->attributes->ranks) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "group %u is of %u ranks, its communicator of %u",
                          launch->attributes->group, launch->attributes->ranks, redco_team_size(team));
    }
    switch (launch->kind) {
    case REDCO_OP_ALL_REDUCE: return all_reduce(team, lane, launch, err);
    case REDCO_OP_ALL_GATHER: return gather(team, lane, launch, err);
    default: return scatter(team, lane, launch, err);
    }
}

redco_collectives redco_team_collectives_calls(redco_team_collectives *teams)
{
    return (redco_collectives){.context = teams, .workspace_bytes = workspace_bytes, .run = run};
}
