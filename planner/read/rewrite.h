/** @file rewrite.h  A trainer's file with some values changed: every other byte stays. */
#ifndef REDCO_READ_REWRITE_H
#define REDCO_READ_REWRITE_H

#include "planner/read/changes.h"

#ifdef __cplusplus
extern "C" {
#endif

/** @param edits      of one set of changes
 *  @param path_out   the file that holds the first of them; borrowed from @p reading
 *  @param text_out   its text with the edits, freed with free()
 *  @param left_out   keys that are not written, "a, b": values of other files, computed ones, flags that would go; "":
 * none
 *  @return REDCO_EVALUE where none can be written */
redco_status redco_reading_rewrite(const redco_reading *reading, const redco_words *edits, uint32_t count,
                                   const char **path_out, char **text_out, size_t *size_out, char *left_out,
                                   size_t left_size, redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
