#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/nccl_buffers.h"
#include "costmodel/operators/compute_profile.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const double redcoi_hidden_residue_ratio = 0.03;
/* A pipeline transfer's own latency (costmodel/README.md, section 4). */
static const double pipeline_latency_s = 12e-6;

enum { LONGEST_SEQUENCE = 1 << 24, LARGEST_MICRO_BATCH = 1 << 20 };

static bool is_block(redco_class_kind kind)
{
    return kind == REDCO_CLASS_BLOCK || kind == REDCO_CLASS_CROSS;
}

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
    costs->calibration = *calibration;
    costs->calibrated++;
    if (redcoi_fragmentation_ratio(costs) > 0.0) {
        costs->calibration.reserve_bytes = redco_context_bytes;
        costs->calibration.usable_memory_ratio = 1.0;
    }
}

redco_status redco_costs_create(const redco_machine *machine, const redco_model *model, const redco_workload *workload,
                                const redco_calibration *calibration, const redco_comm *comm, redco_costs **costs_out,
                                redco_error *err)
{
    redco_compute compute;
    redco_status st = check_inputs(machine, model, workload, err);
    if (st != REDCO_OK) { return st; }
    st = redco_compute_create(&machine->gpu, workload->precision, calibration, &compute, err);
    if (st == REDCO_OK) { st = redco_compute_use_engine(&compute, &machine->gpu, &workload->engine, err); }
    if (st != REDCO_OK) { return st; }
    redco_costs *const costs = calloc(1, sizeof *costs);
    if (costs == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    costs->machine = *machine;
    costs->model = model;
    costs->dims = redco_model_get_dims(model);
    costs->class_count = (uint32_t)redco_model_classes(model, &costs->classes);
    costs->workload = *workload;
    if (calibration->planned_memory) { costs->workload.engine.planned_memory = true; }
    if (costs->workload.engine.planned_memory) { costs->workload.engine.memory = REDCO_MEMORY_FORMULAS; }
    if ((workload->overlap & REDCO_OVERLAP_TP) != 0) { costs->workload.engine.async_tp = true; }
    /* Processors keep it, also where they play GPUs of a cluster (executor/README.md). */
    if (costs->workload.engine.planned_memory && !redco_gpu_is_host(&machine->gpu) && !calibration->keeps_gate) {
        costs->workload.engine.made_again = true;
    }
    costs->workload.engine.widens =
        costs->workload.engine.planned_memory && (redco_gpu_is_host(&machine->gpu) || calibration->processors);
    use_calibration(costs, calibration);
    costs->comm = comm;
    use_measured_workspace(costs);
    costs->compute = compute;
    redco_compute_use_measured(&costs->compute, &machine->gpu, redco_comm_compute(comm));
    costs->state_bytes = redco_state_bytes_of(workload->precision);
    if (workload->engine.moment_bytes == 2 && workload->precision != REDCO_FP32) {
        costs->state_bytes.optimizer -= 4; /* two moments of two bytes less */
    }
    const redco_graph_work *const work = redco_model_graph_work(costs->model);
    if (work != NULL) { costs->state_bytes.optimizer -= 4 * (2 - work->optimizer_states); }
    if (workload->engine.gradient_bytes > 0) { costs->state_bytes.gradient = workload->engine.gradient_bytes; }
    for (uint32_t i = 0; i < costs->class_count; i++) {
        if (is_block(costs->classes[i].kind)) { costs->blocks += costs->classes[i].layers; }
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
    (void)redco_compute_create(gpu, costs->workload.precision, calibration, &costs->compute, NULL);
    (void)redco_compute_use_engine(&costs->compute, gpu, &costs->workload.engine, NULL);
    redco_compute_use_measured(&costs->compute, gpu, redco_comm_compute(costs->comm));
    drop_layouts(costs);
    forget_ranks(costs);
}

redco_mesh redco_costs_grid(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return redco_shard_grid(&costs->machine, &costs->workload.engine, parallelism);
}

redco_shape redco_costs_shape(const redco_costs *costs, const redco_parallelism *parallelism)
{
    return redcoi_shape_of(costs, parallelism);
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

static redco_status check_degrees(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err)
{
    const redco_parallel p = redcoi_parallel_of(costs, parallelism);
    const redco_parallel_limits limits = limits_of(costs, parallelism);
    return redco_parallel_check(&p, &limits, err);
}

bool redcoi_cp_type_allowed(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_parallel p = redcoi_parallel_of(costs, parallelism);
    const redco_parallel_limits limits = limits_of(costs, parallelism);
    return redco_parallel_check_exchange(&p, &limits, NULL) == REDCO_OK;
}

/* A user's graph is laid out for some numbers of ranks, and may be one of a single micro-batch. */
static redco_status check_graph(const redco_costs *costs, const redco_parallelism *parallelism, redco_error *err)
{
    const redco_graph_work *const work = redco_model_graph_work(costs->model);
    const char *const name = redco_model_name(costs->model);
    if (work == NULL) { return REDCO_OK; }
    if (redco_graph_work_of(work, parallelism->tp) == NULL) {
        return redco_fail(err, REDCO_EVALUE, "tp", "%u ranks: the graph of %s is not laid out for them",
                          parallelism->tp, name);
    }
    if (work->examples > 0 && parallelism->micro_batch != work->examples) {
        return redco_fail(err, REDCO_EVALUE, "micro-batch", "%u: the graph of %s is one of %u examples",
                          parallelism->micro_batch, name, work->examples);
    }
    if (parallelism->sequence_parallel) {
        return redco_fail(err, REDCO_EVALUE, "sequence parallelism", "%s is a pipeline: its examples are not sequences",
                          name);
    }
    return REDCO_OK;
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
    if (st == REDCO_OK) { st = check_graph(costs, s, err); }
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

/* Pipeline stages (README, section 4):  T = m t_max + (p - 1) / v S, with v model chunks a stage and S an even share of
 * the layers. The slowest stage holds ceil(L / p) blocks; the first also the embedding, the last the head, and of these
 * two only the longer adds. With uneven stages the head takes a block's place. */
static void edge_times(const redco_costs *costs, const redcoi_rank *rank, double edge_s[2], double *block_s)
{
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const double s = rank->classes[i].forward_s + rank->classes[i].backward_s;
        const redco_class_kind kind = costs->classes[i].kind;
        if (is_block(kind)) {
            *block_s = fmax(*block_s, s);
        } else {
            edge_s[kind == REDCO_CLASS_HEAD ? 1 : 0] += s;
        }
    }
}

static double edge_repeat(const redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                          uint32_t class_index)
{
    double edge_s[2] = {0.0, 0.0}, block_s = 0.0; /* embedding, head */
    edge_times(costs, rank, edge_s, &block_s);
    const double micro_batches = (double)parallelism->micro_batches;
    const bool head = costs->classes[class_index].kind == REDCO_CLASS_HEAD;
    if (costs->blocks % parallelism->pp != 0) {
        const double beyond_s = fmax(0.0, edge_s[1] - block_s);
        if (!head || !(edge_s[1] > 0.0)) { return 0.0; }
        /* the rest of it is on the way down, and on the way up */
        return (micro_batches * beyond_s + fmin(2.0, micro_batches) * (edge_s[1] - beyond_s)) / edge_s[1];
    }
    if (head == (edge_s[1] >= edge_s[0])) { return micro_batches; }
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    return redcoi_smaller_edge_repeat(&rank->classes[class_index], &s);
}

/* The chunk of a stage that stands at the first or the last position, or chunks where none does. */
static uint32_t edge_chunk(const redco_pipeline *s, uint32_t stage, bool head)
{
    const uint32_t wanted = head ? redco_pipeline_positions(s->kind, s->stages, s->chunks) - 1 : 0;
    uint32_t chunk = 0;
    while (chunk < s->chunks && redco_pipeline_position(s->kind, s->stages, stage, chunk) != wanted) { chunk++; }
    return chunk;
}

/* Activations that a stage keeps of its blocks at its fullest moment, a micro-batch and a layer each. */
static uint64_t kept_blocks(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const uint32_t positions = redco_pipeline_positions(s.kind, s.stages, s.chunks);
    uint64_t kept = 0;
    const bool edges = redco_stage_edges_count(costs->blocks, positions);
    if (parallelism->split == NULL && (edges || costs->blocks % positions == 0)) { /* the search asks often */
        kept = (costs->blocks + (edges ? 2 : 0)) / positions * redco_pipeline_in_flight(&s, stage);
        if (edges && stage == 0) { kept -= redco_pipeline_kept(&s, 0, 0); }
        if (edges && edge_chunk(&s, stage, true) < s.chunks) {
            kept -= redco_pipeline_kept(&s, stage, edge_chunk(&s, stage, true));
        }
        return kept;
    }
    for (uint32_t chunk = 0; chunk < s.chunks; chunk++) {
        const uint32_t position = redco_pipeline_position(s.kind, s.stages, stage, chunk);
        kept += redcoi_position_blocks(costs, parallelism, position) * redco_pipeline_kept(&s, stage, chunk);
    }
    return kept;
}

/* The first stage keeps the most activations; the second where the embedding takes a block's place in the first; any
 * stage where the blocks are split by hand. */
static uint64_t most_kept_blocks(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const uint32_t stages = parallelism->split != NULL || parallelism->pp < 2 ? parallelism->pp : 2;
    uint64_t most = 0;
    for (uint32_t i = 0; i < stages; i++) {
        const uint64_t kept = kept_blocks(costs, parallelism, i);
        most = kept > most ? kept : most;
    }
    return most;
}

/* Stages that hold a block less than the fullest, all behind those; 0 where chunks are interleaved or all are equal. */
static uint32_t shorter_stages(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const uint32_t rest = costs->blocks % parallelism->pp;
    return redco_parallelism_chunks(parallelism) > 1 || rest == 0 ? 0 : parallelism->pp - rest;
}

/* Micro-batches of a class, and the part of a step that none fills, in passes through all its layers. */
static double repeat_of(redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                        uint32_t class_index, double share)
{
    const double pp = parallelism->pp;
    if (redcoi_pace_needed(parallelism)) { return redcoi_pace_find(costs, rank, parallelism)->repeat[class_index]; }
    if (!is_block(costs->classes[class_index].kind)) { return edge_repeat(costs, rank, parallelism, class_index); }
    const uint32_t shorter = shorter_stages(costs, parallelism);
    const double micro_batches = (double)parallelism->micro_batches;
    if (shorter == 0) { return micro_batches * share + (pp - 1.0) / pp / redco_parallelism_chunks(parallelism); }
    /* Stages that hold a block less keep the others waiting for less: once on the way down and up, and under 1F1B,
     * where a later stage's turn-around is what an earlier one waits for, once more. */
    const double held = share * costs->blocks, once = shorter;
    const double twice =
        redco_parallelism_pipeline(parallelism).kind == REDCO_PIPELINE_GPIPE ? 0.0 : fmin(once, micro_batches - 1.0);
    return micro_batches * share + fmax(0.0, (pp - 1.0) * held - once - twice) / costs->blocks;
}

/* The fullest stage in the closed form of one layer. */
redcoi_stage redcoi_stage_of(redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                             uint32_t class_index)
{
    const double micro_batches = (double)parallelism->micro_batches;
    if (parallelism->pp <= 1) { return (redcoi_stage){micro_batches, micro_batches, 1.0, 1.0, 1, 1, 1, 0}; }
    if (is_block(costs->classes[class_index].kind)) {
        const uint64_t held = redcoi_most_blocks(costs, parallelism), kept = most_kept_blocks(costs, parallelism);
        const double share = (double)held / costs->blocks;
        const double repeat = repeat_of(costs, rank, parallelism, class_index, share);
        const double again =
            redcoi_pace_needed(parallelism) ? redcoi_pace_find(costs, rank, parallelism)->again : repeat;
        const bool halves = redco_pipeline_splits_backward(parallelism->schedule);
        const uint64_t late =
            halves ? redcoi_memory_stage(costs, parallelism, class_index, parallelism->pp - 1).late : 0;
        return (redcoi_stage){repeat, again, share, share, held, costs->blocks, kept, late};
    }
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const bool head = costs->classes[class_index].kind == REDCO_CLASS_HEAD;
    const uint32_t position = head ? redco_pipeline_positions(s.kind, s.stages, s.chunks) - 1 : 0;
    uint32_t chunk = 0;
    const uint32_t stage = redco_pipeline_stage_at(&s, position, 0, &chunk);
    const double repeat = repeat_of(costs, rank, parallelism, class_index, 1.0);
    return (redcoi_stage){repeat, repeat, 1.0, 1.0, 1, 1, redco_pipeline_kept(&s, stage, chunk), 0};
}

/* Embedding and head stand on one stage each, and what is done once a step takes as long as the stage with the most
 * parameters needs: the edges have what it holds beyond the blocks of the fullest. */
void redcoi_stages_once(const redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                        redcoi_stage *stages)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    double edge[2] = {0.0, 0.0}, blocks = 0.0, most = 0.0; /* parameters */
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const redco_class_kind kind = costs->classes[i].kind;
        const double params = (double)rank->classes[i].trained_params * costs->classes[i].layers;
        *(is_block(kind) ? &blocks : &edge[kind == REDCO_CLASS_HEAD ? 1 : 0]) += params;
    }
    const double block = blocks / costs->blocks, held = block * redcoi_most_blocks(costs, parallelism);
    for (uint32_t stage = 0; stage < s.stages; stage += s.stages - 1) {
        double params = block * (double)redcoi_stage_sum(costs, parallelism, stage);
        for (int head = 0; head < 2; head++) {
            params += edge_chunk(&s, stage, head != 0) < s.chunks ? edge[head] : 0.0;
        }
        most = fmax(most, params);
    }
    const double beyond = fmax(0.0, most - held);
    const double once[2] = {edge[0] > 0.0 ? fmin(1.0, beyond / edge[0]) : 0.0,
                            edge[1] > 0.0 ? fmin(1.0, fmax(0.0, beyond - edge[0]) / edge[1]) : 0.0};
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const redco_class_kind kind = costs->classes[i].kind;
        if (!is_block(kind)) { stages[i].once = once[kind == REDCO_CLASS_HEAD ? 1 : 0]; }
    }
}

redcoi_stage redcoi_memory_stage(const redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                 uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const redco_class_kind kind = costs->classes[class_index].kind;
    if (is_block(kind)) {
        const uint64_t blocks = redcoi_stage_sum(costs, parallelism, stage);
        return (redcoi_stage){.held = blocks,
                              .of = costs->blocks,
                              .late = (blocks * redco_pipeline_late(&s, stage) + s.chunks - 1) / s.chunks,
                              .kept = kept_blocks(costs, parallelism, stage)};
    }
    const uint32_t chunk = edge_chunk(&s, stage, kind == REDCO_CLASS_HEAD);
    const bool here = chunk < s.chunks;
    return (redcoi_stage){.held = here ? 1 : 0, .of = 1, .kept = here ? redco_pipeline_kept(&s, stage, chunk) : 0};
}

uint64_t redcoi_stage_logits(const redco_parallelism *parallelism, uint32_t stage)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const uint32_t chunk = edge_chunk(&s, stage, true);
    const uint32_t rest = s.group > 0 ? s.micro_batches % s.group : 0;
    if (chunk >= s.chunks) { return 0; }
    if (s.kind != REDCO_PIPELINE_INTERLEAVED || rest == 0) { return redco_pipeline_kept(&s, stage, chunk); }
    /* A last group of fewer is through all chunks while gradients of the one before are made. */
    const uint64_t ahead = (uint64_t)(s.chunks - 1) * (s.group - rest) + 1;
    return ahead < rest ? ahead : rest;
}

redco_group redcoi_stage_pair(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_parallel p = redcoi_parallel_of(costs, parallelism);
    return redco_parallel_stage_pair(&p);
}

double redcoi_stage_transfer_s(const redco_costs *costs, const redco_parallelism *parallelism, double *bytes_out,
                               bool *network_out)
{
    const redco_group pair = redcoi_stage_pair(costs, parallelism);
    /* Tensor-parallel ranks send a part each and gather it behind (Narayanan et al. 2021, section 4.1). */
    const double tokens = (double)parallelism->micro_batch * costs->workload.seq_len / parallelism->cp;
    const double bytes = tokens * costs->dims->hidden * costs->compute.element_bytes / parallelism->tp;
    if (bytes_out != NULL) { *bytes_out = bytes; }
    return pipeline_latency_s + redcoi_transfer_s(costs, bytes, pair, network_out);
}

/* Transfers that stages wait for, though they are sent beside computation: the first micro-batch on its way down, the
 * last on its way up, and what stretches the pace between. Under 1F1B a stage waits for the gradient of what it has
 * just sent: k stages in a row take k micro-batches in no less than their passes and 2 (k - 1) transfers, so that the
 * pace is that of the slowest such row. */
static double pipeline_s(redco_costs *costs, const redco_parallelism *parallelism)
{
    if (parallelism->pp <= 1) { return 0.0; }
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    if (redcoi_pace_needed(parallelism)) { return redcoi_pace_find(costs, rank, parallelism)->transfers_s; }
    const double send_s = redcoi_stage_transfer_s(costs, parallelism, NULL, NULL), pp = parallelism->pp;
    if (s.kind == REDCO_PIPELINE_INTERLEAVED) {
        return 2.0 * (pp - 1.0) * send_s + redcoi_interleaved_s(costs, rank, &s, send_s);
    }
    if (s.kind == REDCO_PIPELINE_GPIPE) { return 2.0 * (pp - 1.0) * send_s; }
    double edge_s[2] = {0.0, 0.0}, block_s = 0.0;
    edge_times(costs, rank, edge_s, &block_s);
    const double longer = costs->blocks % parallelism->pp; /* stages that hold a block more than the last */
    const double base_s = longer > 0.0 ? fmax(block_s, edge_s[1]) : fmax(edge_s[0], edge_s[1]); /* over the others */
    const double all_s = (longer * block_s + edge_s[0] + edge_s[1] + 2.0 * (pp - 1.0) * send_s) / pp;
    const double row_s = longer > 0.0 ? block_s + (edge_s[0] + 2.0 * (longer - 1.0) * send_s) / longer : 0.0;
    const double pace_s = fmax(fmax(all_s, row_s), (longer > 0.0 ? block_s : 0.0) + edge_s[0]);
    const double slower_s = (double)parallelism->micro_batches * fmax(0.0, pace_s - base_s);
    return 2.0 * (pp - 1.0) * send_s + fmax(0.0, slower_s - 2.0 * send_s);
}

/* 6 N + 12 L a d s per token: attention in full, nothing recomputed (the convention of AMSP and most others); causal
 * counting halves attention where it is causal. */
static double model_flops_per_token(const redco_costs *costs, uint32_t examples)
{
    const redco_graph_work *const work = redco_model_graph_work(costs->model);
    if (work != NULL) { /* those of an example are counted in the graph */
        const redco_degree_work *const whole = redco_graph_work_of(work, 1);
        return (redco_degree_flops(whole, false, examples) + redco_degree_flops(whole, true, examples)) / examples;
    }
    const double pair = 12.0 * costs->dims->heads * costs->dims->head_dim * costs->workload.seq_len;
    double flops = 6.0 * (double)redco_model_params(costs->model);
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const redco_class_kind kind = costs->classes[i].kind;
        if (!is_block(kind)) { continue; }
        const bool encoder = kind == REDCO_CLASS_BLOCK && costs->dims->encoder_layers > 0;
        const double self = costs->workload.mfu_causal && !encoder ? 0.5 : 1.0;
        flops += costs->classes[i].layers * pair * (self + (kind == REDCO_CLASS_CROSS ? 1.0 : 0.0));
    }
    return flops;
}

redco_fixed_cost redco_cost_fixed(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_calibration *const c = &costs->calibration;
    const double least_contention = redcoi_least_contention_ratio(costs);
    uint64_t bucket_bytes = 0;
    /* A bucket is never larger than all gradients; engines that plan their memory have them per configuration,
     * and Megatron's are ranges of the gradients themselves. */
    if (redco_mesh_ranks(parallelism->dp) * parallelism->cp > 1 && !costs->workload.engine.planned_memory &&
        costs->workload.engine.memory != REDCO_MEMORY_MEGATRON) {
        const uint64_t gradients =
            redco_share_up(redco_model_params(costs->model), costs->state_bytes.gradient, parallelism->tp);
        bucket_bytes = gradients < costs->workload.bucket_bytes ? gradients : costs->workload.bucket_bytes;
    }
    const uint64_t nccl_bytes = redcoi_nccl_outer_bytes(costs, parallelism);
    return (redco_fixed_cost){.fixed_s = pipeline_s(costs, parallelism),
                              .overhead_s = c->step_overhead_s,
                              .scale = 1.0 + c->scale_ratio * log2((double)costs->machine.nodes),
                              .fixed_bytes = redcoi_rank_find(costs, parallelism)->logits_bytes + bucket_bytes +
                                             redco_reserve_bytes(&costs->machine.gpu, c) + nccl_bytes,
                              .nccl_bytes = nccl_bytes,
                              .capacity_bytes = redco_usable_memory_bytes(&costs->machine.gpu, c),
                              .window_hidden_factor = least_contention + redcoi_hidden_residue_ratio,
                              .window_use = (1.0 - least_contention) * c->overlap_window_ratio,
                              .model_flops_per_token = model_flops_per_token(costs, parallelism->micro_batch),
                              .peak_flops_per_s = costs->compute.peak_flops_per_s};
}

static double window_s(const redco_fixed_cost *fixed, bool overlapped, double comm_s, double compute_s)
{
    if (!overlapped) { return comm_s; }
    return fmax(fixed->window_hidden_factor * comm_s, comm_s - fixed->window_use * compute_s);
}

static void add_layers(redco_prediction *sum, redco_layer_cost *windows, const redco_layer_cost *cost, uint32_t layers)
{
    const double n = layers;
    sum->forward_s += n * cost->forward_s;
    sum->backward_s += n * cost->backward_s;
    sum->recompute_s += n * cost->recompute_s;
    sum->compute_s += n * cost->compute_s;
    sum->optimizer_s += n * cost->optimizer_s;
    sum->layer_exposed_s += n * cost->exposed_s;
    sum->gather_s += n * cost->gather_s;
    sum->reduce_scatter_s += n * cost->reduce_scatter_s;
    sum->grad_reduce_s += n * cost->grad_reduce_s;
    sum->grad_shard_s += n * cost->grad_shard_s;
    sum->broadcast_s += n * cost->broadcast_s;
    sum->tp_s += n * cost->tp_s;
    sum->dynamic_j += n * cost->dynamic_j;
    sum->parameter_bytes += layers * cost->parameter_bytes;
    sum->gradient_bytes += layers * cost->gradient_bytes;
    sum->optimizer_bytes += layers * cost->optimizer_bytes;
    sum->activation_bytes += layers * cost->activation_bytes;
    windows->grad_comm_s += n * cost->grad_comm_s;
    windows->grad_window_s += n * cost->grad_window_s;
    windows->param_sync_comm_s += n * cost->param_sync_comm_s;
    windows->param_sync_window_s += n * cost->param_sync_window_s;
    for (int kind = 0; kind < REDCO_TRANSIENT_COUNT; kind++) {
        if (layers > 0 && cost->transient_bytes[kind] > windows->transient_bytes[kind]) {
            windows->transient_bytes[kind] = cost->transient_bytes[kind];
        }
    }
}

static void sum_memory(redco_prediction *p, const redco_layer_cost *most, const redco_fixed_cost *fixed)
{
    for (int kind = 0; kind < REDCO_TRANSIENT_COUNT; kind++) { p->transient_bytes += most->transient_bytes[kind]; }
    p->nccl_bytes = fixed->nccl_bytes + most->transient_bytes[REDCO_TRANSIENT_NCCL];
    p->transient_bytes -= p->nccl_bytes;
    p->total_bytes = p->parameter_bytes + p->gradient_bytes + p->optimizer_bytes + p->activation_bytes +
                     p->transient_bytes + p->nccl_bytes;
}

/* Stages name the same configurations again and again. @return the layers that have that of an assignment, all its
 * later ones included; 0: an earlier one counts it */
static uint32_t layers_alike(const redco_assignment *assignments, uint32_t count, uint32_t index)
{
    const redco_assignment *const a = &assignments[index];
    uint32_t layers = 0;
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *const b = &assignments[i];
        if (b->class_index != a->class_index || b->config.recompute != a->config.recompute ||
            !redco_shards_equal(b->config.shards, a->config.shards)) {
            continue;
        }
        if (i < index) { return 0; }
        layers += b->layers;
    }
    return layers;
}

/* Memory of a stage of a pipeline into the memory fields of a prediction. */
static redco_prediction stage_memory(redco_costs *costs, const redco_parallelism *parallelism,
                                     const redco_fixed_cost *fixed, const redco_assignment *assignments, uint32_t count,
                                     uint32_t stage)
{
    const uint64_t one_bytes = redcoi_rank_find(costs, parallelism)->logits_bytes;
    const uint64_t logits_bytes = redcoi_stage_logits(parallelism, stage) * one_bytes;
    redco_prediction p = {.transient_bytes = fixed->fixed_bytes - one_bytes + logits_bytes};
    redco_layer_cost most = {.compute_s = 0.0};
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *const a = &assignments[i];
        const uint32_t layers = layers_alike(assignments, count, i);
        if (layers == 0) { continue; }
        const redcoi_stage held = redcoi_memory_stage(costs, parallelism, a->class_index, stage);
        redco_layer_cost cost = {.compute_s = 0.0};
        redcoi_layer_memory(costs, parallelism, a->class_index, &a->config, held, logits_bytes > 0 ? one_bytes : 0,
                            &cost);
        add_layers(&p, &most, &cost, held.held > 0 ? layers : 0);
    }
    sum_memory(&p, &most, fixed);
    return p;
}

/* A pipeline needs what its fullest stage does: the first, which keeps the most activations, the last, which has the
 * logits, or, where stages are unequal, another. */
static void set_pipeline_memory(redco_costs *costs, const redco_parallelism *parallelism, const redco_fixed_cost *fixed,
                                const redco_assignment *assignments, uint32_t count, redco_prediction *prediction)
{
    const redco_pipeline s = redco_parallelism_pipeline(parallelism);
    const bool equal = costs->blocks % redco_pipeline_positions(s.kind, s.stages, s.chunks) == 0;
    const uint32_t step = parallelism->split == NULL && equal ? parallelism->pp - 1 : 1;
    redco_prediction fullest = {.total_bytes = 0};
    for (uint32_t i = 0; i < parallelism->pp; i += step) {
        const redco_prediction stage = stage_memory(costs, parallelism, fixed, assignments, count, i);
        if (stage.total_bytes > fullest.total_bytes) { fullest = stage; }
    }
    const redco_prediction *const fuller = &fullest;
    prediction->parameter_bytes = fuller->parameter_bytes;
    prediction->gradient_bytes = fuller->gradient_bytes;
    prediction->optimizer_bytes = fuller->optimizer_bytes;
    prediction->activation_bytes = fuller->activation_bytes;
    prediction->transient_bytes = fuller->transient_bytes;
    prediction->nccl_bytes = fuller->nccl_bytes;
    prediction->total_bytes = fuller->total_bytes;
}

redco_energy redco_costs_energy(const redco_costs *costs, double dynamic_j, double step_s)
{
    return redco_power_energy(&costs->compute.power, dynamic_j, step_s,
                              (double)costs->machine.nodes * costs->machine.gpus_per_node,
                              (double)costs->workload.global_batch * costs->workload.seq_len);
}

uint64_t redcoi_allocated_bytes(const redco_costs *costs, const redco_prediction *p)
{
    const uint64_t reserve = redco_reserve_bytes(&costs->machine.gpu, &costs->calibration);
    const double fragments = redcoi_fragmentation_ratio(costs);
    const uint64_t beside = p->activation_bytes + p->transient_bytes - reserve; /* memory that is no state */
    return p->total_bytes - p->nccl_bytes - reserve - (uint64_t)(fragments / (1.0 + fragments) * (double)beside);
}

redco_prediction redco_cost_step(redco_costs *costs, const redco_parallelism *parallelism,
                                 const redco_assignment *assignments, uint32_t count)
{
    const redco_fixed_cost fixed = redco_cost_fixed(costs, parallelism);
    const uint32_t overlap = costs->workload.overlap;
    redco_prediction p = {.model_flops_per_token = fixed.model_flops_per_token,
                          .capacity_bytes = fixed.capacity_bytes,
                          .transient_bytes = fixed.fixed_bytes};
    redco_layer_cost sums = {.compute_s = 0.0};
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *const a = &assignments[i];
        const uint32_t layers = layers_alike(assignments, count, i);
        if (layers == 0) { continue; }
        const redco_layer_cost cost = redco_cost_layer(costs, parallelism, a->class_index, &a->config);
        add_layers(&p, &sums, &cost, layers);
    }
    p.grad_reduce_exposed_s = window_s(&fixed, (overlap & REDCO_OVERLAP_AR) != 0, sums.grad_comm_s, sums.grad_window_s);
    p.param_sync_exposed_s =
        window_s(&fixed, (overlap & REDCO_OVERLAP_BC) != 0, sums.param_sync_comm_s, sums.param_sync_window_s);
    p.exposed_comm_s = p.layer_exposed_s + p.grad_reduce_exposed_s + p.param_sync_exposed_s;
    p.amsp_total_s = p.gather_s + p.reduce_scatter_s + p.grad_reduce_s + p.grad_shard_s + p.broadcast_s;
    const double layers_s = p.compute_s + p.exposed_comm_s + p.optimizer_s;
    p.step_s = fixed.scale * (fixed.fixed_s + layers_s) + fixed.overhead_s;
    p.other_s = p.step_s - layers_s;
    const double gpus = (double)costs->machine.nodes * costs->machine.gpus_per_node;
    const double tokens = (double)costs->workload.global_batch * costs->workload.seq_len;
    p.tokens_per_s_per_gpu = tokens / (p.step_s * gpus);
    p.energy = redco_costs_energy(costs, p.dynamic_j, p.step_s);
    p.mfu = p.tokens_per_s_per_gpu * fixed.model_flops_per_token / fixed.peak_flops_per_s;
    sum_memory(&p, &sums, &fixed);
    if (parallelism->pp > 1) { set_pipeline_memory(costs, parallelism, &fixed, assignments, count, &p); }
    p.allocated_bytes = redcoi_allocated_bytes(costs, &p);
    return p;
}

uint64_t redco_cost_bytes(redco_costs *costs, const redco_parallelism *parallelism, const redco_assignment *assignments,
                          uint32_t count)
{
    const redco_fixed_cost fixed = redco_cost_fixed(costs, parallelism);
    const redcoi_memo *const memo = redcoi_memo_of(costs, parallelism);
    redco_prediction p = {.transient_bytes = fixed.fixed_bytes};
    redco_layer_cost most = {.compute_s = 0.0};
    if (parallelism->pp > 1) {
        set_pipeline_memory(costs, parallelism, &fixed, assignments, count, &p);
        return p.total_bytes;
    }
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *const a = &assignments[i];
        redco_layer_cost cost = {.compute_s = 0.0};
        redcoi_layer_memory(costs, parallelism, a->class_index, &a->config, memo->stages[a->class_index],
                            redcoi_rank_find(costs, parallelism)->logits_bytes, &cost);
        add_layers(&p, &most, &cost, a->layers);
    }
    sum_memory(&p, &most, &fixed);
    return p.total_bytes;
}

/* Computation of a micro-batch at a position, nothing recomputed; of its edges that of the layers that stand there. */
static double position_s(const redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism,
                         uint32_t position, uint32_t positions)
{
    double edge_s[2] = {0.0, 0.0}, block_s = (double)INFINITY;
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const double s = rank->classes[i].forward_s + rank->classes[i].backward_s;
        const redco_class_kind kind = costs->classes[i].kind;
        if (is_block(kind)) {
            block_s = fmin(block_s, s);
        } else {
            edge_s[kind == REDCO_CLASS_HEAD ? 1 : 0] += s * costs->classes[i].layers;
        }
    }
    return redcoi_position_blocks(costs, parallelism, position) * block_s + (position == 0 ? edge_s[0] : 0.0) +
           (position + 1 == positions ? edge_s[1] : 0.0);
}

/* A bound of every simulated step: whatever the order of passes, stage i works m w_i, cannot begin before the stages
 * before it have passed the first micro-batch on, and they have to pass the last one's gradient back when it is
 * through: with F and B of the first position of each and t of a transfer T >= max over i of  sum over j < i (F_j + B_j
 * + 2t) + m w_i. Where backward is cut in two, or micro-batches come from both ends, only m w_i is said. Blocks of
 * several classes count as the shortest. */
static double pipeline_bound_s(redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism)
{
    const redco_pipeline p = redco_parallelism_pipeline(parallelism);
    const uint32_t positions = redco_pipeline_positions(p.kind, p.stages, p.chunks);
    const bool whole = !redco_pipeline_splits_backward(p.kind);
    const double send_s = redcoi_stage_transfer_s(costs, parallelism, NULL, NULL);
    double before_s = 0.0, most_s = 0.0;
    for (uint32_t stage = 0; stage < p.stages; stage++) {
        double work_s = 0.0;
        for (uint32_t chunk = 0; chunk < p.chunks; chunk++) {
            const double batches = redco_pipeline_last_batch(&p, chunk) - redco_pipeline_first_batch(&p, chunk) + 1.0;
            const uint32_t position = redco_pipeline_position(p.kind, p.stages, stage, chunk);
            work_s += batches * position_s(costs, rank, parallelism, position, positions);
        }
        most_s = fmax(most_s, before_s + work_s);
        if (whole) { before_s += position_s(costs, rank, parallelism, stage, positions) + 2.0 * send_s; }
    }
    return most_s;
}

double redco_cost_bound(redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_fixed_cost fixed = redco_cost_fixed(costs, parallelism);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    double step_s = fixed.fixed_s;
    if (redcoi_pace_needed(parallelism)) { /* no recurrence for layouts that a bound rules out */
        return fixed.scale * pipeline_bound_s(costs, rank, parallelism) + fixed.overhead_s;
    }
    const redcoi_memo *const memo = redcoi_memo_of(costs, parallelism);
    for (uint32_t i = 0; i < costs->class_count; i++) {
        const redcoi_times *const times = &rank->classes[i];
        step_s += costs->classes[i].layers * memo->stages[i].repeat * (times->forward_s + times->backward_s);
    }
    if (parallelism->pp > 1) { step_s = fmin(step_s, pipeline_bound_s(costs, rank, parallelism)); }
    return fixed.scale * step_s + fixed.overhead_s;
}
