/* Plans out of the documents of redco-plan --json, in each of its shapes. */
#include "planner/plan/plan.h"
#include "tools/plot.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_PLANS = 100000 };
static const double most_s = 1e12;
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

static redco_status read_numbers(const redco_json_value *object, const char *const *keys, size_t count, double most,
                                 double *out, redco_error *err)
{
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        st = redco_json_number(object, keys[i], 0.0, most, &out[i], err);
    }
    return st;
}

static redco_status read_predicted(const redco_json_value *root, struct plot_plan *plan, redco_error *err)
{
    static const char *const memory[] = {"parameters", "gradients", "optimizer", "activations", "transient"};
    static const char *const time[] = {
        "forward_s",           "backward_s",  "recompute_s", "layer_exposed_s", "grad_reduce_exposed_s",
        "broadcast_exposed_s", "optimizer_s", "other_s"};
    redco_json_value predicted;
    redco_json_value part;
    redco_status st = redco_json_object(root, "predicted", &predicted, err);
    if (st != REDCO_OK || (st = redco_json_number(&predicted, "step_s", 0.0, most_s, &plan->step_s, err)) != REDCO_OK ||
        (st = redco_json_number(&predicted, "tokens_per_s_per_gpu", 0.0, most_s, &plan->tokens_per_s_per_gpu, err)) !=
            REDCO_OK ||
        (st = redco_json_number(&predicted, "mfu", 0.0, 1e6, &plan->mfu, err)) != REDCO_OK ||
        (st = redco_json_object(&predicted, "memory_bytes", &part, err)) != REDCO_OK ||
        (st = read_numbers(&part, memory, 5, most_bytes, plan->memory_bytes, err)) != REDCO_OK ||
        (st = redco_json_number(&part, "total", 0.0, most_bytes, &plan->total_bytes, err)) != REDCO_OK ||
        (st = redco_json_number(&part, "capacity", 0.0, most_bytes, &plan->capacity_bytes, err)) != REDCO_OK) {
        return st;
    }
    if (redco_json_has(&predicted, "tokens_per_s_per_gpu_band") &&
        (st = redco_json_number(&predicted, "tokens_per_s_per_gpu_band", 0.0, most_s, &plan->band, err)) != REDCO_OK) {
        return st;
    }
    if (!redco_json_has(&predicted, "time")) { return REDCO_OK; }
    st = redco_json_object(&predicted, "time", &part, err);
    return st == REDCO_OK ? read_numbers(&part, time, 8, most_s, plan->time_s, err) : st;
}

static redco_status read_overlap(const redco_json_value *workload, unsigned *bits_out, redco_error *err)
{
    redco_json_value list;
    redco_json_value word;
    size_t count = 0;
    *bits_out = 0;
    if (!redco_json_has(workload, "overlap")) { return REDCO_OK; }
    redco_status st = redco_json_array(workload, "overlap", &list, &count, err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        unsigned bit = 0;
        if ((st = redco_json_element(&list, i, &word, err)) != REDCO_OK) { break; }
        const char *text = json_string_value(word.json);
        while (text != NULL && redco_overlap_words[bit] != NULL && strcmp(redco_overlap_words[bit], text) != 0) {
            bit++;
        }
        if (text == NULL || redco_overlap_words[bit] == NULL) {
            return redco_json_fail(&word, NULL, err, "is not one of: ag_rs, ar, bc");
        }
        *bits_out |= 1U << bit;
    }
    return st;
}

static redco_status read_mesh(const redco_json_value *entry, const char *key, redco_mesh *mesh, redco_error *err)
{
    redco_json_value value;
    redco_status st = redco_json_object(entry, key, &value, err);
    if (st == REDCO_OK) { st = redco_json_u32(&value, "gpus", 1, 1U << 24, &mesh->gpus, err); }
    return st == REDCO_OK ? redco_json_u32(&value, "nodes", 1, 1U << 24, &mesh->nodes, err) : st;
}

/* The meshes of the entry with the most layers: all of them when the plan is uniform. */
static redco_status read_shards(const redco_json_value *root, redco_shards *shards, redco_error *err)
{
    redco_json_value list;
    redco_json_value entry;
    size_t count = 0;
    json_int_t most = -1;
    redco_status st = redco_json_array(root, "sharding", &list, &count, err);
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        if ((st = redco_json_element(&list, i, &entry, err)) != REDCO_OK) { break; }
        const json_t *range = json_object_get(entry.json, "layers");
        const json_int_t layers =
            json_integer_value(json_array_get(range, 1)) - json_integer_value(json_array_get(range, 0));
        if (layers <= most) { continue; }
        most = layers;
        if ((st = read_mesh(&entry, "parameters", &shards->parameters, err)) == REDCO_OK &&
            (st = read_mesh(&entry, "gradients", &shards->gradients, err)) == REDCO_OK) {
            st = read_mesh(&entry, "optimizer", &shards->optimizer, err);
        }
    }
    return st;
}

static redco_status read_dp(const redco_json_value *root, redco_mesh *dp, redco_error *err)
{
    redco_json_value mesh;
    if (!redco_json_has(root, "mesh")) { return REDCO_OK; }
    const redco_status st = redco_json_object(root, "mesh", &mesh, err);
    return st == REDCO_OK ? read_mesh(&mesh, "dp", dp, err) : st;
}

static redco_status read_question(const redco_json_value *root, struct plot_plan *plan, redco_error *err)
{
    redco_json_value model;
    redco_json_value cluster;
    redco_json_value workload;
    uint64_t nodes = 0;
    uint64_t per_node = 0;
    redco_status st = redco_json_object(root, "model", &model, err);
    if (st != REDCO_OK || (st = redco_json_string(&model, "name", &plan->model, err)) != REDCO_OK ||
        (st = redco_json_object(root, "cluster", &cluster, err)) != REDCO_OK ||
        (st = redco_json_string(&cluster, "name", &plan->cluster, err)) != REDCO_OK ||
        (st = redco_json_string(&cluster, "gpu", &plan->gpu, err)) != REDCO_OK ||
        (st = redco_json_u64(&cluster, "nodes", 1, 1U << 24, &nodes, err)) != REDCO_OK ||
        (st = redco_json_u64(&cluster, "gpus_per_node", 1, 1U << 16, &per_node, err)) != REDCO_OK ||
        (st = redco_json_object(root, "workload", &workload, err)) != REDCO_OK ||
        (st = redco_json_u32(&workload, "seq_len", 1, 1U << 30, &plan->seq_len, err)) != REDCO_OK ||
        (st = redco_json_u64(&workload, "global_batch", 1, (uint64_t)1 << 40, &plan->global_batch, err)) != REDCO_OK ||
        (st = redco_json_u64(&workload, "micro_batch", 1, 1U << 30, &plan->micro_batch, err)) != REDCO_OK ||
        (st = redco_json_u64(&workload, "micro_batches", 1, (uint64_t)1 << 40, &plan->micro_batches, err)) !=
            REDCO_OK) {
        return st;
    }
    plan->gpus = nodes * per_node;
    if ((st = read_dp(root, &plan->dp, err)) != REDCO_OK) { return st; }
    if (redco_json_has(root, "sharding") && (st = read_shards(root, &plan->shards, err)) != REDCO_OK) { return st; }
    return read_overlap(&workload, &plan->overlap, err);
}

static redco_status read_plan(const redco_json_value *root, struct plot_plan *plan, redco_error *err)
{
    uint32_t version = 0;
    bool feasible = true;
    redco_status st = redco_json_format(root, "redco-plan", REDCO_PLAN_VERSION, &version, err);
    if (st == REDCO_OK) { st = redco_json_string(root, "strategy", &plan->name, err); }
    if (st == REDCO_OK && redco_json_has(root, "feasible")) { st = redco_json_bool(root, "feasible", &feasible, err); }
    if (st == REDCO_OK && redco_json_has(root, "gpus")) {
        st = redco_json_u64(root, "gpus", 1, (uint64_t)1 << 40, &plan->gpus, err);
    }
    if (st != REDCO_OK) { return st; }
    if (feasible) {
        st = read_question(root, plan, err);
        return st == REDCO_OK ? read_predicted(root, plan, err) : st;
    }
    st = redco_json_string(root, "reason", &plan->reason, err);
    if (st == REDCO_OK && redco_json_has(root, "short_bytes")) {
        st = redco_json_number(root, "short_bytes", 0.0, most_bytes, &plan->short_bytes, err);
    }
    return st;
}

static redco_status add_one(const redco_json_value *value, bool chosen, bool listed, struct plot_plans *plans,
                            redco_error *err)
{
    struct plot_plan plan = {.chosen = chosen, .listed = listed};
    const redco_status st = read_plan(value, &plan, err);
    return st == REDCO_OK ? plot_plans_add(plans, &plan, err) : st;
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
