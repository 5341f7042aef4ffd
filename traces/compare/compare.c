#include "traces/compare/compare_internal.h"

#include <math.h>
#include <stdlib.h>

double redco_compare_error(double predicted, double measured)
{
    return measured > 0.0 ? predicted / measured - 1.0 : (double)NAN;
}

void redco_comparison_free(redco_comparison *comparison)
{
    if (comparison == NULL) { return; }
    free(comparison->kinds);
    free(comparison->operators);
    free(comparison->memory.categories);
    free(comparison->ranks);
    free(comparison->stages);
    free(comparison->steps);
    redco_trace_free(comparison->texts);
    free(comparison);
}

/* Room for what is known by number before it is filled in. */
static redco_status make_rows(redcoi_compare *c, redco_error *err)
{
    redco_comparison *const out = c->out;
    out->kinds = calloc(REDCOI_KINDS, sizeof *out->kinds);
    out->ranks = calloc((size_t)c->measured.rank_count + 1, sizeof *out->ranks);
    out->steps = calloc((size_t)c->measured.step_count + 1, sizeof *out->steps);
    if (out->kinds == NULL || out->ranks == NULL || out->steps == NULL) { return redcoi_compare_out_of_memory(err); }
    for (uint32_t r = 0; r < c->measured.rank_count; r++) {
        out->ranks[r] =
            (redco_compare_rank){.name = c->ranks[r].name, .process = c->ranks[r].process, .file = c->ranks[r].file};
    }
    out->rank_count = c->measured.rank_count;
    out->step_count = c->measured.step_count;
    out->stage_count = c->predicted.rank_count > 1 ? c->predicted.rank_count : 0;
    return REDCO_OK;
}

/* Kinds without operators say nothing. */
static void close_kinds(redcoi_compare *c)
{
    redco_comparison *const out = c->out;
    for (uint32_t k = 0; k < c->kind_count; k++) {
        redco_compare_kind kind = out->kinds[k];
        if (kind.predicted_count == 0 && kind.measured_count == 0 && !(kind.total.measured_s > 0.0)) { continue; }
        kind.name = c->kinds[k];
        kind.communicates = c->communicates[k];
        out->kinds[out->kind_count++] = kind;
    }
}

static redco_status compare(redcoi_compare *c, const redco_compare_source *predicted, const char *const *kinds,
                            const redco_compare_graph *graph, redco_error *err)
{
    uint32_t rank = 0, step = 0;
    redco_status st = redcoi_compare_collect(c, predicted, kinds, err);
    if (st != REDCO_OK || (st = redcoi_compare_match(c, predicted, err)) != REDCO_OK ||
        (st = make_rows(c, err)) != REDCO_OK || (st = redcoi_compare_times(c, &rank, &step, err)) != REDCO_OK ||
        (st = redcoi_compare_totals(c, err)) != REDCO_OK ||
        (st = redcoi_compare_memory(c, predicted->trace, err)) != REDCO_OK) {
        return st;
    }
    if (graph != NULL && c->predicted.rank_count == 1) {
        if ((st = redcoi_compare_critical(c, graph, rank, step, err)) != REDCO_OK) { return st; }
    }
    c->out->counted_steps = c->counted_steps;
    close_kinds(c);
    return c->texts->failed ? redcoi_compare_out_of_memory(err) : REDCO_OK;
}

redco_status redco_trace_compare(const redco_compare_source *predicted, const redco_compare_source *measured,
                                 uint32_t measured_count, const char *const *kinds, const redco_compare_graph *graph,
                                 redco_comparison **comparison_out, redco_error *err)
{
    redcoi_compare c = {.measured_sources = measured,
                        .source_count = measured_count,
                        .texts = redco_trace_new(),
                        .out = calloc(1, sizeof *c.out)};
    redco_status st = c.texts != NULL && c.out != NULL ? REDCO_OK : redcoi_compare_out_of_memory(err);
    if (st == REDCO_OK) { st = compare(&c, predicted, kinds, graph, err); }
    free(c.predicted.ops);
    free(c.measured.ops);
    free(c.ranks);
    free(c.step_numbers);
    free(c.step_counts);
    free(c.step_weights);
    if (st != REDCO_OK) {
        redco_trace_free(c.texts);
        redco_comparison_free(c.out);
        return st;
    }
    c.out->texts = c.texts;
    *comparison_out = c.out;
    return REDCO_OK;
}
