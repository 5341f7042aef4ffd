/** @file fit.h  Fits the constants of a calibration to measured runs: least squares of log(predicted / measured) with a
 *  robust loss, a log-normal prior around a given set and hard bounds (CALIBRATION.md), by GSL's
 *  trust-region Levenberg-Marquardt. Constants are fitted for a set of rows, never per row. */
#ifndef REDCO_FIT_H
#define REDCO_FIT_H

#include "costmodel/evaluation/measured_runs.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_fit_options {
    double noise_ratio;  /**< error of a run from which on the loss grows linearly; 0 = 0.02 */
    double width_factor; /**< on the widths of the priors; 0 = 1 */
    uint32_t iterations; /**< at most; 0 = 60 */
    /** For constants of mixtures: the dense set of each row of the evaluations, which stays; borrowed. NULL: those of
     *  dense models are fitted. */
    const redco_calibration *bases;
    const char *fixed; /**< with it: the constant that stays as it is in the prior, by its key in files; NULL: none */
} redco_fit_options;

/** The options by which a set of so many runs is fitted: fewer than eight say less than the set that they start from.
 */
redco_fit_options redco_fit_options_for(size_t rows);

/** @param rows      indices of rows of @p evaluations that are not skipped and have a throughput
 *  @param measured  tokens/s/GPU of each, > 0
 *  @param prior     its constants are the centre of the priors; constants that are 0 in it stay 0
 *  @param fitted_out  @p prior with other constants, fitted_rows, mape_ratio and band_ratio; name and basis as in prior
 *  @return REDCO_ESYSTEM if GSL fails */
redco_status redco_fit(redco_evaluations *evaluations, const size_t *rows, const double *measured, size_t count,
                       const redco_calibration *prior, const redco_fit_options *options, redco_calibration *fitted_out,
                       redco_error *err);

/** Fits without each group in turn and predicts it. A row gets 0 where its group is all there is.
 *  @param groups         number of each row's group: folds, models, sources
 *  @param predicted_out  tokens/s/GPU of each row, by constants that did not see its group */
redco_status redco_fit_validate(redco_evaluations *evaluations, const size_t *rows, const double *measured,
                                size_t count, const size_t *groups, const redco_calibration *prior,
                                const redco_fit_options *options, double *predicted_out, redco_error *err);

/** The geometric mean of each constant that is fitted: what those of a class that nobody measured are taken to be.
 *  A constant that one of the sets has as 0 is that of the first. @param count  at least 1 */
redco_calibration redco_fit_mean(const redco_calibration *sets, size_t count);

/** The constants of a pair of GPU and software without runs: the software's constants elsewhere, and of the GPU's
 * own (products, attention) those that it has under other software, as much better or worse as the first software is
 * than the other where both were measured.
 *  @param chip      of this GPU under other software
 *  @param software  of this software on another GPU
 *  @param both      of that other software on that other GPU */
redco_calibration redco_fit_product(const redco_calibration *chip, const redco_calibration *software,
                                    const redco_calibration *both);

/** One of the constants that are fitted. */
typedef struct redco_fitted_constant {
    const char *key;    /**< in files of sets */
    const char *of;     /**< the part of a training system that it belongs to: GPU, kernels, network, engine or host */
    size_t offset;      /**< where the number stands in redco_calibration */
    double least, most; /**< bounds of the fit */
} redco_fitted_constant;

/** @param of_experts  those of mixtures. @return false: there are fewer */
bool redco_fit_constant(size_t index, bool of_experts, redco_fitted_constant *constant_out);

/** Splits @p count rows into @p folds parts of equal size, shuffled by @p seed. */
void redco_fit_folds(size_t count, uint32_t folds, uint64_t seed, size_t *groups_out);

#ifdef __cplusplus
}
#endif
#endif
