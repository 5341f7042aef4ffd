/* Threads of streams, their dependencies, and the end of a step. */
#include "executor/schedule/schedule_internal.h"
#include "topology/base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

/* With the lock held, as all functions up to lane(). */
static void wake_all(redco_schedule *s)
{
    for (int k = 0; k < REDCOI_STREAMS; k++) { (void)pthread_cond_signal(&s->threads[k].wake); }
}

static void sleep_until_woken(redcoi_thread *thread)
{
    thread->asleep = true;
    (void)pthread_cond_wait(&thread->wake, &thread->schedule->lock);
    thread->asleep = false;
}

/* The first failure of a thread ends the step of all threads. */
static void fail(redco_schedule *s, redco_status status, const redco_error *err)
{
    (void)pthread_mutex_lock(&s->lock);
    if (s->status == REDCO_OK) {
        s->status = status;
        s->error = *err;
    }
    wake_all(s);
    (void)pthread_mutex_unlock(&s->lock);
    if (status != REDCO_EINFEASIBLE) { redco_world_abort(s->options.world); } /* all ranks find it by themselves */
}

static bool is_done(const redcoi_thread *thread)
{
    return thread->done >= thread->task_count;
}

/* All dependencies of the stream's next task have been queued. */
static bool is_ready(const redcoi_thread *thread)
{
    const redco_schedule *const s = thread->schedule;
    if (thread->busy || is_done(thread)) { return false; }
    const redcoi_task *const task = &s->tasks[thread->tasks[thread->done]];
    for (uint32_t i = 0; i < task->wait_count; i++) {
        const redcoi_task *const other = &s->tasks[s->waits[task->first_wait + i].task];
        if (s->threads[other->stream_kind].done <= other->ordinal) { return false; }
    }
    return true;
}

static bool all_are_done(const redco_schedule *s)
{
    bool done = true;
    for (int k = 0; k < REDCOI_STREAMS; k++) { done = done && is_done(&s->threads[k]); }
    return done;
}

/* Ends the thread's step. With help a thread stays until no stream has a task left. */
static bool is_over(const redcoi_thread *thread)
{
    const bool helps = thread->schedule->helps && thread->stream_kind == REDCOI_STREAM_COMPUTE;
    return helps ? all_are_done(thread->schedule) : is_done(thread);
}

/* The stream whose next task this thread runs: its own, or one that its own waits for; a task of any other stream might
 * wait for ranks that wait for this thread. @return NULL: the thread has to wait */
static redcoi_thread *next_stream(redcoi_thread *thread)
{
    redco_schedule *const s = thread->schedule;
    if (is_ready(thread)) { return thread; }
    if (!s->helps || thread->stream_kind != REDCOI_STREAM_COMPUTE) { return NULL; }
    for (int k = 0; k < REDCOI_STREAMS && is_done(thread); k++) {
        if (is_ready(&s->threads[k])) { return &s->threads[k]; }
    }
    const redcoi_task *const task = is_done(thread) ? NULL : &s->tasks[thread->tasks[thread->done]];
    for (uint32_t i = 0; task != NULL && i < task->wait_count; i++) {
        const redcoi_task *const awaited = &s->tasks[s->waits[task->first_wait + i].task];
        redcoi_thread *const other = &s->threads[awaited->stream_kind];
        if (other->done <= awaited->ordinal && is_ready(other)) { return other; }
    }
    return NULL;
}

/* Wakes threads that can go on, except for the stream that this thread continues itself. */
static void wake_others(redco_schedule *s, const redcoi_thread *taken)
{
    for (int k = 0; k < REDCOI_STREAMS; k++) {
        redcoi_thread *const other = &s->threads[k];
        const bool goes_on = other != taken && (k == REDCOI_STREAM_COMPUTE || is_ready(other));
        if (other->asleep && goes_on) { (void)pthread_cond_signal(&other->wake); }
    }
}

/* Waits for the events of other streams that the task depends on, and for the beginning of the step. */
static redco_status order_stream(redcoi_thread *thread, const redcoi_task *task, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const redco_backend_calls *const calls = thread->backend->calls;
    redco_status st = REDCO_OK;
    if (task->ordinal == 0) { st = calls->event_wait(thread->backend, thread->stream, s->base, err); }
    for (uint32_t i = 0; i < task->wait_count && st == REDCO_OK; i++) {
        redco_event *const event = s->end[s->waits[task->first_wait + i].task];
        st = calls->event_wait(thread->backend, thread->stream, event, err);
    }
    return st;
}

static redco_status set_end(redcoi_thread *thread, uint32_t index, redco_error *err)
{
    const redco_schedule *const s = thread->schedule;
    if (s->end[index] == s->begin[index]) { return REDCO_OK; }
    return thread->backend->calls->event_set(thread->backend, thread->stream, s->end[index], err);
}

/* Other streams wait for the end of a segment. Its last task may do nothing and share the event of an earlier task. */
static redco_status set_segment_end(redcoi_thread *thread, uint32_t first, uint32_t last, redco_error *err)
{
    const redco_schedule *const s = thread->schedule;
    if (s->end[last] == s->begin[first]) { return REDCO_OK; }
    return thread->backend->calls->event_set(thread->backend, thread->stream, s->end[last], err);
}

static redco_status act(redcoi_thread *thread, uint32_t index, redco_error *err)
{
    const redco_status st = thread->schedule->options.replay ? redcoi_replay_expect(thread, index, err) : REDCO_OK;
    return st == REDCO_OK ? redcoi_act(thread, index, err) : st;
}

/* Runs a segment and sets all events but the last task's, which other streams may wait for. */
static redco_status act_all(redcoi_thread *thread, uint32_t first, redco_error *err)
{
    const redco_schedule *const s = thread->schedule;
    redco_status st = REDCO_OK;
    for (uint32_t i = 0; i < s->segments[first].count && st == REDCO_OK; i++) {
        const uint32_t index = thread->tasks[first + i];
        st = act(thread, index, err);
        if (st == REDCO_OK && i + 1 < s->segments[first].count && s->marking) { st = set_end(thread, index, err); }
    }
    return st;
}

/* The number of tasks in the segment that begins here; 0: one task by itself, as the update, which waits inside. */
static uint32_t tasks_at(const redcoi_thread *thread, uint32_t first)
{
    const redco_schedule *const s = thread->schedule;
    if (s->segments == NULL || thread->stream_kind != REDCOI_STREAM_COMPUTE) { return 0; }
    return s->tasks[thread->tasks[first]].action == REDCOI_OPTIMIZER ? 0 : s->segments[first].count;
}

/* Queues a task, or the segment that it begins; on a device the work ends long after the return.
 * @param first  its number in the stream @param count_out  tasks that were queued */
static redco_status do_task(redcoi_thread *thread, uint32_t first, uint32_t *count_out, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    const uint32_t index = thread->tasks[first], count = tasks_at(thread, first);
    const redcoi_task *const task = &s->tasks[index];
    const redcoi_task *last = task;
    const bool feeds = task->action == REDCOI_COMPUTE && task->what == 0 && !s->options.emulate;
    redco_status st = order_stream(thread, task, err);
    if (st == REDCO_OK && (task->ordinal == 0 || task->wait_count > 0)) {
        st = thread->backend->calls->event_set(thread->backend, thread->stream, s->begin[index], err);
    }
    if (st == REDCO_OK && feeds) { st = redcoi_feed(thread, task->micro_batch, err); }
    if (st == REDCO_OK && count > 0) {
        last = &s->tasks[thread->tasks[first + count - 1]];
        st = redcoi_segment_run(thread, &s->segments[first], act_all, first, err);
    } else if (st == REDCO_OK) {
        st = act(thread, index, err);
    }
    if (st == REDCO_OK) { st = set_segment_end(thread, index, thread->tasks[last->ordinal], err); }
    *count_out = count > 0 ? count : 1;
    if (st == REDCO_OK && s->options.emulate) {
        s->ended_s[index] = redco_now_s();
        if (task->action != REDCOI_COMPUTE && task->action != REDCOI_NOTHING) {
            thread->emulated_s = s->ended_s[index]; /* the next emulated operator follows real work */
        }
    }
    return st;
}

/* Queues tasks one after another, each when its dependencies have been queued. */
static redco_status lane(redcoi_thread *thread, redco_error *err)
{
    redco_schedule *const s = thread->schedule;
    redco_status st = REDCO_OK;
    (void)pthread_mutex_lock(&s->lock);
    while (s->status == REDCO_OK && st == REDCO_OK && !is_over(thread)) {
        redcoi_thread *const stream = next_stream(thread);
        wake_others(s, stream);
        if (stream == NULL) {
            sleep_until_woken(thread);
            continue;
        }
        uint32_t count = 0;
        stream->busy = true;
        (void)pthread_mutex_unlock(&s->lock);
        st = do_task(stream, stream->done, &count, err);
        (void)pthread_mutex_lock(&s->lock);
        stream->busy = false;
        if (st == REDCO_OK) { stream->done += count; }
    }
    wake_others(s, NULL);
    (void)pthread_mutex_unlock(&s->lock);
    return st;
}

/* Runs a stream's step to its end, also after a failure: queued work may use memory that is freed afterwards. */
static void run_stream_kind(redcoi_thread *thread)
{
    redco_schedule *const s = thread->schedule;
    redco_error err = {.status = REDCO_OK};
    redco_status st = lane(thread, &err);
    if (st != REDCO_OK) { fail(s, st, &err); }
    const bool failed = st != REDCO_OK;
    st = thread->backend->calls->stream_finish(thread->backend, thread->stream, failed ? NULL : &err);
    if (st == REDCO_OK && s->options.device_comm != NULL) {
        st = redco_device_comm_check(s->options.device_comm, &err);
    }
    if (st != REDCO_OK && !failed) { fail(s, st, &err); }
}

static void *thread_main(void *context)
{
    redcoi_thread *const thread = context;
    redco_schedule *const s = thread->schedule;
    uint64_t round = 0;
    for (;;) {
        (void)pthread_mutex_lock(&s->lock);
        while (!s->stop && (s->helps ? is_done(thread) || s->status != REDCO_OK : s->round == round)) {
            sleep_until_woken(thread);
        }
        const bool stop = s->stop;
        round = s->round;
        (void)pthread_mutex_unlock(&s->lock);
        if (stop) { return NULL; }
        if (!s->helps) { thread->emulated_s = 0.0; } /* with help another thread may run this stream */
        run_stream_kind(thread);
        (void)pthread_mutex_lock(&s->lock);
        s->idle++;
        wake_others(s, NULL);
        (void)pthread_mutex_unlock(&s->lock);
    }
}

/* After a failure other threads end the tasks that they have begun. */
static bool any_is_busy(const redco_schedule *s)
{
    bool busy = false;
    for (int k = 0; k < REDCOI_STREAMS; k++) { busy = busy || s->threads[k].busy; }
    return busy;
}

redco_status redco_schedule_run(redco_schedule *s, uint64_t number, double learning_rate, double gradient_scale,
                                redco_schedule_step *step_out, redco_error *err)
{
    redcoi_thread *const own = &s->threads[REDCOI_STREAM_COMPUTE];
    uint32_t started = 0;
    if (s->status != REDCO_OK) {
        return redco_fail(err, REDCO_EVALUE, "schedule", "is of no more use: %s: %s", s->error.place, s->error.text);
    }
    redco_status st = own->backend->calls->event_set(own->backend, own->stream, s->base, err);
    if (st != REDCO_OK) { return st; }
    (void)pthread_mutex_lock(&s->lock);
    for (int k = 0; k < REDCOI_STREAMS; k++) { s->threads[k].done = 0; }
    s->idle = 0;
    s->number = number;
    s->learning_rate = learning_rate;
    s->gradient_scale = gradient_scale;
    s->sums[0] = s->sums[1] = s->loss = s->norm = 0.0;
    s->summed = s->exchange.used[0] = s->exchange.used[1] = false;
    s->round++;
    if (!s->helps) { wake_all(s); }
    (void)pthread_mutex_unlock(&s->lock);
    own->emulated_s = redco_now_s();
    run_stream_kind(own);
    for (int stream_kind = 0; stream_kind < REDCOI_STREAMS; stream_kind++) {
        started += s->threads[stream_kind].started ? 1 : 0;
    }
    (void)pthread_mutex_lock(&s->lock);
    while (s->helps ? any_is_busy(s) : s->idle < started) { sleep_until_woken(own); }
    st = s->status;
    (void)pthread_mutex_unlock(&s->lock);
    if (st != REDCO_OK) { return redco_fail(err, st, s->error.place, "%s", s->error.text); }
    *step_out = (redco_schedule_step){s->loss, s->norm};
    return REDCO_OK;
}

redco_status redco_schedule_settle(redco_schedule *s, redco_error *err)
{
    redco_states_worker *const worker = s->threads[REDCOI_STREAM_COMPUTE].worker;
    redco_status st = REDCO_OK;
    for (uint32_t l = 0; l < redcoi_schedule_model(s)->layer_count && st == REDCO_OK; l++) {
        st = redco_states_sync(s->options.states, worker, l, err);
    }
    return st == REDCO_OK ? redco_states_worker_finish(worker, err) : st;
}

/* Makes the resources of a stream; without tasks, all but its thread. */
static redco_status open_stream_kind(redco_schedule *s, redcoi_stream_kind stream_kind, redco_error *err)
{
    redcoi_thread *const thread = &s->threads[stream_kind];
    const redco_schedule_options *const o = &s->options;
    /* Updates and the synchronisation of updated weights overlap with the next forward, which waits for them: before
     * its kernels, too. */
    const redco_device_stream_kind kind =
        stream_kind == REDCOI_STREAM_COMPUTE ? REDCO_DEVICE_STREAM_COMPUTATION : REDCO_DEVICE_STREAM_COMMUNICATION;
    thread->schedule = s;
    thread->stream_kind = stream_kind;
    const bool crosses = stream_kind >= REDCOI_STREAM_RECEIVE;
    if (crosses && o->links == NULL) { return REDCO_OK; }
    redco_status st = o->open(o->open_context, &thread->backend, err);
    if (st == REDCO_OK) { st = thread->backend->calls->stream_create(thread->backend, kind, &thread->stream, err); }
    if (st == REDCO_OK && !crosses) {
        st = redco_states_worker_create(o->states, thread->backend, thread->stream, &thread->worker, err);
    }
    return st;
}

static redco_status start_threads(redco_schedule *s, redco_error *err)
{
    for (int k = 0; k < REDCOI_STREAMS; k++) { s->threads[k].done = s->threads[k].task_count; } /* no step has begun */
    for (int stream_kind = REDCOI_STREAM_COMPUTE + 1; stream_kind < REDCOI_STREAMS; stream_kind++) {
        redcoi_thread *const thread = &s->threads[stream_kind];
        if (thread->task_count == 0) { continue; }
        if (pthread_create(&thread->thread, NULL, thread_main, thread) != 0) {
            return redco_fail(err, REDCO_ESYSTEM, "schedule", "no thread for a stream");
        }
        thread->started = true;
    }
    return REDCO_OK;
}

static redco_status check(const redco_schedule_options *o, redco_error *err)
{
    const redco_state_model *const model = redco_layout_model(redco_states_layout(o->states));
    uint32_t count = 0;
    const redco_step_op *const ops = redco_step_ops(o->step, &count);
    for (uint32_t i = 0; i < count; i++) {
        const bool here = o->links != NULL ? ops[i].rank == o->links->stage
                                           : ops[i].rank == 0 && ops[i].stream != REDCO_STREAM_PIPELINE;
        if (ops[i].fold != 0 || !here) {
            return redco_fail(err, REDCO_EVALUE, "step", "operator %u is folded or of another stage", i);
        }
    }
    const uint32_t layers = model->layer_count > 0 ? redco_step_layer_of(model, model->layer_count - 1) + 1 : 0;
    if (o->links == NULL && redco_step_layer_count(o->step) != layers) {
        return redco_fail(err, REDCO_EVALUE, "step", "has %u layers, the model %u", redco_step_layer_count(o->step),
                          layers);
    }
    if (o->input_count > REDCO_INPUTS_MAX) {
        return redco_fail(err, REDCO_EVALUE, "schedule", "%u inputs; at most %d", o->input_count, REDCO_INPUTS_MAX);
    }
    return REDCO_OK;
}

redco_status redco_schedule_create(const redco_schedule_options *options, redco_schedule **schedule_out,
                                   redco_error *err)
{
    redco_status st = check(options, err);
    if (st != REDCO_OK) { return st; }
    redco_schedule *s = calloc(1, sizeof *s);
    if (s == NULL) { return redcoi_schedule_memory_short(err); }
    s->options = *options;
    s->micro_batches = (uint32_t)redco_step_micro_batches(options->step);
    bool locks = pthread_mutex_init(&s->lock, NULL) == 0;
    for (int k = 0; k < REDCOI_STREAMS; k++) { locks = locks && pthread_cond_init(&s->threads[k].wake, NULL) == 0; }
    if (!locks) {
        free(s);
        return redco_fail(err, REDCO_ESYSTEM, "schedule", "no lock");
    }
    for (int stream_kind = 0; stream_kind < REDCOI_STREAMS && st == REDCO_OK; stream_kind++) {
        st = open_stream_kind(s, (redcoi_stream_kind)stream_kind, err);
    }
    if (st != REDCO_OK) { goto out; }
    s->helps = s->threads[REDCOI_STREAM_COMPUTE].backend->calls->immediate && !options->emulate && !options->replay;
    if ((st = redcoi_bind_make(s, err)) != REDCO_OK) { goto out; }
    s->loss_compute_task = options->loss == REDCO_NO_VALUE
                               ? REDCO_STEP_NONE
                               : s->bind.compute_task_of[redco_value_op(options->graph, options->loss)->id];
    if ((st = redcoi_values_plan(s, err)) != REDCO_OK || (st = redcoi_rings_plan(s, err)) != REDCO_OK ||
        (st = redcoi_slots_plan(s, err)) != REDCO_OK || (st = redcoi_places_plan(s, err)) != REDCO_OK ||
        (st = redcoi_memory_take(s, err)) != REDCO_OK || (st = redcoi_exchange_take(s, err)) != REDCO_OK ||
        (st = redcoi_tasks_make(s, err)) != REDCO_OK || (st = redcoi_events_make(s, err)) != REDCO_OK ||
        (st = redcoi_replay_make(s, err)) != REDCO_OK || (st = redcoi_segments_make(s, err)) != REDCO_OK) {
        goto out;
    }
    if (options->emulate || options->replay) { (void)prctl(PR_SET_TIMERSLACK, 1000UL); }
    if ((st = start_threads(s, err)) != REDCO_OK) { goto out; }
    *schedule_out = s;
    s = NULL;
out:
    redco_schedule_free(s);
    return st;
}

void redco_schedule_free(redco_schedule *s)
{
    if (s == NULL) { return; }
    (void)pthread_mutex_lock(&s->lock);
    s->stop = true;
    wake_all(s);
    (void)pthread_mutex_unlock(&s->lock);
    for (int stream_kind = 0; stream_kind < REDCOI_STREAMS; stream_kind++) {
        if (s->threads[stream_kind].started) { (void)pthread_join(s->threads[stream_kind].thread, NULL); }
    }
    redcoi_segments_free(s);
    redcoi_events_free(s);
    redcoi_exchange_free(s);
    redcoi_memory_free(s);
    redcoi_bind_free(&s->bind);
    for (int stream_kind = 0; stream_kind < REDCOI_STREAMS; stream_kind++) {
        redcoi_thread *const thread = &s->threads[stream_kind];
        redco_states_worker_free(thread->worker);
        if (thread->stream != NULL) { thread->backend->calls->stream_free(thread->backend, thread->stream); }
        redco_backend_close(thread->backend);
        free(thread->tasks);
        (void)pthread_cond_destroy(&thread->wake);
    }
    redco_step_free(s->step);
    free(s->replayed);
    free(s->synced);
    free(s->tasks);
    free(s->waits);
    (void)pthread_mutex_destroy(&s->lock);
    free(s);
}

void redco_schedule_hold_reserve(redco_schedule *s, uint64_t bytes)
{
    redco_step_hold(s->step, redcoi_stage_of(s), REDCO_CATEGORY_RESERVE, s->memory.size.input_bytes + bytes);
}

redco_schedule_size redco_schedule_sizes(const redco_schedule *s)
{
    redco_schedule_size size = s->memory.size;
    for (int stream_kind = 0; stream_kind < REDCOI_STREAMS; stream_kind++) {
        const redco_states_worker *const worker = s->threads[stream_kind].worker;
        size.worker_bytes += worker != NULL ? redco_states_worker_bytes(worker) : 0;
    }
    return size;
}
