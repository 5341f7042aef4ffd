/* The memory of one layer on the rank that has most of it. */
#include "costmodel/closed_form/arena_moments.h"
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_eager.h"
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/memory_saved.h"
#include "costmodel/closed_form/nccl_buffers.h"
#include "costmodel/closed_form/padded_shards.h"

/* The fullest rank's share of the states of a part of one layer. Whole tensors (inter-tensor sharding) do not divide
 * evenly, so each layer carries the imbalance of the whole model's assignment in proportion. */
static uint64_t sharded_params(const redcoi_job *job, redco_mesh mesh, bool trained)
{
    const redcoi_part_params *const own = job->own;
    const uint64_t parameter_shards = redco_mesh_ranks(job->shards.parameters);
    const uint64_t owners = redco_mesh_ranks(mesh) / parameter_shards;
    /* A stage that holds the head of a tied model without its embedding has a copy of the table. */
    const uint64_t all = job->parallelism->pp > 1 ? own->gather_params : own->params;
    const uint64_t held = trained ? all - (own->params - own->trained_params) : all;
    const uint64_t params = redco_share_up(held, 1, parameter_shards);
    if (owners <= 1) { return params; }
    if (job->parallelism->scheme == REDCO_INTRA_TENSOR) { return redco_share_up(params, 1, owners); }
    const redcoi_rank_key *const ranks = &job->rank->key;
    const bool experts = job->part == REDCO_PART_EXPERTS;
    const uint32_t tp = experts ? ranks->etp : ranks->tp;
    const uint64_t cut = redcoi_fullest_owner(job->costs, job->part, tp, owners, false) +
                         redcoi_fullest_owner(job->costs, job->part, tp, owners, true);
    const uint64_t fullest = experts ? redco_share_up(cut, 1, ranks->ep) : cut;
    const uint64_t whole = trained ? job->rank->trained_params[job->part] : job->rank->params[job->part];
    return redco_share_up(params, fullest, whole);
}

/* DeepSpeed keeps reduced gradients where the states are (edaa7221, deepspeed/runtime/zero/stage_1_and_2.py:578,
 * stage3.py:547), FSDP all shards (torch/distributed/fsdp/api.py@d0f2af8b: CPUOffload). */
static void move_to_host(const redcoi_job *job, redcoi_states *states)
{
    const redco_offload offload = job->costs->workload.engine.offload;
    const bool alone = redco_mesh_ranks(job->grid) == 1;
    if (offload == REDCO_OFFLOAD_NONE) { return; }
    states->host_bytes = states->optimizer_bytes;
    states->optimizer_bytes = 0;
    if (alone || redco_mesh_ranks(job->shards.gradients) > 1) {
        states->host_bytes += states->gradient_bytes;
        states->gradient_bytes = 0;
    }
    if (offload == REDCO_OFFLOAD_PARAMETERS && redco_mesh_ranks(job->shards.parameters) > 1) {
        states->host_bytes += states->parameter_bytes;
        states->parameter_bytes = 0;
    }
}

static redcoi_states part_states(const redcoi_job *job)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    const uint64_t params = sharded_params(job, job->shards.parameters, false);
    const uint64_t trained = sharded_params(job, job->shards.parameters, true);
    const uint64_t owned = sharded_params(job, job->shards.optimizer, true);
    /* FSDP's shards are the 32-bit parameters that the optimizer updates; 16-bit ones are there while gathered. */
    const redco_memory_kind memory = job->costs->workload.engine.memory;
    const bool masters =
        (memory == REDCO_MEMORY_PYTORCH || memory == REDCO_MEMORY_XLA || memory == REDCO_MEMORY_EAGER) &&
        redco_mesh_ranks(job->shards.parameters) > 1 && bytes.master > 0;
    const uint32_t master_bytes = masters ? 4 : 0;
    const uint64_t frozen =
        job->own->params > job->own->trained_params
            ? redco_share_up(job->own->frozen_bytes, params - trained, job->own->params - job->own->trained_params)
            : 0;
    const uint64_t second = redcoi_has_secondary(job)
                                ? redco_share_up(job->own->params, masters ? master_bytes : bytes.parameter,
                                                 redco_mesh_ranks(job->parallelism->secondary))
                                : 0;
    const uint32_t gradient_bytes = memory == REDCO_MEMORY_EAGER ? redcoi_eager_gradient_bytes(job) : bytes.gradient;
    redcoi_states states = {.owned_params = owned,
                            .parameter_bytes = trained * (masters ? master_bytes : bytes.parameter) + frozen + second,
                            .gradient_bytes = sharded_params(job, job->shards.gradients, true) * gradient_bytes,
                            .optimizer_bytes = owned * (bytes.optimizer - master_bytes)};
    move_to_host(job, &states);
    return states;
}

redcoi_states redcoi_layer_states(const redcoi_job *job)
{
    redcoi_states sum = {.owned_params = 0};
    const uint32_t parts = redcoi_job_parts(job);
    for (redco_param_part p = REDCO_PART_DENSE; p < parts; p++) {
        const redcoi_job part = redcoi_job_part(job, p);
        const redcoi_states states = part_states(&part);
        sum.owned_params += states.owned_params;
        sum.parameter_bytes += states.parameter_bytes;
        sum.gradient_bytes += states.gradient_bytes;
        sum.optimizer_bytes += states.optimizer_bytes;
        sum.host_bytes += states.host_bytes;
    }
    if (!job->costs->workload.engine.planned_memory || job->least) { return sum; } /* no padding is least */
    redcoi_states padded = redcoi_padded_states(job);
    padded.owned_params = sum.owned_params; /* padding is not updated */
    return padded;
}

/* Values recomputed for the gradients of inputs stay until those of weights are made. Under DualPipe many of these
 * come last, when little else is kept. */
static uint64_t with_late(const redcoi_job *job, uint64_t kept_bytes)
{
    const uint64_t late = job->stage.late, of = job->stage.of;
    const uint64_t again = redco_share_up(job->times->recompute_bytes[job->set], late, of);
    if (job->parallelism->schedule == REDCO_PIPELINE_ZB_H1) { return kept_bytes + again; }
    const uint64_t last = again + redco_share_up(job->times->activation_bytes[job->set], late, of);
    return last > kept_bytes ? last : kept_bytes;
}

/* The same of an engine that plans its memory: what the second half of backward reads, which lies where the first has
 * given activations back, as far as they reach. */
static uint64_t with_planned_late(const redcoi_job *job, uint64_t kept_bytes)
{
    const uint64_t late = redcoi_arena_late_bytes(job), own = job->times->activation_bytes[job->set];
    if (!redco_class_is_block(job->class->kind)) { return kept_bytes; }
    const uint64_t bytes = job->recompute == REDCO_RECOMPUTE_FULL ? late : late > own ? late - own : 0;
    return kept_bytes + redco_share_up(bytes, job->stage.late, job->stage.of);
}

uint64_t redcoi_activation_bytes(const redcoi_job *job)
{
    const uint64_t kept = redco_share_up(job->times->activation_bytes[job->set], job->stage.kept, job->stage.of);
    if (job->stage.late > 0 && job->costs->workload.engine.planned_memory) { return with_planned_late(job, kept); }
    return job->stage.late > 0 && job->recompute == REDCO_RECOMPUTE_FULL ? with_late(job, kept) : kept;
}

/* Products add to the kept gradients themselves; autograd is handed an empty tensor of each matrix's shape, which is
 * kept for all layers (transformer_engine/pytorch/module/base.py, get_dummy_wgrad). Beside them one workspace of
 * Transformer Engine's products and one of PyTorch's, 32 MiB each from Hopper on. */
static uint64_t empty_gradients(const redcoi_job *job)
{
    static const uint64_t workspaces = UINT64_C(64) << 20;
    uint64_t params = 0;
    if (!redco_class_is_block(job->class->kind)) { return 0; }
    for (uint32_t i = 0; i < job->own->module_size_count; i++) {
        params += job->own->modules[i].params * job->own->modules[i].count;
    }
    if (params > job->own->trained_params) { params = job->own->trained_params; } /* frozen ones have none */
    return redco_share_up(params, 2, 1) + workspaces;
}

uint64_t redcoi_slot_bytes(const redcoi_job *job)
{
    const redco_saver saver = redco_saver_of(&job->costs->workload.engine, job->recompute);
    return saver == REDCO_SAVER_TE ? empty_gradients(job) : redcoi_arena_slot_bytes(job);
}

void redcoi_add_memory(const redcoi_job *job, const redcoi_states *states, redco_layer_cost *cost)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    const uint64_t held = job->stage.held, of = job->stage.of;
    cost->parameter_bytes = redco_share_up(states->parameter_bytes, held, of);
    cost->gradient_bytes = redco_share_up(states->gradient_bytes, held, of);
    cost->optimizer_bytes = redco_share_up(states->optimizer_bytes, held, of);
    cost->host_bytes = redco_share_up(states->host_bytes, held, of);
    cost->activation_bytes = redcoi_activation_bytes(job);
    const uint32_t parts = redcoi_job_parts(job);
    for (redco_param_part p = REDCO_PART_DENSE; p < parts && !job->least; p++) {
        const redcoi_job part = redcoi_job_part(job, p);
        if (p == REDCO_PART_DENSE || redcoi_has_expert_grid(&part)) { /* else these are the same communicators */
            cost->transient_bytes[REDCO_TRANSIENT_NCCL] += redcoi_sharded_bytes(&part);
        }
    }
    if (job->costs->workload.engine.planned_memory) {
        redcoi_arena_transients(job, cost);
        return;
    }
    if (redco_engine_is_eager(&job->costs->workload.engine)) {
        redcoi_eager_memory(job, states, cost);
        return;
    }
    for (redco_param_part p = REDCO_PART_DENSE; p < parts; p++) {
        const redcoi_job part = redcoi_job_part(job, p);
        if (redco_mesh_ranks(part.shards.parameters) > 1) { /* this layer's weights, those of the block fetched ahead */
            cost->transient_bytes[REDCO_TRANSIENT_GATHER] +=
                (part.own->gather_params + part.rank->block_params[p]) * bytes.parameter;
        }
        if (redco_mesh_ranks(part.shards.gradients) > 1) {
            cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] += redcoi_whole_gradient_bytes(&part);
        }
    }
    const uint64_t slot_bytes = redcoi_slot_bytes(job);
    if (slot_bytes > cost->transient_bytes[REDCO_TRANSIENT_GRADIENT]) {
        cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = slot_bytes;
    }
    /* Where backward's own buffers are known, those of one layer are there at a time, whatever its policy. */
    const bool one_kind = job->costs->workload.engine.memory != REDCO_MEMORY_FORMULAS;
    const int kind =
        one_kind || job->recompute == REDCO_RECOMPUTE_FULL ? REDCO_TRANSIENT_RECOMPUTE : REDCO_TRANSIENT_SELECTIVE;
    const uint64_t again = job->times->recompute_bytes[job->set];
    cost->transient_bytes[kind] = again > job->logits_bytes ? again - job->logits_bytes : 0;
}

static void layout_memory(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                          uint32_t layout, const redco_layer_config *config, redcoi_stage stage, uint64_t logits_bytes,
                          redco_layer_cost *cost_out)
{
    redcoi_job job = redcoi_job_of(costs, parallelism, class_index, layout, config);
    job.stage = stage;
    job.logits_bytes = logits_bytes;
    const redcoi_states states = redcoi_layer_states(&job);
    redcoi_add_memory(&job, &states, cost_out);
}

void redcoi_layer_memory(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                         const redco_layer_config *config, redcoi_stage stage, uint64_t logits_bytes,
                         redco_layer_cost *cost_out)
{
    (void)redcoi_recompute_set(costs, config->recompute);
    const redcoi_rank *const rank = redcoi_rank_find(costs, parallelism);
    redco_layer_cost sum = {.compute_s = 0.0};
    if (rank->layout_count[class_index] <= 1) {
        layout_memory(costs, parallelism, class_index, 0, config, stage, logits_bytes, cost_out);
        return;
    }
    for (uint32_t i = 0; i < rank->layout_count[class_index]; i++) {
        redco_layer_cost cost = {.compute_s = 0.0};
        layout_memory(costs, parallelism, class_index, i, config, stage, logits_bytes, &cost);
        const uint32_t at = rank->first_layout[class_index] + i;
        redcoi_cost_add(&sum, &cost, rank->members[at], rank->memory_members[at]);
    }
    redcoi_cost_divide(&sum, rank->member_count[class_index], rank->memory_count[class_index]);
    *cost_out = sum;
}
