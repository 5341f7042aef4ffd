/* Memory of eager PyTorch beside what layers keep: copies of weights and gradients, and the update of the states. */
#include "costmodel/closed_form/memory_eager.h"

/* Whole gradients of a layer before they are cut. Where parameters are whole, a module's are moved into the bucket,
 * which is then as large as they are: of one that is larger than a bucket there are two, less the bucket that is
 * counted for every layer. */
uint64_t redcoi_whole_gradient_bytes(const redcoi_job *job)
{
    const redcoi_part_params *const times = job->own;
    const uint64_t each = job->costs->state_bytes.gradient, all = times->trained_params * each;
    uint64_t largest = 0;
    const bool frozen = times->trained_params < times->params; /* the largest module has no gradient then */
    for (uint32_t i = 0; i < times->module_size_count && !frozen; i++) {
        if (times->modules[i].params > largest) { largest = times->modules[i].params; }
    }
    const uint64_t twice = 2 * largest * each, bucket = job->costs->workload.bucket_bytes;
    const bool moved = redco_mesh_ranks(job->shards.parameters) == 1 && largest * each > bucket;
    return moved && twice - bucket > all ? twice - bucket : all;
}

/* torch.optim.AdamW over lists of tensors makes the root of the second moments of all of them (torch/optim/adam.py,
 * _multi_tensor_adam; its fused kernel, the Trainer's choice from torch 2.8 on, needs none). ZeRO copies its gradients
 * into one range and that into 32 bits (stage_1_and_2.py, step(); stage3.py, _prepare_fp32_grad_for_sub_group()). */
static const uint64_t wide_gradient_bytes = 4, flat_gradient_bytes = 2;
/* DeepSpeed edaa722, deepspeed/runtime/zero/config.py: sub_group_size, max_live_parameters, prefetch_bucket_size. */
static const uint64_t sub_group_params = UINT64_C(1000000000), live_params = UINT64_C(1050000000);

static bool is_ddp(const redcoi_job *job)
{
    return redco_mesh_ranks(job->shards.optimizer) == 1 && redco_mesh_ranks(job->grid) > 1;
}

uint32_t redcoi_eager_gradient_bytes(const redcoi_job *job)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    if (is_ddp(job)) { return 2 * bytes.gradient; }
    /* FSDP adds what it reduced to a gradient of the shard's own width. */
    const bool whole = redco_mesh_ranks(job->shards.parameters) > 1 && !job->costs->workload.engine.no_masters;
    return whole ? 4 : bytes.gradient;
}

/* The part of a rank's own parameters that is updated at a time: ZeRO-3 takes sub-groups. */
static uint64_t updated_share(const redcoi_job *job, uint64_t bytes)
{
    const bool zero = job->costs->workload.engine.memory == REDCO_MEMORY_ZERO;
    const uint64_t all = (uint64_t)job->state_params / redco_mesh_ranks(job->shards.optimizer);
    const bool grouped = zero && redco_mesh_ranks(job->shards.parameters) > 1 && all > sub_group_params;
    return grouped ? redco_share_up(bytes, sub_group_params, all) : bytes;
}

/* Embedding, head and final norm: FSDP's outermost unit. */
static uint64_t edge_params(const redcoi_job *job)
{
    uint64_t params = 0;
    for (uint32_t i = 0; i < job->costs->class_count; i++) {
        if (redco_class_is_block(job->costs->classes[i].kind)) { continue; }
        params += job->rank->classes[i].params * job->costs->classes[i].layers;
    }
    return params;
}

/* Weights beside the states all the time: FSDP's outermost unit; as many as ZeRO-3 lets live; copies that autocast
 * keeps of weights that are whole, until forward ends. */
static uint64_t weight_copies(const redcoi_job *job)
{
    const redco_engine *const engine = &job->costs->workload.engine;
    const uint64_t bytes = job->costs->state_bytes.parameter;
    const uint64_t all = job->rank->params[REDCO_PART_DENSE] + job->rank->params[REDCO_PART_EXPERTS];
    if (redco_mesh_ranks(job->shards.parameters) == 1) { return engine->autocast ? redco_share_up(all, 2, 1) : 0; }
    if (engine->memory == REDCO_MEMORY_ZERO) { return redco_share_up(all < live_params ? all : live_params, bytes, 1); }
    return redco_share_up(edge_params(job), bytes, 1);
}

/* FSDP in backward of a block: its weights and those of the one fetched ahead, its whole gradient and that of the
 * outermost unit; under autocast its copy of the weights, too, which are views and have no cache. */
static uint64_t block_copies(const redcoi_job *job)
{
    const redco_state_bytes bytes = job->costs->state_bytes;
    const uint64_t block = job->rank->block_params[REDCO_PART_DENSE] + job->rank->block_params[REDCO_PART_EXPERTS];
    const bool full = job->recompute == REDCO_RECOMPUTE_FULL;
    const uint64_t cast = job->costs->workload.engine.autocast && full ? redco_share_up(block, 2, 1) : 0;
    return cast + redco_share_up(block, 2 * bytes.parameter, 1) +
           redco_share_up(job->own->trained_params < job->own->params ? job->own->trained_params
                                                                      : edge_params(job) + block,
                          bytes.gradient, 1);
}

/* Outputs that a script holds: those of this step are there until the next has replaced them. A layer that backward
 * does not recompute keeps its keys and values anyway. */
static void add_held_outputs(const redcoi_job *job, uint64_t *again, redco_layer_cost *cost)
{
    const redco_shape shape = redcoi_shape_of(job->costs, job->parallelism);
    const uint64_t logits = redco_held_logits_bytes(job->costs->model, &shape);
    if (logits == 0) { return; }
    if (job->class->kind == REDCO_CLASS_HEAD) { cost->update_bytes += logits; }
    if (!redco_class_is_block(job->class->kind)) { return; }
    *again += logits;
    if (shape.engine.held_outputs != REDCO_HELD_CACHE) { return; }
    const uint64_t cache = redco_key_value_bytes(job->costs->model, &shape);
    if (job->recompute == REDCO_RECOMPUTE_FULL) { cost->activation_bytes += cache; }
    cost->update_bytes += cache;
}

/* Gradients are there when they are made, and what the update of the states needs when activations are gone. Where one
 * micro-batch is a step, none is there before (zero_grad() sets them to None), but for DDP's buckets and ZeRO's
 * buffers, which are allocated once. */
void redcoi_eager_memory(const redcoi_job *job, const redcoi_states *states, redco_layer_cost *cost)
{
    const redco_engine *const engine = &job->costs->workload.engine;
    const bool zero = engine->memory == REDCO_MEMORY_ZERO;
    const bool sharded = redco_mesh_ranks(job->shards.parameters) > 1;
    const bool once = !zero && job->parallelism->micro_batches <= 1 && job->parallelism->pp <= 1;
    const bool updated = engine->offload == REDCO_OFFLOAD_NONE; /* by the GPU */
    const uint64_t owned = updated ? redco_share_up(states->owned_params, job->stage.held, job->stage.of) : 0;
    const uint64_t adam_bytes = redco_adam_bytes(job->costs->workload.precision, engine);
    uint64_t again = job->times->recompute_bytes[job->set];
    if (engine->autocast && sharded && job->recompute != REDCO_RECOMPUTE_FULL) {
        cost->activation_bytes += redco_share_up(job->own->params, 2, 1);
    }
    cost->later_bytes = zero   ? updated_share(job, redco_share_up(owned, wide_gradient_bytes, 1))
                        : once ? cost->gradient_bytes / (is_ddp(job) ? 2 : 1)
                               : 0;
    cost->update_bytes =
        zero ? updated_share(job, redco_share_up(owned, flat_gradient_bytes, 1)) : redco_share_up(owned, adam_bytes, 1);
    cost->gradient_bytes -= zero ? 0 : cost->later_bytes;
    cost->transient_bytes[REDCO_TRANSIENT_GATHER] = weight_copies(job);
    if (!zero && sharded) {
        again += block_copies(job);
    } else if (redco_mesh_ranks(job->shards.gradients) > 1) {
        cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = redcoi_whole_gradient_bytes(job);
    }
    add_held_outputs(job, &again, cost);
    cost->transient_bytes[REDCO_TRANSIENT_RECOMPUTE] = again > job->logits_bytes ? again - job->logits_bytes : 0;
}
