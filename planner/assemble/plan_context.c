/* A plan file as something to compute with again. Nothing here needs the planner: executors read plans, too. */
#include "planner/assemble/assemble_internal.h"

#include "costmodel/evaluation/request.h"
#include "planner/assemble/step_memo.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const redco_tp_placement_words[] = {"rules", "milp", "user", "paired", NULL};

redco_status redcoi_refuse(const char *name, const char *pointer, redco_error *err, const char *format, ...)
{
    char place[512];
    char text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(place, sizeof place, "%s:%s", name, pointer);
    return redco_fail(err, REDCO_EVALUE, place, "%s", text);
}

redco_workload redcoi_plan_workload(const redco_plan *plan)
{
    redco_workload workload = {.seq_len = plan->seq_len,
                               .global_batch = plan->global_batch,
                               .precision = plan->precision,
                               .overlap = plan->overlap,
                               .mfu_causal = plan->mfu_causal,
                               .bucket_bytes = plan->bucket_bytes,
                               .engine = plan->engine};
    workload.engine.async_tp = (plan->overlap & REDCO_OVERLAP_TP) != 0;
    return workload;
}

redco_parallelism redcoi_plan_setting(const redco_plan *plan)
{
    redco_parallelism parallelism = plan->parallelism;
    parallelism.split = plan->split;
    return parallelism;
}

redco_status redcoi_check_profile(const redco_plan *plan, const char *name, const redco_comm *comm, redco_error *err)
{
    const char *computed = redco_comm_profile_sha256(comm);
    if (strcmp(plan->profile_sha256, computed) == 0) { return REDCO_OK; }
    if (computed[0] == '\0') {
        return redcoi_refuse(name, "/inputs/profile_sha256", err,
                             "names a profile; give the same files with --profile");
    }
    if (plan->profile_sha256[0] == '\0') {
        return redcoi_refuse(name, "/inputs/profile_sha256", err,
                             "says that no profile was used, but --profile is given");
    }
    return redcoi_refuse(name, "/inputs/profile_sha256", err, "is %.12s..., but the files given have %.12s...",
                         plan->profile_sha256, computed);
}

redco_status redcoi_plan_placement(const redco_plan *plan, const char *name, redco_tp_placement *placement_out,
                                   redco_error *err)
{
    for (int i = 0; redco_tp_placement_words[i] != NULL; i++) {
        if (strcmp(plan->tp_placement, redco_tp_placement_words[i]) == 0) {
            *placement_out = (redco_tp_placement)i;
            return REDCO_OK;
        }
    }
    return redcoi_refuse(name, "/tensor_parallel/placement", err,
                         "is \"%.40s\"; rules, milp, user and paired are known", plan->tp_placement);
}

static redco_json_value embedded(const json_t *json, const char *name, const char *pointer)
{
    redco_json_value value = redco_json_wrap(json, name);
    (void)snprintf(value.pointer, sizeof value.pointer, "%s", pointer);
    return value;
}

redco_status redcoi_reopen_inputs(const redco_plan *plan, const char *name, const char *const *profiles,
                                  uint32_t profile_count, redco_inputs *out, redco_error *err)
{
    const redco_json_value config = embedded(plan->model_config, name, "/model/config");
    const redco_json_value cluster = embedded(plan->cluster_description, name, "/cluster/description");
    const redco_json_value calibration = embedded(plan->calibration, name, "/calibration");
    redco_status st = REDCO_OK;
    if ((st = redco_model_from_json(&config, plan->model_name, &out->model, err)) != REDCO_OK ||
        (st = redco_cluster_from_json(&cluster, &out->cluster, err)) != REDCO_OK ||
        (st = redco_cluster_machine(out->cluster, redco_plan_gpus(plan), &out->machine, err)) != REDCO_OK ||
        (st = redco_calibration_from_json(&calibration, &out->calibration, err)) != REDCO_OK) {
        return st;
    }
    return redco_comm_create(&out->machine, profiles, profile_count, &out->comm, err);
}

uint32_t redcoi_plan_class(const redco_model *model, const char *class_name, const redco_layer_class **class_out)
{
    const redco_layer_class *classes = NULL;
    const size_t count = redco_model_classes(model, &classes);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(classes[i].name, class_name) == 0) {
            *class_out = &classes[i];
            return (uint32_t)i;
        }
    }
    return UINT32_MAX;
}

/* All layers that have experts, and no others, say which meshes these have of their own. */
static redco_status check_experts(const redco_plan *plan, const char *name, const redco_model *model, uint32_t index,
                                  uint32_t class_index, redco_error *err)
{
    const redco_plan_layers *const row = &plan->layers[index];
    const redco_shards none = {.parameters = {0, 0}};
    const bool experts = redco_model_has_experts(model, class_index);
    char pointer[64];
    if (redco_shards_equal(row->experts, experts ? plan->parallelism.experts : none)) { return REDCO_OK; }
    (void)snprintf(pointer, sizeof pointer, "/sharding/%u/experts", index);
    return redcoi_refuse(name, pointer, err,
                         experts ? "is missing: experts of other layers have meshes of their own"
                                 : "is of layers of \"%s\", which have no experts",
                         row->class_name);
}

/* The plan's ranges as assignments; every layer of every class of the model exactly once. */
static redco_status to_assignments(const redco_plan *plan, const char *name, const redco_model *model,
                                   redco_assignment *assignments, redco_error *err)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    char pointer[64];
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        const redco_plan_layers *row = &plan->layers[i];
        const redco_layer_class *class = NULL;
        const uint32_t index = redcoi_plan_class(model, row->class_name, &class);
        if (index == UINT32_MAX) {
            (void)snprintf(pointer, sizeof pointer, "/sharding/%u/class", i);
            return redcoi_refuse(name, pointer, err, "is \"%s\", a class that the model does not have",
                                 row->class_name);
        }
        if (row->last_layer >= class->layers) {
            (void)snprintf(pointer, sizeof pointer, "/sharding/%u/layers", i);
            return redcoi_refuse(name, pointer, err, "is [%u, %u], but layers of \"%s\" are [0, %u]", row->first_layer,
                                 row->last_layer, class->name, class->layers - 1);
        }
        const redco_status st = check_experts(plan, name, model, i, index, err);
        if (st != REDCO_OK) { return st; }
        assignments[i] = (redco_assignment){.class_index = index,
                                            .layers = row->last_layer - row->first_layer + 1,
                                            .config = {.shards = row->shards, .recompute = row->recompute}};
    }
    for (size_t c = 0; c < class_count; c++) {
        uint64_t covered = 0;
        for (uint32_t i = 0; i < plan->layers_count; i++) {
            if (assignments[i].class_index == c) { covered += assignments[i].layers; }
        }
        if (covered != classes[c].layers) {
            return redcoi_refuse(name, "/sharding", err, "covers %llu layers of \"%s\", but the model has %u",
                                 (unsigned long long)covered, classes[c].name, classes[c].layers);
        }
    }
    return REDCO_OK;
}

redco_status redcoi_reopen_costs(const redco_plan *plan, const char *name, redco_plan_case *reopened, redco_error *err)
{
    redco_error why = {0};
    redco_status st = REDCO_OK;
    reopened->workload = redcoi_plan_workload(plan);
    reopened->parallelism = redcoi_plan_setting(plan);
    if ((st = redcoi_plan_placement(plan, name, &reopened->tp_placement, err)) != REDCO_OK ||
        (st = redcoi_reopen_user_rules(plan, name, reopened->inputs.model, &reopened->tp_rules, err)) != REDCO_OK) {
        return st;
    }
    reopened->assignment_count = plan->layers_count;
    reopened->assignments = calloc(plan->layers_count, sizeof *reopened->assignments);
    if (reopened->assignments == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    if ((st = to_assignments(plan, name, reopened->inputs.model, reopened->assignments, err)) != REDCO_OK) {
        return st;
    }
    if ((st = redco_plan_case_overlap(reopened, plan->overlap, &why)) == REDCO_OK) {
        st = redco_request_check(reopened->costs, &reopened->parallelism, reopened->assignments,
                                 reopened->assignment_count, &why);
    }
    if (st == REDCO_EVALUE) { return redcoi_refuse(name, "/mesh", err, "%s: %s", why.place, why.text); }
    if (st == REDCO_OK) { /* prices the layouts */
        (void)redco_cost_fixed(reopened->costs, &reopened->parallelism);
        st = redco_costs_failure(reopened->costs, &why);
    }
    return st == REDCO_OK ? st : redco_fail(err, st, why.place, "%s", why.text);
}

bool redco_plan_run_here(redco_plan *plan)
{
    const bool changed = plan->engine.layer_units;
    plan->engine.layer_units = false;
    return changed;
}

redco_status redco_plan_case_overlap(redco_plan_case *reopened, uint32_t overlap, redco_error *err)
{
    const redco_inputs *const inputs = &reopened->inputs;
    redco_costs_free(reopened->costs);
    reopened->costs = NULL;
    reopened->workload.overlap = overlap;
    reopened->workload.engine.async_tp = (overlap & REDCO_OVERLAP_TP) != 0;
    const redco_status st = redco_costs_create(&inputs->machine, inputs->model, &reopened->workload,
                                               &inputs->calibration, inputs->comm, &reopened->costs, err);
    if (st != REDCO_OK) { return st; }
    return reopened->attach == NULL
               ? REDCO_OK
               : reopened->attach(reopened->costs, inputs->model, reopened->tp_placement, reopened->tp_rules, err);
}

redco_status redco_plan_case_open(const redco_plan *plan, const char *name, const char *const *profiles,
                                  uint32_t profile_count, redco_attach attach, bool same_profile,
                                  redco_plan_case *case_out, redco_error *err)
{
    redco_plan_case reopened = {.attach = attach};
    redco_status st = redcoi_reopen_inputs(plan, name, profiles, profile_count, &reopened.inputs, err);
    if (st == REDCO_OK && same_profile) { st = redcoi_check_profile(plan, name, reopened.inputs.comm, err); }
    if (st == REDCO_OK) { st = redcoi_reopen_costs(plan, name, &reopened, err); }
    if (st != REDCO_OK) {
        redco_plan_case_free(&reopened);
        return st;
    }
    *case_out = reopened;
    return REDCO_OK;
}

void redco_inputs_forget(redco_inputs *inputs)
{
    if (!inputs->comm_borrowed) { redco_step_memo_free(inputs->step_memo); }
    inputs->step_memo = NULL;
}

void redco_inputs_free(redco_inputs *inputs)
{
    redco_inputs_forget(inputs);
    if (!inputs->comm_borrowed) { redco_comm_free(inputs->comm); }
    if (!inputs->borrowed) {
        redco_user_rules_free(inputs->tp_rules);
        redco_cluster_free(inputs->cluster);
        redco_model_free(inputs->model);
    }
    *inputs = (redco_inputs){0};
}

void redco_plan_case_free(redco_plan_case *reopened)
{
    redco_costs_free(reopened->costs);
    redco_user_rules_free(reopened->tp_rules);
    free(reopened->assignments);
    redco_inputs_free(&reopened->inputs);
    *reopened = (redco_plan_case){.costs = NULL};
}
