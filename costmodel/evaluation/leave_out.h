/** @file leave_out.h  Prices measured runs by constants that were fitted without some of them: what an answer is worth
 *  where a source, a GPU, an engine or a model was never seen. */
#ifndef REDCO_LEAVE_OUT_H
#define REDCO_LEAVE_OUT_H

#include "costmodel/evaluation/measured_runs.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Fits that were made are kept, so that none is made twice. Not thread-safe. */
typedef struct redco_leave_out redco_leave_out;

/** @param evaluations  of @p runs; both borrowed until _free()
 *  @param usable       of each run: it has a throughput and may be fitted to; copied */
redco_status redco_leave_out_create(redco_evaluations *evaluations, const redco_measured_run *const *runs, size_t count,
                                    const bool *usable, redco_leave_out **leave_out, redco_error *err);
void redco_leave_out_free(redco_leave_out *leave);

/** The constants of a row where the runs of @p out are unknown: its engine's set if that has eight runs left, else that
 *  of its class of GPU and software, else, as of a class that nobody measured, the mean of those that are left.
 *  @param out  of each run: it is left out */
redco_status redco_leave_out_set(redco_leave_out *leave, size_t row, const bool *out, redco_calibration *set_out,
                                 redco_error *err);

/** Tokens/s/GPU of @p row as an answer would have it, by those constants. */
redco_status redco_leave_out_predict(redco_leave_out *leave, size_t row, const bool *out, double *tokens_out,
                                     redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
