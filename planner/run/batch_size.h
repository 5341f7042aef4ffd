/** @file batch_size.h  More tokens for the same loss by a larger batch.
 *      tokens(B) = E0 (1 + B/Bc + (B/Bq)^2)
 *  Up to the critical batch Bc an increase costs little; far above it a larger batch saves no steps (McCandlish et al.,
 *  arXiv 1812.06162). Bq bends the curve where a measured one rises faster than a line. Pure functions. */
#ifndef REDCO_BATCH_SIZE_H
#define REDCO_BATCH_SIZE_H

#include "topology/base/json.h"
#include "topology/base/status.h"

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { REDCO_MOST_BATCHES = 32 };

/** Batch and what it takes to the same loss, both in tokens, or both in another unit. */
typedef struct redco_batch_point {
    double batch, needed;
} redco_batch_point;

/** The curve. */
typedef struct redco_batch_curve {
    double needed;   /**< E0 */
    double linear;   /**< 1 / Bc; infinite E0 / Bc cannot be: where E0 is 0, steps are constant */
    double square;   /**< 1 / Bq^2 */
    bool steps_only; /**< E0 = 0: needed = linear B: a larger batch gains nothing */
} redco_batch_curve;

/** Needed tokens at a batch. */
double redco_batch_needed(const redco_batch_curve *curve, double batch);
/** Least squares of the relative error, with coefficients of at least 0.
 *  @param bent  fits the square, too: three points or more
 *  @return REDCO_EVALUE with fewer than two points (bent: three), or equal batches */
redco_status redco_batch_fit(const redco_batch_point *points, size_t count, bool bent, redco_batch_curve *curve_out,
                             redco_error *err);

/** The value of --critical-batch. */
typedef struct redco_critical_batch {
    bool given;
    double tokens;           /**< Bc; 0: far below all batches */
    redco_batch_curve curve; /**< in tokens */
    bool by_seen;            /**< Bc = coefficient (tokens seen)^exponent */
    double seen_coefficient, seen_exponent;
    char source[240];
} redco_critical_batch;

/** A number of tokens: 1 + B/Bc. */
redco_critical_batch redco_critical_batch_of(double tokens);
/** A file of points, or of a power law in tokens seen (kind "batches"). @param name_or_path  "mlperf-llama-3.1-405b" */
redco_status redco_critical_batch_read(const char *name_or_path, redco_critical_batch *out, redco_error *err);
redco_status redco_critical_batch_from_json(const redco_json_value *root, redco_critical_batch *out, redco_error *err);

/** Bc of a run of so many tokens. */
double redco_critical_batch_tokens(const redco_critical_batch *critical, double tokens_seen);
/** Tokens at @p batch over those at @p like, both in tokens; 1 where nothing is given. */
double redco_batch_inflation(const redco_critical_batch *critical, double batch, double like, double tokens_seen);

#ifdef __cplusplus
}
#endif
#endif
