/* Bytes of an arena at moments that the class's graph or its list of operators has. */
#include "costmodel/closed_form/arena_moments.h"

#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/memory_saved.h"
#include "costmodel/closed_form/padded_shards.h"
#include "costmodel/models/moments/layer_moments.h"

static uint64_t larger(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t beyond(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* @return NULL on failure, which the costs tell */
static const redco_layer_moments *moments_of(redco_costs *costs, uint32_t class_index, const redco_shape *shape,
                                             redco_recompute recompute)
{
    const redco_moment_options options = {.cut = shape->tp > 1,
                                          .rows = shape->tp > 1 && shape->sequence_parallel,
                                          .policy = recompute,
                                          .fused = shape->engine.made_again,
                                          .widened = shape->engine.widens && shape->precision != REDCO_FP32};
    redco_error *const err = &costs->layout_error;
    const redco_layer_moments *const found = redco_model_layer_moments(costs->model, class_index, &options, err);
    if (found == NULL) { costs->layout_status = err->status; }
    return found;
}

static uint64_t value_bytes(const redco_layer_moments *moments, const redco_moment *moment, const redco_shape *shape,
                            const uint64_t sizes[REDCO_AXIS_COUNT])
{
    const uint64_t element = shape->precision == REDCO_FP32 ? 4 : 2;
    uint64_t bytes = moment->product ? shape->engine.workspace_bytes : 0;
    for (uint32_t i = 0; i < moments->size_count; i++) {
        const redco_moment_size *const size = &moments->sizes[i];
        const uint64_t times = moment->times[i] + (moment->staged == i + 1 && shape->micro_batch > 1 ? 1U : 0U);
        if (times == 0) { continue; }
        const uint64_t elements =
            redco_share_up(redco_extent_count(&size->elements, sizes), 1, size->shared ? shape->tp : 1);
        bytes += redco_share_up(elements, times * (size->bytes == 0 ? element : size->bytes), 1);
    }
    return bytes;
}

/* Parameters of one rank by product of the layer, in forward order, as REDCO_MOMENT_PRODUCTS counts them. */
struct products {
    uint64_t params[REDCO_MOMENT_PRODUCTS];
    uint64_t next; /* the product of the next layer that backward needs first: a block's is as this one's */
    uint32_t count;
};

static struct products products_of(const redco_model *model, uint32_t class_index, const redco_shape *shape)
{
    const redco_rank_layer layer = redco_rank_layer_of(model, class_index, shape);
    struct products p = {.count = 0};
    for (uint32_t i = 0; i < layer.op_count && p.count < REDCO_MOMENT_PRODUCTS; i++) {
        const redco_operator op = redco_rank_operator(&layer, i);
        if (op.kind == REDCO_OPERATOR_GEMM) { p.params[p.count++] = op.n * op.k; }
    }
    if (redco_class_is_block(layer.kind) && p.count > 0) { p.next = p.params[p.count - 1]; }
    return p;
}

/* Elements of whole gradients and gathered weights at a moment where both are of parts. */
static uint64_t sharded_params(const struct products *p, const redco_moment *moment)
{
    uint64_t params = 0;
    for (uint32_t i = moment->made; i < p->count; i++) { params += p->params[i]; }
    if (moment->reads < p->count) { params += p->params[moment->reads]; }
    if (moment->ahead < p->count) { params += p->params[moment->ahead]; }
    if (moment->ahead == REDCO_MOMENT_NEXT) { params += p->next; }
    return params;
}

static redcoi_arena_peak peak_of(redco_costs *costs, uint32_t class_index, const redco_shape *shape,
                                 redco_recompute recompute, uint64_t kept_bytes)
{
    const redco_layer_moments *const moments = moments_of(costs, class_index, shape, recompute);
    const struct products products = products_of(costs->model, class_index, shape);
    const uint64_t each = costs->state_bytes.gradient;
    uint64_t sizes[REDCO_AXIS_COUNT], values = kept_bytes, whole = 0, sharded = 0, apart = 0;
    if (moments == NULL) { return (redcoi_arena_peak){0, 0, 0, 0}; }
    redco_rank_axis_sizes(costs->model, shape, sizes);
    for (uint32_t i = 0; i < moments->count; i++) {
        const redco_moment *const moment = &moments->moments[i];
        const uint64_t bytes = value_bytes(moments, moment, shape, sizes);
        const bool makes = moment->makes && moment->reads < products.count;
        if (!moment->slots) {
            values = larger(values, bytes);
            continue;
        }
        const uint64_t made = makes ? products.params[moment->reads] * each : 0;
        whole = larger(whole, bytes + made);
        if (made > beyond(kept_bytes, bytes)) { apart = larger(apart, made); }
        sharded = larger(sharded, bytes + sharded_params(&products, moment) * each);
    }
    const bool block = redco_class_is_block(costs->classes[class_index].kind); /* gradients of the bias of its scores */
    return (redcoi_arena_peak){values - kept_bytes + (block ? redco_relative_bias_bytes(costs->dims, shape) : 0),
                               beyond(whole, values), apart, beyond(sharded, values)};
}

redco_layer_bytes redcoi_arena_layer_bytes(redco_costs *costs, uint32_t class_index, const redco_shape *shape,
                                           redcoi_arena_peak peaks_io[REDCO_RECOMPUTE_SETS])
{
    const redco_recompute_list *const sets = &costs->recompute;
    redco_layer_bytes bytes = redco_layer_bytes_of(costs->model, class_index, shape, sets);
    const redco_class_kind kind = costs->classes[class_index].kind;
    const bool planned = shape->engine.planned_memory && kind != REDCO_CLASS_EMBEDDING;
    for (uint32_t i = 0; i < sets->count && planned; i++) {
        if (i > 0 && !redco_class_is_block(kind)) { return bytes; } /* it is never recomputed */
        peaks_io[i] = peak_of(costs, class_index, shape, sets->sets[i], bytes.kept[i]);
        if (redco_class_is_block(kind)) { bytes.again[i] = peaks_io[i].values; }
    }
    return bytes;
}

static const redcoi_times *head_of(const redcoi_job *job)
{
    for (uint32_t i = 0; i < job->costs->class_count; i++) {
        if (job->costs->classes[i].kind == REDCO_CLASS_HEAD) { return &job->rank->classes[i]; }
    }
    return NULL;
}

/* The gradient of a table that the head shares: its gradient lies in its place from head to embedding. Of stages each
 * has a summand of its own. */
static uint64_t shared_params(const redcoi_job *job)
{
    const redcoi_times *const head = head_of(job);
    if (head == NULL || job->parallelism->pp > 1) { return 0; }
    return head->parts[REDCO_PART_DENSE].gather_params - head->parts[REDCO_PART_DENSE].params;
}

/* Embedding and head are tables, most often the largest modules: the part of one that a scatter brings has a place. */
static uint64_t largest_table(const redcoi_job *job)
{
    uint64_t params = 0;
    for (uint32_t i = 0; i < job->costs->class_count; i++) {
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

/* Gradients of the layer before on their way out: those of the head, or of a block whose activations are free again. */
static uint64_t bytes_before(const redcoi_job *job)
{
    const uint64_t each = job->costs->state_bytes.gradient;
    const uint64_t params = job->costs->blocks > 1 ? job->rank->block_params[job->part] : 0;
    const uint64_t block = beyond(params * each, job->times->activation_bytes[job->set]);
    const uint64_t shared = shared_params(job) * each;
    const bool chunked =
        job->parallelism->pp > 1 && redco_parallelism_chunks(job->parallelism) > 1; /* heads are apart */
    const bool head_before = job->parallelism->pp == 1 || (job->logits_bytes > 0 && !chunked);
    return shared > 0 ? shared + block : larger(head_before ? largest_table(job) * each : 0, block);
}

/* Fetched ahead of the head's backward: what that of the last block before it needs first. */
static uint64_t ahead_of_head(const redcoi_job *job)
{
    const redco_shape shape = redcoi_shape_of(job->costs, job->parallelism);
    for (uint32_t i = job->costs->class_count; i-- > 0;) {
        if (redco_class_is_block(job->costs->classes[i].kind)) {
            return products_of(job->costs->model, i, &shape).next;
        }
    }
    return 0;
}

/* Micro-batches of a pipeline have what they keep in places of their own; a whole gradient lies in a gap of its
 * micro-batch's place, or apart. */
static bool several_under_way(const redcoi_job *job)
{
    return job->parallelism->pp > 1 && job->stage.kept > job->stage.held;
}

/* A block's backward begins where the logits and what the head keeps are free again, but for a block that goes forward
 * again and is fetched whole while the head's weights and gradient are there. */
static uint64_t block_bytes(const redcoi_job *job)
{
    const bool sharded = redco_mesh_ranks(job->shards.parameters) > 1, full = job->recompute == REDCO_RECOMPUTE_FULL;
    const uint64_t late = full && job->stage.late > 0 ? redcoi_arena_late_bytes(job) : 0; /* counted as activations */
    const uint64_t each = job->costs->state_bytes.gradient,
                   values = beyond(job->times->recompute_bytes[job->set], late);
    const redcoi_times *const head = head_of(job);
    const bool here = head != NULL && job->logits_bytes > 0; /* on this stage */
    /* Logits in another chunk's place stay; what the loss works with shares its room with this. */
    const bool elsewhere = several_under_way(job) && redco_parallelism_chunks(job->parallelism) > 1;
    const uint64_t waiting = redcoi_arena_logits_bytes(job->costs, job->parallelism);
    const uint64_t free_again = elsewhere ? beyond(job->logits_bytes, waiting)
                                : here    ? job->logits_bytes + head->activation_bytes[0]
                                          : job->logits_bytes;
    if (!sharded) {
        const uint64_t bytes =
            beyond(shared_params(job) * each + values + job->times->arena_whole_bytes[job->set], free_again);
        const uint64_t apart = job->times->arena_apart_bytes[job->set];
        return several_under_way(job) && apart > free_again ? larger(bytes, apart) : bytes;
    }
    const uint64_t layers = full ? 2 * job->rank->block_params[job->part] : 0; /* gradients take turns with weights */
    const uint64_t slots = full ? layers * each : job->times->arena_sharded_bytes[job->set];
    const uint64_t bytes = beyond(bytes_before(job) + values + slots, free_again);
    return full && here ? larger(bytes, head->arena_sharded_bytes[0] + job->own->params * each) : bytes;
}

/* Modules are gathered at once for a graph that lists its operators: its passes, and the micro-batch's inputs. A
 * gradient is whole in the passes that make and read it or, where it is scattered, to the end. */
static void add_listed(const redcoi_job *job, redco_layer_cost *cost)
{
    const redco_state_bytes each = job->costs->state_bytes;
    const uint64_t ranks = redco_mesh_ranks(job->shards.parameters);
    const uint32_t class_index = (uint32_t)(job->class - job->costs->classes);
    const redco_shape shape = redcoi_shape_of(job->costs, job->parallelism);
    const redco_degree_work *const degree =
        redco_graph_work_near(redco_model_work(job->costs->model, class_index)->listed, shape.tp);
    uint64_t most = 0;
    for (uint32_t i = 0; i < degree->moment_count; i++) {
        const bool backward = degree->moments[i].backward;
        const unsigned pass = backward ? REDCO_IN_BACKWARD : REDCO_IN_FORWARD;
        const unsigned passes = ranks > 1 ? REDCO_IN_FORWARD | pass : pass;
        const uint64_t made = ranks * redcoi_padded_shard(job, ranks, REDCOI_CHANGED, (uint8_t)passes);
        most = larger(most, redco_listed_pass_bytes(degree, &shape, backward) + made * each.gradient);
    }
    if (ranks > 1 && degree->moment_count > 0) {
        const uint64_t whole = ranks * redcoi_padded_shard(job, ranks, REDCOI_ALL_KINDS, REDCO_IN_BOTH);
        cost->transient_bytes[REDCO_TRANSIENT_GATHER] = whole * each.parameter;
    }
    cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] += beyond(most, cost->activation_bytes);
}

uint64_t redcoi_arena_slot_bytes(const redcoi_job *job)
{
    const bool scattered = redco_mesh_ranks(job->shards.parameters) > 1 || redco_mesh_ranks(job->shards.gradients) > 1;
    if (!job->costs->workload.engine.planned_memory || scattered) { return 0; }
    const uint32_t class_index = (uint32_t)(job->class - job->costs->classes);
    const redco_shape shape = redcoi_shape_of(job->costs, job->parallelism);
    const struct products products = products_of(job->costs->model, class_index, &shape);
    uint64_t params = products.count > 0 ? 0 : redcoi_padded_shard(job, 1, REDCOI_CHANGED, REDCO_IN_BOTH);
    for (uint32_t i = 0; i < products.count; i++) { params = larger(params, products.params[i]); }
    return larger(params, shared_params(job)) * job->costs->state_bytes.gradient;
}

uint64_t redcoi_arena_table_bytes(const redcoi_job *job, uint64_t place_bytes)
{
    const redco_shape shape = redcoi_shape_of(job->costs, job->parallelism);
    const bool sharded = redco_mesh_ranks(job->shards.parameters) > 1; /* scattered gradients lie apart */
    const bool gone = !sharded && !redco_pipeline_splits_backward(job->parallelism->schedule);
    const uint64_t params = job->own->trained_params, bytes = params * job->costs->state_bytes.gradient;
    const uint64_t wide = shape.engine.widens && shape.precision != REDCO_FP32 ? params * sizeof(float) : 0;
    const uint64_t before = sharded ? job->rank->block_params[job->part] * job->costs->state_bytes.gradient : 0;
    const uint64_t apart = (gone && bytes <= place_bytes ? 0 : bytes) + (gone && wide <= place_bytes ? 0 : wide);
    return apart > 0 ? apart + before + bucket_bytes(job) : 0;
}

uint64_t redcoi_arena_late_bytes(const redcoi_job *job)
{
    const redco_shape shape = redcoi_shape_of(job->costs, job->parallelism);
    const uint32_t class_index = (uint32_t)(job->class - job->costs->classes);
    const redco_rank_layer layer = redco_rank_layer_of(job->costs->model, class_index, &shape);
    uint64_t elements = 0;
    for (uint32_t i = 0; i < layer.op_count; i++) {
        const redco_operator op = redco_rank_operator(&layer, i);
        if (op.kind == REDCO_OPERATOR_GEMM) { elements += op.m * (op.n + op.k); }
    }
    return elements * (shape.precision == REDCO_FP32 ? 4 : 2);
}

uint64_t redcoi_arena_logits_bytes(const redco_costs *costs, const redco_parallelism *parallelism)
{
    const redco_shape shape = redcoi_shape_of(costs, parallelism);
    uint64_t elements = 0;
    for (uint32_t c = 0; c < costs->class_count; c++) {
        const redco_rank_layer layer = redco_rank_layer_of(costs->model, c, &shape);
        for (uint32_t i = 0; costs->classes[c].kind == REDCO_CLASS_HEAD && i < layer.op_count; i++) {
            const redco_operator op = redco_rank_operator(&layer, i);
            if (op.kind == REDCO_OPERATOR_GEMM) { elements = larger(elements, op.m * op.n); }
        }
    }
    return elements * (shape.precision == REDCO_FP32 ? 4 : 2);
}

void redcoi_arena_transients(const redcoi_job *job, redco_layer_cost *cost)
{
    const bool sharded = redco_mesh_ranks(job->shards.parameters) > 1;
    const redcoi_times *const times = job->times;
    uint64_t bytes = bucket_bytes(job);
    switch (job->class->kind) {
    case REDCO_CLASS_EMBEDDING: break; /* its backward begins where all activations are free again */
    case REDCO_CLASS_HEAD:
        bytes += sharded ? times->arena_sharded_bytes[0] + ahead_of_head(job) * job->costs->state_bytes.gradient
                         : times->arena_whole_bytes[0];
        break;
    case REDCO_CLASS_BLOCK:
    case REDCO_CLASS_CROSS: bytes += block_bytes(job); break;
    }
    cost->transient_bytes[REDCO_TRANSIENT_GRADIENT] = bytes;
    add_listed(job, cost);
}
