/* The inputs of the cost model. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/operators/compute_profile.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_SEQUENCE = 1 << 24 };

static redco_status check_inputs(const redco_machine *machine, const redco_model *model, const redco_workload *workload,
                                 redco_error *err)
{
    const redco_layer_class *classes = NULL;
    const size_t class_count = redco_model_classes(model, &classes);
    if (class_count == 0 || class_count > REDCOI_CLASSES_MAX) {
        return redco_fail(err, REDCO_EVALUE, redco_model_name(model), "has %zu classes of layers; 1 to %d are known",
                          class_count, REDCOI_CLASSES_MAX);
    }
    if (machine->nodes == 0 || machine->gpus_per_node == 0) {
        return redco_fail(err, REDCO_EVALUE, machine->name, "has no GPUs");
    }
    if (workload->seq_len == 0 || workload->seq_len > LONGEST_SEQUENCE) {
        return redco_fail(err, REDCO_EVALUE, "sequence length", "is %u; 1 to %d tokens are possible", workload->seq_len,
                          LONGEST_SEQUENCE);
    }
    if (workload->global_batch == 0) {
        return redco_fail(err, REDCO_EVALUE, "global batch", "is 0; at least one sequence a step is needed");
    }
    if (workload->bucket_bytes == 0) {
        return redco_fail(err, REDCO_EVALUE, "bucket", "is 0 bytes; gradients are reduced in buckets of more");
    }
    return REDCO_OK;
}

/* Workspace that products of that device were seen to ask for. */
static void use_measured_workspace(redco_costs *costs)
{
    const redco_compute_profile *const measured = redco_comm_compute(costs->comm);
    redco_engine *const engine = &costs->workload.engine;
    if (engine->planned_memory && engine->workspace_bytes == 0 && measured != NULL) {
        engine->workspace_bytes = redco_compute_profile_how(measured)->workspace_bytes;
    }
}

double redcoi_fragmentation_ratio(const redco_costs *costs)
{
    const redco_engine *const engine = &costs->workload.engine;
    return engine->planned_memory ? 0.0 : engine->fragmentation_percent / 100.0;
}

/* Where the allocator's share is known, CUDA's context alone is held back. */
static void use_calibration(redco_costs *costs, const redco_calibration *calibration)
{
    const redco_expert_constants kept = costs->calibration.experts;
    costs->calibration = *calibration;
    if (calibration->experts.name[0] == '\0') { costs->calibration.experts = kept; }
    costs->calibrated++;
    if (redcoi_fragmentation_ratio(costs) > 0.0) {
        costs->calibration.reserve_bytes = redco_context_bytes;
        costs->calibration.usable_memory_ratio = 1.0;
    }
}

void redcoi_memo_clear(redco_costs *costs)
{
    memset(&costs->memo, 0, sizeof costs->memo);
}

redco_status redco_costs_create(const redco_machine *machine, const redco_model *model, const redco_workload *workload,
                                const redco_calibration *calibration, const redco_comm *comm, redco_costs **costs_out,
                                redco_error *err)
{
    redco_compute compute;
    redco_calibration whole = *calibration;
    redco_status st = check_inputs(machine, model, workload, err);
    if (st == REDCO_OK && redco_model_get_dims(model)->experts > 0 && whole.experts.name[0] == '\0') {
        st = redco_expert_constants_read(redco_expert_constants_set(&machine->gpu), &whole.experts, err);
    }
    if (st != REDCO_OK) { return st; }
    st = redco_compute_create(&machine->gpu, workload->precision, &whole, &compute, err);
    if (st == REDCO_OK) { st = redco_compute_use_engine(&compute, &machine->gpu, &workload->engine, err); }
    if (st != REDCO_OK) { return st; }
    redco_costs *const costs = calloc(1, sizeof *costs);
    if (costs == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    costs->machine = *machine;
    costs->model = model;
    costs->dims = redco_model_get_dims(model);
    costs->class_count = (uint32_t)redco_model_classes(model, &costs->classes);
    costs->workload = *workload;
    (void)redco_recompute_add(&costs->recompute, REDCO_RECOMPUTE_NONE);
    (void)redco_recompute_add(&costs->recompute, REDCO_RECOMPUTE_FULL);
    if (calibration->planned_memory) { costs->workload.engine.planned_memory = true; }
    if (costs->workload.engine.planned_memory) { costs->workload.engine.memory = REDCO_MEMORY_FORMULAS; }
    if ((workload->overlap & REDCO_OVERLAP_TP) != 0) { costs->workload.engine.async_tp = true; }
    /* Processors keep it, also where they play GPUs of a cluster (costmodel/graph/README.md). */
    if (costs->workload.engine.planned_memory && !redco_gpu_is_host(&machine->gpu) && !calibration->keeps_gate) {
        costs->workload.engine.made_again = true;
    }
    costs->workload.engine.widens =
        costs->workload.engine.planned_memory && (redco_gpu_is_host(&machine->gpu) || calibration->processors);
    use_calibration(costs, &whole);
    costs->comm = comm;
    use_measured_workspace(costs);
    costs->compute = compute;
    costs->ops = calloc(redco_model_operators_most(model), sizeof *costs->ops);
    costs->times = malloc((size_t)REDCOI_TIMES_CACHED * costs->class_count * sizeof *costs->times);
    if (costs->ops == NULL || costs->times == NULL) {
        redco_costs_free(costs);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    redco_compute_use_measured(&costs->compute, &machine->gpu, redco_comm_compute(comm));
    costs->state_bytes = redco_state_bytes_of(workload->precision, &costs->workload.engine, redco_model_moments(model));
    for (uint32_t i = 0; i < costs->class_count; i++) {
        if (!redco_class_is_block(costs->classes[i].kind)) { continue; }
        costs->blocks += costs->classes[i].layers;
        costs->block_classes++;
    }
    *costs_out = costs;
    return REDCO_OK;
}

bool redcoi_works_in_backward(const redco_engine *engine)
{
    return engine->planned_memory || engine->memory != REDCO_MEMORY_FORMULAS;
}

static void forget_ranks(redco_costs *costs)
{
    for (uint32_t i = 0; i < REDCOI_TIMES_CACHED; i++) { redcoi_rank_clear(&costs->ranks[i]); }
    for (uint32_t i = 0; i < REDCOI_PACES_CACHED; i++) { costs->paces[i].tp = 0; }
    redcoi_memo_clear(costs);
}

uint32_t redcoi_recompute_set(redco_costs *costs, redco_recompute set)
{
    uint32_t at = redco_recompute_find(&costs->recompute, set);
    if (at < costs->recompute.count) { return at; }
    if (!redco_recompute_add(&costs->recompute, set)) { /* full: those there are belong to other steps */
        costs->recompute = (redco_recompute_list){{REDCO_RECOMPUTE_NONE, REDCO_RECOMPUTE_FULL}, 2};
        (void)redco_recompute_add(&costs->recompute, set);
    }
    forget_ranks(costs);
    return redco_recompute_find(&costs->recompute, set);
}

void redco_costs_prepare(redco_costs *costs, const redco_recompute_list *sets)
{
    for (uint32_t i = 0; i < sets->count; i++) { (void)redcoi_recompute_set(costs, sets->sets[i]); }
}

static bool no_worse(const redcoi_times *times, uint32_t a, uint32_t b)
{
    return times->recompute_s[a] <= times->recompute_s[b] && times->activation_bytes[a] <= times->activation_bytes[b] &&
           times->recompute_bytes[a] <= times->recompute_bytes[b];
}

/* The first of two that are alike beats the other. */
static bool beats(const redco_costs *costs, const redcoi_rank *rank, redco_recompute better, redco_recompute worse)
{
    const uint32_t a = redco_recompute_find(&costs->recompute, better);
    const uint32_t b = redco_recompute_find(&costs->recompute, worse);
    bool alike = true;
    if (better == worse || redco_recompute_mixes(better) < redco_recompute_mixes(worse)) { return false; }
    for (uint32_t c = 0; c < costs->class_count; c++) {
        if (!redco_class_is_block(costs->classes[c].kind)) { continue; }
        for (uint32_t layout = 0; layout < rank->layout_count[c]; layout++) {
            const redcoi_times *const times = redcoi_times_of(rank, c, layout);
            if (!no_worse(times, a, b)) { return false; }
            alike = alike && no_worse(times, b, a);
        }
    }
    return !alike || better < worse;
}

uint32_t redco_costs_recompute_tried(redco_costs *costs, const redco_parallelism *parallelism,
                                     const redco_recompute_list *sets)
{
    uint32_t tried = 0;
    if (sets->count == 1) { return 1; }
    redco_costs_prepare(costs, sets);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    for (uint32_t i = 0; i < sets->count; i++) {
        bool beaten = beats(costs, rank, REDCO_RECOMPUTE_NONE, sets->sets[i]);
        for (uint32_t j = 0; j < sets->count && !beaten; j++) {
            beaten = beats(costs, rank, sets->sets[j], sets->sets[i]);
        }
        tried |= beaten ? 0 : 1U << i;
    }
    return tried != 0 ? tried : 1;
}

static void drop_layouts(redco_costs *costs)
{
    if (costs->layouts.free != NULL) { costs->layouts.free(costs->layouts.context); }
    costs->layouts = (redco_layouts){.cost = NULL};
}

void redco_costs_free(redco_costs *costs)
{
    if (costs == NULL) { return; }
    drop_layouts(costs);
    forget_ranks(costs);
    free(costs->ops);
    free(costs->times);
    free(costs);
}

void redco_costs_set_layouts(redco_costs *costs, redco_layouts layouts)
{
    drop_layouts(costs);
    forget_ranks(costs);
    costs->layouts = layouts;
    costs->layout_status = REDCO_OK;
}

redco_status redco_costs_failure(const redco_costs *costs, redco_error *err)
{
    if (costs->layout_status == REDCO_OK) { return REDCO_OK; }
    return redco_fail(err, costs->layout_status, costs->layout_error.place, "%s", costs->layout_error.text);
}

const redco_compute *redco_costs_compute(const redco_costs *costs)
{
    return &costs->compute;
}

void redco_costs_recalibrate(redco_costs *costs, const redco_calibration *calibration)
{
    const redco_gpu *const gpu = &costs->machine.gpu;
    use_calibration(costs, calibration);
    /* Neither call fails: what they check was checked when the costs were created, and is no constant. */
    redco_calibration whole = *calibration;
    whole.experts = costs->calibration.experts;
    (void)redco_compute_create(gpu, costs->workload.precision, &whole, &costs->compute, NULL);
    (void)redco_compute_use_engine(&costs->compute, gpu, &costs->workload.engine, NULL);
    redco_compute_use_measured(&costs->compute, gpu, redco_comm_compute(costs->comm));
    drop_layouts(costs);
    forget_ranks(costs);
}
