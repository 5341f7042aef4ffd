/** @file trace_source.h  A trace's JSON text, value by value, so that files of any size can be read; internal. */
#ifndef REDCOI_TRACE_SOURCE_H
#define REDCOI_TRACE_SOURCE_H

#include "topology/base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/** Filled in by redcoi_source_open(). */
typedef struct redcoi_source {
    const char *name; /**< for errors */
    FILE *file;       /**< NULL: the text is all there */
    char *window;     /**< owned; NULL: the text is the caller's */
    const char *text;
    size_t at, size, capacity;
    uint64_t line, column; /**< place of text[at], from 0 */
    bool ended;            /**< nothing comes behind text */
} redcoi_source;

/** @param path  a file, or "-" for standard input; borrowed */
redco_status redcoi_source_open(redcoi_source *source, const char *path, redco_error *err);
void redcoi_source_close(redcoi_source *source);

/** The next character that is no white space, not taken. @param next_out  '\0' at the end */
redco_status redcoi_source_peek(redcoi_source *source, char *next_out, redco_error *err);
/** Takes what was peeked. */
void redcoi_source_step(redcoi_source *source);
/** Takes a value. @return REDCO_EVALUE when it is not JSON, is cut off or takes more than 16 MiB */
redco_status redcoi_source_value(redcoi_source *source, json_t **value_out, redco_error *err);
/** Passes over a value of any size, looking at brackets and quotes only. */
redco_status redcoi_source_skip(redcoi_source *source, redco_error *err);
/** Fails at the place reached. */
__attribute__((format(printf, 3, 4))) redco_status redcoi_source_fail(const redcoi_source *source, redco_error *err,
                                                                      const char *format, ...);

#endif
