#include "executor/comm/collectives.h"

#include <string.h>

/** Along its axis a tensor is [outer, length, inner]; communicators join what lies one behind the other. */
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

/** Between [outer, ranks, piece] and [ranks, outer, piece]. */
static void exchange_order(uint8_t *to, const uint8_t *from, uint64_t first, uint64_t second, size_t piece_bytes)
{
    for (uint64_t i = 0; i < first; i++) {
        for (uint64_t k = 0; k < second; k++) {
            memcpy(to + (k * first + i) * piece_bytes, from + (i * second + k) * piece_bytes, piece_bytes);
        }
    }
}

static redco_status all_reduce(redco_communicator *communicator, const redco_launch *launch, redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const bool maximum = (launch->attributes->flags & REDCO_FLAG_MAXIMUM) != 0;
    if (out->data != in->data) { memcpy(out->data, in->data, redco_type_bytes(&in->type)); }
    return redco_all_reduce(communicator, in->type.dtype, maximum ? REDCO_REDUCE_MAX : REDCO_REDUCE_SUM, out->data,
                            redco_type_elements(&in->type), launch->name, err);
}

static redco_status gather_or_scatter(redco_communicator *communicator, const redco_launch *launch, redco_error *err)
{
    const redco_tensor *in = &launch->inputs[0], *out = &launch->outputs[0];
    const uint64_t outer = outer_count(launch), ranks = redco_communicator_size(communicator);
    const bool gather = launch->kind == REDCO_OP_ALL_GATHER;
    const uint64_t count = redco_type_elements(gather ? &in->type : &out->type);
    const size_t piece_bytes = (size_t)(redco_type_bytes(&larger(launch)->type) / outer / ranks);
    void *const ordered = outer == 1 ? NULL : launch->workspace;
    if (gather) {
        const redco_status st = redco_all_gather(communicator, in->type.dtype, in->data,
                                                 ordered == NULL ? out->data : ordered, count, launch->name, err);
        if (st == REDCO_OK && ordered != NULL) { exchange_order(out->data, ordered, ranks, outer, piece_bytes); }
        return st;
    }
    if (ordered != NULL) { exchange_order(ordered, in->data, outer, ranks, piece_bytes); }
    return redco_reduce_scatter(communicator, in->type.dtype, REDCO_REDUCE_SUM, ordered == NULL ? in->data : ordered,
                                out->data, count, launch->name, err);
}

static redco_status run(void *context, redco_backend *backend, redco_queue *queue, const redco_launch *launch,
                        redco_error *err)
{
    const redco_host_collectives *host = context;
    redco_communicator *communicator = NULL;
    for (uint32_t i = 0; i < host->count; i++) {
        if (host->groups[i].group == launch->attributes->group) { communicator = host->groups[i].communicator; }
    }
    if (communicator == NULL) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "group %u has no communicator", launch->attributes->group);
    }
    if (redco_communicator_size(communicator) != launch->attributes->ranks) {
        return redco_fail(err, REDCO_EVALUE, launch->name, "group %u is of %u ranks, its communicator of %u",
                          launch->attributes->group, launch->attributes->ranks, redco_communicator_size(communicator));
    }
    const redco_status st = backend->calls->queue_finish(backend, queue, err);
    if (st != REDCO_OK) { return st; }
    return launch->kind == REDCO_OP_ALL_REDUCE ? all_reduce(communicator, launch, err)
                                               : gather_or_scatter(communicator, launch, err);
}

redco_collectives redco_host_collectives_calls(redco_host_collectives *host)
{
    return (redco_collectives){.context = host, .workspace_bytes = workspace_bytes, .run = run};
}
