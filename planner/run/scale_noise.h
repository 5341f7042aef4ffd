/** @file scale_noise.h  The time that all ranks lose by waiting for the slowest. A rank's time is normal: its GPU is
 * off by a static share, each micro-batch by a transient one, which m micro-batches average. Pure functions. */
#ifndef REDCO_SCALE_NOISE_H
#define REDCO_SCALE_NOISE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Standard deviations, of a rank's mean time. */
typedef struct redco_noise {
    double static_ratio;    /**< between GPUs; more micro-batches do not shrink it */
    double transient_ratio; /**< noise of one micro-batch */
} redco_noise;

/** Expected largest of @p ranks standard normal numbers, by integration of their distribution; 0 for one rank. */
double redco_expected_max(double ranks);

/** Step over a step without noise: 1 + sqrt(static^2 + transient^2 / m) c(ranks). */
double redco_noise_factor(const redco_noise *noise, double ranks, double micro_batches);

#ifdef __cplusplus
}
#endif
#endif
