/* A step pass by pass: the seconds that the closed form gives the layers of each position of a pipeline, and the
 * recurrence of the schedule between them. */
#include "costmodel/closed_form/closed_form_internal.h"

#include <math.h>
#include <stdlib.h>

/* The recurrence of so many rounds of micro-batches is gone through for a bound. */
enum { LEAST_ROUNDS = 6 };

/* A configuration that layers share, and its cost. */
struct part {
    const redco_assignment *assignment;
    uint32_t left; /* layers that no position has yet */
    redco_layer_cost cost;
    double weight_s; /* gradients of weights, part of its backward pass */
};

/* Stages name the same configurations again and again. */
static void find_parts(redco_costs *costs, const redco_parallelism *parallelism, const redco_assignment *assignments,
                       uint32_t count, struct part *parts)
{
    for (uint32_t i = 0; i < count; i++) {
        const redco_assignment *const a = &assignments[i];
        uint32_t same = 0;
        while (same < i && (assignments[same].class_index != a->class_index ||
                            assignments[same].config.recompute != a->config.recompute ||
                            !redco_shards_equal(assignments[same].config.shards, a->config.shards))) {
            same++;
        }
        if (same < i) {
            parts[i] = parts[same];
        } else {
            parts[i].cost = redco_cost_layer_step(costs, parallelism, a->class_index, &a->config);
            parts[i].weight_s = redcoi_rank_find(costs, parallelism)->classes[a->class_index].weight_s;
        }
        parts[i].assignment = a;
        parts[i].left = a->layers;
    }
}

/* Seconds of a position's passes. */
struct passes {
    redco_position_times *times;  /* with what they expose */
    redco_position_times *bare;   /* computation alone */
    redco_position_times *gather; /* gathers alone */
};

static void add_layers(const struct passes *passes, uint32_t position, const struct part *part, double layers)
{
    redco_position_times *const times = &passes->times[position], *const bare = &passes->bare[position];
    times->forward_s += layers * part->cost.pass_forward_s;
    times->backward_s += layers * part->cost.pass_backward_s;
    times->weight_s += layers * part->weight_s;
    bare->forward_s += layers * part->cost.bare_forward_s;
    bare->backward_s += layers * part->cost.bare_backward_s;
    bare->weight_s += layers * part->weight_s;
    passes->gather[position].forward_s += layers * part->cost.gather_forward_s;
    passes->gather[position].backward_s += layers * part->cost.gather_backward_s;
}

/* Layers go to positions in the model's order and, in a class, that of the assignments. */
static void deal(const redco_costs *costs, const redco_parallelism *parallelism, struct part *parts, uint32_t count,
                 const struct passes *passes)
{
    const redco_pipeline p = redco_parallelism_pipeline(parallelism);
    const uint32_t last = parallelism->pp > 1 ? redco_pipeline_positions(p.kind, p.stages, p.chunks) - 1 : 0;
    uint32_t position = 0, room = parallelism->pp > 1 ? redcoi_position_blocks(costs, parallelism, 0) : costs->blocks;
    const redco_layer_run *runs = NULL;
    const size_t run_count = redco_model_order(costs->model, &runs);
    for (size_t r = 0; r < run_count; r++) {
        const redco_class_kind kind = costs->classes[runs[r].class_index].kind;
        uint32_t of_run = runs[r].layers;
        for (uint32_t i = 0; i < count && of_run > 0; i++) {
            if (parts[i].assignment->class_index != runs[r].class_index) { continue; }
            uint32_t left = parts[i].left < of_run ? parts[i].left : of_run;
            parts[i].left -= left;
            of_run -= left;
            if (!redco_class_is_block(kind)) {
                add_layers(passes, kind == REDCO_CLASS_HEAD ? last : 0, &parts[i], left);
                continue;
            }
            while (left > 0) {
                while (room == 0 && position < last) { room = redcoi_position_blocks(costs, parallelism, ++position); }
                const uint32_t here = left < room || room == 0 ? left : room;
                add_layers(passes, position, &parts[i], here);
                left -= here;
                room -= here < room ? here : room;
            }
        }
    }
    /* A pass issues its gathers when it begins, and ends behind the last of them. */
    for (uint32_t i = 0; i <= last; i++) {
        passes->bare[i].forward_s = fmax(passes->bare[i].forward_s, passes->gather[i].forward_s);
        passes->bare[i].backward_s = fmax(passes->bare[i].backward_s, passes->gather[i].backward_s);
    }
}

double redco_layer_traffic_ratio(const redco_layer_cost *cost)
{
    const double compute_s = cost->bare_forward_s + cost->bare_backward_s;
    return compute_s > 0.0 ? cost->traffic_s / compute_s : 0.0;
}

/* One stage: the micro-batches follow each other. */
static void without_stages(const struct part *parts, uint32_t count, const redco_parallelism *parallelism,
                           const struct passes *passes, const redco_fixed_cost *fixed, const redco_prediction *closed,
                           redco_paced *paced_out)
{
    const double m = (double)parallelism->micro_batches;
    double stream_s = 0.0;
    for (uint32_t i = 0; i < count; i++) { stream_s += parts[i].assignment->layers * parts[i].cost.stream_s; }
    const double passes_s = m * (passes->bare[0].forward_s + passes->bare[0].backward_s);
    paced_out->step_s = closed->step_s;
    paced_out->least_s = fixed->scale * fmax(passes_s + closed->optimizer_s, m * stream_s) + fixed->overhead_s;
}

/* No less than the schedule takes: of few micro-batches its recurrence; else a stage does all of its own passes, not
 * before the stages ahead of it have handed the first micro-batch on, nor after they take the last one's gradient back
 * (pipeline_bound_s() in closed_form.c). */
static redco_status least_span(redco_pipeline p, const redco_position_times *bare, double send_s, double *span_s_out)
{
    const uint32_t round = p.kind == REDCO_PIPELINE_INTERLEAVED ? p.group : 2 * p.stages;
    double before_s = 0.0, most_s = 0.0;
    if (p.micro_batches / LEAST_ROUNDS <= round) { return redco_pipeline_span_s(&p, bare, send_s, span_s_out, NULL); }
    for (uint32_t stage = 0; stage < p.stages; stage++) {
        double work_s = 0.0;
        for (uint32_t chunk = 0; chunk < p.chunks; chunk++) {
            const redco_position_times *const at = &bare[redco_pipeline_position(p.kind, p.stages, stage, chunk)];
            const double batches = redco_pipeline_last_batch(&p, chunk) - redco_pipeline_first_batch(&p, chunk) + 1.0;
            work_s += batches * (at->forward_s + at->backward_s);
        }
        most_s = fmax(most_s, before_s + work_s);
        if (!redco_pipeline_splits_backward(p.kind)) {
            before_s += bare[stage].forward_s + bare[stage].backward_s + 2.0 * send_s;
        }
    }
    *span_s_out = most_s;
    return REDCO_OK;
}

static redco_status with_stages(redco_costs *costs, const redco_parallelism *parallelism, const struct part *parts,
                                uint32_t count, const struct passes *passes, const redco_fixed_cost *fixed,
                                const redco_prediction *closed, redco_paced *paced_out)
{
    const redco_pipeline p = redco_parallelism_pipeline(parallelism);
    const double send_s = redcoi_stage_transfer_s(costs, parallelism, NULL, NULL);
    double span_s = 0.0, bare_s = 0.0, once_s = 0.0;
    redco_status st = redcoi_span_of(p, passes->times, send_s, &span_s);
    if (st == REDCO_OK) { st = least_span(p, passes->bare, send_s, &bare_s); }
    for (uint32_t i = 0; i < count; i++) { once_s += parts[i].assignment->layers * parts[i].cost.once_s; }
    once_s += closed->optimizer_s + closed->grad_reduce_exposed_s + closed->param_sync_exposed_s;
    paced_out->step_s = fixed->scale * (span_s + once_s) + fixed->overhead_s;
    paced_out->least_s = fixed->scale * bare_s + fixed->overhead_s;
    return st;
}

redco_status redco_cost_paced(redco_costs *costs, const redco_parallelism *parallelism,
                              const redco_assignment *assignments, uint32_t count, const redco_prediction *closed,
                              redco_paced *paced_out, redco_error *err)
{
    const redco_fixed_cost fixed = redco_cost_fixed(costs, parallelism);
    const redco_pipeline p = redco_parallelism_pipeline(parallelism);
    const uint32_t positions = parallelism->pp > 1 ? redco_pipeline_positions(p.kind, p.stages, p.chunks) : 1;
    struct part *const parts = calloc(count > 0 ? count : 1, sizeof *parts);
    redco_position_times *const times = calloc(3 * (size_t)positions, sizeof *times);
    redco_status st = REDCO_ENOMEM;
    *paced_out = (redco_paced){.traffic_ratio = 0.0};
    if (parts != NULL && times != NULL) {
        const struct passes passes = {times, times + positions, times + 2 * (size_t)positions};
        find_parts(costs, parallelism, assignments, count, parts);
        deal(costs, parallelism, parts, count, &passes);
        st = REDCO_OK;
        if (parallelism->pp > 1) {
            st = with_stages(costs, parallelism, parts, count, &passes, &fixed, closed, paced_out);
        } else {
            without_stages(parts, count, parallelism, &passes, &fixed, closed, paced_out);
        }
        for (uint32_t i = 0; i < count; i++) {
            const bool block = redco_class_is_block(costs->classes[parts[i].assignment->class_index].kind);
            const double ratio = block ? redco_layer_traffic_ratio(&parts[i].cost) : 0.0;
            paced_out->traffic_ratio = fmax(paced_out->traffic_ratio, ratio);
        }
    }
    free(parts);
    free(times);
    return st == REDCO_OK ? st : redco_fail(err, st, "", "out of memory");
}
