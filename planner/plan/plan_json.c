/* A plan as its JSON document. Members appear in the order of the contract, with what makes the file self-contained
 * behind them. json_pack() takes over every 'o' also when it fails. */
#include "costmodel/engines/assumptions.h"
#include "planner/plan/plan_internal.h"

#include <stdio.h>
#include <string.h>

/* The words of closed_form/memory_model.h; plans from before have no band. */
static const char *memory_verdict(const redco_plan_predicted *p)
{
    if (p->total_bytes + p->uncertain_bytes <= p->capacity_bytes) { return "fits"; }
    return p->total_bytes <= p->capacity_bytes + p->uncertain_bytes ? "may not fit" : "does not fit";
}

/* New reference; an absent value is an empty object so that json_pack() does not fail. */
static json_t *shared(json_t *value)
{
    return value != NULL ? json_incref(value) : json_object();
}

static json_t *model_json(const redco_plan *plan)
{
    json_t *const json = json_pack("{s:s,s:s,s:I,s:I}", "name", plan->model_name, "type", plan->model_type, "params",
                                   (json_int_t)plan->params, "layers", (json_int_t)plan->model_layers);
    if (plan->active_params != 0 && plan->active_params != plan->params) {
        (void)json_object_set_new(json, "active_params", json_integer((json_int_t)plan->active_params));
    }
    if (plan->trained_params != 0 && plan->trained_params != plan->params) {
        (void)json_object_set_new(json, "trained_params", json_integer((json_int_t)plan->trained_params));
    }
    if (json_object_size(plan->model_defaults) > 0) { (void)json_object_set(json, "defaults", plan->model_defaults); }
    if (json_object_set_new(json, "config", shared(plan->model_config)) == 0) { return json; }
    json_decref(json);
    return NULL;
}

static json_t *cluster_json(const redco_plan *plan)
{
    return json_pack("{s:s,s:I,s:I,s:s,s:I,s:o}", "name", plan->cluster_name, "nodes", (json_int_t)plan->nodes,
                     "gpus_per_node", (json_int_t)plan->gpus_per_node, "gpu", plan->gpu_name, "hosts_per_node",
                     (json_int_t)plan->hosts_per_node, "description", shared(plan->cluster_description));
}

static json_t *overlap_json(uint32_t overlap)
{
    json_t *array = json_array();
    for (uint32_t i = 0; redco_overlap_words[i] != NULL && array != NULL; i++) {
        if ((overlap >> i & 1) != 0 && json_array_append_new(array, json_string(redco_overlap_words[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static const char *precision_word(const redco_plan *plan)
{
    const redco_gemm_format format = plan->engine.gemm_format;
    return format != REDCO_GEMM_SAME ? redco_gemm_format_words[format] : redco_precision_words[plan->precision];
}

/* Chosen values stand among those that are given. */
static json_t *workload_json(const redco_plan *plan)
{
    json_t *const json =
        json_pack("{s:I,s:I}", "seq_len", (json_int_t)plan->seq_len, "global_batch", (json_int_t)plan->global_batch);
    (void)redco_parallelism_write(&plan->parallelism, "micro_batch micro_batches", json);
    (void)json_object_set_new(json, "precision", json_string(precision_word(plan)));
    (void)redco_parallelism_write(&plan->parallelism, "scheme", json);
    (void)json_object_set_new(json, "overlap", overlap_json(plan->overlap));
    (void)redco_parallelism_write(&plan->parallelism, "sequence_parallel", json);
    (void)json_object_set_new(json, "bucket_bytes", json_integer((json_int_t)plan->bucket_bytes));
    json_t *const convention = json_string(plan->mfu_causal ? "causal" : "full");
    if (json_object_set_new(json, "mfu_convention", convention) == 0) { return json; }
    json_decref(json);
    return NULL;
}

static json_t *all_mesh_json(const redco_plan *plan)
{
    json_t *const json = json_object();
    (void)redco_parallelism_write(&plan->parallelism, "tp pp cp ep dp etp", json);
    (void)json_object_set_new(json, "edp", redco_mesh_json(redcoi_plan_expert_replicas(plan)));
    if (redco_parallelism_write(&plan->parallelism, "pp_chunks sequence_parallel secondary +", json)) { return json; }
    json_decref(json);
    return NULL;
}

/* Meshes that are given. */
static json_t *experts_json(const redco_shards *experts)
{
    const struct {
        const char *key;
        redco_mesh mesh;
    } meshes[] = {
        {"parameters", experts->parameters}, {"gradients", experts->gradients}, {"optimizer", experts->optimizer}};
    json_t *const json = json_object();
    for (size_t i = 0; i < sizeof meshes / sizeof meshes[0]; i++) {
        if (meshes[i].mesh.gpus > 0) {
            (void)json_object_set_new(json, meshes[i].key, redco_mesh_json(meshes[i].mesh));
        }
    }
    if (json_object_size(json) > 0) { return json; }
    json_decref(json);
    return NULL;
}

static json_t *sharding_json(const redco_plan *plan)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < plan->layers_count && array != NULL; i++) {
        const redco_plan_layers *row = &plan->layers[i];
        char recompute[REDCO_RECOMPUTE_TEXT];
        json_t *entry = json_pack(
            "{s:s,s:[I,I],s:o,s:o,s:o,s:o*,s:s}", "class", row->class_name, "layers", (json_int_t)row->first_layer,
            (json_int_t)row->last_layer, "parameters", redco_mesh_json(row->shards.parameters), "gradients",
            redco_mesh_json(row->shards.gradients), "optimizer", redco_mesh_json(row->shards.optimizer), "experts",
            experts_json(&row->experts), "recompute",
            redco_recompute_text(row->recompute, plan->engine.partial_recompute, recompute, sizeof recompute));
        if (json_array_append_new(array, entry) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return array;
}

static json_t *tensor_parallel_json(const redco_plan *plan)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < plan->rules_count && array != NULL; i++) {
        const redco_plan_rule *rule = &plan->rules[i];
        json_t *entry = json_pack("{s:s,s:o}", "match", rule->match, "dim",
                                  rule->dim < 0 ? json_null() : json_integer((json_int_t)rule->dim));
        if (rule->unit > 1) { (void)json_object_set_new(entry, "unit", json_integer((json_int_t)rule->unit)); }
        if (rule->parts > 1) { (void)json_object_set_new(entry, "parts", json_integer((json_int_t)rule->parts)); }
        if (json_array_append_new(array, entry) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    return json_pack("{s:s,s:o}", "placement", plan->tp_placement, "rules", array);
}

static json_t *placement_json(const redco_plan *plan)
{
    json_t *array = json_array();
    for (uint32_t i = 0; i < plan->hosts_count && array != NULL; i++) {
        if (json_array_append_new(array, json_string(plan->hosts[i])) != 0) {
            json_decref(array);
            array = NULL;
        }
    }
    json_t *json = json_pack("{s:o,s:s}", "hosts", array, "rank_order", plan->rank_order);
    if (plan->gpu_order != NULL) {
        json_t *order = json_array();
        for (uint32_t i = 0; i < plan->gpus_per_node; i++) {
            (void)json_array_append_new(order, json_integer((json_int_t)plan->gpu_order[i]));
        }
        (void)json_object_set_new(json, "gpu_order", order);
    }
    if (json_object_set_new(json, "spanning_groups", json_integer((json_int_t)plan->spanning_groups)) == 0) {
        return json;
    }
    json_decref(json);
    return NULL;
}

/* Tokens/s/GPU. */
static json_t *band_json(const redco_plan_predicted *predicted)
{
    const double tokens = predicted->tokens_per_s_per_gpu;
    const redco_band *const band = &predicted->band;
    return json_pack("{s:[f,f],s:[f,f],s:o}", "68", tokens * band->low_68, tokens * band->high_68, "90",
                     tokens * band->low_90, tokens * band->high_90, "unseen",
                     predicted->unseen[0] != '\0' ? json_string(predicted->unseen) : json_null());
}

static json_t *predicted_json(const redco_plan_predicted *predicted)
{
    size_t count = 0;
    const redco_plan_field *field = redco_plan_fields(&count);
    json_t *json = json_object();
    for (size_t i = 0; i < count; i++, field++) {
        const char *at = (const char *)predicted + field->offset;
        json_t *object = json;
        json_t *number = NULL;
        if (field->group != NULL) {
            object = json_object_get(json, field->group);
            if (object == NULL) {
                (void)json_object_set_new(json, field->group, json_object());
                object = json_object_get(json, field->group);
            }
        }
        if (field->bytes) {
            uint64_t bytes = 0;
            memcpy(&bytes, at, sizeof bytes);
            if (bytes == 0 && field->offset == offsetof(redco_plan_predicted, host_bytes)) { continue; }
            number = json_integer((json_int_t)bytes);
        } else {
            double value = 0.0;
            memcpy(&value, at, sizeof value);
            number = field->newer && !(value > 0.0) ? json_null() : json_real(value);
        }
        if (json_object_set_new(object, field->key, number) != 0) {
            json_decref(json);
            return NULL;
        }
        if (field->offset == offsetof(redco_plan_predicted, tokens_per_s_per_gpu)) {
            const double band = predicted->tokens_per_s_per_gpu_band;
            (void)json_object_set_new(json, "tokens_per_s_per_gpu_band", band > 0.0 ? json_real(band) : json_null());
            if (predicted->band.high_68 > 0.0) { (void)json_object_set_new(json, "band", band_json(predicted)); }
        }
    }
    (void)json_object_set_new(json, "memory_verdict", json_string(memory_verdict(predicted)));
    if (predicted->mfu > 1.0) { (void)json_object_set_new(json, "mfu_above_one", json_true()); }
    if (predicted->beyond_mfu[0] != '\0') {
        (void)json_object_set_new(json, "beyond_evidence", json_string(predicted->beyond_mfu));
    }
    return json;
}

static json_t *engine_json(const redco_plan *plan)
{
    const redco_engine_choice choice = {plan->engine, plan->bucket_bytes};
    json_t *const json = redco_engine_describe(&choice, plan->precision);
    if (json != NULL && plan->engine_reason[0] != '\0') {
        (void)json_object_set_new(json, "source", json_string(plan->engine_reason));
    }
    return json;
}

static json_t *closed_form_json(const redco_plan_closed_form *c)
{
    return json_pack("{s:f,s:f,s:f,s:f,s:f,s:{s:I}}", "step_s", c->step_s, "tokens_per_s_per_gpu",
                     c->tokens_per_s_per_gpu, "mfu", c->mfu, "compute_s", c->compute_s, "exposed_comm_s",
                     c->exposed_comm_s, "memory_bytes", "total", (json_int_t)c->total_bytes);
}

json_t *redco_plan_prediction_json(const redco_plan_predicted *predicted, const redco_plan_closed_form *closed_form)
{
    return json_pack("{s:o,s:o}", "predicted", predicted_json(predicted), "closed_form", closed_form_json(closed_form));
}

static json_t *solver_json(const redco_plan *plan)
{
    const redco_plan_counts *const c = &plan->solver_counts;
    json_t *json =
        json_pack("{s:s,s:s,s:f,s:s,s:f,s:f,s:I}", "name", plan->solver_name, "status", plan->solver_status,
                  "objective", plan->solver_objective, "minimises", plan->objective_comm ? "comm" : "step-time", "gap",
                  plan->solver_gap, "seconds", plan->solver_seconds, "candidates", (json_int_t)plan->solver_candidates);
    if (c->listed > 0) {
        (void)json_object_set_new(json, "counts",
                                  json_pack("{s:I,s:I,s:I,s:I,s:I}", "listed", (json_int_t)c->listed, "bounded",
                                            (json_int_t)c->bounded, "priced", (json_int_t)c->priced, "solved",
                                            (json_int_t)c->solved, "simulated", (json_int_t)c->simulated));
    }
    if (plan->solver_within >= 0.0) { (void)json_object_set_new(json, "within", json_real(plan->solver_within)); }
    return json;
}

json_t *redco_plan_to_json(const redco_plan *plan)
{
    json_t *inputs =
        json_pack("{s:s,s:s,s:s,s:s}", "model_sha256", plan->model_sha256, "cluster_sha256", plan->cluster_sha256,
                  "profile_sha256", plan->profile_sha256, "redco_version", plan->redco_version);
    json_t *const json =
        json_pack("{s:s,s:i,s:b,s:s,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o,s:o}", "format", "redco-plan",
                  "version", REDCO_PLAN_VERSION, "feasible", 1, "strategy", plan->strategy, "model", model_json(plan),
                  "cluster", cluster_json(plan), "workload", workload_json(plan), "engine", engine_json(plan), "mesh",
                  all_mesh_json(plan), "sharding", sharding_json(plan), "tensor_parallel", tensor_parallel_json(plan),
                  "placement", placement_json(plan), "predicted", predicted_json(&plan->predicted), "closed_form",
                  closed_form_json(&plan->closed_form), "solver", solver_json(plan), "calibration",
                  shared(plan->calibration), "inputs", inputs);
    if (plan->execution != NULL) { (void)json_object_set(json, "execution", plan->execution); }
    if (plan->evidence != NULL) { (void)json_object_set(json, "evidence", plan->evidence); }
    if (plan->active_params > 0 && plan->active_params < plan->params) { /* a mixture of experts */
        json_t *const assumed = redco_assumptions_json(&plan->engine, plan->hosts_per_node);
        if (assumed != NULL) { (void)json_object_set_new(json, "assumed", assumed); }
    }
    json_t *const pipeline = redcoi_plan_pipeline_json(plan);
    if (pipeline != NULL) { (void)json_object_set_new(json, "pipeline", pipeline); }
    return json;
}
