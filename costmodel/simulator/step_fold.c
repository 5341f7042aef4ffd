/* Passes that repeat one before. Inside a pass no operator waits for another stage, so that all of it follows from what
 * is still under way on its rank when it begins: it becomes one operator, which the event engine (simulate_pass.c) lays
 * out once for each such state. Collectives that no computation of the pass waits for may outlast it and stay. */
#include "costmodel/simulator/step_build.h"

#include <stdlib.h>

enum { FEWEST_PARTS = 3, INPUTS_MAX = 2 * REDCOI_WAITS_MAX };

/* Nothing waits to be reduced after this micro-batch: every pass finds its buckets empty. */
static bool shards_empty(const redcoi_builder *b, const redcoi_unit *unit)
{
    for (uint32_t i = 0; i < b->bucket_group_count; i++) {
        if (!b->bucket_groups[i].once && unit->bucket_groups[i].filled_bytes > 0.0) { return false; }
    }
    return true;
}

bool redcoi_fold_ready(const redcoi_builder *b, const redcoi_unit *unit, const redco_turn *turn)
{
    if (!b->fold) { return false; }
    /* the first one waits for updated parameters */
    if (turn->micro_batch == redco_pipeline_first_batch(&b->schedule, turn->chunk)) { return false; }
    return turn->kind == REDCO_TURN_FORWARD || (!redcoi_is_last(b, turn->micro_batch) && shards_empty(b, unit));
}

/* Which template: by model chunk and kind. */
static uint32_t template_of(const redcoi_builder *b, const redcoi_unit *unit, const redco_turn *turn)
{
    return (turn->chunk * b->parallelism->pp + unit->rank) * REDCO_TURN_KINDS + (uint32_t)turn->kind;
}

static redcoi_span span_of(const redcoi_builder *b, uint32_t template)
{
    return b->spans[template / REDCO_TURN_KINDS];
}

static bool is_forward(uint32_t template)
{
    return template % REDCO_TURN_KINDS == REDCO_TURN_FORWARD;
}

static void add_number(redco_step *step, redcoi_numbers *numbers, uint32_t number)
{
    if (!redcoi_numbers_add(numbers, &number, 1)) { step->status = REDCO_ENOMEM; }
}

static bool takes_waits(const redco_step_op *op)
{
    return op->stream == REDCO_STREAM_COMPUTE || op->stream == REDCO_STREAM_TENSOR ||
           op->stream == REDCO_STREAM_EXCHANGE;
}

/* Where backward of a layer waits for its scatters of the micro-batch before. */
static void note_late(redcoi_builder *b, redcoi_pass *pass, uint32_t index)
{
    redco_step *const step = b->step;
    const redcoi_span span = span_of(b, index);
    pass->first_late = step->late.count;
    for (uint32_t l = span.first; l < span.end && !is_forward(index); l++) {
        uint32_t op = b->layers[l].late;
        while (op < pass->end && !takes_waits(&step->ops[op])) { op++; }
        add_number(step, &step->late, op - pass->first);
    }
    pass->late_count = step->late.count - pass->first_late;
}

static bool is_late(const redco_step *step, const redcoi_pass *pass, uint32_t part)
{
    for (uint32_t i = 0; i < pass->late_count; i++) {
        if (step->late.at[pass->first_late + i] == part) { return true; }
    }
    return false;
}

static bool has_input(const redco_step *step, uint32_t op, uint32_t input)
{
    for (uint32_t i = step->first_input[op]; i < step->first_input[op + 1]; i++) {
        if (step->inputs[i] == input) { return true; }
    }
    return false;
}

/* @return whether the first operator waits for all that a pass waits for, and nothing else of it can start before: each
 * other operator waits for one of the pass, and for what is over when the first one starts, but for late scatters. */
static bool is_closed(const redco_step *step, const redcoi_pass *pass)
{
    bool computed = step->ops[pass->first].stream == REDCO_STREAM_COMPUTE;
    if (!takes_waits(&step->ops[pass->first])) { return false; }
    for (uint32_t op = pass->first + 1; op < pass->end; op++) {
        bool inside = computed && step->ops[op].stream == REDCO_STREAM_COMPUTE;
        for (uint32_t i = step->first_input[op]; i < step->first_input[op + 1]; i++) {
            const uint32_t input = step->inputs[i];
            const bool over = input >= pass->first || step->ops[input].stream == REDCO_STREAM_COMPUTE;
            if (!over && !has_input(step, pass->first, input) && !is_late(step, pass, op - pass->first)) {
                return false;
            }
            inside = inside || input >= pass->first;
        }
        if (!inside) { return false; }
        computed = computed || step->ops[op].stream == REDCO_STREAM_COMPUTE;
    }
    return computed;
}

/* Operators that neither a computation waits for nor another that comes before one that is waited for. */
static void note_trailing(redcoi_builder *b, redcoi_pass *pass)
{
    redco_step *const step = b->step;
    uint32_t *const needed = b->places;
    bool lane_needed[REDCO_STREAM_COUNT] = {[REDCO_STREAM_COMPUTE] = true};
    const uint32_t count = pass->end - pass->first;
    for (uint32_t i = 0; i < count; i++) { needed[i] = 0; }
    for (uint32_t i = count; i-- > 0;) {
        const uint32_t op = pass->first + i, stream = step->ops[op].stream;
        lane_needed[stream] = lane_needed[stream] || needed[i] != 0;
        needed[i] = lane_needed[stream] ? 1 : 0;
        for (uint32_t k = step->first_input[op]; k < step->first_input[op + 1] && needed[i] != 0; k++) {
            if (step->inputs[k] >= pass->first) { needed[step->inputs[k] - pass->first] = 1; }
        }
    }
    pass->first_trailing = step->trailing.count;
    for (uint32_t i = 0; i < count; i++) {
        if (needed[i] == 0) { add_number(step, &step->trailing, i); }
    }
    pass->trailing_count = step->trailing.count - pass->first_trailing;
}

static uint32_t trailing_at(const redco_step *step, const redcoi_pass *pass, uint32_t part)
{
    for (uint32_t i = 0; i < pass->trailing_count; i++) {
        if (step->trailing.at[pass->first_trailing + i] == part) { return i; }
    }
    return REDCO_STEP_NONE;
}

static bool equal_numbers(const redcoi_numbers *numbers, uint32_t a, uint32_t b, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if (numbers->at[a + i] != numbers->at[b + i]) { return false; }
    }
    return true;
}

/* Inputs in the pass, in order. */
static bool equal_inputs(const redco_step *step, const redcoi_pass *a, const redcoi_pass *b, uint32_t part)
{
    uint32_t i = step->first_input[a->first + part], j = step->first_input[b->first + part];
    const uint32_t i_end = step->first_input[a->first + part + 1], j_end = step->first_input[b->first + part + 1];
    for (;;) {
        while (i < i_end && step->inputs[i] < a->first) { i++; }
        while (j < j_end && step->inputs[j] < b->first) { j++; }
        if (i == i_end || j == j_end) { return i == i_end && j == j_end; }
        if (step->inputs[i++] - a->first != step->inputs[j++] - b->first) { return false; }
    }
}

static bool equal_memories(const redco_step *step, uint32_t a, uint32_t b)
{
    const uint32_t from = step->first_memory[a], other = step->first_memory[b];
    const uint32_t count = step->first_memory[a + 1] - from;
    if (step->first_memory[b + 1] - other != count) { return false; }
    for (uint32_t i = 0; i < count; i++) {
        const redco_step_memory *const x = &step->memories[from + i], *const y = &step->memories[other + i];
        if (x->bytes != y->bytes || x->category != y->category) { return false; }
    }
    return true;
}

static double contention_of(const redco_step *step, const redco_step_op *op)
{
    return op->traffic != REDCO_STEP_NONE ? step->traffic[op->traffic].contention_ratio : -1.0;
}

static bool equal_numbers_of(double a, double b)
{
    return a >= b && a <= b;
}

/* The same but for the names of the layers. */
static bool equal_passes(const redco_step *step, const redcoi_pass *a, const redcoi_pass *b)
{
    const uint32_t count = a->end - a->first;
    if (b->end - b->first != count || a->last - a->first != b->last - b->first ||
        a->trailing_count != b->trailing_count || a->late_count != b->late_count ||
        !equal_numbers(&step->trailing, a->first_trailing, b->first_trailing, a->trailing_count) ||
        !equal_numbers(&step->late, a->first_late, b->first_late, a->late_count)) {
        return false;
    }
    for (uint32_t part = 0; part < count; part++) {
        const redco_step_op *const x = &step->ops[a->first + part], *const y = &step->ops[b->first + part];
        if (x->stream != y->stream || x->work != y->work || x->link != y->link || x->contends != y->contends ||
            !equal_numbers_of(x->seconds, y->seconds) ||
            !equal_numbers_of(contention_of(step, x), contention_of(step, y)) || !equal_inputs(step, a, b, part) ||
            !equal_memories(step, a->first + part, b->first + part)) {
            return false;
        }
    }
    return true;
}

static uint32_t add_pass(redco_step *step, redcoi_pass pass)
{
    if (!redcoi_step_grow(step, (void **)&step->passes, &step->pass_capacity, sizeof *step->passes,
                          step->pass_count + 1)) {
        return REDCO_STEP_NONE;
    }
    pass.kind = step->pass_count;
    for (uint32_t i = 0; i < step->pass_count; i++) {
        if (step->passes[i].kind == i && equal_passes(step, &step->passes[i], &pass)) {
            pass.kind = i;
            break;
        }
    }
    step->passes[step->pass_count] = pass;
    return step->pass_count++;
}

/* The things that the pass leaves behind: what is waited for next, scatters, buckets. @return whether that can be
 * repeated */
static bool note_left(redcoi_builder *b, const redcoi_unit *unit, const redcoi_pass *pass, uint32_t index)
{
    const redco_step *const step = b->step;
    const redcoi_span span = span_of(b, index);
    redcoi_template *const t = &b->templates[index];
    for (uint32_t i = 0; i < unit->wait_count; i++) {
        const bool inside = unit->waits[i] >= pass->first;
        if (!inside) { return false; }
        if (trailing_at(step, pass, unit->waits[i] - pass->first) == REDCO_STEP_NONE) { continue; } /* over by then */
        if (t->wait_count == REDCOI_PASS_WAITS_MAX) { return false; }
        t->waits[t->wait_count++] = unit->waits[i] - pass->first;
    }
    for (uint32_t l = span.first; l < span.end && !is_forward(index); l++) {
        redcoi_layer *const layer = &b->layers[l];
        const bool inside = layer->scattered != REDCO_STEP_NONE && layer->scattered >= pass->first;
        const uint32_t part = inside ? layer->scattered - pass->first : REDCO_STEP_NONE;
        layer->left = inside && trailing_at(step, pass, part) != REDCO_STEP_NONE ? part : REDCO_STEP_NONE;
    }
    for (uint32_t i = 0; i < b->bucket_group_count; i++) {
        redcoi_bucket_group_state *const left = &b->template_bucket_group[index * b->bucket_group_count + i];
        *left = unit->bucket_groups[i];
        const bool inside = left->ready != REDCO_STEP_NONE && left->ready >= pass->first;
        left->ready = inside ? left->ready - pass->first : REDCO_STEP_NONE;
    }
    return true;
}

void redcoi_fold_learn(redcoi_builder *b, const redcoi_unit *unit, const redco_turn *turn, uint32_t first)
{
    const uint32_t index = template_of(b, unit, turn);
    redcoi_template *const t = &b->templates[index];
    redco_step *const step = b->step;
    redcoi_pass pass = {.first = first, .end = step->op_count, .last = unit->last};
    if (t->known) { return; }
    *t = (redcoi_template){.known = true, .pass = REDCO_STEP_NONE};
    if (step->status != REDCO_OK || pass.end - first > b->place_count || pass.end - first < FEWEST_PARTS) { return; }
    note_late(b, &pass, index);
    if (step->status != REDCO_OK || !is_closed(step, &pass)) { return; }
    note_trailing(b, &pass);
    if (step->status == REDCO_OK && note_left(b, unit, &pass, index)) { t->pass = add_pass(step, pass); }
}

/* The operator that stands for the pass. */
static uint32_t add_fold(redcoi_builder *b, redcoi_unit *unit, uint32_t pass_index, uint32_t micro_batch)
{
    redco_step *const step = b->step;
    const redcoi_pass *const pass = &step->passes[pass_index];
    redco_step_op op = step->ops[pass->last];
    uint32_t inputs[INPUTS_MAX];
    uint32_t count = 0;
    if (!redcoi_step_grow(step, (void **)&step->folds, &step->fold_capacity, sizeof *step->folds,
                          step->fold_count + 1)) {
        return REDCO_STEP_NONE;
    }
    step->folds[step->fold_count++] =
        (redcoi_fold){.pass = pass_index, .op = step->op_count, .first_late = step->late_ops.count};
    op.seconds = 0.0; /* more or less, as it meets what is under way */
    op.micro_batch = micro_batch;
    op.fold = step->fold_count;
    if (unit->last != REDCO_STEP_NONE) { inputs[count++] = unit->last; }
    for (uint32_t i = 0; i < unit->wait_count; i++) { inputs[count++] = unit->waits[i]; }
    unit->last = redco_step_add(step, &op, inputs, count);
    unit->wait_count = 0;
    return unit->last;
}

/* A collective that may outlast the pass. */
static uint32_t add_trailing(redcoi_builder *b, const redcoi_unit *unit, const redcoi_pass *pass, uint32_t part,
                             uint32_t micro_batch)
{
    redco_step *const step = b->step;
    const uint32_t op = pass->first + part;
    redco_step_op again = step->ops[op];
    uint32_t inputs[INPUTS_MAX];
    uint32_t count = 0;
    again.micro_batch = micro_batch;
    again.fold = step->fold_count;
    inputs[count++] = unit->last;
    for (uint32_t i = step->first_input[op]; i < step->first_input[op + 1] && count < INPUTS_MAX; i++) {
        const uint32_t input = step->inputs[i] >= pass->first ? b->places[step->inputs[i] - pass->first] : unit->last;
        if (input != unit->last) { inputs[count++] = input; }
    }
    const uint32_t made = redco_step_add(step, &again, inputs, count);
    for (uint32_t i = step->first_memory[op]; i < step->first_memory[op + 1]; i++) {
        const redco_step_memory m = step->memories[i];
        redco_step_add_memory(step, m.category, m.bytes);
    }
    return made;
}

static void leave(redcoi_builder *b, redcoi_unit *unit, uint32_t index)
{
    const redcoi_template *const t = &b->templates[index];
    const redcoi_span span = span_of(b, index);
    for (uint32_t i = 0; i < t->wait_count; i++) { redcoi_wait(unit, b->places[t->waits[i]]); }
    for (uint32_t l = span.first; l < span.end && !is_forward(index); l++) {
        redcoi_layer *const layer = &b->layers[l];
        layer->scattered = layer->left != REDCO_STEP_NONE ? b->places[layer->left] : REDCO_STEP_NONE;
    }
    for (uint32_t i = 0; i < b->bucket_group_count && !is_forward(index); i++) {
        const redcoi_bucket_group_state *const left = &b->template_bucket_group[index * b->bucket_group_count + i];
        if (b->bucket_groups[i].once) { continue; }
        unit->bucket_groups[i] = *left;
        unit->bucket_groups[i].ready = left->ready != REDCO_STEP_NONE ? b->places[left->ready] : unit->last;
    }
}

bool redcoi_fold_repeat(redcoi_builder *b, redcoi_unit *unit, const redco_turn *turn)
{
    const uint32_t index = template_of(b, unit, turn), micro_batch = turn->micro_batch;
    const redcoi_span span = span_of(b, index);
    const redcoi_template *const t = &b->templates[index];
    redco_step *const step = b->step;
    if (!t->known || t->pass == REDCO_STEP_NONE || step->status != REDCO_OK) { return false; }
    const redcoi_pass pass = step->passes[t->pass];
    const uint32_t made = add_fold(b, unit, t->pass, micro_batch);
    if (made == REDCO_STEP_NONE) { return true; } /* out of memory: the step says so */
    for (uint32_t i = 0; i < pass.end - pass.first; i++) { b->places[i] = made; }
    for (uint32_t l = span.first; l < span.end && !is_forward(index); l++) {
        add_number(step, &step->late_ops, b->layers[l].scattered);
    }
    for (uint32_t i = 0; i < pass.trailing_count; i++) {
        const uint32_t part = step->trailing.at[pass.first_trailing + i];
        b->places[part] = add_trailing(b, unit, &pass, part, micro_batch);
    }
    leave(b, unit, index);
    return true;
}
