/** @file fit_bands.h  Bands from the errors of runs that were left out of the fits. */
#ifndef REDCO_FIT_BANDS_H
#define REDCO_FIT_BANDS_H

#include "costmodel/engines/bands.h"
#include "costmodel/evaluation/leave_out.h"
#include "costmodel/evaluation/left_groups.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_band_rows {
    redco_evaluations *evaluations;
    const redco_measured_run *const *runs;
    size_t count;
    const bool *usable; /**< says of each run: it has a throughput and may be fitted to */
    redco_leave_out *leave;
} redco_band_rows;

/** Leaves each group of a kind out in turn, besides @p out, and predicts its rows.
 *  @param log_out  of each row: ln(measured / predicted); only where the groups give it a weight and it is not in out
 */
redco_status redco_band_errors(const redco_band_rows *rows, const redco_left_groups *groups, const bool *out,
                               double *log_out, redco_error *err);

/** The ends that a group never seen stays within, each group as heavy as another: of ten groups and more quantiles of
 *  the errors, with room for the group that is asked for (conformal: Lee, Barber, Willett, arXiv 2306.06342); of fewer,
 *  Student's t of their mean square. @return groups that have rows */
size_t redco_band_of_errors(const redco_left_groups *groups, const bool *out, const double *log, redco_band *band_out,
                            redco_error *err);

/** Bands where the runs of @p out are unknown: constants and spread are made without them.
 *  @param parts  bits of redco_band_part that are wanted; the source's always is */
redco_status redco_bands_fit(const redco_band_rows *rows, const bool *out, unsigned parts, redco_bands *bands_out,
                             redco_error *err);

/** The engine, GPU and software of a row. */
redco_band_question redco_band_row(const redco_band_rows *rows, size_t row);
/** The MFU that a row measured, attention counted in full. */
double redco_band_mfu(const redco_band_rows *rows, size_t row);
/** Notes what the runs that are left, and that some set is fitted to, are of. */
void redco_band_note_rows(const redco_band_rows *rows, const bool *out, redco_bands *bands);

#ifdef __cplusplus
}
#endif
#endif
