/* Plans out of the documents of redco-plan --json, in each of its shapes. */
#include "planner/plan/plan.h"
#include "tools/plot/plot.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PLANS = 100000 };
static const double most_bytes = 1e18;

redco_status plot_plans_add(struct plot_plans *plans, const struct plot_plan *plan, redco_error *err)
{
    if (plans->count == plans->capacity) {
        const size_t wanted = plans->capacity * 2 + 16;
        struct plot_plan *larger = realloc(plans->rows, wanted * sizeof *larger);
        if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
        plans->rows = larger;
        plans->capacity = wanted;
    }
    plans->rows[plans->count++] = *plan;
    return REDCO_OK;
}

void plot_plans_free(struct plot_plans *plans)
{
    for (size_t i = 0; i < plans->count; i++) { redco_plan_free(plans->rows[i].document); }
    free(plans->rows);
    *plans = (struct plot_plans){0};
}

/* Those of the entry with the most layers: of all layers when the plan is uniform. */
static redco_shards main_shards(const redco_plan *plan)
{
    redco_shards shards = {0};
    uint32_t most = 0;
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        const uint32_t layers = plan->layers[i].last_layer - plan->layers[i].first_layer + 1;
        if (layers <= most) { continue; }
        most = layers;
        shards = plan->layers[i].shards;
    }
    return shards;
}

static void take(struct plot_plan *row, redco_plan *plan)
{
    const redco_plan_predicted *const p = &plan->predicted;
    row->document = plan;
    row->name = plan->strategy;
    row->model = plan->model_name;
    row->cluster = plan->cluster_name;
    row->gpu = plan->gpu_name;
    row->gpus = redco_plan_gpus(plan);
    row->seq_len = plan->seq_len;
    row->global_batch = plan->global_batch;
    row->micro_batch = plan->parallelism.micro_batch;
    row->micro_batches = plan->parallelism.micro_batches;
    row->overlap = plan->overlap;
    row->dp = plan->parallelism.dp;
    row->shards = main_shards(plan);
    row->step_s = p->step_s;
    row->tokens_per_s_per_gpu = p->tokens_per_s_per_gpu;
    row->band = p->tokens_per_s_per_gpu_band;
    row->mfu = p->mfu;
    const uint64_t bytes[] = {p->parameter_bytes, p->gradient_bytes, p->optimizer_bytes, p->activation_bytes,
                              p->transient_bytes + p->nccl_bytes};
    for (size_t i = 0; i < sizeof bytes / sizeof bytes[0]; i++) { row->memory_bytes[i] = (double)bytes[i]; }
    row->total_bytes = (double)p->total_bytes;
    row->capacity_bytes = (double)p->capacity_bytes;
    const double seconds[] = {p->forward_s,      p->backward_s,           p->recompute_s, p->layer_exposed_s,
                              p->grad_exposed_s, p->param_sync_exposed_s, p->optimizer_s, p->other_s};
    memcpy(row->time_s, seconds, sizeof seconds);
}

/* {"feasible": false}: only why. */
static redco_status read_refusal(const redco_json_value *root, struct plot_plan *row, redco_error *err)
{
    uint32_t version = 0;
    redco_status st = redco_json_format(root, "redco-plan", REDCO_PLAN_VERSION, &version, err);
    if (st == REDCO_OK) { st = redco_json_string(root, "strategy", &row->name, err); }
    if (st == REDCO_OK) { st = redco_json_string(root, "reason", &row->reason, err); }
    if (st == REDCO_OK && redco_json_has(root, "gpus")) {
        st = redco_json_u64(root, "gpus", 1, (uint64_t)1 << 40, &row->gpus, err);
    }
    if (st == REDCO_OK && redco_json_has(root, "short_bytes")) {
        st = redco_json_number(root, "short_bytes", 0.0, most_bytes, &row->short_bytes, err);
    }
    return st;
}

static redco_status add_one(const redco_json_value *value, bool chosen, bool listed, struct plot_plans *plans,
                            redco_error *err)
{
    struct plot_plan row = {.chosen = chosen, .listed = listed};
    redco_plan *plan = NULL;
    bool feasible = true;
    redco_status st = REDCO_OK;
    (void)redco_json_place(value, NULL, row.place, sizeof row.place);
    if (redco_json_has(value, "feasible")) { st = redco_json_bool(value, "feasible", &feasible, err); }
    if (st == REDCO_OK && !feasible) { st = read_refusal(value, &row, err); }
    if (st == REDCO_OK && feasible) {
        st = redco_plan_from_json(value, &plan, err);
        if (st == REDCO_OK) { take(&row, plan); }
    }
    if (st == REDCO_OK) { st = plot_plans_add(plans, &row, err); }
    if (st != REDCO_OK) { redco_plan_free(plan); }
    return st;
}

/* One plan; --compare: {"plans", "optimum"}; --sweep: {"plans"} with GPUs; --top: {"plans"}, best first. */
redco_status plot_plans_read(const redco_json_value *root, struct plot_plans *plans, redco_error *err)
{
    redco_json_value list;
    redco_json_value value;
    size_t count = 0;
    if (!redco_json_has(root, "plans")) { return add_one(root, true, false, plans, err); }
    redco_status st = redco_json_array(root, "plans", &list, &count, err);
    if (st != REDCO_OK) { return st; }
    if (count == 0 || count > MOST_PLANS) {
        return redco_json_fail(root, "plans", err, "holds %zu plans, not 1 to %d", count, MOST_PLANS);
    }
    const bool compared = redco_json_has(root, "optimum");
    if (compared) {
        st = redco_json_object(root, "optimum", &value, err);
        if (st == REDCO_OK) { st = add_one(&value, true, false, plans, err); }
    }
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        st = redco_json_element(&list, i, &value, err);
        const bool swept = st == REDCO_OK && redco_json_has(&value, "gpus");
        if (st == REDCO_OK) { st = add_one(&value, !compared && (swept || i == 0), !compared && !swept, plans, err); }
    }
    return st;
}
