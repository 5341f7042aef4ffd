#include "planner/assemble/assemble.h"

#include "costmodel/closed_form/memory_model.h"
#include "planner/assemble/assemble_internal.h"
#include "planner/executable/executable.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct redco_assembler {
    const redco_inputs *inputs;
    const redco_search_options *options;
    const char *version;
    json_t *cluster_description;
    json_t *calibration;
    char model_sha256[65], cluster_sha256[65];
};

redco_status redco_assembler_create(const redco_inputs *inputs, const redco_search_options *options,
                                    const char *version, redco_assembler **assembler_out, redco_error *err)
{
    redco_assembler *made = calloc(1, sizeof *made);
    if (made == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    made->inputs = inputs;
    made->options = options;
    made->version = version;
    made->cluster_description = redco_cluster_describe(inputs->cluster);
    made->calibration = redco_calibration_describe(&inputs->calibration);
    if (made->cluster_description == NULL || made->calibration == NULL ||
        !redco_plan_digest(redco_model_config(inputs->model), made->model_sha256) ||
        !redco_plan_digest(made->cluster_description, made->cluster_sha256)) {
        redco_assembler_free(made);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    *assembler_out = made;
    return REDCO_OK;
}

void redco_assembler_free(redco_assembler *assembler)
{
    if (assembler == NULL) { return; }
    json_decref(assembler->cluster_description);
    json_decref(assembler->calibration);
    free(assembler);
}

double redco_band_tokens(const redco_calibration *calibration, const redco_prediction *prediction)
{
    return prediction->tokens_per_s_per_gpu * calibration->band_ratio;
}

redco_plan_predicted redcoi_predicted(const redco_prediction *p, const redco_calibration *calibration)
{
    return (redco_plan_predicted){
        .step_s = p->step_s,
        .tokens_per_s_per_gpu = p->tokens_per_s_per_gpu,
        .tokens_per_s_per_gpu_band = redco_band_tokens(calibration, p),
        .band = calibration->band,
        .mfu = p->mfu,
        .model_flops_per_token = p->model_flops_per_token,
        .compute_s = p->compute_s,
        .exposed_comm_s = p->exposed_comm_s,
        .energy_j = p->energy.energy_j,
        .energy_j_per_token = p->energy.energy_j_per_token,
        .watts_per_gpu = p->energy.watts_per_gpu,
        .gather_s = p->gather_s,
        .reduce_scatter_s = p->reduce_scatter_s,
        .grad_reduce_s = p->grad_reduce_s,
        .grad_shard_s = p->grad_shard_s,
        .broadcast_s = p->broadcast_s,
        .tp_s = p->tp_s,
        .amsp_total_s = p->amsp_total_s,
        .forward_s = p->forward_s,
        .backward_s = p->backward_s,
        .recompute_s = p->recompute_s,
        .optimizer_s = p->optimizer_s,
        .other_s = p->other_s,
        .layer_exposed_s = p->layer_exposed_s,
        .grad_exposed_s = p->grad_reduce_exposed_s,
        .param_sync_exposed_s = p->param_sync_exposed_s,
        .parameter_bytes = p->parameter_bytes,
        .gradient_bytes = p->gradient_bytes,
        .optimizer_bytes = p->optimizer_bytes,
        .activation_bytes = p->activation_bytes,
        .transient_bytes = p->transient_bytes,
        .nccl_bytes = p->nccl_bytes,
        .allocated_bytes = p->allocated_bytes,
        .total_bytes = p->total_bytes,
        .capacity_bytes = p->capacity_bytes,
        .uncertain_bytes = p->uncertain_bytes,
        .host_bytes = p->host_bytes,
    };
}

redco_plan_closed_form redcoi_closed_form(const redco_prediction *p)
{
    return (redco_plan_closed_form){.step_s = p->step_s,
                                    .tokens_per_s_per_gpu = p->tokens_per_s_per_gpu,
                                    .mfu = p->mfu,
                                    .compute_s = p->compute_s,
                                    .exposed_comm_s = p->exposed_comm_s,
                                    .total_bytes = p->total_bytes};
}

uint32_t redcoi_blocks(const redco_model *model)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    uint32_t blocks = 0;
    for (size_t i = 0; i < count; i++) {
        if (redco_class_is_block(classes[i].kind)) { blocks += classes[i].layers; }
    }
    return blocks;
}

static int compare_u64(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

/* The stated order of configurations: class, most recomputation, then fewest ranks. */
static int compare_assignments(const void *a, const void *b)
{
    const redco_assignment *x = a;
    const redco_assignment *y = b;
    int order = compare_u64(x->class_index, y->class_index);
    if (order == 0) { order = compare_u64(y->config.recompute, x->config.recompute); }
    const redco_shards *p = &x->config.shards;
    const redco_shards *q = &y->config.shards;
    const redco_mesh ours[] = {p->parameters, p->gradients, p->optimizer};
    const redco_mesh theirs[] = {q->parameters, q->gradients, q->optimizer};
    for (int i = 0; i < 3 && order == 0; i++) {
        order = compare_u64(redco_mesh_ranks(ours[i]), redco_mesh_ranks(theirs[i]));
        if (order == 0) { order = compare_u64(ours[i].gpus, theirs[i].gpus); }
    }
    return order;
}

static bool same_config(const redco_assignment *a, const redco_assignment *b)
{
    return a->class_index == b->class_index && a->config.recompute == b->config.recompute &&
           redco_shards_equal(a->config.shards, b->config.shards);
}

/* The assignments as ranges of layers in the stated order; with pipeline stages in the order given. */
redco_status redcoi_ranges(const redco_model *model, uint32_t stages, const redco_assignment *assignments,
                           uint32_t count, redco_plan_layers **layers_out, uint32_t *count_out, redco_error *err)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    redco_assignment *sorted = malloc((count > 0 ? count : 1) * sizeof *sorted);
    redco_plan_layers *rows = calloc(count > 0 ? count : 1, sizeof *rows);
    redco_status st = REDCO_OK;
    uint32_t made = 0;
    uint32_t next = 0;
    const redco_assignment *last = NULL;
    if (sorted == NULL || rows == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    memcpy(sorted, assignments, count * sizeof *sorted);
    if (stages <= 1) { qsort(sorted, count, sizeof *sorted, compare_assignments); }
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *from = &sorted[i];
        if (from->class_index >= class_count) {
            st = redco_fail(err, REDCO_ESYSTEM, "", "the search names layer class %u", from->class_index);
            goto out;
        }
        if (from->layers == 0) { continue; }
        if (last != NULL && same_config(from, last)) {
            rows[made - 1].last_layer += from->layers;
            next += from->layers;
            continue; /* the search may name one configuration twice */
        }
        const redco_layer_class *class = &classes[from->class_index];
        if (made == 0 || last == NULL || last->class_index != from->class_index) { next = 0; }
        redco_plan_layers *row = &rows[made++];
        (void)snprintf(row->class_name, sizeof row->class_name, "%s", class->name);
        row->first_layer = next;
        row->last_layer = next + from->layers - 1;
        row->shards = from->config.shards;
        row->recompute = from->config.recompute;
        last = from;
        next += from->layers;
    }
    *layers_out = rows;
    *count_out = made;
    rows = NULL;
out:
    free(sorted);
    free(rows);
    return st;
}

/* Layers with experts say which meshes these have. */
static void fill_experts(redco_plan *plan, const redco_model *model)
{
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        redco_plan_layers *const row = &plan->layers[i];
        const redco_layer_class *class = NULL;
        const uint32_t index = redcoi_plan_class(model, row->class_name, &class);
        if (index != UINT32_MAX && redco_model_has_experts(model, index)) { row->experts = plan->parallelism.experts; }
    }
}

static bool copy_strings(redco_plan *plan, const redco_assembler *from, const redco_search_result *result,
                         const char *strategy)
{
    const redco_inputs *inputs = from->inputs;
    plan->strategy = strdup(strategy);
    plan->model_name = strdup(redco_model_name(inputs->model));
    plan->model_type = strdup(redco_model_type(inputs->model));
    plan->cluster_name = strdup(redco_cluster_name(inputs->cluster));
    plan->gpu_name = strdup(inputs->machine.gpu.name);
    plan->solver_name = strdup(result->solver);
    plan->solver_status = strdup(result->status);
    plan->redco_version = strdup(from->version);
    return plan->strategy != NULL && plan->model_name != NULL && plan->model_type != NULL &&
           plan->cluster_name != NULL && plan->gpu_name != NULL && plan->solver_name != NULL &&
           plan->solver_status != NULL && plan->redco_version != NULL;
}

static bool copy_setting(redco_plan *plan, const redco_parallelism *parallelism, const redco_engine *engine)
{
    const redco_pipeline pipeline = redco_parallelism_pipeline(parallelism);
    plan->engine = *engine;
    plan->parallelism = *parallelism;
    plan->parallelism.split = NULL;
    plan->parallelism.chunks = redco_parallelism_chunks(parallelism);
    if (parallelism->pp <= 1) {
        plan->parallelism.schedule = REDCO_PIPELINE_1F1B;
        plan->parallelism.group = 0;
    }
    if (parallelism->split == NULL || parallelism->pp <= 1) { return true; }
    plan->split_count = redco_pipeline_positions(pipeline.kind, pipeline.stages, pipeline.chunks);
    plan->split = malloc(plan->split_count * sizeof *plan->split);
    if (plan->split == NULL) { return false; }
    memcpy(plan->split, parallelism->split, plan->split_count * sizeof *plan->split);
    return true;
}

static void copy_inputs(redco_plan *plan, const redco_assembler *from)
{
    const redco_inputs *inputs = from->inputs;
    const redco_workload *workload = &from->options->workload;
    plan->params = redco_model_params(inputs->model);
    plan->active_params = redco_model_active_params(inputs->model);
    plan->trained_params = redco_model_trained_params(inputs->model);
    plan->model_layers = redcoi_blocks(inputs->model);
    plan->model_config = json_incref((json_t *)(uintptr_t)redco_model_config(inputs->model));
    plan->model_defaults = json_incref((json_t *)(uintptr_t)redco_model_defaults(inputs->model));
    plan->nodes = inputs->machine.nodes;
    plan->gpus_per_node = inputs->machine.gpus_per_node;
    plan->hosts_per_node = inputs->machine.hosts_per_node > 0 ? inputs->machine.hosts_per_node : 1;
    plan->cluster_description = json_incref(from->cluster_description);
    plan->calibration = json_incref(from->calibration);
    plan->seq_len = workload->seq_len;
    plan->global_batch = workload->global_batch;
    plan->precision = workload->precision;
    plan->overlap = workload->overlap;
    plan->mfu_causal = workload->mfu_causal;
    plan->bucket_bytes = workload->bucket_bytes;
    memcpy(plan->model_sha256, from->model_sha256, sizeof plan->model_sha256);
    memcpy(plan->cluster_sha256, from->cluster_sha256, sizeof plan->cluster_sha256);
    (void)snprintf(plan->profile_sha256, sizeof plan->profile_sha256, "%s", redco_comm_profile_sha256(inputs->comm));
}

redco_status redco_plan_assemble(const redco_assembler *assembler, const redco_search_result *result,
                                 const redco_candidate *candidate, const char *strategy, redco_plan **plan_out,
                                 redco_error *err)
{
    redco_plan *plan = redco_plan_new();
    redco_status st = REDCO_OK;
    if (plan == NULL || !copy_strings(plan, assembler, result, strategy)) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    copy_inputs(plan, assembler);
    if (!copy_setting(plan, &candidate->parallelism, &assembler->options->workload.engine)) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    const bool mixture = redco_model_get_dims(assembler->inputs->model)->experts > 0;
    plan->parallelism.ep = mixture ? redco_parallelism_ep(&candidate->parallelism) : 1;
    plan->parallelism.etp = mixture ? redco_parallelism_etp(&candidate->parallelism) : 1;
    plan->predicted = redcoi_predicted(&candidate->prediction, &assembler->inputs->calibration);
    (void)snprintf(plan->predicted.unseen, sizeof plan->predicted.unseen, "%s", assembler->inputs->unseen);
    (void)redco_inputs_beyond_mfu(assembler->inputs, &assembler->options->workload, plan->predicted.mfu,
                                  plan->predicted.beyond_mfu, sizeof plan->predicted.beyond_mfu);
    plan->closed_form = redcoi_closed_form(&candidate->closed_form);
    (void)snprintf(plan->engine_reason, sizeof plan->engine_reason, "%s", assembler->inputs->engine_reason);
    /* AMSP minimises T_comm, whatever the user's objective. */
    const bool amsp = assembler->options->strategy == REDCO_STRATEGY_AMSP;
    plan->objective_comm = amsp || assembler->options->objective == REDCO_OBJECTIVE_COMM;
    plan->solver_objective = amsp ? candidate->closed_form.amsp_total_s : candidate->objective;
    plan->solver_gap = result->gap_ratio;
    plan->solver_seconds = result->seconds;
    plan->solver_candidates = result->candidates;
    plan->solver_within = result->within_ratio;
    plan->solver_counts = (redco_plan_counts){.listed = result->counts.listed,
                                              .bounded = result->counts.bounded,
                                              .priced = result->counts.priced,
                                              .solved = result->counts.solved,
                                              .simulated = result->counts.simulated};
    if ((st = redcoi_ranges(assembler->inputs->model, candidate->parallelism.pp, candidate->assignments,
                            candidate->assignment_count, &plan->layers, &plan->layers_count, err)) != REDCO_OK ||
        (st = redcoi_fill_rules(plan, assembler->inputs, assembler->options->tp_placement, err)) != REDCO_OK ||
        (st = redcoi_apply_user_rules(plan, assembler->inputs, err)) != REDCO_OK ||
        (st = redcoi_fill_placement(plan, assembler->inputs, err)) != REDCO_OK ||
        (st = redco_plan_execution(plan, assembler->inputs->model, &plan->execution, err)) != REDCO_OK) {
        goto out;
    }
    fill_experts(plan, assembler->inputs->model);
    *plan_out = plan;
    plan = NULL;
out:
    redco_plan_free(plan);
    return st;
}

json_t *redco_plan_predicted_json(const redco_inputs *inputs, const redco_candidate *candidate)
{
    const redco_plan_predicted predicted = redcoi_predicted(&candidate->prediction, &inputs->calibration);
    const redco_plan_closed_form closed = redcoi_closed_form(&candidate->closed_form);
    return redco_plan_prediction_json(&predicted, &closed);
}

redco_status redco_plan_reopen(const redco_plan *plan, const char *name, const char *const *profiles,
                               uint32_t profile_count, redco_plan_case *case_out, redco_error *err)
{
    return redco_plan_case_open(plan, name, profiles, profile_count, redco_tp_attach, true, case_out, err);
}
