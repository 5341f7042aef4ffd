#include "traces/csv.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static redco_status fail_at(const char *name, uint32_t line, const char *line_start, const char *at, redco_error *err,
                            const char *what)
{
    char place[512];
    (void)snprintf(place, sizeof place, "%s:%u:%zu", name, line, (size_t)(at - line_start) + 1);
    return redco_fail(err, REDCO_EVALUE, place, "%s", what);
}

/* Bytes of the UTF-8 character at @p at (Unicode 15, table 3-7), 0 if it is none. The 0 byte behind the text ends a
 * character that is cut short. */
static size_t utf8_length(const unsigned char *at)
{
    if (at[0] < 0x80) { return 1; }
    if (at[0] < 0xc2 || at[0] > 0xf4) { return 0; }
    const size_t length = at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    for (size_t i = 1; i < length; i++) {
        if ((at[i] & 0xc0) != 0x80) { return 0; }
    }
    const bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    const bool surrogate = at[0] == 0xed && at[1] > 0x9f;
    const bool too_large = at[0] == 0xf4 && at[1] > 0x8f;
    return overlong || surrogate || too_large ? 0 : length;
}

static bool is_control(const char *at)
{
    const unsigned char c = (unsigned char)*at;
    if (c == '\r') { return at[1] != '\n'; }
    return (c < 0x20 && c != '\t' && c != '\n') || c == 0x7f;
}

redco_status redcoi_csv_start(char *text, size_t size, const char *name, redcoi_csv *csv_out, redco_error *err)
{
    const bool mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    char *const start = mark ? text + 3 : text;
    const char *const end = text + size;
    const char *line_start = start;
    uint32_t line = 1;
    for (const char *at = start; at < end;) {
        if (is_control(at)) {
            return fail_at(name, line, line_start, at, err,
                           *at == '\0' ? "a 0 byte: this is not a text file" : "a control character; remove it");
        }
        const size_t length = utf8_length((const unsigned char *)at);
        if (length == 0) { return fail_at(name, line, line_start, at, err, "not UTF-8 text"); }
        if (*at == '\n') {
            line_start = at + 1;
            line++;
        }
        at += length;
    }
    *csv_out = (redcoi_csv){.name = name, .at = start, .end = text + size, .line_start = start, .line = 1};
    return REDCO_OK;
}

static void next_line(redcoi_csv *csv)
{
    csv->at += *csv->at == '\r' ? 2 : 1;
    csv->line_start = csv->at;
    csv->line++;
}

/* From behind the opening quote to behind the closing one; the cell's bytes move to @p out. */
static redco_status quoted(redcoi_csv *csv, char **out, redco_error *err)
{
    const char *const open = csv->at - 1;
    const char *const open_line_start = csv->line_start;
    const uint32_t open_line = csv->line;
    for (; csv->at < csv->end; csv->at++) {
        if (*csv->at == '"') {
            if (csv->at[1] != '"') {
                csv->at++;
                return REDCO_OK;
            }
            csv->at++;
        } else if (*csv->at == '\n') {
            csv->line++;
            csv->line_start = csv->at + 1;
        }
        *(*out)++ = *csv->at;
    }
    return fail_at(csv->name, open_line, open_line_start, open, err, "this quote is never closed");
}

static bool ends_cell(const redcoi_csv *csv)
{
    return csv->at == csv->end || *csv->at == ',' || *csv->at == '\n' || *csv->at == '\r';
}

/* One cell, ended with a 0 byte; what ends it in the file is still to be read and told in @p closed_by_out. */
static redco_status cell(redcoi_csv *csv, char **cell_out, char *closed_by_out, redco_error *err)
{
    char *out = csv->at;
    *cell_out = out;
    if (*csv->at == '"') {
        csv->at++;
        const redco_status st = quoted(csv, &out, err);
        if (st != REDCO_OK) { return st; }
        if (!ends_cell(csv)) {
            return fail_at(csv->name, csv->line, csv->line_start, csv->at, err,
                           "text behind a closing quote; a quote inside a quoted cell is written twice");
        }
    } else {
        while (!ends_cell(csv)) {
            if (*csv->at == '"') {
                return fail_at(csv->name, csv->line, csv->line_start, csv->at, err,
                               "a quote inside a bare cell; put the whole cell in quotes and write it twice");
            }
            csv->at++;
        }
        out = csv->at;
    }
    *closed_by_out = *csv->at;
    if (csv->at < csv->end) {
        if (*csv->at == ',') {
            csv->at++;
        } else {
            next_line(csv);
        }
    }
    *out = '\0'; /* at or before the byte that ended the cell, which has been read */
    return REDCO_OK;
}

redco_status redcoi_csv_next(redcoi_csv *csv, char **cells, size_t max, size_t *count_out, uint32_t *line_out,
                             redco_error *err)
{
    size_t count = 0;
    while (csv->at < csv->end && (*csv->at == '\n' || *csv->at == '\r')) { next_line(csv); }
    const uint32_t line = csv->line;
    if (csv->at < csv->end) {
        char closed_by = ',';
        while (closed_by == ',') {
            if (count == max) {
                char place[512];
                (void)snprintf(place, sizeof place, "%s:%u", csv->name, line);
                return redco_fail(err, REDCO_EVALUE, place, "has more than %zu cells", max);
            }
            const redco_status st = cell(csv, &cells[count], &closed_by, err);
            if (st != REDCO_OK) { return st; }
            count++;
        }
    }
    *count_out = count;
    *line_out = line;
    return REDCO_OK;
}
