/* Adds operators of a rank to the step: computations take the waits that have gathered, collectives run behind them. */
#include "costmodel/simulator/step_build.h"

#include <assert.h>

void redcoi_wait(redcoi_unit *unit, uint32_t op)
{
    if (op == REDCO_STEP_NONE) { return; }
    for (uint32_t i = 0; i < unit->wait_count; i++) {
        if (unit->waits[i] == op) { return; }
    }
    assert(unit->wait_count < REDCOI_WAITS_MAX);
    unit->waits[unit->wait_count++] = op;
}

uint32_t redcoi_compute(redcoi_builder *b, redcoi_unit *unit, redco_step_op op)
{
    op.stream = REDCO_STREAM_COMPUTE;
    op.link = REDCO_LINK_NONE;
    unit->last = redco_step_add(b->step, &op, unit->waits, unit->wait_count);
    unit->wait_count = 0;
    return unit->last;
}

uint32_t redcoi_collective(redcoi_builder *b, redcoi_unit *unit, redco_step_op op, uint32_t input)
{
    uint32_t inputs[2];
    uint32_t count = 0;
    if (unit->last != REDCO_STEP_NONE) { inputs[count++] = unit->last; }
    if (input != REDCO_STEP_NONE && input != unit->last) { inputs[count++] = input; }
    return redco_step_add(b->step, &op, inputs, count);
}

uint32_t redcoi_behind_waits(redcoi_builder *b, const redcoi_unit *unit, redco_step_op op)
{
    uint32_t inputs[REDCOI_WAITS_MAX + 1];
    uint32_t count = 0;
    if (unit->last != REDCO_STEP_NONE) { inputs[count++] = unit->last; }
    for (uint32_t i = 0; i < unit->wait_count; i++) { inputs[count++] = unit->waits[i]; }
    return redco_step_add(b->step, &op, inputs, count);
}

void redcoi_launch(redcoi_builder *b, redcoi_unit *unit, uint32_t label, redco_step_pass pass, uint32_t layer,
                   uint32_t micro_batch, double seconds)
{
    const double launch_s = b->scale * seconds;
    if (!(launch_s > 0.0)) { return; }
    const redco_step_op op = {.seconds = launch_s,
                              .traffic = REDCO_STEP_NONE,
                              .layer = layer,
                              .micro_batch = micro_batch,
                              .label = label,
                              .rank = (uint16_t)unit->rank,
                              .work = REDCO_WORK_LAUNCH,
                              .pass = (uint8_t)pass};
    (void)redcoi_compute(b, unit, op);
}

bool redcoi_is_last(const redcoi_builder *b, uint32_t micro_batch)
{
    return micro_batch == redco_pipeline_last_batch(&b->schedule, 0) ||
           micro_batch == redco_pipeline_last_batch(&b->schedule, b->chunks - 1);
}
