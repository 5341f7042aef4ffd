/* redco-plan --check: what a plan predicts must follow from what it embeds. */
#include "costmodel/evaluation/request.h"
#include "planner/assemble/assemble_internal.h"
#include "planner/executable/executable.h"
#include "planner/search/strategy.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Plan files carry 10 digits and a step sums some 10^5 terms. */
static const double allowed_ratio = 1e-6;

static redco_status same_count(const char *name, const char *pointer, uint64_t stated, uint64_t computed,
                               redco_error *err)
{
    if (stated == computed) { return REDCO_OK; }
    return redcoi_refuse(name, pointer, err, "is %llu, but %llu follows from what the plan embeds",
                         (unsigned long long)stated, (unsigned long long)computed);
}

static redco_status same_word(const char *name, const char *pointer, const char *stated, const char *computed,
                              redco_error *err)
{
    if (strcmp(stated, computed) == 0) { return REDCO_OK; }
    return redcoi_refuse(name, pointer, err, "is \"%.80s\", but what the plan embeds says \"%.80s\"", stated, computed);
}

/* Plans of before it was kept have none. */
static redco_status check_defaults(const redco_plan *plan, const char *name, const redco_model *model, redco_error *err)
{
    const json_t *const taken = redco_model_defaults(model);
    const char *key = NULL;
    json_t *value = NULL;
    if (plan->model_defaults == NULL) { return REDCO_OK; }
    json_object_foreach(plan->model_defaults, key, value)
    {
        const json_t *const follows = json_object_get(taken, key);
        if (follows != NULL && json_equal(value, follows)) { continue; }
        return redcoi_refuse(name, "/model/defaults", err, "has %.80s, but /model/config %s", key,
                             follows != NULL ? "takes another value" : "needs no such default");
    }
    return json_object_size(plan->model_defaults) == json_object_size(taken)
               ? REDCO_OK
               : redcoi_refuse(name, "/model/defaults", err, "has %zu sizes, but /model/config leaves out %zu",
                               json_object_size(plan->model_defaults), json_object_size(taken));
}

static redco_status check_identity(const redco_plan *plan, const char *name, const redco_inputs *inputs,
                                   redco_error *err)
{
    const redco_machine *machine = &inputs->machine;
    redco_status st = redcoi_check_profile(plan, name, inputs->comm, err);
    if (st != REDCO_OK ||
        (st = same_word(name, "/model/type", plan->model_type, redco_model_type(inputs->model), err)) != REDCO_OK ||
        (st = same_count(name, "/model/params", plan->params, redco_model_params(inputs->model), err)) != REDCO_OK ||
        (plan->active_params != 0 && (st = same_count(name, "/model/active_params", plan->active_params,
                                                      redco_model_active_params(inputs->model), err)) != REDCO_OK) ||
        (st = same_count(name, "/model/layers", plan->model_layers, redcoi_blocks(inputs->model), err)) != REDCO_OK ||
        (st = check_defaults(plan, name, inputs->model, err)) != REDCO_OK ||
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

/* The name that the plan goes by: of what was asked for, or of a strategy whose meshes it then has. */
static redco_status check_strategy(const redco_plan *plan, const char *name, redco_error *err)
{
    static const char *const asked[] = {"optimum", "fixed"};
    const redco_mesh grid = redco_plan_grid(plan);
    redco_strategy strategy = REDCO_STRATEGY_ANY;
    for (size_t i = 0; i < sizeof asked / sizeof asked[0]; i++) {
        if (strcmp(plan->strategy, asked[i]) == 0) { return REDCO_OK; }
    }
    if (!redco_strategy_parse(plan->strategy, &strategy) || strategy == REDCO_STRATEGY_ANY) {
        char known[120];
        return redcoi_refuse(name, "/strategy", err, "is \"%.40s\", not one of: optimum, fixed, %s", plan->strategy,
                             redco_strategy_list(false, known, sizeof known));
    }
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        const redco_shards *const s = &plan->layers[i].shards;
        if (redco_strategy_bears(strategy, grid, s)) { continue; }
        return redcoi_refuse(
            name, "/strategy", err,
            "is \"%s\", but /sharding/%u has parameters %ux%u, gradients %ux%u and optimizer %ux%u on ranks of %ux%u",
            plan->strategy, i, s->parameters.gpus, s->parameters.nodes, s->gradients.gpus, s->gradients.nodes,
            s->optimizer.gpus, s->optimizer.nodes, grid.gpus, grid.nodes);
    }
    const redco_mesh second = redco_strategy_secondary(strategy, grid);
    if (redco_mesh_equal(plan->parallelism.secondary, second)) { return REDCO_OK; }
    return redcoi_refuse(name, "/strategy", err, "is \"%s\", which has %s copy of the parameters (/mesh/secondary)",
                         plan->strategy, second.gpus > 0 ? "one node's second" : "no second");
}

static redco_status compare_number(const char *name, const char *pointer, double stated, double computed,
                                   redco_error *err)
{
    if (fabs(stated - computed) <= allowed_ratio * fmax(fabs(stated), fabs(computed))) { return REDCO_OK; }
    return redcoi_refuse(name, pointer, err, "is %.10g, but %.10g follows from what the plan embeds", stated, computed);
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
            if (field->newer && stated == 0) { continue; }
            st = same_count(name, pointer, stated, again, err);
        } else {
            double stated = 0.0;
            double again = 0.0;
            memcpy(&stated, stated_at + field->offset, sizeof stated);
            memcpy(&again, computed_at + field->offset, sizeof again);
            if (field->newer && !(stated > 0.0)) { continue; }
            st = compare_number(name, pointer, stated, again, err);
        }
    }
    if (st != REDCO_OK) { return st; }
    return compare_number(name, "/predicted/tokens_per_s_per_gpu_band", plan->predicted.tokens_per_s_per_gpu_band,
                          computed->tokens_per_s_per_gpu_band, err);
}

/* The search's own estimate is refined from version to version, while a plan is held to its prediction: it may differ
 * by this share of the step, or of the bytes, and the difference is told. */
static const double most_refined_ratio = 0.1;

static redco_status compare_refined(const char *name, const char *pointer, double stated, double computed, double whole,
                                    double *refined_ratio, redco_error *err)
{
    const double apart = fabs(stated - computed);
    if (apart <= allowed_ratio * fmax(fabs(stated), fabs(computed))) { return REDCO_OK; }
    if (!(apart <= most_refined_ratio * whole)) { return compare_number(name, pointer, stated, computed, err); }
    *refined_ratio = fmax(*refined_ratio, apart / whole);
    return REDCO_OK;
}

static redco_status compare_closed_form(const redco_plan *plan, const char *name, const redco_prediction *closed,
                                        double *refined_ratio, redco_error *err)
{
    const redco_plan_closed_form computed = redcoi_closed_form(closed), *const stated = &plan->closed_form;
    const double step_s = computed.step_s;
    const struct {
        const char *pointer;
        double stated, computed, whole;
    } numbers[] = {
        {"/closed_form/step_s", stated->step_s, step_s, step_s},
        {"/closed_form/tokens_per_s_per_gpu", stated->tokens_per_s_per_gpu, computed.tokens_per_s_per_gpu,
         computed.tokens_per_s_per_gpu},
        {"/closed_form/mfu", stated->mfu, computed.mfu, computed.mfu},
        {"/closed_form/compute_s", stated->compute_s, computed.compute_s, step_s},
        {"/closed_form/exposed_comm_s", stated->exposed_comm_s, computed.exposed_comm_s, step_s},
        {"/closed_form/memory_bytes/total", (double)stated->total_bytes, (double)computed.total_bytes,
         (double)computed.total_bytes},
    };
    redco_status st = REDCO_OK;
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0] && st == REDCO_OK; i++) {
        st = compare_refined(name, numbers[i].pointer, numbers[i].stated, numbers[i].computed, numbers[i].whole,
                             refined_ratio, err);
    }
    return st;
}

/* Plans of before the closed form was kept predict by it. */
static redco_status check_prediction(const redco_plan *plan, const char *name, const redco_plan_case *reopened,
                                     double *refined_ratio, redco_error *err)
{
    const bool older = !(plan->closed_form.step_s > 0.0);
    redco_price price;
    redco_status st = redco_price_step(reopened->costs, &reopened->parallelism, reopened->assignments,
                                       reopened->assignment_count, &price, err);
    if (st != REDCO_OK) { return st; }
    const redco_plan_predicted computed =
        redcoi_predicted(older ? &price.closed_form : &price.predicted, &reopened->inputs.calibration);
    st = compare_predicted(plan, name, &computed, err);
    return st != REDCO_OK || older ? st : compare_closed_form(plan, name, &price.closed_form, refined_ratio, err);
}

static redco_status check_rules(const redco_plan *plan, const char *name, const redco_plan *computed, redco_error *err)
{
    redco_status st = same_word(name, "/tensor_parallel/placement", plan->tp_placement, computed->tp_placement, err);
    if (st != REDCO_OK) { return st; }
    if (plan->rules_count != computed->rules_count) {
        return redcoi_refuse(name, "/tensor_parallel/rules", err, "has %u rules, but %u follow from the model",
                             plan->rules_count, computed->rules_count);
    }
    for (uint32_t i = 0; i < plan->rules_count; i++) {
        char pointer[80];
        (void)snprintf(pointer, sizeof pointer, "/tensor_parallel/rules/%u/match", i);
        st = same_word(name, pointer, plan->rules[i].match, computed->rules[i].match, err);
        if (st != REDCO_OK) { return st; }
        if (plan->rules[i].dim != computed->rules[i].dim) {
            (void)snprintf(pointer, sizeof pointer, "/tensor_parallel/rules/%u/dim", i);
            return redcoi_refuse(name, pointer, err, "is %d, but %d follows from the model (-1: null)",
                                 plan->rules[i].dim, computed->rules[i].dim);
        }
        if (plan->rules[i].unit != computed->rules[i].unit || plan->rules[i].parts != computed->rules[i].parts) {
            (void)snprintf(pointer, sizeof pointer, "/tensor_parallel/rules/%u", i);
            return redcoi_refuse(name, pointer, err, "has unit %u, parts %u, but %u, %u follow from the model",
                                 plan->rules[i].unit, plan->rules[i].parts, computed->rules[i].unit,
                                 computed->rules[i].parts);
        }
    }
    return REDCO_OK;
}

static redco_status check_gpu_order(const redco_plan *plan, const char *name, const redco_plan *computed,
                                    redco_error *err)
{
    for (uint32_t i = 0; i < plan->gpus_per_node; i++) {
        char pointer[64];
        const uint32_t stated = plan->gpu_order != NULL ? plan->gpu_order[i] : i;
        const uint32_t follows = computed->gpu_order != NULL ? computed->gpu_order[i] : i;
        if (stated == follows) { continue; }
        (void)snprintf(pointer, sizeof pointer, "/placement/gpu_order/%u", i);
        return redcoi_refuse(name, plan->gpu_order != NULL ? pointer : "/placement", err,
                             "%s GPU %u, but the links of the node that the plan embeds give GPU %u",
                             plan->gpu_order != NULL ? "is" : "has no gpu_order: a rank takes", stated, follows);
    }
    return REDCO_OK;
}

static redco_status check_placement(const redco_plan *plan, const char *name, const redco_plan *computed,
                                    redco_error *err)
{
    redco_status st = same_word(name, "/placement/rank_order", plan->rank_order, computed->rank_order, err);
    if (st != REDCO_OK) { return st; }
    if (plan->hosts_count != computed->hosts_count) {
        return redcoi_refuse(name, "/placement/hosts", err, "has %u hosts, but %u follow from what the plan embeds",
                             plan->hosts_count, computed->hosts_count);
    }
    for (uint32_t i = 0; i < plan->hosts_count && st == REDCO_OK; i++) {
        char pointer[64];
        (void)snprintf(pointer, sizeof pointer, "/placement/hosts/%u", i);
        st = same_word(name, pointer, plan->hosts[i], computed->hosts[i], err);
    }
    if (st != REDCO_OK || (st = check_gpu_order(plan, name, computed, err)) != REDCO_OK) { return st; }
    return same_count(name, "/placement/spanning_groups", plan->spanning_groups, computed->spanning_groups, err);
}

/* Fills in again the fields that assembling fills in from the meshes. */
static redco_status check_filled(const redco_plan *plan, const char *name, const redco_inputs *inputs, redco_error *err)
{
    redco_plan *again = redco_plan_new();
    redco_tp_placement placement = REDCO_TP_RULES;
    redco_status st = REDCO_OK;
    if (again == NULL) { return redco_fail(err, REDCO_ENOMEM, name, "out of memory"); }
    again->layers = calloc(plan->layers_count, sizeof *again->layers);
    if (again->layers == NULL) {
        redco_plan_free(again);
        return redco_fail(err, REDCO_ENOMEM, name, "out of memory");
    }
    memcpy(again->layers, plan->layers, plan->layers_count * sizeof *again->layers);
    again->layers_count = plan->layers_count;
    again->parallelism = plan->parallelism;
    again->gpus_per_node = plan->gpus_per_node;
    again->nodes = plan->nodes;
    again->params = plan->params;
    again->active_params = plan->active_params;
    again->trained_params = plan->trained_params;
    again->model_layers = plan->model_layers;
    again->seq_len = plan->seq_len;
    again->precision = plan->precision;
    again->global_batch = plan->global_batch;
    again->overlap = plan->overlap;
    again->bucket_bytes = plan->bucket_bytes;
    again->engine = plan->engine;
    if ((st = redcoi_plan_placement(plan, name, &placement, err)) == REDCO_OK &&
        (st = redcoi_fill_rules(again, inputs, placement, err)) == REDCO_OK &&
        (st = redcoi_has_user_rules(plan) ? redcoi_check_user_rules(plan, name, inputs->model, err)
                                          : check_rules(plan, name, again, err)) == REDCO_OK &&
        (st = redcoi_fill_placement(again, inputs, err)) == REDCO_OK) {
        st = check_placement(plan, name, again, err);
    }
    redco_plan_free(again);
    return st;
}

/* That redco-exec runs it, or why not, follows from the plan. Older ones do not say. */
static redco_status check_execution(const redco_plan *plan, const char *name, const redco_model *model,
                                    redco_error *err)
{
    json_t *again = NULL;
    if (plan->execution == NULL) { return REDCO_OK; }
    redco_status st = redco_plan_execution(plan, model, &again, err);
    for (int e = 0; e < REDCO_EXECUTORS && st == REDCO_OK; e++) {
        const char *const word = redco_executor_words[e];
        const json_t *const computed = json_object_get(again, word);
        char pointer[64];
        if (json_equal(json_object_get(plan->execution, word), computed)) { continue; }
        (void)snprintf(pointer, sizeof pointer, "/execution/%s", word);
        const json_t *const because = json_array_get(json_object_get(computed, "because"), 0);
        st = redcoi_refuse(name, pointer, err, "says something else than follows from the plan: %s",
                           because != NULL ? json_string_value(because) : "it is executable");
    }
    json_decref(again);
    return st;
}

redco_status redco_plan_verify(const redco_plan *plan, const char *name, const char *const *profiles,
                               uint32_t profile_count, double *refined_ratio_out, redco_error *err)
{
    redco_plan_case reopened = {.attach = redco_tp_attach};
    *refined_ratio_out = 0.0;
    redco_status st = REDCO_OK;
    if ((st = redcoi_reopen_inputs(plan, name, profiles, profile_count, &reopened.inputs, err)) == REDCO_OK &&
        (st = check_identity(plan, name, &reopened.inputs, err)) == REDCO_OK &&
        (st = check_strategy(plan, name, err)) == REDCO_OK &&
        (st = redcoi_reopen_costs(plan, name, &reopened, err)) == REDCO_OK &&
        (st = check_prediction(plan, name, &reopened, refined_ratio_out, err)) == REDCO_OK) {
        st = check_filled(plan, name, &reopened.inputs, err);
    }
    if (st == REDCO_OK) { st = check_execution(plan, name, reopened.inputs.model, err); }
    redco_plan_case_free(&reopened);
    return st;
}
