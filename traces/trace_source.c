#include "traces/trace_source.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

static const size_t first_window_bytes = (size_t)1 << 20, largest_value_bytes = (size_t)16 << 20;

redco_status redcoi_source_open(redcoi_source *source, const char *path, redco_error *err)
{
    const bool standard = strcmp(path, "-") == 0;
    *source = (redcoi_source){.name = standard ? "standard input" : path, .capacity = first_window_bytes};
    source->window = malloc(source->capacity);
    if (source->window == NULL) { return redco_fail(err, REDCO_ENOMEM, source->name, "out of memory"); }
    source->text = source->window;
    source->file = standard ? stdin : fopen(path, "rb");
    if (source->file == NULL) { return redco_fail(err, REDCO_EIO, source->name, "cannot open: %s", strerror(errno)); }
    return REDCO_OK;
}

void redcoi_source_close(redcoi_source *source)
{
    if (source->file != NULL && source->file != stdin) { (void)fclose(source->file); }
    free(source->window);
    *source = (redcoi_source){.name = ""};
}

redco_status redcoi_source_fail(const redcoi_source *source, redco_error *err, const char *format, ...)
{
    char place[512], text[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)snprintf(place, sizeof place, "%.440s:%llu:%llu", source->name, (unsigned long long)source->line + 1,
                   (unsigned long long)source->column + 1);
    return redco_fail(err, REDCO_EVALUE, place, "%s", text);
}

/* More text behind what is not yet taken. */
static redco_status fill(redcoi_source *source, redco_error *err)
{
    const size_t kept = source->size - source->at;
    if (source->file == NULL) {
        source->ended = true;
        return REDCO_OK;
    }
    memmove(source->window, source->window + source->at, kept);
    source->at = 0;
    source->size = kept;
    if (2 * kept > source->capacity) {
        char *const larger = realloc(source->window, 2 * source->capacity);
        if (larger == NULL) { return redco_fail(err, REDCO_ENOMEM, source->name, "out of memory"); }
        source->window = larger;
        source->text = larger;
        source->capacity *= 2;
    }
    const size_t got = fread(source->window + kept, 1, source->capacity - kept, source->file);
    source->size += got;
    if (got == 0 && ferror(source->file)) {
        return redco_fail(err, REDCO_EIO, source->name, "cannot read: %s", strerror(errno));
    }
    source->ended = got == 0;
    return REDCO_OK;
}

static void advance(redcoi_source *source, size_t count)
{
    const char *const from = source->text + source->at;
    for (size_t i = 0; i < count; i++) {
        source->column++;
        if (from[i] != '\n') { continue; }
        source->line++;
        source->column = 0;
    }
    source->at += count;
}

static bool is_space(char c)
{
    return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

redco_status redcoi_source_peek(redcoi_source *source, char *next_out, redco_error *err)
{
    *next_out = '\0';
    for (;;) {
        while (source->at < source->size && is_space(source->text[source->at])) { advance(source, 1); }
        if (source->at < source->size) {
            *next_out = source->text[source->at];
            return REDCO_OK;
        }
        if (source->ended) { return REDCO_OK; }
        const redco_status st = fill(source, err);
        if (st != REDCO_OK) { return st; }
    }
}

void redcoi_source_step(redcoi_source *source)
{
    advance(source, 1);
}

/* Where a value ends: brackets are counted, not matched. */
struct scan {
    size_t depth;
    bool quoted, escaped, scalar;
};

enum end { GOES_ON, ENDS_HERE, ENDS_BEFORE };

static enum end scan_byte(struct scan *scan, char c)
{
    if (scan->quoted) {
        if (scan->escaped) {
            scan->escaped = false;
        } else if (c == '\\') {
            scan->escaped = true;
        } else if (c == '"') {
            scan->quoted = false;
            return scan->depth == 0 ? ENDS_HERE : GOES_ON;
        }
        return GOES_ON;
    }
    const bool closes = c == '}' || c == ']';
    if (scan->scalar) { return closes || c == ',' || c == ':' || is_space(c) ? ENDS_BEFORE : GOES_ON; }
    if (closes) { return scan->depth <= 1 ? ENDS_HERE : (scan->depth--, GOES_ON); }
    if (c == '{' || c == '[') {
        scan->depth++;
    } else if (c == '"') {
        scan->quoted = true;
    } else if (scan->depth == 0) {
        scan->scalar = true;
    }
    return GOES_ON;
}

/* A value that stands whole in the window. @param length_out  0: it does not */
static redco_status find_whole(redcoi_source *source, size_t *length_out, redco_error *err)
{
    struct scan scan = {.depth = 0};
    size_t seen = 0; /* the scan goes on behind what was filled in */
    *length_out = 0;
    for (;;) {
        for (; source->at + seen < source->size; seen++) {
            const enum end end = scan_byte(&scan, source->text[source->at + seen]);
            if (end == GOES_ON) { continue; }
            *length_out = seen + (end == ENDS_HERE ? 1 : 0);
            return REDCO_OK;
        }
        if (seen > largest_value_bytes || source->ended) { break; }
        const redco_status st = fill(source, err);
        if (st != REDCO_OK) { return st; }
    }
    if (seen > largest_value_bytes) { return redcoi_source_fail(source, err, "a value of more than 16 MiB"); }
    if (scan.scalar) {
        *length_out = seen;
        return REDCO_OK;
    }
    return redcoi_source_fail(source, err, "the file is cut off: this has no end");
}

redco_status redcoi_source_value(redcoi_source *source, json_t **value_out, redco_error *err)
{
    char next = '\0';
    size_t length = 0;
    json_error_t why;
    redco_status st = redcoi_source_peek(source, &next, err);
    if (st != REDCO_OK || (st = find_whole(source, &length, err)) != REDCO_OK) { return st; }
    json_t *const value = json_loadb(source->text + source->at, length, JSON_DECODE_ANY, &why);
    if (value == NULL) {
        source->column = why.line <= 1 ? source->column + (uint64_t)(why.column > 0 ? why.column - 1 : 0)
                                       : (uint64_t)(why.column > 0 ? why.column - 1 : 0);
        source->line += why.line > 1 ? (uint64_t)why.line - 1 : 0;
        return redcoi_source_fail(source, err, "not valid JSON: %s", why.text);
    }
    advance(source, length);
    *value_out = value;
    return REDCO_OK;
}

redco_status redcoi_source_skip(redcoi_source *source, redco_error *err)
{
    struct scan scan = {.depth = 0};
    char next = '\0';
    redco_status st = redcoi_source_peek(source, &next, err);
    while (st == REDCO_OK) {
        while (source->at < source->size) {
            const enum end end = scan_byte(&scan, source->text[source->at]);
            if (end == ENDS_BEFORE) { return REDCO_OK; }
            advance(source, 1);
            if (end == ENDS_HERE) { return REDCO_OK; }
        }
        if (source->ended) { return scan.scalar ? REDCO_OK : redcoi_source_fail(source, err, "the file is cut off"); }
        st = fill(source, err);
    }
    return st;
}
