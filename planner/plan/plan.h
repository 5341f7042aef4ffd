/** @file plan.h  The plan: what was chosen, what is predicted, from which inputs. The plan file is the JSON document of
 *  redco-plan --json (its JSON Schema: planner/plan/plan.schema.json). Own library: executors read plans without the
 *  planner. */
#ifndef REDCO_PLAN_H
#define REDCO_PLAN_H

#include "costmodel/engines/bands.h"
#include "costmodel/engines/engine.h"
#include "costmodel/schedules/dimensions.h"
#include "topology/base/json.h"
#include "topology/base/status.h"
#include "topology/ranks/parallel.h"

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_PLAN_VERSION = 2, REDCO_PLAN_DIGITS = 10 /**< significant digits of every number written */ };

/** Consecutive layers first_layer..last_layer of one class under one configuration. */
typedef struct redco_plan_layers {
    char class_name[24];
    uint32_t first_layer, last_layer;
    redco_shards shards;
    redco_recompute recompute;
    redco_shards experts; /**< redco_parallelism.experts where its layers have some; 0x0: none are given */
} redco_plan_layers;

typedef struct redco_plan_rule {
    char *match; /**< RedCoast key, e.g. "q_proj/kernel" */
    int32_t dim; /**< split dimension, -1 = replicated */
    uint32_t
        unit; /**< elements of it that stay together; where there are fewer units than ranks, neighbours share one */
    uint32_t parts; /**< it consists of so many equal parts, each split alike (queries, keys, values) */
} redco_plan_rule;

/** The object "predicted" of plan files (plan.schema.json); seconds and bytes. */
typedef struct redco_plan_predicted {
    redco_band band;  /**< on tokens_per_s_per_gpu; all 0: none is claimed */
    char unseen[160]; /**< the part of engine and GPU that no run that constants are fitted to has; "" = nothing, or not
                         known */
    char beyond_mfu[128]; /**< why its MFU is beyond all evidence; "" = it is not, or nothing is known of it */
    double step_s, tokens_per_s_per_gpu, tokens_per_s_per_gpu_band /**< half-width; 0 = none is claimed */, mfu,
        model_flops_per_token, compute_s, exposed_comm_s;
    double energy_j, energy_j_per_token, watts_per_gpu; /**< costmodel/operators/power.h; 0 = not known */
    double gather_s, reduce_scatter_s, grad_reduce_s, grad_shard_s, broadcast_s, tp_s, amsp_total_s;
    /** Where step_s goes. */
    double forward_s, backward_s, recompute_s, optimizer_s, other_s, layer_exposed_s, grad_exposed_s,
        param_sync_exposed_s;
    uint64_t parameter_bytes, gradient_bytes, optimizer_bytes, activation_bytes, transient_bytes,
        nccl_bytes /**< NCCL's buffers */, allocated_bytes /**< total without these and the reserve */, total_bytes,
        capacity_bytes, uncertain_bytes, /**< so close to the capacity, total_bytes may not fit */
        host_bytes;                      /**< states in the memory of the host */
} redco_plan_predicted;

/** The closed form's numbers, which the planner optimised, beside the simulator's. */
typedef struct redco_plan_closed_form {
    double step_s, tokens_per_s_per_gpu, mfu, compute_s, exposed_comm_s;
    uint64_t total_bytes;
} redco_plan_closed_form;

/** One number of redco_plan_predicted and its place in the file. */
typedef struct redco_plan_field {
    const char *group; /**< member of "predicted", NULL for its own members */
    const char *key;
    size_t offset; /**< in redco_plan_predicted */
    bool bytes;    /**< uint64_t, else double */
    bool newer;    /**< older plans lack it; null where it is not known (0 here) */
} redco_plan_field;

/** All of them in file order (tokens_per_s_per_gpu_band, which may be null, aside). */
const redco_plan_field *redco_plan_fields(size_t *count_out);

/** An owning record: strings and arrays belong to it; json members are references it holds. Filled by the planner or
 *  by redco_plan_read(); freed by redco_plan_free(). */
/** The work of a search (planner/search/search.h, redco_search_counts); all 0 in plans of before it was counted. */
typedef struct redco_plan_counts {
    uint64_t listed, bounded, priced, solved, simulated;
} redco_plan_counts;

typedef struct redco_plan {
    char *strategy; /**< "optimum", "fixed", or a name of --strategy */
    char *model_name, *model_type;
    uint64_t params;
    uint64_t active_params;  /**< that a token meets; 0 in older plans */
    uint64_t trained_params; /**< 0 in older plans */
    uint32_t model_layers;
    json_t *model_config;   /**< HuggingFace config: the plan is self-contained */
    json_t *model_defaults; /**< from redco_model_defaults(); NULL or empty: the config states all sizes */
    char *cluster_name, *gpu_name;
    uint32_t nodes, gpus_per_node, hosts_per_node; /**< in use */
    json_t *cluster_description;                   /**< from redco_cluster_describe() */
    json_t *calibration;                           /**< from redco_calibration_describe() */
    uint32_t seq_len;
    uint64_t global_batch;
    redco_precision precision;
    redco_engine engine;     /**< every trait; plans without one are of AMSP's engine. */
    char engine_reason[256]; /**< why this engine; "" = not known */
    uint32_t overlap;
    bool mfu_causal;
    uint64_t bucket_bytes;
    redco_parallelism parallelism; /**< chunks, ep and etp at least 1; split NULL: it is the next member */
    uint32_t *split;               /**< blocks of each position, split_count of them (stages.h); NULL: equal shares */
    uint32_t split_count;
    redco_plan_layers *layers;
    uint32_t layers_count;
    char *tp_placement; /**< "rules", "milp", "user", "paired" */
    redco_plan_rule *rules;
    uint32_t rules_count;
    char **hosts; /**< rank order; may be empty */
    uint32_t hosts_count;
    char *rank_order;
    uint32_t *gpu_order; /**< GPU of its node that each place takes, gpus_per_node of them; NULL: 0, 1, 2, ... */
    uint32_t spanning_groups;
    redco_plan_predicted predicted;
    redco_plan_closed_form
        closed_form; /**< step_s 0: a plan of before it was kept; predicted is the closed form's then */
    char *solver_name, *solver_status;
    bool objective_comm; /**< solver_objective is the paper's T_comm instead of the step time */
    double solver_objective, solver_gap, solver_seconds;
    uint64_t solver_candidates;
    double solver_within; /**< other layouts are faster by the simulator by no more than this share; < 0: not known */
    redco_plan_counts solver_counts;
    json_t *execution; /**< from redco_plan_execution(): whether redco-exec runs it; NULL: an older plan */
    json_t *evidence;  /**< from redco_evidence_describe(): measured layouts about this one; NULL: none are known */
    char model_sha256[65], cluster_sha256[65], profile_sha256[65]; /**< from redco_plan_digest(); "" = no profile */
    char *redco_version;
} redco_plan;

redco_plan *redco_plan_new(void); /**< NULL when out of memory */
void redco_plan_free(redco_plan *plan);
uint64_t redco_plan_gpus(const redco_plan *plan);
redco_parallel redco_plan_parallel(const redco_plan *plan); /**< its degrees on its nodes */
/** The ranks that states are sharded over: dp, or dp x cp where the engine has it so. */
redco_mesh redco_plan_grid(const redco_plan *plan);

/** SHA-256 of the value's compact text (no white space, members in their order, numbers as in plan files), so that
 *  whoever has the plan can compute it again. @return false when out of memory */
bool redco_plan_digest(const json_t *value, char hex_out[65]);

/** {"predicted": ..., "closed_form": ...}: a new reference, or NULL when out of memory. */
json_t *redco_plan_prediction_json(const redco_plan_predicted *predicted, const redco_plan_closed_form *closed_form);

/** New reference to the JSON document, or NULL when out of memory. */
json_t *redco_plan_to_json(const redco_plan *plan);

/** Reads and checks a plan on its own: version, ranges, and that its numbers agree with one another (mesh against GPU
 *  count, micro-batches against batch, AMSP's dependency rule, layers covered exactly once, memory sum, digests).
 *  The error names file and JSON pointer. */
redco_status redco_plan_read(const char *path, redco_plan **plan_out, redco_error *err);
redco_status redco_plan_from_json(const redco_json_value *root, redco_plan **plan_out, redco_error *err);

/** Written whole or not at all. solver.seconds, the one number that no two runs share, is written as 0:
 *  the same inputs give the same bytes, so that plan files can be compared and hashed. */
redco_status redco_plan_write(const redco_plan *plan, const char *path, redco_error *err);

/** "fp8", "mxfp8", "nvfp4": precisions that are formats of the products alone, by redco_gemm_format. */
extern const char *const redco_gemm_format_words[];
/** The words of plan files and command lines, NULL-terminated, indexed by the enum. */
extern const char *const redco_precision_words[];

/** Where redco-exec computes. */
typedef enum redco_executor { REDCO_EXECUTOR_HOST, REDCO_EXECUTOR_CUDA, REDCO_EXECUTORS } redco_executor;
/** "host", "cuda"; NULL-terminated, indexed by the enum: words of redco-exec --backend and of plan files. */
extern const char *const redco_executor_words[];

#ifdef __cplusplus
}
#endif
#endif
