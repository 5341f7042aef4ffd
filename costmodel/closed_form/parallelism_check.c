/* Which parallelisms a model, its batch and the machine allow. */
#include "costmodel/closed_form/closed_form_internal.h"

enum { LARGEST_MICRO_BATCH = 1 << 20 };

static redco_status check_positions(const redco_costs *costs, redco_error *err)
{
    const redco_model_dims *const dims = costs->dims;
    const uint32_t seq_len = costs->workload.seq_len;
    if (dims->max_positions == 0 || seq_len <= dims->max_positions) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "sequence length", "%u is more than the %u positions that %s learns", seq_len,
                      dims->max_positions, redco_model_name(costs->model));
}

static redco_parallel_limits limits_of(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return (redco_parallel_limits){.model = redco_model_name(costs->model),
                                   .cluster = costs->machine.name,
                                   .heads = costs->dims->heads,
                                   .kv_heads = costs->dims->kv_heads,
                                   .layers = costs->blocks,
                                   .seq_len = costs->workload.seq_len,
                                   .sequence_parallel = parallelism->sequence_parallel,
                                   .zigzag = !costs->workload.engine.contiguous_context};
}

bool redcoi_cp_type_allowed(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_parallel p = redcoi_parallel_of(costs, parallelism);
    const redco_parallel_limits limits = limits_of(costs, parallelism);
    return redco_parallel_check_exchange(&p, &limits, NULL) == REDCO_OK;
}

/* Experts on their grid: whole replicas in blocks of nodes, and rows that ranks have for themselves. */
static redco_status check_experts(const redco_costs *costs, const redco_parallelism *parallelism,
                                  const redco_parallel *dense, redco_error *err)
{
    const uint32_t ep = redco_parallelism_ep(parallelism), etp = redco_parallelism_etp(parallelism);
    const redco_rank_grid grid = redco_parallel_grid(dense);
    redco_rank_grid experts;
    redco_mesh mesh;
    if (costs->dims->experts == 0) {
        return ep == 1 ? REDCO_OK
                       : redco_fail(err, REDCO_EVALUE, "ep", "%u ranks share out experts, which %s has none of", ep,
                                    redco_model_name(costs->model));
    }
    if (etp != parallelism->tp && etp != 1) {
        return redco_fail(err, REDCO_EVALUE, "etp", "%u: experts are cut by tp = %u or not at all", etp,
                          parallelism->tp);
    }
    if ((etp != parallelism->tp || ep > 1) && parallelism->tp > 1 && !parallelism->sequence_parallel) {
        return redco_fail(err, REDCO_EVALUE, "ep",
                          "ep = %u and etp = %u with tp = %u need sequence parallelism, by which ranks have tokens of "
                          "their own",
                          ep, etp, parallelism->tp);
    }
    const redco_status st = redco_grid_of_experts(&grid, etp, ep, costs->dims->experts, &experts, err);
    if (st != REDCO_OK || (ep == 1 && etp == parallelism->tp)) { return st; }
    return redco_dp_mesh(dense->gpus_per_node, (uint64_t)etp * ep, experts.degrees[REDCO_DIM_EDP], &mesh, err);
}

static redco_status check_degrees(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err)
{
    const redco_parallel p = redcoi_parallel_of(costs, parallelism);
    const redco_parallel_limits limits = limits_of(costs, parallelism);
    const redco_status st = redco_parallel_check(&p, &limits, err);
    return st == REDCO_OK ? check_experts(costs, parallelism, &p, err) : st;
}

redco_status redco_parallelism_check(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err)
{
    const redco_parallelism *const s = parallelism;
    if (s->tp == 0 || s->pp == 0 || s->cp == 0 || s->micro_batch == 0 || s->micro_batches == 0 || s->dp.gpus == 0 ||
        s->dp.nodes == 0) {
        return redco_fail(err, REDCO_EVALUE, "parallelism",
                          "tp, pp, cp, dp, micro-batch and their number are at least 1");
    }
    redco_status st = check_positions(costs, err);
    if (st == REDCO_OK) { st = redco_model_check_rank(costs->model, s->tp, s->micro_batch, s->sequence_parallel, err); }
    if (st != REDCO_OK || (st = check_degrees(costs, s, err)) != REDCO_OK) { return st; }
    const uint64_t batch = costs->workload.global_batch, dp = redco_mesh_ranks(s->dp);
    if (s->micro_batch > LARGEST_MICRO_BATCH || batch % dp != 0 || batch / dp % s->micro_batch != 0 ||
        batch / dp / s->micro_batch != s->micro_batches) {
        return redco_fail(err, REDCO_EVALUE, "batch",
                          "%llu sequences are not micro-batch %u x %llu micro-batches x %llu data-parallel ranks",
                          (unsigned long long)batch, s->micro_batch, (unsigned long long)s->micro_batches,
                          (unsigned long long)dp);
    }
    return s->pp > 1 ? redco_step_chunks_check(costs, s, err) : REDCO_OK;
}
