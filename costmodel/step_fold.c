/* Passes that repeat one before. Where nothing but its own computation and tensor-parallel traffic runs on a rank,
 * every pass of a stage takes as long as the last: once the transfers that its first operators meet are through, the
 * rest of it is laid out as one operator. The event engine tells when that was wrong (redco_timeline.shared). */
#include "costmodel/step_build.h"

#include <stdlib.h>

/* Beside other traffic a transfer or reduction gets this share of its speed at least. */
static const double slowest_ratio = 0.5;
/* Sums of the same durations in another order differ by less. */
static const double margin_ratio = 1.0 + 1e-9;

enum { FEWEST_PARTS = 3, INPUTS_MAX = 2 * REDCOI_WAITS_MAX };

static bool is_own(uint8_t stream)
{
    return stream == REDCO_STREAM_COMPUTE || stream == REDCO_STREAM_TENSOR;
}

/* How much of a transfer is surely done while an operator runs, as seconds of the transfer alone. */
static double beside_s(const redcoi_builder *b, const redco_step_op *op)
{
    const double y = b->costs->calibration.overlap_window_ratio;
    return op->seconds * slowest_ratio * (op->stream == REDCO_STREAM_COMPUTE && y < 1.0 ? y : 1.0);
}

void redcoi_fold_note(redcoi_builder *b, redcoi_unit *unit, uint32_t from)
{
    const redco_step *const step = b->step;
    for (uint32_t i = from; b->fold && i < step->op_count; i++) {
        const redco_step_op *const op = &step->ops[i];
        if (is_own(op->stream)) {
            unit->pending_s -= beside_s(b, op);
            if (unit->pending_s < 0.0) { unit->pending_s = 0.0; }
        } else if (op->stream != REDCO_STREAM_PIPELINE) {
            unit->pending_s += op->seconds;
        }
    }
}

/* Whether each operator of a pass starts when the one before it has ended, and for no other reason. */
static bool is_chain(const redco_step *step, uint32_t first, uint32_t end)
{
    bool computed = false;
    for (uint32_t op = first; op < end; op++) {
        const redco_step_op *const o = &step->ops[op];
        bool behind = op == first || o->stream == step->ops[op - 1].stream;
        if (!is_own(o->stream)) { return false; }
        for (uint32_t i = step->first_input[op]; i < step->first_input[op + 1]; i++) {
            if (step->inputs[i] < first && computed) { return false; }
            behind = behind || step->inputs[i] + 1 == op;
        }
        if (!behind) { return false; }
        computed = computed || o->stream == REDCO_STREAM_COMPUTE;
    }
    return true;
}

/* Gradients of the stage that go into buckets in every micro-batch leave traces in the builder. */
static bool leaves_shards(const redcoi_builder *b, uint32_t virtual_stage)
{
    for (uint32_t l = b->stage_first[virtual_stage]; l < b->stage_first[virtual_stage + 1]; l++) {
        if (b->parts[b->layers[l].parts].shard_pile != REDCO_STEP_NONE) { return true; }
    }
    return false;
}

bool redcoi_fold_ready(const redcoi_builder *b, const redcoi_unit *unit, uint32_t virtual_stage, bool forward,
                       uint32_t micro_batch)
{
    if (!b->fold || unit->pending_s > 0.0) { return false; }
    if (forward) { return micro_batch > 0; } /* the first one waits for updated parameters */
    return micro_batch + 1 < b->micro_batches && !leaves_shards(b, virtual_stage);
}

/* What operators [first, last) of a pass amount to, one behind the other. */
static redcoi_fold sum_of(const redco_step *step, uint32_t first, uint32_t last)
{
    redcoi_fold fold = {.first = first, .last = last, .peak_op = REDCO_STEP_NONE};
    int64_t total_bytes = 0, peak_bytes = 0;
    for (uint32_t op = first; op < last; op++) {
        const uint32_t from = step->first_memory[op], to = step->first_memory[op + 1];
        for (uint32_t i = from; i < to; i++) {
            if (step->memories[i].bytes < 0) { continue; }
            fold.net_bytes[step->memories[i].holder] += step->memories[i].bytes;
            total_bytes += step->memories[i].bytes;
        }
        if (total_bytes > peak_bytes) {
            peak_bytes = total_bytes;
            fold.peak_op = op;
            fold.peak_after_s = fold.seconds;
            for (int h = 0; h < REDCO_HOLDER_COUNT; h++) { fold.peak_bytes[h] = fold.net_bytes[h]; }
        }
        for (uint32_t i = from; i < to; i++) {
            if (step->memories[i].bytes > 0) { continue; }
            fold.net_bytes[step->memories[i].holder] += step->memories[i].bytes;
            total_bytes += step->memories[i].bytes;
        }
        fold.seconds += step->ops[op].seconds;
        fold.work_s[step->ops[op].work] += step->ops[op].seconds;
    }
    fold.peak_total_bytes = peak_bytes;
    return fold;
}

void redcoi_fold_learn(redcoi_builder *b, uint32_t virtual_stage, bool forward, uint32_t first)
{
    redco_step *const step = b->step;
    redcoi_template *const t = &b->templates[2 * virtual_stage + (forward ? 1 : 0)];
    const uint32_t end = step->op_count;
    const double send_s = margin_ratio * b->send_s;
    double passed_s = 0.0;
    uint32_t tail = first, trail = end;
    if (t->known) { return; }
    t->known = true;
    if (step->status != REDCO_OK || !is_chain(step, first, end)) { return; }
    while (tail < end && passed_s < send_s) { passed_s += beside_s(b, &step->ops[tail++]); }
    while (trail > first && step->ops[trail - 1].stream != REDCO_STREAM_COMPUTE) { trail--; }
    while (tail < trail && step->ops[tail].stream != REDCO_STREAM_COMPUTE) { tail++; }
    if (tail + FEWEST_PARTS > trail) { return; }
    redcoi_fold *const folds = realloc(step->folds, (step->fold_count + 1) * sizeof *folds);
    if (folds == NULL) {
        step->status = REDCO_ENOMEM;
        return;
    }
    step->folds = folds;
    folds[step->fold_count++] = sum_of(step, tail, trail);
    *t = (redcoi_template){true, step->fold_count, first, tail, trail, end};
}

/* A pass while it is repeated. */
struct repetition {
    redcoi_builder *b;
    redcoi_unit *unit;
    redcoi_template t;
    uint32_t base; /* the operator that repeats the first */
    uint32_t micro_batch;
    bool outside; /* no computation yet: operators wait for what the pass waits for */
};

static uint32_t place_of(const struct repetition *r, uint32_t op)
{
    const uint32_t folded = r->t.trail - r->t.tail - 1;
    if (op < r->t.tail) { return r->base + op - r->t.first; }
    return r->base + (op < r->t.trail ? r->t.tail : op - folded) - r->t.first;
}

static uint32_t repeat_op(struct repetition *r, uint32_t op)
{
    redco_step *const step = r->b->step;
    const redcoi_unit *const unit = r->unit;
    redco_step_op again = step->ops[op];
    uint32_t inputs[INPUTS_MAX];
    uint32_t count = 0;
    again.micro_batch = r->micro_batch;
    if (r->outside && unit->last != REDCO_STEP_NONE && again.stream != REDCO_STREAM_COMPUTE) {
        inputs[count++] = unit->last;
    }
    for (uint32_t i = 0; i < unit->wait_count && r->outside; i++) { inputs[count++] = unit->waits[i]; }
    for (uint32_t i = step->first_input[op]; i < step->first_input[op + 1] && count < INPUTS_MAX; i++) {
        if (step->inputs[i] >= r->t.first) { inputs[count++] = place_of(r, step->inputs[i]); }
    }
    r->outside = r->outside && again.stream != REDCO_STREAM_COMPUTE;
    if (op == r->t.tail) {
        again.fold = r->t.fold;
        again.seconds = step->folds[r->t.fold - 1].seconds;
    }
    const uint32_t made = redco_step_add(step, &again, inputs, count);
    for (uint32_t i = step->first_memory[op]; i < step->first_memory[op + 1] && again.fold == 0; i++) {
        const redco_step_memory m = step->memories[i];
        redco_step_add_memory(step, m.holder, m.bytes);
    }
    return made;
}

bool redcoi_fold_repeat(redcoi_builder *b, redcoi_unit *unit, uint32_t virtual_stage, bool forward,
                        uint32_t micro_batch)
{
    struct repetition r = {.b = b,
                           .unit = unit,
                           .t = b->templates[2 * virtual_stage + (forward ? 1 : 0)],
                           .base = b->step->op_count,
                           .micro_batch = micro_batch,
                           .outside = true};
    if (r.t.fold == 0 || b->step->status != REDCO_OK) { return false; }
    uint32_t last = REDCO_STEP_NONE;
    for (uint32_t op = r.t.first; op <= r.t.tail; op++) { last = repeat_op(&r, op); }
    unit->last = last;
    unit->wait_count = 0;
    for (uint32_t op = r.t.trail; op < r.t.end; op++) { redcoi_wait(unit, repeat_op(&r, op)); }
    return true;
}
