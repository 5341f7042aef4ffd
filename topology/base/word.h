/** @file word.h  Help with misspelt words. Pure functions. */
#ifndef REDCO_BASE_WORD_H
#define REDCO_BASE_WORD_H

#ifdef __cplusplus
extern "C" {
#endif

/** The word of @p known (NULL-terminated, at least one) that needs the fewest changed letters; the first of equals. */
const char *redco_word_nearest(const char *word, const char *const *known);

#ifdef __cplusplus
}
#endif
#endif
