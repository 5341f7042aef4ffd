/* A measured timeline made one that can be drawn. */
#include "traces/trace_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

struct mending {
    double resolution_s;
    redco_trace_mend_report *report;
};

/* @param by_s  how far it is off; first and second are what the report names */
static void note(const struct mending *m, const char *first, const char *second, const char *how, double by_s)
{
    redco_trace_mend_report *const r = m->report;
    r->mended++;
    if (by_s <= m->resolution_s) { return; }
    if (r->beyond++ == 0) {
        (void)snprintf(r->first, sizeof r->first, "%.120s %s %.120s by %.3g s", first, how, second, by_s);
    }
}

/* Clocks that disagree by an instant: nothing begins before the trace, or ends before it begins. */
static void mend_times(redco_trace *trace, const struct mending *m)
{
    redco_trace_span *const spans = trace->spans.items;
    for (uint32_t i = 0; i < trace->spans.count; i++) {
        redco_trace_span *const s = &spans[i];
        if (s->start_s < 0.0) {
            note(m, s->name, "the trace", "begins before", -s->start_s);
            s->duration_s += s->start_s;
            s->start_s = 0.0;
        }
        if (s->duration_s < 0.0) {
            note(m, s->name, "itself", "ends before", -s->duration_s);
            s->duration_s = 0.0;
        }
    }
}

static void cut_at(redco_trace_span *span, double end_s)
{
    const int64_t end = redcoi_trace_ns(end_s);
    span->duration_s = end_s - span->start_s;
    if (redcoi_trace_ns(span->start_s + span->duration_s) > end) { span->duration_s -= 1e-9; }
    if (span->duration_s < 0.0) { span->duration_s = 0.0; }
}

/* As redco_trace_check() looks: each open span that ends inside of the next one ends where that begins. */
static redco_status mend_nesting(redco_trace *trace, const struct mending *m, redco_error *err)
{
    const uint32_t count = trace->spans.count;
    redco_trace_span *const spans = trace->spans.items;
    redco_trace_span **const sorted = malloc((count > 0 ? count : 1) * sizeof *sorted);
    uint32_t *const open = malloc((count > 0 ? count : 1) * sizeof *open);
    redco_status st = REDCO_OK;
    uint32_t depth = 0;
    if (sorted == NULL || open == NULL) {
        st = redco_fail(err, REDCO_ENOMEM, "", "out of memory");
        goto out;
    }
    for (uint32_t i = 0; i < count; i++) { sorted[i] = &spans[i]; }
    qsort(sorted, count, sizeof *sorted, redcoi_trace_compare_nesting);
    for (uint32_t i = 0; i < count; i++) {
        const redco_trace_span *const s = sorted[i];
        const double end_s = s->start_s + s->duration_s;
        while (depth > 0) {
            redco_trace_span *const top = sorted[open[depth - 1]];
            const bool same = top->process == s->process && top->thread == s->thread;
            const double top_end_s = top->start_s + top->duration_s;
            if (same && redcoi_trace_ns(s->start_s) < redcoi_trace_ns(top_end_s)) {
                if (redcoi_trace_ns(end_s) <= redcoi_trace_ns(top_end_s)) { break; }
                note(m, s->name, top->name, "overlaps", top_end_s - s->start_s);
                cut_at(top, s->start_s);
            }
            depth--;
        }
        open[depth++] = i;
    }
out:
    free(sorted);
    free(open);
    return st;
}

/* An arrow that would go back in time is left out. */
static void mend_flows(redco_trace *trace, const struct mending *m)
{
    const redco_trace_span *const spans = trace->spans.items;
    redco_trace_flow *const flows = trace->flows.items;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < trace->flows.count; i++) {
        const redco_trace_flow f = flows[i];
        const bool known = f.from < trace->spans.count && f.to < trace->spans.count;
        if (known && redcoi_trace_ns(spans[f.from].start_s) > redcoi_trace_ns(spans[f.to].start_s)) {
            note(m, spans[f.to].name, spans[f.from].name, "begins before what it waits for,",
                 spans[f.from].start_s - spans[f.to].start_s);
            continue;
        }
        flows[kept++] = f;
    }
    trace->flows.count = kept;
}

redco_status redco_trace_mend(redco_trace *trace, double resolution_s, redco_trace_mend_report *report_out,
                              redco_error *err)
{
    const struct mending m = {resolution_s, report_out};
    *report_out = (redco_trace_mend_report){.mended = 0};
    if (trace->failed) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    mend_times(trace, &m);
    const redco_status st = mend_nesting(trace, &m, err);
    if (st == REDCO_OK) { mend_flows(trace, &m); }
    return st;
}
