/* One micro-batch through some layers of a rank, forward and backward, in the engine's issue order. */
#include "costmodel/simulator/step_build.h"

/* Where a pass is. */
struct place {
    redcoi_builder *b;
    redcoi_unit *unit;
    uint32_t index; /* index of the layer */
    redcoi_layer *layer;
    const redcoi_parts *parts;
    uint32_t micro_batch;
    redco_step_pass pass;
    redco_turn_kind kind; /* a backward pass's turn */
};

static struct place place_at(redcoi_builder *b, redcoi_unit *unit, uint32_t index, uint32_t micro_batch,
                             redco_step_pass pass)
{
    redcoi_layer *const layer = &b->layers[index];
    return (struct place){b, unit, index, layer, &b->parts[layer->parts], micro_batch, pass, REDCO_TURN_BACKWARD};
}

static redco_step_op op_at(const struct place *at, const redcoi_part_op *part, redco_work work,
                           redco_step_suffix suffix)
{
    return (redco_step_op){.traffic = REDCO_STEP_NONE,
                           .layer = at->index,
                           .micro_batch = at->micro_batch,
                           .label = part->label,
                           .role = (uint8_t)part->role,
                           .rank = (uint16_t)at->unit->rank,
                           .work = (uint8_t)work,
                           .pass = (uint8_t)at->pass,
                           .suffix = (uint8_t)suffix,
                           .contends = true};
}

static redco_step_op op_of_module(const struct place *at, const redcoi_part_module *module, redco_work work,
                                  redco_step_suffix suffix)
{
    redco_step_op op = op_at(at, &(redcoi_part_op){.label = module->label}, work, suffix);
    op.module = module->number;
    return op;
}

static void launch(const struct place *at, double seconds)
{
    redcoi_launch(at->b, at->unit, at->b->label_launch, at->pass, at->index, at->micro_batch, seconds);
}

/* Tensor- or context-parallel traffic, or an exchange of rows, that computation waits for. */
static void wait_around(const struct place *at, const redcoi_part_op *part, double seconds, redco_work work,
                        redco_step_suffix suffix)
{
    if (!(seconds > 0.0)) { return; }
    redco_step_op op = op_at(at, part, work, suffix);
    op.seconds = seconds;
    op.stream = work == REDCO_WORK_EXCHANGE ? REDCO_STREAM_EXCHANGE : REDCO_STREAM_TENSOR;
    op.link = work == REDCO_WORK_CONTEXT ? at->parts->cp_link : (uint8_t)REDCO_LINK_NVLINK;
    redcoi_wait(at->unit, redcoi_behind_waits(at->b, at->unit, op));
}

/* On one side of attention. */
static void wait_context(const struct place *at, const redcoi_part_op *part, double seconds, bool scatter)
{
    static const redco_step_suffix suffixes[REDCO_CP_TYPES] = {[REDCO_CP_P2P] = REDCO_SUFFIX_CP_RING,
                                                               [REDCO_CP_ALL_GATHER] = REDCO_SUFFIX_CP_GATHER,
                                                               [REDCO_CP_ALL_TO_ALL] = REDCO_SUFFIX_CP_ALL_TO_ALL};
    wait_around(at, part, seconds, REDCO_WORK_CONTEXT,
                scatter ? REDCO_SUFFIX_CP_SCATTER : suffixes[at->b->parallelism->cp_type]);
}

/* Experts that ranks share out wait for rows, and hand their sums back (add_exchange() in layer_times.c). */
static bool exchanges(const struct place *at, const redcoi_part_op *part)
{
    return redco_parallelism_ep(at->b->parallelism) > 1 &&
           (part->role == REDCO_OP_ROLE_EXPERT_IN || part->role == REDCO_OP_ROLE_EXPERT_OUT);
}

static void wait_before(const struct place *at, const redcoi_part_op *part, double seconds)
{
    if (exchanges(at, part)) {
        wait_around(at, part, seconds, REDCO_WORK_EXCHANGE, REDCO_SUFFIX_DISPATCH);
        return;
    }
    wait_around(at, part, seconds, REDCO_WORK_TENSOR, REDCO_SUFFIX_TP_GATHER);
}

static void wait_after(const struct place *at, const redcoi_part_op *part, double seconds)
{
    const bool split = at->b->parallelism->sequence_parallel;
    if (exchanges(at, part)) {
        wait_around(at, part, seconds, REDCO_WORK_EXCHANGE, REDCO_SUFFIX_COMBINE);
        return;
    }
    wait_around(at, part, seconds, REDCO_WORK_TENSOR, split ? REDCO_SUFFIX_TP_SCATTER : REDCO_SUFFIX_REDUCE);
}

/* Weights of modules [first, last): issued behind the computation so far, and behind their update. */
static void fetch(const struct place *at, uint32_t first, uint32_t last)
{
    const bool again = at->pass != REDCO_PASS_NAME_FWD;
    for (uint32_t i = first; i < last; i++) {
        const redcoi_part_module *const module = &at->parts->modules[i];
        uint32_t *const ready = &at->b->ready[at->layer->first_ready + i];
        *ready = REDCO_STEP_NONE;
        if (!(module->gather_s > 0.0)) { continue; } /* it stays */
        redco_step_op op = op_of_module(at, module, REDCO_WORK_GATHER, REDCO_SUFFIX_GATHER);
        op.pass = again ? REDCO_PASS_NAME_BWD : REDCO_PASS_NAME_FWD;
        op.seconds = again ? module->again_s : module->gather_s;
        op.traffic = again ? module->again : module->gather;
        op.link = again ? module->again_link : module->gather_link;
        op.stream = again ? at->parts->again_stream : REDCO_STREAM_PARAMETERS;
        *ready = redcoi_collective(at->b, at->unit, op, at->layer->update);
        redco_step_add_memory(at->b->step, REDCO_CATEGORY_GATHERED, module->weight_bytes);
    }
}

/* Waits for the gathers of modules [first, last): they share a stream, so that the last is enough. @param op  that uses
 * them; NONE: any. @return bytes of their weights */
static int64_t wait_gathers(const struct place *at, uint32_t first, uint32_t last, uint32_t op)
{
    int64_t bytes = 0;
    uint32_t ready = REDCO_STEP_NONE;
    for (uint32_t i = first; i < last; i++) {
        if (op != REDCO_STEP_NONE && at->parts->modules[i].op != op) { continue; }
        const uint32_t gather = at->b->ready[at->layer->first_ready + i];
        if (gather != REDCO_STEP_NONE && (ready == REDCO_STEP_NONE || gather > ready)) { ready = gather; }
        bytes += at->parts->modules[i].weight_bytes;
    }
    redcoi_wait(at->unit, ready);
    return bytes;
}

/* The modules of an operator must be there. @return bytes of weights that it may give back when it ends */
static int64_t wait_modules(const struct place *at, const redcoi_part_group *group, uint32_t op)
{
    return wait_gathers(at, group->first_module, group->last_module, op);
}

/* Calls that gather some modules: experts wait for the ranks of their own grid. @param again  in backward */
static double calls_s(const redcoi_parts *parts, uint32_t first, uint32_t last, bool again)
{
    double seconds = 0.0;
    for (uint32_t i = first; i < last; i++) {
        seconds += again ? parts->modules[i].again_call_s : parts->modules[i].call_s;
    }
    return seconds;
}

/* Fetches a group right when it is needed: nothing overlaps. */
static void fetch_now(const struct place *at, const redcoi_part_group *group)
{
    if (group->last_module == group->first_module) { return; }
    launch(at, calls_s(at->parts, group->first_module, group->last_module, at->pass != REDCO_PASS_NAME_FWD));
    fetch(at, group->first_module, group->last_module);
    (void)wait_gathers(at, group->first_module, group->last_module, REDCO_STEP_NONE);
}

/* Forward through one layer whose weights are on their way; in backward (recomputation) they are kept. */
static void forward_layer(const struct place *at, bool fetch_each)
{
    const redcoi_parts *const parts = at->parts;
    const bool again = at->pass == REDCO_PASS_NAME_RE;
    redco_step *const step = at->b->step;
    const bool alone = again && parts->partial;
    int64_t held_bytes = 0; /* weights that only the last operator gives back */
    for (uint32_t g = 0; g < parts->group_count; g++) {
        const redcoi_part_group *const group = &parts->groups[g];
        if (fetch_each) { fetch_now(at, group); }
        for (uint32_t i = group->first_op; i < group->last_op; i++) {
            const redcoi_part_op *const part = &parts->ops[i];
            redco_step_op op = op_at(at, part, again ? REDCO_WORK_RECOMPUTE : REDCO_WORK_FORWARD, 0);
            if ((alone && i > 0 && !(part->again_s > 0.0)) || (again && part->unread)) { continue; }
            if (!alone) {
                wait_before(at, part, part->forward_tp.before_s);
                wait_context(at, part, part->forward_cp.before_s, false);
            }
            int64_t used_bytes = parts->sharded ? wait_modules(at, group, i) : 0;
            if (parts->by_layer) {
                held_bytes += used_bytes;
                used_bytes = i + 1 == parts->op_count ? held_bytes : 0;
            }
            op.seconds = again ? part->again_s : part->forward_s;
            (void)redcoi_compute(at->b, at->unit, op);
            if (i == 0) {
                redco_step_add_memory(step, again ? REDCO_CATEGORY_RECOMPUTED : REDCO_CATEGORY_ACTIVATIONS,
                                      again ? parts->recompute_bytes : parts->activation_bytes);
            }
            if (part->logits && !again) { redco_step_add_memory(step, REDCO_CATEGORY_LOGITS, parts->logits_bytes); }
            if (!again) { redco_step_add_memory(step, REDCO_CATEGORY_GATHERED, -used_bytes); }
            if (!alone) {
                wait_context(at, part, part->forward_cp.after_s, false);
                wait_after(at, part, part->forward_tp.after_s);
            }
            wait_around(at, part, part->logits_s, REDCO_WORK_TENSOR, REDCO_SUFFIX_TP_GATHER);
        }
    }
}

void redcoi_forward_pass(redcoi_builder *b, redcoi_unit *unit, uint32_t first, uint32_t last, uint32_t micro_batch)
{
    for (uint32_t l = first; l < last; l++) {
        const struct place at = place_at(b, unit, l, micro_batch, REDCO_PASS_NAME_FWD);
        if (!at.parts->sharded) { redcoi_wait(unit, at.layer->update); }
        if (b->overlap_gather) { /* this layer, if nobody fetched it, and the one after */
            const struct place ahead = place_at(b, unit, l + 1 < last ? l + 1 : l, micro_batch, REDCO_PASS_NAME_FWD);
            const bool own = at.parts->sharded && !at.layer->fetched;
            const bool next = l + 1 < last && ahead.parts->sharded;
            launch(&at, (own ? calls_s(at.parts, 0, at.parts->module_count, false) : 0.0) +
                            (next ? calls_s(ahead.parts, 0, ahead.parts->module_count, false) : 0.0));
            if (own) { fetch(&at, 0, at.parts->module_count); }
            if (next) { fetch(&ahead, 0, ahead.parts->module_count); }
            ahead.layer->fetched = next;
            at.layer->fetched = false;
        }
        forward_layer(&at, at.parts->sharded && !b->overlap_gather);
        at.layer->update = REDCO_STEP_NONE; /* waited for */
    }
}

/* Gradients of a group's modules that belong to one operator are there. @return the last scatter, or NONE */
static uint32_t scatter(const struct place *at, const redcoi_part_group *group, uint32_t op_index)
{
    const redcoi_parts *const parts = at->parts;
    uint32_t last = REDCO_STEP_NONE;
    for (uint32_t i = group->first_module; i < group->last_module; i++) {
        const redcoi_part_module *const module = &parts->modules[i];
        if (module->op != op_index || !(module->scatter_s > 0.0)) { continue; }
        redco_step_op op = op_of_module(at, module, REDCO_WORK_SCATTER, REDCO_SUFFIX_SCATTER);
        op.pass = REDCO_PASS_NAME_BWD;
        op.seconds = module->scatter_s;
        op.traffic = module->scatter;
        op.link = module->scatter_link;
        op.stream = REDCO_STREAM_PARAMETERS;
        last = redcoi_collective(at->b, at->unit, op, REDCO_STEP_NONE);
        redco_step_add_memory(at->b->step, REDCO_CATEGORY_SCATTERED, -module->gradient_bytes);
        at->layer->scattered = last;
    }
    if (!at->b->overlap_gather) { redcoi_wait(at->unit, last); }
    return last;
}

/* Operators whose weights have gradients of their own turn. @return how many come before @p op_index, or are it */
static uint32_t matrices_to(const redcoi_parts *parts, uint32_t op_index)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i <= op_index && i < parts->op_count; i++) { count += parts->ops[i].matrix; }
    return count;
}

/* A layer without them has no operator of its own in the turn of weights. */
static bool has_weight_turn(const redcoi_parts *parts)
{
    return matrices_to(parts, parts->op_count) > 0;
}

/* Whole gradients that an operator brings; of a layer that is one unit, its first operator in this turn. */
static int64_t gradient_bytes(const struct place *at, const redcoi_part_group *group, uint32_t op_index)
{
    const redcoi_parts *const parts = at->parts;
    const uint32_t matrices = matrices_to(parts, op_index);
    const bool in_turn = at->kind == REDCO_TURN_WEIGHT && has_weight_turn(parts);
    const bool first = in_turn ? parts->ops[op_index].matrix && matrices == matrices_to(parts, parts->op_count)
                               : op_index + 1 == parts->op_count;
    int64_t bytes = 0;
    for (uint32_t i = 0; i < parts->module_count && parts->by_layer; i++) {
        bytes += first ? parts->modules[i].gradient_bytes : 0;
    }
    if (at->parts->by_layer) { return bytes; }
    for (uint32_t i = group->first_module; i < group->last_module && at->parts->transient_gradient; i++) {
        if (at->parts->modules[i].op == op_index) { bytes += at->parts->modules[i].gradient_bytes; }
    }
    return bytes;
}

/* Operators once more whose outputs were not kept, with their tensor-parallel traffic. */
static void run_again(const struct place *at, const redcoi_part_op *reader)
{
    const redcoi_parts *const parts = at->parts;
    struct place again = *at;
    again.pass = REDCO_PASS_NAME_RE;
    for (uint32_t i = reader->again_first; i < reader->again_last; i++) {
        const redcoi_part_op *const part = &parts->ops[i];
        redco_step_op op = op_at(&again, part, REDCO_WORK_RECOMPUTE, REDCO_SUFFIX_NONE);
        op.seconds = part->again_s;
        wait_before(&again, part, part->forward_tp.before_s);
        (void)redcoi_compute(at->b, at->unit, op);
        wait_after(&again, part, part->forward_tp.after_s);
    }
    if (reader->again_last > 0 && !parts->planned) {
        redco_step_add_memory(at->b->step, REDCO_CATEGORY_RECOMPUTED, parts->recompute_bytes);
    }
}

/* Gradients of weights read all that was computed forward, once more or not, and gradients of outputs, which take no
 * more than what of it backward alone needs: arXiv 2401.10241, section 2.2. So activations stay until these are made,
 * and what a layer kept in a list works with in backward goes with the gradient of its input. */
static void give_back(const struct place *at)
{
    const redcoi_parts *const parts = at->parts;
    const bool inputs = at->kind != REDCO_TURN_WEIGHT,
               weights = at->kind != REDCO_TURN_INPUT || !has_weight_turn(parts);
    if (weights) {
        redco_step_add_memory(at->b->step, REDCO_CATEGORY_ACTIVATIONS, -parts->activation_bytes);
        redco_step_add_memory(at->b->step, REDCO_CATEGORY_LOGITS, -parts->logits_bytes);
    }
    if (parts->recompute_full ? weights : parts->planned && inputs) {
        redco_step_add_memory(at->b->step, REDCO_CATEGORY_RECOMPUTED, -parts->recompute_bytes);
    }
}

/* The weights that an operator needs in backward must be there. @return bytes of them that it may give back */
static int64_t wait_again(const struct place *at, const redcoi_part_group *group, uint32_t op_index)
{
    const redcoi_parts *const parts = at->parts;
    if (!parts->gathered_again) { return 0; }
    if (!parts->by_layer) { return wait_modules(at, group, op_index); }
    if (op_index + 1 == parts->op_count) { (void)wait_gathers(at, 0, parts->module_count, REDCO_STEP_NONE); }
    int64_t bytes = 0; /* the unit, and experts on a grid of their own, until backward is through */
    for (uint32_t i = 0; i < parts->module_count && op_index == 0; i++) { bytes += parts->modules[i].weight_bytes; }
    return bytes;
}

/* @param made  the operator that brings them
 * @return that behind which the rank's share of them is there */
static uint32_t gradients_made(const struct place *at, const redcoi_part_group *group, uint32_t index, uint32_t made)
{
    const int64_t bytes = gradient_bytes(at, group, index);
    const bool computed = at->kind != REDCO_TURN_WEIGHT || has_weight_turn(at->parts);
    if (computed) { redco_step_add_memory(at->b->step, REDCO_CATEGORY_SCATTERED, bytes); }
    const uint32_t last = at->parts->sharded ? scatter(at, group, index) : made;
    if (!computed) { redco_step_add_memory(at->b->step, REDCO_CATEGORY_SCATTERED, bytes); } /* the scatter's own */
    return last;
}

static uint32_t backward_weight(const struct place *at, const redcoi_part_group *group, uint32_t index)
{
    const redcoi_part_op *const part = &at->parts->ops[index];
    redco_step_op op = op_at(at, part, REDCO_WORK_BACKWARD, REDCO_SUFFIX_WEIGHT);
    op.seconds = part->weight_s;
    const uint32_t made = redcoi_compute(at->b, at->unit, op);
    if (at->kind == REDCO_TURN_WEIGHT && matrices_to(at->parts, index) == 1) { give_back(at); } /* the last of them */
    return gradients_made(at, group, index, made);
}

/* Backward of one operator. The gradient of a matrix comes first: scattering it overlaps with the gradient of the
 * input, which needs the weights. @return the operator behind which the gradients are there */
static uint32_t backward_op(const struct place *at, const redcoi_part_group *group, uint32_t index)
{
    const redcoi_parts *const parts = at->parts;
    const redcoi_part_op *const part = &parts->ops[index];
    redco_step *const step = at->b->step;
    redco_step_op op = op_at(at, part, REDCO_WORK_BACKWARD, REDCO_SUFFIX_NONE);
    uint32_t ready = REDCO_STEP_NONE;
    run_again(at, part);
    wait_before(at, part, part->backward_tp.before_s);
    wait_context(at, part, part->backward_cp.before_s, false);
    wait_around(at, part, part->logits_s, REDCO_WORK_TENSOR, REDCO_SUFFIX_TP_SCATTER);
    if (part->matrix) {
        if (at->kind == REDCO_TURN_BACKWARD) { ready = backward_weight(at, group, index); }
        op.suffix = REDCO_SUFFIX_INPUT;
    }
    const bool begins = parts->planned && !parts->recompute_full && index + 1 == parts->op_count;
    const int64_t used_bytes = wait_again(at, group, index);
    op.seconds = part->input_s;
    const uint32_t input = redcoi_compute(at->b, at->unit, op);
    redco_step_add_memory(step, REDCO_CATEGORY_GATHERED, -used_bytes);
    if (begins) { redco_step_add_memory(step, REDCO_CATEGORY_RECOMPUTED, parts->recompute_bytes); }
    if (index == 0) { give_back(at); }
    if (part->again_ends && !parts->planned) {
        redco_step_add_memory(step, REDCO_CATEGORY_RECOMPUTED, -parts->recompute_bytes);
    }
    if (!part->matrix && (!parts->by_layer || at->kind == REDCO_TURN_BACKWARD)) {
        ready = gradients_made(at, group, index, input);
    }
    wait_context(at, part, part->backward_cp.after_s, at->b->parallelism->cp_type == REDCO_CP_ALL_GATHER);
    wait_after(at, part, part->backward_tp.after_s);
    return ready;
}

/* The modules that backward fetches when it comes to a layer: all of it if it goes forward again or is one unit, else
 * only the group used first. */
static uint32_t entry_module(const redcoi_parts *parts)
{
    return parts->recompute_full || parts->by_layer ? 0 : parts->groups[parts->group_count - 1].first_module;
}

static double scatter_calls_s(const redcoi_parts *parts, const redcoi_part_group *group)
{
    double seconds = 0.0;
    for (uint32_t i = group->first_module; i < group->last_module; i++) {
        if (parts->modules[i].scatter_s > 0.0) { seconds += parts->modules[i].call_s; }
    }
    return seconds;
}

/* Fetches ahead of the groups in backward order: with recomputation, or by whole layers, the layer after this one when
 * this one begins, without it the group after this one, which may be the first of the next layer. */
static void fetch_ahead(const struct place *at, const struct place *next, uint32_t g, bool begins)
{
    const redcoi_parts *const parts = at->parts;
    const redcoi_part_group *const group = &parts->groups[g];
    const bool last_group = g == 0, whole = parts->recompute_full || parts->by_layer;
    const bool own = begins && parts->gathered_again && !at->layer->fetched;
    const bool leave = next != NULL && next->parts->gathered_again && (whole ? begins : last_group);
    const bool inside = parts->gathered_again && !whole && !last_group;
    double seconds = scatter_calls_s(parts, group);
    if (own) { seconds += calls_s(parts, entry_module(parts), parts->module_count, true); }
    if (inside) { seconds += calls_s(parts, group[-1].first_module, group[-1].last_module, true); }
    if (leave) { seconds += calls_s(next->parts, entry_module(next->parts), next->parts->module_count, true); }
    launch(at, seconds);
    if (own) { fetch(at, entry_module(parts), parts->module_count); }
    if (inside) { fetch(at, group[-1].first_module, group[-1].last_module); }
    if (leave) {
        fetch(next, entry_module(next->parts), next->parts->module_count);
        next->layer->fetched = true;
    }
}

/* The micro-batch before had its gradients in the same buffer. */
static void wait_scattered(const struct place *at)
{
    redcoi_wait(at->unit, at->layer->scattered);
    at->layer->scattered = REDCO_STEP_NONE;
}

static void backward_layer(const struct place *at, const struct place *next)
{
    static const redcoi_part_group nothing = {0, 0, 0, 0};
    redcoi_builder *const b = at->b;
    const redcoi_parts *const parts = at->parts;
    if (parts->recompute_full) {
        struct place again = *at;
        again.pass = REDCO_PASS_NAME_RE;
        if (b->overlap_gather) { fetch_ahead(at, next, parts->group_count - 1, true); }
        forward_layer(&again, parts->gathered_again && !b->overlap_gather);
    }
    at->layer->late = b->step->op_count;
    if (at->kind == REDCO_TURN_BACKWARD) { wait_scattered(at); }
    for (uint32_t g = parts->group_count; g-- > 0;) {
        const redcoi_part_group *const group = &parts->groups[g];
        const bool begins = g + 1 == parts->group_count;
        uint32_t ready = REDCO_STEP_NONE;
        if (b->overlap_gather && !(begins && parts->recompute_full)) {
            fetch_ahead(at, next, g, begins);
        } else if (!b->overlap_gather && parts->sharded) {
            if (parts->gathered_again && !parts->recompute_full) {
                fetch_now(at, !parts->by_layer ? group : begins ? &parts->groups[0] : &nothing);
            }
            launch(at, scatter_calls_s(parts, group));
        }
        for (uint32_t i = group->last_op; i-- > group->first_op;) {
            const uint32_t there = backward_op(at, group, i);
            if (there != REDCO_STEP_NONE) { ready = there; }
        }
        if (at->kind == REDCO_TURN_BACKWARD) { redcoi_gradients(b, at->unit, parts, group, at->micro_batch, ready); }
    }
    at->layer->fetched = false;
}

/* The gradients of weights that a backward pass left out. Activations were kept for them. */
static void weights_of_layer(const struct place *at)
{
    const redcoi_parts *const parts = at->parts;
    wait_scattered(at);
    for (uint32_t g = parts->group_count; g-- > 0;) {
        const redcoi_part_group *const group = &parts->groups[g];
        uint32_t ready = REDCO_STEP_NONE;
        for (uint32_t i = group->last_op; i-- > group->first_op;) {
            if (parts->ops[i].matrix) {
                ready = backward_weight(at, group, i);
            } else if (parts->by_layer) { /* a layer's gradients are scattered together */
                ready = gradients_made(at, group, i, ready);
            }
        }
        redcoi_gradients(at->b, at->unit, parts, group, at->micro_batch, ready);
    }
}

void redcoi_backward_pass(redcoi_builder *b, redcoi_unit *unit, redco_turn_kind kind, uint32_t first, uint32_t last,
                          uint32_t micro_batch)
{
    for (uint32_t l = last; l-- > first;) {
        struct place at = place_at(b, unit, l, micro_batch, REDCO_PASS_NAME_BWD);
        const struct place next = place_at(b, unit, l > first ? l - 1 : l, micro_batch, REDCO_PASS_NAME_BWD);
        at.kind = kind;
        if (kind == REDCO_TURN_WEIGHT) {
            weights_of_layer(&at);
        } else {
            backward_layer(&at, l > first ? &next : NULL);
        }
    }
}
