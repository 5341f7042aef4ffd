#include "executor/optimizer/rate.h"

#include <math.h>

redco_status redco_rate_check(const redco_rate_schedule *s, redco_error *err)
{
    const uint64_t decay = s->kind == REDCO_RATE_WSD ? s->decay_updates : 0;
    if (!(s->final_ratio >= 0.0 && s->final_ratio <= 1.0)) {
        return redco_fail(err, REDCO_EVALUE, "schedule", "a final ratio of %g; it is from 0 to 1", s->final_ratio);
    }
    if (s->kind == REDCO_RATE_CONSTANT) { return REDCO_OK; }
    if (s->warmup > s->updates || decay > s->updates - s->warmup) {
        return redco_fail(err, REDCO_EVALUE, "schedule",
                          "%llu updates of warm-up and %llu of decay are more than the %llu of the run",
                          (unsigned long long)s->warmup, (unsigned long long)decay, (unsigned long long)s->updates);
    }
    return REDCO_OK;
}

double redco_rate_at(const redco_rate_schedule *s, double rate, uint64_t update)
{
    static const double pi = 3.14159265358979323846;
    if (update <= s->warmup) { return rate * (double)update / (double)s->warmup; }
    if (s->kind == REDCO_RATE_CONSTANT) { return rate; }
    const double done = (double)(update - 1 - s->warmup), all = (double)(s->updates - s->warmup);
    double share = all > 0.0 ? fmin(done / all, 1.0) : 1.0; /* share of the way down */
    if (s->kind == REDCO_RATE_COSINE) { share = (1.0 - cos(pi * share)) / 2.0; }
    if (s->kind == REDCO_RATE_WSD) {
        const double left = (double)s->decay_updates - ((double)s->updates - (double)(update - 1));
        share = s->decay_updates > 0 ? fmin(fmax(left / (double)s->decay_updates, 0.0), 1.0) : 0.0;
    }
    return rate * (1.0 - (1.0 - s->final_ratio) * share);
}
