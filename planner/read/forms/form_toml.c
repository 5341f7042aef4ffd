/* The part of TOML that trainers' files use: tables and lists of tables, plain, quoted and dotted keys; strings of all
   four kinds, numbers, booleans, lists over several lines, inline tables; comments. Dates are texts. */
#include "planner/read/forms/read_settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_KEY = 300, MOST_DEPTH = 16, MOST_TABLES = 64 };

struct reader {
    redcoi_file_settings *settings;
    uint32_t index, line;
    const char *at, *end;
    char table[MOST_KEY], key[MOST_KEY];
    struct {
        char name[MOST_KEY];
        uint32_t count;
    } lists[MOST_TABLES]; /* [[name]] */
    uint32_t list_count;
    redco_error *err;
};

static redco_status bad(struct reader *reader, const char *what)
{
    char place[300];
    return redco_fail(reader->err, REDCO_EVALUE,
                      redcoi_setting_place(reader->settings, reader->index, reader->line, place, sizeof place),
                      "not valid TOML: %s", what);
}

static void blanks(struct reader *reader)
{
    while (reader->at < reader->end && (*reader->at == ' ' || *reader->at == '\t' || *reader->at == '\r')) {
        reader->at++;
    }
}

static void comment(struct reader *reader)
{
    if (reader->at < reader->end && *reader->at == '#') {
        while (reader->at < reader->end && *reader->at != '\n') { reader->at++; }
    }
}

/* Blanks, ends of lines and comments, as they may stand inside of lists. */
static void space(struct reader *reader)
{
    for (;;) {
        blanks(reader);
        comment(reader);
        if (reader->at == reader->end || *reader->at != '\n') { return; }
        reader->line++;
        reader->at++;
    }
}

/* Checks that the line has nothing more. */
static redco_status line_end(struct reader *reader)
{
    blanks(reader);
    comment(reader);
    if (reader->at == reader->end || *reader->at == '\n') { return REDCO_OK; }
    return bad(reader, "something stands behind the value");
}

/* "a", "a.b" or "a.'b c'", appended to @p out. */
static redco_status dotted(struct reader *reader, char *out)
{
    size_t used = strlen(out);
    for (;;) {
        redcoi_span name;
        blanks(reader);
        const char quote = reader->at < reader->end ? *reader->at : '\0';
        if (quote == '"' || quote == '\'') {
            const char *const from = ++reader->at;
            while (reader->at < reader->end && *reader->at != quote && *reader->at != '\n') { reader->at++; }
            if (reader->at == reader->end || *reader->at != quote) {
                return bad(reader, "a key's quotes are not closed");
            }
            name = (redcoi_span){from, (size_t)(reader->at++ - from)};
        } else {
            const char *const from = reader->at;
            while (reader->at < reader->end &&
                   (isalnum((unsigned char)*reader->at) != 0 || *reader->at == '_' || *reader->at == '-')) {
                reader->at++;
            }
            name = (redcoi_span){from, (size_t)(reader->at - from)};
        }
        if (name.size == 0) { return bad(reader, "a key is needed: key = value"); }
        if (used + name.size + 2 > MOST_KEY) { return bad(reader, "a key is longer than 298 bytes"); }
        if (used > 0) { out[used++] = '.'; }
        memcpy(out + used, name.text, name.size);
        used += name.size;
        out[used] = '\0';
        blanks(reader);
        if (reader->at == reader->end || *reader->at != '.') { return REDCO_OK; }
        reader->at++;
    }
}

/* The bytes between the quotes of a string. */
static redco_status string(struct reader *reader, redcoi_span *out)
{
    const char quote = *reader->at;
    const bool many = reader->end - reader->at >= 3 && reader->at[1] == quote && reader->at[2] == quote;
    reader->at += many ? 3 : 1;
    const char *const from = reader->at;
    for (; reader->at < reader->end; reader->at++) {
        if (*reader->at == '\n') {
            if (!many) { break; }
            reader->line++;
        }
        if (*reader->at == '\\' && quote == '"' && reader->at + 1 < reader->end) {
            reader->at++;
            continue;
        }
        if (*reader->at != quote) { continue; }
        if (!many || (reader->end - reader->at >= 3 && reader->at[1] == quote && reader->at[2] == quote)) {
            *out = (redcoi_span){from, (size_t)(reader->at - from)};
            reader->at += many ? 3 : 1;
            return REDCO_OK;
        }
    }
    return bad(reader, "a text's quotes are not closed");
}

static redco_status add(struct reader *reader, redcoi_span value, uint32_t line)
{
    const redcoi_setting fields = {.origin = REDCOI_OF_KEY,
                                   .file = reader->index,
                                   .line = line,
                                   .at = value.text - reader->settings->files[reader->index].text,
                                   .length = (uint32_t)value.size,
                                   .given = true};
    return redcoi_settings_add(reader->settings, &fields, (redcoi_span){reader->key, strlen(reader->key)}, value, NULL,
                               reader->err);
}

static redco_status scalar(struct reader *reader, redcoi_span *out)
{
    if (*reader->at == '"' || *reader->at == '\'') { return string(reader, out); }
    const char *const from = reader->at;
    while (reader->at < reader->end && strchr(",]}#\n\r\t ", *reader->at) == NULL) { reader->at++; }
    *out = (redcoi_span){from, (size_t)(reader->at - from)};
    return out->size > 0 ? REDCO_OK : bad(reader, "a value is missing");
}

static redco_status value(struct reader *reader, int depth);

static redco_status list(struct reader *reader, int depth)
{
    const char *const open = ++reader->at, *last = open;
    const uint32_t line = reader->line;
    bool nested = false;
    uint32_t count = 0;
    redco_status st = REDCO_OK;
    for (;;) {
        space(reader);
        if (reader->at == reader->end) { return bad(reader, "a list is not closed"); }
        if (*reader->at == ']') { break; }
        if (*reader->at == '[' || *reader->at == '{') {
            const size_t back = strlen(reader->key);
            if (back + 12 < MOST_KEY) { (void)snprintf(reader->key + back, 12, ".%u", count); }
            st = value(reader, depth + 1);
            reader->key[back] = '\0';
            nested = true;
        } else {
            redcoi_span one;
            st = scalar(reader, &one);
        }
        if (st != REDCO_OK) { return st; }
        count++;
        last = reader->at;
        space(reader);
        if (reader->at < reader->end && *reader->at == ',') {
            reader->at++;
        } else if (reader->at < reader->end && *reader->at != ']') {
            return bad(reader, "a list needs commas between its values");
        }
    }
    reader->at++;
    return nested ? REDCO_OK : add(reader, (redcoi_span){open, (size_t)(last - open)}, line);
}

static redco_status pair(struct reader *reader, int depth)
{
    redco_status st = dotted(reader, reader->key);
    if (st != REDCO_OK) { return st; }
    blanks(reader);
    if (reader->at == reader->end || *reader->at != '=') { return bad(reader, "a key is followed by no \"=\""); }
    reader->at++;
    return value(reader, depth);
}

static redco_status inline_table(struct reader *reader, int depth)
{
    reader->at++;
    for (;;) {
        blanks(reader);
        if (reader->at == reader->end) { return bad(reader, "a table is not closed"); }
        if (*reader->at == '}') { break; }
        const size_t back = strlen(reader->key);
        const redco_status st = pair(reader, depth + 1);
        reader->key[back] = '\0';
        if (st != REDCO_OK) { return st; }
        blanks(reader);
        if (reader->at < reader->end && *reader->at == ',') {
            reader->at++;
        } else if (reader->at < reader->end && *reader->at != '}') {
            return bad(reader, "a table needs commas between its keys");
        }
    }
    reader->at++;
    return REDCO_OK;
}

static redco_status value(struct reader *reader, int depth)
{
    redcoi_span one;
    const uint32_t line = reader->line;
    blanks(reader);
    if (depth > MOST_DEPTH) { return bad(reader, "more than 16 levels"); }
    if (reader->at == reader->end || *reader->at == '\n') { return bad(reader, "a value is missing"); }
    if (*reader->at == '[') { return list(reader, depth); }
    if (*reader->at == '{') { return inline_table(reader, depth); }
    const redco_status st = scalar(reader, &one);
    return st == REDCO_OK ? add(reader, one, line) : st;
}

/* [table] or [[list of tables]], whose members are counted. */
static redco_status table(struct reader *reader)
{
    const bool many = reader->end - reader->at > 1 && reader->at[1] == '[';
    reader->at += many ? 2 : 1;
    reader->table[0] = '\0';
    const redco_status st = dotted(reader, reader->table);
    if (st != REDCO_OK) { return st; }
    for (int i = 0; i < (many ? 2 : 1); i++) {
        if (reader->at == reader->end || *reader->at != ']') {
            return bad(reader, "a table's name is not closed by \"]\"");
        }
        reader->at++;
    }
    uint32_t i = 0;
    while (i < reader->list_count && strcmp(reader->lists[i].name, reader->table) != 0) { i++; }
    if (many && i < MOST_TABLES) {
        if (i == reader->list_count) {
            reader->list_count++;
            (void)snprintf(reader->lists[i].name, MOST_KEY, "%s", reader->table);
            reader->lists[i].count = 0;
        }
        const size_t used = strlen(reader->table);
        (void)snprintf(reader->table + used, MOST_KEY - used, ".%u", reader->lists[i].count++);
    }
    return line_end(reader);
}

redco_status redcoi_toml_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err)
{
    const redcoi_file *const file = &settings->files[index];
    struct reader reader = {
        .settings = settings, .index = index, .line = 1, .at = file->text, .end = file->text + file->size, .err = err};
    redco_status st = REDCO_OK;
    for (space(&reader); reader.at < reader.end && st == REDCO_OK; space(&reader)) {
        if (*reader.at == '[') {
            st = table(&reader);
            continue;
        }
        (void)snprintf(reader.key, sizeof reader.key, "%s", reader.table);
        if ((st = pair(&reader, 0)) == REDCO_OK) { st = line_end(&reader); }
    }
    return st;
}
