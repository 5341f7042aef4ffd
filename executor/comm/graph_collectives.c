#include "executor/comm/graph_collectives.h"

/** Along its axis a tensor is [outer, length, inner]; process groups join what is contiguous. */
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

/** From [first, second, piece] to [second, first, piece], by the backend: behind what its stream holds. */
static redco_status exchange_order(redco_stream_handle on, const redco_launch *launch, void *to, const void *from,
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
    return on.backend->calls->run(on.backend, on.stream, &move, err);
}

static redco_status all_reduce(redco_process_group *process_group, redco_stream_handle on, const redco_launch *launch,
                               redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const bool maximum = (launch->attributes->flags & REDCO_FLAG_MAXIMUM) != 0;
    redco_status st = REDCO_OK;
    if (out->data != in->data) {
        st = on.backend->calls->copy(on.backend, on.stream, out->data, in->data, redco_type_bytes(&in->type), err);
    }
    if (st != REDCO_OK) { return st; }
    return redco_process_group_all_reduce(process_group, on, in->type.dtype,
                                          maximum ? REDCO_REDUCE_MAX : REDCO_REDUCE_SUM, out->data,
                                          redco_type_elements(&in->type), launch->name, err);
}

static redco_status gather(redco_process_group *process_group, redco_stream_handle on, const redco_launch *launch,
                           redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const uint64_t outer = outer_count(launch);
    void *const ordered = outer == 1 ? NULL : launch->workspace;
    const redco_status st = redco_process_group_all_gather(process_group, on, in->type.dtype, in->data,
                                                           ordered == NULL ? out->data : ordered,
                                                           redco_type_elements(&in->type), launch->name, err);
    if (st != REDCO_OK || ordered == NULL) { return st; }
    return exchange_order(on, launch, out->data, ordered, redco_process_group_size(process_group), outer, err);
}

static redco_status scatter(redco_process_group *process_group, redco_stream_handle on, const redco_launch *launch,
                            redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const uint64_t outer = outer_count(launch);
    void *const ordered = outer == 1 ? NULL : launch->workspace;
    redco_status st = REDCO_OK;
    if (ordered != NULL) {
        st = exchange_order(on, launch, ordered, in->data, outer, redco_process_group_size(process_group), err);
    }
    if (st != REDCO_OK) { return st; }
    return redco_process_group_reduce_scatter(process_group, on, in->type.dtype, REDCO_REDUCE_SUM,
                                              ordered == NULL ? in->data : ordered, out->data,
                                              redco_type_elements(&out->type), launch->name, err);
}

static redco_status run(void *context, redco_backend *backend, redco_device_stream *stream, const redco_launch *launch,
                        redco_error *err)
{
    const redco_process_group_collectives *const process_groups = context;
    const redco_stream_handle on = {backend, stream};
    redco_process_group *process_group = NULL;
    for (uint32_t i = 0; i < process_groups->count; i++) {
        if (process_groups->groups[i].group == launch->attributes->group) {
            process_group = process_groups->groups[i].process_group;
        }
    }
    if (process_group == NULL) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "group %u has no communicator", launch->attributes->group);
    }
    if (redco_process_group_size(process_group) != launch->attributes->ranks) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "group %u is of %u ranks, its communicator of %u",
                          launch->attributes->group, launch->attributes->ranks,
                          redco_process_group_size(process_group));
    }
    switch (launch->kind) {
    case REDCO_OP_ALL_REDUCE: return all_reduce(process_group, on, launch, err);
    case REDCO_OP_ALL_GATHER: return gather(process_group, on, launch, err);
    default: return scatter(process_group, on, launch, err);
    }
}

redco_collectives redco_process_group_collectives_calls(redco_process_group_collectives *process_groups)
{
    return (redco_collectives){.context = process_groups, .workspace_bytes = workspace_bytes, .run = run};
}
