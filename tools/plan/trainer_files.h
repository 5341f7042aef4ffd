/** @file trainer_files.h  --read of redco-plan: a trainer's files as options, and the lists of what was read. */
#ifndef REDCO_TOOLS_TRAINER_FILES_H
#define REDCO_TOOLS_TRAINER_FILES_H

#include "planner/read/changes.h"
#include "planner/read/read.h"
#include "tools/plan/plan_args.h"

/** Reads the files that the command line names and sets their options in @p fresh, where the command line says nothing.
 *  @param given  the command line as it was parsed
 *  @return its failure, with the file's line in its place */
redco_status trainer_files_apply(const struct plan_args *given, struct plan_args *fresh, redco_error *err);

/** @param context  struct plan_args, the files applied
 *  @return whether the command line gives an option, without dashes, whatever a file says */
bool trainer_files_beside(const void *context, const char *option);

/** For people: what was understood, and what not. */
void trainer_files_report(const struct plan_args *args);

/** An error of a model that files state by its dimensions is at the file. */
void trainer_files_place(const struct plan_args *args, redco_error *err);

/** For people: the changes that pay. @param fits  the file's own layout does */
void trainer_files_changes(const redco_changes *changes, bool fits);
/** Writes the file with the best changes, as --write asks; says so on standard output unless quiet or JSON. */
redco_status trainer_files_write(const struct plan_args *args, const redco_changes *changes, redco_error *err);
/** "read" of a JSON document. @param changes  NULL: not sought. New reference */
json_t *trainer_files_json(const struct plan_args *args, const redco_changes *changes);

#endif
