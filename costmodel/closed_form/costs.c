/* The inputs of the cost model, the checks of a parallelism, and choices that another one beats. */
#include "costmodel/closed_form/arena_moments.h"
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/operators/compute_profile.h"

#include <stdlib.h>
#include <string.h>

enum { LONGEST_SEQUENCE = 1 << 24, LARGEST_MICRO_BATCH = 1 << 20 };

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

static redco_status check_positions(const redco_costs *costs, redco_error *err)
{
    const redco_model_dims *const dims = costs->dims;
    const uint32_t seq_len = costs->workload.seq_len;
    if (dims->max_positions == 0 || seq_len <= dims->max_positions) { return REDCO_OK; }
    return redco_fail(err, REDCO_EVALUE, "sequence length", "%u is more than the %u positions that %s learns", seq_len,
                      dims->max_positions, redco_model_name(costs->model));
}

static redco_parallel_limits limits_of(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return (redco_parallel_limits){.model = redco_model_name(costs->model),
                                   .cluster = costs->machine.name,
                                   .heads = costs->dims->heads,
                                   .kv_heads = costs->dims->kv_heads,
                                   .layers = costs->blocks,
                                   .seq_len = costs->workload.seq_len,
                                   .sequence_parallel = parallelism->sequence_parallel,
                                   .zigzag = !costs->workload.engine.contiguous_context};
}

/* Heads divide as the exchange needs. */
static bool cp_type_allowed(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_parallel p = redcoi_parallel_of(costs, parallelism);
    const redco_parallel_limits limits = limits_of(costs, parallelism);
    return redco_parallel_check_exchange(&p, &limits, NULL) == REDCO_OK;
}

/* Experts on their grid: whole replicas in blocks of nodes, and rows that ranks have for themselves. */
static redco_status check_experts(const redco_costs *costs, const redco_parallelism *parallelism,
                                  const redco_parallel *dense, redco_error *err)
{
    const uint32_t ep = redco_parallelism_ep(parallelism), etp = redco_parallelism_etp(parallelism);
    const redco_rank_grid grid = redco_parallel_grid(dense);
    redco_rank_grid experts;
    redco_mesh mesh;
    if (costs->dims->experts == 0 && redco_parallelism_own_experts(parallelism)) {
        return redco_fail(err, REDCO_EVALUE, "shards", "experts have meshes, but %s has no experts",
                          redco_model_name(costs->model));
    }
    if (costs->dims->experts == 0) {
        return ep == 1 ? REDCO_OK
                       : redco_fail(err, REDCO_EVALUE, "ep", "%u ranks share out experts, which %s has none of", ep,
                                    redco_model_name(costs->model));
    }
    if (etp != parallelism->tp && etp != 1) {
        return redco_fail(err, REDCO_EVALUE, "etp", "%u: experts are cut by tp = %u or not at all", etp,
                          parallelism->tp);
    }
    if ((etp != parallelism->tp || ep > 1) && parallelism->tp > 1 && !parallelism->sequence_parallel) {
        return redco_fail(err, REDCO_EVALUE, "ep",
                          "ep = %u and etp = %u with tp = %u need sequence parallelism, by which ranks have tokens of "
                          "their own",
                          ep, etp, parallelism->tp);
    }
    const redco_status st = redco_grid_of_experts(&grid, etp, ep, costs->dims->experts, &experts, err);
    if (st != REDCO_OK || (ep == 1 && etp == parallelism->tp && !redco_parallelism_own_experts(parallelism))) {
        return st;
    }
    return redco_dp_mesh(dense->gpus_per_node, (uint64_t)etp * ep, experts.degrees[REDCO_DIM_EDP], &mesh, err);
}

static redco_status check_degrees(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err)
{
    const redco_parallel p = redcoi_parallel_of(costs, parallelism);
    const redco_parallel_limits limits = limits_of(costs, parallelism);
    const redco_status st = redco_parallel_check(&p, &limits, err);
    return st == REDCO_OK ? check_experts(costs, parallelism, &p, err) : st;
}

redco_status redco_parallelism_check(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err)
{
    const redco_parallelism *const s = parallelism;
    if (s->tp == 0 || s->pp == 0 || s->cp == 0 || s->micro_batch == 0 || s->micro_batches == 0 || s->dp.gpus == 0 ||
        s->dp.nodes == 0) {
        return redco_fail(err, REDCO_EVALUE, "parallelism",
                          "tp, pp, cp, dp, micro-batch and their number are at least 1");
    }
    redco_status st = check_positions(costs, err);
    if (st == REDCO_OK) { st = redco_model_check_rank(costs->model, s->tp, s->micro_batch, s->sequence_parallel, err); }
    if (st != REDCO_OK || (st = check_degrees(costs, s, err)) != REDCO_OK) { return st; }
    const uint64_t batch = costs->workload.global_batch, dp = redco_mesh_ranks(s->dp);
    if (s->micro_batch > LARGEST_MICRO_BATCH || batch % dp != 0 || batch / dp % s->micro_batch != 0 ||
        batch / dp / s->micro_batch != s->micro_batches) {
        return redco_fail(err, REDCO_EVALUE, "batch",
                          "%llu sequences are not micro-batch %u x %llu micro-batches x %llu data-parallel ranks",
                          (unsigned long long)batch, s->micro_batch, (unsigned long long)s->micro_batches,
                          (unsigned long long)dp);
    }
    return s->pp > 1 ? redco_step_chunks_check(costs, s, err) : REDCO_OK;
}

/* ---- types of context parallelism that no step takes ---- */

struct way {
    double forward_s, backward_s; /* attention and what it waits for */
    redco_layer_bytes bytes;
};

static struct way way_of(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index)
{
    const redco_shape shape = redcoi_shape_of(costs, parallelism);
    redco_operator ops[REDCO_OPERATORS_MAX];
    const uint32_t count = redco_layer_operators(costs->model, class_index, &shape, ops);
    const double clock_ratio = redco_compute_clock_ratio(&costs->compute, costs->model, &shape);
    const redcoi_core core = redcoi_attention_core(&costs->compute, ops, count, clock_ratio);
    const redcoi_tp_times traffic = redcoi_context_times(costs, &shape, core.forward_s, core.backward_s);
    redcoi_arena_peak peaks[REDCO_RECOMPUTE_SETS] = {{.values = 0}};
    return (struct way){.forward_s = core.forward_s + traffic.forward_before_s + traffic.forward_after_s,
                        .backward_s = core.backward_s + traffic.backward_before_s + traffic.backward_after_s,
                        .bytes = redcoi_arena_layer_bytes(costs, class_index, &shape, peaks)};
}

/* A step grows with the seconds of every pass, and its memory with what layers keep and work with; all else is the same
 * for both. (Of window(X, C) no more than (1 - contention) of what C gains is lost, less than C adds.) */
static bool is_no_worse(const struct way *a, const struct way *b)
{
    bool no_worse = a->forward_s <= b->forward_s && a->backward_s <= b->backward_s;
    for (uint32_t i = 0; i < REDCO_RECOMPUTE_SETS; i++) { /* 0 of those that there are not */
        no_worse = no_worse && a->bytes.kept[i] <= b->bytes.kept[i] && a->bytes.again[i] <= b->bytes.again[i];
    }
    return no_worse;
}

/* In all classes. Of two that are alike the first stays. */
static bool is_superfluous(struct way ways[][REDCOI_CLASSES_MAX], const redco_costs *costs, uint32_t types, int type)
{
    for (int other = 0; other < REDCO_CP_TYPES; other++) {
        bool beaten = other != type && (types >> other & 1) != 0, alike = true;
        for (uint32_t c = 0; c < costs->class_count && beaten; c++) {
            beaten = is_no_worse(&ways[other][c], &ways[type][c]);
            alike = alike && is_no_worse(&ways[type][c], &ways[other][c]);
        }
        if (beaten && (other < type || !alike)) { return true; }
    }
    return false;
}

uint32_t redco_costs_cp_types(redco_costs *costs, const redco_parallelism *parallelism, uint32_t types)
{
    struct way ways[REDCO_CP_TYPES][REDCOI_CLASSES_MAX] = {{{.forward_s = 0.0}}};
    redco_parallelism s = *parallelism;
    uint32_t allowed = 0, kept = 0;
    for (int type = 0; type < REDCO_CP_TYPES; type++) {
        s.cp_type = (redco_cp_type)type;
        if ((types >> type & 1) != 0 && cp_type_allowed(costs, &s)) { allowed |= 1U << type; }
    }
    if ((allowed & (allowed - 1)) == 0) { return allowed; }
    for (int type = 0; type < REDCO_CP_TYPES; type++) {
        s.cp_type = (redco_cp_type)type;
        for (uint32_t c = 0; c < costs->class_count && (allowed >> type & 1) != 0; c++) {
            const redco_class_kind kind = costs->classes[c].kind;
            if (redco_class_is_block(kind)) { ways[type][c] = way_of(costs, &s, c); }
        }
    }
    for (int type = 0; type < REDCO_CP_TYPES; type++) {
        if ((allowed >> type & 1) != 0 && !is_superfluous(ways, costs, allowed, type)) { kept |= 1U << type; }
    }
    return kept;
}
