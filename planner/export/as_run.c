/* A plan made for one engine and exported for another: what it takes as the other one runs it. */
#include "costmodel/evaluation/request.h"
#include "planner/export/internal.h"

#include <string.h>

/* @return false where the plan's engine is one that this export is of, or none is known */
static bool is_other(const redcoi_ability *ability, const char *framework, const redco_plan *plan,
                     redco_engine_file *file_out)
{
    redco_engine_file own;
    if (ability->engine == NULL || strcmp(plan->engine.name, ability->engine) == 0) { return false; }
    if (plan->engine.name[0] == '\0') { return false; }
    if (redco_engine_file_read(plan->engine.name, &own, NULL) == REDCO_OK && strcmp(own.export_to, framework) == 0) {
        return false;
    }
    return redco_engine_file_read(ability->engine, file_out, NULL) == REDCO_OK;
}

/* The offer under what is the other engine's nature: what it gathers at a time, whose layouts split matrices. Traits
 * that the export sets are the offer's already, and the constants stay those of the plan. */
static redco_status price(const redcoi_context *context, const redco_engine_file *file, redco_price *price_out,
                          redco_error *err)
{
    const redcoi_offer *const offer = context->offer;
    const redco_inputs *const inputs = &context->reopened->inputs;
    redco_costs *costs = NULL;
    redco_request request = {.machine = inputs->machine,
                             .model = inputs->model,
                             .calibration = inputs->calibration,
                             .workload = context->reopened->workload,
                             .parallelism = offer->parallelism,
                             .assignments = offer->assignments,
                             .assignment_count = offer->assignment_count};
    request.workload.overlap = offer->overlap;
    request.workload.engine = offer->engine;
    request.workload.engine.layer_units = file->engine.layer_units;
    request.workload.engine.tp_layout = file->engine.tp_layout;
    request.workload.engine.memory = file->engine.memory;
    request.workload.engine.planned_memory = request.calibration.planned_memory = false;
    redco_status st = redco_request_open(&request, inputs->comm, NULL, NULL, &costs, err);
    if (st == REDCO_OK) {
        st = redco_price_step(costs, &request.parallelism, request.assignments, request.assignment_count, price_out,
                              err);
    }
    redco_costs_free(costs);
    return st;
}

redco_status redcoi_as_run(const redcoi_ability *ability, const char *framework, const redcoi_context *context,
                           json_t **as_run_out, redco_error *err)
{
    redco_engine_file file;
    redco_price made;
    redco_error why = {.status = REDCO_OK};
    const redco_plan *const plan = context->plan;
    *as_run_out = json_null();
    if (!is_other(ability, framework, plan, &file)) { return REDCO_OK; }
    const redco_status st = price(context, &file, &made, &why);
    if (st == REDCO_EVALUE) { /* a schedule that cannot be laid out, say */
        redcoi_note(context, "planned for %s; as %s runs it, it cannot be priced: %.200s", plan->engine.name,
                    file.engine.name, why.text);
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    const redco_prediction *const p = &made.predicted;
    redcoi_note(context, "planned for %s: %.3g s a step; as %s runs it: %.3g s, %.3g of %.3g GB", plan->engine.name,
                plan->predicted.step_s, file.engine.name, p->step_s, (double)p->total_bytes / 1e9,
                (double)p->capacity_bytes / 1e9);
    *as_run_out = json_pack("{s:s,s:s,s:f,s:f,s:I}", "planned_for", plan->engine.name, "engine", file.engine.name,
                            "step_s", p->step_s, "tokens_per_s_per_gpu", p->tokens_per_s_per_gpu, "memory_bytes",
                            (json_int_t)p->total_bytes);
    return *as_run_out != NULL ? REDCO_OK : redco_fail(err, REDCO_ENOMEM, "", "out of memory");
}
