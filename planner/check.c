/* redco-plan --check: what a plan predicts must follow from what it embeds. */
#include "planner/assemble_internal.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Plan files carry 10 digits and a step sums some 10^5 terms. */
static const double allowed_ratio = 1e-6;

static redco_json_value embedded(const json_t *json, const char *name, const char *pointer)
{
    redco_json_value value = redco_json_wrap(json, name);
    (void)snprintf(value.pointer, sizeof value.pointer, "%s", pointer);
    return value;
}

static redco_status rebuild(const redco_plan *plan, const char *name, const char *const *profiles,
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

__attribute__((format(printf, 4, 5))) static redco_status refuse(const char *name, const char *pointer,
                                                                 redco_error *err, const char *format, ...)
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

static redco_status same_count(const char *name, const char *pointer, uint64_t stated, uint64_t computed,
                               redco_error *err)
{
    if (stated == computed) { return REDCO_OK; }
    return refuse(name, pointer, err, "is %llu, but %llu follows from what the plan embeds", (unsigned long long)stated,
                  (unsigned long long)computed);
}

static redco_status same_word(const char *name, const char *pointer, const char *stated, const char *computed,
                              redco_error *err)
{
    if (strcmp(stated, computed) == 0) { return REDCO_OK; }
    return refuse(name, pointer, err, "is \"%.80s\", but what the plan embeds says \"%.80s\"", stated, computed);
}

static redco_status check_profile(const redco_plan *plan, const char *name, const redco_comm *comm, redco_error *err)
{
    const char *computed = redco_comm_profile_sha256(comm);
    if (strcmp(plan->profile_sha256, computed) == 0) { return REDCO_OK; }
    if (computed[0] == '\0') {
        return refuse(name, "/inputs/profile_sha256", err, "names a profile; give the same files with --profile");
    }
    if (plan->profile_sha256[0] == '\0') {
        return refuse(name, "/inputs/profile_sha256", err, "says that no profile was used, but --profile is given");
    }
    return refuse(name, "/inputs/profile_sha256", err, "is %.12s..., but the files given have %.12s...",
                  plan->profile_sha256, computed);
}

static redco_status check_identity(const redco_plan *plan, const char *name, const redco_inputs *inputs,
                                   redco_error *err)
{
    const redco_machine *machine = &inputs->machine;
    redco_status st = check_profile(plan, name, inputs->comm, err);
    if (st != REDCO_OK ||
        (st = same_word(name, "/model/type", plan->model_type, redco_model_type(inputs->model), err)) != REDCO_OK ||
        (st = same_count(name, "/model/params", plan->params, redco_model_params(inputs->model), err)) != REDCO_OK ||
        (st = same_count(name, "/model/layers", plan->model_layers, redcoi_blocks(inputs->model), err)) != REDCO_OK ||
        (st = same_word(name, "/cluster/name", plan->cluster_name, redco_cluster_name(inputs->cluster), err)) !=
            REDCO_OK ||
        (st = same_word(name, "/cluster/gpu", plan->gpu_name, machine->gpu.name, err)) != REDCO_OK ||
        (st = same_count(name, "/cluster/nodes", plan->nodes, machine->nodes, err)) != REDCO_OK ||
        (st = same_count(name, "/cluster/gpus_per_node", plan->gpus_per_node, machine->gpus_per_node, err)) !=
            REDCO_OK) {
        return st;
    }
    return same_count(name, "/cluster/hosts_per_node", plan->hosts_per_node, machine->hosts_per_node, err);
}

static uint32_t class_of(const redco_model *model, const char *class_name, const redco_layer_class **class_out)
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
        const uint32_t index = class_of(model, row->class_name, &class);
        if (index == UINT32_MAX) {
            (void)snprintf(pointer, sizeof pointer, "/sharding/%u/class", i);
            return refuse(name, pointer, err, "is \"%s\", a class that the model does not have", row->class_name);
        }
        if (row->first_layer < class->first_layer || row->last_layer >= class->first_layer + class->layers) {
            (void)snprintf(pointer, sizeof pointer, "/sharding/%u/layers", i);
            return refuse(name, pointer, err, "is [%u, %u], but layers of \"%s\" are [%u, %u]", row->first_layer,
                          row->last_layer, class->name, class->first_layer, class->first_layer + class->layers - 1);
        }
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
            return refuse(name, "/sharding", err, "covers %llu layers of \"%s\", but the model has %u",
                          (unsigned long long)covered, classes[c].name, classes[c].layers);
        }
    }
    return REDCO_OK;
}

static redco_status compare_number(const char *name, const char *pointer, double stated, double computed,
                                   redco_error *err)
{
    if (fabs(stated - computed) <= allowed_ratio * fmax(fabs(stated), fabs(computed))) { return REDCO_OK; }
    return refuse(name, pointer, err, "is %.10g, but %.10g follows from what the plan embeds", stated, computed);
}

static redco_status compare_predicted(const redco_plan *plan, const char *name, const redco_plan_predicted *computed,
                                      redco_error *err)
{
    size_t count = 0;
    const redco_plan_field *fields = redco_plan_fields(&count);
    const char *stated_at = (const char *)&plan->predicted;
    const char *computed_at = (const char *)computed;
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < count && st == REDCO_OK; i++) {
        const redco_plan_field *field = &fields[i];
        char pointer[128];
        (void)snprintf(pointer, sizeof pointer, "/predicted/%s%s%s", field->group != NULL ? field->group : "",
                       field->group != NULL ? "/" : "", field->key);
        if (field->bytes) {
            uint64_t stated = 0;
            uint64_t again = 0;
            memcpy(&stated, stated_at + field->offset, sizeof stated);
            memcpy(&again, computed_at + field->offset, sizeof again);
            st = same_count(name, pointer, stated, again, err);
        } else {
            double stated = 0.0;
            double again = 0.0;
            memcpy(&stated, stated_at + field->offset, sizeof stated);
            memcpy(&again, computed_at + field->offset, sizeof again);
            st = compare_number(name, pointer, stated, again, err);
        }
    }
    if (st != REDCO_OK) { return st; }
    return compare_number(name, "/predicted/tokens_per_s_per_gpu_band", plan->predicted.tokens_per_s_per_gpu_band,
                          computed->tokens_per_s_per_gpu_band, err);
}

static redco_status check_prediction(const redco_plan *plan, const char *name, const redco_inputs *inputs,
                                     redco_error *err)
{
    const redco_workload workload = {.seq_len = plan->seq_len,
                                     .global_batch = plan->global_batch,
                                     .precision = plan->precision,
                                     .overlap = plan->overlap,
                                     .sequence_parallel = plan->sequence_parallel,
                                     .mfu_causal = plan->mfu_causal,
                                     .bucket_bytes = plan->bucket_bytes};
    const redco_setting setting = {.tp = plan->tp,
                                   .pp = plan->pp,
                                   .cp = plan->cp,
                                   .micro_batch = plan->micro_batch,
                                   .micro_batches = plan->micro_batches,
                                   .dp = plan->dp,
                                   .scheme = plan->scheme,
                                   .secondary = plan->secondary};
    redco_costs *costs = NULL;
    redco_error why = {0};
    redco_assignment *assignments = calloc(plan->layers_count, sizeof *assignments);
    redco_status st = REDCO_OK;
    if (assignments == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    if ((st = to_assignments(plan, name, inputs->model, assignments, err)) != REDCO_OK) { goto out; }
    if ((st = redco_costs_create(&inputs->machine, inputs->model, &workload, &inputs->calibration, inputs->comm, &costs,
                                 &why)) != REDCO_OK ||
        (st = redco_setting_check(costs, &setting, &why)) != REDCO_OK) {
        st = st == REDCO_EVALUE ? refuse(name, "/mesh", err, "%s: %s", why.place, why.text)
                                : redco_fail(err, st, why.place, "%s", why.text);
        goto out;
    }
    const redco_prediction prediction = redco_cost_step(costs, &setting, assignments, plan->layers_count);
    const redco_plan_predicted computed = redcoi_predicted(&prediction, &inputs->calibration);
    st = compare_predicted(plan, name, &computed, err);
out:
    redco_costs_free(costs);
    free(assignments);
    return st;
}

static redco_status check_rules(const redco_plan *plan, const char *name, const redco_plan *computed, redco_error *err)
{
    redco_status st = same_word(name, "/tensor_parallel/placement", plan->tp_placement, computed->tp_placement, err);
    if (st != REDCO_OK) { return st; }
    if (plan->rules_count != computed->rules_count) {
        return refuse(name, "/tensor_parallel/rules", err, "has %u rules, but %u follow from the model",
                      plan->rules_count, computed->rules_count);
    }
    for (uint32_t i = 0; i < plan->rules_count; i++) {
        char pointer[80];
        (void)snprintf(pointer, sizeof pointer, "/tensor_parallel/rules/%u/match", i);
        st = same_word(name, pointer, plan->rules[i].match, computed->rules[i].match, err);
        if (st != REDCO_OK) { return st; }
        if (plan->rules[i].dim != computed->rules[i].dim) {
            (void)snprintf(pointer, sizeof pointer, "/tensor_parallel/rules/%u/dim", i);
            return refuse(name, pointer, err, "is %d, but %d follows from the model (-1: null)", plan->rules[i].dim,
                          computed->rules[i].dim);
        }
    }
    return REDCO_OK;
}

static redco_status check_placement(const redco_plan *plan, const char *name, const redco_plan *computed,
                                    redco_error *err)
{
    redco_status st = same_word(name, "/placement/rank_order", plan->rank_order, computed->rank_order, err);
    if (st != REDCO_OK) { return st; }
    if (plan->hosts_count != computed->hosts_count) {
        return refuse(name, "/placement/hosts", err, "has %u hosts, but %u follow from what the plan embeds",
                      plan->hosts_count, computed->hosts_count);
    }
    for (uint32_t i = 0; i < plan->hosts_count && st == REDCO_OK; i++) {
        char pointer[64];
        (void)snprintf(pointer, sizeof pointer, "/placement/hosts/%u", i);
        st = same_word(name, pointer, plan->hosts[i], computed->hosts[i], err);
    }
    if (st != REDCO_OK) { return st; }
    return same_count(name, "/placement/spanning_groups", plan->spanning_groups, computed->spanning_groups, err);
}

/* What assembling fills in from the meshes, filled in again. */
static redco_status check_filled(const redco_plan *plan, const char *name, const redco_inputs *inputs, redco_error *err)
{
    redco_plan *again = redco_plan_new();
    redco_status st = REDCO_OK;
    if (again == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    again->layers = calloc(plan->layers_count, sizeof *again->layers);
    if (again->layers == NULL) {
        redco_plan_free(again);
        return redco_fail(err, REDCO_ENOMEM, name, "out of memory");
    }
    memcpy(again->layers, plan->layers, plan->layers_count * sizeof *again->layers);
    again->layers_count = plan->layers_count;
    again->tp = plan->tp;
    again->dp = plan->dp;
    again->precision = plan->precision;
    again->micro_batches = plan->micro_batches;
    if ((st = redcoi_fill_rules(again, inputs->model, err)) == REDCO_OK &&
        (st = check_rules(plan, name, again, err)) == REDCO_OK &&
        (st = redcoi_fill_placement(again, inputs, err)) == REDCO_OK) {
        st = check_placement(plan, name, again, err);
    }
    redco_plan_free(again);
    return st;
}

redco_status redco_plan_verify(const redco_plan *plan, const char *name, const char *const *profiles,
                               uint32_t profile_count, redco_error *err)
{
    redco_inputs inputs = {0};
    redco_status st = REDCO_OK;
    if ((st = rebuild(plan, name, profiles, profile_count, &inputs, err)) == REDCO_OK &&
        (st = check_identity(plan, name, &inputs, err)) == REDCO_OK &&
        (st = check_prediction(plan, name, &inputs, err)) == REDCO_OK) {
        st = check_filled(plan, name, &inputs, err);
    }
    redco_inputs_free(&inputs);
    return st;
}
