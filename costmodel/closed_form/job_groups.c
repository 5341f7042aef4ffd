/* A job's part of the machine: sizes that a rank works on, and the ranks that it works with. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "topology/base/share.h"

#include <math.h>
#include <stdio.h>

bool redcoi_exchanges_hide(const redco_costs *costs, const redco_parallelism *parallelism)
{
    if (!costs->workload.engine.ep_overlap) { return false; }
    return parallelism->pp <= 1 || redco_parallelism_pipeline(parallelism).chunks > 1;
}

redco_shape redcoi_shape_of(const redco_costs *costs, const redco_parallelism *parallelism)
{
    redco_shape shape = {.seq_len = costs->workload.seq_len,
                         .micro_batch = parallelism->micro_batch,
                         .tp = parallelism->tp,
                         .cp = parallelism->cp,
                         .ep = redco_parallelism_ep(parallelism),
                         .etp = redco_parallelism_etp(parallelism),
                         .cp_type = parallelism->cp_type,
                         .sequence_parallel = parallelism->sequence_parallel,
                         .precision = costs->workload.precision,
                         .engine = costs->workload.engine};
    shape.engine.ep_overlap = redcoi_exchanges_hide(costs, parallelism);
    return shape;
}

redco_exchange redcoi_exchange_of(const redco_costs *costs, const redco_shape *shape)
{
    const uint32_t etp = shape->etp > 0 ? shape->etp : shape->tp;
    return (redco_exchange){.machine = &costs->machine,
                            .constants = &costs->calibration.experts,
                            .group = redcoi_cp_group(costs, etp, shape->ep > 1 ? shape->ep : 1),
                            .dispatcher = shape->engine.dispatcher,
                            .no_mnnvl = shape->engine.no_mnnvl,
                            .no_call = shape->engine.cuda_graphs,
                            .experts = costs->dims->experts,
                            .choices = costs->dims->choices,
                            .tokens = (double)shape->micro_batch * ceil((double)shape->seq_len / shape->cp) / shape->tp,
                            .row_bytes = (double)costs->dims->hidden * costs->compute.element_bytes,
                            .load = redco_shape_load(shape)};
}

uint64_t redcoi_tensor_params(const redco_param *tensor, const redcoi_rank_key *ranks)
{
    const bool experts = tensor->part == REDCO_PART_EXPERTS;
    const uint32_t tp = experts ? ranks->etp : ranks->tp;
    uint64_t params = 1;
    for (uint32_t i = 0; i < tensor->rank; i++) { params *= tensor->shape[i]; } /* the model's reader bounds it */
    if (experts) { params = redco_share_up(params, 1, ranks->ep); }
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

bool redcoi_has_expert_grid(const redcoi_job *job)
{
    if (job->part != REDCO_PART_EXPERTS) { return false; } /* jobs of no rank have no part of experts */
    const redcoi_rank_key *const ranks = &job->rank->key;
    return ranks->ep > 1 || ranks->etp != ranks->tp || redco_parallelism_own_experts(job->parallelism);
}

/* The grid of the job's part. That of experts has etp x ep in place of tp, and no context parallelism. */
static redco_parallel part_parallel(const redcoi_job *job)
{
    redco_parallel p = redcoi_parallel_of(job->costs, job->parallelism);
    if (!redcoi_has_expert_grid(job)) { return p; }
    p.dp = job->costs->memo.expert_mesh;
    p.tp = job->rank->key.etp * job->rank->key.ep;
    p.cp = 1;
    p.states_over_cp = false;
    return p;
}

redco_mesh redcoi_expert_mesh(const redco_parallel *dense, uint32_t etp, uint32_t ep)
{
    const redco_rank_grid grid = redco_parallel_grid(dense);
    redco_rank_grid experts;
    redco_mesh mesh = {1, 1};
    if (redco_grid_of_experts(&grid, etp, ep, 0, &experts, NULL) != REDCO_OK) { return mesh; } /* checked before */
    (void)redco_dp_mesh(dense->gpus_per_node, (uint64_t)etp * ep, experts.degrees[REDCO_DIM_EDP], &mesh, NULL);
    return mesh;
}

/* The block of experts' replicas among the ranks of a block of the dense grid. What is whole on each rank there is
 * whole here: one rank is no shard. Where the dense grid has one rank, its optimizer states are on all ranks of the
 * grid. */
static redco_mesh expert_block(redco_mesh block, redco_mesh grid, redco_mesh replicas, bool whole)
{
    const uint64_t ranks = redco_mesh_ranks(block) * redco_mesh_ranks(replicas) / redco_mesh_ranks(grid);
    redco_mesh mesh = {1, 1};
    (void)redco_mesh_of_ranks(replicas, ranks > 0 && !whole ? ranks : 1, &mesh);
    return mesh;
}

static redco_shards expert_shards(const redco_shards *own, const redco_shards *dense, redco_mesh grid,
                                  redco_mesh replicas)
{
    const bool one_rank = redco_mesh_ranks(grid) == 1;
    redco_shards shards = *dense;
    const redco_mesh given[] = {own->parameters, own->gradients, own->optimizer};
    redco_mesh *const meshes[] = {&shards.parameters, &shards.gradients, &shards.optimizer};
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        const bool states = meshes[i] == &shards.optimizer;
        const bool whole = redco_mesh_ranks(*meshes[i]) == 1 && !(one_rank && states);
        *meshes[i] = given[i].gpus > 0 ? given[i] : expert_block(*meshes[i], grid, replicas, whole);
    }
    return shards;
}

void redcoi_use_expert_grid(redcoi_job *job)
{
    const redco_mesh replicas = job->costs->memo.expert_mesh;
    job->shards = expert_shards(&job->parallelism->experts, &job->shards, job->grid, replicas);
    job->grid = replicas;
}

redco_mesh redco_costs_expert_grid(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_parallel dense = redcoi_parallel_of(costs, parallelism);
    return redcoi_expert_mesh(&dense, redco_parallelism_etp(parallelism), redco_parallelism_ep(parallelism));
}

redco_status redco_costs_expert_shards(const redco_costs *costs, const redco_parallelism *parallelism,
                                       const redco_shards *dense, redco_shards *shards_out, redco_error *err)
{
    static const char *const names[] = {"p", "g", "os"};
    const redco_mesh replicas = redco_costs_expert_grid(costs, parallelism);
    *shards_out = expert_shards(&parallelism->experts, dense, redco_costs_grid(costs, parallelism), replicas);
    const redco_mesh chain[] = {shards_out->parameters, shards_out->gradients, shards_out->optimizer, replicas};
    for (int i = 2; i >= 0; i--) {
        char outer[16];
        if (redco_mesh_nests(chain[i], chain[i + 1])) { continue; }
        (void)snprintf(outer, sizeof outer, "experts.%s", i < 2 ? names[i + 1] : "");
        return redco_fail(err, REDCO_EVALUE, "shards", "experts.%s=%ux%u does not divide %s %ux%u (GPUs x nodes)",
                          names[i], chain[i].gpus, chain[i].nodes, i < 2 ? outer : "an expert's replicas",
                          chain[i + 1].gpus, chain[i + 1].nodes);
    }
    return REDCO_OK;
}

redco_group redcoi_group_of(const redcoi_job *job, redco_mesh outer, redco_mesh inner)
{
    const redco_parallel p = part_parallel(job);
    return redco_parallel_state_group(&p, (redco_between){inner, outer});
}

redco_group redcoi_replicas_of(const redcoi_job *job, redco_mesh parameters)
{
    const redco_parallel p = part_parallel(job);
    return redco_parallel_replicas(&p, parameters);
}

/* ZeRO++ keeps a secondary copy of the parameters, sharded over fewer ranks, for the gathers of backward. */
bool redcoi_has_secondary(const redcoi_job *job)
{
    const uint64_t ranks = redco_mesh_ranks(job->parallelism->secondary);
    if (redcoi_has_expert_grid(job)) { return false; } /* that copy is of the dense grid */
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

uint32_t redco_costs_experts(const redco_costs *costs)
{
    return costs->dims->experts;
}

redco_mesh redco_costs_grid(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return redco_shard_grid(&costs->machine, &costs->workload.engine, parallelism);
}

redco_shape redco_costs_shape(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return redcoi_shape_of(costs, parallelism);
}
