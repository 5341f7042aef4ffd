/** @file dimensions.h  The table of dimensions: a row for each member of redco_parallelism, with its key in plan files.
 *  Comparing, reading and writing follow from it. */
#ifndef REDCO_DIMENSIONS_H
#define REDCO_DIMENSIONS_H

#include "costmodel/schedules/parallelism.h"
#include "topology/base/json.h"

#ifdef __cplusplus
extern "C" {
#endif

/** By the rows in their order: smaller values lead, of switches on, and equal shares before any split.
 *  @return below, equal to or above 0 */
int redco_parallelism_compare(const redco_parallelism *a, const redco_parallelism *b);
/** @return whether all members are the same, splits and what follows from the others aside */
bool redco_parallelism_same(const redco_parallelism *a, const redco_parallelism *b);

/** A new reference, NULL when out of memory. */
json_t *redco_mesh_json(redco_mesh mesh);
/** {"gpus": A, "nodes": B} */
redco_status redco_mesh_read(const redco_json_value *object, const char *key, redco_mesh *out, redco_error *err);
/** The index of a member's text in a NULL-terminated list. */
redco_status redco_word_read(const redco_json_value *object, const char *key, const char *const *words, uint32_t *out,
                             redco_error *err);

/** Sets the members of an object that the keys name, between blanks and in their order. @return false when out of
 *  memory */
bool redco_parallelism_write(const redco_parallelism *parallelism, const char *keys, json_t *object);
/** Reads them; an optional one that is absent keeps its value. */
redco_status redco_parallelism_read(const redco_json_value *object, const char *keys, redco_parallelism *parallelism,
                                    redco_error *err);

#ifdef __cplusplus
}
#endif
#endif
