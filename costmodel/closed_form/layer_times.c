#include "costmodel/closed_form/arena_moments.h"
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/closed_form/memory_model.h"
#include "costmodel/closed_form/memory_saved.h"
#include "costmodel/operators/launches.h"

#include <math.h>

/* A layer's launches take longer when every core complex of the node drives a rank. Since 1; source: public
 * measurements (CALIBRATION.md). */
static const double full_node_host_factor = 1.3;
/* Checkpointing per operator repeats this share of the matrix products, and all that is bound by memory. Since 2;
 * source: torch.utils.checkpoint's selective policies, which save every second product (torchtitan, ac.py). */
static const double partial_gemm_ratio = 0.5;

static bool is_attention(redco_operator_kind kind)
{
    return kind == REDCO_OPERATOR_ATTENTION || kind == REDCO_OPERATOR_SCORES;
}

bool redcoi_ends_group(const redco_operator *op)
{
    return op->kind == REDCO_OPERATOR_GEMM && op->role != REDCO_OP_ROLE_ADAPTER;
}

double redcoi_repeated_ratio(redco_operator_kind kind, bool partial)
{
    if (!partial) { return 1.0; }
    if (is_attention(kind)) { return 0.0; }
    return kind == REDCO_OPERATOR_GEMM ? partial_gemm_ratio : 1.0;
}

redco_recompute redcoi_repeated_by(const redco_engine *engine, const redco_operator *op)
{
    const redco_op_role reader = op->group != NULL ? op->group->reader : REDCO_OP_ROLE_NONE;
    return redco_modules_of(op->role, reader, redco_norms_in_products(engine));
}

bool redcoi_is_unread(const redco_costs *costs, const redco_operator *op)
{
    return costs->workload.engine.planned_memory && op->group != NULL && op->group->unread;
}

/* Gradients of matrices have the share of backward without traffic that the operators' times have. */
static double weight_s(const redco_costs *costs, const redco_operator *ops, uint32_t count, const redcoi_times *times,
                       double logits_s)
{
    const double traffic_s = costs->calibration.tp_exposed_ratio * times->tp_backward_s + times->cp.backward_before_s +
                             times->cp.backward_after_s;
    double input_s = 0.0, seconds = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        input_s += redco_operator_at_s(&costs->compute, &ops[i], REDCO_PASS_GRAD_INPUT, times->clock_ratio);
        seconds += redco_operator_at_s(&costs->compute, &ops[i], REDCO_PASS_GRAD_WEIGHT, times->clock_ratio);
    }
    return seconds > 0.0 ? (times->backward_s - traffic_s - logits_s) * seconds / (input_s + seconds) : 0.0;
}

/* Groups end with a matrix; what follows the last one belongs to it. */
static void fill_groups(redco_costs *costs, const redco_operator *ops, uint32_t count, redcoi_times *times)
{
    const redco_compute *const compute = &costs->compute;
    const double exposed = costs->calibration.tp_exposed_ratio, clock_ratio = times->clock_ratio;
    double forward_s = 0.0, backward_s = 0.0, params = 0.0, again_s = 0.0;
    bool exchanged = false;
    uint32_t matrices = 0;
    for (uint32_t i = 0; i < count; i++) { matrices += redcoi_ends_group(&ops[i]) ? 1 : 0; }
    times->group_count = 1;
    for (uint32_t i = 0; i < count; i++) {
        static const redcoi_tp_times nothing;
        redcoi_group_times *const group = &times->groups[times->group_count - 1];
        const redcoi_tp_times *const tp = i < REDCO_GROUPS_MAX ? &times->tp[i] : &nothing;
        const bool matrix = redcoi_ends_group(&ops[i]);
        const bool unread = redcoi_is_unread(costs, &ops[i]);
        const double operator_s = redco_operator_at_s(compute, &ops[i], REDCO_PASS_FORWARD, clock_ratio);
        group->forward_s += operator_s;
        group->again_s += unread ? 0.0 : operator_s;
        group->weight_s += redco_operator_at_s(compute, &ops[i], REDCO_PASS_GRAD_WEIGHT, clock_ratio);
        group->input_s += redco_operator_at_s(compute, &ops[i], REDCO_PASS_GRAD_INPUT, clock_ratio);
        if (matrix) { group->share += (double)ops[i].n * (double)ops[i].k; }
        group->tp.forward_before_s += exposed * tp->forward_before_s;
        group->tp.forward_after_s += exposed * tp->forward_after_s;
        group->tp.backward_before_s += exposed * tp->backward_before_s;
        group->tp.backward_after_s += exposed * tp->backward_after_s;
        group->again_after_s += unread ? 0.0 : exposed * tp->forward_after_s;
        if (is_attention(ops[i].kind) && !exchanged) {
            group->cp = times->cp;
            exchanged = true;
        }
        if (matrix && --matrices > 0 && times->group_count < REDCOI_GROUP_TIMES_MAX) { times->group_count++; }
    }
    for (uint32_t g = 0; g < times->group_count; g++) {
        forward_s += times->groups[g].forward_s;
        backward_s += times->groups[g].weight_s + times->groups[g].input_s;
        params += times->groups[g].share;
    }
    const redcoi_tp_times *const cp = &times->cp;
    const double forward =
        (times->forward_s - exposed * times->tp_forward_s - cp->forward_before_s - cp->forward_after_s) / forward_s;
    const double backward =
        (times->backward_s - exposed * times->tp_backward_s - cp->backward_before_s - cp->backward_after_s) /
        backward_s;
    for (uint32_t g = 0; g < times->group_count; g++) {
        redcoi_group_times *const group = &times->groups[g];
        group->forward_s *= forward;
        group->again_s *= forward;
        group->weight_s *= backward;
        group->input_s *= backward;
        group->share = params > 0.0 ? group->share / params : 1.0;
        again_s += group->again_s + group->tp.forward_before_s + group->again_after_s + group->cp.forward_before_s +
                   group->cp.forward_after_s;
    }
    if (costs->workload.engine.planned_memory) { times->recompute_s[redcoi_full_set(costs)] = again_s; }
}

static void add_module(redcoi_part_params *part, uint64_t params)
{
    uint32_t at = 0;
    while (at < part->module_size_count && part->modules[at].params != params) { at++; }
    if (params == 0) { return; }
    part->module_count++;
    if (at == REDCOI_MODULE_SIZES_MAX) { return; }
    if (at == part->module_size_count) { part->modules[part->module_size_count++].params = params; }
    part->modules[at].count++;
    part->module_params += params;
}

/* A module is a tensor and the biases that follow it. */
static void fill_modules(const redco_costs *costs, uint32_t class_index, const redcoi_rank_key *ranks,
                         redcoi_times *times)
{
    const redco_param *tensors = NULL;
    const size_t count = redco_model_tensors(costs->model, &tensors);
    redco_param_part part = REDCO_PART_DENSE;
    uint64_t params = 0;
    for (size_t i = 0; i < count; i++) {
        if (tensors[i].class_index != class_index) { continue; }
        if (!tensors[i].joined) {
            add_module(&times->parts[part], params);
            params = 0;
            part = tensors[i].part;
        }
        params += redcoi_tensor_params(&tensors[i], ranks);
    }
    add_module(&times->parts[part], params);
}

static bool has_experts(const redco_operator *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (ops[i].role == REDCO_OP_ROLE_EXPERT_IN) { return true; }
    }
    return false;
}

/* Rows go to the ranks of their experts and back: before and behind the experts' products, their gradients the other
 * way; tp_times are of an exposed share. Where ranks that share experts' matrices have rows of their own, each gathers
 * those of the others, and sums are scattered back (Megatron Core, transformer/moe/token_dispatcher.py:
 * MoEAlltoAllTokenDispatcher). */
static void add_exchange(redco_costs *costs, const redco_shape *shape, const redco_operator *ops, uint32_t count,
                         redcoi_times *times)
{
    const uint32_t ep = shape->ep > 1 ? shape->ep : 1, etp = shape->etp > 0 ? shape->etp : shape->tp;
    const double exposed = costs->calibration.tp_exposed_ratio;
    if (ep == 1 || !(exposed > 0.0)) { return; }
    const redco_expert_constants *const constants = &costs->calibration.experts;
    const redco_exchange exchange = redcoi_exchange_of(costs, shape);
    const double left = shape->engine.ep_overlap ? 1.0 - constants->overlap_hidden_ratio : 1.0;
    const double exchange_s = left * redco_exchange_s(&exchange);
    const double bytes = exchange.load * exchange.tokens * exchange.choices * exchange.row_bytes * etp;
    const double gather_s = redco_costs_tp_s(costs, etp, REDCO_ALL_GATHER, bytes);
    const double scatter_s = redco_costs_tp_s(costs, etp, REDCO_REDUCE_SCATTER, bytes);
    for (uint32_t i = 0; i < count && i < REDCO_GROUPS_MAX; i++) {
        redcoi_tp_times *const tp = &times->tp[i];
        const double in_s = exchange_s / exposed + gather_s, out_s = exchange_s / exposed + scatter_s;
        if (ops[i].role == REDCO_OP_ROLE_EXPERT_IN) {
            tp->forward_before_s += in_s;
            tp->backward_after_s += out_s;
        } else if (ops[i].role == REDCO_OP_ROLE_EXPERT_OUT) {
            tp->forward_after_s += out_s;
            tp->backward_before_s += in_s;
        } else {
            continue;
        }
        times->tp_forward_s += ops[i].role == REDCO_OP_ROLE_EXPERT_IN ? in_s : out_s;
        times->tp_backward_s += ops[i].role == REDCO_OP_ROLE_EXPERT_IN ? out_s : in_s;
    }
}

/* Collectives of the tensors split in pairs: most have one size. */
static void fill_tp(redco_costs *costs, const redco_shape *shape, const redco_operator *ops, uint32_t count,
                    double ratio, redcoi_times *times)
{
    struct {
        double bytes, seconds;
    } known[REDCO_COLLECTIVE_COUNT] = {{0.0, 0.0}};
    uint64_t sizes[REDCO_AXIS_COUNT];
    const bool exchanged = redco_shape_routers(shape) > 1 || shape->ep > 1;
    const bool whole = exchanged && has_experts(ops, count); /* rows are brought by add_exchange() */
    redco_rank_axis_sizes(costs->model, shape, sizes);
    for (uint32_t i = 0; i < count && i < REDCO_GROUPS_MAX && shape->tp > 1; i++) {
        redcoi_tp_times *const tp = &times->tp[i];
        for (uint32_t t = 0; ops[i].group != NULL && t < ops[i].group->traffic_count; t++) {
            const redco_group_traffic *const traffic = &ops[i].group->traffic[t];
            if (traffic->sequence_parallel != shape->sequence_parallel || traffic->whole_experts != whole) { continue; }
            const double bytes = (double)redco_extent_count(&traffic->elements, sizes) * costs->compute.element_bytes;
            if (known[traffic->op].bytes != bytes) {
                known[traffic->op].bytes = bytes;
                known[traffic->op].seconds = ratio * redco_costs_tp_s(costs, shape->tp, traffic->op, bytes);
            }
            const bool before = traffic->op == REDCO_ALL_GATHER;
            double *const s = traffic->backward ? (before ? &tp->backward_before_s : &tp->backward_after_s)
                              : before          ? &tp->forward_before_s
                                                : &tp->forward_after_s;
            *s += known[traffic->op].seconds;
        }
        times->tp_forward_s += tp->forward_before_s + tp->forward_after_s;
        times->tp_backward_s += tp->backward_before_s + tp->backward_after_s;
    }
}

/* Collectives that a graph lists stand between its operators: they are part of their seconds. */
static void add_listed_traffic(redco_costs *costs, const redco_operator *ops, uint32_t count, double ratio,
                               double *forward_s, double *backward_s, redcoi_times *times)
{
    for (uint32_t i = 0; i < count; i++) {
        const redco_work_op *const one = ops[i].listed;
        if (one == NULL || one->kind != REDCO_GRAPH_COLLECTIVE || ops[i].ranks <= 1) { continue; }
        const double bytes = redco_count_at(&one->elements, ops[i].examples) * costs->compute.element_bytes;
        const double s = ratio * one->times * redco_costs_tp_s(costs, ops[i].ranks, one->collective, bytes);
        *(one->backward ? backward_s : forward_s) += costs->calibration.tp_exposed_ratio * s;
        times->listed_tp_s += s;
    }
}

/* Adds the time that another layout adds to passes. A pass's share is not less than none: where a layout moves it to
 * the other pass, so does this. */
static void add_layout_traffic(const redco_layout_cost *layout, double ratio, uint32_t count, redcoi_times *times)
{
    const double before_s[2] = {times->tp_forward_s, times->tp_backward_s};
    double *const pass_s[2] = {&times->tp_forward_s, &times->tp_backward_s};
    *pass_s[0] += ratio * layout->tp_forward_s;
    *pass_s[1] += ratio * layout->tp_backward_s;
    const double both_s = fmax(0.0, *pass_s[0] + *pass_s[1]);
    for (int pass = 0; pass < 2; pass++) {
        if (*pass_s[pass] >= 0.0) { continue; }
        *pass_s[pass] = 0.0;
        *pass_s[1 - pass] = both_s;
    }
    for (uint32_t i = 0; i < count && i < REDCO_GROUPS_MAX; i++) {
        redcoi_tp_times *const tp = &times->tp[i];
        const double forward = before_s[0] > 0.0 ? times->tp_forward_s / before_s[0] : 0.0;
        const double backward = before_s[1] > 0.0 ? times->tp_backward_s / before_s[1] : 0.0;
        tp->forward_before_s *= forward;
        tp->forward_after_s *= forward;
        tp->backward_before_s *= backward;
        tp->backward_after_s *= backward;
    }
    if (!(before_s[0] > 0.0)) { times->tp[0].forward_after_s = times->tp_forward_s; }
    if (!(before_s[1] > 0.0)) { times->tp[0].backward_after_s = times->tp_backward_s; }
}

static void fill_seconds(redco_costs *costs, uint32_t class_index, const redco_shape *shape,
                         const redco_layout_cost *layout, redcoi_times *times)
{
    const redco_calibration *const c = &costs->calibration;
    const redco_compute *const compute = &costs->compute;
    const double clock_ratio = times->clock_ratio;
    const redco_class_kind kind = costs->classes[class_index].kind;
    const bool block = redco_class_is_block(kind);
    const redco_rank_layer layer = redco_rank_layer_of(costs->model, class_index, shape);
    const uint32_t count = layer.op_count;
    redco_operator *const ops = costs->ops;
    for (uint32_t i = 0; i < count; i++) { ops[i] = redco_rank_operator(&layer, i); }
    double forward_s = 0.0, backward_s = 0.0;
    double repeated_s = 0.0;
    const uint32_t full = redcoi_full_set(costs);
    for (uint32_t i = 0; i < count; i++) {
        const double s = redco_operator_at_s(compute, &ops[i], REDCO_PASS_FORWARD, clock_ratio);
        forward_s += s;
        const redco_recompute again = redcoi_repeated_by(&shape->engine, &ops[i]);
        for (uint32_t set = 0; set < full; set++) {
            if ((again & costs->recompute.sets[set]) != 0) { times->recompute_s[set] += s; }
        }
        repeated_s += redcoi_repeated_ratio(ops[i].kind, true) * s;
        backward_s += redco_operator_at_s(compute, &ops[i], REDCO_PASS_GRAD_INPUT, clock_ratio) +
                      redco_operator_at_s(compute, &ops[i], REDCO_PASS_GRAD_WEIGHT, clock_ratio);
        times->forward_j += redco_operator_j(compute, &ops[i], REDCO_PASS_FORWARD, clock_ratio);
        times->backward_j += redco_operator_j(compute, &ops[i], REDCO_PASS_GRAD_INPUT, clock_ratio) +
                             redco_operator_j(compute, &ops[i], REDCO_PASS_GRAD_WEIGHT, clock_ratio);
    }
    const double logits_s = kind == REDCO_CLASS_HEAD ? redcoi_gathered_logits_s(costs, shape) : 0.0;
    forward_s += logits_s;
    backward_s += logits_s;
    const double async_ratio = shape->engine.async_tp ? c->tp_async_ratio : 1.0;
    fill_tp(costs, shape, ops, count, async_ratio, times);
    if (has_experts(ops, count)) { add_exchange(costs, shape, ops, count, times); }
    add_listed_traffic(costs, ops, count, async_ratio, &forward_s, &backward_s, times);
    add_layout_traffic(layout, async_ratio, count, times);
    forward_s += layout->forward_s;
    backward_s += layout->backward_s;
    forward_s += c->tp_exposed_ratio * times->tp_forward_s;
    backward_s += c->tp_exposed_ratio * times->tp_backward_s;
    double host_factor = block ? 1.0 : 0.0;
    if (shape->tp > 1 && shape->tp == costs->machine.node_gpus_physical) { host_factor *= full_node_host_factor; }
    const double host_tp_s = shape->tp > 1 ? 2.0 * c->host_collective_s : 0.0;
    if (block && shape->cp > 1) {
        const redcoi_core core = redcoi_attention_core(compute, ops, count, clock_ratio);
        times->cp = redcoi_context_times(costs, shape, core.forward_s, core.backward_s);
        forward_s += times->cp.forward_before_s + times->cp.forward_after_s;
        backward_s += times->cp.backward_before_s + times->cp.backward_after_s;
    }
    double host_forward_s = host_factor * (c->host_forward_s + host_tp_s);
    double host_backward_s = host_factor * (c->host_backward_s + host_tp_s);
    if (block && costs->dims->experts > 0) { /* a mixture's launches are counted */
        const double each_s =
            redco_expert_launch_s(&c->experts, shape->engine.release, costs->machine.cpu, &costs->machine.gpu);
        host_forward_s = each_s * redco_layer_launches(&layer, false);
        host_backward_s = each_s * redco_layer_launches(&layer, true);
    }
    if (block && costs->dims->adapter_rank > 0) {
        host_forward_s *= redco_adapted_launch_ratio(&layer, false);
        host_backward_s *= redco_adapted_launch_ratio(&layer, true);
    }
    times->forward_s = redco_pass_s(forward_s, host_forward_s);
    times->backward_s = redco_pass_s(backward_s, host_backward_s);
    for (uint32_t set = 0; set < full; set++) {
        for (uint32_t i = 0; i < count; i++) {
            if ((redcoi_repeated_by(&shape->engine, &ops[i]) & costs->recompute.sets[set]) == 0) { continue; }
            times->recompute_tp_s[set] += times->tp[i].forward_before_s + times->tp[i].forward_after_s;
        }
        times->recompute_s[set] += c->tp_exposed_ratio * times->recompute_tp_s[set];
    }
    times->recompute_tp_s[full] = shape->engine.partial_recompute ? 0.0 : times->tp_forward_s;
    times->recompute_s[full] = shape->engine.partial_recompute ? repeated_s : times->forward_s;
    times->weight_s = weight_s(costs, ops, count, times, logits_s);
    if (block) { fill_groups(costs, ops, count, times); }
}

static redco_layout_cost layout_cost(redco_costs *costs, const redco_parallelism *parallelism, uint32_t class_index,
                                     uint32_t layout)
{
    redco_layout_cost cost = {.params = 0};
    if (parallelism->tp <= 1 || costs->layouts.cost == NULL || costs->layout_status != REDCO_OK) { return cost; }
    costs->layout_status =
        costs->layouts.cost(costs->layouts.context, parallelism, class_index, layout, &cost, &costs->layout_error);
    return cost;
}

static uint64_t shifted(uint64_t value, int64_t by)
{
    return by < 0 && (uint64_t)-by > value ? 0 : value + (uint64_t)by;
}

/* With what the allocator holds beside. */
static uint64_t with_fragments(const redco_costs *costs, uint64_t bytes)
{
    return bytes + (uint64_t)ceil(redcoi_fragmentation_ratio(costs) * (double)bytes);
}

/* A head's values beyond what it keeps are the logits. */
static void fill_arena(const redco_costs *costs, redco_class_kind kind, const redcoi_arena_peak *peaks,
                       redcoi_rank *rank, redcoi_times *times)
{
    for (uint32_t i = 0; i < costs->recompute.count; i++) {
        times->arena_whole_bytes[i] = peaks[i].whole;
        times->arena_sharded_bytes[i] = peaks[i].sharded;
        times->arena_apart_bytes[i] = peaks[i].apart;
    }
    if (costs->workload.engine.planned_memory && kind == REDCO_CLASS_HEAD) { rank->logits_bytes = peaks[0].values; }
}

/* One layout of a class. */
static void fill_times(redco_costs *costs, const redco_parallelism *parallelism, const redco_shape *shape,
                       uint32_t class_index, uint32_t layout_index, redcoi_rank *rank, redcoi_times *times)
{
    const redco_layer_class *const class = &costs->classes[class_index];
    const redco_layout_cost layout = layout_cost(costs, parallelism, class_index, layout_index);
    *times = (redcoi_times){.clock_ratio = redco_compute_clock_ratio(&costs->compute, costs->model, shape)};
    for (redco_param_part p = REDCO_PART_DENSE; p < REDCO_PARTS; p++) {
        redcoi_part_params *const part = &times->parts[p];
        const bool dense = p == REDCO_PART_DENSE;
        const uint32_t tp = dense ? rank->key.tp : rank->key.etp, ep = dense ? 1 : rank->key.ep;
        part->params = redco_share_up(redco_rank_params(costs->model, class_index, p, tp), 1, ep);
        if (dense) { part->params = shifted(part->params, layout.params); }
        part->trained_params = part->params - redco_rank_frozen_params(costs->model, class_index, p, tp);
        part->frozen_bytes = redco_rank_frozen_bytes(costs->model, class_index, p, tp, costs->workload.precision);
        part->gather_params = part->params;
        if (dense && class->kind == REDCO_CLASS_HEAD && costs->dims->tied) {
            part->gather_params += redco_share_up(costs->dims->vocab, costs->dims->hidden, rank->key.tp);
        }
        times->params += part->params;
        times->trained_params += part->trained_params;
        if (redco_class_is_block(class->kind) && part->params > rank->block_params[p]) {
            rank->block_params[p] = part->params;
        }
    }
    fill_seconds(costs, class_index, shape, &layout, times);
    fill_modules(costs, class_index, &rank->key, times);
    redcoi_arena_peak peaks[REDCO_RECOMPUTE_SETS] = {{.values = 0}};
    const redco_layer_bytes bytes = redcoi_arena_layer_bytes(costs, class_index, shape, peaks);
    fill_arena(costs, class->kind, peaks, rank, times);
    rank->logits_bytes = shifted(rank->logits_bytes, layout.logits_bytes);
    for (uint32_t r = 0; r < costs->recompute.count; r++) {
        times->activation_bytes[r] = with_fragments(costs, bytes.kept[r]);
        times->recompute_bytes[r] = with_fragments(costs, bytes.again[r]);
        if (costs->recompute.sets[r] == REDCO_RECOMPUTE_FULL) { /* keeps its input alone; the rest is its working set */
            times->recompute_bytes[r] = shifted(times->recompute_bytes[r], layout.activation_bytes);
        } else {
            times->activation_bytes[r] = shifted(times->activation_bytes[r], layout.activation_bytes);
        }
    }
}

/* To those of the whole rank. */
static void add_params(redcoi_rank *rank, const redcoi_times *times, uint32_t layers)
{
    for (redco_param_part p = REDCO_PART_DENSE; p < REDCO_PARTS; p++) {
        rank->params[p] += times->parts[p].params * layers;
        rank->trained_params[p] += times->parts[p].trained_params * layers;
    }
}

/* Logits are of the head; those of engines that plan their memory are among its moments. */
static uint64_t logits_of(const redco_costs *costs, const redco_shape *shape)
{
    for (uint32_t i = 0; i < costs->class_count && !shape->engine.planned_memory; i++) {
        if (costs->classes[i].kind == REDCO_CLASS_HEAD) { return redco_logits_bytes(costs->model, shape); }
    }
    return 0;
}

static void fill(redco_costs *costs, const redco_parallelism *parallelism, redcoi_rank *rank)
{
    const redco_shape shape = redcoi_shape_of(costs, parallelism);
    rank->logits_bytes = with_fragments(costs, logits_of(costs, &shape));
    if (!redcoi_layouts_list(costs, parallelism, rank)) {
        costs->layout_status = redco_fail(&costs->layout_error, REDCO_ENOMEM, "", "out of memory");
    }
    for (uint32_t i = 0; i < costs->class_count; i++) {
        if (rank->layout_count[i] <= 1) {
            fill_times(costs, parallelism, &shape, i, 0, rank, &rank->classes[i]);
            add_params(rank, &rank->classes[i], costs->classes[i].layers);
            continue;
        }
        rank->classes[i] = (redcoi_times){.forward_s = 0.0}; /* until its mean is known */
        for (uint32_t layout = 0; layout < rank->layout_count[i]; layout++) {
            redcoi_times *const times = &rank->layouts[rank->first_layout[i] + layout];
            fill_times(costs, parallelism, &shape, i, layout, rank, times);
            add_params(rank, times, rank->all_members[rank->first_layout[i] + layout]);
        }
    }
    if (rank->layouts != NULL) { redcoi_layouts_count(costs, parallelism, rank); }
}

static bool is_rank_of(const redcoi_rank *rank, const redcoi_rank_key *key)
{
    const redcoi_rank_key *const of = &rank->key;
    return of->tp == key->tp && of->ep == key->ep && of->etp == key->etp && of->cp == key->cp &&
           of->cp_type == key->cp_type && of->micro_batch == key->micro_batch &&
           of->sequence_parallel == key->sequence_parallel && of->micro_batches == key->micro_batches &&
           of->pp == key->pp && of->chunks == key->chunks && redco_mesh_equal(of->dp, key->dp);
}

/* Where a key's times are, or up to REDCOI_TIMES_NEAR places further. */
static uint32_t home_of(const redcoi_rank_key *key)
{
    const uint64_t parts[] = {
        key->tp, key->ep,     key->etp,     key->cp,       key->cp_type,      key->micro_batch, key->sequence_parallel,
        key->pp, key->chunks, key->dp.gpus, key->dp.nodes, key->micro_batches};
    uint64_t hash = 0;
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) { hash = hash * 31 + parts[i]; }
    return (uint32_t)(hash % REDCOI_TIMES_CACHED);
}

const redcoi_rank *redcoi_rank_find(redco_costs *costs, const redco_parallelism *parallelism)
{
    const bool mixture = costs->dims->experts > 0;
    redcoi_rank_key key = {.tp = parallelism->tp,
                           .ep = mixture ? redco_parallelism_ep(parallelism) : 1,
                           .etp = mixture ? redco_parallelism_etp(parallelism) : parallelism->tp,
                           .cp = parallelism->cp,
                           .cp_type = parallelism->cp > 1 ? parallelism->cp_type : REDCO_CP_P2P,
                           .micro_batch = parallelism->micro_batch,
                           .sequence_parallel = parallelism->tp > 1 && parallelism->sequence_parallel};
    if (parallelism->tp > 1 && costs->layouts.cost != NULL && !costs->layouts.of_micro_batch) {
        key.micro_batches = parallelism->micro_batches; /* a layout weighs what is paid once a step */
        key.pp = parallelism->pp;
        key.chunks = redco_parallelism_chunks(parallelism);
        key.dp = parallelism->dp;
    } else if (mixture && redcoi_exchanges_hide(costs, parallelism)) {
        key.chunks = 1; /* as a mark */
    }
    if (is_rank_of(&costs->ranks[costs->newest], &key)) { return &costs->ranks[costs->newest]; }
    const uint32_t home = home_of(&key);
    uint32_t at = REDCOI_TIMES_CACHED;
    for (uint32_t i = 0; i < REDCOI_TIMES_NEAR; i++) {
        const uint32_t here = (home + i) % REDCOI_TIMES_CACHED;
        if (is_rank_of(&costs->ranks[here], &key)) {
            costs->newest = here;
            return &costs->ranks[here];
        }
        if (costs->ranks[here].key.tp == 0 && at == REDCOI_TIMES_CACHED) { at = here; }
    }
    if (at == REDCOI_TIMES_CACHED) {
        at = (home + costs->next_rank) % REDCOI_TIMES_CACHED;
        costs->next_rank = (costs->next_rank + 1) % REDCOI_TIMES_NEAR;
    }
    redcoi_rank *const rank = &costs->ranks[at];
    costs->newest = at;
    redcoi_rank_clear(rank);
    redcoi_memo_clear(costs);
    *rank = (redcoi_rank){.key = key, .classes = costs->times + (size_t)at * costs->class_count};
    fill(costs, parallelism, rank);
    return rank;
}
