/* Which measured operator is which predicted one. */
#include "traces/compare/compare_internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int compare_u32(uint32_t a, uint32_t b)
{
    return (a > b) - (a < b);
}

/* All of what makes an operator but which occurrence it is. */
static int compare_keys(const redcoi_op *x, const redcoi_op *y)
{
    if (x->rank != y->rank) { return compare_u32(x->rank, y->rank); }
    if (x->step != y->step) { return compare_u32(x->step, y->step); }
    if (x->name != y->name) { return strcmp(x->name, y->name); } /* kept once: not for equal texts */
    return compare_u32(x->micro_batch, y->micro_batch);
}

/* Occurrences in order of time. */
static int compare_ops(const void *a, const void *b)
{
    const redcoi_op *const x = a, *const y = b;
    const int key = compare_keys(x, y);
    if (key != 0) { return key; }
    if (x->start_s < y->start_s || x->start_s > y->start_s) { return x->start_s < y->start_s ? -1 : 1; }
    return compare_u32(x->span, y->span);
}

static void count_occurrences(redcoi_side *side)
{
    qsort(side->ops, side->count, sizeof *side->ops, compare_ops);
    for (uint32_t i = 0; i < side->count; i++) {
        redcoi_op *const op = &side->ops[i];
        op->occurrence = i > 0 && compare_keys(op - 1, op) == 0 ? op[-1].occurrence + 1 : 0;
    }
}

static uint32_t find(const redcoi_side *predicted, const redcoi_op *wanted)
{
    uint32_t low = 0, high = predicted->count;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const redcoi_op *const op = &predicted->ops[middle];
        int order = compare_keys(op, wanted);
        if (order == 0) { order = compare_u32(op->occurrence, wanted->occurrence); }
        if (order == 0) { return middle; }
        if (order < 0) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return REDCOI_NONE;
}

/* Without micro-batches on one side, operators are counted through. */
static void drop_micro_batches(redcoi_side *side)
{
    for (uint32_t i = 0; i < side->count; i++) { side->ops[i].micro_batch = REDCOI_NONE; }
}

static bool tells_micro_batches(const redcoi_side *side)
{
    for (uint32_t i = 0; i < side->count; i++) {
        if (side->ops[i].micro_batch != REDCOI_NONE) { return true; }
    }
    return false;
}

static redco_status foreign(const redcoi_compare *c, const redco_compare_source *predicted, redco_error *err)
{
    const char *const name = c->measured.ops[0].name, *const wanted = c->predicted.ops[0].name;
    static const char *const marks[] = {"aten::", "nccl", "cuda", "cu", "void ", "ProfilerStep", "autograd::"};
    const char *whose = "";
    for (uint32_t i = 0; i < c->measured.count && whose[0] == '\0'; i++) {
        for (size_t m = 0; m < sizeof marks / sizeof marks[0]; m++) {
            if (strncmp(c->measured.ops[i].name, marks[m], strlen(marks[m])) == 0) {
                whose = " It looks like a profile of PyTorch or CUDA.";
            }
        }
    }
    return redco_fail(
        err, REDCO_EVALUE, c->measured_sources[0].name,
        "none of its operators (\"%.60s\", ...) is one of %.120s (\"%.60s\", ...).%s A trace of this plan "
        "by redco-exec --timeline is needed",
        name, predicted->name, wanted, whose);
}

static void note_stream(redcoi_compare *c, const redcoi_op *op, const redcoi_op *predicted)
{
    if (op->stream == predicted->stream || c->out->other_stream++ > 0) { return; }
    (void)snprintf(c->out->other_stream_first, sizeof c->out->other_stream_first,
                   "%.70s on \"%.24s\" instead of \"%.24s\"", op->name, op->stream, predicted->stream);
}

static int compare_by_step(const void *a, const void *b)
{
    const redcoi_op *const x = a, *const y = b;
    if (x->rank != y->rank) { return compare_u32(x->rank, y->rank); }
    if (x->step != y->step) { return compare_u32(x->step, y->step); }
    if (x->start_s < y->start_s || x->start_s > y->start_s) { return x->start_s < y->start_s ? -1 : 1; }
    return compare_u32(x->span, y->span);
}

/* Kinds that are not predicted communicate where they are measured on another stream. */
static void place_kinds(redcoi_compare *c)
{
    bool predicted[REDCOI_KINDS] = {false};
    for (uint32_t i = 0; i < c->predicted.count; i++) { predicted[c->predicted.ops[i].kind] = true; }
    for (uint32_t i = 0; i < c->measured.count; i++) {
        const redcoi_op *const op = &c->measured.ops[i];
        if (op->kind == REDCOI_NONE || predicted[op->kind]) { continue; }
        if (strcmp(op->stream, "compute") != 0) { c->communicates[op->kind] = true; }
    }
}

/* Names of communication that is cut have numbers at their ends, "bwd/gradients/bucket.3": where both sides cut it
 * differently, no two pieces are the same, but all together are. @return the name without the number; NULL: it has none
 */
static const char *series_of(redcoi_compare *c, const char *name)
{
    const char *const dot = strrchr(name, '.');
    const bool numbered = dot != NULL && dot[1] != '\0' && dot[1 + strspn(dot + 1, "0123456789")] == '\0';
    return numbered ? redcoi_trace_keep(c->texts, name, (size_t)(dot - name)) : NULL;
}

/* One piece of a series. */
struct piece {
    const char *series;
    redcoi_op *op;
    uint32_t at; /* number of a predicted one among all */
};

static int compare_pieces(const void *a, const void *b)
{
    const struct piece *const x = a, *const y = b;
    if (x->op->rank != y->op->rank) { return compare_u32(x->op->rank, y->op->rank); }
    if (x->op->step != y->op->step) { return compare_u32(x->op->step, y->op->step); }
    if (x->series != y->series) { return strcmp(x->series, y->series); }
    if (x->op->start_s < y->op->start_s || x->op->start_s > y->op->start_s) {
        return x->op->start_s < y->op->start_s ? -1 : 1;
    }
    return compare_u32(x->op->span, y->op->span);
}

/* @param communicating  only kinds that do, as measured ones have no kind before they are matched */
static uint32_t list_pieces(redcoi_compare *c, redcoi_side *side, bool communicating, struct piece *pieces)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < side->count; i++) {
        redcoi_op *const op = &side->ops[i];
        if (communicating && (op->kind == REDCOI_NONE || !c->communicates[op->kind])) { continue; }
        const char *const series = series_of(c, op->name);
        if (series != NULL) { pieces[count++] = (struct piece){series, op, i}; }
    }
    if (count > 0) { qsort(pieces, count, sizeof *pieces, compare_pieces); }
    return count;
}

/* The predicted pieces of a series. @return how many, from @p first_out on */
static uint32_t find_series(const struct piece *pieces, uint32_t count, uint32_t rank, const char *series,
                            uint32_t *first_out)
{
    uint32_t first = 0, end = 0;
    while (first < count && (pieces[first].op->rank != rank || pieces[first].series != series)) { first++; }
    for (end = first; end < count && pieces[end].op->rank == rank && pieces[end].series == series;) { end++; }
    *first_out = first;
    return end - first;
}

/* Piece k of m goes with that of n which begins at the same share of the series. */
static void pair(redcoi_compare *c, const struct piece *measured, uint32_t m, const struct piece *predicted, uint32_t n)
{
    for (uint32_t k = 0; k < m; k++) {
        measured[k].op->match = predicted[(uint64_t)k * n / m].at;
        measured[k].op->kind = predicted[0].op->kind;
    }
    for (uint32_t k = 0; k < n; k++) { predicted[k].op->cut = true; }
    if (m > 0) { note_stream(c, measured[0].op, predicted[0].op); }
}

static redco_status pair_series(redcoi_compare *c, redco_error *err)
{
    struct piece *const predicted = malloc(((size_t)c->predicted.count + 1) * sizeof *predicted);
    struct piece *const measured = malloc(((size_t)c->measured.count + 1) * sizeof *measured);
    redco_status st = REDCO_OK;
    if (predicted == NULL || measured == NULL) {
        st = redcoi_compare_out_of_memory(err);
    } else {
        const uint32_t p_count = list_pieces(c, &c->predicted, true, predicted);
        const uint32_t m_count = p_count > 0 ? list_pieces(c, &c->measured, false, measured) : 0;
        for (uint32_t first = 0, end = 0; first < m_count; first = end) {
            const redcoi_op *const op = measured[first].op;
            bool whole = true;
            for (end = first; end < m_count && measured[end].op->rank == op->rank &&
                              measured[end].op->step == op->step && measured[end].series == measured[first].series;) {
                whole = whole && measured[end].op->match != REDCOI_NONE;
                end++;
            }
            uint32_t at = 0;
            const uint32_t n = find_series(predicted, p_count, c->ranks[op->rank].stage, measured[first].series, &at);
            if (n == 0 || (whole && n == end - first)) { continue; }
            pair(c, &measured[first], end - first, &predicted[at], n);
        }
    }
    free(predicted);
    free(measured);
    return st;
}

redco_status redcoi_compare_match(redcoi_compare *c, const redco_compare_source *predicted, redco_error *err)
{
    uint64_t matched = 0;
    if (c->measured.count == 0) {
        return redco_fail(err, REDCO_EVALUE, c->measured_sources[0].name, "has no operators in any step");
    }
    if (!tells_micro_batches(&c->measured) || !tells_micro_batches(&c->predicted)) {
        drop_micro_batches(&c->measured);
        drop_micro_batches(&c->predicted);
    }
    count_occurrences(&c->predicted);
    count_occurrences(&c->measured);
    for (uint32_t i = 0; i < c->measured.count; i++) {
        redcoi_op *const op = &c->measured.ops[i];
        redcoi_op wanted = *op;
        wanted.rank = c->ranks[op->rank].stage;
        wanted.step = 0;
        op->match = find(&c->predicted, &wanted);
        if (op->match == REDCOI_NONE) { continue; }
        op->kind = c->predicted.ops[op->match].kind;
        note_stream(c, op, &c->predicted.ops[op->match]);
        matched++;
    }
    if (matched == 0) { return foreign(c, predicted, err); }
    const redco_status st = pair_series(c, err);
    if (st != REDCO_OK) { return st; }
    place_kinds(c);
    qsort(c->measured.ops, c->measured.count, sizeof *c->measured.ops, compare_by_step);
    return REDCO_OK;
}

uint32_t redcoi_compare_ops_of(const redcoi_compare *c, uint32_t rank, uint32_t step, const redcoi_op **first_out)
{
    const redcoi_op *const ops = c->measured.ops;
    uint32_t low = 0, high = c->measured.count, count = 0;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const bool before = ops[middle].rank < rank || (ops[middle].rank == rank && ops[middle].step < step);
        if (before) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    *first_out = &ops[low];
    while (low + count < c->measured.count && ops[low + count].rank == rank && ops[low + count].step == step) {
        count++;
    }
    return count;
}
