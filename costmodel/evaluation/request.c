#include "costmodel/evaluation/request.h"

#include "costmodel/closed_form/closed_form_internal.h"

redco_status redco_request_open(const redco_request *request, const redco_comm *comm, redco_attach_layouts attach,
                                void *context, redco_costs **costs_out, redco_error *err)
{
    redco_costs *costs = NULL;
    redco_status st = redco_costs_create(&request->machine, request->model, &request->workload, &request->calibration,
                                         comm, &costs, err);
    if (st == REDCO_OK && attach != NULL) { st = attach(costs, context, err); }
    if (st == REDCO_OK) {
        st = redco_request_check(costs, &request->parallelism, request->assignments, request->assignment_count, err);
    }
    if (st != REDCO_OK) {
        redco_costs_free(costs);
        return st;
    }
    *costs_out = costs;
    return REDCO_OK;
}

redco_status redco_request_check(const redco_costs *costs, const redco_parallelism *parallelism,
                                 const redco_assignment *assignments, uint32_t count, redco_error *err)
{
    static const char *const names[] = {"parameters", "gradients", "optimizer"};
    redco_status st = redco_parallelism_check(costs, parallelism, err);
    if (st != REDCO_OK) { return st; }
    const redco_mesh grid = redco_costs_grid(costs, parallelism);
    for (uint32_t i = 0; i < count; i++) {
        const redco_shards *const s = &assignments[i].config.shards;
        const redco_mesh chain[] = {s->parameters, s->gradients, s->optimizer, grid};
        for (int k = 2; k >= 0; k--) {
            if (redco_mesh_nests(chain[k], chain[k + 1])) { continue; }
            return redco_fail(err, REDCO_EVALUE, names[k], "%ux%u does not divide %s %ux%u (GPUs x nodes)",
                              chain[k].gpus, chain[k].nodes,
                              k == 2 ? "the ranks that states are sharded over," : names[k + 1], chain[k + 1].gpus,
                              chain[k + 1].nodes);
        }
        redco_shards experts;
        if (!redco_parallelism_own_experts(parallelism)) { continue; }
        if ((st = redco_costs_expert_shards(costs, parallelism, s, &experts, err)) != REDCO_OK) { return st; }
    }
    return REDCO_OK;
}

/* The simulator's numbers as a prediction; the closed form lends what only it has (AMSP's terms, the capacity), and the
 * memory of engines that plan it, or of eager PyTorch's moments: that is known to it alone. */
static redco_prediction predicted_of(const redco_costs *costs, const redco_simulation *simulation,
                                     const redco_prediction *closed_form)
{
    const double *const busy_s = simulation->account.busy_s, *const waiting_s = simulation->account.waiting_s;
    const uint64_t *const held = simulation->peak.held_bytes;
    redco_prediction p = *closed_form;
    p.step_s = simulation->step_s;
    p.energy = redco_costs_energy(costs, p.dynamic_j, p.step_s);
    p.tokens_per_s_per_gpu = simulation->tokens_per_s_per_gpu;
    p.mfu = simulation->mfu;
    p.forward_s = busy_s[REDCO_WORK_FORWARD];
    p.backward_s = busy_s[REDCO_WORK_BACKWARD];
    p.recompute_s = busy_s[REDCO_WORK_RECOMPUTE];
    p.compute_s = p.forward_s + p.backward_s + p.recompute_s;
    p.optimizer_s = busy_s[REDCO_WORK_OPTIMIZER] + busy_s[REDCO_WORK_NORM];
    p.layer_exposed_s = busy_s[REDCO_WORK_LAUNCH] + simulation->account.contention_s + waiting_s[REDCO_WORK_TENSOR] +
                        waiting_s[REDCO_WORK_CONTEXT] + waiting_s[REDCO_WORK_EXCHANGE] + waiting_s[REDCO_WORK_GATHER] +
                        waiting_s[REDCO_WORK_SCATTER] + waiting_s[REDCO_WORK_SHARD];
    p.grad_reduce_exposed_s = waiting_s[REDCO_WORK_REDUCE] + waiting_s[REDCO_WORK_NORM_REDUCE];
    p.param_sync_exposed_s = waiting_s[REDCO_WORK_UPDATE];
    p.exposed_comm_s = p.layer_exposed_s + p.grad_reduce_exposed_s + p.param_sync_exposed_s;
    p.other_s = p.step_s - p.compute_s - p.exposed_comm_s - p.optimizer_s;
    if (p.other_s < 0.0) { p.other_s = 0.0; } /* rounding */
    if (costs->workload.engine.planned_memory || redco_engine_is_eager(&costs->workload.engine)) { return p; }
    p.parameter_bytes = held[REDCO_CATEGORY_PARAMETERS];
    p.gradient_bytes = held[REDCO_CATEGORY_GRADIENTS];
    p.optimizer_bytes = held[REDCO_CATEGORY_OPTIMIZER];
    p.activation_bytes = held[REDCO_CATEGORY_ACTIVATIONS];
    p.total_bytes = simulation->peak.bytes;
    p.transient_bytes =
        p.total_bytes - p.parameter_bytes - p.gradient_bytes - p.optimizer_bytes - p.activation_bytes - p.nccl_bytes;
    p.allocated_bytes = redcoi_allocated_bytes(costs, &p);
    return p;
}

bool redco_price_simulates(const redco_costs *costs)
{
    return costs->blocks <= REDCO_SIMULATED_LAYERS_MAX;
}

redco_status redco_price_step(redco_costs *costs, const redco_parallelism *parallelism,
                              const redco_assignment *assignments, uint32_t count, redco_price *price_out,
                              redco_error *err)
{
    redco_price price = {.closed_form = redco_cost_step(costs, parallelism, assignments, count)};
    redco_status st = redco_costs_failure(costs, err);
    price.simulated = redco_price_simulates(costs);
    if (st == REDCO_OK && price.simulated) {
        st = redco_simulate(costs, parallelism, assignments, count, NULL, &price.simulation, err);
    }
    if (st != REDCO_OK) { return st; }
    price.predicted = price.simulated ? predicted_of(costs, &price.simulation, &price.closed_form) : price.closed_form;
    if (redco_engine_is_eager(&costs->workload.engine)) { redco_cost_update_moment(costs, &price.predicted); }
    *price_out = price;
    return REDCO_OK;
}
