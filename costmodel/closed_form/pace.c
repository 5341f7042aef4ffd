/* The pace of pipelines for which no formula is exact: a split into stages of unequal numbers of layers, blocks that
 * differ, or backward in two halves. The recurrence of their schedule, once for each parallelism. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* More micro-batches than this many for each stage only repeat the middle. */
enum { ROUNDS = 6 };

/* Times of a schedule that are asked for together: alone, with transfers, with all blocks recomputed. */
enum { ALONE, WHOLE, AGAIN, SETS };

bool redcoi_pace_needed(const redco_costs *costs, const redco_parallelism *parallelism)
{
    if (parallelism->pp <= 1) { return false; }
    return parallelism->split != NULL || costs->block_classes > 1 ||
           redco_pipeline_splits_backward(redco_parallelism_pipeline(parallelism).kind);
}

static void add_layers(redco_position_times *at, const redcoi_times *times, double layers)
{
    at->forward_s += layers * times->forward_s;
    at->backward_s += layers * times->backward_s;
    at->weight_s += layers * times->weight_s;
}

void redcoi_deal(const redco_costs *costs, const redco_parallelism *parallelism, const redcoi_rank *rank,
                 uint32_t positions, redco_position_times *times, uint32_t *layers)
{
    const uint32_t classes = costs->class_count;
    uint32_t position = 0, room = redcoi_position_blocks(costs, parallelism, 0);
    const redco_layer_run *runs = NULL;
    const size_t run_count = redco_model_order(costs->model, &runs);
    for (size_t r = 0; r < run_count; r++) {
        const uint32_t c = runs[r].class_index;
        uint32_t left = runs[r].layers;
        if (!redco_class_is_block(costs->classes[c].kind)) {
            const uint32_t edge = costs->classes[c].kind == REDCO_CLASS_HEAD ? positions - 1 : 0;
            add_layers(&times[edge], &rank->classes[c], left);
            if (layers != NULL) { layers[edge * classes + c] = left; }
            continue;
        }
        while (left > 0) {
            while (room == 0 && position + 1 < positions) {
                room = redcoi_position_blocks(costs, parallelism, ++position);
            }
            const uint32_t here = left < room || room == 0 ? left : room;
            add_layers(&times[position], &rank->classes[c], here);
            if (layers != NULL) { layers[position * classes + c] += here; }
            left -= here;
            room -= here < room ? here : room;
        }
    }
}

/* A step of many micro-batches grows by the same with every round of them. */
static redco_status spans_of(redco_pipeline p, const redco_span_times *sets, uint32_t count, double *span_s_out)
{
    double less_s[SETS] = {0.0};
    const uint32_t m = p.micro_batches;
    const uint32_t round = p.kind == REDCO_PIPELINE_INTERLEAVED ? p.group : 2 * p.stages;
    const bool grows = p.kind != REDCO_PIPELINE_GPIPE && m / ROUNDS > round;
    if (!grows) { return redco_pipeline_spans_s(&p, sets, count, span_s_out, NULL); }
    p.micro_batches = (ROUNDS - 2) * round + m % round;
    redco_status st = redco_pipeline_spans_s(&p, sets, count, less_s, NULL);
    p.micro_batches += round;
    if (st == REDCO_OK) { st = redco_pipeline_spans_s(&p, sets, count, span_s_out, NULL); }
    for (uint32_t k = 0; k < count; k++) {
        span_s_out[k] += (double)((m - p.micro_batches) / round) * (span_s_out[k] - less_s[k]);
    }
    return st;
}

redco_status redcoi_span_of(redco_pipeline p, const redco_position_times *times, double send_s, double *span_s_out)
{
    const redco_span_times set = {times, send_s};
    return spans_of(p, &set, 1, span_s_out);
}

/* The stage that works the longest, and how often it goes through a layer of each class. */
static double slowest(const redco_costs *costs, const redco_pipeline *p, const redco_position_times *times,
                      const uint32_t *layers, redcoi_pace *pace)
{
    double most_s = -1.0;
    for (uint32_t stage = 0; stage < p->stages; stage++) {
        double work_s = 0.0, passes[REDCOI_CLASSES_MAX] = {0.0};
        for (uint32_t chunk = 0; chunk < p->chunks; chunk++) {
            const uint32_t position = redco_pipeline_position(p->kind, p->stages, stage, chunk);
            const double batches = redco_pipeline_last_batch(p, chunk) - redco_pipeline_first_batch(p, chunk) + 1.0;
            work_s += batches * (times[position].forward_s + times[position].backward_s);
            for (uint32_t c = 0; c < costs->class_count; c++) {
                passes[c] += batches * layers[position * costs->class_count + c] / costs->classes[c].layers;
            }
        }
        if (work_s <= most_s) { continue; }
        most_s = work_s;
        for (uint32_t c = 0; c < costs->class_count; c++) { pace->repeat[c] = passes[c]; }
    }
    return most_s;
}

static bool fill(redco_costs *costs, const redco_parallelism *parallelism, const redcoi_rank *rank, redcoi_pace *pace)
{
    const redco_pipeline p = pace->pipeline;
    const uint32_t positions = redco_pipeline_positions(p.kind, p.stages, p.chunks);
    redco_position_times *const times = calloc(2 * (size_t)positions, sizeof *times);
    redco_position_times *const again = times != NULL ? &times[positions] : NULL; /* with all blocks recomputed */
    uint32_t *const layers = calloc((size_t)positions * costs->class_count, sizeof *layers);
    double span_s[SETS] = {0.0}, blocks_s = 0.0, repeated_s = 0.0;
    bool done = again != NULL && layers != NULL;
    if (done) {
        redcoi_deal(costs, parallelism, rank, positions, times, layers);
        memcpy(again, times, positions * sizeof *times);
        for (uint32_t c = 0; c < costs->class_count; c++) {
            const redcoi_times *const t = &rank->classes[c];
            if (!redco_class_is_block(costs->classes[c].kind)) { continue; }
            blocks_s += costs->classes[c].layers * (t->forward_s + t->backward_s);
            repeated_s += costs->classes[c].layers * t->recompute_s[redcoi_full_set(costs)];
            for (uint32_t i = 0; i < positions; i++) {
                again[i].backward_s += layers[i * costs->class_count + c] * t->recompute_s[redcoi_full_set(costs)];
            }
        }
        const redco_span_times sets[SETS] = {[ALONE] = {times, 0.0},
                                             [WHOLE] = {times, redcoi_stage_transfer_s(costs, parallelism, NULL, NULL)},
                                             [AGAIN] = {again, 0.0}};
        done = spans_of(p, sets, SETS, span_s) == REDCO_OK;
    }
    if (done) {
        const double idle_s = fmax(0.0, span_s[ALONE] - slowest(costs, &p, times, layers, pace));
        for (uint32_t c = 0; c < costs->class_count && blocks_s > 0.0; c++) {
            if (redco_class_is_block(costs->classes[c].kind)) { pace->repeat[c] += idle_s / blocks_s; }
        }
        pace->transfers_s = span_s[WHOLE] - span_s[ALONE];
        pace->again = repeated_s > 0.0 ? (span_s[AGAIN] - span_s[ALONE]) / repeated_s : 0.0;
    }
    free(times);
    free(layers);
    return done;
}

const redcoi_pace *redcoi_pace_find(redco_costs *costs, const redcoi_rank *rank, const redco_parallelism *parallelism)
{
    const redco_pipeline p = redco_parallelism_pipeline(parallelism);
    for (uint32_t i = 0; i < REDCOI_PACES_CACHED; i++) {
        const redcoi_pace *const pace = &costs->paces[i];
        if (pace->tp == parallelism->tp && pace->ep == rank->key.ep && pace->etp == rank->key.etp &&
            pace->cp == parallelism->cp && pace->cp_type == parallelism->cp_type &&
            pace->micro_batch == parallelism->micro_batch &&
            pace->sequence_parallel == parallelism->sequence_parallel && redco_mesh_equal(pace->dp, parallelism->dp) &&
            pace->pipeline.kind == p.kind && pace->pipeline.stages == p.stages && pace->pipeline.chunks == p.chunks &&
            pace->pipeline.group == p.group && pace->pipeline.micro_batches == p.micro_batches &&
            redcoi_split_kept(&pace->split, parallelism)) {
            return pace;
        }
    }
    redcoi_pace *const slot = &costs->paces[costs->next_pace];
    costs->next_pace = (costs->next_pace + 1) % REDCOI_PACES_CACHED;
    *slot = (redcoi_pace){.tp = parallelism->tp,
                          .ep = rank->key.ep,
                          .etp = rank->key.etp,
                          .cp = parallelism->cp,
                          .cp_type = parallelism->cp_type,
                          .micro_batch = parallelism->micro_batch,
                          .sequence_parallel = parallelism->sequence_parallel,
                          .dp = parallelism->dp,
                          .pipeline = p};
    redcoi_split_keep(&slot->split, parallelism);
    if (fill(costs, parallelism, rank, slot)) { return slot; }
    if (costs->layout_status == REDCO_OK) {
        costs->layout_status = redco_fail(&costs->layout_error, REDCO_ENOMEM, "", "out of memory");
    }
    slot->tp = 0;
    return slot;
}
