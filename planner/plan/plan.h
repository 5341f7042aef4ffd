/** @file plan.h  The plan: what was chosen, what is predicted, from which inputs. The plan file is the JSON document of
 *  redco-plan --json (docs: planner/plan/plan.schema.json). Own library: executors read plans without the planner. */
#ifndef REDCO_PLAN_H
#define REDCO_PLAN_H

#include "topology/base/json.h"
#include "topology/base/sharding.h"
#include "topology/base/status.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Consecutive layers first_layer..last_layer of one class under one configuration. */
typedef struct redco_plan_layers {
    char class_name[24];
    uint32_t first_layer, last_layer;
    redco_shards shards;
    redco_recompute recompute;
} redco_plan_layers;

typedef struct redco_plan_rule {
    const char *match; /**< RedCoast key, e.g. "q_proj/kernel" */
    int32_t dim;       /**< split dimension, -1 = replicated */
} redco_plan_rule;

/** Numbers of DESIGN section 4; seconds and bytes. */
typedef struct redco_plan_predicted {
    double step_s, tokens_per_s_per_gpu, tokens_per_s_per_gpu_band, mfu, model_flops_per_token, compute_s,
        exposed_comm_s;
    double gather_s, reduce_scatter_s, grad_reduce_s, grad_shard_s, broadcast_s, tp_s, amsp_total_s;
    uint64_t parameter_bytes, gradient_bytes, optimizer_bytes, activation_bytes, transient_bytes, total_bytes,
        capacity_bytes;
} redco_plan_predicted;

/** An owning record: strings and arrays belong to it; json members are references it holds. Filled by the planner or
 *  by redco_plan_read(); freed by redco_plan_free(). */
typedef struct redco_plan {
    char *model_name, *model_type;
    uint64_t params;
    uint32_t model_layers;
    json_t *model_config; /**< HuggingFace config: the plan is self-contained */
    char *cluster_name, *gpu_name;
    uint32_t nodes, gpus_per_node;
    json_t *cluster_description; /**< of redco_cluster_describe() */
    json_t *calibration;         /**< of redco_calibration_describe() */
    uint32_t seq_len;
    uint64_t global_batch;
    uint32_t micro_batch;
    uint64_t micro_batches;
    redco_precision precision;
    redco_scheme scheme;
    uint32_t overlap;
    bool sequence_parallel, mfu_causal;
    uint64_t bucket_bytes;
    uint32_t tp, pp, cp;
    redco_mesh dp, secondary; /**< secondary 0x0 = none */
    redco_plan_layers *layers;
    uint32_t layers_count;
    char *tp_placement; /**< "rules" */
    redco_plan_rule *rules;
    uint32_t rules_count;
    char **hosts; /**< rank order; may be empty */
    uint32_t hosts_count;
    char *rank_order;
    uint32_t spanning_groups;
    redco_plan_predicted predicted;
    char *solver_name, *solver_status;
    double solver_objective, solver_gap, solver_seconds;
    uint64_t solver_candidates;
    char model_sha256[65], cluster_sha256[65], profile_sha256[65];
    char *redco_version;
} redco_plan;

redco_plan *redco_plan_new(void); /**< NULL when out of memory */
void redco_plan_free(redco_plan *plan);
/** New reference to the JSON document, or NULL when out of memory. */
json_t *redco_plan_to_json(const redco_plan *plan);
/** Reads and checks a plan on its own: version, ranges, and that its numbers agree with one another (mesh against GPU
 *  count, micro-batches against batch, AMSP's dependency rule, layers covered exactly once, memory sum). */
redco_status redco_plan_read(const char *path, redco_plan **plan_out, redco_error *err);
redco_status redco_plan_from_json(const redco_json_value *root, redco_plan **plan_out, redco_error *err);
/** Written whole or not at all. */
redco_status redco_plan_write(const redco_plan *plan, const char *path, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
