/** @file compute_profile.h  Measured seconds of operators, in place of the formulas of compute.h.
 *
 *  Every kind of operator (a product of one type and layout, attention forward, a norm backward, ...) is a table of
 *  seconds per unit of work (FLOP, element) over up to three sizes. Between measured sizes its logarithm is
 * interpolated linearly in the logarithms of the sizes, so a measured point gives the measured time, and times grow
 * with a size wherever the measured ones do. Outside the rate of the
 *  table's edge holds; an operator with one size goes on along the line through its last two sizes. Sizes need not be
 * measured in every combination: one that is missing has the rate of the nearest that is there. OPERATORS.md. */
#ifndef REDCO_COMPUTE_PROFILE_H
#define REDCO_COMPUTE_PROFILE_H

#include "costmodel/operators/compute.h"
#include "traces/profile.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Takes what @p file holds of operators. Equal sizes of several rows or files become one, the fastest.
 *  @param profile_io  NULL at first; owned by the caller
 *  @param place       the file's name, for errors */
redco_status redco_compute_profile_add(redco_compute_profile **profile_io, const redco_profile *file, const char *place,
                                       redco_error *err);
/** Makes the tables; once, after the last file and before the first question.
 *  @return REDCO_EVALUE if a table has more than 48 different values of one size */
redco_status redco_compute_profile_finish(redco_compute_profile *profile, redco_error *err);
void redco_compute_profile_free(redco_compute_profile *profile); /**< NULL is accepted */

/** @param profile  NULL: nothing is measured
 *  @return false where the operator was not measured */
bool redco_compute_profile_s(const redco_compute_profile *profile, const redco_operator *op, redco_pass pass,
                             redco_precision precision, double *time_s_out);
/** C = A B with A [m][k] in the layout of @p pass. */
bool redco_compute_profile_gemm_s(const redco_compute_profile *profile, uint64_t m, uint64_t n, uint64_t k,
                                  redco_pass pass, redco_precision precision, double *time_s_out);
/** The conditions under which the newest file was measured; NULL: nothing is measured. */
const redco_profile_measured *redco_compute_profile_how(const redco_compute_profile *profile);
/** The slow-down by overlapped collectives that the newest file states (traces/profile.h, contention_ratio).
 *  @return false where it was not measured */
bool redco_compute_profile_contention(const redco_compute_profile *profile, double *contention_ratio_out,
                                      double *overlap_ratio_out);
/** Constants of @p calibration_io that the newest file measured: computation beside collectives; for an engine that
 * plans its memory, on a GPU, what the device holds and how long the program takes to launch what a block of layers
 * does in a pass: operators one by one or, if the engine launches CUDA graphs, a graph (communication ends one, so that
 * a pass has about one a block at most). */
void redco_compute_profile_calibrate(const redco_compute_profile *profile, const redco_engine *engine,
                                     redco_calibration *calibration_io);
/** The shipped profile (a preset of "profiles") that was measured on GPUs of that name. @return static; NULL: none */
const char *redco_compute_profile_shipped(const char *gpu);
/** Seconds in which a rank copies so many gradients of a micro-batch to where they are kept, or adds them there. */
bool redco_compute_profile_keep_s(const redco_compute_profile *profile, double params, bool add,
                                  redco_precision precision, double *time_s_out);
/** Update of so many owned parameters. */
bool redco_compute_profile_optimizer_s(const redco_compute_profile *profile, double params, redco_precision precision,
                                       double *time_s_out);

#ifdef __cplusplus
}
#endif
#endif
