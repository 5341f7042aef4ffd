#include "traces/statistics.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct pair {
    size_t group;
    double measured, predicted;
    size_t row;
};

static redco_status check_values(const double *measured, const double *predicted, size_t count, redco_error *err)
{
    for (size_t i = 0; i < count; i++) {
        const double values[] = {measured[i], predicted[i]};
        for (size_t k = 0; k < 2; k++) {
            if (!isfinite(values[k]) || values[k] <= 0.0) {
                return redco_fail(err, REDCO_EVALUE, "", "row %zu: %s value %g is not a positive number", i + 1,
                                  k == 0 ? "measured" : "predicted", values[k]);
            }
        }
    }
    return REDCO_OK;
}

static int ascending(const void *left, const void *right)
{
    const double a = *(const double *)left;
    const double b = *(const double *)right;
    return (a > b) - (a < b);
}

/* Percentile of @p count >= 1 sorted values. */
static double percentile(const double *sorted, size_t count, double ratio)
{
    const double rank = ratio * (double)(count - 1);
    const size_t below = (size_t)rank;
    const size_t above = below + 1 < count ? below + 1 : below;
    return sorted[below] + (rank - (double)below) * (sorted[above] - sorted[below]);
}

redco_status redco_error_summarise(const double *measured, const double *predicted, size_t count,
                                   redco_error_summary *summary_out, redco_error *err)
{
    double bias = 0.0;
    double mape = 0.0;
    const redco_status st = check_values(measured, predicted, count, err);
    if (st != REDCO_OK) { return st; }
    if (count == 0) {
        *summary_out = (redco_error_summary){.count = 0};
        return REDCO_OK;
    }
    double *const errors = calloc(count, sizeof *errors);
    if (errors == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < count; i++) {
        const double error = predicted[i] / measured[i] - 1.0;
        if (!isfinite(error)) {
            free(errors);
            return redco_fail(err, REDCO_EVALUE, "", "row %zu: predicted %g and measured %g are too far apart", i + 1,
                              predicted[i], measured[i]);
        }
        errors[i] = fabs(error);
        bias += error / (double)count;
        mape += errors[i] / (double)count;
    }
    qsort(errors, count, sizeof *errors, ascending);
    *summary_out = (redco_error_summary){.count = count,
                                         .mape_ratio = mape,
                                         .median_ape_ratio = percentile(errors, count, 0.5),
                                         .p90_ape_ratio = percentile(errors, count, 0.9),
                                         .bias_ratio = bias};
    free(errors);
    return REDCO_OK;
}

static int by_group(const void *left, const void *right)
{
    const struct pair *const a = left;
    const struct pair *const b = right;
    if (a->group != b->group) { return a->group < b->group ? -1 : 1; }
    if (a->measured != b->measured) { return a->measured < b->measured ? -1 : 1; }
    if (a->predicted != b->predicted) { return a->predicted < b->predicted ? -1 : 1; }
    return (a->row > b->row) - (a->row < b->row);
}

/* Rows sorted by group, measured, predicted; to be freed. */
static redco_status sort_pairs(const double *measured, const double *predicted, const size_t *groups, size_t count,
                               struct pair **pairs_out, redco_error *err)
{
    const redco_status st = check_values(measured, predicted, count, err);
    if (st != REDCO_OK) { return st; }
    struct pair *const pairs = calloc(count + 1, sizeof *pairs);
    if (pairs == NULL) { return redco_fail(err, REDCO_ENOMEM, "", "out of memory"); }
    for (size_t i = 0; i < count; i++) {
        pairs[i] = (struct pair){groups != NULL ? groups[i] : 0, measured[i], predicted[i], i};
    }
    qsort(pairs, count, sizeof *pairs, by_group);
    *pairs_out = pairs;
    return REDCO_OK;
}

static size_t group_end(const struct pair *pairs, size_t begin, size_t count)
{
    size_t end = begin + 1;
    while (end < count && pairs[end].group == pairs[begin].group) { end++; }
    return end;
}

static uint64_t pairs_among(uint64_t n)
{
    return n * (n - 1) / 2; /* 0 for n = 0: the product is */
}

/* Sorts by merging; returns how many pairs stood in descending order. */
static uint64_t sort_counting(double *values, double *scratch, size_t count)
{
    uint64_t inversions = 0;
    for (size_t width = 1; width < count; width *= 2) {
        for (size_t begin = 0; begin < count; begin += 2 * width) {
            const size_t middle = begin + width < count ? begin + width : count;
            const size_t end = begin + 2 * width < count ? begin + 2 * width : count;
            size_t left = begin;
            size_t right = middle;
            for (size_t to = begin; to < end; to++) {
                const bool take_left = left < middle && (right == end || values[left] <= values[right]);
                if (!take_left) { inversions += middle - left; }
                scratch[to] = take_left ? values[left++] : values[right++];
            }
        }
        memcpy(values, scratch, count * sizeof *values);
    }
    return inversions;
}

struct pair_counts {
    uint64_t all, tied_measured, tied_predicted, tied_both, descending;
};

/* @p values, @p scratch: room for the group's rows */
static struct pair_counts count_pairs(const struct pair *group, size_t count, double *values, double *scratch)
{
    struct pair_counts c = {.all = pairs_among(count)};
    uint64_t same_measured = 0;
    uint64_t same_both = 0;
    uint64_t same_predicted = 0;
    for (size_t i = 0; i < count; i++) {
        const bool measured = i > 0 && group[i].measured == group[i - 1].measured;
        const bool both = measured && group[i].predicted == group[i - 1].predicted;
        same_measured = measured ? same_measured + 1 : 0;
        same_both = both ? same_both + 1 : 0;
        c.tied_measured += same_measured; /* a run of n adds 1 + 2 + ... + (n - 1) */
        c.tied_both += same_both;
        values[i] = group[i].predicted;
    }
    c.descending = sort_counting(values, scratch, count);
    for (size_t i = 1; i < count; i++) {
        same_predicted = values[i] == values[i - 1] ? same_predicted + 1 : 0;
        c.tied_predicted += same_predicted;
    }
    return c;
}

redco_status redco_rank_correlate(const double *measured, const double *predicted, const size_t *groups, size_t count,
                                  redco_rank_correlation *correlation_out, redco_error *err)
{
    struct pair *pairs = NULL;
    redco_rank_correlation result = {.groups = 0};
    int64_t agreement = 0;
    uint64_t differ_measured = 0;
    uint64_t differ_predicted = 0;
    const redco_status st = sort_pairs(measured, predicted, groups, count, &pairs, err);
    if (st != REDCO_OK) { return st; }
    double *const values = calloc(2 * count + 1, sizeof *values);
    if (values == NULL) {
        free(pairs);
        return redco_fail(err, REDCO_ENOMEM, "", "out of memory");
    }
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
        end = group_end(pairs, begin, count);
        const struct pair_counts c = count_pairs(pairs + begin, end - begin, values, values + count);
        /* Neither tied, less twice those that disagree. */
        agreement += (int64_t)(c.all - c.tied_measured - c.tied_predicted + c.tied_both) - 2 * (int64_t)c.descending;
        differ_measured += c.all - c.tied_measured;
        differ_predicted += c.all - c.tied_predicted;
        result.pairs += c.all;
        result.groups += end - begin > 1;
    }
    result.defined = differ_measured > 0 && differ_predicted > 0;
    if (result.defined) {
        result.tau_b = (double)agreement / (sqrt((double)differ_measured) * sqrt((double)differ_predicted));
    }
    *correlation_out = result;
    free(values);
    free(pairs);
    return REDCO_OK;
}

redco_status redco_choice_assess(const double *measured, const double *predicted, const size_t *groups, size_t count,
                                 redco_choice_loss *loss_out, redco_error *err)
{
    struct pair *pairs = NULL;
    redco_choice_loss loss = {.groups = 0};
    double sum = 0.0;
    const redco_status st = sort_pairs(measured, predicted, groups, count, &pairs, err);
    if (st != REDCO_OK) { return st; }
    for (size_t begin = 0, end = 0; begin < count; begin = end) {
        end = group_end(pairs, begin, count);
        if (end - begin < 2) { continue; }
        /* Slowest first: the first of the best-predicted is the slowest of them, and the last row is the fastest. */
        size_t chosen = begin;
        for (size_t i = begin + 1; i < end; i++) {
            if (pairs[i].predicted > pairs[chosen].predicted) { chosen = i; }
        }
        const double lost = 1.0 - pairs[chosen].measured / pairs[end - 1].measured;
        if (loss.groups == 0 || lost > loss.worst_loss_ratio) {
            loss.worst_loss_ratio = lost;
            loss.worst_row = pairs[chosen].row;
        }
        sum += lost;
        loss.right += pairs[chosen].measured == pairs[end - 1].measured;
        loss.groups++;
    }
    loss.mean_loss_ratio = loss.groups > 0 ? sum / (double)loss.groups : 0.0;
    *loss_out = loss;
    free(pairs);
    return REDCO_OK;
}

void redco_memory_table_add(redco_memory_table *table, bool fits, redco_said said)
{
    uint64_t *const fitting[] = {&table->fits_said_fits, &table->fits_unclear, &table->fits_said_oom};
    uint64_t *const failing[] = {&table->oom_said_fits, &table->oom_unclear, &table->oom_said_oom};
    (*(fits ? fitting : failing)[said])++;
}

static double share(uint64_t part, uint64_t all)
{
    return all > 0 ? (double)part / (double)all : 0.0;
}

static uint64_t of_kind(const redco_memory_table *table, bool fits)
{
    return fits ? table->fits_said_fits + table->fits_unclear + table->fits_said_oom
                : table->oom_said_fits + table->oom_unclear + table->oom_said_oom;
}

double redco_memory_table_right_ratio(const redco_memory_table *table)
{
    return share(table->fits_said_fits + table->oom_said_oom, of_kind(table, true) + of_kind(table, false));
}

double redco_memory_table_kind_ratio(const redco_memory_table *table, bool fits)
{
    const uint64_t all = of_kind(table, fits);
    return all > 0 ? share(fits ? table->fits_said_fits : table->oom_said_oom, all) : 1.0;
}

double redco_memory_table_unclear_ratio(const redco_memory_table *table)
{
    return share(table->fits_unclear + table->oom_unclear, of_kind(table, true) + of_kind(table, false));
}

double redco_memory_table_failed_ratio(const redco_memory_table *table)
{
    return share(table->oom_said_fits, table->oom_said_fits + table->fits_said_fits);
}
