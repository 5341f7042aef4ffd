/* Sums over operators: by kind, and by name without the numbers in it. */
#include "traces/compare/compare_internal.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST_NAME = 512 };

/* Numbers behind a dot become "*": layers, buckets and stages are taken together. */
static const char *group_name(redcoi_compare *c, const char *name)
{
    char text[LONGEST_NAME];
    size_t used = 0;
    for (const char *at = name; *at != '\0' && used + 2 < sizeof text;) {
        const size_t digits = *at == '.' ? strspn(at + 1, "0123456789") : 0;
        text[used++] = *at++;
        if (digits == 0 || (at[digits] != '\0' && at[digits] != '/')) { continue; }
        text[used++] = '*';
        at += digits;
    }
    return redcoi_trace_keep(c->texts, text, used);
}

/* From kept texts to rows. */
struct rows {
    redco_compare_operator *items;
    uint32_t count;
    const char **keys; /* hash table: name of an operator */
    uint32_t *values;
    uint32_t capacity; /* a power of two */
};

/* Names and groups are texts: no more of either than there are texts now. */
static redco_status make_rows(struct rows *rows, const redco_trace *texts, redco_error *err)
{
    const uint32_t most = texts->texts.count;
    if (most > UINT32_MAX / 8) { return redcoi_compare_out_of_memory(err); }
    for (rows->capacity = 64; rows->capacity < 4 * most;) { rows->capacity *= 2; }
    rows->items = calloc((size_t)most + 1, sizeof *rows->items);
    rows->keys = calloc(rows->capacity, sizeof *rows->keys);
    rows->values = calloc(rows->capacity, sizeof *rows->values);
    return rows->items != NULL && rows->keys != NULL && rows->values != NULL ? REDCO_OK
                                                                             : redcoi_compare_out_of_memory(err);
}

static uint32_t *slot(struct rows *rows, const char *key)
{
    uint32_t at = (uint32_t)(((uintptr_t)key >> 4) * UINT32_C(2654435769)) & (rows->capacity - 1);
    while (rows->keys[at] != NULL && rows->keys[at] != key) { at = (at + 1) & (rows->capacity - 1); }
    return &rows->values[at];
}

/* Two look-ups: names lead to groups, groups to rows. Values are a row's index plus one. */
static redco_compare_operator *row_of(redcoi_compare *c, struct rows *rows, const char *name)
{
    uint32_t *const known = slot(rows, name);
    if (*known != 0) { return &rows->items[*known - 1]; }
    const char *const group = group_name(c, name);
    uint32_t *const of_group = slot(rows, group);
    if (*of_group == 0) {
        rows->keys[of_group - rows->values] = group;
        *of_group = ++rows->count;
        rows->items[*of_group - 1].name = group;
    }
    const uint32_t value = *of_group;
    uint32_t *const place = slot(rows, name);
    rows->keys[place - rows->values] = name;
    *place = value;
    return &rows->items[value - 1];
}

static int compare_matches(const void *a, const void *b)
{
    const redcoi_op *const x = *(const redcoi_op *const *)a, *const y = *(const redcoi_op *const *)b;
    if (x->match != y->match) { return x->match < y->match ? -1 : 1; }
    if (x->rank != y->rank) { return x->rank < y->rank ? -1 : 1; }
    if (x->step != y->step) { return x->step < y->step ? -1 : 1; }
    return (x->span > y->span) - (x->span < y->span);
}

/* Seconds of one predicted operator in the median step, on average of ranks. */
struct reading {
    double seconds;
    uint32_t found; /* ranks and steps */
};

static struct reading read_matches(const redcoi_compare *c, const redcoi_op *const *ops, uint32_t count, uint32_t ranks)
{
    struct reading reading = {.found = count};
    for (uint32_t i = 0; i < count; i++) {
        reading.seconds += c->step_weights[ops[i]->step] * (ops[i]->end_s - ops[i]->start_s) / ranks;
    }
    return reading;
}

static void add_predicted(redcoi_compare *c, struct rows *rows, const redcoi_op *op, const struct reading *reading,
                          uint32_t expected)
{
    const double stages = c->predicted.rank_count, predicted_s = (op->end_s - op->start_s) / stages;
    redco_compare_kind *const kind = &c->out->kinds[op->kind];
    redco_compare_operator *const row = row_of(c, rows, op->name);
    const uint32_t missing = op->cut ? 0 : expected - reading->found;
    kind->predicted_count++;
    kind->total.predicted_s += predicted_s;
    kind->total.measured_s += reading->seconds / stages;
    row->predicted_count++;
    row->total.predicted_s += predicted_s;
    row->total.measured_s += reading->seconds / stages;
    c->out->matched += reading->found;
    c->out->missing += missing;
    if (missing == 0) { return; }
    row->missing_count++;
    row->missing_s += predicted_s * missing / expected;
}

/* Measured operators that nothing predicts. */
static void add_extras(redcoi_compare *c, struct rows *rows, const redcoi_op *const *ops, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        const double weight = c->step_weights[ops[i]->step] / c->measured.rank_count;
        const double took_s = weight * (ops[i]->end_s - ops[i]->start_s);
        redco_compare_operator *const row = row_of(c, rows, ops[i]->name);
        c->out->extra++;
        row->extra_count++;
        row->extra_s += took_s;
        row->total.measured_s += took_s;
        c->out->kinds[ops[i]->kind].total.measured_s += took_s;
    }
}

static double difference_s(const redco_compare_operator *row)
{
    return fabs(row->total.predicted_s - row->total.measured_s);
}

static int compare_rows(const void *a, const void *b)
{
    const redco_compare_operator *const x = a, *const y = b;
    const double first = difference_s(x), second = difference_s(y);
    if (first < second || first > second) { return first > second ? -1 : 1; }
    return strcmp(x->name, y->name);
}

/* Operators of steps that count; those that match first, in the order of what they match. */
static uint32_t list_counted(const redcoi_compare *c, const redcoi_op **out)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < c->measured.count; i++) {
        const redcoi_op *const op = &c->measured.ops[i];
        if (c->step_counts[op->step] && op->kind != REDCOI_NONE && !op->receives) { out[count++] = op; }
    }
    if (count > 0) { qsort(out, count, sizeof *out, compare_matches); }
    return count;
}

/* Counts the ranks of each stage. */
static uint32_t ranks_of_stage(const redcoi_compare *c, uint32_t stage)
{
    uint32_t ranks = 0;
    for (uint32_t r = 0; r < c->measured.rank_count; r++) { ranks += c->ranks[r].stage == stage ? 1 : 0; }
    return ranks;
}

/* Measured operators of a kind or row, of a rank and step. */
static void count_measured(redcoi_compare *c, struct rows *rows, const redcoi_op *const *ops, uint32_t count)
{
    const uint64_t share = (uint64_t)c->measured.rank_count / c->predicted.rank_count * c->counted_steps;
    assert(share > 0); /* as many ranks as stages or more, and a step counts */
    for (uint32_t i = 0; i < count; i++) {
        c->out->kinds[ops[i]->kind].measured_count++;
        row_of(c, rows, ops[i]->name)->measured_count++;
    }
    for (uint32_t k = 0; k < c->kind_count; k++) {
        uint64_t *const of_kind = &c->out->kinds[k].measured_count;
        *of_kind = (*of_kind + share / 2) / share;
    }
    for (uint32_t r = 0; r < rows->count; r++) {
        redco_compare_operator *const row = &rows->items[r];
        row->measured_count = (row->measured_count + share / 2) / share;
        row->extra_count = (row->extra_count + share - 1) / share;
    }
}

static void add_all(redcoi_compare *c, struct rows *rows, const redcoi_op **ops)
{
    const uint32_t count = list_counted(c, ops), ranks = ranks_of_stage(c, 0), expected = ranks * c->counted_steps;
    uint32_t at = 0;
    for (uint32_t p = 0; p < c->predicted.count; p++) {
        const uint32_t first = at;
        while (at < count && ops[at]->match == p) { at++; }
        const struct reading reading = read_matches(c, &ops[first], at - first, ranks);
        add_predicted(c, rows, &c->predicted.ops[p], &reading, expected);
    }
    add_extras(c, rows, &ops[at], count - at);
    count_measured(c, rows, ops, count);
}

redco_status redcoi_compare_totals(redcoi_compare *c, redco_error *err)
{
    struct rows rows = {.count = 0};
    const redcoi_op **const ops = malloc(((size_t)c->measured.count + 1) * sizeof *ops);
    redco_status st = ops != NULL ? REDCO_OK : redcoi_compare_out_of_memory(err);
    if (st == REDCO_OK) { st = make_rows(&rows, c->texts, err); }
    if (st == REDCO_OK) {
        add_all(c, &rows, ops);
        qsort(rows.items, rows.count, sizeof *rows.items, compare_rows);
        c->out->operators = rows.items;
        c->out->operator_count = rows.count;
        rows.items = NULL;
    }
    free(rows.items);
    free(rows.keys);
    free(rows.values);
    free(ops);
    return st;
}
