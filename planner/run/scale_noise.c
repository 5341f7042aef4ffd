#include "planner/run/scale_noise.h"

#include <math.h>

/* P[X <= x]^ranks, through the logarithm of the tail where it is small. */
static double all_below(double x, double ranks)
{
    const double above = 0.5 * erfc(x / sqrt(2.0));
    return exp(ranks * log1p(-above));
}

double redco_expected_max(double ranks)
{
    enum { STEPS = 2000 };
    const double reach = 10.0, h = reach / STEPS;
    double sum = 0.0;
    if (!(ranks > 1.0)) { return 0.0; }
    /* E = integral of 1 - F^n above 0, less that of F^n below: Simpson. */
    for (int i = 0; i <= STEPS; i++) {
        const double weight = i == 0 || i == STEPS ? 1.0 : i % 2 == 1 ? 4.0 : 2.0;
        sum += weight * (1.0 - all_below(i * h, ranks) - all_below(-i * h, ranks));
    }
    return sum * h / 3.0;
}

double redco_noise_factor(const redco_noise *noise, double ranks, double micro_batches)
{
    const double spread = noise->static_ratio * noise->static_ratio +
                          noise->transient_ratio * noise->transient_ratio / fmax(micro_batches, 1.0);
    return 1.0 + sqrt(spread) * redco_expected_max(ranks);
}
