/** @file hostlist.h  Slurm host lists, "node[001-128,200]-ib,login1", to names and back. In memory; no file is read.
 *  Grammar: items separated by commas; an item is text with any number of bracketed lists of numbers and ranges.
 * Leading zeros of a range's first number set the width of all its numbers. */
#ifndef REDCO_HOSTLIST_H
#define REDCO_HOSTLIST_H

#include "topology/base/status.h"

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    REDCO_HOSTLIST_MAX_NAMES = 200000,  /**< longer lists are refused before they are expanded */
    REDCO_HOSTLIST_MAX_NAME_BYTES = 255 /**< bytes of one name: the limit of a DNS name */
};

/** A growing list of names in the order in which they were written; duplicates are kept. */
typedef struct redco_hostlist redco_hostlist;

redco_hostlist *redco_hostlist_new(void); /**< NULL when out of memory */
void redco_hostlist_free(redco_hostlist *list);

/** Appends what @p text names.
 *  @param size   bytes of @p text; a 0 byte among them is refused like other control characters
 *  @param place  for the error text
 *  @return REDCO_OK, REDCO_EVALUE (nothing was appended) or REDCO_ENOMEM */
redco_status redco_hostlist_append(redco_hostlist *list, const char *text, size_t size, const char *place,
                                   redco_error *err);

size_t redco_hostlist_count(const redco_hostlist *list);
/** The @p index-th name; borrowed until the list grows. */
const char *redco_hostlist_name(const redco_hostlist *list, size_t index);

/** The reverse: a short host list that expands to exactly @p names in their order.
 *  @return to be freed with free(), or NULL when out of memory */
char *redco_hostlist_compact(const char *const *names, size_t count);

#ifdef __cplusplus
}
#endif
#endif
