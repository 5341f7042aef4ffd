/* Python of which assignments of literals are read: "cfg.model.tp = 8", "parallel = dict(zero1=dict(size=8))", a call's
   named arguments likewise. Nothing is run; statements that are neither these nor declarations are named. */
#include "planner/read/forms/read_settings.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { MOST_KEY = 300, MOST_DEPTH = 16 };

struct reader {
    redcoi_file_settings *settings;
    uint32_t index, line;
    const char *at, *end;
    char key[MOST_KEY];
    redco_error *err;
};

static bool is_name(char c)
{
    return isalnum((unsigned char)c) != 0 || c == '_';
}

/* Blanks and comments, and inside of brackets ends of lines. */
static void space(struct reader *r, bool lines)
{
    for (; r->at < r->end; r->at++) {
        if (*r->at == '#') {
            while (r->at < r->end && *r->at != '\n') { r->at++; }
        }
        if (r->at == r->end) { return; }
        if (*r->at == '\\' && r->at + 1 < r->end && r->at[1] == '\n') {
            r->at++;
            r->line++;
        } else if (*r->at == '\n') {
            if (!lines) { return; }
            r->line++;
        } else if (isspace((unsigned char)*r->at) == 0) {
            return;
        }
    }
}

static void skip_line(struct reader *r)
{
    while (r->at < r->end && *r->at != '\n') { r->at++; }
}

/* Behind a string, with its text. @return false: it is not closed */
static bool string(struct reader *r, redcoi_span *out)
{
    const char quote = *r->at;
    const bool many = r->end - r->at >= 3 && r->at[1] == quote && r->at[2] == quote;
    r->at += many ? 3 : 1;
    const char *const from = r->at;
    for (; r->at < r->end; r->at++) {
        if (*r->at == '\n') {
            if (!many) { return false; }
            r->line++;
        } else if (*r->at == '\\' && r->at + 1 < r->end) {
            r->at++;
        } else if (*r->at == quote && (!many || (r->end - r->at >= 3 && r->at[1] == quote && r->at[2] == quote))) {
            *out = (redcoi_span){from, (size_t)(r->at - from)};
            r->at += many ? 3 : 1;
            return true;
        }
    }
    return false;
}

static redco_status add(struct reader *r, redcoi_span value, uint32_t line, bool given)
{
    const redcoi_setting fields = {.origin = REDCOI_OF_KEY,
                                   .file = r->index,
                                   .line = line,
                                   .at = value.text - r->settings->files[r->index].text,
                                   .length = (uint32_t)value.size,
                                   .given = given};
    return redcoi_settings_add(r->settings, &fields, (redcoi_span){r->key, strlen(r->key)}, value, NULL, r->err);
}

static size_t enter(struct reader *r, redcoi_span name)
{
    const size_t length = strlen(r->key);
    if (length + name.size + 2 < MOST_KEY) {
        r->key[length] = '.';
        memcpy(r->key + length + 1, name.text, name.size);
        r->key[length + 1 + name.size] = '\0';
    }
    return length;
}

/* Behind the bracket that closes the one here. */
static void skip_bracket(struct reader *r)
{
    size_t depth = 0;
    redcoi_span text;
    while (r->at < r->end) {
        const char c = *r->at;
        if (c == '"' || c == '\'') {
            if (!string(r, &text)) { return; }
            continue;
        }
        if (c == '#') { skip_line(r); }
        if (r->at == r->end) { return; }
        if (strchr("([{", c) != NULL) { depth++; }
        if (strchr(")]}", c) != NULL && --depth == 0) {
            r->at++;
            return;
        }
        r->line += *r->at == '\n' ? 1 : 0;
        r->at++;
    }
}

static redco_status value(struct reader *r, int depth);

/* "name=value, ..." up to the closing bracket; values without a name are passed over. */
static redco_status named(struct reader *r, int depth)
{
    r->at++;
    for (space(r, true); r->at < r->end && *r->at != ')'; space(r, true)) {
        const char *const from = r->at;
        while (r->at < r->end && is_name(*r->at)) { r->at++; }
        const redcoi_span name = {from, (size_t)(r->at - from)};
        space(r, true);
        if (name.size > 0 && r->at < r->end && *r->at == '=' && r->at + 1 < r->end && r->at[1] != '=') {
            r->at++;
            const size_t back = enter(r, name);
            const redco_status st = value(r, depth + 1);
            r->key[back] = '\0';
            if (st != REDCO_OK) { return st; }
        } else {
            while (r->at < r->end && *r->at != ',' && *r->at != ')') {
                if (strchr("([{", *r->at) != NULL) {
                    skip_bracket(r);
                } else {
                    r->line += *r->at == '\n' ? 1 : 0;
                    r->at++;
                }
            }
        }
        space(r, true);
        if (r->at < r->end && *r->at != ')') { r->at++; } /* a comma, or a sign of an expression */
    }
    if (r->at < r->end) { r->at++; }
    return REDCO_OK;
}

/* "{'name': value, ...}" */
static redco_status mapping(struct reader *r, int depth)
{
    r->at++;
    for (space(r, true); r->at < r->end && *r->at != '}'; space(r, true)) {
        redcoi_span name = {r->at, 0};
        const char *const before = r->at;
        if (*r->at == '"' || *r->at == '\'') {
            if (!string(r, &name)) { return REDCO_OK; }
        }
        space(r, true);
        if (name.size > 0 && r->at < r->end && *r->at == ':') {
            r->at++;
            const size_t back = enter(r, name);
            const redco_status st = value(r, depth + 1);
            r->key[back] = '\0';
            if (st != REDCO_OK) { return st; }
        }
        space(r, true);
        if (r->at < r->end && *r->at == ',') { r->at++; }
        if (r->at == before) { r->at++; }
    }
    if (r->at < r->end) { r->at++; }
    return REDCO_OK;
}

static redco_status value(struct reader *r, int depth)
{
    redcoi_span text;
    space(r, true);
    const uint32_t line = r->line;
    const char *const from = r->at;
    if (r->at == r->end || depth > MOST_DEPTH) { return REDCO_OK; }
    if (*r->at == '"' || *r->at == '\'') { return string(r, &text) ? add(r, text, line, true) : REDCO_OK; }
    if (*r->at == '{') { return mapping(r, depth); }
    if (*r->at == '[' || *r->at == '(') {
        skip_bracket(r);
        const size_t size = (size_t)(r->at - from);
        return add(r, (redcoi_span){from + 1, size >= 2 ? size - 2 : 0}, line, true);
    }
    while (r->at < r->end && (is_name(*r->at) || *r->at == '.' || *r->at == '-' || *r->at == '+')) { r->at++; }
    text = (redcoi_span){from, (size_t)(r->at - from)};
    if (r->at < r->end && *r->at == '(' && text.size > 0) {
        const bool bare = r->at + 1 < r->end && r->at[1] == ')'; /* an object by its defaults: its name is the value */
        const redco_status st = bare ? add(r, text, line, true) : REDCO_OK;
        return st == REDCO_OK ? named(r, depth) : st;
    }
    if (text.size == 0) { return REDCO_OK; }
    return add(r, text, line, !(text.size == 4 && memcmp(text.text, "None", 4) == 0));
}

/* Statements that change nothing: declarations, and what stands for nothing. */
static bool declares(const char *at, const char *end)
{
    static const char *const words[] = {"import ", "from ", "def ",   "class ", "return",
                                        "pass",    "@",     "\"\"\"", "'''",    "if __name__"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const size_t length = strlen(words[i]);
        if ((size_t)(end - at) >= length && memcmp(at, words[i], length) == 0) { return true; }
    }
    return false;
}

static redco_status statement(struct reader *r)
{
    const char *const from = r->at;
    redcoi_span text;
    const uint32_t line = r->line;
    if (r->end - r->at >= 3 && (memcmp(r->at, "\"\"\"", 3) == 0 || memcmp(r->at, "'''", 3) == 0)) {
        if (!string(r, &text)) { r->at = r->end; }
        return REDCO_OK;
    }
    if (declares(r->at, r->end)) {
        while (r->at < r->end && *r->at != '\n') {
            if (*r->at == '(') {
                skip_bracket(r);
            } else {
                r->at++;
            }
        }
        return REDCO_OK;
    }
    while (r->at < r->end && (is_name(*r->at) || *r->at == '.')) { r->at++; }
    const size_t size = (size_t)(r->at - from);
    space(r, false);
    const bool sets = size > 0 && size < MOST_KEY && r->at + 1 < r->end && *r->at == '=' && r->at[1] != '=';
    if (sets) {
        (void)snprintf(r->key, sizeof r->key, "%.*s", (int)size, from);
        r->at++;
        const redco_status st = value(r, 0);
        if (st != REDCO_OK) { return st; }
        space(r, false);
        if (r->at == r->end || *r->at == '\n') { return REDCO_OK; }
    }
    redcoi_settings_remark(r->settings, r->index, line, "a statement that is not read: %.*s",
                           (int)(strcspn(from, "\n") < 60 ? strcspn(from, "\n") : 60), from);
    while (r->at < r->end && *r->at != '\n') {
        if (strchr("([{", *r->at) != NULL) {
            skip_bracket(r);
        } else {
            r->at++;
        }
    }
    return REDCO_OK;
}

redco_status redcoi_python_settings(redcoi_file_settings *settings, uint32_t index, redco_error *err)
{
    const redcoi_file *const file = &settings->files[index];
    struct reader r = {
        .settings = settings, .index = index, .line = 1, .at = file->text, .end = file->text + file->size, .err = err};
    redco_status st = REDCO_OK;
    for (space(&r, true); r.at < r.end && st == REDCO_OK; space(&r, true)) {
        const char *const before = r.at;
        st = statement(&r);
        if (r.at == before) { r.at++; }
    }
    return st;
}
