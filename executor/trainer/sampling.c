#include "executor/trainer/sampling.h"

#include "executor/backend/host/kernels.h"

#include <math.h>
#include <stdlib.h>

redco_status redco_sampling_check(const redco_sampling *s, redco_error *err)
{
    if (!(s->temperature >= 0.0) || !isfinite(s->temperature)) {
        return redco_fail(err, REDCO_EVALUE, "temperature", "%g; it is a number from 0 on", s->temperature);
    }
    if (!(s->top_p > 0.0 && s->top_p <= 1.0)) {
        return redco_fail(err, REDCO_EVALUE, "top-p", "%g; it is above 0 and at most 1", s->top_p);
    }
    return REDCO_OK;
}

/* Largest first; of equals the smaller number. */
static int before(const void *a, const void *b, void *context)
{
    const double *const logits = context;
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    if (logits[x] != logits[y]) { return logits[x] > logits[y] ? -1 : 1; }
    return x < y ? -1 : x > y;
}

/* In [0, 1), 53 bits. */
static double draw(uint64_t seed, uint64_t sequence, uint64_t place)
{
    const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
    const uint32_t counter[4] = {(uint32_t)sequence, (uint32_t)(sequence >> 32), (uint32_t)place,
                                 (uint32_t)(place >> 32)};
    uint32_t words[4];
    redcoi_philox(counter, key, words);
    return ((double)(words[0] >> 5) * 67108864.0 + (double)(words[1] >> 6)) / 9007199254740992.0;
}

static int32_t largest(const double *logits, uint32_t count)
{
    uint32_t best = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (isnan(logits[i])) { return -1; }
        if (logits[i] > logits[best]) { best = i; }
    }
    return (int32_t)best;
}

int32_t redco_sample(const redco_sampling *s, const double *logits, uint32_t count, uint32_t *order, uint64_t sequence,
                     uint64_t place)
{
    const int32_t best = largest(logits, count);
    if (best < 0 || s->temperature == 0.0) { return best; }
    for (uint32_t i = 0; i < count; i++) { order[i] = i; }
    qsort_r(order, count, sizeof *order, before, (void *)(uintptr_t)logits);
    const double top = logits[order[0]];
    uint32_t kept = s->top_k > 0 && s->top_k < count ? (uint32_t)s->top_k : count;
    /* transformers keeps what equals the last of them, too. */
    while (kept < count && logits[order[kept]] == logits[order[kept - 1]]) { kept++; }
    double all = 0.0, sum = 0.0;
    for (uint32_t i = 0; i < kept; i++) { all += exp((logits[order[i]] - top) / s->temperature); }
    uint32_t last = 0;
    for (; last < kept && (last == 0 || sum < s->top_p * all); last++) {
        sum += exp((logits[order[last]] - top) / s->temperature);
    }
    const double at = draw(s->seed, sequence, place) * sum;
    double passed = 0.0;
    for (uint32_t i = 0; i < last; i++) {
        passed += exp((logits[order[i]] - top) / s->temperature);
        if (at < passed) { return (int32_t)order[i]; }
    }
    return (int32_t)order[last - 1];
}
