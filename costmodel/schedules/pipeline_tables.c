/* The tables: one function a schedule. */
#include "costmodel/schedules/pipeline.h"

#include <stddef.h>

/* A table while it is written. */
struct rows {
    const redco_pipeline *schedule;
    redco_turn *turns;
    uint32_t count;
};

static void add(struct rows *rows, redco_turn_kind kind, uint32_t chunk, uint32_t micro_batch)
{
    rows->turns[rows->count++] = (redco_turn){.kind = kind, .chunk = chunk, .micro_batch = micro_batch};
}

static void all_forward(struct rows *rows)
{
    const uint32_t m = rows->schedule->micro_batches;
    for (uint32_t i = 0; i < m; i++) { add(rows, REDCO_TURN_FORWARD, 0, i); }
    for (uint32_t i = 0; i < m; i++) { add(rows, REDCO_TURN_BACKWARD, 0, i); }
}

/* Which pass of one direction comes next: groups of micro-batches go through chunk after chunk; the last group may be
 * smaller. Backward takes the chunks in the other order. */
struct walk {
    uint32_t first, size; /* micro-batches of the group */
    uint32_t turn;        /* chunks that it has gone through */
    uint32_t within;
};

static void begin_group(const redco_pipeline *s, struct walk *walk, uint32_t first)
{
    const uint32_t group = s->group > 0 ? s->group : s->stages, left = s->micro_batches - first;
    *walk = (struct walk){.first = first, .size = left < group ? left : group};
}

/* @return the chunk of the pass. @param micro_batch_out  NULL: not wanted */
static uint32_t walk_on(const redco_pipeline *s, bool forward, struct walk *walk, uint32_t *micro_batch_out)
{
    const uint32_t chunk = forward ? walk->turn : s->chunks - 1 - walk->turn;
    if (micro_batch_out != NULL) { *micro_batch_out = walk->first + walk->within; }
    if (++walk->within < walk->size) { return chunk; }
    walk->within = 0;
    if (++walk->turn == s->chunks) { begin_group(s, walk, walk->first + walk->size); }
    return chunk;
}

static void add_next(struct rows *rows, bool forward, struct walk *walk)
{
    uint32_t micro_batch = 0;
    const uint32_t chunk = walk_on(rows->schedule, forward, walk, &micro_batch);
    add(rows, forward ? REDCO_TURN_FORWARD : REDCO_TURN_BACKWARD, chunk, micro_batch);
}

/* Forward passes before the first backward one, less one. */
static uint32_t warm_up(const redco_pipeline *s, uint32_t stage)
{
    const uint32_t total = s->micro_batches * s->chunks, behind = s->stages - 1 - stage;
    const uint32_t group = s->group > 0 ? s->group : s->stages;
    const uint32_t warm = s->chunks == 1 ? behind : 2 * behind + (s->chunks - 1) * group;
    return warm < total ? warm : total;
}

uint64_t redco_pipeline_under_way(const redco_pipeline *schedule, uint32_t stage, uint32_t chunk)
{
    const redco_pipeline *const s = schedule;
    const uint32_t total = s->micro_batches * s->chunks, warm = warm_up(s, stage);
    struct walk forward, backward;
    uint64_t now = 0, most = 0;
    if (s->kind != REDCO_PIPELINE_INTERLEAVED) { return redco_pipeline_kept(s, stage, chunk); }
    begin_group(s, &forward, 0);
    begin_group(s, &backward, 0);
    for (uint32_t i = 0; i < total + warm; i++) {
        if (i < total) { now += walk_on(s, true, &forward, NULL) == chunk; }
        if (now > most) { most = now; }
        if (i >= warm) { now -= walk_on(s, false, &backward, NULL) == chunk; }
    }
    return most;
}

static void one_forward_one_backward(struct rows *rows, uint32_t stage)
{
    const redco_pipeline *const s = rows->schedule;
    const uint32_t total = s->micro_batches * s->chunks, warm = warm_up(s, stage);
    struct walk forward, backward;
    begin_group(s, &forward, 0);
    begin_group(s, &backward, 0);
    for (uint32_t i = 0; i < warm; i++) { add_next(rows, true, &forward); }
    for (uint32_t i = 0; i < total; i++) {
        if (warm + i < total) { add_next(rows, true, &forward); }
        add_next(rows, false, &backward);
    }
}

/* 1F1B whose gradients of weights come as many micro-batches later as stages stand before this one: so all stages keep
 * what the first one does. */
static void zero_bubble(struct rows *rows, uint32_t stage)
{
    const uint32_t m = rows->schedule->micro_batches, behind = rows->schedule->stages - 1 - stage;
    const uint32_t warm = behind < m ? behind : m;
    for (uint32_t i = 0; i < warm; i++) { add(rows, REDCO_TURN_FORWARD, 0, i); }
    for (uint32_t i = 0; i < m; i++) {
        if (warm + i < m) { add(rows, REDCO_TURN_FORWARD, 0, warm + i); }
        add(rows, REDCO_TURN_INPUT, 0, i);
        if (i >= stage) { add(rows, REDCO_TURN_WEIGHT, 0, i - stage); }
    }
    for (uint32_t i = m > stage ? m - stage : 0; i < m; i++) { add(rows, REDCO_TURN_WEIGHT, 0, i); }
}

/* DualPipe and DualPipeV. Direction 0 is the one whose micro-batches come to this stage first. */
struct dual {
    struct rows *rows;
    uint32_t chunk[2];                  /* by direction */
    uint32_t forwards[2], backwards[2]; /* micro-batches of a direction so far */
    uint32_t cut;                       /* rows up to which gradients of weights have been found */
};

static void dual_forward(struct dual *d, int direction)
{
    const uint32_t chunk = d->chunk[direction];
    const uint32_t first = redco_pipeline_first_batch(d->rows->schedule, chunk);
    add(d->rows, REDCO_TURN_FORWARD, chunk, first + d->forwards[direction]++);
}

static void dual_backward(struct dual *d, int direction, bool cut)
{
    const uint32_t chunk = d->chunk[direction];
    const uint32_t first = redco_pipeline_first_batch(d->rows->schedule, chunk);
    add(d->rows, cut ? REDCO_TURN_INPUT : REDCO_TURN_BACKWARD, chunk, first + d->backwards[direction]++);
}

static void dual_both(struct dual *d, int forward)
{
    dual_forward(d, forward);
    d->rows->turns[d->rows->count - 1].joined = true;
    dual_backward(d, 1 - forward, false);
}

/* Gradients of weights come in the order in which those of inputs came. */
static void dual_weight(struct dual *d)
{
    while (d->rows->turns[d->cut].kind != REDCO_TURN_INPUT) { d->cut++; }
    const redco_turn of = d->rows->turns[d->cut++];
    add(d->rows, REDCO_TURN_WEIGHT, of.chunk, of.micro_batch);
}

/* Eight phases: dualpipe.py and dualpipev.py, step(). */
static void dual_pipe(struct rows *rows, uint32_t stage)
{
    const redco_pipeline *const s = rows->schedule;
    const bool halves = s->kind == REDCO_PIPELINE_DUALPIPE, second = halves && stage >= s->stages / 2;
    const uint32_t depth = halves ? s->stages / 2 : s->stages; /* stages until the directions meet */
    const uint32_t at = second ? s->stages - 1 - stage : stage, before = depth - 1 - at;
    const uint32_t each = halves ? s->micro_batches / 2 : s->micro_batches;
    struct dual d = {.rows = rows, .chunk = {second ? 1 : 0, second ? 0 : 1}};
    for (uint32_t i = 0; i < 2 * before; i++) { dual_forward(&d, 0); }
    for (uint32_t i = 0; i <= at; i++) {
        dual_forward(&d, 0);
        dual_forward(&d, 1);
    }
    for (uint32_t i = 0; i < before; i++) {
        dual_backward(&d, 1, true);
        dual_weight(&d);
        dual_forward(&d, 1);
    }
    for (uint32_t i = 0; i + 2 * depth < each + at + 1; i++) {
        if (i == 0 && before == 0) { /* where the directions meet the first pair waits for nothing if it is apart */
            dual_forward(&d, 0);
            dual_backward(&d, 1, false);
        } else {
            dual_both(&d, 0);
        }
        dual_both(&d, 1);
    }
    for (uint32_t i = 0; i < before; i++) {
        dual_backward(&d, 1, false);
        dual_both(&d, 1);
    }
    for (uint32_t i = 0; i < 2 * (at + 1); i++) { dual_backward(&d, i % 2 == 0 ? 1 : 0, i > at); }
    for (uint32_t i = 0; i < before; i++) {
        dual_weight(&d);
        dual_backward(&d, 0, true);
    }
    for (uint32_t i = 0; i <= at; i++) { dual_weight(&d); }
}

uint64_t redco_pipeline_room(const redco_pipeline *schedule)
{
    return (uint64_t)3 * schedule->chunks * schedule->micro_batches;
}

uint32_t redco_pipeline_table(const redco_pipeline *schedule, uint32_t stage, redco_turn *turns_out)
{
    struct rows rows = {.schedule = schedule, .turns = turns_out};
    switch (schedule->kind) {
    case REDCO_PIPELINE_GPIPE: all_forward(&rows); break;
    case REDCO_PIPELINE_ZB_H1: zero_bubble(&rows, stage); break;
    case REDCO_PIPELINE_DUALPIPE_V:
    case REDCO_PIPELINE_DUALPIPE: dual_pipe(&rows, stage); break;
    default: one_forward_one_backward(&rows, stage); break;
    }
    return rows.count;
}
