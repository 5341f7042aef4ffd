/** @file number.h  The one rule for numbers that people write on command lines, in tables and in the environment:
 *  decimal digits; real numbers have a point and an exponent, too. No sign, no space before it, neither "0x10" nor
 * "inf" or "nan". JSON and XML have rules of their own. Pure functions. */
#ifndef REDCO_BASE_NUMBER_H
#define REDCO_BASE_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The whole number at the start of the @p length bytes of @p text.
 *  @return its bytes, 0 if there is none or it does not fit into 64 bits; @p out is left alone then */
size_t redco_whole_read(const char *text, size_t length, uint64_t *out);
/** The same of a real number: "12", "0.5", ".5", "1e-4"; @return 0 also beyond 511 bytes or what a double holds. */
size_t redco_real_read(const char *text, size_t length, double *out);

/** @return whether all of @p text is a number in [@p min, @p max]; @p out is left alone if not */
bool redco_whole_parse(const char *text, uint64_t min, uint64_t max, uint64_t *out);
bool redco_real_parse(const char *text, double min, double max, double *out);

#ifdef __cplusplus
}
#endif
#endif
