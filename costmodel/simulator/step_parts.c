/* The parts of a layer under one configuration, with all durations: operators, modules, groups. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/nccl_buffers.h"
#include "costmodel/graph/names.h"
#include "costmodel/simulator/step_build.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const redco_mesh one = {1, 1};

uint8_t redcoi_link_of(bool network)
{
    return network ? REDCO_LINK_NETWORK : REDCO_LINK_NVLINK;
}

/* Modules of a class while they are matched with operators. */
struct match {
    const redco_param **tensors;
    const char **names;
    uint64_t *held; /* parameters of one rank, biases included */
    uint32_t count;
};

static void find_modules(const redcoi_job *job, uint32_t class_index, struct match *match)
{
    const redco_param *tensors = NULL;
    const size_t count = redco_model_tensors(job->costs->model, &tensors);
    match->count = 0;
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].class_index != class_index) { continue; }
        const bool joined = tensors[i].joined;
        if (!joined) {
            match->names[match->count] = tensors[i].name;
            match->tensors[match->count++] = &tensors[i];
        }
        if (match->count == 0) { continue; }
        const uint32_t at = match->count - 1;
        if (!joined) { match->held[at] = 0; }
        match->held[at] += redcoi_tensor_params(&tensors[i], &job->rank->key);
    }
}

/* A module belongs to the operator that uses it; to the first one where the layer has no operator of that role (the
 * norm of an encoder's output, which the head has). */
static void match_operators(redcoi_parts *parts, const redco_model *model, const struct match *match)
{
    for (uint32_t i = 0; i < match->count; i++) {
        const redco_op_role role = redco_model_use_role(model, match->tensors[i]->use);
        uint32_t op = 0;
        while (op < parts->op_count && parts->ops[op].role != role) { op++; }
        parts->modules[i].op = op < parts->op_count ? op : 0;
    }
}

static void label_modules(redcoi_builder *b, redcoi_parts *parts, const struct match *match)
{
    for (uint32_t i = 0; i < match->count; i++) {
        char label[REDCOI_LABEL_BYTES];
        (void)redco_module_label(match->names, match->count, i, label, sizeof label);
        parts->modules[i].label = redco_step_add_label(b->step, label);
        parts->modules[i].number = (uint16_t)(i + 1);
    }
}

/* Groups end with a matrix; what follows the last one belongs to it. Modules are sorted by group. */
static void make_groups(const redcoi_builder *b, redcoi_parts *parts)
{
    redcoi_part_module *const sorted = &b->modules[(size_t)b->parts_count * b->most_modules];
    uint32_t placed = 0, op = 0;
    parts->group_count = 0;
    while (op < parts->op_count) {
        redcoi_part_group *const group = &parts->groups[parts->group_count++];
        group->first_op = op;
        while (op < parts->op_count && !parts->ops[op].matrix) { op++; }
        if (op < parts->op_count) { op++; }
        bool more = false;
        for (uint32_t i = op; i < parts->op_count; i++) { more = more || parts->ops[i].matrix; }
        if (!more || parts->group_count == REDCOI_GROUPS_MAX) { op = parts->op_count; }
        group->last_op = op;
        group->first_module = placed;
        for (uint32_t i = 0; i < parts->module_count; i++) {
            if (parts->modules[i].op >= group->first_op && parts->modules[i].op < op) {
                sorted[placed++] = parts->modules[i];
            }
        }
        group->last_module = placed;
    }
    memcpy(parts->modules, sorted, placed * sizeof sorted[0]);
}

static uint32_t add_traffic(redcoi_builder *b, redco_collective op, uint32_t calls, double size_bytes,
                            redco_group group, double contention_ratio)
{
    const redco_step_traffic traffic = {
        .op = op, .calls = calls, .size_bytes = size_bytes, .group = group, .contention_ratio = contention_ratio};
    return redco_step_add_traffic(b->step, &traffic);
}

static double price(redcoi_builder *b, redco_collective op, double bytes, redco_group group, uint8_t *link)
{
    bool network = false;
    const double s = b->scale * redcoi_comm_s(b->costs, op, bytes, group, &network);
    *link = redcoi_link_of(network);
    return s;
}

static double price_unit(redcoi_builder *b, const redcoi_job *job, redco_collective op, double bytes, redco_group group,
                         uint8_t *link)
{
    bool network = false;
    const double s = b->scale * redcoi_unit_s(job, op, group, bytes, &network);
    *link = redcoi_link_of(network);
    return s;
}

/* Over whom parameters (or their secondary copy) are sharded. */
static redco_group shard_group(const redcoi_job *job, redco_mesh mesh)
{
    return redcoi_group_of(job, mesh, one);
}

static void price_module(redcoi_builder *b, const redcoi_job *job, bool sharded, redcoi_part_module *module,
                         double gather_params, double own_params)
{
    const redco_group group = shard_group(job, job->shards.parameters);
    const redco_group again = shard_group(job, redcoi_backward_mesh(job));
    const double shards = (double)redco_mesh_ranks(job->shards.parameters);
    const double bytes = gather_params * job->element_bytes, own_bytes = own_params * job->gradient_bytes;
    module->weight_bytes = (int64_t)ceil(gather_params * job->costs->state_bytes.parameter);
    module->gradient_bytes = (int64_t)ceil(own_params * job->costs->state_bytes.gradient);
    module->reduced_bytes = own_bytes / shards;
    module->part = job->part;
    const double kappa = b->costs->calibration.contention_ratio;
    if (shards <= 1.0) {
        if (sharded) { module->weight_bytes = module->gradient_bytes = 0; } /* the rest stays on the rank */
        return;
    }
    module->call_s = redcoi_call_s(job, group);
    module->again_call_s = redcoi_call_s(job, again);
    module->gather_s = price_unit(b, job, REDCO_ALL_GATHER, bytes, group, &module->gather_link);
    module->gather = add_traffic(b, REDCO_ALL_GATHER, 1, bytes, group, kappa);
    if (job->class->kind != REDCO_CLASS_EMBEDDING) { /* looking up has no use of the table in backward */
        module->again_s = price_unit(b, job, REDCO_ALL_GATHER, bytes, again, &module->again_link);
        module->again = add_traffic(b, REDCO_ALL_GATHER, 1, bytes, again, kappa);
    }
    if (own_params > 0.0) {
        module->scatter_s = price_unit(b, job, REDCO_REDUCE_SCATTER, own_bytes, group, &module->scatter_link);
        module->scatter = add_traffic(b, REDCO_REDUCE_SCATTER, 1, own_bytes, group, kappa);
    }
}

/* All parameters of the layer as one, used by all of its operators; experts on a grid of their own as another one. */
static void fill_unit(redcoi_builder *b, const redcoi_job *job, redcoi_parts *parts)
{
    const redcoi_job experts = redcoi_job_part(job, REDCO_PART_EXPERTS);
    const bool apart = redcoi_has_expert_grid(&experts) && experts.own->params > 0;
    const redcoi_part_params none = {.params = 0};
    const redcoi_part_params *const less = apart ? experts.own : &none;
    parts->module_count = apart ? 2 : 1;
    parts->modules[0] = (redcoi_part_module){.label = redco_step_add_label(b->step, "flat_param")};
    const double shared = (double)(job->own->gather_params - job->own->params); /* a tied head needs the table */
    price_module(b, job, parts->sharded, &parts->modules[0], (double)(job->times->params - less->params) + shared,
                 (double)(job->times->trained_params - less->trained_params));
    if (!apart) { return; }
    parts->modules[1] = (redcoi_part_module){.label = redco_step_add_label(b->step, "experts")};
    price_module(b, &experts, parts->sharded, &parts->modules[1], (double)less->params, (double)less->trained_params);
}

static void fill_modules(redcoi_builder *b, const redcoi_job *job, uint32_t class_index, redcoi_parts *parts)
{
    const size_t room = b->most_modules;
    struct match match = {calloc(room, sizeof *match.tensors), calloc(room, sizeof *match.names),
                          calloc(room, sizeof *match.held), 0};
    const redcoi_job experts = redcoi_job_part(job, REDCO_PART_EXPERTS);
    double held = 0.0;
    if (match.tensors == NULL || match.names == NULL || match.held == NULL) {
        b->step->status = REDCO_ENOMEM;
        goto out;
    }
    find_modules(job, class_index, &match);
    parts->module_count = match.count;
    match_operators(parts, job->costs->model, &match);
    label_modules(b, parts, &match);
    for (uint32_t i = 0; i < match.count; i++) { held += (double)match.held[i]; }
    const double params = (double)job->times->params; /* replicated KV heads included: shared out in proportion */
    for (uint32_t i = 0; i < match.count; i++) {
        const double own = held > 0.0 ? params * (double)match.held[i] / held : 0.0;
        const redcoi_job *const of = match.tensors[i]->part == REDCO_PART_EXPERTS ? &experts : job;
        price_module(b, of, parts->sharded, &parts->modules[i], own, match.tensors[i]->frozen ? 0.0 : own);
    }
    const double shared = (double)(job->own->gather_params - job->own->params); /* a tied head needs the table */
    if (shared > 0.0) {
        redcoi_part_module *const table = &parts->modules[parts->module_count++];
        table->label = redco_step_add_label(b->step, "shared_table");
        for (uint32_t i = 0; i < parts->op_count; i++) {
            if (parts->ops[i].matrix) { table->op = i; }
        }
        price_module(b, job, parts->sharded, table, shared, 0.0);
    }
out:
    free(match.tensors);
    free(match.names);
    free(match.held);
}

/* Tensor-parallel collectives where the closed form has them. */
static void fill_tensor_parallel(const redcoi_builder *b, const redcoi_job *job, redcoi_parts *parts)
{
    const double exposed = b->scale * job->costs->calibration.tp_exposed_ratio;
    for (uint32_t i = 0; i < parts->op_count; i++) {
        const redcoi_tp_times *const tp = &job->times->tp[i];
        redcoi_part_op *const op = &parts->ops[i];
        op->forward_tp = (redcoi_around){exposed * tp->forward_before_s, exposed * tp->forward_after_s};
        op->backward_tp = (redcoi_around){exposed * tp->backward_before_s, exposed * tp->backward_after_s};
    }
}

static bool is_attention(redco_operator_kind kind)
{
    return kind == REDCO_OPERATOR_ATTENTION || kind == REDCO_OPERATOR_SCORES;
}

/* Gradients are kept where backward of their matrices ends; those of layers without matrices where all of it does. */
static void add_keeping(const redcoi_builder *b, const redcoi_job *job, redcoi_parts *parts, const double *shares)
{
    const double keep_s = b->scale * redcoi_keep_gradients_s(job);
    double sum = 0.0;
    for (uint32_t i = 0; i < parts->op_count; i++) { sum += shares[i]; }
    if (!(sum > 0.0)) {
        parts->ops[0].input_s += keep_s;
        return;
    }
    for (uint32_t i = 0; i < parts->op_count; i++) { parts->ops[i].weight_s += keep_s * shares[i] / sum; }
}

/* Modules that drop their output run again before the gradient of the operator behind them, which reads it; the FFN
 * before its last matrix, as all of it is one checkpoint (Megatron Core, transformer_layer.py). */
static void mark_again(const redcoi_job *job, const redco_operator *ops, redcoi_parts *parts)
{
    const redco_engine *const engine = &job->costs->workload.engine;
    const redco_recompute checkpoints = REDCO_RECOMPUTE_MLP | REDCO_RECOMPUTE_MOE | REDCO_RECOMPUTE_SHARED_EXPERTS;
    for (uint32_t i = 0; i < parts->op_count; i++) {
        uint32_t last = i;
        bool whole = false;
        for (; last < parts->op_count; last++) {
            const redco_recompute by = redcoi_repeated_by(engine, &ops[last]) & job->recompute;
            if (by == 0) { break; }
            whole = whole || (by & checkpoints) != 0;
        }
        if (last == i) { continue; }
        const uint32_t reader = whole || last == parts->op_count ? last - 1 : last;
        parts->ops[reader].again_first = i;
        parts->ops[reader].again_last = last;
        parts->ops[i].again_ends = true;
        i = last;
    }
}

/* Operators of one role behind one another, as a graph lists them, are one. @param ops  the first of each, filled */
static void add_operator(redcoi_builder *b, const redcoi_job *job, const redco_operator *op, redco_operator *ops,
                         redcoi_parts *parts)
{
    const redco_compute *const compute = &job->costs->compute;
    const double clock_ratio = job->times->clock_ratio;
    if (parts->op_count == 0 || ops[parts->op_count - 1].role != op->role) {
        ops[parts->op_count] = *op;
        parts->ops[parts->op_count++] =
            (redcoi_part_op){.role = op->role,
                             .label = redco_step_add_label(b->step, redco_op_role_name(op->role)),
                             .attention = is_attention(op->kind),
                             .matrix = redcoi_ends_group(op),
                             .unread = redcoi_is_unread(job->costs, op),
                             .logits = redco_op_role_makes_logits(op->role)};
    }
    redcoi_part_op *const part = &parts->ops[parts->op_count - 1];
    part->forward_s += redco_operator_at_s(compute, op, REDCO_PASS_FORWARD, clock_ratio);
    part->input_s += redco_operator_at_s(compute, op, REDCO_PASS_GRAD_INPUT, clock_ratio);
    part->weight_s += redco_operator_at_s(compute, op, REDCO_PASS_GRAD_WEIGHT, clock_ratio);
}

/* Durations of the operators, stretched so that with the exposed collectives a pass takes what the closed form says:
 * the host's floor is distributed over them. */
static void fill_operators(redcoi_builder *b, const redcoi_job *job, uint32_t class_index, redcoi_parts *parts)
{
    const redcoi_times *const times = job->times;
    const double exposed = job->costs->calibration.tp_exposed_ratio;
    const redco_shape shape = redcoi_shape_of(job->costs, job->parallelism);
    const redco_rank_layer layer = redco_rank_layer_of(job->costs->model, class_index, &shape);
    redco_operator ops[REDCO_OPERATORS_MAX];
    double forward_s = 0.0, backward_s = 0.0;
    parts->op_count = 0;
    for (uint32_t i = 0; i < layer.op_count; i++) {
        const redco_operator op = redco_rank_operator(&layer, i);
        add_operator(b, job, &op, ops, parts);
    }
    for (uint32_t i = 0; i < parts->op_count; i++) {
        forward_s += parts->ops[i].forward_s;
        backward_s += parts->ops[i].input_s + parts->ops[i].weight_s;
    }
    mark_again(job, ops, parts);
    const double logits_s = job->class->kind == REDCO_CLASS_HEAD ? redcoi_gathered_logits_s(b->costs, &shape) : 0.0;
    const redcoi_tp_times *const cp = &times->cp;
    const double forward_left_s =
        times->forward_s - exposed * times->tp_forward_s - cp->forward_before_s - cp->forward_after_s - logits_s;
    const double backward_left_s =
        times->backward_s - exposed * times->tp_backward_s - cp->backward_before_s - cp->backward_after_s - logits_s;
    const double forward = forward_s > 0.0 ? b->scale * forward_left_s / forward_s : 0.0;
    const double backward = backward_s > 0.0 ? b->scale * backward_left_s / backward_s : 0.0;
    bool exchanged = false;
    double shares[REDCO_OPERATORS_MAX] = {0.0};
    for (uint32_t i = 0; i < parts->op_count; i++) {
        redcoi_part_op *const op = &parts->ops[i];
        const bool stretched = parts->recompute_full && !parts->partial;
        op->again_s = (stretched ? forward : b->scale) * op->forward_s *
                      redcoi_repeated_ratio(ops[i].kind, parts->recompute_full && parts->partial);
        op->forward_s *= forward;
        op->input_s *= backward;
        op->weight_s *= backward;
        shares[i] = (double)ops[i].n * (double)ops[i].k;
        if (op->logits) { op->logits_s = b->scale * logits_s; }
        if (op->attention && !exchanged) { /* self-attention of a decoder's two */
            op->forward_cp = (redcoi_around){b->scale * cp->forward_before_s, b->scale * cp->forward_after_s};
            op->backward_cp = (redcoi_around){b->scale * cp->backward_before_s, b->scale * cp->backward_after_s};
            exchanged = true;
        }
    }
    add_keeping(b, job, parts, shares);
}

/* As in layer_cost.c: the whole parameters of a rank, one call per owner or one in all, and this layer's share. */
static void fill_update(redcoi_builder *b, const redcoi_job *job, double params, double stage_params,
                        redcoi_part_update *update)
{
    const redco_group group = redcoi_group_of(job, job->shards.optimizer, job->shards.parameters);
    const uint64_t owners = redco_mesh_ranks(group.mesh);
    if (owners <= 1 || !(stage_params > 0.0)) { return; }
    const bool inter = job->parallelism->scheme == REDCO_INTER_TENSOR;
    const double calls = inter ? (double)owners : 1.0;
    const double rank_bytes = stage_params * job->element_bytes / (double)redco_mesh_ranks(job->shards.parameters);
    const double share = params / stage_params;
    const redco_collective op = inter ? REDCO_BROADCAST : REDCO_ALL_GATHER;
    update->share = share;
    update->seconds = share * calls * price(b, op, rank_bytes / calls, group, &update->link);
    const bool network = update->link == REDCO_LINK_NETWORK;
    update->traffic = add_traffic(b, op, (uint32_t)calls, share * rank_bytes / calls, group,
                                  redcoi_contention_ratio(b->costs, network) + redcoi_hidden_residue_ratio);
}

static uint32_t bucket_group_index(redcoi_builder *b, const redcoi_bucket_group *bucket_group)
{
    for (uint32_t i = 0; i < b->bucket_group_count; i++) {
        const redcoi_bucket_group *const known = &b->bucket_groups[i];
        if (known->once == bucket_group->once && known->op == bucket_group->op && known->calls == bucket_group->calls &&
            known->in_place == bucket_group->in_place &&
            redco_mesh_equal(known->group.mesh, bucket_group->group.mesh) &&
            known->group.stride == bucket_group->group.stride &&
            known->group.node_stride == bucket_group->group.node_stride) {
            return i;
        }
    }
    b->bucket_groups[b->bucket_group_count] = *bucket_group;
    return b->bucket_group_count++;
}

/* One bucket for all gradients that the same ranks reduce, or one for each owner of whole tensors. */
static void fill_bucket_group(redcoi_builder *b, const redcoi_job *job, redcoi_parts *parts)
{
    uint32_t *const once = &parts->once_bucket_group[job->part], *const shard = &parts->shard_bucket_group[job->part];
    const redco_shards *const shards = &job->shards;
    const redco_parallelism *const s = job->parallelism;
    const bool inter = s->scheme == REDCO_INTER_TENSOR, per_owner = inter && b->buckets_per_owner;
    const double bucket_bytes = (double)job->costs->workload.bucket_bytes;
    const uint64_t p = redco_mesh_ranks(shards->parameters);
    redcoi_bucket_group bucket_group = {.group = redcoi_replicas_of(job, shards->parameters),
                                        .op = redco_mesh_equal(shards->optimizer, job->grid) ? REDCO_REDUCE_SCATTER
                                                                                             : REDCO_ALL_REDUCE,
                                        .limit_bytes = bucket_bytes,
                                        .calls = per_owner ? (uint32_t)(redco_mesh_ranks(shards->optimizer) / p) : 1,
                                        .once = true};
    *once = *shard = REDCO_STEP_NONE;
    /* For engines that plan their memory, as executor/states/buckets.c has it. */
    bucket_group.in_place =
        job->costs->workload.engine.planned_memory && redco_mesh_equal(shards->gradients, shards->parameters) &&
        !(inter && bucket_group.op == REDCO_REDUCE_SCATTER && !redco_mesh_equal(shards->parameters, shards->optimizer));
    if (redco_mesh_ranks(bucket_group.group.mesh) > 1) { *once = bucket_group_index(b, &bucket_group); }
    if (!redco_mesh_equal(shards->gradients, shards->parameters)) {
        bucket_group.group = redcoi_group_of(job, shards->gradients, shards->parameters);
        bucket_group.op = inter ? REDCO_ALL_REDUCE : REDCO_REDUCE_SCATTER;
        bucket_group.calls = per_owner ? (uint32_t)(redco_mesh_ranks(shards->gradients) / p) : 1;
        bucket_group.once = bucket_group.in_place = false;
        *shard = bucket_group_index(b, &bucket_group);
    }
}

void redcoi_parts_fill(redcoi_builder *b, uint32_t index, const redco_assignment *assignment, double stage_params)
{
    const uint32_t class_index = assignment->class_index;
    const redcoi_job job =
        redcoi_job_of(b->costs, b->parallelism, class_index, b->sources[index].layout, &assignment->config);
    redcoi_parts *const parts = &b->parts[index];
    const redco_class_kind kind = job.class->kind;
    const bool block = redco_class_is_block(kind);
    const redcoi_job experts = redcoi_job_part(&job, REDCO_PART_EXPERTS);
    const redco_shards *const s = &job.shards, *const own = redcoi_job_parts(&job) > 1 ? &experts.shards : s;
    const bool sharded = redco_mesh_ranks(s->parameters) > 1 || redco_mesh_ranks(own->parameters) > 1;
    *parts =
        (redcoi_parts){.sharded = sharded,
                       .recompute_full = block && job.recompute == REDCO_RECOMPUTE_FULL,
                       .planned = block && redcoi_works_in_backward(&b->costs->workload.engine),
                       .nccl_bytes = redcoi_nccl_sharded_bytes(&job),
                       .slot_bytes = redcoi_slot_bytes(&job),
                       .by_layer = sharded && redcoi_by_layer(&job),
                       .partial = b->costs->workload.engine.partial_recompute,
                       .transient_gradient = redco_mesh_ranks(s->gradients) > 1 || redco_mesh_ranks(own->gradients) > 1,
                       .params = (double)job.times->params,
                       .again_stream = redcoi_has_secondary(&job) ? REDCO_STREAM_SECONDARY : REDCO_STREAM_PARAMETERS,
                       .activation_bytes = (int64_t)job.times->activation_bytes[job.set],
                       .recompute_bytes = (int64_t)job.times->recompute_bytes[job.set],
                       .modules = &b->modules[(size_t)index * b->most_modules],
                       .logits_bytes = kind == REDCO_CLASS_HEAD ? (int64_t)job.rank->logits_bytes : 0,
                       .states = redcoi_layer_states(&job)};
    const redco_parallel p = redcoi_parallel_of(b->costs, b->parallelism);
    parts->cp_link = redcoi_link_of(redco_parallel_cp_group(&p).mesh.nodes > 1);
    parts->gathered_again = parts->sharded && kind != REDCO_CLASS_EMBEDDING;
    fill_operators(b, &job, class_index, parts);
    fill_tensor_parallel(b, &job, parts);
    if (parts->by_layer) {
        fill_unit(b, &job, parts);
    } else {
        fill_modules(b, &job, class_index, parts);
    }
    make_groups(b, parts);
    fill_bucket_group(b, &job, parts);
    if (!redcoi_has_expert_grid(&experts)) {
        parts->once_bucket_group[REDCO_PART_EXPERTS] = parts->once_bucket_group[REDCO_PART_DENSE];
        parts->shard_bucket_group[REDCO_PART_EXPERTS] = parts->shard_bucket_group[REDCO_PART_DENSE];
        fill_update(b, &job, parts->params, stage_params, &parts->updates[REDCO_PART_DENSE]);
        return;
    }
    fill_bucket_group(b, &experts, parts);
    parts->nccl_bytes += redcoi_nccl_sharded_bytes(&experts);
    fill_update(b, &job, (double)job.own->params, job.state_params, &parts->updates[REDCO_PART_DENSE]);
    fill_update(b, &experts, (double)experts.own->params, experts.state_params, &parts->updates[REDCO_PART_EXPERTS]);
}
