/* Replays one rank of a plan without the others: communication takes the simulator's time. */
#include "executor/comm/replay.h"
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>

/* Counts the tensor-parallel collectives of a compute task as a process group does (device_comm.h). */
static uint64_t elements_of_compute_task(const redco_schedule *s, const redcoi_compute_task *compute_task)
{
    uint64_t elements = 0;
    for (uint32_t i = compute_task->ops.first; i < compute_task->ops.first + compute_task->ops.count; i++) {
        const redco_launch *const launch = &s->memory.launches[i];
        if (redco_op_kind_class(launch->kind) != REDCO_CLASS_COLLECTIVE) { continue; }
        const bool gather = launch->kind == REDCO_OP_ALL_GATHER;
        elements += redco_type_elements(gather ? &launch->outputs[0].type : &launch->inputs[0].type);
    }
    return elements;
}

/* 0: a single collective. */
static uint64_t elements_of_sync(const redco_schedule *s, uint32_t layer)
{
    const redco_states *const states = s->options.states;
    const redco_state_model *const model = redcoi_schedule_model(s);
    const uint32_t first = redco_layer_of_step(model, layer), end = redco_layer_of_step(model, layer + 1);
    uint64_t elements = 0;
    if (redco_layout_scheme(redco_states_layout(states)) != REDCO_INTER_TENSOR && end - first == 1) { return 0; }
    for (uint32_t l = first; l < end; l++) { elements += redco_states_sync_elements(states, l); }
    return elements;
}

static uint64_t elements_of(const redco_schedule *s, const redcoi_task *task)
{
    const redco_states *const states = s->options.states;
    switch ((redcoi_action)task->action) {
    case REDCOI_COMPUTE: return elements_of_compute_task(s, &s->bind.compute_tasks[task->what]);
    case REDCOI_REDUCE:
        return redco_states_bucket_bytes(states, task->what) / redco_dtype_bytes(redco_states_dtype(states));
    case REDCOI_SYNC: return elements_of_sync(s, task->what);
    default: return 0;
    }
}

redco_status redcoi_replay_make(redco_schedule *s, redco_error *err)
{
    redco_status st = REDCO_OK;
    if (!s->options.replay) { return st; }
    s->replayed = calloc((size_t)s->task_count + 1, sizeof *s->replayed);
    if (s->replayed == NULL) { return redcoi_schedule_memory_short(err); }
    for (uint32_t t = 0; t < s->task_count; t++) { s->replayed[t] = elements_of(s, &s->tasks[t]); }
    for (int stream_kind = 0; stream_kind < REDCOI_STREAMS && st == REDCO_OK; stream_kind++) {
        st = redco_replay_add_stream(s->options.device_comm, s->threads[stream_kind].stream, err);
    }
    return st;
}

static redco_status occupy(redcoi_thread *thread, double seconds, redco_error *err)
{
    const redco_occupation o = {.seconds = seconds};
    return thread->backend->calls->occupy(thread->backend, thread->stream, &o, err);
}

/* A collective of the graph that the step lacks (layouts differ from the closed form's) takes no time in the step, and
 * none here: it only copies on this device. Operators of the step that have no collective in the graph take their time,
 * so that the sum is the modelled one. */
redco_status redcoi_replay_expect(redcoi_thread *thread, uint32_t index, redco_error *err)
{
    const redco_schedule *const s = thread->schedule;
    const redcoi_task *const task = &s->tasks[index];
    uint32_t count = 0;
    const redco_step_op *const op = &redco_step_ops(s->step, &count)[index];
    const bool computes =
        task->action == REDCOI_COMPUTE && op->work != REDCO_WORK_TENSOR && op->work != REDCO_WORK_EXCHANGE;
    redco_replay_expect(s->options.device_comm, thread->stream, computes ? 0.0 : op->seconds, s->replayed[index]);
    const bool nothing = task->action == REDCOI_COMPUTE && !computes && s->replayed[index] == 0;
    return nothing || task->action == REDCOI_NORM_REDUCE ? occupy(thread, op->seconds, err) : REDCO_OK;
}
