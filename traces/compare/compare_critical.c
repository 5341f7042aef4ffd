/* The chain of operators that ends a step: backwards, each is blamed on what ended last of those that it waits for. */
#include "traces/compare/compare_internal.h"

#include <math.h>
#include <stdlib.h>

struct path {
    double by_kind_s[REDCOI_KINDS], idle_s;
};

static bool before(const redcoi_op *a, const redcoi_op *b)
{
    if (a->start_s < b->start_s || a->start_s > b->start_s) { return a->start_s < b->start_s; }
    if (a->end_s < b->end_s || a->end_s > b->end_s) { return a->end_s < b->end_s; }
    return a->span < b->span;
}

/* One rank's step in order of time, and where its operators are. */
struct view {
    const redcoi_op *ops;
    uint32_t count;
    uint32_t *previous; /* on the same stream */
    uint32_t *at;       /* by span of the prediction: its place in ops, or REDCOI_NONE */
    const uint32_t *span_of_match;
};

/* Streams are few; the last operator of each is kept. */
static void link_streams(struct view *view)
{
    uint32_t last[REDCOI_STREAMS], lanes = 0;
    for (uint32_t i = 0; i < view->count; i++) {
        uint32_t lane = 0;
        while (lane < lanes && view->ops[last[lane]].stream != view->ops[i].stream) { lane++; }
        view->previous[i] = lane < lanes ? last[lane] : REDCOI_NONE;
        if (lane == REDCOI_STREAMS) { lane--; }
        if (lane == lanes) { lanes++; }
        last[lane] = i;
    }
}

static uint32_t later(const struct view *view, uint32_t of, uint32_t best, uint32_t candidate)
{
    if (candidate == REDCOI_NONE || !before(&view->ops[candidate], &view->ops[of])) { return best; }
    if (best == REDCOI_NONE || view->ops[candidate].end_s > view->ops[best].end_s) { return candidate; }
    return best;
}

/* @param span  of the prediction, or REDCOI_NONE */
static uint32_t cause_of(const struct view *view, const redco_compare_graph *graph, uint32_t op, uint32_t span)
{
    uint32_t best = later(view, op, REDCOI_NONE, view->previous[op]);
    if (span == REDCOI_NONE) { return best; }
    for (uint32_t i = graph->first[span]; i < graph->first[span + 1]; i++) {
        best = later(view, op, best, view->at[graph->inputs[i]]);
    }
    return best;
}

static void walk(const struct view *view, const redco_compare_graph *graph, struct path *path)
{
    uint32_t op = REDCOI_NONE;
    double first_s = INFINITY;
    for (uint32_t i = 0; i < view->count; i++) {
        if (view->ops[i].kind == REDCOI_NONE) { continue; }
        first_s = fmin(first_s, view->ops[i].start_s);
        if (op == REDCOI_NONE || view->ops[i].end_s > view->ops[op].end_s) { op = i; }
    }
    double at_s = op != REDCOI_NONE ? view->ops[op].end_s : 0.0;
    while (op != REDCOI_NONE) {
        const redcoi_op *const o = &view->ops[op];
        const double from_s = fmin(o->start_s, at_s), to_s = fmin(o->end_s, at_s);
        path->idle_s += at_s - to_s;
        if (o->kind != REDCOI_NONE) {
            path->by_kind_s[o->kind] += to_s - from_s;
        } else {
            path->idle_s += to_s - from_s;
        }
        at_s = from_s;
        op = cause_of(view, graph, op, view->span_of_match[op]);
    }
    if (at_s > first_s) { path->idle_s += at_s - first_s; }
}

static int compare_time(const void *a, const void *b)
{
    const redcoi_op *const x = a, *const y = b;
    return before(x, y) ? -1 : before(y, x);
}

/* @param spans  of the prediction, per operator; REDCOI_NONE where none is matched */
static redco_status find_path(const redcoi_op *ops, uint32_t count, const uint32_t *spans, uint32_t span_count,
                              const redco_compare_graph *graph, struct path *path, redco_error *err)
{
    struct view view = {.ops = ops, .count = count, .span_of_match = spans};
    view.previous = malloc(((size_t)count + 1) * sizeof *view.previous);
    view.at = malloc(((size_t)span_count + 1) * sizeof *view.at);
    redco_status st = REDCO_OK;
    if (view.previous == NULL || view.at == NULL) {
        st = redcoi_compare_out_of_memory(err);
        goto out;
    }
    for (uint32_t i = 0; i < span_count; i++) { view.at[i] = REDCOI_NONE; }
    for (uint32_t i = 0; i < count; i++) {
        if (spans[i] != REDCOI_NONE) { view.at[spans[i]] = i; }
    }
    link_streams(&view);
    walk(&view, graph, path);
out:
    free(view.previous);
    free(view.at);
    return st;
}

redco_status redcoi_compare_critical(redcoi_compare *c, const redco_compare_graph *graph, uint32_t rank, uint32_t step,
                                     redco_error *err)
{
    struct path predicted = {.idle_s = 0.0}, measured = {.idle_s = 0.0};
    const redcoi_op *ops = NULL;
    const uint32_t predicted_count = c->predicted.count, count = redcoi_compare_ops_of(c, rank, step, &ops);
    const size_t most = (size_t)(predicted_count > count ? predicted_count : count) + 1;
    redcoi_op *const sorted = malloc(most * sizeof *sorted);
    uint32_t *const spans = malloc(most * sizeof *spans);
    redco_status st = sorted != NULL && spans != NULL ? REDCO_OK : redcoi_compare_out_of_memory(err);
    if (st != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < predicted_count; i++) { sorted[i] = c->predicted.ops[i]; }
    qsort(sorted, predicted_count, sizeof *sorted, compare_time);
    for (uint32_t i = 0; i < predicted_count; i++) { spans[i] = sorted[i].span; }
    st = find_path(sorted, predicted_count, spans, predicted_count, graph, &predicted, err);
    if (st != REDCO_OK) { goto out; }
    for (uint32_t i = 0; i < count; i++) { sorted[i] = ops[i]; }
    qsort(sorted, count, sizeof *sorted, compare_time);
    for (uint32_t i = 0; i < count; i++) {
        const uint32_t match = sorted[i].match;
        spans[i] = match != REDCOI_NONE ? c->predicted.ops[match].span : REDCOI_NONE;
    }
    st = find_path(sorted, count, spans, predicted_count, graph, &measured, err);
    if (st != REDCO_OK) { goto out; }
    for (uint32_t k = 0; k < c->kind_count; k++) {
        c->out->kinds[k].critical = (redco_compare_pair){predicted.by_kind_s[k], measured.by_kind_s[k]};
    }
    c->out->critical_idle = (redco_compare_pair){predicted.idle_s, measured.idle_s};
    c->out->critical_known = true;
out:
    free(sorted);
    free(spans);
    return st;
}
