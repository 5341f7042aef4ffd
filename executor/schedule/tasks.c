/* The tasks of a step: the simulator's operators, with the states' gradient buckets in place of its own and waits for
 * reused memory; for each task its stream, action and dependencies. */
#include "executor/schedule/schedule_internal.h"

#include <stdlib.h>
#include <string.h>

struct maker {
    redco_schedule *s;
    const redco_step_op *ops;
    uint32_t count;
    uint32_t *own;                   /* by operator of the simulator's step: its number here; NONE: left out */
    uint32_t bucket;                 /* issued last, or NONE */
    uint32_t pending;                /* that the next computation must wait for, or NONE */
    uint32_t computed;               /* compute task added last, of any micro-batch, or NONE */
    uint32_t *compute_tasks;         /* by compute task of the micro-batch: its task */
    uint32_t *left;                  /* by bucket: modules still missing in this micro-batch */
    uint32_t *filled_by;             /* by bucket: the operator that completed it */
    uint32_t *full, full_count;      /* full buckets to reduce, in order */
    uint32_t *room;                  /* by buffer of buckets: the reduction that empties it */
    uint32_t *scatters[2], *gathers; /* operators of this micro-batch and the one before; by slot. Of a stage, whose
                                        passes are of other micro-batches in turn, the last of any: [0] twice */
    uint32_t inputs[REDCOI_STREAMS]; /* by stream: the last that the next task waits for, or NONE */
    uint32_t *ended;                 /* a stage's: last compute task of each pass; by pass and micro-batch */
    uint32_t *sent[2];               /* likewise: what it sends forward and backward; by chunk and micro-batch */
    uint32_t scattered;              /* scatter added last, or NONE */
    double *seconds, *bytes;         /* for the simulator's reductions and for ours; once a step [0] and before [1] */
    uint32_t theirs[2], ours[2];     /* counts, likewise */
    const redco_step_op *like[2];
    uint32_t label[2];
    uint32_t micro_batch;
    uint32_t *compute_task, *transfer; /* by micro-batch: the next one, in the order of all micro-batches */
};

static bool is_bucket(const redco_step_op *op)
{
    return op->work == REDCO_WORK_REDUCE || op->work == REDCO_WORK_SHARD;
}

static void wait_for(struct maker *m, uint32_t own)
{
    if (own == REDCO_STEP_NONE) { return; }
    uint32_t *const last = &m->inputs[m->s->tasks[own].stream_kind];
    if (*last == REDCO_STEP_NONE || own > *last) { *last = own; }
}

static void forget_inputs(struct maker *m)
{
    memset(m->inputs, 0xff, sizeof m->inputs);
}

static redcoi_stream_kind stream_kind_of(const redco_step_op *op)
{
    switch (op->stream) {
    case REDCO_STREAM_PARAMETERS: return REDCOI_STREAM_PARAMETERS;
    case REDCO_STREAM_SECONDARY: return REDCOI_STREAM_SECONDARY;
    case REDCO_STREAM_GRADIENTS: return REDCOI_STREAM_GRADIENTS;
    case REDCO_STREAM_UPDATE: return REDCOI_STREAM_UPDATE;
    case REDCO_STREAM_PIPELINE:
        return (redcoi_stream_kind)((op->suffix == REDCO_SUFFIX_SEND ? REDCOI_STREAM_SEND : REDCOI_STREAM_RECEIVE) +
                                    (op->pass == REDCO_PASS_NAME_FWD ? 0 : 1));
    default: return REDCOI_STREAM_COMPUTE;
    }
}

static uint32_t add(struct maker *m, const redco_step_op *op, redcoi_task task)
{
    redco_schedule *const s = m->s;
    uint32_t inputs[REDCOI_STREAMS], count = 0;
    for (uint32_t i = 0; i < REDCOI_STREAMS; i++) {
        if (m->inputs[i] != REDCO_STEP_NONE) { inputs[count++] = m->inputs[i]; }
    }
    const uint32_t own = redco_step_add(s->step, op, inputs, count);
    forget_inputs(m);
    if (own == REDCO_STEP_NONE) { return own; }
    task.stream_kind = (uint8_t)stream_kind_of(op);
    task.micro_batch = op->micro_batch;
    task.layer = op->layer;
    s->tasks[own] = task;
    s->task_count = own + 1;
    return own;
}

static redco_micro_batch micro_batch_of(const struct maker *m)
{
    return (redco_micro_batch){m->micro_batch, m->s->micro_batches};
}

/* Reduces a full bucket, behind the operator that filled it and what is in m->inputs. */
static void reduce(struct maker *m, uint32_t bucket)
{
    const redco_states *const states = m->s->options.states;
    const bool last = m->micro_batch + 1 == m->s->micro_batches;
    const int which = last ? 0 : 1;
    const redco_step_op *const like = m->like[which];
    const uint64_t bytes = redco_states_bucket_bytes(states, bucket);
    redco_step_op op = {.traffic = REDCO_STEP_NONE,
                        .layer = REDCO_STEP_NONE,
                        .micro_batch = last ? REDCO_STEP_NONE : m->micro_batch,
                        .label = m->label[which],
                        .serial = bucket,
                        .rank = (uint16_t)redcoi_stage_of(m->s),
                        .stream = REDCO_STREAM_GRADIENTS,
                        .work = last ? REDCO_WORK_REDUCE : REDCO_WORK_SHARD,
                        .pass = REDCO_PASS_NAME_FWD,
                        .suffix = REDCO_SUFFIX_SERIAL,
                        .contends = true};
    if (like != NULL) {
        const redco_step_traffic *const theirs = redco_step_traffic_of(m->s->options.step, (uint32_t)(like - m->ops));
        op.link = like->link;
        op.pass = like->pass;
        if (m->bytes[which] > 0.0) { op.seconds = m->seconds[which] * (double)bytes / m->bytes[which]; }
        if (theirs != NULL) {
            redco_step_traffic traffic = *theirs;
            traffic.calls = 1;
            traffic.size_bytes = (double)bytes;
            op.traffic = redco_step_add_traffic(m->s->step, &traffic);
        }
    }
    wait_for(m, m->filled_by[bucket]);
    m->bucket = add(m, &op, (redcoi_task){.action = REDCOI_REDUCE, .what = bucket});
    if (m->bucket != REDCO_STEP_NONE) { m->s->tasks[m->bucket].micro_batch = m->micro_batch; }
    const uint32_t buffer = redco_states_bucket_buffer(states, bucket);
    if (buffer != REDCO_NO_BUCKET) {
        m->room[buffer] = m->bucket;
        redco_step_add_memory(m->s->step, REDCO_CATEGORY_BUCKETS, (int64_t)bytes);
        redco_step_add_memory(m->s->step, REDCO_CATEGORY_BUCKETS, -(int64_t)bytes);
    }
    if (!m->s->options.overlap_reduce) { m->pending = m->bucket; }
}

/* Reduces all full buckets, with the inputs gathered so far: where the simulator reduces, or where memory is short. */
static void reduce_full(struct maker *m)
{
    uint32_t kept[REDCOI_STREAMS];
    const uint32_t full = m->full_count;
    memcpy(kept, m->inputs, sizeof kept);
    m->full_count = 0;
    for (uint32_t i = 0; i < full; i++) {
        memcpy(m->inputs, kept, sizeof kept);
        reduce(m, m->full[i]);
    }
    forget_inputs(m);
}

/* Where the states' buckets differ from the simulator's, a full bucket is reduced at once: at the simulator's times
 * several would be reduced after backward, overlapped with nothing. */
static void reduce_now(struct maker *m)
{
    const int which = m->micro_batch + 1 == m->s->micro_batches ? 0 : 1;
    if (m->s->options.overlap_reduce && m->theirs[which] != m->ours[which]) { reduce_full(m); }
}

/* Before a task writes a module's gradients into a bucket's buffer, the reduction of its previous content must be
 * queued. */
static void make_room(struct maker *m, uint32_t module)
{
    const redco_states *const states = m->s->options.states;
    const uint32_t buffer = redco_states_take_buffer(states, module);
    for (uint32_t i = 0; i < m->full_count && buffer != REDCO_NO_BUCKET; i++) {
        if (redco_states_bucket_buffer(states, m->full[i]) == buffer) { reduce_full(m); }
    }
}

static void wait_for_room(struct maker *m, uint32_t module)
{
    const uint32_t buffer = redco_states_take_buffer(m->s->options.states, module);
    if (buffer != REDCO_NO_BUCKET) { wait_for(m, m->room[buffer]); }
}

/* A task that fills several buckets at once needs as many buffers. */
static bool crowded(const struct maker *m, const redcoi_compute_task *compute_task)
{
    const redco_states *const states = m->s->options.states;
    for (uint32_t n = 0; n < compute_task->takes.count; n++) {
        for (uint32_t k = 0; k < n; k++) {
            const uint32_t a = m->s->bind.takes[compute_task->takes.first + n],
                           b = m->s->bind.takes[compute_task->takes.first + k];
            const uint32_t buffer = redco_states_take_buffer(states, a);
            if (buffer != REDCO_NO_BUCKET && buffer == redco_states_take_buffer(states, b) &&
                redco_states_bucket_of(states, a) != redco_states_bucket_of(states, b)) {
                return true;
            }
        }
    }
    return false;
}

static void taken(struct maker *m, uint32_t module, uint32_t by)
{
    const redco_states *const states = m->s->options.states;
    const uint32_t bucket = redco_states_bucket_of(states, module);
    if (!redco_states_bucket_due(states, bucket, micro_batch_of(m)) || --m->left[bucket] > 0) { return; }
    m->filled_by[bucket] = by;
    m->full[m->full_count++] = bucket;
}

/* Modules of each bucket that are missing. One that is reduced once a step fills in the last micro-batch, whose passes
 * may have others' between them.
 * @param all  at the beginning; else only of buckets that are reduced in every micro-batch */
static void count_modules(struct maker *m, bool all)
{
    static const redco_micro_batch not_last = {0, 2};
    const redco_states *const states = m->s->options.states;
    for (uint32_t b = 0; b < redco_states_bucket_count(states); b++) {
        if (all || redco_states_bucket_due(states, b, not_last)) { m->left[b] = 0; }
    }
    for (uint32_t i = 0; i < redcoi_schedule_model(m->s)->module_count; i++) {
        const uint32_t b = redco_states_bucket_of(states, i);
        if (b != REDCO_NO_BUCKET && (all || redco_states_bucket_due(states, b, not_last))) { m->left[b]++; }
    }
}

static void begin_micro_batch(struct maker *m, uint32_t micro_batch)
{
    uint32_t *const before = m->scatters[1];
    reduce_full(m);
    if (m->s->options.links == NULL) {
        m->scatters[1] = m->scatters[0];
        m->scatters[0] = before;
    }
    m->micro_batch = micro_batch;
    count_modules(m, false);
}

/* Waits for scatters whose gradients' memory a task reuses. */
static void wait_for_scatters(struct maker *m, uint32_t after, uint32_t after_before)
{
    /* Passes of several chunks follow one another in an order of their own: any scatter may be of that memory. */
    if (m->s->options.links != NULL && m->s->options.links->pipeline.chunks > 1) { wait_for(m, m->scattered); }
    if (after != REDCO_STEP_NONE) {
        wait_for(m, m->scatters[0][after]);
    } else if (after_before != REDCO_STEP_NONE && m->s->options.links != NULL) {
        wait_for(m, m->scatters[0][after_before]);
    } else if (after_before != REDCO_STEP_NONE && m->micro_batch > 0) {
        wait_for(m, m->scatters[1][after_before]);
    }
}

/* By micro-batch, of a pass or a chunk. */
static size_t at_micro_batch(const struct maker *m, uint32_t of, uint32_t micro_batch)
{
    return (size_t)of * m->s->micro_batches + micro_batch;
}

/* A value that leaves is copied to a place from which another one must have been sent. */
static void wait_for_places(struct maker *m, uint32_t number)
{
    const redco_stage_links *const links = m->s->options.links;
    const uint32_t layer = m->s->bind.compute_tasks[number].layer;
    if (links == NULL || layer == REDCO_STEP_NONE) { return; }
    const uint32_t position = links->position_of[layer], chunk = position / links->pipeline.stages;
    for (uint32_t d = 0; d < 2; d++) {
        const redcoi_ring *const ring = redcoi_crossing_ring(m->s, false, d, position);
        const bool fills = redcoi_pass_of(m->s, number) == redcoi_pass_at(m->s, d, position);
        if (!fills || ring->count == 0 || m->micro_batch < ring->count) { continue; }
        wait_for(m, m->sent[d][at_micro_batch(m, chunk, m->micro_batch - ring->count)]);
    }
}

/* A stage sends when its pass is done, and receives when the place is free: when the last reader of what was there is
 * done. A transfer has the position of its sender. */
static void add_crossing(struct maker *m, uint32_t i)
{
    const redco_step_op *const op = &m->ops[i];
    const bool sends = op->suffix == REDCO_SUFFIX_SEND;
    const uint32_t d = op->pass == REDCO_PASS_NAME_FWD ? 0 : 1;
    const uint32_t position = sends ? op->position : d == 0 ? op->position + 1U : op->position - 1U;
    const redcoi_ring *const ring = redcoi_crossing_ring(m->s, true, d, position);
    if (!sends && ring->count > 0 && op->micro_batch >= ring->count) {
        wait_for(m, m->ended[at_micro_batch(m, ring->until, op->micro_batch - ring->count)]);
    }
    m->own[i] = add(m, op, (redcoi_task){.action = sends ? REDCOI_SEND : REDCOI_RECEIVE, .what = 2 * position + d});
    if (!sends) { return; }
    m->sent[d][at_micro_batch(m, position / m->s->options.links->pipeline.stages, op->micro_batch)] = m->own[i];
}

static void add_compute_task(struct maker *m, uint32_t i)
{
    redco_schedule *const s = m->s;
    const uint32_t number = m->compute_task[m->micro_batch]++;
    wait_for_places(m, number);
    const redcoi_compute_task *const compute_task = &s->bind.compute_tasks[number];
    for (uint32_t n = 0; n < compute_task->needs.count; n++) {
        wait_for(m, m->gathers[s->memory.need_slot[compute_task->needs.first + n]]);
    }
    wait_for_scatters(m, compute_task->after, compute_task->after_before);
    for (uint32_t n = 0; n < compute_task->takes.count; n++) {
        wait_for_room(m, s->bind.takes[compute_task->takes.first + n]);
    }
    m->own[i] = m->computed = m->compute_tasks[number] =
        add(m, &m->ops[i], (redcoi_task){.action = REDCOI_COMPUTE, .what = number});
    m->ended[at_micro_batch(m, redcoi_pass_of(s, number), m->micro_batch)] = m->own[i];
    for (int k = 0; k < 2; k++) {
        redco_step_add_memory(s->step, REDCO_CATEGORY_ACTIVATIONS, compute_task->value_bytes[k]);
        redco_step_add_memory(s->step, REDCO_CATEGORY_SCATTERED, compute_task->gradient_bytes[k]);
    }
    redco_step_add_memory(s->step, REDCO_CATEGORY_GATHERED, compute_task->weight_bytes);
    for (uint32_t n = 0; n < compute_task->takes.count; n++) {
        taken(m, s->bind.takes[compute_task->takes.first + n], m->own[i]);
    }
    reduce_now(m);
}

static void add_transfer(struct maker *m, uint32_t i)
{
    const uint32_t number = m->transfer[m->micro_batch]++;
    const redcoi_slot *const slot = &m->s->memory.slots[number];
    redcoi_task task = {.action = REDCOI_GATHER, .backward = slot->backward, .what = number};
    if (!slot->gradient) {
        /* Its memory is free when the compute tasks before have ended. The simulator waits for computation alone, not
         * for a tensor-parallel collective behind it, which is a compute task here. */
        wait_for(m, m->computed);
        wait_for_scatters(m, slot->after, slot->after_before);
        m->gathers[number] = m->own[i] = add(m, &m->ops[i], task);
        redco_step_add_memory(m->s->step, REDCO_CATEGORY_GATHERED, (int64_t)slot->bytes);
        return;
    }
    task.action = REDCOI_SCATTER;
    wait_for(m, m->compute_tasks[m->s->bind.ready_of[slot->module]]); /* the same of what completes a gradient */
    wait_for_room(m, slot->module);
    m->own[i] = m->scatters[0][slot->scatter] = m->scattered = add(m, &m->ops[i], task);
    redco_step_add_memory(m->s->step, REDCO_CATEGORY_SCATTERED, -(int64_t)slot->bytes);
    taken(m, slot->module, m->own[i]);
    reduce_now(m);
}

static uint8_t action_of(const redco_step_op *op)
{
    switch (op->work) {
    case REDCO_WORK_NORM: return REDCOI_NORM;
    case REDCO_WORK_NORM_REDUCE: return REDCOI_NORM_REDUCE;
    case REDCO_WORK_OPTIMIZER: return REDCOI_OPTIMIZER;
    case REDCO_WORK_UPDATE: return REDCOI_SYNC;
    default: return REDCOI_NOTHING;
    }
}

static void add_op(struct maker *m, uint32_t i)
{
    const redco_step_op *const op = &m->ops[i];
    uint32_t inputs = 0;
    const uint32_t *const input = redco_step_inputs(m->s->options.step, i, &inputs);
    if (op->micro_batch != REDCO_STEP_NONE && (i == 0 || op->micro_batch != m->micro_batch)) {
        begin_micro_batch(m, op->micro_batch);
    }
    if (redcoi_is_compute_task(op)) {
        const redcoi_range_of takes = m->s->bind.compute_tasks[m->compute_task[m->micro_batch]].takes;
        for (uint32_t n = 0; n < takes.count; n++) { make_room(m, m->s->bind.takes[takes.first + n]); }
    } else if (op->work == REDCO_WORK_SCATTER) {
        make_room(m, m->s->memory.slots[m->transfer[m->micro_batch]].module);
    } else if (op->work == REDCO_WORK_NORM) {
        reduce_full(m);
    }
    for (uint32_t k = 0; k < inputs; k++) {
        wait_for(m, m->own[input[k]] != REDCO_STEP_NONE ? m->own[input[k]] : m->bucket);
    }
    if (is_bucket(op)) {
        reduce_full(m);
        return;
    }
    if (op->stream == REDCO_STREAM_COMPUTE) {
        wait_for(m, m->pending);
        m->pending = REDCO_STEP_NONE;
    }
    if (redcoi_is_compute_task(op)) {
        add_compute_task(m, i);
    } else if (op->work == REDCO_WORK_GATHER || op->work == REDCO_WORK_SCATTER) {
        add_transfer(m, i);
    } else if (op->work == REDCO_WORK_PIPELINE) {
        add_crossing(m, i);
    } else {
        const bool update = op->work == REDCO_WORK_UPDATE;
        if (op->work == REDCO_WORK_NORM) { wait_for(m, m->bucket); }
        if (update) { m->s->synced[op->layer] = true; }
        m->own[i] = add(m, op, (redcoi_task){.action = action_of(op), .what = update ? op->layer : 0});
    }
}

/* Distributes the time of the simulator's reductions over these by bytes. */
static void weigh_buckets(struct maker *m)
{
    const redco_states *const states = m->s->options.states;
    for (uint32_t i = 0; i < m->count; i++) {
        const redco_step_op *const op = &m->ops[i];
        if (!is_bucket(op) || (op->work == REDCO_WORK_SHARD && op->micro_batch != 0)) { continue; }
        const int which = op->work == REDCO_WORK_REDUCE ? 0 : 1;
        m->seconds[which] += op->seconds;
        m->theirs[which]++;
        if (m->like[which] == NULL) { m->like[which] = op; }
    }
    for (uint32_t b = 0; b < redco_states_bucket_count(states); b++) {
        for (uint32_t which = 0; which < 2; which++) {
            const redco_micro_batch micro_batch = {0, which + 1};
            if (redco_states_bucket_due(states, b, micro_batch)) {
                m->bytes[which] += (double)redco_states_bucket_bytes(states, b);
                m->ours[which]++;
            }
        }
    }
    m->label[0] = redco_step_add_label(m->s->step, "bwd/gradients/bucket");
    m->label[1] = redco_step_add_label(m->s->step, "bwd/gradients/shards");
}

/* The states' memory is held throughout. */
static void hold_states(const struct maker *m)
{
    const redco_states_size size = redco_states_sizes(m->s->options.states);
    redco_step *const step = m->s->step;
    const uint32_t rank = redcoi_stage_of(m->s);
    redco_step_hold(step, rank, REDCO_CATEGORY_PARAMETERS, size.parameter_bytes);
    redco_step_hold(step, rank, REDCO_CATEGORY_GRADIENTS, size.gradient_bytes);
    redco_step_hold(step, rank, REDCO_CATEGORY_OPTIMIZER, size.optimizer_bytes);
    redco_step_hold(step, rank, REDCO_CATEGORY_RESERVE, m->s->memory.size.input_bytes);
    redco_step_hold(step, rank, REDCO_CATEGORY_SCATTERED,
                    0); /* the simulator's for whole parameters: slots come with tasks */
}

/* For each other stream, the last task that a task depends on; tasks of its own stream precede it anyway. */
static redco_status make_waits(redco_schedule *s, redco_error *err)
{
    uint32_t total = 0, ordinals[REDCOI_STREAMS] = {0};
    for (uint32_t t = 0; t < s->task_count; t++) {
        uint32_t count = 0;
        (void)redco_step_inputs(s->step, t, &count);
        total += count;
    }
    s->waits = calloc((size_t)total + 1, sizeof *s->waits);
    if (s->waits == NULL) { return redcoi_schedule_memory_short(err); }
    for (uint32_t t = 0; t < s->task_count; t++) {
        redcoi_task *const task = &s->tasks[t];
        uint32_t last[REDCOI_STREAMS], count = 0;
        const uint32_t *const inputs = redco_step_inputs(s->step, t, &count);
        memset(last, 0xff, sizeof last);
        for (uint32_t i = 0; i < count; i++) {
            uint32_t *const of = &last[s->tasks[inputs[i]].stream_kind];
            if (*of == REDCO_STEP_NONE || inputs[i] > *of) { *of = inputs[i]; }
        }
        task->ordinal = ordinals[task->stream_kind]++;
        task->first_wait = s->wait_count;
        for (uint32_t stream_kind = 0; stream_kind < REDCOI_STREAMS; stream_kind++) {
            if (stream_kind == task->stream_kind || last[stream_kind] == REDCO_STEP_NONE) { continue; }
            s->waits[s->wait_count++] = (redcoi_wait_for){last[stream_kind]};
            task->wait_count++;
        }
    }
    for (uint32_t stream_kind = 0; stream_kind < REDCOI_STREAMS; stream_kind++) {
        redcoi_thread *const thread = &s->threads[stream_kind];
        thread->tasks = calloc((size_t)ordinals[stream_kind] + 1, sizeof *thread->tasks);
        if (thread->tasks == NULL) { return redcoi_schedule_memory_short(err); }
    }
    for (uint32_t t = 0; t < s->task_count; t++) {
        redcoi_thread *const thread = &s->threads[s->tasks[t].stream_kind];
        thread->tasks[thread->task_count++] = t;
    }
    return REDCO_OK;
}

static redco_status make(struct maker *m, redco_error *err)
{
    redco_schedule *const s = m->s;
    const redco_states *const states = s->options.states;
    const uint32_t buckets = redco_states_bucket_count(states);
    const size_t most = (size_t)m->count + (size_t)buckets * s->micro_batches + 1;
    s->step = redco_step_new_like(s->options.step);
    s->tasks = calloc(most, sizeof *s->tasks);
    s->synced = calloc((size_t)redco_step_layer_count(s->options.step) + 1, sizeof *s->synced);
    m->own = malloc(((size_t)m->count + 1) * sizeof *m->own);
    m->left = calloc((size_t)buckets + 1, sizeof *m->left);
    m->filled_by = calloc((size_t)buckets + 1, sizeof *m->filled_by);
    m->full = calloc((size_t)buckets + 1, sizeof *m->full);
    m->room = malloc(((size_t)buckets + 1) * sizeof *m->room);
    m->gathers = malloc(((size_t)s->memory.slot_count + 1) * sizeof *m->gathers);
    m->compute_tasks = calloc((size_t)s->bind.compute_task_count + 1, sizeof *m->compute_tasks);
    m->compute_task = calloc((size_t)s->micro_batches + 1, sizeof *m->compute_task);
    m->transfer = calloc((size_t)s->micro_batches + 1, sizeof *m->transfer);
    bool enough = m->compute_task != NULL && m->transfer != NULL;
    const size_t passes = (size_t)redcoi_pass_count(s) * s->micro_batches + 1;
    m->ended = malloc(passes * sizeof *m->ended);
    for (int i = 0; i < 2; i++) {
        m->scatters[i] = malloc(((size_t)s->memory.scatter_count + 1) * sizeof *m->scatters[i]);
        m->sent[i] = malloc(passes * sizeof *m->sent[i]); /* chunks are fewer than passes */
        enough = enough && m->ended != NULL && m->scatters[i] != NULL && m->sent[i] != NULL;
    }
    if (!enough || s->synced == NULL || s->step == NULL || s->tasks == NULL || m->own == NULL || m->left == NULL ||
        m->filled_by == NULL || m->full == NULL || m->room == NULL || m->gathers == NULL || m->compute_tasks == NULL) {
        return redcoi_schedule_memory_short(err);
    }
    for (int i = 0; i < 2; i++) {
        memset(m->scatters[i], 0xff, ((size_t)s->memory.scatter_count + 1) * sizeof *m->scatters[i]);
        memset(m->sent[i], 0xff, passes * sizeof *m->sent[i]);
    }
    memset(m->ended, 0xff, passes * sizeof *m->ended);
    memset(m->own, 0xff, ((size_t)m->count + 1) * sizeof *m->own);
    memset(m->room, 0xff, ((size_t)buckets + 1) * sizeof *m->room);
    forget_inputs(m);
    count_modules(m, true);
    weigh_buckets(m);
    hold_states(m);
    for (uint32_t p = 0; p < s->bind.compute_task_count; p++) {
        if (!crowded(m, &s->bind.compute_tasks[p])) { continue; }
        return redco_fail(err, REDCO_EVALUE, "schedule",
                          "one operator fills more buckets of gradients than there are "
                          "buffers: buckets of so few bytes are not executed");
    }
    for (uint32_t i = 0; i < m->count; i++) { add_op(m, i); }
    const redco_status st = redco_step_finish(s->step, err);
    return st == REDCO_OK ? make_waits(s, err) : st;
}

redco_status redcoi_tasks_make(redco_schedule *s, redco_error *err)
{
    double seconds[2] = {0.0, 0.0}, bytes[2] = {0.0, 0.0};
    struct maker m = {.s = s,
                      .bucket = REDCO_STEP_NONE,
                      .pending = REDCO_STEP_NONE,
                      .computed = REDCO_STEP_NONE,
                      .scattered = REDCO_STEP_NONE,
                      .seconds = seconds,
                      .bytes = bytes,
                      .micro_batch = REDCO_STEP_NONE};
    m.ops = redco_step_ops(s->options.step, &m.count);
    const redco_status st = make(&m, err);
    free(m.own);
    free(m.left);
    free(m.filled_by);
    free(m.full);
    free(m.room);
    free(m.gathers);
    free(m.compute_tasks);
    free(m.compute_task);
    free(m.transfer);
    free(m.ended);
    for (int i = 0; i < 2; i++) {
        free(m.scatters[i]);
        free(m.sent[i]);
    }
    return st;
}
