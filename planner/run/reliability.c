#include "planner/run/reliability.h"

#include <math.h>
#include <stddef.h>

enum { GOLDEN_STEPS = 80, BISECTIONS = 80, MOST_SPARES = 100000 };

static const double day_s = 86400.0, shortest_interval_s = 1.0;

redco_status redco_reliability_check(const redco_reliability *r, redco_error *err)
{
    const struct {
        const char *name;
        double value;
        double least;
    } numbers[] = {{"mean time to failure", r->mttf_s, 1e-3},
                   {"restart", r->restart_s, 0.0},
                   {"checkpoint interval", r->interval_s, 1e-3},
                   {"checkpoint wait", r->block_s, 0.0},
                   {"checkpoint write", r->write_s, 0.0},
                   {"stall", r->stall_s, 0.0},
                   {"repair", r->repair_s, 0.0},
                   {"share of deep failures", r->deep_ratio, 0.0},
                   {"stored interval", r->stored_interval_s, 0.0}};
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (!(numbers[i].value >= numbers[i].least) || (i > 0 && numbers[i].value > 1e12)) {
            return redco_fail(err, REDCO_EVALUE, "run", "%s of %g is not from %g to 1e12", numbers[i].name,
                              numbers[i].value, numbers[i].least);
        }
    }
    if (r->deep_ratio > 1.0) {
        return redco_fail(err, REDCO_EVALUE, "run", "share of deep failures of %g is above 1", r->deep_ratio);
    }
    /* The next one begins when this one is durable. */
    const double between_s = r->saving == REDCO_SAVE_MEMORY ? r->stored_interval_s : r->interval_s;
    if (r->saving != REDCO_SAVE_BLOCKING && between_s < r->write_s * (1.0 - 1e-9)) {
        return redco_fail(err, REDCO_EVALUE, "run",
                          "a checkpoint every %.4g s is durable only after %.4g s: give a longer interval or faster "
                          "storage",
                          between_s, r->write_s);
    }
    return REDCO_OK;
}

/* All ranks fall back to a stored checkpoint, or to copies in memory, of which a failure loses deep_ratio: then also
 * what was made since the stored one became durable, half an interval and its write on average. */
static redco_time_split all_stop(const redco_reliability *r)
{
    const double m = r->mttf_s, cycle_s = r->interval_s + r->block_s;
    const bool memory = r->saving == REDCO_SAVE_MEMORY;
    const double late_s = r->saving == REDCO_SAVE_ASYNC ? r->write_s : 0.0;
    const double cycles = exp(-late_s / m) / expm1(cycle_s / m);
    const double wall_s = m * exp(r->restart_s / m);
    /* A stored checkpoint is such a copy: not more often than copies are made. */
    const double stored_s = fmax(r->stored_interval_s, r->interval_s);
    const double deep_s = memory ? r->deep_ratio * (0.5 * stored_s + r->write_s) : 0.0;
    redco_time_split split = {.compute = fmax(cycles * r->interval_s - deep_s, 0.0) / wall_s,
                              .checkpoint = cycles * r->block_s / wall_s,
                              .restart = -expm1(-r->restart_s / m)};
    split.failures = fmax(1.0 - split.compute - split.checkpoint - split.restart, 0.0);
    return split;
}

/* A replica works for M replicas on average and is away for R. Failures that replicas do not cover stop all and fall
 * back by half a cycle and the write. */
static redco_time_split one_stops(const redco_reliability *r)
{
    const double alone_s = r->mttf_s * r->replicas;
    const double up = isinf(alone_s) ? 1.0 : alone_s / (alone_s + (1.0 - r->deep_ratio) * r->restart_s);
    const double rate = up / r->mttf_s, cycle_s = r->interval_s + r->block_s;
    const double stopped = rate * ((1.0 - r->deep_ratio) * r->stall_s + r->deep_ratio * r->restart_s);
    const double lost = rate * r->deep_ratio * (0.5 * cycle_s + r->write_s), wall = 1.0 + stopped;
    const double work = r->interval_s / cycle_s;
    redco_time_split split = {
        .compute = fmax(up - lost, 0.0) * work / wall, .checkpoint = (1.0 - work) / wall, .restart = stopped / wall};
    split.failures = fmax(1.0 - split.compute - split.checkpoint - split.restart, 0.0);
    return split;
}

redco_time_split redco_time_split_of(const redco_reliability *r)
{
    if (isinf(r->mttf_s)) {
        const double work = r->interval_s / (r->interval_s + r->block_s);
        return (redco_time_split){.compute = work, .checkpoint = 1.0 - work};
    }
    redco_time_split split = r->replicas > 0 ? one_stops(r) : all_stop(r);
    if (!r->pooled && r->replicas == 0) {
        const double wait = redco_spares_wait(r->spares, r->mttf_s, r->repair_s);
        split.compute *= 1.0 - wait;
        split.checkpoint *= 1.0 - wait;
        split.failures *= 1.0 - wait;
        split.restart = split.restart * (1.0 - wait) + wait;
    }
    return split;
}

double redco_interval_young(double block_s, double mttf_s)
{
    return sqrt(2.0 * block_s * mttf_s);
}

double redco_interval_daly(double block_s, double mttf_s)
{
    return fmax(redco_interval_young(block_s, mttf_s) - block_s, 0.0);
}

static double compute_at(const redco_reliability *r, double log_interval)
{
    redco_reliability at = *r;
    at.interval_s = exp(log_interval);
    return redco_time_split_of(&at).compute;
}

double redco_interval_best(const redco_reliability *r)
{
    const double ratio = 0.5 * (sqrt(5.0) - 1.0);
    const double least_s = fmax(shortest_interval_s, r->saving == REDCO_SAVE_ASYNC ? r->write_s : 0.0);
    if (isinf(r->mttf_s)) { return fmax(day_s, least_s); }
    /* Beyond the mean time between failures most intervals are lost. */
    double low = log(least_s), high = log(fmax(fmax(day_s, r->mttf_s), least_s));
    /* The share of compute rises to one maximum and falls: golden section on the logarithm. */
    double a = high - ratio * (high - low), b = low + ratio * (high - low);
    double at_a = compute_at(r, a), at_b = compute_at(r, b);
    for (int i = 0; i < GOLDEN_STEPS; i++) {
        if (at_a >= at_b) {
            high = b;
            b = a;
            at_b = at_a;
            a = high - ratio * (high - low);
            at_a = compute_at(r, a);
        } else {
            low = a;
            a = b;
            at_a = at_b;
            b = low + ratio * (high - low);
            at_b = compute_at(r, b);
        }
    }
    return exp(0.5 * (low + high));
}

uint32_t redco_spares_needed(uint64_t nodes, double down_ratio, double confidence)
{
    if (!(down_ratio > 0.0) || nodes == 0) { return 0; }
    if (down_ratio >= 1.0) { return nodes < MOST_SPARES ? (uint32_t)nodes : MOST_SPARES; }
    const double n = (double)nodes, ratio = log(down_ratio) - log1p(-down_ratio);
    double log_term = n * log1p(-down_ratio), sum = exp(log_term);
    uint32_t spares = 0;
    while (sum < confidence && spares < nodes && spares < MOST_SPARES) {
        log_term += log((n - spares) / (spares + 1.0)) + ratio;
        sum += exp(log_term);
        spares++;
    }
    return spares;
}

double redco_spares_wait(uint32_t spares, double mttf_s, double repair_s)
{
    const double load = repair_s / mttf_s;
    double blocked = 1.0; /* B(0) = 1, B(k) = a B(k-1) / (k + a B(k-1)) */
    if (!(load > 0.0)) { return 0.0; }
    for (uint32_t k = 1; k <= spares + 1; k++) {
        blocked = load * blocked / (k + load * blocked);
        if (blocked < 1e-300) { return 0.0; }
    }
    return blocked;
}

/* P[Poisson(mean) <= count]. */
static double poisson_below(double count, double mean)
{
    double log_term = -mean, sum = exp(log_term);
    for (double k = 1.0; k <= count; k += 1.0) {
        log_term += log(mean / k);
        sum += exp(log_term);
    }
    return sum;
}

void redco_count_band(double count, double *low_out, double *high_out)
{
    enum { MOST_EXACT = 20000 };
    if (count > MOST_EXACT) {
        *low_out = count - 1.645 * sqrt(count);
        *high_out = count + 1.645 * sqrt(count);
        return;
    }
    double low = 0.0, high = count;
    for (int i = 0; i < BISECTIONS && count > 0.0; i++) { /* P[>= count] rises with the mean */
        const double mean = 0.5 * (low + high);
        if (1.0 - poisson_below(count - 1.0, mean) < 0.05) {
            low = mean;
        } else {
            high = mean;
        }
    }
    *low_out = count > 0.0 ? 0.5 * (low + high) : 0.0;
    low = count;
    high = count + 10.0 + 5.0 * sqrt(count);
    for (int i = 0; i < BISECTIONS; i++) {
        const double mean = 0.5 * (low + high);
        if (poisson_below(count, mean) > 0.05) {
            low = mean;
        } else {
            high = mean;
        }
    }
    *high_out = 0.5 * (low + high);
}
