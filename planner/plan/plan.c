#include "planner/plan/plan_internal.h"

#include "topology/base/file.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const redco_precision_words[] = {"bf16", "fp16", "fp32", NULL};
const char *const redco_gemm_format_words[] = {"", "fp8", "mxfp8", "nvfp4", NULL};

#define SECONDS(group, key, member)                                                                                    \
    {                                                                                                                  \
        group, key, offsetof(redco_plan_predicted, member), false, false                                               \
    }
#define NEWER(key, member)                                                                                             \
    {                                                                                                                  \
        NULL, key, offsetof(redco_plan_predicted, member), false, true                                                 \
    }
#define BYTES(key, member, newer)                                                                                      \
    {                                                                                                                  \
        "memory_bytes", key, offsetof(redco_plan_predicted, member), true, newer                                       \
    }
static const redco_plan_field fields[] = {
    SECONDS(NULL, "step_s", step_s),
    SECONDS(NULL, "tokens_per_s_per_gpu", tokens_per_s_per_gpu),
    SECONDS(NULL, "mfu", mfu),
    SECONDS(NULL, "model_flops_per_token", model_flops_per_token),
    SECONDS(NULL, "compute_s", compute_s),
    SECONDS(NULL, "exposed_comm_s", exposed_comm_s),
    NEWER("energy_j", energy_j),
    NEWER("energy_j_per_token", energy_j_per_token),
    NEWER("watts_per_gpu", watts_per_gpu),
    SECONDS("time", "forward_s", forward_s),
    SECONDS("time", "backward_s", backward_s),
    SECONDS("time", "recompute_s", recompute_s),
    SECONDS("time", "layer_exposed_s", layer_exposed_s),
    SECONDS("time", "grad_reduce_exposed_s", grad_exposed_s),
    SECONDS("time", "broadcast_exposed_s", param_sync_exposed_s),
    SECONDS("time", "optimizer_s", optimizer_s),
    SECONDS("time", "other_s", other_s),
    SECONDS("comm", "gather_s", gather_s),
    SECONDS("comm", "reduce_scatter_s", reduce_scatter_s),
    SECONDS("comm", "grad_reduce_s", grad_reduce_s),
    SECONDS("comm", "grad_shard_s", grad_shard_s),
    SECONDS("comm", "broadcast_s", broadcast_s),
    SECONDS("comm", "tp_s", tp_s),
    SECONDS("comm", "amsp_total_s", amsp_total_s),
    BYTES("parameters", parameter_bytes, false),
    BYTES("gradients", gradient_bytes, false),
    BYTES("optimizer", optimizer_bytes, false),
    BYTES("activations", activation_bytes, false),
    BYTES("transient", transient_bytes, false),
    BYTES("nccl_buffers", nccl_bytes, true),
    BYTES("allocated", allocated_bytes, true),
    BYTES("total", total_bytes, false),
    BYTES("capacity", capacity_bytes, false),
    BYTES("uncertain", uncertain_bytes, true),
    BYTES("host", host_bytes, true),
};
#undef SECONDS
#undef NEWER
#undef BYTES

const redco_plan_field *redco_plan_fields(size_t *count_out)
{
    *count_out = sizeof fields / sizeof fields[0];
    return fields;
}

redco_parallel redco_plan_parallel(const redco_plan *plan)
{
    return (redco_parallel){.nodes = plan->nodes,
                            .gpus_per_node = plan->gpus_per_node,
                            .tp = plan->parallelism.tp,
                            .cp = plan->parallelism.cp,
                            .pp = plan->parallelism.pp,
                            .dp = plan->parallelism.dp,
                            .states_over_cp = plan->engine.shard_over_cp,
                            .cp_type = plan->parallelism.cp_type};
}

redco_mesh redcoi_plan_expert_replicas(const redco_plan *plan)
{
    const redco_parallel parallel = redco_plan_parallel(plan);
    const redco_rank_grid dense = redco_parallel_grid(&parallel);
    redco_rank_grid experts;
    if (redco_grid_of_experts(&dense, plan->parallelism.etp, plan->parallelism.ep, 0, &experts, NULL) != REDCO_OK) {
        return (redco_mesh){0, 0};
    }
    const uint32_t replicas = experts.degrees[REDCO_DIM_EDP];
    const uint32_t in_node =
        redco_dp_in_node(plan->gpus_per_node, (uint64_t)plan->parallelism.etp * plan->parallelism.ep);
    return replicas <= in_node ? (redco_mesh){replicas, 1} : (redco_mesh){in_node, replicas / in_node};
}

redco_mesh redco_plan_grid(const redco_plan *plan)
{
    const redco_parallel p = redco_plan_parallel(plan);
    return redco_parallel_state_grid(&p);
}

redco_plan *redco_plan_new(void)
{
    redco_plan *plan = calloc(1, sizeof *plan);
    if (plan != NULL) {
        plan->parallelism.pp = plan->parallelism.chunks = plan->parallelism.cp = 1;
        plan->parallelism.ep = plan->parallelism.etp = 1;
        plan->hosts_per_node = 1;
        (void)snprintf(plan->engine.name, sizeof plan->engine.name, "amsp");
    }
    return plan;
}

void redco_plan_free(redco_plan *plan)
{
    if (plan == NULL) { return; }
    free(plan->strategy);
    free(plan->model_name);
    free(plan->model_type);
    json_decref(plan->model_config);
    json_decref(plan->model_defaults);
    free(plan->cluster_name);
    free(plan->gpu_name);
    json_decref(plan->cluster_description);
    json_decref(plan->calibration);
    json_decref(plan->execution);
    json_decref(plan->evidence);
    free(plan->layers);
    free(plan->split);
    free(plan->tp_placement);
    for (uint32_t i = 0; i < plan->rules_count; i++) { free(plan->rules[i].match); }
    free(plan->rules);
    for (uint32_t i = 0; i < plan->hosts_count; i++) { free(plan->hosts[i]); }
    free(plan->hosts);
    free(plan->rank_order);
    free(plan->gpu_order);
    free(plan->solver_name);
    free(plan->solver_status);
    free(plan->redco_version);
    free(plan);
}

uint64_t redco_plan_gpus(const redco_plan *plan)
{
    return (uint64_t)plan->nodes * plan->gpus_per_node;
}

bool redcoi_plan_close(double a, double b)
{
    const double allowed_ratio = 1e-7; /* a product of a few rounded factors is off by some 1e-9 */
    return fabs(a - b) <= allowed_ratio * fmax(fabs(a), fabs(b));
}

bool redco_plan_digest(const json_t *value, char hex_out[65])
{
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(REDCO_PLAN_DIGITS));
    if (text == NULL) { return false; }
    redco_sha256_hex(text, strlen(text), hex_out);
    free(text);
    return true;
}

redco_status redco_plan_write(const redco_plan *plan, const char *path, redco_error *err)
{
    size_t size = 0;
    char *text = NULL;
    json_t *json = redco_plan_to_json(plan);
    redco_status st = REDCO_ENOMEM;
    if (json == NULL || json_object_set_new(json_object_get(json, "solver"), "seconds", json_real(0.0)) != 0 ||
        (text = redco_json_text(json, REDCO_PLAN_DIGITS, &size)) == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, path, "out of memory");
        goto out;
    }
    st = redco_file_write(path, text, size, err);
out:
    free(text);
    json_decref(json);
    return st;
}
