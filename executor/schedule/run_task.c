/* Runs the operators of a step. */
#include "executor/schedule/schedule_internal.h"
#include "topology/base/clock.h"

#include <math.h>
#include <string.h>
#include <time.h>

static const double spin_s = 3e-5; /* a sleeping thread may wake up this much too late */

/* An emulated operator begins at the later of the end of its predecessor on this thread and of its dependencies, not
 * when this thread woke up: late awakenings do not add up. */
static void pass_time(redcoi_thread *thread, uint32_t task)
{
    const redco_schedule *const s = thread->schedule;
    const redcoi_task *const t = &s->tasks[task];
    uint32_t count = 0;
    double from_s = thread->emulated_s;
    for (uint32_t i = 0; i < t->wait_count; i++) {
        from_s = fmax(from_s, s->ended_s[s->waits[t->first_wait + i].task]);
    }
    const double until_s = from_s + redco_step_ops(s->step, &count)[task].seconds;
    thread->emulated_s = until_s;
    if (until_s - redco_now_s() > spin_s) {
        const double wake_s = until_s - spin_s;
        const struct timespec at = {(time_t)wake_s, (long)(1e9 * (wake_s - floor(wake_s)))};
        while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL) != 0) {}
    }
    while (redco_now_s() < until_s) {}
}

static redco_micro_batch micro_batch_of(const redco_schedule *s, const redcoi_task *task)
{
    return (redco_micro_batch){task->micro_batch, s->micro_batches};
}

/* Operands that each micro-batch has elsewhere. One thread at a time computes. */
static void move_operands(const redco_schedule *s, uint32_t at, uint32_t micro_batch)
{
    const redcoi_range_of moves = s->memory.moves != NULL ? s->memory.moves[at] : (redcoi_range_of){0, 0};
    for (uint32_t i = 0; i < moves.count; i++) {
        const redcoi_moving *const m = &s->memory.moving[moves.first + i];
        unsigned char *const data = redcoi_address_at(m->at, micro_batch);
        if (m->tensor == REDCO_STEP_NONE) {
            s->memory.launches[at].workspace = data;
        } else {
            s->memory.tensors[m->tensor].data = data;
        }
    }
}

/* Copies a value that leaves the stage to the place from which it is sent. */
static redco_status hand_over(redcoi_thread *thread, const redcoi_handover *handover, uint32_t micro_batch,
                              redco_error *err)
{
    return thread->backend->calls->copy(thread->backend, thread->stream, redcoi_address_at(handover->to, micro_batch),
                                        redcoi_address_at(handover->from, micro_batch), handover->bytes, err);
}

static redco_status launch(redcoi_thread *thread, uint32_t at, redco_error *err)
{
    const redco_schedule *const s = thread->schedule;
    const redco_launch *const l = &s->memory.launches[at];
    const redco_collectives *const c = s->options.collectives;
    if (redco_op_is_view(l->kind)) { return REDCO_OK; }
    if (redco_op_kind_class(l->kind) == REDCO_CLASS_COLLECTIVE) {
        const redco_status st = c->run(c->context, thread->backend, thread->stream, l, err);
        thread->emulated_s = redco_now_s();
        return st;
    }
    return s->options.emulate ? REDCO_OK : thread->backend->calls->run(thread->backend, thread->stream, l, err);
}

/* Accumulates gradients that are not scattered. */
static redco_status take(redcoi_thread *thread, const redcoi_task *task, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const redcoi_compute_task *const compute_task = &s->bind.compute_tasks[task->what];
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < compute_task->takes.count && st == REDCO_OK; i++) {
        const uint32_t module = s->bind.takes[compute_task->takes.first + i];
        const redcoi_slot *const slot = &s->memory.slots[s->memory.gradient_slot[module]];
        st = redco_states_take(s->options.states, thread->worker, module, micro_batch_of(s, task),
                               redcoi_address_at(redcoi_slot_at(s, slot), task->micro_batch), err);
    }
    return st;
}

static redco_status compute(redcoi_thread *thread, uint32_t index, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const redcoi_task *const task = &s->tasks[index];
    const redcoi_compute_task *const compute_task = &s->bind.compute_tasks[task->what];
    const bool emulate = s->options.emulate;
    redco_status st = REDCO_OK;
    uint32_t count = 0;
    if (emulate && redco_step_ops(s->step, &count)[index].stream == REDCO_STREAM_COMPUTE) { pass_time(thread, index); }
    uint32_t handover = 0;
    while (handover < s->memory.handover_count && s->memory.handovers[handover].behind < compute_task->ops.first) {
        handover++;
    }
    for (uint32_t i = 0; i < compute_task->ops.count && st == REDCO_OK; i++) {
        const uint32_t at = compute_task->ops.first + i;
        move_operands(s, at, task->micro_batch);
        st = launch(thread, at, err);
        for (; st == REDCO_OK && handover < s->memory.handover_count && s->memory.handovers[handover].behind == at;
             handover++) {
            st = hand_over(thread, &s->memory.handovers[handover], task->micro_batch, err);
        }
    }
    if (emulate) { return st; }
    for (uint32_t i = 0; i < compute_task->copies.count && st == REDCO_OK; i++) {
        const redcoi_copy_of *const copy = &s->memory.copies[compute_task->copies.first + i];
        st = thread->backend->calls->copy(thread->backend, thread->stream,
                                          redcoi_address_at(copy->to, task->micro_batch),
                                          redcoi_address_at(copy->from, task->micro_batch), copy->bytes, err);
    }
    if (st == REDCO_OK && task->what == s->loss_compute_task) { st = redcoi_send_loss(thread, task->micro_batch, err); }
    return st == REDCO_OK ? take(thread, task, err) : st;
}

static redco_status gather(redcoi_thread *thread, const redcoi_task *task, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const redcoi_slot *const slot = &s->memory.slots[task->what];
    void *const whole = s->memory.block + slot->at;
    redco_status st = redco_states_gather(s->options.states, thread->worker, slot->module, slot->backward, whole, err);
    if (st == REDCO_OK && !slot->backward && task->micro_batch == 0) {
        st = redco_states_keep_secondary(s->options.states, thread->worker, slot->module, whole, err);
    }
    return st;
}

/* The shard stays at its offset in the whole gradient. */
static redco_status scatter(redcoi_thread *thread, const redcoi_task *task, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const redcoi_slot *const slot = &s->memory.slots[task->what];
    const redco_layout *const layout = redco_states_layout(s->options.states);
    const uint32_t layer = redco_layout_layer_of(layout, slot->module);
    const uint32_t position =
        redco_mesh_position(redcoi_schedule_model(s)->layers[layer].shards.parameters, redco_layout_place(layout));
    unsigned char *const whole = s->memory.block + slot->at;
    unsigned char *const shard = whole + position * redco_layout_module(layout, slot->module)->shard *
                                             redco_dtype_bytes(redco_states_dtype(s->options.states));
    redco_status st = redco_states_scatter(s->options.states, thread->worker, slot->module, whole, shard, err);
    if (st == REDCO_OK && !s->options.emulate) {
        st = redco_states_take(s->options.states, thread->worker, slot->module, micro_batch_of(s, task), shard, err);
    }
    return st;
}

static redco_status norm(redcoi_thread *thread, uint32_t index, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    if (!s->options.emulate) {
        const redco_status st = redco_states_add_shared(s->options.states, thread->worker, err);
        return st == REDCO_OK ? redco_states_squares(s->options.states, thread->worker, err) : st;
    }
    pass_time(thread, index);
    return REDCO_OK;
}

/* The only host wait of a step: no update before loss and norm of all ranks are known to be finite. One all-reduce
 * carries both. */
static redco_status sum(redcoi_thread *thread, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    redco_status st = thread->backend->calls->stream_finish(thread->backend, thread->stream, err);
    if (st == REDCO_OK && s->options.device_comm != NULL) { st = redco_device_comm_check(s->options.device_comm, err); }
    if (st != REDCO_OK) { return st; }
    if (!s->options.emulate) {
        s->sums[0] = redco_states_squares_sum(s->options.states);
        s->sums[1] = redcoi_losses_sum(s);
    }
    s->summed = true;
    return redco_states_sum(s->options.states, s->sums, 2, err);
}

static redco_status conclude(redco_schedule *s, redco_error *err)
{
    const redco_rank_mesh mesh = redco_layout_mesh(redco_states_layout(s->options.states));
    s->loss = s->sums[1] / ((double)s->micro_batches * (double)redco_rank_count(mesh));
    s->norm = fabs(s->gradient_scale) * sqrt(s->sums[0]);
    if (!isfinite(s->loss)) {
        return redco_fail(err, REDCO_EINFEASIBLE, "step/loss", "the loss is %s",
                          isnan(s->loss) ? "not a number" : "infinite");
    }
    if (!isfinite(s->norm)) {
        return redco_fail(err, REDCO_EINFEASIBLE, "step/grad_norm", "the norm of the gradients is %s",
                          isnan(s->norm) ? "not a number" : "infinite");
    }
    return REDCO_OK;
}

redco_status redcoi_update(redcoi_thread *thread, uint32_t first, redco_error *err)
{
    const redco_schedule *const s = thread->schedule;
    redco_status st = REDCO_OK;
    (void)first;
    for (uint32_t l = 0; l < redcoi_schedule_model(s)->layer_count && st == REDCO_OK; l++) {
        st = redco_states_update(s->options.states, thread->worker, l, err);
    }
    return st;
}

/* Synchronises the updated weights of a layer of the step, and of those behind it that the step has no operator for: a
 * head without parameters that shares a table. */
static redco_status sync(redcoi_thread *thread, uint32_t layer, redco_error *err)
{
    const redco_schedule *const s = thread->schedule;
    const redco_state_model *const model = redcoi_schedule_model(s);
    redco_status st = REDCO_OK;
    for (uint32_t l = redco_layer_of_step(model, layer); l < model->layer_count && st == REDCO_OK; l++) {
        const uint32_t number = redco_step_layer_of(model, l);
        if (number != layer && s->synced[number]) { break; }
        st = redco_states_sync(s->options.states, thread->worker, l, err);
    }
    return st;
}

static redco_status optimize(redcoi_thread *thread, uint32_t index, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    redco_status st = s->summed ? REDCO_OK : sum(thread, err);
    if (st == REDCO_OK) { st = conclude(s, err); }
    if (s->options.emulate) {
        pass_time(thread, index);
        return st;
    }
    const double clip = redco_states_clip_factor(s->options.states, s->norm);
    const redco_update update = {s->learning_rate, s->number, s->gradient_scale * clip, s->gradient_scale};
    if (st == REDCO_OK) { st = redco_states_begin_update(s->options.states, thread->worker, &update, err); }
    if (st != REDCO_OK) { return st; }
    return s->segments == NULL
               ? redcoi_update(thread, 0, err)
               : redcoi_segment_run(thread, &s->segments[s->tasks[index].ordinal], redcoi_update, 0, err);
}

redco_status redcoi_act(redcoi_thread *thread, uint32_t index, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const redcoi_task *const task = &s->tasks[index];
    redco_states *const states = s->options.states;
    switch ((redcoi_action)task->action) {
    case REDCOI_COMPUTE: return compute(thread, index, err);
    case REDCOI_GATHER: return gather(thread, task, err);
    case REDCOI_SCATTER: return scatter(thread, task, err);
    case REDCOI_REDUCE: return redco_states_reduce(states, thread->worker, task->what, micro_batch_of(s, task), err);
    case REDCOI_SYNC: return sync(thread, task->what, err);
    case REDCOI_NORM: return norm(thread, index, err);
    case REDCOI_NORM_REDUCE: return sum(thread, err);
    case REDCOI_OPTIMIZER: return optimize(thread, index, err);
    case REDCOI_SEND:
    case REDCOI_RECEIVE: return redcoi_cross(thread, task, err);
    case REDCOI_NOTHING: break;
    }
    if (s->options.emulate) { pass_time(thread, index); }
    return REDCO_OK;
}
