/* The time of the passes of a pipeline with unequal stages: the tables, pass by pass. */
#include "costmodel/schedules/pipeline.h"

#include <stdlib.h>

/* A model chunk of a stage. */
struct place {
    uint32_t position;
    bool first, last;                   /* all positions together */
    bool sends_forward, sends_backward; /* the next one is on another stage */
};

/* While the tables are run. Which pass comes next does not depend on times: several sets of them go along. */
struct run {
    const redco_pipeline *pipeline;
    const redco_span_times *sets;
    uint32_t set_count;
    redco_turn *turns; /* [stage][room] */
    uint32_t *counts, *at;
    struct place *places; /* [stage][chunk] */
    double *pass_s;       /* [position][kind][set] */
    double *send_s;       /* [sends][set] */
    double *now_s;        /* [stage][set] */
    double *forward_s,
        *backward_s; /* [position][micro-batch][set]: when its output has come to the next; first set < 0: not yet */
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

/* @param sets  those of the run: the compiler unrolls the usual numbers. @return false: its input has not come */
static inline bool run_turn(struct run *r, uint32_t stage, const redco_turn *turn, uint32_t sets)
{
    const struct place *const place = &r->places[stage * r->pipeline->chunks + turn->chunk];
    const size_t row = (size_t)r->pipeline->micro_batches * sets;
    const size_t here = place->position * row + (size_t)turn->micro_batch * sets;
    const double *const took_s = &r->pass_s[(place->position * REDCO_TURN_KINDS + turn->kind) * sets];
    double *const now_s = &r->now_s[stage * sets];
    const double *come_s = NULL, *send_s = NULL;
    double *out_s = NULL;
    switch (turn->kind) {
    case REDCO_TURN_WEIGHT: break; /* comes after that of inputs in its table */
    case REDCO_TURN_FORWARD:
        come_s = place->first ? NULL : &r->forward_s[here - row];
        out_s = &r->forward_s[here];
        send_s = &r->send_s[place->sends_forward ? sets : 0];
        break;
    default:
        come_s = place->last ? &r->forward_s[here] : &r->backward_s[here + row];
        out_s = &r->backward_s[here];
        send_s = &r->send_s[place->sends_backward ? sets : 0];
        break;
    }
    if (come_s != NULL && come_s[0] < 0.0) { return false; }
    for (uint32_t k = 0; k < sets; k++) {
        const double start_s = come_s != NULL && come_s[k] > now_s[k] ? come_s[k] : now_s[k];
        now_s[k] = start_s + took_s[k];
        if (out_s != NULL) { out_s[k] = now_s[k] + send_s[k]; }
    }
    return true;
}

static inline bool run_stage(struct run *r, uint32_t stage, uint32_t sets)
{
    const redco_turn *const turns = &r->turns[stage * r->room];
    const uint32_t before = r->at[stage];
    uint32_t at = before;
    while (at < r->counts[stage] && run_turn(r, stage, &turns[at], sets)) { at++; }
    r->at[stage] = at;
    return at > before;
}

static void run_all(struct run *r, double *span_s_out)
{
    const uint32_t stages = r->pipeline->stages;
    for (bool any = true; any;) {
        any = false;
        for (uint32_t i = 0; i < stages; i++) {
            switch (r->set_count) {
            case 1: any = run_stage(r, i, 1) || any; break;
            case 3: any = run_stage(r, i, 3) || any; break;
            default: any = run_stage(r, i, r->set_count) || any; break;
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

static bool sends(const redco_pipeline *p, uint32_t from, uint32_t to)
{
    uint32_t chunk = 0;
    return redco_pipeline_stage_at(p, from, 0, &chunk) != redco_pipeline_stage_at(p, to, 0, &chunk);
}

static void prepare(struct run *r, uint32_t positions)
{
    const redco_pipeline *const p = r->pipeline;
    for (uint32_t i = 0; i < p->stages; i++) { r->counts[i] = redco_pipeline_table(p, i, &r->turns[i * r->room]); }
    for (uint32_t i = 0; i < p->stages * p->chunks; i++) {
        const uint32_t at = redco_pipeline_position(p->kind, p->stages, i / p->chunks, i % p->chunks);
        struct place *const place = &r->places[i];
        *place = (struct place){.position = at, .first = at == 0, .last = at == positions - 1};
        place->sends_forward = !place->last && sends(p, at, at + 1);
        place->sends_backward = !place->first && sends(p, at - 1, at);
    }
    for (uint32_t k = 0; k < r->set_count; k++) {
        r->send_s[r->set_count + k] = r->sets[k].send_s;
        for (uint32_t i = 0; i < positions * REDCO_TURN_KINDS; i++) {
            const redco_position_times *const times = &r->sets[k].times[i / REDCO_TURN_KINDS];
            r->pass_s[i * r->set_count + k] = pass_s(times, (redco_turn_kind)(i % REDCO_TURN_KINDS));
        }
    }
}

redco_status redco_pipeline_spans_s(const redco_pipeline *pipeline, const redco_span_times *sets, uint32_t set_count,
                                    double *span_s_out, redco_error *err)
{
    const redco_pipeline *const p = pipeline;
    const uint32_t positions = redco_pipeline_positions(p->kind, p->stages, p->chunks);
    const size_t cells = (size_t)positions * p->micro_batches * set_count, room = redco_pipeline_room(p);
    struct run r = {.pipeline = p,
                    .sets = sets,
                    .set_count = set_count,
                    .turns = malloc(p->stages * room * sizeof *r.turns),
                    .counts = calloc(p->stages, sizeof *r.counts),
                    .at = calloc(p->stages, sizeof *r.at),
                    .places = calloc((size_t)p->stages * p->chunks, sizeof *r.places),
                    .pass_s = calloc((size_t)positions * REDCO_TURN_KINDS * set_count, sizeof *r.pass_s),
                    .send_s = calloc(2 * (size_t)set_count, sizeof *r.send_s),
                    .now_s = calloc((size_t)p->stages * set_count, sizeof *r.now_s),
                    .forward_s = malloc(cells * sizeof *r.forward_s),
                    .backward_s = malloc(cells * sizeof *r.backward_s),
                    .room = room};
    redco_status st = REDCO_OK;
    if (r.turns == NULL || r.counts == NULL || r.at == NULL || r.places == NULL || r.pass_s == NULL ||
        r.send_s == NULL || r.now_s == NULL || r.forward_s == NULL || r.backward_s == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    for (size_t i = 0; i < cells; i += set_count) { r.forward_s[i] = r.backward_s[i] = -1.0; }
    prepare(&r, positions);
    run_all(&r, span_s_out);
out:
    free(r.turns);
    free(r.counts);
    free(r.at);
    free(r.places);
    free(r.pass_s);
    free(r.send_s);
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
