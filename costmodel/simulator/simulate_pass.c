/* Passes that are one operator (step_fold.c). What runs on a rank from the beginning of a pass until its last
 * computation has ended depends on the pass and on what was under way when it began, and on nothing else: other stages
 * only wait for transfers. So that is laid out by itself, once for each such state, and repeated. */
#include "costmodel/closed_form/closed_form_internal.h"
#include "costmodel/simulator/simulate_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Under way are at most the updates of a stage's layers, of which there may be hundreds. */
enum { BEFORE_MAX = 1024, BEFORE_WAITS = 2 };

/* States that differ by less, of the time since the step began, are one: what rounding makes of equal ones. */
static const double same_ratio = 1e-14;
/* The memory of a rank while a pass is laid out by itself: enough to give back from. */
static const uint64_t base_bytes = (uint64_t)1 << 58;

struct redcoi_replays *redcoi_replays_new(const redco_step *step)
{
    struct redcoi_replays *const r = calloc(1, sizeof *r);
    if (r == NULL) { return NULL; }
    r->kind_count = step->pass_count;
    r->kinds = calloc(step->pass_count, sizeof *r->kinds);
    r->folds = calloc(step->fold_count, sizeof *r->folds);
    if (r->kinds == NULL || r->folds == NULL) {
        redcoi_replays_free(r);
        return NULL;
    }
    return r;
}

static void record_free(redcoi_record *record)
{
    if (record == NULL) { return; }
    free(record->before);
    free(record->late);
    free(record->run.start_s);
    free(record->run.end_s);
    free(record->run.cause);
    free(record->run.peaks);
    free(record->remaining_s);
    free(record);
}

void redcoi_replays_free(struct redcoi_replays *replays)
{
    if (replays == NULL) { return; }
    for (uint32_t i = 0; i < replays->kind_count && replays->kinds != NULL; i++) {
        redcoi_records *const kind = &replays->kinds[i];
        for (uint32_t k = 0; k < kind->count; k++) { record_free(kind->records[k]); }
        free(kind->under_way_s);
        free((void *)kind->records);
    }
    free(replays->kinds);
    free(replays->folds);
    free(replays->before.at);
    free(replays);
}

/* The surroundings of a pass. */
struct state {
    uint32_t count;
    uint32_t ops[BEFORE_MAX];
    redcoi_before before[BEFORE_MAX];
    uint32_t late_count;
    uint32_t late[BEFORE_MAX * 4];
};

static uint32_t find(const struct state *s, uint32_t op)
{
    for (uint32_t i = 0; i < s->count; i++) {
        if (s->ops[i] == op) { return i; }
    }
    return REDCO_STEP_NONE;
}

/* @return false when it is not as any collective */
static bool describe(const redcoi_engine *e, uint32_t op, const redcoi_queue *queue, redcoi_before *out)
{
    const redco_step *const step = e->step;
    const redco_step_op *const o = &step->ops[op];
    const bool active = queue->active == op;
    *out = (redcoi_before){.waits = {REDCO_STEP_NONE, REDCO_STEP_NONE},
                           .stream = o->stream,
                           .work = o->work,
                           .link = o->link,
                           .contends = o->contends,
                           .active = active,
                           .contention_ratio =
                               o->traffic != REDCO_STEP_NONE ? step->traffic[o->traffic].contention_ratio : -1.0,
                           .seconds = active ? fmax(0.0, queue->remaining_s) : o->seconds};
    for (uint32_t i = step->first_memory[op]; i < step->first_memory[op + 1]; i++) {
        const redco_step_memory *const m = &step->memories[i];
        int64_t *const bytes = m->bytes > 0 ? &out->taken_bytes : &out->given_bytes;
        if ((out->taken_bytes != 0 || out->given_bytes != 0) && m->category != out->category) { return false; }
        out->category = m->category;
        if (m->bytes < 0 || !active) { *bytes += m->bytes; }
    }
    return true;
}

/* @return false when there is too much of it to tell */
static bool see(const redcoi_engine *e, uint32_t index, uint32_t op, struct state *s)
{
    const redco_step *const step = e->step;
    const redcoi_fold *const fold = &step->folds[step->ops[op].fold - 1];
    s->count = 0;
    for (uint32_t stream = REDCO_STREAM_COMPUTE + 1; stream < REDCO_STREAM_COUNT; stream++) {
        const redcoi_queue *const queue = &e->ranks[index].queues[stream];
        uint32_t other = queue->active != REDCO_STEP_NONE ? queue->active : queue->head;
        if (queue->active != REDCO_STEP_NONE && queue->active > op) { return false; }
        for (; other != REDCO_STEP_NONE && other < op; other = step->next[other]) {
            if (s->count == BEFORE_MAX || !describe(e, other, queue, &s->before[s->count])) { return false; }
            s->ops[s->count++] = other;
        }
    }
    for (uint32_t i = 0; i < s->count; i++) {
        uint32_t waits = 0;
        if (s->before[i].active) { continue; }
        for (uint32_t k = step->first_input[s->ops[i]]; k < step->first_input[s->ops[i] + 1]; k++) {
            if (e->ended[step->inputs[k]]) { continue; }
            const uint32_t at = find(s, step->inputs[k]);
            if (at == REDCO_STEP_NONE || waits == BEFORE_WAITS) { return false; }
            s->before[i].waits[waits++] = at;
        }
    }
    s->late_count = step->passes[fold->pass].late_count;
    if (s->late_count > sizeof s->late / sizeof s->late[0]) { return false; }
    for (uint32_t i = 0; i < s->late_count; i++) {
        const uint32_t late = step->late_ops.at[fold->first_late + i];
        const bool over = late == REDCO_STEP_NONE || e->ended[late];
        s->late[i] = over ? REDCO_STEP_NONE : find(s, late);
        if (!over && s->late[i] == REDCO_STEP_NONE) { return false; }
    }
    return true;
}

static bool near(double a, double b, double slack)
{
    return fabs(a - b) <= slack;
}

static bool is_recorded(const redcoi_record *record, const struct state *s, double slack_s)
{
    if (record->before_count != s->count) { return false; }
    for (uint32_t i = 0; i < s->count; i++) {
        const redcoi_before *const a = &record->before[i], *const b = &s->before[i];
        if (!near(a->seconds, b->seconds, slack_s) || a->waits[0] != b->waits[0] || a->waits[1] != b->waits[1] ||
            a->stream != b->stream || a->work != b->work || a->link != b->link || a->contends != b->contends ||
            a->active != b->active || !near(a->contention_ratio, b->contention_ratio, 0.0) ||
            a->taken_bytes != b->taken_bytes || a->given_bytes != b->given_bytes || a->category != b->category) {
            return false;
        }
    }
    return memcmp(record->late, s->late, s->late_count * sizeof s->late[0]) == 0;
}

/* Late parts that wait for something under way: few, where a pass of many layers has as many late parts. @return their
 * number */
static uint32_t find_waiting(const redcoi_pass *pass, const struct state *s, uint32_t *waiting_out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < pass->late_count; i++) {
        if (s->late[i] != REDCO_STEP_NONE) { waiting_out[count++] = i; }
    }
    return count;
}

/* The graph of a pass and of what is under way when it begins. */
static redco_step *step_of(const redco_step *step, const redcoi_pass *pass, const struct state *s)
{
    uint32_t waiting[sizeof s->late / sizeof s->late[0]];
    const uint32_t waiting_count = find_waiting(pass, s, waiting);
    redco_step *const alone = redco_step_new(1, step->overlap_ratio);
    if (alone == NULL) { return NULL; }
    alone->traffic = step->traffic; /* borrowed, as are labels, and returned by step_free() */
    alone->traffic_count = step->traffic_count;
    alone->labels = step->labels;
    alone->layer_count = step->layer_count;
    for (int h = 0; h < REDCO_CATEGORY_COUNT; h++) { alone->resident[h] = base_bytes; }
    for (uint32_t i = 0; i < s->count; i++) {
        const redcoi_before *const before = &s->before[i];
        redco_step_op op = step->ops[s->ops[i]];
        uint32_t count = 0;
        uint32_t inputs[BEFORE_WAITS];
        op.rank = 0;
        op.fold = 0;
        op.seconds = before->seconds;
        while (count < BEFORE_WAITS && before->waits[count] != REDCO_STEP_NONE) {
            inputs[count] = before->waits[count];
            count++;
        }
        (void)redco_step_add(alone, &op, inputs, count);
        redco_step_add_memory(alone, before->category, before->taken_bytes);
        redco_step_add_memory(alone, before->category, before->given_bytes);
    }
    for (uint32_t part = 0; part < pass->end - pass->first; part++) {
        const uint32_t from = pass->first + part;
        redco_step_op op = step->ops[from];
        uint32_t inputs[REDCO_PIPELINE_STAGES_MAX];
        uint32_t count = 0;
        op.rank = 0;
        for (uint32_t i = step->first_input[from]; i < step->first_input[from + 1]; i++) {
            const bool inside = step->inputs[i] >= pass->first;
            if (inside && count < REDCO_PIPELINE_STAGES_MAX) {
                inputs[count++] = step->inputs[i] - pass->first + s->count;
            }
        }
        for (uint32_t i = 0; i < waiting_count; i++) {
            const bool here = step->late.at[pass->first_late + waiting[i]] == part;
            if (here && count < REDCO_PIPELINE_STAGES_MAX) { inputs[count++] = s->late[waiting[i]]; }
        }
        (void)redco_step_add(alone, &op, inputs, count);
        for (uint32_t i = step->first_memory[from]; i < step->first_memory[from + 1]; i++) {
            redco_step_add_memory(alone, step->memories[i].category, step->memories[i].bytes);
        }
    }
    return alone;
}

static void step_free(redco_step *alone)
{
    if (alone != NULL) {
        alone->traffic = NULL;
        alone->labels = (redco_names){.count = 0};
    }
    redco_step_free(alone);
}

/* Sums over what cannot outlast the pass, and what is taken and waited for until it ends. */
static void conclude(const redco_step *step, const redcoi_pass *pass, const redcoi_engine *alone, redcoi_record *record)
{
    uint32_t trailing = 0;
    for (uint32_t part = 0; part < pass->end - pass->first; part++) {
        const redco_step_op *const op = &step->ops[pass->first + part];
        if (trailing < pass->trailing_count && step->trailing.at[pass->first_trailing + trailing] == part) {
            trailing++;
        } else {
            record->work_s[op->work] += op->seconds;
        }
    }
    const redco_account account = redco_timeline_account(alone->timeline, 0, REDCO_ALL_MICRO_BATCHES);
    memcpy(record->waiting_s, account.waiting_s, sizeof record->waiting_s);
    record->contention_s = account.contention_s;
    record->seconds = alone->timeline->span_s;
    for (uint32_t i = 0; i < record->count; i++) { record->remaining_s[i] = alone->step->ops[i].seconds; }
    for (uint32_t stream = 0; stream < REDCO_STREAM_COUNT; stream++) {
        const redcoi_queue *const queue = &alone->ranks[0].queues[stream];
        if (queue->active != REDCO_STEP_NONE) { record->remaining_s[queue->active] = queue->remaining_s; }
    }
    record->peak = alone->timeline->peaks[0];
    record->peak.bytes -= REDCO_CATEGORY_COUNT * base_bytes;
    for (int h = 0; h < REDCO_CATEGORY_COUNT; h++) {
        record->net_bytes[h] = (int64_t)(alone->ranks[0].held[h] - base_bytes);
        record->peak.held_bytes[h] -= base_bytes; /* wraps around as a subtraction should */
    }
    /* The record keeps the times. */
    record->run = *alone->timeline;
    record->run.step = NULL;
    *alone->timeline = (redco_timeline){.step = NULL};
}

/* @return NULL when out of memory, or when the pass never ends (*forever_out) */
static redcoi_record *record_new(const redco_step *step, const redcoi_pass *pass, const struct state *s,
                                 bool *forever_out)
{
    redcoi_engine alone = {.step = NULL};
    redcoi_record *record = NULL, *made = calloc(1, sizeof *made);
    redco_step *const graph = step_of(step, pass, s);
    const uint32_t stop = s->count + pass->last - pass->first;
    if (made == NULL || graph == NULL || graph->status != REDCO_OK || redcoi_engine_open(&alone, graph) != REDCO_OK) {
        goto out;
    }
    made->before_count = s->count;
    made->late_count = s->late_count;
    made->count = graph->op_count;
    made->before = malloc((s->count + 1) * sizeof *made->before);
    made->late = malloc((s->late_count + 1) * sizeof *made->late);
    made->remaining_s = malloc(made->count * sizeof *made->remaining_s);
    if (made->before == NULL || made->late == NULL || made->remaining_s == NULL) { goto out; }
    memcpy(made->before, s->before, s->count * sizeof *made->before);
    memcpy(made->late, s->late, s->late_count * sizeof *made->late);
    for (uint32_t i = 0; i < made->count; i++) { alone.timeline->start_s[i] = alone.timeline->end_s[i] = INFINITY; }
    redcoi_engine_run(&alone, stop);
    *forever_out = !alone.ended[stop];
    if (*forever_out) { goto out; }
    conclude(step, pass, &alone, made);
    record = made;
    made = NULL;
out:
    redcoi_engine_close(&alone);
    step_free(graph);
    record_free(made);
    return record;
}

/* The first record of those that have as much to do as this, which follow @p under_way_s less @p reach_s. */
static uint32_t first_of(const redcoi_records *kind, double under_way_s, double reach_s)
{
    uint32_t low = 0, high = kind->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (kind->under_way_s[middle] < under_way_s - reach_s) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static bool keep(redcoi_records *kind, redcoi_record *record, double under_way_s)
{
    if (kind->count == kind->capacity) {
        const uint32_t capacity = 2 * kind->capacity + 4;
        double *const times = realloc(kind->under_way_s, capacity * sizeof *times);
        if (times != NULL) { kind->under_way_s = times; }
        redcoi_record **const records = realloc((void *)kind->records, capacity * sizeof(redcoi_record *));
        if (records != NULL) { kind->records = records; }
        if (times == NULL || records == NULL) { return false; }
        kind->capacity = capacity;
    }
    const uint32_t at = first_of(kind, under_way_s, 0.0), behind = kind->count - at;
    memmove(&kind->under_way_s[at + 1], &kind->under_way_s[at], behind * sizeof *kind->under_way_s);
    memmove((void *)&kind->records[at + 1], (void *)&kind->records[at], behind * sizeof(redcoi_record *));
    kind->under_way_s[at] = under_way_s;
    kind->records[at] = record;
    record->number = kind->count++;
    return true;
}

/* The record of a pass in this state: of several that are near it the oldest. @return NULL when there can be none */
static const redcoi_record *record_of(redcoi_engine *e, const redcoi_pass *pass, const struct state *s, double now_s)
{
    redcoi_records *const kind = &e->timeline->replays->kinds[pass->kind];
    const double slack_s = same_ratio * now_s, reach_s = (1 + s->count) * slack_s;
    const redcoi_record *found = NULL;
    double under_way_s = 0.0;
    for (uint32_t i = 0; i < s->count; i++) { under_way_s += s->before[i].seconds; }
    /* near() decides; twice its reach leaves room for rounding. */
    for (uint32_t k = first_of(kind, under_way_s, 2.0 * reach_s);
         k < kind->count && kind->under_way_s[k] <= under_way_s + 2.0 * reach_s; k++) {
        redcoi_record *const one = kind->records[k];
        const bool older = found == NULL || one->number < found->number;
        if (older && near(kind->under_way_s[k], under_way_s, reach_s) && is_recorded(one, s, slack_s)) { found = one; }
    }
    if (found != NULL) { return found; }
    bool forever = false;
    redcoi_record *const made = record_new(e->step, pass, s, &forever);
    if (made == NULL || !keep(kind, made, under_way_s)) {
        e->timeline->shared = e->timeline->shared || forever;
        e->status = forever ? e->status : REDCO_ENOMEM;
        record_free(made);
        return NULL;
    }
    return made;
}

/* The most that is held during a pass. */
static void note_peak(redcoi_engine *e, uint32_t index, const redcoi_pass *pass, const struct state *s,
                      const redcoi_record *record)
{
    const redcoi_rank_state *const rank = &e->ranks[index];
    redco_memory_peak *const peak = &e->timeline->peaks[index];
    const uint64_t most = rank->total + record->peak.bytes;
    const uint32_t at = record->peak.op;
    if (at == REDCO_STEP_NONE || most <= peak->bytes) { return; }
    peak->bytes = most;
    peak->time_s = rank->now_s + record->peak.time_s;
    peak->op = at < s->count ? s->ops[at] : pass->first + at - s->count;
    for (int h = 0; h < REDCO_CATEGORY_COUNT; h++) { peak->held_bytes[h] = rank->held[h] + record->peak.held_bytes[h]; }
}

void redcoi_pass_begin(redcoi_engine *e, uint32_t index, uint32_t op)
{
    const redco_step *const step = e->step;
    struct redcoi_replays *const replays = e->timeline->replays;
    redcoi_rank_state *const rank = &e->ranks[index];
    const uint32_t fold = step->ops[op].fold - 1;
    const redcoi_pass *const pass = &step->passes[step->folds[fold].pass];
    struct state s;
    if (!see(e, index, op, &s)) {
        e->timeline->shared = true;
        return;
    }
    const redcoi_record *const record = record_of(e, pass, &s, rank->now_s);
    if (record == NULL) { return; }
    replays->folds[fold] = (redcoi_replay){.record = record, .first_before = replays->before.count};
    if (!redcoi_numbers_add(&replays->before, s.ops, s.count)) {
        e->status = REDCO_ENOMEM;
        return;
    }
    note_peak(e, index, pass, &s, record);
    rank->pass = fold + 1;
    rank->running = 0;
}

static const redcoi_replay *replay_of(const redcoi_engine *e, const redcoi_rank_state *rank)
{
    return &e->timeline->replays->folds[rank->pass - 1];
}

/* The transfer to another stage that ends next, before the pass does. @return its place in the record, or NONE */
static uint32_t next_transfer(const redcoi_engine *e, const redcoi_replay *replay)
{
    const redcoi_record *const record = replay->record;
    for (uint32_t i = 0; i < record->before_count; i++) {
        if (record->before[i].stream == REDCO_STREAM_PIPELINE &&
            !e->ended[e->timeline->replays->before.at[replay->first_before + i]]) {
            return record->run.end_s[i] <= record->seconds ? i : REDCO_STEP_NONE;
        }
    }
    return REDCO_STEP_NONE;
}

void redcoi_pass_reckon(redcoi_rank_state *rank, const redcoi_engine *e)
{
    const redcoi_replay *const replay = replay_of(e, rank);
    const uint32_t next = next_transfer(e, replay);
    const double began_s = e->timeline->start_s[e->step->folds[rank->pass - 1].op];
    rank->next_s = began_s + (next != REDCO_STEP_NONE ? replay->record->run.end_s[next] : replay->record->seconds);
}

/* Times of an operator that ran, or runs, in a pass: @p at in its record. */
static void note_times(redcoi_engine *e, uint32_t index, uint32_t fold_op, uint32_t op, uint32_t at)
{
    redco_timeline *const t = e->timeline;
    redcoi_queue *const queue = &e->ranks[index].queues[e->step->ops[op].stream];
    const redcoi_record *const record = t->replays->folds[e->step->ops[fold_op].fold - 1].record;
    const double began_s = t->start_s[fold_op];
    if (e->ended[op] || !(record->run.start_s[at] <= record->seconds)) { return; }
    if (at >= record->before_count || !record->before[at].active) {
        t->start_s[op] = began_s + record->run.start_s[at];
        t->cause[op] = fold_op;
    }
    if (record->run.end_s[at] <= record->seconds) {
        t->end_s[op] = began_s + record->run.end_s[at];
        e->ended[op] = true;
        redcoi_engine_wake(e, index, op); /* on this rank nothing starts before the pass is over */
        return;
    }
    queue->active = op;
    queue->remaining_s = record->remaining_s[at];
    e->ranks[index].running |= 1U << e->step->ops[op].stream;
}

/* Lanes of a rank whose pass has ended: what runs, what comes next. */
static void resume(redcoi_engine *e, uint32_t index, uint32_t op)
{
    const redco_step *const step = e->step;
    redcoi_rank_state *const rank = &e->ranks[index];
    const uint32_t fold = step->ops[op].fold - 1;
    const redcoi_pass *const pass = &step->passes[step->folds[fold].pass];
    const redcoi_replay *const replay = replay_of(e, rank);
    uint32_t next[REDCO_STREAM_COUNT];
    for (uint32_t s = 0; s < REDCO_STREAM_COUNT; s++) {
        redcoi_queue *const queue = &rank->queues[s];
        next[s] = queue->active != REDCO_STEP_NONE && s != REDCO_STREAM_COMPUTE ? queue->active : queue->head;
        queue->active = REDCO_STEP_NONE;
    }
    for (uint32_t i = 0; i < replay->record->before_count; i++) {
        note_times(e, index, op, e->timeline->replays->before.at[replay->first_before + i], i);
    }
    for (uint32_t i = 0; i < pass->trailing_count; i++) {
        const uint32_t part = step->trailing.at[pass->first_trailing + i];
        note_times(e, index, op, op + 1 + i, replay->record->before_count + part);
    }
    for (uint32_t s = 0; s < REDCO_STREAM_COUNT; s++) {
        redcoi_queue *const queue = &rank->queues[s];
        if (queue->active != REDCO_STEP_NONE) { next[s] = step->next[queue->active]; }
        while (next[s] != REDCO_STEP_NONE && e->ended[next[s]]) { next[s] = step->next[next[s]]; }
        if (next[s] == queue->head) { continue; }
        queue->head = next[s];
        if (queue->head != REDCO_STEP_NONE) { queue->input = step->first_input[queue->head]; }
    }
}

void redcoi_pass_event(redcoi_engine *e, uint32_t index)
{
    redcoi_rank_state *const rank = &e->ranks[index];
    const redcoi_replay *const replay = replay_of(e, rank);
    const uint32_t op = e->step->folds[rank->pass - 1].op;
    const uint32_t transfer = next_transfer(e, replay);
    rank->now_s = rank->next_s;
    if (transfer != REDCO_STEP_NONE) {
        note_times(e, index, op, e->timeline->replays->before.at[replay->first_before + transfer], transfer);
        return;
    }
    e->timeline->end_s[op] = rank->now_s;
    e->timeline->last = op;
    e->ended[op] = true;
    for (int h = 0; h < REDCO_CATEGORY_COUNT; h++) {
        rank->held[h] += (uint64_t)replay->record->net_bytes[h];
        rank->total += (uint64_t)replay->record->net_bytes[h];
    }
    resume(e, index, op);
    redcoi_engine_wake(e, index, op);
    rank->pass = 0;
    for (uint32_t s = REDCO_STREAM_COUNT; s-- > 0;) { /* computation last: it may be another pass */
        if (!rank->queues[s].waiting) { (void)redcoi_engine_start(e, index, s, op); }
    }
}

/* Where an operator is in the record of a pass in which it began. */
static uint32_t place_in(const redco_timeline *t, uint32_t pass_op, uint32_t op)
{
    const redco_step *const step = t->step;
    const uint32_t fold = step->ops[pass_op].fold - 1;
    const redcoi_replay *const replay = &t->replays->folds[fold];
    if (step->ops[op].fold == fold + 1) {
        const redcoi_pass *const pass = &step->passes[step->folds[fold].pass];
        return replay->record->before_count + step->trailing.at[pass->first_trailing + op - pass_op - 1];
    }
    uint32_t at = 0;
    while (t->replays->before.at[replay->first_before + at] != op) { at++; }
    return at;
}

static redcoi_spot behind(const redco_timeline *t, uint32_t op);

/* The operators before operator @p at of a pass. */
static redcoi_spot before_place(const redco_timeline *t, uint32_t pass_op, uint32_t at)
{
    const redcoi_replay *const replay = &t->replays->folds[t->step->ops[pass_op].fold - 1];
    const uint32_t cause = replay->record->run.cause[at];
    if (cause == REDCO_STEP_NONE) { return behind(t, pass_op); }
    if (cause >= replay->record->before_count) { return (redcoi_spot){pass_op, cause}; }
    return (redcoi_spot){t->replays->before.at[replay->first_before + cause], REDCO_STEP_NONE};
}

/* At whose end a whole operator could start. */
static redcoi_spot behind(const redco_timeline *t, uint32_t op)
{
    const uint32_t cause = t->cause[op];
    if (cause == REDCO_STEP_NONE) { return (redcoi_spot){REDCO_STEP_NONE, REDCO_STEP_NONE}; }
    const bool inside = redcoi_is_pass(&t->step->ops[cause]) && t->start_s[op] < t->end_s[cause];
    return inside ? before_place(t, cause, place_in(t, cause, op)) : redcoi_spot_of(t, cause);
}

redcoi_spot redcoi_spot_of(const redco_timeline *t, uint32_t op)
{
    if (op == REDCO_STEP_NONE || !redcoi_is_pass(&t->step->ops[op])) { return (redcoi_spot){op, REDCO_STEP_NONE}; }
    const uint32_t fold = t->step->ops[op].fold - 1;
    const redcoi_pass *const pass = &t->step->passes[t->step->folds[fold].pass];
    return (redcoi_spot){op, t->replays->folds[fold].record->before_count + pass->last - pass->first};
}

redcoi_spot redcoi_spot_cause(const redco_timeline *t, redcoi_spot spot)
{
    return spot.part != REDCO_STEP_NONE ? before_place(t, spot.op, spot.part) : behind(t, spot.op);
}

static const redcoi_record *record_at(const redco_timeline *t, redcoi_spot spot)
{
    return t->replays->folds[t->step->ops[spot.op].fold - 1].record;
}

double redcoi_spot_start_s(const redco_timeline *t, redcoi_spot spot)
{
    if (spot.part == REDCO_STEP_NONE) { return t->start_s[spot.op]; }
    return t->start_s[spot.op] + record_at(t, spot)->run.start_s[spot.part];
}

double redcoi_spot_end_s(const redco_timeline *t, redcoi_spot spot)
{
    if (spot.part == REDCO_STEP_NONE) { return t->end_s[spot.op]; }
    return t->start_s[spot.op] + record_at(t, spot)->run.end_s[spot.part];
}

uint8_t redcoi_spot_work(const redco_timeline *t, redcoi_spot spot)
{
    if (spot.part == REDCO_STEP_NONE) { return t->step->ops[spot.op].work; }
    const redcoi_pass *const pass = &t->step->passes[t->step->folds[t->step->ops[spot.op].fold - 1].pass];
    return t->step->ops[pass->first + spot.part - record_at(t, spot)->before_count].work;
}
