/* Passes that repeat one before. Where nothing but its own computation and tensor-parallel traffic runs on a rank,
 * every pass of a stage takes as long as the last: once the transfers that its first operators meet are through, the
 * rest of it is laid out as one operator. The event engine tells when that was wrong (redco_timeline.shared). */
#include "costmodel/step_build.h"

#include <math.h>
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
            unit->spreading_s = fmax(0.0, unit->spreading_s - beside_s(b, op));
            unit->reducing_s = fmax(0.0, unit->reducing_s - beside_s(b, op));
        } else if (op->stream == REDCO_STREAM_GRADIENTS) {
            unit->reducing_s += op->seconds;
        } else if (op->stream != REDCO_STREAM_PIPELINE) {
            unit->spreading_s += op->seconds;
        }
    }
}

/* Whether each operator of a pass starts when the one before it has ended, and for no other reason; reductions of
 * gradients, which nobody in the pass waits for, aside. */
static bool is_chain(const redco_step *step, uint32_t first, uint32_t end)
{
    uint32_t last = REDCO_STEP_NONE; /* of the chain */
    bool computed = false;
    for (uint32_t op = first; op < end; op++) {
        const redco_step_op *const o = &step->ops[op];
        const bool own = is_own(o->stream);
        bool behind = last == REDCO_STEP_NONE || o->stream == step->ops[last].stream;
        if (!own && o->stream != REDCO_STREAM_GRADIENTS) { return false; }
        for (uint32_t i = step->first_input[op]; i < step->first_input[op + 1]; i++) {
            const uint32_t input = step->inputs[i];
            if (input < first ? computed || !own : !is_own(step->ops[input].stream)) { return false; }
            behind = behind || input == last;
        }
        if (own && !behind) { return false; }
        last = own ? op : last;
        computed = computed || o->stream == REDCO_STREAM_COMPUTE;
    }
    return true;
}

/* Nothing waits to be reduced after this micro-batch: every pass finds its buckets empty. */
static bool shards_empty(const redcoi_builder *b, const redcoi_unit *unit)
{
    for (uint32_t i = 0; i < b->pile_count; i++) {
        if (!b->piles[i].once && unit->piles[i].filled_bytes > 0.0) { return false; }
    }
    return true;
}

bool redcoi_fold_ready(const redcoi_builder *b, const redcoi_unit *unit, bool forward, uint32_t micro_batch)
{
    if (!b->fold || unit->spreading_s > 0.0 || unit->reducing_s > 0.0) { return false; }
    if (forward) { return micro_batch > 0; } /* the first one waits for updated parameters */
    return micro_batch + 1 < b->micro_batches && shards_empty(b, unit);
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

/* The next run of operators from @p op on that nothing else runs beside: between computations, since what is issued in
 * between starts behind the last one. @p pending_s of other traffic may be under way. @return its first operator */
static uint32_t next_run(const redcoi_builder *b, uint32_t op, uint32_t end, double *pending_s, uint32_t *last_out)
{
    const redco_step_op *const ops = b->step->ops;
    for (; op < end; op++) {
        uint32_t last = op;
        if (*pending_s > 0.0 || ops[op].stream != REDCO_STREAM_COMPUTE) {
            *pending_s += is_own(ops[op].stream) ? -beside_s(b, &ops[op]) : fmax(0.0, -*pending_s) + ops[op].seconds;
            continue;
        }
        while (last < end && is_own(ops[last].stream)) { last++; }
        while (last > op && ops[last - 1].stream != REDCO_STREAM_COMPUTE) { last--; }
        *last_out = last;
        if (last - op >= FEWEST_PARTS) { return op; }
    }
    return end;
}

static bool add_run(redcoi_builder *b, uint32_t first, uint32_t last)
{
    redco_step *const step = b->step;
    redcoi_fold *const folds = realloc(step->folds, (step->fold_count + 1) * sizeof *folds);
    if (folds == NULL) {
        step->status = REDCO_ENOMEM;
        return false;
    }
    step->folds = folds;
    folds[step->fold_count++] = sum_of(step, first, last);
    return true;
}

void redcoi_fold_learn(redcoi_builder *b, const redcoi_unit *unit, uint32_t virtual_stage, bool forward, uint32_t first)
{
    const uint32_t index = 2 * virtual_stage + (forward ? 1 : 0);
    redcoi_template *const t = &b->templates[index];
    const uint32_t end = b->step->op_count;
    double pending_s = margin_ratio * b->send_s;
    if (t->known) { return; }
    *t = (redcoi_template){.known = true, .first = first, .end = end, .first_fold = b->step->fold_count};
    if (b->step->status != REDCO_OK || end - first > b->place_count || !is_chain(b->step, first, end)) { return; }
    for (uint32_t op = first, last = first; op < end; op = last) {
        op = next_run(b, op, end, &pending_s, &last);
        if (op == end || !add_run(b, op, last)) { break; }
        t->fold_count++;
    }
    for (uint32_t i = 0; i < b->pile_count; i++) { b->template_piles[index * b->pile_count + i] = unit->piles[i]; }
}

/* A pass while it is repeated. */
struct repetition {
    redcoi_builder *b;
    redcoi_unit *unit;
    redcoi_template t;
    uint32_t micro_batch;
    bool outside; /* no computation yet: operators wait for what the pass waits for */
};

/* One operator, or the run of @p fold (from 1; 0: none) that begins with it. */
static uint32_t repeat_op(struct repetition *r, uint32_t op, uint32_t fold)
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
        if (step->inputs[i] >= r->t.first) { inputs[count++] = r->b->places[step->inputs[i] - r->t.first]; }
    }
    r->outside = r->outside && again.stream != REDCO_STREAM_COMPUTE;
    if (fold != 0) {
        again.fold = fold;
        again.seconds = step->folds[fold - 1].seconds;
    }
    const uint32_t made = redco_step_add(step, &again, inputs, count);
    for (uint32_t i = step->first_memory[op]; i < step->first_memory[op + 1] && fold == 0; i++) {
        const redco_step_memory m = step->memories[i];
        redco_step_add_memory(step, m.holder, m.bytes);
    }
    return made;
}

/* What a micro-batch leaves in buckets. */
static void leave_gradients(const redcoi_builder *b, redcoi_unit *unit, uint32_t index)
{
    for (uint32_t i = 0; i < b->pile_count; i++) {
        const redcoi_pile_state *const left = &b->template_piles[index * b->pile_count + i];
        if (b->piles[i].once) { continue; }
        unit->piles[i] = *left;
        unit->piles[i].ready = unit->last;
    }
}

bool redcoi_fold_repeat(redcoi_builder *b, redcoi_unit *unit, uint32_t virtual_stage, bool forward,
                        uint32_t micro_batch)
{
    const uint32_t index = 2 * virtual_stage + (forward ? 1 : 0);
    struct repetition r = {b, unit, b->templates[index], micro_batch, true};
    const redcoi_template *const t = &r.t;
    uint32_t fold = t->first_fold, last = REDCO_STEP_NONE;
    if (t->fold_count == 0 || b->step->status != REDCO_OK) { return false; }
    uint32_t next = 0;
    for (uint32_t op = t->first; op < t->end; op = next) {
        const bool folded = fold < t->first_fold + t->fold_count && b->step->folds[fold].first == op;
        const bool computes = b->step->ops[op].stream == REDCO_STREAM_COMPUTE;
        next = folded ? b->step->folds[fold].last : op + 1;
        const uint32_t made = repeat_op(&r, op, folded ? ++fold : 0);
        for (uint32_t i = op; i < next; i++) { b->places[i - t->first] = made; }
        if (computes) { last = op; }
    }
    unit->last = b->places[last - t->first];
    unit->wait_count = 0;
    for (uint32_t op = last + 1; op < t->end; op++) { /* what nobody in the pass waits for */
        const bool waited = b->step->ops[op].stream == REDCO_STREAM_TENSOR || !b->overlap_reduce;
        if (waited) { redcoi_wait(unit, b->places[op - t->first]); }
    }
    if (!forward) { leave_gradients(b, unit, index); }
    return true;
}
