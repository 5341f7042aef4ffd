/** @file measured_files.h  Tables of measured runs as the tools take them: several files, one list of rows, ready to be
 *  predicted. */
#ifndef REDCO_MEASURED_FILES_H
#define REDCO_MEASURED_FILES_H

#include "costmodel/evaluation/measured_runs.h"

struct measured_files {
    redco_measured **tables;
    size_t table_count;
    const redco_measured_run **runs; /**< runs of all files, in their order */
    size_t count;
    redco_evaluations *evaluations; /**< evaluations of the runs */
};

/** @param paths  CSV files or folders of such, at least one */
redco_status measured_files_read(char *const *paths, size_t path_count, struct measured_files *files_out,
                                 redco_error *err);
void measured_files_free(struct measured_files *files);

/** Fails at file and line of the first row whose GPU cannot be read: a name with '/' or '.' is a file, which must be
 *  there; a word that is no preset makes the rows be skipped. */
redco_status measured_check_gpus(const char *path, const redco_measured_run *rows, size_t count, redco_error *err);
/** Says whether row @p index has a throughput to compare with, and is not skipped. */
bool measured_has_speed(const struct measured_files *files, size_t index);
/** Says whether constants of dense models may be fitted to it: it has a throughput, no experts, and is not held out. */
bool measured_may_fit(const struct measured_files *files, size_t index);

#endif
