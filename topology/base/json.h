/** @file json.h  JSON input behind typed getters that name file and line:column (syntax) or JSON pointer (content)
 *  in every error; jansson stays inside json.c for readers. Writers build json_t values and call redco_json_text(). */
#ifndef REDCO_BASE_JSON_H
#define REDCO_BASE_JSON_H

#include "topology/base/status.h"
#include "topology/base/units.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A parsed document; owns all values read from it. */
typedef struct redco_json redco_json;

/** One value inside a document, with its JSON pointer. Copy freely; valid until redco_json_close(). */
typedef struct redco_json_value {
    const char *name;   /**< path of the document */
    const json_t *json; /**< never NULL */
    char pointer[200];  /**< "" for the root; cut with "..." when longer */
} redco_json_value;

/** Reads at most 256 MiB. Duplicate keys, trailing text, NaN and more than 2048 levels are syntax errors. */
redco_status redco_json_open(const char *path, redco_json **document_out, redco_error *err);
/** @param name  stands for the file in errors; copied */
redco_status redco_json_parse(const char *text, size_t size, const char *name, redco_json **document_out,
                              redco_error *err);
void redco_json_close(redco_json *document);

redco_json_value redco_json_root(const redco_json *document);
/** A cursor over a json_t that the caller owns, e.g. one embedded in another document. */
redco_json_value redco_json_wrap(const json_t *json, const char *name);

/** "file:/a/b" of a value, or of one of its members when @p key is not NULL. @return @p buffer */
const char *redco_json_place(const redco_json_value *value, const char *key, char *buffer, size_t size);
/** Fails with REDCO_EVALUE at that place. */
__attribute__((format(printf, 4, 5))) redco_status redco_json_fail(const redco_json_value *value, const char *key,
                                                                   redco_error *err, const char *format, ...);
#ifdef __clang_analyzer__ /* as for redco_fail() */
#define redco_json_fail(value, key, ...) ((void)redco_json_fail(value, key, __VA_ARGS__), REDCO_EVALUE)
#endif

/** Each getter returns REDCO_EVALUE and names place, what stood there and what would be right. */
bool redco_json_has(const redco_json_value *object, const char *key); /**< present and not null */
redco_status redco_json_object(const redco_json_value *object, const char *key, redco_json_value *out,
                               redco_error *err);
redco_status redco_json_array(const redco_json_value *object, const char *key, redco_json_value *out, size_t *count_out,
                              redco_error *err);
redco_status redco_json_element(const redco_json_value *array, size_t index, redco_json_value *out, redco_error *err);
redco_status redco_json_string(const redco_json_value *object, const char *key, const char **out, redco_error *err);
/** A copy to be shown: characters that may not be are "?" (text.h). @param size  of @p out; longer texts and empty ones
 *  are errors */
redco_status redco_json_label(const redco_json_value *object, const char *key, char *out, size_t size,
                              redco_error *err);
redco_status redco_json_u64(const redco_json_value *object, const char *key, uint64_t min, uint64_t max, uint64_t *out,
                            redco_error *err);
redco_status redco_json_u32(const redco_json_value *object, const char *key, uint32_t min, uint32_t max, uint32_t *out,
                            redco_error *err);
redco_status redco_json_number(const redco_json_value *object, const char *key, double min, double max, double *out,
                               redco_error *err);
redco_status redco_json_bool(const redco_json_value *object, const char *key, bool *out, redco_error *err);
/** A string with a unit; see units.h. */
redco_status redco_json_quantity(const redco_json_value *object, const char *key, redco_unit unit, double *out,
                                 redco_error *err);
/** Refuses members not in @p keys (a NULL-terminated list), naming the nearest known one: catches typing errors. */
redco_status redco_json_only(const redco_json_value *object, const char *const *keys, redco_error *err);
/** "format" must be @p format and "version" from 1 to @p newest; a newer version says that a newer redco is needed. */
redco_status redco_json_format(const redco_json_value *root, const char *format, uint32_t newest, uint32_t *version_out,
                               redco_error *err);

/** Deterministic text of a value: members in insertion order, @p digits significant digits, a final newline.
 *  @return to be freed with free(), or NULL when out of memory */
char *redco_json_text(const json_t *json, int digits, size_t *size_out);

#ifdef __cplusplus
}
#endif
#endif
