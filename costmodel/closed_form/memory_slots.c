/* Whole gradients from when they are made until they are taken; and what engines that plan their memory hold beside
 * states and activations: these, gathered weights, buckets (executor/schedule/slots.c, executor/states/buckets.c).
 * Formulas: MEMORY_FORMULAS.md. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_graph.h"
#include "costmodel/closed_form/memory_planned.h"
#include "costmodel/closed_form/memory_saved.h"

/* Parameters of the matrix products of a layer, on one rank: what is made at once, what is used next to each other, and
 * what backward needs first. */
struct products {
    uint64_t largest, neighbours, last;
};

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static struct products products_of(const redcoi_job *job, const redco_layer_class *class)
{
    redco_operator ops[REDCO_OPERATORS_MAX];
    const redco_parallelism *const s = job->parallelism;
    const redco_shape shape = redcoi_shape_of(job->costs, s);
    const uint32_t index = (uint32_t)(class - job->costs->classes);
    const uint32_t count = redco_layer_operators(job->costs->model, index, &shape, ops);
    struct products p = {0, 0, 0};
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].kind != REDCO_OPERATOR_GEMM) { continue; }
        const uint64_t params = ops[i].n * ops[i].k;
        p.largest = larger(p.largest, params);
        p.neighbours = larger(p.neighbours, params + p.last);
        p.last = params;
    }
    if (class->kind == REDCO_CLASS_EMBEDDING) { p.largest = p.neighbours = p.last = job->own->params; }
    return p;
}

/* The gradient of a table that the head shares: its gradient lies in its place from head to embedding. */
static uint64_t shared_params(const redcoi_job *job)
{
    uint64_t params = 0;
    for (uint32_t i = 0; i < job->costs->class_count; i++) {
        const redcoi_times *const times = &job->rank->classes[i];
        if (job->costs->classes[i].kind == REDCO_CLASS_HEAD) {
            params = times->parts[REDCO_PART_DENSE].gather_params - times->parts[REDCO_PART_DENSE].params;
        }
    }
    return params;
}

/* Embedding and head are tables, most often the largest modules: the part of one that a scatter brings has a place. */
static uint64_t largest_table(const redcoi_job *job, uint64_t shared)
{
    uint64_t params = shared;
    for (uint32_t i = 0; i < job->costs->class_count && shared == 0; i++) {
        const redco_class_kind kind = job->costs->classes[i].kind;
        if (kind == REDCO_CLASS_EMBEDDING || kind == REDCO_CLASS_HEAD) {
            params = larger(params, job->rank->classes[i].params);
        }
    }
    return params;
}

/* Buckets are copies where gradients are cut further than parameters, or go to owners of whole tensors; else gradients
 * are reduced where they lie. A bucket ends with a layer. */
static uint64_t bucket_bytes(const redcoi_job *job)
{
    const redco_shards *const s = &job->shards;
    const bool sharded = !redco_mesh_equal(s->parameters, s->gradients);
    const bool scatters = !redco_mesh_equal(s->parameters, s->optimizer) && redco_mesh_equal(s->optimizer, job->grid);
    if (!sharded && !(scatters && job->parallelism->scheme == REDCO_INTER_TENSOR)) { return 0; }
    const uint64_t ranks = redco_mesh_ranks(s->parameters), bytes = job->costs->state_bytes.gradient;
    const uint64_t all = redco_share_up((uint64_t)job->state_params, bytes, ranks);
    const uint64_t limit =
        larger(job->costs->workload.bucket_bytes, redco_share_up(job->own->trained_params, bytes, ranks));
    return all < limit ? all : limit;
}

/* Fetched ahead of the head's backward: the last product of the last block before it. */
static uint64_t ahead_of_head(const redcoi_job *job)
{
    for (uint32_t i = job->costs->class_count; i-- > 0;) {
        const redco_layer_class *const class = &job->costs->classes[i];
        if (redco_class_is_block(class->kind)) { return products_of(job, class).last; }
    }
    return 0;
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* The memory that gradients of products add to a block's peak, where the FFN's backward begins with the gradient of its
 * inner tensor. That of the last matrix is made and taken before that tensor is, in its place. Other matrices have
 * their turn when the FFN's inner tensors (two, with a gate three more) are free again. */
static uint64_t block_gradient_bytes(const redcoi_job *job, const struct products *products)
{
    const redco_parallelism *const s = job->parallelism;
    const redco_shape shape = redcoi_shape_of(job->costs, s);
    const uint64_t inner = redcoi_planned_ffn_bytes(job->costs->model, &shape);
    const uint64_t gradient = job->costs->state_bytes.gradient;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < job->own->module_size_count; i++) {
        largest = larger(largest, job->own->modules[i].params);
    }
    const uint64_t last = redco_share_up(products->last, gradient, 1), other = redco_share_up(largest, gradient, 1);
    const uint64_t free_again = redco_share_up(inner, job->costs->dims->gated ? 3 : 2, 1);
    return larger(beyond(last, inner), beyond(other, free_again));
}

static uint64_t head_input_bytes(const redcoi_job *job)
{
    const redco_parallelism *const s = job->parallelism;
    const redco_shape shape = redcoi_shape_of(job->costs, s);
    return redcoi_planned_head_input_bytes(job->costs->model, &shape);
}

/* A block that goes forward again is fetched whole, while the head's weights and gradient are there. */
static uint64_t beside_head_bytes(const redcoi_job *job)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < job->costs->class_count; i++) {
        const redco_layer_class *const class = &job->costs->classes[i];
        if (class->kind == REDCO_CLASS_HEAD) { largest = products_of(job, class).largest; }
    }
    const bool here = job->recompute == REDCO_RECOMPUTE_FULL && job->logits_bytes > 0;
    if (!here) { return 0; }
    const uint64_t bytes = redco_share_up(2 * largest + job->own->params, job->costs->state_bytes.gradient, 1);
    return beyond(bytes, head_input_bytes(job));
}

/* The head's own activations are free again when blocks go backward. */
static uint64_t head_kept_bytes(const redcoi_job *job)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < job->costs->class_count; i++) {
        if (job->costs->classes[i].kind == REDCO_CLASS_HEAD) { bytes += job->rank->classes[i].activation_bytes[0]; }
    }
    return job->logits_bytes > 0 ? bytes : 0; /* on the stage that has it */
}

/* Beside sharded ones: the head's weights and gradient, and what is fetched ahead; in a block the table's gradient on
 * its way out, the products at work and the next with the gradients made so far, all of two layers if they go forward
 * again.
 */
static uint64_t sharded_params(const redcoi_job *job, const struct products *products)
{
    const uint64_t block = job->rank->block_params[job->part], shared = shared_params(job);
    if (job->class->kind == REDCO_CLASS_HEAD) { return 2 * products->largest + ahead_of_head(job); }
    const uint64_t table = largest_table(job, shared);
    const uint64_t before = shared > 0 ? shared + block : larger(table, block);
    if (job->recompute == REDCO_RECOMPUTE_FULL) { return 2 * block + before; } /* gradients take turns with weights */
    return products->neighbours + before + products->largest;
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
    return redco_share_up(params, 2, 1) + workspaces;
}

uint64_t redcoi_slot_bytes(const redcoi_job *job)
{
    const redco_engine *const engine = &job->costs->workload.engine;
    if (redco_saver_of(engine, job->recompute) == REDCO_SAVER_TE) { return empty_gradients(job); }
    const bool scattered = redco_mesh_ranks(job->shards.parameters) > 1 || redco_mesh_ranks(job->shards.gradients) > 1;
    if (redco_model_graph_work(job->costs->model) != NULL) {
        const uint64_t params = scattered ? 0 : redcoi_graph_trained_params(job);
        return redco_share_up(params, job->costs->state_bytes.gradient, 1);
    }
    if (!job->costs->workload.engine.planned_memory || scattered) { return 0; }
    const struct products products = products_of(job, job->class);
    return redco_share_up(larger(products.largest, shared_params(job)), job->costs->state_bytes.gradient, 1);
}

/* Whole gradients of a layer before they are cut. Where parameters are whole, a module's are moved into the bucket,
 * which is then as large as they are: of one that is larger than a bucket there are two, less the bucket that is
 * counted for every layer. */
uint64_t redcoi_whole_gradient_bytes(const redcoi_job *job)
{
    const redcoi_part_params *const times = job->own;
    const uint64_t each = job->costs->state_bytes.gradient, all = times->trained_params * each;
    uint64_t largest = 0;
    for (uint32_t i = 0; i < times->module_size_count; i++) {
        if (times->modules[i].params > largest) { largest = times->modules[i].params; }
    }
    const uint64_t twice = 2 * largest * each, bucket = job->costs->workload.bucket_bytes;
    const bool moved = redco_mesh_ranks(job->shards.parameters) == 1 && largest * each > bucket;
    return moved && twice - bucket > all ? twice - bucket : all;
}

/* torch.optim.AdamW over lists of tensors makes the root of the second moments of all of them (torch/optim/adam.py,
 * _multi_tensor_adam; its fused kernel, the Trainer's choice from torch 2.8 on, needs none). ZeRO copies its gradients
 * into one range and that into 32 bits (stage_1_and_2.py, step(); stage3.py, _prepare_fp32_grad_for_sub_group()). */
static const uint64_t adam_bytes = 4, wide_gradient_bytes = 4, flat_gradient_bytes = 2;
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
    return redco_mesh_ranks(job->shards.parameters) > 1 ? 4 : bytes.gradient;
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
           redco_share_up(edge_params(job) + block, bytes.gradient, 1);
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
    const uint64_t owned = redco_share_up(states->owned_params, job->stage.held, job->stage.of);
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
    cost->transient_bytes[REDCO_TRANSIENT_RECOMPUTE] = again > job->logits_bytes ? again - job->logits_bytes : 0;
}

/* All of it shares one arena with activations: a block's backward begins where the logits are free again, and the
 * embedding's where all activations are. */
void redcoi_planned_transients(const redcoi_job *job, redco_layer_cost *cost)
{
    const redco_class_kind kind = job->class->kind;
    if (redco_model_graph_work(job->costs->model) != NULL) {
        redcoi_graph_transients(job, cost);
        cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] +=
            job->costs->workload.engine.planned_memory ? bucket_bytes(job) : 0;
        return;
    }
    const struct products products = products_of(job, job->class);
    const bool sharded = redco_mesh_ranks(job->shards.parameters) > 1;
    const bool block = redco_class_is_block(kind);
    const uint64_t whole = block ? shared_params(job) : products.largest;
    const uint64_t params = sharded ? sharded_params(job, &products) : whole;
    uint64_t bytes = redco_share_up(params, job->costs->state_bytes.gradient, 1);
    if (kind == REDCO_CLASS_EMBEDDING) { bytes = 0; }
    if (kind == REDCO_CLASS_HEAD) { bytes = beyond(bytes, head_input_bytes(job)); }
    if (block) {
        bytes += sharded ? 0 : block_gradient_bytes(job, &products);
        bytes += job->times->recompute_bytes[job->set];
        bytes = beyond(bytes, job->logits_bytes + head_kept_bytes(job));
        bytes = larger(bytes, sharded ? beside_head_bytes(job) : 0);
    }
    cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = bytes + bucket_bytes(job);
}
