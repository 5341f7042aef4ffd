/** @file text.h  Names of others on terminals, in messages, scripts and pages: what may be shown, and what stands for
 * the rest. A name may hold anything that its file could: control characters (a terminal obeys U+009B as it obeys ESC
 * [), marks that turn the direction of writing round, separators that end a line, bytes that are not UTF-8. */
#ifndef REDCO_BASE_TEXT_H
#define REDCO_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Bytes of the character at the start of @p text, 0 if it is not UTF-8 (Unicode 15, table 3-7). A 0 byte is one
 *  character; in text that it ends, a character that is cut short is none. */
size_t redco_text_length(const char *text);

/** The number that Unicode has for it, U+FFFD if it is not UTF-8. */
uint32_t redco_text_code(const char *text);

/** Says whether the character at the start of @p text may be shown as it is: no control character (U+0000 to U+001F,
 * U+007F to U+009F), direction mark (U+061C, U+200E, U+200F, U+202A to U+202E, U+2066 to U+2069) or line separator
 * (U+2028, U+2029), and UTF-8. */
bool redco_text_is_safe(const char *text);

/** Says whether all characters may be shown. */
bool redco_text_is_plain(const char *text);

/** Text to show for the character at @p *at, which moves behind it: the character itself, or "?".
 *  @param size_out  its bytes, at most those that were taken from @p at
 *  @return not ended by a 0 byte */
const char *redco_text_next(const char **at, size_t *size_out);

/** Puts "?" in the place of each character that may not be shown; the text gets no longer. */
void redco_text_clean(char *text);

/** Writes the text with "?" in the place of each character that may not be shown. */
void redco_text_write(FILE *stream, const char *text);

#ifdef __cplusplus
}
#endif
#endif
