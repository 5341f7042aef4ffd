/** @file word.h  Help with misspelt words. Pure functions. */
#ifndef REDCO_BASE_WORD_H
#define REDCO_BASE_WORD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Letters to change, add or leave out to make one word of the other (Levenshtein); 63 where one is longer than that.
 */
size_t redco_word_distance(const char *a, const char *b);

/** The word of @p known (NULL-terminated, at least one) that needs the fewest changed letters; the first of equals. */
const char *redco_word_nearest(const char *word, const char *const *known);

#ifdef __cplusplus
}
#endif
#endif
