/* Operators of two traces: ranks, steps, kinds, and which are the same. */
#include "traces/compare/compare_internal.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char compute_stream[] = "compute";
/* Times of files are rounded to nanoseconds. */
static const double rounding_s = 2e-9;

double redcoi_compare_arg(const redco_trace *trace, uint32_t first, uint32_t count, const char *key)
{
    uint32_t all = 0;
    const redco_trace_arg *const args = redco_trace_args(trace, &all);
    for (uint32_t i = first; i < first + count; i++) {
        if (args[i].text == NULL && strcmp(args[i].key, key) == 0) { return args[i].number; }
    }
    return (double)NAN;
}

static const char *keep(redcoi_compare *c, const char *text)
{
    return redcoi_trace_keep(c->texts, text, strlen(text));
}

/* A small whole number from 0 on, else REDCOI_NONE. */
static uint32_t index_arg(const redco_trace *trace, const redco_trace_span *span, const char *key)
{
    const double number = redcoi_compare_arg(trace, span->first_arg, span->arg_count, key);
    return number >= 0.0 && number < 1e9 ? (uint32_t)number : REDCOI_NONE;
}

static uint32_t kind_of(const redcoi_compare *c, const char *category)
{
    for (uint32_t k = 0; k < c->kind_count; k++) {
        if (strcmp(c->kinds[k], category) == 0) { return k; }
    }
    return REDCOI_NONE;
}

static int compare_threads(const void *a, const void *b)
{
    const redco_trace_thread *const x = a, *const y = b;
    if (x->process != y->process) { return x->process < y->process ? -1 : 1; }
    return (x->thread > y->thread) - (x->thread < y->thread);
}

/* Names of streams by process and thread. */
struct streams {
    redco_trace_thread *sorted;
    uint32_t count;
};

static redco_status sort_streams(redcoi_compare *c, const redco_trace *trace, struct streams *streams, redco_error *err)
{
    const redco_trace_thread *const threads = redco_trace_threads(trace, &streams->count);
    streams->sorted = malloc(((size_t)streams->count + 1) * sizeof *streams->sorted);
    if (streams->sorted == NULL) { return redcoi_compare_out_of_memory(err); }
    for (uint32_t i = 0; i < streams->count; i++) {
        streams->sorted[i] = threads[i];
        streams->sorted[i].name = keep(c, threads[i].name);
    }
    qsort(streams->sorted, streams->count, sizeof *streams->sorted, compare_threads);
    return REDCO_OK;
}

static const char *stream_of(const struct streams *streams, const redco_trace_span *span)
{
    const redco_trace_thread key = {.process = span->process, .thread = span->thread};
    const redco_trace_thread *const found =
        streams->count > 0 ? bsearch(&key, streams->sorted, streams->count, sizeof *streams->sorted, compare_threads)
                           : NULL;
    return found != NULL ? found->name : "";
}

static int compare_u32(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

/* Distinct processes that have spans, ascending. @param out  room for all spans. @return their number */
static uint32_t list_processes(const redco_trace *trace, uint32_t *out)
{
    uint32_t count = 0, distinct = 0;
    const redco_trace_span *const spans = redco_trace_spans(trace, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (distinct == 0 || out[distinct - 1] != spans[i].process) { out[distinct++] = spans[i].process; }
    }
    qsort(out, distinct, sizeof *out, compare_u32);
    count = distinct;
    distinct = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (distinct == 0 || out[distinct - 1] != out[i]) { out[distinct++] = out[i]; }
    }
    return distinct;
}

static bool receives(const redco_trace_span *span)
{
    static const char end[] = "/receive";
    const size_t length = strlen(span->name), least = sizeof end - 1;
    return strcmp(span->category, "pipeline") == 0 && length > least && strcmp(span->name + length - least, end) == 0;
}

/* Adds the spans of a trace. @param first_rank  of its processes, in order */
static redco_status add_ops(redcoi_compare *c, redcoi_side *side, const redco_trace *trace, const uint32_t *processes,
                            uint32_t process_count, uint32_t first_rank, redco_error *err)
{
    struct streams streams = {NULL, 0};
    uint32_t count = 0;
    const redco_trace_span *const spans = redco_trace_spans(trace, &count);
    redco_status st = sort_streams(c, trace, &streams, err);
    for (uint32_t i = 0; i < count && st == REDCO_OK; i++) {
        const redco_trace_span *const s = &spans[i];
        const uint32_t *const process = bsearch(&s->process, processes, process_count, sizeof *processes, compare_u32);
        side->ops[side->count++] = (redcoi_op){.name = keep(c, s->name),
                                               .stream = stream_of(&streams, s),
                                               .start_s = s->start_s,
                                               .end_s = s->start_s + s->duration_s,
                                               .span = i,
                                               .rank = first_rank + (uint32_t)(process - processes),
                                               .step = index_arg(trace, s, "step"),
                                               .micro_batch = index_arg(trace, s, "micro_batch"),
                                               .match = REDCOI_NONE,
                                               .receives = receives(s),
                                               .kind = kind_of(c, s->category)};
    }
    free(streams.sorted);
    return st;
}

static const char *process_name(redcoi_compare *c, const redco_trace *trace, uint32_t process)
{
    const char *const rank = redco_trace_note(trace, "rank");
    uint32_t count = 0;
    if (rank != NULL) {
        char name[64];
        (void)snprintf(name, sizeof name, "rank %.50s", rank);
        return keep(c, name);
    }
    const redco_trace_thread *const processes = redco_trace_processes(trace, &count);
    for (uint32_t i = 0; i < count; i++) {
        if (processes[i].process == process) { return keep(c, processes[i].name); }
    }
    return "";
}

static redco_status collect_predicted(redcoi_compare *c, const redco_compare_source *predicted, redco_error *err)
{
    uint32_t count = 0;
    const redco_trace_span *const spans = redco_trace_spans(predicted->trace, &count);
    uint32_t *const processes = malloc(((size_t)count + 1) * sizeof *processes);
    redcoi_side *const side = &c->predicted;
    redco_status st = REDCO_OK;
    side->ops = calloc((size_t)count + 1, sizeof *side->ops);
    if (processes == NULL || side->ops == NULL) {
        st = redcoi_compare_out_of_memory(err);
        goto out;
    }
    side->rank_count = list_processes(predicted->trace, processes);
    side->step_count = 1;
    c->out->stages = calloc((size_t)side->rank_count + 1, sizeof *c->out->stages);
    if (c->out->stages == NULL) {
        st = redcoi_compare_out_of_memory(err);
        goto out;
    }
    if ((st = add_ops(c, side, predicted->trace, processes, side->rank_count, 0, err)) != REDCO_OK) { goto out; }
    for (uint32_t r = 0; r < side->rank_count; r++) {
        c->out->stages[r].name = process_name(c, predicted->trace, processes[r]);
    }
    for (uint32_t i = 0; i < count; i++) {
        redcoi_op *const op = &side->ops[i];
        assert(op->stream != NULL); /* add_ops() took every span */
        op->step = 0;
        if (op->kind == REDCOI_NONE) { op->kind = kind_of(c, spans[i].category); } /* one before it may have added it */
        if (op->kind == REDCOI_NONE && c->kind_count < REDCOI_KINDS) {
            c->kinds[c->kind_count] = keep(c, spans[i].category);
            op->kind = c->kind_count++;
        }
        if (op->kind == REDCOI_NONE) { op->kind = REDCOI_KINDS - 1; }
        if (strcmp(op->stream, compute_stream) != 0) { c->communicates[op->kind] = true; }
    }
    if (count == 0) { st = redco_fail(err, REDCO_EVALUE, predicted->name, "the prediction has no operators"); }
out:
    free(processes);
    return st;
}

static int compare_ranks(const void *a, const void *b)
{
    const redcoi_rank *const x = *(const redcoi_rank *const *)a, *const y = *(const redcoi_rank *const *)b;
    if (x->process != y->process) { return x->process < y->process ? -1 : 1; }
    return strcmp(x->name, y->name);
}

enum { MOST_RANKS = 8192 };

/* Stages of a pipeline are the outermost order of ranks. */
static redco_status place_ranks(redcoi_compare *c, redco_error *err)
{
    const uint32_t ranks = c->measured.rank_count, stages = c->predicted.rank_count;
    redcoi_rank **const sorted = malloc(((size_t)ranks + 1) * sizeof *sorted);
    redco_status st = REDCO_OK;
    if (sorted == NULL) { return redcoi_compare_out_of_memory(err); }
    for (uint32_t r = 0; r < ranks; r++) { sorted[r] = &c->ranks[r]; }
    qsort(sorted, ranks, sizeof *sorted, compare_ranks);
    if (ranks % stages != 0) {
        st = redco_fail(err, REDCO_EVALUE, c->measured_sources[0].name,
                        "has spans of %u ranks; the plan's %u pipeline stages need as many each", ranks, stages);
    }
    for (uint32_t r = 0; r < ranks && st == REDCO_OK; r++) {
        sorted[r]->stage = r / (ranks / stages);
        if (r == 0 || compare_ranks(&sorted[r - 1], &sorted[r]) != 0) { continue; }
        st = redco_fail(err, REDCO_EVALUE, c->measured_sources[sorted[r]->file].name,
                        "has process %u (\"%.60s\"), as has %.200s: each rank may be there once", sorted[r]->process,
                        sorted[r]->name, c->measured_sources[sorted[r - 1]->file].name);
    }
    free(sorted);
    return st;
}

static redco_status collect_measured(redcoi_compare *c, redco_error *err)
{
    size_t all = 0;
    uint32_t *processes = NULL;
    redco_status st = REDCO_OK;
    for (uint32_t f = 0; f < c->source_count; f++) {
        uint32_t count = 0;
        (void)redco_trace_spans(c->measured_sources[f].trace, &count);
        all += count;
        if (count == 0) {
            return redco_fail(err, REDCO_EVALUE, c->measured_sources[f].name,
                              "has no spans (events whose \"ph\" is \"X\"): nothing to compare");
        }
    }
    if (all > UINT32_MAX / 2) {
        return redco_fail(err, REDCO_EVALUE, c->measured_sources[0].name, "the traces have more than %u spans",
                          UINT32_MAX / 2);
    }
    c->measured.ops = calloc(all + 1, sizeof *c->measured.ops);
    c->ranks = calloc(MOST_RANKS, sizeof *c->ranks);
    processes = malloc((all + 1) * sizeof *processes);
    if (c->measured.ops == NULL || c->ranks == NULL || processes == NULL) { st = redcoi_compare_out_of_memory(err); }
    for (uint32_t f = 0; f < c->source_count && st == REDCO_OK; f++) {
        const redco_trace *const trace = c->measured_sources[f].trace;
        const uint32_t first = c->measured.rank_count, count = list_processes(trace, processes);
        if (first + count > MOST_RANKS) {
            st = redco_fail(err, REDCO_EVALUE, c->measured_sources[f].name, "more than %d ranks", MOST_RANKS);
            break;
        }
        for (uint32_t p = 0; p < count; p++) {
            c->ranks[first + p] = (redcoi_rank){f, processes[p], 0, process_name(c, trace, processes[p])};
        }
        c->measured.rank_count += count;
        st = add_ops(c, &c->measured, trace, processes, count, first, err);
    }
    free(processes);
    return st == REDCO_OK ? place_ranks(c, err) : st;
}

static int compare_by_rank_time(const void *a, const void *b)
{
    const redcoi_op *const x = a, *const y = b;
    if (x->rank != y->rank) { return x->rank < y->rank ? -1 : 1; }
    if (x->start_s < y->start_s || x->start_s > y->start_s) { return x->start_s < y->start_s ? -1 : 1; }
    return (x->span > y->span) - (x->span < y->span);
}

/* Steps of one rank's operators, which are in order of time: behind the last of "step/..." a "fwd/..." begins the next.
 * Launches of collectives may belong to either. */
static void infer_steps(redcoi_op *ops, uint32_t count)
{
    double ended_s = -INFINITY; /* end of the "step/..." seen last; nothing: -INFINITY */
    uint32_t step = 0, next = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (strcmp(ops[i].stream, compute_stream) != 0) { continue; }
        const bool closes = strncmp(ops[i].name, "step/", 5) == 0 && strcmp(ops[i].name, "step/launch") != 0;
        if (closes) { ended_s = fmax(ended_s, ops[i].end_s); }
        if (strncmp(ops[i].name, "fwd/", 4) != 0 || ended_s < -1e300) { continue; }
        for (; next < count && ops[next].start_s < ended_s - rounding_s; next++) { ops[next].step = step; }
        step++;
        ended_s = -INFINITY;
    }
    for (; next < count; next++) { ops[next].step = step; }
}

static int compare_u64(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Numbers of steps become indices; operators outside of all steps are dropped. */
static redco_status number_steps(redcoi_compare *c, redco_error *err)
{
    redcoi_side *const side = &c->measured;
    uint32_t kept = 0, count = 0;
    c->step_numbers = malloc(((size_t)side->count + 1) * sizeof *c->step_numbers);
    if (c->step_numbers == NULL) { return redcoi_compare_out_of_memory(err); }
    for (uint32_t i = 0; i < side->count; i++) {
        if (side->ops[i].step == REDCOI_NONE) { continue; }
        side->ops[kept++] = side->ops[i];
        if (count == 0 || c->step_numbers[count - 1] != side->ops[i].step) {
            c->step_numbers[count++] = side->ops[i].step;
        }
    }
    side->count = kept;
    qsort(c->step_numbers, count, sizeof *c->step_numbers, compare_u64);
    for (uint32_t i = 0; i < count; i++) {
        if (i == 0 || c->step_numbers[i] != c->step_numbers[side->step_count - 1]) {
            c->step_numbers[side->step_count++] = c->step_numbers[i];
        }
    }
    for (uint32_t i = 0; i < kept; i++) {
        const uint64_t number = side->ops[i].step;
        const uint64_t *const at =
            bsearch(&number, c->step_numbers, side->step_count, sizeof *c->step_numbers, compare_u64);
        side->ops[i].step = (uint32_t)(at - c->step_numbers);
    }
    return REDCO_OK;
}

static void find_steps(redcoi_compare *c)
{
    redcoi_side *const side = &c->measured;
    qsort(side->ops, side->count, sizeof *side->ops, compare_by_rank_time);
    for (uint32_t first = 0, last = 0; first < side->count; first = last) {
        bool numbered = false;
        for (last = first; last < side->count && side->ops[last].rank == side->ops[first].rank; last++) {
            numbered = numbered || side->ops[last].step != REDCOI_NONE;
        }
        if (!numbered) { infer_steps(&side->ops[first], last - first); }
    }
}

redco_status redcoi_compare_collect(redcoi_compare *c, const redco_compare_source *predicted, const char *const *kinds,
                                    redco_error *err)
{
    for (; c->kind_count < REDCOI_KINDS - 1 && kinds[c->kind_count] != NULL; c->kind_count++) {
        c->kinds[c->kind_count] = keep(c, kinds[c->kind_count]);
    }
    redco_status st = collect_predicted(c, predicted, err);
    if (st == REDCO_OK) { st = collect_measured(c, err); }
    if (st != REDCO_OK) { return st; }
    c->launch = kind_of(c, "launch");
    c->overhead = kind_of(c, "overhead");
    c->pipeline = kind_of(c, "pipeline");
    find_steps(c);
    return number_steps(c, err);
}
