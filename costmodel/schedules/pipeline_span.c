/* The time of the passes of a pipeline with unequal stages: the tables, pass by pass. */
#include "costmodel/schedules/pipeline.h"

#include <stdlib.h>

/* While the tables are run. */
struct run {
    const redco_pipeline *pipeline;
    const redco_position_times *times;
    double send_s;
    redco_turn *turns; /* [stage][room] */
    uint32_t *counts, *at;
    double *now_s;                  /* by stage */
    double *forward_s, *backward_s; /* [position][micro-batch]: when its output has come to the next; < 0: not yet */
    size_t room;
};

static double ready_s(const struct run *r, const redco_turn *turn, uint32_t position, uint32_t last)
{
    const size_t m = r->pipeline->micro_batches, here = position * m + turn->micro_batch;
    switch (turn->kind) {
    case REDCO_TURN_FORWARD: return position > 0 ? r->forward_s[here - m] : 0.0;
    case REDCO_TURN_WEIGHT: return 0.0; /* its table has it after the gradients of inputs */
    default: return position < last ? r->backward_s[here + m] : r->forward_s[here];
    }
}

static double pass_s(const redco_position_times *t, redco_turn_kind kind)
{
    switch (kind) {
    case REDCO_TURN_FORWARD: return t->forward_s;
    case REDCO_TURN_INPUT: return t->backward_s - t->weight_s;
    case REDCO_TURN_WEIGHT: return t->weight_s;
    default: return t->backward_s;
    }
}

/* The transfer from a position to one beside it, where another stage has that. */
static double transfer_s(const struct run *r, uint32_t stage, uint32_t beside, uint32_t micro_batch)
{
    uint32_t chunk = 0;
    return redco_pipeline_stage_at(r->pipeline, beside, micro_batch, &chunk) != stage ? r->send_s : 0.0;
}

static bool run_turn(struct run *r, uint32_t stage, const redco_turn *turn)
{
    const redco_pipeline *const p = r->pipeline;
    const uint32_t position = redco_pipeline_position(p->kind, p->stages, stage, turn->chunk);
    const uint32_t last = redco_pipeline_positions(p->kind, p->stages, p->chunks) - 1;
    const size_t here = (size_t)position * p->micro_batches + turn->micro_batch;
    const double come_s = ready_s(r, turn, position, last);
    if (come_s < 0.0) { return false; }
    if (come_s > r->now_s[stage]) { r->now_s[stage] = come_s; }
    r->now_s[stage] += pass_s(&r->times[position], turn->kind);
    if (turn->kind == REDCO_TURN_FORWARD) {
        const double send_s = position < last ? transfer_s(r, stage, position + 1, turn->micro_batch) : 0.0;
        r->forward_s[here] = r->now_s[stage] + send_s;
    } else if (turn->kind != REDCO_TURN_WEIGHT) {
        const double send_s = position > 0 ? transfer_s(r, stage, position - 1, turn->micro_batch) : 0.0;
        r->backward_s[here] = r->now_s[stage] + send_s;
    }
    return true;
}

static double run_all(struct run *r)
{
    const uint32_t stages = r->pipeline->stages;
    double span_s = 0.0;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < stages; i++) {
            while (r->at[i] < r->counts[i] && run_turn(r, i, &r->turns[i * r->room + r->at[i]])) {
                r->at[i]++;
                any = true;
            }
        }
    }
    for (uint32_t i = 0; i < stages; i++) { span_s = r->now_s[i] > span_s ? r->now_s[i] : span_s; }
    return span_s;
}

redco_status redco_pipeline_span_s(const redco_pipeline *pipeline, const redco_position_times *times, double send_s,
                                   double *span_s_out, redco_error *err)
{
    const redco_pipeline *const p = pipeline;
    const size_t cells = (size_t)redco_pipeline_positions(p->kind, p->stages, p->chunks) * p->micro_batches;
    const size_t room = redco_pipeline_room(p);
    struct run r = {.pipeline = p,
                    .times = times,
                    .send_s = send_s,
                    .turns = malloc(p->stages * room * sizeof *r.turns),
                    .counts = calloc(p->stages, sizeof *r.counts),
                    .at = calloc(p->stages, sizeof *r.at),
                    .now_s = calloc(p->stages, sizeof *r.now_s),
                    .forward_s = malloc(cells * sizeof *r.forward_s),
                    .backward_s = malloc(cells * sizeof *r.backward_s),
                    .room = room};
    redco_status st = REDCO_OK;
    if (r.turns == NULL || r.counts == NULL || r.at == NULL || r.now_s == NULL || r.forward_s == NULL ||
        r.backward_s == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    for (size_t i = 0; i < cells; i++) { r.forward_s[i] = r.backward_s[i] = -1.0; }
    for (uint32_t i = 0; i < p->stages; i++) { r.counts[i] = redco_pipeline_table(p, i, &r.turns[i * room]); }
    *span_s_out = run_all(&r);
out:
    free(r.turns);
    free(r.counts);
    free(r.at);
    free(r.now_s);
    free(r.forward_s);
    free(r.backward_s);
    return st;
}
