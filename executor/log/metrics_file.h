/** @file metrics_file.h  A run's numbers as JSON lines (metrics.schema.json): an object with "step" for each step, and
 *  one for each evaluation. A run that is resumed goes on in the same file, behind the step that it is resumed from. */
#ifndef REDCO_METRICS_FILE_H
#define REDCO_METRICS_FILE_H

#include "topology/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct redco_metrics_file redco_metrics_file;

/** @param resume  a file that is there is gone on with: lines of later steps than @p step, and one that was cut off,
 *                 are removed. Else there must be none yet
 *  @return REDCO_EVALUE if a file is there that is not to be gone on with, or that has other lines: it stays as it is
 */
redco_status redco_metrics_file_open(const char *path, bool resume, uint64_t step, redco_metrics_file **file_out,
                                     redco_error *err);
void redco_metrics_file_close(redco_metrics_file *file); /**< NULL is accepted */

/** Adds one line, which is in the file when the call returns. @param line  an object with "step", taken; NULL is out of
 *  memory
 *  @return REDCO_ESYSTEM with the system's reason, a full disk for one: the file ends with a whole line all the same */
redco_status redco_metrics_file_add(redco_metrics_file *file, json_t *line, redco_error *err);

/** The bytes of a file's beginning that are of steps up to @p step.
 *  @param name  stands for the file in errors
 *  @return REDCO_EVALUE for a line that is no object with a whole number "step" of at least that of the line before:
 * the last one is no error if it has no end */
redco_status redco_metrics_file_kept(const char *text, size_t size, const char *name, uint64_t step, size_t *kept_out,
                                     redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
