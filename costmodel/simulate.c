/* The event engine. Operators of different ranks only wait for each other; those of one rank also share links and the
 * GPU, so a rank is brought up to date whenever one of its operators starts or ends, and the rank whose next end is
 * earliest is next: a heap of ranks, and at most one running operator per stream in each. */
#include "costmodel/simulate.h"
#include "costmodel/step_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct lane {
    uint32_t head;   /* not yet started */
    uint32_t active; /* running, or NONE */
    uint32_t input;  /* of the head: those before are there */
    uint32_t waiter; /* next lane that waits for the same operator, or NONE */
    double remaining_s, rate;
};

struct rank {
    struct lane lanes[REDCO_STREAM_COUNT];
    double now_s, next_s;
    uint32_t running; /* bit per stream */
    uint32_t next_stream;
    uint32_t heap_at;
    uint64_t held[REDCO_HOLDER_COUNT], total;
};

struct engine {
    const redco_step *step;
    redco_timeline *timeline;
    struct rank *ranks;
    uint32_t *heap;    /* of ranks by next_s */
    uint32_t *waiters; /* per operator: first lane that waits for its end */
    bool *ended;
};

static bool before(const struct engine *e, uint32_t a, uint32_t b)
{
    const double x = e->ranks[a].next_s, y = e->ranks[b].next_s;
    return x < y || (x <= y && a < b);
}

static void place(struct engine *e, uint32_t at, uint32_t rank)
{
    e->heap[at] = rank;
    e->ranks[rank].heap_at = at;
}

/* Restores the heap after the time of one rank has changed. */
static void settle(struct engine *e, uint32_t rank)
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

static void advance(struct rank *rank, double now_s)
{
    const double passed_s = now_s - rank->now_s;
    rank->now_s = now_s;
    if (!(passed_s > 0.0)) { return; }
    for (uint32_t left = rank->running; left != 0; left &= left - 1) {
        struct lane *const lane = &rank->lanes[__builtin_ctz(left)];
        lane->remaining_s -= passed_s * lane->rate;
    }
}

/* Speeds of what runs on a rank now, and when the first of it ends. */
static void reckon(struct engine *e, uint32_t index)
{
    struct rank *const rank = &e->ranks[index];
    const redco_step_op *const ops = e->step->ops;
    uint32_t users[REDCO_LINK_COUNT] = {0};
    double slow[REDCO_LINK_COUNT] = {0.0};
    const uint32_t compute_bit = 1U << REDCO_STREAM_COMPUTE;
    const uint32_t computes = rank->lanes[REDCO_STREAM_COMPUTE].active;
    if ((rank->running & compute_bit) != 0 && rank->running != compute_bit && ops[computes].fold != 0) {
        e->timeline->shared = true;
    }
    const bool computing = (rank->running & compute_bit) != 0 && ops[computes].contends;
    for (uint32_t left = rank->running & ~compute_bit; left != 0; left &= left - 1) {
        const redco_step_op *const op = &ops[rank->lanes[__builtin_ctz(left)].active];
        users[op->link]++;
        if (op->contends && op->traffic != REDCO_STEP_NONE) {
            slow[op->link] = fmax(slow[op->link], e->step->traffic[op->traffic].contention_ratio);
        }
    }
    const double y = e->step->overlap_ratio;
    const double stretch = 1.0 + y * (slow[REDCO_LINK_NVLINK] + slow[REDCO_LINK_NETWORK]);
    rank->next_s = (double)INFINITY;
    for (uint32_t left = rank->running; left != 0; left &= left - 1) {
        const uint32_t stream = (uint32_t)__builtin_ctz(left);
        struct lane *const lane = &rank->lanes[stream];
        const redco_step_op *const op = &ops[lane->active];
        lane->rate = 1.0;
        if (stream == REDCO_STREAM_COMPUTE) {
            if (computing) { lane->rate = 1.0 / stretch; }
        } else {
            if (op->link != REDCO_LINK_NONE && users[op->link] > 1) { lane->rate = 1.0 / users[op->link]; }
            if (computing && op->contends) { lane->rate *= y / stretch; }
        }
        const double left_s = lane->remaining_s > 0.0 ? lane->remaining_s : 0.0;
        const double end_s = left_s > 0.0 ? rank->now_s + left_s / lane->rate : rank->now_s;
        if (end_s < rank->next_s) {
            rank->next_s = end_s;
            rank->next_stream = stream;
        }
    }
    settle(e, index);
}

/* Memory of the operators that one stands for: their peak, when it starts, and what is left of it, when it ends. */
static void apply_fold(struct engine *e, uint32_t op, bool at_start, double now_s)
{
    const redcoi_fold *const fold = &e->step->folds[e->step->ops[op].fold - 1];
    const uint32_t index = e->step->ops[op].rank;
    struct rank *const rank = &e->ranks[index];
    redco_memory_peak *const peak = &e->timeline->peaks[index];
    if (at_start) {
        const uint64_t most = rank->total + (uint64_t)fold->peak_total_bytes;
        if (fold->peak_op == REDCO_STEP_NONE || most <= peak->bytes) { return; }
        *peak = (redco_memory_peak){.bytes = most, .time_s = now_s + fold->peak_after_s, .op = fold->peak_op};
        for (uint32_t h = 0; h < REDCO_HOLDER_COUNT; h++) {
            peak->held_bytes[h] = rank->held[h] + (uint64_t)fold->peak_bytes[h];
        }
        return;
    }
    for (uint32_t h = 0; h < REDCO_HOLDER_COUNT; h++) {
        rank->held[h] += (uint64_t)fold->net_bytes[h];
        rank->total += (uint64_t)fold->net_bytes[h];
    }
}

/* Takes (at a start) or gives back (at an end) what the operator says. */
static void apply_memory(struct engine *e, uint32_t op, bool at_start, double now_s)
{
    const redco_step *const step = e->step;
    const uint32_t from = step->first_memory[op], to = step->first_memory[op + 1];
    if (step->ops[op].fold != 0) { apply_fold(e, op, at_start, now_s); }
    if (from == to) { return; }
    const uint32_t index = step->ops[op].rank;
    struct rank *const rank = &e->ranks[index];
    for (uint32_t i = from; i < to; i++) {
        const redco_step_memory *const m = &step->memories[i];
        if ((m->bytes > 0) != at_start) { continue; }
        rank->held[m->holder] += (uint64_t)m->bytes; /* wraps around as a subtraction should */
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

/* Starts the head of a lane if all its inputs are there; else the lane waits for the first that is not. The rank must
 * be up to date and be reckoned afterwards. @return whether it started */
static bool try_start(struct engine *e, uint32_t index, uint32_t stream, uint32_t cause)
{
    const redco_step *const step = e->step;
    struct lane *const lane = &e->ranks[index].lanes[stream];
    const uint32_t op = lane->head;
    if (op == REDCO_STEP_NONE || lane->active != REDCO_STEP_NONE) { return false; }
    const uint32_t end = step->first_input[op + 1];
    for (; lane->input < end; lane->input++) {
        const uint32_t input = step->inputs[lane->input];
        if (!e->ended[input]) {
            lane->waiter = e->waiters[input];
            e->waiters[input] = index * REDCO_STREAM_COUNT + stream;
            return false;
        }
    }
    lane->active = op;
    lane->head = step->next[op];
    if (lane->head != REDCO_STEP_NONE) { lane->input = step->first_input[lane->head]; }
    lane->remaining_s = step->ops[op].seconds;
    e->ranks[index].running |= 1U << stream;
    e->timeline->start_s[op] = e->ranks[index].now_s;
    e->timeline->cause[op] = cause;
    apply_memory(e, op, true, e->ranks[index].now_s);
    return true;
}

/* The running operator of a rank that ends first has ended: what waited for it may start. */
static void finish(struct engine *e, uint32_t index)
{
    struct rank *const rank = &e->ranks[index];
    const uint32_t stream = rank->next_stream;
    struct lane *const lane = &rank->lanes[stream];
    const uint32_t op = lane->active;
    const double now_s = rank->next_s;
    advance(rank, now_s);
    lane->active = REDCO_STEP_NONE;
    rank->running &= ~(1U << stream);
    e->ended[op] = true;
    e->timeline->end_s[op] = now_s;
    apply_memory(e, op, false, now_s);
    (void)try_start(e, index, stream, op);
    uint32_t waiting = e->waiters[op];
    while (waiting != REDCO_STEP_NONE) {
        const uint32_t other = waiting / REDCO_STREAM_COUNT, its_stream = waiting % REDCO_STREAM_COUNT;
        waiting = e->ranks[other].lanes[its_stream].waiter;
        advance(&e->ranks[other], now_s);
        if (try_start(e, other, its_stream, op) && other != index) { reckon(e, other); }
    }
    reckon(e, index);
}

static void begin(struct engine *e)
{
    const redco_step *const step = e->step;
    for (uint32_t r = 0; r < step->ranks; r++) {
        struct rank *const rank = &e->ranks[r];
        redco_memory_peak *const peak = &e->timeline->peaks[r];
        for (uint32_t h = 0; h < REDCO_HOLDER_COUNT; h++) {
            rank->held[h] = step->resident[(size_t)r * REDCO_HOLDER_COUNT + h];
            rank->total += rank->held[h];
        }
        *peak = (redco_memory_peak){.bytes = rank->total, .op = REDCO_STEP_NONE};
        memcpy(peak->held_bytes, rank->held, sizeof peak->held_bytes);
        rank->next_s = (double)INFINITY;
        place(e, r, r);
    }
    for (uint32_t r = 0; r < step->ranks; r++) {
        for (uint32_t s = 0; s < REDCO_STREAM_COUNT; s++) {
            const uint32_t first = step->lanes[r * REDCO_STREAM_COUNT + s].first;
            e->ranks[r].lanes[s] = (struct lane){.head = first, .active = REDCO_STEP_NONE, .waiter = REDCO_STEP_NONE};
            if (first != REDCO_STEP_NONE) { e->ranks[r].lanes[s].input = step->first_input[first]; }
            (void)try_start(e, r, s, REDCO_STEP_NONE);
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
                                 .peaks = calloc(step->ranks, sizeof(redco_memory_peak))};
    if (timeline->start_s == NULL || timeline->end_s == NULL || timeline->cause == NULL || timeline->peaks == NULL) {
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
    free(timeline);
}

redco_status redco_timeline_create(const redco_step *step, redco_timeline **timeline_out, redco_error *err)
{
    const size_t count = step->op_count > 0 ? step->op_count : 1;
    struct engine e = {.step = step,
                       .timeline = timeline_new(step),
                       .ranks = calloc(step->ranks, sizeof(struct rank)),
                       .heap = calloc(step->ranks, sizeof(uint32_t)),
                       .waiters = malloc(count * sizeof(uint32_t)),
                       .ended = calloc(count, sizeof(bool))};
    redco_status st = REDCO_OK;
    if (e.timeline == NULL || e.ranks == NULL || e.heap == NULL || e.waiters == NULL || e.ended == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    memset(e.waiters, 0xff, count * sizeof(uint32_t)); /* REDCO_STEP_NONE */
    begin(&e);
    while (isfinite(e.ranks[e.heap[0]].next_s)) {
        const uint32_t rank = e.heap[0];
        const uint32_t op = e.ranks[rank].lanes[e.ranks[rank].next_stream].active;
        finish(&e, rank);
        e.timeline->span_s = e.timeline->end_s[op];
        e.timeline->last = op;
    }
    for (uint32_t i = 0; i < step->op_count; i++) { /* an infinitely slow collective never ends */
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
    redco_timeline_free(e.timeline);
    free(e.ranks);
    free(e.heap);
    free(e.waiters);
    free(e.ended);
    return st;
}
