/* A job's part of the machine: sizes that a rank works on, and the ranks that it works with. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "topology/base/share.h"

redco_shape redcoi_shape_of(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return (redco_shape){.seq_len = costs->workload.seq_len,
                         .micro_batch = parallelism->micro_batch,
                         .tp = parallelism->tp,
                         .cp = parallelism->cp,
                         .cp_type = parallelism->cp_type,
                         .sequence_parallel = parallelism->sequence_parallel,
                         .precision = costs->workload.precision,
                         .engine = costs->workload.engine};
}

uint64_t redcoi_tensor_params(const redco_param *tensor, uint32_t tp)
{
    uint64_t params = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) { params *= tensor->shape[i]; } /* the model's reader bounds it */
    return redco_param_is_cut(tensor, tp) ? redco_share_up(params, 1, tp) : params;
}

redco_parallel redco_parallelism_parallel(const redco_machine *machine, const redco_engine *engine,
                                          const redco_parallelism *parallelism)
{
    return (redco_parallel){.nodes = machine->nodes,
                            .gpus_per_node = machine->gpus_per_node,
                            .tp = parallelism->tp,
                            .cp = parallelism->cp,
                            .pp = parallelism->pp,
                            .dp = parallelism->dp,
                            .states_over_cp = engine->shard_over_cp,
                            .cp_type = parallelism->cp_type};
}

redco_mesh redco_shard_grid(const redco_machine *machine, const redco_engine *engine,
                            const redco_parallelism *parallelism)
{
    const redco_parallel p = redco_parallelism_parallel(machine, engine, parallelism);
    return redco_parallel_state_grid(&p);
}

redco_parallel redcoi_parallel_of(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return redco_parallelism_parallel(&costs->machine, &costs->workload.engine, parallelism);
}

redco_group redcoi_group_of(const redcoi_job *job, redco_mesh outer, redco_mesh inner)
{
    const redco_parallel p = redcoi_parallel_of(job->costs, job->parallelism);
    return redco_parallel_state_group(&p, (redco_between){inner, outer});
}

redco_group redcoi_replicas_of(const redcoi_job *job, redco_mesh parameters)
{
    const redco_parallel p = redcoi_parallel_of(job->costs, job->parallelism);
    return redco_parallel_replicas(&p, parameters);
}

/* ZeRO++ keeps a secondary copy of the parameters, sharded over fewer ranks, for the gathers of backward. */
bool redcoi_has_secondary(const redcoi_job *job)
{
    const uint64_t ranks = redco_mesh_ranks(job->parallelism->secondary);
    return ranks > 0 && ranks < redco_mesh_ranks(job->shards.parameters);
}

redco_mesh redcoi_backward_mesh(const redcoi_job *job)
{
    return redcoi_has_secondary(job) ? job->parallelism->secondary : job->shards.parameters;
}

redco_group redcoi_cp_group(const redco_costs *costs, uint32_t tp, uint32_t cp)
{
    const redco_parallel p = {.gpus_per_node = costs->machine.gpus_per_node, .tp = tp, .cp = cp};
    return redco_parallel_cp_group(&p);
}

redco_mesh redco_costs_grid(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return redco_shard_grid(&costs->machine, &costs->workload.engine, parallelism);
}

redco_shape redco_costs_shape(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return redcoi_shape_of(costs, parallelism);
}
