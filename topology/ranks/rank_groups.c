/* Groups of ranks as collectives are priced for them. */
#include "topology/ranks/parallel.h"

redco_group_link redco_group_crosses(redco_group group, uint32_t linked_gpus)
{
    if (group.mesh.nodes > 1) { return REDCO_GROUP_OVER_NODES; }
    if (group.mesh.gpus <= 1) { return REDCO_GROUP_ALONE; }
    const uint64_t span = (uint64_t)(group.mesh.gpus - 1) * (group.stride > 0 ? group.stride : 1);
    return span < linked_gpus ? REDCO_GROUP_LINKED : REDCO_GROUP_IN_NODE;
}

/* All GPUs of a node take part, in groups of as many. */
static redco_group group_of(const redco_parallel *p, redco_mesh mesh, uint32_t stride, uint32_t node_stride)
{
    const uint32_t groups = p->gpus_per_node / mesh.gpus;
    return (redco_group){.mesh = mesh,
                         .stride = stride,
                         .groups_per_node = groups > 0 ? groups : 1,
                         .tp = p->tp,
                         .node_stride = node_stride};
}

redco_group redco_parallel_tp_group(const redco_parallel *p)
{
    return group_of(p, (redco_mesh){p->tp, 1}, 1, 0);
}

redco_group redco_parallel_cp_group(const redco_parallel *p)
{
    redco_parallel one = *p;
    one.dp = (redco_mesh){1, 1};
    return group_of(p, redco_parallel_dp_cp(&one), p->tp, 0);
}

redco_group redco_parallel_world(const redco_parallel *p)
{
    return group_of(p, (redco_mesh){p->gpus_per_node, p->nodes}, 1, 0);
}

redco_group redco_parallel_stage_pair(const redco_parallel *p)
{
    const uint64_t apart = redco_mesh_ranks(p->dp) * p->tp * p->cp; /* ranks from a stage to the next */
    const bool across = apart >= p->gpus_per_node;
    return (redco_group){.mesh = across ? (redco_mesh){1, 2} : (redco_mesh){2, 1},
                         .stride = across ? 1 : (uint32_t)apart,
                         .groups_per_node = across ? p->gpus_per_node : 1,
                         .tp = p->tp,
                         .node_stride = across ? (uint32_t)(apart / p->gpus_per_node) : 0};
}

redco_group redco_parallel_state_group(const redco_parallel *p, redco_between between)
{
    const redco_mesh inner = between.inner, outer = between.outer;
    const uint32_t apart = p->states_over_cp ? p->tp : p->tp * p->cp;
    return group_of(p, (redco_mesh){outer.gpus / inner.gpus, outer.nodes / inner.nodes}, apart * inner.gpus,
                    inner.nodes);
}

redco_group redco_parallel_replicas(const redco_parallel *p, redco_mesh parameters)
{
    if (p->states_over_cp || p->cp <= 1) {
        return redco_parallel_state_group(p, (redco_between){parameters, redco_parallel_state_grid(p)});
    }
    redco_parallel cut = *p;
    cut.dp = (redco_mesh){p->dp.gpus / parameters.gpus, p->dp.nodes / parameters.nodes};
    return group_of(p, redco_parallel_dp_cp(&cut), p->tp, parameters.nodes);
}
