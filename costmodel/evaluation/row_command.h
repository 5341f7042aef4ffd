/** @file row_command.h  The redco-plan command that prices a measured run as its row says. */
#ifndef REDCO_ROW_COMMAND_H
#define REDCO_ROW_COMMAND_H

#include "costmodel/evaluation/measured_runs.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Files that the command names; borrowed for the call. */
typedef struct redco_row_files {
    const char *model;       /**< with redco_model_config() of redco_model_from_dims() */
    const char *cluster;     /**< with redco_row_cluster() */
    const char *calibration; /**< a set, or NULL: the shipped one */
} redco_row_files;

typedef struct redco_row_command redco_row_command;

/** Everything that the row states becomes an option; traits of its engine that it leaves open are the engine's.
 *  Meshes, which a row states over data-parallel ranks, are the request's.
 *  @param request  of redco_evaluations_request() */
redco_status redco_row_command_create(const redco_measured_run *run, const redco_request *request,
                                      const redco_row_files *files, redco_row_command **command_out, redco_error *err);
void redco_row_command_free(redco_row_command *command);

/** An argv: the program's name, then its options; a NULL follows. Not quoted for a shell. @return their number */
size_t redco_row_command_words(const redco_row_command *command, char *const **words_out);
/** A value that was taken in place of one that the row does not say, or NULL. */
const char *redco_row_command_remark(const redco_row_command *command);

#ifdef __cplusplus
}
#endif
#endif
