/* The event engine. Operators of different ranks only wait for each other; those of one rank also share links and the
 * GPU, so a rank is brought up to date whenever one of its operators starts or ends, and the rank whose next end is
 * earliest is next: a heap of ranks, and at most one running operator per stream in each. */
#include "costmodel/simulator/simulate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool before(const redcoi_engine *e, uint32_t a, uint32_t b)
{
    const double x = e->ranks[a].next_s, y = e->ranks[b].next_s;
    return x < y || (x <= y && a < b);
}

static void place(redcoi_engine *e, uint32_t at, uint32_t rank)
{
    e->heap[at] = rank;
    e->ranks[rank].heap_at = at;
}

/* Restores the heap after the time of one rank has changed. */
static void settle(redcoi_engine *e, uint32_t rank)
{
    uint32_t at = e->ranks[rank].heap_at;
    while (at > 0 && before(e, rank, e->heap[(at - 1) / 2])) {
        place(e, at, e->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
    for (;;) {
        uint32_t child = 2 * at + 1;
        if (child >= e->step->ranks) { break; }
        if (child + 1 < e->step->ranks && before(e, e->heap[child + 1], e->heap[child])) { child++; }
        if (!before(e, e->heap[child], rank)) { break; }
        place(e, at, e->heap[child]);
        at = child;
    }
    place(e, at, rank);
}

static void advance(redcoi_rank_state *rank, double now_s)
{
    const double passed_s = now_s - rank->now_s;
    rank->now_s = now_s;
    if (!(passed_s > 0.0)) { return; }
    for (uint32_t left = rank->running; left != 0; left &= left - 1) {
        redcoi_queue *const queue = &rank->queues[__builtin_ctz(left)];
        queue->remaining_s -= passed_s * queue->rate;
    }
}

/* Speeds of what runs on a rank now, and when the first of it ends. */
static void reckon(redcoi_engine *e, uint32_t index)
{
    redcoi_rank_state *const rank = &e->ranks[index];
    if (rank->pass != 0) {
        redcoi_pass_reckon(rank, e);
        settle(e, index);
        return;
    }
    const redco_step_op *const ops = e->step->ops;
    uint32_t users[REDCO_LINK_COUNT] = {0};
    double slow[REDCO_LINK_COUNT] = {0.0};
    const uint32_t compute_bit = 1U << REDCO_STREAM_COMPUTE;
    const uint32_t computes = rank->queues[REDCO_STREAM_COMPUTE].active;
    const bool computing = (rank->running & compute_bit) != 0 && ops[computes].contends;
    for (uint32_t left = rank->running & ~compute_bit; left != 0; left &= left - 1) {
        const redco_step_op *const op = &ops[rank->queues[__builtin_ctz(left)].active];
        users[op->link]++;
        if (op->contends && op->traffic != REDCO_STEP_NONE) {
            slow[op->link] += e->step->traffic[op->traffic].contention_ratio;
        }
    }
    for (int link = 0; link < REDCO_LINK_COUNT; link++) { /* each gets its share of the link, and contends with that */
        if (users[link] > 1) { slow[link] /= users[link]; }
    }
    const double y = e->step->overlap_ratio;
    const double stretch = 1.0 + y * (slow[REDCO_LINK_NVLINK] + slow[REDCO_LINK_NETWORK]);
    rank->next_s = (double)INFINITY;
    for (uint32_t left = rank->running; left != 0; left &= left - 1) {
        const uint32_t stream = (uint32_t)__builtin_ctz(left);
        redcoi_queue *const queue = &rank->queues[stream];
        const redco_step_op *const op = &ops[queue->active];
        queue->rate = 1.0;
        if (stream == REDCO_STREAM_COMPUTE) {
            if (computing) { queue->rate = 1.0 / stretch; }
        } else {
            if (op->link != REDCO_LINK_NONE && users[op->link] > 1) { queue->rate = 1.0 / users[op->link]; }
            if (computing && op->contends) { queue->rate *= y / stretch; }
        }
        const double left_s = queue->remaining_s > 0.0 ? queue->remaining_s : 0.0;
        const double end_s = left_s > 0.0 ? rank->now_s + left_s / queue->rate : rank->now_s;
        if (end_s < rank->next_s) {
            rank->next_s = end_s;
            rank->next_stream = stream;
        }
    }
    settle(e, index);
}

/* Takes (at a start) or gives back (at an end) what the operator says. */
static void apply_memory(redcoi_engine *e, uint32_t op, bool at_start, double now_s)
{
    const redco_step *const step = e->step;
    const uint32_t from = step->first_memory[op], to = step->first_memory[op + 1];
    if (from == to) { return; }
    const uint32_t index = step->ops[op].rank;
    redcoi_rank_state *const rank = &e->ranks[index];
    for (uint32_t i = from; i < to; i++) {
        const redco_step_memory *const m = &step->memories[i];
        if ((m->bytes > 0) != at_start) { continue; }
        rank->held[m->category] += (uint64_t)m->bytes; /* wraps around as a subtraction should */
        rank->total += (uint64_t)m->bytes;
    }
    redco_memory_peak *const peak = &e->timeline->peaks[index];
    if (at_start && rank->total > peak->bytes) {
        peak->bytes = rank->total;
        peak->time_s = now_s;
        peak->op = op;
        memcpy(peak->held_bytes, rank->held, sizeof peak->held_bytes);
    }
}

bool redcoi_engine_start(redcoi_engine *e, uint32_t index, uint32_t stream, uint32_t cause)
{
    const redco_step *const step = e->step;
    redcoi_rank_state *const rank = &e->ranks[index];
    redcoi_queue *const queue = &rank->queues[stream];
    const uint32_t op = queue->head;
    if (op == REDCO_STEP_NONE || queue->active != REDCO_STEP_NONE || rank->pass != 0) { return false; }
    const uint32_t end = step->first_input[op + 1];
    for (; queue->input < end; queue->input++) {
        const uint32_t input = step->inputs[queue->input];
        if (!e->ended[input]) {
            queue->waiter = e->waiters[input];
            queue->waiting = true;
            e->waiters[input] = index * REDCO_STREAM_COUNT + stream;
            return false;
        }
    }
    queue->active = op;
    queue->head = step->next[op];
    if (queue->head != REDCO_STEP_NONE) { queue->input = step->first_input[queue->head]; }
    queue->remaining_s = step->ops[op].seconds;
    rank->running |= 1U << stream;
    e->timeline->start_s[op] = rank->now_s;
    e->timeline->cause[op] = cause;
    apply_memory(e, op, true, rank->now_s);
    if (redcoi_is_pass(&step->ops[op])) { redcoi_pass_begin(e, index, op); }
    return true;
}

void redcoi_engine_wake(redcoi_engine *e, uint32_t index, uint32_t op)
{
    uint32_t waiting = e->waiters[op];
    e->waiters[op] = REDCO_STEP_NONE;
    while (waiting != REDCO_STEP_NONE) {
        const uint32_t other = waiting / REDCO_STREAM_COUNT, stream = waiting % REDCO_STREAM_COUNT;
        redcoi_queue *const queue = &e->ranks[other].queues[stream];
        waiting = queue->waiter;
        queue->waiting = false;
        advance(&e->ranks[other], e->timeline->end_s[op]);
        if (redcoi_engine_start(e, other, stream, op) && other != index) { reckon(e, other); }
    }
}

/* The running operator of a rank that ends first has ended: what waited for it may start. */
static void finish(redcoi_engine *e, uint32_t index)
{
    redcoi_rank_state *const rank = &e->ranks[index];
    const uint32_t stream = rank->next_stream;
    redcoi_queue *const queue = &rank->queues[stream];
    const uint32_t op = queue->active;
    const double now_s = rank->next_s;
    advance(rank, now_s);
    queue->active = REDCO_STEP_NONE;
    rank->running &= ~(1U << stream);
    e->ended[op] = true;
    e->timeline->end_s[op] = now_s;
    e->timeline->last = op;
    apply_memory(e, op, false, now_s);
    (void)redcoi_engine_start(e, index, stream, op);
    redcoi_engine_wake(e, index, op);
}

static void begin(redcoi_engine *e)
{
    const redco_step *const step = e->step;
    for (uint32_t r = 0; r < step->ranks; r++) {
        redcoi_rank_state *const rank = &e->ranks[r];
        redco_memory_peak *const peak = &e->timeline->peaks[r];
        for (uint32_t h = 0; h < REDCO_CATEGORY_COUNT; h++) {
            rank->held[h] = step->resident[(size_t)r * REDCO_CATEGORY_COUNT + h];
            rank->total += rank->held[h];
        }
        *peak = (redco_memory_peak){.bytes = rank->total, .op = REDCO_STEP_NONE};
        memcpy(peak->held_bytes, rank->held, sizeof peak->held_bytes);
        rank->next_s = (double)INFINITY;
        place(e, r, r);
    }
    for (uint32_t r = 0; r < step->ranks; r++) {
        for (uint32_t s = 0; s < REDCO_STREAM_COUNT; s++) {
            const uint32_t first = step->stream_ends[r * REDCO_STREAM_COUNT + s].first;
            e->ranks[r].queues[s] = (redcoi_queue){.head = first, .active = REDCO_STEP_NONE, .waiter = REDCO_STEP_NONE};
            if (first != REDCO_STEP_NONE) { e->ranks[r].queues[s].input = step->first_input[first]; }
            (void)redcoi_engine_start(e, r, s, REDCO_STEP_NONE);
        }
        reckon(e, r);
    }
}

static redco_timeline *timeline_new(const redco_step *step)
{
    const size_t count = step->op_count > 0 ? step->op_count : 1;
    redco_timeline *const timeline = calloc(1, sizeof *timeline);
    if (timeline == NULL) { return NULL; }
    *timeline = (redco_timeline){.step = step,
                                 .start_s = malloc(count * sizeof(double)),
                                 .end_s = malloc(count * sizeof(double)),
                                 .cause = malloc(count * sizeof(uint32_t)),
                                 .last = REDCO_STEP_NONE,
                                 .peaks = calloc(step->ranks, sizeof(redco_memory_peak)),
                                 .replays = step->fold_count > 0 ? redcoi_replays_new(step) : NULL};
    if (timeline->start_s == NULL || timeline->end_s == NULL || timeline->cause == NULL || timeline->peaks == NULL ||
        (timeline->replays == NULL && step->fold_count > 0)) {
        redco_timeline_free(timeline);
        return NULL;
    }
    return timeline;
}

void redco_timeline_free(redco_timeline *timeline)
{
    if (timeline == NULL) { return; }
    free(timeline->start_s);
    free(timeline->end_s);
    free(timeline->cause);
    free(timeline->peaks);
    redcoi_replays_free(timeline->replays);
    free(timeline);
}

redco_status redcoi_engine_open(redcoi_engine *e, const redco_step *step)
{
    const size_t count = step->op_count > 0 ? step->op_count : 1;
    *e = (redcoi_engine){.step = step,
                         .timeline = timeline_new(step),
                         .ranks = calloc(step->ranks, sizeof *e->ranks),
                         .heap = calloc(step->ranks, sizeof(uint32_t)),
                         .waiters = malloc(count * sizeof(uint32_t)),
                         .ended = calloc(count, sizeof(bool))};
    if (e->timeline == NULL || e->ranks == NULL || e->heap == NULL || e->waiters == NULL || e->ended == NULL) {
        return REDCO_ENOMEM;
    }
    memset(e->waiters, 0xff, count * sizeof(uint32_t)); /* REDCO_STEP_NONE */
    return REDCO_OK;
}

void redcoi_engine_close(redcoi_engine *e)
{
    redco_timeline_free(e->timeline);
    free(e->ranks);
    free(e->heap);
    free(e->waiters);
    free(e->ended);
}

void redcoi_engine_run(redcoi_engine *e, uint32_t stop)
{
    begin(e);
    while (isfinite(e->ranks[e->heap[0]].next_s) && e->status == REDCO_OK && !e->timeline->shared) {
        const uint32_t rank = e->heap[0];
        e->timeline->span_s = e->ranks[rank].next_s;
        if (e->ranks[rank].pass != 0) {
            redcoi_pass_event(e, rank);
        } else {
            finish(e, rank);
        }
        reckon(e, rank);
        if (stop != REDCO_STEP_NONE && e->ended[stop]) { break; }
    }
}

redco_status redco_timeline_create(const redco_step *step, redco_timeline **timeline_out, redco_error *err)
{
    redcoi_engine e;
    redco_status st = redcoi_engine_open(&e, step);
    if (st == REDCO_OK) {
        redcoi_engine_run(&e, REDCO_STEP_NONE);
        st = e.status;
    }
    if (st != REDCO_OK) {
        (void)redco_fail(err, st, "", "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < step->op_count && !e.timeline->shared; i++) { /* an infinitely slow one never ends */
        if (!e.ended[i]) {
            char name[96];
            st = redco_fail(err, REDCO_EVALUE, redco_step_name(step, i, name, sizeof name),
                            "can never run: something before it takes forever");
            goto out;
        }
    }
    *timeline_out = e.timeline;
    e.timeline = NULL;
out:
    redcoi_engine_close(&e);
    return st;
}
