#include "planner/executable/executable.h"

#include "costmodel/models/language_model.h"
#include "costmodel/simulator/step.h"
#include "planner/executable/plan_layouts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void refuse(redco_refusals *out, const char *format, ...)
{
    va_list args;
    if (out->count == REDCO_REFUSALS_MAX) { return; }
    va_start(args, format);
    (void)vsnprintf(out->text[out->count++], REDCO_REFUSAL_BYTES, format, args);
    va_end(args);
}

/* Layers may differ in what they recompute, but only in sets that stand beside one another. */
static void refuse_recomputation(redco_recompute set, redco_refusals *out)
{
    char text[REDCO_RECOMPUTE_TEXT];
    if (set == REDCO_RECOMPUTE_FREE || redco_recompute_mixes(set)) { return; }
    refuse(out, "recomputation of %s alone is not executed; plan with --recompute selective or full",
           redco_recompute_text(set, false, text, sizeof text));
}

/* Stages: on processors, in orders in which each layer is on one stage and neighbours are other stages. */
static void refuse_stages(const redco_parallelism *p, redco_executor executor, redco_refusals *out)
{
    const redco_pipeline_kind kind = redco_pipeline_of_chunks(p->schedule, redco_parallelism_chunks(p));
    if (p->pp <= 1) { return; }
    if (executor == REDCO_EXECUTOR_CUDA) {
        refuse(out, "%u pipeline stages are not executed on CUDA; plan with --pp 1", p->pp);
    } else if (kind == REDCO_PIPELINE_DUALPIPE || kind == REDCO_PIPELINE_DUALPIPE_V) {
        refuse(out,
               "stages in the order %s are not executed; plan with --pp-schedule 1f1b, interleaved, gpipe or zb-h1",
               redco_pipeline_words[kind]);
    }
}

void redco_layout_executable(const redco_parallelism *p, const redco_engine *engine, redco_recompute recompute,
                             redco_executor executor, redco_refusals *out)
{
    refuse_stages(p, executor, out);
    if (p->cp > 1) { refuse(out, "%u context-parallel ranks are not executed; plan with --cp 1", p->cp); }
    if (redco_parallelism_ep(p) > 1) {
        refuse(out, "experts on %u ranks are not executed; plan with --ep 1", redco_parallelism_ep(p));
    }
    if (redco_parallelism_own_experts(p)) { refuse(out, "experts on meshes of their own are not executed"); }
    if (engine->gemm_format != REDCO_GEMM_SAME) {
        refuse(out, "products in %s are not executed; plan with --precision bf16",
               redco_gemm_format_words[engine->gemm_format]);
    }
    if (engine->optimizer != REDCO_OPTIMIZER_ADAMW || engine->no_masters) {
        refuse(out, "states other than AdamW's in 32 bits are not executed; plan with --optimizer adamw "
                    "--master-weights fp32");
    }
    if (engine->offload != REDCO_OFFLOAD_NONE) {
        refuse(out, "states in the memory of the host are not executed; plan with --offload none");
    }
    refuse_recomputation(recompute, out);
}

/* The step that is run is the simulator's, built micro-batch by micro-batch and layer by layer. */
static void refuse_size(const redco_plan *plan, redco_refusals *out)
{
    const uint64_t micro_batches = plan->parallelism.micro_batches;
    if (micro_batches == 0 || micro_batches > REDCO_SIMULATED_MICRO_BATCHES_MAX) {
        refuse(out, "%llu micro-batches; 1 to %d are executed", (unsigned long long)micro_batches,
               REDCO_SIMULATED_MICRO_BATCHES_MAX);
    }
    if (plan->model_layers > REDCO_SIMULATED_LAYERS_MAX) {
        refuse(out, "%u layers; at most %d are executed", plan->model_layers, REDCO_SIMULATED_LAYERS_MAX);
    }
}

static redco_status refuse_parts(const redco_plan *plan, const redco_model *model, const redco_task *task,
                                 redco_refusals *out, redco_error *err)
{
    redco_error why = {.status = REDCO_OK};
    redco_tp_layout *const layouts = calloc(task->parameter_count + 1, sizeof *layouts);
    if (layouts == NULL) { return redco_fail(err, REDCO_ENOMEM, redco_model_name(model), "layouts of its parameters"); }
    const redco_status st = redco_plan_layouts(plan, "", model, task, layouts, &why);
    free(layouts);
    if (st == REDCO_EVALUE) { refuse(out, "%s", why.text); }
    return st == REDCO_OK || st == REDCO_EVALUE ? REDCO_OK : redco_fail(err, st, why.place, "%s", why.text);
}

/* A pipeline's parameters, as the plan lists them. */
static redco_status refuse_parts_of_pipeline(const redco_plan *plan, const redco_model *model, redco_refusals *out,
                                             redco_error *err)
{
    const redco_param *params = NULL;
    const size_t count = redco_model_tensors(model, &params);
    redco_task_parameter *const parameters = calloc(count + 1, sizeof *parameters);
    if (parameters == NULL) { return redco_fail(err, REDCO_ENOMEM, redco_model_name(model), "its parameters"); }
    for (size_t i = 0; i < count; i++) {
        parameters[i] = (redco_task_parameter){.name = params[i].name, .rank = params[i].rank};
        memcpy(parameters[i].dim, params[i].shape, params[i].rank * sizeof params[i].shape[0]);
    }
    const redco_task task = {.name = redco_model_name(model), .parameters = parameters, .parameter_count = count};
    const redco_status st = refuse_parts(plan, model, &task, out, err);
    free(parameters);
    return st;
}

/* Tables that two stages share are gathered, and their gradients scattered, nowhere in the step. */
static void refuse_tables(const redco_plan *plan, const redco_model *model, redco_refusals *out)
{
    const redco_model_dims *const dims = redco_model_get_dims(model);
    if (plan->parallelism.pp > 1 && redco_parallelism_chunks(&plan->parallelism) > 1 && dims->encoder_layers > 0) {
        refuse(out, "an encoder-decoder model in several chunks a stage is not executed; plan with --pp-chunks 1");
    }
    if (plan->parallelism.pp == 1 || !(dims->tied || dims->positions == REDCO_POSITIONS_RELATIVE)) { return; }
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        const redco_plan_layers *const row = &plan->layers[i];
        if (strcmp(row->class_name, "embedding") != 0 || redco_mesh_ranks(row->shards.parameters) == 1) { continue; }
        refuse(out,
               "sharded parameters of a table that two stages share are not executed; plan with --strategy zero1 or "
               "zero2, or --pp 1");
    }
}

/* Backward in two passes: gradients of weights come behind those of other micro-batches' inputs. */
static void refuse_split_backward(const redco_plan *plan, const redco_model *model, redco_refusals *out)
{
    if (plan->parallelism.pp == 1 || !redco_pipeline_splits_backward(plan->parallelism.schedule)) { return; }
    if (redco_model_get_dims(model)->encoder_layers > 0) {
        refuse(out, "an encoder-decoder model in the order %s is not executed; plan with --pp-schedule 1f1b",
               redco_pipeline_words[plan->parallelism.schedule]);
    }
    for (uint32_t i = 0; i < plan->layers_count; i++) {
        const redco_shards *const s = &plan->layers[i].shards;
        if (redco_mesh_ranks(s->parameters) == 1 && redco_mesh_ranks(s->gradients) == 1) { continue; }
        refuse(out, "sharded gradients in the order %s are not executed; plan with --strategy ddp or zero1",
               redco_pipeline_words[plan->parallelism.schedule]);
        return;
    }
}

static redco_status refuse_model(const redco_plan *plan, const redco_model *model, redco_executor executor,
                                 redco_refusals *out, redco_error *err)
{
    const redco_position_kind positions = redco_model_get_dims(model)->positions;
    redco_language_model *lm = NULL;
    redco_error why = {.status = REDCO_OK};
    if (redco_model_graph_work(model) != NULL) {
        if (plan->parallelism.pp > 1) { refuse(out, "pipelines of a user have no stages; plan with --pp 1"); }
        return refuse_parts_of_pipeline(plan, model, out, err);
    }
    redco_status st = redco_language_model_create(model, plan->parallelism.micro_batch, plan->seq_len, &lm, &why);
    if (st == REDCO_EVALUE) {
        refuse(out, "%.100s: %s", why.place, why.text);
        return REDCO_OK;
    }
    if (st != REDCO_OK) { return redco_fail(err, st, why.place, "%s", why.text); }
    if (executor == REDCO_EXECUTOR_CUDA &&
        (positions == REDCO_POSITIONS_ALIBI || positions == REDCO_POSITIONS_RELATIVE)) {
        refuse(out, "attention adds a bias to its scores (ALiBi, relative positions), for which the CUDA backend has "
                    "no kernel: use --backend host");
    }
    refuse_tables(plan, model, out);
    refuse_split_backward(plan, model, out);
    st = refuse_parts(plan, model, redco_language_model_task(lm), out, err);
    redco_language_model_free(lm);
    return st;
}

redco_status redco_plan_executable(const redco_plan *plan, const redco_model *model, redco_executor executor,
                                   redco_refusals *out, redco_error *err)
{
    redco_recompute refused = REDCO_RECOMPUTE_FREE;
    redco_parallelism parallelism = plan->parallelism;
    parallelism.split = plan->split;
    for (uint32_t i = plan->layers_count; i-- > 0;) {
        if (!redco_recompute_mixes(plan->layers[i].recompute)) { refused = plan->layers[i].recompute; }
    }
    out->count = 0;
    redco_layout_executable(&parallelism, &plan->engine, refused, executor, out);
    refuse_size(plan, out);
    return refuse_model(plan, model, executor, out, err);
}

redco_status redco_plan_check_executable(const redco_plan *plan, redco_executor executor, const char *place,
                                         redco_error *err)
{
    const redco_json_value config = redco_json_wrap(plan->model_config, place);
    redco_model *model = NULL;
    redco_refusals refusals;
    redco_status st = redco_model_from_json(&config, plan->model_name, &model, err);
    if (st == REDCO_OK) { st = redco_plan_executable(plan, model, executor, &refusals, err); }
    redco_model_free(model);
    return st != REDCO_OK || refusals.count == 0 ? st : redco_fail(err, REDCO_EVALUE, place, "%s", refusals.text[0]);
}

redco_status redco_plan_execution(const redco_plan *plan, const redco_model *model, json_t **execution_out,
                                  redco_error *err)
{
    json_t *const execution = json_object();
    redco_status st = REDCO_OK;
    for (int e = 0; e < REDCO_EXECUTORS && st == REDCO_OK; e++) {
        redco_refusals refusals;
        json_t *const because = json_array();
        st = redco_plan_executable(plan, model, (redco_executor)e, &refusals, err);
        for (uint32_t i = 0; i < refusals.count && st == REDCO_OK; i++) {
            (void)json_array_append_new(because, json_string(refusals.text[i]));
        }
        json_t *const answer = json_pack("{s:b,s:o}", "executable", refusals.count == 0, "because", because);
        if (json_object_set_new(execution, redco_executor_words[e], answer) != 0 && st == REDCO_OK) {
            st = redco_fail(err, REDCO_ENOMEM, "execution", "out of memory");
        }
    }
    if (st != REDCO_OK) {
        json_decref(execution);
        return st;
    }
    *execution_out = execution;
    return REDCO_OK;
}
