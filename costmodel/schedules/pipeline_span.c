/* The time of the passes of a pipeline with unequal stages: the tables, pass by pass. */
#include "costmodel/schedules/pipeline.h"

#include <stdlib.h>

/* While the tables are run. Which pass comes next does not depend on times: several sets of them go along. */
struct run {
    const redco_pipeline *pipeline;
    const redco_span_times *sets;
    uint32_t set_count;
    redco_turn *turns; /* [stage][room] */
    uint32_t *counts, *at;
    uint32_t *position; /* [stage][chunk] */
    bool *sends;        /* by position: the next one is on another stage */
    double *now_s;      /* [stage][set] */
    double *forward_s,
        *backward_s; /* [position][micro-batch][set]: when its output has come to the next; < 0: not yet */
    size_t room;
};

static double pass_s(const redco_position_times *t, redco_turn_kind kind)
{
    switch (kind) {
    case REDCO_TURN_FORWARD: return t->forward_s;
    case REDCO_TURN_INPUT: return t->backward_s - t->weight_s;
    case REDCO_TURN_WEIGHT: return t->weight_s;
    default: return t->backward_s;
    }
}

/* The cell that a turn waits for; NULL: none. Gradients of weights come after those of inputs in their table. */
static const double *awaited(const struct run *r, const redco_turn *turn, uint32_t position, size_t here)
{
    const size_t row = (size_t)r->pipeline->micro_batches * r->set_count;
    const uint32_t last = redco_pipeline_positions(r->pipeline->kind, r->pipeline->stages, r->pipeline->chunks) - 1;
    switch (turn->kind) {
    case REDCO_TURN_FORWARD: return position > 0 ? &r->forward_s[here - row] : NULL;
    case REDCO_TURN_WEIGHT: return NULL;
    default: return position < last ? &r->backward_s[here + row] : &r->forward_s[here];
    }
}

static bool run_turn(struct run *r, uint32_t stage, const redco_turn *turn)
{
    const uint32_t position = r->position[stage * r->pipeline->chunks + turn->chunk];
    const size_t here = ((size_t)position * r->pipeline->micro_batches + turn->micro_batch) * r->set_count;
    const double *const come_s = awaited(r, turn, position, here);
    const bool forward = turn->kind == REDCO_TURN_FORWARD;
    const bool sends = forward ? r->sends[position] : position > 0 && r->sends[position - 1];
    double *const out_s = turn->kind == REDCO_TURN_WEIGHT ? NULL : forward ? &r->forward_s[here] : &r->backward_s[here];
    if (come_s != NULL && come_s[0] < 0.0) { return false; }
    for (uint32_t k = 0; k < r->set_count; k++) {
        double *const now_s = &r->now_s[stage * r->set_count + k];
        if (come_s != NULL && come_s[k] > *now_s) { *now_s = come_s[k]; }
        *now_s += pass_s(&r->sets[k].times[position], turn->kind);
        if (out_s != NULL) { out_s[k] = *now_s + (sends ? r->sets[k].send_s : 0.0); }
    }
    return true;
}

static void run_all(struct run *r, double *span_s_out)
{
    const uint32_t stages = r->pipeline->stages;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < stages; i++) {
            while (r->at[i] < r->counts[i] && run_turn(r, i, &r->turns[i * r->room + r->at[i]])) {
                r->at[i]++;
                any = true;
            }
        }
    }
    for (uint32_t k = 0; k < r->set_count; k++) {
        span_s_out[k] = 0.0;
        for (uint32_t i = 0; i < stages; i++) {
            const double now_s = r->now_s[i * r->set_count + k];
            if (now_s > span_s_out[k]) { span_s_out[k] = now_s; }
        }
    }
}

static void place(struct run *r)
{
    const redco_pipeline *const p = r->pipeline;
    const uint32_t positions = redco_pipeline_positions(p->kind, p->stages, p->chunks);
    uint32_t chunk = 0;
    for (uint32_t i = 0; i < p->stages * p->chunks; i++) {
        r->position[i] = redco_pipeline_position(p->kind, p->stages, i / p->chunks, i % p->chunks);
    }
    for (uint32_t i = 0; i + 1 < positions; i++) {
        r->sends[i] = redco_pipeline_stage_at(p, i, 0, &chunk) != redco_pipeline_stage_at(p, i + 1, 0, &chunk);
    }
}

redco_status redco_pipeline_spans_s(const redco_pipeline *pipeline, const redco_span_times *sets, uint32_t set_count,
                                    double *span_s_out, redco_error *err)
{
    const redco_pipeline *const p = pipeline;
    const size_t positions = redco_pipeline_positions(p->kind, p->stages, p->chunks);
    const size_t cells = positions * p->micro_batches * set_count, room = redco_pipeline_room(p);
    struct run r = {.pipeline = p,
                    .sets = sets,
                    .set_count = set_count,
                    .turns = malloc(p->stages * room * sizeof *r.turns),
                    .counts = calloc(p->stages, sizeof *r.counts),
                    .at = calloc(p->stages, sizeof *r.at),
                    .position = calloc((size_t)p->stages * p->chunks, sizeof *r.position),
                    .sends = calloc(positions, sizeof *r.sends),
                    .now_s = calloc((size_t)p->stages * set_count, sizeof *r.now_s),
                    .forward_s = malloc(cells * sizeof *r.forward_s),
                    .backward_s = malloc(cells * sizeof *r.backward_s),
                    .room = room};
    redco_status st = REDCO_OK;
    if (r.turns == NULL || r.counts == NULL || r.at == NULL || r.position == NULL || r.sends == NULL ||
        r.now_s == NULL || r.forward_s == NULL || r.backward_s == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    for (size_t i = 0; i < cells; i++) { r.forward_s[i] = r.backward_s[i] = -1.0; }
    for (uint32_t i = 0; i < p->stages; i++) { r.counts[i] = redco_pipeline_table(p, i, &r.turns[i * room]); }
    place(&r);
    run_all(&r, span_s_out);
out:
    free(r.turns);
    free(r.counts);
    free(r.at);
    free(r.position);
    free(r.sends);
    free(r.now_s);
    free(r.forward_s);
    free(r.backward_s);
    return st;
}

redco_status redco_pipeline_span_s(const redco_pipeline *pipeline, const redco_position_times *times, double send_s,
                                   double *span_s_out, redco_error *err)
{
    const redco_span_times set = {times, send_s};
    return redco_pipeline_spans_s(pipeline, &set, 1, span_s_out, err);
}
