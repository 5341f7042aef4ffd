/* Results that layers of one parallelism share. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/nccl_buffers.h"

#include <string.h>

/* Stages depend on all of it and the split, but not on the scheme and the second copy. */
static bool same_stages(const redco_parallelism *a, const redco_parallelism *b)
{
    return a->tp == b->tp && a->pp == b->pp && a->cp == b->cp && redco_parallelism_ep(a) == redco_parallelism_ep(b) &&
           redco_parallelism_etp(a) == redco_parallelism_etp(b) && a->cp_type == b->cp_type && a->chunks == b->chunks &&
           a->schedule == b->schedule && a->group == b->group && a->sequence_parallel == b->sequence_parallel &&
           a->micro_batch == b->micro_batch && a->micro_batches == b->micro_batches && redco_mesh_equal(a->dp, b->dp);
}

static bool same_group(redco_group a, redco_group b)
{
    return redco_mesh_equal(a.mesh, b.mesh) && a.stride == b.stride && a.groups_per_node == b.groups_per_node &&
           a.tp == b.tp && a.node_stride == b.node_stride;
}

static bool same_traffic(const redcoi_shard_traffic *a, const redcoi_shard_traffic *b)
{
    return !(a->gather_s < b->gather_s || a->gather_s > b->gather_s || a->again_s < b->again_s ||
             a->again_s > b->again_s || a->scatter_s < b->scatter_s || a->scatter_s > b->scatter_s ||
             a->calls_s < b->calls_s || a->calls_s > b->calls_s || a->again_calls_s < b->again_calls_s ||
             a->again_calls_s > b->again_calls_s) &&
           a->network == b->network && a->again_network == b->again_network && a->secondary == b->secondary &&
           a->by_layer == b->by_layer && a->layers == b->layers;
}

/* Parameters of the fullest stage that are trained, before data-parallel sharding. */
static void count_params(const redco_costs *costs, const redcoi_rank *rank, redcoi_memo *memo)
{
    for (redco_param_part p = REDCO_PART_DENSE; p < REDCO_PARTS; p++) {
        memo->stage_params[p] = memo->first_params[p] = 0.0;
        for (uint32_t i = 0; i < costs->class_count; i++) {
            const double trained = (double)rank->classes[i].parts[p].trained_params;
            const double params = memo->stages[i].once * trained * costs->classes[i].layers;
            memo->stage_params[p] += params;
            if (costs->classes[i].kind == REDCO_CLASS_EMBEDDING) { memo->first_params[p] += params; }
        }
        if (memo->parallelism.pp <= 1) { memo->stage_params[p] = (double)rank->trained_params[p]; }
    }
}

redcoi_memo *redcoi_memo_of(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism); /* may clear the memo */
    redcoi_memo *const memo = &costs->memo;
    if (memo->parallelism.tp != 0 && same_stages(&memo->parallelism, parallelism) &&
        redcoi_split_kept(&memo->split, parallelism)) {
        return memo;
    }
    memo->parallelism = *parallelism;
    redcoi_split_keep(&memo->split, parallelism);
    memo->parallelism.split = memo->split.given ? memo->split.blocks : NULL;
    const redco_parallel dense = redcoi_parallel_of(costs, parallelism);
    memo->expert_mesh = redcoi_expert_mesh(&dense, rank->key.etp, rank->key.ep);
    memset(memo->nccl_shards, 0, sizeof memo->nccl_shards);
    for (uint32_t i = 0; i < costs->class_count; i++) { memo->stages[i] = redcoi_stage_of(costs, parallelism, i); }
    memo->repeated = false;
    if (parallelism->pp > 1) { redcoi_stages_once(costs, rank, parallelism, memo->stages); }
    count_params(costs, rank, memo);
    return memo;
}

redcoi_memo *redcoi_memo_repeated(redco_costs *costs, const redco_parallelism *parallelism)
{
    redcoi_memo *const memo = redcoi_memo_of(costs, parallelism);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    for (uint32_t i = 0; i < costs->class_count && !memo->repeated; i++) {
        redcoi_stage_repeat(costs, rank, parallelism, i, &memo->stages[i]);
    }
    memo->repeated = true;
    return memo;
}

static size_t class_of(const redcoi_job *job)
{
    return (size_t)(job->class - job->costs->classes);
}

const redcoi_gathers *redcoi_gathers_of(const redcoi_job *job, redco_group group, redco_group again)
{
    redcoi_kept_gathers *const kept = &job->costs->memo.gathers[class_of(job)][job->part];
    if (kept->times != job->times || !same_group(kept->group, group) || !same_group(kept->again, again)) {
        *kept = (redcoi_kept_gathers){job->times, group, again, redcoi_price_gathers(job, group, again)};
    }
    return &kept->gathers;
}

const redcoi_exposed *redcoi_exposed_of(const redcoi_job *job, const redcoi_shard_traffic *traffic)
{
    redcoi_exposed *const kept = &job->costs->memo.exposed[class_of(job)][job->set];
    if (kept->times != job->times || !same_traffic(&kept->traffic, traffic)) {
        kept->times = job->times;
        kept->traffic = *traffic;
        redcoi_expose_passes(job, traffic, &kept->forward_s, &kept->backward_s);
    }
    return kept;
}

uint64_t redcoi_sharded_bytes(const redcoi_job *job)
{
    redcoi_memo *const memo = redcoi_memo_of(job->costs, job->parallelism);
    redco_shards *const shards = &memo->nccl_shards[job->part];
    if (memo->parallelism.scheme != job->parallelism->scheme ||
        !redco_mesh_equal(memo->parallelism.secondary, job->parallelism->secondary) ||
        !redco_shards_equal(memo->parallelism.experts, job->parallelism->experts)) {
        memo->parallelism.scheme = job->parallelism->scheme;
        memo->parallelism.experts = job->parallelism->experts;
        memo->parallelism.secondary = job->parallelism->secondary;
        memset(memo->nccl_shards, 0, sizeof memo->nccl_shards);
    }
    if (shards->parameters.gpus == 0 || !redco_shards_equal(*shards, job->shards)) {
        *shards = job->shards;
        memo->nccl_bytes[job->part] = redcoi_nccl_sharded_bytes(job);
    }
    return memo->nccl_bytes[job->part];
}

uint32_t redcoi_job_parts(const redcoi_job *job)
{
    return job->times->parts[REDCO_PART_EXPERTS].params > 0 ? REDCO_PARTS : 1;
}

redcoi_job redcoi_job_part(const redcoi_job *job, redco_param_part part)
{
    const redcoi_memo *const memo = &job->costs->memo;
    redcoi_job other = *job;
    other.part = part;
    other.own = &job->times->parts[part];
    other.state_params = memo->stage_params[part];
    other.first_params = memo->first_params[part];
    if (redcoi_has_expert_grid(&other)) { redcoi_use_expert_grid(&other); }
    return other;
}

redcoi_job redcoi_job_of(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                         uint32_t layout, const redco_layer_config *config)
{
    const uint32_t set = redcoi_recompute_set(costs, config->recompute); /* may clear all others */
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const redcoi_memo *const memo = redcoi_memo_of(costs, parallelism);
    const redcoi_job job = {.costs = costs,
                            .parallelism = parallelism,
                            .class = &costs->classes[class_index],
                            .rank = rank,
                            .times = redcoi_times_of(rank, class_index, layout),
                            .stage = memo->stages[class_index],
                            .shards = config->shards,
                            .recompute = config->recompute,
                            .set = set,
                            .element_bytes = costs->compute.element_bytes,
                            .gradient_bytes = costs->state_bytes.gradient,
                            .logits_bytes = rank->logits_bytes,
                            .grid = redco_shard_grid(&costs->machine, &costs->workload.engine, parallelism)};
    return redcoi_job_part(&job, REDCO_PART_DENSE);
}
