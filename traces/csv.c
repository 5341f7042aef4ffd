#include "traces/csv.h"

#include "topology/base/text.h"

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

/* Cells are shown as they are: in tables, messages and plots. */
static bool is_refused(const char *at)
{
    if (*at == '\r') { return at[1] != '\n'; }
    return *at != '\t' && *at != '\n' && !redco_text_is_safe(at);
}

redco_status redcoi_csv_start(char *text, size_t size, const char *name, redcoi_csv *csv_out, redco_error *err)
{
    const bool mark = size >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0;
    char *const start = mark ? text + 3 : text;
    const char *const end = text + size;
    const char *line_start = start;
    uint32_t line = 1;
    for (const char *at = start; at < end;) {
        const size_t length = redco_text_length(at);
        if (length == 0) { return fail_at(name, line, line_start, at, err, "not UTF-8 text"); }
        if (is_refused(at)) {
            return fail_at(name, line, line_start, at, err,
                           *at == '\0'   ? "a 0 byte: this is not a text file"
                           : length == 1 ? "a control character; remove it"
                                         : "a control character, direction mark or line separator; remove it");
        }
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
